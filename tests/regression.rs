//! Numbers instead of classes: a generated set with a known answer, and certified bounds of
//! predictions against equilibria that are computed here, in f64.

use std::path::Path;

use ignn::config::Config;
use ignn::dense::Matrix;
use ignn::graph::{Graph, Labels};
use ignn::kernels::Activation;
use ignn::models::Model;
use ignn::nn::InputMap;
use ignn::train::Trainer;
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

/// The numbers that a model gives by its exact equilibrium on rings, in f64.
fn exact(model: &Model, graph: &Graph, mean: bool) -> Vec<f64> {
    let value = |name: &str| &model.values.iter().find(|(slot, _)| slot.name == name).unwrap().1;
    let [w, omega, theta, bias] =
        ["layer0.W", "layer0.Omega", "head.Theta", "head.bias"].map(value);
    let (nodes, width) = (graph.manifest().nodes as usize, w.rows());
    let mut u = vec![0.0; nodes];
    graph.directory().read_dense(0, &mut u, 1).unwrap();
    let scale = f64::from((1.0 / 3f64.sqrt()) as f32);
    let at = |matrix: &Matrix, i: usize, k: usize| f64::from(matrix.row(i)[k]);
    let mut x = vec![vec![0.0; width]; nodes];
    for _ in 0..3000 {
        let next = |node: usize| -> Vec<f64> {
            let (first, place) = (node / LENGTH * LENGTH, node % LENGTH);
            let near = [place, (place + 1) % LENGTH, (place + LENGTH - 1) % LENGTH];
            let sums: Vec<f64> = (0..width)
                .map(|k| near.iter().map(|near| scale * scale * x[first + near][k]).sum())
                .collect();
            (0..width)
                .map(|i| {
                    let own = at(omega, i, 0) * f64::from(u[node]);
                    own + (0..width).map(|k| at(w, i, k) * sums[k]).sum::<f64>()
                })
                .collect()
        };
        x = (0..nodes).map(next).collect();
    }
    let read_out = |row: &[f64]| {
        let logit = at(bias, 0, 0) + (0..width).map(|k| at(theta, 0, k) * row[k]).sum::<f64>();
        model.scaling.unwrap().restored(logit)
    };
    let pool = |ring: &[Vec<f64>]| -> Vec<f64> {
        let size = if mean { ring.len() as f64 } else { 1.0 };
        (0..width).map(|k| ring.iter().map(|row| row[k]).sum::<f64>() / size).collect()
    };
    match graph.collection().unwrap() {
        Some(_) => x.chunks(LENGTH).map(|ring| read_out(&pool(ring))).collect(),
        None => x.iter().map(|row| read_out(row)).collect(),
    }
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

#[test]
fn predictions_lie_within_their_bounds() {
    for pooling in [None, Some("sum"), Some("mean")] {
        let directory = tempfile::tempdir().unwrap();
        let graph = rings(directory.path(), pooling.is_some());
        let mut config = linear(3, 5, pooling);
        // A coarse solve, so that there is an error to bound.
        config.solver.tolerance = 1e-3;
        let model = Trainer::new(&graph, config).unwrap().fit().unwrap().model;
        let predictions = model.predict(&graph).unwrap();
        let expected = exact(&model, &graph, pooling == Some("mean"));
        assert_eq!(predictions.len(), expected.len());
        let mut largest: f64 = 0.0;
        for (item, expected) in expected.iter().enumerate() {
            let found = predictions.number(item).unwrap();
            let bound = predictions.number_error(item).expect("a certified model");
            let error = (found - expected).abs();
            assert!(error <= bound, "{pooling:?}, {item}: error {error}, bound {bound}");
            largest = largest.max(error / bound);
        }
        assert!(largest > 1e-4, "{pooling:?}: bounds are not absurd: {largest}");
        let (saved, file) = (&model, directory.path().join("m.safetensors"));
        saved.save(&file).unwrap();
        let loaded = Model::load(&file).unwrap();
        assert_eq!((loaded.scaling, loaded.labels), (saved.scaling, saved.labels));
        let again = loaded.predict(&graph).unwrap();
        assert_eq!(again.number(0), predictions.number(0));
    }
}

#[test]
fn what_is_not_certified_has_no_bound() {
    let directory = tempfile::tempdir().unwrap();
    let graph = rings(directory.path(), false);
    for change in
        ["model.kind=gcn", "model.skip=true", "model.normalise_state=true", "model.state=4,4"]
    {
        let mut config = Config::resolve(None, None, &[change.into()]).unwrap();
        config.train.epochs = 1;
        let model = Trainer::new(&graph, config).unwrap().fit().unwrap().model;
        let predictions = model.predict(&graph).unwrap();
        assert!(predictions.number(0).unwrap().is_finite());
        assert_eq!(predictions.number_error(0), None, "{change}");
    }
}
