//! A sparse operator on states, in either direction: a checked view of offsets, neighbours, values
//! and scales. It owns nothing; [`super::Adjacency`] does.
//!
//! ```text
//! (A^T X)_i = row_scale_i * sum_{j in row i} value_ij * gather_scale_j * x_j
//! ```
//!
//! with 1 for every factor that is missing. Symmetric relations store one direction, which serves
//! both with the two scales swapped.
//!
//! A selection of whole graphs ([`super::Selected`]) is an operator too, over the same arrays: its
//! row i is the stored row `stored_row(i)`, and its columns are the stored ones less `shift(i)`.
//! Neighbours, values and scales are indexed by stored numbers; rows, columns and offsets are the
//! operator's own.
//!
//! Invariants, checked by [`AdjacencyRef::new`] or by whoever opened the relation ([`CsrFile`]), and
//! relied on by the kernels:
//!
//! - Offsets rise from 0 to the number of neighbours.
//! - Every neighbour is below `columns`.
//! - All arrays have matching lengths.
//! - In a selection no entry leaves its graph (checked by [`AdjacencyRef::select`]), so that
//!   shifted columns stay below `columns` as well.

use std::ops::Range;

use ignn_format::Relation;
use ignn_format::csr::CsrFile;
use ignn_format::manifest::Scale;
use rayon::prelude::*;

use super::shared_rows::Factor;
use super::{Lockstep, Selected, Selection, SharedRows};
use crate::parallel::RowBlocks;

/// Arrays that do not form an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{relation}: {what} (found {found}, expected {expected}); run `ignn check DIR` for details"
)]
pub struct AdjacencyError {
    /// Name of the relation.
    pub relation: String,
    /// What is wrong.
    pub what: &'static str,
    /// What was found.
    pub found: u64,
    /// What would have been right.
    pub expected: String,
}

/// The arrays of an operator; see the module documentation.
#[derive(Clone, Copy, Debug)]
pub struct AdjacencyRef<'a> {
    columns: usize,
    offsets: &'a [u64],
    neighbours: &'a [u32],
    values: Option<&'a [f32]>,
    gather_scale: Option<&'a [f32]>,
    row_scale: Option<&'a [f32]>,
    chosen: Option<Chosen<'a>>,
    shared: Option<&'a SharedRows>,
    lockstep: Option<&'a Lockstep>,
}

/// The factors `expand . core . collect` of an operator with repeated rows, each an operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factors<'a> {
    pub collect: (AdjacencyRef<'a>, &'a RowBlocks),
    pub core: (AdjacencyRef<'a>, &'a RowBlocks),
    pub expand: AdjacencyRef<'a>,
}

/// The rows of a selection.
#[derive(Clone, Copy, Debug)]
struct Chosen<'a> {
    /// Stored row of each row.
    source: &'a [u32],
    /// Offsets of the stored rows.
    stored: &'a [u64],
}

impl<'a> AdjacencyRef<'a> {
    /// An operator of `offsets.len() - 1` rows and `columns` columns, values 1 and no scale.
    pub fn new(
        columns: usize,
        offsets: &'a [u64],
        neighbours: &'a [u32],
    ) -> Result<Self, AdjacencyError> {
        let wrong = |what, found: u64, expected: String| {
            Err(AdjacencyError { relation: "adjacency".into(), what, found, expected })
        };
        let entries = neighbours.len() as u64;
        match offsets {
            [0, .., last] | [last @ 0] if *last == entries => {}
            [0, .., last] => return wrong("last offset", *last, entries.to_string()),
            [first, ..] => return wrong("first offset", *first, "0".into()),
            [] => return wrong("number of offsets", 0, "at least 1".into()),
        }
        if let Some(row) = offsets.par_windows(2).position_any(|pair| pair[0] > pair[1]) {
            return wrong("falling offset", offsets[row + 1], format!("at least {}", offsets[row]));
        }
        if let Some(&largest) = neighbours.par_iter().max()
            && largest as usize >= columns
        {
            return wrong("neighbour", largest.into(), format!("less than {columns}"));
        }
        Ok(Self::checked(columns, offsets, neighbours))
    }

    /// The same for arrays that have been checked before.
    pub(super) fn checked(columns: usize, offsets: &'a [u64], neighbours: &'a [u32]) -> Self {
        Self {
            columns,
            offsets,
            neighbours,
            values: None,
            gather_scale: None,
            row_scale: None,
            chosen: None,
            shared: None,
            lockstep: None,
        }
    }

    /// With the values and scales that are present.
    pub(super) fn with_optional(
        self,
        values: Option<&'a [f32]>,
        gather_scale: Option<&'a [f32]>,
        row_scale: Option<&'a [f32]>,
    ) -> Self {
        let with = values.map_or(self, |values| self.with_values(values));
        let with = gather_scale.map_or(with, |scale| with.with_gather_scale(scale));
        row_scale.map_or(with, |scale| with.with_row_scale(scale))
    }

    /// With one value per entry.
    ///
    /// # Panics
    /// If there are not as many values as entries, or the operator is a selection.
    pub fn with_values(self, values: &'a [f32]) -> Self {
        assert!(self.chosen.is_none(), "values before a selection");
        assert_eq!(values.len(), self.neighbours.len(), "one value per entry");
        Self { values: Some(values), lockstep: None, ..self }
    }

    /// With a factor for each column, applied while gathering.
    ///
    /// # Panics
    /// If there are not as many factors as columns, or the operator is a selection.
    pub fn with_gather_scale(self, scale: &'a [f32]) -> Self {
        assert!(self.chosen.is_none(), "scales before a selection");
        assert_eq!(scale.len(), self.columns, "one scale per column");
        Self { gather_scale: Some(scale), ..self }
    }

    /// With a factor for each row, applied after gathering.
    ///
    /// # Panics
    /// If there are not as many factors as rows, or the operator is a selection.
    pub fn with_row_scale(self, scale: &'a [f32]) -> Self {
        assert!(self.chosen.is_none(), "scales before a selection");
        assert_eq!(scale.len(), self.rows(), "one scale per row");
        Self { row_scale: Some(scale), ..self }
    }

    /// With its repeated rows, found by [`SharedRows::find`] in these very entries: kernels gather
    /// each distinct row once.
    ///
    /// # Panics
    /// If the shapes differ, or the operator is a selection.
    pub fn with_shared(self, shared: &'a SharedRows) -> Self {
        assert!(self.chosen.is_none(), "repeated rows before a selection");
        let (rows, columns) = (shared.expand.offsets.len() - 1, shared.collect.columns);
        assert_eq!((rows, columns), (self.rows(), self.columns), "repeated rows of this operator");
        Self { shared: Some(shared), ..self }
    }

    /// With a copy of these very entries, by which sweeps over narrow states gather.
    ///
    /// # Panics
    /// If the shapes differ, or the operator is a selection.
    pub fn with_lockstep(self, copy: &'a Lockstep) -> Self {
        assert!(self.chosen.is_none(), "a copy before a selection");
        assert_eq!(copy.rows(), self.rows(), "a copy of this operator");
        Self { lockstep: Some(copy), ..self }
    }

    /// The operator restricted to some of its graphs. Fails if an entry leaves its graph.
    ///
    /// # Panics
    /// If the operator is itself a selection.
    pub fn select(self, selection: &'a Selection) -> Result<Selected<'a>, AdjacencyError> {
        assert!(self.chosen.is_none(), "a selection of stored rows");
        Selected::new(self, selection)
    }

    /// The rows of a selection; `offsets` counts their entries. `Selected` checks the invariants.
    pub(super) fn with_rows(self, source: &'a [u32], offsets: &'a [u64]) -> Self {
        let chosen = Some(Chosen { source, stored: self.offsets });
        // Repeated rows were found over all graphs.
        Self { columns: source.len(), offsets, chosen, shared: None, lockstep: None, ..self }
    }

    /// A^T: gathers over incoming edges, for the forward sweep. Relations are checked when they are
    /// opened.
    pub fn incoming(relation: &'a Relation) -> Self {
        let adjacency = Self::of(&relation.incoming);
        match (relation.entry.scale, &relation.scale) {
            (Scale::Both, Some(scale)) => adjacency.with_gather_scale(scale).with_row_scale(scale),
            (Scale::Source, Some(scale)) => adjacency.with_gather_scale(scale),
            _ => adjacency,
        }
    }

    /// A: gathers over outgoing edges, for the adjoint sweep.
    pub fn outgoing(relation: &'a Relation) -> Self {
        // With symmetric stored values, the rows of outgoing edges are those of incoming ones.
        let adjacency = Self::of(relation.outgoing.as_ref().unwrap_or(&relation.incoming));
        match (relation.entry.scale, &relation.scale) {
            (Scale::Both, Some(scale)) => adjacency.with_gather_scale(scale).with_row_scale(scale),
            (Scale::Source, Some(scale)) => adjacency.with_row_scale(scale),
            _ => adjacency,
        }
    }

    fn of(direction: &'a CsrFile) -> Self {
        let adjacency =
            Self::checked(direction.rows(), direction.offsets(), direction.neighbours());
        direction.values().map_or(adjacency, |values| adjacency.with_values(values))
    }

    /// Number of rows: nodes that gather.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of columns: nodes gathered from.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The factors, if rows repeat.
    pub(crate) fn factors(&self) -> Option<Factors<'a>> {
        let shared = self.shared?;
        let factor = |factor: &'a Factor| Self {
            columns: factor.columns,
            offsets: &factor.offsets,
            neighbours: &factor.neighbours,
            values: factor.values.as_deref(),
            gather_scale: None,
            row_scale: None,
            chosen: None,
            shared: None,
            lockstep: None,
        };
        let collect = Self { gather_scale: self.gather_scale, ..factor(&shared.collect) };
        Some(Factors {
            collect: (collect, &shared.collect.blocks),
            core: (factor(&shared.core), &shared.core.blocks),
            expand: Self { row_scale: self.row_scale, ..factor(&shared.expand) },
        })
    }

    pub(crate) fn is_selection(&self) -> bool {
        self.chosen.is_some()
    }

    /// The repeated rows, if they were searched for and found.
    pub fn shared(&self) -> Option<&'a SharedRows> {
        self.shared
    }

    /// The copy of the entries for narrow states, if there is one that holds for all of them.
    #[inline(always)]
    pub(super) fn lockstep(&self) -> Option<&'a Lockstep> {
        self.lockstep.filter(|_| self.gather_scale.is_none() && self.shared.is_none())
    }

    /// Whether sweeps over a state of this width gather by a copy of the entries.
    pub(super) fn goes_in_lockstep(&self, width: usize) -> bool {
        self.lockstep.is_some() && self.shared.is_none() && Lockstep::serves(width)
    }

    /// Number of gathered entries before each row; with repeated rows, one per row.
    pub fn gathered_offsets(&self) -> &'a [u64] {
        self.shared.map_or(self.offsets, |shared| &shared.expand.offsets)
    }

    /// Number of entries that are gathered; with repeated rows, those of the factors.
    pub fn gathered_entries(&self) -> usize {
        self.shared.map_or(self.nonzeros(), SharedRows::entries)
    }

    /// Largest number of additions on the way of an entry into its sum, whether or not repeated
    /// rows are gathered once.
    pub fn longest_sum(&self) -> u64 {
        let longest = self.offsets.par_windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        longest.max(self.shared.map_or(0, SharedRows::roundings))
    }

    /// Number of entries.
    pub fn nonzeros(&self) -> usize {
        self.offsets[self.rows()] as usize
    }

    /// Number of entries before each row, and of all entries: `rows() + 1` numbers. See
    /// [`Self::range`] for where the entries are.
    pub fn offsets(&self) -> &'a [u64] {
        self.offsets
    }

    /// The positions of a row's entries among neighbours and values.
    #[inline(always)]
    pub fn range(&self, row: usize) -> Range<usize> {
        let (offsets, row) = match self.chosen {
            None => (self.offsets, row),
            Some(chosen) => (chosen.stored, chosen.source[row] as usize),
        };
        offsets[row] as usize..offsets[row + 1] as usize
    }

    /// The stored number of a row, which indexes its scale.
    #[inline(always)]
    pub fn stored_row(&self, row: usize) -> usize {
        self.chosen.map_or(row, |chosen| chosen.source[row] as usize)
    }

    /// The difference between a row's neighbours and its columns, modulo 2^32.
    #[inline(always)]
    pub fn shift(&self, row: usize) -> u32 {
        self.chosen.map_or(0, |chosen| chosen.source[row].wrapping_sub(row as u32))
    }

    /// The column of the entry at a position of a row.
    #[inline(always)]
    pub fn column(&self, row: usize, at: usize) -> usize {
        self.neighbours[at].wrapping_sub(self.shift(row)) as usize
    }

    /// All neighbours, as stored numbers.
    pub fn neighbours(&self) -> &'a [u32] {
        self.neighbours
    }

    /// All values, if they are stored.
    pub fn values(&self) -> Option<&'a [f32]> {
        self.values
    }

    /// Factors of the columns, by stored number.
    pub fn gather_scale(&self) -> Option<&'a [f32]> {
        self.gather_scale
    }

    /// Factors of the rows, by stored number.
    pub fn row_scale(&self) -> Option<&'a [f32]> {
        self.row_scale
    }

    /// The factor of a row; 1 if there is none.
    #[inline(always)]
    pub fn row_factor(&self, row: usize) -> f32 {
        self.row_scale.map_or(1.0, |scale| scale[self.stored_row(row)])
    }

    /// The same operator without the factors of its columns.
    pub(super) fn without_gather_scale(self) -> Self {
        Self { gather_scale: None, ..self }
    }

    /// Numbers of the rows as they are stored, if the operator is a selection; columns are the same.
    pub(super) fn source(&self) -> Option<&'a [u32]> {
        self.chosen.map(|chosen| chosen.source)
    }

    /// Whether this operator is equal to its transpose, because `transpose` is made of the same
    /// arrays and the factors of rows are those of columns.
    pub fn is_symmetric(&self, transpose: &Self) -> bool {
        fn same<T>(one: Option<&[T]>, other: Option<&[T]>) -> bool {
            one.map(<[T]>::as_ptr_range) == other.map(<[T]>::as_ptr_range)
        }
        // A selection has offsets of its own.
        let stored = |of: &Self| of.chosen.map_or(of.offsets, |chosen| chosen.stored);
        std::ptr::eq(stored(self), stored(transpose))
            && std::ptr::eq(self.neighbours, transpose.neighbours)
            && same(self.values, transpose.values)
            && same(self.source(), transpose.source())
            && same(self.gather_scale, self.row_scale)
            && same(self.gather_scale, transpose.gather_scale)
    }

    /// The factors by row, if the same positive ones apply to rows and columns.
    pub fn common_scale(&self) -> Option<impl Fn(usize) -> f32 + Sync + use<'a>> {
        let (scale, other) = (self.row_scale?, self.gather_scale?);
        let this = *self;
        let same = |row: usize| {
            let row = this.stored_row(row);
            let s = scale[row];
            other.get(row) == Some(&s) && s.is_normal() && s > 0.0
        };
        let same = (0..self.rows()).into_par_iter().with_min_len(1024).all(same);
        same.then_some(move |row| scale[this.stored_row(row)])
    }

    /// Every entry of a row: its column, and its value with scales. For bounds, statistics and
    /// tests.
    pub fn entries(&self, row: usize) -> impl Iterator<Item = (usize, f32)> + use<'a> {
        let this = *self;
        let row_factor = this.row_factor(row);
        this.range(row).map(move |entry| {
            let value = this.values.map_or(1.0, |values| values[entry]);
            let scale =
                this.gather_scale.map_or(1.0, |scale| scale[this.neighbours[entry] as usize]);
            (this.column(row, entry), row_factor * value * scale)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_arrays_are_refused() {
        let message =
            |result: Result<AdjacencyRef<'_>, AdjacencyError>| result.unwrap_err().to_string();
        assert!(AdjacencyRef::new(0, &[0], &[]).is_ok());
        assert!(AdjacencyRef::new(3, &[0, 2, 2], &[2, 0]).is_ok());
        assert!(
            message(AdjacencyRef::new(2, &[0, 2, 2], &[2, 0]))
                .contains("neighbour (found 2, expected less")
        );
        assert!(
            message(AdjacencyRef::new(3, &[0, 2, 1], &[2])).contains("falling offset (found 1")
        );
        assert!(
            message(AdjacencyRef::new(3, &[0, 2], &[2]))
                .contains("last offset (found 2, expected 1)")
        );
        assert!(message(AdjacencyRef::new(3, &[1, 1], &[2])).contains("first offset (found 1"));
        assert!(message(AdjacencyRef::new(3, &[], &[])).contains("number of offsets"));
    }

    #[test]
    fn factors_multiply() {
        let adjacency = AdjacencyRef::new(3, &[0, 1, 3], &[2, 0, 1]).unwrap();
        let (values, gather, row) = ([2.0, 3.0, 5.0], [7.0, 11.0, 13.0], [0.5, 0.25]);
        let adjacency =
            adjacency.with_values(&values).with_gather_scale(&gather).with_row_scale(&row);
        assert_eq!(adjacency.entries(0).collect::<Vec<_>>(), [(2, 13.0)]);
        assert_eq!(adjacency.entries(1).collect::<Vec<_>>(), [(0, 5.25), (1, 13.75)]);
    }
}
