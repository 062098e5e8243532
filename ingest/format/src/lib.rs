//! The bytes of an ignn dataset directory: writers and readers side by side.
//! It does not know raw files (that is `ignn-ingest`) nor what a graph is for (that is `ignn`).
//!
//! The layout is specified in this package's `README.md`.

pub mod array;
pub mod checksum;
pub mod csr;
pub mod dataset;
pub mod error;
pub mod features;
pub mod graphs;
pub mod header;
pub mod ids;
pub mod labels;
pub mod manifest;
pub mod mapped;
pub mod splits;
pub mod staging;

pub use dataset::{DatasetDir, Relation};
pub use error::{FormatError, Result};
pub use manifest::Manifest;
