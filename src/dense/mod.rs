//! Dense row-major matrices of f32 or 16-bit floats, aligned to cache lines: owned, borrowed, or
//! borrowed mutably. They hold numbers; arithmetic on them is in `kernels`.
//!
//! A row takes `stride` floats: the columns rounded up to whole lines of 16, or to a power of two
//! below 16, so that several rows of a narrow matrix share a line and none crosses one. The floats
//! between `cols` and `stride` are padding and always zero, like those after the last row. Methods
//! such as [`Matrix::row`] leave them out; kernels that write whole lines keep them zero.
//!
//! ```
//! use ignn::dense::Matrix;
//!
//! let mut x = Matrix::from_fn(2, 3, |row, column| (10 * row + column) as f32);
//! x.row_mut(0)[2] = -1.0;
//! assert_eq!(x.row(0), [0.0, 1.0, -1.0]);
//! // Three columns are padded to four.
//! assert_eq!(x.view().padded_row(1), [10.0, 11.0, 12.0, 0.0]);
//! ```

mod entry;
mod matrix;
mod memory;
mod scratch;

pub use entry::{Entry, HalfLine, LINE, Line};
pub use matrix::{Matrix, MatrixMut, MatrixRef, stride};
pub use memory::Reuse;
pub use scratch::{Lent, Scratch};
