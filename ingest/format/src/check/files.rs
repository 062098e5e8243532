//! Compares the files of a dataset with the manifest's list: existence, size and checksum; nothing
//! may be missing, and nothing may be extra.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use rayon::prelude::*;

use crate::check::{Finding, Progress};
use crate::checksum;
use crate::csr;
use crate::dataset::{self, DatasetDir};
use crate::error::{FormatError, Result};
use crate::features;
use crate::graphs::GRAPHS;
use crate::header::HEADER_BYTES;
use crate::ids::IDS;
use crate::labels::{CLASSES, LABELS};
use crate::manifest::{MANIFEST, Manifest, RelationEntry, Scale};
use crate::splits::SPLITS;

/// The files with the right size and checksum.
pub(super) struct Sound(BTreeSet<String>);

impl Sound {
    /// Whether a file is sound.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Whether all files are sound.
    pub fn has_all(&self, names: impl IntoIterator<Item = String>) -> bool {
        names.into_iter().all(|name| self.has(&name))
    }
}

/// Offset at which the checksum of a file begins.
fn skipped(name: &str) -> u64 {
    let is_array = [".u32", ".u64", ".f32"].iter().any(|ending| name.ends_with(ending));
    if is_array { HEADER_BYTES as u64 } else { 0 }
}

/// The path inside the dataset, with `/` as separator.
fn name_of(path: &Path, dataset: &Path) -> String {
    let inside = path.strip_prefix(dataset).unwrap_or(path);
    inside.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
}

/// The files of a relation.
pub(super) fn of_relation(entry: &RelationEntry) -> Vec<String> {
    let directions: &[&str] = if entry.symmetric { &["in"] } else { &["in", "out"] };
    let arrays = if entry.weighted { 3 } else { 2 };
    let mut files = Vec::new();
    let root = Path::new("");
    let directory = dataset::relation_path(root, &entry.name);
    for direction in directions {
        files.extend(
            csr::paths(&directory, direction)[..arrays].iter().map(|path| name_of(path, root)),
        );
    }
    if entry.scale != Scale::None {
        files.push(name_of(&directory.join("scale.f32"), root));
    }
    files
}

/// The shards of the features; empty if there are none.
pub(super) fn of_features(manifest: &Manifest) -> Vec<String> {
    let shards = manifest.features.as_ref().map_or(0, |entry| entry.shards);
    // A wrong manifest could declare so many shards that the list would never end.
    let shards = shards.min(manifest.files.len() as u64 + 1);
    (0..shards)
        .map(|shard| name_of(&features::shard_path(Path::new(""), shard), Path::new("")))
        .collect()
}

/// Every file that the manifest's parts need.
fn needed(manifest: &Manifest) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = manifest.relations.iter().flat_map(of_relation).collect();
    names.extend(of_features(manifest));
    let tables = [
        (IDS, true),
        (LABELS, manifest.labels.is_some()),
        (CLASSES, manifest.labels.is_some()),
        (SPLITS, !manifest.splits.is_empty()),
        (GRAPHS, manifest.graphs.is_some()),
    ];
    names.extend(tables.into_iter().filter(|(_, there)| *there).map(|(name, _)| name.to_string()));
    names
}

/// Verifies the list in both directions and every checksum; returns the sound files.
pub(super) fn check(
    dataset: &DatasetDir,
    observe: &(dyn Fn(&str, u64, u64) + Sync),
    findings: &mut Vec<Finding>,
) -> Sound {
    let (root, manifest) = (dataset.path(), dataset.manifest());
    let mut tell = |name: &str, message: &str| {
        findings.push(Finding { path: root.join(name), message: message.into() });
    };
    let needed = needed(manifest);
    for name in needed.iter().filter(|name| !manifest.files.contains_key(*name)) {
        tell(name, "needed by the dataset, but not listed in the manifest's files");
    }
    // Names that no part needs are never opened: they could point outside the directory.
    let (listed, foreign): (Vec<_>, Vec<_>) =
        manifest.files.iter().partition(|(name, _)| needed.contains(*name));
    for (name, _) in foreign {
        tell(MANIFEST, &format!("file {name:?} is listed, but belongs to no part of the dataset"));
    }
    let mut found = BTreeSet::new();
    if let Err(error) = walk(root, root, &mut found) {
        findings.push(error.into());
    }
    for name in found.iter().filter(|name| *name != MANIFEST && !manifest.files.contains_key(*name))
    {
        findings
            .push(Finding { path: root.join(name), message: "not listed in the manifest".into() });
    }

    let total = listed.iter().fold(0u64, |sum, (_, entry)| sum.saturating_add(entry.bytes));
    let progress = Progress::new("checksums", total, observe);
    let verify = |(name, expected): &(&String, &checksum::FileEntry)| -> Result<()> {
        let path = root.join(name);
        let found =
            checksum::of_file_observed(&path, skipped(name), &mut |bytes| progress.add(bytes))?;
        if found.bytes != expected.bytes {
            return Err(FormatError::invalid(path, "length in bytes", found.bytes, expected.bytes));
        }
        if found.xxh3 != expected.xxh3 {
            return Err(FormatError::invalid(path, "checksum", found.xxh3, &expected.xxh3));
        }
        Ok(())
    };
    let results: Vec<_> = listed.par_iter().map(verify).collect();
    let mut sound = BTreeSet::new();
    for ((name, _), result) in listed.into_iter().zip(results) {
        match result {
            Ok(()) => _ = sound.insert(name.clone()),
            Err(error) => findings.push(error.into()),
        }
    }
    Sound(sound)
}

/// The names of all files; links to directories are not followed.
fn walk(root: &Path, directory: &Path, names: &mut BTreeSet<String>) -> Result<()> {
    for entry in fs::read_dir(directory).map_err(FormatError::io("read", directory))? {
        let entry = entry.map_err(FormatError::io("read", directory))?;
        let path = entry.path();
        if entry.file_type().map_err(FormatError::io("read", &path))?.is_dir() {
            walk(root, &path, names)?;
        } else {
            names.insert(name_of(&path, root));
        }
    }
    Ok(())
}
