//! Raw files in the formats of other programs, as bytes: compressed text, NumPy arrays and archives,
//! Parquet tables.

use std::io::{Cursor, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use parquet::arrow::ArrowWriter;

/// Text as gzip.
pub fn gzip(text: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_ref()).unwrap();
    encoder.finish().unwrap()
}

/// Text as Zstandard.
pub fn zstd(text: impl AsRef<[u8]>) -> Vec<u8> {
    zstd::encode_all(text.as_ref(), 3).unwrap()
}

/// A NumPy array file with any header.
pub fn npy(dtype: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

/// A NumPy array file of floats with `columns` columns.
pub fn npy_floats(columns: usize, values: &[f32]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    npy("<f4", &format!("({}, {columns})", values.len() / columns), &data)
}

/// A NumPy archive.
pub fn npz(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = npyz::npz::NpzWriter::new(&mut bytes);
    for (name, member) in members {
        writer.zip_writer().start_file(format!("{name}.npy"), Default::default()).unwrap();
        writer.zip_writer().write_all(member).unwrap();
    }
    drop(writer);
    bytes.into_inner()
}

/// A Parquet table.
pub fn parquet(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    // Columns are nullable even without nulls, as most programs write them.
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    );
    let batch = batch.unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// A column of a Parquet table.
pub fn column<A: arrow_array::Array + 'static>(values: impl Into<A>) -> ArrayRef {
    Arc::new(values.into())
}
