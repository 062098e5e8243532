//! From parsed edges to sorted rows: edges are spooled, partitioned, sorted and merged, in memory
//! or on disk.

pub mod map;
pub mod merge;
pub mod options;
pub mod partition;
pub mod sort;
pub mod spool;
pub mod store;
