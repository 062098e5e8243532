//! Directories that are removed at the end of their process, or by the next one.

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{DirectoryLock, OutputFile, is_draft, operation};
use crate::error::{FormatError, Result};
use crate::regular;

/// A file in each of them, and its content.
const MARK: &str = "ignn-temporary";
const MARK_TEXT: &str = "made by ignn, which removes this directory\n";

static ALL: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory of its own below the system's temporary one, removed when dropped. Nothing in it is
/// synced.
///
/// A process that is killed, or that keeps the directory in a static, does not remove it. Whoever
/// creates the next one does: the directory of a process that has ended is not locked. Directories
/// of another user, without the mark, or with anything else in them stay. A process that was forked
/// off has the directory of its parent, and does not remove it.
#[derive(Debug)]
pub struct TemporaryDirectory {
    path: PathBuf,
    owner: u32,
    _lock: DirectoryLock,
}

impl TemporaryDirectory {
    /// Creates a directory whose name begins like this, for a file or directory called `content`,
    /// and removes those of dead processes.
    pub fn create(name: &str, content: &str) -> Result<Self> {
        let created = Self::create_unmarked(name)?;
        let path = created.path.join(MARK);
        let mut mark = OutputFile::create_new(&path)?;
        mark.write_all(MARK_TEXT.as_bytes()).map_err(FormatError::io("write", &path))?;
        remove_abandoned(&created.path, name, content);
        Ok(created)
    }

    fn create_unmarked(name: &str) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let parent = std::env::temp_dir();
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{name}-{}-{count}", std::process::id()));
            match operation::make_directory(&path) {
                Ok(()) => match DirectoryLock::acquire(&path) {
                    Ok(lock) => {
                        ALL.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
                        return Ok(Self { path, owner: std::process::id(), _lock: lock });
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
        if self.owner != std::process::id() {
            return;
        }
        // Errors cannot be reported in a drop, and the next process tries again.
        let _ = operation::remove_tree(&self.path);
        ALL.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != self.path);
    }
}

/// Removes the directories of processes that have ended, which are beside an own one. Failures are
/// ignored: the next process tries again.
fn remove_abandoned(own: &Path, name: &str, content: &str) {
    let (Some(parent), Ok(own)) = (own.parent(), own.metadata()) else { return };
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
            && file.metadata().is_ok_and(|found| found.uid() == own.uid())
            && has_only(&path, content)
        {
            let _ = operation::remove_tree(&path);
        }
    }
}

/// Whether a directory has the mark, and nothing beside it but the content and its drafts.
fn has_only(directory: &Path, content: &str) -> bool {
    let mark = directory.join(MARK);
    let is_marked = !mark.is_symlink()
        && regular::read(&mark, MARK_TEXT.len() as u64).is_ok_and(|it| it == MARK_TEXT.as_bytes());
    let is_own = |entry: std::io::Result<fs::DirEntry>| {
        entry.is_ok_and(|entry| {
            let name = entry.file_name();
            name == MARK || name == content || is_draft(&entry.path())
        })
    };
    is_marked && fs::read_dir(directory).is_ok_and(|mut entries| entries.all(is_own))
}

/// Whether a path is in a temporary directory of this process.
pub(super) fn contains(path: &Path) -> bool {
    ALL.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|root| path.starts_with(root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_parent_process_stays() {
        let mut created = TemporaryDirectory::create("ignn-test-forked", "in").unwrap();
        let (path, own) = (created.path().to_path_buf(), created.owner);
        created.owner = own + 1;
        drop(created);
        assert!(path.exists());
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn directories_of_dead_processes_are_removed() {
        let name = format!("ignn-test-{}", std::process::id());
        let beside = |ending: &str| std::env::temp_dir().join(format!("{name}-{ending}"));
        let first = TemporaryDirectory::create(&name, "in").unwrap();
        fs::write(first.path().join("f"), "").unwrap();
        // One that a killed process left, and others that only look like it: by another name,
        // without a mark, with another mark, and with a file of the user.
        let endings = ["1-0", "1-x", "2026-11", "2026-12", "2026-13"];
        let [dead, named, unmarked, differs, used] = endings.map(beside);
        for path in [&dead, &named, &unmarked, &differs, &used] {
            fs::create_dir_all(path.join("in")).unwrap();
            fs::write(path.join(MARK), MARK_TEXT).unwrap();
        }
        fs::remove_file(unmarked.join(MARK)).unwrap();
        fs::write(differs.join(MARK), "mine\n").unwrap();
        fs::write(used.join("thesis.tex"), "").unwrap();
        let second = TemporaryDirectory::create(&name, "in").unwrap();
        assert!(!dead.exists());
        for other in [named, unmarked, differs, used] {
            assert!(other.join("in").exists(), "{}", other.display());
            fs::remove_dir_all(other).unwrap();
        }
        assert!(first.path().join("f").exists(), "it is in use");
        let paths = [first.path().to_path_buf(), second.path().to_path_buf()];
        drop((first, second));
        assert!(!paths.iter().any(|path| path.exists()));
    }
}
