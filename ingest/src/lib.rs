//! Turns raw graph files into an ignn dataset directory, in bounded memory. The package does not
//! know the engine; it knows the format only through `ignn-format`.
//!
//! Modules have numbers, and a module uses only modules with lower numbers. A test of the workspace
//! (`tests/architecture.rs`) compares this table with the sources.
//!
//! | module | number | what |
//! | --- | --- | --- |
//! | [`error`] | 0 | the errors of this package |
//! | [`context`] | 0 | threads, memory, seed and observer of a job |
//! | [`pipeline`] | 0 | ordered work on several threads |
//! | [`node_set`] | 0 | a set of nodes, one bit per node |
//! | [`nodes`] | 1 | from an id to its node |
//! | [`content`] | 1 | the parts of a dataset, as sources and generators offer them |
//! | [`order`] | 1 | orders of the nodes: by degree, reverse Cuthill-McKee, clusters |
//! | [`edges`] | 1 | edges on their way to an adjacency: spool, partition, sort, merge |
//! | [`collection`] | 2 | a dataset small enough to be held in memory |
//! | [`metapath`] | 2 | products of bipartite lists |
//! | [`relation`] | 2 | from a spool of edges to the adjacency files of a relation |
//! | [`source`] | 3 | raw file formats: parsing, nothing else |
//! | [`builder`] | 3 | a dataset under construction |
//! | [`relabel`] | 4 | from the ids in the files to node numbers |
//! | [`labels`] | 4 | labels from tables and community files |
//! | [`splits`] | 4 | splits from tables, and drawn ones |
//! | [`features`] | 4 | features from arrays, matrices and tables |
//! | [`synthetic`] | 4 | generators of graphs |
//! | [`command`] | 5 | one file per command: options in, a finished dataset out |
//!
//! A job is a plain struct of options with a method `run`:
//!
//! ```
//! use ignn_ingest::{Context, command::edges::IngestEdges, context::Recorder};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let edges = dir.path().join("edges.txt");
//! std::fs::write(&edges, "7 9\n9 12\n")?;
//!
//! let observer = Recorder::default();
//! let context = Context { threads: 2, memory: 1 << 30, seed: 0, observer: &observer };
//! let made = IngestEdges::new(vec![edges], dir.path().join("graph.ignn")).run(&context)?;
//! assert_eq!(made.manifest.nodes, 3);
//! assert_eq!(made.counts.read, 2);
//! # Ok(())
//! # }
//! ```

pub mod builder;
pub mod collection;
pub mod command;
pub mod content;
pub mod context;
pub mod edges;
pub mod error;
pub mod features;
pub mod labels;
pub mod metapath;
pub mod node_set;
pub mod nodes;
pub mod order;
pub mod pipeline;
pub mod relabel;
pub mod relation;
pub mod source;
pub mod splits;
pub mod synthetic;

pub use context::{Context, Observer, Unit};
pub use error::{IngestError, Result};
