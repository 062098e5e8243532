//! What can go wrong with a run directory: one enum, each message with its path and what to do.

use std::path::PathBuf;

use ignn_format::FormatError;

use crate::config::ConfigError;
use crate::models::SavedError;
use crate::parallel::Ranks;
use crate::solver::projection::ProjectionError;
use crate::train::TrainError;
use crate::train::folds::FoldError;

/// Why a run cannot start, continue or be read.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A file or directory.
    #[error(transparent)]
    File(#[from] FormatError),
    /// Training itself.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// Graphs that cannot be divided into folds.
    #[error(transparent)]
    Folds(#[from] FoldError),
    /// The configuration of the run.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The model that a run was to start from.
    #[error(transparent)]
    Init(#[from] SavedError),
    /// The same, with weights that cannot be projected.
    #[error("{}: {source}", path.display())]
    InitWeights {
        /// The model's file.
        path: PathBuf,
        /// What is wrong.
        source: ProjectionError,
    },
    /// A directory that is not a run.
    #[error("{}: not a run directory (expected {expected} in it)", path.display())]
    NotARun {
        /// The directory.
        path: PathBuf,
        /// The missing file.
        expected: &'static str,
    },
    /// A directory that is not a cross-validation.
    #[error(
        "{}: not the directory of a cross-validation (expected {expected} in it)",
        path.display()
    )]
    NotACrossval {
        /// The directory.
        path: PathBuf,
        /// The missing file.
        expected: &'static str,
    },
    /// A cross-validation that was stopped before it wrote any figures.
    #[error(
        "{}: no figures yet (expected {}): continue it with `ignn crossval --resume`",
        path.display(), expected.display()
    )]
    NoFigures {
        /// The directory.
        path: PathBuf,
        /// The missing file.
        expected: PathBuf,
    },
    /// A cross-validation beside a run, which have no page in common.
    #[error(
        "{}: a cross-validation, and {}: none (expected one or the other): write a page for each",
        crossval.display(), other.display()
    )]
    TwoKinds {
        /// The cross-validation.
        crossval: PathBuf,
        /// The other directory.
        other: PathBuf,
    },
    /// A directory with one run per seed, where one run is needed.
    #[error(
        "{}: several runs, one for each seed: resume one of them, such as {}",
        path.display(), example.display()
    )]
    SeveralSeeds {
        /// The directory.
        path: PathBuf,
        /// One of its runs.
        example: PathBuf,
    },
    /// `dataset.txt` names no dataset.
    #[error(
        "{}: missing or empty (expected the path of a dataset): give DATASET as well",
        path.display()
    )]
    NoDatasetPath {
        /// The file.
        path: PathBuf,
    },
    /// Records that are not those of the checkpoint.
    #[error(
        "{}: {what} (found {found}, expected {expected}, as in {}): restore the file, or train \
         again with --force",
        path.display(), checkpoint.display()
    )]
    OtherRecords {
        /// `metrics.jsonl`.
        path: PathBuf,
        /// What differs.
        what: Box<str>,
        /// What the records have.
        found: String,
        /// What the checkpoint has.
        expected: String,
        /// The checkpoint.
        checkpoint: PathBuf,
    },
    /// Nothing to resume from.
    #[error(
        "{}: the run ended before its first checkpoint: train again with --force",
        path.display()
    )]
    NoCheckpoint {
        /// The run directory.
        path: PathBuf,
    },
    /// Fewer epochs than the run has already completed.
    #[error(
        "{}: the run is at epoch {epoch}: found {epochs} epochs, expected {epoch} or more",
        path.display()
    )]
    TooFewEpochs {
        /// The run directory.
        path: PathBuf,
        /// Epochs requested.
        epochs: u64,
        /// Epochs completed.
        epoch: u64,
    },
}

impl RunError {
    /// A result that another rank may not have.
    pub(super) fn agree<T>(ranks: &dyn Ranks, result: Result<T, Self>) -> Result<T, Self> {
        ranks.agree(result, |message| TrainError::OtherRank(message).into())
    }
}
