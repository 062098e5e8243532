//! Estimated memory of a training before it starts, and the widest state that would fit. The graph
//! itself is mapped and not counted.

use super::{Task, TrainError};
use crate::config::{Config, ModelConfig};
use crate::dense::stride;
use crate::models::{LayerShape, NetworkShape};
use crate::nn::{Features, Mapped};
use crate::optim::Method;

/// Bytes of a training: states; parameters with gradients, moments and the best copy; features;
/// read-out rows.
pub fn estimate(task: &Task, config: &Config) -> u64 {
    let widths: Vec<u64> = config.model.state.iter().map(|&width| width as u64).collect();
    // Settings that do not make a model are refused when one is made.
    bytes(task, config, &widths).unwrap_or(0)
}

/// Refuses a training that needs more than `allowed` bytes, and says what would fit.
pub fn check(task: &Task, config: &Config, allowed: u64) -> Result<u64, TrainError> {
    let needed = estimate(task, config);
    if needed <= allowed {
        return Ok(needed);
    }
    let hint = match config.model.state[..] {
        [width] => {
            let fits =
                |width: &u64| bytes(task, config, &[*width]).is_some_and(|bytes| bytes <= allowed);
            match (1..width as u64).rev().find(fits) {
                Some(width) => format!("model.state={width} would fit, or raise --memory"),
                None => "no width fits: raise --memory".to_string(),
            }
        }
        _ => "narrow the layers of model.state, or raise --memory".to_string(),
    };
    Err(TrainError::Memory { needed, allowed, hint })
}

/// The estimate for these widths; `None` if they do not make a model.
fn bytes(task: &Task, config: &Config, widths: &[u64]) -> Option<u64> {
    let state = widths.iter().map(|&width| width as usize).collect();
    let model = ModelConfig { state, ..config.model.clone() };
    let shape = NetworkShape::new(&model, &task.facts(Vec::new()), 0).ok()?;
    // Solved at once: all nodes, or the largest batch.
    let rows = task.nodes_at_once(config);
    let moments = if config.optim.method == Method::Adam { 2 } else { 1 };
    // Value, gradient, moments and the copy of the best epoch.
    let parameters = shape.parameter_bytes().saturating_mul(3 + moments);
    let layer = |layer: &LayerShape| layer.bytes(rows, config.forward().mixing_buffers());
    let layers = shape.layers.iter().map(layer).fold(0, u64::saturating_add);
    let last = shape.layers.last().map_or(0, |layer| layer.input.width as u64);
    let parts = [
        features(task, &shape.layers[0]),
        layers,
        parameters,
        passes(task, last),
        read_rows(task).saturating_mul(shape.readout.row_bytes()),
    ];
    Some(parts.into_iter().fold(0, u64::saturating_add))
}

/// Features as the first layer holds them.
fn features(task: &Task, first: &LayerShape) -> u64 {
    let manifest = task.graph().manifest();
    let (nodes, drops) = (manifest.nodes, first.dropout.is_some());
    let maps = first.input.gathered() as u64 + u64::from(first.input.own().is_some());
    let columns = match (&first.input.mapped, &manifest.features) {
        (Mapped::Learned(_), _) => return 0,
        (Mapped::Columns(_), Some(entry)) if task.computed_columns().is_none() => {
            if let Some(nonzeros) = entry.nonzeros {
                // Stored by rows and by columns. Gathered maps have two tables of the state's width
                // between features and state.
                let ways = if drops { 2 } else { 1 };
                let tables = if first.input.gathered() > 0 { 2 * nodes } else { 0 };
                let tables = tables.saturating_mul(row(first.input.width as u64));
                return nonzeros.saturating_mul(16 * ways).saturating_add(tables);
            }
            entry.columns
        }
        (Mapped::Columns(columns), _) => *columns as u64,
    };
    // With dropout, each step makes them again: entries dropped, gathered by each map, side by side.
    let beside = if maps > 1 { maps } else { 0 };
    let drawn = if drops { 1 + maps + beside } else { 0 };
    Features::dense_bytes(nodes, columns).saturating_mul(1 + maps + drawn)
}

/// Rows that are read out, with their gradients.
fn passes(task: &Task, width: u64) -> u64 {
    let classes = task.labels().classes().len() as u64;
    read_rows(task).saturating_mul(3 * row(width) + 2 * row(classes))
}

/// Rows of all parts, training rows counted twice.
fn read_rows(task: &Task) -> u64 {
    let parts = task.parts();
    (2 * parts.train.len() + parts.validation.len() + parts.test.len()) as u64
}

fn row(columns: u64) -> u64 {
    stride(columns as usize) as u64 * 4
}
