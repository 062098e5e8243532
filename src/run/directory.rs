//! A run directory: the names of its files, how they are read back, and when it may be replaced.
//!
//! | file | what |
//! | --- | --- |
//! | `config.toml` | the resolved configuration |
//! | `dataset.txt` | path of the dataset, as [`path_text`] writes it |
//! | `metrics.jsonl` | one [`EpochRecord`] per line |
//! | `tensorboard/` | event files, one per session |
//! | `checkpoint/state.safetensors` | everything a resumed run needs |
//! | `model.safetensors` | the model of the best epoch |
//! | `run.json` | a [`RunSummary`], written at the end |
//!
//! Runs that differ in their seed only are directories `seed-0`, `seed-1`, ... of one directory.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use ignn_format::FormatError;
use ignn_format::storage::{self, DirectoryLock, Kind, Staging};

use super::metrics_file::Recorded;
use super::{RunError, RunSummary, files, path_text, tensorboard};
use crate::config::Config;
use crate::predict;
use crate::train::{EpochRecord, checkpoint};

const CONFIG: &str = "config.toml";
const DATASET: &str = "dataset.txt";
pub(super) const METRICS: &str = "metrics.jsonl";
const SUMMARY: &str = "run.json";
const TENSORBOARD: &str = "tensorboard";
const CHECKPOINT: &str = "checkpoint";

/// Runs, and directories of runs that differ in their seed.
pub static RUN: Kind = Kind { check: check_replaceable };

fn check_replaceable(directory: &Path) -> Result<(), FormatError> {
    let run = RunDir::new(directory);
    let runs = run.runs();
    if runs.is_empty() || !runs.iter().all(RunDir::is_set_up) {
        return Err(storage::not_replaceable(directory, "a run directory"));
    }
    let is_seeds = !run.is_run();
    storage::check_contents(directory, "a run", &|path| match path.split_once('/') {
        Some((seed, "")) if is_seeds => is_seed(seed),
        Some((seed, path)) if is_seeds => is_seed(seed) && is_own(path),
        _ => !is_seeds && is_own(path),
    })
}

/// Whether a run has a file or directory of this name.
fn is_own(path: &str) -> bool {
    let files = [CONFIG, DATASET, METRICS, SUMMARY, predict::MODEL];
    match path.split_once('/') {
        Some((TENSORBOARD, file)) => file.is_empty() || tensorboard::is_event_file(file),
        Some((CHECKPOINT, file)) => file.is_empty() || file == checkpoint::STATE,
        _ => files.contains(&path),
    }
}

fn is_seed(name: &str) -> bool {
    name.strip_prefix("seed-").is_some_and(|seed| seed.parse::<u64>().is_ok())
}

/// The directory of a run, reserved for this process.
#[derive(Debug)]
pub(super) enum Claim {
    /// A directory that is not complete yet, and the locks of the runs that it replaces.
    New(Staging, Vec<DirectoryLock>),
    /// An existing one that is continued.
    Existing(DirectoryLock),
}

impl Claim {
    /// Makes a new directory visible in one step, with what `write` puts into it. It is locked from
    /// the start.
    pub(super) fn begin<E: From<FormatError>>(
        self,
        write: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<DirectoryLock, E> {
        match self {
            Self::Existing(lock) => Ok(lock),
            Self::New(staging, _replaced) => {
                write(staging.path())?;
                let lock = DirectoryLock::acquire(staging.path())?;
                staging.commit()?;
                Ok(lock)
            }
        }
    }
}

/// A directory that several jobs share, the runs with different seeds or the folds of a
/// cross-validation: the first that has something to put into it makes it.
#[derive(Debug)]
pub(super) struct SharedDirectory {
    path: PathBuf,
    state: Mutex<Shared>,
}

#[derive(Debug)]
enum Shared {
    Claimed(Claim),
    Made(#[expect(dead_code, reason = "held, not read")] DirectoryLock),
    MadeElsewhere,
    Failed(String),
}

impl SharedDirectory {
    /// A directory that is reserved for this process; without a claim, one that another rank has
    /// made.
    pub fn new(path: &Path, claim: Option<Claim>) -> Self {
        let state = claim.map_or(Shared::MadeElsewhere, Shared::Claimed);
        Self { path: path.into(), state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, Shared> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it has been made.
    pub fn is_made(&self) -> bool {
        matches!(*self.state(), Shared::Made(_) | Shared::MadeElsewhere)
    }

    /// Makes the directory, visible in one step with what `fill` puts into it, and in place of an
    /// older one. Does nothing and returns false if a job has already made it.
    pub fn make<E: From<FormatError> + Display>(
        &self,
        fill: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<bool, E> {
        let mut state = self.state();
        let claim = match &*state {
            Shared::Made(_) | Shared::MadeElsewhere => return Ok(false),
            // Nothing may be written to an older directory that stays.
            Shared::Failed(text) => {
                let earlier = io::Error::other(text.clone());
                return Err(FormatError::io("create", &self.path)(earlier).into());
            }
            Shared::Claimed(_) => std::mem::replace(&mut *state, Shared::Failed(String::new())),
        };
        let Shared::Claimed(claim) = claim else { return Ok(false) };
        let made = claim.begin(fill);
        *state = match made {
            Ok(lock) => Shared::Made(lock),
            Err(error) => {
                *state = Shared::Failed(error.to_string());
                return Err(error);
            }
        };
        Ok(true)
    }
}

/// The directory of one run. It need not exist yet.
///
/// ```
/// use ignn::run::RunDir;
///
/// let run = RunDir::new("runs/cora");
/// assert_eq!(run.metrics_file(), std::path::Path::new("runs/cora/metrics.jsonl"));
/// assert!(run.open_existing().is_err(), "nothing was trained here");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// A run directory at this path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Reserves this directory for a new run. An existing one that is not empty is refused, unless
    /// it is of the kind `replaces` and no process is using it.
    pub(super) fn claim(&self, replaces: Option<&'static Kind>) -> Result<Claim, FormatError> {
        let staging = Staging::create(&self.path, replaces)?;
        let mut old = Vec::new();
        if self.path.is_dir() {
            let all = self.seeds().into_iter().chain([self.clone()]);
            old = all.map(|run| DirectoryLock::acquire(&run.path)).collect::<Result<_, _>>()?;
        }
        Ok(Claim::New(staging, old))
    }

    /// Reserves this directory to continue the run in it.
    pub(super) fn claim_existing(&self) -> Result<Claim, FormatError> {
        let lock = DirectoryLock::acquire(&self.path)?;
        storage::remove_remains(&self.path);
        Ok(Claim::Existing(lock))
    }

    /// This directory, if it holds a run.
    pub fn open_existing(&self) -> Result<&Self, RunError> {
        if self.is_run() {
            return Ok(self);
        }
        match self.seeds().last() {
            Some(last) => {
                Err(RunError::SeveralSeeds { path: self.path.clone(), example: last.path.clone() })
            }
            None => Err(RunError::NotARun { path: self.path.clone(), expected: CONFIG }),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `config.toml`.
    pub fn config_file(&self) -> PathBuf {
        self.path.join(CONFIG)
    }

    /// `dataset.txt`.
    pub fn dataset_file(&self) -> PathBuf {
        self.path.join(DATASET)
    }

    /// `metrics.jsonl`.
    pub fn metrics_file(&self) -> PathBuf {
        self.path.join(METRICS)
    }

    /// `run.json`.
    pub fn summary_file(&self) -> PathBuf {
        self.path.join(SUMMARY)
    }

    /// `model.safetensors`.
    pub fn model_file(&self) -> PathBuf {
        self.path.join(predict::MODEL)
    }

    /// `checkpoint/state.safetensors`.
    pub fn checkpoint_file(&self) -> PathBuf {
        checkpoint::path(&self.path)
    }

    /// The directory of TensorBoard's event files.
    pub fn tensorboard(&self) -> PathBuf {
        self.path.join(TENSORBOARD)
    }

    /// Whether a run was started here.
    pub fn is_run(&self) -> bool {
        self.config_file().is_file()
    }

    /// Whether the program set it up: a user may have files `config.toml` and `dataset.txt` as well,
    /// but not with settings of this program. A run that was killed while an older version set it up
    /// has only the former, exactly as the program writes it.
    fn is_set_up(&self) -> bool {
        let is_resolved = |config: &Config| {
            fs::read_to_string(self.config_file()).is_ok_and(|text| text == config.to_toml())
        };
        self.config().is_ok_and(|config| self.dataset_file().is_file() || is_resolved(&config))
    }

    /// The run's configuration.
    pub fn config(&self) -> Result<Config, RunError> {
        let file = self.config_file();
        let text = files::read_whole(&file)?;
        Ok(Config::from_toml(&text, &file)?)
    }

    /// The path of the run's dataset.
    pub fn dataset(&self) -> Result<PathBuf, RunError> {
        let file = self.dataset_file();
        if !file.exists() {
            return Err(RunError::NoDatasetPath { path: file });
        }
        let text = files::read_whole(&file)?;
        match text.trim_end_matches(['\n', '\r']) {
            "" => Err(RunError::NoDatasetPath { path: file }),
            path => Ok(path_text::path(path)),
        }
    }

    /// Writes configuration and dataset's path, which is made absolute, with one of the functions
    /// of [`storage`].
    pub(super) fn write_setup(
        &self,
        config: &Config,
        dataset: &Path,
        write: impl Fn(&Path, &[u8]) -> ignn_format::Result<()>,
    ) -> Result<(), FormatError> {
        let dataset = std::path::absolute(dataset).unwrap_or_else(|_| dataset.into());
        write(&self.dataset_file(), format!("{}\n", path_text::of(&dataset)).as_bytes())?;
        // Last: a directory with a configuration is a run.
        write(&self.config_file(), config.to_toml().as_bytes())
    }

    /// The records of all epochs so far.
    pub fn records(&self) -> Result<Vec<EpochRecord>, RunError> {
        Ok(Recorded::read(&self.metrics_file())?.records)
    }

    /// `run.json`; `None` while the run has not ended.
    pub fn summary(&self) -> Result<Option<RunSummary>, RunError> {
        let file = self.summary_file();
        if !file.is_file() {
            return Ok(None);
        }
        let text = files::read_whole(&file)?;
        let summary = serde_json::from_str(&text).map_err(|error| {
            FormatError::invalid(&self.path, SUMMARY, error.to_string(), "the summary of a run")
        });
        Ok(Some(summary?))
    }

    /// The run with this seed in a directory of several seeds.
    pub fn seed(&self, seed: u64) -> Self {
        Self::new(self.path.join(format!("seed-{seed}")))
    }

    /// The runs of a directory of several seeds; none where anything else is in it.
    pub fn seeds(&self) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(&self.path) else { return Vec::new() };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| !storage::is_draft(path));
        // By length first: seed 10 comes after seed 9.
        paths.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        let is_seed = |run: &Self| {
            run.path.file_name().and_then(|name| name.to_str()).is_some_and(is_seed) && run.is_run()
        };
        let runs: Vec<Self> = paths.into_iter().map(Self::new).collect();
        if runs.iter().all(is_seed) { runs } else { Vec::new() }
    }

    /// The run itself, or its seeds; empty if there is neither.
    pub fn runs(&self) -> Vec<Self> {
        if self.is_run() { vec![self.clone()] } else { self.seeds() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(path: &Path) -> RunDir {
        fs::create_dir_all(path).unwrap();
        let run = RunDir::new(path);
        run.write_setup(&Config::default(), Path::new("/data/cora.ignn"), storage::write_new)
            .unwrap();
        run
    }

    #[test]
    fn setup_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let run = started(&dir.path().join("run"));
        assert_eq!(run.config().unwrap(), Config::default());
        assert_eq!(run.dataset().unwrap(), Path::new("/data/cora.ignn"));
        assert!(run.summary().unwrap().is_none());
        fs::write(run.dataset_file(), "\n").unwrap();
        assert!(matches!(run.dataset(), Err(RunError::NoDatasetPath { .. })));
    }

    #[test]
    fn seeds_are_runs_in_the_order_of_their_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let all = RunDir::new(dir.path());
        for seed in [10, 9, 2] {
            started(all.seed(seed).path());
        }
        assert_eq!(all.runs(), [2, 9, 10].map(|seed| all.seed(seed)));
        assert!(matches!(all.open_existing(), Err(RunError::SeveralSeeds { .. })));
        fs::write(dir.path().join("notes.txt"), "").unwrap();
        assert!(all.runs().is_empty());
        assert!(matches!(all.open_existing(), Err(RunError::NotARun { .. })));
    }

    #[test]
    fn only_what_a_run_wrote_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let run = started(&dir.path().join("run"));
        fs::write(run.metrics_file(), "").unwrap();
        fs::create_dir_all(run.path().join(".model.safetensors.ignn-draft/ignn-new")).unwrap();
        fs::create_dir_all(run.path().join("tensorboard")).unwrap();
        fs::write(run.path().join("tensorboard/events.out.tfevents.7.host"), "").unwrap();
        for foreign in ["thesis.tex", "tensorboard/thesis.tex"] {
            fs::write(run.path().join(foreign), "").unwrap();
            assert!(matches!((RUN.check)(run.path()), Err(FormatError::Foreign { .. })));
            fs::remove_file(run.path().join(foreign)).unwrap();
        }
        (RUN.check)(run.path()).unwrap();
        // One that was killed while an older version set it up.
        fs::remove_file(run.dataset_file()).unwrap();
        (RUN.check)(run.path()).unwrap();
        let error = (RUN.check)(dir.path()).unwrap_err();
        assert!(matches!(error, FormatError::NotReplaceable { .. }), "{error}");
    }
}
