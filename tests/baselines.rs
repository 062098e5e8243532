//! Models without an equilibrium against their formulas in dense f64: losses, and gradients by
//! central differences. The formulas here know nothing of gradients. `nilpotent` holds GCN against
//! the equilibrium, `runs` the command line.

mod nilpotent;

use std::collections::BTreeMap;

use ignn::config::{Config, ModelConfig, ModelKind};
use ignn::dense::Matrix;
use ignn::kernels::Activation;
use ignn::models::{Facts, Mode, Network, OnGraph};
use ignn::nn::random::Stream;
use ignn::nn::{Backward, Dropout, Features, InputMap, Loss, LossKind, Operators, Targets};
use ignn::solver::{SolveParams, Stopped};
use ignn_format::features::SparseRows;

use crate::engine::Rows;
use crate::reference::{self, Mat, Random};

const EPOCH: u64 = 5;
const SEED: u64 = 11;
const NODES: usize = 9;
const CLASSES: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Given {
    Dense,
    Sparse,
    Learned,
}

type Values = BTreeMap<String, Mat>;

/// A model with all that it computes from.
struct Case {
    /// A of every relation.
    a: Vec<Mat>,
    u: Mat,
    given: Given,
    config: ModelConfig,
    values: Values,
    loss: reference::Loss,
    /// Where SSE's last steps began.
    start: Option<Mat>,
}

fn config(kind: ModelKind, depth: usize) -> ModelConfig {
    ModelConfig {
        kind,
        depth,
        state: vec![6],
        heads: vec![2],
        activation: vec![Activation::Tanh],
        dropout: 0.0,
        sse_damping: 0.4,
        gin_learn_epsilon: true,
        ..Config::default().model
    }
}

fn single(mat: &Mat) -> Matrix {
    Matrix::from_fn(mat.rows, mat.cols, |i, k| mat.at(i, k) as f32)
}

fn double(matrix: &Matrix) -> Mat {
    Mat::new(matrix.rows(), matrix.cols(), |i, k| f64::from(matrix.row(i)[k]))
}

fn zeros(rows: usize, cols: usize) -> Mat {
    Mat::new(rows, cols, |_, _| 0.0)
}

fn scaled(mat: &Mat, by: f64) -> Mat {
    Mat::new(mat.rows, mat.cols, |i, k| by * mat.at(i, k))
}

fn plus_row(mat: &Mat, row: &Mat) -> Mat {
    Mat::new(mat.rows, mat.cols, |i, k| mat.at(i, k) + row.at(0, k))
}

impl Case {
    /// A random directed graph, features, targets and values.
    fn random(seed: u64, config: ModelConfig, given: Given, relations: usize) -> Self {
        let mut random = Random::new(seed);
        let f32s = |mat: Mat| Mat::new(mat.rows, mat.cols, |i, k| f64::from(mat.at(i, k) as f32));
        let mut a = Vec::new();
        for _ in 0..relations {
            a.push(f32s(Mat::new(NODES, NODES, |_, _| {
                if random.unit() < 0.35 { random.unit() } else { 0.0 }
            })));
        }
        let u =
            f32s(Mat::new(NODES, 4, |_, _| if random.unit() < 0.6 { random.sign() } else { 0.0 }));
        let targets = Mat::new(NODES, 1, |_, _| random.below(CLASSES) as f64);
        let loss = reference::Loss { targets, binary: false, rows: vec![0, 1, 3, 4, 6, 8] };
        let mut case = Self { a, u, given, config, values: Values::new(), loss, start: None };
        for parameter in case.model().parameters {
            let value = Mat::new(parameter.value.rows(), parameter.value.cols(), |_, _| {
                0.8 * random.sign()
            });
            case.values.insert(parameter.name, f32s(value));
        }
        case
    }

    fn model(&self) -> Network {
        let facts = Facts {
            nodes: NODES,
            columns: (self.given != Given::Learned).then_some(self.u.cols),
            relations: (0..self.a.len()).map(|r| format!("relation {r}")).collect(),
            radii: vec![1.0; self.a.len()],
            outputs: CLASSES,
            pools: false,
        };
        Network::new(&self.config, &facts, SEED, true).unwrap()
    }

    fn features(&self) -> Features {
        match self.given {
            Given::Dense => Features::Dense(single(&self.u)),
            Given::Learned => Features::Learned,
            Given::Sparse => {
                let mut rows =
                    SparseRows { offsets: vec![0], columns: Vec::new(), values: Vec::new() };
                for i in 0..NODES {
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

    /// Loss, gradients by name, and the state that SSE's last steps began with, by the engine after
    /// this many passes.
    fn run(&self, passes: usize) -> (f64, Values, Mat) {
        let sides: Vec<_> = self.a.iter().map(|a| (Rows::of(&a.t()), Rows::of(a))).collect();
        let (incoming, outgoing) = sides.iter().map(|(a, b)| (a.view(), b.view())).unzip();
        let operators = Operators::new(incoming, outgoing);
        let mut model = self.model();
        for parameter in &mut model.parameters {
            parameter.value = single(&self.values[&parameter.name]);
        }
        let mut on = OnGraph::new(&model, &operators, self.features(), true);
        // So loose that SSE's first pass makes its depth's steps and no more.
        let params = SolveParams { tolerance: 1e9, ..SolveParams::default() };
        // An evaluation first: what it leaves must not affect the training pass.
        let mut start = zeros(NODES, 0);
        for _ in 1..passes {
            on.forward(&mut model, &params, Mode::Evaluation).unwrap();
            start = double(on.kept_states()[0].1);
        }
        let solves = on.forward(&mut model, &params, Mode::Training(EPOCH)).unwrap();
        assert_eq!(
            solves.len(),
            usize::from(self.config.kind == ModelKind::Sse),
            "nothing else is solved"
        );
        let nodes: Vec<u32> = self.loss.rows.iter().map(|&row| row as u32).collect();
        let mut pass = on.pass(&model, nodes.clone(), nodes);
        on.read_out(&model, &mut pass, Some(EPOCH));
        let classes: Vec<i32> = (0..NODES).map(|i| self.loss.targets.at(i, 0) as i32).collect();
        let loss = Loss { kind: LossKind::CrossEntropy, class_weights: None };
        let (logits, ids, by_logits) = pass.for_loss();
        let loss = loss.evaluate(logits, ids, Targets::Classes(&classes), Some(by_logits));
        // Twice, for the same reason.
        for _ in 0..2 {
            let solves =
                on.backward(&mut model, &mut pass, EPOCH, Backward::Exact, &params).unwrap();
            assert!(solves.is_empty());
        }
        let gradients =
            model.parameters.iter().map(|p| (p.name.clone(), double(&p.gradient))).collect();
        (loss, gradients, start)
    }

    /// What training multiplies an entry by.
    fn mask(&self, stream: &str, row: usize, column: usize) -> f64 {
        let dropout = Dropout::named(self.config.dropout, SEED, stream).unwrap();
        if self.config.dropout == 0.0 {
            1.0
        } else {
            dropout.mask(EPOCH).at(row as u64, column).into()
        }
    }

    fn dropped(&self, x: &Mat, stream: &str) -> Mat {
        Mat::new(x.rows, x.cols, |i, k| x.at(i, k) * self.mask(stream, i, k))
    }

    /// A of every relation, less the edges that are left out.
    fn graphs(&self) -> Vec<Mat> {
        let rate = self.config.drop_edge;
        let stream = Stream::new(SEED, "drop-edge").narrowed(EPOCH);
        let factor = |j: usize, i: usize| {
            let bits = stream.row(j.min(i) as u64).bits(j.max(i));
            match ((bits >> 32) as f64) < rate * 2f64.powi(32) {
                _ if i == j => 1.0,
                true => 0.0,
                false => 1.0 / (1.0 - rate),
            }
        };
        self.a.iter().map(|a| Mat::new(NODES, NODES, |j, i| a.at(j, i) * factor(j, i))).collect()
    }

    /// P x
    fn gathered(&self, graphs: &[Mat], x: &Mat) -> Mat {
        let sum = graphs.iter().fold(zeros(NODES, x.cols), |sum, a| sum.plus(&a.t().times(x)));
        scaled(&sum, 1.0 / graphs.len() as f64)
    }

    fn activated(&self, x: &Mat) -> Mat {
        Mat::new(x.rows, x.cols, |i, k| match self.config.activation[0] {
            Activation::Relu => x.at(i, k).max(0.0),
            _ => x.at(i, k).tanh(),
        })
    }

    /// B of a layer, from the rows below; of a first layer from the features.
    fn input(&self, values: &Values, layer: usize, x: &Mat) -> Mat {
        let stream = format!("layer{layer}.dropout");
        match values.get(&format!("layer{layer}.E")) {
            Some(table) => self.dropped(table, &stream),
            None => self.dropped(x, &stream).times(&values[&format!("layer{layer}.Omega")].t()),
        }
    }

    /// What every node attends to: heads side by side, or their mean in a last layer of logits.
    fn attended(&self, values: &Values, layer: usize, h: &Mat) -> Mat {
        let (source, target) =
            (&values[&format!("layer{layer}.source")], &values[&format!("layer{layer}.target")]);
        let (heads, f) = (source.rows, source.cols);
        let score = |a: &Mat, i: usize, head: usize| -> f64 {
            (0..f).map(|k| a.at(head, k) * h.at(i, head * f + k)).sum()
        };
        let mut sum = zeros(NODES, h.cols);
        for a in &self.a {
            for i in 0..NODES {
                for head in 0..heads {
                    let from: Vec<usize> = (0..NODES).filter(|&j| a.at(j, i) != 0.0).collect();
                    let weight = |&j: &usize| {
                        let z = score(source, j, head) + score(target, i, head);
                        z.max(0.2 * z).exp()
                    };
                    let all: f64 = from.iter().map(weight).sum();
                    for j in &from {
                        let mask =
                            self.mask(&format!("layer{layer}.attention"), *j, i * heads + head);
                        let share = mask * weight(j) / all / self.a.len() as f64;
                        for k in head * f..(head + 1) * f {
                            sum.data[i * h.cols + k] += share * h.at(*j, k);
                        }
                    }
                }
            }
        }
        if layer + 1 < self.config.depth {
            return sum;
        }
        let mean = |i, k| (0..heads).map(|head| sum.at(i, head * f + k)).sum::<f64>();
        Mat::new(NODES, f, |i, k| mean(i, k) / heads as f64)
    }

    fn logits(&self, values: &Values) -> Mat {
        let (config, graphs) = (&self.config, self.graphs());
        let mut x = self.u.clone();
        match config.kind {
            ModelKind::Sgc => {
                let mut b = self.input(values, 0, &x);
                (0..config.depth).for_each(|_| b = self.gathered(&graphs, &b));
                plus_row(&b, &values["layer0.bias"])
            }
            ModelKind::Gcn | ModelKind::Mlp | ModelKind::Gat => {
                for layer in 0..config.depth {
                    let b = self.input(values, layer, &x);
                    let sum = match config.kind {
                        ModelKind::Gcn => self.gathered(&graphs, &b),
                        ModelKind::Mlp => b,
                        _ => self.attended(values, layer, &b),
                    };
                    let mut result = plus_row(&sum, &values[&format!("layer{layer}.bias")]);
                    let is_last = layer + 1 == config.depth;
                    if !is_last {
                        result = self.activated(&result);
                    }
                    if let Some(v) = values.get(&format!("layer{layer}.V")) {
                        let skip = plus_row(&x.times(&v.t()), &values[&format!("layer{layer}.v")]);
                        result = result.plus(&skip);
                        if !is_last {
                            result = self.activated(&result);
                        }
                    }
                    x = result;
                }
                x
            }
            ModelKind::Gcnii => {
                let start =
                    self.activated(&plus_row(&self.input(values, 0, &x), &values["layer0.bias"]));
                let mut h = start.clone();
                for step in 1..=config.depth {
                    let beta = (config.gcnii_lambda / step as f64 + 1.0).ln();
                    let h_kept = self.dropped(&h, &format!("layer0.step{step}.dropout"));
                    let sum = scaled(&self.gathered(&graphs, &h_kept), 1.0 - config.gcnii_alpha);
                    let sum = sum.plus(&scaled(&start, config.gcnii_alpha));
                    let own = sum.times(&values[&format!("layer0.W{step}")].t());
                    h = self.activated(&scaled(&sum, 1.0 - beta).plus(&scaled(&own, beta)));
                }
                self.read_out(values, &h)
            }
            ModelKind::Gin => {
                for layer in 0..config.depth {
                    let value = |name: &str| &values[&format!("layer{layer}.{name}")];
                    let b = self.input(values, layer, &x);
                    let own = scaled(&b, 1.0 + value("epsilon").at(0, 0));
                    let sum = own.plus(&self.gathered(&graphs, &b));
                    let inner = self.activated(&plus_row(&sum, value("bias1")));
                    let outer = plus_row(&inner.times(&value("W2").t()), value("bias2"));
                    x = self.activated(&outer);
                }
                self.read_out(values, &x)
            }
            ModelKind::Sse => {
                let b = match values.get("layer0.E") {
                    Some(table) => table.clone(),
                    None => {
                        let own = values.get("layer0.Omega2").unwrap();
                        let mut b = x.times(&own.t());
                        for (r, a) in self.a.iter().enumerate() {
                            let name = if self.a.len() == 1 {
                                "layer0.Omega".into()
                            } else {
                                format!("layer0.Omega.relation {r}")
                            };
                            b = b.plus(&a.t().times(&x).times(&values[&name].t()));
                        }
                        b
                    }
                };
                let mut h = self.start.clone().unwrap_or_else(|| zeros(NODES, b.cols));
                for _ in 0..config.depth {
                    let z = self.activated(
                        &self.gathered(&graphs, &h).times(&values["layer0.W2"].t()).plus(&b),
                    );
                    let new = z.times(&values["layer0.W1"].t());
                    h = scaled(&h, 1.0 - config.sse_damping)
                        .plus(&scaled(&new, config.sse_damping));
                }
                self.read_out(values, &h)
            }
            other => panic!("no formula of {other:?}"),
        }
    }

    fn read_out(&self, values: &Values, h: &Mat) -> Mat {
        plus_row(&self.dropped(h, "dropout").times(&values["head.Theta"].t()), &values["head.bias"])
    }

    fn loss_of(&self, values: &Values) -> f64 {
        self.loss.of(&self.logits(values)).0
    }

    fn differences(&self, name: &str) -> Mat {
        const STEP: f64 = 1e-6;
        let (mut values, value) = (self.values.clone(), self.values[name].clone());
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

    /// Asserts the loss and every gradient; returns the names of those that are not zero.
    #[track_caller]
    fn check(&mut self, passes: usize, what: &str) -> Vec<String> {
        let (loss, gradients, start) = self.run(passes);
        self.start = (passes > 1).then_some(start);
        let expected = self.loss_of(&self.values);
        assert!((loss - expected).abs() <= 2e-5 * expected, "{what}: loss {loss} {expected}");
        let mut compared = Vec::new();
        for (name, gradient) in &gradients {
            let expected = self.differences(name);
            // Where all scores of a row have one sign, what is added to all of them changes no
            // weight.
            if name.ends_with("target") && expected.largest() < 1e-5 {
                assert!(gradient.largest() < 1e-6, "{what}: {name} is {}", gradient.largest());
                continue;
            }
            compared.push(name.clone());
            assert!(expected.largest() > 1e-5, "{what}: nothing to compare for {name}");
            let (error, allowed) = (gradient.distance(&expected), 5e-5 * expected.largest());
            assert!(error <= allowed, "{what}: {name} is off by {error}, allowed {allowed}");
        }
        compared
    }
}

const KINDS: [ModelKind; 7] = [
    ModelKind::Gcn,
    ModelKind::Sgc,
    ModelKind::Mlp,
    ModelKind::Gat,
    ModelKind::Gcnii,
    ModelKind::Gin,
    ModelKind::Sse,
];

#[test]
fn gradients_of_every_kind_are_differences_of_its_formula() {
    let mut compared = Vec::new();
    for (at, kind) in KINDS.into_iter().enumerate() {
        for given in [Given::Dense, Given::Sparse, Given::Learned] {
            for dropout in [0.0, 0.25] {
                let config = ModelConfig { dropout, ..config(kind, 2) };
                let what = format!("{kind:?} {given:?} dropout {dropout}");
                compared.extend(Case::random(100 + at as u64, config, given, 1).check(1, &what));
            }
        }
    }
    assert!(
        ["layer0.target", "layer1.target"]
            .iter()
            .all(|name| compared.iter().any(|other| other == name))
    );
}

#[test]
fn gradients_of_any_depth_and_of_several_relations_are_differences() {
    for (at, kind) in KINDS.into_iter().enumerate() {
        for (depth, relations) in [(1, 1), (3, 2), (4, 1)] {
            // One step from zero has no use for W2.
            let depth = if kind == ModelKind::Sse { depth + 1 } else { depth };
            let activation = if relations == 2 { Activation::Relu } else { Activation::Tanh };
            let config = ModelConfig { activation: vec![activation], ..config(kind, depth) };
            let what = format!("{kind:?} depth {depth}, {relations} relations");
            Case::random(200 + at as u64, config, Given::Dense, relations).check(1, &what);
        }
    }
}

#[test]
fn heads_of_a_last_layer_are_averaged_where_their_number_is_given() {
    for (relations, dropout, skip) in [(1, 0.0, true), (2, 0.25, false)] {
        let heads = vec![3, 2, 5];
        let between = Activation::Tanh;
        let config = ModelConfig { heads, dropout, skip, between, ..config(ModelKind::Gat, 3) };
        let mut case = Case::random(600, config, Given::Dense, relations);
        let model = case.model();
        let shape = |name: &str| {
            let parameter = model.parameters.iter().find(|parameter| parameter.name == name);
            parameter.map(|parameter| (parameter.value.rows(), parameter.value.cols()))
        };
        assert_eq!(shape("layer0.source"), Some((3, 2)));
        assert_eq!(shape("layer1.source"), Some((2, 3)));
        assert_eq!(shape("layer2.source"), Some((5, CLASSES)));
        assert_eq!(shape("layer2.Omega"), Some((5 * CLASSES, 6)));
        assert_eq!(shape("layer2.bias"), Some((1, CLASSES)));
        let compared = case.check(1, &format!("{relations} relations, dropout {dropout}"));
        assert!(compared.iter().any(|name| name == "layer2.target"), "{compared:?}");
    }
}

#[test]
fn skips_go_around_computed_layers() {
    for (kind, given) in [(ModelKind::Gcn, Given::Dense), (ModelKind::Gat, Given::Sparse)] {
        let config =
            ModelConfig { skip: true, between: Activation::Tanh, dropout: 0.25, ..config(kind, 3) };
        Case::random(300, config, given, 1).check(1, &format!("{kind:?} with skips"));
    }
}

#[test]
fn edges_that_are_left_out_are_left_out_of_the_gradient() {
    for kind in [ModelKind::Gcn, ModelKind::Sgc] {
        let config = ModelConfig { drop_edge: 0.4, dropout: 0.25, ..config(kind, 3) };
        let mut case = Case::random(400, config, Given::Dense, 2);
        let left =
            |graphs: &[Mat]| graphs.iter().flat_map(|a| &a.data).filter(|x| **x != 0.0).count();
        let (left, all) = (left(&case.graphs()), left(&case.a));
        assert!(0 < left && left < all, "{left} of {all}");
        case.check(1, &format!("{kind:?}"));
    }
}

#[test]
fn a_warm_pass_of_sse_is_differentiated_through_its_own_steps() {
    for passes in [2, 3] {
        let mut case = Case::random(500, config(ModelKind::Sse, 3), Given::Dense, 1);
        case.check(passes, &format!("pass {passes}"));
        assert!(case.start.unwrap().largest() > 1e-2, "it began elsewhere than at zero");
    }
}

#[test]
fn sse_from_zero_goes_on_to_the_steady_state() {
    let mut case = Case::random(501, config(ModelKind::Sse, 2), Given::Dense, 1);
    for name in ["layer0.W1", "layer0.W2"] {
        let small = scaled(&case.values[name], 0.3);
        case.values.insert(name.into(), small);
    }
    let sides = (Rows::of(&case.a[0].t()), Rows::of(&case.a[0]));
    let operators = Operators::new(vec![sides.0.view()], vec![sides.1.view()]);
    let mut model = case.model();
    for parameter in &mut model.parameters {
        parameter.value = single(&case.values[&parameter.name]);
    }
    let mut on = OnGraph::new(&model, &operators, case.features(), false);
    let params = SolveParams { tolerance: 1e-6, ..SolveParams::default() };
    let solve = on.forward(&mut model, &params, Mode::Evaluation).unwrap()[0];
    assert!(solve.converged && solve.sweeps > 5 && solve.relative_residual <= 1e-6, "{solve:?}");
    assert_eq!(
        (solve.contraction, solve.certified_error.is_some()),
        (None, false),
        "nothing is certified"
    );
    // As an equilibrium Z = phi(P Z W1^T W2^T + B), h = Z W1^T: the same state.
    let b = Mat::new(NODES, 6, |_, _| 0.0);
    let values = &case.values;
    let b = b.plus(&case.u.times(&values["layer0.Omega2"].t()));
    let b = b.plus(&case.a[0].t().times(&case.u).times(&values["layer0.Omega"].t()));
    let w = values["layer0.W2"].times(&values["layer0.W1"]);
    let mut z = zeros(NODES, 6);
    for _ in 0..1000 {
        z = case.activated(&case.a[0].t().times(&z).times(&w.t()).plus(&b));
    }
    let expected = z.times(&values["layer0.W1"].t());
    let found = Mat::new(NODES, 6, |i, k| f64::from(on.result().row(i)[k]));
    assert!(found.distance(&expected) < 1e-5, "{}", found.distance(&expected));
    // Again, with the memory of the first: a warm pass makes its depth's steps.
    assert_eq!(on.forward(&mut model, &params, Mode::Evaluation).unwrap()[0].sweeps, 2);
    on.reset();
    assert_eq!(on.forward(&mut model, &params, Mode::Evaluation).unwrap()[0].sweeps, solve.sweeps);
}

#[test]
fn the_input_map_of_baselines_does_not_follow_the_equilibriums() {
    let config =
        ModelConfig { input: InputMap::Both, kappa: vec![0.1, 0.2], ..config(ModelKind::Gcn, 2) };
    Case::random(600, config, Given::Learned, 1).check(1, "settings that gcn has no use for");
}

#[test]
fn a_state_of_sse_that_outgrows_all_bounds_is_given_up_and_told() {
    let mut config = config(ModelKind::Sse, 2);
    config.activation = vec![Activation::Identity];
    let mut case = Case::random(502, config, Given::Dense, 1);
    for name in ["layer0.W1", "layer0.W2"] {
        let large = scaled(&case.values[name], 100.0);
        case.values.insert(name.into(), large);
    }
    let sides = (Rows::of(&case.a[0].t()), Rows::of(&case.a[0]));
    let operators = Operators::new(vec![sides.0.view()], vec![sides.1.view()]);
    let mut model = case.model();
    for parameter in &mut model.parameters {
        parameter.value = single(&case.values[&parameter.name]);
    }
    let mut on = OnGraph::new(&model, &operators, case.features(), true);
    let solve = on.forward(&mut model, &SolveParams::default(), Mode::Evaluation).unwrap()[0];
    assert_eq!((solve.converged, solve.stopped), (false, Stopped::Stagnated));
    assert!(solve.relative_residual.is_infinite() && solve.sweeps > 2, "{solve:?}");
    assert!((0..NODES).all(|i| on.result().row(i).iter().all(|x| x.is_finite())));
}
