//! Raw forms: one file a form. They parse; they do not relabel, sort or write.

pub mod text;
