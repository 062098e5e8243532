//! Products that the gradients need: G^T (A^T X), G^T U, column sums, A G; blocked, in a fixed order, with no n x m temporary.
//! They add up; what is a gradient of what is for `solver` and `nn`.
//!
//! Sums over nodes are cut into a number of parts that depends on the shapes alone; each part is summed tile by tile into a
//! matrix of its own, and the parts are added in their order: the same bits on any number of threads. The parts take at
//! most `PARTS_BYTES` together (or four times the result, where that is more).

use std::ops::Range;

use super::adjacency::Factors;
use super::simd::{Isa, Kernel, Lanes};
use super::{AdjacencyRef, gather};
use crate::dense::{LINE, Line, Matrix, MatrixMut, MatrixRef};
use crate::parallel::RowBlocks;

/// Memory of the partial sums.
const PARTS_BYTES: usize = 64 << 20;
/// Partial sums at most, and at least.
const PARTS: Range<usize> = 4..64;
/// Rows that are gathered, then multiplied.
const TILE: usize = 48;

/// G^T (A^T X) (m x p): the gradient of W (X the state) and of Omega in the input map Omega U A (X the features).
pub fn weight(adjacency: AdjacencyRef<'_>, g: MatrixRef<'_>, x: MatrixRef<'_>) -> Matrix {
    if let Some(factors) = adjacency.factors() {
        let table = table(&factors, x);
        return transposed_product(Isa::chosen(), Some(factors.expand), g, table.view());
    }
    transposed_product(Isa::chosen(), Some(adjacency), g, x)
}

/// G^T U (m x p): the gradient of Omega in the input map Omega U, and of the read-out.
pub fn input(g: MatrixRef<'_>, u: MatrixRef<'_>) -> Matrix {
    transposed_product(Isa::chosen(), None, g, u)
}

/// Column sums of G: the gradient of a bias.
pub fn bias(g: MatrixRef<'_>) -> Vec<f32> {
    let blocks = RowBlocks::parts(g.rows(), &[], 1, PARTS.end);
    let sum = |_, rows: Range<usize>, ()| {
        let mut sum = vec![0.0; g.cols()];
        for row in rows {
            sum.iter_mut().zip(g.row(row)).for_each(|(sum, g)| *sum += g);
        }
        sum
    };
    let add = |mut a: Vec<f32>, b: Vec<f32>| {
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        a
    };
    blocks.run((), |(), _| ((), ()), sum, add).unwrap_or_else(|| vec![0.0; g.cols()])
}

/// A^T X or A G, by the adjacency given: the gradient of learned features, and the input A^T U computed once.
///
/// # Panics
/// Where shapes do not fit.
pub fn adjacency_times(
    blocks: &RowBlocks,
    adjacency: AdjacencyRef<'_>,
    from: MatrixRef<'_>,
    to: MatrixMut<'_>,
) {
    assert_eq!((adjacency.rows(), adjacency.columns()), (to.rows(), from.rows()), "an operator that fits");
    assert_eq!((blocks.rows(), from.cols()), (to.rows(), to.cols()), "rows in, rows out");
    match adjacency.factors() {
        Some(factors) => {
            let table = table(&factors, from);
            gather(blocks, factors.expand, table.view(), to);
        }
        None => gather(blocks, adjacency, from, to),
    }
}

/// The rows that differ, of an operator whose rows repeat.
fn table(factors: &Factors<'_>, from: MatrixRef<'_>) -> Matrix {
    let mut tables = [factors.collect.0, factors.core.0].map(|a| Matrix::zeros(a.rows(), from.cols()));
    fill_table(factors, from, &mut tables);
    let [_, table] = tables;
    table
}

/// The same into memory that is there: the first takes what is collected, the second the rows.
pub(super) fn fill_table(factors: &Factors<'_>, from: MatrixRef<'_>, [collected, rows]: &mut [Matrix; 2]) {
    gather(factors.collect.1, factors.collect.0, from, collected.view_mut());
    gather(factors.core.1, factors.core.0, collected.view(), rows.view_mut());
}

fn gather(blocks: &RowBlocks, adjacency: AdjacencyRef<'_>, from: MatrixRef<'_>, to: MatrixMut<'_>) {
    let isa = Isa::chosen();
    blocks.run(
        to,
        MatrixMut::split_at,
        |_, rows, to| isa.run(Gather { adjacency, from, rows, to }),
        |(), ()| (),
    );
}

/// A^T X for a block of rows.
struct Gather<'a> {
    adjacency: AdjacencyRef<'a>,
    from: MatrixRef<'a>,
    rows: Range<usize>,
    to: MatrixMut<'a>,
}

impl Kernel for Gather<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes, const ROWS: usize, const PANELS: usize>(mut self) {
        let stride = self.to.stride();
        for row in self.rows.clone() {
            let at = row - self.rows.start;
            if stride < LINE {
                let mut line = [Line([0.0; LINE])];
                gather::rows::<L>(&self.adjacency, self.from, row..row + 1, &mut line);
                self.to.padded_row_mut(at).copy_from_slice(&line[0].0[..stride]);
            } else {
                let per_row = stride / LINE;
                let out = &mut self.to.lines_mut()[at * per_row..][..per_row];
                gather::rows::<L>(&self.adjacency, self.from, row..row + 1, out);
            }
        }
    }
}

/// G^T S, S the gathered rows of X or X itself.
fn transposed_product(
    isa: Isa,
    adjacency: Option<AdjacencyRef<'_>>,
    g: MatrixRef<'_>,
    x: MatrixRef<'_>,
) -> Matrix {
    match adjacency {
        Some(a) => assert_eq!((a.rows(), a.columns()), (g.rows(), x.rows()), "an operator that fits"),
        None => assert_eq!(g.rows(), x.rows(), "as many rows on both sides"),
    }
    let per_row = gather::lines_per_row(x.cols());
    let lines = g.cols().next_multiple_of(Isa::TILE) * per_row;
    let parts = (PARTS_BYTES / (lines * size_of::<Line>()).max(1)).clamp(PARTS.start, PARTS.end);
    let offsets: Vec<_> = adjacency.iter().map(AdjacencyRef::offsets).collect();
    let blocks = RowBlocks::parts(g.rows(), &offsets, g.cols() as u64 / 8 + 1, parts);
    let sum = |_, rows: Range<usize>, ()| isa.run(Outer { adjacency, g, x, rows });
    let add = |mut a: Vec<Line>, b: Vec<Line>| {
        let (a_floats, b): (&mut [f32], &[f32]) =
            (bytemuck::cast_slice_mut(&mut a), bytemuck::cast_slice(&b));
        a_floats.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        a
    };
    let sum = blocks.run((), |(), _| ((), ()), sum, add).unwrap_or_default();
    let sum: &[f32] = bytemuck::cast_slice(&sum);
    let mut result = Matrix::zeros(g.cols(), x.cols());
    for (row, sum) in sum.chunks_exact((per_row * LINE).max(1)).take(g.cols()).enumerate() {
        result.row_mut(row).copy_from_slice(&sum[..x.cols()]);
    }
    result
}

/// G^T S over some rows.
struct Outer<'a> {
    adjacency: Option<AdjacencyRef<'a>>,
    g: MatrixRef<'a>,
    x: MatrixRef<'a>,
    rows: Range<usize>,
}

impl Kernel for Outer<'_> {
    /// Rows of the result, whole lines each; more of them than G has columns, the others zero.
    type Output = Vec<Line>;

    #[inline(always)]
    fn run<L: Lanes, const ROWS: usize, const PANELS: usize>(self) -> Vec<Line> {
        let per_row = gather::lines_per_row(self.x.cols());
        let width = self.g.cols().next_multiple_of(Isa::TILE);
        let zero = Line([0.0; LINE]);
        let mut sums = vec![zero; width * per_row];
        let mut gathered = vec![zero; TILE * per_row];
        let mut factors = vec![0.0; TILE * width];
        let mut start = self.rows.start;
        while start < self.rows.end {
            let rows = start..self.rows.end.min(start + TILE);
            match &self.adjacency {
                Some(adjacency) => gather::rows::<L>(adjacency, self.x, rows.clone(), &mut gathered),
                None => gather::copy(self.x, rows.clone(), &mut gathered),
            }
            for (row, factors) in rows.clone().zip(factors.chunks_exact_mut(width)) {
                factors[..self.g.cols()].copy_from_slice(self.g.row(row));
            }
            for line in 0..per_row {
                for first in (0..width).step_by(ROWS) {
                    let mut sum = [L::splat(0.0); ROWS];
                    for (offset, sum) in sum.iter_mut().enumerate() {
                        *sum = L::load(&sums[(first + offset) * per_row + line]);
                    }
                    let tile = gathered.chunks_exact(per_row).zip(factors.chunks_exact(width));
                    for (gathered, factors) in tile.take(rows.len()) {
                        let x = L::load(&gathered[line]);
                        for (sum, &g) in sum.iter_mut().zip(&factors[first..first + ROWS]) {
                            *sum = L::splat(g).mul_add(x, *sum);
                        }
                    }
                    for (offset, sum) in sum.into_iter().enumerate() {
                        sum.store(&mut sums[(first + offset) * per_row + line]);
                    }
                }
            }
            start = rows.end;
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::{self, Operator, Random};
    use crate::parallel::with_threads;

    fn outer(g: MatrixRef<'_>, s: &naive::Rows) -> naive::Rows {
        let width = s.first().map_or(0, Vec::len);
        let entry = |k: usize, l: usize| (0..g.rows()).map(|i| f64::from(g.row(i)[k]) * s[i][l]).sum();
        (0..g.cols()).map(|k| (0..width).map(|l| entry(k, l)).collect()).collect()
    }

    #[test]
    fn products_are_the_naive_loops() {
        for (seed, m, p) in [(0, 1, 1), (1, 3, 5), (2, 16, 16), (3, 17, 40), (4, 64, 7), (5, 33, 100)] {
            let random = &mut Random(seed);
            let operator = Operator::random(random, 150, 130, seed as usize);
            let (g, x, u) = (random.matrix(150, m), random.matrix(130, p), random.matrix(150, p));
            let expected = outer(g.view(), &naive::gather(operator.view(), x.view()));
            let plain = (0..150).map(|i| u.row(i).iter().map(|&x| f64::from(x)).collect()).collect();
            for isa in Isa::available() {
                let found = transposed_product(isa, Some(operator.view()), g.view(), x.view());
                naive::assert_close(found.view(), &expected, &format!("{} weight {m} {p}", isa.name()));
                let found = transposed_product(isa, None, g.view(), u.view());
                naive::assert_close(found.view(), &outer(g.view(), &plain), &format!("input {m} {p}"));
            }
            let sums = bias(g.view());
            for (k, sum) in sums.iter().enumerate() {
                let expected: f64 = (0..150).map(|i| f64::from(g.row(i)[k])).sum();
                assert!((f64::from(*sum) - expected).abs() < 1e-4);
            }
            let blocks = RowBlocks::balanced(150, &[operator.view().offsets()], 2000);
            let mut to = Matrix::from_fn(150, p, |_, _| f32::NAN);
            adjacency_times(&blocks, operator.view(), x.view(), to.view_mut());
            naive::assert_close(to.view(), &naive::gather(operator.view(), x.view()), "gather");
        }
    }

    #[test]
    fn sums_have_the_same_bits_on_any_number_of_threads() {
        let random = &mut Random(7);
        let operator = Operator::random(random, 3000, 3000, 2);
        let (g, x) = (random.matrix(3000, 24), random.matrix(3000, 40));
        let run = |threads| {
            with_threads(threads, || {
                let sum = weight(operator.view(), g.view(), x.view());
                let bits = |x: &f32| x.to_bits();
                let bias: Vec<_> = bias(g.view()).iter().map(bits).collect();
                (sum.view().padded().iter().map(bits).collect::<Vec<_>>(), bias)
            })
        };
        let one = run(1);
        assert!(one == run(2) && one == run(4));
    }

    #[test]
    fn no_rows_give_zeros() {
        let (g, u) = (Matrix::zeros(0, 3), Matrix::zeros(0, 5));
        assert_eq!(input(g.view(), u.view()).row(2), [0.0; 5]);
        assert_eq!(bias(g.view()), [0.0; 3]);
    }
}
