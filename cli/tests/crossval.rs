//! `ignn crossval`: folds of small graphs that are easy to classify, figures, files, resuming,
//! refusals.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;

use crate::sandbox::Sandbox;

pub fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Raw TU files of rings (class 7) and stars (class -1) of 4 to 8 nodes, one after the other.
pub fn write_rings_and_stars(sandbox: &Sandbox, name: &str, graphs: usize) {
    let (mut indicator, mut edges, mut labels) = (String::new(), String::new(), String::new());
    let mut first = 1;
    for graph in 0..graphs {
        let nodes = 4 + graph * 7 % 5;
        (0..nodes).for_each(|_| writeln!(indicator, "{}", graph + 1).unwrap());
        let mut edge = |u: usize, v: usize| {
            writeln!(edges, "{}, {}\n{}, {}", first + u, first + v, first + v, first + u).unwrap();
        };
        match graph % 2 {
            0 => (0..nodes).for_each(|node| edge(node, (node + 1) % nodes)),
            _ => (1..nodes).for_each(|node| edge(0, node)),
        }
        writeln!(labels, "{}", if graph % 2 == 0 { 7 } else { -1 }).unwrap();
        first += nodes;
    }
    sandbox.file(&format!("{name}/{name}_graph_indicator.txt"), indicator);
    sandbox.file(&format!("{name}/{name}_A.txt"), edges);
    sandbox.file(&format!("{name}/{name}_graph_labels.txt"), labels);
}

fn ingest(sandbox: &Sandbox, graphs: usize) {
    write_rings_and_stars(sandbox, "raw", graphs);
    sandbox.ignn(&words("ingest tu raw --out d -q")).exits(0);
}

/// Two layers with batch normalisation, monitored by accuracy whatever the preset has.
const SMALL: &str = "--preset graphs --set model.state=8,8 --set model.batch_norm=true --set \
                     model.hidden=8 \
     --set optim.learning_rate=0.01 --set train.batch=8 --set train.monitor=accuracy --epochs 60 \
     --folds 4";

/// Everything but times, checksums over them, and what depends on the machine.
fn without_times(mut value: Value) -> Value {
    fn clean(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                let dropped = ["seconds", "xxh3", "machine", "path"];
                fields.retain(|key, _| !dropped.contains(&key.as_str()));
                fields.values_mut().for_each(clean);
            }
            Value::Array(items) => items.iter_mut().for_each(clean),
            _ => {}
        }
    }
    clean(&mut value);
    value
}

fn fold_json(sandbox: &Sandbox, out: &str, fold: usize) -> Value {
    without_times(
        serde_json::from_str(&sandbox.read(&format!("{out}/fold-{fold}/fold.json"))).unwrap(),
    )
}

#[test]
fn folds_are_tested_and_the_directory_is_complete() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, 40);
    let run = sandbox.ignn(&words(&format!("crossval d {SMALL} --out run -q"))).exits(0);
    let run =
        run.says("validation").says("mean curve").says("best of each").says("4 of 4 folds in ");
    assert_eq!(run.stderr, "");
    let figures: Value = serde_json::from_str(&sandbox.read("run/crossval.json")).unwrap();
    let summary = &figures["summary"];
    let mean = |protocol: &str| summary[protocol]["mean"].as_f64().unwrap();
    assert!(mean("validation") >= 0.9, "rings and stars are easy to classify: {summary}");
    assert!(
        mean("mean_curve") >= mean("validation") - 0.05
            && mean("best_of_each") >= mean("mean_curve")
    );
    // Every graph is in one fold, and folds are even.
    let folds = sandbox.read("run/folds.csv");
    let rows: Vec<(&str, &str)> =
        folds.lines().skip(1).map(|line| line.split_once(',').unwrap()).collect();
    assert_eq!(rows.iter().map(|row| row.0).collect::<BTreeSet<_>>().len(), 40);
    for fold in 0..4 {
        let own = rows.iter().filter(|row| row.1 == fold.to_string());
        let rings = own.clone().filter(|row| row.0.parse::<usize>().unwrap() % 2 == 1).count();
        assert_eq!((own.count(), rings), (10, 5));
        let record = fold_json(&sandbox, "run", fold);
        assert_eq!(record["graphs"], serde_json::json!([20, 10, 10]));
        assert_eq!(record["curve"].as_array().unwrap().len(), 61);
        assert_eq!(sandbox.read(&format!("run/fold-{fold}/metrics.jsonl")).lines().count(), 61);
        // The chosen epoch is the best on validation.
        let best =
            record["curve"].as_array().unwrap().iter().map(|p| p["validation"].as_f64().unwrap());
        assert_eq!(record["chosen"]["validation"].as_f64().unwrap(), best.fold(0.0, f64::max));
    }
    assert!(sandbox.read("run/config.toml").contains("state = [8, 8]"));
    report_shows_folds(&sandbox);
    // Features that are dropped are gathered again for every batch.
    let dropped = format!("crossval d {SMALL} --set model.feature_dropout=0.3 --out dropped -q");
    sandbox.ignn(&words(&dropped)).exits(0).says("4 of 4 folds in ");
    // Nor does training replace it.
    sandbox.ignn(&words("train d --out run --force -q")).fails_with(
        "run/crossval.json: not a file of a run: --force would remove it: move it away first",
    );
}

/// A page of the four folds in `run`.
fn report_shows_folds(sandbox: &Sandbox) {
    let made = sandbox.ignn(&words("report run --out r.html")).exits(0);
    made.says("made r.html: 1 run, 3 charts, ");
    let html = sandbox.read("r.html");
    for section in ["results", "folds", "metrics", "config", "machine"] {
        assert!(html.contains(&format!("<section id=\"{section}\">")), "no section {section}");
    }
    let words_of_page =
        ["data-series=\"fold 3\"", "class=\"band s0\"", "20/10/10", "state = [8, 8]"];
    for word in words_of_page.into_iter().chain(["mean curve: ", "best of each: "]) {
        assert!(html.contains(word), "no {word}");
    }
    // The figures are those of the file.
    let figures: Value = serde_json::from_str(&sandbox.read("run/crossval.json")).unwrap();
    for protocol in ["validation", "mean_curve", "best_of_each"] {
        let mean = figures["summary"][protocol]["mean"].as_f64().unwrap();
        assert!(html.contains(&format!("{:.1} %</td>", 100.0 * mean)), "{protocol}: {mean}");
    }
    // A fold that is not finished, and one whose record was changed.
    let record = sandbox.read("run/fold-3/fold.json");
    std::fs::remove_file(sandbox.path("run/fold-3/fold.json")).unwrap();
    sandbox.ignn(&words("report run --out part.html")).exits(0);
    assert!(sandbox.read("part.html").contains("run is not finished: 3 of 4 folds."));
    sandbox.file("run/fold-3/fold.json", record.replacen("failures", "failure", 1));
    sandbox.ignn(&words("report run --out bad.html")).exits(2);
    sandbox.file("run/fold-3/fold.json", record);
    std::fs::create_dir(sandbox.path("other")).unwrap();
    sandbox.ignn(&words("report run other --out two.html")).fails_with(
        "run: a cross-validation, and other: none (expected one or the other): write a page for \
         each",
    );
    let summary = sandbox.read("run/crossval.json");
    std::fs::remove_file(sandbox.path("run/crossval.json")).unwrap();
    sandbox.ignn(&words("report run --out none.html")).fails_with(
        "run: no figures yet (expected run/crossval.json): continue it with `ignn crossval \
         --resume`",
    );
    sandbox.file("run/crossval.json", summary);
    assert!(!sandbox.path("two.html").exists() && !sandbox.path("none.html").exists());
}

#[test]
fn the_same_bits_on_any_number_of_threads_and_when_resumed() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, 24);
    let run = |out: &str, more: &str| {
        sandbox.ignn(&words(&format!("crossval d {SMALL} --seed 3 --out {out} {more} -q"))).exits(0)
    };
    run("one", "--threads 1");
    run("two", "--threads 2");
    for fold in 0..4 {
        assert_eq!(fold_json(&sandbox, "one", fold), fold_json(&sandbox, "two", fold));
        let model = |out: &str| {
            std::fs::read(sandbox.path(&format!("{out}/fold-{fold}/model.safetensors")))
        };
        assert!(model("one").unwrap() == model("two").unwrap());
    }
    let before = without_times(serde_json::from_str(&sandbox.read("one/crossval.json")).unwrap());
    for fold in [1, 3] {
        std::fs::remove_file(sandbox.path(&format!("one/fold-{fold}/fold.json"))).unwrap();
    }
    let resumed = |line: &str| {
        let mut after = sandbox.ignn(&words(line)).exits(0).json();
        let notes = after.as_object_mut().unwrap().remove("notes");
        assert_eq!(notes, Some(serde_json::json!([])));
        without_times(after)
    };
    assert_eq!(resumed("crossval --resume one --json -q"), before);
    // The dataset may have moved.
    std::fs::rename(sandbox.path("d"), sandbox.path("e")).unwrap();
    std::fs::remove_file(sandbox.path("one/fold-2/fold.json")).unwrap();
    sandbox.ignn(&words("crossval --resume one -q")).exits(2);
    assert_eq!(resumed("crossval --resume one e --json -q"), before);
    sandbox.ignn(&words("crossval --resume one -q")).exits(0);
    std::fs::rename(sandbox.path("e"), sandbox.path("d")).unwrap();
    run("one", "--force");
    let exists = "one: already exists: choose another name, or pass --force to replace it";
    sandbox.ignn(&words("crossval d --out one -q")).fails_with(exists);
    let other = "d: not the directory of a cross-validation (it holds features): --force replaces \
                 only what ignn made: choose another name";
    sandbox.ignn(&words("crossval d --out d --force -q")).fails_with(other);
    std::fs::write(sandbox.path("one/thesis.tex"), "").unwrap();
    let mine = "one/thesis.tex: not a file of a cross-validation: --force would remove it: move \
                it away first";
    sandbox.ignn(&words("crossval d --out one --force -q")).fails_with(mine);
    assert!(sandbox.path("one/thesis.tex").exists());
    let other = "raw: not the directory of a cross-validation (expected setup.json in it)";
    sandbox.ignn(&words("crossval --resume raw -q")).fails_with(other);
}

#[test]
fn support_vector_machines_use_trained_and_random_embeddings() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, 40);
    for (more, least) in [("--readout svm", 0.9), ("--readout svm-linear --epochs 0", 0.8)] {
        let small = SMALL
            .replace("--epochs 60", if more.contains("--epochs") { "" } else { "--epochs 60" });
        let value =
            sandbox.ignn(&words(&format!("crossval d {small} {more} --json -q"))).exits(0).json();
        assert!(value["summary"]["svm"]["mean"].as_f64().unwrap() >= least, "{more}: {value}");
        for fold in value["folds"].as_array().unwrap() {
            let svm = &fold["svm"];
            assert_eq!(
                (svm["gamma"].is_null(), &svm["converged"]),
                (more.contains("linear"), &true.into())
            );
            assert!(svm["vectors"].as_u64().unwrap() > 0 && svm["c"].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn what_cannot_be_folded_is_refused() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, 9);
    let crossval = |dataset: &str, folds: usize| {
        sandbox.ignn(&words(&format!(
            "crossval {dataset} --preset graphs --folds {folds} --out run -q"
        )))
    };
    crossval("d", 10).fails_with(
        "d: too few graphs (found 9, expected at least one for each of 10 folds): \
         use --folds 9 or fewer",
    );
    crossval("d", 5).fails_with(
        "d: fold 4 has one class only, \"7\" (found 4 graphs of other classes for 5 folds, \
         expected at least one for each fold): use --folds 4 or fewer",
    );
    let run = sandbox.ignn(&words("crossval d --folds 2")).exits(2);
    assert!(run.stderr.contains("2 is not in 3.."), "{}", run.stderr);
    let spread =
        "crossval d --folds 3 --preset graphs --set model.kind=label-propagation --out run -q";
    sandbox.ignn(&words(spread)).fails_with(
        "model.kind: label propagation spreads the labels of nodes within one graph (found a \
         split over graphs): use another kind, such as gcn",
    );
    assert!(!sandbox.path("run").exists(), "nothing is written before everything fits");
}
