//! The user's node ids, in node order: `ids.parquet`, one column `id`, integer or string.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Int64Array, StringArray, UInt64Array};
use arrow_schema::{DataType, Field};
use parquet::basic::Encoding;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3Default;

use crate::checksum::{self, FileEntry};
use crate::error::{FormatError, Result};
use crate::table::{self, BATCH_ROWS, Table, TableWriter};

/// Name of the file.
pub const IDS: &str = "ids.parquet";
/// Bytes of strings passed to the Parquet library at once.
const BATCH_BYTES: usize = 4 << 20;

/// The ids' part of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdsEntry {
    /// Integer or string.
    pub kind: IdKind,
}

/// Type of the ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdKind {
    /// u64 in the file if any id exceeds 2^63 - 1, i64 otherwise.
    Integer,
    /// UTF-8.
    String,
}

/// All ids, in node order.
#[derive(Clone, Debug, PartialEq)]
pub enum Ids {
    /// Integers.
    Integer(Vec<u64>),
    /// Concatenated strings: id `i` is `text[offsets[i] .. offsets[i + 1]]`.
    String {
        /// Nodes + 1 offsets.
        offsets: Vec<u64>,
        /// The bytes of all ids.
        text: String,
    },
}

/// One id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IdRef<'a> {
    /// An integer.
    Integer(u64),
    /// A string.
    String(&'a str),
}

impl fmt::Display for IdRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Integer(id) => fmt::Display::fmt(id, f),
            Self::String(id) => f.pad(id),
        }
    }
}

impl Ids {
    /// Ids from strings.
    pub fn from_strings<'a>(ids: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut offsets, mut text) = (vec![0], String::new());
        for id in ids {
            text.push_str(id);
            offsets.push(text.len() as u64);
        }
        Self::String { offsets, text }
    }

    /// Their type.
    pub fn kind(&self) -> IdKind {
        match self {
            Self::Integer(_) => IdKind::Integer,
            Self::String { .. } => IdKind::String,
        }
    }

    /// Number of ids.
    pub fn len(&self) -> usize {
        match self {
            Self::Integer(ids) => ids.len(),
            Self::String { offsets, .. } => offsets.len().saturating_sub(1),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id of node `i`.
    ///
    /// # Panics
    /// If there is no node `i`.
    pub fn get(&self, i: usize) -> IdRef<'_> {
        match self {
            Self::Integer(ids) => IdRef::Integer(ids[i]),
            Self::String { offsets, text } => {
                IdRef::String(&text[offsets[i] as usize..offsets[i + 1] as usize])
            }
        }
    }

    /// Checksum of the ids in their order, whatever the bytes of their file are.
    pub fn checksum(&self) -> String {
        let mut hasher = Xxh3Default::new();
        match self {
            Self::Integer(ids) => hasher.update(bytemuck::cast_slice(ids)),
            Self::String { offsets, text } => {
                hasher.update(bytemuck::cast_slice(offsets));
                hasher.update(text.as_bytes());
            }
        }
        checksum::hex(hasher.digest())
    }

    /// The ids in node order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = IdRef<'_>> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// The ids as integers, if they are integers.
    pub fn integers(&self) -> Option<&[u64]> {
        match self {
            Self::Integer(ids) => Some(ids),
            Self::String { .. } => None,
        }
    }

    /// Whether every node `i` has integer id `i`.
    pub fn is_consecutive(&self) -> bool {
        self.integers().is_some_and(|ids| ids.iter().zip(0..).all(|(id, i)| *id == i))
    }
}

/// Writes ids in node order, one batch at a time, in constant memory.
pub struct IdsWriter {
    kind: IdKind,
    wide: bool,
    integers: Vec<u64>,
    strings: StringBatch,
    table: TableWriter,
}

#[derive(Default)]
struct StringBatch {
    text: String,
    ends: Vec<usize>,
}

impl StringBatch {
    fn take(&mut self) -> ArrayRef {
        let mut start = 0;
        let array = StringArray::from_iter_values(self.ends.iter().map(|&end| {
            let id = &self.text[start..end];
            start = end;
            id
        }));
        self.text.clear();
        self.ends.clear();
        Arc::new(array)
    }
}

impl IdsWriter {
    /// Creates `ids.parquet`. Pass `wide` if any integer exceeds 2^63 - 1.
    pub fn create(dataset: &Path, kind: IdKind, wide: bool) -> Result<Self> {
        // Ids are distinct, so a dictionary would not help.
        let properties = table::properties().set_dictionary_enabled(false);
        let (data_type, properties) = match kind {
            IdKind::Integer => {
                let data_type = if wide { DataType::UInt64 } else { DataType::Int64 };
                (data_type, properties.set_encoding(Encoding::DELTA_BINARY_PACKED))
            }
            IdKind::String => (DataType::Utf8, properties),
        };
        let fields = vec![Field::new("id", data_type, false)];
        Ok(Self {
            kind,
            wide,
            integers: Vec::new(),
            strings: StringBatch::default(),
            table: TableWriter::create(dataset.join(IDS), fields, properties)?,
        })
    }

    /// Appends integers.
    pub fn push_integers(&mut self, ids: &[u64]) -> Result<()> {
        assert_eq!(self.kind, IdKind::Integer, "integer ids");
        for piece in ids.chunks(BATCH_ROWS) {
            self.integers.extend_from_slice(piece);
            if self.integers.len() >= BATCH_ROWS {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Appends strings.
    pub fn push_strings<'a>(&mut self, ids: impl Iterator<Item = &'a str>) -> Result<()> {
        assert_eq!(self.kind, IdKind::String, "string ids");
        for id in ids {
            self.strings.text.push_str(id);
            self.strings.ends.push(self.strings.text.len());
            if self.strings.ends.len() >= BATCH_ROWS || self.strings.text.len() >= BATCH_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Completes the file.
    pub fn finish(mut self) -> Result<(IdsEntry, PathBuf, FileEntry)> {
        self.flush()?;
        let (path, file) = self.table.finish()?;
        Ok((IdsEntry { kind: self.kind }, path, file))
    }

    fn flush(&mut self) -> Result<()> {
        let array: ArrayRef = match (self.kind, self.wide) {
            (IdKind::String, _) => self.strings.take(),
            (IdKind::Integer, true) => {
                Arc::new(UInt64Array::from_iter_values(self.integers.drain(..)))
            }
            (IdKind::Integer, false) => {
                assert!(
                    self.integers.iter().all(|id| i64::try_from(*id).is_ok()),
                    "wide ids need `wide`"
                );
                Arc::new(Int64Array::from_iter_values(self.integers.drain(..).map(|id| id as i64)))
            }
        };
        if array.is_empty() { Ok(()) } else { self.table.write(vec![array]) }
    }
}

/// Writes all ids at once.
pub fn write(dataset: &Path, ids: &Ids) -> Result<(IdsEntry, PathBuf, FileEntry)> {
    let wide = ids.integers().is_some_and(|ids| ids.iter().any(|id| i64::try_from(*id).is_err()));
    let mut writer = IdsWriter::create(dataset, ids.kind(), wide)?;
    match ids {
        Ids::Integer(ids) => writer.push_integers(ids)?,
        Ids::String { offsets, text } => {
            let ids = offsets.windows(2).map(|ends| &text[ends[0] as usize..ends[1] as usize]);
            writer.push_strings(ids)?;
        }
    }
    writer.finish()
}

/// Reads all ids.
pub fn read(dataset: &Path, entry: &IdsEntry, nodes: u64) -> Result<Ids> {
    let path = dataset.join(IDS);
    match entry.kind {
        IdKind::Integer => {
            let types = [DataType::Int64, DataType::UInt64];
            let table = Table::open(&path, &[table::column("id", &types)], Some(nodes))?;
            Ok(Ids::Integer(read_integers(&table)?))
        }
        IdKind::String => {
            let table = Table::open(&path, &[table::column("id", &[DataType::Utf8])], Some(nodes))?;
            let (mut offsets, mut text) = (vec![0], String::new());
            table.read(None, BATCH_ROWS, |batch| {
                let column = table.required(batch, 0)?.as_string::<i32>();
                for i in 0..column.len() {
                    text.push_str(column.value(i));
                    offsets.push(text.len() as u64);
                }
                Ok(())
            })?;
            table.expect_read(offsets.len() - 1)?;
            Ok(Ids::String { offsets, text })
        }
    }
}

fn read_integers(table: &Table) -> Result<Vec<u64>> {
    let wide = *table.type_of(0) == DataType::UInt64;
    let mut ids = Vec::new();
    table.read(None, BATCH_ROWS, |batch| {
        let column = table.required(batch, 0)?;
        if wide {
            ids.extend_from_slice(column.as_primitive::<UInt64Type>().values());
            return Ok(());
        }
        let column = column.as_primitive::<Int64Type>().values();
        if let Some(id) = column.iter().find(|id| **id < 0) {
            return Err(FormatError::invalid(table.path(), "column \"id\"", id, "no negative id"));
        }
        ids.extend(column.iter().map(|id| *id as u64));
        Ok(())
    })?;
    table.expect_read(ids.len())?;
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(ids: &Ids) -> Ids {
        let dir = tempfile::tempdir().unwrap();
        let (entry, path, file) = write(dir.path(), ids).unwrap();
        assert_eq!(file, checksum::of_file(&path, 0).unwrap());
        read(dir.path(), &entry, ids.len() as u64).unwrap()
    }

    #[test]
    fn round_trips() {
        let odd = ["", "a", "b\u{e4}r", "with\nnewline"];
        for ids in [
            Ids::Integer(vec![]),
            Ids::Integer(vec![7, 0, i64::MAX as u64]),
            Ids::Integer(vec![u64::MAX, 0]),
            Ids::Integer((0..200_000).map(|i| i * 31).collect()),
            Ids::from_strings([]),
            Ids::from_strings(odd),
        ] {
            assert_eq!(round_trip(&ids), ids);
        }
        let many: Vec<String> = (0..150_000).map(|i| format!("node {i}")).collect();
        let ids = Ids::from_strings(many.iter().map(String::as_str));
        assert_eq!(round_trip(&ids), ids);
        assert_eq!(ids.get(149_999), IdRef::String("node 149999"));
        assert_eq!(Ids::from_strings(odd).iter().map(|id| id.to_string()).collect::<Vec<_>>(), odd);
        assert!(
            Ids::Integer(vec![0, 1, 2]).is_consecutive() && !Ids::Integer(vec![1]).is_consecutive()
        );
    }

    #[test]
    fn many_row_groups_are_bounded_by_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = IdsWriter::create(dir.path(), IdKind::String, false).unwrap();
        // With ids of 100 kB, a row group of a million rows would need 100 GB.
        let long: Vec<String> = (0..700).map(|i| format!("{i:050000}").repeat(2)).collect();
        writer.push_strings(long.iter().map(String::as_str)).unwrap();
        assert!(writer.table.memory() < 48 << 20, "{}", writer.table.memory());
        let (entry, ..) = writer.finish().unwrap();
        let ids = read(dir.path(), &entry, 700).unwrap();
        assert!(ids.iter().zip(&long).all(|(id, expected)| id == IdRef::String(expected)));
    }

    #[test]
    fn wrong_files_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), &Ids::Integer(vec![1, 2])).unwrap();
        let message = |kind, nodes| {
            let error = read(dir.path(), &IdsEntry { kind }, nodes).unwrap_err().to_string();
            error.split_once("ids.parquet: ").unwrap().1.to_string()
        };
        assert_eq!(message(IdKind::Integer, 3), "number of rows (found 2, expected 3)");
        assert_eq!(
            message(IdKind::String, 2),
            "type of column \"id\" (found int64, expected string)"
        );
    }
}
