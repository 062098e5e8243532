//! Named splits of the nodes (`splits.parquet`) or of the graphs: each assigns some of them to
//! named parts.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::{DataType, Field};
use serde::{Deserialize, Serialize};

use crate::checksum::WrittenFiles;
use crate::error::{FormatError, Result};
use crate::names::{self, valid_name};
use crate::table::{self, BATCH_ROWS, Table, TableWriter};

/// Name of the file.
pub const SPLITS: &str = "splits.parquet";
/// In no part.
pub const NO_PART: u8 = u8::MAX;
/// Largest number of parts of a split.
pub const MAX_PARTS: usize = 254;

/// A split's part of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitEntry {
    /// Name of the split and of its column.
    pub name: String,
    /// Parts in order, each with its number of nodes or graphs.
    pub parts: Vec<(String, u64)>,
}

/// One split.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// Name, unique in the dataset ("default" if the user gave none).
    pub name: String,
    /// Part names; at most 254.
    pub parts: Vec<String>,
    /// Index of the part of each node or graph, or [`NO_PART`].
    pub of: Vec<u8>,
}

/// Writes `splits.parquet`: one row per node and one dictionary-encoded string column per split,
/// with null for no part. Without splits there is no file.
pub fn write(dataset: &Path, splits: &[Split]) -> Result<(Vec<SplitEntry>, WrittenFiles)> {
    let Some(first) = splits.first() else { return Ok((Vec::new(), Vec::new())) };
    assert!(
        splits.iter().all(|split| split.of.len() == first.of.len()),
        "splits of the same nodes"
    );
    let path = dataset.join(SPLITS);
    let entries = entries(&path, splits)?;
    let fields = splits.iter().map(|split| field(&split.name)).collect();
    let mut table = TableWriter::create(path, fields, table::properties())?;
    for rows in table::batches_of(first.of.len()) {
        table.write(splits.iter().map(|split| encode(split, rows.clone())).collect())?;
    }
    Ok((entries, vec![table.finish()?]))
}

/// Reads the splits of the nodes.
pub fn read(dataset: &Path, entries: &[SplitEntry], nodes: u64) -> Result<Vec<Split>> {
    let path = dataset.join(SPLITS);
    let columns: Vec<_> =
        entries.iter().map(|entry| table::column(&entry.name, &[DataType::Utf8])).collect();
    let table = Table::open(&path, &columns, Some(nodes))?;
    let mut splits: Vec<_> = entries.iter().map(empty).collect();
    table.read(None, BATCH_ROWS, |batch| {
        splits
            .iter_mut()
            .zip(batch.columns())
            .try_for_each(|(split, column)| decode(&path, split, column))
    })?;
    for (split, entry) in splits.iter().zip(entries) {
        table.expect_read(split.of.len())?;
        check_counts(&path, split, entry)?;
    }
    Ok(splits)
}

/// The manifest entries of splits; invalid names and parts are an error.
pub(crate) fn entries(path: &Path, splits: &[Split]) -> Result<Vec<SplitEntry>> {
    let entries: Vec<SplitEntry> =
        splits.iter().map(entry).collect::<Option<_>>().ok_or_else(|| {
            FormatError::invalid(
                path,
                "part of a split",
                "an index beyond its parts",
                "an index of a part",
            )
        })?;
    check_entries(path, &entries)?;
    Ok(entries)
}

fn entry(split: &Split) -> Option<SplitEntry> {
    let mut counts = vec![0u64; split.parts.len()];
    for &part in split.of.iter().filter(|part| **part != NO_PART) {
        *counts.get_mut(part as usize)? += 1;
    }
    Some(SplitEntry {
        name: split.name.clone(),
        parts: split.parts.iter().cloned().zip(counts).collect(),
    })
}

/// Checks that names are valid and unique.
pub(crate) fn check_entries(path: &Path, entries: &[SplitEntry]) -> Result<()> {
    names::check_unique(path, "split name", entries.iter().map(|entry| &entry.name))?;
    for entry in entries {
        if !valid_name(&entry.name) {
            let expected = "letters, digits, '-', '_', '.'";
            return Err(FormatError::invalid(
                path,
                "split name",
                format!("{:?}", entry.name),
                expected,
            ));
        }
        let what = || format!("parts of split {:?}", entry.name);
        if entry.parts.len() > MAX_PARTS {
            let expected = format!("at most {MAX_PARTS}");
            return Err(FormatError::invalid(path, what(), entry.parts.len(), expected));
        }
        names::check_unique(path, &what(), entry.parts.iter().map(|(name, _)| name))?;
    }
    Ok(())
}

/// The column of a split.
pub(crate) fn field(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

/// Some rows of a split's column.
pub(crate) fn encode(split: &Split, rows: Range<usize>) -> ArrayRef {
    let name = |part: &u8| (*part != NO_PART).then(|| split.parts[*part as usize].as_str());
    Arc::new(StringArray::from_iter(split.of[rows].iter().map(name)))
}

/// The split of an entry, without rows yet.
pub(crate) fn empty(entry: &SplitEntry) -> Split {
    let parts = entry.parts.iter().map(|(name, _)| name.clone()).collect();
    Split { name: entry.name.clone(), parts, of: Vec::new() }
}

/// Appends rows of a split's column.
pub(crate) fn decode(path: &Path, split: &mut Split, column: &ArrayRef) -> Result<()> {
    let column = column.as_string::<i32>();
    // Consecutive rows are often in the same part: try that one first.
    let mut last = 0;
    for i in 0..column.len() {
        if column.is_null(i) {
            split.of.push(NO_PART);
            continue;
        }
        let name = column.value(i);
        if split.parts.get(last).is_none_or(|part| part != name) {
            last = split.parts.iter().position(|part| part == name).ok_or_else(|| {
                let what = format!("split {:?}, row {}", split.name, split.of.len());
                let expected = format!("one of {:?}", split.parts);
                FormatError::invalid(path, what, format!("part {name:?}"), expected)
            })?;
        }
        split.of.push(last as u8);
    }
    Ok(())
}

/// Checks the number of rows of each part against the manifest.
pub(crate) fn check_counts(path: &Path, split: &Split, expected: &SplitEntry) -> Result<()> {
    let found = entry(split).map(|entry| entry.parts).unwrap_or_default();
    for ((name, found), (_, expected)) in found.iter().zip(&expected.parts) {
        if found != expected {
            let what = format!("size of part {name:?} of split {:?}", split.name);
            return Err(FormatError::invalid(path, what, found, expected));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(name: &str, parts: &[&str], of: Vec<u8>) -> Split {
        Split { name: name.into(), parts: parts.iter().map(|part| part.to_string()).collect(), of }
    }

    #[test]
    fn round_trips() {
        let dir = tempfile::tempdir().unwrap();
        let of = |shift: usize| {
            (0..100_000).map(|i| [0, 1, NO_PART, 2][(i + shift) % 4]).collect::<Vec<u8>>()
        };
        let splits = [
            split("default", &["train", "val", "test"], of(0)),
            split("fold-1", &["a", "b", "c", "empty"], of(1)),
            split("nothing", &[], vec![NO_PART; 100_000]),
        ];
        let (entries, files) = write(dir.path(), &splits).unwrap();
        assert_eq!(files[0].1, crate::checksum::of_file(&files[0].0, 0).unwrap());
        assert_eq!(entries[1].parts[3], ("empty".to_string(), 0));
        assert_eq!(read(dir.path(), &entries, 100_000).unwrap(), splits);
        assert_eq!(write(dir.path(), &[]).unwrap(), (vec![], vec![]));
    }

    #[test]
    fn wrong_splits_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let message = |splits: &[Split]| {
            let error = write(dir.path(), splits).unwrap_err().to_string();
            error.split_once("splits.parquet: ").unwrap().1.to_string()
        };
        let ok = split("a", &["train", "test"], vec![0, 1]);
        assert_eq!(
            message(&[ok.clone(), ok.clone()]),
            "split name (found \"a\" twice, expected unique names)"
        );
        assert_eq!(
            message(&[split("a/b", &[], vec![])]),
            "split name (found \"a/b\", expected letters, digits, '-', '_', '.')"
        );
        assert_eq!(
            message(&[split("a", &["x", "x"], vec![])]),
            "parts of split \"a\" (found \"x\" twice, expected unique names)"
        );
        assert!(message(&[split("a", &["x"], vec![1])]).contains("an index beyond its parts"));

        let (entries, _) = write(dir.path(), &[ok]).unwrap();
        let message =
            |entry: SplitEntry, nodes| read(dir.path(), &[entry], nodes).unwrap_err().to_string();
        let parts = |train: &str, count| vec![(train.to_string(), count), ("test".to_string(), 1)];
        let found = message(SplitEntry { name: "a".into(), parts: parts("valid", 1) }, 2);
        let expected =
            r#"split "a", row 0 (found part "train", expected one of ["valid", "test"])"#;
        assert!(found.ends_with(expected), "{found}");
        let found = message(SplitEntry { name: "a".into(), parts: parts("train", 2) }, 2);
        assert!(
            found.ends_with("size of part \"train\" of split \"a\" (found 1, expected 2)"),
            "{found}"
        );
        assert!(message(entries[0].clone(), 3).ends_with("number of rows (found 2, expected 3)"));
    }
}
