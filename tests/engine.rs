//! The engine as a backend of the reference model: every operation of the chain by kernels and
//! solver, in f32. Tests hold it against dense f64 loops, here on random models and in `golden` on
//! the golden ones.

use ignn::dense::Matrix;
use ignn::kernels::sweep::{Direction, Sweep, SweepScratch, Term, blocks, product};
use ignn::kernels::{Activation, AdjacencyRef, Derivative, Isa, PackedWeights, gradient};
use ignn::parallel::RowBlocks;
use ignn::solver::certificate::lipschitz;
use ignn::solver::{Certificate, SolveParams, Workspace, fixed_point};

use crate::reference::{Backend, Dense, Layer, Loss, Mat, Model, Outcome, Phi, Random};

fn activation(phi: Phi) -> Activation {
    match phi {
        Phi::Identity => Activation::Identity,
        Phi::Relu => Activation::Relu,
        Phi::LeakyRelu(slope) => Activation::LeakyRelu(slope as f32),
        Phi::Tanh => Activation::Tanh,
        Phi::Sigmoid => Activation::Sigmoid,
        Phi::Elu => Activation::Elu,
    }
}

/// The rows of a matrix in compressed form.
pub struct Rows {
    offsets: Vec<u64>,
    neighbours: Vec<u32>,
    values: Vec<f32>,
}

impl Rows {
    pub fn of(a: &Mat) -> Self {
        let mut rows = Self { offsets: vec![0], neighbours: Vec::new(), values: Vec::new() };
        for i in 0..a.rows {
            for k in (0..a.cols).filter(|&k| a.at(i, k) != 0.0) {
                rows.neighbours.push(k as u32);
                rows.values.push(a.at(i, k) as f32);
            }
            rows.offsets.push(rows.neighbours.len() as u64);
        }
        rows
    }

    pub fn view(&self) -> AdjacencyRef<'_> {
        let rows = self.offsets.len() - 1;
        AdjacencyRef::new(rows, &self.offsets, &self.neighbours).unwrap().with_values(&self.values)
    }
}

fn single(mat: &Mat) -> Matrix {
    Matrix::from_fn(mat.rows, mat.cols, |i, k| mat.at(i, k) as f32)
}

fn double(matrix: &Matrix) -> Mat {
    Mat::new(matrix.rows(), matrix.cols(), |i, k| f64::from(matrix.row(i)[k]))
}

/// The kernels and the solver, in f32.
pub struct Engine;

impl Engine {
    fn product(
        terms: &[Term<'_>],
        plain: Option<&PackedWeights>,
        bias: Option<&[f32]>,
        from: &Mat,
        width: usize,
    ) -> Mat {
        let blocks = RowBlocks::balanced(from.rows, &[], 1);
        let widths = vec![from.cols; terms.len() + usize::from(plain.is_some())];
        let scratch = SweepScratch::with_widths(&widths, width, Isa::chosen());
        let mut to = Matrix::zeros(from.rows, width);
        product(&blocks, terms, plain, bias, single(from).view(), to.view_mut(), &scratch);
        double(&to)
    }

    fn solve(layer: &Layer, input: &Mat, state: Option<&Mat>) -> Mat {
        let (adjoint, activation) = (state.is_some(), activation(layer.activation));
        let pack = if adjoint { PackedWeights::adjoint } else { PackedWeights::forward };
        let graphs: Vec<Rows> =
            layer.a.iter().map(|a| if adjoint { Rows::of(a) } else { Rows::of(&a.t()) }).collect();
        let weights: Vec<PackedWeights> = layer.w.iter().map(|w| pack(single(w).view())).collect();
        let pairs = graphs.iter().zip(&weights);
        let terms: Vec<Term<'_>> =
            pairs.map(|(graph, weights)| Term { adjacency: graph.view(), weights }).collect();
        let (blocks, scratch, input) = (blocks(&terms), SweepScratch::new(&terms), single(input));
        let sweep =
            Sweep { blocks: &blocks, terms: &terms, input: input.view().into(), scratch: &scratch };
        let certificate = Certificate::of(&terms, lipschitz(activation), None);
        let params = SolveParams {
            tolerance: 2e-7,
            max_sweeps: 5000,
            patience: 50,
            ..SolveParams::default()
        };
        let (n, m) = (input.rows(), input.cols());
        let (mut solution, mut workspace) =
            (Matrix::zeros(n, m), Workspace::new(n, m, !certificate.holds()));
        let info = match state {
            None => fixed_point::solve(
                &sweep,
                Direction::Forward(activation),
                Some(&certificate),
                &params,
                &mut solution,
                &mut workspace,
            ),
            Some(state) => {
                let state = single(state);
                let derivative = Derivative::State { activation, state: state.view() };
                fixed_point::solve(
                    &sweep,
                    Direction::Adjoint(derivative),
                    Some(&certificate),
                    &params,
                    &mut solution,
                    &mut workspace,
                )
            }
        };
        let info = info.unwrap();
        assert!(info.relative_residual < 2e-6, "{info:?}");
        double(&solution)
    }
}

impl Backend for Engine {
    fn input_term(&self, layer: &Layer, u: &Mat) -> Mat {
        let graphs: Vec<Rows> = layer.a.iter().map(|a| Rows::of(&a.t())).collect();
        let pack = |omega: &Mat| PackedWeights::forward(single(omega).view());
        let through: Vec<PackedWeights> = layer.through.iter().map(pack).collect();
        let term = |(graph, weights)| Term { adjacency: Rows::view(graph), weights };
        let terms: Vec<Term<'_>> = graphs.iter().zip(&through).map(term).collect();
        let direct = layer.direct.as_ref().map(pack);
        let bias = layer.bias.as_ref().map(single);
        let bias = bias.as_ref().map(|bias| bias.row(0));
        Self::product(&terms, direct.as_ref(), bias, u, layer.w[0].rows)
    }

    fn linear(&self, x: &Mat, p: &Mat) -> Mat {
        Self::product(&[], Some(&PackedWeights::forward(single(p).view())), None, x, p.rows)
    }

    fn equilibrium(&self, layer: &Layer, b: &Mat) -> Mat {
        Self::solve(layer, b, None)
    }

    fn adjoint(&self, layer: &Layer, x: &Mat, r: &Mat) -> Mat {
        Self::solve(layer, r, Some(x))
    }

    fn weight(&self, a: &Mat, g: &Mat, x: &Mat) -> Mat {
        double(&gradient::weight(Rows::of(&a.t()).view(), single(g).view(), single(x).view()))
    }

    fn input(&self, g: &Mat, u: &Mat) -> Mat {
        double(&gradient::input(single(g).view(), single(u).view()))
    }

    fn sums(&self, g: &Mat) -> Mat {
        let sums = gradient::bias(single(g).view());
        Mat::new(1, g.cols, |_, k| f64::from(sums[k]))
    }

    fn outgoing(&self, a: &Mat, g: &Mat) -> Mat {
        let rows = Rows::of(a);
        let mut to = Matrix::zeros(g.rows, g.cols);
        let blocks = RowBlocks::balanced(g.rows, &[&rows.offsets], 1);
        gradient::adjacency_times(&blocks, rows.view(), single(g).view(), to.view_mut());
        double(&to)
    }
}

/// A layer with all optional parts; it is a contraction.
pub fn layer(
    random: &mut Random,
    n: usize,
    m: usize,
    p: usize,
    relations: usize,
    phi: Phi,
) -> Layer {
    let mut mat = |rows, cols, size: f64| Mat::new(rows, cols, |_, _| random.sign() * size);
    // Stored numbers are those of f32, so that both sides solve the same equation.
    let rounded = |mut mat: Mat| {
        mat.data.iter_mut().for_each(|x| *x = f64::from(*x as f32));
        mat
    };
    // Sums of columns of A below 0.6 n and of rows of W below 1.2 / n / relations.
    let a = (0..relations).map(|_| {
        let mut a = mat(n, n, 1.0);
        a.data.iter_mut().for_each(|x| *x = (*x - 0.4).max(0.0));
        rounded(a)
    });
    Layer {
        a: a.collect(),
        w: (0..relations).map(|_| rounded(mat(m, m, 1.2 / (n * m * relations) as f64))).collect(),
        through: (0..relations).map(|_| rounded(mat(m, p, 1.0))).collect(),
        direct: Some(rounded(mat(m, p, 1.0))),
        bias: Some(rounded(mat(1, m, 1.0))),
        activation: phi,
        skip: None,
    }
}

/// All activations.
pub const ALL: [Phi; 6] =
    [Phi::Tanh, Phi::Sigmoid, Phi::Elu, Phi::Identity, Phi::Relu, Phi::LeakyRelu(0.125)];

/// One layer with a readout and cross entropy, or two with skips and binary cross entropy.
pub fn model(random: &mut Random, phi: Phi, relations: usize, stacked: bool) -> Model {
    let (n, m, p) = (4 + random.below(4), 2 + random.below(3), 2);
    let mut layers = vec![layer(random, n, m, p, relations, phi)];
    let u = Mat::new(n, p, |_, _| random.sign());
    if !stacked {
        let targets = Mat::new(n, 1, |i, _| (i % 3) as f64);
        let theta = Mat::new(3, m, |_, _| random.sign());
        let loss = Loss { targets, binary: false, rows: (0..n).filter(|i| i % 4 != 1).collect() };
        return Model { u, layers, theta: Some(theta), loss };
    }
    layers.push(layer(random, n, 2, m, 1, phi));
    for (at, (out, input)) in [(m, p), (2, m)].into_iter().enumerate() {
        let skip =
            (Mat::new(out, input, |_, _| random.sign()), Mat::new(1, out, |_, _| random.sign()));
        layers[at].skip = Some(skip);
    }
    let targets = Mat::new(n, 2, |_, _| random.below(2) as f64);
    Model { u, layers, theta: None, loss: Loss { targets, binary: true, rows: (0..n).collect() } }
}

/// Every parameter of a model, in the order of [`gradients`].
pub fn parameters(model: &mut Model) -> Vec<&mut Mat> {
    let Model { u, layers, theta, .. } = model;
    let mut all = vec![u];
    all.extend(theta.as_mut());
    for layer in layers {
        all.extend(layer.w.iter_mut().chain(&mut layer.through));
        all.extend(layer.direct.as_mut());
        all.extend(layer.bias.as_mut());
        all.extend(layer.skip.iter_mut().flat_map(|(v, bias)| [v, bias]));
    }
    all
}

/// The gradient of every parameter.
pub fn gradients(outcome: &Outcome) -> Vec<&Mat> {
    let mut all = vec![&outcome.gradients[0].u];
    all.extend(outcome.theta.as_ref());
    for layer in &outcome.gradients {
        all.extend(layer.w.iter().chain(&layer.through));
        all.extend(layer.direct.as_ref());
        all.extend(layer.bias.as_ref());
        all.extend(layer.skip.iter().flat_map(|(v, bias)| [v, bias]));
    }
    all
}

#[test]
fn gradients_agree_with_differences_through_the_whole_chain() {
    const STEP: f64 = 1e-6;
    let mut random = Random::new(5);
    for (phi, relations, stacked) in ALL.into_iter().flat_map(|phi| {
        [(phi, 1, false), (phi, 2, false), (phi, 3, false), (phi, 1, true), (phi, 2, true)]
    }) {
        let model = model(&mut random, phi, relations, stacked);
        let outcome = model.run(&Dense);
        for (which, gradient) in gradients(&outcome).into_iter().enumerate() {
            for at in 0..gradient.data.len() {
                let loss = |step: f64| {
                    let mut moved = model.clone();
                    parameters(&mut moved)[which].data[at] += step;
                    moved.run(&Dense).loss
                };
                let difference = (loss(STEP) - loss(-STEP)) / (2.0 * STEP);
                let error = (difference - gradient.data[at]).abs();
                let allowed = 1e-7 * gradient.largest().max(0.1);
                assert!(
                    error <= allowed,
                    "{phi:?}, {relations} relations: parameter {which}, entry {at}: {error}"
                );
            }
        }
    }
}

#[test]
fn the_engine_agrees_with_the_reference_on_random_models() {
    let mut random = Random::new(6);
    for round in 0..120 {
        let (phi, relations, stacked) = (ALL[round % 6], 1 + round % 3, round % 4 == 3);
        let model = model(&mut random, phi, relations, stacked);
        let (expected, found) = (model.run(&Dense), model.run(&Engine));
        assert!((found.loss - expected.loss).abs() <= 1e-5 * expected.loss, "{phi:?}");
        let pairs = gradients(&found).into_iter().zip(gradients(&expected));
        for (which, (found, expected)) in pairs.enumerate() {
            let (error, largest) = (found.distance(expected), expected.largest());
            assert!(
                error <= 1e-5 * largest.max(1e-2),
                "{phi:?} {relations} {stacked}: parameter {which}: {error} of {largest}"
            );
        }
    }
}
