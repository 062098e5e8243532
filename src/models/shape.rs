//! The shape of a network, before any value exists: its layers, its readout, the names and shapes
//! of its parameters, and the memory that all of it needs.
//!
//! A kind ([`super::kinds`]) decides what the body of each layer is. This file adds what is the
//! same for all kinds: input map, skip connection, normalisation, dropout, and the position of
//! every parameter.

use std::ops::Range;
use std::sync::Arc;

use super::ModelError;
use super::kinds::{Kind, LayerPlan, Request};
use super::layer_memory::LayerMemory;
use crate::config::{ModelConfig, ReadoutKind};
use crate::dense::stride;
use crate::kernels::Activation;
use crate::nn::explicit::Map;
use crate::nn::{
    BatchNorm, Dropout, Equilibrium, Explicit, InputShape, Mapped, Operators, Pooling, Readout,
    Slot,
};

/// The properties of a dataset that a network depends on.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Number of nodes: a table of learned features has one row for each.
    pub nodes: usize,
    /// Columns of the features; `None` if they are learned.
    pub columns: Option<usize>,
    /// Names of the relations.
    pub relations: Vec<String>,
    /// One bound rho per relation, by which kappa is divided. It holds for all training graphs.
    pub radii: Vec<f64>,
    /// Number of classes.
    pub outputs: usize,
    /// Whether graphs, not nodes, are classified.
    pub pools: bool,
}

/// A layer without values.
#[derive(Clone, Debug)]
pub struct LayerShape {
    /// Width m of its state and result; its input term may be wider.
    pub width: usize,
    /// Its input map.
    pub input: InputShape,
    /// Activation after the skip connection; `None` without one.
    pub between: Option<Activation>,
    /// Normalisation of its result.
    pub norm: Option<BatchNorm>,
    /// From its input term to its state.
    pub body: BodyShape,
    /// Dropout before its input map.
    pub dropout: Option<Dropout>,
    /// Positions of its parameters.
    pub at: Places,
}

/// The body of a layer: from its input term B to its state X.
#[derive(Clone, Debug)]
pub enum BodyShape {
    /// Solved.
    Equilibrium {
        /// phi
        activation: Activation,
        /// Bound on lambda(|W|) lambda(A), per relation.
        kappas: Vec<f64>,
    },
    /// Computed.
    Explicit(Arc<dyn Map>),
}

/// Bytes of a layer's own matrices, by use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerBytes {
    /// X, buffers of solves, the sum with the skip connection, the normalised result, and the input
    /// after dropout.
    pub states: u64,
    /// B
    pub input: u64,
    /// G and R
    pub adjoint: u64,
}

/// Positions of a layer's parameters in the list of all parameters.
#[derive(Clone, Debug)]
pub struct Places {
    /// Those of the body: for an equilibrium, one W per relation.
    pub weights: Range<usize>,
    /// Those of the input map.
    pub input: Range<usize>,
    /// V and v of the skip connection.
    pub skip: Range<usize>,
    /// Scale and shift of the normalisation.
    pub norm: Range<usize>,
}

/// A network without values.
#[derive(Clone, Debug)]
pub struct NetworkShape {
    /// Its layers, from the features up.
    pub layers: Vec<LayerShape>,
    /// From nodes to graphs.
    pub pooling: Option<Pooling>,
    /// Whether rows are scaled to length 1 before the readout.
    pub normalises: bool,
    /// Before the readout.
    pub dropout: Dropout,
    /// From rows to logits.
    pub readout: Readout,
    /// All parameters, in their order.
    pub slots: Vec<Slot>,
}

impl NetworkShape {
    /// The shape that a configuration describes; masks are drawn by the seed.
    pub fn new(config: &ModelConfig, facts: &Facts, seed: u64) -> Result<Self, ModelError> {
        let kind = Kind::of(config.kind);
        let config = &*kind.resolve(config, facts);
        let pooling = config.pooling.resolve(facts.pools);
        let ends_in_logits = kind.ends_in_logits(pooling.is_some());
        let request = Request { config, facts, seed, ends_in_logits };
        let plans = (kind.layers)(&request)?;
        let mut slots = Vec::new();
        let mut layers: Vec<LayerShape> = Vec::new();
        for (at, plan) in plans.iter().enumerate() {
            let is_last = at + 1 == plans.len();
            let below = layers.last().map(|layer| layer.width);
            layers.push(layer(&request, plan, (at, is_last), below, &mut slots)?);
        }
        let last = layers.last().map_or(0, |layer| layer.width);
        let readout = match config.readout {
            _ if ends_in_logits => Readout::none(last),
            ReadoutKind::Linear => Readout::new(last, &[], facts.outputs, config.head_bias),
            ReadoutKind::Mlp => Readout::new(last, &config.hidden, facts.outputs, config.head_bias),
            ReadoutKind::None if last == facts.outputs => Readout::none(last),
            ReadoutKind::None => {
                return Err(ModelError::LastWidth { found: last, expected: facts.outputs });
            }
        };
        slots.extend(readout.slots());
        let dropout = if ends_in_logits { 0.0 } else { config.dropout };
        Ok(Self {
            layers,
            pooling,
            normalises: config.normalise_state && !ends_in_logits,
            dropout: Dropout::new(dropout, seed).unwrap_or_else(|_| Dropout::none()),
            readout,
            slots,
        })
    }

    /// Which matrices of a layer there are, on one rank or on several.
    pub fn memory(&self, layer: usize, is_alone: bool) -> LayerMemory {
        LayerMemory::new(&self.layers, layer, self.pooling.is_some(), is_alone)
    }

    /// Bytes of the copies of entries that narrow layers gather by, which all layers share; relations
    /// are described as for [`Operators::copied_bytes`].
    pub fn copied_bytes(&self, relations: &[(u64, u64, bool, bool)]) -> u64 {
        let solved = self.layers.iter().filter(|layer| layer.is_solved());
        let copied =
            |layer: &LayerShape| Operators::copied_bytes(layer.width, relations.iter().copied());
        solved.map(copied).max().unwrap_or_default()
    }

    /// Bytes of one copy of all parameters.
    pub fn parameter_bytes(&self) -> u64 {
        let bytes = |slot: &Slot| (slot.shape.0 as u64).saturating_mul(row_bytes(slot.shape.1));
        self.slots.iter().map(bytes).fold(0, u64::saturating_add)
    }
}

impl LayerShape {
    /// Whether the body is solved for.
    pub fn is_solved(&self) -> bool {
        matches!(self.body, BodyShape::Equilibrium { .. })
    }

    /// Whether the input term is the table of learned features itself. Explicit bodies read theirs
    /// again in the backward pass, when it may have changed.
    pub fn takes_table(&self) -> bool {
        let is_table =
            matches!(self.input.mapped, Mapped::Learned(_)) && self.input.gathered() == 0;
        is_table && self.is_solved() && !self.input.has_bias && self.dropout.is_none()
    }

    /// Bytes of the layer's own matrices while it is trained on this many nodes, by its plan.
    /// Parameters and features are not included. `mixing_buffers` is that of
    /// [`SolveParams`](crate::solver::SolveParams::mixing_buffers).
    pub fn bytes(&self, memory: LayerMemory, nodes: u64, mixing_buffers: usize) -> LayerBytes {
        let width = self.width;
        let [state, input] = [width, self.input.width].map(row_bytes);
        let [state, input] = [state, input].map(|row| nodes.saturating_mul(row));
        let dropped = self.dropout.is_some() && self.input.layer > 0;
        let more = [self.between.is_some(), self.norm.is_some(), dropped];
        let more = more.into_iter().filter(|&is_there| is_there).count() as u64;
        let more = more.saturating_mul(state);
        match &self.body {
            BodyShape::Equilibrium { kappas, .. } => {
                let relations = kappas.len();
                let body = Equilibrium::bytes(nodes, width as u64, relations, true, mixing_buffers);
                LayerBytes {
                    states: body.saturating_add(more),
                    input: memory.input(input),
                    adjoint: memory.adjoint(state, nodes),
                }
            }
            BodyShape::Explicit(map) => {
                let adjoint = input.saturating_add(state);
                let all = Explicit::bytes(&**map, nodes, width as u64);
                let body = all.saturating_sub(input).saturating_sub(adjoint);
                LayerBytes { states: body.saturating_add(more), input, adjoint }
            }
        }
    }
}

fn row_bytes(columns: usize) -> u64 {
    (stride(columns) as u64).saturating_mul(size_of::<f32>() as u64)
}

/// One layer around the body that its kind asks for; its parameters are added to `slots`.
fn layer(
    request: &Request<'_>,
    plan: &LayerPlan,
    (number, is_last): (usize, bool),
    below: Option<usize>,
    slots: &mut Vec<Slot>,
) -> Result<LayerShape, ModelError> {
    let Request { config, facts, .. } = *request;
    let width = plan.width;
    let mapped = match (below, facts.columns) {
        (Some(below), _) => Mapped::Columns(below),
        (None, Some(columns)) => Mapped::Columns(columns),
        (None, None) if config.skip => return Err(ModelError::LearnedSkip),
        (None, None) => Mapped::Learned(facts.nodes),
    };
    let input = InputShape {
        layer: number,
        map: plan.input,
        mapped,
        has_bias: plan.has_bias,
        width: match &plan.body {
            BodyShape::Equilibrium { .. } => width,
            BodyShape::Explicit(map) => map.input_width(width),
        },
        relations: facts.relations.clone(),
    };
    let mut place = |more: Vec<Slot>| {
        let start = slots.len();
        slots.extend(more);
        start..slots.len()
    };
    let weights = place(match &plan.body {
        BodyShape::Equilibrium { .. } => {
            let weight = |name: String| Slot::weight(name, width, width);
            match &facts.relations[..] {
                [_] => vec![weight(format!("layer{number}.W"))],
                several => {
                    several.iter().map(|name| weight(format!("layer{number}.W.{name}"))).collect()
                }
            }
        }
        BodyShape::Explicit(map) => map.slots(number),
    });
    let input_place = place(input.slots());
    let skip = place(match (config.skip, mapped) {
        (true, Mapped::Columns(p)) => vec![
            Slot::weight(format!("layer{number}.V"), width, p),
            Slot::bias(format!("layer{number}.v"), width),
        ],
        _ => Vec::new(),
    });
    let after_skip = if is_last { Activation::Identity } else { config.between };
    let between = (!skip.is_empty()).then_some(after_skip);
    let is_logits = is_last && request.ends_in_logits;
    let norm = (config.batch_norm && !is_logits).then(|| BatchNorm::new(width));
    let norm_place = place(norm.map_or(Vec::new(), |norm| norm.slots(&format!("layer{number}"))));
    Ok(LayerShape {
        width,
        input,
        between,
        norm,
        body: plan.body.clone(),
        dropout: request.dropout(plan.dropout, &format!("layer{number}.dropout")),
        at: Places { weights, input: input_place, skip, norm: norm_place },
    })
}
