//! `manifest.json`: what the dataset is, how it was made, and the size and checksum of each file.
//! Written last: a directory without a manifest is not a dataset.
//!
//! The file is pretty-printed JSON whose last field, `xxh3`, is the checksum of all bytes before
//! the comma that precedes it. It covers the manifest and, through `files`, every byte of the
//! dataset, so it identifies the dataset.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::checksum::{self, FileEntry};
use crate::encoding::Encoding;
use crate::error::{FormatError, Result};
use crate::features::{FeatureKind, FeaturesEntry};
use crate::graphs::GraphsEntry;
use crate::ids::IdsEntry;
use crate::labels::{LabelKind, LabelsEntry};
use crate::names::{self, valid_name};
use crate::regular;
use crate::splits::{self, SplitEntry};
use crate::storage::OutputFile;

/// Name of the manifest in the dataset directory.
pub const MANIFEST: &str = "manifest.json";
/// First field of the manifest.
pub const FORMAT: &str = "ignn-dataset";

/// The newest version of the format that is read and written. A dataset is written as the oldest
/// version that has all of its parts: version 2 has numbers as labels, and encodings of tables.
pub const VERSION: u32 = 2;

/// Largest manifest that is read: some 300,000 relations or feature shards.
pub(crate) const MAX_BYTES: u64 = 64 << 20;

/// The manifest, without the checksum of its own text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Always [`FORMAT`].
    pub format: String,
    /// Version of the format, at most [`VERSION`]; [`Manifest::lowest_version`] or later.
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
    /// How the columns of a table became the features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
    /// Node labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelsEntry>,
    /// Splits of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub splits: Vec<SplitEntry>,
    /// Node ranges, labels and splits of a dataset of many graphs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graphs: Option<GraphsEntry>,
    /// Size and checksum of every other file, by its path in the directory with `/` as separator.
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
    /// Options that affect the result, by name.
    pub options: BTreeMap<String, String>,
}

/// One adjacency. The matrix is `A[j, i] = v(j, i) * s`, with `v` stored or 1 and `s` given by
/// `scale`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationEntry {
    /// Letters, digits, `-`, `_`, `.`; its files are in `relations/<name>/`.
    pub name: String,
    /// Whether the stored values are symmetric. If so, `in` is also used as `out`, with the sides
    /// of the scale swapped.
    pub symmetric: bool,
    /// Whether values are stored; otherwise every `v` is 1.
    pub weighted: bool,
    /// "none", "renorm" or "row": defines the scale.
    pub normalisation: Normalisation,
    /// How `scale.f32` is applied.
    pub scale: Scale,
    /// Stored entries of one direction.
    pub nonzeros: u64,
    /// Entries on the diagonal among them.
    pub diagonal: u64,
}

/// The normalisations of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Normalisation {
    /// As read.
    None,
    /// `D^-1/2 (A + I) D^-1/2`, `D` the row sums of `A + I`.
    Renorm,
    /// `D^-1 A`, `D` the row sums of `A`: the outgoing weights of a node sum to one.
    Row,
}

/// How the scale vector `s` of a relation is applied.
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

impl Manifest {
    /// Reads and checks the manifest of a dataset directory.
    pub fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(MANIFEST);
        if !directory.is_dir() {
            let why = if directory.exists() {
                "it is a file, not a directory"
            } else {
                "no such directory"
            };
            return Err(FormatError::NotADataset { path: directory.into(), why: why.into() });
        }
        if !path.exists() {
            let why =
                format!("it has no {MANIFEST} (create one with `ignn ingest` or `ignn generate`)");
            return Err(FormatError::NotADataset { path: directory.into(), why });
        }
        let text = regular::read(&path, MAX_BYTES)?;
        Self::parse(&text, &path)
    }

    /// Parses and checks a manifest: format, version, checksum, fields, and whether they are
    /// consistent.
    pub fn parse(text: &[u8], path: &Path) -> Result<Self> {
        let bad = |e: serde_json::Error| {
            FormatError::invalid(path, "manifest", e, "the fields of the format")
        };
        // The version comes first: a later version may have other fields.
        let mut value: serde_json::Value = serde_json::from_slice(text).map_err(bad)?;
        if value["format"] != FORMAT {
            let found = &value["format"];
            return Err(FormatError::invalid(
                path,
                "field \"format\"",
                found,
                format!("{FORMAT:?}"),
            ));
        }
        match value["version"].as_u64() {
            Some(version) if (1..=u64::from(VERSION)).contains(&version) => {}
            Some(version) => {
                let found = u32::try_from(version).unwrap_or(u32::MAX);
                return Err(FormatError::Version { path: path.into(), found, supported: VERSION });
            }
            None => {
                return Err(FormatError::invalid(
                    path,
                    "field \"version\"",
                    &value["version"],
                    VERSION,
                ));
            }
        }
        let [found, expected] = checksum::seal_of(text).ok_or_else(|| {
            FormatError::invalid(
                path,
                "last field",
                "another",
                "\"xxh3\" as ignn writes it: was the file edited?",
            )
        })?;
        if found != expected {
            return Err(FormatError::invalid(path, "checksum of the manifest", found, expected));
        }
        if let Some(fields) = value.as_object_mut() {
            fields.remove(checksum::SEAL);
        }
        let manifest: Self = serde_json::from_value(value).map_err(bad)?;
        manifest.validate(path)?;
        Ok(manifest)
    }

    /// The oldest version of the format that has all of its parts.
    pub fn lowest_version(&self) -> u32 {
        let has_numbers =
            self.labels.as_ref().is_some_and(|labels| labels.kind == LabelKind::Number)
                || self.graphs.as_ref().is_some_and(|graphs| graphs.numbers);
        if has_numbers || self.encoding.is_some() { 2 } else { 1 }
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        checksum::sealed(self)
    }

    /// The checksum of the manifest, and thereby of the whole dataset.
    pub fn checksum(&self) -> String {
        let [checksum, _] = checksum::seal_of(self.to_text().as_bytes()).expect("just sealed");
        checksum
    }

    /// Checks that the fields are consistent; the content of files is checked when they are read.
    fn validate(&self, path: &Path) -> Result<()> {
        let invalid = |what: String, found: &dyn ToString, expected: &dyn ToString| {
            Err(FormatError::invalid(path, what, found.to_string(), expected.to_string()))
        };
        let nodes = self.nodes;
        if self.version < self.lowest_version() {
            let expected = format!("{} for its parts", self.lowest_version());
            return invalid("version".into(), &self.version, &expected);
        }
        if let Some(encoding) = &self.encoding {
            if let Some(fault) = encoding.fault() {
                return invalid("encoding".into(), &fault, &"a sound rule");
            }
            let columns = self.features.as_ref().map_or(0, |features| features.columns);
            if encoding.width() as u64 != columns {
                return invalid("columns of the encoding".into(), &encoding.width(), &columns);
            }
        }
        if nodes > u64::from(u32::MAX) {
            return invalid("number of nodes".into(), &nodes, &"at most 4294967295");
        }
        if self.relations.is_empty() {
            return invalid("number of relations".into(), &0, &"at least 1");
        }
        names::check_unique(path, "relation name", self.relations.iter().map(|r| &r.name))?;
        for relation in &self.relations {
            let of = |what: &str| format!("{what} of relation {:?}", relation.name);
            if !valid_name(&relation.name) {
                return invalid(
                    "relation name".into(),
                    &relation.name,
                    &"letters, digits, '-', '_', '.'",
                );
            }
            // (2^32 - 1)^2 fits in 64 bits.
            if relation.nonzeros > nodes * nodes {
                return invalid(
                    of("non-zeros"),
                    &relation.nonzeros,
                    &format!("at most {}", nodes * nodes),
                );
            }
            let most = relation.nonzeros.min(nodes);
            if relation.diagonal > most {
                return invalid(of("diagonal"), &relation.diagonal, &format!("at most {most}"));
            }
            let scale = match relation.normalisation {
                Normalisation::None => Scale::None,
                Normalisation::Renorm => Scale::Both,
                Normalisation::Row => Scale::Source,
            };
            if relation.scale != scale {
                let (found, expected) = (format!("{:?}", relation.scale), format!("{scale:?}"));
                return invalid(of("scale"), &found.to_lowercase(), &expected.to_lowercase());
            }
            if relation.normalisation == Normalisation::Renorm && relation.diagonal != nodes {
                return invalid(
                    of("diagonal"),
                    &relation.diagonal,
                    &format!("{nodes}, because renorm adds the diagonal"),
                );
            }
        }
        if let Some(features) = &self.features {
            let most = features.kind.most_columns();
            if features.columns == 0 || features.columns > most {
                return invalid(
                    "feature columns".into(),
                    &features.columns,
                    &format!("1 to {most}"),
                );
            }
            if features.rows_per_shard == 0 {
                return invalid("feature rows per shard".into(), &0, &"at least 1");
            }
            let shards = nodes.div_ceil(features.rows_per_shard);
            if features.shards != shards {
                return invalid("feature shards".into(), &features.shards, &shards);
            }
            if features.nonzeros.is_some() != (features.kind == FeatureKind::Sparse) {
                let found = if features.nonzeros.is_some() { "a number" } else { "none" };
                return invalid(
                    "feature non-zeros".into(),
                    &found,
                    &"a number for sparse features only",
                );
            }
        }
        if let Some(labels) = &self.labels
            && labels.labelled > nodes
        {
            return invalid("labelled nodes".into(), &labels.labelled, &format!("at most {nodes}"));
        }
        splits::check_entries(path, &self.splits)?;
        self.graphs.iter().try_for_each(|graphs| {
            names::check_unique(path, "classes of the graphs", &graphs.classes)?;
            splits::check_entries(path, &graphs.splits)
        })
    }

    /// Writes the manifest, as the last step of writing a dataset.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let path = directory.join(MANIFEST);
        self.validate(&path)?;
        let mut file = OutputFile::create_again(&path)?;
        file.write_all(self.to_text().as_bytes()).map_err(FormatError::io("write", &path))
    }

    /// The entry of a relation.
    pub fn relation(&self, name: &str) -> Option<&RelationEntry> {
        self.relations.iter().find(|relation| relation.name == name)
    }
}
