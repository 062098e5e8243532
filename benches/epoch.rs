//! One training epoch on the input `sbm`: forward solve, evaluation, adjoint solve, gradients, step
//! and projection. Verified by finite differences of the loss: along the gradient that the epoch
//! computed, the loss must change at the rate of the gradient's norm.

use std::sync::Arc;

use divan::Bencher;
use ignn::config::Config;
use ignn::dense::Matrix;
use ignn::graph::Graph;
use ignn::train::{Task, Trainer};

use crate::inputs;

/// Length of the step of the finite difference.
const STEP: f32 = 2e-2;
/// Largest difference of the two rates, relative to them.
const TOLERANCE: f64 = 0.02;

#[divan::bench(max_time = 5)]
fn sbm(bencher: Bencher<'_, '_>) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("sbm.ignn");
    inputs::write_sbm(&path);
    let sets = ["model.state=64", "model.dropout=0", "optim.clip=none", "train.epochs=1000000"];
    let config = Config::resolve(None, None, &sets.map(String::from)).expect("settings");
    let task = Task::open(Graph::open(&path).expect("a dataset just made"), &config);
    let task = Arc::new(task.expect("a dataset with labels and a split"));
    verify(&task, &config);
    let mut trainer = Trainer::with_task(task, config).expect("a model of the task");
    bencher.bench_local(|| trainer.advance().expect("an epoch"));
}

/// (L(p + h g / |g|) - L(p - h g / |g|)) / 2 h = |g| for the gradient g of all parameters p.
fn verify(task: &Arc<Task>, config: &Config) {
    let mut config = config.clone();
    (config.solver.tolerance, config.solver.adjoint_tolerance) = (1e-7, 1e-7);
    // The loss of the first epoch from values moved along a direction, and the gradients there.
    let epoch = |length: f32, direction: &[Matrix]| {
        let mut trainer =
            Trainer::with_task(Arc::clone(task), config.clone()).expect("a model of the task");
        let parameters = &mut trainer.network_mut().parameters;
        for (parameter, direction) in parameters.iter_mut().zip(direction) {
            for row in 0..direction.rows() {
                let moves = direction.row(row).iter().map(|d| length * d);
                parameter
                    .value
                    .row_mut(row)
                    .iter_mut()
                    .zip(moves)
                    .for_each(|(p, move_)| *p += move_);
            }
        }
        let loss = trainer.advance().expect("an epoch").loss;
        let gradients: Vec<Matrix> = trainer
            .network()
            .parameters
            .iter()
            .map(|parameter| parameter.gradient.clone())
            .collect();
        (loss, gradients)
    };
    let (_, gradients) = epoch(0.0, &[]);
    let entries = |matrix: &Matrix| {
        (0..matrix.rows())
            .map(|row| matrix.row(row).iter().map(|g| f64::from(g * g)).sum::<f64>())
            .sum::<f64>()
    };
    let norm = gradients.iter().map(entries).sum::<f64>().sqrt();
    assert!(norm.is_finite() && norm > 0.0, "the gradient's norm is {norm}");
    let unit: Vec<Matrix> = gradients
        .iter()
        .map(|g| Matrix::from_fn(g.rows(), g.cols(), |i, k| (f64::from(g.row(i)[k]) / norm) as f32))
        .collect();
    let rate = (epoch(STEP, &unit).0 - epoch(-STEP, &unit).0) / f64::from(2.0 * STEP);
    let difference = (rate - norm).abs() / norm;
    assert!(difference <= TOLERANCE, "the loss changes by {rate}, the gradient says {norm}");
}
