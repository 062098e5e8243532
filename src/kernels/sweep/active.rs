//! Which rows a sweep has to compute: those that gather from a row that moved in the sweep before.
//! The others are skipped. It keeps flags of one byte per row; the thresholds come from `solver`.
//!
//! Two states take turns. A skipped row is copied from one to the other if the last sweep computed
//! it, and not touched if it was skipped then too. Work is therefore proportional to the rows that
//! move. Results have the same bits on any number of threads.

use super::super::AdjacencyRef;
use super::super::simd::Lanes;
use super::pass::Gathered;
use crate::dense::Line;
use crate::parallel::RowFlags;

/// A row counts as moved if its largest change is above `absolute` plus `relative` times its
/// largest entry, and that entry is not below `least`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Threshold {
    /// Change that any row may make.
    pub absolute: f32,
    /// Change relative to the row's largest entry.
    pub relative: f32,
    /// Rows whose entries are all below this have faded; 0 turns it off.
    pub least: f32,
}

impl Threshold {
    /// Whether a row of this size that changed by `delta` counts as moved.
    #[inline(always)]
    pub(super) fn is_above(&self, delta: f32, size: f32) -> bool {
        let is_faded = size < self.least;
        let stays = delta <= self.absolute + self.relative * size;
        !(is_faded || stays)
    }
}

/// The rows that moved, from sweep to sweep.
#[derive(Debug)]
pub struct Activity {
    /// Whether each row moved in the last sweep, and in this one.
    before: Vec<u8>,
    after: Vec<u8>,
    /// Whether the two states differ in a row.
    differs: Vec<u8>,
    /// When a row counts as moved.
    pub threshold: Threshold,
    /// Whether the next sweep computes all rows, as the first one does.
    pub takes_all: bool,
    /// Whether every sweep computes all rows, because rows gather from a table without flags. Set
    /// by sweeps.
    pub never_skips: bool,
    /// Whether the last sweep computed all rows.
    took_all: bool,
}

impl Activity {
    /// Flags for states of this many rows.
    pub fn new(rows: usize) -> Self {
        let flags = || vec![1; rows];
        Self {
            before: flags(),
            after: flags(),
            differs: flags(),
            threshold: Threshold::default(),
            takes_all: true,
            never_skips: false,
            took_all: true,
        }
    }

    /// The flags of the last sweep, to be filled in for ghosts.
    pub fn of_rows(&mut self) -> RowFlags<'_> {
        RowFlags { moved: &mut self.before, differs: &mut self.differs, all: self.took_all }
    }

    /// Bytes of the flags.
    pub fn bytes(rows: usize) -> u64 {
        (rows as u64).saturating_mul(3)
    }

    /// The flags that a sweep reads (`None`: it computes all rows), and those that it writes.
    pub(super) fn parts(&mut self) -> (Option<&[u8]>, Flags<'_>) {
        let before = (!self.takes_all).then_some(&self.before[..]);
        (before, Flags { moved: &mut self.after, differs: &mut self.differs })
    }

    /// Makes the flags that this sweep wrote those that the next one reads.
    pub(super) fn turn(&mut self) {
        std::mem::swap(&mut self.before, &mut self.after);
        (self.took_all, self.takes_all) = (self.takes_all, self.never_skips);
    }
}

/// The flags of some rows.
pub(super) struct Flags<'a> {
    pub moved: &'a mut [u8],
    pub differs: &'a mut [u8],
}

impl<'a> Flags<'a> {
    pub fn split_at(self, rows: usize) -> (Self, Self) {
        let (first, second) = self.moved.split_at_mut(rows);
        let (left, right) = self.differs.split_at_mut(rows);
        (Flags { moved: first, differs: left }, Flags { moved: second, differs: right })
    }
}

/// The flags and the threshold of a pass over active rows.
#[derive(Clone, Copy)]
pub(super) struct Watch<'a> {
    /// Whether each row moved in the last sweep; `None`: all rows are computed.
    pub before: Option<&'a [u8]>,
    pub threshold: Threshold,
}

impl Watch<'_> {
    /// Whether a row gathers from one that moved.
    #[inline(always)]
    pub fn is_active(&self, terms: &[Gathered<'_>], row: usize) -> bool {
        let Some(before) = self.before else { return true };
        let gathers = |adjacency: &AdjacencyRef<'_>| {
            let shift = adjacency.shift(row);
            let neighbours = &adjacency.neighbours()[adjacency.range(row)];
            neighbours.iter().any(|neighbour| before[neighbour.wrapping_sub(shift) as usize] != 0)
        };
        terms.iter().any(|term| gathers(&term.adjacency))
    }

    /// Whether a row moved; NaN counts as moved.
    #[inline(always)]
    pub fn has_moved<L: Lanes>(&self, old: &[Line], new: &[Line]) -> bool {
        let (mut delta, mut size) = (L::splat(0.0), L::splat(0.0));
        for (old, new) in old.iter().zip(new) {
            let new = L::load(new);
            delta = delta.max_bits(new.sub(L::load(old)).abs());
            size = size.max_bits(new.abs());
        }
        self.threshold.is_above(delta.largest(), size.largest())
    }
}
