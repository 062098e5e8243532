//! Graphs: a dataset directory opened and mapped, what can be counted on it, and a builder for
//! small graphs in memory. Raw files are for `ignn-ingest`, computations on graphs for the other
//! modules.
//!
//! | file | what |
//! | --- | --- |
//! | here | [`Graph`]: an open dataset |
//! | `relation` | [`Relation`]: one mapped adjacency, also as a sparse matrix of `sprs` |
//! | `builder` | [`GraphBuilder`]: a graph from edges, features and labels in memory |
//! | [`statistics`] | degrees, components, symmetry, cycles |
//! | [`self_loops`] | self-loops of the user's, apart from those that renormalisation adds |

mod builder;
mod relation;
pub mod self_loops;
pub mod statistics;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use ignn_format::csr::CsrFile;
use ignn_format::storage::TemporaryDirectory;
use ignn_format::{DatasetDir, Result};

pub use builder::{Edges, GraphBuilder};
pub use ignn_format::Manifest;
pub use ignn_format::graphs::Graphs;
pub use ignn_format::ids::{IdRef, Ids};
pub use ignn_format::labels::{LabelKind, Labels};
pub use ignn_format::manifest::{Normalisation, RelationEntry, Scale};
pub use ignn_format::splits::Split;
pub use relation::{One, Relation};
pub use statistics::{Rows, Statistics};

/// An open dataset: one graph with one or several relations, or a collection of many graphs.
///
/// A clone is cheap and shares everything. Opening reads the manifest and looks at the lengths of
/// all files; relations are mapped by the first call that needs them, and other parts are read
/// whenever they are asked for.
///
/// Damage is an error that names the file, never a panic. Files of up to 16 MiB are compared with
/// their checksums when they are used, larger ones by [`Graph::verify`]. Whatever bytes a relation
/// has, its entries are in range, sorted and finite, or it is refused. A dataset must not be
/// changed while it is open (see [`ignn_format::mapped`]); [`Graph::check_unchanged`] notices it.
///
/// ```
/// use ignn::graph::{Graph, GraphBuilder};
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("triangle.ignn");
/// # GraphBuilder::new(3).edges([(0, 1), (1, 2), (2, 0)]).write(&path)?;
/// let graph = Graph::open(&path)?;
/// assert_eq!((graph.nodes(), graph.relations()?.len()), (3, 1));
///
/// let error = Graph::open("no such place").unwrap_err();
/// assert_eq!(error.to_string(), "no such place: not an ignn dataset: no such directory");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Graph {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: DatasetDir,
    relations: OnceLock<Vec<Relation>>,
    /// Where the graph is, if it is removed together with the last clone.
    _temporary: Option<TemporaryDirectory>,
}

impl Graph {
    /// Opens a dataset directory, as `ignn ingest`, `ignn generate` and [`GraphBuilder`] make it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_in(path.as_ref(), None)
    }

    /// Opens a dataset in a temporary directory, which is removed with the last clone of the graph.
    pub fn open_temporary(path: impl AsRef<Path>, directory: TemporaryDirectory) -> Result<Self> {
        Self::open_in(path.as_ref(), Some(directory))
    }

    fn open_in(path: &Path, temporary: Option<TemporaryDirectory>) -> Result<Self> {
        let (directory, relations) = (DatasetDir::open(path)?, OnceLock::new());
        directory.check_lengths()?;
        Ok(Self { inner: Arc::new(Inner { directory, relations, _temporary: temporary }) })
    }

    /// Compares all files with their checksums, in one pass over every byte. What is in them is for
    /// `ignn check`, or [`ignn_format::check`].
    pub fn verify(&self) -> Result<()> {
        self.directory().verify()
    }

    /// Names of the files that were used without a comparison with their checksums; none after
    /// [`Graph::verify`].
    pub fn not_verified(&self) -> Vec<String> {
        self.directory().not_verified()
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.directory().path()
    }

    /// The directory with its readers.
    pub fn directory(&self) -> &DatasetDir {
        &self.inner.directory
    }

    /// What the dataset contains, how it was made, and the checksums of its files.
    pub fn manifest(&self) -> &Manifest {
        self.directory().manifest()
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.manifest().nodes as usize
    }

    /// Every relation, in the manifest's order; the first call maps them.
    pub fn relations(&self) -> Result<&[Relation]> {
        if let Some(relations) = self.inner.relations.get() {
            return Ok(relations);
        }
        let open =
            |entry: &RelationEntry| self.directory().relation(&entry.name).map(Relation::from);
        let relations = self.manifest().relations.iter().map(open).collect::<Result<_>>()?;
        Ok(self.inner.relations.get_or_init(|| relations))
    }

    /// Refuses a graph if somebody has written to one of its mapped files: whatever was computed
    /// with it may be wrong. Training and prediction ask for it before they return a result.
    pub fn check_unchanged(&self) -> Result<()> {
        let mapped = self.inner.relations.get();
        mapped.into_iter().flatten().try_for_each(|relation| relation.check_unchanged())
    }

    /// Reads the labels of the nodes.
    pub fn labels(&self) -> Result<Labels> {
        self.directory().labels()
    }

    /// Reads the splits of the nodes; empty where there are none.
    pub fn splits(&self) -> Result<Vec<Split>> {
        self.directory().splits()
    }

    /// Reads the original ids of the nodes.
    ///
    /// ```
    /// use ignn::graph::{GraphBuilder, IdRef, Ids};
    ///
    /// let ids = Ids::from_strings(["ada", "grace"]);
    /// let graph = GraphBuilder::new(2).edges([(0, 1)]).ids(ids).build()?;
    /// assert_eq!(graph.ids()?.get(1), IdRef::String("grace"));
    /// # Ok::<(), ignn::FormatError>(())
    /// ```
    pub fn ids(&self) -> Result<Ids> {
        self.directory().ids()
    }

    /// Reads the graphs of a collection: their nodes, labels and splits; `None` where the dataset
    /// is a single graph.
    pub fn collection(&self) -> Result<Option<Graphs>> {
        self.directory().graphs()
    }
}

impl From<&Graph> for Graph {
    fn from(graph: &Graph) -> Self {
        graph.clone()
    }
}

/// The rows of a mapped direction as plain slices.
pub fn rows(direction: &CsrFile) -> Rows<'_> {
    Rows { offsets: direction.offsets(), neighbours: direction.neighbours() }
}
