//! The layers of models without an equilibrium: shapes and parameters by kind.
//! What a layer computes is in `nn`; the wiring around layers is the same for all models.
//!
//! | kind | layers | Omega | then |
//! | --- | --- | --- | --- |
//! | `gcn` | depth | own rows | gathered once, bias, activation; none in the last |
//! | `sgc` | 1 | own rows | gathered depth times, bias |
//! | `mlp`, `structural` | depth | own rows | bias, activation; none in the last |
//! | `gat` | depth | own rows | attention of several heads, of one in the last; bias, activation |
//! | `gcnii` | 1 | own rows | bias, activation, depth convolutions; then the read-out |
//! | `sse` | 1 | own and gathered rows | depth damped steps; then the read-out |
//!
//! Where nodes have the labels, the last layer of all but the last two is as wide as there are
//! classes and its rows are the logits; where rows are pooled, layers are as wide as `model.state`
//! says and a read-out follows the pooling, as everywhere. Dropout is before every layer but that
//! of `sse`, and before the read-out where there is one.
//!
//! `label-propagation` is an equilibrium: X = kappa / rho A^T X + E with the labels of the training
//! nodes in E, read as it is.

use super::ignn::{BodyShape, Facts, LayerShape, ModelError, Places};
use crate::config::{self, ActivationName, InitName, ModelConfig, ModelKind, PoolingName};
use crate::kernels::Activation;
use crate::nn::{
    Attention, BatchNorm, Convolution, DropEdge, Dropout, ExplicitShape, Gcnii, InputMap,
    InputShape, Mapped, Slot, Steady,
};

/// Whether the last layer's rows are the logits.
pub(super) fn ends_in_logits(config: &ModelConfig, pools: bool) -> bool {
    let has_readout = matches!(config.kind, ModelKind::Ignn | ModelKind::Gcnii | ModelKind::Sse);
    !has_readout && !pools
}

/// Label propagation in the words of an equilibrium.
pub(super) fn label_propagation(config: &ModelConfig, facts: &Facts) -> ModelConfig {
    ModelConfig {
        kind: ModelKind::Ignn,
        state: vec![facts.outputs],
        activation: vec![ActivationName::Identity],
        input: InputMap::Own,
        bias: false,
        init: InitName::Identity,
        init_input: 0.0,
        skip: false,
        batch_norm: false,
        pooling: PoolingName::None,
        normalise_state: false,
        dropout: 0.0,
        feature_dropout: 0.0,
        readout: config::Readout::None,
        ..config.clone()
    }
}

/// The layers of a configuration without an equilibrium, before any parameter is drawn: for
/// estimates.
pub fn layer_shapes(config: &ModelConfig, facts: &Facts) -> Result<Vec<LayerShape>, ModelError> {
    let pools = match config.pooling {
        PoolingName::Auto => facts.pools,
        PoolingName::None => false,
        _ => true,
    };
    layers(config, facts, pools, 0, &mut Vec::new())
}

/// The layers of the configuration; their parameters are added to the list.
pub(super) fn layers(
    config: &ModelConfig,
    facts: &Facts,
    pools: bool,
    seed: u64,
    slots: &mut Vec<Slot>,
) -> Result<Vec<LayerShape>, ModelError> {
    let depth = match config.kind {
        ModelKind::Gcn | ModelKind::Gat | ModelKind::Mlp | ModelKind::Structural => config.depth,
        _ => 1,
    };
    let ends = ends_in_logits(config, pools);
    let widths = widths(config, facts, depth, ends)?;
    let mut layers = Vec::new();
    for (layer, &width) in widths.iter().enumerate() {
        let mapped = match (layer, facts.columns) {
            (0, Some(columns)) => Mapped::Columns(columns),
            (0, None) if config.skip => return Err(ModelError::LearnedSkip),
            (0, None) => Mapped::Learned(facts.nodes),
            _ => Mapped::Columns(widths[layer - 1]),
        };
        let is_logits = ends && layer + 1 == depth;
        let activation = match is_logits || config.kind == ModelKind::Sgc {
            true => Activation::Identity,
            false => config.phi(activation(config, layer, depth)?),
        };
        let body = body(config, (layer, is_logits), width, activation, seed)?;
        let (is_steady, is_learned) =
            (config.kind == ModelKind::Sse, matches!(mapped, Mapped::Learned(_)));
        let input = InputShape {
            layer,
            map: if is_steady && !is_learned { InputMap::Both } else { InputMap::Own },
            mapped,
            has_bias: false,
            width,
            relations: facts.relations.clone(),
        };
        let dropout = named_dropout(config.dropout, seed, &format!("layer{layer}.dropout"))
            .filter(|_| !is_steady);
        let mut place = |more: Vec<Slot>| {
            let start = slots.len();
            slots.extend(more);
            start..slots.len()
        };
        let weights = place(body.slots(layer));
        let input_place = place(input.slots());
        let skip = match (config.skip, input.mapped) {
            (true, Mapped::Columns(p)) => place(vec![
                Slot { name: format!("layer{layer}.V"), shape: (width, p), is_bias: false },
                Slot { name: format!("layer{layer}.v"), shape: (1, width), is_bias: true },
            ]),
            _ => place(Vec::new()),
        };
        let between = (!skip.is_empty()).then(|| match layer + 1 == depth {
            true => Activation::Identity,
            false => config.phi(config.between),
        });
        let norm = (config.batch_norm && !is_logits).then(|| BatchNorm::new(width));
        let norm_place =
            place(norm.map_or(Vec::new(), |norm| norm.slots(&format!("layer{layer}"))));
        layers.push(LayerShape {
            input,
            activation,
            between,
            norm,
            body: BodyShape::Explicit(body),
            dropout,
            kappas: Vec::new(),
            at: Places { weights, input: input_place, skip, norm: norm_place },
        });
    }
    Ok(layers)
}

/// None where nothing is dropped.
pub(super) fn named_dropout(rate: f64, seed: u64, name: &str) -> Option<Dropout> {
    Dropout::named(rate, seed, name).ok().filter(|_| rate > 0.0)
}

/// What a layer does with its input term.
fn body(
    config: &ModelConfig,
    (layer, is_logits): (usize, bool),
    width: usize,
    activation: Activation,
    seed: u64,
) -> Result<ExplicitShape, ModelError> {
    let convolution = |steps| {
        let drop_edge = DropEdge::new(config.drop_edge, seed);
        ExplicitShape::Convolution(Convolution { steps, activation, width, drop_edge })
    };
    Ok(match config.kind {
        ModelKind::Mlp | ModelKind::Structural => convolution(0),
        ModelKind::Sgc => convolution(config.depth),
        ModelKind::Gat => {
            let heads = if is_logits { 1 } else { config.heads };
            if !width.is_multiple_of(heads) {
                return Err(ModelError::Heads { width, heads });
            }
            let dropout = named_dropout(config.dropout, seed, &format!("layer{layer}.attention"));
            ExplicitShape::Attention(Attention { heads, width, activation, dropout })
        }
        ModelKind::Sse => {
            let (steps, damping) = (config.depth, config.sse_damping);
            ExplicitShape::Steady(Steady { steps, damping, width, activation })
        }
        ModelKind::Gcnii => {
            let name = |step: usize| format!("layer{layer}.step{step}.dropout");
            let dropout = (1..=config.depth)
                .filter_map(|step| named_dropout(config.dropout, seed, &name(step)));
            ExplicitShape::Gcnii(Gcnii {
                depth: config.depth,
                alpha: config.gcnii_alpha,
                lambda: config.gcnii_lambda,
                width,
                activation,
                dropout: dropout.collect(),
            })
        }
        ModelKind::Ignn | ModelKind::LabelPropagation | ModelKind::Gcn => convolution(1),
    })
}

/// Widths of the layers: one for all, or one for each that does not give the logits.
fn widths(
    config: &ModelConfig,
    facts: &Facts,
    depth: usize,
    ends: bool,
) -> Result<Vec<usize>, ModelError> {
    let inner = depth - usize::from(ends);
    let mut widths = match &config.state[..] {
        [one] => vec![*one; inner],
        each if each.len() == inner => each.to_vec(),
        // A single layer of logits has no use for a width.
        _ if inner == 0 => Vec::new(),
        each => {
            return Err(ModelError::Widths {
                found: each.len(),
                expected: inner,
                depth: config.depth,
            });
        }
    };
    widths.extend(ends.then_some(facts.outputs));
    Ok(widths)
}

fn activation(
    config: &ModelConfig,
    layer: usize,
    layers: usize,
) -> Result<ActivationName, ModelError> {
    match &config.activation[..] {
        [one] => Ok(*one),
        each if each.len() == layers => Ok(each[layer]),
        each => Err(ModelError::Activations { found: each.len(), layers }),
    }
}
