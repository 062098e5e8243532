//! Solves held against f64: what is certified is true, and every way to the equilibrium leads there.

use super::certificate::{activation_error, lipschitz};
use super::testing::reference::{Backend, Dense, Layer, Mat, Phi, value};
use super::testing::{Csr, Graph, Random};
use super::*;
use crate::dense::{Matrix, SharedMatrix};
use crate::kernels::sweep::{Sweep, SweepScratch, Term, blocks};
use crate::kernels::{Activation, AdjacencyRef, Derivative, Isa, Norm, PackedWeights};
use crate::parallel::with_threads;

const ACTIVATIONS: [Activation; 6] = [
    Activation::Relu,
    Activation::Tanh,
    Activation::Identity,
    Activation::LeakyRelu(0.1),
    Activation::Sigmoid,
    Activation::Elu,
];

/// An equation in f32, with all that solving it in both directions needs.
struct Equation {
    incoming: Vec<Csr>,
    outgoing: Vec<Csr>,
    w: Vec<Matrix>,
    b: Matrix,
    activation: Activation,
}

/// One direction of an equation, solved.
struct Solved {
    info: SolveInfo,
    state: Matrix,
}

/// The activation of the reference.
fn phi(activation: Activation) -> Phi {
    match activation {
        Activation::Identity => Phi::Identity,
        Activation::Relu => Phi::Relu,
        Activation::LeakyRelu(slope) => Phi::LeakyRelu(f64::from(slope)),
        Activation::Tanh => Phi::Tanh,
        Activation::Sigmoid => Phi::Sigmoid,
        Activation::Elu => Phi::Elu,
    }
}

fn to_mat(matrix: &Matrix) -> Mat {
    Mat::new(matrix.rows(), matrix.cols(), |i, k| f64::from(matrix.row(i)[k]))
}

impl Equation {
    /// A random graph or two, and a W of norm `kappa / rho` in all: just inside the condition for kappa below 1.
    fn random(random: &mut Random, kappa: f64) -> Self {
        let relations = 1 + random.below(4) / 3;
        let nodes = 3 + random.below(10);
        let graph = |random: &mut Random| loop {
            let mut graph = Graph::random(random);
            if graph.nodes >= nodes {
                graph.nodes = nodes;
                graph.entries.retain(|entry| entry.0 < nodes && entry.1 < nodes);
                return if random.below(2) == 0 { graph.renormalised() } else { graph };
            }
        };
        let graphs: Vec<Graph> = (0..relations).map(|_| graph(random)).collect();
        let incoming: Vec<Csr> = graphs.iter().map(|graph| graph.csr(false)).collect();
        let m = 1 + random.below(20);
        let single = relations == 1;
        let w = incoming.iter().map(|csr| {
            // The condition of one relation is by the spectral radius, that of several by 1-norms.
            let rho = match single {
                true => SpectralBound::of(&csr.view(), None, &SpectralParams::default()).rho,
                false => entries::ratios(&csr.view(), |_| 1.0).high * relations as f64,
            };
            let mut w = Matrix::from_fn(m, m, |_, _| random.sign() as f32);
            let radius = if rho == 0.0 { 3.0 } else { kappa / rho };
            for k in 0..m {
                let norm: f32 = w.row(k).iter().map(|x| x.abs()).sum();
                w.row_mut(k).iter_mut().for_each(|x| *x *= radius as f32 / norm.max(1e-3));
            }
            w
        });
        let w = w.collect();
        let b = Matrix::from_fn(nodes, m, |_, _| random.sign() as f32);
        let outgoing = graphs.iter().map(|graph| graph.csr(true)).collect();
        Self { incoming, outgoing, w, b, activation: ACTIVATIONS[random.below(6)] }
    }

    /// Many blocks of rows for the threads to share, and hubs among them.
    fn large(random: &mut Random) -> Self {
        let nodes = 3000;
        let node = |random: &mut Random| (random.unit().powi(3) * nodes as f64) as usize;
        let mut pairs: Vec<_> = (0..8 * nodes)
            .map(|_| (node(random), random.below(nodes)))
            .flat_map(|(i, j)| [(i, j), (j, i)])
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        let entries = pairs.into_iter().map(|(i, j)| (i, j, 1.0)).collect();
        let graph = Graph { nodes, entries }.renormalised();
        let m = 24;
        // The certificate of a renormalised graph whose values are stored needs its vector tightened.
        let w = Matrix::from_fn(m, m, |_, _| (random.sign() / m as f64) as f32);
        let b = Matrix::from_fn(nodes, m, |_, _| random.sign() as f32);
        let (incoming, outgoing) = (vec![graph.csr(false)], vec![graph.csr(true)]);
        Self { incoming, outgoing, w: vec![w], b, activation: ACTIVATIONS[random.below(6)] }
    }

    fn layer(&self) -> Layer {
        let dense = |csr: &Csr| {
            let mut a = Mat::new(self.b.rows(), self.b.rows(), |_, _| 0.0);
            for i in 0..a.rows {
                for at in csr.offsets[i] as usize..csr.offsets[i + 1] as usize {
                    a.data[i * a.cols + csr.neighbours[at] as usize] = f64::from(csr.values[at]);
                }
            }
            a
        };
        Layer {
            a: self.outgoing.iter().map(dense).collect(),
            w: self.w.iter().map(to_mat).collect(),
            through: Vec::new(),
            direct: None,
            bias: None,
            activation: phi(self.activation),
            skip: None,
        }
    }

    /// Runs `work` with the sweep of a direction and its certificate.
    fn with_sweep<R>(
        &self,
        adjoint: bool,
        input: &Matrix,
        work: impl FnOnce(&Sweep<'_>, Certificate) -> R,
    ) -> R {
        let pack = if adjoint { PackedWeights::adjoint } else { PackedWeights::forward };
        let weights: Vec<PackedWeights> = self.w.iter().map(|w| pack(w.view())).collect();
        let graphs = if adjoint { &self.outgoing } else { &self.incoming };
        let terms: Vec<Term<'_>> = graphs
            .iter()
            .zip(&weights)
            .map(|(graph, weights)| Term { adjacency: graph.view(), weights })
            .collect();
        let (blocks, scratch) = (blocks(&terms), SweepScratch::new(&terms));
        let sweep = Sweep { blocks: &blocks, terms: &terms, input: input.view(), scratch: &scratch };
        let certificate = Certificate::of(&terms, lipschitz(self.activation), None);
        work(&sweep, certificate)
    }

    fn forward(&self, params: &SolveParams) -> Solved {
        self.with_sweep(false, &self.b, |sweep, certificate| {
            let (n, m) = (self.b.rows(), self.b.cols());
            let (mut state, mut workspace) =
                (Matrix::zeros(n, m), Workspace::new(n, m, !certificate.holds()));
            let info = fixed_point::forward(
                sweep,
                self.activation,
                Some(&certificate),
                params,
                &mut state,
                &mut workspace,
            );
            Solved { info: info.unwrap(), state }
        })
    }

    fn adjoint(&self, x: &Matrix, r: &Matrix, params: &SolveParams) -> Solved {
        self.with_sweep(true, r, |sweep, certificate| {
            let (n, m) = (r.rows(), r.cols());
            let (mut state, mut workspace) =
                (Matrix::zeros(n, m), Workspace::new(n, m, !certificate.holds()));
            let derivative = Derivative::State { activation: self.activation, state: x.view() };
            let info = fixed_point::adjoint(
                sweep,
                derivative,
                Some(&certificate),
                params,
                &mut state,
                &mut workspace,
            );
            Solved { info: info.unwrap(), state }
        })
    }
}

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
        let equation = Equation::random(&mut random, kappa);
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
        assert!(distance <= bound.largest, "round {round}: {distance} above {bound:?}, {:?}", found.info);
        assert!(bound.rounding <= bound.largest);
        forward.push(bound.largest / distance.max(1e-9));
        // The adjoint at the state found: its equation has the derivative there.
        let r = Matrix::from_fn(found.state.rows(), found.state.cols(), |_, _| random.sign() as f32);
        let back = equation.adjoint(&found.state, &r, &params);
        let exact = Dense.adjoint(&layer, &to_mat(&found.state), &to_mat(&r));
        let distance = exact.distance(&to_mat(&back.state));
        if let Some(bound) = back.info.certified_error {
            assert!(distance <= bound.largest, "round {round}: {distance} above {bound:?}, {:?}", back.info);
            adjoint.push(bound.largest / distance.max(1e-9));
        }
    }
    assert!(uncertified <= 60, "{uncertified} of 600 well-posed equations were not certified");
    assert!(adjoint.len() > 400);
    let (forward, adjoint) = (median(forward), median(adjoint));
    println!("certified over true error, median: {forward:.1} forward, {adjoint:.1} adjoint");
    assert!(forward < 300.0 && adjoint < 300.0, "{forward} {adjoint}");
}

/// The kernels' own activations, through a sweep without edges.
#[test]
fn activations_keep_to_the_error_that_certificates_count_on() {
    let (rows, cols) = (1500, 32);
    let offsets = vec![0u64; rows + 1];
    let weights = PackedWeights::forward(Matrix::zeros(cols, cols).view());
    let terms = [Term { adjacency: AdjacencyRef::new(rows, &offsets, &[]).unwrap(), weights: &weights }];
    let blocks = blocks(&terms);
    // Half of the inputs are spread evenly, half by orders of magnitude.
    let mut random = Random::new(24);
    let input = Matrix::from_fn(rows, cols, |i, _| match i % 2 {
        0 => (random.sign() * 20.0) as f32,
        _ => (random.sign() * 10f64.powf(random.sign() * 6.0)) as f32,
    });
    for isa in Isa::available() {
        let scratch = SweepScratch::with_widths(&[cols], cols, isa);
        let sweep = Sweep { blocks: &blocks, terms: &terms, input: input.view(), scratch: &scratch };
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
                assert!(error <= allowed * 0.75 + slope, "{} {activation:?} at {z}: {error}", isa.name());
            }
        }
    }
}

#[test]
fn in_place_and_synchronous_solves_agree_within_both_certificates() {
    let mut random = Random::new(22);
    let mut compared = 0;
    for round in 0..160 {
        let mut equation = Equation::random(&mut random, 0.9);
        if round % 40 == 0 {
            equation = Equation::large(&mut random);
        }
        let params = SolveParams { tolerance: 1e-6, max_sweeps: 2000, ..SolveParams::default() };
        let forward = equation.forward(&params);
        let r = Matrix::from_fn(equation.b.rows(), equation.b.cols(), |_, _| random.sign() as f32);
        let back = equation.adjoint(&forward.state, &r, &params);
        for (adjoint, input, plain) in [(false, &equation.b, &forward), (true, &r, &back)] {
            let solve = || {
                equation.with_sweep(adjoint, input, |sweep, certificate| {
                    let mut state = SharedMatrix::zeros(input.rows(), input.cols());
                    let activation = equation.activation;
                    let info = if adjoint {
                        let derivative = Derivative::State { activation, state: forward.state.view() };
                        asynchronous::adjoint(sweep, derivative, &certificate, &params, &mut state)
                    } else {
                        asynchronous::forward(sweep, activation, &certificate, &params, &mut state)
                    };
                    (info, state)
                })
            };
            if plain.info.contraction.is_none() {
                assert!(matches!(solve().0, Err(SolveError::NotCertified { .. })));
                continue;
            }
            for threads in [1, 2, 4] {
                let (info, state) = with_threads(threads, solve);
                let info = info.unwrap();
                let bounds =
                    info.certified_error.unwrap().largest + plain.info.certified_error.unwrap().largest;
                let distance = to_mat(&plain.state).distance(&to_mat(&state.to_matrix()));
                assert!(distance <= bounds, "{distance} above {bounds}");
                assert!(info.converged || info.stopped == Stopped::Stagnated, "{info:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 300, "{compared}");
}

#[test]
fn an_equation_that_is_not_certified_is_not_solved_in_place() {
    let graph = Graph { nodes: 2, entries: vec![(0, 1, 2.0), (1, 0, 2.0)] };
    let equation = Equation {
        incoming: vec![graph.csr(false)],
        outgoing: vec![graph.csr(true)],
        w: vec![Matrix::from_fn(1, 1, |_, _| 0.75)],
        b: Matrix::from_fn(2, 1, |_, _| 1.0),
        activation: Activation::Tanh,
    };
    equation.with_sweep(false, &equation.b, |sweep, certificate| {
        let mut state = SharedMatrix::zeros(2, 1);
        let params = SolveParams::default();
        let error = asynchronous::forward(sweep, Activation::Tanh, &certificate, &params, &mut state);
        let message = error.unwrap_err().to_string();
        assert!(
            message.starts_with(
                "forward solve: asynchronous sweeps need a certified contraction (found a bound of 1.5"
            ),
            "{message}"
        );
    });
    let found = equation.forward(&SolveParams::default());
    assert!(found.info.converged && found.info.contraction.is_none() && found.info.certified_error.is_none());
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    let mut random = Random::new(23);
    for _ in 0..20 {
        let equation = Equation::random(&mut random, 0.9);
        let solve = |threads| with_threads(threads, || equation.forward(&SolveParams::default()));
        let first = solve(1);
        for threads in [2, 4] {
            let other = solve(threads);
            assert_eq!(other.info.sweeps, first.info.sweeps);
            for i in 0..first.state.rows() {
                let bits = |matrix: &Matrix| matrix.row(i).iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&other.state), bits(&first.state));
            }
        }
    }
}

/// x = activation(w x + b) on one node with a loop.
fn scalar(w: f32, b: f32, activation: Activation) -> Equation {
    let graph = Graph { nodes: 1, entries: vec![(0, 0, 1.0)] };
    Equation {
        incoming: vec![graph.csr(false)],
        outgoing: vec![graph.csr(true)],
        w: vec![Matrix::from_fn(1, 1, |_, _| w)],
        b: Matrix::from_fn(1, 1, |_, _| b),
        activation,
    }
}

fn solve(equation: &Equation, params: &SolveParams, start: f32) -> (Result<SolveInfo, SolveError>, f32) {
    equation.with_sweep(false, &equation.b, |sweep, certificate| {
        let (mut state, mut workspace) = (Matrix::from_fn(1, 1, |_, _| start), Workspace::new(1, 1, true));
        let activation = equation.activation;
        let info =
            fixed_point::forward(sweep, activation, Some(&certificate), params, &mut state, &mut workspace);
        (info, state.row(0)[0])
    })
}

#[test]
fn a_warm_start_takes_fewer_sweeps_and_the_reason_to_stop_is_told() {
    let equation = scalar(0.5, 1.0, Activation::Relu);
    let params = SolveParams::default();
    let (cold, x) = solve(&equation, &params, 0.0);
    let cold = cold.unwrap();
    assert!((x - 2.0).abs() < 1e-4 && cold.converged && cold.stopped == Stopped::Converged);
    assert!((cold.contraction.unwrap() - 0.5).abs() < 1e-6 && cold.sweeps > 10);
    let (warm, _) = solve(&equation, &params, 2.0);
    assert_eq!(warm.unwrap().sweeps, 1);
    let (short, x) = solve(&equation, &SolveParams { max_sweeps: 2, ..params }, 0.0);
    let short = short.unwrap();
    assert_eq!((short.stopped, short.converged, short.sweeps, x), (Stopped::MaxSweeps, false, 2, 1.5));
    assert!(short.certified_error.unwrap().largest >= 0.5);
    let (none, x) = solve(&equation, &SolveParams { max_sweeps: 0, ..params }, 7.0);
    assert_eq!((none.unwrap().certified_error, x), (None, 7.0));
}

#[test]
fn the_best_state_is_kept_where_nothing_converges() {
    // x = -2 x + 1 has 1/3, from which every sweep moves away: the start is the best state.
    let equation = scalar(-2.0, 1.0, Activation::Identity);
    let (info, x) = solve(&equation, &SolveParams { max_sweeps: 50, ..SolveParams::default() }, 0.5);
    let info = info.unwrap();
    assert_eq!((info.stopped, x), (Stopped::Stagnated, 0.5));
    assert_eq!((info.converged, info.contraction, info.certified_error), (false, None, None));
}

#[test]
fn numbers_that_are_none_are_errors_that_name_their_origin() {
    let message = |equation: &Equation, start| {
        let params = SolveParams { max_sweeps: 1000, patience: 1000, ..SolveParams::default() };
        solve(equation, &params, start).0.unwrap_err().to_string()
    };
    let fine = scalar(0.5, 1.0, Activation::Relu);
    assert_eq!(
        message(&scalar(0.5, f32::NAN, Activation::Relu), 0.0),
        "forward solve: row 0 of the input is not finite (found NaN)"
    );
    assert_eq!(
        message(&scalar(f32::INFINITY, 1.0, Activation::Relu), 0.0),
        "forward solve: a weight of relation 0 is not finite (found inf)"
    );
    let mut edge = scalar(0.5, 1.0, Activation::Relu);
    edge.incoming[0].values[0] = f32::NAN;
    assert_eq!(
        message(&edge, 0.0),
        "forward solve: an edge of node 0 in relation 0 is not finite (found NaN)"
    );
    assert_eq!(message(&fine, f32::NAN), "forward solve: row 0 of the start is not finite (found NaN)");
    let error = message(&scalar(1e20, 1.0, Activation::Relu), 0.0);
    assert!(error.starts_with("forward solve: the state overflowed in sweep 3"), "{error}");
}

#[test]
fn the_workspace_is_as_large_as_it_said() {
    assert_eq!(Workspace::bytes(10, 20, false), 10 * 32 * 4);
    assert_eq!(Workspace::bytes(10, 20, true), 2 * 10 * 32 * 4);
    assert_eq!(Workspace::new(10, 20, true).shape(), (10, 20));
}

#[test]
fn a_weight_with_a_small_radius_and_a_large_norm_is_certified() {
    let graph = Graph { nodes: 2, entries: vec![(0, 1, 1.0), (1, 0, 1.0)] };
    let equation = Equation {
        incoming: vec![graph.csr(false)],
        outgoing: vec![graph.csr(true)],
        w: vec![Matrix::from_fn(2, 2, |k, l| [[0.5, 20.0], [0.0, 0.5]][k][l])],
        b: Matrix::from_fn(2, 2, |_, _| 1.0),
        activation: Activation::Identity,
    };
    let found = equation.forward(&SolveParams { tolerance: 1e-6, ..SolveParams::default() });
    assert!(found.info.contraction.unwrap() < 0.8, "{:?}", found.info);
    // x2 = 1 / (1 - 0.5), x1 = (20 x2 + 1) / (1 - 0.5)
    assert!((found.state.row(0)[0] - 82.0).abs() < 1e-2 && (found.state.row(1)[1] - 2.0).abs() < 1e-4);
}
