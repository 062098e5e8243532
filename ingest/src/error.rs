//! The errors of this package. Each message names the file, the line if there is one, what was
//! found and what was expected.

use std::io;
use std::path::{Path, PathBuf};

use ignn_format::FormatError;

/// Result of this package.
pub type Result<T, E = IngestError> = std::result::Result<T, E>;

/// An error a user can act on.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// A line of a text file is wrong: `edges.txt:17: expected 2 columns, found 1: "42"`.
    #[error("{}:{line}: expected {expected}, found {found}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1, counted after decompression.
        line: u64,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A row of a Parquet table is wrong: `edges.parquet: row 3 (counting from 0): expected an id,
    /// found null`.
    #[error("{}: row {row} (counting from 0): expected {expected}, found {found}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The row, from 0.
        row: u64,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// A file as a whole is wrong: `x.npy: array of 3 dimensions (expected 2)`.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what to do.
        what: String,
    },
    /// A system call failed.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// "open", "read", "write", ...
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Options that contradict each other or the data.
    #[error("{0}")]
    Usage(String),
    /// The dataset could not be written or read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// [`crate::Observer::is_stopped`] asked the job to end.
    #[error("stopped on request")]
    Stopped,
}

impl IngestError {
    /// An error if a job should end.
    pub fn unless_stopped(is_stopped: bool) -> Result<()> {
        if is_stopped { Err(Self::Stopped) } else { Ok(()) }
    }

    /// An [`IngestError::Io`], for `map_err`.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { action, path, source }
    }

    /// An [`IngestError::File`].
    pub fn file(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        Self::File { path: path.as_ref().to_path_buf(), what: what.into() }
    }

    /// The same error with a file, if it names none.
    pub fn about(self, path: impl AsRef<Path>) -> Self {
        match self {
            Self::Usage(what) => Self::file(path, what),
            other => other,
        }
    }

    /// The error for data that needs more memory than it may use: `labels.csv: the labels need 3
    /// MiB or more, but at most 2 MiB may be used for that: raise --memory`.
    pub fn memory(path: impl AsRef<Path>, what: &str, needs: u64, allowed: u64) -> Self {
        let (needs, allowed) = (needs.div_ceil(1 << 20), allowed >> 20);
        let what = format!(
            "{what} need {needs} MiB or more, but at most {allowed} MiB may be used for that: \
             raise --memory"
        );
        Self::file(path, what)
    }

    /// An [`IngestError::Line`].
    pub fn line(
        path: impl AsRef<Path>,
        line: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Line {
            path: path.as_ref().to_path_buf(),
            line,
            expected: expected.into(),
            found: found.into(),
        }
    }

    /// An [`IngestError::Row`].
    pub fn row(
        path: impl AsRef<Path>,
        row: u64,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Row {
            path: path.as_ref().to_path_buf(),
            row,
            expected: expected.into(),
            found: found.into(),
        }
    }
}

/// A piece of input in quotes, for messages: at most 60 bytes, with control characters and invalid
/// UTF-8 escaped.
pub fn quoted(bytes: &[u8]) -> String {
    const MAX_LENGTH: usize = 60;
    let mut text = String::new();
    let mut chunks = bytes[..bytes.len().min(MAX_LENGTH)].utf8_chunks().peekable();
    while let Some(chunk) = chunks.next() {
        let shown = format!("{:?}", chunk.valid());
        text.push_str(&shown[1..shown.len() - 1]);
        // A character that is cut in two by the limit is not an error of the input.
        if bytes.len() <= MAX_LENGTH || chunks.peek().is_some() {
            text.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
        }
    }
    let dots = if bytes.len() > MAX_LENGTH { "..." } else { "" };
    format!("\"{text}\"{dots}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_show_what_is_there() {
        assert_eq!(quoted(b"a\t\"b\" \\"), r#""a\t\"b\" \\""#);
        assert_eq!(quoted(b"\xff\xfe\0z"), r#""\xff\xfe\0z""#);
        assert_eq!(quoted("\u{fc}".as_bytes()), "\"\u{fc}\"");
        assert_eq!(quoted(&[b'x'; 60]), format!("\"{}\"", "x".repeat(60)));
        let long = format!("{}\u{fc}", "x".repeat(59));
        assert_eq!(quoted(long.as_bytes()), format!("\"{}\"...", "x".repeat(59)));
    }
}
