//! The only place of the workspace that creates, writes, syncs, renames or removes files and
//! directories. Whatever the program leaves on a disk has passed through here, so three promises
//! are kept in one place:
//!
//! 1. **Whole or not at all.** An output is written as a draft and renamed when it is complete:
//!    [`Draft`] for a file, [`Staging`] for a directory. A draft lies in a directory of its own
//!    beside the target, `.NAME.ignn-draft`, which is created exclusively and locked. It is removed
//!    on an error and on a signal ([`abandon_all`]), and after a crash by the next run with the same
//!    target.
//! 2. **Durable.** Files are synced before the rename, directories after it ([`set_sync`] turns
//!    that off). After a loss of power a target is the old one, the new one, or absent as it was.
//! 3. **Nothing of the user's is lost.** A target that exists is refused; with `--force` it is
//!    replaced if the program made it and nothing else is in it ([`Kind`]). No link is followed
//!    and no existing file is truncated.
//!
//! ```text
//! .NAME.ignn-draft/             locked (flock) as long as the run lives
//! .NAME.ignn-draft/ignn-new     the file or directory that is being written
//! .NAME.ignn-draft/ignn-old     the old target for the moment of its replacement, on file systems
//!                               that cannot exchange two names
//! ```
//!
//! Every operation is announced to [`watch`], which records it or makes it fail. Debug builds of the
//! program also read the variable `IGNN_FAULT` ([`faults::from_environment`]); release builds have
//! no such switch.

mod draft;
pub mod faults;
mod lock;
mod operation;
mod output;
mod ownership;
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
pub use staging::Staging;
pub use temporary::TemporaryDirectory;
pub use workspace::{abandon_all, remove_remains};

static SYNCS: AtomicBool = AtomicBool::new(true);

/// Whether files and directories are synced; they are unless this turns it off, for the whole
/// process. Without it, a loss of power or a crash of the system within about half a minute of a
/// command's end can leave damaged or empty files, also where an old output was replaced. A crash of
/// the program alone is harmless either way.
pub fn set_sync(on: bool) {
    SYNCS.store(on, Ordering::Relaxed);
}

/// Whether what is written to this path is to survive a loss of power.
fn is_durable(path: &Path) -> bool {
    SYNCS.load(Ordering::Relaxed) && !temporary::contains(path)
}

/// Syncs a directory, so that names created, renamed or removed in it stay so.
fn sync_directory(path: &Path) -> Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    if !is_durable(path) {
        return Ok(());
    }
    operation::sync_directory(path).map_err(FormatError::io("sync", path))
}

/// Creates a directory; its parent must exist. One that exists already is fine.
pub fn create_directory(path: &Path) -> Result<()> {
    match operation::make_directory(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(FormatError::io("create", path)(error))
        }
        Err(_) if !path.is_dir() => {
            Err(FormatError::invalid(path, "output", "a file", "a directory"))
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
