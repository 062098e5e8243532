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
        let floats = [self.weighted, self.largest, self.state, self.row].map(f32::to_bits);
        let floats = floats.map(u64::from);
        let all = [self.finite.into(), self.rows, self.moved];
        let sent = [floats[0], floats[1], floats[2], floats[3], all[0], all[1], all[2]];
        let float = |bits: u64| f32::from_bits(bits as u32);
        let merged = ranks.merge(sent, |a, b| {
            let larger = |at: usize| u64::from(float(a[at]).max(float(b[at])).to_bits());
            [larger(0), larger(1), larger(2), larger(3), a[4] & b[4], a[5] + b[5], a[6] + b[6]]
        });
        let [weighted, largest, state, row, finite, rows, moved] = merged;
        let [weighted, largest, state, row] = [weighted, largest, state, row].map(float);
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
