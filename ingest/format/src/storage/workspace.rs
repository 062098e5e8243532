//! The directory next to a target in which its draft is written. Only the process that holds its
//! lock may write the target.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;

use super::{exists, operation, sync_directory};
use crate::error::{FormatError, Result};

const ENDING: &str = ".ignn-draft";
const NEW: &str = "ignn-new";
const OLD: &str = "ignn-old";

/// What to remove if the process is interrupted.
static LIVE: Mutex<Vec<Live>> = Mutex::new(Vec::new());

/// A workspace, and the parent directories created for it.
pub(super) struct Live {
    directory: PathBuf,
    parents: Vec<PathBuf>,
}

/// The lock that delays signals; see [`hold_signals`].
pub(super) type LiveGuard = MutexGuard<'static, Vec<Live>>;

/// Delays the clean-up on a signal while a target is renamed into place.
pub(super) fn hold_signals() -> LiveGuard {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The locked directory of a draft; removed when dropped.
#[derive(Debug)]
pub(super) struct Workspace {
    target: PathBuf,
    directory: PathBuf,
    parents: Parents,
    _lock: File,
}

impl Workspace {
    /// Reserves a target: creates and locks its workspace, and removes what a dead run left in it.
    /// `expected` says what the target should be, for the error about a path without a name.
    pub fn claim(target: &Path, expected: &str) -> Result<Self> {
        let target = named(target, expected)?;
        let parent = parent_of(&target);
        let parents = Parents::create(parent)?;
        let directory = directory_of(&target);
        loop {
            // Held until the workspace is known to be ours, so that a signal finds it.
            let mut live = hold_signals();
            let is_new = match operation::make_directory(&directory) {
                Ok(()) => true,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                Err(error) => return Err(FormatError::io("create", &directory)(error)),
            };
            let Some(lock) = lock(&directory, &target)? else { continue };
            if !is_new {
                clear(&directory, &target)?;
            }
            live.push(Live { directory: directory.clone(), parents: parents.0.clone() });
            return Ok(Self { target, directory, parents, _lock: lock });
        }
    }

    /// The target, without a slash at its end.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// The draft.
    pub fn new_path(&self) -> PathBuf {
        self.directory.join(NEW)
    }

    /// Where the old target may be moved.
    pub fn old_path(&self) -> PathBuf {
        self.directory.join(OLD)
    }

    /// After the rename: makes the names of the target and of its new parents durable; if that
    /// fails, `undo` restores what was there.
    pub fn sync_names_or(&self, undo: impl FnOnce() -> io::Result<()>) -> Result<()> {
        let synced = sync_directory(parent_of(&self.target)).and_then(|()| self.parents.sync());
        synced.inspect_err(|_| {
            // The first error is the one to report.
            let _ = undo();
        })
    }

    /// After that: if the target took its place, removes the workspace, with an old target in it.
    /// Otherwise that is left to the drop, which keeps an old target that could not be moved back.
    pub fn close(mut self, mut live: LiveGuard, placed: Result<()>) -> Result<()> {
        let closed = placed.and_then(|()| {
            live.retain(|other| other.directory != self.directory);
            self.parents.0.clear();
            remove_with_retry(&self.directory).map_err(FormatError::io("remove", &self.directory))
        });
        // Released before the workspace is dropped, which takes the lock again.
        drop(live);
        closed
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let mut live = hold_signals();
        if let Some(at) = live.iter().position(|other| other.directory == self.directory) {
            live.swap_remove(at);
            // An old target that could not be moved back stays for the next run to restore.
            if exists(&self.target) || !exists(&self.old_path()) {
                let _ = remove_with_retry(&self.directory);
            }
        }
    }
}

/// Removes a workspace. If that fails, it tries once more, so that a transient error leaves nothing
/// behind.
fn remove_with_retry(directory: &Path) -> io::Result<()> {
    operation::remove_tree(directory).or_else(|_| operation::remove_tree(directory))
}

/// The path without a slash at its end; refuses one that has no name, such as `..`, `/` or `x/.`.
fn named(target: &Path, expected: &str) -> Result<PathBuf> {
    let bytes = target.as_os_str().as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let is_dot = bytes[..end] == *b"." || bytes[..end].ends_with(b"/.");
    match target.file_name() {
        Some(name) if !is_dot => Ok(target.with_file_name(name)),
        _ => Err(FormatError::invalid(target, "output", "a path without a name", expected)),
    }
}

fn parent_of(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The workspace of a target.
fn directory_of(target: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(ENDING);
    parent_of(target).join(name)
}

/// Locks a workspace; `None` if it was removed meanwhile.
fn lock(directory: &Path, target: &Path) -> Result<Option<File>> {
    let flags = (OFlags::NOFOLLOW | OFlags::DIRECTORY).bits() as i32;
    let file = match File::options().read(true).custom_flags(flags).open(directory) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // A file or a link has this name.
        Err(_) if exists(directory) && !is_own(directory) => return Err(not_ours(directory)),
        Err(error) => return Err(FormatError::io("open", directory)(error)),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(FormatError::Busy { target: target.into(), lock: directory.into() });
        }
        Err(TryLockError::Error(error)) => return Err(FormatError::io("lock", directory)(error)),
    }
    // The run that held it may have removed it after it was opened here.
    let held = file.metadata().map_err(FormatError::io("lock", directory))?;
    let is_same = |found: fs::Metadata| (found.dev(), found.ino()) == (held.dev(), held.ino());
    Ok(directory.symlink_metadata().is_ok_and(is_same).then_some(file))
}

/// Empties the workspace of a dead run, and restores an old target that was never replaced.
fn clear(directory: &Path, target: &Path) -> Result<()> {
    if !is_own(directory) {
        return Err(not_ours(directory));
    }
    let old = directory.join(OLD);
    if exists(&old) && !exists(target) {
        operation::rename(&old, target).map_err(FormatError::io("rename", &old))?;
        sync_directory(parent_of(target))?;
    }
    for left in [old, directory.join(NEW)] {
        let removed = match left.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => operation::remove_tree(&left),
            Ok(_) => operation::remove_file(&left),
            Err(_) => Ok(()),
        };
        removed.map_err(FormatError::io("remove", &left))?;
    }
    Ok(())
}

/// Whether a directory with a workspace's name is one: nothing else is in it.
pub(super) fn is_own(directory: &Path) -> bool {
    directory.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
        && fs::read_dir(directory).is_ok_and(|mut entries| {
            let is_own = |name: OsString| name == NEW || name == OLD;
            entries.all(|entry| entry.is_ok_and(|entry| is_own(entry.file_name())))
        })
}

/// Removes what a crashed run left next to a target that is continued and not written again. The
/// draft of a live run is kept.
pub fn remove_remains(target: &Path) {
    let Ok(target) = named(target, "") else { return };
    if exists(&directory_of(&target)) {
        // Leftovers are harmless, so a failure to remove them is not reported.
        drop(Workspace::claim(&target, ""));
    }
}

/// The name whose draft a workspace of this name would hold.
pub(super) fn drafted(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(ENDING)
}

fn not_ours(directory: &Path) -> FormatError {
    let expected = "a draft of ignn: move it away first";
    FormatError::invalid(directory, "temporary directory", "something else", expected)
}

/// Removes every unfinished output of this process and returns whether there was any. It is for the
/// thread that handles signals, which must end the process afterwards.
pub fn abandon_all() -> bool {
    /// Gives workers that are still writing time to fail on the missing directory.
    const RETRY_AFTER: std::time::Duration = std::time::Duration::from_millis(5);
    let live = hold_signals();
    for Live { directory, parents } in live.iter() {
        // A worker may create a file while its directory is removed: try again.
        for _ in 0..100 {
            if operation::remove_tree(directory).is_ok() || !directory.exists() {
                break;
            }
            std::thread::sleep(RETRY_AFTER);
        }
        remove_empty(parents);
    }
    let any = !live.is_empty();
    // The guard is leaked, so that no output can be renamed into place after this.
    std::mem::forget(live);
    any
}

/// Parent directories that were created for a target, innermost first; those that stay empty are
/// removed.
#[derive(Debug, Default)]
pub(super) struct Parents(Vec<PathBuf>);

impl Parents {
    /// Creates a directory and those above it, as far as they are missing.
    pub fn create(parent: &Path) -> Result<Self> {
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let missing: Vec<&Path> = parent.ancestors().take_while(missing).collect();
        let above = missing.last().map_or(parent, |outermost| parent_of(outermost));
        if !above.is_dir() {
            return Err(FormatError::invalid(
                above,
                "parent of the output",
                "a file",
                "a directory",
            ));
        }
        let mut created = Self::default();
        for directory in missing.into_iter().rev() {
            match operation::make_directory(directory) {
                Ok(()) => created.0.insert(0, directory.into()),
                // Another run was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(FormatError::io("create", directory)(error)),
            }
        }
        Ok(created)
    }

    /// Makes their names durable.
    fn sync(&self) -> Result<()> {
        self.0.iter().try_for_each(|path| sync_directory(parent_of(path)))
    }

    /// Keeps them, durably.
    pub fn keep(mut self) -> Result<()> {
        self.sync()?;
        self.0.clear();
        Ok(())
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
        let removed = operation::remove_directory(directory);
        let _ = removed.or_else(|_| operation::remove_directory(directory));
    }
}
