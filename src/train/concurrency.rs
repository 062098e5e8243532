//! How many models are trained at a time: folds of a cross-validation, or runs with several seeds.

use super::{Task, TrainError, memory};
use crate::config::Config;

/// Steps over fewer nodes than this leave threads idle, so several models are trained at a time,
/// with one thread each.
const NODES_FOR_ALL_THREADS: u64 = 1 << 14;

/// How many of `count` models like this one to train at a time: at most one per thread, as many as
/// fit in `memory` bytes together, and only one if a step is large enough for all threads. It is an
/// error if a single one needs more than `memory`.
pub fn trainings_at_once(
    task: &Task,
    config: &Config,
    count: usize,
    threads: usize,
    memory: u64,
) -> Result<usize, TrainError> {
    let needed = memory::check(task, config, memory)?;
    if task.nodes_at_once(config) >= NODES_FOR_ALL_THREADS {
        return Ok(1);
    }
    let fitting = usize::try_from(memory / needed.max(1)).unwrap_or(usize::MAX);
    Ok(threads.min(count).min(fitting).max(1))
}
