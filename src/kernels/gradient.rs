//! The products of the gradients: G^T (A^T X), G^T U, column sums, and A G. They are blocked, with
//! sums in a fixed order and no n x m temporary.

use std::ops::Range;

use super::adjacency::Factors;
use super::ahead::Ahead;
use super::simd::Isa;
use super::transposed::transposed_product;
use super::{AdjacencyRef, gather};
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::parallel::{RowBlocks, Rows};

/// Number of parts of the nodes whose column sums are added in order.
const PARTS: usize = 64;

/// G^T (A^T X) (m x p): the gradient of W (X the state) and of Omega in the input map A^T U Omega^T
/// (X the features).
pub fn weight(adjacency: AdjacencyRef<'_>, g: MatrixRef<'_>, x: MatrixRef<'_>) -> Matrix {
    gathered(None, adjacency, g, x)
}

/// The same over the rows of all ranks. X has ghosts, which are up to date.
pub fn weight_over(
    rows: &Rows,
    adjacency: AdjacencyRef<'_>,
    g: MatrixRef<'_>,
    x: MatrixRef<'_>,
) -> Matrix {
    gathered(Some(rows), adjacency, g, x)
}

fn gathered(
    rows: Option<&Rows>,
    adjacency: AdjacencyRef<'_>,
    g: MatrixRef<'_>,
    x: MatrixRef<'_>,
) -> Matrix {
    let (isa, factors) = (Isa::chosen(), adjacency.factors());
    let ahead = Ahead::of(x, &[adjacency]);
    if let Some(ahead) = ahead.as_ref().filter(|ahead| !ahead.takes_all()) {
        let blocks = RowBlocks::balanced(adjacency.rows(), &[adjacency.gathered_offsets()], 2);
        let all = ahead.rows(adjacency.rows(), |from, to| {
            gather_in_memory(&blocks, adjacency, from, to);
        });
        let stored = factors.map_or(adjacency, |factors| factors.expand);
        return transposed_product(isa, rows, Some(stored), g, x, Some(&all));
    }
    let copy = ahead.map(|ahead| ahead.all());
    let x = copy.as_ref().map_or(x, |copy| copy.view());
    match factors {
        None => transposed_product(isa, rows, Some(adjacency), g, x, None),
        Some(factors) => {
            let table = table(&factors, x);
            transposed_product(isa, rows, Some(factors.expand), g, table.view(), None)
        }
    }
}

/// G^T U (m x p): the gradient of Omega in the input map U Omega^T, and of the readout.
pub fn input(g: MatrixRef<'_>, u: MatrixRef<'_>) -> Matrix {
    transposed_product(Isa::chosen(), None, None, g, u, None)
}

/// The same over the rows of all ranks.
pub fn input_over(rows: &Rows, g: MatrixRef<'_>, u: MatrixRef<'_>) -> Matrix {
    transposed_product(Isa::chosen(), Some(rows), None, g, u, None)
}

/// Column sums of G: the gradient of a bias.
pub fn bias(g: MatrixRef<'_>) -> Vec<f32> {
    bias_over(&Rows::alone(RowBlocks::parts(g.rows(), &[], 1, PARTS)), g)
}

/// The same over the rows of all ranks.
pub fn bias_over(rows: &Rows, g: MatrixRef<'_>) -> Vec<f32> {
    let sum = |rows: Range<usize>| {
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
    rows.sum(sum, add).unwrap_or_else(|| vec![0.0; g.cols()])
}

/// A^T X or A G, by the adjacency given: the gradient of learned features, and the input A^T U
/// computed once.
///
/// # Panics
/// If shapes do not match.
pub fn adjacency_times(
    blocks: &RowBlocks,
    adjacency: AdjacencyRef<'_>,
    from: MatrixRef<'_>,
    to: MatrixMut<'_>,
) {
    assert_eq!(
        (adjacency.rows(), adjacency.columns()),
        (to.rows(), from.rows()),
        "an operator that fits"
    );
    assert_eq!((blocks.rows(), from.cols()), (to.rows(), to.cols()), "rows in, rows out");
    let Some(ahead) = Ahead::of(from, &[adjacency]) else {
        return gather_in_memory(blocks, adjacency, from, to);
    };
    if ahead.takes_all() {
        return gather_in_memory(blocks, adjacency, ahead.all().view(), to);
    }
    let all = ahead.rows(to.rows(), |from, to| gather_in_memory(blocks, adjacency, from, to));
    let copy = |_, rows, mut to: MatrixMut<'_>| all.copy(rows, to.lines_mut());
    blocks.map_reduce(to, MatrixMut::split_at, copy, |(), ()| ());
}

fn gather_in_memory(
    blocks: &RowBlocks,
    adjacency: AdjacencyRef<'_>,
    from: MatrixRef<'_>,
    to: MatrixMut<'_>,
) {
    match adjacency.factors() {
        Some(factors) => {
            let table = table(&factors, from);
            gather(blocks, factors.expand, table.view(), to);
        }
        None => gather(blocks, adjacency, from, to),
    }
}

/// The distinct rows of an operator with repeated rows.
fn table(factors: &Factors<'_>, from: MatrixRef<'_>) -> Matrix {
    let made = |a: AdjacencyRef<'_>| Matrix::resident(a.rows(), from.cols());
    let (mut collected, mut rows) = (made(factors.collect.0), made(factors.core.0));
    fill_table(factors, from, &mut collected, &mut rows);
    rows
}

/// The same into existing memory: the collected columns, then the distinct rows.
pub(super) fn fill_table(
    factors: &Factors<'_>,
    from: MatrixRef<'_>,
    collected: &mut Matrix,
    rows: &mut Matrix,
) {
    gather(factors.collect.1, factors.collect.0, from, collected.view_mut());
    gather(factors.core.1, factors.core.0, collected.view(), rows.view_mut());
}

fn gather(blocks: &RowBlocks, adjacency: AdjacencyRef<'_>, from: MatrixRef<'_>, to: MatrixMut<'_>) {
    gather::all(Isa::chosen(), blocks, adjacency, from, to);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::ahead::tests::everywhere;
    use crate::kernels::naive::{self, Operator, Random};

    #[test]
    fn column_sums_and_gathers_are_the_naive_loops() {
        for (seed, m, p) in
            [(0, 1, 1), (1, 3, 5), (2, 16, 16), (3, 17, 40), (4, 64, 7), (5, 33, 100)]
        {
            let random = &mut Random(seed);
            let operator = Operator::random(random, 150, 130, seed as usize);
            let (g, x) = (random.matrix(150, m), random.matrix(130, p));
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
    fn a_matrix_on_the_disk_gives_the_same_bits() {
        // The last result is wide.
        for (seed, m, p) in [(0, 1, 1), (1, 3, 5), (2, 16, 16), (3, 17, 40), (4, 500, 600)] {
            let random = &mut Random(seed);
            let operator = Operator::random(random, 150, 130, seed as usize);
            let (g, x) = (random.matrix(150, m), random.matrix(130, p));
            let blocks = RowBlocks::balanced(150, &[operator.view().offsets()], 2000);
            let found = everywhere(130, p, || {
                let mut to = Matrix::zeros(150, p);
                adjacency_times(&blocks, operator.view(), x.view(), to.view_mut());
                let rows = Rows::alone(RowBlocks::for_sums(150, &[]));
                let weights = [
                    weight(operator.view(), g.view(), x.view()),
                    weight_over(&rows, operator.view(), g.view(), x.view()),
                ];
                let all = weights.iter().chain([&to]).flat_map(|matrix| matrix.view().padded());
                all.map(|x| x.to_bits()).collect::<Vec<_>>()
            });
            assert!(found.iter().all(|other| *other == found[0]), "{m} {p}");
        }
    }

    #[test]
    fn no_rows_give_zeros() {
        let (g, u) = (Matrix::zeros(0, 3), Matrix::zeros(0, 5));
        assert_eq!(input(g.view(), u.view()).row(2), [0.0; 5]);
        assert_eq!(bias(g.view()), [0.0; 3]);
    }
}
