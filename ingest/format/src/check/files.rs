//! Compares the files of a dataset with the manifest's list: existence, size and checksum; nothing
//! may be missing, and nothing may be extra.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::check::{Finding, Progress};
use crate::checksum::FileEntry;
use crate::dataset::{self, DatasetDir};
use crate::error::{FormatError, Result};
use crate::manifest::MANIFEST;

/// The intact files: their size and checksum are right.
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
    let needed = dataset::needed(manifest);
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
    if let Err(error) = walk(root, &mut found) {
        findings.push(error.into());
    }
    // A name that is not UTF-8 is in no list.
    let is_known = |path: &Path| {
        let name = path.strip_prefix(root).ok().and_then(Path::to_str);
        name.is_some_and(|name| name == MANIFEST || manifest.files.contains_key(name))
    };
    for path in found.into_iter().filter(|path| !is_known(path)) {
        findings.push(Finding { path, message: "not listed in the manifest".into() });
    }

    let total = listed.iter().fold(0u64, |sum, (_, entry)| sum.saturating_add(entry.bytes));
    let progress = Progress::new("checksums", total, observe);
    let verify = |(name, expected): &(&String, &FileEntry)| -> Result<()> {
        dataset.verify_checksum(name, expected, &mut |bytes| progress.add(bytes))
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

/// The paths of all files; links to directories are not followed.
fn walk(directory: &Path, paths: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory).map_err(FormatError::io("read", directory))? {
        let entry = entry.map_err(FormatError::io("read", directory))?;
        let path = entry.path();
        if entry.file_type().map_err(FormatError::io("read", &path))?.is_dir() {
            walk(&path, paths)?;
        } else {
            paths.insert(path);
        }
    }
    Ok(())
}
