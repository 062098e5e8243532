//! What a run will take in memory, before it takes it; and the widest state that would fit.
//! An estimate from counts: the graph itself is mapped and not counted.

use super::{Task, TrainError};
use crate::config::{IgnnConfig, InputMap, Method};
use crate::dense::stride;
use crate::nn::{Equilibrium, Features};

/// Bytes of a run: states, parameters with gradients, moments and the best copy, features, read-out rows.
pub fn estimate(task: &Task, config: &IgnnConfig) -> u64 {
    let widths: Vec<u64> = config.model.state.iter().map(|&width| width as u64).collect();
    bytes(task, config, &widths)
}

/// Refuses a run that needs more than `allowed`, and says what would fit.
pub fn check(task: &Task, config: &IgnnConfig, allowed: u64) -> Result<u64, TrainError> {
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

fn bytes(task: &Task, config: &IgnnConfig, widths: &[u64]) -> u64 {
    let manifest = task.dataset().manifest();
    let (model, relations) = (&config.model, manifest.relations.len() as u64);
    let row = |columns: u64| stride(columns as usize) as u64 * 4;
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
        let layer = Equilibrium::bytes(rows, width, true, config.solver.history());
        let input = match &manifest.features {
            _ if at > 0 => maps.saturating_mul(width * row(below)),
            _ if task.learns_features() => manifest.nodes.saturating_mul(row(width)),
            None => 0,
            Some(entry) => {
                let held = match entry.nonzeros {
                    // Both ways, and the tables between them.
                    Some(nonzeros) => {
                        nonzeros.saturating_mul(16).saturating_add(2 * manifest.nodes * row(width))
                    }
                    None => Features::dense_bytes(manifest.nodes, entry.columns).saturating_mul(1 + maps),
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
    let classes = task.labels().classes().len() as u64;
    let parts = task.parts();
    let read = (2 * parts.train.len() + parts.validation.len() + parts.test.len()) as u64;
    let passes = read.saturating_mul(3 * row(below) + 2 * row(classes));
    total.saturating_add(passes).saturating_add(classes.saturating_mul(row(below)).saturating_mul(copies))
}
