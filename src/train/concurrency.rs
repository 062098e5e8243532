//! How many independent trainings run at a time: folds of a cross-validation, runs of several seeds.

use super::{Task, TrainError, memory};
use crate::config::Config;

/// Steps over fewer nodes than this leave threads idle, so that several trainings run at a time
/// with one thread each.
const NODES_FOR_ALL_THREADS: u64 = 1 << 14;

/// How many of `count` trainings like this one run at a time: at most one per thread, as many as
/// fit in `memory` bytes together, and only one where a step is large enough for all threads.
/// Refuses a training that needs more than `memory` alone.
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
