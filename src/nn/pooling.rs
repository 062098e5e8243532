//! Pooling: the rows of each graph become one row, their sum, mean or maximum, forward and
//! backward. It uses the row ranges of the graphs, not their edges.
//!
//! Graph g has the rows `offsets[g] .. offsets[g + 1]` of a compact matrix. A graph without rows
//! gives zeros. The maximum of a column is taken from the first row that has it, and its gradient
//! goes there alone. NaN in, NaN out.
//!
//! Graphs are divided into parts that depend on the offsets alone. One thread adds up each graph,
//! in f64 and in the order of its rows, so the bits are the same for any number of threads. A batch
//! of one graph therefore uses one thread.
//!
//! ```
//! use ignn::dense::Matrix;
//! use ignn::nn::{Pooling, PoolingMemory};
//!
//! // Two graphs: rows 0 and 1, row 2.
//! let rows = Matrix::from_fn(3, 2, |i, k| (2 * i + k) as f32);
//! let mut pooled = Matrix::zeros(2, 2);
//! let memory = &mut PoolingMemory::default();
//! Pooling::Mean.forward(&[0, 2, 3], rows.view(), memory, pooled.view_mut());
//! assert_eq!(pooled.row(0), [1.0, 2.0]);
//! assert_eq!(pooled.row(1), [4.0, 5.0]);
//! ```

use std::ops::Range;

use crate::dense::{MatrixMut, MatrixRef};
use crate::parallel::RowBlocks;
use crate::settings::words;

/// Largest number of parts.
const PARTS: usize = 64;
/// Columns that are added up at a time, so that their sums stay in the first-level cache.
const COLUMNS: usize = 64;

/// How several rows become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The largest entry of each column.
    Max,
}

words! {
    /// How the nodes of a graph become one row, as a configuration asks for it.
    pub enum PoolingChoice {
        /// `sum` if graphs have labels, `none` otherwise.
        Auto = "auto",
        /// No pooling: nodes are classified.
        None = "none",
        /// The sum of the rows.
        Sum = "sum",
        /// The mean of the rows.
        Mean = "mean",
        /// The largest entry of each column.
        Max = "max",
    }
}

impl PoolingChoice {
    /// The pooling; `pools`: whether graphs, not nodes, are classified.
    pub fn resolve(self, pools: bool) -> Option<Pooling> {
        match self {
            Self::Auto => pools.then_some(Pooling::Sum),
            Self::None => None,
            Self::Sum => Some(Pooling::Sum),
            Self::Mean => Some(Pooling::Mean),
            Self::Max => Some(Pooling::Max),
        }
    }
}

/// The rows that had the maxima, kept from forward to backward; empty for sums and means.
#[derive(Clone, Debug, Default)]
pub struct PoolingMemory {
    /// For each graph and column, the number of a row within the graph.
    rows: Vec<u32>,
}

impl Pooling {
    /// Row g of `pooled` from the rows of graph g.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn forward(
        self,
        offsets: &[u64],
        x: MatrixRef<'_>,
        memory: &mut PoolingMemory,
        pooled: MatrixMut<'_>,
    ) {
        let (graphs, cols) = check(offsets, x, pooled.as_ref());
        memory.rows.resize(if self == Self::Max { graphs * cols } else { 0 }, 0);
        let blocks = RowBlocks::parts(graphs, &[offsets], 1, PARTS);
        let split = |(pooled, chosen), graphs| {
            let (first, second) = MatrixMut::split_at(pooled, graphs);
            let (lower, upper) =
                <[u32]>::split_at_mut(chosen, if self == Self::Max { graphs * cols } else { 0 });
            ((first, lower), (second, upper))
        };
        let work = |_, graphs: Range<usize>, (mut pooled, chosen): (MatrixMut<'_>, &mut [u32])| {
            for (at, graph) in graphs.enumerate() {
                let rows = x.block(offsets[graph] as usize..offsets[graph + 1] as usize);
                let to = pooled.row_mut(at);
                match self {
                    Self::Sum => sum(rows, 1.0, to),
                    Self::Mean => sum(rows, rows.rows().max(1) as f64, to),
                    Self::Max => largest(rows, to, &mut chosen[at * cols..][..cols]),
                }
            }
        };
        blocks.map_reduce((pooled, &mut memory.rows[..]), split, work, |(), ()| ());
    }

    /// Computes the gradient of the rows, which is overwritten, from that of the pooled rows. Call
    /// it after [`Pooling::forward`] with the same rows.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn backward(
        self,
        offsets: &[u64],
        memory: &PoolingMemory,
        by_pooled: MatrixRef<'_>,
        by_x: MatrixMut<'_>,
    ) {
        let (graphs, cols) = check(offsets, by_x.as_ref(), by_pooled);
        assert!(self != Self::Max || memory.rows.len() == graphs * cols, "memory of this pass");
        let blocks = RowBlocks::parts(graphs, &[offsets], 1, PARTS);
        let split = |(from, by_x), graphs| {
            let rows = (offsets[from + graphs] - offsets[from]) as usize;
            let (first, second) = MatrixMut::split_at(by_x, rows);
            ((from, first), (from + graphs, second))
        };
        let work = |_, graphs: Range<usize>, (from, mut by_x): (usize, MatrixMut<'_>)| {
            for graph in graphs {
                let start = (offsets[graph] - offsets[from]) as usize;
                let rows = start..(offsets[graph + 1] - offsets[from]) as usize;
                let g = by_pooled.row(graph);
                match self {
                    Self::Sum => rows.for_each(|row| by_x.row_mut(row).copy_from_slice(g)),
                    Self::Mean => {
                        let share = 1.0 / rows.len().max(1) as f64;
                        for row in rows {
                            let to = by_x.row_mut(row).iter_mut().zip(g);
                            to.for_each(|(to, &g)| *to = (f64::from(g) * share) as f32);
                        }
                    }
                    Self::Max => {
                        let is_empty = rows.is_empty();
                        rows.for_each(|row| by_x.row_mut(row).fill(0.0));
                        if !is_empty {
                            let chosen = &memory.rows[graph * cols..][..cols];
                            for (k, (&row, &g)) in chosen.iter().zip(g).enumerate() {
                                by_x.row_mut(start + row as usize)[k] = g;
                            }
                        }
                    }
                }
            }
        };
        blocks.map_reduce((0, by_x), split, work, |(), ()| ());
    }
}

/// Graphs and columns.
fn check(offsets: &[u64], x: MatrixRef<'_>, pooled: MatrixRef<'_>) -> (usize, usize) {
    assert_eq!(offsets.len(), pooled.rows() + 1, "one offset per graph and one more");
    assert_eq!(
        (offsets[0], offsets[pooled.rows()]),
        (0, x.rows() as u64),
        "offsets that cover the rows"
    );
    assert_eq!(x.cols(), pooled.cols(), "as wide before as after");
    (pooled.rows(), x.cols())
}

/// The sum of the rows, divided by a number.
fn sum(rows: MatrixRef<'_>, divisor: f64, to: &mut [f32]) {
    for (chunk, to) in to.chunks_mut(COLUMNS).enumerate() {
        let mut sums = [0.0; COLUMNS];
        for row in 0..rows.rows() {
            let entries = &rows.row(row)[chunk * COLUMNS..][..to.len()];
            sums.iter_mut().zip(entries).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to = (sum / divisor) as f32);
    }
}

/// The largest entry of each column and its row.
fn largest(rows: MatrixRef<'_>, to: &mut [f32], chosen: &mut [u32]) {
    chosen.fill(0);
    if rows.rows() == 0 {
        return to.fill(0.0);
    }
    to.copy_from_slice(rows.row(0));
    for row in 1..rows.rows() {
        for ((&x, to), chosen) in rows.row(row).iter().zip(&mut *to).zip(&mut *chosen) {
            // Once NaN, always NaN: no comparison with it is true.
            if x > *to || (x.is_nan() && !to.is_nan()) {
                *to = x;
                *chosen = row as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Matrix;
    use crate::kernels::naive::{self, Random, Rows};
    use crate::parallel::with_threads;

    const ALL: [Pooling; 3] = [Pooling::Sum, Pooling::Mean, Pooling::Max];

    fn naive(pooling: Pooling, offsets: &[u64], x: &Rows, cols: usize) -> Rows {
        let column = |rows: &[Vec<f64>], k: usize| {
            let column = rows.iter().map(|row| row[k]);
            match pooling {
                _ if rows.is_empty() => 0.0,
                Pooling::Sum => column.sum(),
                Pooling::Mean => column.sum::<f64>() / rows.len() as f64,
                Pooling::Max => column.fold(f64::NEG_INFINITY, f64::max),
            }
        };
        let graph = |bounds: &[u64]| {
            let rows = &x[bounds[0] as usize..bounds[1] as usize];
            (0..cols).map(|k| column(rows, k)).collect()
        };
        offsets.windows(2).map(graph).collect()
    }

    /// Offsets of graphs with up to 8 rows, some of them with none.
    fn offsets(random: &mut Random, graphs: usize) -> Vec<u64> {
        let mut offsets = vec![0u64];
        for graph in 0..graphs {
            offsets.push(offsets[graph] + random.below(9) as u64);
        }
        offsets
    }

    fn pass(pooling: Pooling, offsets: &[u64], x: &Matrix, by_pooled: &Matrix) -> [Matrix; 2] {
        let nan = |rows, cols| {
            let mut matrix = Matrix::zeros(rows, cols);
            (0..rows).for_each(|i| matrix.row_mut(i).fill(f32::NAN));
            matrix
        };
        let mut memory = PoolingMemory { rows: vec![u32::MAX; 5] };
        let mut pooled = nan(offsets.len() - 1, x.cols());
        pooling.forward(offsets, x.view(), &mut memory, pooled.view_mut());
        let mut by_x = nan(x.rows(), x.cols());
        pooling.backward(offsets, &memory, by_pooled.view(), by_x.view_mut());
        [pooled, by_x]
    }

    #[test]
    fn values_and_differences_agree_with_the_formulas() {
        for (graphs, cols) in [(0, 3), (1, 1), (9, 3), (80, 16), (30, 70)] {
            let random = &mut Random(graphs as u64);
            let offsets = offsets(random, graphs);
            let rows = offsets[graphs] as usize;
            let (x, by_pooled) = (random.matrix(rows, cols), random.matrix(graphs, cols));
            let wide: Rows =
                (0..rows).map(|i| x.row(i).iter().map(|&x| f64::from(x)).collect()).collect();
            for pooling in ALL {
                let [pooled, by_x] = pass(pooling, &offsets, &x, &by_pooled);
                let what = format!("{pooling:?} {graphs} {cols}");
                naive::assert_close(pooled.view(), &naive(pooling, &offsets, &wide, cols), &what);
                let mut differences = wide.clone();
                for (graph, bounds) in offsets.windows(2).enumerate() {
                    let rows = &wide[bounds[0] as usize..bounds[1] as usize];
                    for i in 0..rows.len() {
                        for k in 0..cols {
                            let moved = |by: f64| {
                                let mut rows = rows.to_vec();
                                rows[i][k] += by;
                                naive(pooling, &[0, rows.len() as u64], &rows, cols)[0][k]
                            };
                            let difference = (moved(1e-7) - moved(-1e-7)) / 2e-7;
                            let g = f64::from(by_pooled.row(graph)[k]);
                            differences[bounds[0] as usize + i][k] = g * difference;
                        }
                    }
                }
                naive::assert_close(by_x.view(), &differences, &what);
            }
        }
    }

    #[test]
    fn the_first_of_equal_maxima_is_taken_and_nan_is_not_hidden() {
        let entries = [[1.0, f32::NAN], [3.0, 2.0], [3.0, 5.0], [-4.0, -1.0], [-4.0, f32::NAN]];
        let x = Matrix::from_fn(5, 2, |i, k| entries[i][k]);
        let by_pooled = Matrix::from_fn(3, 2, |g, k| 10.0 * (g + 1) as f32 + k as f32);
        let [pooled, by_x] = pass(Pooling::Max, &[0, 3, 3, 5], &x, &by_pooled);
        assert!(pooled.row(0)[0] == 3.0 && pooled.row(0)[1].is_nan());
        assert_eq!(pooled.row(1), [0.0, 0.0], "a graph without rows");
        assert!(pooled.row(2)[0] == -4.0 && pooled.row(2)[1].is_nan());
        let expected = [[0.0, 11.0], [10.0, 0.0], [0.0, 0.0], [30.0, 0.0], [0.0, 31.0]];
        for (i, expected) in expected.iter().enumerate() {
            assert_eq!(by_x.row(i), expected);
        }
    }

    #[test]
    fn the_same_bits_on_any_number_of_threads() {
        let random = &mut Random(5);
        let offsets = offsets(random, 3000);
        let (x, by_pooled) = (random.matrix(offsets[3000] as usize, 33), random.matrix(3000, 33));
        for pooling in ALL {
            let run = |threads| {
                let pass = || pass(pooling, &offsets, &x, &by_pooled);
                let bits =
                    |m: &Matrix| m.view().padded().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                with_threads(threads, pass).map(|matrix| bits(&matrix))
            };
            let one = run(1);
            assert!(one == run(2) && one == run(4), "{pooling:?}");
        }
    }
}
