//! Node features as Parquet shards: rows in node order, a fixed number of rows a shard, dense or sparse.
//! The only user of Parquet for features; it knows nothing of where they came from.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checksum::FileEntry;
use crate::error::Result;

/// Directory of the shards.
pub const FEATURES: &str = "features";

/// The features' part of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeaturesEntry {
    /// Dense or sparse.
    pub kind: FeatureKind,
    /// Number of columns.
    pub columns: u64,
    /// Rows of every shard but the last.
    pub rows_per_shard: u64,
    /// Number of shards.
    pub shards: u64,
    /// Stored values, for sparse features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonzeros: Option<u64>,
}

/// How a row of features is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureKind {
    /// Column `x`: fixed-size list of f32.
    Dense,
    /// Columns `columns` (list of u32, rising) and `values` (list of f32).
    Sparse,
}

/// Sparse features in memory: row `i` is `offsets[i] .. offsets[i + 1]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparseRows {
    /// Rows + 1 offsets.
    pub offsets: Vec<u64>,
    /// Columns, rising inside a row.
    pub columns: Vec<u32>,
    /// Values.
    pub values: Vec<f32>,
}

/// `features/part-00007.parquet`.
pub fn shard_path(dataset: &Path, shard: u64) -> PathBuf {
    dataset.join(FEATURES).join(format!("part-{shard:05}.parquet"))
}

/// Writes one shard of dense rows (`rows.len()` is a multiple of `columns`); shards may be written in parallel.
pub fn write_dense_shard(dataset: &Path, shard: u64, columns: usize, rows: &[f32]) -> Result<FileEntry> {
    let _ = (dataset, shard, columns, rows);
    todo!()
}

/// Writes one shard of sparse rows.
pub fn write_sparse_shard(dataset: &Path, shard: u64, rows: &SparseRows) -> Result<FileEntry> {
    let _ = (dataset, shard, rows);
    todo!()
}

/// Reads dense rows `first .. first + out.len() / stride` into rows of `stride` floats (>= columns, padding left alone), row groups in parallel.
pub fn read_dense(
    dataset: &Path,
    entry: &FeaturesEntry,
    first: u64,
    out: &mut [f32],
    stride: usize,
) -> Result<()> {
    let _ = (dataset, entry, first, out, stride);
    todo!()
}

/// Reads all sparse rows.
pub fn read_sparse(dataset: &Path, entry: &FeaturesEntry) -> Result<SparseRows> {
    let _ = (dataset, entry);
    todo!()
}
