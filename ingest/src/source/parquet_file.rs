//! Opens Parquet files that may be damaged. The Parquet library trusts the metadata of a file and
//! panics if it is wrong, so offsets are checked here first; any remaining panic becomes an error
//! by `ignn_format::guarded`.

use std::fs::File;
use std::path::Path;

use ignn_format::{FormatError, guarded};
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ColumnChunkMetaData;

use crate::error::{IngestError, Result};
use crate::source::text;

/// Opens a file and checks that its columns are within the file. The embedded Arrow schema is
/// ignored, so that text is `Utf8` and a list is `List`, whatever types the writing program used.
pub fn open(path: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    let file = text::open_file(path)?;
    let length = file.metadata().map_err(IngestError::io("read", path))?.len();
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = guarded::call(path, || {
        ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
            .map_err(FormatError::parquet(path))
    })?;
    let outside = |chunk: &ColumnChunkMetaData| {
        let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
        let end = start.checked_add(chunk.compressed_size());
        start < 0 || chunk.compressed_size() < 0 || end.is_none_or(|end| end as u64 > length)
    };
    for group in builder.metadata().row_groups() {
        if group.num_rows() < 0 || group.columns().iter().any(outside) {
            return Err(damaged(path, "its metadata points outside the file"));
        }
    }
    Ok(builder)
}

/// The error for a file that cannot be read.
pub fn damaged(path: &Path, what: impl std::fmt::Display) -> IngestError {
    IngestError::file(path, format!("damaged Parquet file: {what}"))
}
