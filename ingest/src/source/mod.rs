//! Raw forms: one file a form. They parse; they do not relabel, sort or write.

pub mod edge_list;
pub mod edges;
pub mod text;
