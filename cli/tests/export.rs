//! `ignn export`: what was ingested comes out again, with the original ids.

use std::collections::BTreeSet;

use ignn::graph::GraphBuilder;
use ignn_format::labels::Labels;
use ignn_format::manifest::{Normalisation, Scale};

use crate::handmade::{Handmade, path_and_loner, weighted_chain};
use crate::sandbox::Sandbox;

#[test]
fn undirected_edges_come_back_once() {
    let sandbox = Sandbox::new();
    path_and_loner().write(&sandbox.path("d"));
    let written = sandbox.ignn(&["export", "d", "--edges", "e.tsv", "--ids", "i.csv"]).exits(0);
    assert_eq!(written.stdout, "e.tsv: 2 rows\ni.csv: 4 rows\n");
    assert_eq!(sandbox.read("e.tsv"), "source\ttarget\na\tb\nb\tc\n");
    assert_eq!(sandbox.read("i.csv"), "id,node\na,0\nb,1\nc,2\nd,3\n");
    assert_eq!(sandbox.names(), ["d", "e.tsv", "i.csv"]);
    let written =
        sandbox.ignn(&["export", "d", "--ids", "i.csv", "--force", "--json"]).exits(0).json();
    assert_eq!(written, serde_json::json!({ "files": [{ "file": "i.csv", "rows": 4 }] }));
}

#[test]
fn diagonal_entries_of_renormalisation_are_not_exported() {
    let sandbox = Sandbox::new();
    weighted_chain().write(&sandbox.path("d"));
    sandbox.ignn(&["export", "d", "--edges", "e.csv", "--normalised"]).exits(0);
    let expected = "source,target,weight,value\nx,y,3,0.75\ny,z,3,0.375\nz,z,15,1\n";
    assert_eq!(sandbox.read("e.csv"), expected);
    let plain = Handmade { normalisation: Normalisation::None, scale: None, ..weighted_chain() };
    plain.write(&sandbox.path("plain"));
    sandbox.ignn(&["export", "plain", "--edges", "p.csv"]).exits(0);
    let expected = "source,target,weight\nx,x,1\nx,y,3\ny,y,1\ny,z,3\nz,z,16\n";
    assert_eq!(sandbox.read("p.csv"), expected);
}

#[test]
fn normalised_rows_differ_both_ways() {
    let sandbox = Sandbox::new();
    let rows = Handmade {
        entries: &[(0, 1, 1.0), (1, 0, 1.0), (1, 2, 1.0), (2, 1, 1.0)],
        normalisation: Normalisation::Row,
        scale: Some((Scale::Source, &[1.0, 0.5, 1.0, 0.0])),
        ..path_and_loner()
    };
    rows.write(&sandbox.path("d"));
    sandbox.ignn(&["export", "d", "--edges", "e.csv", "--normalised"]).exits(0);
    assert_eq!(sandbox.read("e.csv"), "source,target,value,value_back\na,b,1,0.5\nb,c,0.5,1\n");
}

#[test]
fn labels_that_a_table_cannot_hold_are_counted() {
    let sandbox = Sandbox::new();
    for (name, labels) in [
        ("complete", Labels::complete_sets(vec!["x".into()], vec![0, 1, 1, 1], vec![0])),
        ("partly", Labels::sets(vec!["x".into()], vec![0, 1, 1, 1], vec![0])),
    ] {
        GraphBuilder::new(3).edges([(0, 1)]).labels(labels).write(sandbox.path(name)).unwrap();
        let file = format!("{name}.csv");
        let run = sandbox.ignn(&["export", name, "--labels", &file]).exits(0);
        let note = "note: 2 nodes are labelled with no class: without a row in the table, ingest \
                    reads them as not labelled\n";
        assert_eq!(run.stderr, if name == "complete" { note } else { "" });
        assert_eq!(sandbox.read(&file), "node,label\n0,x\n");
    }
}

#[test]
fn labels_splits_and_features_come_back() {
    let sandbox = Sandbox::new();
    sandbox.file("e.txt", "a b\nb c\n");
    sandbox.file("labels.csv", "node,label\na,red\nb,blue\nb,red\n");
    sandbox.file("splits.csv", "node,split\na,train\nc,test\n");
    sandbox.file("x.csv", "node,f,g\na,1,2\nb,3,4\nc,0.5,0\n");
    let ingest =
        "ingest edges e.txt --out d -q --labels labels.csv --splits splits.csv --features x.csv";
    sandbox.ignn(&ingest.split(' ').collect::<Vec<_>>()).exits(0);
    let export = "export d --labels l.csv --splits s.tsv --features f.csv --edges e.parquet";
    sandbox.ignn(&export.split(' ').collect::<Vec<_>>()).exits(0);
    let text = sandbox.read("l.csv");
    let lines: BTreeSet<&str> = text.lines().collect();
    assert_eq!(lines, BTreeSet::from(["node,label", "a,red", "b,blue", "b,red"]));
    let text = sandbox.read("s.tsv");
    let rows: Vec<Vec<&str>> =
        text.lines().skip(1).map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows, [["a", "train"], ["b", ""], ["c", "test"]]);
    assert_eq!(sandbox.read("f.csv"), "node,x0,x1\na,1,2\nb,3,4\nc,0.5,0\n");
    // Exported Parquet edges can be ingested again.
    sandbox.ignn(&["ingest", "edges", "e.parquet", "--out", "again", "-q"]).exits(0);
    sandbox.ignn(&["export", "again", "--edges", "again.tsv"]).exits(0);
    assert_eq!(sandbox.read("again.tsv"), "source\ttarget\na\tb\nb\tc\n");
}

#[test]
fn mistakes_write_nothing() {
    let sandbox = Sandbox::new();
    path_and_loner().write(&sandbox.path("d"));
    sandbox.file("mine.tsv", "keep");
    let nothing = "nothing to export: name a file with --edges, --features, --labels, --splits, --ids or \
         --graphs";
    sandbox.ignn(&["export", "d"]).fails_with(nothing);
    sandbox
        .ignn(&["export", "d", "--edges", "e.xls"])
        .fails_with("e.xls: file extension (found \"xls\", expected .parquet, .tsv or .csv)");
    let exists = "mine.tsv: already exists: choose another name, or pass --force to replace it";
    sandbox.ignn(&["export", "d", "--edges", "mine.tsv"]).fails_with(exists);
    sandbox.ignn(&["export", "d", "--edges", "e.tsv", "--labels", "l.tsv"]).fails_with(
        "d: the dataset has no labels: ingest with --label, --regress, --labels or --communities",
    );
    sandbox
        .ignn(&["export", "d", "--edges", "e.tsv", "--relation", "cites"])
        .fails_with("d: the dataset has no relation \"cites\" (it has: edges)");
    sandbox
        .ignn(&["export", "d", "--edges", "e.tsv", "--ids", "e.tsv"])
        .fails_with("e.tsv: named twice: each table needs its own file");
    assert_eq!(sandbox.read("mine.tsv"), "keep");
    assert_eq!(sandbox.names(), ["d", "mine.tsv"]);
}
