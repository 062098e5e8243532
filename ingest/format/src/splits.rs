//! Named splits of the nodes (`splits.parquet`) or of the graphs: each assigns some of them to named parts.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checksum::FileEntry;
use crate::error::Result;

/// In no part.
pub const NO_PART: u8 = u8::MAX;

/// A split's part of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitEntry {
    /// Name of the split and of its column.
    pub name: String,
    /// Parts in order, with how many nodes or graphs each has.
    pub parts: Vec<(String, u64)>,
}

/// One split.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// Name, unique in the dataset ("default" where the user gave none).
    pub name: String,
    /// Part names; at most 254.
    pub parts: Vec<String>,
    /// Index of the part of each node or graph, or [`NO_PART`].
    pub of: Vec<u8>,
}

/// Writes `splits.parquet`: a row a node, a dictionary-encoded string column a split, null for no part.
pub fn write(dataset: &Path, splits: &[Split]) -> Result<(Vec<SplitEntry>, Vec<(PathBuf, FileEntry)>)> {
    let _ = (dataset, splits);
    todo!()
}

/// Reads the splits of the nodes.
pub fn read(dataset: &Path, entries: &[SplitEntry], nodes: u64) -> Result<Vec<Split>> {
    let _ = (dataset, entries, nodes);
    todo!()
}
