//! The jobs of this package, one file a command: options in, a finished dataset directory out.

pub mod edges;
pub mod relations;
