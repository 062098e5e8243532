//! What all Parquet files of a dataset have in common: they are checksummed while they are written,
//! and opened with their columns checked. `features`, `labels`, `splits`, `ids` and `graphs` define
//! the columns.
//!
//! Readers ignore the embedded Arrow schema and only use the Parquet schema, so that a file with
//! the same columns written by another program reads the same.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, ListArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use crate::checksum::{FileEntry, HashingWriter};
use crate::error::{FormatError, Result};
use crate::storage::OutputFile;
use crate::{guarded, regular};

/// Rows passed to or requested from the Parquet library at once.
pub(crate) const BATCH_ROWS: usize = 1 << 16;
/// Maximum number of rows per row group.
const GROUP_ROWS: usize = 1 << 20;
/// Maximum bytes per row group, which a writer keeps in memory.
const GROUP_BYTES: usize = 32 << 20;

/// Properties of all files: Snappy, and statistics per row group. Snappy was chosen by one noisy
/// measurement: wide rows of random floats were read 1.8 times as fast as with Zstandard 1, but
/// rows of 0 and 1 half as fast, in files 4 times as large.
pub(crate) fn properties() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES))
}

/// A Parquet file being written.
pub(crate) struct TableWriter {
    path: PathBuf,
    schema: SchemaRef,
    writer: ArrowWriter<HashingWriter<OutputFile>>,
}

impl TableWriter {
    /// Creates the file; it must not exist.
    pub fn create(
        path: PathBuf,
        fields: Vec<Field>,
        properties: WriterPropertiesBuilder,
    ) -> Result<Self> {
        let file = OutputFile::create_new(&path)?;
        let schema = Arc::new(Schema::new(fields));
        let writer = ArrowWriter::try_new(
            HashingWriter::new(file),
            schema.clone(),
            Some(properties.build()),
        )
        .map_err(FormatError::parquet_written(&path))?;
        Ok(Self { path, schema, writer })
    }

    /// Appends rows: one array per field.
    pub fn write(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        let batch =
            RecordBatch::try_new(self.schema.clone(), columns).expect("columns of the schema");
        self.writer.write(&batch).map_err(FormatError::parquet_written(&self.path))
    }

    /// Ends the row group here.
    pub fn end_group(&mut self) -> Result<()> {
        self.writer.flush().map_err(FormatError::parquet_written(&self.path))
    }

    /// Bytes of the row group being written, all of them in memory.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.writer.memory_size()
    }

    /// Completes the file.
    pub fn finish(self) -> Result<(PathBuf, FileEntry)> {
        let writer = self.writer.into_inner().map_err(FormatError::parquet_written(&self.path))?;
        let (_, entry) = writer.into_parts();
        Ok((self.path, entry))
    }
}

/// `0 .. rows` in ranges of at most [`BATCH_ROWS`].
pub(crate) fn batches_of(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows).step_by(BATCH_ROWS).map(move |first| first..rows.min(first + BATCH_ROWS))
}

/// A column that a reader expects, and its possible types.
pub(crate) struct Column<'a> {
    name: &'a str,
    types: &'a [DataType],
}

/// A column by name and types.
pub(crate) fn column<'a>(name: &'a str, types: &'a [DataType]) -> Column<'a> {
    Column { name, types }
}

/// An open Parquet file with the expected columns.
pub(crate) struct Table {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
}

impl Table {
    /// Reads the footer; checks the columns, in order, and the number of rows.
    pub fn open(path: &Path, columns: &[Column], rows: Option<u64>) -> Result<Self> {
        let (file, length) = regular::open(path)?;
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let metadata = guarded::call(path, || {
            ArrowReaderMetadata::load(&file, options).map_err(FormatError::parquet(path))
        })?;
        let table = Self { path: path.to_path_buf(), metadata };
        table.check_columns(columns)?;
        table.check_chunks(length)?;
        let found = table.rows()?;
        match rows {
            Some(rows) if rows != found => {
                Err(FormatError::invalid(path, "number of rows", found, rows))
            }
            _ => Ok(table),
        }
    }

    fn check_columns(&self, columns: &[Column]) -> Result<()> {
        let fields = self.metadata.schema().fields();
        let names = |names: &mut dyn Iterator<Item = &str>| names.collect::<Vec<_>>().join(", ");
        if !fields
            .iter()
            .map(|field| field.name().as_str())
            .eq(columns.iter().map(|column| column.name))
        {
            let found = names(&mut fields.iter().map(|field| field.name().as_str()));
            let expected = names(&mut columns.iter().map(|column| column.name));
            return Err(FormatError::invalid(&self.path, "columns", found, expected));
        }
        for (field, column) in fields.iter().zip(columns) {
            if !column.types.iter().any(|wanted| same_type(field.data_type(), wanted)) {
                let expected: Vec<_> = column.types.iter().map(type_name).collect();
                return Err(FormatError::invalid(
                    &self.path,
                    format!("type of column {:?}", column.name),
                    type_name(field.data_type()),
                    expected.join(" or "),
                ));
            }
        }
        Ok(())
    }

    /// Checks that every column chunk is within the file: the library trusts these numbers.
    fn check_chunks(&self, length: u64) -> Result<()> {
        for chunk in self.footer().row_groups().iter().flat_map(|group| group.columns()) {
            let first = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            let (first, bytes) = (i128::from(first), i128::from(chunk.compressed_size()));
            if first < 0 || bytes < 0 || first + bytes > i128::from(length) {
                let found = format!("{bytes} bytes from byte {first}");
                let expected = format!("a part of the file's {length} bytes");
                return Err(FormatError::invalid(&self.path, "column chunk", found, expected));
            }
        }
        Ok(())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The footer.
    pub fn footer(&self) -> &ParquetMetaData {
        self.metadata.metadata()
    }

    /// Type of a column.
    pub fn type_of(&self, column: usize) -> &DataType {
        self.metadata.schema().field(column).data_type()
    }

    /// Number of rows, which must be the sum over the row groups.
    pub fn rows(&self) -> Result<u64> {
        let total = self.footer().file_metadata().num_rows();
        let sum = self.group_rows()?.iter().try_fold(0u64, |sum, rows| sum.checked_add(*rows));
        match u64::try_from(total) {
            Ok(total) if sum == Some(total) => Ok(total),
            _ => Err(FormatError::invalid(
                &self.path,
                "number of rows",
                total,
                "the sum of its row groups",
            )),
        }
    }

    /// Number of rows of each row group.
    pub fn group_rows(&self) -> Result<Vec<u64>> {
        let rows = |rows: i64| {
            u64::try_from(rows).map_err(|_| {
                FormatError::invalid(&self.path, "rows of a row group", rows, "at least 0")
            })
        };
        self.footer().row_groups().iter().map(|group| rows(group.num_rows())).collect()
    }

    /// All rows in order, at most `batch_rows` at once, of one row group or of all.
    pub fn read(
        &self,
        group: Option<usize>,
        batch_rows: usize,
        mut each: impl FnMut(&RecordBatch) -> Result<()>,
    ) -> Result<()> {
        // Every caller opens the file again: clones of a file share their position.
        let (file, _) = regular::open(&self.path)?;
        // With `each`, which takes the library's arrays apart.
        guarded::call(&self.path, || {
            let mut builder =
                ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
                    .with_batch_size(batch_rows);
            if let Some(group) = group {
                builder = builder.with_row_groups(vec![group]);
            }
            for batch in builder.build().map_err(FormatError::parquet(&self.path))? {
                let source =
                    |error: arrow_schema::ArrowError| ParquetError::ArrowError(error.to_string());
                each(&batch.map_err(source).map_err(FormatError::parquet(&self.path))?)?;
            }
            Ok(())
        })
    }

    /// The column of a batch, which must not have nulls.
    pub fn required<'a>(&self, batch: &'a RecordBatch, column: usize) -> Result<&'a ArrayRef> {
        let array = batch.column(column);
        if array.null_count() > 0 {
            let what = format!("column {:?}", self.metadata.schema().field(column).name());
            return Err(FormatError::invalid(
                &self.path,
                what,
                format!("{} nulls", array.null_count()),
                "a value in every row",
            ));
        }
        Ok(array)
    }

    /// Whether a column can have nulls.
    pub fn is_nullable(&self, column: usize) -> bool {
        self.metadata.schema().field(column).is_nullable()
    }

    /// Checks the number of rows read against the footer.
    pub fn expect_read(&self, found: usize) -> Result<()> {
        let expected = self.rows()?;
        if found as u64 != expected {
            return Err(FormatError::invalid(&self.path, "number of rows read", found, expected));
        }
        Ok(())
    }
}

/// The items of all lists of a column, which must not have nulls; the offsets of the lists point
/// into them.
pub(crate) fn items_of<'a, T: ArrowPrimitiveType>(
    path: &Path,
    lists: &'a ListArray,
) -> Result<&'a [T::Native]> {
    let items = lists.values();
    if items.null_count() > 0 {
        let found = format!("{} nulls", items.null_count());
        return Err(FormatError::invalid(path, "items of a list", found, "a value for each"));
    }
    Ok(items.as_primitive::<T>().values())
}

/// Field names inside lists and nullability differ between writers and are ignored.
fn same_type(found: &DataType, wanted: &DataType) -> bool {
    match (found, wanted) {
        (DataType::List(found), DataType::List(wanted)) => found.data_type() == wanted.data_type(),
        _ => found == wanted,
    }
}

fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::List(item) => format!("list of {}", type_name(item.data_type())),
        DataType::Utf8 => "string".into(),
        other => other.to_string().to_lowercase(),
    }
}

/// A list type with non-null items.
pub(crate) fn list_of(item: DataType) -> DataType {
    DataType::List(item_field(item))
}

/// Position of the items of a list column in the file's schema.
pub(crate) fn items_path(column: &str) -> ColumnPath {
    ColumnPath::new(vec![column.into(), "list".into(), "element".into()])
}

/// The non-null items of a list.
pub(crate) fn item_field(item: DataType) -> Arc<Field> {
    Arc::new(Field::new("element", item, false))
}
