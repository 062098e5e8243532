//! A dataset directory opened for reading: the manifest, and each part on request. Parts are
//! checked as far as that is cheap; [`crate::check`] verifies everything.

use std::path::{Path, PathBuf};

use crate::csr::CsrFile;
use crate::error::{FormatError, Result};
use crate::features::{self, FeatureKind, FeaturesEntry, SparseRows};
use crate::graphs::{self, Graphs};
use crate::ids::{self, Ids};
use crate::labels::{self, Labels};
use crate::manifest::{Manifest, RelationEntry, Scale};
use crate::mapped::MappedArray;
use crate::splits::{self, Split};

/// An opened dataset directory.
#[derive(Clone, Debug)]
pub struct DatasetDir {
    path: PathBuf,
    manifest: Manifest,
}

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

/// `relations/<name>` inside a dataset.
pub fn relation_path(dataset: &Path, name: &str) -> PathBuf {
    dataset.join("relations").join(name)
}

impl DatasetDir {
    /// Reads the manifest; its files are opened on request.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        Ok(Self { manifest: Manifest::read(&path)?, path })
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

    /// Maps a relation and checks headers, lengths and offsets.
    pub fn relation(&self, name: &str) -> Result<Relation> {
        let entry = self.manifest.relation(name).cloned().ok_or_else(|| {
            let known: Vec<_> = self.manifest.relations.iter().map(|r| r.name.as_str()).collect();
            self.missing(&format!("relation {name:?}"), &format!(" (it has: {})", known.join(", ")))
        })?;
        let directory = relation_path(&self.path, name);
        let nodes = self.manifest.nodes;
        let open =
            |direction| CsrFile::open(&directory, direction, nodes, entry.nonzeros, entry.weighted);
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
        Ok(Relation { entry, incoming, outgoing, scale })
    }

    /// The manifest entry of the features, or an error that says how to add features.
    pub fn features(&self) -> Result<&FeaturesEntry> {
        self.manifest
            .features
            .as_ref()
            .ok_or_else(|| self.missing("features", ": ingest with --features FILE"))
    }

    /// Reads dense features into rows of `stride` floats.
    pub fn read_dense(&self, first: u64, out: &mut [f32], stride: usize) -> Result<()> {
        let entry = self.features()?;
        if entry.kind != FeatureKind::Dense {
            return Err(self.missing("dense features", " (its features are sparse)"));
        }
        features::read_dense(&self.path, entry, first, out, stride)
    }

    /// Reads sparse features.
    pub fn read_sparse(&self) -> Result<SparseRows> {
        let entry = self.features()?;
        if entry.kind != FeatureKind::Sparse {
            return Err(self.missing("sparse features", " (its features are dense)"));
        }
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
        let entry = entry
            .ok_or_else(|| self.missing("labels", ": ingest with --labels or --communities"))?;
        labels::read(&self.path, entry, self.manifest.nodes)
    }

    /// Splits of the nodes; empty if there are none.
    pub fn splits(&self) -> Result<Vec<Split>> {
        if self.manifest.splits.is_empty() {
            return Ok(Vec::new());
        }
        splits::read(&self.path, &self.manifest.splits, self.manifest.nodes)
    }

    /// Original ids.
    pub fn ids(&self) -> Result<Ids> {
        ids::read(&self.path, &self.manifest.ids, self.manifest.nodes)
    }

    /// The graphs of a dataset of many graphs.
    pub fn graphs(&self) -> Result<Option<Graphs>> {
        let entry = self.manifest.graphs.as_ref();
        entry.map(|entry| graphs::read(&self.path, entry, self.manifest.nodes)).transpose()
    }

    fn missing(&self, what: &str, hint: &str) -> FormatError {
        FormatError::Missing { path: self.path.clone(), what: what.into(), hint: hint.into() }
    }
}
