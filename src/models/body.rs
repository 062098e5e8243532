//! The body of a layer on a graph: from its input term B to its state X, solved or computed, and
//! back. [`super::OnGraph`] makes B and continues from X.

use super::shape::{BodyShape, LayerShape};
use crate::dense::{Matrix, MatrixRef};
use crate::kernels::update_ghosts;
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
    pub fn new(operators: &Operators, shape: &LayerShape, trains: bool) -> Self {
        let width = shape.width;
        match &shape.body {
            BodyShape::Equilibrium { activation, .. } => {
                let layer = Equilibrium::new(operators, width, *activation);
                let layer = match trains {
                    true => layer.with_adjoint().in_lockstep(operators),
                    false => layer,
                };
                Self::Equilibrium(Box::new(layer))
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

    /// Computes G and the gradients of the body's parameters from R. Returns a record if the
    /// adjoint was solved for.
    pub fn backward(
        &mut self,
        parameters: &mut [Parameter],
        backward: Backward,
        params: &SolveParams,
    ) -> Result<Option<SolveInfo>, SolveError> {
        match self {
            Self::Equilibrium(layer) => {
                let weights: Vec<_> =
                    parameters.iter().map(|parameter| parameter.value.view()).collect();
                let info = layer.solve_adjoint(&weights, backward, params)?;
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
