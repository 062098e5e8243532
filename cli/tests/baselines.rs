//! Baselines from the command line: train, evaluate, predict, resume; the same bits on any number
//! of threads.

use std::fs;
use std::sync::Arc;

use ignn::config::{Config, ModelKind};
use ignn::graph::Graph;
use ignn::models::Kind;
use ignn::models::kinds::{KINDS, Output};
use ignn::train::{Task, Trainer};
use serde_json::Value;

use crate::sandbox::Sandbox;

/// Every kind without an equilibrium, and a variant.
fn kinds() -> Vec<&'static str> {
    let baselines = KINDS.iter().filter(|kind| kind.kind != ModelKind::Ignn).map(Kind::name);
    baselines.chain(["gcn --set model.drop_edge=0.3"]).collect()
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Three communities with features, labels and a split: `s`.
fn communities(nodes: usize) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ignn(&words(&format!("generate sbm --nodes {nodes} --blocks 3 --out s -q"))).exits(0);
    sandbox
}

#[test]
fn every_kind_is_trained_evaluated_and_predicts() {
    let sandbox = communities(300);
    for (at, kind) in kinds().into_iter().enumerate() {
        let run = format!("run{at}");
        // A small learning rate, so that the steps converge on their own.
        let rate = if kind == "sse" { 0.002 } else { 0.01 };
        let line = format!(
            "train s --set optim.learning_rate={rate} --epochs 20 --set model.dropout=0.2 \
             --set model.state=16 --set model.kind={kind} --out {run} -q"
        );
        let trained = sandbox.ignn(&words(&line)).exits(0);
        let solves = match kind {
            "sse" => "a set number of steps each; the last one would move the state by",
            "label-propagation" => "all converged",
            _ => "none: this model has no equilibrium",
        };
        trained.says(solves);
        let text = sandbox.read(&format!("{run}/metrics.jsonl"));
        let records: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(records.len(), if kind == "label-propagation" { 1 } else { 21 }, "{kind}");
        for record in &records {
            match kind {
                "label-propagation" => assert_eq!(record["forward"]["converged"], true),
                "sse" => {
                    assert!(record["forward"]["sweeps"].as_u64() >= Some(2), "{record}");
                    assert!(
                        record["forward"]["certified_error"].is_null()
                            && record["contraction"].is_null()
                    );
                    assert!(record["adjoint"].is_null() && record["failures"] == 0, "{record}");
                }
                _ => {
                    assert!(
                        record["forward"].is_null() && record["adjoint"].is_null(),
                        "{kind}: {record}"
                    );
                    assert!(record["contraction"].is_null() && record["weight_radius"].is_null());
                }
            }
        }
        if kind != "label-propagation" {
            let loss = |at: usize| records[at]["train"]["loss"].as_f64().unwrap();
            // SSE may lose again what it has learned.
            let least = (1..21).map(loss).fold(f64::INFINITY, f64::min);
            let end = if kind == "sse" { least } else { loss(20) };
            assert!(end < 0.99 * loss(0), "{kind} learns: {} {end}", loss(0));
        }
        // The model file reproduces the scores of its epoch.
        let facts: Value = serde_json::from_str(&sandbox.read(&format!("{run}/run.json"))).unwrap();
        let accuracy =
            facts["figures"]["chosen_on_validation"]["test"]["accuracy"].as_f64().unwrap();
        let eval = sandbox.ignn(&words(&format!("eval s --model {run} --json -q"))).exits(0).json();
        let parts = eval["parts"].as_array().or(eval["evaluation"]["parts"].as_array()).unwrap();
        let test =
            parts.iter().find(|part| part["part"] == "test").unwrap()["accuracy"].as_f64().unwrap();
        // SSE is trained before it reaches the steady state that a prediction solves for.
        let allowed = if kind == "sse" { 0.1 } else { 1e-9 };
        assert!((test - accuracy).abs() <= allowed, "{kind}: {test} {accuracy}");
        assert!(
            accuracy > 0.5 || ["mlp", "structural", "sse"].contains(&kind),
            "{kind}: {accuracy}"
        );
        let line = format!("predict s --model {run} --out p{at}.csv -q");
        sandbox.ignn(&words(&line)).exits(0).says("300 rows");
    }
    let refused =
        sandbox.ignn(&words("predict s --model run0 --certified --out q.csv -q")).exits(1);
    refused.says("none: this model is computed, not solved");
}

#[test]
fn the_same_bits_on_any_number_of_threads() {
    let sandbox = communities(3000);
    for (at, kind) in kinds().into_iter().enumerate() {
        let model = |threads: usize| {
            let run = format!("run{at}-{threads}");
            let line = format!(
                "train s --epochs 2 --threads {threads} --set model.state=16 --set \
                 model.kind={kind} --out {run} -q"
            );
            sandbox.ignn(&words(&line)).exits(0);
            fs::read(sandbox.path(&format!("{run}/model.safetensors"))).unwrap()
        };
        assert!(model(1) == model(3), "{kind}");
    }
}

#[test]
fn a_resumed_run_follows_the_same_curve() {
    let sandbox = communities(300);
    let dataset = || Graph::open(sandbox.path("s")).unwrap();
    for kind in ["gat", "sse", "gcnii"] {
        let set = |line: &str| line.to_string();
        let sets = [format!("model.kind={kind}"), set("model.state=16"), set("train.epochs=9")];
        let config = Config::resolve(None, None, &sets).unwrap();
        let task = Arc::new(Task::open(dataset(), &config).unwrap());
        let trainer = || Trainer::with_task(Arc::clone(&task), config.clone()).unwrap();
        let (mut whole, mut first) = (trainer(), trainer());
        (0..9).for_each(|_| drop(whole.advance().unwrap()));
        (0..4).for_each(|_| drop(first.advance().unwrap()));
        let file = sandbox.path(&format!("{kind}.safetensors"));
        first.save(&file).unwrap();
        let mut second = trainer();
        second.restore(&file).unwrap();
        (0..5).for_each(|_| drop(second.advance().unwrap()));
        for (a, b) in whole.network().parameters.iter().zip(&second.network().parameters) {
            assert_eq!(a.value.view().padded(), b.value.view().padded(), "{kind}: {}", a.name);
        }
    }
}

#[test]
fn every_kind_classifies_graphs_by_pooling() {
    let sandbox = Sandbox::new();
    // Triangles and paths of three nodes, in turn train, val and test.
    let (mut edges, mut indicator, mut labels) = (String::new(), String::new(), String::new());
    for graph in 0..30 {
        let first = 3 * graph + 1;
        let mut add = |a: usize, b: usize| {
            edges += &format!("{}, {}\n{}, {}\n", first + a, first + b, first + b, first + a);
        };
        add(0, 1);
        add(1, 2);
        if graph % 2 == 0 {
            add(0, 2);
        }
        indicator += &format!("{0}\n{0}\n{0}\n", graph + 1);
        labels += &format!("{}\n", graph % 2);
    }
    fs::create_dir(sandbox.path("T")).unwrap();
    sandbox
        .file("T/T_A.txt", edges)
        .file("T/T_graph_indicator.txt", indicator)
        .file("T/T_graph_labels.txt", labels);
    sandbox.ignn(&words("ingest tu T --degree-features --out t -q")).exits(0);
    for kind in ["gcn", "sgc", "gat", "gcnii", "gin", "structural"] {
        let sets =
            [format!("model.kind={kind}"), "model.state=16".into(), "model.dropout=0".into()];
        let config = Config::resolve(None, None, &sets).unwrap();
        let parts = ignn::train::Parts {
            train: (0..20).collect(),
            validation: (20..25).collect(),
            test: (25..30).collect(),
        };
        let task = Task::with_parts(Graph::open(sandbox.path("t")).unwrap(), &config, Some(parts))
            .unwrap();
        let mut trainer = Trainer::with_task(Arc::new(task), config).unwrap();
        let mut record = trainer.advance().unwrap();
        for _ in 0..80 {
            record = trainer.advance().unwrap();
        }
        assert_eq!(record.test.unwrap().scores["accuracy"], 1.0, "{kind}");
    }
}

#[test]
fn inconsistent_shapes_are_refused() {
    let sandbox = communities(60);
    let refused = |line: &str, message: &str| {
        sandbox.ignn(&words(&format!("train s --out run {line} -q"))).fails_with(message);
    };
    refused(
        "--set model.kind=gat --set model.state=30",
        "model.heads: heads share the width of a layer in equal parts (found 8 heads for \
         model.state=30, expected a divisor)",
    );
    refused(
        "--set model.kind=gat --set model.depth=3 --set model.heads=4,4",
        "model.heads: one for all layers or one per layer (found 2 for 3 layers)",
    );
    refused(
        "--set model.kind=gcn --set model.state=8,8,8",
        "model.state: one width for all layers (found 3, expected 1)",
    );
    refused(
        "--set model.kind=gin --set model.depth=2 --set model.state=8,8,8",
        "model.state: one width for all layers or one per layer (found 3, expected 1 or 2 for \
         model.depth=2)",
    );
    let with_readout: Vec<&str> =
        KINDS.iter().filter(|kind| kind.output == Output::Readout).map(Kind::name).collect();
    let (last, others) = with_readout.split_last().unwrap();
    refused(
        "--set model.kind=gcn --set train.learn=readout",
        &format!(
            "train.learn: readout needs a readout of its own (found model.kind=gcn, expected {} or \
             {last})",
            others.join(", ")
        ),
    );
    let all: Vec<String> = KINDS.iter().map(|kind| format!("\"{}\"", kind.name())).collect();
    refused(
        "--set model.kind=gcn2",
        &format!(
            "--set model.kind=gcn2: model.kind: wrong value (found gcn2, expected one of {}, did you \
             mean \"gcn\"?)",
            all.join(", ")
        ),
    );
}

#[test]
fn settings_of_the_equilibrium_are_ignored_by_other_kinds() {
    let sandbox = Sandbox::new();
    sandbox.ignn(&words("generate sbm --nodes 300 --blocks 3 --out s -q")).exits(0);
    for kind in ["gcn", "sgc", "mlp", "sse", "structural", "label-propagation"] {
        let sets = "--set model.state=8 --set train.loss=auto --set train.monitor=auto";
        let line = format!(
            "train s --preset amazon --epochs 2 --set model.kind={kind} {sets} --out {kind} -q"
        );
        sandbox.ignn(&words(&line)).exits(0);
    }
}

#[test]
fn example_configurations_are_valid() {
    let sandbox = communities(60);
    let recipes = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/baselines");
    let mut count = 0;
    for entry in fs::read_dir(recipes).unwrap() {
        let (config, run) = (entry.unwrap().path().display().to_string(), format!("run{count}"));
        let line = ["train", "s", "--config", &config, "--epochs", "1", "--out", &run, "-q"];
        sandbox.ignn(&line).exits(0).says("none: this model has no equilibrium");
        count += 1;
    }
    assert_eq!(count, 2, "GAT and GCNII");
}
