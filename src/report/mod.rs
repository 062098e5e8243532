//! Numbers for people and for other programs: quantities, sheets, histograms, tables in files.
//! It formats what others counted; it computes nothing and knows no dataset.

pub mod histogram;
pub mod quantity;
pub mod sheet;
pub mod table;
