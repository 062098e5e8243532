//! What is certified is true, and not much weaker than the truth.

use super::super::certificate::activation_error;
use super::super::testing::reference::{Backend, Dense, value};
use super::*;
use crate::kernels::{AdjacencyRef, Isa, Norm};

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn the_true_error_never_exceeds_the_certified_one_and_is_not_far_below() {
    let mut random = Random::new(21);
    let (mut forward, mut adjoint, mut uncertified) = (Vec::new(), Vec::new(), 0);
    for round in 0..600 {
        let kappa = [0.5, 0.9, 0.98][round % 3];
        let mut equation = Equation::random(&mut random, kappa);
        // Numbers at the ends of what f32 holds, where products get lost.
        let size = [1.0, 1.0, 1.0, 1e-37, 1e30][random.below(5)];
        (0..equation.b.rows())
            .for_each(|i| equation.b.row_mut(i).iter_mut().for_each(|b| *b *= size));
        let tolerance = 10f64.powf(-1.0 - 6.0 * random.unit());
        let params = SolveParams { tolerance, max_sweeps: 3000, ..SolveParams::default() };
        let layer = equation.layer();
        let found = equation.forward(&params);
        let exact = Dense.equilibrium(&layer, &to_mat(&equation.b));
        let distance = exact.distance(&to_mat(&found.state));
        let Some(bound) = found.info.certified_error else {
            uncertified += 1;
            continue;
        };
        assert!(
            distance <= bound.largest,
            "round {round}: {distance} above {bound:?}, {:?}",
            found.info
        );
        assert!(bound.rounding <= bound.largest);
        if size != 1.0 {
            continue;
        }
        forward.push(bound.largest / distance.max(1e-9));
        // The adjoint at the state found: its equation has the derivative there.
        let r =
            Matrix::from_fn(found.state.rows(), found.state.cols(), |_, _| random.sign() as f32);
        let back = equation.adjoint(&found.state, &r, &params);
        let exact = Dense.adjoint(&layer, &to_mat(&found.state), &to_mat(&r));
        let distance = exact.distance(&to_mat(&back.state));
        if let Some(bound) = back.info.certified_error {
            assert!(
                distance <= bound.largest,
                "round {round}: {distance} above {bound:?}, {:?}",
                back.info
            );
            adjoint.push(bound.largest / distance.max(1e-9));
        }
    }
    assert!(uncertified <= 60, "{uncertified} of 600 well-posed equations were not certified");
    assert!(adjoint.len() > 250, "{}", adjoint.len());
    let (forward, adjoint) = (median(forward), median(adjoint));
    println!("certified over true error, median: {forward:.1} forward, {adjoint:.1} adjoint");
    assert!(forward < 300.0 && adjoint < 300.0, "{forward} {adjoint}");
}

/// The equilibrium of one relation in f64, by its entries.
fn sparse_equilibrium(equation: &Equation) -> Mat {
    let (a, w) = (equation.incoming[0].view(), to_mat(&equation.w[0]).t());
    let scale = |row: usize| a.row_scale().map_or(1.0, |scale| f64::from(scale[row]));
    let (b, phi) = (to_mat(&equation.b), phi(equation.activation));
    let mut x = Mat::new(b.rows, b.cols, |_, _| 0.0);
    for _ in 0..2000 {
        let mut gathered = Mat::new(b.rows, b.cols, |_, _| 0.0);
        for (i, sums) in gathered.data.chunks_exact_mut(b.cols).enumerate() {
            for at in a.range(i) {
                let j = a.neighbours()[at] as usize;
                let value = f64::from(equation.incoming[0].values[at]) * scale(i) * scale(j);
                sums.iter_mut().zip(&x.data[j * b.cols..]).for_each(|(sum, x)| *sum += value * x);
            }
        }
        let product = gathered.times(&w);
        let next = product.zip(&b, |product, b| value(phi, product + b));
        let moved = next.distance(&x);
        x = next;
        if moved <= 1e-14 * x.largest() {
            break;
        }
    }
    x
}

#[test]
fn hubs_and_many_blocks_do_not_break_the_bound() {
    let mut random = Random::new(26);
    for _ in 0..4 {
        let equation = Equation::large(&mut random);
        let exact = sparse_equilibrium(&equation);
        for tolerance in [1e-2, 1e-6] {
            let found = equation.forward(&SolveParams { tolerance, ..SolveParams::default() });
            let bound = found.info.certified_error.unwrap();
            let distance = exact.distance(&to_mat(&found.state));
            assert!(distance <= bound.largest, "{distance} above {bound:?}");
        }
    }
}

/// The kernels' own activations, through a sweep without edges.
#[test]
fn activations_keep_to_the_error_that_certificates_count_on() {
    let (rows, cols) = (1500, 32);
    let offsets = vec![0u64; rows + 1];
    let weights = PackedWeights::forward(Matrix::zeros(cols, cols).view());
    let terms =
        [Term { adjacency: AdjacencyRef::new(rows, &offsets, &[]).unwrap(), weights: &weights }];
    let blocks = blocks(&terms);
    // Half of the inputs are spread evenly, half by orders of magnitude.
    let mut random = Random::new(24);
    let input = Matrix::from_fn(rows, cols, |i, _| match i % 2 {
        0 => (random.sign() * 20.0) as f32,
        _ => (random.sign() * 10f64.powf(random.sign() * 6.0)) as f32,
    });
    for isa in Isa::available() {
        let scratch = SweepScratch::with_widths(&[cols], cols, isa);
        let sweep =
            Sweep { blocks: &blocks, terms: &terms, input: input.view().into(), scratch: &scratch };
        for activation in ACTIVATIONS {
            let (zero, mut found) = (Matrix::zeros(rows, cols), Matrix::zeros(rows, cols));
            sweep.forward(activation, Norm::default(), zero.view(), found.view_mut());
            let allowed = activation_error(Some(activation));
            for (i, k) in (0..rows).flat_map(|i| (0..cols).map(move |k| (i, k))) {
                let z = input.row(i)[k];
                let exact = value(phi(activation), f64::from(z));
                let error = (f64::from(found.row(i)[k]) - exact).abs();
                // The product of a slope is rounded, and counted with the sums.
                let product = f64::from(z).abs() * f64::from(f32::EPSILON);
                let slope = if allowed == 0.0 { product } else { 0.0 };
                assert!(
                    error <= allowed * 0.75 + slope,
                    "{} {activation:?} at {z}: {error}",
                    isa.name()
                );
            }
        }
    }
}

#[test]
fn a_weight_with_a_small_radius_and_a_large_norm_is_certified() {
    let graph = Graph { nodes: 2, entries: vec![(0, 1, 1.0), (1, 0, 1.0)] };
    let w = Matrix::from_fn(2, 2, |k, l| [[0.5, 20.0], [0.0, 0.5]][k][l]);
    let b = Matrix::from_fn(2, 2, |_, _| 1.0);
    let equation = Equation::one(&graph, w, b, Activation::Identity);
    let found = equation.forward(&SolveParams { tolerance: 1e-6, ..SolveParams::default() });
    assert!(found.info.contraction.unwrap() < 0.8, "{:?}", found.info);
    // x2 = 1 / (1 - 0.5), x1 = (20 x2 + 1) / (1 - 0.5)
    assert!(
        (found.state.row(0)[0] - 82.0).abs() < 1e-2 && (found.state.row(1)[1] - 2.0).abs() < 1e-4
    );
}

/// A model from elsewhere: its weight satisfies the eigenvalue's condition only. Rescaled, it
/// satisfies the norm's, and its readout stays.
#[test]
fn rescaling_keeps_the_output_of_a_solve() {
    let mut random = Random::new(25);
    let mut rescaled = 0;
    for _ in 0..60 {
        let mut equation = Equation::random(&mut random, 0.8);
        let activation =
            [Activation::Relu, Activation::Identity, Activation::LeakyRelu(0.2)][random.below(3)];
        equation.activation = activation;
        if equation.w.len() > 1 {
            continue;
        }
        let rho =
            SpectralBound::of(&equation.incoming[0].view(), None, &SpectralParams::default()).rho;
        let m = equation.b.cols();
        // W := S W S^-1 with a steep S: the radius of |W| stays, the norm does not.
        let steep: Vec<f64> = (0..m).map(|_| (random.sign() * 2.0).exp()).collect();
        let plain = equation.w[0].clone();
        equation.w[0] =
            Matrix::from_fn(m, m, |k, l| (f64::from(plain.row(k)[l]) * steep[k] / steep[l]) as f32);
        let before = Posedness::of(rho, equation.w[0].view(), activation);
        if before.condition != Condition::Eigenvalue {
            continue;
        }
        let theta = Matrix::from_fn(2, m, |_, _| random.sign() as f32);
        let params = SolveParams {
            tolerance: 1e-7,
            max_sweeps: 2000,
            patience: 40,
            ..SolveParams::default()
        };
        let output = |equation: &Equation, theta: &Matrix| {
            to_mat(&equation.forward(&params).state).times(&to_mat(theta).t())
        };
        let expected = output(&equation, &theta);
        let limit = (1.0 + before.by_eigenvalue) / 2.0 / rho;
        let scaling = Rescaling::of(equation.w[0].view(), limit, activation).unwrap();
        let mut theta = theta;
        scaling.weight(&mut equation.w[0]);
        scaling.input(&mut equation.b);
        scaling.read_out(&mut theta);
        let after = Posedness::of(rho, equation.w[0].view(), activation);
        assert_eq!(after.condition, Condition::Norm, "{before:?} {after:?}");
        assert!(after.margin() > 0.0 && before.margin() > 0.0);
        let (found, size) = (output(&equation, &theta), expected.largest());
        assert!(
            found.distance(&expected) <= 1e-4 * size,
            "{} of {size}",
            found.distance(&expected)
        );
        rescaled += 1;
    }
    assert!(rescaled > 10, "{rescaled}");
}
