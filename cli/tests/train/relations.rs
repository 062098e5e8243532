//! Several relations from the specification to predictions, a relation of cliques among them; and
//! readouts learned alone.

use super::{communities, metrics, words};
use crate::sandbox::Sandbox;

/// Sixty nodes in three cliques, which are the classes, and on a ring: dataset `d`; `other` has one
/// of its relations, `swapped` both in the other order.
fn relations() -> Sandbox {
    let sandbox = Sandbox::new();
    let pairs = (0..60)
        .flat_map(|i| (0..60).filter(move |j| i < *j && i % 3 == j % 3).map(move |j| (i, j)));
    let clique: String = pairs.map(|(i, j)| format!("{i} {j}\n")).collect();
    let ring: String = (0..60).map(|i| format!("{i} {}\n", (i + 1) % 60)).collect();
    sandbox.file("clique.txt", &clique);
    sandbox.file("ring.txt", &ring);
    let rows = |value: &dyn Fn(usize) -> String| -> String {
        (0..60).map(|i| format!("{i},{}\n", value(i))).collect()
    };
    sandbox.file("labels.csv", format!("node,label\n{}", rows(&|i| format!("c{}", i % 3))));
    let part = |i: usize| ["train", "val", "test"][i / 20].to_string();
    sandbox.file("splits.csv", format!("node,split\n{}", rows(&part)));
    let feature = |i: usize| format!("{},{},1", usize::from(i % 3 == 1), (i * 7) % 5);
    sandbox.file("features.csv", format!("node,f0,f1,f2\n{}", rows(&feature)));
    let spec = |names: &[&str]| {
        let top = "target = \"node\"\nfeatures = \"features.csv\"\nlabels = \
                   \"labels.csv\"\nsplits = [\"splits.csv\"]\n";
        let each = names.iter().map(|name| format!("[relations.{name}]\nfile = \"{name}.txt\"\n"));
        top.to_string() + &each.collect::<String>()
    };
    for (name, names) in
        [("d", &["clique", "ring"][..]), ("other", &["clique"]), ("swapped", &["ring", "clique"])]
    {
        sandbox.file(&format!("{name}.toml"), spec(names));
        sandbox.ignn(&words(&format!("ingest relations {name}.toml --out {name} -q"))).exits(0);
    }
    sandbox
}

#[test]
fn relations_are_trained_certified_and_predicted_by_their_names() {
    let sandbox = relations();
    let line = "train d --epochs 40 --set model.state=8 -q";
    sandbox.ignn(&words(&format!("{line} --set model.kappa=0.4,0.5 --out run"))).exits(0);
    let model = ignn::models::Model::load(sandbox.path("run/model.safetensors")).unwrap();
    let names: Vec<_> = model.values.iter().map(|(slot, _)| slot.name.as_str()).collect();
    let expected = ["layer0.W.clique", "layer0.W.ring", "layer0.Omega.clique", "layer0.Omega.ring"];
    assert_eq!(names[..4], expected);
    for record in metrics(&sandbox, "run") {
        assert!(
            record["contraction"].as_f64().unwrap() < 0.91 && record["failures"] == 0,
            "{record}"
        );
    }
    let run = sandbox.ignn(&words("eval d --model run --json -q")).exits(0);
    let other = sandbox.ignn(&words("eval swapped --model run --json -q")).exits(0);
    let scores = |run: &crate::sandbox::Run| {
        let mut parts = run.json()["evaluation"]["parts"].clone();
        // The last bits of logits depend on the order in which relations are added up.
        for part in parts.as_array_mut().into_iter().flatten() {
            part["log_loss"] = ((part["log_loss"].as_f64().unwrap() * 1e5).round()).into();
        }
        parts.to_string()
    };
    assert_eq!(scores(&run), scores(&other), "names count, not their order");
    sandbox.ignn(&words("predict other --model run --out p.csv -q")).fails_with(
        "run/model.safetensors: the dataset has other relations than the model (found clique, \
         expected clique, ring)",
    );
    sandbox.ignn(&words("train other --epochs 1 --set model.state=8 --out single -q")).exits(0);
    sandbox.ignn(&words("predict d --model single --out p.csv -q")).fails_with(
        "single/model.safetensors: the dataset has other relations than the model (found clique, \
         ring, expected a single one)",
    );
}

#[test]
fn baselines_of_several_relations_predict() {
    let sandbox = relations();
    for kind in ["gcn", "sgc", "gat", "gcnii", "sse", "mlp", "label-propagation"] {
        let line = format!(
            "train d --epochs 2 --set model.state=8 --set model.kind={kind} --set \
             optim.learning_rate=0.002 --out {kind} -q"
        );
        sandbox.ignn(&words(&line)).exits(0);
        let line = format!("predict d --model {kind} --out {kind}.csv -q");
        sandbox.ignn(&words(&line)).exits(0).says("60 rows");
        sandbox.ignn(&words(&format!("eval d --model {kind} -q"))).exits(0);
    }
    // Only SSE has parameters of its own for each relation.
    sandbox.ignn(&words("predict other --model gcn --out p.csv -q")).exits(0);
    sandbox.ignn(&words("predict other --model sse --out q.csv -q")).fails_with(
        "sse/model.safetensors: the dataset has other relations than the model (found clique, \
         expected clique, ring)",
    );
}

#[test]
fn kappas_that_do_not_match_the_relations_are_refused_and_large_ones_watched() {
    let sandbox = relations();
    let line = "train d --epochs 3 --set model.state=8 -q --out";
    sandbox.ignn(&words(&format!("{line} no --set model.kappa=0.4,0.3,0.2"))).fails_with(
        "model.kappa: one for all relations or one per relation (found 3, expected 1 or 2 for \
         clique, ring)",
    );
    assert!(!sandbox.path("no").exists());
    let large = "--set model.kappa=0.9,0.9 --set model.init=identity";
    // Weights this large let the state grow without bound: that is reported, without a certificate.
    sandbox.ignn(&words(&format!("{line} large {large}"))).exits(1).says("did not converge");
    for record in metrics(&sandbox, "large") {
        assert!(record["contraction"].as_f64().unwrap() > 1.0, "{record}");
        assert!(record["forward"]["certified_error"].is_null(), "{record}");
    }
    sandbox.ignn(&words("eval d --model large")).exits(1).says("not certified");
}

#[test]
fn a_read_out_alone_is_learned_step_by_step_or_in_one_go() {
    let sandbox = communities();
    let line = "train s --set model.state=32 --set model.init=scaled -q";
    let score = |run: &str| {
        let records = metrics(&sandbox, run);
        let weight = |record: &serde_json::Value| record["weight_radius"].as_f64().unwrap();
        assert!(records.iter().all(|record| weight(record) == weight(&records[0])), "W stays");
        (records.len(), records.last().unwrap()["test"]["accuracy"].as_f64().unwrap())
    };
    sandbox
        .ignn(&words(&format!("{line} --out steps --epochs 60 --set train.learn=readout")))
        .exits(0);
    let (epochs, steps) = score("steps");
    assert_eq!(epochs, 61);
    sandbox
        .ignn(&words(&format!("{line} --out ridge --epochs 60 --set train.learn=ridge")))
        .exits(0);
    let (epochs, ridge) = score("ridge");
    assert_eq!(epochs, 2, "one step does it");
    assert!(steps > 0.6 && ridge > 0.6, "{steps} {ridge}");
    // By the model's file too.
    let run = sandbox.ignn(&words("eval s --model ridge --json -q")).exits(0);
    assert!(run.stdout.contains("accuracy"), "{}", run.stdout);
    sandbox
        .ignn(&words(&format!("{line} --out no --set train.learn=ridge --set model.readout=mlp")))
        .fails_with(
            "train.learn: ridge needs a readout of its own (found model.readout=mlp, expected \
             linear)",
        );
    sandbox
        .ignn(&words(&format!(
            "{line} --out no --set train.learn=readout --set model.readout=none --set model.state=3"
        )))
        .fails_with(
            "train.learn: readout needs a readout of its own (found model.readout=none, expected \
             linear or mlp)",
        );
}
