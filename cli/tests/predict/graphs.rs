//! Predictions and scores of graphs, and of the nodes of many graphs, with the user's ids.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{cells, words};
use crate::crossval::write_rings_and_stars;
use crate::sandbox::Sandbox;

/// Rings and stars as dataset `d`, cross-validated in `run`.
fn rings_and_stars() -> Sandbox {
    let sandbox = Sandbox::new();
    write_rings_and_stars(&sandbox, "raw", 24);
    sandbox.ignn(&words("ingest tu raw --out d -q")).exits(0);
    let small = "--preset graphs --set model.state=8,8 --set model.batch_norm=true --set model.hidden=8 \
         --set optim.learning_rate=0.01 --set train.batch=8 --set train.monitor=accuracy --epochs 15";
    sandbox.ignn(&words(&format!("crossval d {small} --folds 4 --out run -q"))).exits(0);
    sandbox
}

#[test]
fn predictions_repeat_the_scores_of_cross_validation() {
    let sandbox = rings_and_stars();
    let folds = sandbox.read("run/folds.csv");
    let fold_of: BTreeMap<&str, &str> =
        folds.lines().skip(1).map(|line| line.split_once(',').unwrap()).collect();
    for fold in 0..4 {
        let run = format!(
            "predict d --model run/fold-{fold} --out p.csv --embeddings e.tsv --force --json -q"
        );
        let report = sandbox.ignn(&words(&run)).exits(0).json();
        let text = sandbox.read("p.csv");
        assert!(text.starts_with("graph,predicted,probability,p_-1,p_7\n1,"), "{text}");
        let rows = cells(&text);
        assert_eq!(rows.len(), 24);
        // The file holds everything that scoring needs: weights and running statistics.
        let own = rows.iter().filter(|row| fold_of[row[0]] == fold.to_string());
        let is_right = |row: &&Vec<&str>| {
            let ring = row[0].parse::<usize>().unwrap() % 2 == 1;
            row[1] == if ring { "7" } else { "-1" }
        };
        let (all, right) = (own.clone().count(), own.filter(is_right).count());
        let record: Value =
            serde_json::from_str(&sandbox.read(&format!("run/fold-{fold}/fold.json"))).unwrap();
        let judged = record["chosen"]["test"].as_f64().unwrap();
        assert!((judged - right as f64 / all as f64).abs() < 1e-9, "{judged}: {right} of {all}");
        // Scores are of graphs.
        let part = &report["evaluation"]["parts"][0];
        assert_eq!((&part["part"], &part["graphs"]), (&"all".into(), &24.into()));
        let right = rows.iter().filter(is_right).count();
        assert!((part["accuracy"].as_f64().unwrap() - right as f64 / 24.0).abs() < 1e-9);
        assert_eq!(report["graphs_certified_of"], serde_json::json!([24, 24]));
        let embeddings = sandbox.read("e.tsv");
        assert!(
            embeddings.starts_with("graph\tx0\tx1\tx2\tx3\tx4\tx5\tx6\tx7\n1\t"),
            "{embeddings}"
        );
        assert_eq!(embeddings.lines().count(), 25);
    }
    let run = sandbox.ignn(&words("eval d --model run/fold-1 -q")).exits(0);
    run.says("labelled graphs\n  part  graphs  labelled  accuracy")
        .says("graphs       24, each certified by its own bound")
        .says("graphs  predicted\n");
}

#[test]
fn other_graphs_are_certified_by_their_own_bounds() {
    let sandbox = rings_and_stars();
    write_rings_and_stars(&sandbox, "more", 30);
    sandbox.ignn(&words("ingest tu more --out e -q")).exits(0);
    let run =
        sandbox.ignn(&words("predict e --model run/fold-2 --out p.parquet --certified")).exits(0);
    assert!(run.stderr.contains("note: the model was trained on another dataset\n"));
    run.says("p.parquet: 30 rows").says("graphs       30, each certified");
    // Raw adjacency has larger bounds than the renormalised one it was trained on.
    sandbox.ignn(&words("ingest tu more --normalise none --out raw-ones -q")).exits(0);
    let run = sandbox
        .ignn(&words("predict raw-ones --model run/fold-2 --out q.csv --certified"))
        .exits(1);
    assert!(run.stdout.contains("graphs       30, 0 of them certified"), "{}", run.stdout);
    assert!(!sandbox.path("q.csv").exists());
}

#[test]
fn one_graph_has_no_class() {
    let sandbox = rings_and_stars();
    sandbox.ignn(&words("generate chains --length 10 --out c -q")).exits(0);
    let kinds = "`ignn ingest tu` and `ignn ingest dgcnn` make such datasets";
    sandbox.ignn(&words("predict c --model run/fold-0 --out p.csv -q")).fails_with(&format!(
        "run/fold-0/model.safetensors: the model classifies graphs (found one graph in \
         c, expected a dataset of many graphs): {kinds}"
    ));
    sandbox.ignn(&words("predict d --model run/fold-0 --out p.csv --part test -q")).fails_with(
        "d: the dataset has no splits over graphs: leave --part out to predict them all",
    );
}

#[test]
fn held_out_graphs_with_a_larger_bound_get_a_note() {
    let sandbox = Sandbox::new();
    sandbox.ignn(&words("generate ppi --scale 0.075 --normalise none --out raw -q")).exits(0);
    sandbox.ignn(&words("generate ppi --scale 0.075 --out d -q")).exits(0);
    let notes = |dataset: &str| {
        let line =
            format!("train {dataset} --set model.state=4 --epochs 0 --out run --force -q --json");
        let notes = sandbox.ignn(&words(&line)).exits(0).json()["notes"].clone();
        serde_json::from_value::<Vec<String>>(notes).unwrap()
    };
    let found = notes("raw");
    let [note] = &found[..] else { panic!("{found:?}") };
    assert!(note.starts_with("the spectral bound of a validation or test graph is 1.0"), "{note}");
    assert!(note.contains(" there, above kappa = 0.95: solutions are still unique"), "{note}");
    // All renormalised graphs have the same bound.
    assert_eq!(notes("d"), Vec::<String>::new());
}

#[test]
fn nodes_of_graphs_that_training_did_not_see() {
    let sandbox = Sandbox::new();
    sandbox.ignn(&words("generate ppi --scale 0.075 --out d -q")).exits(0);
    let small = "--set model.state=12,8 --set model.skip=true --set model.between=elu --set model.kappa=0.9";
    let small = format!("{small} --set model.dropout=0 --set train.batch=5 --epochs 4");
    sandbox.ignn(&words(&format!("train d {small} --out run -q"))).exits(0);
    let figures: Value = serde_json::from_str(&sandbox.read("run/run.json")).unwrap();
    let judged = &figures["figures"]["chosen_on_validation"]["test"];
    let run = "predict d --model run --out all.csv --part test --top 2 --json -q";
    let report = sandbox.ignn(&words(run)).exits(0).json();
    let text = sandbox.read("all.csv");
    let header = "graph,id,predicted,probabilities,class_1,probability_1,class_2,probability_2\n";
    assert!(text.starts_with(header), "{text}");
    let test = &report["evaluation"]["parts"][0];
    assert_eq!(
        (&test["part"], test["nodes"].as_u64()),
        (&"test".into(), Some(text.lines().count() as u64 - 1))
    );
    for score in ["micro_f1", "macro_f1", "top_k_micro_f1"] {
        let (found, expected) = (test[score].as_f64().unwrap(), judged[score].as_f64().unwrap());
        assert!((found - expected).abs() < 2e-3, "{score}: {found}, judged {expected}");
    }
    // Graph and node ids are those of the dataset: test graphs are complete, and every node
    // occurs once.
    sandbox.ignn(&words("predict d --model run --embeddings x.csv -q")).exits(0);
    let states = sandbox.read("x.csv");
    assert!(states.starts_with("graph,id,x0,x1,x2,x3,x4,x5,x6,x7\n"), "{states}");
    let graph_of: BTreeMap<&str, &str> =
        cells(&states).iter().map(|row| (row[1], row[0])).collect();
    assert_eq!(graph_of.len(), states.lines().count() - 1);
    let graphs: std::collections::BTreeSet<&str> = graph_of.values().copied().collect();
    assert_eq!(graphs.len(), 24);
    let tested: Vec<(&str, &str)> = text
        .lines()
        .skip(1)
        .map(|line| {
            let mut cells = line.split(',');
            (cells.next().unwrap(), cells.next().unwrap())
        })
        .collect();
    assert!(tested.iter().all(|(graph, node)| graph_of[node] == *graph));
    let of_tested: std::collections::BTreeSet<&str> = tested.iter().map(|row| row.0).collect();
    assert_eq!(of_tested.len(), 2);
    let nodes_of_tested = graph_of.values().filter(|graph| of_tested.contains(*graph)).count();
    assert_eq!(nodes_of_tested, tested.len());
    let run = sandbox.ignn(&words("eval d --model run -q")).exits(0);
    run.says("split default\n  part").says("graphs       24, each certified by its own bound");
}
