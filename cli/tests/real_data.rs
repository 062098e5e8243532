//! Public data sets, if available: known counts, `check`, and the same bytes after export and
//! ingest.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::{Sandbox, files_below, shared};

/// Runs `ignn ingest` with these arguments into dataset `d`; returns the summary.
fn ingest(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let arguments = [&["ingest"], arguments, &["--out", "d", "--quiet", "--json"]].concat();
    sandbox.ignn(&arguments).exits(0).json()
}

/// Asserts that dataset `d` is intact, and that its exported edges and ids give the same adjacency
/// byte for byte when they are ingested again.
fn assert_intact_and_round_trips(sandbox: &Sandbox) {
    sandbox.ignn(&["check", "d", "--quiet"]).exits(0);
    sandbox.ignn(&["export", "d", "--edges", "e.tsv", "--ids", "i.tsv", "--quiet"]).exits(0);
    sandbox.ignn(&["export", "d", "--edges", "e.parquet", "--quiet"]).exits(0);
    let ids = sandbox.read("i.tsv");
    let ids: String =
        ids.lines().skip(1).map(|line| format!("{}\n", line.split('\t').next().unwrap())).collect();
    sandbox.file("nodes.txt", ids);
    let before = files_below(&sandbox.path("d/relations/edges"));
    for edges in ["e.tsv", "e.parquet"] {
        let again = [
            "ingest",
            "edges",
            edges,
            "--nodes-file",
            "nodes.txt",
            "--out",
            "again",
            "--force",
            "--quiet",
        ];
        sandbox.ignn(&again).exits(0);
        let after = files_below(&sandbox.path("again/relations/edges"));
        assert!(before.keys().eq(after.keys()), "{edges}: {:?} {:?}", before.keys(), after.keys());
        for (name, bytes) in &before {
            assert!(*bytes == after[name], "{edges}: {} differs", name.display());
        }
    }
}

fn word(path: &Path) -> &str {
    path.to_str().expect("a path of plain text")
}

#[test]
fn com_dblp() {
    let Some(data) = shared("data/com-dblp") else { return };
    let sandbox = Sandbox::new();
    let (edges, communities) =
        (data.join("com-dblp.ungraph.txt.gz"), data.join("com-dblp.all.cmty.txt.gz"));
    let made = ingest(
        &sandbox,
        &["edges", word(&edges), "--communities", word(&communities), "--communities-top", "58"],
    );
    assert_eq!(made["nodes"], 317_080);
    assert_eq!(made["edges_read"], 1_049_866);
    assert_eq!(made["relations"][0]["nonzeros"], 2 * 1_049_866 + 317_080);
    assert_eq!(
        (&made["labels"]["classes"], &made["labels"]["labelled"]),
        (&58.into(), &107_639.into())
    );
    assert_intact_and_round_trips(&sandbox);
}

#[test]
fn cora() {
    let Some(data) = shared("data/cora") else { return };
    let sandbox = Sandbox::new();
    let file = |name: &str| word(&data.join(name)).to_owned();
    let (edges, features) = (file("edges.tsv.gz"), file("features.mtx.gz"));
    let (labels, splits) = (file("labels.csv"), file("splits.csv"));
    let made = ingest(
        &sandbox,
        &["edges", &edges, "--features", &features, "--labels", &labels, "--splits", &splits],
    );
    assert_eq!(made["nodes"], 2708);
    assert_eq!(made["relations"][0]["nonzeros"], 13_264);
    assert_eq!(made["features"]["columns"], 1433);
    assert_eq!(made["labels"]["classes"], 7);
    let parts = serde_json::json!([["train", 140], ["val", 500], ["test", 1000]]);
    assert_eq!(made["splits"][0]["parts"], parts);
    assert_intact_and_round_trips(&sandbox);
}

#[test]
fn tu_sets() {
    let Some(data) = shared("data/tu") else { return };
    for (name, graphs) in
        [("MUTAG", 188), ("PTC_MR", 344), ("COX2", 467), ("PROTEINS", 1113), ("NCI1", 4110)]
    {
        let sandbox = Sandbox::new();
        let made = ingest(&sandbox, &["tu", word(&data.join(name))]);
        assert_eq!(made["graphs"], graphs, "{name}");
        assert_intact_and_round_trips(&sandbox);
    }
}

#[test]
fn dgcnn_ptc() {
    let Some(data) = shared("data/dgcnn/PTC.txt") else { return };
    let sandbox = Sandbox::new();
    let made = ingest(&sandbox, &["dgcnn", word(&data)]);
    assert_eq!(made["graphs"], 344);
    assert_eq!(made["features"]["columns"], 19);
    assert_intact_and_round_trips(&sandbox);
}
