//! A state to read or to write, in floats of 32 bits or of 16.
//! Storage only: kernels load either into the same lanes, and all arithmetic is in 32 bits.

use super::simd::Lanes;
use crate::dense::{Entry, F16, HalfLine, Line, Matrix, MatrixMut, MatrixRef};

/// A state to read.
#[derive(Clone, Copy, Debug)]
pub enum StateRef<'a> {
    /// In 32 bits.
    Full(MatrixRef<'a>),
    /// In 16 bits: what it stands for is the unit, a power of two, times as much.
    Short(MatrixRef<'a, F16>, f32),
}

/// A state to write, or a block of its rows.
#[derive(Debug)]
pub enum StateMut<'a> {
    /// In 32 bits.
    Full(MatrixMut<'a>),
    /// In 16 bits, with its unit.
    Short(MatrixMut<'a, F16>, f32),
}

/// Calls the same method of either matrix.
macro_rules! either {
    ($state:expr, $name:ident) => {
        match $state {
            Self::Full(matrix) => matrix.$name(),
            Self::Short(matrix, _) => matrix.$name(),
        }
    };
}

impl<'a> StateRef<'a> {
    /// Number of rows.
    pub fn rows(self) -> usize {
        either!(self, rows)
    }

    /// Number of columns, without padding.
    pub fn cols(self) -> usize {
        either!(self, cols)
    }

    /// Bytes of all rows.
    pub fn bytes(self) -> usize {
        match self {
            Self::Full(matrix) => size_of_val(matrix.padded()),
            Self::Short(matrix, _) => size_of_val(matrix.padded()),
        }
    }

    /// The matrix of a state in 32 bits.
    pub fn full(self) -> Option<MatrixRef<'a>> {
        if let Self::Full(matrix) = self { Some(matrix) } else { None }
    }

    /// Address of the first row, to fetch rows from, and the bytes of each.
    #[inline(always)]
    pub(super) fn layout(self) -> (usize, usize) {
        match self {
            Self::Full(matrix) => {
                (matrix.padded().as_ptr().addr(), matrix.stride() * size_of::<f32>())
            }
            Self::Short(matrix, _) => {
                (matrix.padded().as_ptr().addr(), matrix.stride() * size_of::<F16>())
            }
        }
    }
}

impl StateMut<'_> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        either!(self, rows)
    }

    /// Number of columns, without padding.
    pub fn cols(&self) -> usize {
        either!(self, cols)
    }

    /// The first `rows` rows, and the rest.
    pub fn split_at(self, rows: usize) -> (Self, Self) {
        match self {
            Self::Full(matrix) => {
                let (first, second) = matrix.split_at(rows);
                (Self::Full(first), Self::Full(second))
            }
            Self::Short(matrix, unit) => {
                let (first, second) = matrix.split_at(rows);
                (Self::Short(first, unit), Self::Short(second, unit))
            }
        }
    }
}

impl<'a> From<MatrixRef<'a>> for StateRef<'a> {
    fn from(matrix: MatrixRef<'a>) -> Self {
        Self::Full(matrix)
    }
}

impl<'a> From<MatrixMut<'a>> for StateMut<'a> {
    fn from(matrix: MatrixMut<'a>) -> Self {
        Self::Full(matrix)
    }
}

/// A state that is kept.
#[derive(Debug)]
pub enum State {
    /// In 32 bits.
    Full(Matrix),
    /// In 16 bits, with its unit.
    Short(Matrix<F16>, f32),
}

impl State {
    /// To read.
    pub fn view(&self) -> StateRef<'_> {
        match self {
            Self::Full(matrix) => StateRef::Full(matrix.view()),
            Self::Short(matrix, unit) => StateRef::Short(matrix.view(), *unit),
        }
    }

    /// To write.
    pub fn view_mut(&mut self) -> StateMut<'_> {
        match self {
            Self::Full(matrix) => StateMut::Full(matrix.view_mut()),
            Self::Short(matrix, unit) => StateMut::Short(matrix.view_mut(), *unit),
        }
    }
}

/// An entry that kernels load and store.
pub(crate) trait Stored: Entry {
    fn load<L: Lanes>(line: &Self::Line) -> L;
    fn store<L: Lanes>(lanes: L, line: &mut Self::Line);
    /// Past the caches.
    fn stream<L: Lanes>(lanes: L, line: &mut Self::Line);
    fn value(self) -> f32;
    /// The nearest one; what is too large becomes the largest.
    fn of(x: f32) -> Self;
}

impl Stored for f32 {
    #[inline(always)]
    fn load<L: Lanes>(line: &Line) -> L {
        L::load(line)
    }

    #[inline(always)]
    fn store<L: Lanes>(lanes: L, line: &mut Line) {
        lanes.store(line);
    }

    #[inline(always)]
    fn stream<L: Lanes>(lanes: L, line: &mut Line) {
        lanes.stream(line);
    }

    #[inline(always)]
    fn value(self) -> f32 {
        self
    }

    #[inline(always)]
    fn of(x: f32) -> Self {
        x
    }
}

impl Stored for F16 {
    #[inline(always)]
    fn load<L: Lanes>(line: &HalfLine) -> L {
        L::load_short(line)
    }

    // A state that outgrew its unit stays finite: the next one has another.
    #[inline(always)]
    fn store<L: Lanes>(lanes: L, line: &mut HalfLine) {
        lanes.clamp(L::splat(F16::LARGEST)).store_short(line);
    }

    #[inline(always)]
    fn stream<L: Lanes>(lanes: L, line: &mut HalfLine) {
        lanes.clamp(L::splat(F16::LARGEST)).stream_short(line);
    }

    #[inline(always)]
    fn value(self) -> f32 {
        self.value()
    }

    #[inline(always)]
    fn of(x: f32) -> Self {
        Self::new(x.clamp(-Self::LARGEST, Self::LARGEST))
    }
}
