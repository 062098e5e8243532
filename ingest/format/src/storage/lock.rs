//! A lock that allows one process at a time to work in a directory.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::workspace::Parents;
use crate::error::{FormatError, Result};

/// Locks a directory: until it is dropped, no other process works in it. The lock is on the
/// directory itself, so it leaves no file, survives a rename of the directory, and ends with the
/// process.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Locks a directory.
    pub fn acquire(directory: &Path) -> Result<Self> {
        let failed = || FormatError::io("open", directory);
        loop {
            let file = File::open(directory).map_err(failed())?;
            if let Err(TryLockError::WouldBlock) = file.try_lock() {
                return Err(FormatError::Locked { path: directory.into() });
            }
            // Some file systems have no locks; there, other processes are not excluded. In the
            // meantime, the directory may have been replaced by another one of the same name.
            let held = file.metadata().map_err(failed())?;
            let found = directory.metadata().map_err(failed())?;
            if (held.dev(), held.ino()) == (found.dev(), found.ino()) {
                return Ok(Self { _file: file });
            }
        }
    }

    /// Creates a directory with its parents, if it is missing, and locks it.
    pub fn create(directory: &Path) -> Result<Self> {
        if directory.exists() && !directory.is_dir() {
            return Err(FormatError::invalid(directory, "output", "a file", "a directory"));
        }
        Parents::create(directory)?.keep()?;
        Self::acquire(directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let held = DirectoryLock::create(&path).unwrap();
        assert!(matches!(DirectoryLock::acquire(&path), Err(FormatError::Locked { .. })));
        let renamed = dir.path().join("c");
        std::fs::rename(&path, &renamed).unwrap();
        assert!(matches!(DirectoryLock::create(&renamed), Err(FormatError::Locked { .. })));
        drop(held);
        DirectoryLock::acquire(&renamed).unwrap();
    }
}
