//! Outputs that appear whole or not at all: a locked temporary directory beside the target, renamed at the end.
//! It knows nothing of what is written inside.
//!
//! The temporary directory of target `DIR` is `.DIR.ignn-<pid>`, with a locked file `lock` in it. The lock dies with
//! its process, however that ends; a directory whose lock is free was left by a dead run and is removed by the next
//! run with the same target.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::error::{FormatError, Result};

const LOCK: &str = "lock";
/// Ending of an old target that was moved aside.
const OLD: &str = ".old";

/// Directories to remove if the process is told to stop.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A temporary directory that becomes the target on [`Staging::commit`] and is removed when dropped before.
#[derive(Debug)]
pub struct Staging {
    directory: PathBuf,
    target: PathBuf,
    force: bool,
    _lock: File,
}

impl Staging {
    /// Refuses an existing target unless `force`, removes what dead runs left, creates and locks the directory.
    pub fn create(target: &Path, force: bool) -> Result<Self> {
        let Some(name) = target.file_name() else {
            return Err(FormatError::invalid(target, "output", "a path without a name", "a new directory"));
        };
        let parent = match target.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(parent).map_err(FormatError::io("create", parent))?;
        let prefix = format!(".{}.ignn-", name.to_string_lossy());
        remove_dead(parent, &prefix, target)?;
        if target.exists() && !force {
            return Err(FormatError::Exists { path: target.into() });
        }
        let directory = parent.join(format!("{prefix}{}", std::process::id()));
        fs::create_dir(&directory).map_err(FormatError::io("create", &directory))?;
        LIVE.lock().expect("no panic while held").push(directory.clone());
        let lock_path = directory.join(LOCK);
        let lock = File::create(&lock_path).map_err(FormatError::io("create", &lock_path))?;
        lock.lock().map_err(FormatError::io("lock", &lock_path))?;
        Ok(Self { directory, target: target.into(), force, _lock: lock })
    }

    /// Where to write meanwhile.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Where it will be.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Renames the directory to the target; an old target (with `force`) is moved aside first and removed after.
    pub fn commit(self) -> Result<()> {
        let mut live = LIVE.lock().expect("no panic while held");
        let lock_path = self.directory.join(LOCK);
        fs::remove_file(&lock_path).map_err(FormatError::io("remove", &lock_path))?;
        let old = self.target.exists().then(|| {
            let name = self.directory.file_name().unwrap_or_default().to_string_lossy();
            self.directory.with_file_name(format!("{name}{OLD}"))
        });
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
        live.retain(|path| *path != self.directory);
        drop(live);
        if let Some(old) = old {
            remove(&old)?;
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let mut live = LIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(at) = live.iter().position(|path| *path == self.directory) {
            live.swap_remove(at);
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// Removes every unfinished output of this process, for a signal handler's thread; it must end the process after.
pub fn abandon_all() {
    let live = LIVE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    for directory in live.iter() {
        // A worker may create a file while its directory is being removed: try again.
        for _ in 0..100 {
            if fs::remove_dir_all(directory).is_ok() || !directory.exists() {
                break;
            }
        }
    }
    // The guard is leaked: no commit may happen after this.
    std::mem::forget(live);
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    removed.map_err(FormatError::io("remove", path))
}

fn remove_dead(parent: &Path, prefix: &str, target: &Path) -> Result<()> {
    for entry in fs::read_dir(parent).map_err(FormatError::io("read", parent))? {
        let path = entry.map_err(FormatError::io("read", parent))?.path();
        let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix));
        if !is_ours {
            continue;
        }
        if let Ok(lock) = File::open(path.join(LOCK))
            && let Err(TryLockError::WouldBlock) = lock.try_lock()
        {
            return Err(FormatError::Busy { target: target.into(), lock: path.join(LOCK) });
        }
        // An old target moved aside by a run that died before its rename is put back, not removed.
        if path.to_string_lossy().ends_with(OLD) && !target.exists() {
            fs::rename(&path, target).map_err(FormatError::io("rename", &path))?;
            continue;
        }
        remove(&path)?;
    }
    Ok(())
}
