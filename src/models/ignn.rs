//! The implicit model apart from any graph: what its layers are, its parameters by name, and their
//! constraint. It holds values; on a graph they are solved, read out and differentiated by
//! [`super::OnGraph`].
//!
//! ```text
//! x_0 = U,   X_l = phi(sum_r A_r^T X_l W_lr^T + b_l(x_{l-1})),   x_l = norm(between(X_l + V_l x_{l-1} + v_l))
//! Y = read-out(dropout(normalise(pool(x_L))))
//! ```
//!
//! Parameters in order, layer by layer: `layerN.W` (one a relation), those of the input map,
//! `layerN.V` and `layerN.v` of a skip, `layerN.norm.scale` and `layerN.norm.shift`; then those of
//! the read-out. Names are as in [`super::file`]. The running statistics of a normalisation are
//! values too, but no step of an optimiser moves them: [`Ignn::statistics`].

use std::ops::Range;

use super::baselines;
use super::initial::{glorot, initial_weight};
use crate::config::{self, ModelConfig, ModelKind};
use crate::dense::{Matrix, MatrixRef};
use crate::kernels::Activation;
use crate::nn::{
    BatchNorm, Dropout, ExplicitShape, InputMap, InputShape, Mapped, Pooling, Readout,
    RunningStatistics, Slot, random,
};
use crate::optim::Parameter;
use crate::solver::Posedness;
use crate::solver::projection::{ProjectionError, project_rows};

/// A model that does not fit what it is given.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// Features that are not there.
    #[error(
        "model.features: the dataset has no features (found none, expected some for \"given\"): use model.features=learned, or make the dataset with --features"
    )]
    NoFeatures,
    /// Learned features mapped twice.
    #[error(
        "model.input: learned features have one map (found \"both\", expected \"gathered\" or \"own\")"
    )]
    LearnedTwice,
    /// Learned features with a skip.
    #[error("model.skip: learned features have no skip (found true, expected false)")]
    LearnedSkip,
    /// As many activations as layers, or one.
    #[error(
        "model.activation: one for all layers or one a layer (found {found} for {layers} layers)"
    )]
    Activations {
        /// How many there are.
        found: usize,
        /// Layers.
        layers: usize,
    },
    /// As many widths as a baseline has layers, or one.
    #[error(
        "model.state: one width for all layers{} (found {found}, expected {})",
        if *expected == 1 { "" } else { " or one a layer below the logits" },
        if *expected == 1 { "1".to_string() } else { format!("1 or {expected} for model.depth={depth}") }
    )]
    Widths {
        /// How many there are.
        found: usize,
        /// How many there may be.
        expected: usize,
        /// Layers.
        depth: usize,
    },
    /// Heads that do not share the width.
    #[error(
        "model.heads: heads share the width of a layer in equal parts (found {heads} heads for model.state={width}, expected a divisor)"
    )]
    Heads {
        /// The width.
        width: usize,
        /// The heads.
        heads: usize,
    },
    /// As many kappas as layers, or one.
    #[error("model.kappa: one for all layers or one a layer (found {found} for {layers} layers)")]
    LayerKappas {
        /// How many there are.
        found: usize,
        /// Layers.
        layers: usize,
    },
    /// As many kappas as relations, or one.
    #[error(
        "model.kappa: one for all relations or one a relation (found {found}, expected 1 or {} for {})", .relations.len(), .relations.join(", ")
    )]
    RelationKappas {
        /// How many there are.
        found: usize,
        /// Names of the relations.
        relations: Vec<String>,
    },
    /// A last layer that is no row of logits.
    #[error(
        "model.readout: without a read-out the last layer is as wide as there are classes (found model.state ending in {found}, expected {expected})"
    )]
    LastWidth {
        /// Its width.
        found: usize,
        /// Classes.
        expected: usize,
    },
}

/// What a model must know of the data that it is made for.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Nodes, of which learned features have a row each.
    pub nodes: usize,
    /// Columns of the features; none where they are learned.
    pub columns: Option<usize>,
    /// Names of the relations.
    pub relations: Vec<String>,
    /// What divides kappa, a relation: bounds over the graphs that are trained on.
    pub radii: Vec<f64>,
    /// Classes.
    pub outputs: usize,
    /// Whether graphs, not nodes, have the labels.
    pub pools: bool,
}

/// A layer apart from any graph.
#[derive(Clone, Debug)]
pub struct LayerShape {
    /// Its input map.
    pub input: InputShape,
    /// phi
    pub activation: Activation,
    /// What follows the skip, where there is one.
    pub between: Option<Activation>,
    /// Normalisation of its result.
    pub norm: Option<BatchNorm>,
    /// From its input term to its state.
    pub body: BodyShape,
    /// Before its input map.
    pub dropout: Option<Dropout>,
    /// A relation; none where nothing is solved.
    pub(super) kappas: Vec<f64>,
    /// Where its parameters are.
    pub at: Places,
}

/// The middle of a layer, apart from any graph.
#[derive(Clone, Debug)]
pub enum BodyShape {
    /// Solved.
    Equilibrium,
    /// Computed.
    Explicit(ExplicitShape),
}

/// Positions of a layer's parameters.
#[derive(Clone, Debug)]
pub struct Places {
    /// W of each relation, or what a computed layer has in its place.
    pub weights: Range<usize>,
    /// Of the input map.
    pub input: Range<usize>,
    /// V and v.
    pub skip: Range<usize>,
    /// Scale and shift.
    pub norm: Range<usize>,
}

/// The model.
pub struct Ignn {
    /// Its layers, from the features up.
    pub layers: Vec<LayerShape>,
    /// From nodes to graphs.
    pub pooling: Option<Pooling>,
    /// Scales rows to length 1 before the read-out.
    pub normalises: bool,
    /// Before the read-out.
    pub dropout: Dropout,
    /// From rows to logits.
    pub readout: Readout,
    /// What learns.
    pub parameters: Vec<Parameter>,
    /// What normalisations keep beside it, one for each layer that has one.
    pub statistics: Vec<RunningStatistics>,
    radii: Vec<f64>,
    /// Which parameters are biases. Names do not tell: they may end in that of a relation.
    biases: Vec<usize>,
}

impl Ignn {
    /// A model with first values drawn by the seed, W within its constraint. Without `trains` there
    /// is no memory for gradients.
    pub fn new(
        config: &ModelConfig,
        facts: &Facts,
        seed: u64,
        trains: bool,
    ) -> Result<Self, ModelError> {
        let resolved;
        let config = match config.kind {
            ModelKind::LabelPropagation => {
                resolved = baselines::label_propagation(config, facts);
                &resolved
            }
            _ => config,
        };
        let pooling = config.pooling.resolve(facts.pools);
        let mut slots = Vec::new();
        let layers: Vec<LayerShape> = match config.kind {
            ModelKind::Ignn => {
                let each = 0..config.state.len();
                each.map(|layer| layer_shape(config, facts, layer, seed, &mut slots))
                    .collect::<Result<_, _>>()?
            }
            _ => baselines::layers(config, facts, pooling.is_some(), seed, &mut slots)?,
        };
        let normed = layers.iter().filter(|layer| layer.norm.is_some());
        let statistics = normed.map(|layer| RunningStatistics::new(layer.input.width)).collect();
        let last = layers.last().map_or(0, |layer| layer.input.width);
        let is_logits = baselines::ends_in_logits(config, pooling.is_some());
        let dropout = if is_logits { 0.0 } else { config.dropout };
        let readout = match config.readout {
            _ if is_logits => Readout::none(last),
            config::Readout::Linear => Readout::new(last, &[], facts.outputs, config.head_bias),
            config::Readout::Mlp => {
                Readout::new(last, &config.hidden, facts.outputs, config.head_bias)
            }
            config::Readout::None if last == facts.outputs => Readout::none(last),
            config::Readout::None => {
                return Err(ModelError::LastWidth { found: last, expected: facts.outputs });
            }
        };
        slots.extend(readout.slots());
        let mut model = Self {
            layers,
            pooling,
            normalises: config.normalise_state && !is_logits,
            dropout: Dropout::new(dropout, seed).unwrap_or_else(|_| Dropout::none()),
            readout,
            parameters: Vec::new(),
            statistics,
            radii: facts.radii.clone(),
            biases: (0..slots.len()).filter(|&at| slots[at].is_bias).collect(),
        };
        let values = model.initial(config, &slots, seed);
        let made = |(slot, value): (Slot, Matrix)| match trains {
            true => Parameter::new(slot.name, value, !slot.is_bias),
            false => Parameter::fixed(slot.name, value),
        };
        model.parameters = slots.into_iter().zip(values).map(made).collect();
        model.project().expect("first values are finite");
        Ok(model)
    }

    fn initial(&self, config: &ModelConfig, slots: &[Slot], seed: u64) -> Vec<Matrix> {
        let mut values = Vec::new();
        for (at, layer) in self.layers.iter().enumerate() {
            match &layer.body {
                BodyShape::Equilibrium => {
                    for (relation, slot) in slots[layer.at.weights.clone()].iter().enumerate() {
                        // Without a cycle any radius is allowed.
                        let radius = self.radius(layer, relation).min(1.0);
                        values.push(initial_weight(
                            config.init,
                            slot,
                            radius,
                            self.readout.outputs(),
                            seed,
                        ));
                    }
                    values.extend(layer.input.initial(seed, config.init_input));
                }
                BodyShape::Explicit(body) => {
                    values.extend(body.initial(at, seed));
                    values.extend(
                        layer.input.initial(seed, config.init_input * glorot(&layer.input)),
                    );
                }
            }
            for slot in &slots[layer.at.skip.clone()] {
                let (rows, cols) = slot.shape;
                values.push(match slot.is_bias {
                    true => Matrix::zeros(rows, cols),
                    false => random::uniform(
                        seed,
                        &slot.name,
                        rows,
                        cols,
                        1.0 / (cols.max(1) as f64).sqrt(),
                    ),
                });
            }
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

    /// The same, to change.
    pub fn statistics_by_name_mut(&mut self) -> Vec<(String, &mut Matrix)> {
        let names = |layer| RunningStatistics::names(&format!("layer{layer}"));
        let each = self.statistics.iter_mut().enumerate();
        each.flat_map(|(layer, kept)| {
            names(layer).into_iter().zip([&mut kept.mean, &mut kept.variance])
        })
        .collect()
    }

    /// Takes over values, in the order of parameters, then statistics.
    ///
    /// # Panics
    /// Where there are not as many.
    pub fn take_values(&mut self, values: Vec<Matrix>) {
        let statistics = 2 * self.statistics.len();
        assert_eq!(values.len(), self.parameters.len() + statistics, "a value a parameter");
        let mut values = values.into_iter();
        for parameter in &mut self.parameters {
            parameter.value = values.next().expect("counted");
        }
        for ((_, statistic), value) in self.statistics_by_name_mut().into_iter().zip(values) {
            *statistic = value;
        }
    }

    /// Position of learned features.
    pub fn table(&self) -> Option<usize> {
        let first = &self.layers[0];
        matches!(first.input.mapped, Mapped::Learned(_)).then_some(first.at.input.start)
    }

    /// Position of the read-out's first parameter.
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

    /// Whether a forward pass for training differs from one for evaluation below the read-out.
    pub fn trains_apart(&self) -> bool {
        let draws = |body: &BodyShape| matches!(body, BodyShape::Explicit(body) if body.draws());
        let apart = |layer: &LayerShape| {
            layer.norm.is_some() || layer.dropout.is_some() || draws(&layer.body)
        };
        self.layers.iter().any(apart)
    }

    /// Whether the features are needed as they are, beside what the first layer gathers of them:
    /// for its skip, or to drop entries.
    pub fn reads_own_features(&self) -> bool {
        let first = &self.layers[0];
        first.between.is_some() || first.dropout.is_some() && first.input.gathered() > 0
    }

    /// The radius of the L1 balls for the rows of a W, `kappa / rho`, rounded down; infinite where
    /// rho is 0.
    fn radius(&self, layer: &LayerShape, relation: usize) -> f64 {
        let (kappa, rho) = (layer.kappas[relation], self.radii[relation]);
        if rho == 0.0 { f64::INFINITY } else { (kappa / rho).next_down().max(0.0) }
    }

    /// Which condition for one equilibrium holds, by layer that has one, where relations have these
    /// bounds.
    pub fn posedness(&self, radii: &[f64]) -> Vec<Posedness> {
        let of = |shape: &LayerShape| {
            let weights = self.values(&shape.at.weights);
            match (&weights[..], radii) {
                ([w], [rho]) => Posedness::of(*rho, *w, shape.activation),
                _ => {
                    let relations: Vec<_> = radii.iter().copied().zip(weights).collect();
                    Posedness::of_relations(&relations, shape.activation)
                }
            }
        };
        let solved = |layer: &&LayerShape| matches!(layer.body, BodyShape::Equilibrium);
        self.layers.iter().filter(solved).map(of).collect()
    }

    /// What divides kappa, a relation: bounds over the graphs that are trained on.
    pub fn radii(&self) -> &[f64] {
        &self.radii
    }

    /// Brings the rows of every W within `kappa / rho`: after every step, never for evaluation.
    /// Returns how many moved.
    pub fn project(&mut self) -> Result<usize, ProjectionError> {
        let mut moved = 0;
        for layer in self.layers.iter().filter(|layer| matches!(layer.body, BodyShape::Equilibrium))
        {
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

/// A layer of the configuration; its parameters are added to the list.
fn layer_shape(
    config: &ModelConfig,
    facts: &Facts,
    layer: usize,
    seed: u64,
    slots: &mut Vec<Slot>,
) -> Result<LayerShape, ModelError> {
    let (layers, width) = (config.state.len(), config.state[layer]);
    let map = config.input;
    let mapped = match (layer, facts.columns) {
        (0, Some(columns)) => Mapped::Columns(columns),
        (0, None) if map == InputMap::Both => return Err(ModelError::LearnedTwice),
        (0, None) if config.skip => return Err(ModelError::LearnedSkip),
        (0, None) => Mapped::Learned(facts.nodes),
        _ => Mapped::Columns(config.state[layer - 1]),
    };
    let activation = match &config.activation[..] {
        [one] => *one,
        each if each.len() == layers => each[layer],
        each => return Err(ModelError::Activations { found: each.len(), layers }),
    };
    let relations = facts.relations.clone();
    let kappas = kappas(config, layer, &relations)?;
    let input = InputShape { layer, map, mapped, has_bias: config.bias, width, relations };
    let mut place = |more: Vec<Slot>| {
        slots.extend(more);
        slots.len()
    };
    let start = place(Vec::new());
    let weight = |name: String| Slot { name, shape: (width, width), is_bias: false };
    let weights = match &facts.relations[..] {
        [_] => vec![weight(format!("layer{layer}.W"))],
        several => several.iter().map(|name| weight(format!("layer{layer}.W.{name}"))).collect(),
    };
    let weights = start..place(weights);
    let input_place = weights.end..place(input.slots());
    let skip = match (config.skip, input.mapped) {
        (true, Mapped::Columns(p)) => vec![
            Slot { name: format!("layer{layer}.V"), shape: (width, p), is_bias: false },
            Slot { name: format!("layer{layer}.v"), shape: (1, width), is_bias: true },
        ],
        _ => Vec::new(),
    };
    let between = (!skip.is_empty()).then(|| match layer + 1 == layers {
        true => Activation::Identity,
        false => config.phi(config.between),
    });
    let skip = input_place.end..place(skip);
    let norm = config.batch_norm.then(|| BatchNorm::new(width));
    let norm_slots = norm.map_or(Vec::new(), |norm| norm.slots(&format!("layer{layer}")));
    let norm_place = skip.end..place(norm_slots);
    let at = Places { weights, input: input_place, skip, norm: norm_place };
    let activation = config.phi(activation);
    let dropout = baselines::named_dropout(config.feature_dropout, seed, "layer0.dropout");
    Ok(LayerShape {
        input,
        activation,
        between,
        norm,
        body: BodyShape::Equilibrium,
        dropout: if layer == 0 { dropout } else { None },
        kappas,
        at,
    })
}

/// kappa of each relation in a layer.
fn kappas(
    config: &ModelConfig,
    layer: usize,
    relations: &[String],
) -> Result<Vec<f64>, ModelError> {
    let (layers, count) = (config.state.len(), relations.len());
    match (&config.kappa[..], count) {
        ([kappa], _) => Ok(vec![kappa / count as f64; count]),
        (each, 1) if each.len() == layers => Ok(vec![each[layer]]),
        (each, 1) => Err(ModelError::LayerKappas { found: each.len(), layers }),
        (each, _) if each.len() == count => Ok(each.to_vec()),
        (each, _) => {
            Err(ModelError::RelationKappas { found: each.len(), relations: relations.to_vec() })
        }
    }
}
