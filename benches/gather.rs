//! A^T X: rows of a state summed along the edges. Verified by sprs's product of a sparse matrix and
//! a vector, in f64.

use divan::Bencher;
use divan::counter::ItemsCount;
use ignn::dense::Matrix;
use ignn::kernels::{AdjacencyRef, gradient};
use ignn::parallel::RowBlocks;
use sprs::CsMatViewI;

use crate::inputs::{self, WIDTHS, assert_close};

#[divan::bench(args = WIDTHS, max_time = 1)]
fn rmat(bencher: Bencher<'_, '_>, width: usize) {
    let incoming = inputs::operators("rmat").incoming();
    let adjacency = incoming[0];
    let from = inputs::matrix(1, adjacency.columns(), width, 1.0);
    let mut to = Matrix::zeros(adjacency.rows(), width);
    let offsets = adjacency.gathered_offsets();
    let blocks = RowBlocks::balanced(adjacency.rows(), &[offsets], width as u64 / 8 + 1);
    gradient::adjacency_times(&blocks, adjacency, from.view(), to.view_mut());
    verify(&adjacency, &from, &to);
    bencher.counter(ItemsCount::new(adjacency.nonzeros())).bench_local(|| {
        gradient::adjacency_times(&blocks, adjacency, from.view(), to.view_mut());
    });
}

/// The first, the last and a middle column.
fn verify(adjacency: &AdjacencyRef<'_>, from: &Matrix, to: &Matrix) {
    let rows = 0..adjacency.rows();
    let values: Vec<f64> =
        rows.flat_map(|i| adjacency.entries(i).map(|(_, value)| f64::from(value))).collect();
    let shape = (adjacency.rows(), adjacency.columns());
    let sparse = CsMatViewI::new(shape, adjacency.offsets(), adjacency.neighbours(), &values);
    for column in [0, from.cols() / 2, from.cols() - 1] {
        let x: Vec<f64> = (0..from.rows()).map(|j| f64::from(from.row(j)[column])).collect();
        let mut expected = vec![0.0; to.rows()];
        sprs::prod::mul_acc_mat_vec_csr(sparse, &x, &mut expected);
        for (i, expected) in expected.into_iter().enumerate() {
            assert_close("gather", to.row(i)[column].into(), expected, 1e-4);
        }
    }
}
