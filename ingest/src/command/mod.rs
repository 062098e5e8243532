//! The jobs of this package, one file per command: options in, a finished dataset directory out.

pub mod dgcnn;
pub mod edges;
pub mod generate;
pub mod graphsage;
pub mod node_data;
pub mod relations;
pub mod tu;
