//! A pass over a block of rows of a shared state: each row reads whatever is newest and is replaced at once.
//! The product and all that follows are those of the pass between two states; only reading and writing differ.
//!
//! Neighbours are copied number by number, as relaxed atomics must be, a whole row before it is added in registers: lines
//! read just after their numbers were written would wait for them.

use std::ops::Range;

use super::super::simd::{Kernel, Lanes};
use super::super::{AdjacencyRef, Change, Norm, gather};
use super::Term;
use super::finish::{Finish, Maxima, clear_padding};
use super::pass::{self, Tile, tile_rows};
use crate::dense::{LINE, Line, SharedMatrix};

/// Entries that are fetched ahead of the one that is added.
const AHEAD: usize = 8;

/// What all blocks of a pass share.
pub(super) struct InPlace<'a, F> {
    pub terms: &'a [Term<'a>],
    pub state: &'a SharedMatrix,
    pub finish: F,
    pub norm: Norm<'a>,
    /// Whether rows are replaced, or only compared with what they would become.
    pub writes: bool,
}

/// A pass over one block.
pub(super) struct InPlaceBlock<'p, 'a, F> {
    pub pass: &'p InPlace<'a, F>,
    pub rows: Range<usize>,
    pub scratch: &'p mut Tile,
}

impl<F: Finish> Kernel for InPlaceBlock<'_, '_, F> {
    type Output = Change;

    #[inline(always)]
    fn run<L: Lanes, const ROWS: usize, const PANELS: usize>(mut self) -> Change {
        let pass = self.pass;
        let panels = gather::lines_per_row(pass.state.cols());
        let tile = tile_rows(panels * pass.terms.len());
        self.scratch.check(tile * panels * pass.terms.len(), tile * panels, panels);
        self.scratch.invert(pass.norm.v);
        let mut maxima = Maxima::<L>::new();
        let mut start = self.rows.start;
        while start < self.rows.end {
            let rows = start..self.rows.end.min(start + tile);
            let Tile { gathered, products, .. } = &mut *self.scratch;
            for (term, out) in pass.terms.iter().zip(gathered.chunks_exact_mut(tile * panels)) {
                // Products come later: until then their place takes the copies.
                gather_rows::<L>(&term.adjacency, pass.state, rows.clone(), &mut products[..panels], out);
            }
            let mut panel = 0;
            while panel + PANELS <= panels {
                self.multiply::<L, ROWS, PANELS>(rows.len(), panel, tile);
                panel += PANELS;
            }
            while panel < panels {
                self.multiply::<L, ROWS, 1>(rows.len(), panel, tile);
                panel += 1;
            }
            for row in rows.clone() {
                self.finish_row::<L>(row, row - rows.start, &mut maxima);
            }
            start = rows.end;
        }
        maxima.change(pass.norm.u.is_some() || pass.norm.v.is_some())
    }
}

impl<F: Finish> InPlaceBlock<'_, '_, F> {
    #[inline(always)]
    fn multiply<L: Lanes, const ROWS: usize, const PANELS: usize>(
        &mut self,
        rows: usize,
        panel: usize,
        tile: usize,
    ) {
        let terms = self.pass.terms;
        let panels = gather::lines_per_row(self.pass.state.cols());
        let Tile { gathered, products, .. } = &mut *self.scratch;
        let mut first = 0;
        while first < rows {
            let mut sums = [[L::splat(0.0); PANELS]; ROWS];
            for (term, gathered) in terms.iter().zip(gathered.chunks_exact(tile * panels)) {
                let gathered = &gathered[first * panels..][..ROWS * panels];
                sums = pass::product::<L, ROWS, PANELS>(gathered, panels, term.weights, panel, &[], sums);
            }
            pass::store(sums, &mut products[first * panels + panel..], panels);
            first += ROWS;
        }
    }

    /// Finishes a row, the one at `at` of the tile, and replaces it.
    #[inline(always)]
    fn finish_row<L: Lanes>(&mut self, row: usize, at: usize, maxima: &mut Maxima<L>) {
        let InPlace { state, finish, norm, writes, .. } = self.pass;
        let cols = state.cols();
        let panels = gather::lines_per_row(cols);
        let Tile { gathered, products, inverse_v, .. } = &mut *self.scratch;
        let new = &mut products[at * panels..][..panels];
        finish.row::<L>(row, new);
        clear_padding::<L>(new, cols);
        // The tile is multiplied: what it gathered is no longer needed.
        let old = &mut gathered[..panels];
        for (line, old) in old.iter_mut().enumerate() {
            state.load(row, line, old);
        }
        maxima.note_in(norm, row, old, new, inverse_v);
        if *writes {
            for (line, new) in new.iter().enumerate() {
                state.store(row, line, new);
            }
        }
    }
}

/// Rows of A^T X into `out`, whole lines a row; `copy` takes a row.
#[inline(always)]
fn gather_rows<L: Lanes>(
    adjacency: &AdjacencyRef<'_>,
    state: &SharedMatrix,
    rows: Range<usize>,
    copy: &mut [Line],
    out: &mut [Line],
) {
    let neighbours = adjacency.neighbours();
    let per_row = gather::lines_per_row(state.cols());
    for (row, out) in rows.zip(out.chunks_exact_mut(per_row.max(1))) {
        out.fill(Line([0.0; LINE]));
        let shift = adjacency.shift(row);
        for entry in adjacency.range(row) {
            if let Some(&next) = neighbours.get(entry + AHEAD) {
                let next = state.address(next.wrapping_sub(shift) as usize);
                for line in 0..per_row {
                    L::prefetch(next.wrapping_add(line));
                }
            }
            let neighbour = neighbours[entry];
            let column = neighbour.wrapping_sub(shift) as usize;
            let value = adjacency.values().map_or(1.0, |values| values[entry]);
            let scale = adjacency.gather_scale().map_or(1.0, |scale| scale[neighbour as usize]);
            let weight = L::splat(value * scale);
            for (line, copy) in copy.iter_mut().enumerate() {
                state.load(column, line, copy);
            }
            for (x, sum) in copy.iter().zip(&mut *out) {
                L::load(x).mul_add(weight, L::load(sum)).store(sum);
            }
        }
        if adjacency.row_scale().is_some() {
            let scale = L::splat(adjacency.row_factor(row));
            for sum in out {
                L::load(sum).mul(scale).store(sum);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::naive::{Operator, Random};
    use super::super::super::{Activation, Derivative, Isa, PackedWeights};
    use super::super::{Sweep, SweepScratch, blocks};
    use super::*;
    use crate::dense::Matrix;

    /// A look at a state tells what a sweep would do to it; and where nothing that changes is read, replacing gives
    /// what the sweep gives.
    #[test]
    fn it_computes_what_the_sweep_between_two_states_computes() {
        let random = &mut Random(31);
        for (width, parts) in [(1, 0), (3, 1), (8, 2), (16, 7), (37, 4), (70, 3)] {
            let (rows, sinks) = (300, 150);
            // Rows gather from the second half, which has no entries of its own.
            let mut operators = [0, 1].map(|_| Operator::random(random, sinks, rows - sinks, parts));
            for operator in &mut operators {
                operator.columns = rows;
                operator.neighbours.iter_mut().for_each(|column| *column += sinks as u32);
                let end = operator.neighbours.len() as u64;
                operator.offsets.resize(rows + 1, end);
                operator.gather_scale = operator.gather_scale.as_ref().map(|_| random.vector(rows));
                operator.row_scale = operator.row_scale.as_ref().map(|_| random.vector(rows));
            }
            let weights = [0, 1].map(|_| PackedWeights::forward(random.matrix(width, width).view()));
            let terms: Vec<_> = operators
                .iter()
                .zip(&weights)
                .map(|(operator, weights)| Term { adjacency: operator.view(), weights })
                .collect();
            let (blocks, input) = (blocks(&terms), random.matrix(rows, width));
            let (u, v) = (random.vector(rows), random.vector(width));
            let norm = Norm { u: Some(&u), v: Some(&v), rows: None };
            for isa in Isa::available() {
                let scratch = SweepScratch::with_widths(&[width, width], width, isa);
                let sweep = Sweep { blocks: &blocks, terms: &terms, input: input.view(), scratch: &scratch };
                let mut start = random.matrix(rows, width);
                for row in sinks..rows {
                    let activated: Vec<_> =
                        input.row(row).iter().map(|&z| Activation::LeakyRelu(0.5).value(z)).collect();
                    start.row_mut(row).copy_from_slice(&activated);
                }
                let mut expected = Matrix::zeros(rows, width);
                let activation = Activation::LeakyRelu(0.5);
                let change = sweep.forward(activation, norm, start.view(), expected.view_mut());
                let shared = SharedMatrix::of(start.view());
                let close = |x: f32, y: f32| (x - y).abs() <= 1e-5 * x.abs().max(1.0);
                for writes in [false, true] {
                    let found = sweep.forward_in_place(activation, norm, &shared, writes);
                    assert!(close(found.weighted, change.weighted) && found.finite, "{found:?} {change:?}");
                    assert!(close(found.largest, change.largest) && close(found.state, change.state));
                }
                let found = shared.to_matrix();
                for row in 0..rows {
                    let close = found.row(row).iter().zip(expected.row(row)).all(|(x, y)| close(*x, *y));
                    assert!(close, "{} {width}: row {row}", isa.name());
                }
                let derivative = Derivative::State { activation, state: start.view() };
                let change = sweep.adjoint(derivative, norm, start.view(), expected.view_mut());
                let found = sweep.adjoint_in_place(derivative, norm, &SharedMatrix::of(start.view()), false);
                assert!(close(found.weighted, change.weighted) && close(found.largest, change.largest));
            }
        }
    }
}
