//! The implicit model: input map, equilibrium layer, read-out; its parameters by name, forward and backward.
//! It wires layers of `nn` together; which nodes, which loss and which step are for `train`.
//!
//! ```text
//! B = b(U),   X = phi(A^T X W^T + B),   Y = read-out(dropout(normalise(X)))
//! ```
//!
//! Parameters in order: `layer0.W`, those of the input map, those of the read-out; names as in [`super::file`]. A pass over
//! chosen nodes works on compact rows ([`Pass`]); the state is that of all nodes.

use std::ops::Range;

use ignn_format::Relation;

use crate::config::{self, InitName, ModelConfig};
use crate::dense::{Matrix, MatrixRef};
use crate::nn::{
    Backward, Dropout, Equilibrium, Features, Input, InputMap, Operators, Readout, ReadoutMemory, Slot,
    clear_rows, normalise, random, scatter_rows, select_rows,
};
use crate::optim::{Parameter, values_and_gradients};
use crate::solver::projection::{ProjectionError, project_rows};
use crate::solver::{Posedness, SolveError, SolveInfo, SolveParams};

use super::file::name;

/// A model that does not fit what it is given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// Several relations.
    #[error("the model takes one relation (found {}: {}): choose one when the dataset is made", .found.len(), .found.join(", "))]
    Relations {
        /// Their names.
        found: Vec<String>,
    },
    /// Features that are not there.
    #[error(
        "model.features: the dataset has no features (found none, expected some for \"given\"): use model.features=learned, or make the dataset with --features"
    )]
    NoFeatures,
    /// Learned features mapped twice.
    #[error("model.input: learned features have one map (found \"both\", expected \"gathered\" or \"own\")")]
    LearnedTwice,
}

/// The one relation of a dataset.
pub fn only_relation(relations: &[Relation]) -> Result<&[Relation], ModelError> {
    match relations {
        [_] => Ok(relations),
        _ => Err(ModelError::Relations {
            found: relations.iter().map(|relation| relation.entry.name.clone()).collect(),
        }),
    }
}

/// The model with its memory.
pub struct Ignn<'g> {
    operators: &'g Operators<'g>,
    input: Input<'g>,
    layer: Equilibrium<'g>,
    readout: Readout,
    normalises: bool,
    dropout: Dropout,
    kappa: f64,
    parameters: Vec<Parameter>,
}

/// Memory of a pass over some nodes.
pub struct Pass {
    /// Which; rising.
    nodes: Vec<u32>,
    /// Their rows of the state as they were before dropout, where the backward needs them.
    normalised: Option<Matrix>,
    lengths: Vec<f32>,
    rows: Matrix,
    /// dL/drows; made by the first backward, as a pass for evaluation needs none.
    by_rows: Matrix,
    memory: ReadoutMemory,
    /// One row a node.
    pub logits: Matrix,
    /// dL/dlogits, to be written before [`Ignn::backward`].
    pub by_logits: Matrix,
}

impl Pass {
    /// The nodes.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }
}

impl<'g> Ignn<'g> {
    /// A model with first values drawn by the seed, W within its constraint.
    pub fn new(
        operators: &'g Operators<'g>,
        features: Features,
        config: &ModelConfig,
        outputs: usize,
        seed: u64,
        trains: bool,
    ) -> Result<Self, ModelError> {
        let (map, m) = (map(config.input), config.state);
        if matches!(features, Features::Learned) && map == InputMap::Both {
            return Err(ModelError::LearnedTwice);
        }
        let input = Input::new(operators, features, map, config.bias, m);
        let hidden: &[usize] = match config.readout {
            config::Readout::Linear => &[],
            config::Readout::Mlp => &config.hidden,
        };
        let readout = Readout::new(m, hidden, outputs, config.head_bias);
        let layer = Equilibrium::new(operators, m, config.phi());
        let mut model = Self {
            operators,
            layer: if trains { layer.with_adjoint() } else { layer },
            normalises: config.normalise_state,
            dropout: Dropout::new(config.dropout, seed).unwrap_or_else(|_| Dropout::none()),
            kappa: config.kappa,
            parameters: Vec::new(),
            input,
            readout,
        };
        let w = model.initial_weight(config.init, seed);
        let mut values = vec![w];
        values.extend(model.input.initial(seed, config.init_input));
        values.extend(model.readout.initial(seed));
        let slots = model.slots();
        let made = |(slot, value): (Slot, Matrix)| match trains {
            true => Parameter::new(slot.name, value, !slot.is_bias),
            false => Parameter::fixed(slot.name, value),
        };
        model.parameters = slots.into_iter().zip(values).map(made).collect();
        model.project().expect("first values are finite");
        Ok(model)
    }

    /// Names and shapes of all parameters, in their order.
    pub fn slots(&self) -> Vec<Slot> {
        let m = self.layer.width();
        let mut slots = vec![Slot { name: name::W.into(), shape: (m, m), is_bias: false }];
        slots.extend(self.input.slots());
        slots.extend(self.readout.slots());
        slots
    }

    fn initial_weight(&self, init: InitName, seed: u64) -> Matrix {
        let m = self.layer.width();
        match init {
            InitName::Uniform => random::uniform(seed, name::W, m, m, 1.0 / (m as f64).sqrt()),
            InitName::Identity => {
                // Without a cycle any radius is allowed.
                let radius = self.operators.weight_radius(0, self.kappa).min(1.0) as f32;
                Matrix::from_fn(m, m, |k, l| if k == l { radius } else { 0.0 })
            }
        }
    }

    fn input_range(&self) -> Range<usize> {
        1..1 + self.input.slots().len()
    }

    /// All parameters.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// All parameters, to change.
    pub fn parameters_mut(&mut self) -> &mut [Parameter] {
        &mut self.parameters
    }

    /// The equilibrium layer: state, adjoint, what is kept from solve to solve.
    pub fn layer(&self) -> &Equilibrium<'g> {
        &self.layer
    }

    /// The same, to change.
    pub fn layer_mut(&mut self) -> &mut Equilibrium<'g> {
        &mut self.layer
    }

    /// The graph.
    pub fn operators(&self) -> &'g Operators<'g> {
        self.operators
    }

    /// Number of logits.
    pub fn outputs(&self) -> usize {
        self.readout.outputs()
    }

    /// Brings the rows of W within `kappa / rho`: after every step, never for evaluation. Returns how many moved.
    pub fn project(&mut self) -> Result<usize, ProjectionError> {
        let radius = self.operators.weight_radius(0, self.kappa);
        let w = &mut self.parameters[0].value;
        if radius.is_infinite() {
            return Ok(0);
        }
        let (cols, mut view) = (w.cols(), w.view_mut());
        let stride = view.stride();
        project_rows(view.padded_mut(), cols, stride, radius)
    }

    /// Which condition for one equilibrium holds on this graph.
    pub fn posedness(&self) -> Posedness {
        Posedness::of(self.operators.radii()[0], self.parameters[0].value.view(), self.layer.activation())
    }

    /// B, then X, from the X at hand.
    pub fn solve(&mut self, params: &SolveParams) -> Result<SolveInfo, SolveError> {
        let values: Vec<_> = self.parameters[self.input_range()].iter().map(|p| p.value.view()).collect();
        self.input.forward(&values, &mut self.layer.input);
        self.layer.solve(&[self.parameters[0].value.view()], params)
    }

    /// Memory for passes over these nodes.
    ///
    /// # Panics
    /// Where they do not rise.
    pub fn pass(&self, nodes: Vec<u32>) -> Pass {
        assert!(nodes.is_sorted_by(|a, b| a < b), "rising nodes");
        let (k, m, c) = (nodes.len(), self.layer.width(), self.outputs());
        Pass {
            normalised: self.normalises.then(|| Matrix::zeros(k, m)),
            lengths: vec![0.0; k],
            rows: Matrix::zeros(k, m),
            by_rows: Matrix::zeros(0, m),
            memory: self.readout.memory(k),
            logits: Matrix::zeros(k, c),
            by_logits: Matrix::zeros(0, c),
            nodes,
        }
    }

    /// Logits of the nodes of a pass; with dropout in an epoch of training.
    pub fn read_out(&self, pass: &mut Pass, epoch: Option<u64>) {
        select_rows(self.layer.state.view(), &pass.nodes, &mut pass.rows);
        if let Some(normalised) = &mut pass.normalised {
            normalise::forward(pass.rows.view_mut(), &mut pass.lengths);
            normalised.view_mut().padded_mut().copy_from_slice(pass.rows.view().padded());
        }
        if let Some(epoch) = epoch {
            self.dropout.apply(epoch, &pass.nodes, pass.rows.view_mut());
        }
        self.readout.forward(&self.head(), pass.rows.view(), &mut pass.memory, pass.logits.view_mut());
    }

    fn head(&self) -> Vec<MatrixRef<'_>> {
        self.parameters[self.input_range().end..].iter().map(|p| p.value.view()).collect()
    }

    /// Gradients of all parameters from dL/dlogits of a pass that was read out with dropout in this epoch.
    pub fn backward(
        &mut self,
        pass: &mut Pass,
        epoch: u64,
        backward: Backward,
        params: &SolveParams,
    ) -> Result<SolveInfo, SolveError> {
        let inputs = self.input_range();
        if pass.by_rows.rows() != pass.rows.rows() {
            pass.by_rows = Matrix::zeros(pass.rows.rows(), pass.rows.cols());
        }
        let by_rows = &mut pass.by_rows;
        {
            let (values, mut gradients) = values_and_gradients(&mut self.parameters[inputs.end..]);
            let (rows, by_logits) = (pass.rows.view(), pass.by_logits.view());
            self.readout.backward(
                &values,
                rows,
                &mut pass.memory,
                by_logits,
                &mut gradients,
                by_rows.view_mut(),
            );
        }
        self.dropout.apply(epoch, &pass.nodes, by_rows.view_mut());
        if let Some(normalised) = &pass.normalised {
            normalise::backward(normalised.view(), &pass.lengths, by_rows.view_mut());
        }
        // Rows of other nodes are zero and stay so.
        scatter_rows(by_rows.view(), &pass.nodes, self.layer.right.view_mut());
        let info = self.layer.solve_adjoint(&[self.parameters[0].value.view()], backward, params)?;
        self.parameters[0].gradient = self.layer.weight_gradient(0);
        let mut gradients: Vec<_> =
            self.parameters[inputs].iter_mut().map(|p| p.gradient.view_mut()).collect();
        self.input.backward(self.layer.adjoint.view(), &mut gradients);
        Ok(info)
    }

    /// Takes the nodes of a pass out of dL/dX, before another pass is differentiated.
    pub fn clear(&mut self, pass: &Pass) {
        clear_rows(&pass.nodes, self.layer.right.view_mut());
    }
}

fn map(input: config::InputMap) -> InputMap {
    match input {
        config::InputMap::Gathered => InputMap::Gathered,
        config::InputMap::Own => InputMap::Own,
        config::InputMap::Both => InputMap::Both,
    }
}
