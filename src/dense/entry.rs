//! The entries of a matrix: f32, or 16-bit floats where a rough value is enough. This is storage
//! only; arithmetic is always in f32.

use std::fmt::Debug;

use bytemuck::{Pod, Zeroable};
use half::f16;

/// Entries in a line.
pub const LINE: usize = 16;

/// A cache line of floats. Matrices are aligned to it.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Line(pub [f32; LINE]);

/// Half a cache line: 16 floats of 16 bits.
#[repr(C, align(32))]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct HalfLine(pub [f16; LINE]);

/// A type that a matrix can hold.
pub trait Entry: Pod + Send + Sync + Debug {
    /// [`LINE`] of them.
    type Line: Pod + Send + Sync + Debug;
}

impl Entry for f32 {
    type Line = Line;
}

impl Entry for f16 {
    type Line = HalfLine;
}
