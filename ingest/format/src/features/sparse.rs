//! Sparse rows: one list of columns and one list of values per row.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, UInt32Type};
use arrow_array::{Float32Array, ListArray, UInt32Array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use parquet::basic::Encoding;
use rayon::prelude::*;

use super::{FEATURES, FeaturesEntry, GROUP_BYTES, create, open_shards, shard_path};
use crate::checksum::FileEntry;
use crate::error::{FormatError, Result};
use crate::table::{self, Table};

/// Maximum number of rows per row group, for rows that are mostly empty.
const GROUP_ROWS: usize = 1 << 18;

/// Sparse features in memory: row `i` is `offsets[i] .. offsets[i + 1]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparseRows {
    /// Rows + 1 offsets.
    pub offsets: Vec<u64>,
    /// Columns, ascending within a row.
    pub columns: Vec<u32>,
    /// Values.
    pub values: Vec<f32>,
}

impl SparseRows {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }
}

/// Writes one shard of sparse rows.
pub fn write_sparse_shard(dataset: &Path, shard: u64, rows: &SparseRows) -> Result<FileEntry> {
    let types = [DataType::UInt32, DataType::Float32];
    let fields = ["columns", "values"].iter().zip(types);
    let fields =
        fields.map(|(name, item)| Field::new(*name, table::list_of(item), false)).collect();
    let properties = table::properties()
        .set_column_encoding(table::items_path("columns"), Encoding::DELTA_BINARY_PACKED);
    let mut table = create(dataset, shard, fields, properties)?;
    let group_items = (GROUP_BYTES / (size_of::<u32>() + size_of::<f32>())) as u64;
    let mut first = 0;
    while first < rows.rows() {
        let begin = rows.offsets[first];
        let most = rows.rows().min(first + GROUP_ROWS);
        // The number of rows that fit, at least one.
        let fitting =
            rows.offsets[first + 1..=most].partition_point(|end| end - begin <= group_items);
        let end_row = first + fitting.max(1);
        let offsets = &rows.offsets[first..=end_row];
        let items = begin as usize..rows.offsets[end_row] as usize;
        if i32::try_from(items.len()).is_err() {
            let path = shard_path(dataset, shard);
            return Err(FormatError::invalid(
                path,
                "values of a row",
                items.len(),
                "at most 2147483647",
            ));
        }
        let lengths =
            OffsetBuffer::from_lengths(offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize));
        let columns = UInt32Array::from(rows.columns[items.clone()].to_vec());
        let values = Float32Array::from(rows.values[items].to_vec());
        let (columns_item, values_item) =
            (table::item_field(DataType::UInt32), table::item_field(DataType::Float32));
        table.write(vec![
            Arc::new(ListArray::new(columns_item, lengths.clone(), Arc::new(columns), None)),
            Arc::new(ListArray::new(values_item, lengths, Arc::new(values), None)),
        ])?;
        table.end_group()?;
        first = end_row;
    }
    Ok(table.finish()?.1)
}

/// Visits row groups of sparse rows in parallel, with `visit(first_row, rows)`, and returns the
/// results in row order. Checks that columns are strictly increasing and in range, and the number of
/// values.
pub(crate) fn visit_sparse<T: Send>(
    dataset: &Path,
    entry: &FeaturesEntry,
    visit: impl Fn(u64, SparseRows) -> T + Sync,
) -> Result<Vec<T>> {
    let tables = open_shards(dataset, entry, 0..entry.shards)?;
    let (mut groups, mut row) = (Vec::new(), 0);
    for table in &tables {
        for (group, rows) in table.group_rows()?.into_iter().enumerate() {
            groups.push((table, group, row));
            row += rows;
        }
    }
    let read = |(table, group, first)| {
        let rows = read_sparse_group(table, group, entry)?;
        Ok((rows.values.len() as u64, visit(first, rows)))
    };
    // All results, then the first error by position: the message does not depend on timing.
    let results: Vec<Result<_>> = groups.into_par_iter().map(read).collect();
    let results: Vec<(u64, T)> = results.into_iter().collect::<Result<_>>()?;
    let found: u64 = results.iter().map(|(values, _)| values).sum();
    if let Some(expected) = entry.nonzeros.filter(|&expected| expected != found) {
        let path = dataset.join(FEATURES);
        return Err(FormatError::invalid(path, "number of values", found, expected));
    }
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// Reads all sparse rows, with the checks of `visit_sparse`.
pub fn read_sparse(dataset: &Path, entry: &FeaturesEntry) -> Result<SparseRows> {
    let pieces = visit_sparse(dataset, entry, |_, rows| rows)?;
    let mut all = SparseRows { offsets: vec![0], ..SparseRows::default() };
    for piece in pieces {
        let base = all.values.len() as u64;
        all.offsets.extend(piece.offsets[1..].iter().map(|end| base + end));
        all.columns.extend_from_slice(&piece.columns);
        all.values.extend_from_slice(&piece.values);
    }
    Ok(all)
}

fn read_sparse_group(table: &Table, group: usize, entry: &FeaturesEntry) -> Result<SparseRows> {
    const SPARSE_BATCH_ROWS: usize = 1 << 12;
    let mut piece = SparseRows { offsets: vec![0], ..SparseRows::default() };
    let path = table.path();
    let wrong = |row: usize, what: &str, found: String, expected: String| {
        FormatError::invalid(path, format!("row group {group}, row {row}: {what}"), found, expected)
    };
    table.read(Some(group), SPARSE_BATCH_ROWS, |batch| {
        let (columns, values) = (
            table.required(batch, 0)?.as_list::<i32>(),
            table.required(batch, 1)?.as_list::<i32>(),
        );
        let column_items = table::items_of::<UInt32Type>(path, columns)?;
        let value_items = table::items_of::<Float32Type>(path, values)?;
        let rows = columns.value_offsets().windows(2).zip(values.value_offsets().windows(2));
        for (columns, values) in rows {
            let columns = &column_items[columns[0] as usize..columns[1] as usize];
            let values = &value_items[values[0] as usize..values[1] as usize];
            let row = piece.offsets.len() - 1;
            if columns.len() != values.len() {
                return Err(wrong(
                    row,
                    "number of values",
                    values.len().to_string(),
                    columns.len().to_string(),
                ));
            }
            if let Some(pair) = columns.windows(2).find(|pair| pair[0] >= pair[1]) {
                let found = format!("{} after {}", pair[1], pair[0]);
                return Err(wrong(row, "columns", found, "strictly increasing columns".into()));
            }
            if let Some(last) = columns.last().filter(|last| u64::from(**last) >= entry.columns) {
                return Err(wrong(
                    row,
                    "column",
                    last.to_string(),
                    format!("less than {}", entry.columns),
                ));
            }
            piece.columns.extend_from_slice(columns);
            piece.values.extend_from_slice(values);
            piece.offsets.push(piece.values.len() as u64);
        }
        Ok(())
    })?;
    let expected = table.group_rows()?[group];
    if piece.rows() as u64 != expected {
        return Err(FormatError::invalid(
            path,
            format!("rows of row group {group}"),
            piece.rows(),
            expected,
        ));
    }
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{FeatureKind, entry, read_dense};

    #[test]
    fn sparse_rows_come_back() {
        let dir = tempfile::tempdir().unwrap();
        // More than one row group, empty rows among them, the last shard short.
        let (rows, per_shard) = (500_000usize, 300_000usize);
        let of_shard = |first: usize, rows: usize| {
            let mut piece = SparseRows { offsets: vec![0], ..SparseRows::default() };
            for row in first..first + rows {
                for i in 0..row % 5 {
                    piece.columns.push((row % 1000 + i * 7) as u32);
                    piece.values.push(row as f32 + i as f32);
                }
                piece.offsets.push(piece.values.len() as u64);
            }
            piece
        };
        for (shard, first) in (0..rows).step_by(per_shard).enumerate() {
            write_sparse_shard(
                dir.path(),
                shard as u64,
                &of_shard(first, per_shard.min(rows - first)),
            )
            .unwrap();
        }
        let mut entry = entry(FeatureKind::Sparse, 2000, per_shard, rows);
        assert_eq!(read_sparse(dir.path(), &entry).unwrap(), of_shard(0, rows));
        entry.nonzeros = Some(3);
        assert!(
            read_sparse(dir.path(), &entry)
                .unwrap_err()
                .to_string()
                .contains("found 1000000, expected 3")
        );
        entry.columns = 1020;
        let error = read_sparse(dir.path(), &entry).unwrap_err().to_string();
        assert!(error.contains("column (found 1020, expected less than 1020)"), "{error}");
    }

    #[test]
    fn no_rows_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let none = entry(FeatureKind::Sparse, 5, 10, 0);
        assert_eq!(read_sparse(dir.path(), &none).unwrap().offsets, [0]);
        read_dense(dir.path(), &entry(FeatureKind::Dense, 5, 10, 0), 0, &mut [], 5).unwrap();
    }
}
