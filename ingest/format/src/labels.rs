//! Node labels and class names: `labels.parquet` (a row a node) and `classes.parquet` (a row a class).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checksum::FileEntry;
use crate::error::Result;

/// The labels' part of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelsEntry {
    /// One class a node, or sets.
    pub kind: LabelKind,
    /// Number of classes.
    pub classes: u64,
    /// Nodes with at least one label.
    pub labelled: u64,
}

/// One label a node, or a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelKind {
    /// Column `label`: i32, null where there is none.
    Single,
    /// Column `labels`: list of i32, rising, empty where there is none.
    Multi,
}

/// Labels of all nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    /// One class a node; -1 for none.
    Single {
        /// Class names, in class order.
        classes: Vec<String>,
        /// Class of each node, or -1.
        of: Vec<i32>,
    },
    /// A set a node: classes `offsets[i] .. offsets[i + 1]` of `of`, rising.
    Multi {
        /// Class names, in class order.
        classes: Vec<String>,
        /// Nodes + 1 offsets.
        offsets: Vec<u64>,
        /// Classes.
        of: Vec<u32>,
    },
}

/// Writes both files.
pub fn write(dataset: &Path, labels: &Labels) -> Result<(LabelsEntry, Vec<(PathBuf, FileEntry)>)> {
    let _ = (dataset, labels);
    todo!()
}

/// Reads both files; checks lengths and class range.
pub fn read(dataset: &Path, entry: &LabelsEntry, nodes: u64) -> Result<Labels> {
    let _ = (dataset, entry, nodes);
    todo!()
}
