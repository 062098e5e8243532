//! Node features as Parquet shards: rows in node order, with a fixed number of rows per shard,
//! dense or sparse.
//!
//! A shard has row groups of about 4 MiB of values: small enough for parallel reads, large enough
//! that their footer entries do not matter. Values are not checked here: NaN and infinity are found
//! by `ignn check`.

mod dense;
mod sparse;

use std::ops::Range;
use std::path::{Path, PathBuf};

use arrow_schema::{DataType, Field};
use parquet::file::properties::{EnabledStatistics, WriterPropertiesBuilder};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::error::{FormatError, Result};
use crate::storage;
use crate::table::{self, Table, TableWriter};

pub use dense::{read_dense, write_dense_shard};
pub(crate) use sparse::visit_sparse;
pub use sparse::{SparseRows, read_sparse, write_sparse_shard};

/// Directory of the shards.
pub const FEATURES: &str = "features";
/// Approximate bytes of values per row group.
const GROUP_BYTES: usize = 4 << 20;

/// The features' part of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeaturesEntry {
    /// Dense or sparse.
    pub kind: FeatureKind,
    /// Number of columns.
    pub columns: u64,
    /// Rows of every shard except the last.
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
    /// Columns `columns` (list of u32, ascending) and `values` (list of f32).
    Sparse,
}

impl FeatureKind {
    /// Largest number of columns. A dense row is held in memory as a whole, so a damaged manifest
    /// must not be able to declare an arbitrary number.
    pub fn most_columns(self) -> u64 {
        match self {
            Self::Dense => 1 << 20,
            Self::Sparse => i32::MAX as u64,
        }
    }
}

/// `features/part-00007.parquet`.
pub fn shard_path(dataset: &Path, shard: u64) -> PathBuf {
    dataset.join(FEATURES).join(format!("part-{shard:05}.parquet"))
}

/// Creates a shard, and its directory if it is missing.
fn create(
    dataset: &Path,
    shard: u64,
    fields: Vec<Field>,
    properties: WriterPropertiesBuilder,
) -> Result<TableWriter> {
    let path = shard_path(dataset, shard);
    let directory = dataset.join(FEATURES);
    storage::create_below(dataset, &directory)?;
    let properties = properties
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        // Row groups are ended by the caller.
        .set_max_row_group_row_count(None)
        .set_max_row_group_bytes(None);
    TableWriter::create(path, fields, properties)
}

/// Opens shards in parallel. Every shard except the last of the dataset must have `rows_per_shard`
/// rows; the last has at least one and not more than that.
fn open_shards(dataset: &Path, entry: &FeaturesEntry, shards: Range<u64>) -> Result<Vec<Table>> {
    let lists = [DataType::Float32, DataType::UInt32].map(|item| [table::list_of(item)]);
    let open = |shard: u64| {
        let path = shard_path(dataset, shard);
        let columns = match entry.kind {
            FeatureKind::Dense => vec![table::column("x", &lists[0])],
            FeatureKind::Sparse => {
                vec![table::column("columns", &lists[1]), table::column("values", &lists[0])]
            }
        };
        let table = Table::open(&path, &columns, None)?;
        let (rows, full) = (table.rows()?, entry.rows_per_shard);
        if shard + 1 < entry.shards && rows != full {
            return Err(FormatError::invalid(path, "number of rows", rows, full));
        }
        if rows == 0 || rows > full {
            return Err(FormatError::invalid(path, "number of rows", rows, format!("1 to {full}")));
        }
        if entry.kind == FeatureKind::Dense {
            // Checked before memory is allocated for the rows.
            let values =
                table.footer().row_groups().iter().map(|group| group.column(0).num_values());
            let (values, rows) = (values.map(i128::from).sum::<i128>(), i128::from(rows));
            if values != rows * i128::from(entry.columns) {
                let found = format!("{values} values in {rows} rows");
                return Err(FormatError::invalid(
                    path,
                    "shape",
                    found,
                    format!("rows of {} values", entry.columns),
                ));
            }
        }
        Ok(table)
    };
    // All results, then the first error by position: the message does not depend on timing.
    let results: Vec<Result<_>> = shards.into_par_iter().map(open).collect();
    results.into_iter().collect()
}

/// Checks that the shards have the rows and columns, and sparse ones the number of values, that
/// their entry says.
pub(crate) fn check_shape(dataset: &Path, entry: &FeaturesEntry, nodes: u64) -> Result<()> {
    check_last_shard(dataset, entry, nodes)?;
    match entry.kind {
        FeatureKind::Dense => open_shards(dataset, entry, 0..entry.shards).map(drop),
        FeatureKind::Sparse => visit_sparse(dataset, entry, |_, _| ()).map(drop),
    }
}

/// Checks that the last shard has the remaining rows; the others are checked when they are opened.
pub(crate) fn check_last_shard(dataset: &Path, entry: &FeaturesEntry, nodes: u64) -> Result<()> {
    let Some(last) = entry.shards.checked_sub(1) else { return Ok(()) };
    let expected = nodes.saturating_sub(last.saturating_mul(entry.rows_per_shard));
    for table in open_shards(dataset, entry, last..entry.shards)? {
        if table.rows()? != expected {
            return Err(FormatError::invalid(
                table.path(),
                "number of rows",
                table.rows()?,
                expected,
            ));
        }
    }
    Ok(())
}

/// An entry for tests.
#[cfg(test)]
fn entry(kind: FeatureKind, columns: usize, rows_per_shard: usize, rows: usize) -> FeaturesEntry {
    let shards = rows.div_ceil(rows_per_shard) as u64;
    let (columns, rows_per_shard) = (columns as u64, rows_per_shard as u64);
    FeaturesEntry { kind, columns, rows_per_shard, shards, nonzeros: None }
}
