//! Configurations and datasets that cannot be trained: one message each, exit code 2, no files
//! left behind.

use ignn::config::{Config, presets};

use super::{communities, words};
use crate::sandbox::Sandbox;

/// Three nodes with labels and a split: `one`; others lack something.
fn triangle() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("e.txt", "a b\nb c\nc a\n");
    sandbox.file("one.csv", "node,label\na,x\nb,y\nc,x\n");
    sandbox.file("sets.csv", "node,label\na,x\na,y\nb,y\nc,x\n");
    sandbox.file("split.csv", "node,split\na,train\nb,val\nc,test\n");
    sandbox.file("rest.csv", "node,split\na,val\nb,test\nc,test\n");
    let table = "target = \"node\"\nlabels = \"one.csv\"\nsplits = \
                 \"split.csv\"\n[relations.one]\nfile = \"e.txt\"\n[relations.two]\nfile = \
                 \"e.txt\"\n";
    sandbox.file("two.toml", table);
    for line in [
        "edges e.txt --labels one.csv --splits split.csv --out one",
        "edges e.txt --labels sets.csv --splits split.csv --out sets",
        "edges e.txt --labels one.csv --splits rest.csv --out untrained",
        "edges e.txt --labels one.csv --out unsplit",
        "edges e.txt --splits split.csv --out unlabelled",
        "relations two.toml --out two",
    ] {
        sandbox.ignn(&words(&format!("ingest {line} -q"))).exits(0);
    }
    sandbox
}

#[test]
fn input_that_cannot_be_trained_is_refused_with_one_message() {
    let sandbox = triangle();
    let before = sandbox.names();
    let refused = |line: &str, message: &str| {
        sandbox.ignn(&words(&format!("train {line} --out run -q"))).fails_with(message);
    };
    refused(
        "one --set model.kappa=1",
        "--set model.kappa=1: model.kappa: from 1 on the equilibrium need not exist or be unique \
         (found 1, expected a number from 0 to below 1, such as 0.95)",
    );
    refused(
        "one --set train.test_part=train",
        "one: two of train.train_part, train.validation_part and train.test_part are the part \
         \"train\" of the split \"default\": scores on items that were learned or chosen by say \
         nothing: name three different parts",
    );
    refused("one --seed 3 --seeds 0..1", "--seed and --seeds: give one of them");
    refused(
        "one --set model.state=0",
        "--set model.state=0: model.state: wrong value (found 0, expected an integer from 1 to \
         2048, or a list of 1 to 64 such integers)",
    );
    refused(
        "one --set model.stat=3",
        "--set model.stat=3: key \"model.stat\" is not known (did you mean model.state?)",
    );
    let presets: Vec<_> = presets::PRESETS.iter().map(|preset| preset.name).collect();
    let known = presets.join(", ");
    refused(
        "one --preset chain",
        &format!("preset \"chain\" is not known (expected {known}): did you mean chains?"),
    );
    refused(
        "unlabelled",
        "unlabelled: the dataset has no labels: ingest with --label, --regress, --labels or --communities",
    );
    refused("unsplit", "unsplit: the dataset has no splits: ingest with --splits or --split");
    refused(
        "untrained",
        "untrained: split default has no labelled node in its part train (found parts val, test): \
         use --set train.train_part=NAME, or make the dataset with a split",
    );
    refused(
        "one --set train.split=mine",
        "one: no split named mine (found default): use --set train.split=NAME",
    );
    refused(
        "one --set train.validation_part=holdout",
        "one: split default has no part \"holdout\" (it has: train, val, test): correct \
         train.validation_part",
    );
    refused(
        "one --set train.test_part=holdout",
        "one: split default has no part \"holdout\" (it has: train, val, test): correct \
         train.test_part",
    );
    refused(
        "one --set model.features=given",
        "model.features: the dataset has no features (found none, expected some for \"given\"): \
         use model.features=learned, or make the dataset with --features",
    );
    refused(
        "one --set model.input=both",
        "model.input: learned features have one map (found \"both\", expected \"gathered\" or \
         \"own\")",
    );
    refused(
        "one --set model.init_features=labels",
        "model.init_features: labels as features need a W that keeps columns apart (found \
         uniform): use model.init=cascade or model.init=identity",
    );
    refused(
        "one --set model.init_features=labels --set model.init=cascade --set model.readout=mlp",
        "model.init_features: labels as features need a linear readout (found mlp): use \
         model.readout=linear",
    );
    refused(
        "one --set model.init_features=labels --set model.init=cascade --set model.state=8,8",
        "model.init_features: labels as features need one layer (found 2): use one width in \
         model.state",
    );
    refused(
        "one --set model.init_features=labels --set model.init=cascade --set model.state=1",
        "model.init_features: labels as features need one column per class, 2 (found 1): use a \
         wider model.state",
    );
    refused(
        "one --set train.hide=1",
        "--set train.hide=1: train.hide: wrong value (found 1, expected a number from 0 to below \
         1)",
    );
    refused(
        "one --set train.loss=binary-cross-entropy",
        "train.loss: binary-cross-entropy does not fit the dataset's labels (found one class per \
         node, expected sets of classes): use train.loss=cross-entropy or auto",
    );
    refused(
        "sets --set train.loss=cross-entropy",
        "train.loss: cross-entropy does not fit the dataset's labels (found sets of classes, \
         expected one class per node): use train.loss=binary-cross-entropy or auto",
    );
    refused(
        "one --set train.monitor=top-k-micro-f1",
        "train.monitor: top-k-micro-f1 is no score of the dataset's labels (found one class per \
         node): use accuracy, balanced-accuracy, micro-f1, macro-f1, roc-auc, average-precision, \
         log-loss, loss or auto",
    );
    refused(
        "sets --set train.monitor=accuracy",
        "train.monitor: accuracy is no score of the dataset's labels (found sets of classes): use \
         micro-f1, macro-f1, top-k-micro-f1, top-k-macro-f1, roc-auc, average-precision, log-loss, \
         loss or auto",
    );
    refused(
        "two --set model.kappa=0.3,0.3,0.3",
        "model.kappa: one for all relations or one per relation (found 3, expected 1 or 2 for one, \
         two)",
    );
    refused("nowhere", "nowhere: not an ignn dataset: no such directory");
    refused("one --init nowhere", "nowhere: cannot open: No such file or directory (os error 2)");
    let run = sandbox.ignn(&words("train one --out run --seeds 3..1")).exits(2);
    assert!(run.stderr.contains("no seeds in \"3..1\""), "{}", run.stderr);
    let run = sandbox.ignn(&words("train one --out run --seeds 1,1")).exits(2);
    assert!(run.stderr.contains("seed 1 is given twice"), "{}", run.stderr);
    assert_eq!(sandbox.names(), before, "nothing is left behind");
}

#[test]
fn too_little_memory_says_what_would_fit() {
    let sandbox = communities();
    let train = |line: &str| sandbox.ignn(&words(&format!("train s --epochs 1 -q {line}")));
    let run = train("--out run --set model.state=2048 --memory 16MiB").exits(2);
    let start = "error: training needs about 0.10 GiB, or ";
    assert!(run.stderr.starts_with(start), "{}", run.stderr);
    let middle = " GiB and a disk (found 0.02 GiB allowed): model.state=";
    let (_, rest) = run.stderr.split_once(middle).unwrap();
    let (width, rest) = rest.split_once(' ').unwrap();
    assert_eq!(rest, "would fit, or raise --memory\n");
    assert!(!sandbox.path("run").exists());
    // It does fit, and nothing wider does.
    let width: usize = width.parse().unwrap();
    train(&format!("--out wider --set model.state={} --memory 16MiB", width + 1)).exits(2);
    train(&format!("--out run --set model.state={width} --memory 16MiB")).exits(0);
}

#[test]
fn a_solve_without_convergence_is_shown_or_ends_the_run() {
    let sandbox = communities();
    let line = "train s --epochs 2 --set model.state=8 --set solver.max_sweeps=2";
    let run = sandbox.ignn(&words(&format!("{line} --out run"))).exits(1);
    let note = "note: epoch 0: the forward solve did not converge: residual ";
    assert!(run.stderr.contains(note), "{}", run.stderr);
    run.says("did not converge\n");
    let run = sandbox
        .ignn(&words(&format!("{line} --out stopped -q --set solver.on_failure=stop")))
        .exits(1);
    let start = "error: epoch 0: the forward solve did not converge (residual ";
    let end = "after sweep 2): raise solver.max_sweeps, lower model.kappa, or use \
               solver.on_failure=warn\n";
    assert!(run.stderr.starts_with(start) && run.stderr.ends_with(end), "{}", run.stderr);
}

#[test]
fn settings_are_listed_with_their_values_and_texts() {
    let sandbox = Sandbox::new();
    let list = |options: &str| {
        let run = sandbox.ignn(&words(&format!("train --list {options}"))).exits(0);
        sandbox.file("all.toml", &run.stdout);
        (run.stdout, Config::resolve(None, Some(&sandbox.path("all.toml")), &[]).unwrap())
    };
    let (text, config) = list("");
    assert_eq!(config, Config::default());
    let entry = "\n# Learning rate before the schedule.\n\
                 # A number above 0 and at most 1000.\nlearning_rate = 0.01\n";
    assert!(text.contains(entry), "{text}");
    let (_, config) = list("--preset cora --set model.state=16");
    let expected = Config::resolve(Some("cora"), None, &["model.state=16".into()]).unwrap();
    assert_eq!(config, expected);
}

#[test]
fn the_json_schema_is_printed_as_documented() {
    let run = Sandbox::new().ignn(&words("train --schema")).exits(0);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/config.schema.json");
    assert_eq!(run.stdout, std::fs::read_to_string(path).unwrap());
}

#[test]
fn settings_that_the_kind_does_not_use_get_one_note() {
    let sandbox = triangle();
    sandbox.file("my.toml", "[model]\nkind = \"gcn\"\nkappa = 0.5\nstate = 4\n");
    let line = "train one --config my.toml --set solver.method=plain --epochs 1 --json --out";
    let run = sandbox.ignn(&words(&format!("{line} run"))).exits(0);
    let note = "model.kind=gcn does not use model.kappa, solver.method: without effect";
    assert_eq!(run.json()["notes"], serde_json::json!([note]));
    assert_eq!(run.stderr.matches("note: ").count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains(note), "{}", run.stderr);
    let quiet = sandbox.ignn(&words(&format!("{line} seeds --seeds 0,1 -q"))).exits(0);
    assert_eq!(
        (quiet.json()["notes"].clone(), quiet.stderr.as_str()),
        (run.json()["notes"].clone(), "")
    );
}

#[test]
fn presets_are_explained() {
    let sandbox = Sandbox::new();
    let doc = presets::find("cora").unwrap().doc;
    let flat = |text: &str| text.replace("# ", "").split_whitespace().collect::<Vec<_>>().join(" ");
    for line in ["train --help", "train --list"] {
        let run = sandbox.ignn(&words(line)).exits(0);
        let expected = flat(&format!("cora: {doc}"));
        assert!(flat(&run.stdout).contains(&expected), "{line}: {}", run.stdout);
    }
}
