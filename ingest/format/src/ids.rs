//! The user's own node ids, in node order: `ids.parquet`, one column `id`, integer or string.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checksum::FileEntry;
use crate::error::Result;

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
    /// u64 in the file where one exceeds 2^63 - 1, i64 otherwise.
    Integer,
    /// UTF-8.
    String,
}

/// All ids, in node order.
#[derive(Clone, Debug, PartialEq)]
pub enum Ids {
    /// Integers.
    Integer(Vec<u64>),
    /// Strings, back to back: id `i` is `text[offsets[i] .. offsets[i + 1]]`.
    String {
        /// Nodes + 1 offsets.
        offsets: Vec<u64>,
        /// The bytes of all ids.
        text: String,
    },
}

/// Writes ids in node order, a batch at a time, in memory that does not grow.
pub struct IdsWriter {
    _path: PathBuf,
}

impl IdsWriter {
    /// Creates `ids.parquet`. `wide`: some integer exceeds 2^63 - 1.
    pub fn create(dataset: &Path, kind: IdKind, wide: bool) -> Result<Self> {
        let _ = (dataset, kind, wide);
        todo!()
    }

    /// Appends integers.
    pub fn push_integers(&mut self, ids: &[u64]) -> Result<()> {
        let _ = ids;
        todo!()
    }

    /// Appends strings.
    pub fn push_strings<'a>(&mut self, ids: impl Iterator<Item = &'a str>) -> Result<()> {
        let _ = ids;
        todo!()
    }

    /// Completes the file.
    pub fn finish(self) -> Result<(IdsEntry, PathBuf, FileEntry)> {
        todo!()
    }
}

/// Reads all ids.
pub fn read(dataset: &Path, entry: &IdsEntry, nodes: u64) -> Result<Ids> {
    let _ = (dataset, entry, nodes);
    todo!()
}
