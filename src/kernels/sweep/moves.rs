//! The moves of a sweep, new minus old state, as 16-bit floats. They are written while both rows
//! are in cache, for the Anderson mixing of `solver`.

use super::super::simd::Lanes;
use half::f16;

use crate::dense::{Line, MatrixMut};

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

    /// Records the moves of lines from number `first` on.
    #[inline(always)]
    pub(super) fn note<L: Lanes>(
        &mut self,
        first: usize,
        old: &[Line],
        new: &[Line],
        is_large: bool,
    ) {
        let factor = L::splat(self.factor);
        let to = &mut self.to.lines_mut()[first..][..new.len()];
        for ((to, old), new) in to.iter_mut().zip(old).zip(new) {
            let moved = L::load(new).sub(L::load(old)).mul(factor);
            if is_large { moved.stream_half(to) } else { moved.store_half(to) }
        }
    }
}
