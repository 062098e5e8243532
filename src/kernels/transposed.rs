//! G^T S over all nodes, where S is X or its gathered rows: the product of every weight's gradient.
//! There are two algorithms, chosen by the shapes alone. Both sum in a fixed order, so that the
//! bits are the same on any number of threads.
//!
//! Small results (`by_nodes`): the nodes are cut into parts. Each part is summed tile by tile into
//! a matrix of its own that stays in cache, and the parts are added in order. No matrix of n rows
//! is written.
//!
//! Wide results (`by_bands`) are too large for copies. Some nodes at a time are gathered and packed
//! as the right factor of a product whose left factor is G^T. Bands of rows of the result are then
//! summed by the micro-kernel of the sweeps, over all nodes in order.

use std::ops::Range;

use rayon::prelude::*;

use super::ahead::GatheredRows;
use super::product::{load, product, store};
use super::simd::{Isa, Kernel, Lanes};
use super::{AdjacencyRef, PackedWeights, gather};
use crate::dense::{LINE, Line, Matrix, MatrixRef};
use crate::parallel::{RowBlocks, Rows};

/// Results from this many bytes on are wide: they no longer fit the second-level cache.
const WIDE: usize = 1 << 20;
/// Largest number of parts of the nodes; together they take at most this times [`WIDE`].
const PARTS: usize = 64;
/// Rows that are gathered before they are multiplied.
const TILE: usize = 48;
/// Nodes that are packed together, in lines.
const SLICE_LINES: usize = 4;
const SLICE: usize = SLICE_LINES * LINE;
/// Bytes of nodes that are packed at a time.
const PACKED_BYTES: usize = 4 << 20;
/// Rows of the result per task.
const BAND: usize = 8 * Isa::TILE;
const ZERO: Line = Line([0.0; LINE]);

/// G^T S; over the rows of all ranks, if they are given. With rows of S that were gathered ahead, X
/// is not read.
///
/// # Panics
/// If shapes do not match.
pub(super) fn transposed_product(
    isa: Isa,
    rows: Option<&Rows>,
    adjacency: Option<AdjacencyRef<'_>>,
    g: MatrixRef<'_>,
    x: MatrixRef<'_>,
    ahead: Option<&GatheredRows>,
) -> Matrix {
    assert!(rows.is_none_or(|rows| rows.len() == g.rows()), "a row of G for each row");
    match adjacency {
        Some(a) if ahead.is_some() => assert_eq!(a.rows(), g.rows(), "as many rows on both sides"),
        Some(a) => {
            assert_eq!((a.rows(), a.columns()), (g.rows(), x.rows()), "an operator that fits");
        }
        None => assert_eq!(g.rows(), x.rows(), "as many rows on both sides"),
    }
    let factors = Factors { isa, adjacency, g, x, ahead };
    if factors.result_lines() * size_of::<Line>() < WIDE || x.cols() < LINE {
        by_nodes(isa, rows, factors)
    } else {
        let result = Matrix::zeros(g.cols(), x.cols());
        let Some(rows) = rows.filter(|rows| !rows.is_alone()) else {
            return by_bands(isa, factors, result);
        };
        // One rank continues from the sums of the one before.
        let mut result = result;
        let start = result.all_lines().to_vec();
        let sum = rows.chain(start, |before| {
            let mut sum = Matrix::zeros(g.cols(), x.cols());
            sum.all_lines_mut().copy_from_slice(&before);
            by_bands(isa, factors, sum).all_lines().to_vec()
        });
        result.all_lines_mut().copy_from_slice(&sum);
        result
    }
}

#[derive(Clone, Copy)]
struct Factors<'a> {
    isa: Isa,
    adjacency: Option<AdjacencyRef<'a>>,
    g: MatrixRef<'a>,
    x: MatrixRef<'a>,
    ahead: Option<&'a GatheredRows>,
}

impl Factors<'_> {
    /// Number of lines of the result, in whole tiles of rows.
    fn result_lines(&self) -> usize {
        self.g.cols().next_multiple_of(Isa::TILE) * gather::lines_per_row(self.x.cols())
    }

    /// Some rows of S.
    #[inline(always)]
    fn gather(&self, rows: Range<usize>, out: &mut [Line]) {
        match (self.ahead, self.adjacency) {
            (Some(ahead), _) => ahead.copy(rows, out),
            (None, Some(adjacency)) => gather::rows(self.isa, adjacency, self.x, rows, out),
            (None, None) => gather::copy(self.x, rows, out),
        }
    }
}

fn by_nodes(isa: Isa, rows: Option<&Rows>, factors: Factors<'_>) -> Matrix {
    let Factors { adjacency, g, x, .. } = factors;
    let part = |rows: Range<usize>| isa.dispatch(Part { factors, rows });
    let add = |mut a: Vec<Line>, b: Vec<Line>| {
        let (a_floats, b): (&mut [f32], &[f32]) =
            (bytemuck::cast_slice_mut(&mut a), bytemuck::cast_slice(&b));
        a_floats.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        a
    };
    let sum = match rows {
        Some(rows) => rows.sum(part, add),
        None => {
            let offsets: Vec<_> = adjacency.iter().map(AdjacencyRef::offsets).collect();
            let blocks = RowBlocks::parts(g.rows(), &offsets, g.cols() as u64 / 8 + 1, PARTS);
            blocks.map_reduce((), |(), _| ((), ()), |_, rows, ()| part(rows), add)
        }
    };
    let sum = sum.unwrap_or_default();
    let sum: &[f32] = bytemuck::cast_slice(&sum);
    let mut result = Matrix::zeros(g.cols(), x.cols());
    let width = gather::lines_per_row(x.cols()) * LINE;
    for (row, sum) in sum.chunks_exact(width.max(1)).take(g.cols()).enumerate() {
        result.row_mut(row).copy_from_slice(&sum[..x.cols()]);
    }
    result
}

/// G^T S over some nodes.
struct Part<'a> {
    factors: Factors<'a>,
    rows: Range<usize>,
}

impl Kernel for Part<'_> {
    /// Rows of the result in whole lines, padded with zero rows to whole tiles.
    type Output = Vec<Line>;

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) -> Vec<Line> {
        let Factors { g, x, .. } = self.factors;
        let per_row = gather::lines_per_row(x.cols());
        let width = g.cols().next_multiple_of(Isa::TILE);
        let mut sums = vec![ZERO; width * per_row];
        let mut gathered = vec![ZERO; TILE * per_row];
        let mut factors = vec![0.0; TILE * width];
        let mut start = self.rows.start;
        while start < self.rows.end {
            let rows = start..self.rows.end.min(start + TILE);
            self.factors.gather(rows.clone(), &mut gathered);
            for (row, factors) in rows.clone().zip(factors.chunks_exact_mut(width)) {
                factors[..g.cols()].copy_from_slice(g.row(row));
            }
            let tile =
                Outer { gathered: &gathered, factors: &factors, rows: rows.len(), per_row, width };
            let mut line = 0;
            while line + PANELS <= per_row {
                tile.add_to::<L, ROWS, PANELS>(line, &mut sums);
                line += PANELS;
            }
            while line < per_row {
                tile.add_to::<L, ROWS, 1>(line, &mut sums);
                line += 1;
            }
            start = rows.end;
        }
        sums
    }
}

/// A tile of nodes: rows of S and of G.
struct Outer<'a> {
    gathered: &'a [Line],
    factors: &'a [f32],
    rows: usize,
    per_row: usize,
    width: usize,
}

impl Outer<'_> {
    /// Adds its product to `PANELS` lines of all rows of the result.
    #[inline(always)]
    fn add_to<L: Lanes, const ROWS: usize, const PANELS: usize>(
        &self,
        line: usize,
        sums: &mut [Line],
    ) {
        for first in (0..self.width).step_by(ROWS) {
            let mut sum =
                load::<L, ROWS, PANELS>(&sums[first * self.per_row + line..], self.per_row, ROWS);
            let tile =
                self.gathered.chunks_exact(self.per_row).zip(self.factors.chunks_exact(self.width));
            for (gathered, factors) in tile.take(self.rows) {
                let lines = &gathered[line..line + PANELS];
                let factors = &factors[first..first + ROWS];
                for row in 0..ROWS {
                    let g = L::splat(factors[row]);
                    for panel in 0..PANELS {
                        sum[row][panel] = g.mul_add(L::load(&lines[panel]), sum[row][panel]);
                    }
                }
            }
            store(sum, &mut sums[first * self.per_row + line..], self.per_row, ROWS);
        }
    }
}

/// Adds to `result`.
fn by_bands(isa: Isa, factors: Factors<'_>, mut result: Matrix) -> Matrix {
    let Factors { g, x, .. } = factors;
    let per_row = gather::lines_per_row(x.cols());
    let slice = Slice {
        left: vec![ZERO; g.cols().next_multiple_of(Isa::TILE) * SLICE_LINES],
        right: PackedWeights::zeros(SLICE, x.cols()),
        row: vec![ZERO; per_row],
    };
    let bytes = (slice.left.len() + SLICE * per_row) * size_of::<Line>();
    let count = (PACKED_BYTES / bytes).clamp(1, g.rows().div_ceil(SLICE).max(1));
    let mut slices = vec![slice; count];
    for start in (0..g.rows()).step_by(count * SLICE) {
        let end = g.rows().min(start + count * SLICE);
        let slices = &mut slices[..(end - start).div_ceil(SLICE)];
        slices.par_iter_mut().enumerate().for_each(|(at, slice)| {
            let first = start + at * SLICE;
            isa.dispatch(Pack { factors, rows: first..end.min(first + SLICE), slice });
        });
        let slices = &*slices;
        let bands = result.all_lines_mut().par_chunks_mut(BAND * per_row).enumerate();
        bands.for_each(|(at, band)| isa.dispatch(Band { slices, first: at * BAND, per_row, band }));
    }
    result
}

/// Some nodes: the columns of G^T and the rows of S, as the micro-kernel reads them.
#[derive(Clone)]
struct Slice {
    left: Vec<Line>,
    right: PackedWeights,
    /// A gathered row of S.
    row: Vec<Line>,
}

/// Fills a slice; nodes beyond the last are zero.
struct Pack<'a> {
    factors: Factors<'a>,
    rows: Range<usize>,
    slice: &'a mut Slice,
}

impl Kernel for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) {
        let Slice { left, right, row } = self.slice;
        for at in 0..SLICE {
            let node = self.rows.start + at;
            match node < self.rows.end {
                true => self.factors.gather(node..node + 1, row),
                false => row.fill(ZERO),
            }
            right.set_row(at, row);
        }
        let g = self.factors.g;
        for block in 0..SLICE_LINES {
            let start = self.rows.start + block * LINE;
            let nodes = start..self.rows.end.min(start + LINE);
            for first in (0..g.cols()).step_by(LINE) {
                let mut lines = [ZERO; LINE];
                for (at, node) in nodes.clone().enumerate() {
                    for (line, &value) in lines.iter_mut().zip(&g.row(node)[first..]) {
                        line.0[at] = value;
                    }
                }
                for (column, line) in (first..g.cols()).zip(lines) {
                    left[column * SLICE_LINES + block] = line;
                }
            }
        }
    }
}

/// Some rows of the result, to which all nodes of the slices are added.
struct Band<'a> {
    slices: &'a [Slice],
    first: usize,
    per_row: usize,
    band: &'a mut [Line],
}

impl Kernel for Band<'_> {
    type Output = ();

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(mut self) {
        let mut panel = 0;
        while panel + PANELS <= self.per_row {
            self.columns::<L, ROWS, PANELS>(panel);
            panel += PANELS;
        }
        while panel < self.per_row {
            self.columns::<L, ROWS, 1>(panel);
            panel += 1;
        }
    }
}

impl Band<'_> {
    #[inline(always)]
    fn columns<L: Lanes, const ROWS: usize, const PANELS: usize>(&mut self, panel: usize) {
        let rows = self.band.len() / self.per_row;
        for first in (0..rows).step_by(ROWS) {
            let count = ROWS.min(rows - first);
            let band = &mut self.band[first * self.per_row + panel..];
            let mut sums = load::<L, ROWS, PANELS>(band, self.per_row, count);
            for slice in self.slices {
                let left = &slice.left[(self.first + first) * SLICE_LINES..][..ROWS * SLICE_LINES];
                sums = product::<L, ROWS, PANELS>(
                    left,
                    SLICE_LINES,
                    &slice.right,
                    panel,
                    (&[], 0),
                    sums,
                );
            }
            store(sums, band, self.per_row, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::{self, Operator, Random};
    use crate::parallel::with_threads;

    fn outer(g: MatrixRef<'_>, s: &naive::Rows) -> naive::Rows {
        let width = s.first().map_or(0, Vec::len);
        let entry =
            |k: usize, l: usize| (0..g.rows()).map(|i| f64::from(g.row(i)[k]) * s[i][l]).sum();
        (0..g.cols()).map(|k| (0..width).map(|l| entry(k, l)).collect()).collect()
    }

    #[test]
    fn products_are_the_naive_loops_in_both_ways() {
        for (seed, m, p) in
            [(0, 1, 1), (1, 3, 5), (2, 16, 16), (3, 17, 40), (4, 64, 7), (5, 133, 100)]
        {
            let random = &mut Random(seed);
            let operator = Operator::random(random, 150, 130, seed as usize);
            let (g, x, u) = (random.matrix(150, m), random.matrix(130, p), random.matrix(150, p));
            let gathered = outer(g.view(), &naive::gather(operator.view(), x.view()));
            let rows = (0..150).map(|i| u.row(i).iter().map(|&x| f64::from(x)).collect()).collect();
            let plain = outer(g.view(), &rows);
            for isa in Isa::available() {
                let name = isa.name();
                for (adjacency, x, expected) in
                    [(Some(operator.view()), x.view(), &gathered), (None, u.view(), &plain)]
                {
                    let factors = Factors { isa, adjacency, g: g.view(), x, ahead: None };
                    naive::assert_close(
                        by_nodes(isa, None, factors).view(),
                        expected,
                        &format!("{name} {m} {p}"),
                    );
                    if p >= LINE {
                        let found = by_bands(isa, factors, Matrix::zeros(m, p));
                        naive::assert_close(
                            found.view(),
                            expected,
                            &format!("bands {name} {m} {p}"),
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn sums_have_the_same_bits_on_any_number_of_threads() {
        let random = &mut Random(7);
        let operator = Operator::random(random, 3000, 3000, 2);
        let (g, x) = (random.matrix(3000, 100), random.matrix(3000, 40));
        let run = |way: fn(Isa, Factors<'_>) -> Matrix, threads| {
            with_threads(threads, || {
                let (isa, adjacency) = (Isa::chosen(), Some(operator.view()));
                let factors = Factors { isa, adjacency, g: g.view(), x: x.view(), ahead: None };
                way(isa, factors).view().padded().iter().map(|x| x.to_bits()).collect::<Vec<_>>()
            })
        };
        fn nodes(isa: Isa, factors: Factors<'_>) -> Matrix {
            by_nodes(isa, None, factors)
        }
        fn bands(isa: Isa, factors: Factors<'_>) -> Matrix {
            by_bands(isa, factors, Matrix::zeros(factors.g.cols(), factors.x.cols()))
        }
        for way in [nodes, bands] {
            let one = run(way, 1);
            assert!(one == run(way, 2) && one == run(way, 4));
        }
    }
}
