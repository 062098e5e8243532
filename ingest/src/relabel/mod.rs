//! From the ids in the files to node numbers `0 .. n`, rising with the id: three ways, by what fits in memory.
//!
//! | way | ids | memory |
//! | --- | --- | --- |
//! | [`bitmap`] | integers below a limit that depends on the memory | a bit an id |
//! | [`intern`] | any, while their table fits | some tens of bytes a node |
//! | [`external`] | any | a bucket at a time, through the disk |
//!
//! Each reads the files once and fails over to the next; all three give the same numbers.

pub mod bitmap;
pub mod external;
pub mod index;
pub mod intern;
