//! Rows of a state solved one after the other: all that a solve needs if no row gathers from a
//! later one. The caller provides the order. A wrong order gives wrong values but is otherwise
//! safe.
//!
//! What a row gathers from other rows is gathered and multiplied once; only its own loop is
//! iterated, in cache.
//!
//! Rows of one level gather from none of the same level. Threads divide them, write what they find
//! next to each other, and copy it to its place when all rows of a part of the level are done.

use rayon::prelude::*;

use super::super::PackedWeights;
use super::super::gather;
use super::super::simd::{Kernel, Lanes};
use super::finish::{Finish, clear_padding};
use super::pass::Tile;
use super::{SweepScratch, Term};
use crate::dense::{LINE, Line, MatrixMut, MatrixRef};

/// The outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Number of row products: one per row, and one for each further iteration.
    pub updates: u64,
    /// Whether all of them are finite.
    pub is_finite: bool,
}

/// Rows that can be solved before any sweep.
#[derive(Clone, Copy, Debug)]
pub enum InOrder<'a> {
    /// All rows, each after those that it gathers from. Solved one after the other.
    All(&'a [u32]),
    /// The same in levels: rows, ascending within each level, and the end of every level. Rows of a
    /// level of at least [`WIDE`] rows are solved in parallel.
    Levels(&'a [u32], &'a [usize]),
    /// Rows that gather from nothing but themselves, ascending. Solved in parallel.
    Alone(&'a [u32]),
}

/// Rows of a level that threads divide, at least: below, waiting for each other takes longer.
pub const WIDE: usize = 256;
/// Rows of a level that are solved before they are copied to their places, at most: what is copied is
/// still in cache.
const PART: usize = 4096;
/// Rows that a thread takes at a time.
const CHUNK: usize = 64;
/// Rows that a thread copies at a time.
const COPIED: usize = 512;

impl Settled {
    /// The outcome of no rows.
    pub const NONE: Self = Self { updates: 0, is_finite: true };

    /// The outcome of both.
    pub fn merge(self, other: Self) -> Self {
        Self { updates: self.updates + other.updates, is_finite: self.is_finite && other.is_finite }
    }
}

/// The state that rows are gathered from, and where their values go.
pub(super) trait Place {
    /// The state from row [`Place::first`] on; contains all rows that are gathered.
    fn state(&self) -> MatrixRef<'_>;

    /// Its first row.
    fn first(&self) -> usize;

    /// Writes the values of a row, the `at`-th of those that are solved.
    fn write(&mut self, at: usize, row: usize, values: &[Line]);
}

/// Into the state itself, from this row on.
pub(super) struct InPlace<'p>(pub MatrixMut<'p>, pub usize);

/// Next to each other, `LINE` floats or whole rows each.
struct Apart<'p>(MatrixRef<'p>, &'p mut [Line]);

impl Place for InPlace<'_> {
    #[inline(always)]
    fn state(&self) -> MatrixRef<'_> {
        self.0.as_ref()
    }

    #[inline(always)]
    fn first(&self) -> usize {
        self.1
    }

    #[inline(always)]
    fn write(&mut self, _at: usize, row: usize, values: &[Line]) {
        put(values, self.0.padded_row_mut(row - self.1));
    }
}

impl Place for Apart<'_> {
    #[inline(always)]
    fn state(&self) -> MatrixRef<'_> {
        self.0
    }

    #[inline(always)]
    fn first(&self) -> usize {
        0
    }

    #[inline(always)]
    fn write(&mut self, at: usize, _row: usize, values: &[Line]) {
        self.1[at * values.len()..][..values.len()].copy_from_slice(values);
    }
}

/// Copies the values of a row to its place.
#[inline(always)]
fn put(values: &[Line], row: &mut [f32]) {
    row.copy_from_slice(&bytemuck::cast_slice(values)[..row.len()]);
}

/// What all rows have in common.
pub(super) struct Constants<'p, F> {
    pub terms: &'p [Term<'p>],
    pub finish: &'p F,
    pub tolerance: f32,
    pub repeats: usize,
}

impl<F> Clone for Constants<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

// Not derived: F need not be.
impl<F> Copy for Constants<'_, F> {}

/// Solves the rows of a level in parallel; `apart` is memory for their values.
pub(super) fn level<F: Finish>(
    constants: Constants<'_, F>,
    scratch: &SweepScratch,
    rows: &[u32],
    mut state: MatrixMut<'_>,
    apart: &mut Vec<Line>,
) -> Settled {
    let per_row = gather::lines_per_row(state.cols());
    let mut all = Settled::NONE;
    for rows in rows.chunks(PART) {
        apart.resize(apart.len().max(rows.len() * per_row), Line([0.0; LINE]));
        let from = state.as_ref();
        let chunk = |(order, to): (&[u32], &mut [Line])| {
            let (mut tile, place) = (scratch.tile(), Apart(from, to));
            scratch.isa.dispatch(Ordered { constants, order, place, scratch: &mut tile })
        };
        let values = apart[..rows.len() * per_row].par_chunks_mut(CHUNK * per_row);
        let found = rows.par_chunks(CHUNK).zip(values).map(chunk);
        all = all.merge(found.reduce(|| Settled::NONE, Settled::merge));
        if !all.is_finite {
            break;
        }
        copy(rows, 0, apart, state.reborrow());
    }
    all
}

/// Copies the values of rising rows to a state that begins with row `first`.
fn copy(rows: &[u32], first: usize, values: &[Line], mut state: MatrixMut<'_>) {
    let per_row = gather::lines_per_row(state.cols());
    if rows.len() <= COPIED {
        for (&row, values) in rows.iter().zip(values.chunks_exact(per_row)) {
            put(values, state.padded_row_mut(row as usize - first));
        }
        return;
    }
    let (low, high) = rows.split_at(rows.len() / 2);
    let (below, above) = values.split_at(low.len() * per_row);
    let cut = high[0] as usize;
    let (lower, upper) = state.split_at(cut - first);
    rayon::join(|| copy(low, first, below, lower), || copy(high, cut, above, upper));
}

/// The pass.
pub(super) struct Ordered<'p, F, P> {
    pub constants: Constants<'p, F>,
    pub order: &'p [u32],
    pub place: P,
    pub scratch: &'p mut Tile,
}

impl<F: Finish, P: Place> Kernel for Ordered<'_, F, P> {
    type Output = Settled;

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(mut self) -> Settled {
        let Constants { terms, finish, tolerance, repeats } = self.constants;
        let (cols, stride) = (self.place.state().cols(), self.place.state().stride());
        let start = self.place.first();
        let panels = gather::lines_per_row(cols);
        self.scratch.check(panels, 3 * panels, panels);
        let (gathered, products) = (&mut self.scratch.gathered, &mut self.scratch.products);
        let gathered = &mut gathered[..panels];
        let (outer, rest) = products.split_at_mut(panels);
        let (new, rest) = rest.split_at_mut(panels);
        let old = &mut rest[..panels];
        let zero = Line([0.0; LINE]);
        let mut settled = Settled::NONE;
        for (at, &row) in self.order.iter().enumerate() {
            let row = row as usize;
            outer.fill(zero);
            let mut loops = false;
            for term in terms {
                gathered.fill(zero);
                for (column, value) in term.adjacency.entries(row) {
                    if column == row {
                        loops = true;
                        continue;
                    }
                    let (mut narrow, value) = ([zero], L::splat(value));
                    let from = line_row(self.place.state(), column - start, &mut narrow);
                    for (sum, x) in gathered.iter_mut().zip(from) {
                        L::load(x).mul_add(value, L::load(sum)).store(sum);
                    }
                }
                multiply::<L>(gathered, term.weights, 1.0, outer);
            }
            let mut narrow = [zero];
            old.copy_from_slice(line_row(self.place.state(), row - start, &mut narrow));
            for _ in 0..repeats.max(1) {
                new.copy_from_slice(outer);
                for term in terms.iter().filter(|_| loops) {
                    for (_, value) in term.adjacency.entries(row).filter(|entry| entry.0 == row) {
                        multiply::<L>(old, term.weights, value, new);
                    }
                }
                finish_row::<L>(finish, row, stride, new);
                clear_padding::<L>(new, cols);
                settled.updates += 1;
                let (mut moved, mut size) = (L::splat(0.0), L::splat(0.0));
                for (old, new) in old.iter_mut().zip(&*new) {
                    let x = L::load(new);
                    moved = moved.max_bits(x.sub(L::load(old)).abs());
                    size = size.max_bits(x.abs());
                    x.store(old);
                }
                let (moved, size) = (moved.largest(), size.largest());
                if !size.is_finite() {
                    settled.is_finite = false;
                    return settled;
                }
                if !loops || moved <= tolerance * size {
                    break;
                }
            }
            self.place.write(at, row, old);
        }
        settled
    }
}

/// Finishes a row that takes whole lines. Those of a narrow matrix share a line: there the row is at
/// its place of a line of its own.
#[inline(always)]
fn finish_row<L: Lanes>(finish: &impl Finish, row: usize, stride: usize, new: &mut [Line]) {
    if stride >= LINE {
        return finish.lines::<L>(row * new.len(), new);
    }
    let (first, at) = (row * stride / LINE, row * stride % LINE);
    let mut line = [Line([0.0; LINE])];
    line[0].0[at..at + stride].copy_from_slice(&new[0].0[..stride]);
    finish.lines::<L>(first, &mut line);
    new[0].0[..stride].copy_from_slice(&line[0].0[at..at + stride]);
}

/// The lines of a row; of a narrow matrix one line in `narrow`, the row followed by zeros.
#[inline(always)]
fn line_row<'a>(matrix: MatrixRef<'a>, row: usize, narrow: &'a mut [Line]) -> &'a [Line] {
    let floats = matrix.padded_row(row);
    if floats.len() >= LINE {
        return bytemuck::cast_slice(floats);
    }
    narrow[0] = Line([0.0; LINE]);
    narrow[0].0[..floats.len()].copy_from_slice(floats);
    &narrow[..1]
}

/// sums += factor * (row times the weights)
#[inline(always)]
fn multiply<L: Lanes>(row: &[Line], weights: &PackedWeights, factor: f32, sums: &mut [Line]) {
    let row: &[f32] = bytemuck::cast_slice(row);
    for (panel, sum) in sums.iter_mut().enumerate() {
        let mut lanes = L::load(sum);
        for (x, line) in row.iter().zip(&weights.panel(panel)[..weights.inner()]) {
            lanes = L::load(line).mul_add(L::splat(x * factor), lanes);
        }
        lanes.store(sum);
    }
}
