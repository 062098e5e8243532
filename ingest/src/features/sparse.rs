//! Sparse features: repeated entries are summed, zeros are dropped.

use std::ops::Range;

use ignn_format::features::{FeatureKind, SparseRows};

use super::buckets::Buckets;
use super::{FeaturesSummary, Job, Sink};
use crate::context::Unit;
use crate::error::{IngestError, Result};
use crate::source::matrix_market::{Entries, Symmetry};
use crate::source::npz::{SparseArrays, SparseLayout};

/// Entries read at once from arrays.
const PIECE: u64 = 1 << 18;

/// Features in a Matrix Market file: row `r` belongs to node id `r`.
pub fn from_matrix_market(job: &Job, sink: &mut dyn Sink) -> Result<FeaturesSummary> {
    let mut entries = Entries::open(job.path)?;
    let header = *entries.header();
    let columns = job.check_columns(header.cols)?;
    job.check_rows(header.rows)?;
    job.context.observer.phase("read features", Some(header.entries), Unit::Items("entries"));
    let mut gathered = EntryBuckets::new(job, sink, header.entries);
    let mut count = 0u64;
    while let Some((row, column, value)) = entries.next()? {
        gathered.push(row, column, value)?;
        if header.symmetry == Symmetry::Symmetric && row != column {
            gathered.push(column, row, value)?;
        }
        count += 1;
        if count.is_multiple_of(PIECE) {
            job.context.observer.advance(PIECE);
        }
    }
    job.context.observer.advance(count % PIECE);
    gathered.write(sink, columns)?;
    Ok(job.summary(FeatureKind::Sparse, columns, header.rows))
}

/// Features in the arrays of a SciPy matrix: row `r` belongs to node id `r`.
pub fn from_arrays(
    job: &Job,
    sink: &mut dyn Sink,
    matrix: &SparseArrays,
) -> Result<FeaturesSummary> {
    let columns = job.check_columns(matrix.columns)?;
    job.check_rows(matrix.rows)?;
    if matrix.layout == SparseLayout::Csr && job.nodes.is_consecutive() {
        sink.add_sparse(columns, &|first, count| {
            let mut rows = RowsBuilder::new(count);
            let end = matrix.rows.min(first + count as u64);
            for_each_entry(job, matrix, first, end, &mut |row, column, value| {
                rows.push((row - first) as usize, column, value);
                Ok(())
            })?;
            rows.finish().map_err(|(row, column)| overflow(job, first + row as u64, column))
        })?;
        return Ok(job.summary(FeatureKind::Sparse, columns, matrix.rows));
    }
    job.context.observer.phase("read features", Some(matrix.entries()), Unit::Items("entries"));
    let mut gathered = EntryBuckets::new(job, sink, matrix.entries());
    let majors = match matrix.layout {
        SparseLayout::Csr => matrix.rows,
        SparseLayout::Csc => matrix.columns,
        SparseLayout::Coo => matrix.entries(),
    };
    let mut count = 0u64;
    for_each_entry(job, matrix, 0, majors, &mut |row, column, value| {
        count += 1;
        if count.is_multiple_of(PIECE) {
            job.context.observer.advance(PIECE);
        }
        gathered.push(row, u64::from(column), value)
    })?;
    job.context.observer.advance(count % PIECE);
    gathered.write(sink, columns)?;
    Ok(job.summary(FeatureKind::Sparse, columns, matrix.rows))
}

/// Visits the entries of rows `first .. end` in order, and checks them. For other layouts, the
/// range is one of columns or of entries.
fn for_each_entry(
    job: &Job,
    matrix: &SparseArrays,
    first: u64,
    end: u64,
    visit: &mut dyn FnMut(u64, u32, f32) -> Result<()>,
) -> Result<()> {
    let mut visit_checked = |major: u64, minor: u64, value: f32| {
        let (row, column) =
            if matrix.layout == SparseLayout::Csc { (minor, major) } else { (major, minor) };
        if row >= matrix.rows || column >= matrix.columns {
            let (rows, columns) = (matrix.rows, matrix.columns);
            let what =
                format!("entry at row {row}, column {column}, outside shape ({rows}, {columns})");
            return Err(IngestError::file(job.path, what));
        }
        if !value.is_finite() {
            return Err(job.not_finite(row, column, value));
        }
        visit(row, column as u32, value)
    };
    let (mut majors, mut minors, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for piece in (first..end).step_by(PIECE as usize) {
        let count = PIECE.min(end - piece);
        let compressed = matrix.layout != SparseLayout::Coo;
        majors.resize(count as usize + usize::from(compressed), 0);
        matrix.major.read_integers(piece, &mut majors)?;
        let range =
            if compressed { check_offsets(matrix, piece, &majors)? } else { piece..piece + count };
        let mut at = 0;
        for from in range.clone().step_by(PIECE as usize) {
            let count = PIECE.min(range.end - from);
            minors.resize(count as usize, 0);
            values.resize(count as usize, 0.0);
            matrix.minor.read_integers(from, &mut minors)?;
            matrix.values.read_rows(from, &mut values)?;
            for (entry, (&minor, &value)) in (from..).zip(minors.iter().zip(&values)) {
                if !compressed {
                    visit_checked(majors[(entry - piece) as usize], minor, value)?;
                    continue;
                }
                while majors[at + 1] <= entry {
                    at += 1;
                }
                visit_checked(piece + at as u64, minor, value)?;
            }
        }
    }
    Ok(())
}

/// Checks that offsets do not decrease and stay in range; returns the range of entries.
fn check_offsets(matrix: &SparseArrays, first: u64, offsets: &[u64]) -> Result<Range<u64>> {
    let (start, end) = (offsets[0], offsets[offsets.len() - 1]);
    if let Some(at) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        let what = format!(
            "element {} is {}, below the previous one",
            first + at as u64 + 1,
            offsets[at + 1]
        );
        return Err(IngestError::file(matrix.major.name(), what));
    }
    if end > matrix.entries() {
        let what = format!("offset {end}, but there are {} entries", matrix.entries());
        return Err(IngestError::file(matrix.major.name(), what));
    }
    Ok(start..end)
}

/// The error for entries whose sum is not finite.
fn overflow(job: &Job, node: u64, column: u32) -> IngestError {
    let node = job.nodes.describe(node as u32).unwrap_or_else(|_| node.to_string());
    let what = format!(
        "the entries of node {node} in column {column} sum to more than a 32-bit float can \
         represent"
    );
    IngestError::file(job.path, what)
}

/// Entries by node.
struct EntryBuckets<'a> {
    job: &'a Job<'a>,
    buckets: Buckets,
    /// Row and node of the last entry: most files go row by row, and finding a node can be slow.
    last: Option<(u64, u32)>,
}

impl<'a> EntryBuckets<'a> {
    fn new(job: &'a Job, sink: &dyn Sink, entries: u64) -> Self {
        let path = sink.scratch().join("features.entries");
        let buckets = Buckets::new(path, job.nodes.nodes(), 8, entries, job.memory());
        Self { job, buckets, last: None }
    }

    fn push(&mut self, row: u64, column: u64, value: f32) -> Result<()> {
        let node = match self.last {
            Some((last, node)) if last == row => node,
            _ => self.job.node_of_row(row)?,
        };
        self.last = Some((row, node));
        self.buckets.push(node, |bytes| {
            bytes.extend_from_slice(&(column as u32).to_le_bytes());
            bytes.extend_from_slice(&value.to_le_bytes());
        })
    }

    fn write(&self, sink: &mut dyn Sink, columns: usize) -> Result<()> {
        sink.add_sparse(columns, &|first, count| {
            let mut rows = RowsBuilder::new(count);
            self.buckets.visit(first..first + count as u64, |node, bytes| {
                let (column, value) = bytes.split_at(4);
                let column = u32::from_le_bytes(column.try_into().expect("4 bytes"));
                let value = f32::from_le_bytes(value.try_into().expect("4 bytes"));
                rows.push((u64::from(node) - first) as usize, column, value);
            })?;
            rows.finish().map_err(|(row, column)| overflow(self.job, first + row as u64, column))
        })
    }
}

/// Rows from entries in any order.
struct RowsBuilder {
    rows: usize,
    entries: Vec<(u32, u32, f32)>,
}

impl RowsBuilder {
    fn new(rows: usize) -> Self {
        Self { rows, entries: Vec::new() }
    }

    fn push(&mut self, row: usize, column: u32, value: f32) {
        self.entries.push((row as u32, column, value));
    }

    /// Sorts the entries, sums repeated ones and drops zeros. The error is the position of a sum
    /// that overflows.
    fn finish(mut self) -> Result<SparseRows, (usize, u32)> {
        // The sort is stable and sums are in the order of the file, so the bits do not depend on
        // the memory.
        self.entries.sort_by_key(|&(row, column, _)| (row, column));
        let mut out =
            SparseRows { offsets: Vec::with_capacity(self.rows + 1), ..SparseRows::default() };
        for same in self.entries.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            let (row, column, _) = same[0];
            out.offsets.resize(row as usize + 1, out.columns.len() as u64);
            let sum = same.iter().map(|entry| f64::from(entry.2)).sum::<f64>() as f32;
            if !sum.is_finite() {
                return Err((row as usize, column));
            }
            if sum != 0.0 {
                out.columns.push(column);
                out.values.push(sum);
            }
        }
        out.offsets.resize(self.rows + 1, out.columns.len() as u64);
        Ok(out)
    }
}
