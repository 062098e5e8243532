//! Numbers for people and for other programs: quantities, sheets, histograms, tables in files, observers of the trainer.
//! It formats what others counted; it computes nothing and knows no dataset.

pub mod histogram;
pub mod json_lines;
pub mod quantity;
pub mod sheet;
pub mod table;
pub mod tensorboard;
