//! What a run will take in memory, before it takes it; and the widest state that would fit.
//! An estimate from counts: the graph itself is mapped and not counted.

use super::{Task, TrainError};
use crate::config::{Config, InputMap, ModelConfig, ModelKind, Readout};
use crate::dense::stride;
use crate::models::{self, BodyShape};
use crate::nn::{Equilibrium, Explicit, Features};
use crate::optim::Method;

/// Bytes of a run: states, parameters with gradients, moments and the best copy, features, read-out
/// rows.
pub fn estimate(task: &Task, config: &Config) -> u64 {
    let widths: Vec<u64> = config.model.state.iter().map(|&width| width as u64).collect();
    bytes(task, config, &widths)
}

/// Refuses a run that needs more than `allowed`, and says what would fit.
pub fn check(task: &Task, config: &Config, allowed: u64) -> Result<u64, TrainError> {
    let needed = estimate(task, config);
    if needed <= allowed {
        return Ok(needed);
    }
    let hint = match config.model.state[..] {
        [width] => {
            let fits = |width: &u64| bytes(task, config, &[*width]) <= allowed;
            match (1..width as u64).rev().find(fits) {
                Some(width) => format!("model.state={width} would fit, or raise --memory"),
                None => "no width fits: raise --memory".to_string(),
            }
        }
        _ => "narrow the layers of model.state, or raise --memory".to_string(),
    };
    Err(TrainError::Memory { needed, allowed, hint })
}

fn bytes(task: &Task, config: &Config, widths: &[u64]) -> u64 {
    if config.model.kind != ModelKind::Ignn {
        return baseline_bytes(task, config, widths);
    }
    let manifest = task.dataset().manifest();
    let (model, relations) = (&config.model, manifest.relations.len() as u64);
    // Solved at once: all nodes, or the largest batch.
    let rows = task.nodes_at_once(config);
    let moments = if config.optim.method == Method::Adam { 2 } else { 1 };
    // Value, gradient, moments and the best one's copy.
    let copies = 3 + moments;
    let maps = match model.input {
        InputMap::Own => 1,
        InputMap::Gathered => relations,
        InputMap::Both => relations + 1,
    };
    let (mut total, mut below) = (0u64, 0);
    for (at, &width) in widths.iter().enumerate() {
        let more = u64::from(model.skip) + u64::from(model.batch_norm);
        let layer = Equilibrium::bytes(rows, width, true, config.forward().mixing_buffers());
        let input = match &manifest.features {
            _ if at > 0 => maps.saturating_mul(width * row(below)),
            _ if task.learns_features() => manifest.nodes.saturating_mul(row(width)),
            None => 0,
            Some(entry) => {
                let held = match entry.nonzeros {
                    // Both ways, and the tables between them.
                    Some(nonzeros) => {
                        let ways = if model.feature_dropout > 0.0 { 2 } else { 1 };
                        nonzeros
                            .saturating_mul(16 * ways)
                            .saturating_add(2 * manifest.nodes * row(width))
                    }
                    None => {
                        // Made anew for each step: entries dropped, gathered by each map, side by
                        // side.
                        let beside = if maps > 1 { maps } else { 0 };
                        let drawn = if model.feature_dropout > 0.0 { 1 + maps + beside } else { 0 };
                        Features::dense_bytes(manifest.nodes, entry.columns)
                            .saturating_mul(1 + maps + drawn)
                    }
                };
                total = total.saturating_add(held);
                below = entry.columns;
                maps.saturating_mul(width).saturating_mul(row(entry.columns))
            }
        };
        let skip = if model.skip { width * row(below) } else { 0 };
        let parameters = input + relations * width * row(width) + skip;
        total = total.saturating_add(layer).saturating_add(more * rows * row(width));
        total = total.saturating_add(parameters.saturating_mul(copies));
        below = width;
    }
    total.saturating_add(passes(task, below)).saturating_add(head(task, config, below, copies))
}

/// The read-out of rows of a width: its parameters, so many of each, and its hidden rows with their
/// gradients.
fn head(task: &Task, config: &Config, width: u64, copies: u64) -> u64 {
    let classes = task.labels().classes().len() as u64;
    let hidden: &[usize] = match config.model.readout {
        Readout::None => return 0,
        Readout::Linear => &[],
        Readout::Mlp => &config.model.hidden,
    };
    let (mut total, mut below) = (0u64, width);
    for &width in hidden {
        let rows = read_rows(task).saturating_mul(2 * row(width as u64));
        total =
            total.saturating_add((width as u64).saturating_mul(row(below)).saturating_mul(copies));
        (total, below) = (total.saturating_add(rows), width as u64);
    }
    total.saturating_add(classes.saturating_mul(row(below)).saturating_mul(copies))
}

/// Rows that are read out, with their gradients.
fn passes(task: &Task, width: u64) -> u64 {
    let classes = task.labels().classes().len() as u64;
    read_rows(task).saturating_mul(3 * row(width) + 2 * row(classes))
}

/// Rows of all parts, those of training twice.
fn read_rows(task: &Task) -> u64 {
    let parts = task.parts();
    (2 * parts.train.len() + parts.validation.len() + parts.test.len()) as u64
}

fn row(columns: u64) -> u64 {
    stride(columns as usize) as u64 * 4
}

/// The same for models without an equilibrium: by the shapes of their layers.
fn baseline_bytes(task: &Task, config: &Config, widths: &[u64]) -> u64 {
    let state = widths.iter().map(|&width| width as usize).collect();
    let model = ModelConfig { state, ..config.model.clone() };
    let (manifest, rows) = (task.dataset().manifest(), task.nodes_at_once(config));
    let copies = if config.optim.method == Method::Adam { 5 } else { 4 };
    if config.model.kind == ModelKind::LabelPropagation {
        let classes = task.labels().classes().len() as u64;
        let table = rows.saturating_mul(row(classes)).saturating_mul(copies);
        return Equilibrium::bytes(rows, classes, true, config.forward().mixing_buffers())
            .saturating_add(table)
            .saturating_add(passes(task, classes));
    }
    let mut total = match &manifest.features {
        _ if task.structural_columns().is_some() => {
            let columns = task.structural_columns().unwrap_or(0) as u64;
            Features::dense_bytes(manifest.nodes, columns).saturating_mul(2)
        }
        _ if task.learns_features() => 0,
        None => 0,
        Some(entry) => match entry.nonzeros {
            Some(nonzeros) => nonzeros.saturating_mul(32),
            None => Features::dense_bytes(manifest.nodes, entry.columns).saturating_mul(2),
        },
    };
    // What does not make a model is refused when one is made.
    let Ok(layers) = models::layer_shapes(&model, &task.facts(Vec::new())) else { return 0 };
    for (at, layer) in layers.iter().enumerate() {
        let BodyShape::Explicit(body) = &layer.body else { continue };
        let width = layer.input.width as u64;
        // The skip's sum, the normalised result, what is left after dropout.
        let more =
            [layer.between.is_some(), layer.norm.is_some(), layer.dropout.is_some() && at > 0];
        let more = more.into_iter().filter(|&is_there| is_there).count() as u64;
        let slots = body.slots(at).into_iter().chain(layer.input.slots());
        let parameters: u64 =
            slots.map(|slot| (slot.shape.0 as u64).saturating_mul(row(slot.shape.1 as u64))).sum();
        total = total.saturating_add(Explicit::bytes(body, rows, width));
        total = total.saturating_add(more.saturating_mul(rows).saturating_mul(row(width)));
        total = total.saturating_add(parameters.saturating_mul(copies));
    }
    let width = layers.last().map_or(0, |layer| layer.input.width as u64);
    let has_head = matches!(config.model.kind, ModelKind::Sse | ModelKind::Gcnii);
    let head = if has_head { head(task, config, width, copies) } else { 0 };
    total.saturating_add(passes(task, width)).saturating_add(head)
}
