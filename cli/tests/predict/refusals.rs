//! What `ignn predict` and `ignn eval` refuse, and what they only warn about.

use ignn::config::FeatureSource;
use ignn::dense::Matrix;
use ignn::graph::Graph;
use ignn::kernels::Activation;
use ignn::models::Model;
use ignn_format::labels::LabelKind;

use super::{SINGLE, cells, ingest, matrix, model, value, words};
use crate::sandbox::Sandbox;

#[test]
fn an_uncertified_model_gives_a_note_or_is_refused() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, "d", SINGLE, false);
    let mut steep = model(LabelKind::Single);
    steep.config.model.activation = vec![Activation::Tanh];
    steep.values[0].1 = matrix(&[[1.5, 0.0], [0.25, 1.25]]);
    steep.dataset = "another".into();
    steep.save(sandbox.path("m.safetensors")).unwrap();
    let run =
        sandbox.ignn(&words("predict d --model m.safetensors --out p.csv --certified")).exits(1);
    let refused = "nothing was written: the solution is not certified to be unique\n";
    assert!(run.stdout.ends_with(refused), "{}", run.stdout);
    assert!(!sandbox.path("p.csv").exists());
    let run = sandbox.ignn(&words("predict d --model m.safetensors --out p.csv"));
    let run = run
        .exits(0)
        .says("trained on   another dataset")
        .says("error        not certified: no norm was found in which every sweep contracts");
    assert!(run.stderr.contains("note: the model was trained on another dataset\n"));
    let quiet = words("predict d --model m.safetensors --out q.csv --json -q");
    let eval = words("eval d --model m.safetensors --json -q");
    for line in [quiet, eval] {
        let notes = sandbox.ignn(&line).exits(0).json()["notes"].clone();
        let notes: Vec<String> = serde_json::from_value(notes).unwrap();
        let shown: Vec<_> = notes.iter().map(|note| format!("note: {note}\n")).collect();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(shown.iter().all(|note| run.stderr.contains(note)), "{notes:?}");
    }
    let note = "note: not certified on this graph (spectral radius of |W| times the spectral bound of the \
         graph is 1.5";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    assert!(sandbox.path("p.csv").exists());
}

#[test]
fn a_bound_above_kappa_and_scores_on_training_nodes_are_said() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, "d", SINGLE, false);
    let mut loose = model(LabelKind::Single);
    loose.config.model.kappa = vec![0.5];
    loose.config.train.split = "none".into();
    loose.dataset = super::checksum(&sandbox.path("d"));
    loose.save(sandbox.path("m.safetensors")).unwrap();
    let run = sandbox.ignn(&words("eval d --model m.safetensors --json")).exits(0).json();
    let notes: Vec<String> = serde_json::from_value(run["notes"].clone()).unwrap();
    let [note] = &notes[..] else { panic!("{notes:?}") };
    assert!(note.starts_with("the contraction bound on this graph is 0.6768"), "{note}");
    assert!(note.contains(", above kappa = 0.5: kappa holds on the graphs that"), "{note}");
    // Without a split, the nodes that it was trained on are scored with the others.
    let line = "ingest edges edges.txt --features x.csv --labels labels.csv --out bare -q";
    sandbox.ignn(&words(line)).exits(0);
    (loose.config.model.kappa, loose.dataset) =
        (vec![0.95], super::checksum(&sandbox.path("bare")));
    loose.save(sandbox.path("m.safetensors")).unwrap();
    let note = "note: scores are over all nodes, also those that the model was trained on: they say \
                little about other nodes\n";
    for line in
        ["eval bare --model m.safetensors", "predict bare --model m.safetensors --out p.csv"]
    {
        let run = sandbox.ignn(&words(line)).exits(0);
        assert_eq!(run.stderr.matches("note: ").count(), 1, "{}", run.stderr);
        assert!(run.stderr.contains(note), "{}", run.stderr);
    }
}

#[test]
fn a_solve_that_does_not_converge_exits_with_1() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, "d", SINGLE, false);
    model(LabelKind::Single).save(sandbox.path("m.safetensors")).unwrap();
    let run =
        sandbox.ignn(&words("predict d --model m.safetensors --out p.csv --max-sweeps 2")).exits(1);
    let run = run
        .says("solve        did not converge: reached the limit of sweeps, 2 sweeps")
        .says("p.csv: 6 rows");
    assert!(run.stderr.contains("note: the solve did not converge ("), "{}", run.stderr);
    assert!(run.stderr.contains("results are from the best state found: raise --max-sweeps\n"));
    assert_eq!(cells(&sandbox.read("p.csv")).len(), 6);
    sandbox.ignn(&words("eval d --model m.safetensors --max-sweeps 2 -q")).exits(1);
}

#[test]
fn scores_that_overflow_are_refused() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, "d", SINGLE, false);
    let mut large = model(LabelKind::Single);
    let head = large.values.iter_mut().find(|(slot, _)| slot.name == "head.Theta").unwrap();
    head.1 = Matrix::from_fn(head.1.rows(), head.1.cols(), |_, _| 3e38);
    large.save(sandbox.path("m.safetensors")).unwrap();
    for command in
        ["predict d --model m.safetensors --out p.csv -q", "eval d --model m.safetensors -q"]
    {
        let run = sandbox.ignn(&words(command)).exits(2);
        assert!(run.stderr.contains("the model's scores overflowed (found "), "{}", run.stderr);
    }
    assert!(!sandbox.path("p.csv").exists());
}

#[test]
fn learned_features_work_only_on_their_own_nodes() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, "d", SINGLE, false);
    let mut learned = model(LabelKind::Single);
    learned.config.model.features = FeatureSource::Learned;
    learned.values[1] =
        value("layer0.E", Matrix::from_fn(6, 2, |row, col| (row + col) as f32 / 4.0));
    learned.dataset = "another".into();
    learned.save(sandbox.path("m.safetensors")).unwrap();
    let run = sandbox.ignn(&words("predict d --model m.safetensors --out p.csv")).exits(0);
    let note = "the learned features of the model belong to node numbers, and its file does not";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    // The file says which nodes: another graph on the same nodes is fine, other nodes are not.
    learned.nodes = Some(Graph::open(sandbox.path("d")).unwrap().ids().unwrap().checksum());
    learned.save(sandbox.path("m.safetensors")).unwrap();
    let run = sandbox.ignn(&words("predict d --model m.safetensors --out same.csv")).exits(0);
    assert!(!run.stderr.contains(note), "{}", run.stderr);
    learned.values[1] = value("layer0.E", Matrix::zeros(7, 2));
    learned.save(sandbox.path("m.safetensors")).unwrap();
    sandbox.ignn(&words("predict d --model m.safetensors --out q.csv -q")).fails_with(
        "m.safetensors: the model has learned a row of features for each node of its own graph \
         (found 6 nodes in d, expected 7): train on this dataset, or train with \
         model.features=given for a model that goes from graph to graph",
    );
}

#[test]
fn learned_features_do_not_fit_as_many_other_nodes() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, "d", SINGLE, false);
    ingest(&sandbox, "other", SINGLE, true);
    let set = "--set model.features=learned --epochs 1 -q";
    sandbox.ignn(&words(&format!("train d --out run {set}"))).exits(0);
    for command in [
        "predict other --model run --out p.csv -q".to_string(),
        "eval other --model run -q".to_string(),
        format!("train other --init run --out second {set}"),
    ] {
        sandbox.ignn(&words(&command)).fails_with(
            "run/model.safetensors: the model has learned a row of features for each node of its \
             own graph (found other node ids, or another order, in other, expected the nodes it \
             was trained on: train on this dataset, or train with model.features=given for a model \
             that goes from graph to graph)",
        );
    }
    assert!(!sandbox.path("p.csv").exists() && !sandbox.path("second").exists());
}

#[test]
fn mismatches_give_one_error() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, "d", SINGLE, false);
    sandbox.file("mine.csv", "keep").file("empty/x", "");
    let before = sandbox.names().len();
    let with = |change: fn(&mut Model)| {
        let mut model = model(LabelKind::Single);
        change(&mut model);
        model.save(sandbox.path("m.safetensors")).unwrap();
    };
    let predict = words("predict d --model m.safetensors --out p.csv -q");
    with(|model| model.values[1] = value("layer0.Omega", Matrix::zeros(2, 5)));
    sandbox.ignn(&predict).fails_with(
        "m.safetensors: the model reads other features than the dataset has (found 3 columns in \
         d, expected 5): make the dataset with the features that the model was trained with, \
         or train a model on it",
    );
    with(|model| model.values[2] = value("head.Theta", Matrix::from_fn(2, 2, |_, _| f32::NAN)));
    sandbox.ignn(&predict).fails_with(
        "m.safetensors: tensor head.Theta: row 0 (found NaN, expected finite numbers: training \
         went wrong, or the file is damaged)",
    );
    with(|model| drop(model.values.remove(1)));
    sandbox.ignn(&predict).fails_with(
        "m.safetensors: parameters (found layer0.W, head.Theta, head.bias, expected \
         layer0.Omega or layer0.E)",
    );
    with(|_| ());
    sandbox.ignn(&words("ingest edges edges.txt --out bare -q")).exits(0);
    let bare = words("predict bare --model m.safetensors --out p.csv -q");
    sandbox
        .ignn(&bare)
        .fails_with("bare: the dataset has no features: ingest with --features FILE");
    let labels = "bare: the dataset has no labels: ingest with --label, --regress, --labels or --communities";
    sandbox.ignn(&words("eval bare --model m.safetensors -q")).fails_with(labels);
    let part = words("predict bare --model m.safetensors --out p.csv --part test -q");
    sandbox
        .ignn(&part)
        .fails_with("bare: the dataset has no splits: ingest with --splits or --split");
    sandbox.file(
        "two.toml",
        "target = \"node\"\n[relations.one]\nfile = \"edges.txt\"\n[relations.two]\nfile = \"edges.txt\"\n",
    );
    sandbox.ignn(&words("ingest relations two.toml --out two -q")).exits(0);
    sandbox
        .ignn(&words("predict two --model m.safetensors --out p.csv -q"))
        .fails_with("two: the dataset has no features: ingest with --features FILE");
    let run = "a run with a model.safetensors, as `ignn train` writes it";
    for (model, found) in [("d", "a dataset"), ("empty", "another directory")] {
        let arguments = ["predict", "d", "--model", model, "--out", "p.csv"];
        let message =
            format!("{model}: not the directory of a run (found {found}, expected {run})");
        sandbox.ignn(&arguments).fails_with(&message);
    }
    sandbox.file("runs/seed-10/model.safetensors", "").file("runs/seed-2/model.safetensors", "");
    sandbox.ignn(&words("predict d --model runs --out p.csv")).fails_with(&format!(
        "runs: not the directory of a run (found a directory of several runs, expected {run}: choose \
         one, such as runs/seed-2)"
    ));
    std::fs::remove_dir_all(sandbox.path("runs")).unwrap();
    let exists = "mine.csv: already exists: choose another name, or pass --force to replace it";
    sandbox.ignn(&words("predict d --model m.safetensors --out mine.csv")).fails_with(exists);
    let twice = "p.csv: named twice: each table needs its own file";
    sandbox
        .ignn(&words("predict d --model m.safetensors --out p.csv --embeddings p.csv"))
        .fails_with(twice);
    let run = sandbox.ignn(&words("predict d --model m.safetensors")).exits(2);
    assert!(run.stderr.contains("--out <FILE>"), "{}", run.stderr);
    // Labels of another kind: `predict` prints no scores, and `eval` fails.
    with(|model| model.labels = LabelKind::Multi);
    let kind = "d: labels of another kind than the model's (found one class per node, expected sets of \
         classes)";
    sandbox.ignn(&words("eval d --model m.safetensors -q")).fails_with(kind);
    assert_eq!(sandbox.read("mine.csv"), "keep");
    assert_eq!(
        sandbox.names().len(),
        before + 4,
        "a model and two datasets, no output: {:?}",
        sandbox.names()
    );
    let run = sandbox.ignn(&words("predict d --model m.safetensors --out p.csv")).exits(0);
    assert!(run.stderr.contains(&format!("note: no scores: {kind}\n")), "{}", run.stderr);
    assert!(!run.stdout.contains("split"), "{}", run.stdout);
}

#[test]
fn a_model_that_no_dataset_fits_is_named() {
    let sandbox = Sandbox::new();
    ingest(&sandbox, "d", SINGLE, false);
    let mut wrong = model(LabelKind::Single);
    wrong.config.model.activation = vec![Activation::Tanh; 3];
    wrong.save(sandbox.path("m.safetensors")).unwrap();
    sandbox.ignn(&words("eval d --model m.safetensors -q")).fails_with(
        "m.safetensors: model.activation: one for all layers or one per layer (found 3 for 1 layers)",
    );
}
