//! `manifest.json`: what the dataset is, how it was made, and the size and checksum of each file.
//! Written last: a directory without a manifest is not a dataset.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::checksum::FileEntry;
use crate::error::{FormatError, Result};
use crate::features::FeaturesEntry;
use crate::graphs::GraphsEntry;
use crate::header::VERSION;
use crate::ids::IdsEntry;
use crate::labels::LabelsEntry;
use crate::splits::SplitEntry;

/// Name of the manifest in the dataset directory.
pub const MANIFEST: &str = "manifest.json";
/// First field of the manifest.
pub const FORMAT: &str = "ignn-dataset";

/// The whole manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Always [`FORMAT`].
    pub format: String,
    /// Version of the format, [`VERSION`].
    pub version: u32,
    /// Program, command and options.
    pub made_by: MadeBy,
    /// Number of nodes.
    pub nodes: u64,
    /// How nodes are ordered: "none" (by id), "degree", "rcm", ...
    pub order: String,
    /// The adjacency of each relation; a homogeneous graph has one, "edges".
    pub relations: Vec<RelationEntry>,
    /// The original ids.
    pub ids: IdsEntry,
    /// Node features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<FeaturesEntry>,
    /// Node labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelsEntry>,
    /// Splits of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<SplitEntry>,
    /// Blocks, labels and splits of a dataset of many graphs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphs: Option<GraphsEntry>,
    /// Size and checksum of every other file, by path inside the directory with `/` between parts.
    pub files: BTreeMap<String, FileEntry>,
}

/// How a dataset was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeBy {
    /// Program and version.
    pub program: String,
    /// Subcommand, for example "ingest edges".
    pub command: String,
    /// Options that shaped the result, by name.
    pub options: BTreeMap<String, String>,
}

/// One adjacency. The matrix is `A[j, i] = v(j, i) * s`, with `v` stored or 1 and `s` given by `scale`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationEntry {
    /// Letters, digits, `-`, `_`; its files lie in `relations/<name>/`.
    pub name: String,
    /// Whether the stored values are symmetric: then `in` serves as `out` too (with the scale's sides swapped).
    pub symmetric: bool,
    /// Whether values are stored; otherwise every `v` is 1.
    pub weighted: bool,
    /// "none", "renorm" or "row": what made the scale.
    pub normalisation: Normalisation,
    /// How `scale.f32` enters.
    pub scale: Scale,
    /// Stored entries of one direction.
    pub nonzeros: u64,
    /// Entries on the diagonal among them.
    pub diagonal: u64,
}

/// The normalisations known to ingest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalisation {
    /// As read.
    None,
    /// `D^-1/2 (A + I) D^-1/2`, `D` the row sums of `A + I`.
    Renorm,
    /// `D^-1 A`, `D` the row sums of `A`: what leaves a node sums to one.
    Row,
}

/// How the scale vector `s` of a relation enters the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// No vector: `A[j, i] = v(j, i)`.
    None,
    /// `A[j, i] = v(j, i) * s[j] * s[i]`.
    Both,
    /// `A[j, i] = v(j, i) * s[j]`.
    Source,
}

/// Whether a relation or split may bear this name.
pub fn valid_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_' || b == b'.')
        && !name.starts_with('.')
}

impl Manifest {
    /// Reads and checks the manifest of a dataset directory.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(MANIFEST);
        if !directory.is_dir() {
            let why = if directory.exists() { "it is a file, not a directory" } else { "no such directory" };
            return Err(FormatError::NotADataset { path: directory.into(), why: why.into() });
        }
        if !path.exists() {
            let why = format!("it has no {MANIFEST} (create one with `ignn ingest` or `ignn generate`)");
            return Err(FormatError::NotADataset { path: directory.into(), why });
        }
        let text = fs::read(&path).map_err(FormatError::io("read", &path))?;
        let bad =
            |e: serde_json::Error| FormatError::invalid(&path, "manifest", e, "the fields of the format");
        // The version first: a later version may have other fields.
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(bad)?;
        if value["format"] != FORMAT {
            return Err(FormatError::invalid(
                &path,
                "field \"format\"",
                &value["format"],
                format!("{FORMAT:?}"),
            ));
        }
        match value["version"].as_u64() {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => {
                let found = u32::try_from(version).unwrap_or(u32::MAX);
                return Err(FormatError::Version { path, found, supported: VERSION });
            }
            None => return Err(FormatError::invalid(&path, "field \"version\"", &value["version"], VERSION)),
        }
        let manifest: Self = serde_json::from_value(value).map_err(bad)?;
        for relation in &manifest.relations {
            if !valid_name(&relation.name) {
                let expected = "letters, digits, '-', '_', '.'";
                return Err(FormatError::invalid(&path, "relation name", &relation.name, expected));
            }
        }
        if manifest.nodes > u64::from(u32::MAX) {
            return Err(FormatError::invalid(&path, "number of nodes", manifest.nodes, "at most 4294967295"));
        }
        Ok(manifest)
    }

    /// Writes the manifest under a temporary name and renames it: the last step of making a dataset.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let path = directory.join(MANIFEST);
        let draft = directory.join("manifest.json.tmp");
        let mut text = serde_json::to_string_pretty(self).expect("a manifest is plain data");
        text.push('\n');
        fs::write(&draft, text).map_err(FormatError::io("write", &draft))?;
        fs::rename(&draft, &path).map_err(FormatError::io("rename", &draft))
    }

    /// The entry of a relation.
    pub fn relation(&self, name: &str) -> Option<&RelationEntry> {
        self.relations.iter().find(|relation| relation.name == name)
    }
}
