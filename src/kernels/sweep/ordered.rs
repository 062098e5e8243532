//! Rows of a state solved one after the other: all that a solve needs if no row gathers from a
//! later one. The caller provides the order. A wrong order gives wrong values but is otherwise
//! safe.
//!
//! What a row gathers from other rows is gathered and multiplied once; only its own loop is
//! iterated, in cache.

use super::super::PackedWeights;
use super::super::gather;
use super::super::simd::{Kernel, Lanes};
use super::Term;
use super::finish::{Finish, clear_padding};
use super::pass::Tile;
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
    /// Rows that gather from nothing but themselves, ascending. Solved in parallel.
    Alone(&'a [u32]),
}

impl Settled {
    /// The outcome of both.
    pub fn merge(self, other: Self) -> Self {
        Self { updates: self.updates + other.updates, is_finite: self.is_finite && other.is_finite }
    }
}

/// The pass.
pub(super) struct Ordered<'p, F> {
    pub terms: &'p [Term<'p>],
    pub finish: &'p F,
    pub order: &'p [u32],
    pub tolerance: f32,
    pub repeats: usize,
    /// The state from row `first` on; contains all rows that are gathered.
    pub state: MatrixMut<'p>,
    pub first: usize,
    pub scratch: &'p mut Tile,
}

impl<F: Finish> Kernel for Ordered<'_, F> {
    type Output = Settled;

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(mut self) -> Settled {
        let (cols, stride) = (self.state.cols(), self.state.stride());
        let panels = gather::lines_per_row(cols);
        self.scratch.check(panels, 3 * panels, panels);
        let (gathered, products) = (&mut self.scratch.gathered, &mut self.scratch.products);
        let gathered = &mut gathered[..panels];
        let (outer, rest) = products.split_at_mut(panels);
        let (new, rest) = rest.split_at_mut(panels);
        let old = &mut rest[..panels];
        let zero = Line([0.0; LINE]);
        let mut settled = Settled { updates: 0, is_finite: true };
        for &row in self.order {
            let row = row as usize;
            outer.fill(zero);
            let mut loops = false;
            for term in self.terms {
                gathered.fill(zero);
                for (column, value) in term.adjacency.entries(row) {
                    if column == row {
                        loops = true;
                        continue;
                    }
                    let (mut narrow, value) = ([zero], L::splat(value));
                    let from = line_row(self.state.as_ref(), column - self.first, &mut narrow);
                    for (sum, x) in gathered.iter_mut().zip(from) {
                        L::load(x).mul_add(value, L::load(sum)).store(sum);
                    }
                }
                multiply::<L>(gathered, term.weights, 1.0, outer);
            }
            let mut narrow = [zero];
            old.copy_from_slice(line_row(self.state.as_ref(), row - self.first, &mut narrow));
            for _ in 0..self.repeats.max(1) {
                new.copy_from_slice(outer);
                for term in self.terms.iter().filter(|_| loops) {
                    for (_, value) in term.adjacency.entries(row).filter(|entry| entry.0 == row) {
                        multiply::<L>(old, term.weights, value, new);
                    }
                }
                finish_row::<L>(self.finish, row, stride, new);
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
                if !loops || moved <= self.tolerance * size {
                    break;
                }
            }
            let row = row - self.first;
            if stride < LINE {
                self.state.padded_row_mut(row).copy_from_slice(&old[0].0[..stride]);
            } else {
                self.state.lines_mut()[row * panels..][..panels].copy_from_slice(old);
            }
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
