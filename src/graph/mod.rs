//! The dataset as the engine sees it: mapped views of its parts, and what can be counted on them.
//! It reads finished dataset directories; it neither writes them nor knows raw files.

pub mod footprint;
pub mod statistics;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use ignn_format::csr::CsrFile;
use ignn_format::manifest::{Normalisation, RelationEntry};
use ignn_format::{DatasetDir, Manifest, Relation, Result};

pub use footprint::Footprint;
pub use statistics::{Rows, Statistics};

/// An opened dataset.
#[derive(Clone, Debug)]
pub struct Dataset {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: DatasetDir,
    relations: OnceLock<Vec<Arc<Relation>>>,
}

impl Dataset {
    /// Reads the manifest; each part is opened when asked for.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let inner = Inner { directory: DatasetDir::open(path)?, relations: OnceLock::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The directory, for parts that are read whole (labels, splits, ids).
    pub fn directory(&self) -> &DatasetDir {
        &self.inner.directory
    }

    /// What the dataset says of itself.
    pub fn manifest(&self) -> &Manifest {
        self.inner.directory.manifest()
    }

    /// Every relation, in the manifest's order; the first call maps them.
    pub fn relations(&self) -> Result<&[Arc<Relation>]> {
        if let Some(relations) = self.inner.relations.get() {
            return Ok(relations);
        }
        let open = |entry: &RelationEntry| self.directory().relation(&entry.name).map(Arc::new);
        let relations = self.manifest().relations.iter().map(open).collect::<Result<_>>()?;
        Ok(self.inner.relations.get_or_init(|| relations))
    }
}

/// The rows of a mapped direction as plain slices.
pub fn rows(direction: &CsrFile) -> Rows<'_> {
    Rows { offsets: direction.offsets(), neighbours: direction.neighbours() }
}

/// The weight of the user's own self-loop behind a stored diagonal entry; `None` where there was
/// none.
///
/// Renormalisation adds 1 to every diagonal entry. Unweighted, the stored diagonal is therefore the
/// added one alone; weighted, what exceeds 1 is the user's (a loop lighter than f32 can tell from 1
/// is lost). Without renormalisation a stored diagonal entry is the user's as it stands.
pub fn own_loop(normalisation: Normalisation, value: Option<f32>) -> Option<f32> {
    match (normalisation, value) {
        (Normalisation::Renorm, None) => None,
        (Normalisation::Renorm, Some(value)) => (value > 1.0).then_some(value - 1.0),
        (_, value) => Some(value.unwrap_or(1.0)),
    }
}

/// How many of the user's own self-loops a relation holds; see [`own_loop`].
pub fn own_loops(relation: &Relation) -> u64 {
    let entry = &relation.entry;
    if entry.normalisation != Normalisation::Renorm {
        return entry.diagonal;
    }
    let Some(values) = relation.incoming.values() else { return 0 };
    let mut loops = 0;
    for node in 0..relation.incoming.rows() {
        let range = relation.incoming.range(node);
        if let Ok(at) = relation.incoming.row(node).binary_search(&(node as u32))
            && own_loop(entry.normalisation, Some(values[range.start + at])).is_some()
        {
            loops += 1;
        }
    }
    loops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renormalisation_hides_only_its_own_diagonal() {
        assert_eq!(own_loop(Normalisation::Renorm, None), None);
        assert_eq!(own_loop(Normalisation::Renorm, Some(1.0)), None);
        assert_eq!(own_loop(Normalisation::Renorm, Some(3.5)), Some(2.5));
        assert_eq!(own_loop(Normalisation::Row, None), Some(1.0));
        assert_eq!(own_loop(Normalisation::None, Some(0.25)), Some(0.25));
    }
}
