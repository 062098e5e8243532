//! Run directories read back, and the page that shows them.
//! It reads what training wrote and lays it out; nothing is trained or solved here.

mod group;
mod page;
mod record;
mod tables;

pub use group::{Group, names};
pub use page::page;
pub use record::{CONFIG, DATASET, METRICS, RUN, RunRecord};
pub use tables::title;
