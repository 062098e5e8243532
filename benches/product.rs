//! X P: the dense product of every layer, weights packed once. Verified by the plain triple loop in
//! f64 on a sample of rows.

use divan::Bencher;
use divan::counter::ItemsCount;
use ignn::dense::Matrix;
use ignn::kernels::sweep::{self, SweepScratch};
use ignn::kernels::{Isa, PackedWeights};
use ignn::parallel::RowBlocks;

use crate::inputs::{self, WIDTHS, assert_close};

/// Rows of the left factor.
const ROWS: usize = 16_384;
/// One row in this many is verified.
const SAMPLED: usize = 61;

/// Items are multiply-adds.
#[divan::bench(args = WIDTHS, max_time = 1)]
fn square_weight(bencher: Bencher<'_, '_>, width: usize) {
    let (x, w) = (inputs::matrix(2, ROWS, width, 1.0), inputs::weight(3, width));
    let packed = PackedWeights::adjoint(w.view());
    let mut to = Matrix::zeros(ROWS, width);
    let scratch = SweepScratch::with_widths(&[width], width, Isa::chosen());
    let blocks = RowBlocks::balanced(ROWS, &[], width as u64 / 8 + 1);
    let multiply = |to: &mut Matrix| {
        let (from, plain) = (x.view(), Some(&packed));
        sweep::product(&blocks, &[], plain, None, from, to.view_mut(), &scratch);
    };
    multiply(&mut to);
    for i in (0..ROWS).step_by(SAMPLED) {
        for k in 0..width {
            let terms = (0..width).map(|l| f64::from(x.row(i)[l]) * f64::from(w.row(l)[k]));
            assert_close("product", to.row(i)[k].into(), terms.sum(), 1e-4);
        }
    }
    bencher.counter(ItemsCount::new(ROWS * width * width)).bench_local(|| multiply(&mut to));
}
