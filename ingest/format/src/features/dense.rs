//! Dense rows: fixed-size lists of f32, read directly into the caller's matrix, row groups in
//! parallel. The library's Arrow reader is not used, because its offsets and validity bitmaps would
//! be discarded.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{FixedSizeListArray, Float32Array};
use arrow_schema::{DataType, Field};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::FloatType;
use parquet::file::serialized_reader::SerializedPageReader;
use rayon::prelude::*;

use super::{FEATURES, FeatureKind, FeaturesEntry, GROUP_BYTES, create, open_shards, shard_path};
use crate::checksum::FileEntry;
use crate::error::{FormatError, Result};
use crate::table::{self, Table};
use crate::{guarded, regular};

/// Bytes of values read from a row group at once: they should stay in cache until they are copied.
const PIECE_BYTES: usize = 256 << 10;

/// Writes one shard of dense rows (`rows.len()` is a multiple of `columns`); shards may be written
/// in parallel.
pub fn write_dense_shard(
    dataset: &Path,
    shard: u64,
    columns: usize,
    rows: &[f32],
) -> Result<FileEntry> {
    let most = FeatureKind::Dense.most_columns();
    let size = match i32::try_from(columns) {
        Ok(size) if size > 0 && columns as u64 <= most => size,
        _ => {
            let path = shard_path(dataset, shard);
            let expected = format!("1 to {most}: wider rows are for sparse features");
            return Err(FormatError::invalid(path, "columns of dense features", columns, expected));
        }
    };
    assert_eq!(rows.len() % columns, 0, "whole rows");
    let item = table::item_field(DataType::Float32);
    let field = Field::new("x", DataType::FixedSizeList(item.clone(), size), false);
    let mut table = create(dataset, shard, vec![field], table::properties())?;
    let group_rows = (GROUP_BYTES / size_of::<f32>() / columns).max(1);
    for group in rows.chunks(group_rows * columns) {
        let values = Float32Array::from(group.to_vec());
        table.write(vec![Arc::new(FixedSizeListArray::new(
            item.clone(),
            size,
            Arc::new(values),
            None,
        ))])?;
        table.end_group()?;
    }
    Ok(table.finish()?.1)
}

/// Part of a row group, and the destination of its rows.
struct Task<'a> {
    table: &'a Table,
    group: usize,
    skip: u64,
    out: &'a mut [f32],
}

/// Reads dense rows `first .. first + out.len() / stride` into rows of `stride` floats, row groups
/// in parallel. `stride` is at least the number of columns; padding is left unchanged.
///
/// # Panics
/// If `out` is not a whole number of rows.
pub fn read_dense(
    dataset: &Path,
    entry: &FeaturesEntry,
    first: u64,
    out: &mut [f32],
    stride: usize,
) -> Result<()> {
    if entry.kind != FeatureKind::Dense {
        let path = dataset.join(FEATURES);
        return Err(FormatError::invalid(path, "features", "sparse rows", "dense rows"));
    }
    if out.is_empty() {
        return Ok(());
    }
    if entry.columns == 0 || entry.columns > stride as u64 {
        let expected = format!("1 to {stride}, the length of a row");
        return Err(FormatError::invalid(
            dataset.join(FEATURES),
            "feature columns",
            entry.columns,
            expected,
        ));
    }
    assert_eq!(out.len() % stride, 0, "whole rows");
    let columns = entry.columns as usize;
    let end = first.saturating_add((out.len() / stride) as u64);
    let per_shard = entry.rows_per_shard.max(1);
    let too_few = |rows: u64| {
        FormatError::invalid(
            dataset.join(FEATURES),
            "number of rows",
            rows,
            format!("at least {end}"),
        )
    };
    let shards = first / per_shard..end.div_ceil(per_shard);
    if shards.end > entry.shards {
        return Err(too_few(entry.shards.saturating_mul(per_shard)));
    }
    let tables = open_shards(dataset, entry, shards.clone())?;

    let (mut tasks, mut rest, mut row) = (Vec::new(), out, shards.start * per_shard);
    for table in &tables {
        for (group, rows) in table.group_rows()?.into_iter().enumerate() {
            // The part of this group within `first .. end`.
            let (from, to) = (row.max(first), (row + rows).min(end));
            if from < to {
                let (head, tail) = rest.split_at_mut((to - from) as usize * stride);
                tasks.push(Task { table, group, skip: from - row, out: head });
                rest = tail;
            }
            row += rows;
        }
    }
    if !rest.is_empty() {
        return Err(too_few(row));
    }
    // All results, then the first error by position: the message does not depend on timing.
    let read = |task: Task| {
        let path = task.table.path();
        guarded::call(path, || read_group(task, columns, stride))
    };
    let results: Vec<Result<()>> = tasks.into_par_iter().map(read).collect();
    results.into_iter().collect()
}

/// The repetition and definition levels must describe lists of `columns` values without nulls.
fn read_group(task: Task, columns: usize, stride: usize) -> Result<()> {
    let Task { table, group, skip, out } = task;
    let parquet = || FormatError::parquet(table.path());
    let invalid = |found: String| {
        FormatError::invalid(
            table.path(),
            format!("row group {group}"),
            found,
            format!("rows of {columns} values"),
        )
    };
    let file = Arc::new(regular::open(table.path())?.0);
    let metadata = table.footer().row_group(group);
    let column = metadata.column(0);
    let pages = SerializedPageReader::new(file, column, metadata.num_rows() as usize, None)
        .map_err(parquet())?;
    let mut reader = ColumnReaderImpl::<FloatType>::new(column.column_descr_ptr(), Box::new(pages));
    let null_below = column.column_descr().max_def_level();
    let mut piece = Piece::default();
    let mut next = |rows: usize, piece: &mut Piece| {
        piece.read(&mut reader, rows, columns, null_below).map_err(parquet())?.map_err(invalid)
    };
    let piece_rows = (PIECE_BYTES / size_of::<f32>() / columns).max(1);
    // Rows before the first are read and dropped: the library's skipping can loop forever on
    // damaged files.
    for from in (0..skip).step_by(piece_rows) {
        next(piece_rows.min((skip - from) as usize), &mut piece)?;
    }
    for rows in out.chunks_mut(piece_rows * stride) {
        next(rows.len() / stride, &mut piece)?;
        for (to, from) in rows.chunks_exact_mut(stride).zip(piece.values.chunks_exact(columns)) {
            to[..columns].copy_from_slice(from);
        }
    }
    Ok(())
}

/// Some rows with their levels; the buffers are reused.
#[derive(Default)]
struct Piece {
    values: Vec<f32>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl Piece {
    /// Reads `rows` rows; the inner error is about their shape.
    fn read(
        &mut self,
        reader: &mut ColumnReaderImpl<FloatType>,
        rows: usize,
        columns: usize,
        null_below: i16,
    ) -> parquet::errors::Result<Result<(), String>> {
        let Self { values, definition, repetition } = self;
        values.clear();
        definition.clear();
        repetition.clear();
        let (found, ..) = reader.read_records(rows, Some(definition), Some(repetition), values)?;
        if found != rows {
            return Ok(Err(format!("{found} rows instead of {rows}")));
        }
        if definition.iter().fold(0, |wrong, level| wrong | (level ^ null_below)) != 0 {
            return Ok(Err("nulls or empty lists".into()));
        }
        if values.len() != rows * columns || repetition.len() != values.len() {
            return Ok(Err(format!("{} values in {rows} rows", values.len())));
        }
        // A row begins at level 0 and continues at level 1.
        let wrong =
            |row: &[i16]| row[1..].iter().fold(row[0], |wrong, level| wrong | (level ^ 1)) != 0;
        if repetition.chunks_exact(columns).any(wrong) {
            return Ok(Err("rows of different lengths".into()));
        }
        Ok(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{entry, read_sparse};
    use arrow_array::ListArray;
    use arrow_buffer::OffsetBuffer;

    fn write_dense(
        dataset: &Path,
        columns: usize,
        rows_per_shard: usize,
        values: &[f32],
    ) -> FeaturesEntry {
        for (shard, rows) in values.chunks(rows_per_shard * columns).enumerate() {
            let file = write_dense_shard(dataset, shard as u64, columns, rows).unwrap();
            assert_eq!(
                file,
                crate::checksum::of_file(&shard_path(dataset, shard as u64), 0).unwrap()
            );
        }
        entry(FeatureKind::Dense, columns, rows_per_shard, values.len() / columns)
    }

    #[test]
    fn dense_ranges_come_back_from_anywhere() {
        let dir = tempfile::tempdir().unwrap();
        let (rows, columns) = (700, 4000);
        let values: Vec<f32> = (0..rows * columns).map(|i| i as f32 * 0.5).collect();
        // A row group has 262 rows: shards of 300 rows have two, and the last shard is short.
        let entry = write_dense(dir.path(), columns, 300, &values);
        for (first, count, stride) in [
            (0, 700, 4000),
            (0, 700, 4016),
            (1, 698, 4000),
            (299, 2, 4001),
            (262, 38, 4000),
            (600, 100, 4000),
            (650, 1, 4000),
            (5, 0, 4000),
        ] {
            let mut out = vec![-1.0; count * stride];
            read_dense(dir.path(), &entry, first as u64, &mut out, stride).unwrap();
            for (i, row) in out.chunks_exact(stride).enumerate() {
                let at = (first + i) * columns;
                assert_eq!(
                    row[..columns],
                    values[at..at + columns],
                    "row {} of {first}..",
                    first + i
                );
                assert!(row[columns..].iter().all(|padding| *padding == -1.0));
            }
        }
        let mut out = vec![0.0; 2 * columns];
        let error = read_dense(dir.path(), &entry, 699, &mut out, columns).unwrap_err().to_string();
        assert!(
            error.ends_with("features: number of rows (found 700, expected at least 701)"),
            "{error}"
        );
        let error = read_dense(dir.path(), &entry, 899, &mut out, columns).unwrap_err().to_string();
        assert!(
            error.ends_with("features: number of rows (found 900, expected at least 901)"),
            "{error}"
        );
    }

    #[test]
    fn one_column_and_odd_values_survive() {
        let dir = tempfile::tempdir().unwrap();
        let values = [f32::NAN, f32::INFINITY, -0.0, f32::MIN_POSITIVE / 2.0];
        let entry = write_dense(dir.path(), 1, 3, &values);
        let mut out = [0.0; 4];
        read_dense(dir.path(), &entry, 0, &mut out, 1).unwrap();
        assert_eq!(out.map(f32::to_bits), values.map(f32::to_bits));
    }

    #[test]
    fn wrong_dense_files_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let entry = write_dense(dir.path(), 3, 4, &[1.0; 24]);
        let message = |entry: &FeaturesEntry, rows: usize| {
            let mut out = vec![0.0; rows * 8];
            let error = read_dense(dir.path(), entry, 0, &mut out, 8).unwrap_err().to_string();
            error.split_once("features").unwrap().1.to_string()
        };
        let columns = |columns| FeaturesEntry { columns, ..entry.clone() };
        let shape = "/part-00000.parquet: shape (found 12 values in 4 rows, expected rows of";
        assert_eq!(message(&columns(2), 4), format!("{shape} 2 values)"));
        assert_eq!(message(&columns(4), 4), format!("{shape} 4 values)"));
        let short = FeaturesEntry { rows_per_shard: 5, ..entry.clone() };
        assert_eq!(message(&short, 5), "/part-00000.parquet: number of rows (found 4, expected 5)");
        let sparse = FeaturesEntry { kind: FeatureKind::Sparse, ..entry.clone() };
        assert_eq!(message(&sparse, 4), ": features (found sparse rows, expected dense rows)");
        let error = read_sparse(dir.path(), &sparse).unwrap_err().to_string();
        assert!(
            error.ends_with("part-00000.parquet: columns (found x, expected columns, values)"),
            "{error}"
        );
        let error = write_dense_shard(dir.path(), 7, 0, &[]).unwrap_err().to_string();
        let expected = "columns of dense features (found 0, expected 1 to 1048576: wider rows are \
                        for sparse features)";
        assert!(error.ends_with(expected), "{error}");
    }

    #[test]
    fn lists_of_different_lengths_are_no_dense_rows() {
        let dir = tempfile::tempdir().unwrap();
        for (shard, lengths) in [[3, 3], [2, 4], [6, 0]].into_iter().enumerate() {
            let fields = vec![Field::new("x", table::list_of(DataType::Float32), false)];
            let mut table = create(dir.path(), shard as u64, fields, table::properties()).unwrap();
            let items = Arc::new(Float32Array::from(vec![1.0; 6]));
            let lengths = OffsetBuffer::from_lengths(lengths);
            let item = table::item_field(DataType::Float32);
            table.write(vec![Arc::new(ListArray::new(item, lengths, items, None))]).unwrap();
            table.finish().unwrap();
        }
        let entry = entry(FeatureKind::Dense, 3, 2, 6);
        let read = |first| read_dense(dir.path(), &entry, first, &mut [0.0; 6], 3);
        assert!(read(0).is_ok());
        assert!(read(2).unwrap_err().to_string().contains("rows of different lengths"));
        assert!(read(4).unwrap_err().to_string().contains("7 values in 2 rows"));
    }
}
