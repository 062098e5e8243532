//! Readout and loss on the golden cases: logits, loss and gradient of Theta from the equilibria
//! given. Below it: the input map, and the layer with its operators.

mod input;
mod layer;

use serde_json::Value;

use super::{Loss, LossKind, Readout, Targets, select_rows};
use crate::dense::Matrix;
use crate::kernels::naive::{self, Rows};
use crate::solver::testing::golden;

fn rows(value: &Value) -> Rows {
    serde_json::from_value(value.clone()).unwrap()
}

fn matrix(rows: &Rows) -> Matrix {
    Matrix::from_fn(rows.len(), rows[0].len(), |i, k| rows[i][k] as f32)
}

#[test]
fn golden_cases() {
    let names = ["identity-linear", "leaky-multilabel", "relu-directed", "relu-undirected"];
    for name in names.into_iter().chain(["sigmoid-weighted-raw", "tanh-two-inputs-bias"]) {
        let Some(case) = golden(&format!("single-{name}.json")) else { return };
        let (theta, state) =
            (matrix(&rows(&case["parameters"]["Theta"])), rows(&case["equilibrium"]));
        let nodes: Vec<u32> = serde_json::from_value(case["train"].clone()).unwrap();
        let readout = Readout::new(theta.cols(), &[], theta.rows(), false);

        let mut h = Matrix::zeros(nodes.len(), theta.cols());
        select_rows(matrix(&state).view(), &nodes, &mut h);
        let mut logits = Matrix::zeros(nodes.len(), theta.rows());
        let mut memory = readout.memory(nodes.len());
        readout.forward(&[theta.view()], h.view(), &mut memory, logits.view_mut());
        let expected = rows(&case["logits"]);
        let expected = nodes.iter().map(|&node| expected[node as usize].clone()).collect();
        naive::assert_close(logits.view(), &expected, name);

        let (mut classes, mut offsets, mut of) = (Vec::new(), vec![0], Vec::new());
        let is_single = case["loss"] == "cross_entropy";
        for target in case["targets"].as_array().unwrap() {
            if is_single {
                classes.push(target.as_i64().unwrap() as i32);
            } else {
                let set = target.as_array().unwrap().iter().enumerate();
                of.extend(
                    set.filter(|(_, x)| x.as_f64() == Some(1.0)).map(|(class, _)| class as u32),
                );
                offsets.push(of.len() as u64);
            }
        }
        let (kind, targets) = match is_single {
            true => (LossKind::CrossEntropy, Targets::Classes(&classes)),
            false => (LossKind::BinaryCrossEntropy, Targets::Labels { offsets: &offsets, of: &of }),
        };
        let mut by_logits = Matrix::zeros(nodes.len(), theta.rows());
        let loss = Loss { kind, class_weights: None };
        let value = loss.evaluate(logits.view(), &nodes, targets, Some(by_logits.view_mut()));
        assert!((value - case["loss_value"].as_f64().unwrap()).abs() < 1e-6, "{name}: {value}");

        let mut by_theta = Matrix::zeros(theta.rows(), theta.cols());
        let mut by_h = Matrix::zeros(nodes.len(), theta.cols());
        readout.backward(
            &[theta.view()],
            h.view(),
            &mut memory,
            by_logits.view(),
            &mut [by_theta.view_mut()],
            by_h.view_mut(),
        );
        let expected = rows(&case["gradients"]["Theta"]);
        let largest = expected.iter().flatten().fold(0.0f64, |largest, x| largest.max(x.abs()));
        for (k, expected) in expected.iter().enumerate() {
            for (found, expected) in by_theta.row(k).iter().zip(expected) {
                assert!(
                    (f64::from(*found) - expected).abs() < 1e-5 * largest,
                    "{name}: {found} {expected}"
                );
            }
        }
    }
}
