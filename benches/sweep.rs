//! One fused sweep X' = relu(A^T X W^T + B) and one of its adjoint G' = D * (A G W + R). Verified by
//! plain loops in f64 on a sample of rows, the row of the largest hub among them.

use divan::Bencher;
use divan::counter::ItemsCount;
use ignn::dense::Matrix;
use ignn::kernels::sweep::{self, Sweep, SweepScratch};
use ignn::kernels::{Activation, AdjacencyRef, Derivative, Norm, PackedWeights, Signs};

use crate::inputs::{self, WIDTHS, assert_close};

/// One row in this many is verified.
const SAMPLED: usize = 131;

#[divan::bench(args = WIDTHS, max_time = 1)]
fn forward_rmat(bencher: Bencher<'_, '_>, width: usize) {
    let incoming = inputs::operators("rmat").incoming();
    let w = inputs::weight(4, width);
    let packed = [PackedWeights::forward(w.view())];
    run(bencher, &incoming, &packed, |sweep, x, to, is_verified| {
        sweep.forward(Activation::Relu, Norm::default(), x.view(), to.view_mut());
        if is_verified {
            verify(sweep, x, to, |k, l| w.row(k)[l], |_, _, z| z.max(0.0));
        }
    });
}

#[divan::bench(args = WIDTHS, max_time = 1)]
fn adjoint_rmat(bencher: Bencher<'_, '_>, width: usize) {
    let outgoing = inputs::operators("rmat").outgoing();
    let w = inputs::weight(4, width);
    let packed = [PackedWeights::adjoint(w.view())];
    let (nodes, state) = (outgoing[0].rows(), inputs::matrix(5, outgoing[0].rows(), width, 1.0));
    let mut signs = Signs::new(nodes, width);
    signs.record(state.view());
    let derivative = Derivative::Signs { signs: &signs, slope: 0.0 };
    run(bencher, &outgoing, &packed, |sweep, g, to, is_verified| {
        sweep.adjoint(derivative, Norm::default(), g.view(), to.view_mut());
        if is_verified {
            let finish = |i: usize, k: usize, z| if state.row(i)[k] > 0.0 { z } else { 0.0 };
            verify(sweep, g, to, |k, l| w.row(l)[k], finish);
        }
    });
}

/// Verifies a sweep and times it; items are non-zeros.
fn run(
    bencher: Bencher<'_, '_>,
    adjacency: &[AdjacencyRef<'_>],
    packed: &[PackedWeights],
    one: impl Fn(&Sweep<'_>, &Matrix, &mut Matrix, bool),
) {
    let (nodes, width) = (adjacency[0].rows(), packed[0].outer());
    let (input, from) =
        (inputs::matrix(6, nodes, width, 1.0), inputs::matrix(7, nodes, width, 1.0));
    let mut to = Matrix::zeros(nodes, width);
    let terms = sweep::terms(adjacency, packed);
    let (blocks, scratch) = (sweep::blocks(&terms), SweepScratch::new(&terms));
    let sweep =
        Sweep { blocks: &blocks, terms: &terms, input: input.view().into(), scratch: &scratch };
    one(&sweep, &from, &mut to, true);
    let counter = ItemsCount::new(adjacency[0].nonzeros());
    bencher.counter(counter).bench_local(|| one(&sweep, &from, &mut to, false));
}

/// `weight(k, l)` takes column l to column k; `finish(i, k, z)` makes the entry of the result.
fn verify(
    sweep: &Sweep<'_>,
    from: &Matrix,
    to: &Matrix,
    weight: impl Fn(usize, usize) -> f32,
    finish: impl Fn(usize, usize, f64) -> f64,
) {
    let adjacency = sweep.terms[0].adjacency;
    let (nodes, width) = (from.rows(), from.cols());
    let hub = (0..nodes).max_by_key(|&i| adjacency.range(i).len());
    for i in (0..nodes).step_by(SAMPLED).chain(hub) {
        let mut gathered = vec![0.0; width];
        for (j, value) in adjacency.entries(i) {
            for (sum, &x) in gathered.iter_mut().zip(from.row(j)) {
                *sum += f64::from(value) * f64::from(x);
            }
        }
        for k in 0..width {
            let products = gathered.iter().enumerate().map(|(l, x)| x * f64::from(weight(k, l)));
            let z = products.sum::<f64>() + f64::from(sweep.input.kept().row(i)[k]);
            assert_close("sweep", to.row(i)[k].into(), finish(i, k, z), 1e-4);
        }
    }
}
