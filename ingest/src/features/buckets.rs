//! Records of fixed size, grouped by node range: in memory while they fit, then in one scratch
//! file. A record is a node and some bytes, whose meaning is up to the caller.
//!
//! A bucket is a range of nodes. Its records keep their order: first its pieces in the file, then
//! those still in its buffer. The result of reading therefore does not depend on the memory.

use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;

use ignn_format::storage::{self, OutputFile};

use crate::error::{IngestError, Result};

/// Approximate bytes of records per bucket; small, so that readers need little memory.
const BUCKET_BYTES: u64 = 4 << 20;
/// Buffers smaller than this are not worth a write.
const MIN_PIECE: u64 = 4 << 10;

/// Records by node.
pub struct Buckets {
    path: PathBuf,
    file: Option<OutputFile>,
    end: u64,
    record: usize,
    /// Nodes of a bucket are `index << shift ..`.
    shift: u32,
    piece: usize,
    buckets: Vec<Bucket>,
}

#[derive(Default)]
struct Bucket {
    pieces: Vec<(u64, usize)>,
    buffer: Vec<u8>,
}

impl Buckets {
    /// Empty buckets for about `expected` records of `record` bytes besides their node. Buffers use
    /// at most `memory` bytes, but at least a few KiB and one record. The file is created when it
    /// is needed.
    pub fn new(path: PathBuf, nodes: u64, record: usize, expected: u64, memory: u64) -> Self {
        let record = record + size_of::<u32>();
        let bytes = expected.saturating_mul(record as u64);
        let most = (memory / MIN_PIECE.max(record as u64)).clamp(1, 1 << 16);
        let wanted = bytes.div_ceil(BUCKET_BYTES).clamp(1, most);
        let shift = nodes.div_ceil(wanted).max(1).next_power_of_two().trailing_zeros();
        let count = nodes.div_ceil(1 << shift).max(1);
        let piece = (memory / count).clamp(MIN_PIECE, BUCKET_BYTES) as usize;
        let buckets = (0..count).map(|_| Bucket::default()).collect();
        Self { path, file: None, end: 0, record, shift, piece, buckets }
    }

    /// Appends a record.
    pub fn push(&mut self, node: u32, fill: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let bucket = &mut self.buckets[(u64::from(node) >> self.shift) as usize];
        if !bucket.buffer.is_empty() && bucket.buffer.len() + self.record > self.piece {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(OutputFile::create_again(&self.path)?),
            };
            file.write_all(&bucket.buffer).map_err(IngestError::io("write", &self.path))?;
            bucket.pieces.push((self.end, bucket.buffer.len()));
            self.end += bucket.buffer.len() as u64;
            bucket.buffer.clear();
        }
        if bucket.buffer.capacity() == 0 {
            bucket.buffer.reserve_exact(self.piece.max(self.record));
        }
        let before = bucket.buffer.len();
        bucket.buffer.extend_from_slice(&node.to_le_bytes());
        fill(&mut bucket.buffer);
        debug_assert_eq!(bucket.buffer.len(), before + self.record);
        Ok(())
    }

    /// Visits the records of some nodes, bucket by bucket and in their original order. It may be
    /// called from any thread.
    pub fn visit(&self, nodes: Range<u64>, mut visit: impl FnMut(u32, &[u8])) -> Result<()> {
        if nodes.is_empty() {
            return Ok(());
        }
        let mut each = |bytes: &[u8]| {
            for record in bytes.chunks_exact(self.record) {
                let (node, rest) = record.split_at(size_of::<u32>());
                let node = u32::from_le_bytes(node.try_into().expect("4 bytes"));
                if nodes.contains(&u64::from(node)) {
                    visit(node, rest);
                }
            }
        };
        let first = (nodes.start >> self.shift) as usize;
        let last = ((nodes.end - 1) >> self.shift) as usize;
        let mut bytes = Vec::new();
        for bucket in &self.buckets[first..=last] {
            for &(offset, length) in &bucket.pieces {
                bytes.resize(length, 0);
                let file = self.file.as_ref().expect("pieces are in the file");
                file.read_exact_at(&mut bytes, offset)
                    .map_err(IngestError::io("read", &self.path))?;
                each(&bytes);
            }
            each(&bucket.buffer);
        }
        Ok(())
    }
}

impl Drop for Buckets {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = storage::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_in_order_from_memory_and_disk() {
        let dir = tempfile::tempdir().unwrap();
        let record = |i: u32| [i.to_le_bytes(), (i * 3).to_le_bytes()].concat();
        for (memory, on_disk) in [(1 << 30, false), (1 << 14, true), (0, true)] {
            let path = dir.path().join("rows");
            let mut buckets = Buckets::new(path.clone(), 1000, 8, 1 << 20, memory);
            for i in 0..20_000 {
                buckets.push(i * 7 % 1000, |bytes| bytes.extend(record(i))).unwrap();
            }
            assert_eq!(path.exists(), on_disk);
            let mut seen = vec![Vec::new(); 1000];
            for first in [0, 300, 600, 900] {
                buckets
                    .visit(first..(first + 300).min(1000), |node, bytes| {
                        seen[node as usize]
                            .push(u32::from_le_bytes(bytes[..4].try_into().unwrap()));
                        assert_eq!(bytes, record(*seen[node as usize].last().unwrap()));
                    })
                    .unwrap();
            }
            for (node, seen) in seen.iter().enumerate() {
                let expected: Vec<u32> =
                    (0..20_000).filter(|i| i * 7 % 1000 == node as u32).collect();
                assert_eq!(*seen, expected);
            }
            drop(buckets);
            assert!(!path.exists());
        }
    }
}
