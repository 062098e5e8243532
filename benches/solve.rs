//! A whole solve, forward and adjoint, from zero to a relative residual of 1e-5, by the method that
//! the solver chooses. Verified by the residual of the equation itself, computed by plain loops in
//! f64 over all rows.

use divan::Bencher;
use ignn::dense::Matrix;
use ignn::kernels::{Activation, AdjacencyRef};
use ignn::nn::{Backward, Equilibrium, Operators};
use ignn::solver::{SolveInfo, SolveParams};

use crate::inputs;

const WIDTH: usize = 32;
const TOLERANCE: f64 = 1e-5;
const INPUTS: [&str; 3] = ["rmat", "sbm", "grid"];

#[divan::bench(args = INPUTS, max_time = 2)]
fn forward(bencher: Bencher<'_, '_>, name: &str) {
    let operators = inputs::operators(name);
    let (mut layer, w) = layer(operators);
    let solve = |layer: &mut Equilibrium| {
        layer.reset();
        layer.solve(&[w.view()], &params()).expect("a finite solve")
    };
    let info = solve(&mut layer);
    let of_w = |k: usize, l: usize| w.row(k)[l];
    let equation = |_, _, z: f64| z.max(0.0);
    verify(info, &operators.incoming()[0], &layer.input, &layer.state, of_w, equation);
    bencher.bench_local(|| solve(&mut layer));
}

#[divan::bench(args = INPUTS, max_time = 2)]
fn adjoint(bencher: Bencher<'_, '_>, name: &str) {
    let operators = inputs::operators(name);
    let (mut layer, w) = layer(operators);
    layer.right = inputs::matrix(9, operators.nodes(), WIDTH, 1.0);
    layer.solve(&[w.view()], &params()).expect("a finite solve");
    let solve = |layer: &mut Equilibrium| {
        layer.adjoint.view_mut().padded_mut().fill(0.0);
        layer.solve_adjoint(&[w.view()], Backward::Exact, &params()).expect("a finite solve")
    };
    let info = solve(&mut layer);
    let of_w = |k: usize, l: usize| w.row(l)[k];
    let equation = |i: usize, k: usize, z| if layer.state.row(i)[k] > 0.0 { z } else { 0.0 };
    verify(info, &operators.outgoing()[0], &layer.right, &layer.adjoint, of_w, equation);
    bencher.bench_local(|| solve(&mut layer));
}

fn params() -> SolveParams {
    SolveParams { tolerance: TOLERANCE, max_sweeps: 2000, ..SolveParams::default() }
}

fn layer(operators: &Operators) -> (Equilibrium, Matrix) {
    let mut layer = Equilibrium::new(operators, WIDTH, Activation::Relu).with_adjoint();
    layer.input = inputs::matrix(8, operators.nodes(), WIDTH, 1.0);
    (layer, inputs::weight(10, WIDTH))
}

/// The largest entry by which the state fails its equation is small, relative to the largest entry
/// of the state. `weight(k, l)` takes column l to column k; `finish(i, k, z)` is the right side.
fn verify(
    info: SolveInfo,
    adjacency: &AdjacencyRef<'_>,
    input: &Matrix,
    state: &Matrix,
    weight: impl Fn(usize, usize) -> f32,
    finish: impl Fn(usize, usize, f64) -> f64,
) {
    assert!(info.converged, "the solve did not converge: {info:?}");
    let (mut worst, mut largest) = (0.0f64, 0.0f64);
    for i in 0..state.rows() {
        let mut gathered = [0.0; WIDTH];
        for (j, value) in adjacency.entries(i) {
            for (sum, &x) in gathered.iter_mut().zip(state.row(j)) {
                *sum += f64::from(value) * f64::from(x);
            }
        }
        for k in 0..WIDTH {
            let products = gathered.iter().enumerate().map(|(l, x)| x * f64::from(weight(k, l)));
            let z = products.sum::<f64>() + f64::from(input.row(i)[k]);
            let (found, expected) = (f64::from(state.row(i)[k]), finish(i, k, z));
            assert!(found.is_finite(), "row {i}, column {k}: found {found}");
            worst = worst.max((found - expected).abs());
            largest = largest.max(found.abs());
        }
    }
    // The solver's residual is that of the sweep before; hubs may make this one somewhat larger.
    assert!(worst <= 5.0 * TOLERANCE * largest, "residual {worst:e}, largest entry {largest}");
}
