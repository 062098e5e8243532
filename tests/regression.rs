//! Numbers instead of classes: a generated set with a known answer, and certified bounds of
//! predictions against equilibria that are computed here, in f64.

use std::path::Path;

use ignn::config::Config;
use ignn::dense::Matrix;
use ignn::graph::{Graph, GraphBuilder, Labels};
use ignn::kernels::Activation;
use ignn::metrics::Monitor;
use ignn::models::Model;
use ignn::nn::{InputMap, PoolingChoice};
use ignn::train::{EpochRecord, Trainer};
use ignn_format::manifest::Normalisation;
use ignn_ingest::Context;
use ignn_ingest::command::generate::{Generate, Kind};
use ignn_ingest::context::Recorder;
use ignn_ingest::synthetic::rings::RingsOptions;

const LENGTH: usize = 12;

fn rings(directory: &Path, by_graph: bool) -> Graph {
    let out = directory.join("rings.ignn");
    let options =
        RingsOptions { rings: 16, length: LENGTH as u64, by_graph, ..RingsOptions::default() };
    let (kind, normalise) = (Kind::Rings(options), Normalisation::Renorm);
    let job = Generate { kind, out: Some(out.clone()), raw: None, force: false, normalise };
    let observer = Recorder::default();
    job.run(&Context { threads: 1, memory: 1 << 28, seed: 3, observer: &observer }).unwrap();
    Graph::open(out).unwrap()
}

/// A linear model that reads each node's own feature.
fn linear(state: usize, epochs: u64, pooling: Option<&str>) -> Config {
    let settings: Vec<String> = pooling.map(|p| format!("model.pooling={p}")).into_iter().collect();
    let mut config = Config::resolve(None, None, &settings).unwrap();
    config.model.state = vec![state];
    config.model.activation = vec![Activation::Identity];
    config.model.input = InputMap::Own;
    config.model.dropout = 0.0;
    config.train.epochs = epochs;
    config
}

/// A network in f64: the values of a model by name.
struct Exact<'a> {
    model: &'a Model,
    nodes: usize,
}

type Wide = Vec<Vec<f64>>;

impl Exact<'_> {
    fn value(&self, name: &str) -> Option<&Matrix> {
        let own = self.model.values.iter().find(|(slot, _)| slot.name == name);
        own.map(|value| &value.1)
    }

    /// x M^T + bias
    fn mapped(&self, x: &Wide, map: &str, bias: &str) -> Wide {
        let at = |matrix: &Matrix, i: usize, k: usize| f64::from(matrix.row(i)[k]);
        let Some(map) = self.value(map) else { return Vec::new() };
        let entry = |row: &Vec<f64>, i: usize| -> f64 {
            let sum: f64 = row.iter().enumerate().map(|(k, x)| at(map, i, k) * x).sum();
            sum + self.value(bias).map_or(0.0, |bias| at(bias, 0, i))
        };
        x.iter().map(|row| (0..map.rows()).map(|i| entry(row, i)).collect()).collect()
    }

    /// A^T x on rings with D^-1/2 (A + I) D^-1/2.
    fn gathered(&self, x: &Wide) -> Wide {
        let scale = f64::from((1.0 / 3f64.sqrt()) as f32);
        let next = |node: usize| -> Vec<f64> {
            let (first, place) = (node / LENGTH * LENGTH, node % LENGTH);
            let near = [place, (place + 1) % LENGTH, (place + LENGTH - 1) % LENGTH];
            let sum = |k: usize| near.iter().map(|near| scale * scale * x[first + near][k]).sum();
            (0..x[0].len()).map(sum).collect()
        };
        (0..self.nodes).map(next).collect()
    }

    fn phi(activation: Activation, x: f64) -> f64 {
        match activation {
            Activation::Relu => x.max(0.0),
            Activation::Tanh => x.tanh(),
            _ => x,
        }
    }

    /// The rows that the readout takes, before they are pooled and normalised.
    fn rows(&self, features: Wide) -> Wide {
        let config = &self.model.config.model;
        let layers = config.state.len();
        let mut x = features;
        for layer in 0..layers {
            let name = |what: &str| format!("layer{layer}.{what}");
            let (omega, bias) = (name("Omega"), name("bias"));
            let plus = |mut a: Wide, b: Wide| {
                for (a, b) in a.iter_mut().flatten().zip(b.iter().flatten()) {
                    *a += b;
                }
                a
            };
            let b = match config.input {
                InputMap::Own => self.mapped(&x, &omega, &bias),
                InputMap::Gathered => self.mapped(&self.gathered(&x), &omega, &bias),
                InputMap::Both => plus(
                    self.mapped(&self.gathered(&x), &omega, "none"),
                    self.mapped(&x, &name("Omega2"), &bias),
                ),
            };
            let activation = config.activation[layer.min(config.activation.len() - 1)];
            let mut state = vec![vec![0.0; b[0].len()]; self.nodes];
            for _ in 0..3000 {
                state = plus(self.mapped(&self.gathered(&state), &name("W"), "none"), b.clone());
                state.iter_mut().flatten().for_each(|x| *x = Self::phi(activation, *x));
            }
            let skip = self.mapped(&x, &name("V"), &name("v"));
            if !skip.is_empty() {
                let is_last = layer + 1 == layers;
                let between = if is_last { Activation::Identity } else { config.between };
                state = plus(state, skip);
                state.iter_mut().flatten().for_each(|x| *x = Self::phi(between, *x));
            }
            let norm = |what: &str| self.value(&name(&format!("norm.{what}")));
            if let (Some(scale), Some(shift)) = (norm("scale"), norm("shift")) {
                let (mean, variance) = (norm("mean").unwrap(), norm("variance").unwrap());
                for row in &mut state {
                    for (k, x) in row.iter_mut().enumerate() {
                        let [scale, shift, mean, variance] =
                            [scale, shift, mean, variance].map(|of| f64::from(of.row(0)[k]));
                        *x = scale * (*x - mean) / (variance + 1e-5).sqrt() + shift;
                    }
                }
            }
            x = state;
        }
        x
    }
}

/// The numbers that a model gives by its exact equilibria on rings, in f64.
fn exact(model: &Model, graph: &Graph) -> Vec<f64> {
    let nodes = graph.manifest().nodes as usize;
    let exact = Exact { model, nodes };
    let mut u = vec![0.0; nodes];
    graph.directory().read_dense(0, &mut u, 1).unwrap();
    let x = exact.rows(u.iter().map(|&x| vec![f64::from(x)]).collect());
    let pool = |ring: &[Vec<f64>]| -> Vec<f64> {
        let mean = model.config.model.pooling == PoolingChoice::Mean;
        let size = if mean { ring.len() as f64 } else { 1.0 };
        (0..ring[0].len()).map(|k| ring.iter().map(|row| row[k]).sum::<f64>() / size).collect()
    };
    let mut rows: Wide = match graph.collection().unwrap() {
        Some(_) => x.chunks(LENGTH).map(pool).collect(),
        None => x,
    };
    if model.config.model.normalise_state {
        for row in &mut rows {
            let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
            row.iter_mut().for_each(|x| *x /= if length == 0.0 { 1.0 } else { length });
        }
    }
    let logits = exact.mapped(&rows, "head.Theta", "head.bias");
    logits.iter().map(|logit| model.scaling.unwrap().restored(logit[0])).collect()
}

#[test]
fn the_known_answer_is_exact() {
    let directory = tempfile::tempdir().unwrap();
    let graph = rings(directory.path(), false);
    let mut trainer = Trainer::new(&graph, linear(1, 0, None)).unwrap();
    let scaling = trainer.task().scaling().unwrap();
    // The equilibrium of x = w A x + u is 7 / 3 of the sum at a decay of one half.
    let (w, theta) = (6.0 / 7.0, 5.0 * 3.0 / 7.0 / scaling.deviation);
    let bias = (20.0 - scaling.mean) / scaling.deviation;
    let known =
        [("layer0.W", w), ("layer0.Omega", 1.0), ("head.Theta", theta), ("head.bias", bias)];
    for (name, value) in known {
        let parameters = &mut trainer.network_mut().parameters;
        let parameter = parameters.iter_mut().find(|p| p.name == name).unwrap();
        parameter.value = Matrix::from_fn(1, 1, |_, _| value as f32);
    }
    let predictions = trainer.best_model().predict(&graph).unwrap();
    let Labels::Number { of, .. } = graph.labels().unwrap() else { panic!() };
    for (node, number) in of.iter().enumerate() {
        let found = predictions.number(node).unwrap();
        assert!((found - number).abs() < 2e-3, "node {node}: {found}, expected {number}");
    }
    let test = &predictions.evaluate().unwrap().parts[2];
    assert!(test.scores.r2.unwrap() > 0.999_999 && test.scores.accuracy.is_none());
    // It is also found.
    let fit = Trainer::new(&graph, linear(1, 250, None)).unwrap().fit().unwrap();
    let best = &fit.history[fit.best_epoch.unwrap() as usize];
    assert!(best.test.as_ref().unwrap().scores["r2"] > 0.999, "{best:?}");
    let w = &fit.model.values.iter().find(|(slot, _)| slot.name == "layer0.W").unwrap().1;
    assert!((w.row(0)[0] - 6.0 / 7.0).abs() < 0.02, "{:?}", w.row(0));
}

/// Checks every number of a model against the exact one; the largest error as a part of its bound.
fn check_bounds(model: &Model, graph: &Graph, what: &str) -> f64 {
    let predictions = model.predict(graph).unwrap();
    let expected = exact(model, graph);
    assert_eq!(predictions.len(), expected.len());
    let mut largest: f64 = 0.0;
    for (item, expected) in expected.iter().enumerate() {
        let found = predictions.number(item).unwrap();
        let bound = predictions.number_error(item).expect("a certified model");
        let error = (found - expected).abs();
        assert!(error <= bound, "{what}, {item}: error {error}, bound {bound}");
        largest = largest.max(error / bound);
    }
    largest
}

#[test]
fn predictions_lie_within_their_bounds() {
    for pooling in [None, Some("sum"), Some("mean")] {
        let directory = tempfile::tempdir().unwrap();
        let graph = rings(directory.path(), pooling.is_some());
        let mut config = linear(3, 5, pooling);
        // A coarse solve, so that there is an error to bound.
        config.solver.tolerance = 1e-3;
        let model = Trainer::new(&graph, config).unwrap().fit().unwrap().model;
        let largest = check_bounds(&model, &graph, &format!("{pooling:?}"));
        assert!(largest > 1e-4, "{pooling:?}: bounds are not absurd: {largest}");
        let (saved, file) = (&model, directory.path().join("m.safetensors"));
        saved.save(&file).unwrap();
        let loaded = Model::load(&file).unwrap();
        assert_eq!((loaded.scaling, loaded.labels), (saved.scaling, saved.labels));
        let numbers = |model: &Model| model.predict(&graph).unwrap().number(0);
        assert_eq!(numbers(&loaded), numbers(saved));
    }
}

#[test]
fn stacks_lie_within_their_bounds() {
    let directory = tempfile::tempdir().unwrap();
    let [nodes, graphs] = [false, true].map(|by_graph| {
        let place = directory.path().join(by_graph.to_string());
        std::fs::create_dir(&place).unwrap();
        rings(&place, by_graph)
    });
    // One of each, then pairs and all of them.
    let choices = [
        "model.state=3,4",
        "model.state=3,2,5 model.activation=relu model.input=both model.bias=true",
        "model.state=4,4 model.input=gathered model.activation=tanh",
        "model.state=3,3 model.skip=true model.between=tanh model.bias=true",
        "model.skip=true model.state=4",
        "model.state=3,3 model.batch_norm=true",
        "model.state=4 model.normalise_state=true",
        "model.state=3,4 model.skip=true model.between=relu model.batch_norm=true \
         model.normalise_state=true model.activation=relu",
        "model.state=2,2 model.skip=true model.batch_norm=true model.pooling=mean",
        "model.state=3,2 model.pooling=sum model.activation=tanh model.input=both",
    ];
    for (at, choice) in choices.into_iter().enumerate() {
        let graph = if choice.contains("pooling") { &graphs } else { &nodes };
        let mut settings: Vec<String> = choice.split_whitespace().map(Into::into).collect();
        let usual = ["model.dropout=0", "train.epochs=4", "solver.tolerance=1e-3"];
        settings.extend(usual.map(String::from));
        if !choice.contains("model.input") {
            settings.push("model.input=own".into());
        }
        settings.push(format!("model.kappa={}", [0.5, 0.8, 0.95][at % 3]));
        settings.push(format!("train.seed={at}"));
        let config = Config::resolve(None, None, &settings).unwrap();
        let model = Trainer::new(graph, config).unwrap().fit().unwrap().model;
        let largest = check_bounds(&model, graph, choice);
        assert!(largest > 1e-6, "{choice}: bounds are not absurd: {largest}");
        let predictions = model.predict(graph).unwrap();
        let bounds = (0..predictions.len()).filter_map(|item| predictions.number_error(item));
        let most = bounds.fold(0.0, f64::max) / model.scaling.unwrap().deviation;
        println!("{choice}: {largest:.1e} of the bound, {most:.1e} of the deviation");
    }
}

#[test]
fn what_is_not_certified_has_no_bound() {
    let directory = tempfile::tempdir().unwrap();
    let graph = rings(directory.path(), false);
    for change in ["model.kind=gcn", "model.kind=sgc"] {
        let mut config = Config::resolve(None, None, &[change.into()]).unwrap();
        config.train.epochs = 1;
        let model = Trainer::new(&graph, config).unwrap().fit().unwrap().model;
        let predictions = model.predict(&graph).unwrap();
        assert!(predictions.number(0).unwrap().is_finite());
        assert_eq!(predictions.number_error(0), None, "{change}");
    }
}

#[test]
fn equal_numbers_to_validate_on_are_noted() {
    let trained = |validation: [f64; 2], monitor: Monitor| {
        let numbers = [1.0, 2.0, validation[0], validation[1], 3.0, 4.0];
        let graph = GraphBuilder::new(6)
            .edges([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])
            .features(1, (0..6).map(|node| node as f32).collect())
            .numbers("price", numbers.map(Some))
            .split([0, 1], [2, 3], [4, 5])
            .build()
            .unwrap();
        let mut config = linear(2, 20, None);
        config.train.monitor = monitor;
        let mut trainer = Trainer::new(&graph, config).unwrap();
        (trainer.notes(), trainer.fit().unwrap())
    };
    let (notes, fit) = trained([2.5, 2.5], Monitor::R2);
    let [note] = &notes[..] else { panic!("{notes:?}") };
    let expected = "train.monitor: all numbers of the validation part are equal, so that r2 is 0 for \
                    every model that is not exact: the validation loss chooses the best epoch instead";
    assert_eq!(note, expected);
    let loss = |record: &EpochRecord| record.validation.as_ref().unwrap().loss;
    let least = fit.history.iter().map(loss).fold(f64::INFINITY, f64::min);
    let best = fit.best_epoch.unwrap();
    assert_eq!(loss(&fit.history[best as usize]), least);
    assert_eq!(trained([2.5, 2.5], Monitor::Rmse).0, [""; 0]);
    assert_eq!(trained([2.5, 3.5], Monitor::Auto).0, [""; 0]);
}
