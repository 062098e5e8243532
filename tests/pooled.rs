//! Stacks with skips, batch normalisation and pooling, against the formula in f64 and its
//! differences. The formula is written again here, from parameters by name; nothing of the engine
//! is used for it.

use std::collections::BTreeMap;

use ignn::config::{ModelConfig, ReadoutKind};
use ignn::dense::Matrix;
use ignn::kernels::Activation;
use ignn::models::{Facts, Mode, Network, OnGraph};
use ignn::nn::{Backward, Features, InputMap, Loss, LossKind, Operators, PoolingChoice, Targets};
use ignn::solver::SolveParams;

use crate::engine::Rows;
use crate::model::plain;
use crate::reference::{Mat, Random};

/// Where each graph's nodes begin, and where the last's end.
const GRAPHS: [u64; 5] = [0, 4, 9, 10, 16];
const CLASSES: [i32; 4] = [0, 2, 1, 2];
const NUMBERS: [f32; 4] = [0.5, -1.25, 2.0, 0.75];
const EPSILON: f64 = 1e-5;

struct Case {
    /// A of all graphs side by side.
    a: Mat,
    u: Mat,
    pooling: PoolingChoice,
    layers: usize,
    skip: bool,
    norm: bool,
    loss: LossKind,
}

impl Case {
    fn targets(&self) -> Targets<'static> {
        match self.loss {
            LossKind::Squared | LossKind::Absolute => Targets::Numbers(&NUMBERS),
            _ => Targets::Classes(&CLASSES),
        }
    }

    fn outputs(&self) -> usize {
        if let Targets::Numbers(_) = self.targets() { 1 } else { 3 }
    }

    fn new(seed: u64, pooling: PoolingChoice, layers: usize, skip: bool, norm: bool) -> Self {
        let random = &mut Random::new(seed);
        let graph = |node: usize| GRAPHS.iter().filter(|&&first| first <= node as u64).count();
        let f32s = |x: f64| f64::from(x as f32);
        let a = Mat::new(16, 16, |i, k| match graph(i) == graph(k) && random.unit() < 0.5 {
            true => f32s(0.3 * random.unit()),
            false => 0.0,
        });
        let u = Mat::new(16, 3, |_, _| f32s(random.sign()));
        Self { a, u, pooling, layers, skip, norm, loss: LossKind::CrossEntropy }
    }

    fn config(&self) -> ModelConfig {
        ModelConfig {
            state: [5, 4, 6][..self.layers].to_vec(),
            activation: vec![Activation::Tanh],
            bias: true,
            skip: self.skip,
            between: Activation::Elu,
            batch_norm: self.norm,
            pooling: self.pooling,
            readout: ReadoutKind::Mlp,
            hidden: vec![4],
            head_bias: true,
            ..plain(1, Activation::Tanh, InputMap::Gathered)
        }
    }

    /// The loss, by the statistics of the batch, or by those given.
    fn loss(&self, values: &BTreeMap<String, Mat>, running: Option<&BTreeMap<String, Mat>>) -> f64 {
        let row = |mat: &Mat, bias: &Mat| {
            Mat::new(mat.rows, mat.cols, |i, k| mat.at(i, k) + bias.at(0, k))
        };
        let map =
            |mat: Mat, phi: fn(f64) -> f64| Mat::new(mat.rows, mat.cols, |i, k| phi(mat.at(i, k)));
        let at = self.a.t();
        let mut x = self.u.clone();
        for layer in 0..self.layers {
            let of = |what: &str| &values[&format!("layer{layer}.{what}")];
            let b = row(&at.times(&x).times(&of("Omega").t()), of("bias"));
            let mut state = Mat::new(b.rows, b.cols, |_, _| 0.0);
            for _ in 0..70 {
                state = map(at.times(&state).times(&of("W").t()).plus(&b), f64::tanh);
            }
            let mut mixed = state;
            if self.skip {
                mixed = mixed.plus(&row(&x.times(&of("V").t()), of("v")));
                if layer + 1 < self.layers {
                    mixed = map(mixed, |z| if z > 0.0 { z } else { z.exp() - 1.0 });
                }
            }
            if self.norm {
                let rows = mixed.rows as f64;
                let moments = |k: usize| match running {
                    Some(running) => {
                        let of =
                            |what: &str| running[&format!("layer{layer}.norm.{what}")].at(0, k);
                        (of("mean"), of("variance"))
                    }
                    None => {
                        let mean = (0..mixed.rows).map(|i| mixed.at(i, k)).sum::<f64>() / rows;
                        let squares = (0..mixed.rows).map(|i| (mixed.at(i, k) - mean).powi(2));
                        (mean, squares.sum::<f64>() / rows)
                    }
                };
                let moments: Vec<(f64, f64)> = (0..mixed.cols).map(moments).collect();
                mixed = Mat::new(mixed.rows, mixed.cols, |i, k| {
                    let z = (mixed.at(i, k) - moments[k].0) / (moments[k].1 + EPSILON).sqrt();
                    of("norm.scale").at(0, k) * z + of("norm.shift").at(0, k)
                });
            }
            x = mixed;
        }
        let pooled = Mat::new(4, x.cols, |graph, k| {
            let column = (GRAPHS[graph]..GRAPHS[graph + 1]).map(|i| x.at(i as usize, k));
            match self.pooling {
                PoolingChoice::Sum => column.sum(),
                PoolingChoice::Mean => {
                    column.sum::<f64>() / (GRAPHS[graph + 1] - GRAPHS[graph]) as f64
                }
                _ => column.fold(f64::NEG_INFINITY, f64::max),
            }
        });
        let hidden =
            row(&pooled.times(&values["head.hidden0.Theta"].t()), &values["head.hidden0.bias"]);
        let hidden = map(hidden, |z| z.max(0.0));
        let logits = row(&hidden.times(&values["head.Theta"].t()), &values["head.bias"]);
        let term = |graph: usize| {
            let error = logits.at(graph, 0) - f64::from(NUMBERS[graph]);
            match self.loss {
                LossKind::Squared => return error * error,
                LossKind::Absolute => return error.abs(),
                _ => {}
            }
            let sum: f64 = (0..3).map(|k| logits.at(graph, k).exp()).sum();
            sum.ln() - logits.at(graph, CLASSES[graph] as usize)
        };
        (0..4).map(term).sum::<f64>() / 4.0
    }
}

fn double(matrix: &Matrix) -> Mat {
    Mat::new(matrix.rows(), matrix.cols(), |i, k| f64::from(matrix.row(i)[k]))
}

/// The engine's loss and gradients against the formula and its differences.
fn check(case: &Case, what: &str) {
    let (incoming, outgoing) = (Rows::of(&case.a.t()), Rows::of(&case.a));
    let operators = Operators::new(vec![incoming.view()], vec![outgoing.view()]);
    let facts = Facts {
        nodes: 16,
        columns: Some(3),
        relations: vec!["edges".into()],
        radii: operators.radii().to_vec(),
        outputs: case.outputs(),
        pools: true,
    };
    let mut model = Network::new(&case.config(), &facts, 7, true).unwrap();
    // Scales, shifts and biases that are not the first ones: no row of zeros at the kink of a relu.
    for parameter in model.parameters.iter_mut().filter(|p| p.value.rows() == 1) {
        parameter
            .value
            .row_mut(0)
            .iter_mut()
            .enumerate()
            .for_each(|(k, x)| *x += 0.1 * k as f32 - 0.2);
    }
    let features = Features::Dense(Matrix::from_fn(16, 3, |i, k| case.u.at(i, k) as f32));
    let mut on = OnGraph::new(&model, &operators, features, true).with_graphs(GRAPHS.to_vec());
    let params = SolveParams { tolerance: 1e-7, max_sweeps: 2000, ..SolveParams::default() };
    let values = |model: &Network| -> BTreeMap<String, Mat> {
        model.parameters.iter().map(|p| (p.name.clone(), double(&p.value))).collect()
    };
    let statistics = |model: &Network| -> BTreeMap<String, Mat> {
        model.statistics_by_name().into_iter().map(|(name, value)| (name, double(value))).collect()
    };
    let before = statistics(&model);
    on.forward(&mut model, &params, Mode::Training(0)).unwrap();
    let items: Vec<u32> = (0..4).collect();
    let mut pass = on.pass(&model, items.clone(), items.clone());
    let loss_of = Loss { kind: case.loss, class_weights: None };
    on.read_out(&model, &mut pass, Some(0));
    let (logits, ids, by_logits) = pass.for_loss();
    let loss = loss_of.evaluate(logits, ids, case.targets(), Some(by_logits));
    let mut given = values(&model);
    let expected = case.loss(&given, None);
    assert!(
        (loss - expected).abs() < 1e-4 * expected.max(1.0),
        "{what}: loss {loss}, expected {expected}"
    );
    // Twice: what one pass leaves must not affect the next.
    on.backward(&mut model, &mut pass, 0, Backward::Exact, &params).unwrap();
    on.backward(&mut model, &mut pass, 0, Backward::Exact, &params).unwrap();
    for parameter in &model.parameters {
        let gradient = double(&parameter.gradient);
        let size = gradient.largest().max(1e-2);
        for at in 0..gradient.data.len() {
            let mut moved = |by: f64| {
                given.get_mut(&parameter.name).unwrap().data[at] += by;
                let loss = case.loss(&given, None);
                given.get_mut(&parameter.name).unwrap().data[at] -= by;
                loss
            };
            let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            let found = gradient.data[at];
            assert!(
                (found - difference).abs() < 2e-3 * size,
                "{what}: gradient of {} at {at}: {found}, expected {difference}",
                parameter.name
            );
        }
    }
    // Evaluation uses what training kept.
    let kept = statistics(&model);
    assert!(!case.norm || kept != before, "{what}");
    on.forward(&mut model, &params, Mode::Evaluation).unwrap();
    on.read_out(&model, &mut pass, None);
    let (logits, ids, _) = pass.for_loss();
    let loss = loss_of.evaluate(logits, ids, case.targets(), None);
    let expected = case.loss(&given, Some(&kept).filter(|_| case.norm));
    assert!(
        (loss - expected).abs() < 1e-4 * expected.max(1.0),
        "{what}: {loss}, expected {expected}"
    );
    assert_eq!(statistics(&model), kept, "{what}: evaluation moves nothing");
    let again = model.logits(on.seen(&model).view(), &items);
    assert_eq!(again.view().padded(), pass.logits.view().padded(), "{what}: rows read out apart");
}

#[test]
fn pooled_and_normalised_stacks_have_the_gradients_of_the_formula() {
    let mut seed = 40;
    for pooling in [PoolingChoice::Sum, PoolingChoice::Mean, PoolingChoice::Max] {
        for (layers, skip, norm) in
            [(1, false, false), (1, false, true), (2, true, true), (3, false, true)]
        {
            seed += 1;
            let what = format!("{pooling}, {layers} layers, skip {skip}, norm {norm}");
            check(&Case::new(seed, pooling, layers, skip, norm), &what);
        }
    }
}

#[test]
fn regressions_have_the_gradients_of_the_formula() {
    for (seed, loss) in [(60, LossKind::Squared), (61, LossKind::Absolute)] {
        for (pooling, layers, skip, norm) in [
            (PoolingChoice::Sum, 1, false, false),
            (PoolingChoice::Mean, 2, true, true),
            (PoolingChoice::Max, 1, false, true),
        ] {
            let case = Case { loss, ..Case::new(seed, pooling, layers, skip, norm) };
            check(&case, &format!("{loss:?}, {pooling}, {layers} layers"));
        }
    }
}
