//! Opens Parquet files that may be damaged. The Parquet library trusts the metadata of a file and
//! panics if it is wrong, so offsets are checked here first; any remaining panic becomes an error
//! by `ignn_format::guarded`.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, Schema};
use ignn_format::{FormatError, guarded};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::column::page::PageReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use crate::error::{IngestError, Result};
use crate::source::text;

/// Reads the metadata of a file and checks that its columns are within the file. The embedded Arrow
/// schema is ignored, so that text is `Utf8View` and a list is `List`, whatever types the writing
/// program used. Views share the text of a dictionary: a few bytes can stand for gigabytes of
/// copies.
pub fn metadata(path: &Path) -> Result<ArrowReaderMetadata> {
    let file = text::open_file(path)?;
    let length = file.metadata().map_err(IngestError::io("read", path))?.len();
    let read = || {
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let plain = ArrowReaderMetadata::load(&file, options)?;
        let fields = plain.schema().fields().iter().map(|field| match field.data_type() {
            DataType::Utf8 => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8View)),
            _ => field.clone(),
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = ArrowReaderOptions::new().with_schema(schema);
        ArrowReaderMetadata::try_new(plain.metadata().clone(), options)
    };
    let read = guarded::call(path, || read().map_err(FormatError::parquet(path)))?;
    let outside = |chunk: &ColumnChunkMetaData| {
        let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
        let end = start.checked_add(chunk.compressed_size());
        start < 0 || chunk.compressed_size() < 0 || end.is_none_or(|end| end as u64 > length)
    };
    for group in read.metadata().row_groups() {
        if group.num_rows() < 0 || group.columns().iter().any(outside) {
            return Err(damaged(path, "its metadata points outside the file"));
        }
    }
    Ok(read)
}

/// Bytes per item of a list while it is decoded: the value, two levels, an offset.
const ITEM_BYTES: u64 = 16;

/// Memory that lists may always use, whatever the limit.
const MIN_LIST_BYTES: u64 = 1 << 20;

/// The number of rows with lists that can be decoded at once in `memory` bytes, at most `most`; an
/// error if not even one can. The library decodes whole lists, and a few bytes can stand for any
/// number of equal items. No list is longer than its page says, unless it extends over several.
pub fn rows_of_lists(
    path: &Path,
    metadata: &ArrowReaderMetadata,
    memory: u64,
    most: usize,
) -> Result<usize> {
    let (mut rows, memory) = (most, memory.max(MIN_LIST_BYTES));
    let file = Arc::new(text::open_file(path)?);
    let longest = |group: &RowGroupMetaData, chunk: &ColumnChunkMetaData| {
        let rows = usize::try_from(group.num_rows()).unwrap_or(0);
        let mut pages = SerializedPageReader::new(file.clone(), chunk, rows, None)?;
        let mut longest = 0;
        while let Some(page) = pages.peek_next_page()? {
            longest = longest.max(page.num_levels.unwrap_or(0));
            pages.skip_next_page()?;
        }
        Ok::<_, ParquetError>(longest as u64)
    };
    for group in metadata.metadata().row_groups() {
        let lists = group.columns().iter().filter(|chunk| chunk.column_descr().max_rep_level() > 0);
        for chunk in lists {
            let items =
                guarded::call(path, || longest(group, chunk).map_err(FormatError::parquet(path)))?;
            let bytes = items.saturating_mul(ITEM_BYTES);
            if bytes > memory {
                let what = format!(
                    "the {items} items of column {:?} in one page",
                    chunk.column_path().parts()[0]
                );
                return Err(IngestError::memory(path, &what, bytes, memory));
            }
            rows = rows.min((memory / bytes.max(1)) as usize).max(1);
        }
    }
    Ok(rows)
}

/// A type as messages name it. `Utf8View` is only how this program reads text, so it is shown as
/// `Utf8`.
pub fn type_name(kind: &DataType) -> String {
    match kind {
        DataType::Utf8View => DataType::Utf8.to_string(),
        other => other.to_string(),
    }
}

/// The error for a file that cannot be read.
pub fn damaged(path: &Path, what: impl std::fmt::Display) -> IngestError {
    IngestError::file(path, format!("damaged Parquet file: {what}"))
}
