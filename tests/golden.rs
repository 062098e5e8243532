//! The golden cases: equilibria, logits, losses, gradients, in f64 by dense loops and in f32 by the
//! engine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ignn::config::ModelConfig;
use ignn::kernels::Activation;
use ignn::nn::{Backward, InputMap};
use ignn::solver::{SpectralBound, SpectralParams, Structure};
use serde_json::Value;

use crate::architecture::project;
use crate::engine::{Engine, Rows};
use crate::model::{Case, Given, plain};
use crate::reference::{Dense, Layer, Loss, Mat, Model, Outcome, Phi};

/// Slope of the golden leaky relu.
const LEAKY: f32 = 0.01;

/// A golden file; `None`, with a printed reason, where it is not there.
fn golden(name: &str) -> Option<Value> {
    let shared =
        std::env::var_os("IGNN_SHARED").map_or_else(|| project().join("../shared"), PathBuf::from);
    let path = shared.join("golden").join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(serde_json::from_str(&text).unwrap()),
        Err(error) => {
            eprintln!("skipped: {}: {error} (set IGNN_SHARED)", path.display());
            None
        }
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// A list of rows, or a plain list as one row.
fn mat(value: &Value) -> Mat {
    let rows = value.as_array().unwrap();
    if rows[0].is_array() {
        let cols = rows[0].as_array().unwrap().len();
        return Mat::new(rows.len(), cols, |i, k| number(&rows[i][k]));
    }
    Mat::new(1, rows.len(), |_, k| number(&rows[k]))
}

/// A dense A of entries [source, target, weight].
fn adjacency(nodes: usize, entries: &Value) -> Mat {
    let mut a = Mat::new(nodes, nodes, |_, _| 0.0);
    for entry in entries.as_array().unwrap() {
        let at = |k: usize| entry[k].as_u64().unwrap() as usize;
        a.data[at(0) * nodes + at(1)] += number(&entry[2]);
    }
    a
}

fn activation(name: &Value) -> Phi {
    match name.as_str().unwrap() {
        "identity" => Phi::Identity,
        "relu" => Phi::Relu,
        "leaky_relu" => Phi::LeakyRelu(f64::from(LEAKY)),
        "tanh" => Phi::Tanh,
        "sigmoid" => Phi::Sigmoid,
        other => panic!("activation {other}"),
    }
}

fn loss(case: &Value, nodes: usize) -> Loss {
    let binary = case["loss"] == "binary_cross_entropy";
    let targets = mat(&case["targets"]);
    let rows = case["train"].as_array().map_or((0..nodes).collect(), |rows| {
        rows.iter().map(|row| row.as_u64().unwrap() as usize).collect()
    });
    Loss { targets: if binary { targets } else { targets.t() }, binary, rows }
}

/// The model of a `single-*` or `hetero-*` case.
fn one_layer(case: &Value) -> Model {
    let nodes = case["nodes"].as_u64().unwrap() as usize;
    let parameters = &case["parameters"];
    let optional = |name: &str| parameters.get(name).map(mat);
    let several = case["kind"] == "heterogeneous";
    let (a, w, through) = if several {
        let all = case["adjacency"].as_array().unwrap();
        let named =
            |name: &str| (0..all.len()).map(|r| mat(&parameters[format!("{name}{r}")])).collect();
        (all.iter().map(|a| adjacency(nodes, a)).collect(), named("W"), named("Omega"))
    } else {
        let direct = case["input_map"] == "OmegaU";
        let through = if direct { Vec::new() } else { vec![mat(&parameters["Omega"])] };
        (vec![adjacency(nodes, &case["adjacency"])], vec![mat(&parameters["W"])], through)
    };
    // Of several relations the third has an Omega2 of its own.
    let direct = match case["input_map"].as_str() {
        Some("OmegaU") => optional("Omega"),
        Some("Omega1UA+Omega2U") => optional("Omega2"),
        _ => None,
    };
    let activation = activation(&case["activation"]);
    let layer = Layer { a, w, through, direct, bias: optional("bias"), activation, skip: None };
    let theta = Some(mat(&parameters["Theta"]));
    Model { u: mat(&parameters["U"]), layers: vec![layer], theta, loss: loss(case, nodes) }
}

/// The model of a `stack-*` case.
fn stack(case: &Value) -> Model {
    let nodes = case["nodes"].as_u64().unwrap() as usize;
    let parameters = &case["parameters"];
    let a = adjacency(nodes, &case["adjacency"]);
    let layer = |l: usize| {
        let named = |name: &str| mat(&parameters[format!("{name}{l}")]);
        Layer {
            a: vec![a.clone()],
            w: vec![named("W")],
            through: vec![named("Omega")],
            direct: None,
            bias: None,
            activation: activation(&case["activation"]),
            skip: Some((named("V"), named("v"))),
        }
    };
    let layers = (0..case["dims"].as_array().unwrap().len() - 1).map(layer).collect();
    Model { u: mat(&parameters["U"]), layers, theta: None, loss: loss(case, nodes) }
}

/// The gradient that a golden file calls `name`.
fn gradient_of<'a>(model: &Model, found: &'a Outcome, name: &str) -> &'a Mat {
    let split = name.find(|c: char| c.is_ascii_digit()).unwrap_or(name.len());
    let index: Option<usize> = name[split..].parse().ok();
    let stacked = model.layers.len() > 1;
    let layer = &found.gradients[if stacked { index.unwrap_or(0) } else { 0 }];
    let relation = if stacked { 0 } else { index.unwrap_or(0) };
    match &name[..split] {
        "Omega" if name == "Omega2" && model.layers[0].a.len() == 1 && !stacked => {
            layer.direct.as_ref().unwrap()
        }
        "Omega" if layer.through.is_empty() => layer.direct.as_ref().unwrap(),
        "Omega" => &layer.through[relation],
        "W" => &layer.w[relation],
        "V" => &layer.skip.as_ref().unwrap().0,
        "v" => &layer.skip.as_ref().unwrap().1,
        "bias" => layer.bias.as_ref().unwrap(),
        "Theta" => found.theta.as_ref().unwrap(),
        "U" => &layer.u,
        other => panic!("gradient of {other}"),
    }
}

#[track_caller]
fn assert_close(what: &str, found: &Mat, expected: &Mat, tolerance: f64) {
    let (error, allowed) = (found.distance(expected), tolerance * expected.largest().max(1e-3));
    assert!(error <= allowed, "{what} is off by {error}, allowed {allowed}");
}

fn compare(name: &str, case: &Value, model: &Model, found: &Outcome, tolerance: f64) {
    let close = |what: &str, found: &Mat, expected: &Mat| {
        assert_close(&format!("{name}: {what}"), found, expected, tolerance);
    };
    match case.get("equilibria") {
        Some(all) => {
            for (l, expected) in all.as_array().unwrap().iter().enumerate() {
                close(&format!("equilibrium {l}"), &found.equilibria[l], &mat(expected));
            }
        }
        None => close("equilibrium", &found.equilibria[0], &mat(&case["equilibrium"])),
    }
    close("logits", &found.logits, &mat(&case["logits"]));
    let expected = number(&case["loss_value"]);
    assert!(
        (found.loss - expected).abs() <= tolerance * expected,
        "{name}: loss {} {expected}",
        found.loss
    );
    for (parameter, expected) in case["gradients"].as_object().unwrap() {
        let what = format!("gradient of {parameter}");
        close(&what, gradient_of(model, found, parameter), &mat(expected));
    }
}

#[test]
fn every_case_in_f64_and_in_f32() {
    let cases = [
        "single-identity-linear",
        "single-leaky-multilabel",
        "single-relu-directed",
        "single-relu-undirected",
        "single-sigmoid-weighted-raw",
        "single-tanh-two-inputs-bias",
        "hetero-two-relations",
        "hetero-three-relations",
        "stack-two-layers",
        "stack-three-layers",
    ];
    for name in cases {
        let Some(case) = golden(&format!("{name}.json")) else { return };
        let model = if case["kind"] == "stacked" { stack(&case) } else { one_layer(&case) };
        compare(name, &case, &model, &model.run(&Dense), 1e-9);
        compare(name, &case, &model, &model.run(&Engine), 1e-5);
    }
}

#[test]
fn stacks_and_relations_through_the_model_itself() {
    let names = [
        "hetero-two-relations",
        "hetero-three-relations",
        "stack-two-layers",
        "stack-three-layers",
    ];
    for name in names {
        let Some(case) = golden(&format!("{name}.json")) else { return };
        let model = if case["kind"] == "stacked" { stack(&case) } else { one_layer(&case) };
        // What the f64 chain computes is the golden case: see above.
        for is_sparse in [false, true] {
            crate::families::compare(&model, is_sparse, name);
        }
    }
}

/// A `single-*` case as a model of the library takes it; learned features start where the given
/// ones lead.
fn whole(case: &Value, given: Given) -> Case {
    let nodes = case["nodes"].as_u64().unwrap() as usize;
    let parameters = &case["parameters"];
    let activation = match case["activation"].as_str().unwrap() {
        "identity" => Activation::Identity,
        "relu" => Activation::Relu,
        "leaky_relu" => Activation::LeakyRelu(LEAKY),
        "tanh" => Activation::Tanh,
        "sigmoid" => Activation::Sigmoid,
        other => panic!("activation {other}"),
    };
    let input = match case["input_map"].as_str() {
        Some("OmegaU") => InputMap::Own,
        Some("Omega1UA+Omega2U") => InputMap::Both,
        _ => InputMap::Gathered,
    };
    let mut values: BTreeMap<String, Mat> = parameters
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| *name != "U")
        .map(|(name, value)| (full_name(name), mat(value)))
        .collect();
    let u = mat(&parameters["U"]);
    if given == Given::Learned {
        let omega = values.remove("layer0.Omega").unwrap();
        values.insert("layer0.E".into(), u.times(&omega.t()));
    }
    let state = values["layer0.W"].rows;
    let config = ModelConfig {
        bias: parameters.get("bias").is_some(),
        slope: f64::from(LEAKY),
        ..plain(state, activation, input)
    };
    Case {
        a: adjacency(nodes, &case["adjacency"]),
        u,
        given,
        config,
        values,
        loss: loss(case, nodes),
    }
}

/// What a file of a model calls a golden parameter.
fn full_name(name: &str) -> String {
    if name == "Theta" { "head.Theta".into() } else { format!("layer0.{name}") }
}

#[test]
fn every_single_case_through_the_model_itself() {
    let names = ["identity-linear", "leaky-multilabel", "relu-directed", "relu-undirected"];
    for name in names.into_iter().chain(["sigmoid-weighted-raw", "tanh-two-inputs-bias"]) {
        let Some(golden) = golden(&format!("single-{name}.json")) else { return };
        for given in [Given::Dense, Given::Sparse, Given::Learned] {
            let maps = golden["input_map"].as_str();
            if given == Given::Learned && maps == Some("Omega1UA+Omega2U") {
                continue;
            }
            let case = whole(&golden, given);
            let found = case.run(Backward::Exact);
            let close = |what: &str, found: &Mat, expected: &Mat| {
                assert_close(&format!("{name}, {given:?}: {what}"), found, expected, 1e-5);
            };
            close("equilibrium", &found.state, &mat(&golden["equilibrium"]));
            let logits = mat(&golden["logits"]);
            let rows = &case.loss.rows;
            close(
                "logits",
                &found.logits,
                &Mat::new(rows.len(), logits.cols, |i, k| logits.at(rows[i], k)),
            );
            let expected = number(&golden["loss_value"]);
            assert!(
                (found.loss - expected).abs() <= 1e-5 * expected,
                "{name}: {} {expected}",
                found.loss
            );
            let mut compared = 0;
            for (parameter, expected) in golden["gradients"].as_object().unwrap() {
                let expected = mat(expected);
                let gradient = match (parameter.as_str(), given) {
                    // dL/dU = (dL/dE) Omega
                    ("U", Given::Learned) => {
                        found.gradients["layer0.E"].times(&mat(&golden["parameters"]["Omega"]))
                    }
                    ("U", _) | ("Omega", Given::Learned) => continue,
                    _ => found.gradients[&full_name(parameter)].clone(),
                };
                close(&format!("gradient of {parameter}"), &gradient, &expected);
                compared += 1;
            }
            assert_eq!(compared, found.gradients.len(), "{name}: every parameter");
        }
    }
}

#[test]
fn spectral_bounds_are_above_and_close() {
    let Some(golden) = golden("spectrum.json") else { return };
    for case in golden["cases"].as_array().unwrap() {
        let nodes = case["nodes"].as_u64().unwrap() as usize;
        let a = adjacency(nodes, &case["edges"]);
        let (incoming, outgoing) = (Rows::of(&a.t()), Rows::of(&a));
        let expected = number(&case["pf_eigenvalue"]);
        for outgoing in [None, Some(&outgoing.view())] {
            let params = SpectralParams { tolerance: 1e-6, ..SpectralParams::default() };
            let found = SpectralBound::of(&incoming.view(), outgoing, &params);
            // The golden eigenvalue is rounded itself, and the stored weights are f32.
            let slack = expected * 1e-6;
            assert!(found.rho >= expected - slack, "{}: {found:?}", case["graph"]);
            assert!(found.rho <= expected + slack * 3.0, "{}: {found:?} {expected}", case["graph"]);
            assert!(found.lower <= expected + slack, "{}: {found:?}", case["graph"]);
            assert_eq!(found.structure == Structure::Acyclic, expected == 0.0, "{}", case["graph"]);
        }
    }
}
