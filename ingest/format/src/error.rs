//! The errors of this package.

use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

/// Result of this package.
pub type Result<T, E = FormatError> = std::result::Result<T, E>;

/// An error with its place and, if there is one, the command that helps.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// A system call failed.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// What was being done: "open", "write", "rename", ...
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file does not have the required content.
    #[error("{}: {what} (found {found}, expected {expected})", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Which part of it.
        what: String,
        /// What is there.
        found: String,
        /// What should be.
        expected: String,
    },
    /// A file of a dataset is not what was written.
    #[error("{}: {what}: the dataset is damaged: `ignn check {}` shows the details",
            path.display(), dataset.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// The dataset directory.
        dataset: PathBuf,
    },
    /// A file of a dataset that somebody wrote to while it was in use.
    #[error(
        "{}: the file was changed while it was in use, and no result is written: check the dataset \
         with `ignn check`, and start again; a run continues with --resume",
        path.display()
    )]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A dataset written by another version of the format.
    #[error("{}: dataset format version {found} (this program reads up to version {supported}): ingest \
             the raw files again", path.display())]
    Version {
        /// The manifest or array file.
        path: PathBuf,
        /// The version there.
        found: u32,
        /// The version this program reads.
        supported: u32,
    },
    /// The directory is not a dataset.
    #[error("{}: not an ignn dataset: {why}", path.display())]
    NotADataset {
        /// The directory.
        path: PathBuf,
        /// What is missing.
        why: String,
    },
    /// The dataset has no such part.
    #[error("{}: the dataset has no {what}{hint}", path.display())]
    Missing {
        /// The dataset directory.
        path: PathBuf,
        /// "features", "labels", "relation \"cites\"", ...
        what: String,
        /// How to get it, with a leading separator, or empty.
        hint: String,
    },
    /// The output is already there.
    #[error("{}: already exists: choose another name, or pass --force to replace it", path.display())]
    Exists {
        /// The target.
        path: PathBuf,
    },
    /// Another live process is writing the same target.
    #[error("{}: another run is writing this target (lock held on {}): wait for it, or choose \
             another name", target.display(), lock.display())]
    Busy {
        /// The target.
        target: PathBuf,
        /// The lock file of the other run.
        lock: PathBuf,
    },
    /// Another process works in the directory.
    #[error(
        "{}: another process is using it: wait until it ends, or stop it first",
        path.display()
    )]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// A file or directory that must not be replaced.
    #[error(
        "{}: not {what}{holds}: --force replaces only what ignn made: choose another name",
        path.display()
    )]
    NotReplaceable {
        /// The file or directory.
        path: PathBuf,
        /// "a run directory".
        what: Box<str>,
        /// The first name in it, in parentheses after a space, or empty.
        holds: String,
    },
    /// A file in a directory to be replaced that the program did not write.
    #[error(
        "{}: not a file of {what}: --force would remove it: move it away first",
        path.display()
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// "a run".
        what: &'static str,
    },
    /// The Parquet library could not read or write a file.
    #[error("{}: damaged Parquet file: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The library's error.
        source: ParquetError,
    },
}

impl FormatError {
    /// The file or directory of the error.
    pub fn path(&self) -> &Path {
        match self {
            Self::Io { path, .. }
            | Self::Invalid { path, .. }
            | Self::Damaged { path, .. }
            | Self::Changed { path }
            | Self::Version { path, .. }
            | Self::NotADataset { path, .. }
            | Self::Missing { path, .. }
            | Self::Exists { path }
            | Self::Busy { target: path, .. }
            | Self::Locked { path }
            | Self::NotReplaceable { path, .. }
            | Self::Foreign { path, .. }
            | Self::Parquet { path, .. } => path,
        }
    }

    /// An [`FormatError::Io`], for `map_err`.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { action, path, source }
    }

    /// A [`FormatError::Parquet`], for `map_err` when a file is read.
    pub fn parquet(path: impl AsRef<Path>) -> impl FnOnce(ParquetError) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Parquet { path, source }
    }

    /// The same when a file is written. The library wraps system errors such as a full disk; they
    /// are unwrapped, because the system's message says more.
    pub fn parquet_written(path: impl AsRef<Path>) -> impl FnOnce(ParquetError) -> Self {
        let path = path.as_ref().to_path_buf();
        move |error| match error {
            ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(source) => Self::Io { action: "write", path, source: *source },
                Err(inner) => Self::Parquet { path, source: ParquetError::External(inner) },
            },
            source => Self::Parquet { path, source },
        }
    }

    /// The error for a file whose extension no writer knows; `expected` lists those that are known.
    pub fn ending(path: impl AsRef<Path>, expected: &str) -> Self {
        let ending = path.as_ref().extension();
        let found = ending.map_or("none".into(), |ending| format!("{ending:?}"));
        Self::invalid(path, "file extension", found, expected)
    }

    /// A [`FormatError::Invalid`] from its four parts.
    #[allow(clippy::needless_pass_by_value)] // Numbers and texts alike are easier to pass by value.
    pub fn invalid(
        path: impl AsRef<Path>,
        what: impl Into<String>,
        found: impl ToString,
        expected: impl ToString,
    ) -> Self {
        Self::Invalid {
            path: path.as_ref().to_path_buf(),
            what: what.into(),
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }
}
