//! Raw files in the formats of other programs, as bytes: compressed text, NumPy arrays and archives,
//! Parquet tables.

use std::io::Write;
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

/// A NumPy archive: a zip archive whose members are stored.
pub fn npz(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (name, member) in members {
        let mut crc = flate2::Crc::new();
        crc.update(member);
        let name = format!("{name}.npy");
        // Version 2.0, no flags, stored, no time; the lengths of the name and of extra fields.
        let mut fields = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let size = member.len() as u32;
        fields.extend([crc.sum(), size, size].map(u32::to_le_bytes).as_flattened());
        fields.extend([name.len() as u16, 0].map(u16::to_le_bytes).as_flattened());
        let start = bytes.len() as u32;
        bytes.extend([b"PK\x03\x04", &fields[..], name.as_bytes(), member].concat());
        directory.extend([b"PK\x01\x02\x14\x00", &fields[..], &[0; 10]].concat());
        directory.extend([&start.to_le_bytes(), name.as_bytes()].concat());
    }
    let (start, length) = (bytes.len() as u32, directory.len() as u32);
    bytes.extend(directory);
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    bytes.extend([members.len() as u16; 2].map(u16::to_le_bytes).as_flattened());
    bytes.extend([length, start].map(u32::to_le_bytes).as_flattened());
    bytes.extend([0; 2]);
    bytes
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
