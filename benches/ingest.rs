//! Text to dataset: the edge list of the input `rmat` ingested with default options. Verified by a
//! builder of sorted maps that compares every row of the dataset.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use ignn::graph::Graph;
use ignn::kernels::AdjacencyRef;
use ignn_format::manifest::Normalisation;
use ignn_ingest::command::edges::IngestEdges;
use ignn_ingest::command::generate::{Generate, Kind};

use crate::inputs;

#[divan::bench(max_time = 5)]
fn rmat_text(bencher: Bencher<'_, '_>) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let raw = directory.path().join("raw");
    let kind = Kind::Rmat(inputs::rmat_options());
    let (raw_only, normalise) = (Some(raw.clone()), Normalisation::Renorm);
    let generate = Generate { kind, out: None, raw: raw_only, force: false, normalise };
    inputs::with_context(|context| generate.run(context).expect("an edge list"));
    let (file, dataset) = (raw.join("edges.txt"), directory.path().join("graph.ignn"));
    let job = IngestEdges { force: true, ..IngestEdges::new(vec![file.clone()], dataset.clone()) };
    let run = || inputs::with_context(|context| job.run(context).expect("a dataset"));
    let edges = run().counts.read;
    verify(&file, &dataset);
    let bytes = fs::metadata(&file).expect("the edge list").len();
    bencher.counter(ItemsCount::new(edges)).counter(BytesCount::new(bytes)).bench_local(run);
}

/// Rows by id: undirected, duplicates once, no loops but the one that renormalisation adds.
fn verify(file: &Path, dataset: &Path) {
    let mut rows: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for line in fs::read_to_string(file).expect("the edge list").lines() {
        let ids: Vec<u32> = line.split_whitespace().map(|id| id.parse().expect("an id")).collect();
        rows.entry(ids[0]).or_default().insert(ids[1]);
        rows.entry(ids[1]).or_default().insert(ids[0]);
    }
    let numbers: BTreeMap<u32, u32> = rows.keys().copied().zip(0..).collect();
    let dataset = Graph::open(dataset).expect("a dataset");
    let relations = dataset.relations().expect("relations");
    let adjacency = AdjacencyRef::incoming(&relations[0]);
    assert_eq!(adjacency.rows(), rows.len(), "nodes");
    for (i, (id, neighbours)) in rows.iter().enumerate() {
        let mut expected: BTreeSet<u32> = neighbours.iter().map(|id| numbers[id]).collect();
        expected.insert(numbers[id]);
        let found = &adjacency.neighbours()[adjacency.range(i)];
        assert!(found.iter().eq(&expected), "row {i} differs from the one of sorted maps");
    }
}
