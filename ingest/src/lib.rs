//! Raw graph files become an ignn dataset directory, in bounded memory.
//! It never touches the engine; it knows the format through `ignn-format` alone.

pub mod build;
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
pub mod random;
pub mod relabel;
pub mod source;
pub mod splits;
pub mod synthetic;

pub use context::{Context, Observer, Unit};
pub use error::{IngestError, Result};
