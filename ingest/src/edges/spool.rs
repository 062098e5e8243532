//! Edges in the order in which they were read, in memory while they fit and then on disk. Nodes
//! have the numbers that the reader assigned; they are mapped when the relation is built.

use std::path::Path;

use bytemuck::{Pod, Zeroable};

use crate::edges::store::{Budget, ChunkStore};
use crate::error::Result;

/// An edge without a weight.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Plain {
    /// Source node; after partitioning, the row of the entry.
    pub source: u32,
    /// Target node; after partitioning, the column of the entry.
    pub target: u32,
}

/// An edge with a weight.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Weighted {
    /// Source node, or the row.
    pub source: u32,
    /// Target node, or the column.
    pub target: u32,
    /// Its weight.
    pub weight: f32,
}

/// An edge of either kind; also an entry of the matrix, with the row as source.
pub trait Edge: Pod + Send + Sync {
    /// Whether it has a weight.
    const WEIGHTED: bool;
    /// Creates an edge; plain edges ignore the weight.
    fn new(source: u32, target: u32, weight: f32) -> Self;
    /// Source, or row.
    fn source(&self) -> u32;
    /// Target, or column.
    fn target(&self) -> u32;
    /// Weight, 1 for plain edges.
    fn weight(&self) -> f32;
}

impl Edge for Plain {
    const WEIGHTED: bool = false;
    fn new(source: u32, target: u32, _weight: f32) -> Self {
        Self { source, target }
    }
    fn source(&self) -> u32 {
        self.source
    }
    fn target(&self) -> u32 {
        self.target
    }
    fn weight(&self) -> f32 {
        1.0
    }
}

impl Edge for Weighted {
    const WEIGHTED: bool = true;
    fn new(source: u32, target: u32, weight: f32) -> Self {
        Self { source, target, weight }
    }
    fn source(&self) -> u32 {
        self.source
    }
    fn target(&self) -> u32 {
        self.target
    }
    fn weight(&self) -> f32 {
        self.weight
    }
}

/// A list of edges, with weights or without.
#[derive(Debug)]
pub enum EdgeSpool {
    /// Without weights.
    Plain(Spool<Plain>),
    /// With weights.
    Weighted(Spool<Weighted>),
}

/// Chunks of edges of one kind, with a sample for choosing partitions.
#[derive(Debug)]
pub struct Spool<E> {
    store: ChunkStore<E>,
    /// The chunk being filled. All chunks before it are full, so they reserve no unused memory.
    open: Vec<E>,
    sample: Vec<[u32; 2]>,
    loops: u64,
}

/// One edge in this many is kept in the sample.
pub const SAMPLE_EVERY: usize = 509;
/// Bytes per chunk.
const CHUNK_BYTES: usize = 2 << 20;

impl<E: Edge> Spool<E> {
    /// An empty spool.
    pub fn new(scratch: &Path, budget: &Budget) -> Self {
        Self {
            store: ChunkStore::new(scratch, budget),
            open: Vec::new(),
            sample: Vec::new(),
            loops: 0,
        }
    }

    /// Appends edges.
    pub fn push(&mut self, edges: &[E]) -> Result<()> {
        let phase = (SAMPLE_EVERY - (self.len() % SAMPLE_EVERY as u64) as usize) % SAMPLE_EVERY;
        self.sample.extend(
            edges.iter().skip(phase).step_by(SAMPLE_EVERY).map(|e| [e.source(), e.target()]),
        );
        self.loops += edges.iter().filter(|e| e.source() == e.target()).count() as u64;
        let capacity = CHUNK_BYTES / size_of::<E>();
        let mut rest = edges;
        while !rest.is_empty() {
            if self.open.len() == capacity {
                self.close()?;
            }
            let (now, later) = rest.split_at(rest.len().min(capacity - self.open.len()));
            let needed = self.open.len() + now.len();
            if needed > self.open.capacity() {
                // There can be many short spools, so the buffer grows step by step up to
                // `capacity`.
                let wanted = (2 * self.open.len()).clamp(needed, capacity);
                self.open.reserve_exact(wanted - self.open.len());
            }
            self.open.extend_from_slice(now);
            rest = later;
        }
        Ok(())
    }

    /// Counts the edges of the last chunk against the budget too, or writes them to disk. Call it
    /// after the last push if other spools are filled after this one.
    pub fn settle(&mut self) -> Result<()> {
        self.open.shrink_to_fit();
        self.close()?;
        self.open = Vec::new();
        self.sample.shrink_to_fit();
        Ok(())
    }

    /// Number of edges.
    pub fn len(&self) -> u64 {
        self.store.records() + self.open.len() as u64
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Edges from a node to itself.
    pub fn loops(&self) -> u64 {
        self.loops
    }

    /// Every [`SAMPLE_EVERY`]th edge.
    pub fn sample(&self) -> &[[u32; 2]] {
        &self.sample
    }

    /// Visits all edges in order, one chunk at a time.
    pub fn visit(&self, mut visit: impl FnMut(&[E])) -> Result<()> {
        for chunk in 0..self.store.chunks() {
            visit(&self.store.read(chunk)?);
        }
        visit(&self.open);
        Ok(())
    }

    /// The chunks of all edges.
    pub fn chunks(&mut self) -> Result<&mut ChunkStore<E>> {
        self.close()?;
        Ok(&mut self.store)
    }

    /// Bytes on disk.
    pub fn spilled(&self) -> u64 {
        self.store.spilled()
    }

    fn close(&mut self) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        if let Some(mut buffer) = self.store.push(std::mem::take(&mut self.open))? {
            buffer.clear();
            self.open = buffer;
        }
        Ok(())
    }
}

impl EdgeSpool {
    /// An empty spool; when the budget is used up, it continues in a file in `scratch`.
    pub fn new(scratch: &Path, budget: &Budget, weighted: bool) -> Self {
        if weighted {
            Self::Weighted(Spool::new(scratch, budget))
        } else {
            Self::Plain(Spool::new(scratch, budget))
        }
    }

    /// Appends a chunk of edges. `weights` has the length of `edges`, or is empty for an unweighted
    /// spool.
    pub fn push(&mut self, edges: &[[u32; 2]], weights: &[f32]) -> Result<()> {
        match self {
            Self::Plain(spool) => {
                let edges: Vec<_> =
                    edges.iter().map(|&[source, target]| Plain { source, target }).collect();
                spool.push(&edges)
            }
            Self::Weighted(spool) => {
                assert_eq!(edges.len(), weights.len(), "a weight for every edge");
                let weigh = |(&[source, target], &weight): (&[u32; 2], &f32)| Weighted {
                    source,
                    target,
                    weight,
                };
                spool.push(&edges.iter().zip(weights).map(weigh).collect::<Vec<_>>())
            }
        }
    }

    /// See [`Spool::settle`].
    pub fn settle(&mut self) -> Result<()> {
        match self {
            Self::Plain(spool) => spool.settle(),
            Self::Weighted(spool) => spool.settle(),
        }
    }

    /// Number of edges.
    pub fn len(&self) -> u64 {
        match self {
            Self::Plain(spool) => spool.len(),
            Self::Weighted(spool) => spool.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether edges have weights.
    pub fn weighted(&self) -> bool {
        matches!(self, Self::Weighted(_))
    }
}
