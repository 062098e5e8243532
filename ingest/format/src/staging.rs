//! Outputs that appear completely or not at all: a locked temporary directory next to the target,
//! renamed at the end.
//!
//! ```text
//! .DIR.ignn-<pid>        the directory being written
//! .DIR.ignn-<pid>.lock   locked as long as the run lives
//! .DIR.ignn-<pid>.old    the old target, for the moment of its replacement
//! ```
//! The lock is taken before the directory is created and released after it is renamed or removed.
//! It is released with its process, however that ends. A directory without a held lock was left by
//! a dead run: the next run with the same target removes it, and restores an old target that was
//! moved aside and never replaced.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::error::{FormatError, Result};

const LOCK: &str = ".lock";
const OLD: &str = ".old";

/// What to remove if the process is interrupted.
static LIVE: Mutex<Vec<Live>> = Mutex::new(Vec::new());

/// A directory that is being written, and the parent directories created for it.
struct Live {
    directory: PathBuf,
    parents: Vec<PathBuf>,
}

/// A temporary directory that becomes the target on [`Staging::commit`], and is removed if it is
/// dropped without.
#[derive(Debug)]
pub struct Staging {
    directory: PathBuf,
    target: PathBuf,
    force: bool,
    _lock: File,
    _parents: Parents,
}

impl Staging {
    /// Rejects an existing target unless `force`, removes the remains of dead runs, and creates and
    /// locks the directory.
    pub fn create(target: &Path, force: bool) -> Result<Self> {
        let Some(name) = target.file_name() else {
            return Err(FormatError::invalid(
                target,
                "output",
                "a path without a name",
                "a new directory",
            ));
        };
        let parent = match target.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let parents = Parents::create(parent)?;
        let prefix = format!(".{}.ignn-", name.to_string_lossy());
        remove_dead(parent, &prefix, target)?;
        if exists(target) && !force {
            return Err(FormatError::Exists { path: target.into() });
        }
        let directory = parent.join(format!("{prefix}{}", std::process::id()));
        // Held until both exist, so that a signal finds both or neither.
        let mut live = LIVE.lock().expect("no panic while held");
        let lock_path = with_ending(&directory, LOCK);
        let lock = lock(&lock_path, target)?;
        if let Err(error) = fs::create_dir(&directory) {
            let _ = fs::remove_file(lock_path);
            return Err(FormatError::io("create", &directory)(error));
        }
        live.push(Live { directory: directory.clone(), parents: parents.0.clone() });
        Ok(Self { directory, target: target.into(), force, _lock: lock, _parents: parents })
    }

    /// The temporary directory.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// The target.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Renames the directory to the target. With `force`, an old target is moved aside first and
    /// removed afterwards.
    pub fn commit(self) -> Result<()> {
        let mut live = LIVE.lock().expect("no panic while held");
        let old = exists(&self.target).then(|| with_ending(&self.directory, OLD));
        if let Some(old) = &old {
            if !self.force {
                return Err(FormatError::Exists { path: self.target.clone() });
            }
            fs::rename(&self.target, old).map_err(FormatError::io("rename", &self.target))?;
        }
        if let Err(error) = fs::rename(&self.directory, &self.target) {
            if let Some(old) = &old {
                let _ = fs::rename(old, &self.target);
            }
            return Err(FormatError::io("rename", &self.directory)(error));
        }
        live.retain(|other| other.directory != self.directory);
        let removed = old.map_or(Ok(()), |old| remove(&old));
        let _ = fs::remove_file(with_ending(&self.directory, LOCK));
        // Only now, so that a signal before this point leaves no old target behind.
        drop(live);
        removed
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let mut live = LIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(at) = live.iter().position(|other| other.directory == self.directory) {
            live.swap_remove(at);
            let _ = fs::remove_dir_all(&self.directory);
            let _ = fs::remove_file(with_ending(&self.directory, LOCK));
        }
    }
}

/// Creates a directory and its parents below a root, which must exist. An interrupted run removes
/// the root, and a thread that still runs must not create it again.
pub fn create_below(root: &Path, path: &Path) -> Result<()> {
    let below = path.strip_prefix(root).unwrap_or(path);
    let mut directory = root.to_path_buf();
    for name in below {
        directory.push(name);
        match fs::create_dir(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(FormatError::io("create", &directory)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes every unfinished output of this process and returns whether there was any. For the
/// thread of a signal handler, which must end the process afterwards.
pub fn abandon_all() -> bool {
    /// Gives workers that still write the time to fail on the missing directory.
    const RETRY_AFTER: std::time::Duration = std::time::Duration::from_millis(5);
    let live = LIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for Live { directory, parents } in live.iter() {
        // A worker may create a file while its directory is removed: try again.
        for _ in 0..100 {
            if fs::remove_dir_all(directory).is_ok() || !directory.exists() {
                break;
            }
            std::thread::sleep(RETRY_AFTER);
        }
        let _ = fs::remove_file(with_ending(directory, LOCK));
        remove_empty(parents);
    }
    let any = !live.is_empty();
    // The guard is leaked, so that no commit can happen after this.
    std::mem::forget(live);
    any
}

/// Parent directories that were created for a target, innermost first; those that stay empty are
/// removed.
#[derive(Debug)]
struct Parents(Vec<PathBuf>);

impl Parents {
    fn create(parent: &Path) -> Result<Self> {
        if exists(parent) && !parent.is_dir() {
            return Err(FormatError::invalid(
                parent,
                "parent of the output",
                "a file",
                "a directory",
            ));
        }
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !exists(path);
        let parents = Self(parent.ancestors().take_while(missing).map(PathBuf::from).collect());
        fs::create_dir_all(parent).map_err(FormatError::io("create", parent))?;
        Ok(parents)
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        remove_empty(&self.0);
    }
}

/// Removes those that are empty: without an output, and without files of others.
fn remove_empty(directories: &[PathBuf]) {
    for directory in directories {
        let _ = fs::remove_dir(directory);
    }
}

/// Whether the path exists, also as a dangling link.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(ending);
    name.into()
}

fn remove(path: &Path) -> Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        _ => fs::remove_file(path),
    };
    removed.map_err(FormatError::io("remove", path))
}

/// Creates and locks a lock file.
fn lock(path: &Path, target: &Path) -> Result<File> {
    loop {
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        let lock = lock.map_err(FormatError::io("create", path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(FormatError::Busy { target: target.into(), lock: path.into() });
            }
            Err(TryLockError::Error(error)) => return Err(FormatError::io("lock", path)(error)),
        }
        // Another run may have removed it as the lock of a dead run, after it was created and
        // before it was locked.
        if path.exists() {
            return Ok(lock);
        }
    }
}

/// The process of `<prefix><pid>`, `<prefix><pid>.lock` or `<prefix><pid>.old`.
fn process_of<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(prefix)?;
    let pid = rest.strip_suffix(LOCK).or(rest.strip_suffix(OLD)).unwrap_or(rest);
    (!pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit())).then_some(pid)
}

fn remove_dead(parent: &Path, prefix: &str, target: &Path) -> Result<()> {
    let mut runs = Vec::new();
    for entry in fs::read_dir(parent).map_err(FormatError::io("read", parent))? {
        let name = entry.map_err(FormatError::io("read", parent))?.file_name();
        if let Some(pid) = process_of(&name.to_string_lossy(), prefix) {
            runs.push(format!("{prefix}{pid}"));
        }
    }
    runs.sort_unstable();
    runs.dedup();
    for run in runs {
        let directory = parent.join(run);
        let lock_path = with_ending(&directory, LOCK);
        let _lock = lock(&lock_path, target)?;
        let old = with_ending(&directory, OLD);
        if exists(&old) && !exists(target) {
            fs::rename(&old, target).map_err(FormatError::io("rename", &old))?;
        }
        for left in [old, directory, lock_path] {
            if exists(&left) {
                remove(&left)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn commit(target: &Path, force: bool, content: &str) -> Result<()> {
        let staging = Staging::create(target, force)?;
        fs::write(staging.path().join("f"), content).unwrap();
        staging.commit()
    }

    #[test]
    fn directories_are_created_below_a_root_that_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let (root, gone) = (dir.path().join("root"), dir.path().join("gone"));
        fs::create_dir(&root).unwrap();
        for _ in 0..2 {
            create_below(&root, &root.join("a/b")).unwrap();
        }
        assert!(root.join("a/b").is_dir());
        assert!(create_below(&gone, &gone.join("a/b")).is_err());
        assert_eq!(names(dir.path()), ["root"]);
    }

    #[test]
    fn the_target_appears_complete_and_nothing_else_remains() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("new/deep/out");
        let staging = Staging::create(&target, false).unwrap();
        fs::write(staging.path().join("f"), "1").unwrap();
        assert!(!target.exists());
        staging.commit().unwrap();
        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "1");
        assert_eq!(names(&target), ["f"]);
        assert_eq!(names(target.parent().unwrap()), ["out"]);
    }

    #[test]
    fn an_existing_target_is_rejected_and_force_replaces_it() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        commit(&target, false, "1").unwrap();
        assert!(matches!(commit(&target, false, "2"), Err(FormatError::Exists { .. })));
        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "1");
        commit(&target, true, "3").unwrap();
        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "3");
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn a_target_that_appeared_meanwhile_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let staging = Staging::create(&target, false).unwrap();
        fs::write(&target, "somebody else's").unwrap();
        assert!(matches!(staging.commit(), Err(FormatError::Exists { .. })));
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    #[cfg(unix)]
    fn force_replaces_a_link_and_not_what_it_points_to() {
        let dir = tempfile::tempdir().unwrap();
        let (target, other) = (dir.path().join("out"), dir.path().join("other"));
        commit(&other, false, "keep").unwrap();
        std::os::unix::fs::symlink(&other, &target).unwrap();
        commit(&target, true, "new").unwrap();
        assert_eq!(fs::read_to_string(other.join("f")).unwrap(), "keep");
        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "new");
        assert_eq!(names(dir.path()), ["other", "out"]);
    }

    #[test]
    fn without_commit_nothing_remains() {
        let dir = tempfile::tempdir().unwrap();
        let staging = Staging::create(&dir.path().join("out"), false).unwrap();
        fs::create_dir_all(staging.path().join("a/b")).unwrap();
        assert_eq!(names(dir.path()).len(), 2);
        drop(staging);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn created_parents_are_removed_with_their_target() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("there")).unwrap();
        drop(Staging::create(&dir.path().join("new/deep/out"), false).unwrap());
        drop(Staging::create(&dir.path().join("there/out"), false).unwrap());
        assert_eq!(names(dir.path()), ["there"]);
        fs::write(dir.path().join("file"), "").unwrap();
        let error = Staging::create(&dir.path().join("file/out"), false).unwrap_err().to_string();
        assert!(
            error.ends_with("file: parent of the output (found a file, expected a directory)"),
            "{error}"
        );
    }

    #[test]
    fn a_live_run_is_busy_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        let staging = Staging::create(&target, false).unwrap();
        let error = Staging::create(&target, true).unwrap_err();
        assert!(matches!(error, FormatError::Busy { .. }), "{error}");
        // The name of another target may have the same prefix.
        drop(Staging::create(&dir.path().join("out.ignn-7"), false).unwrap());
        drop(Staging::create(&dir.path().join("ou"), false).unwrap());
        staging.commit().unwrap();
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn remains_of_dead_runs_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join(".out.ignn-1/deep")).unwrap();
        fs::write(dir.path().join(".out.ignn-1.lock"), "").unwrap();
        fs::create_dir(dir.path().join(".out.ignn-2")).unwrap();
        fs::write(dir.path().join(".out.ignn-3.lock"), "").unwrap();
        let foreign = [".other.ignn-1", ".out.ignn-", ".out.ignn-1x", ".out.ignn-7.ignn-1"];
        foreign.iter().for_each(|name| fs::create_dir(dir.path().join(name)).unwrap());
        commit(&dir.path().join("out"), false, "1").unwrap();
        assert_eq!(names(dir.path()), [&foreign[..], &["out"]].concat());
    }

    #[test]
    fn an_old_target_without_replacement_is_restored() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        commit(&target, false, "old").unwrap();
        fs::rename(&target, dir.path().join(".out.ignn-1.old")).unwrap();
        fs::create_dir(dir.path().join(".out.ignn-1")).unwrap();
        // Without force the run fails, but the old target is restored.
        assert!(matches!(commit(&target, false, "new"), Err(FormatError::Exists { .. })));
        assert_eq!(fs::read_to_string(target.join("f")).unwrap(), "old");
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn an_old_target_that_was_replaced_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        commit(&target, false, "new").unwrap();
        fs::create_dir(dir.path().join(".out.ignn-1.old")).unwrap();
        commit(&target, true, "newer").unwrap();
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn a_path_without_a_name_is_rejected() {
        assert!(Staging::create(Path::new(".."), false).is_err());
        assert!(Staging::create(Path::new("/"), true).is_err());
    }
}
