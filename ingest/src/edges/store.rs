//! Chunks of plain records, kept in memory while the job's budget lasts and then in one scratch
//! file. The store does not know what the records mean.

use std::borrow::Cow;
use std::io::Write;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Pod;
use ignn_format::storage::{self, OutputFile};

use crate::error::{IngestError, Result};

/// Bytes that the stores of a job may still use.
#[derive(Clone, Debug)]
pub struct Budget(Arc<AtomicU64>);

impl Budget {
    /// A budget of this many bytes.
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    /// Bytes left.
    pub fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Reserves bytes, if that many are left.
    pub fn take(&self, bytes: u64) -> bool {
        let spend = |left: u64| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_ok()
    }

    /// Releases bytes.
    pub fn give(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A private temporary file, removed when dropped.
#[derive(Debug)]
pub struct ScratchFile {
    file: OutputFile,
    length: u64,
}

impl ScratchFile {
    /// Creates a file with a new name.
    pub fn create(scratch: &Path) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = scratch.join(format!("spill-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        Ok(Self { file: OutputFile::create_new(&path)?, length: 0 })
    }

    /// Appends bytes; returns their position.
    pub fn append(&mut self, bytes: &[u8]) -> Result<u64> {
        let at = self.length;
        let written = self.file.write_all(bytes);
        written.map_err(IngestError::io("write", self.file.path()))?;
        self.length += bytes.len() as u64;
        Ok(at)
    }

    /// Fills `bytes` from a position.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.read_exact_at(bytes, at).map_err(IngestError::io("read", self.file.path()))
    }

    /// Length so far.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        let _ = storage::remove_file(self.file.path());
    }
}

/// Chunks of records, in the order in which they were pushed.
#[derive(Debug)]
pub struct ChunkStore<T> {
    scratch: PathBuf,
    budget: Budget,
    file: Option<ScratchFile>,
    chunks: Vec<Chunk<T>>,
    records: u64,
}

#[derive(Debug)]
enum Chunk<T> {
    Memory(Vec<T>),
    Disk { at: u64, records: usize, kind: PhantomData<T> },
}

fn bytes_of<T>(records: usize) -> u64 {
    (records * size_of::<T>()) as u64
}

impl<T: Pod> ChunkStore<T> {
    /// An empty store.
    pub fn new(scratch: &Path, budget: &Budget) -> Self {
        let (scratch, budget) = (scratch.to_path_buf(), budget.clone());
        Self { scratch, budget, file: None, chunks: Vec::new(), records: 0 }
    }

    /// Adds a chunk; returns its buffer if the records were written to disk.
    pub fn push(&mut self, records: Vec<T>) -> Result<Option<Vec<T>>> {
        self.records += records.len() as u64;
        if self.budget.take(bytes_of::<T>(records.capacity())) {
            self.chunks.push(Chunk::Memory(records));
            return Ok(None);
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(ScratchFile::create(&self.scratch)?),
        };
        let at = file.append(bytemuck::cast_slice(&records))?;
        self.chunks.push(Chunk::Disk { at, records: records.len(), kind: PhantomData });
        Ok(Some(records))
    }

    /// Number of chunks.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Number of records in all chunks.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Records of one chunk.
    pub fn chunk_records(&self, chunk: usize) -> usize {
        match &self.chunks[chunk] {
            Chunk::Memory(records) => records.len(),
            Chunk::Disk { records, .. } => *records,
        }
    }

    /// Bytes written to disk.
    pub fn spilled(&self) -> u64 {
        self.file.as_ref().map_or(0, ScratchFile::len)
    }

    /// A whole chunk.
    pub fn read(&self, chunk: usize) -> Result<Cow<'_, [T]>> {
        match &self.chunks[chunk] {
            Chunk::Memory(records) => Ok(Cow::Borrowed(records)),
            Chunk::Disk { records, .. } => {
                let mut out = Vec::new();
                self.append_range(chunk, 0..*records, &mut out)?;
                Ok(Cow::Owned(out))
            }
        }
    }

    /// Appends part of a chunk to `out`.
    pub fn append_range(
        &self,
        chunk: usize,
        range: std::ops::Range<usize>,
        out: &mut Vec<T>,
    ) -> Result<()> {
        match &self.chunks[chunk] {
            Chunk::Memory(records) => out.extend_from_slice(&records[range]),
            Chunk::Disk { at, .. } => {
                let start = out.len();
                out.resize(start + range.len(), T::zeroed());
                let at = at + bytes_of::<T>(range.start);
                let file = self.file.as_ref().expect("a chunk on disk has its file");
                file.read(at, bytemuck::cast_slice_mut(&mut out[start..]))?;
            }
        }
        Ok(())
    }

    /// Takes a whole chunk out of the store and frees its memory; it must not be read again.
    pub fn take(&mut self, chunk: usize) -> Result<Vec<T>> {
        match &mut self.chunks[chunk] {
            Chunk::Memory(records) => {
                self.budget.give(bytes_of::<T>(records.capacity()));
                Ok(std::mem::take(records))
            }
            Chunk::Disk { .. } => Ok(self.read(chunk)?.into_owned()),
        }
    }
}

impl<T> Drop for ChunkStore<T> {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            if let Chunk::Memory(records) = chunk {
                self.budget.give(bytes_of::<T>(records.capacity()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back_from_memory_and_disk() {
        let dir = tempfile::tempdir().unwrap();
        let budget = Budget::new(4000);
        let mut store = ChunkStore::<u64>::new(dir.path(), &budget);
        for chunk in 0..10u64 {
            store.push((0..100).map(|i| chunk * 1000 + i).collect()).unwrap();
        }
        assert_eq!((store.chunks(), store.records(), store.spilled()), (10, 1000, 5 * 800));
        for chunk in 0..10 {
            assert_eq!(store.read(chunk).unwrap()[7], chunk as u64 * 1000 + 7);
            let mut out = vec![1];
            store.append_range(chunk, 98..100, &mut out).unwrap();
            assert_eq!(out, [1, chunk as u64 * 1000 + 98, chunk as u64 * 1000 + 99]);
        }
        assert_eq!(budget.left(), 0);
        store.take(0).unwrap();
        assert_eq!(budget.left(), 800);
        drop(store);
        assert_eq!(budget.left(), 4000);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
