//! Training in a run directory: checkpoints while it runs, resuming after it was stopped or killed,
//! and the model and summary at its end. Prints nothing.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ignn_format::FormatError;
use ignn_format::storage::{self, DirectoryLock};

use super::directory::{Claim, RUN};
use super::history::History;
use super::metrics_file::{Lines, Recorded};
use super::place::{Fill, Kept, Place, Records};
use super::{DatasetSummary, Figures, RunDir, RunError, RunSummary, machine};
use crate::config::Config;
use crate::dense::Scratch;
use crate::graph::Graph;
use crate::models::file::{ModelFile, Shared, Texts};
use crate::models::{DiskPlan, Model};
use crate::nn::RankError;
use crate::parallel::{self, Alone, Ranks};
use crate::train::{Ended, Observer, Task, TrainError, Trainer, checkpoint, memory};

/// A run: what to train, and the directory that keeps it.
///
/// A run that was stopped, or killed after a checkpoint, can be resumed, and gives the same bits as
/// a run without interruption. See [the module's example](super).
#[derive(Clone, Debug)]
pub struct Run {
    pub(super) graph: Graph,
    pub(super) config: Config,
    pub(super) directory: RunDir,
    pub(super) memory: u64,
    pub(super) scratch: Option<PathBuf>,
    pub(super) threads: usize,
    pub(super) ranks: Arc<dyn Ranks>,
    init: Option<PathBuf>,
    resumes: bool,
    replaces: bool,
}

/// A run that ended: all epochs completed, early stopping, or stopped on request.
#[derive(Clone, Debug)]
pub struct FinishedRun {
    /// Its directory.
    pub directory: RunDir,
    /// The path of its dataset.
    pub dataset: PathBuf,
    /// Its figures, as in `run.json`.
    pub figures: Figures,
    /// Whether the solve of the epoch whose model was kept converged.
    pub has_converged: bool,
    /// Files of the dataset that were not compared with their checksums, as in `run.json`.
    pub not_verified: Vec<String>,
    /// False if it was stopped before it could replace another run: nothing was written.
    pub is_kept: bool,
}

impl Run {
    /// A new run; the directory must be empty or missing, unless [`Run::replacing`] is called.
    pub fn new(graph: Graph, config: Config, directory: impl Into<PathBuf>) -> Self {
        Self {
            graph,
            config,
            directory: RunDir::new(directory),
            memory: machine::memory(),
            scratch: None,
            threads: parallel::threads(),
            ranks: Alone::shared(),
            init: None,
            resumes: false,
            replaces: false,
        }
    }

    /// Continues the run in a directory from its last checkpoint, on the dataset that it was
    /// started with.
    pub fn resume(directory: impl Into<PathBuf>) -> Result<Self, RunError> {
        let directory = RunDir::new(directory);
        directory.open_existing()?;
        let dataset = directory.dataset()?;
        Self::resume_on(directory.path(), &dataset)
    }

    /// The same, on a dataset that has moved.
    pub fn resume_on(directory: impl Into<PathBuf>, dataset: &Path) -> Result<Self, RunError> {
        let directory = RunDir::new(directory);
        let config = directory.open_existing()?.config()?;
        let run = Self::new(Graph::open(dataset)?, config, directory.path());
        Ok(Self { resumes: true, ..run })
    }

    /// Trains on several ranks that share the graph, each with nodes of its own. All ranks make the
    /// same calls; the first one writes the directory.
    pub fn on_ranks(mut self, ranks: Arc<dyn Ranks>) -> Self {
        self.ranks = ranks;
        self
    }

    /// Sets the total number of epochs.
    pub fn epochs(mut self, epochs: u64) -> Result<Self, RunError> {
        self.config.train.epochs = epochs;
        self.config.check()?;
        Ok(self)
    }

    /// Starts from the parameters of a model file of the same shape.
    pub fn starting_from(mut self, model: impl Into<PathBuf>) -> Self {
        self.init = Some(model.into());
        self
    }

    /// Refuses to train if the estimated memory exceeds this number of bytes, unless
    /// [`Run::scratch`] names a directory; by default the memory of the machine.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Keeps matrices that do not fit in memory in nameless files in this directory. The result has
    /// the same bits.
    pub fn scratch(mut self, directory: impl Into<PathBuf>) -> Self {
        self.scratch = Some(directory.into());
        self
    }

    /// Replaces an earlier run in the directory, once the new one has finished its first epoch and
    /// written a checkpoint. Until then the earlier one stays, whatever happens, also if the new one
    /// is asked to stop ([`FinishedRun::is_kept`]). [`Run::train`]
    /// refuses a directory that contains anything but runs.
    pub fn replacing(mut self) -> Self {
        self.replaces = true;
        self
    }

    /// The run with another seed, in a directory of its own below this one.
    pub(super) fn with_seed(&self, seed: u64) -> Self {
        let mut run = Self { directory: self.directory.seed(seed), ..self.clone() };
        run.config.train.seed = seed;
        run
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The graph that is trained on.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The run directory.
    pub fn directory(&self) -> &RunDir {
        &self.directory
    }

    /// Trains until all epochs are complete, early stopping ends the run, or `stop` is set; then
    /// the current epoch is finished and a checkpoint is written. `observer` receives every epoch.
    pub fn train(
        &self,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<FinishedRun, RunError> {
        let claim = self.claim_on_first()?;
        let ranks = Arc::clone(&self.ranks);
        let task = Task::on_ranks(self.graph.clone(), &self.config, ranks)?;
        let begin = |fill: &mut Fill| match claim {
            Some(claim) => self.begin(claim, fill),
            None => unreachable!("the first rank makes the directory"),
        };
        self.train_on(&Arc::new(task), begin, observer, stop)
    }

    /// The same on an open task, which runs with different seeds share. `begin` makes the
    /// directory, with what [`Fill`] puts into it, as soon as the run can start.
    pub(super) fn train_on(
        &self,
        task: &Arc<Task>,
        begin: impl FnOnce(&mut Fill) -> Result<DirectoryLock, TrainError>,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<FinishedRun, RunError> {
        // On several ranks, the memory of each depends on its rows.
        let shared = if self.ranks.is_alone() { Ok(()) } else { task.operators().map(|_| ()) };
        self.agree(shared)?;
        match self.agree(self.planned(task))? {
            None => self.train_in_scope(task, begin, observer, stop),
            Some((plan, scratch)) => scratch.scope(|| {
                let noted = observer.note(&plan.words(scratch.directory()));
                noted.map_err(TrainError::from)?;
                self.train_in_scope(task, begin, observer, stop)
            }),
        }
    }

    /// Where matrices lie on a disk, if they do.
    fn planned(&self, task: &Task) -> Result<Option<(DiskPlan, Arc<Scratch>)>, TrainError> {
        let Some(directory) = self.scratch.as_ref().filter(|_| self.ranks.is_alone()) else {
            return memory::check(task, &self.config, self.memory).map(|_| None);
        };
        let Some(plan) = memory::plan(task, &self.config, self.memory)? else { return Ok(None) };
        let scratch = plan.scratch(directory)?;
        Ok(Some((plan, scratch)))
    }

    fn train_in_scope(
        &self,
        task: &Arc<Task>,
        begin: impl FnOnce(&mut Fill) -> Result<DirectoryLock, TrainError>,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<FinishedRun, RunError> {
        let started = Instant::now();
        let is_first = self.ranks.is_first();
        let estimated_bytes = memory::estimate(task, &self.config);
        let mut trainer = self.agree(self.trainer(task))?;
        let mut place = Place::new(&self.directory, begin);
        let prepared = self.prepare(&mut trainer, &mut place);
        let (mut history, notes) = self.agree(prepared)?;
        let place = RefCell::new(place);
        let mut all: Vec<Box<dyn Observer + '_>> = vec![Box::new(&mut history), Box::new(observer)];
        if is_first {
            all.insert(0, Box::new(Records(&place)));
        }
        let noted = notes.iter().try_for_each(|note| all.note(note));
        self.agree(noted.map_err(TrainError::from))?;
        let ended = self.train_with_checkpoints(&mut trainer, &place, &mut all, stop)?;
        drop(all);
        let mut place = place.into_inner();
        let is_kept = self.ranks.decided(place.is_open() || ended != Ended::Stopped);
        if self.ranks.decided(is_kept && !place.is_open()) {
            // Only evaluated, in place of another run: its checkpoint is from before that, too.
            let before = self.agree(self.trainer(task))?;
            self.save(&mut place, &before)?;
        }
        let has_converged = history.has_converged();
        let mut figures = history.into_figures(&trainer, ended, 0.0, estimated_bytes);
        let (texts, shared) = trainer.best_file();
        let saved = match is_kept && is_first {
            true => self.save_model(&place, &texts, &shared),
            false => Ok(()),
        };
        if is_kept {
            shared.finish();
        }
        self.agree(saved)?;
        figures.seconds = started.elapsed().as_secs_f64();
        let summary = RunSummary::new(figures, task, self.threads);
        let file = self.directory.summary_file();
        let written = match is_kept && is_first {
            true => storage::write_file(&file, summary.to_json().as_bytes()),
            false => Ok(()),
        };
        self.agree(written.map_err(RunError::from))?;
        let RunSummary { figures, dataset: DatasetSummary { not_verified, .. }, .. } = summary;
        let (directory, dataset) = (self.directory.clone(), self.graph.path().into());
        Ok(FinishedRun { directory, dataset, figures, has_converged, not_verified, is_kept })
    }

    pub(super) fn agree<T, E: Into<RunError>>(&self, result: Result<T, E>) -> Result<T, RunError> {
        RunError::agree(&*self.ranks, result.map_err(Into::into))
    }

    /// Reserves the directory on the first rank, before the long work, so that no other process can
    /// take it.
    pub(super) fn claim_on_first(&self) -> Result<Option<Claim>, RunError> {
        self.agree(if self.ranks.is_first() { self.claim().map(Some) } else { Ok(None) })
    }

    /// Makes or opens the directory, and takes over what a resumed run has. Returns notes, too.
    fn prepare<B>(
        &self,
        trainer: &mut Trainer,
        place: &mut Place<'_, B>,
    ) -> Result<(History, Vec<String>), RunError>
    where
        B: FnOnce(&mut Fill) -> Result<DirectoryLock, TrainError>,
    {
        let is_first = self.ranks.is_first();
        let begun = match !self.replaces && is_first {
            true => place.begin(&mut |_| Ok(())),
            false => Ok(()),
        };
        // The ranks that resume compare what they see.
        self.agree(begun)?;
        let (history, kept) = match self.resumes {
            true => self.restore(trainer)?,
            false => (History::new(trainer.monitor(), Vec::new()), None),
        };
        let lines = kept.as_ref().map_or_else(Lines::default, |kept| kept.lines);
        let (metrics, mut notes) = (self.directory.metrics_file(), Vec::new());
        let removed = if self.resumes { lines.others_after(&metrics)? } else { 0 };
        if !self.replaces && is_first {
            place.open(kept)?;
        }
        if removed > 0 {
            notes.push(format!(
                "{}: lines after the last checkpoint that are no records were removed: {removed}",
                metrics.display()
            ));
        }
        notes.extend(trainer.notes());
        Ok((history, notes))
    }

    /// Writes a checkpoint; all ranks call it together.
    fn save<B>(&self, place: &mut Place<'_, B>, trainer: &Trainer) -> Result<(), TrainError>
    where
        B: FnOnce(&mut Fill) -> Result<DirectoryLock, TrainError>,
    {
        let shared = trainer.shared();
        let saved = match self.ranks.is_first() {
            true => place.save(trainer, &shared),
            // The first rank's files were checked by `place`.
            false => self.graph.check_unchanged().map_err(TrainError::from),
        };
        shared.finish();
        self.ranks.agree(saved, TrainError::OtherRank)
    }

    fn save_model<B>(
        &self,
        place: &Place<'_, B>,
        texts: &Texts,
        shared: &Shared<'_>,
    ) -> Result<(), RunError>
    where
        B: FnOnce(&mut Fill) -> Result<DirectoryLock, TrainError>,
    {
        place.sync()?;
        Ok(shared.write(&self.directory.model_file(), texts)?)
    }

    /// Reserves the directory; refuses one with content that is neither resumed nor replaced.
    pub(super) fn claim(&self) -> Result<Claim, FormatError> {
        match self.resumes {
            true => self.directory.claim_existing(),
            false => self.directory.claim(self.replaces.then_some(&RUN)),
        }
    }

    /// Makes the directory of a new run, with its setup and what `fill` adds, or opens that of a
    /// resumed one.
    pub(super) fn begin(&self, claim: Claim, fill: &mut Fill) -> Result<DirectoryLock, TrainError> {
        claim.begin(|path| self.fill(&RunDir::new(path), fill))
    }

    /// Puts the setup and what `fill` adds into a directory that is still a draft.
    pub(super) fn fill(&self, draft: &RunDir, fill: &mut Fill) -> Result<(), TrainError> {
        draft.write_setup(&self.config, self.graph.path(), storage::write_new)?;
        fill(draft)
    }

    /// The training before its first epoch.
    fn trainer(&self, task: &Arc<Task>) -> Result<Trainer, RunError> {
        let mut trainer = Trainer::with_task(Arc::clone(task), self.config.clone())?;
        if let Some(init) = &self.init {
            let model = self.agree(Model::load(init))?;
            if !self.ranks.is_alone() {
                let same = RankError::check_file("model", &model.checksum(), &*self.ranks);
                let path = init.clone();
                same.map_err(|source| TrainError::Ranks { path, source })?;
            }
            model.copy_into(trainer.network_mut(), init)?;
            model.check_nodes(&self.graph, init)?;
            // Another graph may have another bound.
            let projected = trainer.network_mut().project();
            projected.map_err(|source| RunError::InitWeights { path: init.clone(), source })?;
        }
        Ok(trainer)
    }

    /// Takes over the checkpoint and the records before it. Nothing is written before all of it is
    /// found to fit.
    fn restore(&self, trainer: &mut Trainer) -> Result<(History, Option<Kept>), RunError> {
        let (file, path) = (self.directory.checkpoint_file(), self.directory.path());
        let opened = match file.exists() {
            true => ModelFile::open(&file).map_err(RunError::from),
            false => Err(RunError::NoCheckpoint { path: path.into() }),
        };
        let checkpoint = self.agree(opened)?;
        let same = RankError::check_file("checkpoint", &checkpoint.checksum(), &*self.ranks);
        same.map_err(|source| TrainError::Ranks { path: file, source })?;
        trainer.restore_from(&checkpoint)?;
        let (epochs, epoch) = (self.config.train.epochs, trainer.epoch());
        if epochs < epoch {
            return Err(RunError::TooFewEpochs { path: path.into(), epochs, epoch });
        }
        // The last epoch whose record stays: the epoch of the checkpoint is evaluated again.
        let (history, kept) = match epoch.checked_sub(1) {
            Some(last) => {
                let Recorded { records, lines, .. } = self.recorded(&checkpoint, last)?;
                (History::new(trainer.monitor(), records), Some(Kept { last, lines }))
            }
            None => (History::new(trainer.monitor(), Vec::new()), None),
        };
        if self.ranks.is_first() {
            self.directory.write_setup(&self.config, self.graph.path(), storage::write_file)?;
        }
        Ok((history, kept))
    }

    /// The records up to and including an epoch. They must be those that the checkpoint was written
    /// after, up to measured times.
    fn recorded(&self, checkpoint: &ModelFile, last: u64) -> Result<Recorded, RunError> {
        let path = self.directory.metrics_file();
        let other = |what: String, found: String, expected: String| RunError::OtherRecords {
            path: path.clone(),
            what: what.into(),
            found,
            expected,
            checkpoint: checkpoint.path().into(),
        };
        let recorded = match path.exists() {
            true => Recorded::read_until(&path, last)?,
            false => Recorded::default(),
        };
        let records = &recorded.records;
        if !records.iter().map(|record| record.epoch).eq(0..=last) {
            let found = match (records.first(), records.last()) {
                (Some(first), Some(last)) => {
                    format!("{} of epochs {} to {}", records.len(), first.epoch, last.epoch)
                }
                _ => "none".into(),
            };
            let expected = format!("one for each epoch from 0 to {last}");
            return Err(other("records".into(), found, expected));
        }
        // Older checkpoints have no checksum.
        match checkpoint::records(checkpoint) {
            Some(expected) if recorded.lines.checksum() != expected => {
                let what = format!("checksum of the records up to epoch {last}");
                Err(other(what, recorded.lines.checksum(), expected.into()))
            }
            _ => Ok(recorded),
        }
    }

    fn train_with_checkpoints<B>(
        &self,
        trainer: &mut Trainer,
        place: &RefCell<Place<'_, B>>,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Ended, RunError>
    where
        B: FnOnce(&mut Fill) -> Result<DirectoryLock, TrainError>,
    {
        let mut cadence = CheckpointCadence::new(&self.config);
        let save = |trainer: &Trainer| self.save(&mut place.borrow_mut(), trainer);
        let decided = |by_first| self.ranks.decided(by_first);
        // The last epoch only evaluates. Its checkpoint is from before that, so that a run that is
        // given more epochs continues as if it had had them from the start.
        if decided(trainer.is_at_last() && place.borrow().is_open()) {
            save(trainer)?;
        }
        let ended = trainer.run(observer, stop, |trainer| {
            let is_first = !place.borrow().is_open();
            if decided(cadence.is_due(trainer.epoch()) || trainer.is_at_last() || is_first) {
                save(trainer)?;
                cadence.restart_clock();
            }
            Ok(())
        })?;
        // One that was stopped before it could be resumed does not replace another.
        let is_saved = ended == Ended::Patience
            || ended == Ended::Collapsed
            || ended == Ended::Stopped && place.borrow().is_open();
        if decided(is_saved) {
            save(trainer)?;
        }
        Ok(ended)
    }
}

/// When to write a checkpoint: every few epochs, and after some minutes without one.
struct CheckpointCadence {
    epochs: u64,
    minutes: f64,
    last: Instant,
}

impl CheckpointCadence {
    fn new(config: &Config) -> Self {
        let (epochs, minutes) = (config.train.checkpoint_epochs, config.train.checkpoint_minutes);
        Self { epochs, minutes, last: Instant::now() }
    }

    fn is_due(&self, epoch: u64) -> bool {
        let by_epochs = self.epochs > 0 && epoch.is_multiple_of(self.epochs);
        let by_time = self.minutes > 0.0 && self.last.elapsed().as_secs_f64() > self.minutes * 60.0;
        by_epochs || by_time
    }

    fn restart_clock(&mut self) {
        self.last = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn checkpoints_are_due_by_epochs_or_by_time() {
        let mut config = Config::default();
        (config.train.checkpoint_epochs, config.train.checkpoint_minutes) = (7, 0.0);
        let cadence = CheckpointCadence::new(&config);
        assert_eq!(
            (1..=21).filter(|&epoch| cadence.is_due(epoch)).collect::<Vec<_>>(),
            [7, 14, 21]
        );
        (config.train.checkpoint_epochs, config.train.checkpoint_minutes) = (0, 5.0);
        let mut cadence = CheckpointCadence::new(&config);
        assert!(!cadence.is_due(1), "five minutes have not passed");
        let Some(earlier) = cadence.last.checked_sub(Duration::from_secs(301)) else { return };
        cadence.last = earlier;
        assert!(cadence.is_due(1));
        cadence.restart_clock();
        assert!(!cadence.is_due(1));
        cadence.last = earlier;
        (cadence.minutes, cadence.epochs) = (0.0, 0);
        assert!(!cadence.is_due(1));
    }
}
