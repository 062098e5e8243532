//! A dataset in the making: every command gathers its parts here, and the manifest comes last.
//! It knows the format and the order of things; it does not know raw files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ignn_format::features::SparseRows;
use ignn_format::graphs::Graphs;
use ignn_format::ids::Ids;
use ignn_format::labels::Labels;
use ignn_format::manifest::{Manifest, Normalisation, RelationEntry};
use ignn_format::splits::Split;

use crate::context::Context;
use crate::edges::spool::EdgeSpool;
use crate::error::Result;

/// How the edges of a relation become its matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationOptions {
    /// Keep the direction of edges; otherwise each edge counts both ways.
    pub directed: bool,
    /// Normalisation of the matrix.
    pub normalise: Normalisation,
    /// What becomes of an edge given more than once.
    pub duplicates: Duplicates,
    /// What becomes of edges from a node to itself.
    pub self_loops: SelfLoops,
}

/// What becomes of an edge given more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Weights are added (an unweighted edge counts 1).
    Sum,
    /// The largest weight stays; unweighted edges stay unweighted.
    Max,
    /// The first in the input stays.
    First,
    /// They are refused.
    Error,
}

/// What becomes of edges from a node to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfLoops {
    /// They stay.
    Keep,
    /// They are left out.
    Drop,
}

impl Default for RelationOptions {
    fn default() -> Self {
        Self {
            directed: false,
            normalise: Normalisation::Renorm,
            duplicates: Duplicates::Max,
            self_loops: SelfLoops::Keep,
        }
    }
}

/// A dataset in the making.
pub struct DatasetBuilder<'a> {
    _context: &'a Context<'a>,
}

impl<'a> DatasetBuilder<'a> {
    /// Refuses an existing target without `force`; creates the temporary directory. `command` is the subcommand
    /// ("generate chains"), `options` what shaped the result; both go to the manifest.
    pub fn begin(
        context: &'a Context<'a>,
        out: &Path,
        force: bool,
        command: &str,
        options: BTreeMap<String, String>,
    ) -> Result<Self> {
        let _ = (out, force, command, options);
        Ok(Self { _context: context })
    }

    /// The dataset directory while it is unfinished.
    pub fn path(&self) -> &Path {
        todo!()
    }

    /// A directory for temporary files, gone at the end.
    pub fn scratch(&self) -> PathBuf {
        todo!()
    }

    /// Says how many nodes there are; before any other part. At most 2^32 - 1.
    pub fn set_nodes(&mut self, nodes: u64) -> Result<()> {
        let _ = nodes;
        todo!()
    }

    /// An empty spool for [`DatasetBuilder::add_relation`], with a share of the memory.
    pub fn spool(&self, weighted: bool) -> EdgeSpool {
        let _ = weighted;
        todo!()
    }

    /// Builds and writes the adjacency of a relation from edges whose node numbers are final (below `nodes`).
    pub fn add_relation(
        &mut self,
        name: &str,
        edges: EdgeSpool,
        options: &RelationOptions,
    ) -> Result<RelationEntry> {
        let _ = (name, edges, options);
        todo!()
    }

    /// Writes the original ids.
    pub fn add_ids(&mut self, ids: &Ids) -> Result<()> {
        let _ = ids;
        todo!()
    }

    /// Writes ids `0, 1, ..., nodes - 1`.
    pub fn add_ids_counting(&mut self) -> Result<()> {
        todo!()
    }

    /// Writes dense features, shard by shard in parallel: `fill(first_row, rows)` fills whole rows from node
    /// `first_row` on; it is called from several threads.
    pub fn add_dense_features(
        &mut self,
        columns: usize,
        fill: impl Fn(u64, &mut [f32]) -> Result<()> + Sync,
    ) -> Result<()> {
        let _ = (columns, fill);
        todo!()
    }

    /// Writes sparse features, shard by shard in parallel: `rows(first_row, count)` returns those rows.
    pub fn add_sparse_features(
        &mut self,
        columns: usize,
        rows: impl Fn(u64, usize) -> Result<SparseRows> + Sync,
    ) -> Result<()> {
        let _ = (columns, rows);
        todo!()
    }

    /// Writes node labels.
    pub fn add_labels(&mut self, labels: &Labels) -> Result<()> {
        let _ = labels;
        todo!()
    }

    /// Writes splits of the nodes, all at once.
    pub fn add_splits(&mut self, splits: &[Split]) -> Result<()> {
        let _ = splits;
        todo!()
    }

    /// Writes the blocks, labels and splits of a dataset of many graphs.
    pub fn add_graphs(&mut self, graphs: &Graphs) -> Result<()> {
        let _ = graphs;
        todo!()
    }

    /// Writes the manifest and renames the directory to its target.
    pub fn finish(self) -> Result<Manifest> {
        todo!()
    }
}
