//! One pass over a block of rows: gather a tile of rows into cache, multiply, finish, store.
//! It knows no threads; the blocks are disjoint, and each is one call.
//!
//! While a tile is multiplied, what the next one gathers is fetched, a share after each group of rows: the memory's
//! latency hides behind the arithmetic. A panel of the weights (inner x 16 floats) stays in the first cache for a tile.

use std::ops::Range;

use super::super::simd::{Isa, Kernel, Lanes};
use super::super::{Change, Norm, PackedWeights, gather};
use super::Term;
use super::finish::{Finish, Maxima, line_of, load};
use crate::dense::{LINE, Line, MatrixMut, MatrixRef};

/// Rows of the largest tile.
const LARGEST_TILE: usize = 96;
/// Lines of a gathered tile: 16 KiB, half of a first cache.
const TILE_LINES: usize = 256;
/// Rows of a tile at least, so that a panel is used often enough when it comes from afar.
const SMALLEST_TILE: usize = 24;
/// Lines fetched ahead for a tile: they must not push the weights out of the second cache.
const FETCHED_LINES: usize = 2048;

/// Rows of a tile whose rows take so many lines together.
pub(super) fn tile_rows(lines: usize) -> usize {
    let rows = (TILE_LINES / lines.max(1)).clamp(SMALLEST_TILE, LARGEST_TILE);
    rows - rows % Isa::TILE
}

/// What all blocks of a pass share.
pub(super) struct Pass<'a, F> {
    /// Gathered and multiplied.
    pub terms: &'a [Term<'a>],
    /// Multiplied without gathering.
    pub plain: Option<&'a PackedWeights>,
    pub from: MatrixRef<'a>,
    pub finish: F,
    /// The norm of the change from `from`; `None` where the result is no later state of it.
    pub norm: Option<Norm<'a>>,
    /// Whether the result is too large for the caches: it is stored past them.
    pub is_large: bool,
}

/// A pass over one block.
pub(super) struct Block<'p, 'a, F> {
    pub pass: &'p Pass<'a, F>,
    pub rows: Range<usize>,
    pub to: MatrixMut<'p>,
    /// Room for the gathered tile of every term.
    pub scratch: &'p mut [Line],
}

impl<F: Finish> Kernel for Block<'_, '_, F> {
    type Output = Change;

    #[inline(always)]
    fn run<L: Lanes, const ROWS: usize, const PANELS: usize>(mut self) -> Change {
        let pass = self.pass;
        let per_row = gather::lines_per_row(pass.from.cols());
        let segments = pass.terms.len() + usize::from(pass.plain.is_some());
        let tile = tile_rows(per_row * segments);
        let panels = self.to.cols().div_ceil(LINE);
        let mut maxima = Maxima::<L>::new();
        let mut start = self.rows.start;
        while start < self.rows.end {
            let rows = start..self.rows.end.min(start + tile);
            for (term, out) in pass.terms.iter().zip(self.scratch.chunks_exact_mut(tile * per_row)) {
                gather::rows::<L>(&term.adjacency, pass.from, rows.clone(), out);
            }
            if pass.plain.is_some() {
                gather::copy(pass.from, rows.clone(), &mut self.scratch[pass.terms.len() * tile * per_row..]);
            }
            let steps = rows.len().div_ceil(ROWS) * panels;
            let next = rows.end..self.rows.end.min(rows.end + tile);
            let mut fetch = Fetch { pass, next, steps, step: 0 };
            let mut panel = 0;
            while panel + PANELS <= panels {
                self.multiply::<L, ROWS, PANELS>(rows.clone(), panel, tile, &mut fetch, &mut maxima);
                panel += PANELS;
            }
            while panel < panels {
                self.multiply::<L, ROWS, 1>(rows.clone(), panel, tile, &mut fetch, &mut maxima);
                panel += 1;
            }
            start = rows.end;
        }
        L::fence();
        maxima.change(pass.norm.is_some_and(|norm| norm.u.is_some() || norm.v.is_some()))
    }
}

impl<F: Finish> Block<'_, '_, F> {
    /// Columns of `PANELS` panels for the rows of a tile: product, finish, store.
    #[inline(always)]
    fn multiply<L: Lanes, const ROWS: usize, const PANELS: usize>(
        &mut self,
        rows: Range<usize>,
        panel: usize,
        tile: usize,
        fetch: &mut Fetch<'_, '_, F>,
        maxima: &mut Maxima<L>,
    ) {
        let pass = self.pass;
        let per_row = gather::lines_per_row(pass.from.cols());
        let weights = pass.terms.iter().map(|term| term.weights).chain(pass.plain);
        let mut inverse_v = [L::splat(1.0); PANELS];
        if let Some(v) = pass.norm.and_then(|norm| norm.v) {
            for (offset, inverse) in inverse_v.iter_mut().enumerate() {
                *inverse = L::load(&line_of(v, panel + offset, |v| 1.0 / v));
            }
        }
        let mut first = rows.start;
        while first < rows.end {
            let mut sums = [[L::splat(0.0); PANELS]; ROWS];
            let at = (first - rows.start) * per_row;
            for (weights, gathered) in weights.clone().zip(self.scratch.chunks_exact(tile * per_row)) {
                let gathered = &gathered[at..at + ROWS * per_row];
                product::<L, ROWS, PANELS>(gathered, per_row, weights, panel, &mut sums);
            }
            for (row, sums) in (first..rows.end).zip(&sums) {
                for (offset, (&sum, &inverse_v)) in sums.iter().zip(&inverse_v).enumerate() {
                    self.finish_line::<L>(row, panel + offset, sum, inverse_v, maxima);
                }
            }
            fetch.share::<L>(PANELS);
            first += ROWS;
        }
    }

    #[inline(always)]
    fn finish_line<L: Lanes>(
        &mut self,
        row: usize,
        line: usize,
        sum: L,
        inverse_v: L,
        maxima: &mut Maxima<L>,
    ) {
        let pass = self.pass;
        let (cols, stride) = (self.to.cols(), self.to.stride());
        let mut new = pass.finish.line::<L>(row, line, sum);
        if cols < (line + 1) * LINE {
            // Padding stays zero, whatever the activation makes of zero.
            new = L::by_bits((1 << (cols - line * LINE)) - 1, new, L::splat(0.0));
        }
        if let Some(norm) = pass.norm {
            let old = load::<L>(pass.from, row, line);
            let factor = match norm.u {
                Some(u) => Some(inverse_v.mul(L::splat(1.0 / u[row]))),
                None => norm.v.map(|_| inverse_v),
            };
            maxima.note(old, new, factor);
        }
        let row = row - self.rows.start;
        if stride < LINE {
            let array = new.to_array();
            self.to.padded_row_mut(row).copy_from_slice(&array[..stride]);
            return;
        }
        let out = &mut self.to.lines_mut()[row * (stride / LINE) + line];
        if pass.is_large { new.stream(out) } else { new.store(out) }
    }
}

/// sums += gathered rows times `PANELS` panels of the weights.
#[inline(always)]
fn product<L: Lanes, const ROWS: usize, const PANELS: usize>(
    gathered: &[Line],
    per_row: usize,
    weights: &PackedWeights,
    panel: usize,
    sums: &mut [[L; PANELS]; ROWS],
) {
    let panels: [&[Line]; PANELS] = std::array::from_fn(|offset| weights.panel(panel + offset));
    for block in 0..per_row {
        let rows: [&[f32; LINE]; ROWS] = std::array::from_fn(|row| &gathered[row * per_row + block].0);
        let first = block * LINE;
        if first + LINE <= weights.inner() {
            let lines: [&[Line]; PANELS] = std::array::from_fn(|offset| &panels[offset][first..first + LINE]);
            for k in 0..LINE {
                rank_one(k, k, &rows, &lines, sums);
            }
        } else {
            for k in 0..weights.inner() - first {
                rank_one(k, first + k, &rows, &panels, sums);
            }
        }
    }
}

/// sums += column `k` of the rows times line `at` of each panel.
#[inline(always)]
fn rank_one<L: Lanes, const ROWS: usize, const PANELS: usize>(
    k: usize,
    at: usize,
    rows: &[&[f32; LINE]; ROWS],
    lines: &[&[Line]; PANELS],
    sums: &mut [[L; PANELS]; ROWS],
) {
    let mut weights = [L::splat(0.0); PANELS];
    for (weight, lines) in weights.iter_mut().zip(lines) {
        *weight = L::load(&lines[at]);
    }
    for (row, sums) in rows.iter().zip(sums) {
        let x = L::splat(row[k]);
        for (sum, &weight) in sums.iter_mut().zip(&weights) {
            *sum = x.mul_add(weight, *sum);
        }
    }
}

/// Fetches for the next tile, a share a step.
struct Fetch<'p, 'a, F> {
    pass: &'p Pass<'a, F>,
    next: Range<usize>,
    steps: usize,
    step: usize,
}

impl<F: Finish> Fetch<'_, '_, F> {
    #[inline(always)]
    fn share<L: Lanes>(&mut self, steps: usize) {
        let (from, step) = (self.step, self.step + steps);
        self.step = step;
        if self.next.is_empty() {
            return;
        }
        let part = |count: usize| count * from / self.steps..count * step.min(self.steps) / self.steps;
        let per_row = gather::lines_per_row(self.pass.from.cols());
        for term in self.pass.terms {
            let offsets = term.adjacency.offsets();
            let first = offsets[self.next.start] as usize;
            let count = (offsets[self.next.end] as usize - first).min(FETCHED_LINES / per_row);
            let part = part(count);
            gather::prefetch::<L>(&term.adjacency, self.pass.from, first + part.start..first + part.end);
        }
        let rows = part(self.next.len());
        let old = (self.pass.norm.is_some() || self.pass.plain.is_some()).then_some(self.pass.from);
        for matrix in [self.pass.finish.input(), old].into_iter().flatten() {
            let stride = matrix.stride();
            for row in rows.clone() {
                let start = matrix.padded().as_ptr().wrapping_add((self.next.start + row) * stride);
                for line in 0..stride.div_ceil(LINE) {
                    L::prefetch(start.cast::<Line>().wrapping_add(line));
                }
            }
        }
    }
}
