//! Compares `ingest edges` with a naive model, for every option; the bytes are the same for any
//! memory and number of threads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ignn_format::DatasetDir;
use ignn_format::ids::Ids;
use ignn_format::manifest::{Normalisation, Scale};
use ignn_format::random::Sequence;
use ignn_ingest::Context;
use ignn_ingest::builder::DatasetSummary;
use ignn_ingest::command::edges::IngestEdges;
use ignn_ingest::context::Recorder;
use ignn_ingest::edges::options::{Duplicates, RelationOptions, SelfLoops};
use ignn_ingest::order::Order;
use tempfile::TempDir;

fn job(files: &[&Path], out: PathBuf) -> IngestEdges {
    IngestEdges::new(files.iter().map(|file| file.to_path_buf()).collect(), out)
}

fn run(job: &IngestEdges, threads: usize, memory: u64) -> Result<DatasetSummary, String> {
    let observer = Recorder::default();
    let context = Context { threads, memory, seed: 1, observer: &observer };
    job.run(&context).map_err(|error| error.to_string())
}

const AMPLE: u64 = 1 << 30;

/// All entries `A[source, target]` of a dataset, by the user's ids.
fn matrix(path: &Path) -> BTreeMap<(String, String), f32> {
    let dataset = DatasetDir::open(path).unwrap();
    let relation = dataset.relation("edges").unwrap();
    let names: Vec<String> = match dataset.ids().unwrap() {
        Ids::Integer(ids) => ids.iter().map(u64::to_string).collect(),
        Ids::String { offsets, text } => {
            offsets.windows(2).map(|w| text[w[0] as usize..w[1] as usize].to_string()).collect()
        }
    };
    let mut entries = BTreeMap::new();
    for target in 0..relation.incoming.rows() {
        for at in relation.incoming.range(target) {
            let source = relation.incoming.neighbours()[at] as usize;
            let mut value = relation.incoming.values().map_or(1.0, |values| values[at]);
            match (&relation.scale, relation.entry.scale) {
                (Some(scale), Scale::Both) => value *= scale[source] * scale[target],
                (Some(scale), Scale::Source) => value *= scale[source],
                _ => {}
            }
            entries.insert((names[source].clone(), names[target].clone()), value);
        }
    }
    entries
}

/// The same entries, computed with plain maps.
fn model(
    edges: &[(String, String, f32)],
    options: &RelationOptions,
) -> BTreeMap<(String, String), f32> {
    let mut raw: BTreeMap<(String, String), f32> = BTreeMap::new();
    let mut add = |s: &String, t: &String, w: f32| {
        let key = (s.clone(), t.clone());
        match (raw.get_mut(&key), options.duplicates) {
            (None, _) => drop(raw.insert(key, w)),
            (Some(kept), Duplicates::Sum) => *kept += w,
            (Some(kept), Duplicates::Max) => *kept = kept.max(w),
            (Some(_), _) => {}
        }
    };
    let mut nodes = BTreeSet::new();
    for (s, t, w) in edges {
        nodes.extend([s.clone(), t.clone()]);
        if s == t && options.self_loops == SelfLoops::Drop {
            continue;
        }
        add(s, t, *w);
        if !options.directed && s != t {
            add(t, s, *w);
        }
    }
    if options.normalise == Normalisation::Renorm {
        for node in &nodes {
            *raw.entry((node.clone(), node.clone())).or_default() += 1.0;
        }
    }
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for ((s, _), w) in &raw {
        *sums.entry(s.clone()).or_default() += f64::from(*w);
    }
    let scaled = |s: &String, t: &String, w: f32| match options.normalise {
        Normalisation::None => w,
        Normalisation::Renorm => w / (sums[s].sqrt() * sums[t].sqrt()) as f32,
        Normalisation::Row => w / sums[s] as f32,
    };
    raw.iter().map(|((s, t), w)| ((s.clone(), t.clone()), scaled(s, t, *w))).collect()
}

fn assert_close(
    found: &BTreeMap<(String, String), f32>,
    expected: &BTreeMap<(String, String), f32>,
) {
    assert!(
        found.keys().eq(expected.keys()),
        "the same entries: {} and {}",
        found.len(),
        expected.len()
    );
    for (key, value) in expected {
        assert!(
            (found[key] - value).abs() <= 1e-5 * value.abs(),
            "{key:?}: {} and {value}",
            found[key]
        );
    }
}

/// Every file of a dataset, except the options recorded in the manifest.
fn bytes(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(at: &Path, root: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, root, all);
            } else {
                all.insert(path.strip_prefix(root).unwrap().into(), std::fs::read(&path).unwrap());
            }
        }
    }
    let mut all = BTreeMap::new();
    walk(path, path, &mut all);
    all
}

enum IdStyle {
    Small,
    Sparse,
    Text,
}

fn random_edges(
    seed: u64,
    count: usize,
    nodes: u64,
    style: &IdStyle,
) -> Vec<(String, String, f32)> {
    let mut stream = Sequence::new(seed, "edges");
    let name = |node: u64| match style {
        IdStyle::Small => (node * 3).to_string(),
        IdStyle::Sparse => (Sequence::new(5, "id").at(node)).to_string(),
        IdStyle::Text => format!("user-{:x}", Sequence::new(6, "id").at(node)),
    };
    let skewed = |stream: &mut Sequence| {
        stream.below(nodes).min(stream.below(nodes)).min(stream.below(nodes))
    };
    (0..count)
        .map(|_| {
            let (s, t) = (skewed(&mut stream), stream.below(nodes));
            (name(s), name(t), (1 + stream.below(8)) as f32 * 0.25)
        })
        .collect()
}

fn write(dir: &TempDir, edges: &[(String, String, f32)], weighted: bool) -> PathBuf {
    let path = dir.path().join("edges.txt");
    let line = |(s, t, w): &(String, String, f32)| {
        if weighted { format!("{s}\t{t}\t{w}\n") } else { format!("{s}\t{t}\n") }
    };
    std::fs::write(&path, edges.iter().map(line).collect::<String>()).unwrap();
    path
}

#[test]
fn every_option_agrees_with_the_naive_model() {
    for style in [IdStyle::Small, IdStyle::Sparse, IdStyle::Text] {
        for weighted in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let mut edges = random_edges(1, 3000, 200, &style);
            let path = write(&dir, &edges, weighted);
            if !weighted {
                edges.iter_mut().for_each(|edge| edge.2 = 1.0);
            }
            let mut number = 0;
            for directed in [false, true] {
                for normalise in [Normalisation::None, Normalisation::Renorm, Normalisation::Row] {
                    for duplicates in [Duplicates::Sum, Duplicates::Max, Duplicates::First] {
                        for self_loops in [SelfLoops::Keep, SelfLoops::Drop] {
                            let options =
                                RelationOptions { directed, normalise, duplicates, self_loops };
                            number += 1;
                            let out = dir.path().join(number.to_string());
                            let job = IngestEdges {
                                relation: options.clone(),
                                ..job(&[&path], out.clone())
                            };
                            let summary = run(&job, 2, AMPLE).unwrap();
                            assert_close(&matrix(&out), &model(&edges, &options));
                            assert_eq!(summary.counts.read, 3000);
                            let plain = !weighted && duplicates != Duplicates::Sum;
                            let doubled =
                                normalise == Normalisation::Renorm && self_loops == SelfLoops::Keep;
                            assert_eq!(summary.manifest.relations[0].weighted, !plain || doubled);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn memory_and_threads_change_no_byte() {
    for (style, spills) in
        [(IdStyle::Small, 1 << 20), (IdStyle::Sparse, 1 << 20), (IdStyle::Text, 1 << 20)]
    {
        let dir = tempfile::tempdir().unwrap();
        let edges = random_edges(2, 200_000, 30_000, &style);
        let path = write(&dir, &edges, true);
        let mut first: Option<BTreeMap<PathBuf, Vec<u8>>> = None;
        for (threads, memory) in
            [(1, AMPLE), (2, AMPLE), (4, AMPLE), (1, spills), (2, spills), (4, spills)]
        {
            let out = dir.path().join(format!("{threads}-{memory}"));
            let relation = RelationOptions {
                directed: true,
                duplicates: Duplicates::First,
                ..RelationOptions::default()
            };
            let summary =
                run(&IngestEdges { relation, ..job(&[&path], out.clone()) }, threads, memory)
                    .unwrap();
            assert_eq!(summary.counts.spilled > 0, memory == spills);
            let found = bytes(&out);
            match &first {
                None => first = Some(found),
                Some(first) => assert!(*first == found, "{threads} threads, {memory} bytes"),
            }
        }
    }
}

#[test]
fn one_edge_a_million_times_fits_in_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut edges = vec![("7".to_string(), "9".to_string(), 0.5); 300_000];
    edges.push(("9".into(), "8".into(), 1.0));
    let path = write(&dir, &edges, true);
    let out = dir.path().join("out");
    let relation = RelationOptions {
        duplicates: Duplicates::Sum,
        normalise: Normalisation::None,
        ..RelationOptions::default()
    };
    let summary = run(&IngestEdges { relation, ..job(&[&path], out.clone()) }, 2, 1 << 20).unwrap();
    assert_eq!(summary.counts.merged, 299_999);
    assert_eq!(matrix(&out)[&("7".to_string(), "9".to_string())], 150_000.0);
}

#[test]
fn reordering_changes_numbers_and_nothing_else() {
    for style in [IdStyle::Small, IdStyle::Sparse, IdStyle::Text] {
        for directed in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = write(&dir, &random_edges(4, 3000, 400, &style), true);
            let relation = RelationOptions { directed, ..RelationOptions::default() };
            let mut matrices = Vec::new();
            for order in [Order::None, Order::Degree, Order::Rcm] {
                let out = dir.path().join(format!("{order:?}"));
                run(
                    &IngestEdges {
                        order,
                        relation: relation.clone(),
                        ..job(&[&path], out.clone())
                    },
                    2,
                    AMPLE,
                )
                .unwrap();
                matrices.push(matrix(&out));
                let dataset = DatasetDir::open(&out).unwrap();
                if order == Order::Degree && !directed {
                    let relation = dataset.relation("edges").unwrap();
                    let degrees: Vec<_> =
                        relation.incoming.offsets().windows(2).map(|w| w[1] - w[0]).collect();
                    assert!(degrees.is_sorted_by(|a, b| a >= b));
                }
            }
            assert_close(&matrices[1], &matrices[0]);
            assert_close(&matrices[2], &matrices[0]);
        }
    }
}

#[test]
fn a_dataset_with_integer_ids_knows_isolated_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("e.csv");
    std::fs::write(&path, "source,target\n0,1\n1,4\n").unwrap();
    let out = dir.path().join("out");
    let summary =
        run(&IngestEdges { node_count: Some(7), ..job(&[&path], out) }, 1, AMPLE).unwrap();
    assert_eq!((summary.manifest.nodes, summary.manifest.relations[0].nonzeros), (7, 4 + 7));
    let out = dir.path().join("out2");
    assert_eq!(run(&job(&[&path], out), 1, AMPLE).unwrap().manifest.nodes, 3);
    // The same with ids that are too large for a bitmap in this memory.
    let path = dir.path().join("many.txt");
    let lines: String = (0..1000u64).map(|i| format!("{} {}\n", i % 7, 1_500_000 + i)).collect();
    std::fs::write(&path, lines).unwrap();
    let (nodes, out) = (1_600_000, dir.path().join("many"));
    let summary =
        run(&IngestEdges { node_count: Some(nodes), ..job(&[&path], out.clone()) }, 2, 1 << 20)
            .unwrap();
    assert_eq!(
        (summary.manifest.nodes, summary.manifest.relations[0].nonzeros),
        (nodes, 2000 + nodes)
    );
    let Ids::Integer(ids) = DatasetDir::open(&out).unwrap().ids().unwrap() else {
        panic!("integers")
    };
    assert!(ids.into_iter().eq(0..nodes));
}
