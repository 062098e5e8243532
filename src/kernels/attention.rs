//! Graph attention over the edges of a relation: the weighted sums of the forward pass, and the two
//! passes over edges of the backward. Scores, biases and activations are the caller's.
//!
//! | symbol | shape | meaning |
//! | --- | --- | --- |
//! | H | n x heads f | rows that are attended to; head k has columns `k f .. (k + 1) f` |
//! | s, d | n x heads | scores of a node as source and as target |
//! | Y, g | n x heads f or n x f | result and its gradient; heads are averaged in the second form |
//!
//! ```text
//! e_ij = lrelu(s_j + d_i)    alpha_ij = exp(e_ij) / sum_l exp(e_il)    Y_i = sum_j alpha_ij mask_ij H_j
//! ```
//! Nothing is stored per edge: weights follow from s, d and two numbers per row and head (the
//! largest e, and one over the sum). Every row is summed in its stored order: the same bits on any
//! number of threads. Loops are plain code, compiled for each instruction set by `Isa::dispatch`.

use std::ops::Range;

use super::AdjacencyRef;
use super::simd::{Isa, Kernel, Lanes};
use crate::dense::{MatrixMut, MatrixRef};
use crate::parallel::RowBlocks;

/// Slope of lrelu below zero.
const SLOPE: f32 = 0.2;
/// Sums of a dot product that are kept apart, so that it can use vector registers.
const SUMS: usize = 32;

/// What the weights of all edges follow from.
#[derive(Clone, Copy)]
pub struct Weights<'a, F> {
    /// s, one column per head.
    pub source: MatrixRef<'a>,
    /// d, one column per head.
    pub target: MatrixRef<'a>,
    /// mask: what the weight of an edge is multiplied by, from its ends by their stored numbers
    /// (from, to) and its head.
    pub mask: F,
}

/// What both passes of the backward read.
#[derive(Clone, Copy)]
pub struct Backward<'a, F> {
    /// The weights.
    pub weights: Weights<'a, F>,
    /// Of every row and head: the largest e, then one over the sum of exponentials, as [`forward`]
    /// left them.
    pub softmax: MatrixRef<'a>,
    /// H
    pub h: MatrixRef<'a>,
    /// g
    pub g: MatrixRef<'a>,
    /// What g is multiplied by.
    pub share: f32,
}

impl<F: Fn(u32, u32, usize) -> f32 + Copy + Sync> Weights<'_, F> {
    fn heads(self) -> usize {
        self.source.cols()
    }

    /// e and the slope of lrelu there, of the edge from j to i in a head.
    #[inline(always)]
    fn score(self, j: usize, i: usize, head: usize) -> (f32, f32) {
        let z = self.source.row(j)[head] + self.target.row(i)[head];
        if z > 0.0 { (z, 1.0) } else { (SLOPE * z, SLOPE) }
    }
}

/// The columns of a head in rows that have all heads, or that all heads share.
#[inline(always)]
fn part(head: usize, f: usize, cols: usize) -> Range<usize> {
    if cols == f { 0..f } else { head * f..(head + 1) * f }
}

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; SUMS];
    let (chunks_a, chunks_b) = (a.chunks_exact(SUMS), b.chunks_exact(SUMS));
    let rest = chunks_a.remainder().iter().zip(chunks_b.remainder());
    for (sum, (a, b)) in sums.iter_mut().zip(rest) {
        *sum = a * b;
    }
    for (a, b) in chunks_a.zip(chunks_b) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    let mut half = SUMS / 2;
    while half > 0 {
        let (first, second) = sums.split_at_mut(half);
        for (sum, more) in first.iter_mut().zip(second) {
            *sum += *more;
        }
        half /= 2;
    }
    sums[0]
}

#[inline(always)]
fn add_times(factor: f32, from: &[f32], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

/// The first rows of two matrices, and the rest.
#[allow(clippy::type_complexity)] // Two matrices, twice.
fn split_both<'a>(
    (a, b): (MatrixMut<'a>, MatrixMut<'a>),
    rows: usize,
) -> ((MatrixMut<'a>, MatrixMut<'a>), (MatrixMut<'a>, MatrixMut<'a>)) {
    let ((a, more_a), (b, more_b)) = (a.split_at(rows), b.split_at(rows));
    ((a, b), (more_a, more_b))
}

/// Computes Y over incoming edges, and the numbers of every softmax. If `y` is as wide as one head,
/// it is the mean of the heads.
///
/// # Panics
/// If shapes do not match.
pub fn forward<F: Fn(u32, u32, usize) -> f32 + Copy + Sync>(
    blocks: &RowBlocks,
    adjacency: AdjacencyRef<'_>,
    weights: Weights<'_, F>,
    h: MatrixRef<'_>,
    y: MatrixMut<'_>,
    softmax: MatrixMut<'_>,
) {
    assert_eq!(softmax.cols(), 2 * weights.heads(), "two numbers per head");
    let isa = Isa::chosen();
    let work = |_, rows, (y, softmax)| {
        isa.dispatch(Forward { adjacency, weights, h, rows, y, softmax });
    };
    blocks.map_reduce((y, softmax), split_both, work, |(), ()| ());
}

struct Forward<'a, F> {
    adjacency: AdjacencyRef<'a>,
    weights: Weights<'a, F>,
    h: MatrixRef<'a>,
    rows: Range<usize>,
    y: MatrixMut<'a>,
    softmax: MatrixMut<'a>,
}

impl<F: Fn(u32, u32, usize) -> f32 + Copy + Sync> Kernel for Forward<'_, F> {
    type Output = ();

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(mut self) {
        let Self { adjacency, weights, h, .. } = self;
        let heads = weights.heads();
        let f = h.cols() / heads;
        // Heads that are averaged are summed apart first: each has a sum of its own to divide by.
        let is_mean = self.y.cols() < h.cols();
        let mut apart = if is_mean { vec![0.0; h.cols()] } else { Vec::new() };
        for i in self.rows.clone() {
            let row = i - self.rows.start;
            let (largest, sums) = self.softmax.row_mut(row).split_at_mut(heads);
            let y = self.y.row_mut(row);
            let to = if is_mean { &mut apart[..] } else { &mut y[..] };
            to.fill(0.0);
            largest.fill(f32::NEG_INFINITY);
            sums.fill(0.0);
            for at in adjacency.range(i) {
                let s = weights.source.row(adjacency.column(i, at));
                for (largest, &s) in largest.iter_mut().zip(s) {
                    *largest = largest.max(s);
                }
            }
            // lrelu rises: the largest s gives the largest e.
            for (largest, &d) in largest.iter_mut().zip(weights.target.row(i)) {
                let z = *largest + d;
                *largest = if z > 0.0 { z } else { SLOPE * z };
            }
            let own = adjacency.stored_row(i) as u32;
            for at in adjacency.range(i) {
                let j = adjacency.column(i, at);
                let from = h.row(j);
                for head in 0..heads {
                    let weight = (weights.score(j, i, head).0 - largest[head]).exp();
                    sums[head] += weight;
                    let weight = weight * (weights.mask)(adjacency.neighbours()[at], own, head);
                    add_times(weight, &from[head * f..][..f], &mut to[head * f..][..f]);
                }
            }
            for (to, sum) in to.chunks_exact_mut(f).zip(sums) {
                // A node that nothing comes to has no weights.
                let scale = if *sum > 0.0 { 1.0 / *sum } else { 0.0 };
                *sum = scale;
                for x in to {
                    *x *= scale;
                }
            }
            if is_mean {
                y.fill(0.0);
                for head in 0..heads {
                    add_times(1.0 / heads as f32, &apart[head * f..][..f], y);
                }
            }
        }
    }
}

impl<F: Fn(u32, u32, usize) -> f32 + Copy + Sync> Backward<'_, F> {
    /// Columns of a head.
    #[inline(always)]
    fn head_width(&self) -> usize {
        self.h.cols() / self.weights.heads()
    }

    /// alpha, the slope of lrelu, and mask of the edge from j to i; ends also by their stored
    /// numbers.
    #[inline(always)]
    fn edge(&self, (j, from): (usize, u32), (i, to): (usize, u32), head: usize) -> (f32, f32, f32) {
        let (e, slope) = self.weights.score(j, i, head);
        let softmax = self.softmax.row(i);
        let alpha = (e - softmax[head]).exp() * softmax[self.weights.heads() + head];
        (alpha, slope, (self.weights.mask)(from, to, head))
    }

    /// p_ij = share g_i . H_j of a head.
    #[inline(always)]
    fn product(&self, j: usize, i: usize, head: usize) -> f32 {
        let f = self.head_width();
        let g = &self.g.row(i)[part(head, f, self.g.cols())];
        self.share * dot(g, &self.h.row(j)[head * f..][..f])
    }

    /// Over incoming edges, of every row i: c_i = sum_j alpha mask p_ij, then the gradient by d_i,
    /// sum_j alpha (mask p_ij - c_i) lrelu', one column per head each.
    pub fn by_target(&self, blocks: &RowBlocks, incoming: AdjacencyRef<'_>, sums: MatrixMut<'_>) {
        let isa = Isa::chosen();
        let work = |_, rows, sums| {
            isa.dispatch(ByTarget { back: *self, adjacency: incoming, rows, sums });
        };
        blocks.map_reduce(sums, MatrixMut::split_at, work, |(), ()| ());
    }

    /// Over outgoing edges, of every row j: adds sum_i alpha mask g_i to `by_h`, and the gradient
    /// by s_j, sum_i alpha (mask p_ij - c_i) lrelu', to `by_source`. `sums` is that of
    /// [`Backward::by_target`].
    pub fn by_source(
        &self,
        blocks: &RowBlocks,
        outgoing: AdjacencyRef<'_>,
        sums: MatrixRef<'_>,
        by_h: MatrixMut<'_>,
        by_source: MatrixMut<'_>,
    ) {
        let isa = Isa::chosen();
        let work = |_, rows, (by_h, by_source)| {
            let (back, adjacency) = (*self, outgoing);
            isa.dispatch(BySource { back, adjacency, sums, rows, by_h, by_source });
        };
        blocks.map_reduce((by_h, by_source), split_both, work, |(), ()| ());
    }
}

struct ByTarget<'a, F> {
    back: Backward<'a, F>,
    adjacency: AdjacencyRef<'a>,
    rows: Range<usize>,
    sums: MatrixMut<'a>,
}

impl<F: Fn(u32, u32, usize) -> f32 + Copy + Sync> Kernel for ByTarget<'_, F> {
    type Output = ();

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(mut self) {
        let Self { back, adjacency, .. } = self;
        let heads = back.weights.heads();
        // sum_j alpha l', which c is to be multiplied by.
        let mut slopes = vec![0.0; heads];
        for i in self.rows.clone() {
            let own = adjacency.stored_row(i) as u32;
            let (c, by_d) = self.sums.row_mut(i - self.rows.start).split_at_mut(heads);
            c.fill(0.0);
            by_d.fill(0.0);
            slopes.fill(0.0);
            for at in adjacency.range(i) {
                let j = adjacency.column(i, at);
                for head in 0..heads {
                    let ends = ((j, adjacency.neighbours()[at]), (i, own));
                    let (alpha, slope, mask) = back.edge(ends.0, ends.1, head);
                    let term = alpha * mask * back.product(j, i, head);
                    c[head] += term;
                    by_d[head] += term * slope;
                    slopes[head] += alpha * slope;
                }
            }
            for head in 0..heads {
                by_d[head] -= c[head] * slopes[head];
            }
        }
    }
}

struct BySource<'a, F> {
    back: Backward<'a, F>,
    adjacency: AdjacencyRef<'a>,
    sums: MatrixRef<'a>,
    rows: Range<usize>,
    by_h: MatrixMut<'a>,
    by_source: MatrixMut<'a>,
}

impl<F: Fn(u32, u32, usize) -> f32 + Copy + Sync> Kernel for BySource<'_, F> {
    type Output = ();

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(mut self) {
        let Self { back, adjacency, sums, .. } = self;
        let (heads, f) = (back.weights.heads(), back.head_width());
        for j in self.rows.clone() {
            let (own, row) = (adjacency.stored_row(j) as u32, j - self.rows.start);
            let (to, by) = (self.by_h.row_mut(row), self.by_source.row_mut(row));
            for at in adjacency.range(j) {
                let i = adjacency.column(j, at);
                let (g, c) = (back.g.row(i), sums.row(i));
                for head in 0..heads {
                    let ends = ((j, own), (i, adjacency.neighbours()[at]));
                    let (alpha, slope, mask) = back.edge(ends.0, ends.1, head);
                    by[head] += alpha * (mask * back.product(j, i, head) - c[head]) * slope;
                    let g = &g[part(head, f, g.len())];
                    add_times(back.share * alpha * mask, g, &mut to[head * f..][..f]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Matrix;
    use crate::kernels::naive::{Operator, Random};

    const NODES: usize = 30;
    const HEADS: usize = 3;
    const F: usize = 5;

    /// Drops some edges and scales the others, by stored numbers.
    fn mask(from: u32, to: u32, head: usize) -> f32 {
        if (from + 2 * to + head as u32).is_multiple_of(5) { 0.0 } else { 1.25 }
    }

    /// A graph by its incoming and by its outgoing edges; node 0 has no incoming one.
    fn graph(random: &mut Random) -> [Operator; 2] {
        let mut edges: Vec<(u32, u32)> = (0..4 * NODES)
            .map(|_| (random.below(NODES) as u32, 1 + random.below(NODES - 1) as u32))
            .collect();
        edges.sort_unstable();
        edges.dedup();
        let side = |mut edges: Vec<(u32, u32)>| {
            edges.sort_unstable();
            let offset = |row| edges.partition_point(|edge| edge.0 < row) as u64;
            Operator {
                columns: NODES,
                offsets: (0..=NODES as u32).map(offset).collect(),
                neighbours: edges.iter().map(|edge| edge.1).collect(),
                values: None,
                gather_scale: None,
                row_scale: None,
            }
        };
        let reversed = edges.iter().map(|&(from, to)| (to, from)).collect();
        [side(reversed), side(edges)]
    }

    fn wide(matrix: &Matrix) -> Vec<Vec<f64>> {
        let row = |i| matrix.row(i).iter().map(|&x| f64::from(x)).collect();
        (0..matrix.rows()).map(row).collect()
    }

    /// Y by definition, in f64; `cols` says whether heads are averaged.
    fn naive(
        incoming: &Operator,
        h: &[Vec<f64>],
        s: &[Vec<f64>],
        d: &[Vec<f64>],
        cols: usize,
    ) -> Vec<Vec<f64>> {
        let a = incoming.view();
        let row = |i: usize| {
            let mut y = vec![0.0; cols];
            for head in 0..HEADS {
                let e = |j: usize| {
                    let z = s[j][head] + d[i][head];
                    if z > 0.0 { z } else { f64::from(SLOPE) * z }
                };
                let sources: Vec<usize> = a.entries(i).map(|entry| entry.0).collect();
                let sum: f64 = sources.iter().map(|&j| e(j).exp()).sum();
                for &j in &sources {
                    let weight = e(j).exp() / sum * f64::from(mask(j as u32, i as u32, head));
                    for k in 0..F {
                        match cols == F {
                            true => y[k] += weight * h[j][head * F + k] / HEADS as f64,
                            false => y[head * F + k] += weight * h[j][head * F + k],
                        }
                    }
                }
            }
            y
        };
        (0..NODES).map(row).collect()
    }

    #[test]
    fn both_passes_are_the_definition_and_its_differences() {
        for cols in [HEADS * F, F] {
            let random = &mut Random(cols as u64);
            let [incoming, outgoing] = graph(random);
            let h = random.matrix(NODES, HEADS * F);
            let (s, d) = (random.matrix(NODES, HEADS), random.matrix(NODES, HEADS));
            let g = random.matrix(NODES, cols);
            let weights = Weights { source: s.view(), target: d.view(), mask };
            let blocks = |side: &Operator| RowBlocks::balanced(NODES, &[&side.offsets], 4000);
            let (mut y, mut softmax) =
                (Matrix::zeros(NODES, cols), Matrix::zeros(NODES, 2 * HEADS));
            let (by_rows, view) = (blocks(&incoming), incoming.view());
            forward(&by_rows, view, weights, h.view(), y.view_mut(), softmax.view_mut());
            let (h64, s64, d64, g64) = (wide(&h), wide(&s), wide(&d), wide(&g));
            let expected = naive(&incoming, &h64, &s64, &d64, cols);
            for (i, expected) in expected.iter().enumerate() {
                for (found, expected) in y.row(i).iter().zip(expected) {
                    assert!((f64::from(*found) - expected).abs() < 1e-5, "row {i}");
                }
            }
            assert!(y.row(0).iter().all(|&y| y == 0.0), "a node without incoming edges");

            let share = if cols == F { 1.0 / HEADS as f32 } else { 1.0 };
            let (softmax, h_view, g_view) = (softmax.view(), h.view(), g.view());
            let back = Backward { weights, softmax, h: h_view, g: g_view, share };
            let mut sums = Matrix::zeros(NODES, 2 * HEADS);
            back.by_target(&by_rows, view, sums.view_mut());
            let (mut by_h, mut by_s) =
                (Matrix::zeros(NODES, HEADS * F), Matrix::zeros(NODES, HEADS));
            let (rows, out) = (blocks(&outgoing), outgoing.view());
            back.by_source(&rows, out, sums.view(), by_h.view_mut(), by_s.view_mut());

            // The loss is the sum of g Y.
            let loss = |h: &[Vec<f64>], s: &[Vec<f64>], d: &[Vec<f64>]| -> f64 {
                let y = naive(&incoming, h, s, d, cols);
                y.iter().flatten().zip(g64.iter().flatten()).map(|(y, g)| y * g).sum()
            };
            let step = 1e-5;
            let moved = |matrix: &[Vec<f64>], i: usize, k: usize, by: f64| {
                let mut matrix = matrix.to_vec();
                matrix[i][k] += by;
                matrix
            };
            for i in (0..NODES).step_by(4) {
                for k in 0..HEADS {
                    let by_s_loss = |by| loss(&h64, &moved(&s64, i, k, by), &d64);
                    let by_d_loss = |by| loss(&h64, &s64, &moved(&d64, i, k, by));
                    let by_h_loss = |by| loss(&moved(&h64, i, k * F, by), &s64, &d64);
                    let slope =
                        |loss: &dyn Fn(f64) -> f64| (loss(step) - loss(-step)) / (2.0 * step);
                    for (found, expected, what) in [
                        (by_s.row(i)[k], slope(&by_s_loss), "source"),
                        (sums.row(i)[HEADS + k], slope(&by_d_loss), "target"),
                        (by_h.row(i)[k * F], slope(&by_h_loss), "rows"),
                    ] {
                        assert!((f64::from(found) - expected).abs() < 1e-4, "{what} {i} {k}");
                    }
                }
            }
        }
    }
}
