//! The bytes of an ignn dataset directory: writers and readers side by side. The package knows
//! neither raw files (that is `ignn-ingest`) nor what a graph is used for (that is `ignn`).
//!
//! The layout is specified in this package's `README.md`.
//!
//! ```
//! use ignn_format::DatasetDir;
//!
//! let dataset = DatasetDir::open("tests/golden/v1/graphs")?;
//! assert_eq!(dataset.manifest().nodes, 6);
//! // Edges into node 1, from the mapped file; renormalisation added the edge from itself.
//! let edges = dataset.relation("edges")?;
//! assert_eq!(edges.incoming.row(1), [0, 1, 2]);
//! # Ok::<(), ignn_format::FormatError>(())
//! ```
//!
//! Modules have numbers, and a module uses only modules with lower numbers. A test of the workspace
//! (`tests/architecture.rs`) compares this table with the sources.
//!
//! | module | number | what |
//! | --- | --- | --- |
//! | [`encoding`] | 0 | how the columns of a node table became features |
//! | [`error`] | 0 | the errors of this package |
//! | [`nearest`] | 0 | the known word closest to a misspelt one |
//! | [`random`] | 0 | random numbers by position, for ingest and the engine |
//! | [`guarded`] | 1 | the Parquet library on damaged bytes: a panic becomes an error |
//! | [`names`] | 1 | names that relations and splits may have; unique ones |
//! | [`regular`] | 1 | opens regular files; reads small ones up to a limit |
//! | [`checksum`] | 2 | XXH3 of files; size and checksum of a written file |
//! | [`storage`] | 2 | everything that is written: drafts, locks, syncs, what may be replaced |
//! | [`header`] | 3 | the 64 bytes at the start of an array file |
//! | `table` | 3 | Parquet files with known columns |
//! | `array` | 4 | writes array files |
//! | [`features`] | 4 | node features, dense or sparse, in shards |
//! | [`ids`] | 4 | the original ids of the nodes |
//! | [`labels`] | 4 | labels of the nodes |
//! | [`splits`] | 4 | train, validation and test sets |
//! | [`mapped`] | 5 | array files mapped into memory; the only place that calls mmap |
//! | [`graphs`] | 5 | the graphs of a dataset of many graphs |
//! | [`csr`] | 6 | one direction of a relation |
//! | [`manifest`] | 6 | `manifest.json` |
//! | [`dataset`] | 7 | opens a dataset directory |
//! | [`check`] | 8 | verifies every byte of a dataset directory |

#[cfg(target_endian = "big")]
compile_error!(
    "dataset files are little-endian and mapped as they are: ignn needs a little-endian machine"
);
#[cfg(not(target_pointer_width = "64"))]
compile_error!("dataset files are mapped whole: ignn needs a 64-bit machine");

pub mod array;
pub mod check;
pub mod checksum;
pub mod csr;
pub mod dataset;
pub mod encoding;
pub mod error;
pub mod features;
pub mod graphs;
pub mod guarded;
pub mod header;
pub mod ids;
pub mod labels;
pub mod manifest;
pub mod mapped;
pub mod names;
pub mod nearest;
pub mod random;
pub mod regular;
pub mod splits;
pub mod storage;
mod table;

pub use dataset::{DatasetDir, Relation};
pub use error::{FormatError, Result};
pub use manifest::Manifest;
