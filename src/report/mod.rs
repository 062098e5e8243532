//! Formats results for people and for other programs: quantities, readable text, text tables,
//! histograms, tables in files, and HTML pages of runs and of the paper's experiments. It computes
//! nothing and opens no dataset.

pub mod crossvals;
pub mod histogram;
pub mod page;
pub mod predictions;
pub mod quantity;
pub mod readable;
pub mod runs;
pub mod sheet;
pub mod study;
pub mod table;
