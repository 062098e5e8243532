//! The bytes of an ignn dataset directory: writers and readers side by side.
//! It does not know raw files (that is `ignn-ingest`) nor what a graph is for (that is `ignn`).
//!
//! The layout is specified in this package's `README.md`.

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
pub mod error;
pub mod features;
pub mod graphs;
pub mod header;
pub mod ids;
pub mod labels;
pub mod manifest;
pub mod mapped;
pub mod nearest;
pub mod splits;
pub mod staging;
mod table;

pub use dataset::{DatasetDir, Relation};
pub use error::{FormatError, Result};
pub use manifest::Manifest;
