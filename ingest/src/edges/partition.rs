//! Partitions the entries of the matrix into buckets of ascending (row, column), each of which can
//! be sorted on its own. The bounds come from a sample, so that buckets have about equal size; the
//! row of a hub may span several buckets.
//!
//! A worker takes about `CHUNK_BYTES` of edges, maps their ends to node numbers, and writes their
//! entries as one chunk, grouped by bucket. Chunks keep the order of the input, so a bucket read
//! chunk by chunk has its entries in input order. With a stable sort, "the first duplicate" is then
//! well defined for any number of threads.

use std::path::Path;

use crate::context::Context;
use crate::edges::map::NodeMap;
use crate::edges::sort::KeySpace;
use crate::edges::spool::{Edge, Spool};
use crate::edges::store::{Budget, ChunkStore};
use crate::error::{IngestError, Result};
use crate::pipeline::{self, BufferPool};

/// The entries that an edge contributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Rows are targets, columns sources: the incoming adjacency.
    Incoming,
    /// Rows are sources, columns targets: the outgoing adjacency.
    Outgoing,
    /// Both: the adjacency of an undirected graph.
    Both,
}

/// Bytes of entries per chunk when everything fits in memory; a chunk stays in cache.
const CHUNK_BYTES: u64 = 8 << 20;
/// Bytes of entries per bucket when everything fits in memory.
const BUCKET_BYTES: u64 = 1 << 20;
/// Maximum number of buckets; the index of a bucket is stored in 16 bits.
const MAX_BUCKETS: u64 = 8192;
/// Maximum number of rows per bucket, because rows take memory even without entries. For 2^32 rows,
/// this adds 2^14 buckets.
const MAX_ROWS: u64 = 1 << 18;
/// Slots of the table that finds a bucket by row.
const SLOTS: u64 = 1 << 14;

fn key(row: u32, column: u32) -> u64 {
    u64::from(row) << 32 | u64::from(column)
}

/// Entries in buckets.
pub struct Partition<E> {
    /// Bucket `b` holds the keys `bounds[b] .. bounds[b + 1]` (row in the high half).
    pub bounds: Vec<u64>,
    nodes: u64,
    store: ChunkStore<E>,
    starts: Vec<Vec<u32>>,
}

/// Parameters of a partitioning pass.
pub struct Plan<'a> {
    /// Threads, observer.
    pub context: &'a Context<'a>,
    /// Where to spill.
    pub scratch: &'a Path,
    /// Memory for chunks.
    pub budget: &'a Budget,
    /// Number of nodes.
    pub nodes: u64,
    /// From the numbers in the spool to node numbers.
    pub map: NodeMap<'a>,
    /// Which entries an edge contributes.
    pub side: Side,
}

impl Plan<'_> {
    /// Partitions a spool. Without `keep`, the memory of the spool is freed on the way.
    pub fn run<E: Edge>(&self, spool: &mut Spool<E>, keep: bool) -> Result<Partition<E>> {
        match self.map {
            NodeMap::Identity => self.run_mapped(spool, keep, |id| id),
            NodeMap::Table(table) => self.run_mapped(spool, keep, |id| table[id as usize]),
            NodeMap::Rank(set) => self.run_mapped(spool, keep, |id| set.rank(id)),
            NodeMap::RankTable(set, table) => {
                self.run_mapped(spool, keep, |id| table[set.rank(id) as usize])
            }
        }
    }

    fn run_mapped<E: Edge>(
        &self,
        spool: &mut Spool<E>,
        keep: bool,
        map: impl Fn(u32) -> u32 + Sync,
    ) -> Result<Partition<E>> {
        let per_edge = if self.side == Side::Both { 2 } else { 1 };
        let entry_bytes = size_of::<E>() as u64;
        let bytes = spool.len() * per_edge * entry_bytes;
        // Chunks and buckets are small while everything stays in memory. On disk they are as large
        // as memory allows, so that the slices of a bucket are long enough to be read efficiently.
        let in_memory = bytes <= self.budget.left();
        let workers = pipeline::alive(self.context.threads) as u64;
        let chunk_bytes =
            if in_memory { CHUNK_BYTES } else { (self.context.memory / 16 / workers).max(1 << 18) };
        let bucket_bytes = if in_memory {
            BUCKET_BYTES
        } else {
            (self.context.memory / 16 / workers).max(1 << 18)
        };
        let buckets = bytes.div_ceil(bucket_bytes).clamp(1, MAX_BUCKETS);
        let finder = Finder::new(self.bounds(spool.sample(), buckets, &map), self.nodes);
        let chunk_edges = (chunk_bytes / entry_bytes / per_edge) as usize;

        let mut partition = Partition {
            bounds: finder.bounds.clone(),
            nodes: self.nodes,
            store: ChunkStore::new(self.scratch, self.budget),
            starts: Vec::new(),
        };
        let store = spool.chunks()?;
        let mut next = 0;
        let groups = std::iter::from_fn(|| {
            let mut group: Vec<Vec<E>> = Vec::new();
            let mut edges = 0;
            while next < store.chunks()
                && (group.is_empty() || edges + store.chunk_records(next) <= chunk_edges)
            {
                edges += store.chunk_records(next);
                let chunk = if keep {
                    store.read(next).map(|chunk| chunk.into_owned())
                } else {
                    store.take(next)
                };
                match chunk {
                    Ok(chunk) => group.push(chunk),
                    Err(error) => return Some(Err(error)),
                }
                next += 1;
            }
            (!group.is_empty()).then_some(Ok(group))
        });
        let spare = SpareChunks::default();
        let work = |group: Vec<Vec<E>>| Ok(finder.group(group, self.side, &map, &spare));
        pipeline::ordered(
            self.context.threads,
            groups,
            work,
            |(entries, starts, edges): (Vec<E>, Vec<u32>, u64)| {
                self.context.observer.advance(edges);
                IngestError::unless_stopped(self.context.observer.is_stopped())?;
                partition.starts.push(starts);
                if let Some(buffer) = partition.store.push(entries)? {
                    spare.grouped.give(buffer);
                }
                Ok(())
            },
        )?;
        Ok(partition)
    }

    /// Bounds at the quantiles of the sample. They are moved to the start of a row, except within
    /// rows that fill a bucket on their own.
    fn bounds(&self, sample: &[[u32; 2]], buckets: u64, map: impl Fn(u32) -> u32) -> Vec<u64> {
        let mut keys: Vec<u64> = Vec::with_capacity(sample.len() * 2);
        for &[source, target] in sample {
            let (source, target) = (map(source), map(target));
            if self.side != Side::Incoming {
                keys.push(key(source, target));
            }
            if self.side != Side::Outgoing {
                keys.push(key(target, source));
            }
        }
        keys.sort_unstable();
        let mut bounds = vec![0];
        for bucket in 1..buckets.min(keys.len() as u64) {
            let quantile =
                keys[(bucket as usize * keys.len()) / buckets.min(keys.len() as u64) as usize];
            let row_start = quantile & !0xffff_ffff;
            let last = *bounds.last().expect("never empty");
            let bound = if row_start > last { row_start } else { quantile };
            if bound > last {
                bounds.push(bound);
            }
        }
        let cuts = (1..self.nodes.div_ceil(MAX_ROWS)).map(|cut| (cut * MAX_ROWS) << 32);
        bounds.extend(cuts);
        bounds.sort_unstable();
        bounds.dedup();
        bounds.push(self.nodes << 32);
        bounds
    }
}

/// Buffers of the workers.
struct SpareChunks<E> {
    entries: BufferPool<E>,
    owners: BufferPool<u16>,
    grouped: BufferPool<E>,
}

impl<E> Default for SpareChunks<E> {
    fn default() -> Self {
        Self {
            entries: BufferPool::default(),
            owners: BufferPool::default(),
            grouped: BufferPool::default(),
        }
    }
}

/// Finds the bucket of an entry.
struct Finder {
    bounds: Vec<u64>,
    /// First bucket that can hold a row with these high bits.
    slots: Vec<u16>,
    shift: u32,
}

impl Finder {
    fn new(bounds: Vec<u64>, nodes: u64) -> Self {
        let shift = (64 - (nodes.max(1) - 1).leading_zeros()).saturating_sub(SLOTS.ilog2());
        let slots = (0..=(nodes.max(1) - 1) >> shift).map(|slot| {
            let first = (slot << shift) << 32;
            (bounds.partition_point(|&bound| bound <= first) - 1) as u16
        });
        Self { slots: slots.collect(), bounds, shift }
    }

    fn bucket(&self, row: u32, column: u32) -> u16 {
        let key = key(row, column);
        let mut bucket = self.slots[(row >> self.shift) as usize];
        while key >= self.bounds[usize::from(bucket) + 1] {
            bucket += 1;
        }
        bucket
    }

    /// Groups the entries of some edges by bucket. Returns them with the start of each group and
    /// the number of edges.
    fn group<E: Edge>(
        &self,
        edges: Vec<Vec<E>>,
        side: Side,
        map: impl Fn(u32) -> u32,
        spare: &SpareChunks<E>,
    ) -> (Vec<E>, Vec<u32>, u64) {
        let count: usize = edges.iter().map(Vec::len).sum();
        let capacity = if side == Side::Both { 2 * count } else { count };
        let (mut entries, mut owner) = (spare.entries.take(), spare.owners.take());
        entries.reserve_exact(capacity);
        owner.reserve_exact(capacity);
        let mut starts = vec![0u32; self.bounds.len()];
        let mut add = |row, column, weight| {
            let bucket = self.bucket(row, column);
            entries.push(E::new(row, column, weight));
            owner.push(bucket);
            starts[usize::from(bucket) + 1] += 1;
        };
        for chunk in edges {
            for edge in chunk {
                let (source, target) = (map(edge.source()), map(edge.target()));
                if side != Side::Outgoing {
                    add(target, source, edge.weight());
                }
                // A self-loop is one entry, in either direction.
                if side == Side::Outgoing || side == Side::Both && source != target {
                    add(source, target, edge.weight());
                }
            }
        }
        for bucket in 1..starts.len() {
            starts[bucket] += starts[bucket - 1];
        }
        let mut at = starts.clone();
        let mut grouped = spare.grouped.take();
        grouped.reserve_exact(entries.len());
        grouped.resize(entries.len(), E::zeroed());
        for (entry, bucket) in entries.iter().zip(&owner) {
            let at = &mut at[usize::from(*bucket)];
            grouped[*at as usize] = *entry;
            *at += 1;
        }
        spare.entries.give(entries);
        spare.owners.give(owner);
        (grouped, starts, count as u64)
    }
}

impl<E: Edge> Partition<E> {
    /// Number of buckets.
    pub fn buckets(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Bytes on disk.
    pub fn spilled(&self) -> u64 {
        self.store.spilled()
    }

    /// Rows that a bucket touches, first and last.
    pub fn rows(&self, bucket: usize) -> (u32, u32) {
        ((self.bounds[bucket] >> 32) as u32, ((self.bounds[bucket + 1] - 1) >> 32) as u32)
    }

    /// The key space of a bucket.
    pub fn space(&self, bucket: usize) -> KeySpace {
        let (first, last) = self.rows(bucket);
        KeySpace::new(first, last, self.nodes)
    }

    /// Number of entries in a bucket.
    pub fn entries(&self, bucket: usize) -> usize {
        self.starts.iter().map(|starts| (starts[bucket + 1] - starts[bucket]) as usize).sum()
    }

    /// Reads a bucket in input order, slice by slice; `flush` is called after each slice is
    /// appended to `entries`.
    pub fn read(
        &self,
        bucket: usize,
        entries: &mut Vec<E>,
        mut flush: impl FnMut(&mut Vec<E>),
    ) -> Result<()> {
        for (chunk, starts) in self.starts.iter().enumerate() {
            let range = starts[bucket] as usize..starts[bucket + 1] as usize;
            if !range.is_empty() {
                self.store.append_range(chunk, range, entries)?;
                flush(entries);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Recorder;
    use crate::edges::spool::Plain;

    /// Rows take memory even without entries, so no bucket has many.
    #[test]
    fn buckets_have_few_rows_whatever_the_number_of_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let observer = Recorder::default();
        let context = Context { threads: 1, memory: 64 << 20, seed: 0, observer: &observer };
        for nodes in [1, 1000, MAX_ROWS, MAX_ROWS + 1, u64::from(u32::MAX)] {
            let last = nodes as u32 - 1;
            let budget = Budget::new(1 << 20);
            let mut spool = Spool::<Plain>::new(dir.path(), &budget);
            spool
                .push(&[Plain { source: 0, target: last }, Plain { source: last, target: 0 }])
                .unwrap();
            let plan = Plan {
                context: &context,
                scratch: dir.path(),
                budget: &budget,
                nodes,
                map: NodeMap::Identity,
                side: Side::Incoming,
            };
            let partition = plan.run(&mut spool, false).unwrap();
            let (mut entries, mut next) = (0, 0);
            for bucket in 0..partition.buckets() {
                let (first, last) = partition.rows(bucket);
                assert!(u64::from(first) == next && u64::from(last - first) < MAX_ROWS);
                next = u64::from(last) + 1;
                entries += partition.entries(bucket);
            }
            assert_eq!((next, entries), (nodes, 2));
        }
    }
}
