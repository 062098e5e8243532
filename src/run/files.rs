//! Rules for every directory that the program fills over time: one process at a time, small files
//! written whole, and nothing removed that the program did not write.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use ignn_format::{FormatError, regular};

use super::RunError;

/// Largest small file of a run that is read back: configurations, setups, summaries, folds.
pub const MOST_BYTES: u64 = 256 << 20;

/// Reads a small file of a run.
pub fn read_whole(path: &Path) -> Result<String, FormatError> {
    regular::read_text(path, MOST_BYTES)
}

/// Extension of a file that is not complete yet.
const DRAFT: &str = "part";

/// Holds a directory: as long as it lives, no other process works in it.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Creates the directory if it is missing and locks it (`flock`).
    pub fn acquire(directory: &Path) -> Result<Self, RunError> {
        fs::create_dir_all(directory).map_err(FormatError::io("create", directory))?;
        let file = File::open(directory).map_err(FormatError::io("open", directory))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Err(RunError::Locked { path: directory.into() }),
            // Some file systems have no locks: then no process is kept out.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self { _file: file }),
        }
    }
}

/// Writes a small file so that it is there whole or not at all.
pub fn write_whole(path: &Path, text: &str) -> Result<(), FormatError> {
    let draft = path.with_extension(DRAFT);
    let written = fs::write(&draft, text).and_then(|()| fs::rename(&draft, path));
    written.map_err(FormatError::io("write", path))
}

/// Whether a name is that of one of these files or of its draft, as [`write_whole`] leaves them.
pub fn is_written(files: &[&str], name: &str) -> bool {
    let name = Path::new(name);
    files.iter().map(Path::new).any(|file| file == name || file.with_extension(DRAFT) == name)
}

/// Refuses a directory in which any name is not the program's own, so that replacing the directory
/// cannot remove a user's file.
pub fn check_names(
    directory: &Path,
    what: &'static str,
    is_own: impl Fn(&str) -> bool,
) -> Result<(), RunError> {
    let entries = fs::read_dir(directory).map_err(FormatError::io("read", directory))?;
    let mut names: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    match names.iter().find(|name| !is_own(name)) {
        Some(name) => Err(RunError::ForeignFile { path: directory.join(name), what }),
        None => Ok(()),
    }
}

/// Whether a path is a directory without entries.
pub fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_holder() {
        let dir = tempfile::tempdir().unwrap();
        let held = DirectoryLock::acquire(dir.path()).unwrap();
        assert!(matches!(DirectoryLock::acquire(dir.path()), Err(RunError::Locked { .. })));
        drop(held);
        DirectoryLock::acquire(dir.path()).unwrap();
    }

    #[test]
    fn files_are_recognised_with_their_drafts() {
        let dir = tempfile::tempdir().unwrap();
        write_whole(&dir.path().join("run.json"), "{}").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("run.json")).unwrap(), "{}");
        assert!(is_written(&["run.json"], "run.json") && is_written(&["run.json"], "run.part"));
        assert!(!is_written(&["run.json"], "run.txt"));
        assert!(check_names(dir.path(), "a run", |name| name == "run.json").is_ok());
        let error = check_names(dir.path(), "a run", |_| false).unwrap_err().to_string();
        let expected = "run.json: not a file of a run: --force would remove it: move it away first";
        assert!(error.ends_with(expected), "{error}");
    }
}
