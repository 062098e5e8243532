//! The layers of models without an equilibrium: shapes and parameters by kind.
//! What a layer computes is in `nn`; the wiring around layers is the same for all models.
//!
//! | kind | layers | Omega | then |
//! | --- | --- | --- | --- |
//! | `gcn` | depth | own rows | gathered once, bias, activation; none in the last |
//! | `sgc` | 1 | own rows | gathered depth times, bias |
//! | `mlp` | depth | own rows | bias, activation; none in the last |
//!
//! Where nodes have the labels, the last layer of these is as wide as there are classes and its rows are the logits; where
//! rows are pooled, layers are as wide as `model.state` says and a read-out follows the pooling, as everywhere.
//! Dropout is before every layer.

use super::ignn::{BodyShape, Facts, LayerShape, ModelError, Places};
use crate::config::{ActivationName, ModelConfig, ModelKind, PoolingName};
use crate::kernels::Activation;
use crate::nn::{
    BatchNorm, Convolution, DropEdge, Dropout, ExplicitShape, InputMap, InputShape, Mapped, Slot,
};

/// Whether the last layer's rows are the logits.
pub(super) fn ends_in_logits(config: &ModelConfig, pools: bool) -> bool {
    matches!(config.kind, ModelKind::Gcn | ModelKind::Sgc | ModelKind::Mlp) && !pools
}

/// The layers of a configuration without an equilibrium, before any parameter is drawn: for estimates.
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
        ModelKind::Gcn | ModelKind::Mlp => config.depth,
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
        let steps = match config.kind {
            ModelKind::Mlp => 0,
            ModelKind::Sgc => config.depth,
            _ => 1,
        };
        let drop_edge = DropEdge::new(config.drop_edge, seed);
        let body = ExplicitShape::Convolution(Convolution { steps, activation, width, drop_edge });
        let dropout = Dropout::named(config.dropout, seed, &format!("layer{layer}.dropout"));
        let input = InputShape {
            layer,
            map: InputMap::Own,
            mapped,
            has_bias: false,
            width,
            relations: facts.relations.clone(),
        };
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
        let norm_place = place(norm.map_or(Vec::new(), |norm| norm.slots(&format!("layer{layer}"))));
        layers.push(LayerShape {
            input,
            activation,
            between,
            norm,
            body: BodyShape::Explicit(body),
            dropout: dropout.ok().filter(|_| config.dropout > 0.0),
            kappas: Vec::new(),
            at: Places { weights, input: input_place, skip, norm: norm_place },
        });
    }
    Ok(layers)
}

/// Widths of the layers: one for all, or one for each that does not give the logits.
fn widths(config: &ModelConfig, facts: &Facts, depth: usize, ends: bool) -> Result<Vec<usize>, ModelError> {
    let inner = depth - usize::from(ends);
    let mut widths = match &config.state[..] {
        [one] => vec![*one; inner],
        each if each.len() == inner => each.to_vec(),
        // A single layer of logits has no use for a width.
        _ if inner == 0 => Vec::new(),
        each => return Err(ModelError::Widths { found: each.len(), expected: inner, depth }),
    };
    widths.extend(ends.then_some(facts.outputs));
    Ok(widths)
}

fn activation(config: &ModelConfig, layer: usize, layers: usize) -> Result<ActivationName, ModelError> {
    match &config.activation[..] {
        [one] => Ok(*one),
        each if each.len() == layers => Ok(each[layer]),
        each => Err(ModelError::Activations { found: each.len(), layers }),
    }
}
