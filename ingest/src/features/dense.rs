//! Dense features: arrays are read by row ranges, tables row by row.

use ignn_format::features::FeatureKind;
use ignn_format::ids::IdKind;

use super::buckets::Buckets;
use super::{FeaturesSummary, Job, Sink};
use crate::context::Unit;
use crate::error::{IngestError, Result};
use crate::node_set::NodeSet;
use crate::source::npy::NpyArray;
use crate::source::table::{Batch, ColumnKind, Table};

/// Values read at once from an array whose rows are in another order than the nodes.
const PIECE_VALUES: u64 = 1 << 20;

/// Features in an array: row `r` belongs to node id `r`.
pub fn from_array(job: &Job, sink: &mut dyn Sink, array: &NpyArray) -> Result<FeaturesSummary> {
    let columns = job.check_columns(array.columns())?;
    let rows = array.rows();
    job.check_rows(rows)?;
    let read = |first: u64, out: &mut [f32]| {
        array.read_rows(first, out)?;
        match out.iter().position(|value| !value.is_finite()) {
            Some(at) => {
                Err(job.not_finite(first + (at / columns) as u64, (at % columns) as u64, out[at]))
            }
            None => Ok(()),
        }
    };
    if job.nodes.is_consecutive() {
        sink.add_dense(columns, &|first, out| {
            let there = rows.saturating_sub(first).min((out.len() / columns) as u64) as usize;
            let (given, missing) = out.split_at_mut(there * columns);
            missing.fill(0.0);
            read(first, given)
        })?;
        return Ok(job.summary(FeatureKind::Dense, columns, rows));
    }
    job.context.observer.phase("read features", Some(rows), Unit::Items("rows"));
    let mut gathered = RowBuckets::new(job, sink, columns);
    let piece = (PIECE_VALUES / columns as u64).max(1);
    let mut values = Vec::new();
    for first in (0..rows).step_by(piece as usize) {
        let count = piece.min(rows - first);
        values.resize(count as usize * columns, 0.0);
        read(first, &mut values)?;
        for (row, values) in (first..).zip(values.chunks_exact(columns)) {
            gathered.push(job.node_of_row(row)?, values)?;
        }
        job.context.observer.advance(count);
    }
    gathered.write(sink)?;
    Ok(job.summary(FeatureKind::Dense, columns, rows))
}

/// Features in a table, by node id, or by row for Parquet without an id column.
pub fn from_table(job: &Job, sink: &mut dyn Sink) -> Result<FeaturesSummary> {
    job.context.observer.phase("read features", None, Unit::Items("rows"));
    let mut table = Table::open(job.path, job.nodes.kind(), true, job.memory())?;
    if table.id_column().is_some() {
        table.require_id()?;
    } else if job.nodes.kind() == IdKind::String {
        // Reports that rows without ids do not fit.
        job.check_rows(0)?;
    }
    let columns = value_columns(&table)?;
    let mut seen = NodeSet::new(job.nodes.nodes());
    let mut gathered: Option<RowBuckets> = None;
    let mut values = Vec::new();
    let mut rows = 0;
    while let Some(batch) = table.next_batch()? {
        for row in 0..batch.rows() {
            read_row(&table, &batch, row, &columns, &mut values)?;
            let gathered = match &mut gathered {
                Some(gathered) => gathered,
                none => {
                    none.insert(RowBuckets::new(job, sink, job.check_columns(values.len() as u64)?))
                }
            };
            if values.len() != gathered.columns {
                let expected = format!("{} values, as in the first row", gathered.columns);
                return Err(table.error(batch.number(row), &expected, values.len().to_string()));
            }
            let node = match table.id_column() {
                Some(_) => table.node(&batch, row, job.nodes)?,
                None if rows >= job.nodes.nodes() => {
                    rows += 1;
                    continue;
                }
                None => job.node_of_row(rows)?,
            };
            rows += 1;
            if !seen.insert(node) {
                return Err(table.repeated(&batch, row, node, job.nodes));
            }
            gathered.push(node, &values)?;
        }
        job.context.observer.advance(batch.rows() as u64);
    }
    if table.id_column().is_none() {
        job.check_rows(rows)?;
    }
    let Some(gathered) = gathered else { return Err(IngestError::file(job.path, "no rows")) };
    if let Some(first) = seen.first_missing()
        && !job.missing_zero
    {
        let what = format!(
            "no features for {} of {} nodes (the first is node {}): pass --missing-features zero \
             to give them zeros",
            seen.missing(),
            job.nodes.nodes(),
            job.nodes.describe(first)?
        );
        return Err(IngestError::file(job.path, what));
    }
    let columns = gathered.columns;
    gathered.write(sink)?;
    Ok(job.summary(FeatureKind::Dense, columns, rows))
}

/// The columns with features: all numeric columns besides the id, or one column of lists.
fn value_columns(table: &Table) -> Result<Vec<usize>> {
    let columns = table.value_columns();
    if columns.is_empty() {
        let what = "no feature columns (expected columns like node,f0,f1)";
        return Err(IngestError::file(table.path(), what));
    }
    use ColumnKind::{Boolean, Float, Integer, List, Text};
    if let [column] = columns[..]
        && table.kind(column) == List
    {
        return Ok(columns);
    }
    for &column in &columns {
        let expected = "features: columns of numbers, or a single column of lists of numbers";
        table.require(column, &[Text, Integer, Float, Boolean], expected)?;
    }
    Ok(columns)
}

/// Reads the features of a row.
fn read_row(
    table: &Table,
    batch: &Batch,
    row: usize,
    columns: &[usize],
    values: &mut Vec<f32>,
) -> Result<()> {
    values.clear();
    let mut wrong = None;
    for &column in columns {
        batch.for_each_item(row, column, &mut |cell| match cell.number() {
            Some(value) if value.is_finite() => values.push(value),
            number if wrong.is_none() => {
                let kind = if number.is_some() { "finite number" } else { "number" };
                wrong = Some((format!("a {kind} in {}", table.column_name(column)), cell.shown()));
            }
            _ => {}
        });
        if let Some((expected, found)) = wrong {
            return Err(table.error(batch.number(row), &expected, found));
        }
    }
    Ok(())
}

/// Rows by node.
pub(super) struct RowBuckets {
    columns: usize,
    buckets: Buckets,
}

impl RowBuckets {
    pub fn new(job: &Job, sink: &dyn Sink, columns: usize) -> Self {
        let nodes = job.nodes.nodes();
        let path = sink.scratch().join("features.rows");
        let buckets = Buckets::new(path, nodes, columns * size_of::<f32>(), nodes, job.memory());
        Self { columns, buckets }
    }

    pub fn push(&mut self, node: u32, values: &[f32]) -> Result<()> {
        self.buckets.push(node, |bytes| bytes.extend_from_slice(bytemuck::cast_slice(values)))
    }

    /// Writes all rows; nodes without a row get zeros.
    pub fn write(&self, sink: &mut dyn Sink) -> Result<()> {
        let columns = self.columns;
        sink.add_dense(columns, &|first, out| {
            out.fill(0.0);
            let count = (out.len() / columns) as u64;
            self.buckets.visit(first..first + count, |node, bytes| {
                let start = (u64::from(node) - first) as usize * columns;
                let values = bytes.chunks_exact(size_of::<f32>());
                for (slot, value) in out[start..start + columns].iter_mut().zip(values) {
                    *slot = f32::from_ne_bytes(value.try_into().expect("4 bytes"));
                }
            })
        })
    }
}
