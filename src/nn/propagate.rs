//! The mean of what the relations of a graph gather: P X = (1 / R) sum_r A_r^T X for R relations.
//! This is one step. How many a layer takes, and what comes between them, is up to the caller.

use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::{AdjacencyRef, elementwise, gradient};
use crate::parallel::RowBlocks;

/// to = the mean of what each operator gathers.
///
/// # Panics
/// If shapes do not match, or there is no operator.
pub fn mean(
    blocks: &RowBlocks,
    adjacency: &[AdjacencyRef<'_>],
    from: MatrixRef<'_>,
    mut to: MatrixMut<'_>,
) {
    gradient::adjacency_times(blocks, adjacency[0], from, to.reborrow());
    if adjacency.len() == 1 {
        return;
    }
    let mut more = Matrix::zeros(to.rows(), to.cols());
    for &relation in &adjacency[1..] {
        gradient::adjacency_times(blocks, relation, from, more.view_mut());
        elementwise::add(more.view(), to.reborrow());
    }
    elementwise::scale(1.0 / adjacency.len() as f32, to);
}
