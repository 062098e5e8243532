//! Directories that are removed at the end of their process, or by the next one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{DirectoryLock, operation};
use crate::error::{FormatError, Result};

static ALL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory of its own below the system's temporary one, removed when dropped. Nothing in it is
/// synced.
///
/// A process that is killed, or that keeps the directory in a static, does not remove it. Whoever
/// creates the next one does: the directory of a process that has ended is not locked.
#[derive(Debug)]
pub struct TemporaryDirectory {
    path: PathBuf,
    _lock: DirectoryLock,
}

impl TemporaryDirectory {
    /// Creates a directory whose name begins like this, and removes those of dead processes.
    pub fn create(name: &str) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let parent = std::env::temp_dir();
        remove_abandoned(&parent, name);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{name}-{}-{count}", std::process::id()));
            match operation::make_directory(&path) {
                Ok(()) => match DirectoryLock::acquire(&path) {
                    Ok(lock) => {
                        ALL.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
                        return Ok(Self { path, _lock: lock });
                    }
                    // Another process has just taken it for an abandoned one.
                    Err(_) if !path.exists() => {}
                    Err(FormatError::Locked { .. }) => {}
                    Err(error) => return Err(error),
                },
                // Of a process of the same number: take the next name.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(FormatError::io("create", &path)(error)),
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        // Errors cannot be reported in a drop, and the next process tries again.
        let _ = operation::remove_tree(&self.path);
        ALL.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != self.path);
    }
}

/// Removes the directories of processes that have ended. Failures are ignored: it may be the
/// directory of another user.
fn remove_abandoned(parent: &Path, name: &str) {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_named_so = |found: &str| {
        let rest = found.strip_prefix(name).and_then(|rest| rest.strip_prefix('-'));
        let numbers = rest.and_then(|rest| rest.split_once('-'));
        numbers.is_some_and(|(process, count)| is_number(process) && is_number(count))
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_directory || !entry.file_name().to_str().is_some_and(is_named_so) {
            continue;
        }
        let path = entry.path();
        // Where the file system has no locks, nothing is known of the owner.
        if let Ok(file) = fs::File::open(&path)
            && file.try_lock().is_ok()
        {
            let _ = operation::remove_tree(&path);
        }
    }
}

/// Whether a path is in a temporary directory of this process.
pub(super) fn contains(path: &Path) -> bool {
    ALL.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|root| path.starts_with(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_dead_processes_are_removed() {
        let name = format!("ignn-test-{}", std::process::id());
        let beside = |ending: &str| std::env::temp_dir().join(format!("{name}-{ending}"));
        let first = TemporaryDirectory::create(&name).unwrap();
        fs::write(first.path().join("f"), "").unwrap();
        // One that a killed process left, and others that only look like it.
        let (dead, other) = (beside("1-0"), beside("1-x"));
        for path in [&dead, &other] {
            fs::create_dir_all(path.join("in")).unwrap();
        }
        let second = TemporaryDirectory::create(&name).unwrap();
        assert!(!dead.exists() && other.exists());
        assert!(first.path().join("f").exists(), "it is in use");
        fs::remove_dir_all(other).unwrap();
        let paths = [first.path().to_path_buf(), second.path().to_path_buf()];
        drop((first, second));
        assert!(!paths.iter().any(|path| path.exists()));
    }
}
