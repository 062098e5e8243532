//! The moves of a sweep, new minus old state, as 16-bit floats. They are written while both rows
//! are in cache, for the Anderson mixing of `solver`.

use super::super::simd::Lanes;
use half::f16;

use crate::dense::{LINE, Line, MatrixMut};

/// Where the moves of some rows are written, each times a factor that brings them near 1.
#[derive(Debug)]
pub struct Moves<'a> {
    /// The destination.
    pub to: MatrixMut<'a, f16>,
    /// The factor.
    pub factor: f32,
}

impl Moves<'_> {
    pub(super) fn split_at(self, rows: usize) -> (Self, Self) {
        let (first, second) = self.to.split_at(rows);
        (Self { to: first, ..self }, Self { to: second, factor: self.factor })
    }

    /// Records the move of a row.
    #[inline(always)]
    pub(super) fn note<L: Lanes>(
        &mut self,
        row: usize,
        old: &[Line],
        new: &[Line],
        is_large: bool,
    ) {
        let stride = self.to.stride();
        if stride < LINE {
            let to = self.to.padded_row_mut(row);
            for ((to, old), new) in to.iter_mut().zip(&old[0].0).zip(&new[0].0) {
                *to = f16::from_f32((new - old) * self.factor);
            }
            return;
        }
        let factor = L::splat(self.factor);
        let per_row = stride / LINE;
        let to = &mut self.to.lines_mut()[row * per_row..][..per_row];
        for ((to, old), new) in to.iter_mut().zip(old).zip(new) {
            let moved = L::load(new).sub(L::load(old)).mul(factor);
            if is_large { moved.stream_half(to) } else { moved.store_half(to) }
        }
    }
}
