//! Directories that are removed at the end of the process.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::operation;
use crate::error::{FormatError, Result};

static ALL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory of its own below the system's temporary one, removed when dropped. Nothing in it is
/// synced.
#[derive(Debug)]
pub struct TemporaryDirectory(PathBuf);

impl TemporaryDirectory {
    /// Creates a directory whose name begins like this.
    pub fn create(name: &str) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("{name}-{}-{count}", std::process::id()));
            match operation::make_directory(&path) {
                Ok(()) => {
                    ALL.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
                    return Ok(Self(path));
                }
                // Left by a process of the same number: take the next name.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(FormatError::io("create", &path)(error)),
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // Errors cannot be reported in a drop, and the system clears its temporary files.
        let _ = operation::remove_tree(&self.0);
        ALL.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != self.0);
    }
}

/// Whether a path is in a temporary directory of this process.
pub(super) fn contains(path: &Path) -> bool {
    ALL.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|root| path.starts_with(root))
}
