//! A dataset directory opened for reading: the manifest, and each part on request.
//!
//! A part can only be read if its files are listed in the manifest and have the listed lengths.
//! Files of at most [`SMALL_FILE`] bytes must also have the listed checksums. Larger files are only
//! hashed by [`DatasetDir::verify`], because that takes a pass over all bytes. The content is then
//! checked as far as computations rely on it; [`crate::check`] verifies everything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use crate::checksum::{self, FileEntry};
use crate::csr::{self, CsrFile};
use crate::error::{FormatError, Result};
use crate::features::{self, FeatureKind, FeaturesEntry, SparseRows};
use crate::graphs::{self, GRAPHS, Graphs};
use crate::header::HEADER_BYTES;
use crate::ids::{self, IDS, Ids};
use crate::labels::{self, CLASSES, LABELS, Labels};
use crate::manifest::{self, FORMAT, MANIFEST, Manifest, RelationEntry, Scale};
use crate::mapped::{MappedArray, Source};
use crate::regular;
use crate::splits::{self, SPLITS, Split};
use crate::storage::{self, Kind};

/// Files up to this length are compared with their checksums whenever they are used.
pub const SMALL_FILE: u64 = 16 << 20;

/// Datasets, of any version: a manifest, and the files that it names.
pub static DATASET: Kind = Kind { check: check_replaceable };

fn check_replaceable(directory: &Path) -> Result<()> {
    // Not parsed as a manifest, so that datasets of another version, or with a damaged manifest,
    // can be replaced as well, as long as their files are listed.
    let path = directory.join(MANIFEST);
    let is_link = path.is_symlink();
    let bytes = if is_link { None } else { regular::read(&path, manifest::MAX_BYTES).ok() };
    let bytes = bytes.unwrap_or_default();
    let manifest: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let Some(files) = manifest["files"].as_object().filter(|_| manifest["format"] == FORMAT) else {
        return Err(storage::not_replaceable(directory, "a dataset directory"));
    };
    let mut own = BTreeSet::from([MANIFEST.to_string()]);
    for file in files.keys() {
        own.insert(file.clone());
        own.extend(file.match_indices('/').map(|(at, _)| file[..=at].to_string()));
    }
    storage::check_contents(directory, "a dataset", &|path| own.contains(path))
}

/// An opened dataset directory.
#[derive(Clone, Debug)]
pub struct DatasetDir {
    path: PathBuf,
    manifest: Manifest,
    /// The files that were used since the directory was opened, and whether their checksums were
    /// found right.
    used: Arc<Mutex<BTreeMap<String, bool>>>,
}

/// Scales that a thread checks at once.
const SCALES_AT_ONCE: usize = 1 << 14;

type OpenCsr = fn(&Path, &str, u64, u64, bool) -> Result<CsrFile>;

/// The mapped adjacency of one relation.
#[derive(Debug)]
pub struct Relation {
    /// Its entry in the manifest.
    pub entry: RelationEntry,
    /// Row `i`: sources of the edges into node `i`.
    pub incoming: CsrFile,
    /// Row `j`: targets of the edges out of node `j`; absent if the stored values are symmetric.
    pub outgoing: Option<CsrFile>,
    /// The scale vector, one value per node.
    pub scale: Option<MappedArray<f32>>,
}

impl Relation {
    /// Refuses files that somebody has written to since they were mapped: whatever was computed
    /// with them may be wrong.
    pub fn check_unchanged(&self) -> Result<()> {
        self.sources().try_for_each(Source::check_unchanged)
    }

    /// The mapped files.
    fn sources(&self) -> impl Iterator<Item = &Source> {
        let outgoing = self.outgoing.iter().flat_map(CsrFile::sources);
        let scale = self.scale.as_ref().map(MappedArray::source);
        self.incoming.sources().chain(outgoing).chain(scale)
    }
}

/// `relations/<name>` inside a dataset.
pub fn relation_path(dataset: &Path, name: &str) -> PathBuf {
    dataset.join("relations").join(name)
}

impl DatasetDir {
    /// Reads the manifest; its files are opened on request.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        Ok(Self { manifest: Manifest::read(&path)?, path, used: Arc::default() })
    }

    /// Checks that all files of the dataset are there and have the listed lengths; nothing is read.
    pub fn check_lengths(&self) -> Result<()> {
        needed(&self.manifest).iter().try_for_each(|name| self.check_length(name).map(drop))
    }

    /// Compares all files with their checksums: a pass over every byte, in parallel.
    pub fn verify(&self) -> Result<()> {
        self.verify_up_to(u64::MAX, needed(&self.manifest))
    }

    /// Checks the files of a part before it is read; small ones with their checksums.
    fn expect(&self, names: impl IntoIterator<Item = impl Into<String>>) -> Result<()> {
        self.verify_up_to(SMALL_FILE, names.into_iter().map(Into::into))
    }

    /// Checks files, and the checksums of those of at most `most` bytes that are not verified yet.
    fn verify_up_to(&self, most: u64, names: impl IntoIterator<Item = String>) -> Result<()> {
        let mut open = Vec::new();
        for name in names {
            let entry = self.check_length(&name)?;
            let is_verified = *self.used().entry(name.clone()).or_default();
            if entry.bytes <= most && !is_verified {
                open.push((name, entry));
            }
        }
        let verify = |(name, entry): &(String, &FileEntry)| {
            self.verify_checksum(name, entry, &mut |_| {}).map_err(|error| self.damaged(error))
        };
        // All results, then the first error by position: the message does not depend on timing.
        let results: Vec<Result<()>> = open.par_iter().map(verify).collect();
        results.into_iter().collect::<Result<()>>()?;
        self.used().extend(open.into_iter().map(|(name, _)| (name, true)));
        Ok(())
    }

    fn used(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The files that were used without a comparison with their checksums, because they are larger
    /// than [`SMALL_FILE`] and [`DatasetDir::verify`] was not called.
    pub fn not_verified(&self) -> Vec<String> {
        let used = self.used();
        used.iter().filter(|(_, verified)| !**verified).map(|(name, _)| name.clone()).collect()
    }

    /// The entry of a file that is there and has the listed length.
    fn check_length(&self, name: &str) -> Result<&FileEntry> {
        let path = self.path.join(name);
        let Some(entry) = self.manifest.files.get(name) else {
            let what = "not listed in the manifest".into();
            return Err(FormatError::Damaged { path, what, dataset: self.path.clone() });
        };
        let metadata = std::fs::metadata(&path).map_err(FormatError::io("open", &path))?;
        let found = match metadata.is_file() {
            true if metadata.len() == entry.bytes => return Ok(entry),
            true => format!("{} bytes", metadata.len()),
            false => "a directory, pipe or device".into(),
        };
        let what = format!("length (found {found}, expected {} bytes)", entry.bytes);
        Err(FormatError::Damaged { path, what, dataset: self.path.clone() })
    }

    /// Compares a file with its length and checksum; `observe` receives the bytes of each piece.
    pub(crate) fn verify_checksum(
        &self,
        name: &str,
        expected: &FileEntry,
        observe: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let path = self.path.join(name);
        let found = checksum::of_file_observed(&path, skipped(name), observe)?;
        if found.bytes != expected.bytes {
            return Err(FormatError::invalid(path, "length in bytes", found.bytes, expected.bytes));
        }
        if found.xxh3 != expected.xxh3 {
            return Err(FormatError::invalid(path, "checksum", found.xxh3, &expected.xxh3));
        }
        Ok(())
    }

    /// The same error with the advice to check the dataset.
    fn damaged(&self, error: FormatError) -> FormatError {
        match error {
            FormatError::Invalid { path, what, found, expected } => {
                let what = format!("{what} (found {found}, expected {expected})");
                FormatError::Damaged { path, what, dataset: self.path.clone() }
            }
            other => other,
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u64 {
        self.manifest.nodes
    }

    /// Maps a relation and checks its files and everything that computations rely on: the
    /// invariants of [`CsrFile`], and that the scale is finite and not negative.
    pub fn relation(&self, name: &str) -> Result<Relation> {
        if let Some(entry) = self.manifest.relation(name) {
            self.expect(of_relation(entry))?;
        }
        let relation = self.map_relation(name, CsrFile::open)?;
        let wrong = |scale: &f32| !csr::is_sound_value(*scale);
        let in_chunk = |(chunk, scales): (usize, &[f32])| {
            Some(chunk * SCALES_AT_ONCE + scales.iter().position(wrong)?)
        };
        if let Some(scale) = &relation.scale
            && let Some(node) =
                scale.par_chunks(SCALES_AT_ONCE).enumerate().find_map_first(in_chunk)
        {
            let path = relation_path(&self.path, name).join("scale.f32");
            let (found, expected) = (scale[node], "a finite number that is not negative");
            let what = format!("scale of node {node} (found {found}, expected {expected})");
            return Err(FormatError::Damaged { path, what, dataset: self.path.clone() });
        }
        Ok(relation)
    }

    /// Maps a relation without checking its entries, unless `open` does.
    pub(crate) fn map_relation(&self, name: &str, open: OpenCsr) -> Result<Relation> {
        let entry = self.manifest.relation(name).cloned().ok_or_else(|| {
            let known: Vec<_> = self.manifest.relations.iter().map(|r| r.name.as_str()).collect();
            self.missing(&format!("relation {name:?}"), &format!(" (it has: {})", known.join(", ")))
        })?;
        let directory = relation_path(&self.path, name);
        let nodes = self.manifest.nodes;
        let open = |direction| open(&directory, direction, nodes, entry.nonzeros, entry.weighted);
        let incoming = open("in")?;
        let outgoing = if entry.symmetric { None } else { Some(open("out")?) };
        let scale = if entry.scale == Scale::None {
            None
        } else {
            let path = directory.join("scale.f32");
            let scale = MappedArray::<f32>::open(&path, "scale")?;
            if scale.len() as u64 != nodes {
                return Err(FormatError::invalid(path, "number of scales", scale.len(), nodes));
            }
            Some(scale)
        };
        let relation = Relation { entry, incoming, outgoing, scale };
        for source in relation.sources() {
            let name = source.path().strip_prefix(&self.path).ok().and_then(Path::to_str);
            if let Some(entry) = name.and_then(|name| self.manifest.files.get(name)) {
                source.expect_checksum(&entry.xxh3);
            }
        }
        Ok(relation)
    }

    /// The manifest entry of the features, or an error that says how to add features.
    pub fn features(&self) -> Result<&FeaturesEntry> {
        self.manifest
            .features
            .as_ref()
            .ok_or_else(|| self.missing("features", ": ingest with --features FILE"))
    }

    /// Checks that the features, if there are any, have the shape that the manifest says. Dense
    /// ones are not read for that; sparse ones are, but not kept.
    pub fn check_features(&self) -> Result<()> {
        let Some(entry) = &self.manifest.features else { return Ok(()) };
        self.expect(of_features(&self.manifest))?;
        features::check_shape(&self.path, entry, self.manifest.nodes)
    }

    /// Reads dense features into rows of `stride` floats.
    pub fn read_dense(&self, first: u64, out: &mut [f32], stride: usize) -> Result<()> {
        let entry = self.features()?;
        if entry.kind != FeatureKind::Dense {
            return Err(self.missing("dense features", " (its features are sparse)"));
        }
        self.expect(of_features(&self.manifest))?;
        features::read_dense(&self.path, entry, first, out, stride)
    }

    /// Reads sparse features.
    pub fn read_sparse(&self) -> Result<SparseRows> {
        let entry = self.features()?;
        if entry.kind != FeatureKind::Sparse {
            return Err(self.missing("sparse features", " (its features are dense)"));
        }
        self.expect(of_features(&self.manifest))?;
        let rows = features::read_sparse(&self.path, entry)?;
        if rows.rows() as u64 != self.manifest.nodes {
            let path = self.path.join(features::FEATURES);
            return Err(FormatError::invalid(
                path,
                "number of rows",
                rows.rows(),
                self.manifest.nodes,
            ));
        }
        Ok(rows)
    }

    /// Node labels.
    pub fn labels(&self) -> Result<Labels> {
        let entry = self.manifest.labels.as_ref();
        let entry = entry.ok_or_else(|| {
            self.missing("labels", ": ingest with --label, --regress, --labels or --communities")
        })?;
        self.expect([LABELS, CLASSES])?;
        labels::read(&self.path, entry, self.manifest.nodes)
    }

    /// Splits of the nodes; empty if there are none.
    pub fn splits(&self) -> Result<Vec<Split>> {
        if self.manifest.splits.is_empty() {
            return Ok(Vec::new());
        }
        self.expect([SPLITS])?;
        splits::read(&self.path, &self.manifest.splits, self.manifest.nodes)
    }

    /// Original ids.
    pub fn ids(&self) -> Result<Ids> {
        self.expect([IDS])?;
        ids::read(&self.path, &self.manifest.ids, self.manifest.nodes)
    }

    /// The graphs of a dataset of many graphs.
    pub fn graphs(&self) -> Result<Option<Graphs>> {
        let Some(entry) = &self.manifest.graphs else { return Ok(None) };
        self.expect([GRAPHS])?;
        graphs::read(&self.path, entry, self.manifest.nodes).map(Some)
    }

    fn missing(&self, what: &str, hint: &str) -> FormatError {
        FormatError::Missing { path: self.path.clone(), what: what.into(), hint: hint.into() }
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
pub(crate) fn of_relation(entry: &RelationEntry) -> Vec<String> {
    let directions: &[&str] = if entry.symmetric { &["in"] } else { &["in", "out"] };
    let arrays = if entry.weighted { 3 } else { 2 };
    let mut files = Vec::new();
    let root = Path::new("");
    let directory = relation_path(root, &entry.name);
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
pub(crate) fn of_features(manifest: &Manifest) -> Vec<String> {
    let shards = manifest.features.as_ref().map_or(0, |entry| entry.shards);
    // A wrong manifest could declare so many shards that the list would never end.
    let shards = shards.min(manifest.files.len() as u64 + 1);
    (0..shards)
        .map(|shard| name_of(&features::shard_path(Path::new(""), shard), Path::new("")))
        .collect()
}

/// Every file that the manifest's parts need.
pub(crate) fn needed(manifest: &Manifest) -> BTreeSet<String> {
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
