//! Edges on their way from a source to an adjacency: spooled, partitioned, sorted, merged; in memory or on disk.

pub mod spool;
