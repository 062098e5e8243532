//! Edges on their way from a source to an adjacency: spooled, partitioned, sorted, merged; in
//! memory or on disk.

pub mod map;
pub mod merge;
pub mod options;
pub mod partition;
pub mod sort;
pub mod spool;
pub mod store;
