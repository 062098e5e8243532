//! Edges in the order in which they were read, in memory while they fit and on disk beyond.
//! Node numbers are whatever the reader gave; the build maps them.

use std::path::Path;

use crate::error::Result;

/// A list of edges `[source, target]`, with weights or without.
pub struct EdgeSpool {
    _weighted: bool,
}

impl EdgeSpool {
    /// An empty spool; beyond `memory` bytes it goes on in a file in `scratch`.
    pub fn new(scratch: &Path, memory: u64, weighted: bool) -> Self {
        let _ = (scratch, memory);
        Self { _weighted: weighted }
    }

    /// Appends edges; `weights` is empty for an unweighted spool, else as long as `edges`.
    pub fn push(&mut self, edges: &[[u32; 2]], weights: &[f32]) -> Result<()> {
        let _ = (edges, weights);
        todo!()
    }

    /// Number of edges.
    pub fn len(&self) -> u64 {
        todo!()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
