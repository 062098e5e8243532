//! Rows of a Parquet file as cells. The caller chooses the columns.

use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use ignn_format::{FormatError, guarded};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::{Cell, ColumnKind};
use crate::error::Result;
use crate::source::{parquet_file, text};

/// Approximate number of values per batch.
const BATCH_VALUES: usize = 1 << 18;
/// Maximum number of rows per batch if a column has lists.
const BATCH_LISTS: usize = 256;

/// A Parquet file opened as a table.
pub struct Columnar {
    path: PathBuf,
    names: Vec<String>,
    types: Vec<DataType>,
    reader: ParquetRecordBatchReader,
    next: u64,
}

/// Rows of a Parquet file.
pub struct ColumnarBatch {
    first: u64,
    columns: RecordBatch,
}

impl Columnar {
    /// Opens a file; a batch of lists takes at most about `memory` bytes.
    pub fn open(path: &Path, memory: u64) -> Result<Self> {
        let metadata = parquet_file::metadata(path)?;
        let fields = metadata.schema().fields().clone();
        let names: Vec<_> = fields.iter().map(|field| field.name().clone()).collect();
        let types: Vec<_> = fields.iter().map(|field| field.data_type().clone()).collect();
        let scalars = (BATCH_VALUES / types.len().max(1)).clamp(1, 8192);
        let lists = types.iter().any(|kind| kind_of(kind) == ColumnKind::List);
        let most = if lists { BATCH_LISTS } else { scalars };
        let rows = parquet_file::rows_of_lists(path, &metadata, memory, most)?;
        let builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(text::open_file(path)?, metadata);
        let reader = guarded::call(path, || {
            builder.with_batch_size(rows).build().map_err(FormatError::parquet(path))
        })?;
        Ok(Self { path: path.into(), names, types, reader, next: 0 })
    }

    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    pub fn kind(&self, column: usize) -> ColumnKind {
        kind_of(&self.types[column])
    }

    pub fn next_batch(&mut self) -> Result<Option<ColumnarBatch>> {
        let Self { path, reader, .. } = self;
        let columns = guarded::call(path, || {
            reader.next().transpose().map_err(|error| parquet_file::damaged(path, error))
        })?;
        let Some(columns) = columns else { return Ok(None) };
        let first = self.next;
        self.next += columns.num_rows() as u64;
        Ok(Some(ColumnarBatch { first, columns }))
    }
}

impl ColumnarBatch {
    pub fn rows(&self) -> usize {
        self.columns.num_rows()
    }

    pub fn number(&self, row: usize) -> u64 {
        self.first + row as u64
    }

    pub fn cell(&self, row: usize, column: usize) -> Cell<'_> {
        cell(self.columns.column(column).as_ref(), row)
    }

    pub fn for_each_item(&self, row: usize, column: usize, visit: &mut dyn FnMut(Cell<'_>)) {
        let array = self.columns.column(column);
        let Some(lists) = array.as_list_opt::<i32>() else {
            return visit(cell(array.as_ref(), row));
        };
        if lists.is_valid(row) {
            let offsets = lists.value_offsets();
            for item in offsets[row] as usize..offsets[row + 1] as usize {
                visit(cell(lists.values().as_ref(), item));
            }
        }
    }
}

fn kind_of(kind: &DataType) -> ColumnKind {
    match kind {
        DataType::Utf8View => ColumnKind::Text,
        DataType::Boolean => ColumnKind::Boolean,
        kind if kind.is_integer() => ColumnKind::Integer,
        kind if kind.is_floating() => ColumnKind::Float,
        DataType::List(item) if item.data_type().is_integer() || item.data_type().is_floating() => {
            ColumnKind::List
        }
        other => ColumnKind::Other(parquet_file::type_name(other)),
    }
}

/// A value of a type that [`kind_of`] knows; `Missing` for others, which callers reject by their
/// kind.
fn cell(array: &dyn Array, row: usize) -> Cell<'_> {
    if array.is_null(row) {
        return Cell::Missing;
    }
    match array.data_type() {
        DataType::Utf8View => match array.as_string_view().value(row) {
            "" => Cell::Missing,
            text => Cell::Text(text),
        },
        DataType::Boolean => Cell::Boolean(array.as_boolean().value(row)),
        DataType::Int8 => Cell::Signed(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => Cell::Signed(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Cell::Signed(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Cell::Signed(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => Cell::Unsigned(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Cell::Unsigned(array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => Cell::Unsigned(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => Cell::Unsigned(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float16 => Cell::Float(array.as_primitive::<Float16Type>().value(row).into()),
        DataType::Float32 => Cell::Float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Cell::Float(array.as_primitive::<Float64Type>().value(row)),
        _ => Cell::Missing,
    }
}
