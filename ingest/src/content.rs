//! The parts of a dataset as one trait, which sources and generators implement and the builder
//! writes.

use ignn_format::features::SparseRows;
use ignn_format::graphs::Graphs;
use ignn_format::ids::Ids;
use ignn_format::labels::Labels;
use ignn_format::splits::Split;

use crate::error::{IngestError, Result};
use crate::pipeline;

/// The parts of a dataset. Edges come in chunks. A chunk is a function of its index only, so any
/// thread can produce any chunk and the result does not depend on the number of threads. The same
/// holds for rows of features.
pub trait Content: Sync {
    /// Number of nodes.
    fn nodes(&self) -> u64;

    /// Number of chunks of edges.
    fn edge_chunks(&self) -> u64;

    /// Appends the edges of a chunk to `edges`.
    fn edge_chunk(&self, chunk: u64, edges: &mut Vec<[u32; 2]>);

    /// Number of edges in all chunks, if it is known in advance.
    fn edges(&self) -> Option<u64> {
        None
    }

    /// The user's ids; `None` where they are `0, 1, ..., nodes - 1`.
    fn ids(&self) -> Option<&Ids> {
        None
    }

    /// Node features.
    fn features(&self) -> Option<Features<'_>> {
        None
    }

    /// Node labels.
    fn labels(&self) -> Option<Labels> {
        None
    }

    /// Splits of the nodes.
    fn splits(&self) -> Vec<Split> {
        Vec::new()
    }

    /// Node ranges, labels and splits of the graphs, for a dataset of many graphs.
    fn graphs(&self) -> Option<&Graphs> {
        None
    }
}

/// Fills whole rows, starting with a node: `(first_row, rows)`.
pub type FillRows<'a> = Box<dyn Fn(u64, &mut [f32]) + Sync + 'a>;
/// Returns `count` rows, starting with a node: `(first_row, count)`.
pub type MakeRows<'a> = Box<dyn Fn(u64, usize) -> SparseRows + Sync + 'a>;

/// Node features, computed when they are written.
pub enum Features<'a> {
    /// Every value is stored.
    Dense {
        /// Number of columns.
        columns: usize,
        /// The rows.
        fill: FillRows<'a>,
    },
    /// Only non-zero values are stored.
    Sparse {
        /// Number of columns.
        columns: usize,
        /// The rows.
        rows: MakeRows<'a>,
    },
}

/// Produces all chunks in parallel, passes each to `work` on the same thread, and passes the
/// results to `consume` in order.
pub fn for_each_chunk<U: Send>(
    content: &dyn Content,
    threads: usize,
    work: impl Fn(&[[u32; 2]]) -> U + Sync,
    mut consume: impl FnMut(U) -> Result<()>,
) -> Result<()> {
    let make = |chunk| {
        let mut edges = Vec::new();
        content.edge_chunk(chunk, &mut edges);
        Ok::<_, IngestError>(work(&edges))
    };
    pipeline::ordered(threads, (0..content.edge_chunks()).map(Ok), make, &mut consume)
}
