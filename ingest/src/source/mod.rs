//! Raw file formats, one file per format. This module only parses; relabelling, sorting and writing
//! are done elsewhere.

pub mod adjacency;
pub mod communities;
pub mod dgcnn;
pub mod edge_input;
pub mod edge_list;
pub mod edge_table;
pub mod edges;
pub mod fields;
pub mod graphsage;
pub mod matrix_market;
pub mod node_link;
pub mod npy;
pub mod npz;
pub mod parquet_file;
pub mod plausible;
pub mod table;
pub mod text;
pub mod toml_file;
pub mod tu;
pub mod zip;
