//! Results for people and for other programs: quantities, readable text, text tables, histograms,
//! tables in files, HTML pages of runs and of the paper's experiments. It formats what others
//! computed and opens no dataset.

pub mod histogram;
pub mod page;
pub mod predictions;
pub mod quantity;
pub mod readable;
pub mod runs;
pub mod sheet;
pub mod study;
pub mod table;
