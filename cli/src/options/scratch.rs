//! The directory for matrices that do not fit in memory.

use std::path::{Path, PathBuf};

use clap::Args;

/// Where scratch files lie.
#[derive(Clone, Debug, Default, Args)]
pub struct ScratchArgs {
    /// Directory for matrices that --memory does not hold [default: beside the output, or here]
    ///
    /// They are in nameless files: nothing is left of them, however the command ends. A local disk,
    /// best one that is fast; not a directory in memory such as /dev/shm. Results do not depend on
    /// it.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

impl ScratchArgs {
    /// The directory: the one that was given, or that of the output, or the current one.
    pub fn directory(&self, output: Option<&Path>) -> PathBuf {
        let beside = output.and_then(Path::parent).filter(|path| !path.as_os_str().is_empty());
        let found = self.scratch.as_deref().or(beside).unwrap_or(Path::new("."));
        // The directory of an output may not exist yet.
        let existing = found.ancestors().find(|path| path.is_dir());
        match (&self.scratch, existing) {
            (None, Some(existing)) => existing.into(),
            (None, None) => ".".into(),
            (Some(_), _) => found.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_that_of_the_output_unless_one_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let none = ScratchArgs::default();
        assert_eq!(none.directory(None), Path::new("."));
        assert_eq!(none.directory(Some(Path::new("run"))), Path::new("."));
        assert_eq!(none.directory(Some(&dir.path().join("run"))), dir.path());
        assert_eq!(none.directory(Some(&dir.path().join("new/run"))), dir.path());
        let given = ScratchArgs { scratch: Some("elsewhere".into()) };
        assert_eq!(given.directory(Some(&dir.path().join("run"))), Path::new("elsewhere"));
    }
}
