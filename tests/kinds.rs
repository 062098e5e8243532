//! Tests of every row of the table of kinds, so that a new kind is tested without a line here:
//! gradients against differences of the engine's own loss, and what the row promises.
//!
//! The engine computes in f32, so these differences are coarse. `baselines` compares the kinds that
//! it has formulas for with f64.

use std::collections::BTreeSet;
use std::fs;

use ignn::config::{Config, ModelKind};
use ignn::dense::Matrix;
use ignn::graph::GraphBuilder;
use ignn::models::kinds::{FeatureRule, KINDS, Kind};
use ignn::models::{Facts, LayerMemory, Mode, Network, NetworkShape, OnGraph};
use ignn::nn::{Backward, Features, Loss, LossKind, Operators, Targets};
use ignn::solver::SolveParams;
use ignn::train::Trainer;

use crate::architecture::project;
use crate::engine::Rows;
use crate::reference::{Mat, Random};

const NODES: usize = 24;
const COLUMNS: usize = 5;
const OUTPUTS: usize = 3;
const GRAPHS: [u64; 4] = [0, 9, 15, 24];
const EPOCH: u64 = 3;

/// Settings that change the wiring around a layer, tried with every kind.
const VARIANTS: [&[&str]; 7] = [
    &[],
    &["model.dropout=0.3", "model.drop_edge=0.2", "model.feature_dropout=0.2"],
    &["model.skip=true", "model.between=tanh"],
    &["model.batch_norm=true"],
    &["model.normalise_state=true", "model.readout=mlp", "model.hidden=4"],
    &["model.depth=1"],
    &[
        "model.heads=[2, 3]",
        "model.gin_learn_epsilon=true",
        "model.dropout=0.3",
        "model.batch_norm=true",
    ],
];

/// Settings of a stack of equilibria, whose layers are as many as its widths.
const STACK: &[&str] = &[
    "model.state=[6, 5, 4]",
    "model.feature_dropout=0.2",
    "model.layer_dropout=0.3",
    "model.skip=true",
    "model.between=tanh",
];

fn config(kind: &Kind, sets: &[&str]) -> Config {
    let plain = ["model.state=6", "model.activation=tanh", "model.dropout=0", "model.heads=2"];
    let kind = format!("model.kind={}", kind.name());
    let sets: Vec<String> =
        [kind].into_iter().chain(plain.iter().chain(sets).map(ToString::to_string)).collect();
    Config::resolve(None, None, &sets).unwrap()
}

/// Random graphs side by side, one adjacency per relation: `A[j, i]` is the edge from j to i.
fn relations(seed: u64, count: usize) -> Vec<Mat> {
    let mut random = Random::new(seed);
    let graph = |node: usize| GRAPHS.iter().filter(|&&first| first <= node as u64).count();
    let mut relation = || {
        Mat::new(NODES, NODES, |i, k| match graph(i) == graph(k) && random.unit() < 0.4 {
            true => f64::from(0.3 * random.unit() as f32),
            false => 0.0,
        })
    };
    (0..count).map(|_| relation()).collect()
}

fn classes(items: usize) -> Vec<i32> {
    (0..items).map(|item| (item % OUTPUTS) as i32).collect()
}

/// A kind on a graph: what a loss and its gradient are computed from.
struct Case<'a> {
    kind: &'static Kind,
    config: &'a Config,
    operators: &'a Operators,
    learns_features: bool,
    pools: bool,
}

impl Case<'_> {
    fn features(&self) -> Features {
        let mut random = Random::new(1);
        match self.kind.features {
            FeatureRule::Computed(computed) => {
                Features::Dense((computed.compute)(&self.config.model, self.operators))
            }
            _ if self.learns_features => Features::Learned,
            _ => Features::Dense(Matrix::from_fn(NODES, COLUMNS, |_, _| random.sign() as f32)),
        }
    }

    fn facts(&self) -> Facts {
        let columns = match self.features() {
            Features::Dense(matrix) => Some(matrix.cols()),
            _ => None,
        };
        let count = self.operators.incoming().len();
        Facts {
            nodes: NODES,
            columns,
            relations: (0..count).map(|r| format!("relation {r}")).collect(),
            radii: self.operators.radii().to_vec(),
            outputs: OUTPUTS,
            pools: self.pools,
        }
    }

    fn network(&self) -> Network {
        Network::new(&self.config.model, &self.facts(), 5, true).unwrap()
    }

    /// The loss of a training pass from a state of zero; with its gradient where asked for.
    fn loss(&self, network: &mut Network, with_gradient: bool) -> f64 {
        let mut on = OnGraph::new(network, self.operators, self.features(), true);
        if self.pools {
            on = on.with_graphs(GRAPHS.to_vec());
        }
        // A kind that keeps its state makes a set number of steps per pass and is differentiated
        // through these alone, so its first pass must not iterate to a tolerance.
        let tolerance = if on.kept_states().is_empty() { 1e-7 } else { 1e9 };
        let params = SolveParams { tolerance, ..SolveParams::default() };
        on.forward(network, &params, Mode::Training(EPOCH)).unwrap();
        let items = if self.pools { GRAPHS.len() - 1 } else { NODES };
        let ids: Vec<u32> = (0..items as u32).collect();
        let mut pass = on.pass(network, ids.clone(), ids);
        on.read_out(network, &mut pass, Some(EPOCH));
        let (logits, ids, by_logits) = pass.for_loss();
        let loss = Loss { kind: LossKind::CrossEntropy, class_weights: None };
        let classes = classes(items);
        let loss = loss.evaluate(logits, ids, Targets::Classes(&classes), Some(by_logits));
        if with_gradient {
            on.backward(network, &mut pass, EPOCH, Backward::Exact, &params).unwrap();
        }
        loss
    }

    /// The derivative of the loss along a direction that has a share of the gradient of every
    /// parameter: by the gradient, and by central differences. Of two steps the one that is closer
    /// counts: a kink of a relu may be within the larger one, and the smaller one is less exact.
    fn derivatives(&self, seed: u64) -> (f64, f64) {
        const STEPS: [f64; 2] = [1e-3, 1e-4];
        let mut network = self.network();
        self.loss(&mut network, true);
        let mut random = Random::new(seed);
        let (mut exact, mut direction, mut length) = (0.0, Vec::new(), 0.0);
        for parameter in &network.parameters {
            let gradient = &parameter.gradient;
            let entries = || (0..gradient.rows()).flat_map(|row| gradient.row(row));
            let norm = entries().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt().max(1e-9);
            let noise = 0.5 / (entries().count() as f64).sqrt();
            let along = Matrix::from_fn(gradient.rows(), gradient.cols(), |i, k| {
                (f64::from(gradient.row(i)[k]) / norm + noise * random.sign()) as f32
            });
            for (row, k) in (0..along.rows()).flat_map(|i| (0..along.cols()).map(move |k| (i, k))) {
                let entry = f64::from(along.row(row)[k]);
                exact += entry * f64::from(gradient.row(row)[k]);
                length += entry.powi(2);
            }
            direction.push(along);
        }
        let at = |step: f64| {
            let mut moved = self.network();
            for (parameter, along) in moved.parameters.iter_mut().zip(&direction) {
                for row in 0..along.rows() {
                    let to = parameter.value.row_mut(row);
                    to.iter_mut().zip(along.row(row)).for_each(|(x, d)| *x += step as f32 * d);
                }
            }
            self.loss(&mut moved, false)
        };
        let differences = STEPS.map(|step| {
            let step = step / length.sqrt();
            (at(step) - at(-step)) / (2.0 * step)
        });
        let [large, small] = differences;
        (exact, if (large - exact).abs() < (small - exact).abs() { large } else { small })
    }
}

/// Calls `check` with every kind, variant of settings, source of features and number of relations.
fn each_case(mut check: impl FnMut(&Case<'_>, &str)) {
    for kind in KINDS {
        // By name: a new kind does not change the graphs of the others.
        let name =
            kind.name().bytes().fold(0, |sum, byte| 31 * (sum % 1_000_000) + u64::from(byte));
        let stack = (kind.name() == "ignn").then_some(STACK);
        for (variant, sets) in VARIANTS.into_iter().chain(stack).enumerate() {
            let config = config(kind, sets);
            for (count, learns_features, pools) in
                [(1, false, false), (2, false, false), (1, true, false), (1, false, true)]
            {
                // Learned features have no skip connection, and labels are those of nodes.
                let is_labels = matches!(kind.features, FeatureRule::Labels);
                if (learns_features && config.model.skip) || (is_labels && pools) {
                    continue;
                }
                let a = relations(10 * name + variant as u64, count);
                let sides: Vec<_> = a.iter().map(|a| (Rows::of(&a.t()), Rows::of(a))).collect();
                let (incoming, outgoing) = sides.iter().map(|(a, b)| (a.view(), b.view())).unzip();
                let operators = Operators::new(incoming, outgoing);
                let learns_features = learns_features || is_labels;
                let case =
                    Case { kind, config: &config, operators: &operators, learns_features, pools };
                let what = format!(
                    "{} {sets:?}, {count} relations, learned {learns_features}, pools {pools}",
                    kind.name()
                );
                check(&case, &what);
            }
        }
    }
}

#[test]
fn gradients_of_every_kind_match_differences_of_the_loss() {
    let (mut compared, mut wrong) = (0, Vec::new());
    each_case(|case, what| {
        if !case.kind.learns {
            return;
        }
        let (exact, difference) = case.derivatives(7);
        assert!(exact > 1e-3, "{what}: a gradient of {exact} is too small to compare");
        let error = (exact - difference).abs() / exact;
        if error > 0.02 {
            wrong.push(format!("{what}: {exact} by the gradient, {difference} by differences"));
        }
        compared += 1;
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared >= 9 * 20, "{compared} cases");
}

#[test]
fn every_kind_starts_with_finite_values_under_distinct_names() {
    each_case(|case, what| {
        let mut network = case.network();
        let names: BTreeSet<&str> =
            network.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
        assert_eq!(names.len(), network.parameters.len(), "{what}");
        assert!(case.loss(&mut network, false).is_finite(), "{what}");
        assert_eq!(network.outputs(), OUTPUTS, "{what}");
    });
}

#[test]
fn the_shape_of_a_network_has_its_parameters_and_a_size() {
    each_case(|case, what| {
        let network = case.network();
        let shape = NetworkShape::new(&case.config.model, &case.facts(), 5).unwrap();
        assert_eq!(shape.slots, network.slots(), "{what}");
        let entries: usize = shape.slots.iter().map(|slot| slot.shape.0 * slot.shape.1).sum();
        assert!(shape.parameter_bytes() >= 4 * entries as u64, "{what}");
        for layer in &shape.layers {
            // B, X, R and G at least.
            let states = 2 * 4 * (NODES * (layer.input.width + layer.width)) as u64;
            let bytes = layer.bytes(LayerMemory::whole(), NODES as u64, 0);
            assert!(bytes.states + bytes.input + bytes.adjoint >= states, "{what}");
        }
    });
}

#[test]
fn every_kind_is_a_word_of_the_setting() {
    for kind in KINDS {
        assert_eq!(config(kind, &[]).model.kind.to_string(), kind.name());
    }
}

/// `docs/adding-a-model.md` counts the files that a kind touches; this holds the count.
#[test]
fn gcnii_is_named_in_its_own_file_the_table_and_the_settings_only() {
    let mut named = BTreeSet::new();
    let mut directories = vec![project().join("src")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if fs::read_to_string(&path).unwrap().to_lowercase().contains("gcnii") {
                named.insert(path.strip_prefix(project()).unwrap().display().to_string());
            }
        }
    }
    let expected = ["src/config/model.rs", "src/models/kinds/gcnii.rs", "src/models/kinds/mod.rs"];
    assert_eq!(named, expected.map(String::from).into());
}

/// Another value for every setting that some kind ignores.
const OTHER_VALUES: [&str; 40] = [
    "model.layer_dropout=0.2",
    "model.skip=true",
    "model.between=tanh",
    "model.batch_norm=true",
    "model.dropout=0.2",
    "model.init_input=0.5",
    "optim.learning_rate=0.5",
    "model.state=5",
    "model.activation=sigmoid",
    "model.input=own",
    "model.bias=true",
    "model.kappa=0.5",
    "model.init=identity",
    "model.init_features=labels",
    "model.features=learned",
    "model.normalise_features=true",
    "model.feature_dropout=0.3",
    "model.normalise_state=true",
    "model.readout=mlp",
    "model.hidden=7",
    "model.head_bias=false",
    "model.depth=3",
    "model.heads=3",
    "model.hops=1",
    "model.sse_damping=0.3",
    "model.gcnii_alpha=0.3",
    "model.gcnii_lambda=0.9",
    "model.gin_learn_epsilon=true",
    "model.drop_edge=0.4",
    "train.hide=0.4",
    "solver.tolerance=0.1",
    "solver.max_sweeps=2",
    "solver.measure=row",
    "solver.method=plain",
    "solver.depth=2",
    "solver.adjoint_tolerance=0.1",
    "solver.follow=0.5",
    "solver.gradient=phantom",
    "solver.phantom_steps=2",
    "solver.warm_start=false",
];

#[test]
fn what_a_kind_is_said_to_ignore_has_no_effect() {
    let graph = GraphBuilder::new(8)
        .edges((0..8).map(|node| (node, (node + 1) % 8)).chain([(0, 4)]))
        .features(3, (0..24).map(|at| (at % 5) as f32 - 1.5).collect())
        .classes(["a", "b"], (0..8).map(|node| Some(node / 4)))
        .split([0, 1, 4, 5], [2, 6], [3, 7])
        .build()
        .unwrap();
    let mut ignored = BTreeSet::new();
    for kind in KINDS {
        let trained = |sets: &[&str]| {
            let mut config = config(kind, sets);
            config.train.epochs = 2;
            let model = Trainer::new(&graph, config).unwrap().fit().unwrap().model;
            let rows = |value: &Matrix| -> Vec<f32> {
                (0..value.rows()).flat_map(|row| value.row(row)).copied().collect()
            };
            let values = model.values.iter().map(|(slot, value)| (slot.name.clone(), rows(value)));
            values.collect::<Vec<_>>()
        };
        let plain = trained(&[]);
        let of_kind = config(kind, &[]).model;
        for set in OTHER_VALUES {
            let (key, _) = set.split_once('=').unwrap();
            if kind.ignores(key, &of_kind, false) {
                ignored.insert(key);
                assert!(trained(&[set]) == plain, "{} and {set}", kind.name());
            }
        }
    }
    let tried: BTreeSet<&str> =
        OTHER_VALUES.iter().map(|set| set.split_once('=').unwrap().0).collect();
    assert_eq!(ignored, tried);
    let ignn = Kind::of(ModelKind::Ignn);
    let of_kind = config(ignn, &[]).model;
    assert!(ignn.ignores("model.depth", &of_kind, false));
    assert!(!ignn.ignores("solver.method", &of_kind, false));
    assert!(ignn.ignores("model.layer_dropout", &of_kind, false));
    let of_kind = config(ignn, STACK).model;
    assert!(!ignn.ignores("model.layer_dropout", &of_kind, false));
}
