//! Products that the gradients need: G^T (A^T X), G^T U, column sums, A G; blocked, in a fixed order, with no n x m temporary.
//! They add up; what is a gradient of what is for `solver` and `nn`.

use super::AdjacencyRef;
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::parallel::RowBlocks;

/// G^T (A^T X) (m x p): the gradient of W (X the state) and of Omega in the input map Omega U A (X the features).
pub fn weight(adjacency: AdjacencyRef<'_>, g: MatrixRef<'_>, x: MatrixRef<'_>) -> Matrix {
    let mut sum = Matrix::zeros(g.cols(), x.cols());
    for i in 0..g.rows() {
        for (j, value) in adjacency.entries(i) {
            for (k, g) in g.row(i).iter().enumerate() {
                for (out, x) in sum.row_mut(k).iter_mut().zip(x.row(j)) {
                    *out += g * value * x;
                }
            }
        }
    }
    sum
}

/// G^T U (m x p): the gradient of Omega in the input map Omega U, and of the read-out.
pub fn input(g: MatrixRef<'_>, u: MatrixRef<'_>) -> Matrix {
    let mut sum = Matrix::zeros(g.cols(), u.cols());
    for i in 0..g.rows() {
        for (k, g) in g.row(i).iter().enumerate() {
            for (out, u) in sum.row_mut(k).iter_mut().zip(u.row(i)) {
                *out += g * u;
            }
        }
    }
    sum
}

/// Column sums of G: the gradient of a bias.
pub fn bias(g: MatrixRef<'_>) -> Vec<f32> {
    let mut sum = vec![0.0; g.cols()];
    for i in 0..g.rows() {
        for (out, g) in sum.iter_mut().zip(g.row(i)) {
            *out += g;
        }
    }
    sum
}

/// A^T X or A G, by the adjacency given: the gradient of learned features, and the input A^T U computed once.
pub fn adjacency_times(
    blocks: &RowBlocks,
    adjacency: AdjacencyRef<'_>,
    from: MatrixRef<'_>,
    to: MatrixMut<'_>,
) {
    blocks.run(
        to,
        MatrixMut::split_at,
        |_, rows, mut to| {
            for (at, i) in rows.enumerate() {
                let out = to.row_mut(at);
                out.fill(0.0);
                for (j, value) in adjacency.entries(i) {
                    for (out, x) in out.iter_mut().zip(from.row(j)) {
                        *out += value * x;
                    }
                }
            }
        },
        |(), ()| (),
    );
}
