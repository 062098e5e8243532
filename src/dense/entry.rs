//! What a matrix holds: floats, or short ones where only their size and direction count.
//! Storage only; arithmetic is always in f32.

use std::fmt::Debug;

use bytemuck::{Pod, Zeroable};
use half::f16;

/// Entries in a line.
pub const LINE: usize = 16;

/// A cache line of floats; its alignment is the matrix's.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Line(pub [f32; LINE]);

/// Half a cache line: 16 short floats.
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct HalfLine(pub [f16; LINE]);

/// What a matrix holds.
pub trait Entry: Pod + Send + Sync + Debug {
    /// 16 of them.
    type Line: Pod + Send + Sync + Debug;
}

impl Entry for f32 {
    type Line = Line;
}

impl Entry for f16 {
    type Line = HalfLine;
}
