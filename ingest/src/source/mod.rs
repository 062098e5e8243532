//! Raw forms: one file a form. They parse; they do not relabel, sort or write.

pub mod dgcnn;
pub mod fields;
pub mod graphsage;
pub mod node_link;
pub mod npy_whole;
pub mod text;
pub mod tu;
