//! A cross-validation and its directory. It trains every fold, several at a time on small graphs,
//! and keeps finished folds, so that an interrupted cross-validation can be resumed. Folds are dealt to
//! the ranks of a job.
//!
//! | file | what |
//! | --- | --- |
//! | `config.toml`, `dataset.txt` | as in a run directory |
//! | `setup.json` | number of folds and readout; configuration, and checksums of dataset and folds |
//! | `folds.csv` | the fold of each graph, or labelled node |
//! | `fold-N/` | `metrics.jsonl`, `model.safetensors`, and `fold.json` once the fold is finished |
//! | `crossval.json` | a [`CrossvalSummary`] |

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ignn_format::FormatError;
use ignn_format::storage::{self, Kind};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::crossval_setup::{BegunWith, CrossvalSetup, SETUP};
use super::directory::{Claim, SharedDirectory};
use super::fold_file::{self, FOLD, FoldFiles};
use super::metrics_file::Lines;
use super::{MetricsWriter, RunDir, RunError, csv, files, machine, path_text};
use crate::config::Config;
use crate::graph::Graph;
use crate::kernels::Isa;
use crate::metrics::Metric;
use crate::models::Model;
use crate::nn::RankError;
use crate::parallel::{self, Alone, Ranks};
use crate::train::crossval::{self, FoldOutcome, FoldRecord, FoldTraining, Summary};
use crate::train::folds::{self, Folds};
use crate::train::{
    EpochRecord, Observer, Task, TrainError, Trainer, trainings_at_once, wanted_labels,
};

const FOLDS: &str = "folds.csv";
const SUMMARY: &str = "crossval.json";

/// Cross-validations.
pub static CROSSVAL: Kind = Kind { check: check_replaceable };

fn check_replaceable(directory: &Path) -> Result<(), FormatError> {
    // A user may have a file `setup.json` as well.
    if CrossvalDir::new(directory).setup().is_err() {
        let what = "the directory of a cross-validation";
        return Err(storage::not_replaceable(directory, what));
    }
    let as_run = RunDir::new("");
    let of_a_run = [as_run.config_file(), as_run.dataset_file()];
    let of_a_fold = [as_run.metrics_file(), as_run.model_file(), PathBuf::from(FOLD)];
    let is_fold =
        |name: &str| name.strip_prefix("fold-").is_some_and(|fold| fold.parse::<usize>().is_ok());
    storage::check_contents(directory, "a cross-validation", &|path| match path.split_once('/') {
        Some((fold, file)) => {
            is_fold(fold)
                && (file.is_empty() || of_a_fold.iter().any(|own| *own == Path::new(file)))
        }
        None => {
            [SETUP, FOLDS, SUMMARY].contains(&path)
                || of_a_run.iter().any(|own| *own == Path::new(path))
        }
    })
}

/// `crossval.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossvalSummary {
    /// Version of the program.
    pub version: String,
    /// The dataset.
    pub dataset: CrossvalDataset,
    /// The machine.
    pub machine: CrossvalMachine,
    /// What has a label: `graph` or `node`.
    #[serde(default = "graph")]
    pub item: String,
    /// The metric of all figures.
    pub metric: Metric,
    /// Folds, finished or not.
    pub folds_asked_for: usize,
    /// Means over the finished folds; `None` before the first is finished.
    pub summary: Option<Summary>,
    /// The finished folds, without their curves, which are in the folds' own files.
    pub folds: Vec<FoldRecord>,
    /// Wall time of the session.
    pub seconds: f64,
}

/// What all cross-validations of older versions divided.
fn graph() -> String {
    "graph".into()
}

/// The dataset of a cross-validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossvalDataset {
    /// Its path.
    #[serde(with = "path_text")]
    pub path: PathBuf,
    /// Checksum of its manifest.
    pub checksum: String,
    /// Files of more than 16 MiB that were used without a comparison with their checksums.
    #[serde(default)]
    pub not_verified: Vec<String>,
}

/// The machine of a cross-validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossvalMachine {
    /// Worker threads.
    pub threads: usize,
    /// Number of folds trained at a time.
    pub folds_at_once: usize,
    /// The instruction set of the kernels.
    pub simd: String,
    /// Peak resident memory of the process, if the system reports it.
    pub peak_bytes: Option<u64>,
}

impl CrossvalSummary {
    /// As a JSON value, with its keys in alphabetical order.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("a summary is plain data")
    }
}

/// The directory of a cross-validation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrossvalDir {
    path: PathBuf,
}

impl CrossvalDir {
    /// A directory at this path; it need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `crossval.json`.
    pub fn summary_file(&self) -> PathBuf {
        self.path.join(SUMMARY)
    }

    /// The directory of a fold.
    pub fn fold(&self, fold: usize) -> PathBuf {
        self.path.join(fold_name(fold))
    }

    /// Whether a cross-validation was started here.
    pub fn is_crossval(&self) -> bool {
        self.path.join(SETUP).is_file()
    }

    /// What the cross-validation was started with.
    pub fn setup(&self) -> Result<CrossvalSetup, RunError> {
        let file = self.setup_file()?;
        let setup: CrossvalSetup = read_json(&file)?;
        Ok(setup.check(&file)?)
    }

    fn setup_file(&self) -> Result<PathBuf, RunError> {
        if !self.is_crossval() {
            return Err(RunError::NotACrossval { path: self.path.clone(), expected: SETUP });
        }
        Ok(self.path.join(SETUP))
    }

    /// The same with all that a resumed one is compared with.
    fn begun_with(&self) -> Result<BegunWith, RunError> {
        self.setup()?;
        read_json(&self.setup_file()?)
    }

    /// `crossval.json`; `None` before its first session ended.
    pub fn summary(&self) -> Result<Option<CrossvalSummary>, RunError> {
        let file = self.summary_file();
        if file.is_file() { read_json(&file).map(Some) } else { Ok(None) }
    }

    /// The finished folds, in order. Refuses records that belong to another cross-validation or
    /// were changed.
    pub fn finished(&self) -> Result<Vec<FoldRecord>, RunError> {
        let begun = self.begun_with()?;
        let id = begun.id();
        let mut finished = Vec::new();
        for fold in 0..begun.setup.folds {
            let file = self.fold_file(fold);
            // Anything of that name: what is not a file is refused before folds are trained.
            if file.symlink_metadata().is_ok() {
                finished.push(fold_file::read(&file, &id, fold)?);
            }
        }
        Ok(finished)
    }

    fn fold_file(&self, fold: usize) -> PathBuf {
        self.fold(fold).join(FOLD)
    }

    fn claim(&self, replaces: bool) -> Result<Claim, FormatError> {
        RunDir::new(&self.path).claim(replaces.then_some(&CROSSVAL))
    }

    /// Writes the setup into a directory that is still a draft.
    fn write_setup(&self, begun: &BegunWith, folds_csv: &str) -> Result<(), FormatError> {
        storage::write_new(&self.path.join(FOLDS), folds_csv.as_bytes())?;
        storage::write_new(&self.path.join(SETUP), begun.to_text().as_bytes())
    }
}

/// `folds.csv`: the fold of each graph.
fn fold_name(fold: usize) -> String {
    format!("fold-{fold}")
}

fn read_json<T: DeserializeOwned>(file: &Path) -> Result<T, RunError> {
    let text = files::read_whole(file)?;
    let wrong = |error: serde_json::Error| {
        FormatError::invalid(file, "content", error.to_string(), "what `ignn crossval` writes now")
    };
    Ok(serde_json::from_str(&text).map_err(wrong)?)
}

/// A cross-validation: what to train, and the directory that keeps it, if any.
#[derive(Clone, Debug)]
pub struct Crossval {
    graph: Graph,
    config: Config,
    setup: CrossvalSetup,
    directory: Option<CrossvalDir>,
    memory: u64,
    threads: usize,
    replaces: bool,
    resumes: bool,
    finished: Vec<FoldRecord>,
    ranks: Arc<dyn Ranks>,
}

/// Receives the progress of the folds, from several threads.
pub trait FoldObserver: Sync {
    /// An epoch of a fold.
    fn epoch(&self, fold: usize, record: &EpochRecord);
    /// A note on a fold for the user.
    fn note(&self, fold: usize, text: &str);
    /// A fold is finished.
    fn finished(&self, record: &FoldRecord);
}

impl Crossval {
    /// A cross-validation that keeps nothing.
    pub fn new(graph: Graph, config: Config, setup: CrossvalSetup) -> Self {
        Self {
            graph,
            config,
            setup,
            directory: None,
            memory: machine::memory(),
            threads: parallel::threads(),
            replaces: false,
            resumes: false,
            finished: Vec::new(),
            ranks: Alone::shared(),
        }
    }

    /// Deals the folds to several ranks; each trains its own and writes them. All make the same
    /// calls, and have the same result.
    pub fn on_ranks(mut self, ranks: Arc<dyn Ranks>) -> Self {
        self.ranks = ranks;
        self
    }

    /// Continues with the folds that are not finished in a directory. Refuses another dataset and
    /// other settings than it was begun with, and records of folds that are not its own.
    pub fn resume(directory: impl Into<PathBuf>) -> Result<Self, RunError> {
        let directory = directory.into();
        CrossvalDir::new(&directory).setup()?;
        let dataset = RunDir::new(&directory).dataset()?;
        Self::resume_on(directory, &dataset)
    }

    /// The same, on a dataset that has moved.
    pub fn resume_on(directory: impl Into<PathBuf>, dataset: &Path) -> Result<Self, RunError> {
        let directory = CrossvalDir::new(directory);
        let (begun, as_run) = (directory.begun_with()?, RunDir::new(directory.path()));
        let (graph, config) = (Graph::open(dataset)?, as_run.config()?);
        begun.check(&graph, &config, &as_run.config_file())?;
        let finished = directory.finished()?;
        let crossval = Self::new(graph, config, begun.setup);
        Ok(Self { finished, directory: Some(directory), resumes: true, ..crossval })
    }

    /// Keeps models, records and figures in a directory. [`Crossval::train`] refuses one that is
    /// not empty, or with `replace` replaces it if it holds nothing but a cross-validation. The old
    /// one stays until the first fold of the new one is finished, whatever happens.
    pub fn in_directory(mut self, path: impl Into<PathBuf>, replace: bool) -> Self {
        (self.directory, self.replaces) = (Some(CrossvalDir::new(path)), replace);
        self
    }

    /// Memory in bytes that all folds trained at a time may use together; by default that of the
    /// machine.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The graphs that are trained on.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Folds that are still to be trained; on several ranks, those of this one.
    pub fn open_folds(&self) -> Vec<usize> {
        self.dealt(&self.folds_but(&self.finished))
    }

    /// Those of some folds that this rank trains.
    fn dealt(&self, folds: &[usize]) -> Vec<usize> {
        folds.iter().skip(self.ranks.rank()).step_by(self.ranks.size()).copied().collect()
    }

    fn agree<T>(&self, result: Result<T, RunError>) -> Result<T, RunError> {
        RunError::agree(&*self.ranks, result)
    }

    /// What the first rank has, on every rank.
    fn shared<T: Serialize + DeserializeOwned>(&self, value: T) -> Result<T, RunError> {
        if self.ranks.is_alone() {
            return Ok(value);
        }
        let text = self.ranks.broadcast(0, serde_json::to_vec(&value).expect("plain data"));
        let read = serde_json::from_slice(&text);
        read.map_err(|error| RunError::Train(TrainError::OtherRank(error.to_string())))
    }

    fn folds_but(&self, finished: &[FoldRecord]) -> Vec<usize> {
        let is_open = |fold: &usize| finished.iter().all(|record| record.fold != *fold);
        (0..self.setup.folds).filter(is_open).collect()
    }

    /// Trains the open folds until all are finished or `stop` is set, and sums up the finished
    /// ones with their curves.
    pub fn train(
        &self,
        observer: &dyn FoldObserver,
        stop: &AtomicBool,
    ) -> Result<(CrossvalSummary, Vec<FoldRecord>), RunError> {
        let (started, path) = (Instant::now(), self.graph.path());
        let is_first = self.ranks.is_first();
        if !self.ranks.is_alone() {
            let same = RankError::check_same(&self.graph, &self.config.to_toml(), &*self.ranks);
            same.map_err(|source| TrainError::Ranks { path: path.into(), source })?;
        }
        // Reserved before the long work, so that no other process can take the directory.
        let claim = self.agree(if is_first { self.claim() } else { Ok(None) })?;
        let (folds, folds_csv) = self.agree(self.folds())?;
        let begun = BegunWith::new(self.setup, &self.graph, &self.config, &folds_csv);
        let finished = if is_first { self.check_finished(&folds, &begun) } else { Ok(Vec::new()) };
        let finished = self.shared(self.agree(finished)?)?;
        let all_open = self.folds_but(&finished);
        let open = self.dealt(&all_open);
        let task = Task::with_parts(self.graph.clone(), &self.config, Some(folds.parts(0)));
        let task = self.agree(task.map_err(RunError::from))?;
        let (count, metric) = (self.setup.folds, crossval::metric(task.labels()));
        let at_once = trainings_at_once(&task, &self.config, count, self.threads, self.memory);
        let at_once = self.agree(at_once.map_err(RunError::from))?;
        if self.directory.is_some() && !self.resumes {
            // Settings that no model can have are refused before a directory appears.
            let trainer = Trainer::with_task(Arc::new(task), self.config.clone());
            self.agree(trainer.map_err(RunError::from))?;
        }
        let write_setup = |draft: &Path| -> Result<(), RunError> {
            RunDir::new(draft).write_setup(&self.config, path, storage::write_new)?;
            Ok(CrossvalDir::new(draft).write_setup(&begun, &folds_csv)?)
        };
        let kept = self.directory.as_ref().map(|directory| Kept {
            directory,
            room: SharedDirectory::new(&directory.path, claim),
            write_setup: &write_setup,
            id: begun.id(),
        });
        let begin = || -> Result<(), RunError> {
            if let Some(kept) = kept.as_ref().filter(|_| is_first && !self.replaces) {
                kept.room.make(write_setup)?;
            }
            if let Some(kept) = kept.as_ref().filter(|_| is_first && self.resumes) {
                // The dataset may have moved.
                let as_run = RunDir::new(&kept.directory.path);
                as_run.write_setup(&self.config, path, storage::write_file)?;
            }
            Ok(())
        };
        self.agree(begin())?;
        if let Some(kept) = kept.as_ref().filter(|_| !self.ranks.is_alone()) {
            // The old one, if it is to be replaced.
            let found = match kept.directory.path.join(SETUP).exists() {
                true => kept.directory.begun_with().map(|begun| begun.id()),
                false => Ok("none".into()),
            };
            let id = self.agree(found)?;
            let same = RankError::check_crossvals(&id, &*self.ranks);
            same.map_err(|source| TrainError::Ranks { path: kept.directory.path.clone(), source })?;
        }
        // On several ranks, the first of them replaces the old directory when each has trained a fold.
        let held = if self.replaces && !self.ranks.is_alone() { open.len().min(1) } else { 0 };
        let (held, open) = open.split_at(held);
        let mut trained = self.train_held(held, &folds, kept.as_ref(), observer, stop)?;
        let others = parallel::for_each_job(open, at_once, |&fold| {
            let records = self.records(fold, kept.as_ref())?;
            let Some(mut one) = self.train_fold(fold, &folds, records, observer, stop)? else {
                return Ok(None);
            };
            self.keep(&mut one, kept.as_ref(), observer)?;
            Ok(Some(one.record))
        });
        trained.extend(self.agree(others)?.into_iter().flatten());
        let mut records = finished;
        records.extend(self.collected(trained)?);
        records.sort_by_key(|record| record.fold);
        let seconds = started.elapsed().as_secs_f64();
        let summary = self.summarise(&records, metric, at_once, seconds);
        // Where nothing was left to train, the figures of the last session stay. A summary that is
        // damaged or older than the folds is written again.
        if all_open.is_empty()
            && let Some(Ok(Some(kept))) = self.directory.as_ref().map(CrossvalDir::summary)
            && kept.folds == summary.folds
        {
            if let Some(directory) = self.directory.as_ref().filter(|_| is_first) {
                storage::remove_remains(&directory.summary_file());
            }
            return Ok((kept, records));
        }
        // One that was stopped before its first result does not replace another.
        let written = match kept.filter(|kept| is_first && kept.room.is_made()) {
            Some(kept) => {
                let text = format!("{:#}\n", summary.to_json());
                storage::write_file(&kept.directory.summary_file(), text.as_bytes())
            }
            None => Ok(()),
        };
        self.agree(written.map_err(RunError::from))?;
        Ok((summary, records))
    }

    /// Reserves the directory, if there is one.
    fn claim(&self) -> Result<Option<Claim>, RunError> {
        Ok(match &self.directory {
            Some(directory) if self.resumes => Some(RunDir::new(&directory.path).claim_existing()?),
            Some(directory) => Some(directory.claim(self.replaces)?),
            None => None,
        })
    }

    /// The records of all ranks.
    fn collected(&self, own: Vec<FoldRecord>) -> Result<Vec<FoldRecord>, RunError> {
        if self.ranks.is_alone() {
            return Ok(own);
        }
        let all = self.ranks.gather(serde_json::to_vec(&own).expect("plain data"));
        let read = |text: &Vec<u8>| serde_json::from_slice::<Vec<FoldRecord>>(text);
        let all: Result<Vec<_>, _> = all.iter().map(read).collect();
        let wrong = |error: serde_json::Error| TrainError::OtherRank(error.to_string());
        Ok(all.map_err(wrong)?.into_iter().flatten().collect())
    }

    /// The finished folds of a directory that is resumed, which fit to these.
    fn check_finished(
        &self,
        folds: &Folds,
        begun: &BegunWith,
    ) -> Result<Vec<FoldRecord>, RunError> {
        let mut finished = Vec::new();
        if let Some(directory) = self.directory.as_ref().filter(|_| self.resumes) {
            // Read again: before the directory was reserved, another process may have finished
            // folds or replaced all of it.
            let (begun_with, file) = (directory.begun_with()?, directory.path.join(SETUP));
            let config_file = RunDir::new(&directory.path).config_file();
            begun_with.check(&self.graph, &self.config, &config_file)?;
            begun_with.check_setup(self.setup, &file)?;
            begun_with.check_folds(begun, &file)?;
            begun_with.check_folds_file(&directory.path.join(FOLDS))?;
            finished = directory.finished()?;
            for record in &finished {
                let file = directory.fold_file(record.fold);
                fold_file::check_items(&file, record, folds.parts(record.fold).lengths())?;
                // Finished folds are not written again, so nothing else removes their drafts.
                storage::remove_remains(&file);
                storage::remove_remains(&RunDir::new(directory.fold(record.fold)).model_file());
            }
        }
        Ok(finished)
    }

    /// What is divided into folds.
    fn item(&self) -> &'static str {
        if self.graph.manifest().graphs.is_some() { "graph" } else { "node" }
    }

    /// The folds, and `folds.csv`.
    fn folds(&self) -> Result<(Folds, String), RunError> {
        let path = self.graph.path();
        let (labels, items, ids) = match self.graph.directory().graphs()? {
            Some(graphs) => (folds::labels_of(&graphs, path)?, "graphs", graphs.ids),
            None => {
                let (labels, ids) = (self.graph.labels()?, self.graph.ids()?);
                (labels, "labelled nodes", ids.iter().map(|id| id.to_string()).collect())
            }
        };
        let labels = wanted_labels(labels, self.config.train.task)?;
        let seed = self.config.train.seed;
        let folds = Folds::stratified(&labels, items, self.setup.folds, seed, path)?;
        let texts = csv::Texts::safe_if(self.setup.csv_safe);
        let mut text = format!("{},fold\n", self.item());
        for (item, fold) in folds.of() {
            text += &format!("{},{fold}\n", texts.cell(&ids[item], ','));
        }
        Ok((folds, text))
    }

    /// Trains folds of every rank whose results replace a directory, which the first rank does once
    /// all of them are trained. Nothing is replaced if all were stopped before.
    fn train_held(
        &self,
        held: &[usize],
        folds: &Folds,
        kept: Option<&Kept<'_>>,
        observer: &dyn FoldObserver,
        stop: &AtomicBool,
    ) -> Result<Vec<FoldRecord>, RunError> {
        let train = |&fold: &usize| {
            let waiting = Records::Waiting(Vec::new());
            self.train_fold(fold, folds, waiting, observer, stop).transpose()
        };
        let trained: Result<Vec<TrainedFold>, RunError> = held.iter().filter_map(train).collect();
        let mut trained = self.agree(trained)?;
        if self.ranks.any(!trained.is_empty()) {
            let made = match kept.filter(|_| self.ranks.is_first()) {
                Some(kept) => kept.room.make(kept.write_setup).map(|_| ()),
                None => Ok(()),
            };
            self.agree(made)?;
        }
        let keep = |one: &mut TrainedFold| self.keep(one, kept, observer);
        self.agree(trained.iter_mut().try_for_each(keep))?;
        Ok(trained.into_iter().map(|one| one.record).collect())
    }

    /// Where the records of a fold go.
    fn records(&self, fold: usize, kept: Option<&Kept<'_>>) -> Result<Records, RunError> {
        Ok(match kept {
            Some(kept) if kept.room.is_made() => {
                let files = RunDir::new(kept.directory.fold(fold));
                storage::create_directory(files.path())?;
                let finished = kept.directory.fold_file(fold);
                if finished.symlink_metadata().is_ok() {
                    // A fold with this file is finished, which ends before its records do.
                    storage::remove_file(&finished)?;
                }
                Records::File(MetricsWriter::create(&files.metrics_file())?)
            }
            Some(_) => Records::Waiting(Vec::new()),
            None => Records::Dropped,
        })
    }

    /// Trains a fold; nothing if it was stopped.
    fn train_fold(
        &self,
        fold: usize,
        folds: &Folds,
        records: Records,
        observer: &dyn FoldObserver,
        stop: &AtomicBool,
    ) -> Result<Option<TrainedFold>, RunError> {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let training = FoldTraining {
            dataset: &self.graph,
            config: &self.config,
            svm: self.setup.readout.search(),
            memory: self.memory,
        };
        let mut epochs = FoldEpochs { records, observer, fold };
        let outcome = training.train(fold, folds.parts(fold), &mut epochs, stop)?;
        let FoldOutcome::Finished(record, model) = outcome else { return Ok(None) };
        // Embeddings were computed after the training.
        self.graph.check_unchanged()?;
        Ok(Some(TrainedFold { record: *record, model, records: epochs.records }))
    }

    /// Keeps a trained fold in the directory, if there is one.
    fn keep(
        &self,
        one: &mut TrainedFold,
        kept: Option<&Kept<'_>>,
        observer: &dyn FoldObserver,
    ) -> Result<(), RunError> {
        if let Some(kept) = kept {
            kept.add(one.record.fold, &mut one.records, &one.model, &one.record)?;
        }
        observer.finished(&one.record);
        Ok(())
    }

    fn summarise(
        &self,
        records: &[FoldRecord],
        metric: Metric,
        at_once: usize,
        seconds: f64,
    ) -> CrossvalSummary {
        let without_curve =
            |record: &FoldRecord| FoldRecord { curve: Vec::new(), ..record.clone() };
        CrossvalSummary {
            version: env!("CARGO_PKG_VERSION").into(),
            dataset: CrossvalDataset {
                path: self.graph.path().into(),
                checksum: self.graph.manifest().checksum(),
                not_verified: self.graph.not_verified(),
            },
            machine: CrossvalMachine {
                threads: self.threads,
                folds_at_once: at_once,
                simd: Isa::chosen().name().into(),
                peak_bytes: machine::peak_memory(),
            },
            item: self.item().into(),
            metric,
            folds_asked_for: self.setup.folds,
            summary: Summary::of(records),
            folds: records.iter().map(without_curve).collect(),
            seconds,
        }
    }
}

/// A fold that was trained.
struct TrainedFold {
    record: FoldRecord,
    model: Box<Model>,
    records: Records,
}

/// Where finished folds are kept.
struct Kept<'a> {
    directory: &'a CrossvalDir,
    room: SharedDirectory,
    write_setup: &'a (dyn Fn(&Path) -> Result<(), RunError> + Sync),
    /// The id of the set-up.
    id: String,
}

impl Kept<'_> {
    /// Writes the files of a finished fold. With the first one, a directory appears that replaces
    /// another.
    fn add(
        &self,
        fold: usize,
        records: &mut Records,
        model: &Model,
        record: &FoldRecord,
    ) -> Result<(), RunError> {
        let mut write = |directory: &CrossvalDir| -> Result<(), RunError> {
            let files = RunDir::new(directory.fold(fold));
            let lines = records.write(&files)?;
            model.save(files.model_file())?;
            // Written last, because a fold with this file is finished.
            let own = FoldFiles::of(files.path(), lines)?;
            Ok(fold_file::write(&directory.fold_file(fold), &self.id, own, record)?)
        };
        let is_first = self.room.make(|draft| {
            (self.write_setup)(draft)?;
            write(&CrossvalDir::new(draft))
        })?;
        if is_first { Ok(()) } else { write(self.directory) }
    }
}

/// The records of a fold.
enum Records {
    /// They go to their file.
    File(MetricsWriter),
    /// They wait until the fold has a directory.
    Waiting(Vec<EpochRecord>),
    /// Nothing is kept.
    Dropped,
}

impl Records {
    /// Makes the records of a finished fold durable in its directory.
    fn write(&mut self, files: &RunDir) -> Result<Lines, FormatError> {
        if let Self::Waiting(records) = self {
            storage::create_directory(files.path())?;
            let mut metrics = MetricsWriter::create(&files.metrics_file())?;
            records.iter().try_for_each(|record| metrics.epoch(record))?;
            *self = Self::File(metrics);
        }
        let Self::File(metrics) = self else { return Ok(Lines::default()) };
        metrics.sync_handle()?.sync()?;
        Ok(metrics.lines())
    }
}

/// Writes the records of a fold and passes them on.
struct FoldEpochs<'a> {
    records: Records,
    observer: &'a dyn FoldObserver,
    fold: usize,
}

impl Observer for FoldEpochs<'_> {
    fn epoch(&mut self, record: &EpochRecord) -> ignn_format::Result<()> {
        self.observer.epoch(self.fold, record);
        match &mut self.records {
            Records::File(metrics) => metrics.epoch(record)?,
            Records::Waiting(records) => records.push(record.clone()),
            Records::Dropped => {}
        }
        Ok(())
    }

    fn note(&mut self, text: &str) -> ignn_format::Result<()> {
        self.observer.note(self.fold, text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_of_files_do_not_make_a_cross_validation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine");
        fs::create_dir_all(path.join("fold-0")).unwrap();
        for name in ["config.toml", "dataset.txt", FOLDS, SUMMARY, "fold-0/metrics.jsonl"] {
            fs::write(path.join(name), "mine").unwrap();
        }
        for setup in ["", "mine", "{}", "{\"folds\":2}"] {
            fs::write(path.join(SETUP), setup).unwrap();
            let error = (CROSSVAL.check)(&path).unwrap_err();
            assert!(matches!(error, FormatError::NotReplaceable { .. }), "{setup}: {error}");
        }
        fs::write(path.join(SETUP), "{\"folds\":3,\"readout\":\"model\"}").unwrap();
        (CROSSVAL.check)(&path).unwrap();
    }
}
