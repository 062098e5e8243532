//! Stacks, skips and several relations through the model itself, against dense f64: golden cases
//! and random ones. The f64 chain and its gradients are `reference`'s; here is how they are named
//! in a model.

use std::collections::BTreeMap;

use ignn::config::{ModelConfig, ReadoutKind};
use ignn::dense::Matrix;
use ignn::kernels::{Activation, AdjacencyRef};
use ignn::models::{Facts, Mode, Network, OnGraph};
use ignn::nn::{Backward, Features, InputMap, Loss, LossKind, Operators, Targets};
use ignn::solver::SolveParams;
use ignn_format::features::SparseRows;

use crate::engine::Rows;
use crate::model::plain;
use crate::reference::{self, Dense, Layer, Mat, Model, Phi, Random};

fn single(mat: &Mat) -> Matrix {
    Matrix::from_fn(mat.rows, mat.cols, |i, k| mat.at(i, k) as f32)
}

fn double(matrix: &Matrix) -> Mat {
    Mat::new(matrix.rows(), matrix.cols(), |i, k| f64::from(matrix.row(i)[k]))
}

fn name(phi: Phi) -> Activation {
    match phi {
        Phi::Identity => Activation::Identity,
        Phi::Relu => Activation::Relu,
        Phi::LeakyRelu(slope) => Activation::LeakyRelu(slope as f32),
        Phi::Tanh => Activation::Tanh,
        Phi::Sigmoid => Activation::Sigmoid,
        Phi::Elu => Activation::Elu,
    }
}

/// Values, or gradients, of a reference model by the names of the engine's.
fn named(
    layers: &[Layer],
    theta: Option<&Mat>,
    of: impl Fn(usize) -> (Vec<Mat>, Vec<Mat>, Option<Mat>, Option<Mat>, Option<(Mat, Mat)>),
) -> BTreeMap<String, Mat> {
    let mut values = BTreeMap::new();
    for (l, layer) in layers.iter().enumerate() {
        let (w, through, direct, bias, skip) = of(l);
        let several = layer.a.len() > 1;
        let called = |what: &str, r: usize| match several {
            true => format!("layer{l}.{what}.relation {r}"),
            false => format!("layer{l}.{what}"),
        };
        let own = if through.is_empty() { "Omega" } else { "Omega2" };
        values.extend(w.into_iter().enumerate().map(|(r, w)| (called("W", r), w)));
        values
            .extend(through.into_iter().enumerate().map(|(r, omega)| (called("Omega", r), omega)));
        values.extend(direct.map(|omega| (format!("layer{l}.{own}"), omega)));
        values.extend(bias.map(|bias| (format!("layer{l}.bias"), bias)));
        if let Some((v, shift)) = skip {
            values.insert(format!("layer{l}.V"), v);
            values.insert(format!("layer{l}.v"), shift);
        }
    }
    values.extend(theta.map(|theta| ("head.Theta".to_string(), theta.clone())));
    values
}

fn sparse(u: &Mat) -> Features {
    let mut rows = SparseRows { offsets: vec![0], columns: Vec::new(), values: Vec::new() };
    for i in 0..u.rows {
        for k in (0..u.cols).filter(|&k| u.at(i, k) != 0.0) {
            rows.columns.push(k as u32);
            rows.values.push(u.at(i, k) as f32);
        }
        rows.offsets.push(rows.columns.len() as u64);
    }
    Features::Sparse { rows, columns: u.cols }
}

fn config_of(model: &Model) -> ModelConfig {
    let first = &model.layers[0];
    let input = match (first.through.is_empty(), &first.direct) {
        (true, _) => InputMap::Own,
        (false, None) => InputMap::Gathered,
        (false, Some(_)) => InputMap::Both,
    };
    ModelConfig {
        state: model.layers.iter().map(|layer| layer.w[0].rows).collect(),
        activation: model.layers.iter().map(|layer| name(layer.activation)).collect(),
        bias: first.bias.is_some(),
        skip: first.skip.is_some(),
        between: Activation::Elu,
        readout: if model.theta.is_some() { ReadoutKind::Linear } else { ReadoutKind::None },
        ..plain(1, Activation::Identity, input)
    }
}

/// Asserts that the engine's model computes what the reference does: every equilibrium, the loss,
/// every gradient.
pub fn compare(model: &Model, is_sparse: bool, what: &str) {
    let expected = model.run(&Dense);
    let relations = model.layers[0].a.len();
    let incoming: Vec<Rows> = model.layers[0].a.iter().map(|a| Rows::of(&a.t())).collect();
    let outgoing: Vec<Rows> = model.layers[0].a.iter().map(Rows::of).collect();
    fn views(side: &[Rows]) -> Vec<AdjacencyRef<'_>> {
        side.iter().map(Rows::view).collect()
    }
    let operators = Operators::new(views(&incoming), views(&outgoing));
    let outputs = expected.logits.cols;
    let facts = Facts {
        nodes: model.u.rows,
        columns: Some(model.u.cols),
        relations: (0..relations).map(|r| format!("relation {r}")).collect(),
        radii: operators.radii().to_vec(),
        outputs,
        pools: false,
    };
    let mut ignn = Network::new(&config_of(model), &facts, 1, true).unwrap();
    let values = named(&model.layers, model.theta.as_ref(), |l| {
        let layer = model.layers[l].clone();
        (layer.w, layer.through, layer.direct, layer.bias, layer.skip)
    });
    let names: Vec<&String> = ignn.parameters.iter().map(|parameter| &parameter.name).collect();
    assert_eq!(names.len(), values.len(), "{what}: {names:?}, {:?}", values.keys());
    for parameter in &mut ignn.parameters {
        parameter.value = single(&values[&parameter.name]);
    }
    let features = if is_sparse { sparse(&model.u) } else { Features::Dense(single(&model.u)) };
    let mut on = OnGraph::new(&ignn, &operators, features, true);
    let params = SolveParams { tolerance: 1e-7, max_sweeps: 5000, ..SolveParams::default() };
    on.forward(&mut ignn, &params, Mode::Training(0)).unwrap();
    let close = |name: &str, found: &Mat, expected: &Mat| {
        let (error, allowed) = (found.distance(expected), 1e-5 * expected.largest().max(1e-3));
        assert!(error <= allowed, "{what}: {name} is off by {error}, allowed {allowed}");
    };
    for (l, layer) in on.equilibria().enumerate() {
        close(&format!("equilibrium {l}"), &double(&layer.state), &expected.equilibria[l]);
    }
    let nodes: Vec<u32> = model.loss.rows.iter().map(|&row| row as u32).collect();
    let mut pass = on.pass(&ignn, nodes.clone(), nodes);
    on.read_out(&ignn, &mut pass, Some(0));
    let targets = &model.loss.targets;
    let classes: Vec<i32> = (0..targets.rows).map(|i| targets.at(i, 0) as i32).collect();
    let (mut offsets, mut of) = (vec![0], Vec::new());
    for i in 0..targets.rows {
        of.extend((0..targets.cols).filter(|&k| targets.at(i, k) == 1.0).map(|k| k as u32));
        offsets.push(of.len() as u64);
    }
    let (kind, targets) = match model.loss.binary {
        false => (LossKind::CrossEntropy, Targets::Classes(&classes)),
        true => (LossKind::BinaryCrossEntropy, Targets::Labels { offsets: &offsets, of: &of }),
    };
    let (logits, ids, by_logits) = pass.for_loss();
    let loss = Loss { kind, class_weights: None }.evaluate(logits, ids, targets, Some(by_logits));
    assert!(
        (loss - expected.loss).abs() <= 1e-5 * expected.loss,
        "{what}: loss {loss} {}",
        expected.loss
    );
    // Twice: what one pass leaves must not affect the next.
    on.backward(&mut ignn, &mut pass, 0, Backward::Exact, &params).unwrap();
    let solves = on.backward(&mut ignn, &mut pass, 0, Backward::Exact, &params).unwrap();
    assert!(
        solves.len() == model.layers.len() && solves.iter().all(|solve| solve.converged),
        "{what}"
    );
    let gradients = named(&model.layers, expected.theta.as_ref(), |l| {
        let layer = expected.gradients[l].clone();
        (layer.w, layer.through, layer.direct, layer.bias, layer.skip)
    });
    for parameter in &ignn.parameters {
        let expected = &gradients[&parameter.name];
        close(&format!("gradient of {}", parameter.name), &double(&parameter.gradient), expected);
    }
}

/// A random graph of several relations, all of whose equilibria are well-posed.
fn random(seed: u64, widths: &[usize], relations: usize, input: InputMap, skip: bool) -> Model {
    let random = &mut Random::new(seed);
    let (nodes, p) = (11, 5);
    let f32s = |mat: Mat| Mat::new(mat.rows, mat.cols, |i, k| f64::from(mat.at(i, k) as f32));
    let mut a = Vec::new();
    for _ in 0..relations {
        let mut one =
            Mat::new(nodes, nodes, |_, _| if random.unit() < 0.3 { random.unit() } else { 0.0 });
        for k in 0..nodes {
            // Columns that sum to one at most bound the 1-norm by one.
            let sum: f64 = (0..nodes).map(|i| one.at(i, k)).sum();
            (0..nodes).for_each(|i| one.data[i * nodes + k] /= sum.max(1.0));
        }
        a.push(f32s(one));
    }
    let u = f32s(Mat::new(nodes, p, |_, _| if random.unit() < 0.6 { random.sign() } else { 0.0 }));
    let mut below = p;
    let mut layers = Vec::new();
    for &m in widths {
        let mut draw =
            |rows, cols, size: f64| f32s(Mat::new(rows, cols, |_, _| size * random.sign()));
        let omega = if input == InputMap::Own { 0 } else { relations };
        layers.push(Layer {
            w: (0..relations).map(|_| draw(m, m, 0.7 / (m * relations) as f64)).collect(),
            through: (0..omega).map(|_| draw(m, below, 0.8)).collect(),
            direct: (input != InputMap::Gathered).then(|| draw(m, below, 0.8)),
            bias: Some(draw(1, m, 0.5)),
            skip: skip.then(|| (draw(m, below, 0.5), draw(1, m, 0.5))),
            a: a.clone(),
            activation: Phi::Tanh,
        });
        below = m;
    }
    let theta = Some(f32s(Mat::new(3, below, |_, _| random.sign())));
    let targets = Mat::new(nodes, 1, |_, _| random.below(3) as f64);
    let loss = reference::Loss { targets, binary: false, rows: vec![0, 2, 3, 5, 7, 10] };
    Model { u, layers, theta, loss }
}

#[test]
fn stacks_skips_and_relations_are_the_dense_model() {
    let maps = [InputMap::Gathered, InputMap::Own, InputMap::Both];
    let shapes: [&[usize]; 3] = [&[6], &[4, 18], &[7, 3, 5]];
    let mut seed = 0;
    for widths in shapes {
        for relations in [1, 2, 3] {
            for input in maps {
                for skip in [false, true] {
                    seed += 1;
                    let model = random(seed, widths, relations, input, skip);
                    for is_sparse in [false, true] {
                        let what = format!(
                            "{widths:?}, {relations} relations, {input:?}, skip {skip}, sparse {is_sparse}"
                        );
                        compare(&model, is_sparse, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn a_stack_is_one_wide_layer_with_a_block_triangular_weight() {
    let [below, above, p] = [4, 6, 5];
    let stack = random(77, &[below, above], 1, InputMap::Gathered, false);
    let mut layers = stack.layers.clone();
    layers.iter_mut().for_each(|layer| layer.bias = None);
    let (w, omega) = (|l: usize| &layers[l].w[0], |l: usize| &layers[l].through[0]);
    // The upper layer's columns first: its weight and its map of the lower one's state, over zeros
    // and the lower one's weight.
    let wide = Mat::new(above + below, above + below, |k, l| match (k < above, l < above) {
        (true, true) => w(1).at(k, l),
        (true, false) => omega(1).at(k, l - above),
        (false, true) => 0.0,
        (false, false) => w(0).at(k - above, l - above),
    });
    let input =
        Mat::new(above + below, p, |k, l| if k < above { 0.0 } else { omega(0).at(k - above, l) });
    let a = stack.layers[0].a.clone();
    let [incoming, outgoing] = [Rows::of(&a[0].t()), Rows::of(&a[0])];
    let operators = Operators::new(vec![incoming.view()], vec![outgoing.view()]);
    let states = |state: Vec<usize>, values: &BTreeMap<String, Mat>| -> Vec<Mat> {
        let facts = Facts {
            nodes: stack.u.rows,
            columns: Some(p),
            relations: vec!["edges".into()],
            radii: operators.radii().to_vec(),
            outputs: 3,
            pools: false,
        };
        let config = ModelConfig { state, ..plain(1, Activation::Tanh, InputMap::Gathered) };
        let mut model = Network::new(&config, &facts, 1, false).unwrap();
        for parameter in
            model.parameters.iter_mut().filter(|parameter| parameter.name.starts_with("layer"))
        {
            parameter.value = single(&values[&parameter.name]);
        }
        let mut on = OnGraph::new(&model, &operators, Features::Dense(single(&stack.u)), false);
        let params = SolveParams { tolerance: 1e-7, max_sweeps: 5000, ..SolveParams::default() };
        let solves = on.forward(&mut model, &params, Mode::Evaluation).unwrap();
        assert!(solves.iter().all(|solve| solve.converged));
        on.equilibria().map(|layer| double(&layer.state)).collect()
    };
    let named = |pairs: &[(&str, &Mat)]| -> BTreeMap<String, Mat> {
        pairs.iter().map(|(name, value)| (name.to_string(), (*value).clone())).collect()
    };
    let each = [
        ("layer0.W", w(0)),
        ("layer0.Omega", omega(0)),
        ("layer1.W", w(1)),
        ("layer1.Omega", omega(1)),
    ];
    let stacked = states(vec![below, above], &named(&each));
    let one = states(vec![above + below], &named(&[("layer0.W", &wide), ("layer0.Omega", &input)]));
    let columns =
        |from: usize, count: usize| Mat::new(stack.u.rows, count, |i, k| one[0].at(i, from + k));
    assert!(stacked[1].distance(&columns(0, above)) < 1e-5, "the upper layer");
    assert!(stacked[0].distance(&columns(above, below)) < 1e-5, "the lower layer");
    assert!(stacked[1].largest() > 0.05, "states that say something");
}
