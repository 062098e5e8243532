//! `ignn train`: the run directory, the same bits for any number of threads, seeds, initial values.

mod hiding;
mod refusals;
mod relations;
mod resumed;

use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

use ignn::models::Model;
use serde_json::Value;

use crate::sandbox::{Sandbox, files_below};

/// Few nodes, few epochs, a narrow state: each run takes less than a second.
const SMALL: &str = "--epochs 6 --set model.state=8 -q";

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Three communities of 300 nodes in all, with features, labels and a split: `s`.
fn communities() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.ignn(&words("generate sbm --nodes 300 --blocks 3 --out s -q")).exits(0);
    sandbox
}

fn bytes(sandbox: &Sandbox, file: &str) -> Vec<u8> {
    fs::read(sandbox.path(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Names in a directory, sorted, hidden ones too.
fn names(sandbox: &Sandbox, directory: &str) -> Vec<String> {
    let entries = fs::read_dir(sandbox.path(directory)).unwrap();
    let names: BTreeSet<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.into_iter().collect()
}

/// The records of a run without measured times.
fn metrics(sandbox: &Sandbox, run: &str) -> Vec<Value> {
    fn timeless(value: &mut Value) {
        if let Value::Object(fields) = value {
            fields.retain(|name, _| !name.contains("second"));
            fields.values_mut().for_each(timeless);
        }
    }
    let text = sandbox.read(&format!("{run}/metrics.jsonl"));
    let mut records: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    records.iter_mut().for_each(timeless);
    records
}

#[test]
fn the_run_directory_holds_what_the_help_says() {
    let sandbox = communities();
    let run = sandbox.ignn(&words(&format!("train s --out run {SMALL}"))).exits(0);
    assert_eq!(run.stderr, "");
    let run = run
        .says("epochs                  6: all epochs done")
        .says("best epoch")
        .says("all converged");
    run.says("model: run/model.safetensors\nnext: ignn eval s --model run\n");
    let whole = [
        "checkpoint",
        "config.toml",
        "dataset.txt",
        "metrics.jsonl",
        "model.safetensors",
        "run.json",
    ];
    assert_eq!(
        names(&sandbox, "run"),
        [&whole[..], &["tensorboard"]].concat(),
        "nothing half-written"
    );
    assert_eq!(names(&sandbox, "run/checkpoint"), ["state.safetensors"]);
    let events = names(&sandbox, "run/tensorboard");
    assert!(events.len() == 1 && events[0].starts_with("events.out.tfevents."), "{events:?}");

    let records = metrics(&sandbox, "run");
    let epochs: Vec<_> = records.iter().map(|record| record["epoch"].as_u64().unwrap()).collect();
    assert_eq!(epochs, [0, 1, 2, 3, 4, 5, 6]);
    for part in ["train", "validation", "test"] {
        let loss = |at: usize| records[at][part]["loss"].as_f64().unwrap();
        assert!(loss(6) < loss(0), "{part} learns: {} {}", loss(0), loss(6));
    }
    for (at, record) in records.iter().enumerate() {
        let bounds = |name: &str| record[name].as_f64().unwrap();
        assert!(bounds("contraction") < 1.0 && bounds("weight_radius") <= 0.95 + 1e-6, "{record}");
        let has_step = at < 6;
        assert_eq!(record["loss"].is_f64(), has_step, "{record}");
        assert_eq!(record["adjoint"]["converged"] == true, has_step, "{record}");
        let bound = &record["forward"]["certified_error"];
        assert!(
            bound["largest"].as_f64().unwrap() > 0.0 && bound["relative"].as_f64().unwrap() > 0.0
        );
    }
    let facts: Value = serde_json::from_str(&sandbox.read("run/run.json")).unwrap();
    assert_eq!(facts["dataset"]["nodes"], 300);
    assert_eq!(
        (&facts["figures"]["epochs"], &facts["figures"]["ended"]),
        (&6.into(), &"epochs".into())
    );
    assert!(facts["machine"]["threads"].as_u64().unwrap() >= 1);
    assert!(facts["figures"]["seconds"].as_f64().unwrap() > 0.0);
    // The resolved configuration reads back, and is that of the model.
    let model = Model::load(sandbox.path("run/model.safetensors")).unwrap();
    assert_eq!(model.config.to_toml(), sandbox.read("run/config.toml"));
    assert_eq!(model.dataset, facts["dataset"]["checksum"].as_str().unwrap());

    // The model is that of the best epoch: it reproduces its scores.
    let eval = sandbox.ignn(&words("eval s --model run --json -q")).exits(0).json();
    let best = &facts["figures"]["chosen_on_validation"];
    let text = eval.to_string();
    let accuracy = best["test"]["accuracy"].as_f64().unwrap();
    assert!(text.contains(&format!("\"accuracy\":{accuracy}")), "{accuracy} in {text}");
    sandbox.ignn(&words("predict s --model run --out p.csv -q")).exits(0).says("p.csv: 300 rows");
    assert_eq!(sandbox.read("p.csv").lines().count(), 301);

    // An existing run is refused without --force.
    let before = bytes(&sandbox, "run/model.safetensors");
    let again = format!("train s --out run {SMALL} --seed 1");
    let exists = "run: already exists: choose another name, or pass --force to replace it";
    sandbox.ignn(&words(&again)).fails_with(exists);
    // Even with --force it stays if the new run cannot start.
    let wrong = format!("train s --out run --force {SMALL} --set train.split=mine");
    sandbox
        .ignn(&words(&wrong))
        .fails_with("s: no split named mine (found default): use --set train.split=NAME");
    assert_eq!(bytes(&sandbox, "run/model.safetensors"), before);
    sandbox.ignn(&words(&format!("{again} --force"))).exits(0);
    assert_ne!(bytes(&sandbox, "run/model.safetensors"), before);
    let not_a_run = "s: not a run directory (it holds classes.parquet): --force replaces only what \
                     ignn made: choose another name";
    sandbox.ignn(&words(&format!("train s --out s --force {SMALL}"))).fails_with(not_a_run);
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    let sandbox = Sandbox::new();
    // Blocks of rows for several threads, of dense features and of learned ones; rows measured by
    // themselves.
    sandbox
        .ignn(&words("generate sbm --nodes 6000 --blocks 3 --features 20 --out dense -q"))
        .exits(0);
    sandbox
        .ignn(&words("generate sbm --nodes 6000 --blocks 3 --features 0 --out none -q"))
        .exits(0);
    sandbox.ignn(&words("generate chains --length 30 --out chains -q")).exits(0);
    let runs = [
        "dense --set model.input=both --set model.bias=true --set model.state=20 --epochs 3",
        "none --set model.readout=mlp --set model.state=20 --epochs 3 --set optim.clip=global",
        "chains --preset chains --epochs 8",
    ];
    for (at, run) in runs.iter().enumerate() {
        let train = |threads: usize| {
            let out = format!("run-{at}-{threads}");
            sandbox
                .ignn(&words(&format!("train {run} --out {out} --threads {threads} -q")))
                .exits(0);
            (bytes(&sandbox, &format!("{out}/model.safetensors")), metrics(&sandbox, &out))
        };
        let one = train(1);
        for threads in [2, 4] {
            let other = train(threads);
            assert!(other.0 == one.0, "{run}: other bits with {threads} threads");
            assert_eq!(other.1, one.1, "{run}: {threads} threads");
        }
    }
}

#[test]
fn chains_are_classified_to_their_end() {
    let sandbox = Sandbox::new();
    sandbox.ignn(&words("generate chains --length 10 --out c -q")).exits(0);
    let run =
        sandbox.ignn(&words("train c --out run --preset chains --epochs 40 --json -q")).exits(0);
    assert_eq!(run.json()["chosen_on_validation"]["test"]["accuracy"], 1.0);
}

#[test]
fn a_run_starts_from_another_model() {
    let sandbox = communities();
    let train =
        |line: &str| sandbox.ignn(&words(&format!("train s {line} --set model.state=8 -q")));
    train("--out zero --epochs 0").exits(0).says("0: all epochs done");
    assert_eq!(metrics(&sandbox, "zero").len(), 1);
    sandbox.ignn(&words("predict s --model zero --out p.csv -q")).exits(0);
    // From it as from the seed, by file or by run.
    train("--out plain --epochs 4").exits(0);
    train("--out by-run --epochs 4 --init zero").exits(0);
    train("--out by-file --epochs 4 --init zero/model.safetensors").exits(0);
    for run in ["by-run", "by-file"] {
        let model = format!("{run}/model.safetensors");
        assert!(bytes(&sandbox, &model) == bytes(&sandbox, "plain/model.safetensors"), "{run}");
        assert_eq!(metrics(&sandbox, run), metrics(&sandbox, "plain"), "{run}");
    }
    // Another seed has other first values, and only the drawn numbers of training are its own.
    train("--out other --epochs 0 --init zero --seed 5").exits(0);
    let values = |run: &str| {
        let model = Model::load(sandbox.path(&format!("{run}/model.safetensors"))).unwrap();
        let value = |(slot, value): &(ignn::nn::Slot, ignn::dense::Matrix)| {
            (
                slot.name.clone(),
                (0..value.rows()).map(|i| value.row(i).to_vec()).collect::<Vec<_>>(),
            )
        };
        model.values.iter().map(value).collect::<Vec<_>>()
    };
    assert_eq!(values("other"), values("zero"));
    let misfit = "zero/model.safetensors: the model does not fit the dataset and configuration";
    let refused = |line: &str, what: &str| {
        let line = format!("train s --out no -q --init zero {line}");
        sandbox.ignn(&words(&line)).fails_with(&format!("{misfit}{what}"));
    };
    let shapes = " (found layer0.W of shape (8, 8), expected layer0.W of shape (9, 9))";
    refused("--set model.state=9", shapes);
    let missing = ": parameters (found layer0.W, layer0.Omega, head.Theta, head.bias, expected \
                   layer0.bias of shape (1, 8))";
    refused("--set model.state=8 --set model.bias=true", missing);
    let more = ": parameters (found head.bias too, expected layer0.W, layer0.Omega, head.Theta)";
    refused("--set model.state=8 --set model.head_bias=false", more);
    assert!(!sandbox.path("no").exists());
}

#[test]
fn weights_of_another_graph_are_projected_to_this_ones_bound() {
    let sandbox = communities();
    // Without normalisation the spectral bound is that of the degrees, and W must be smaller.
    sandbox
        .ignn(&words("generate sbm --nodes 300 --blocks 3 --normalise none --out raw -q"))
        .exits(0);
    let zero = "train s --out zero --epochs 0 --set model.state=8 --set model.init=identity -q";
    sandbox.ignn(&words(zero)).exits(0);
    let run = sandbox
        .ignn(&words("train raw --out run --epochs 2 --init zero --set model.state=8 -q"))
        .exits(0);
    run.says("all converged");
    let radius = metrics(&sandbox, "run")[0]["weight_radius"].as_f64().unwrap();
    assert!(radius < 0.2, "{radius}");
}

#[test]
fn each_seed_is_a_run_and_the_mean_is_printed() {
    let sandbox = communities();
    let line = format!("train s --out runs --seeds 0..2 {SMALL}");
    let run = sandbox.ignn(&words(&line)).exits(0).says("mean  deviation");
    assert_eq!(names(&sandbox, "runs"), ["seed-0", "seed-1", "seed-2"]);
    let run =
        run.says("model: runs/seed-0/model.safetensors\nmodel: runs/seed-1/model.safetensors\n");
    run.says("next: ignn eval s --model runs/seed-0\n");
    // Each is what a run with that seed gives.
    sandbox.ignn(&words(&format!("train s --out two --seed 2 {SMALL}"))).exits(0);
    let model = |run: &str| bytes(&sandbox, &format!("{run}/model.safetensors"));
    assert!(model("two") == model("runs/seed-2") && model("two") != model("runs/seed-1"));
    // They are replaced and printed together, too.
    let again = format!("train s --out runs --seeds 3,5 --force --json {SMALL}");
    let all = sandbox.ignn(&words(&again)).exits(0).json();
    assert_eq!(names(&sandbox, "runs"), ["seed-3", "seed-5"]);
    let accuracy =
        |at: usize| all["runs"][at]["chosen_on_validation"]["test"]["accuracy"].as_f64().unwrap();
    let (mean, half) = ((accuracy(0) + accuracy(1)) / 2.0, (accuracy(0) - accuracy(1)) / 2.0);
    let first = &all["summary"][0];
    assert_eq!(first["metric"], "test accuracy (chosen on validation)");
    assert!((first["mean"].as_f64().unwrap() - mean).abs() < 1e-12, "{first}");
    let deviation = (2.0 * half * half).sqrt();
    assert!(
        (first["deviation"].as_f64().unwrap() - deviation).abs() < 1e-12,
        "{first} {deviation}"
    );
    let resumed = "runs: several runs, one for each seed: resume one of them, such as runs/seed-5";
    sandbox.ignn(&words("train --resume runs -q")).fails_with(resumed);
}

#[test]
fn seeds_leave_the_same_bytes_however_many_train_at_a_time() {
    let sandbox = communities();
    let train = |out: &str, more: &str| {
        let line =
            format!("train s --out {out} --seeds 0..4 --epochs 8 --set model.state=8 {more}");
        sandbox.ignn(&words(&line)).exits(0)
    };
    train("one", "--threads 1 -q");
    let run = train("three", "--threads 3");
    // One line per finished seed, not one per epoch.
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(lines.len(), 5, "{}", run.stderr);
    assert!(
        lines.iter().all(|line| line.starts_with("seed ") && line.contains(": test accuracy ")),
        "{}",
        run.stderr
    );
    let figures = |run: &str| {
        let text = sandbox.read(&format!("{run}/run.json"));
        let mut figures = serde_json::from_str::<Value>(&text).unwrap()["figures"].take();
        let fields = figures.as_object_mut().unwrap();
        fields.retain(|name, _| name != "last" && !name.contains("seconds"));
        figures
    };
    for seed in 0..5 {
        let (one, three) = (format!("one/seed-{seed}"), format!("three/seed-{seed}"));
        assert_eq!(names(&sandbox, &one), names(&sandbox, &three));
        for file in
            ["model.safetensors", "config.toml", "dataset.txt", "checkpoint/state.safetensors"]
        {
            let of = |run: &str| bytes(&sandbox, &format!("{run}/{file}"));
            assert!(of(&one) == of(&three), "seed {seed}: {file}");
        }
        assert_eq!(metrics(&sandbox, &one), metrics(&sandbox, &three), "seed {seed}");
        assert_eq!(figures(&one), figures(&three), "seed {seed}");
    }
}

#[test]
fn multi_label_models_are_trained_and_scored() {
    let sandbox = Sandbox::new();
    sandbox.ignn(&words("generate ppi --scale 0.075 --out p -q")).exits(0);
    let line = format!("train p --out run --json {SMALL}");
    let figures = sandbox.ignn(&words(&line)).exits(0).json();
    assert_eq!(figures["monitor"], "micro_f1");
    let test = figures["chosen_on_validation"]["test"].as_object().unwrap();
    for score in ["micro_f1", "macro_f1", "top_k_micro_f1", "top_k_macro_f1"] {
        assert!(
            test[score].as_f64().is_some_and(|x| (0.0..=1.0).contains(&x)),
            "{score}: {test:?}"
        );
    }
    sandbox.ignn(&words("eval p --model run -q")).exits(0);
}

#[test]
fn every_combination_of_settings_learns() {
    let sandbox = communities();
    let lines = [
        "solver.gradient=jacobian-free",
        "solver.gradient=phantom solver.phantom_steps=4",
        "solver.warm_start=false solver.measure=row",
        "optim.method=sgd optim.learning_rate=0.1 optim.clip=tensor",
        "optim.weight_decay=0.01 optim.decoupled=true optim.schedule=cosine optim.warmup_epochs=2",
        "optim.weight_decay=0.01 optim.schedule=step optim.step_epochs=3 optim.clip=global",
        "train.class_weights=balanced train.monitor=loss train.evaluate_every=4",
        "model.activation=tanh model.input=own model.init=identity model.normalise_state=true",
        "model.activation=leaky-relu model.features=learned model.readout=mlp model.hidden=16",
    ];
    for (at, line) in lines.iter().enumerate() {
        let sets: String = line.split(' ').map(|set| format!(" --set {set}")).collect();
        let run = format!("run-{at}");
        let line = format!("train s --out {run} --epochs 12 --set model.state=8 -q{sets}");
        sandbox.ignn(&words(&line)).exits(0).says("all converged");
        let records = metrics(&sandbox, &run);
        let loss = |at: usize| records[at]["train"]["loss"].as_f64().unwrap();
        assert!(loss(12) < loss(0), "{line}: {} {}", loss(0), loss(12));
        sandbox.ignn(&words(&format!("eval s --model {run} -q"))).exits(0);
    }
    // Evaluated every fourth epoch, and in the last.
    let evaluated: Vec<_> =
        metrics(&sandbox, "run-6").iter().map(|record| record["test"].is_object()).collect();
    assert_eq!(evaluated, (0..=12).map(|epoch| epoch % 4 == 0).collect::<Vec<_>>());
}

#[test]
fn a_run_is_replaced_when_the_new_one_has_a_checkpoint() {
    let sandbox = communities();
    let line = "train s --out run --epochs 3 --set model.state=8 -q";
    sandbox.ignn(&words(line)).exits(0);
    let mut old = files_below(&sandbox.path("run"));
    // Before the work, before the first epoch, and in it.
    for (wrong, code) in [
        ("--set model.state=x", 2),
        ("--memory 1KiB", 2),
        ("--init gone.safetensors", 2),
        ("--set solver.max_sweeps=1 --set solver.on_failure=stop", 1),
    ] {
        sandbox.ignn(&words(&format!("{line} --force {wrong}"))).exits(code);
        assert!(files_below(&sandbox.path("run")) == old, "{wrong}");
        assert_eq!(sandbox.names(), ["run", "s"], "{wrong}");
    }
    // A run of several seeds as well.
    let seeds = format!("{line} --force --seeds 0,1 --set solver.max_sweeps=1");
    sandbox.ignn(&words(&format!("{seeds} --set solver.on_failure=stop"))).exits(1);
    assert!(files_below(&sandbox.path("run")) == old);
    // Killed at any moment, the old run is there, or the new one, which can be resumed.
    let mut resumed = 0;
    for number in (1..).step_by(9) {
        let mut command = sandbox.command(&words(&format!("{line} --force --seed 7")));
        command.env("IGNN_FAULT", format!("{number}:KILL")).stderr(Stdio::null());
        if command.stdout(Stdio::null()).status().unwrap().success() {
            break;
        }
        if files_below(&sandbox.path("run")) != old {
            sandbox.ignn(&words("train --resume run -q")).exits(0);
            assert_eq!(metrics(&sandbox, "run").len(), 4, "{number}");
            resumed += 1;
            fs::remove_dir_all(sandbox.path("run")).unwrap();
            sandbox.ignn(&words(line)).exits(0);
            old = files_below(&sandbox.path("run"));
        }
    }
    assert!(resumed > 0);
}

#[test]
fn early_stopping_ends_a_run_and_ends_it_again() {
    let sandbox = communities();
    let line = "train s --out run --epochs 500 --set train.stop_after=4 --set model.state=8 -q";
    let run = sandbox.ignn(&words(line)).exits(0);
    let said = run.says("no better validation for train.stop_after epochs").stdout;
    let records = metrics(&sandbox, "run");
    let facts: Value = serde_json::from_str(&sandbox.read("run/run.json")).unwrap();
    let best = facts["figures"]["chosen_on_validation"]["epoch"].as_u64().unwrap();
    assert_eq!(records.len() as u64, best + 4 + 1);
    // The same number of epochs everywhere.
    let epochs = facts["figures"]["epochs"].as_u64().unwrap();
    assert_eq!(epochs, best + 4 + 1);
    assert!(said.contains(&format!(" {epochs}: early stopping")), "{said}");
    sandbox.ignn(&words("report run --out r.html --no-classes -q")).exits(0);
    let page = sandbox.read("r.html");
    let row = page.lines().find(|line| line.contains("early stopping")).unwrap();
    assert!(row.contains(&format!(">{epochs}</td>")), "{row}");
    let model = bytes(&sandbox, "run/model.safetensors");
    sandbox.ignn(&words("train --resume run -q")).exits(0).says("no better validation");
    assert!(bytes(&sandbox, "run/model.safetensors") == model);
    assert_eq!(metrics(&sandbox, "run"), records);
}

#[test]
fn without_a_validation_part_the_last_model_is_scored() {
    let sandbox = Sandbox::new();
    sandbox.file("e.txt", "a b\nb c\nc a\n").file("y.csv", "node,label\na,x\nb,y\nc,x\n");
    sandbox.file("s.csv", "node,split\na,train\nb,train\nc,test\n");
    sandbox.ignn(&words("ingest edges e.txt --labels y.csv --splits s.csv --out d -q")).exits(0);
    let run = sandbox.ignn(&words("train d --out run --epochs 3 --set model.state=4")).exits(0);
    let said = &run.stdout;
    assert!(said.contains("epoch 3, the last one: there is no validation part"), "{said}");
    assert!(said.contains("\n  test accuracy  "), "{said}");
}

#[test]
fn an_instruction_set_that_is_none_is_refused() {
    let sandbox = Sandbox::new();
    let arguments = words("generate chains --length 3 --out c -q");
    let run = sandbox.command(&arguments).env("IGNN_SIMD", "foo").output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(2), "{said}");
    let start = "error: IGNN_SIMD=foo: not an instruction set of this processor (expected scalar";
    assert!(said.starts_with(start), "{said}");
}
