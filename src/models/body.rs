//! The body of a layer on a graph: from its input term B to its state X, solved or computed, and
//! back. [`super::OnGraph`] makes B and continues from X.

use super::layer_memory::{LayerMemory, Right};
use super::shape::{BodyShape, LayerShape};
use crate::dense::{Matrix, MatrixRef};
use crate::kernels::{Added, update_ghosts};
use crate::nn::{Backward, Draw, Equilibrium, Explicit, Operators};
use crate::optim::{Parameter, values_and_gradients};
use crate::parallel::Rows;
use crate::solver::{SolveError, SolveInfo, SolveParams};

/// The body of a layer.
#[allow(clippy::large_enum_variant)] // One per layer.
pub(super) enum Body {
    Equilibrium(Box<Equilibrium>),
    Explicit(Explicit),
}

impl Body {
    pub fn new(
        operators: &Operators,
        shape: &LayerShape,
        memory: LayerMemory,
        trains: bool,
    ) -> Self {
        let width = shape.width;
        match &shape.body {
            BodyShape::Equilibrium { activation, .. } => {
                let mut layer = Equilibrium::new(operators, width, *activation);
                if !memory.has_input {
                    layer.input = Matrix::zeros(0, width);
                }
                let layer = match (trains, memory.right) {
                    (false, _) => layer,
                    (true, Right::Own) => layer.with_adjoint(),
                    (true, Right::Rows | Right::Input) => layer.with_adjoint_alone(),
                };
                Self::Equilibrium(Box::new(layer.in_lockstep(operators)))
            }
            BodyShape::Explicit(map) => {
                let layer = Explicit::new(operators, &**map, width);
                Self::Explicit(if trains { layer.with_adjoint() } else { layer })
            }
        }
    }

    /// B, to be written before a forward pass.
    pub fn input(&mut self) -> &mut Matrix {
        match self {
            Self::Equilibrium(layer) => &mut layer.input,
            Self::Explicit(layer) => &mut layer.memory.input,
        }
    }

    /// Adds memory for B and R where the plan has none, so that nothing is shared.
    pub fn share_nothing(&mut self) {
        let Self::Equilibrium(layer) = self else { return };
        let (rows, width) = (layer.rows().len(), layer.width());
        let has_adjoint = layer.adjoint.rows() > 0;
        for matrix in [Some(&mut layer.input), has_adjoint.then_some(&mut layer.right)] {
            if let Some(matrix) = matrix.filter(|matrix| matrix.rows() != rows) {
                *matrix = Matrix::zeros(rows, width);
            }
        }
    }

    /// Gives the memory of B to R, of a layer in whose plan they share it, or takes it back.
    pub fn turn(&mut self, to_right: bool) {
        let Self::Equilibrium(layer) = self else { return };
        let Equilibrium { input, right, .. } = &mut **layer;
        let (from, to) = if to_right { (input, right) } else { (right, input) };
        if to.rows() == 0 {
            std::mem::swap(from, to);
        }
    }

    /// X
    pub fn state(&self) -> &Matrix {
        match self {
            Self::Equilibrium(layer) => &layer.state,
            Self::Explicit(layer) => &layer.memory.state,
        }
    }

    /// X, moved out without a copy.
    pub fn into_state(self) -> Matrix {
        match self {
            Self::Equilibrium(layer) => layer.state,
            Self::Explicit(layer) => layer.memory.state,
        }
    }

    /// R.
    pub fn right(&self) -> &Matrix {
        match self {
            Self::Equilibrium(layer) => &layer.right,
            Self::Explicit(layer) => &layer.memory.right,
        }
    }

    /// A copy of R, if the backward pass changes it.
    pub fn changed_right(&self) -> Option<Matrix> {
        match self {
            Self::Equilibrium(_) => None,
            Self::Explicit(layer) => Some(layer.memory.right.clone()),
        }
    }

    /// G
    pub fn adjoint(&self) -> &Matrix {
        match self {
            Self::Equilibrium(layer) => &layer.adjoint,
            Self::Explicit(layer) => &layer.memory.adjoint,
        }
    }

    /// Brings the ghosts of G up to date, for what gathers from it; those of an equilibrium are after
    /// its backward pass.
    pub fn update_adjoint(&mut self, rows: &Rows) {
        if let Self::Explicit(layer) = self {
            update_ghosts(rows, layer.memory.adjoint.view_mut());
        }
    }

    /// X, R (to be written before a backward pass), and a scratch matrix of the same shape, which
    /// may be swapped with R.
    pub fn state_right_spare(&mut self) -> (&Matrix, &mut Matrix, &mut Matrix) {
        match self {
            Self::Equilibrium(layer) => layer.state_right_spare(),
            Self::Explicit(layer) => {
                let memory = &mut layer.memory;
                (&memory.state, &mut memory.right, &mut memory.spare)
            }
        }
    }

    /// Computes X from B. Returns a record if X was solved for.
    pub fn forward(
        &mut self,
        values: &[MatrixRef<'_>],
        params: &SolveParams,
        draw: Option<Draw<'_>>,
    ) -> Result<Option<SolveInfo>, SolveError> {
        match self {
            Self::Equilibrium(layer) => layer.solve(values, params).map(Some),
            Self::Explicit(layer) => layer.forward(values, draw, params),
        }
    }

    /// Computes G and the gradients of the body's parameters from R, or from the rows of it that are
    /// given. Returns a record if the adjoint was solved for.
    pub fn backward(
        &mut self,
        given: Option<Added<'_>>,
        parameters: &mut [Parameter],
        backward: Backward,
        params: &SolveParams,
    ) -> Result<Option<SolveInfo>, SolveError> {
        match self {
            Self::Equilibrium(layer) => {
                let weights: Vec<_> =
                    parameters.iter().map(|parameter| parameter.value.view()).collect();
                let info = match given {
                    Some(rows) => layer.solve_adjoint_of(rows, &weights, backward, params)?,
                    None => layer.solve_adjoint(&weights, backward, params)?,
                };
                for (relation, parameter) in parameters.iter_mut().enumerate() {
                    parameter.gradient = layer.weight_gradient(relation);
                }
                Ok(Some(info))
            }
            Self::Explicit(layer) => {
                let (values, mut gradients) = values_and_gradients(parameters);
                layer.backward(&values, &mut gradients);
                Ok(None)
            }
        }
    }
}
