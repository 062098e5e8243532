//! The only module of the workspace that creates, writes, syncs, renames or removes files and
//! directories. Everything that the program leaves on a disk passes through it, so that it can
//! guarantee three things:
//!
//! 1. **All or nothing.** An output is written as a draft and renamed when it is complete:
//!    [`Draft`] for a file, [`Staging`] for a directory. A draft is in a directory of its own next
//!    to the target, `.NAME.ignn-draft`, which is created exclusively and locked. It is removed on
//!    an error and on a signal ([`abandon_all`]), and after a crash by the next run with the same
//!    target.
//! 2. **Durable.** Files are synced before the rename, directories after it ([`set_sync`] turns
//!    that off). After a power failure, a target is the old one, the new one, or absent if there was
//!    none.
//! 3. **No data of the user is lost.** An existing target is refused; with `--force` it is replaced
//!    if the program made it and nothing else is in it ([`Kind`]). No link is followed and no
//!    existing file is truncated.
//!
//! ```text
//! .NAME.ignn-draft/             locked (flock) while the run is alive
//! .NAME.ignn-draft/ignn-new     the file or directory that is being written
//! .NAME.ignn-draft/ignn-old     the old target while it is being replaced, on file systems that
//!                               cannot exchange two names
//! ```
//!
//! Every operation is announced to [`watch`], which records it or makes it fail. Debug builds of
//! the program also read the variable `IGNN_FAULT` ([`faults::from_environment`]); release builds
//! have no such switch.

mod draft;
pub mod faults;
mod lock;
mod operation;
mod output;
mod ownership;
mod scratch;
mod staging;
mod temporary;
mod workspace;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{FormatError, Result};

pub use draft::{Draft, write_file, write_new};
pub use lock::DirectoryLock;
pub use operation::{Operation, Watch, watch};
pub use output::{OutputFile, SyncHandle};
pub use ownership::{ANY_FILE, Kind, MarkedDirectory, check_contents, not_replaceable};
pub use scratch::{free_space, scratch_file, write_speed};
pub use staging::Staging;
pub use temporary::TemporaryDirectory;
pub use workspace::{abandon_all, remove_remains};

static SYNCS: AtomicBool = AtomicBool::new(true);

/// Turns syncing of files and directories on or off for the whole process; by default it is on.
/// Without it, a power failure or a system crash within about a minute after the end of a command
/// can leave damaged or empty files, even in place of an old output. A crash of the program alone
/// is harmless either way.
pub fn set_sync(on: bool) {
    SYNCS.store(on, Ordering::Relaxed);
}

/// Whether data written to this path must survive a power failure.
fn is_durable(path: &Path) -> bool {
    SYNCS.load(Ordering::Relaxed) && !temporary::contains(path)
}

/// Syncs a directory, so that names created, renamed or removed in it are durable.
fn sync_directory(path: &Path) -> Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    if !is_durable(path) {
        return Ok(());
    }
    operation::sync_directory(path).map_err(FormatError::io("sync", path))
}

/// Creates a directory; its parent must exist. One that exists already is fine, but not a link to
/// one.
pub fn create_directory(path: &Path) -> Result<()> {
    match operation::make_directory(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(FormatError::io("create", path)(error))
        }
        Err(_) if !path.symlink_metadata().is_ok_and(|found| found.is_dir()) => {
            let found = if path.is_symlink() { "a link" } else { "a file" };
            Err(FormatError::invalid(path, "output", found, "a directory"))
        }
        Err(_) => Ok(()),
        Ok(()) => sync_directory(path.parent().unwrap_or(path)),
    }
}

/// Creates a directory and its parents below a root, which must exist. An interrupted run removes
/// the root, and a thread that still runs must not create it again.
pub fn create_below(root: &Path, path: &Path) -> Result<()> {
    let below = path.strip_prefix(root).unwrap_or(path);
    let mut directory = root.to_path_buf();
    for name in below {
        directory.push(name);
        match operation::make_directory(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(FormatError::io("create", &directory)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes a file that the program made.
pub fn remove_file(path: &Path) -> Result<()> {
    operation::remove_file(path).map_err(FormatError::io("remove", path))
}

/// Removes a directory that the program made, with everything in it.
pub fn remove_tree(path: &Path) -> Result<()> {
    operation::remove_tree(path).map_err(FormatError::io("remove", path))
}

/// Whether a path has the name of a directory with a draft.
pub fn is_draft(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).and_then(workspace::drafted).is_some()
}

/// Whether the path exists, also as a dangling link.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Whether a path is a directory, not a link to one, without entries.
fn is_empty_directory(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
        && std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}
