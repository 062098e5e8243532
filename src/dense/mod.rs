//! Dense row-major matrices of f32, or of 16-bit floats, aligned to cache lines: owned, borrowed,
//! borrowed mutably. They hold numbers; arithmetic on them is in `kernels`.
//!
//! A row takes `stride` floats: the columns rounded up to whole lines of 16, or to the next power
//! of two below 16, so that no row of a narrow matrix crosses a line. The floats between `cols` and
//! `stride` are padding: zero, always. That is why rows are handed out without it, and kernels that
//! write whole lines must leave it zero.

mod entry;
mod matrix;
mod memory;

pub use entry::{Entry, HalfLine, LINE, Line};
pub use matrix::{Matrix, MatrixMut, MatrixRef, stride};
