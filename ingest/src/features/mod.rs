//! Adds node features from any supported file to the dataset, dense or sparse as in the file, in
//! bounded memory. This module assigns rows to nodes; parsing is done in [`crate::source`], and the
//! builder writes the shards.
//!
//! In a file without ids (.npy, .npz, Matrix Market, Parquet without an id column), row `r` belongs
//! to the node with integer id `r`. If that is also the order of the nodes and the file allows
//! random access, shards are filled directly from the file. Otherwise rows or entries pass through
//! `buckets`, grouped by node range.

mod buckets;
mod dense;
pub mod encoded;
mod sparse;

use std::path::{Path, PathBuf};

use ignn_format::features::{FeatureKind, SparseRows};
use ignn_format::ids::IdKind;

use crate::builder::DatasetBuilder;
use crate::context::Context;
use crate::error::{IngestError, Result};
use crate::nodes::NodeLookup;
use crate::source::npy::NpyArray;
use crate::source::npz::Npz;
use crate::source::{matrix_market, npy, npz, table, text};

/// The share of the memory for buffers of this module; the rest is for the shards being written.
const MEMORY_SHARE: u64 = 4;

/// Summary of a feature file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeaturesSummary {
    /// Dense or sparse.
    pub kind: FeatureKind,
    /// Number of columns.
    pub columns: u64,
    /// Number of nodes with features.
    pub given: u64,
    /// Number of nodes without features, which got zeros.
    pub missing: u64,
}

/// Adds the features in a file to the dataset. Nodes without features are an error unless
/// `missing_zero`.
pub fn add(
    context: &Context,
    builder: &mut DatasetBuilder,
    nodes: &dyn NodeLookup,
    path: &Path,
    missing_zero: bool,
) -> Result<FeaturesSummary> {
    Job { context, nodes, path, missing_zero }.run(builder)
}

/// Number of rows of a file without ids, whose row `r` belongs to the node with id `r`; `None` if
/// it has ids.
pub fn rows_by_position(path: &Path) -> Result<Option<u64>> {
    match Format::of(path)? {
        // Without columns, rows take no space, so a tiny file could declare any number of them.
        Format::Npy => {
            let array = NpyArray::open(path)?;
            Ok((array.columns() > 0).then_some(array.rows()))
        }
        Format::Npz => npz::rows(path).map(Some),
        Format::MatrixMarket => {
            let (header, _) = matrix_market::Header::open(path)?;
            header.check_nodes(path, header.rows, 0)?;
            Ok(Some(header.rows))
        }
        Format::Table if table::is_parquet(path)? => {
            let (has_ids, rows) = table::parquet_rows(path)?;
            Ok((!has_ids).then_some(rows))
        }
        Format::Table => Ok(None),
    }
}

/// Formats of a feature file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Npy,
    Npz,
    MatrixMarket,
    Table,
}

impl Format {
    /// Detected by the file name extension, or else by the first bytes.
    fn of(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
        let (mut stream, compression) = text::open_stream(path)?;
        let mut head = [0; matrix_market::MAGIC.len()];
        // A damaged compressed file is reported by its reader.
        let got = text::read_up_to(&mut stream, &mut head).unwrap_or(0);
        let head = &head[..got];
        let format = match name.rsplit('.').next() {
            Some("npy") => Self::Npy,
            Some("npz") => Self::Npz,
            Some("mtx") => Self::MatrixMarket,
            _ if head.starts_with(npy::MAGIC) => Self::Npy,
            _ if head.starts_with(b"PK\x03\x04") => Self::Npz,
            _ if head.eq_ignore_ascii_case(matrix_market::MAGIC) => Self::MatrixMarket,
            _ => Self::Table,
        };
        if matches!(format, Self::Npy | Self::Npz) && compression != text::Compression::Plain {
            return Err(IngestError::file(path, "a compressed NumPy file: decompress it first"));
        }
        Ok(format)
    }
}

/// Where features go: the builder, or a test.
trait Sink {
    fn scratch(&self) -> PathBuf;
    fn add_dense(&mut self, columns: usize, fill: &DenseFill) -> Result<()>;
    fn add_sparse(&mut self, columns: usize, rows: &SparseRead) -> Result<()>;
}

/// Fills whole rows, starting with a node.
type DenseFill<'a> = dyn Fn(u64, &mut [f32]) -> Result<()> + Sync + 'a;
/// Returns a number of rows, starting with a node.
type SparseRead<'a> = dyn Fn(u64, usize) -> Result<SparseRows> + Sync + 'a;

impl Sink for DatasetBuilder<'_> {
    fn scratch(&self) -> PathBuf {
        DatasetBuilder::scratch(self)
    }

    fn add_dense(&mut self, columns: usize, fill: &DenseFill) -> Result<()> {
        self.add_dense_features(columns, fill)
    }

    fn add_sparse(&mut self, columns: usize, rows: &SparseRead) -> Result<()> {
        self.add_sparse_features(columns, rows)
    }
}

/// The job of adding one feature file.
struct Job<'a> {
    context: &'a Context<'a>,
    nodes: &'a dyn NodeLookup,
    path: &'a Path,
    missing_zero: bool,
}

impl Job<'_> {
    fn run(&self, sink: &mut dyn Sink) -> Result<FeaturesSummary> {
        match Format::of(self.path)? {
            Format::Npy => dense::from_array(self, sink, &NpyArray::open(self.path)?),
            Format::Npz => match npz::open(self.path, &sink.scratch())? {
                Npz::Dense(array) => dense::from_array(self, sink, &array),
                Npz::Sparse(matrix) => sparse::from_arrays(self, sink, &matrix),
            },
            Format::MatrixMarket => sparse::from_matrix_market(self, sink),
            Format::Table => dense::from_table(self, sink),
        }
    }

    /// Bytes that buffers may use.
    fn memory(&self) -> u64 {
        self.context.memory / MEMORY_SHARE
    }

    /// Checks the number of rows of a file without ids.
    fn check_rows(&self, rows: u64) -> Result<()> {
        let nodes = self.nodes.nodes();
        if self.nodes.kind() == IdKind::String {
            let what = "rows without node ids, but the ids of the graph are text: give the \
                        features as CSV or Parquet with a column \"node\"";
            return Err(IngestError::file(self.path, what));
        }
        if rows > nodes {
            return Err(IngestError::file(
                self.path,
                format!("{rows} rows, but the graph has {nodes} nodes"),
            ));
        }
        if rows < nodes && !self.missing_zero {
            let what = format!(
                "{rows} rows, but the graph has {nodes} nodes (row r belongs to node id r; pass \
                 --missing-features zero to give the others zeros)"
            );
            return Err(IngestError::file(self.path, what));
        }
        Ok(())
    }

    /// The node of a row of a file without ids.
    fn node_of_row(&self, row: u64) -> Result<u32> {
        self.nodes.find_row(row)?.ok_or_else(|| {
            let what = format!(
                "row {row} (counting from 0) belongs to node id {row}, which is not in the graph: \
                 give the features as CSV or Parquet with a column \"node\""
            );
            IngestError::file(self.path, what)
        })
    }

    /// Checks the number of columns against the format's limit.
    fn check_columns(&self, columns: u64) -> Result<usize> {
        match u32::try_from(columns) {
            Ok(0) => Err(IngestError::file(self.path, "no feature columns (expected at least 1)")),
            Ok(columns) => Ok(columns as usize),
            Err(_) => Err(IngestError::file(
                self.path,
                format!("{columns} columns (expected fewer than 2^32)"),
            )),
        }
    }

    fn summary(&self, kind: FeatureKind, columns: usize, given: u64) -> FeaturesSummary {
        FeaturesSummary {
            kind,
            columns: columns as u64,
            given,
            missing: self.nodes.nodes() - given,
        }
    }

    /// The error for a value that is not finite.
    fn not_finite(&self, row: u64, column: u64, value: f32) -> IngestError {
        let what = format!(
            "row {row}, column {column} (counting from 0): expected a finite number, found {value}"
        );
        IngestError::file(self.path, what)
    }
}

#[cfg(test)]
mod tests;
