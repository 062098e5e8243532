//! How much a sweep moved the state, and in which norm. All numbers are maxima: they do not depend
//! on the order of rows, and a NaN in any entry shows.

use crate::dense::Line;
use crate::parallel::Ranks;

/// The certificate's norm: |E| = max |E_ik| / (u_i v_k); a missing vector is all ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Norm<'a> {
    /// One positive weight per row.
    pub u: Option<&'a [f32]>,
    /// One positive weight per column.
    pub v: Option<&'a [f32]>,
    /// Computes [`Change::row`], over the rows with an entry above this; costs a few instructions
    /// per row.
    pub rows: Option<f32>,
}

impl Norm<'_> {
    /// 1 / v into whole lines, once for each of the rows that share a line; ones if there is no v.
    pub(super) fn invert_v(&self, stride: usize, lines: &mut [Line]) {
        let floats: &mut [f32] = bytemuck::cast_slice_mut(lines);
        floats.fill(1.0);
        if let Some(v) = self.v {
            for row in floats.chunks_exact_mut(stride.max(1)) {
                row.iter_mut().zip(v).for_each(|(inverse, v)| *inverse = 1.0 / v);
            }
        }
    }
}

/// The change that a sweep made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// max |delta| / (u v), computed in f32 as |delta| * (1 / v) * (1 / u) with at most four
    /// roundings.
    pub weighted: f32,
    /// max |delta|
    pub largest: f32,
    /// max |x| of the new state
    pub state: f32,
    /// The largest change of a row relative to that row: max_i (max_k |delta_ik| / max_k (|x_ik|,
    /// |old_ik|)), if the norm asks for it, otherwise 0. Unlike [`Change::largest`] it also sees
    /// changes of rows that are many orders smaller than the largest.
    pub row: f32,
    /// Whether every entry of the new state, and of the change, is a finite number.
    pub finite: bool,
    /// Number of rows computed.
    pub rows: u64,
    /// Number of rows that count as moved, of a sweep that tracks activity.
    pub moved: u64,
}

impl Change {
    /// The change of an empty state.
    pub const NONE: Self =
        Self { weighted: 0.0, largest: 0.0, state: 0.0, row: 0.0, finite: true, rows: 0, moved: 0 };

    /// The change of the states of all ranks.
    pub fn of_ranks(self, ranks: &dyn Ranks) -> Self {
        if ranks.is_alone() {
            return self;
        }
        Self::of_words(
            ranks.merge(self.words(), |a, b| Self::of_words(a).merge(Self::of_words(b)).words()),
        )
    }

    /// As ranks send it.
    fn words(self) -> [u64; 7] {
        let Self { weighted, largest, state, row, finite, rows, moved } = self;
        let [weighted, largest, state, row] =
            [weighted, largest, state, row].map(|x| u64::from(x.to_bits()));
        [weighted, largest, state, row, finite.into(), rows, moved]
    }

    fn of_words([weighted, largest, state, row, finite, rows, moved]: [u64; 7]) -> Self {
        let [weighted, largest, state, row] =
            [weighted, largest, state, row].map(|bits| f32::from_bits(bits as u32));
        Self { weighted, largest, state, row, finite: finite == 1, rows, moved }
    }

    /// The change of two parts of a state.
    pub fn merge(self, other: Self) -> Self {
        Self {
            weighted: self.weighted.max(other.weighted),
            largest: self.largest.max(other.largest),
            state: self.state.max(other.state),
            row: self.row.max(other.row),
            finite: self.finite && other.finite,
            rows: self.rows + other.rows,
            moved: self.moved + other.moved,
        }
    }
}
