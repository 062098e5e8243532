//! Numbers for people and for other programs: quantities, sheets, histograms, tables in files,
//! observers of the trainer. It formats what others counted; it computes nothing and knows no
//! dataset.

pub mod histogram;
pub mod json_lines;
pub mod page;
pub mod quantity;
pub mod runs;
pub mod sheet;
pub mod study;
pub mod table;
pub mod tensorboard;
