//! Node features as Parquet shards: rows in node order, a fixed number of rows a shard, dense or sparse.
//! The only user of Parquet for features; it knows nothing of where they came from.
//!
//! A shard has row groups of about 4 MiB of values: small enough to be read in parallel, large enough that their
//! footer entries do not count. Values are not looked at here: NaN and infinity are found by `ignn check`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, UInt32Type};
use arrow_array::{FixedSizeListArray, Float32Array, ListArray, UInt32Array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use parquet::basic::Encoding;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::FloatType;
use parquet::file::properties::{EnabledStatistics, WriterPropertiesBuilder};
use parquet::file::serialized_reader::SerializedPageReader;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::checksum::FileEntry;
use crate::error::{FormatError, Result};
use crate::table::{self, Table, TableWriter};

/// Directory of the shards.
pub const FEATURES: &str = "features";
/// Bytes of values in a row group, about.
const GROUP_BYTES: usize = 4 << 20;
/// Rows of a row group of sparse features at most, however empty they are.
const GROUP_ROWS: usize = 1 << 18;
/// Bytes of values taken from a row group at once: they should stay in the cache until they are copied.
const PIECE_BYTES: usize = 256 << 10;

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

impl SparseRows {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }
}

/// `features/part-00007.parquet`.
pub fn shard_path(dataset: &Path, shard: u64) -> PathBuf {
    dataset.join(FEATURES).join(format!("part-{shard:05}.parquet"))
}

/// Creates a shard, and its directory where that is missing.
fn create(
    dataset: &Path,
    shard: u64,
    fields: Vec<Field>,
    properties: WriterPropertiesBuilder,
) -> Result<TableWriter> {
    let path = shard_path(dataset, shard);
    let directory = dataset.join(FEATURES);
    fs::create_dir_all(&directory).map_err(FormatError::io("create", &directory))?;
    let properties = properties
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        // Groups are ended by hand.
        .set_max_row_group_row_count(None)
        .set_max_row_group_bytes(None);
    TableWriter::create(path, fields, properties)
}

/// Writes one shard of dense rows (`rows.len()` is a multiple of `columns`); shards may be written in parallel.
pub fn write_dense_shard(dataset: &Path, shard: u64, columns: usize, rows: &[f32]) -> Result<FileEntry> {
    let size = match i32::try_from(columns) {
        Ok(size) if size > 0 => size,
        _ => {
            let path = shard_path(dataset, shard);
            return Err(FormatError::invalid(path, "feature columns", columns, "1 to 2147483647"));
        }
    };
    assert_eq!(rows.len() % columns, 0, "whole rows");
    let item = table::item_field(DataType::Float32);
    let field = Field::new("x", DataType::FixedSizeList(item.clone(), size), false);
    let mut table = create(dataset, shard, vec![field], table::properties())?;
    let group_rows = (GROUP_BYTES / size_of::<f32>() / columns).max(1);
    for group in rows.chunks(group_rows * columns) {
        let values = Float32Array::from(group.to_vec());
        table.write(vec![Arc::new(FixedSizeListArray::new(item.clone(), size, Arc::new(values), None))])?;
        table.end_group()?;
    }
    Ok(table.finish()?.1)
}

/// Writes one shard of sparse rows.
pub fn write_sparse_shard(dataset: &Path, shard: u64, rows: &SparseRows) -> Result<FileEntry> {
    let types = [DataType::UInt32, DataType::Float32];
    let fields = ["columns", "values"].iter().zip(types);
    let fields = fields.map(|(name, item)| Field::new(*name, table::list_of(item), false)).collect();
    let properties =
        table::properties().set_column_encoding(table::items_path("columns"), Encoding::DELTA_BINARY_PACKED);
    let mut table = create(dataset, shard, fields, properties)?;
    let group_items = (GROUP_BYTES / (size_of::<u32>() + size_of::<f32>())) as u64;
    let mut first = 0;
    while first < rows.rows() {
        let begin = rows.offsets[first];
        let most = rows.rows().min(first + GROUP_ROWS);
        // As many rows as fit, at least one.
        let fitting = rows.offsets[first + 1..=most].partition_point(|end| end - begin <= group_items);
        let end_row = first + fitting.max(1);
        let offsets = &rows.offsets[first..=end_row];
        let items = begin as usize..rows.offsets[end_row] as usize;
        if i32::try_from(items.len()).is_err() {
            let path = shard_path(dataset, shard);
            return Err(FormatError::invalid(path, "values of a row", items.len(), "at most 2147483647"));
        }
        let lengths = OffsetBuffer::from_lengths(offsets.windows(2).map(|ends| (ends[1] - ends[0]) as usize));
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

/// Opens shards in parallel. Every shard but the last of the dataset must have `rows_per_shard` rows, the last at
/// least one and not more.
fn open_shards(dataset: &Path, entry: &FeaturesEntry, shards: std::ops::Range<u64>) -> Result<Vec<Table>> {
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
            // Before anybody makes room for the rows.
            let values = table.footer().row_groups().iter().map(|group| group.column(0).num_values());
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
    shards.into_par_iter().map(open).collect()
}

/// Whether the last shard has the rows that the others leave to it.
pub(crate) fn check_last_shard(dataset: &Path, entry: &FeaturesEntry, nodes: u64) -> Result<()> {
    let Some(last) = entry.shards.checked_sub(1) else { return Ok(()) };
    let expected = nodes.saturating_sub(last.saturating_mul(entry.rows_per_shard));
    for table in open_shards(dataset, entry, last..entry.shards)? {
        if table.rows()? != expected {
            return Err(FormatError::invalid(table.path(), "number of rows", table.rows()?, expected));
        }
    }
    Ok(())
}

/// Part of a row group, and where its rows go.
struct Task<'a> {
    table: &'a Table,
    group: usize,
    skip: u64,
    out: &'a mut [f32],
}

/// Reads dense rows `first .. first + out.len() / stride` into rows of `stride` floats (>= columns, padding left
/// alone), row groups in parallel.
///
/// # Panics
/// Where `out` is not whole rows or `stride` is less than the number of columns.
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
    assert!(entry.columns > 0 && stride as u64 >= entry.columns, "a row has room for all columns");
    assert_eq!(out.len() % stride, 0, "whole rows");
    let columns = entry.columns as usize;
    let end = first.saturating_add((out.len() / stride) as u64);
    let per_shard = entry.rows_per_shard.max(1);
    let too_few = |rows: u64| {
        FormatError::invalid(dataset.join(FEATURES), "number of rows", rows, format!("at least {end}"))
    };
    let shards = first / per_shard..end.div_ceil(per_shard);
    if shards.end > entry.shards {
        return Err(too_few(entry.shards.saturating_mul(per_shard)));
    }
    let tables = open_shards(dataset, entry, shards.clone())?;

    let (mut tasks, mut rest, mut row) = (Vec::new(), out, shards.start * per_shard);
    for table in &tables {
        for (group, rows) in table.group_rows()?.into_iter().enumerate() {
            // The part of this group that lies in `first .. end`.
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
    tasks.into_par_iter().try_for_each(|task| read_group(task, columns, stride))
}

/// The levels of the format tell where lists begin and whether there are nulls; they must say: rows of `columns`.
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
    let file = Arc::new(table::open_file(table.path())?);
    let metadata = table.footer().row_group(group);
    let column = metadata.column(0);
    let pages =
        SerializedPageReader::new(file, column, metadata.num_rows() as usize, None).map_err(parquet())?;
    let mut reader = ColumnReaderImpl::<FloatType>::new(column.column_descr_ptr(), Box::new(pages));
    if skip > 0 {
        let skipped = reader.skip_records(skip as usize).map_err(parquet())?;
        if skipped as u64 != skip {
            return Err(invalid(format!("{skipped} rows")));
        }
    }
    let null_below = column.column_descr().max_def_level();
    let mut piece = Piece::default();
    let piece_rows = (PIECE_BYTES / size_of::<f32>() / columns).max(1);
    for rows in out.chunks_mut(piece_rows * stride) {
        piece
            .read(&mut reader, rows.len() / stride, columns, null_below)
            .map_err(parquet())?
            .map_err(invalid)?;
        for (to, from) in rows.chunks_exact_mut(stride).zip(piece.values.chunks_exact(columns)) {
            to[..columns].copy_from_slice(from);
        }
    }
    Ok(())
}

/// Some rows with their levels; kept from one piece to the next for its memory.
#[derive(Default)]
struct Piece {
    values: Vec<f32>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl Piece {
    /// Reads `rows` rows; the inner error says what is wrong with their shape.
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
        // A row begins at level 0 and goes on at level 1.
        let wrong = |row: &[i16]| row[1..].iter().fold(row[0], |wrong, level| wrong | (level ^ 1)) != 0;
        if repetition.chunks_exact(columns).any(wrong) {
            return Ok(Err("rows of different lengths".into()));
        }
        Ok(Ok(()))
    }
}

/// Row groups of sparse rows in parallel: `visit(first_row, rows)`; what it returns, in row order. Checks that columns
/// rise and lie below the number of columns.
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
    let read = |(table, group, first)| Ok(visit(first, read_sparse_group(table, group, entry)?));
    groups.into_par_iter().map(read).collect()
}

/// Reads all sparse rows; checks that columns rise and lie below the number of columns.
pub fn read_sparse(dataset: &Path, entry: &FeaturesEntry) -> Result<SparseRows> {
    let pieces = visit_sparse(dataset, entry, |_, rows| rows)?;
    let mut all = SparseRows { offsets: vec![0], ..SparseRows::default() };
    for piece in pieces {
        let base = all.values.len() as u64;
        all.offsets.extend(piece.offsets[1..].iter().map(|end| base + end));
        all.columns.extend_from_slice(&piece.columns);
        all.values.extend_from_slice(&piece.values);
    }
    match entry.nonzeros {
        Some(expected) if expected != all.values.len() as u64 => {
            let path = dataset.join(FEATURES);
            Err(FormatError::invalid(path, "number of values", all.values.len(), expected))
        }
        _ => Ok(all),
    }
}

fn read_sparse_group(table: &Table, group: usize, entry: &FeaturesEntry) -> Result<SparseRows> {
    const SPARSE_BATCH_ROWS: usize = 1 << 12;
    let mut piece = SparseRows { offsets: vec![0], ..SparseRows::default() };
    let path = table.path();
    let wrong = |row: usize, what: &str, found: String, expected: String| {
        FormatError::invalid(path, format!("row group {group}, row {row}: {what}"), found, expected)
    };
    table.read(Some(group), SPARSE_BATCH_ROWS, |batch| {
        let (columns, values) =
            (table.required(batch, 0)?.as_list::<i32>(), table.required(batch, 1)?.as_list::<i32>());
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
                return Err(wrong(row, "columns", found, "strictly rising columns".into()));
            }
            if let Some(last) = columns.last().filter(|last| u64::from(**last) >= entry.columns) {
                return Err(wrong(row, "column", last.to_string(), format!("less than {}", entry.columns)));
            }
            piece.columns.extend_from_slice(columns);
            piece.values.extend_from_slice(values);
            piece.offsets.push(piece.values.len() as u64);
        }
        Ok(())
    })?;
    let expected = table.group_rows()?[group];
    if piece.rows() as u64 != expected {
        return Err(FormatError::invalid(path, format!("rows of row group {group}"), piece.rows(), expected));
    }
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: FeatureKind, columns: usize, rows_per_shard: usize, rows: usize) -> FeaturesEntry {
        let shards = rows.div_ceil(rows_per_shard) as u64;
        let (columns, rows_per_shard) = (columns as u64, rows_per_shard as u64);
        FeaturesEntry { kind, columns, rows_per_shard, shards, nonzeros: None }
    }

    fn write_dense(dataset: &Path, columns: usize, rows_per_shard: usize, values: &[f32]) -> FeaturesEntry {
        for (shard, rows) in values.chunks(rows_per_shard * columns).enumerate() {
            let file = write_dense_shard(dataset, shard as u64, columns, rows).unwrap();
            assert_eq!(file, crate::checksum::of_file(&shard_path(dataset, shard as u64), 0).unwrap());
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
                assert_eq!(row[..columns], values[at..at + columns], "row {} of {first}..", first + i);
                assert!(row[columns..].iter().all(|padding| *padding == -1.0));
            }
        }
        let mut out = vec![0.0; 2 * columns];
        let error = read_dense(dir.path(), &entry, 699, &mut out, columns).unwrap_err().to_string();
        assert!(error.ends_with("features: number of rows (found 700, expected at least 701)"), "{error}");
        let error = read_dense(dir.path(), &entry, 899, &mut out, columns).unwrap_err().to_string();
        assert!(error.ends_with("features: number of rows (found 900, expected at least 901)"), "{error}");
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
    fn wrong_dense_files_are_refused() {
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
        assert!(error.ends_with("feature columns (found 0, expected 1 to 2147483647)"), "{error}");
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
            write_sparse_shard(dir.path(), shard as u64, &of_shard(first, per_shard.min(rows - first)))
                .unwrap();
        }
        let mut entry = entry(FeatureKind::Sparse, 2000, per_shard, rows);
        assert_eq!(read_sparse(dir.path(), &entry).unwrap(), of_shard(0, rows));
        entry.nonzeros = Some(3);
        assert!(
            read_sparse(dir.path(), &entry).unwrap_err().to_string().contains("found 1000000, expected 3")
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
