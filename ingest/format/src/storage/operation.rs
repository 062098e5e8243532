//! The operations on files and directories, one function each, and the hooks that can observe them.
//! Everything else in this module is built from these.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

/// Something that is about to happen on a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A directory is created.
    MakeDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// An empty file is created; the name is new.
    Create {
        /// The file.
        path: PathBuf,
    },
    /// Bytes are written to a file.
    Write {
        /// The file, under the name that it was opened by.
        path: PathBuf,
        /// Position of the first byte.
        offset: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A file is cut or extended.
    Resize {
        /// The file.
        path: PathBuf,
        /// Its new length.
        length: u64,
    },
    /// The content of a file is made durable.
    SyncFile {
        /// The file.
        path: PathBuf,
    },
    /// The names in a directory are made durable.
    SyncDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// A file or directory gets another name. A file or an empty directory of that name is
    /// replaced.
    Rename {
        /// The old name.
        from: PathBuf,
        /// The new name.
        to: PathBuf,
    },
    /// Two files or directories exchange their names, in one step.
    Exchange {
        /// One of them.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
    },
    /// A file is removed.
    RemoveFile {
        /// The file.
        path: PathBuf,
    },
    /// An empty directory is removed.
    RemoveDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// A directory is removed with everything in it, name by name.
    RemoveTree {
        /// The directory.
        path: PathBuf,
    },
}

impl Operation {
    /// The file or directory; of two, the first.
    pub fn path(&self) -> &Path {
        match self {
            Self::MakeDirectory { path }
            | Self::Create { path }
            | Self::Write { path, .. }
            | Self::Resize { path, .. }
            | Self::SyncFile { path }
            | Self::SyncDirectory { path }
            | Self::Rename { from: path, .. }
            | Self::Exchange { first: path, .. }
            | Self::RemoveFile { path }
            | Self::RemoveDirectory { path }
            | Self::RemoveTree { path } => path,
        }
    }
}

type Hook = Box<dyn FnMut(&Operation) -> io::Result<()> + Send>;

/// Whether a hook is installed. Without one, this check is all that it costs an operation.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);
static HOOKS: Mutex<Vec<(u64, PathBuf, Hook)>> = Mutex::new(Vec::new());

/// Keeps a hook installed until it is dropped.
#[derive(Debug)]
pub struct Watch(u64);

/// Calls `hook` before every operation of the process on a path below `root`; an empty root covers
/// all paths. If the hook returns an error, the operation fails with it and does not happen. The
/// hook must not use this module.
///
/// ```
/// use ignn_format::storage::{self, Operation, Draft};
///
/// let dir = tempfile::tempdir()?;
/// let full = |operation: &Operation| match operation {
///     Operation::Write { .. } => Err(std::io::ErrorKind::StorageFull.into()),
///     _ => Ok(()),
/// };
/// let watch = storage::watch(dir.path(), full);
/// assert!(storage::write_file(&dir.path().join("f"), b"text").is_err());
/// assert_eq!(std::fs::read_dir(dir.path())?.count(), 0);
/// drop(watch);
/// storage::write_file(&dir.path().join("f"), b"text")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn watch(
    root: impl Into<PathBuf>,
    hook: impl FnMut(&Operation) -> io::Result<()> + Send + 'static,
) -> Watch {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    hooks.push((id, root.into(), Box::new(hook)));
    IS_WATCHED.store(true, Ordering::Relaxed);
    Watch(id)
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.retain(|(id, ..)| *id != self.0);
        IS_WATCHED.store(!hooks.is_empty(), Ordering::Relaxed);
    }
}

/// Calls the hooks before an operation; if this fails, the operation must not happen.
pub(super) fn announce(operation: impl FnOnce() -> Operation) -> io::Result<()> {
    if !IS_WATCHED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let operation = operation();
    let mut hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut below = hooks.iter_mut().filter(|(_, root, _)| operation.path().starts_with(root));
    below.try_for_each(|(_, _, hook)| hook(&operation))
}

pub(super) fn make_directory(path: &Path) -> io::Result<()> {
    announce(|| Operation::MakeDirectory { path: path.into() })?;
    fs::create_dir(path)
}

/// Replaces an empty directory by a directory, or a file by a file; nothing else.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    announce(|| Operation::Rename { from: from.into(), to: to.into() })?;
    fs::rename(from, to)
}

/// Replaces nothing: fails with `AlreadyExists`.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    announce(|| Operation::Rename { from: from.into(), to: to.into() })?;
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not support the flag. Runs of this program exclude each other by the
        // lock of the draft; only another program could create the target in between.
        Err(error) if is_unsupported(error) => match to.symlink_metadata() {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(from, to),
        },
        other => Ok(other?),
    }
}

/// Exchanges two names; false if the file system cannot.
pub(super) fn exchange(first: &Path, second: &Path) -> io::Result<bool> {
    let exchanged = announce(|| Operation::Exchange { first: first.into(), second: second.into() })
        .and_then(|()| {
            let flags = RenameFlags::EXCHANGE;
            Ok(rustix::fs::renameat_with(CWD, first, CWD, second, flags)?)
        });
    match exchanged {
        Err(error) if Errno::from_io_error(&error).is_some_and(is_unsupported) => Ok(false),
        other => other.map(|()| true),
    }
}

fn is_unsupported(error: Errno) -> bool {
    [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP].contains(&error)
}

pub(super) fn sync_file(path: &Path) -> io::Result<()> {
    announce(|| Operation::SyncFile { path: path.into() })?;
    File::open(path)?.sync_all()
}

pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
    announce(|| Operation::SyncDirectory { path: path.into() })?;
    match File::open(path)?.sync_all() {
        // Some file systems cannot sync directories, and do not need to.
        Err(error) if Errno::from_io_error(&error).is_some_and(is_unsupported) => Ok(()),
        other => other,
    }
}

pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    announce(|| Operation::RemoveFile { path: path.into() })?;
    fs::remove_file(path)
}

pub(super) fn remove_directory(path: &Path) -> io::Result<()> {
    announce(|| Operation::RemoveDirectory { path: path.into() })?;
    fs::remove_dir(path)
}

pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    announce(|| Operation::RemoveTree { path: path.into() })?;
    fs::remove_dir_all(path)
}
