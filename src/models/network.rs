//! A network of any kind, without a graph: its layers, its named parameters with their values, and
//! the constraint on its equilibria. [`super::OnGraph`] computes with it.
//!
//! ```text
//! x_0 = U,   X_l = body_l(b_l(x_{l-1})),   x_l = norm(between(X_l + V_l x_{l-1} + v_l))
//! Y = readout(dropout(normalise(pool(x_L))))
//! ```
//!
//! b_l is the input map of layer l, U are the features. The kind of model ([`super::kinds`])
//! decides what the body of a layer is: an equilibrium, or an explicit map. V_l and v_l are those
//! of an optional skip connection, `between` is the activation after it.
//!
//! Parameters are ordered by layer: those of the body (for an equilibrium `layerN.W`, one per
//! relation), those of the input map, `layerN.V` and `layerN.v`, `layerN.norm.scale` and
//! `layerN.norm.shift`. Those of the readout come last. [`super::file`] lists the names. The
//! running statistics of a normalisation are stored beside them, but no optimiser step changes
//! them: [`Network::statistics`].

use std::ops::Range;

use super::ModelError;
use super::initial::{glorot, initial_weight};
use super::kinds::Kind;
use super::shape::{BodyShape, Facts, LayerShape, NetworkShape};
use crate::config::ModelConfig;
use crate::dense::{Matrix, MatrixRef};
use crate::kernels::Activation;
use crate::nn::{BatchNorm, Dropout, Mapped, Pooling, Readout, RunningStatistics, Slot};
use crate::optim::Parameter;
use crate::parallel::Rows;
use crate::solver::Posedness;
use crate::solver::projection::{ProjectionError, project_rows};

/// Layers, pooling and readout with their values.
///
/// ```
/// use ignn::config::Config;
/// use ignn::models::{Facts, Network};
///
/// let facts = Facts {
///     nodes: 100,
///     columns: Some(8),
///     relations: vec!["edges".into()],
///     radii: vec![1.0],
///     outputs: 3,
///     pools: false,
/// };
/// let config = Config::default();
/// let network = Network::new(&config.model, &facts, 0, false)?;
/// let names: Vec<&str> = network.parameters.iter().map(|p| p.name.as_str()).collect();
/// assert_eq!(names, ["layer0.W", "layer0.Omega", "head.Theta", "head.bias"]);
/// # Ok::<(), ignn::models::ModelError>(())
/// ```
pub struct Network {
    /// Its layers, from the features up.
    pub layers: Vec<LayerShape>,
    /// How the rows of a graph become one row.
    pub pooling: Option<Pooling>,
    /// Whether rows are scaled to length 1 before the readout.
    pub normalises: bool,
    /// Dropout before the readout.
    pub dropout: Dropout,
    /// The readout, from rows to logits.
    pub readout: Readout,
    /// The parameters, which optimiser steps change.
    pub parameters: Vec<Parameter>,
    /// The running statistics of the layers that have a normalisation.
    pub statistics: Vec<RunningStatistics>,
    radii: Vec<f64>,
    /// Which parameters are biases. The name cannot tell: it may end in the name of a relation.
    biases: Vec<usize>,
}

/// The rows of a rank, without ghosts.
pub(crate) fn own_rows(whole: &Matrix, rows: &Rows) -> Matrix {
    let mut own = Matrix::zeros(rows.len(), whole.cols());
    let block = whole.view().block(rows.own());
    own.view_mut().padded_mut().copy_from_slice(block.padded());
    own
}

impl Network {
    /// A network with initial values drawn by the seed and W within its constraint. Without
    /// `trains` there is no memory for gradients.
    pub fn new(
        config: &ModelConfig,
        facts: &Facts,
        seed: u64,
        trains: bool,
    ) -> Result<Self, ModelError> {
        let config = &*Kind::of(config.kind).resolve(config, facts);
        let NetworkShape { layers, pooling, normalises, dropout, readout, slots } =
            NetworkShape::new(config, facts, seed)?;
        let normed = layers.iter().filter(|layer| layer.norm.is_some());
        let statistics = normed.map(|layer| RunningStatistics::new(layer.width)).collect();
        let mut model = Self {
            layers,
            pooling,
            normalises,
            dropout,
            readout,
            parameters: Vec::new(),
            statistics,
            radii: facts.radii.clone(),
            biases: (0..slots.len()).filter(|&at| slots[at].is_bias).collect(),
        };
        let values = model.initial(config, &slots, seed);
        // The gradient of a table below an equilibrium is lent memory when it is computed.
        let lent = model.table().filter(|_| model.layers[0].is_solved());
        let made = |(at, (slot, value)): (usize, (Slot, Matrix))| match trains {
            true if lent == Some(at) => Parameter::without_gradient(slot.name, value),
            true => Parameter::new(slot.name, value, !slot.is_bias),
            false => Parameter::fixed(slot.name, value),
        };
        model.parameters = slots.into_iter().zip(values).enumerate().map(made).collect();
        model.project().expect("first values are finite");
        Ok(model)
    }

    fn initial(&self, config: &ModelConfig, slots: &[Slot], seed: u64) -> Vec<Matrix> {
        let mut values = Vec::new();
        for (at, layer) in self.layers.iter().enumerate() {
            match &layer.body {
                BodyShape::Equilibrium { .. } => {
                    for (relation, slot) in slots[layer.at.weights.clone()].iter().enumerate() {
                        // On a graph without cycles any radius is allowed.
                        let radius = self.radius(layer, relation).min(1.0);
                        let bank = self.readout.outputs();
                        values.push(initial_weight(config.init, slot, radius, bank, seed));
                    }
                    values.extend(layer.input.initial(seed, config.init_input));
                }
                BodyShape::Explicit(map) => {
                    values.extend(map.initial(at, seed));
                    let scale = config.init_input * glorot(&layer.input);
                    values.extend(layer.input.initial(seed, scale));
                }
            }
            let skip = slots[layer.at.skip.clone()].iter();
            let bound = |slot: &Slot| 1.0 / (slot.shape.1.max(1) as f64).sqrt();
            values.extend(skip.map(|slot| slot.initial(seed, bound(slot))));
            values.extend(layer.norm.iter().flat_map(BatchNorm::initial));
        }
        values.extend(self.readout.initial(seed));
        values
    }

    /// Names and shapes of all parameters, in their order.
    pub fn slots(&self) -> Vec<Slot> {
        let slot = |(at, parameter): (usize, &Parameter)| {
            let shape = (parameter.value.rows(), parameter.value.cols());
            Slot { name: parameter.name.clone(), shape, is_bias: self.biases.contains(&at) }
        };
        self.parameters.iter().enumerate().map(slot).collect()
    }

    /// The statistics by name, as files hold them.
    pub fn statistics_by_name(&self) -> Vec<(String, &Matrix)> {
        let names = |layer| RunningStatistics::names(&format!("layer{layer}"));
        let each = self.statistics.iter().enumerate();
        each.flat_map(|(layer, kept)| names(layer).into_iter().zip([&kept.mean, &kept.variance]))
            .collect()
    }

    /// The same, mutable.
    pub fn statistics_by_name_mut(&mut self) -> Vec<(String, &mut Matrix)> {
        let names = |layer| RunningStatistics::names(&format!("layer{layer}"));
        let each = self.statistics.iter_mut().enumerate();
        each.flat_map(|(layer, kept)| {
            names(layer).into_iter().zip([&mut kept.mean, &mut kept.variance])
        })
        .collect()
    }

    /// Replaces all values: those of the parameters in their order, then the statistics.
    ///
    /// # Panics
    /// If their number differs.
    pub fn take_values(&mut self, values: Vec<Matrix>) {
        let statistics = 2 * self.statistics.len();
        assert_eq!(values.len(), self.parameters.len() + statistics, "one value per parameter");
        let mut values = values.into_iter();
        for parameter in &mut self.parameters {
            parameter.value = values.next().expect("counted");
        }
        for ((_, statistic), value) in self.statistics_by_name_mut().into_iter().zip(values) {
            *statistic = value;
        }
    }

    /// Leaves a rank its own rows of the table of learned features, if there is one.
    pub fn keep_rows(&mut self, rows: &Rows) {
        let Some(table) = self.table() else { return };
        let parameter = &mut self.parameters[table];
        parameter.rows = Some(rows.clone());
        if rows.is_alone() {
            return;
        }
        parameter.value = own_rows(&parameter.value, rows);
        if parameter.gradient.rows() > 0 {
            parameter.gradient = Matrix::zeros(rows.len(), parameter.value.cols());
        }
    }

    /// Position of learned features.
    pub fn table(&self) -> Option<usize> {
        let first = &self.layers[0];
        matches!(first.input.mapped, Mapped::Learned(_)).then_some(first.at.input.start)
    }

    /// Position of the readout's first parameter.
    pub fn head(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.at.norm.end)
    }

    /// The values at these positions.
    pub fn values(&self, at: &Range<usize>) -> Vec<MatrixRef<'_>> {
        self.parameters[at.clone()].iter().map(|parameter| parameter.value.view()).collect()
    }

    /// Number of logits.
    pub fn outputs(&self) -> usize {
        self.readout.outputs()
    }

    /// Whether a forward pass for training differs from one for evaluation below the readout.
    pub fn trains_apart(&self) -> bool {
        let draws = |body: &BodyShape| matches!(body, BodyShape::Explicit(map) if map.draws());
        let apart = |layer: &LayerShape| {
            layer.norm.is_some() || layer.dropout.is_some() || draws(&layer.body)
        };
        self.layers.iter().any(apart)
    }

    /// Whether the features themselves are needed, in addition to the gathered ones: for the skip
    /// connection of the first layer, or for feature dropout.
    pub fn reads_own_features(&self) -> bool {
        let first = &self.layers[0];
        first.between.is_some() || first.dropout.is_some() && first.input.gathered() > 0
    }

    /// The width of the widest state.
    pub fn widest(&self) -> usize {
        self.layers.iter().map(|layer| layer.width).max().unwrap_or(0)
    }

    /// The radius of the L1 balls for the rows of a W: `kappa / rho`, rounded down, or infinite if
    /// rho is 0.
    fn radius(&self, layer: &LayerShape, relation: usize) -> f64 {
        let BodyShape::Equilibrium { kappas, .. } = &layer.body else { return f64::INFINITY };
        let (kappa, rho) = (kappas[relation], self.radii[relation]);
        if rho == 0.0 { f64::INFINITY } else { (kappa / rho).next_down().max(0.0) }
    }

    /// Whether the result of the last layer is that of relu: where it is zero, no gradient passes.
    pub(super) fn ends_in_relu(&self) -> bool {
        self.layers.last().is_some_and(|layer| {
            let BodyShape::Equilibrium { activation, .. } = layer.body else { return false };
            layer.between.unwrap_or(activation) == Activation::Relu && layer.norm.is_none()
        })
    }

    /// For each equilibrium layer, which condition for a unique equilibrium holds, given these
    /// bounds of the relations.
    pub fn posedness(&self, radii: &[f64]) -> Vec<Posedness> {
        let of = |layer: &LayerShape| {
            let BodyShape::Equilibrium { activation, .. } = layer.body else { return None };
            let weights = self.values(&layer.at.weights);
            Some(match (&weights[..], radii) {
                ([w], [rho]) => Posedness::of(*rho, *w, activation),
                _ => {
                    let relations: Vec<_> = radii.iter().copied().zip(weights).collect();
                    Posedness::of_relations(&relations, activation)
                }
            })
        };
        self.layers.iter().filter_map(of).collect()
    }

    /// The bound rho of each relation, by which kappa is divided: that of the training graphs.
    pub fn radii(&self) -> &[f64] {
        &self.radii
    }

    /// Projects the rows of every W onto the L1 ball of radius `kappa / rho`. It is called after
    /// every step, never for evaluation. Returns the number of rows that changed.
    pub fn project(&mut self) -> Result<usize, ProjectionError> {
        let mut moved = 0;
        let solved = |layer: &&LayerShape| matches!(layer.body, BodyShape::Equilibrium { .. });
        for layer in self.layers.iter().filter(solved) {
            for (relation, at) in layer.at.weights.clone().enumerate() {
                let radius = self.radius(layer, relation);
                if radius.is_finite() {
                    let w = &mut self.parameters[at].value;
                    let (cols, mut view) = (w.cols(), w.view_mut());
                    let stride = view.stride();
                    moved += project_rows(view.padded_mut(), cols, stride, radius)?;
                }
            }
        }
        Ok(moved)
    }
}
