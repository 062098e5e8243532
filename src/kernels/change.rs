//! How much a sweep moved the state, and in which norm.
//! Maxima only: they do not depend on any order, and a NaN anywhere shows.

use crate::dense::Line;

/// The certificate's norm: |E| = max |E_ik| / (u_i v_k); a missing vector is all ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Norm<'a> {
    /// A positive weight a row.
    pub u: Option<&'a [f32]>,
    /// A positive weight a column.
    pub v: Option<&'a [f32]>,
    /// Whether [`Change::row`] is wanted, which costs a few instructions a row, and of which rows:
    /// those with an entry above this.
    pub rows: Option<f32>,
}

impl Norm<'_> {
    /// 1 / v into whole lines, ones where there is no v.
    pub(super) fn invert_v(&self, lines: &mut [Line]) {
        let floats: &mut [f32] = bytemuck::cast_slice_mut(lines);
        match self.v {
            Some(v) => floats.iter_mut().zip(v).for_each(|(inverse, v)| *inverse = 1.0 / v),
            None => floats.fill(1.0),
        }
    }
}

/// What a sweep did; exact maxima up to the rounding named.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// max |delta| / (u v), computed as |delta| * (1 / v) * (1 / u) in f32: at most four roundings
    /// off.
    pub weighted: f32,
    /// max |delta|
    pub largest: f32,
    /// max |x| of the new state
    pub state: f32,
    /// The largest change of a row relative to that row: max_i (max_k |delta_ik| / max_k (|x_ik|,
    /// |old_ik|)), where the norm asked for it; 0 elsewhere. It sees what fades over many orders,
    /// where [`Change::largest`] sees only the large.
    pub row: f32,
    /// Whether every entry of the new state, and of the change, is a finite number.
    pub finite: bool,
    /// Rows that were computed.
    pub rows: u64,
    /// Rows that count as moved, of a sweep that watches them.
    pub moved: u64,
}

impl Change {
    /// Nothing moved, nothing there.
    pub const NONE: Self =
        Self { weighted: 0.0, largest: 0.0, state: 0.0, row: 0.0, finite: true, rows: 0, moved: 0 };

    /// Of two parts of a state.
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
