//! One run per seed. On small graphs several runs train at a time, one thread each; where one solve
//! keeps all threads busy, they train one after another, as they do on several ranks. The run
//! directories are the same either way, up to measured times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ignn_format::storage::{self, DirectoryLock};

use super::directory::SharedDirectory;
use super::place::Fill;
use super::{FinishedRun, Run, RunDir, RunError};
use crate::parallel;
use crate::train::{Observer, Task, TrainError, trainings_at_once};

impl Run {
    /// How many of `count` runs train at a time: at most one per thread, as many as the memory
    /// allows together, and only one where a step is large enough for all threads, or where several
    /// ranks train it together.
    pub fn runs_at_once(&self, count: usize) -> Result<usize, RunError> {
        if !self.ranks.is_alone() {
            return Ok(1);
        }
        let task = Task::open(self.graph.clone(), &self.config)?;
        let found = trainings_at_once(&task, &self.config, count, self.threads, self.memory);
        match found {
            // Runs with matrices on a disk, or the error of the first of them.
            Err(TrainError::Memory { .. }) if self.scratch.is_some() => Ok(1),
            found => Ok(found?),
        }
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
        // The directory of all seeds, held until the last ends. It appears with that of the first
        // run: if it replaces another, then with the first result.
        let room = SharedDirectory::new(self.directory.path(), self.claim_on_first()?);
        let ranks = Arc::clone(&self.ranks);
        let task = Arc::new(Task::on_ranks(self.graph.clone(), &self.config, ranks)?);
        // Computed once on all threads, before the runs share it.
        self.agree(task.operators().map(|_| ()))?;
        let train = |&seed: &u64| -> Result<Option<FinishedRun>, RunError> {
            if self.ranks.any(stop.load(Ordering::Relaxed)) {
                return Ok(None);
            }
            let run = self.with_seed(seed);
            let begin = |fill: &mut Fill| {
                let mut lock = None;
                room.make(|draft| -> Result<(), TrainError> {
                    let draft = RunDir::new(draft).seed(seed);
                    storage::create_directory(draft.path())?;
                    run.fill(&draft, fill)?;
                    lock = Some(DirectoryLock::acquire(draft.path())?);
                    Ok(())
                })?;
                lock.map_or_else(|| run.begin(run.claim()?, fill), Ok)
            };
            let result = run.train_on(&task, begin, &mut observe(&run), stop)?;
            finished(&result);
            Ok(Some(result))
        };
        let results = parallel::for_each_job(seeds, at_once, train)?;
        Ok(results.into_iter().flatten().collect())
    }
}
