//! Writes array files: elements are appended in order, header and checksum are written at the end.
//! [`crate::mapped`] reads them.

use std::io::{Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use crate::checksum::{FileEntry, HashingWriter};
use crate::error::{FormatError, Result};
use crate::header::{self, Element, HEADER_BYTES};
use crate::storage::OutputFile;

/// Size of the write buffer in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// Appends elements to an array file.
pub struct ArrayWriter<T> {
    path: PathBuf,
    kind: &'static str,
    out: HashingWriter<OutputFile>,
    buffer: Vec<u8>,
    count: u64,
    element: PhantomData<T>,
}

impl<T: Element> ArrayWriter<T> {
    /// Creates the file and reserves space for its header.
    pub fn create(path: &Path, kind: &'static str) -> Result<Self> {
        let mut file = OutputFile::create_new(path)?;
        file.write_all(&[0; HEADER_BYTES]).map_err(FormatError::io("write", path))?;
        Ok(Self {
            path: path.to_path_buf(),
            kind,
            out: HashingWriter::new(file),
            buffer: Vec::with_capacity(BUFFER_BYTES),
            count: 0,
            element: PhantomData,
        })
    }

    /// Appends elements.
    pub fn write(&mut self, elements: &[T]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() >= BUFFER_BYTES {
            self.out.write_all(bytes).map_err(FormatError::io("write", &self.path))?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.count += elements.len() as u64;
        Ok(())
    }

    /// Number of elements so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Writes the header and completes the file.
    pub fn finish(mut self) -> Result<FileEntry> {
        self.flush()?;
        let (mut file, mut entry) = self.out.into_parts();
        entry.bytes += HEADER_BYTES as u64;
        let header = header::encode::<T>(self.kind, self.count);
        file.seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(&header))
            .map_err(FormatError::io("write", &self.path))?;
        Ok(entry)
    }

    fn flush(&mut self) -> Result<()> {
        self.out.write_all(&self.buffer).map_err(FormatError::io("write", &self.path))?;
        self.buffer.clear();
        Ok(())
    }
}
