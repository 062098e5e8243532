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

use std::fs;
use std::path::{Path, PathBuf};

use ignn_format::FormatError;

use super::files::{self, DirectoryLock};
use super::{RunError, RunSummary, metrics_file, path_text};
use crate::config::Config;
use crate::predict;
use crate::train::{EpochRecord, checkpoint};

const CONFIG: &str = "config.toml";
const DATASET: &str = "dataset.txt";
const METRICS: &str = "metrics.jsonl";
const SUMMARY: &str = "run.json";
const TENSORBOARD: &str = "tensorboard";
const CHECKPOINT: &str = "checkpoint";

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

    /// Creates the directory if it is missing and locks it.
    pub fn lock(&self) -> Result<DirectoryLock, RunError> {
        DirectoryLock::acquire(&self.path)
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
            return Err(RunError::NotARun { path: self.path.clone(), expected: DATASET });
        }
        let text = files::read_whole(&file)?;
        match text.trim_end_matches(['\n', '\r']) {
            "" => Err(RunError::NoDatasetPath { path: file }),
            path => Ok(path_text::path(path)),
        }
    }

    /// Writes configuration and dataset's path; the latter is made absolute.
    pub fn write_setup(&self, config: &Config, dataset: &Path) -> Result<(), RunError> {
        files::write_whole(&self.config_file(), &config.to_toml())?;
        let dataset = std::path::absolute(dataset).unwrap_or_else(|_| dataset.into());
        Ok(files::write_whole(&self.dataset_file(), &format!("{}\n", path_text::of(&dataset)))?)
    }

    /// The records of all epochs so far.
    pub fn records(&self) -> Result<Vec<EpochRecord>, RunError> {
        Ok(metrics_file::read(&self.metrics_file())?)
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
        // By length first: seed 10 comes after seed 9.
        paths.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
        let is_seed = |run: &Self| {
            let name = run.path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with("seed-") && run.is_run()
        };
        let runs: Vec<Self> = paths.into_iter().map(Self::new).collect();
        if runs.iter().all(is_seed) { runs } else { Vec::new() }
    }

    /// The run itself, or its seeds; empty if there is neither.
    pub fn runs(&self) -> Vec<Self> {
        if self.is_run() { vec![self.clone()] } else { self.seeds() }
    }

    /// Whether the directory is there and not empty.
    pub fn is_occupied(&self) -> bool {
        self.path.exists() && !files::is_empty(&self.path)
    }

    /// Refuses a directory that holds anything but a run, or runs of several seeds.
    pub fn check_replaceable(&self) -> Result<(), RunError> {
        let runs = match self.seeds() {
            none if none.is_empty() => vec![self.clone()],
            seeds => seeds,
        };
        for run in runs {
            if !run.config_file().is_file() || !run.dataset_file().is_file() {
                let what = "a run directory";
                return Err(RunError::NotReplaceable { path: self.path.clone(), what });
            }
            files::check_names(&run.path, "a run", is_own_name)?;
        }
        Ok(())
    }

    /// Removes a run, or the runs of several seeds, unless another process works in it. Refuses
    /// what [`RunDir::check_replaceable`] refuses.
    pub fn remove(&self) -> Result<(), RunError> {
        self.check_replaceable()?;
        let mut all = vec![self.clone()];
        all.extend(self.seeds());
        let _locks = all.iter().map(Self::lock).collect::<Result<Vec<_>, _>>()?;
        Ok(fs::remove_dir_all(&self.path).map_err(FormatError::io("remove", &self.path))?)
    }
}

/// Whether a run writes files of this name.
fn is_own_name(name: &str) -> bool {
    let is_model_draft = name.starts_with(&format!(".{}.ignn-", predict::MODEL));
    is_model_draft
        || [METRICS, TENSORBOARD, CHECKPOINT, predict::MODEL].contains(&name)
        || files::is_written(&[CONFIG, DATASET, SUMMARY], name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(path: &Path) -> RunDir {
        fs::create_dir_all(path).unwrap();
        let run = RunDir::new(path);
        run.write_setup(&Config::default(), Path::new("/data/cora.ignn")).unwrap();
        run
    }

    #[test]
    fn setup_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let run = started(&dir.path().join("run"));
        assert_eq!(run.config().unwrap(), Config::default());
        assert_eq!(run.dataset().unwrap(), Path::new("/data/cora.ignn"));
        assert!(run.summary().unwrap().is_none() && run.is_occupied());
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
    fn only_what_a_run_wrote_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let run = started(&dir.path().join("run"));
        fs::write(run.metrics_file(), "").unwrap();
        fs::write(run.path().join(".model.safetensors.ignn-7"), "").unwrap();
        fs::write(run.path().join("thesis.tex"), "").unwrap();
        assert!(matches!(run.remove(), Err(RunError::ForeignFile { .. })));
        fs::remove_file(run.path().join("thesis.tex")).unwrap();
        run.remove().unwrap();
        assert!(!run.path().exists());
        let other = RunDir::new(dir.path());
        assert!(matches!(other.remove(), Err(RunError::NotReplaceable { .. })));
    }
}
