//! A dataset of many graphs: `graphs.parquet`, a row a graph: its block of nodes, its label, its splits.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checksum::FileEntry;
use crate::error::Result;
use crate::splits::{Split, SplitEntry};

/// The graphs' part of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphsEntry {
    /// Number of graphs.
    pub count: u64,
    /// Class names of the graph labels, in class order; empty where graphs have no labels.
    pub classes: Vec<String>,
    /// Splits over graphs.
    pub splits: Vec<SplitEntry>,
}

/// The graphs of a dataset; graph `g` has the nodes `first_node[g] .. first_node[g + 1]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Graphs {
    /// The user's own names of the graphs.
    pub ids: Vec<String>,
    /// Graphs + 1 offsets, rising, from 0 to the number of nodes.
    pub first_node: Vec<u64>,
    /// Class names, empty where graphs have no labels.
    pub classes: Vec<String>,
    /// Class of each graph, -1 for none; empty where graphs have no labels.
    pub labels: Vec<i32>,
    /// Splits over graphs.
    pub splits: Vec<Split>,
}

/// Writes `graphs.parquet`: columns `id`, `first_node`, `nodes`, `label` (i32, nullable), and `split.<name>` for each split.
pub fn write(dataset: &Path, graphs: &Graphs) -> Result<(GraphsEntry, Vec<(PathBuf, FileEntry)>)> {
    let _ = (dataset, graphs);
    todo!()
}

/// Reads and checks them.
pub fn read(dataset: &Path, entry: &GraphsEntry, nodes: u64) -> Result<Graphs> {
    let _ = (dataset, entry, nodes);
    todo!()
}
