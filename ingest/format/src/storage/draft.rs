//! A file that appears complete or not at all.

use std::io::{self, Write};
use std::path::Path;

use super::ownership::{ANY_FILE, Kind};
use super::workspace::{Workspace, hold_signals};
use super::{OutputFile, operation};
use crate::error::{FormatError, Result};

/// A reserved output file. [`Draft::open`] creates it under a temporary name, and [`Draft::commit`]
/// renames it to its target. A draft that is dropped without a commit leaves nothing behind.
#[derive(Debug)]
pub struct Draft {
    workspace: Workspace,
    replaces: Option<&'static Kind>,
}

impl Draft {
    /// Reserves a target. An existing one is refused, unless it is a plain file of the kind
    /// `replaces`; an empty file is of any kind. Fails early if the target could not be written
    /// later.
    pub fn create(target: &Path, replaces: Option<&'static Kind>) -> Result<Self> {
        let workspace = Workspace::claim(target, "a file's name")?;
        let draft = Self { workspace, replaces };
        draft.check_target()?;
        Ok(draft)
    }

    fn check_target(&self) -> Result<()> {
        let target = self.target();
        let Ok(found) = target.symlink_metadata() else { return Ok(()) };
        if found.is_dir() {
            return Err(FormatError::invalid(target, "output", "a directory", "a file's name"));
        }
        let Some(kind) = self.replaces else {
            return Err(FormatError::Exists { path: target.into() });
        };
        if !found.is_file() {
            let found = if found.is_symlink() { "a link" } else { "a device" };
            return Err(FormatError::invalid(
                target,
                "output",
                found,
                "a plain file, or a new name",
            ));
        }
        match found.len() {
            0 => Ok(()),
            _ => (kind.check)(target),
        }
    }

    /// The final name of the file.
    pub fn target(&self) -> &Path {
        self.workspace.target()
    }

    /// Creates the file under its temporary name.
    pub fn open(&self) -> Result<OutputFile> {
        OutputFile::create_new(&self.workspace.new_path())
    }

    /// Syncs the file, gives it its name, and makes that durable.
    pub fn commit(self, file: OutputFile) -> Result<()> {
        file.finish()?;
        let live = hold_signals();
        let placed = self.take_place();
        self.workspace.close(live, placed)
    }

    /// Writes and commits a file that is in memory.
    pub fn write(self, bytes: &[u8]) -> Result<()> {
        let mut file = self.open()?;
        file.write_all(bytes).map_err(FormatError::io("write", self.target()))?;
        self.commit(file)
    }

    fn take_place(&self) -> Result<()> {
        self.check_target()?;
        let (new, target) = (self.workspace.new_path(), self.target());
        let failed = || FormatError::io("rename", target);
        if !super::exists(target) {
            operation::rename_new(&new, target).map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => FormatError::Exists { path: target.into() },
                _ => failed()(error),
            })?;
            return self.workspace.sync_names_or(|| operation::rename(target, &new));
        }
        // Exchanged, not replaced, so that the old file can be restored.
        if operation::exchange(&new, target).map_err(failed())? {
            return self.workspace.sync_names_or(|| operation::exchange(&new, target).map(drop));
        }
        operation::rename(&new, target).map_err(failed())?;
        self.workspace.sync_names_or(|| Ok(()))
    }
}

/// Writes a new file in a directory that is itself a draft, and appears and is synced with it.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = OutputFile::create_new(path)?;
    file.write_all(bytes).map_err(FormatError::io("write", path))
}

/// Writes a whole file in a directory of the program's own; a file that has its name is replaced.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    Draft::create(path, Some(&ANY_FILE))?.write(bytes)
}
