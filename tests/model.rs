//! The whole model, as `train` uses it, against dense f64: golden cases, and central differences of
//! the chain. The f64 chain here knows nothing of gradients: what it says of them are differences
//! of losses.

use std::collections::BTreeMap;

use ignn::config::{Config, Init, ModelConfig, ReadoutKind};
use ignn::dense::Matrix;
use ignn::kernels::Activation;
use ignn::models::{Facts, Mode, Network, OnGraph};
use ignn::nn::{Backward, Dropout, Features, InputMap, Loss, LossKind, Operators, Targets};
use ignn::solver::{SolveInfo, SolveParams};
use ignn_format::features::SparseRows;

use crate::engine::Rows;
use crate::reference::{self, Backend, Dense, Layer, Mat, Phi, Random};

/// The epoch whose dropout is taken.
const EPOCH: u64 = 7;
const SEED: u64 = 3;

/// How features are handed to the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Given {
    Dense,
    Sparse,
    Learned,
}

/// A model with all that it computes from, in f64.
pub struct Case {
    pub a: Mat,
    /// Features; of learned ones only the number of rows counts.
    pub u: Mat,
    pub given: Given,
    pub config: ModelConfig,
    pub values: BTreeMap<String, Mat>,
    pub loss: reference::Loss,
}

/// What the engine makes of a case.
pub struct Found {
    pub state: Mat,
    /// Of the nodes of the loss.
    pub logits: Mat,
    pub loss: f64,
    pub gradients: BTreeMap<String, Mat>,
    pub adjoint: SolveInfo,
}

pub fn plain(state: usize, activation: Activation, input: InputMap) -> ModelConfig {
    ModelConfig {
        state: vec![state],
        activation: vec![activation],
        slope: 0.01,
        input,
        bias: false,
        kappa: vec![0.6],
        init: Init::Uniform,
        dropout: 0.0,
        hidden: vec![5, 4],
        head_bias: false,
        ..Config::default().model
    }
}

fn double(matrix: &Matrix) -> Mat {
    Mat::new(matrix.rows(), matrix.cols(), |i, k| f64::from(matrix.row(i)[k]))
}

fn single(mat: &Mat) -> Matrix {
    Matrix::from_fn(mat.rows, mat.cols, |i, k| mat.at(i, k) as f32)
}

impl Case {
    fn outputs(&self) -> usize {
        self.values["head.Theta"].rows
    }

    fn features(&self) -> Features {
        match self.given {
            Given::Dense => Features::Dense(single(&self.u)),
            Given::Learned => Features::Learned,
            Given::Sparse => {
                let mut rows =
                    SparseRows { offsets: vec![0], columns: Vec::new(), values: Vec::new() };
                for i in 0..self.u.rows {
                    for k in (0..self.u.cols).filter(|&k| self.u.at(i, k) != 0.0) {
                        rows.columns.push(k as u32);
                        rows.values.push(self.u.at(i, k) as f32);
                    }
                    rows.offsets.push(rows.columns.len() as u64);
                }
                Features::Sparse { rows, columns: self.u.cols }
            }
        }
    }

    fn nodes(&self) -> Vec<u32> {
        self.loss.rows.iter().map(|&row| row as u32).collect()
    }

    /// Forward and backward by the engine.
    pub fn run(&self, backward: Backward) -> Found {
        let (incoming, outgoing) = (Rows::of(&self.a.t()), Rows::of(&self.a));
        let operators = Operators::new(vec![incoming.view()], vec![outgoing.view()]);
        let facts = Facts {
            nodes: self.a.rows,
            columns: (self.given != Given::Learned).then_some(self.u.cols),
            relations: vec!["edges".into()],
            radii: operators.radii().to_vec(),
            outputs: self.outputs(),
            pools: false,
        };
        let mut model = Network::new(&self.config, &facts, SEED, true).unwrap();
        let mut on = OnGraph::new(&model, &operators, self.features(), true);
        let names: Vec<String> = model.parameters.iter().map(|p| p.name.clone()).collect();
        assert_eq!(names.len(), self.values.len(), "{names:?}");
        for parameter in &mut model.parameters {
            parameter.value = single(&self.values[&parameter.name]);
        }
        let params = SolveParams { tolerance: 1e-7, max_sweeps: 5000, ..SolveParams::default() };
        on.forward(&mut model, &params, Mode::Training(EPOCH)).unwrap();
        let mut pass = on.pass(&model, self.nodes(), self.nodes());
        on.read_out(&model, &mut pass, Some(EPOCH));
        let (mut classes, mut offsets, mut of) = (Vec::new(), vec![0], Vec::new());
        for i in 0..self.a.rows {
            classes.push(self.loss.targets.at(i, 0) as i32);
            if self.loss.binary {
                of.extend(
                    (0..self.outputs())
                        .filter(|&k| self.loss.targets.at(i, k) == 1.0)
                        .map(|k| k as u32),
                );
            }
            offsets.push(of.len() as u64);
        }
        let (kind, targets) = match self.loss.binary {
            false => (LossKind::CrossEntropy, Targets::Classes(&classes)),
            true => (LossKind::BinaryCrossEntropy, Targets::Labels { offsets: &offsets, of: &of }),
        };
        let loss = Loss { kind, class_weights: None };
        let (logits, ids, by_logits) = pass.for_loss();
        let loss = loss.evaluate(logits, ids, targets, Some(by_logits));
        // Twice: what one pass leaves must not affect the next.
        on.backward(&mut model, &mut pass, EPOCH, backward, &params).unwrap();
        let adjoint = on.backward(&mut model, &mut pass, EPOCH, backward, &params).unwrap()[0];
        let gradients =
            model.parameters.iter().map(|p| (p.name.clone(), double(&p.gradient))).collect();
        let state = double(&on.equilibria().next().unwrap().state);
        Found { state, logits: double(&pass.logits), loss, gradients, adjoint }
    }

    /// The loss in f64, by dense loops.
    fn loss_of(&self, values: &BTreeMap<String, Mat>) -> f64 {
        let map = self.config.input;
        let learned = self.given == Given::Learned;
        let (u, omega) = match learned {
            true => (values["layer0.E"].clone(), identity(self.config.state[0])),
            false => (self.u.clone(), values["layer0.Omega"].clone()),
        };
        let u = match self.config.feature_dropout {
            0.0 => u,
            rate => {
                let mask = Dropout::named(rate, SEED, "layer0.dropout").unwrap().mask(EPOCH);
                Mat::new(u.rows, u.cols, |i, k| u.at(i, k) * f64::from(mask.at(i as u64, k)))
            }
        };
        let own = match map {
            InputMap::Gathered => None,
            InputMap::Own => Some(omega.clone()),
            InputMap::Both => Some(values["layer0.Omega2"].clone()),
        };
        let layer = Layer {
            a: vec![self.a.clone()],
            w: vec![values["layer0.W"].clone()],
            through: if map == InputMap::Own { Vec::new() } else { vec![omega] },
            direct: own,
            bias: values.get("layer0.bias").cloned(),
            activation: phi(self.config.activation[0]),
            skip: None,
        };
        let state = Dense.equilibrium(&layer, &Dense.input_term(&layer, &u));
        let length = |i: usize| (0..state.cols).map(|k| state.at(i, k).powi(2)).sum::<f64>().sqrt();
        let scale = |i: usize| if self.config.normalise_state { 1.0 / length(i) } else { 1.0 };
        let nodes: Vec<u32> = (0..state.rows as u32).collect();
        let mut mask = Matrix::from_fn(state.rows, state.cols, |_, _| 1.0);
        Dropout::new(self.config.dropout, SEED).unwrap().apply(EPOCH, &nodes, mask.view_mut());
        let mut h = Mat::new(state.rows, state.cols, |i, k| {
            state.at(i, k) * scale(i) * f64::from(mask.row(i)[k])
        });
        let hidden =
            if self.config.readout == ReadoutKind::Mlp { self.config.hidden.len() } else { 0 };
        for at in 0..=hidden {
            let name = if at < hidden { format!("head.hidden{at}") } else { "head".to_string() };
            let bias = values.get(&format!("{name}.bias"));
            let z = h.times(&values[&format!("{name}.Theta")].t());
            h = Mat::new(z.rows, z.cols, |i, k| {
                let z = z.at(i, k) + bias.map_or(0.0, |bias| bias.at(0, k));
                if at < hidden { z.max(0.0) } else { z }
            });
        }
        self.loss.of(&h).0
    }

    /// The gradient by a parameter, by central differences.
    fn differences(&self, name: &str) -> Mat {
        const STEP: f64 = 1e-6;
        let mut values = self.values.clone();
        let value = self.values[name].clone();
        Mat::new(value.rows, value.cols, |i, k| {
            let at = i * value.cols + k;
            let mut loss = |x: f64| {
                values.get_mut(name).unwrap().data[at] = x;
                self.loss_of(&values)
            };
            let difference = loss(value.data[at] + STEP) - loss(value.data[at] - STEP);
            values.get_mut(name).unwrap().data[at] = value.data[at];
            difference / (2.0 * STEP)
        })
    }

    /// A random directed graph with features, targets and values; W within kappa.
    fn random(seed: u64, config: ModelConfig, given: Given, binary: bool) -> Self {
        let (nodes, p, outputs, m) = (9, 4, 3, config.state[0]);
        let mut random = Random::new(seed);
        let mut a =
            Mat::new(nodes, nodes, |_, _| if random.unit() < 0.3 { random.unit() } else { 0.0 });
        // Rows that sum to one at most bound the radius by one.
        for i in 0..nodes {
            let sum: f64 = (0..nodes).map(|k| a.at(i, k)).sum();
            (0..nodes).for_each(|k| a.data[i * nodes + k] /= sum.max(1.0));
        }
        // As the engine will see it.
        let f32s = |mat: Mat| Mat::new(mat.rows, mat.cols, |i, k| f64::from(mat.at(i, k) as f32));
        let a = f32s(a);
        let u =
            f32s(Mat::new(nodes, p, |_, _| if random.unit() < 0.6 { random.sign() } else { 0.0 }));
        let mut shapes = vec![("layer0.W".to_string(), m, m)];
        if given == Given::Learned {
            shapes.push(("layer0.E".into(), nodes, m));
        } else {
            shapes.push(("layer0.Omega".into(), m, p));
        }
        if config.input == InputMap::Both {
            shapes.push(("layer0.Omega2".into(), m, p));
        }
        if config.bias {
            shapes.push(("layer0.bias".into(), 1, m));
        }
        let hidden: &[usize] =
            if config.readout == ReadoutKind::Mlp { &config.hidden } else { &[] };
        let mut width = m;
        for (at, &next) in hidden.iter().chain([&outputs]).enumerate() {
            let name =
                if at < hidden.len() { format!("head.hidden{at}") } else { "head".to_string() };
            shapes.push((format!("{name}.Theta"), next, width));
            if config.head_bias {
                shapes.push((format!("{name}.bias"), 1, next));
            }
            width = next;
        }
        let mut values = BTreeMap::new();
        for (name, rows, cols) in shapes {
            // W: rows within 0.6 of the 1-norm.
            let size = if name == "layer0.W" { 0.6 / m as f64 } else { 1.0 };
            values.insert(name, f32s(Mat::new(rows, cols, |_, _| size * random.sign())));
        }
        let targets = match binary {
            true => Mat::new(nodes, outputs, |_, _| f64::from(u8::from(random.unit() < 0.5))),
            false => Mat::new(nodes, 1, |_, _| random.below(outputs) as f64),
        };
        let loss = reference::Loss { targets, binary, rows: vec![0, 1, 3, 4, 6, 8] };
        Self { a, u, given, config, values, loss }
    }

    /// Asserts the loss and every gradient of the exact backward.
    fn check(&self, what: &str) {
        let found = self.run(Backward::Exact);
        assert!(found.adjoint.converged, "{what}: {:?}", found.adjoint);
        let loss = self.loss_of(&self.values);
        assert!((found.loss - loss).abs() <= 1e-5 * loss, "{what}: loss {} {loss}", found.loss);
        for (name, gradient) in &found.gradients {
            let expected = self.differences(name);
            assert!(expected.largest() > 1e-4, "{what}: nothing to compare for {name}");
            let (error, allowed) = (gradient.distance(&expected), 3e-5 * expected.largest());
            assert!(error <= allowed, "{what}: {name} is off by {error}, allowed {allowed}");
        }
    }
}

fn identity(size: usize) -> Mat {
    Mat::new(size, size, |i, k| f64::from(u8::from(i == k)))
}

fn phi(name: Activation) -> Phi {
    match name {
        Activation::Identity => Phi::Identity,
        Activation::Relu => Phi::Relu,
        Activation::LeakyRelu(slope) => Phi::LeakyRelu(f64::from(slope)),
        Activation::Tanh => Phi::Tanh,
        Activation::Sigmoid => Phi::Sigmoid,
        Activation::Elu => Phi::Elu,
    }
}

#[test]
fn gradients_of_every_input_map_are_differences_of_the_loss() {
    let maps = [InputMap::Gathered, InputMap::Own, InputMap::Both];
    for (seed, input) in maps.into_iter().enumerate() {
        for given in [Given::Dense, Given::Sparse, Given::Learned] {
            if given == Given::Learned && input == InputMap::Both {
                continue;
            }
            for (bias, feature_dropout) in [(false, 0.0), (true, 0.0), (false, 0.4)] {
                let config =
                    ModelConfig { bias, feature_dropout, ..plain(3, Activation::Tanh, input) };
                let what = format!("{input:?} {given:?} bias {bias} dropout {feature_dropout}");
                Case::random(10 + seed as u64, config, given, false).check(&what);
            }
        }
    }
}

#[test]
fn gradients_of_every_activation_are_differences_of_the_loss() {
    let names = [
        Activation::Identity,
        Activation::Relu,
        Activation::LeakyRelu(0.01),
        Activation::Tanh,
        Activation::Sigmoid,
        Activation::Elu,
    ];
    for (seed, activation) in names.into_iter().enumerate() {
        let config = plain(18, activation, InputMap::Gathered);
        Case::random(30 + seed as u64, config, Given::Dense, false)
            .check(&format!("{activation:?}"));
    }
}

#[test]
fn gradients_of_every_read_out_are_differences_of_the_loss() {
    for (seed, bits) in (0..16u32).enumerate() {
        let on = |bit: u32| bits >> bit & 1 == 1;
        let config = ModelConfig {
            normalise_state: on(0),
            readout: if on(1) { ReadoutKind::Mlp } else { ReadoutKind::Linear },
            head_bias: on(2),
            dropout: if on(3) { 0.25 } else { 0.0 },
            bias: true,
            ..plain(6, Activation::Tanh, InputMap::Both)
        };
        for binary in [false, true] {
            let what = format!(
                "normalised {}, {:?}, bias {}, dropout {}, sets {binary}",
                on(0),
                config.readout,
                on(2),
                on(3)
            );
            Case::random(50 + seed as u64, config.clone(), Given::Dense, binary).check(&what);
        }
    }
}

#[test]
fn truncated_gradients_go_to_the_exact_one() {
    let config = ModelConfig { bias: true, ..plain(3, Activation::Tanh, InputMap::Gathered) };
    let case = Case::random(90, config, Given::Learned, false);
    let exact = case.run(Backward::Exact);
    let distance = |found: &Found| {
        let off = |name: &String| found.gradients[name].distance(&exact.gradients[name]);
        let scale = |name: &String| exact.gradients[name].largest();
        exact.gradients.keys().map(|name| off(name) / scale(name)).fold(0.0, f64::max)
    };
    for damping in [1.0, 0.5] {
        let errors = [1, 2, 4, 8, 16, 100].map(|steps| {
            let found = case.run(Backward::Truncated { steps, damping });
            assert_eq!(found.adjoint.sweeps, steps);
            assert!(!found.adjoint.converged && found.adjoint.certified_error.is_none());
            // The readout is before the equilibrium: exact whatever follows.
            assert_eq!(found.gradients["head.Theta"], exact.gradients["head.Theta"]);
            distance(&found)
        });
        assert!(errors[0] > 0.02, "{damping}: one step is not the adjoint: {errors:?}");
        assert!(errors[..3].is_sorted_by(|a, b| a > b), "{damping}: {errors:?}");
        assert!(errors[5] < 1e-5, "{damping}: {errors:?}");
    }
}

#[test]
fn one_undamped_step_is_the_derivative_times_the_right_side() {
    // Learned features as they are: dL/dE = G, and D * R is the gradient that a state without
    // recurrence would have.
    let config = plain(3, Activation::Tanh, InputMap::Own);
    let case = Case::random(91, config, Given::Learned, false);
    let found = case.run(Backward::Truncated { steps: 1, damping: 1.0 });
    let logits = found.state.times(&case.values["head.Theta"].t());
    let right = case.loss.of(&logits).1.times(&case.values["head.Theta"]);
    let expected = right.zip(&found.state, |r, x| r * (1.0 - x * x));
    let error = found.gradients["layer0.E"].distance(&expected);
    assert!(error <= 1e-6 * expected.largest(), "{error}");
    assert!(expected.largest() > 1e-3);
    let half = case.run(Backward::Truncated { steps: 1, damping: 0.5 });
    let halved = Mat::new(expected.rows, expected.cols, |i, k| 0.5 * expected.at(i, k));
    assert!(half.gradients["layer0.E"].distance(&halved) <= 1e-6 * expected.largest());
}
