//! One run per seed. On small graphs several runs train at a time, one thread each; where one solve
//! keeps all threads busy, they train one after another. The run directories are the same either
//! way, up to measured times.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ignn_format::FormatError;
use ignn_format::storage::DirectoryLock;

use super::directory::Claim;
use super::place::Fill;
use super::{FinishedRun, Run, RunError};
use crate::parallel;
use crate::train::{Observer, Task, trainings_at_once};

/// The directory of all seeds.
enum SeedsDirectory {
    Claimed(Claim),
    Made(#[expect(dead_code, reason = "held, not read")] DirectoryLock),
    Failed,
}

impl SeedsDirectory {
    /// Makes the directory, once.
    fn make(&mut self) -> Result<(), FormatError> {
        *self = match std::mem::replace(self, Self::Failed) {
            Self::Claimed(claim) => Self::Made(claim.begin(|_| Ok(()))?),
            other => other,
        };
        Ok(())
    }
}

impl Run {
    /// How many of `count` runs train at a time: at most one per thread, as many as the memory
    /// allows together, and only one where a step is large enough for all threads.
    pub fn runs_at_once(&self, count: usize) -> Result<usize, RunError> {
        let task = Task::open(self.graph.clone(), &self.config)?;
        Ok(trainings_at_once(&task, &self.config, count, self.threads, self.memory)?)
    }

    /// Trains once for each seed in the directories `seed-N`, `at_once` runs at a time (see
    /// [`Run::runs_at_once`]). Each run gets an observer of its own. Once `stop` is set, runs that
    /// train write their checkpoint and end, and no other run starts; the result has those that
    /// were started.
    pub fn train_seeds<O: Observer>(
        &self,
        seeds: &[u64],
        at_once: usize,
        observe: impl Fn(&Run) -> O + Sync,
        finished: impl Fn(&FinishedRun) + Sync,
        stop: &AtomicBool,
    ) -> Result<Vec<FinishedRun>, RunError> {
        // The directory of all seeds: made by the first run that can start, held until the last
        // ends.
        let room = Mutex::new(SeedsDirectory::Claimed(self.claim()?));
        let task = Arc::new(Task::open(self.graph.clone(), &self.config)?);
        // Computed once on all threads, before the runs share it.
        task.operators()?;
        let train = |&seed: &u64| -> Result<Option<FinishedRun>, RunError> {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let run = self.with_seed(seed);
            let begin = |fill: &mut Fill| {
                room.lock().unwrap_or_else(PoisonError::into_inner).make()?;
                run.begin(run.claim()?, fill)
            };
            let result = run.train_on(&task, begin, &mut observe(&run), stop)?;
            finished(&result);
            Ok(Some(result))
        };
        let results = parallel::for_each_job(seeds, at_once, train)?;
        Ok(results.into_iter().flatten().collect())
    }
}
