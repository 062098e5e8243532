//! Verifies every byte and every rule of a dataset, for `ignn check`. It only reports; it never
//! repairs or writes.
//!
//! | part | what is verified |
//! | --- | --- |
//! | files | size and checksum of each file; each belongs to a part; no other files |
//! | relations | rows strictly increasing and in range, values finite and not negative |
//! | relations | diagonal, symmetry, `out` the transpose of `in`, scale, no edge between two graphs |
//! | features | shape, finite values, sparse columns strictly increasing and in range, number of values |
//! | labels, splits, graphs | rows, classes and parts in range, counts, node ranges of graphs |
//! | ids | one per node, unique |
//!
//! The content of a part with a missing or damaged file is not checked any further.
//!
//! All files are read twice, once for their checksums. Symmetry and transposes are verified by a
//! binary search for every entry: O(nonzeros log degree) with random access. Ids are held and
//! sorted in memory (8 bytes per node for integers, 16 and the text for strings); everything else
//! needs little memory. The work runs in parallel on rayon's current pool; findings and their order
//! do not depend on the number of threads.

mod files;
mod relation;
mod tables;
mod tally;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dataset::DatasetDir;
use crate::error::FormatError;

/// A problem of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, or the directory.
    pub path: PathBuf,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.message)
    }
}

impl From<FormatError> for Finding {
    fn from(error: FormatError) -> Self {
        // Leave out the hint to run `ignn check`, which is for other commands.
        if let FormatError::Damaged { path, what, .. } = error {
            return Self { path, message: what };
        }
        let path = error.path().to_path_buf();
        let text = error.to_string();
        let message =
            text.strip_prefix(&format!("{}: ", path.display())).unwrap_or(&text).to_string();
        Self { path, message }
    }
}

/// Verifies a dataset whose manifest could be read; the result is empty if there are no problems.
///
/// `observe(what, done, total)` receives the progress of each phase in bytes, from any thread.
pub fn check(dataset: &DatasetDir, observe: &(dyn Fn(&str, u64, u64) + Sync)) -> Vec<Finding> {
    let mut findings = Vec::new();
    let sound = files::check(dataset, observe, &mut findings);
    tables::check(dataset, &sound, observe, &mut findings);
    let graphs = dataset.graphs().ok().flatten().filter(|_| sound.has("graphs.parquet"));
    for entry in &dataset.manifest().relations {
        relation::check(dataset, entry, &sound, graphs.as_ref(), observe, &mut findings);
    }
    findings
}

/// Bytes done of a phase.
struct Progress<'a> {
    what: String,
    done: AtomicU64,
    total: u64,
    observe: &'a (dyn Fn(&str, u64, u64) + Sync),
}

impl<'a> Progress<'a> {
    fn new(
        what: impl Into<String>,
        total: u64,
        observe: &'a (dyn Fn(&str, u64, u64) + Sync),
    ) -> Self {
        let what = what.into();
        observe(&what, 0, total);
        Self { what, done: AtomicU64::new(0), total, observe }
    }

    fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        (self.observe)(&self.what, done.min(self.total), self.total);
    }
}
