//! What a run will take in memory, before it takes it; and the widest state that would fit.
//! An estimate from counts: the graph itself is mapped and not counted.

use super::{Task, TrainError};
use crate::config::{IgnnConfig, InputMap, Method};
use crate::dense::stride;
use crate::nn::{Equilibrium, Features};

/// Bytes of a run: states, parameters with gradients, moments and the best copy, features, read-out rows.
pub fn estimate(task: &Task, config: &IgnnConfig) -> u64 {
    bytes(task, config, config.model.state as u64)
}

/// Refuses a run that needs more than `allowed`, and says what would fit.
pub fn check(task: &Task, config: &IgnnConfig, allowed: u64) -> Result<u64, TrainError> {
    let needed = estimate(task, config);
    if needed <= allowed {
        return Ok(needed);
    }
    let fitting = (1..config.model.state as u64).rev().find(|&width| bytes(task, config, width) <= allowed);
    let hint = match fitting {
        Some(width) => format!("model.state={width} would fit, or raise --memory"),
        None => "no width fits: raise --memory".to_string(),
    };
    Err(TrainError::Memory { needed, allowed, hint })
}

fn bytes(task: &Task, config: &IgnnConfig, width: u64) -> u64 {
    let manifest = task.dataset().manifest();
    let row = |columns: u64| stride(columns as usize) as u64 * 4;
    let layer = Equilibrium::bytes(manifest.nodes, width, true);
    let moments = if config.optim.method == Method::Adam { 2 } else { 1 };
    // Value, gradient, moments and the best one's copy.
    let copies = 3 + moments;
    let (features, input) = match &manifest.features {
        _ if task.learns_features() => (0, manifest.nodes.saturating_mul(row(width))),
        None => (0, 0),
        Some(entry) => {
            let parts = if config.model.input == InputMap::Both { 2 } else { 1 };
            let held = match entry.nonzeros {
                // Both ways, and the table between them.
                Some(nonzeros) => nonzeros.saturating_mul(16).saturating_add(manifest.nodes * row(width)),
                None => Features::dense_bytes(manifest.nodes, entry.columns).saturating_mul(1 + parts),
            };
            (held, width.saturating_mul(row(entry.columns)).saturating_mul(parts))
        }
    };
    let classes = task.labels().classes().len() as u64;
    let parts = task.parts();
    let read = (2 * parts.train.len() + parts.validation.len() + parts.test.len()) as u64;
    let passes = read.saturating_mul(3 * row(width) + 2 * row(classes));
    let parameters = (input + width * row(width) + classes * row(width)).saturating_mul(copies);
    layer.saturating_add(features).saturating_add(parameters).saturating_add(passes)
}
