//! A file that is being written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::Draft;
use super::operation::{Operation, announce};
use super::ownership::ANY_FILE;
use crate::error::{FormatError, Result};

/// A file that is being written. No existing file is overwritten: the name is new, or the file is
/// one that the program wrote earlier and continues ([`OutputFile::resume`]).
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    path: PathBuf,
    position: u64,
}

/// Syncs a file that is written through another handle.
#[derive(Debug)]
pub struct SyncHandle {
    file: File,
    path: PathBuf,
}

impl OutputFile {
    /// Creates a file; the name must not exist, not even as a link.
    pub fn create_new(path: &Path) -> Result<Self> {
        Self::try_create_new(path).map_err(FormatError::io("create", path))
    }

    /// The same with the system's error.
    pub fn try_create_new(path: &Path) -> io::Result<Self> {
        announce(|| Operation::Create { path: path.into() })?;
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        Ok(Self { file, path: path.into(), position: 0 })
    }

    /// Creates a file in place of an older one of the program, in a directory that is its own.
    pub fn create_again(path: &Path) -> Result<Self> {
        if super::exists(path) {
            super::remove_file(path)?;
        }
        Self::create_new(path)
    }

    /// Opens a file of the program to read and continue it; creates it if it is missing. A link or
    /// anything else that is not a plain file is refused. A file with several names is replaced by a
    /// copy first: under its other names it may be a backup.
    pub fn resume(path: &Path) -> Result<Self> {
        if !super::exists(path) {
            return Self::create_new(path);
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let opened = File::options().read(true).write(true).custom_flags(flags).open(path);
        let file = opened.map_err(FormatError::io("open", path))?;
        let metadata = file.metadata().map_err(FormatError::io("open", path))?;
        if !metadata.is_file() {
            return Err(FormatError::invalid(path, "output", "a device", "a file"));
        }
        if metadata.nlink() > 1 {
            let draft = Draft::create(path, Some(&ANY_FILE))?;
            let mut copy = draft.open()?;
            io::copy(&mut &file, &mut copy).map_err(FormatError::io("copy", path))?;
            draft.commit(copy)?;
            return Self::resume(path);
        }
        Ok(Self { file, path: path.into(), position: 0 })
    }

    /// The name that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Truncates the file to this length; writing continues there.
    pub fn cut(&mut self, length: u64) -> Result<()> {
        let cut = announce(|| Operation::Resize { path: self.path.clone(), length })
            .and_then(|()| self.file.set_len(length));
        cut.map_err(FormatError::io("cut", &self.path))?;
        self.seek(SeekFrom::Start(length)).map_err(FormatError::io("write", &self.path))?;
        Ok(())
    }

    /// Fills `bytes` from a position, without changing the current one.
    pub fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, at)
    }

    /// Completes the file and makes it durable.
    pub fn finish(self) -> Result<()> {
        sync(&self.file, &self.path)
    }

    /// A handle for syncing the file while this one is used for writing.
    pub fn sync_handle(&self) -> Result<SyncHandle> {
        let file = self.file.try_clone().map_err(FormatError::io("open", &self.path))?;
        Ok(SyncHandle { file, path: self.path.clone() })
    }
}

impl SyncHandle {
    /// Makes everything written so far durable.
    pub fn sync(&self) -> Result<()> {
        sync(&self.file, &self.path)
    }
}

fn sync(file: &File, path: &Path) -> Result<()> {
    if !super::is_durable(path) {
        return Ok(());
    }
    announce(|| Operation::SyncFile { path: path.into() })
        .and_then(|()| file.sync_all())
        .map_err(FormatError::io("sync", path))
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        announce(|| Operation::Write {
            path: self.path.clone(),
            offset: self.position,
            bytes: bytes.to_vec(),
        })?;
        let written = self.file.write(bytes)?;
        self.position += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Read for OutputFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read(bytes)?;
        self.position += got as u64;
        Ok(got)
    }
}

impl Seek for OutputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.position = self.file.seek(to)?;
        Ok(self.position)
    }
}
