//! Compares `ingest relations` with naive products and maps, for every option and any number of
//! threads; messages are exact.

mod fixture;
mod messages;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fixture::{AMPLE, Entries, Fixture, bytes, ids, run_with, shown};
use ignn_format::random::Sequence;
use ignn_ingest::command::relations::IngestRelations;
use sprs::{CsMat, TriMat};

/// Random pairs, with duplicates.
fn pairs(seed: u64, count: usize, firsts: u64, seconds: u64) -> Vec<(u64, u64)> {
    let mut stream = Sequence::new(seed, "pairs");
    (0..count)
        .map(|_| (stream.below(firsts), stream.below(seconds).min(stream.below(seconds))))
        .collect()
}

fn matrix(pairs: &[(u64, u64)], rows: usize, columns: usize) -> CsMat<f64> {
    let distinct: BTreeSet<_> = pairs.iter().collect();
    let mut matrix = TriMat::new((rows, columns));
    distinct
        .iter()
        .for_each(|&&(row, column)| matrix.add_triplet(row as usize, column as usize, 1.0));
    matrix.to_csr()
}

fn table(
    pairs: &[(u64, u64)],
    first: impl Fn(u64) -> String,
    second: impl Fn(u64) -> String,
) -> String {
    pairs.iter().map(|&(a, b)| format!("{}\t{}\n", first(a), second(b))).collect()
}

fn expected(
    product: &CsMat<f64>,
    counted: bool,
    diagonal: bool,
    name: impl Fn(u64) -> String,
) -> Entries {
    let entries = product.iter().filter(|(_, (row, column))| diagonal || row != column);
    let value = |count: f64| if counted { count as f32 } else { 1.0 };
    entries
        .map(|(&count, (row, column))| ((name(row as u64), name(column as u64)), value(count)))
        .collect()
}

const LISTS: &str = r#"
target = "author"
normalise = "none"
[lists.pa]
file = "pa.tsv"
columns = ["paper", "author"]
[lists.pc]
file = "pc.tsv"
columns = ["paper", "conference"]
[lists.cites]
file = "cites.tsv"
columns = ["paper", "paper"]
directed = true
[lists.near]
file = "near.tsv"
columns = ["conference", "conference"]
[lists.knows]
file = "knows.tsv"
columns = ["author", "author"]
"#;

#[test]
fn paths_agree_with_a_naive_product() {
    const PAPERS: u64 = 90;
    const AUTHORS: u64 = 40;
    const CONFERENCES: u64 = 7;
    let pa = pairs(1, 160, PAPERS, AUTHORS);
    let pc = pairs(2, 90, PAPERS, CONFERENCES);
    let cites = pairs(3, 120, PAPERS, PAPERS);
    let near = pairs(4, 9, CONFERENCES, CONFERENCES);
    let knows = pairs(5, 60, AUTHORS, AUTHORS);
    let (p, a, c) = (PAPERS as usize, AUTHORS as usize, CONFERENCES as usize);
    let (pa_m, pc_m, cites_m) = (matrix(&pa, p, a), matrix(&pc, p, c), matrix(&cites, p, p));
    let both = |pairs: &[(u64, u64)]| {
        pairs.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect::<Vec<_>>()
    };
    let (near_m, knows_m) = (matrix(&both(&near), c, c), matrix(&both(&knows), a, a));
    let ap = pa_m.transpose_view().to_csr();
    let apc = &ap * &pc_m;
    let back = |half: &CsMat<f64>| half.transpose_view().to_csr();
    let products = [
        (r#"["author", "paper", "author"]"#, &ap * &pa_m, true),
        (r#"["author", "paper", "conference", "paper", "author"]"#, &apc * &back(&apc), true),
        (r#"["author", "paper", "paper", "author"]"#, &(&ap * &cites_m) * &pa_m, false),
        (
            r#"["author", "paper", "conference", "conference", "paper", "author"]"#,
            &(&apc * &near_m) * &back(&apc),
            true,
        ),
        (r#"["author", "author"]"#, knows_m.clone(), true),
        (r#"["author", "author", "paper", "author"]"#, &(&knows_m * &ap) * &pa_m, false),
    ];
    let integer = |id: u64| (id * 3 + 1).to_string();
    let text = |id: u64| format!("n{}", id * 7 % 100);
    for names in [&integer as &dyn Fn(u64) -> String, &text] {
        let files = Fixture::new(&[
            ("pa.tsv", &table(&pa, names, names)),
            ("pc.tsv", &table(&pc, names, names)),
            ("cites.tsv", &table(&cites, names, names)),
            ("near.tsv", &table(&near, names, names)),
            ("knows.tsv", &table(&knows, names, names)),
        ]);
        for (counted, diagonal) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut spec = LISTS.to_string();
            for (at, (path, ..)) in products.iter().enumerate() {
                spec += &format!(
                    "[relations.r{at}]\npath = {path}\ncounted = {counted}\ndiagonal = {diagonal}\n"
                );
            }
            let (summary, notes) = files.run(&spec).unwrap();
            for (at, (path, product, symmetric)) in products.iter().enumerate() {
                let found = files.entries(&format!("r{at}"));
                assert_eq!(
                    found,
                    expected(product, counted, diagonal, names),
                    "{path} {counted} {diagonal}"
                );
                assert_eq!(summary.manifest.relations[at].symmetric, *symmetric, "{path}");
            }
            let repeated = pa.len() - pa_m.nnz();
            assert!(
                repeated > 0
                    && notes[0]
                        == format!("{repeated} pairs of list pa are duplicates and count once")
            );
        }
    }
}

#[test]
fn threads_and_memory_change_no_byte() {
    let files = Fixture::new(&[
        (
            "pa.tsv",
            &table(&pairs(1, 20_000, 8_000, 3_000), |id| id.to_string(), |id| id.to_string()),
        ),
        ("pc.tsv", &table(&pairs(2, 8_000, 8_000, 40), |id| id.to_string(), |id| format!("c{id}"))),
        ("e.tsv", &table(&pairs(3, 5_000, 3_100, 2_900), |id| id.to_string(), |id| id.to_string())),
    ]);
    let spec = r#"
        target = "author"
        [lists.pa]
        file = "pa.tsv"
        columns = ["paper", "author"]
        [lists.pc]
        file = "pc.tsv"
        columns = ["paper", "conference"]
        [relations.apcpa]
        path = ["author", "paper", "conference", "paper", "author"]
        counted = true
        [relations.e]
        file = "e.tsv"
        ids = "string"
        directed = true
    "#;
    // The list pc has text, so papers are text; authors are text only because of the relation e.
    let mut first: Option<BTreeMap<PathBuf, Vec<u8>>> = None;
    for (threads, memory) in [(1, AMPLE), (2, AMPLE), (4, AMPLE), (1, 8 << 20), (4, 8 << 20)] {
        let job = files.job(spec, &format!("{threads}-{memory}"));
        let (summary, _) = run_with(&job, threads, memory).unwrap();
        assert_eq!(summary.counts.spilled > 0, memory < AMPLE);
        let found = bytes(&job.out);
        match &first {
            None => first = Some(found),
            Some(first) => assert!(*first == found, "{threads} threads, {memory} bytes"),
        }
    }
}

/// Two relations from files and one path, whose ids overlap partly.
const MIXED: &str = r#"
target = "author"
normalise = "none"
[lists.pa]
file = "pa.csv"
columns = ["paper", "author"]
[relations.likes]
file = "likes.tsv"
directed = true
duplicates = "sum"
self-loops = "keep"
[relations.apa]
path = ["author", "paper", "author"]
[relations.near]
file = "near.tsv"
normalise = "row"
"#;

fn mixed(scale: u64) -> Fixture {
    let id = |id: u64| id * scale;
    Fixture::new(&[
        // The header has the columns in reverse order.
        (
            "pa.csv",
            &format!(
                "author,year,paper\n{},2001,10\n{},2002,10\n{},2001,11\n",
                id(2),
                id(9),
                id(4)
            ),
        ),
        ("likes.tsv", &format!("{0}\t{1}\n{0}\t{1}\n{1}\t{1}\n", id(5), id(2))),
        ("near.tsv", &format!("{}\t{}\n", id(0), id(7))),
    ])
}

#[test]
fn all_relations_share_the_union_of_the_ids() {
    // Ids in a bitmap, and ids too large for one.
    for scale in [1, 1 << 40] {
        let files = mixed(scale);
        let (summary, _) = files.run(MIXED).unwrap();
        let id = |id: u64| id * scale;
        assert_eq!(ids(&files), [0, 2, 4, 5, 7, 9].map(|i| id(i).to_string()).join(" "));
        assert_eq!(shown(&files.entries("likes")), format!("{0}>{0}:1 {1}>{0}:2", id(2), id(5)));
        assert_eq!(shown(&files.entries("apa")), format!("{0}>{1}:1 {1}>{0}:1", id(2), id(9)));
        assert_eq!(shown(&files.entries("near")), format!("{0}>{1}:1 {1}>{0}:1", id(0), id(7)));
        let names: Vec<_> =
            summary.manifest.relations.iter().map(|relation| relation.name.as_str()).collect();
        assert_eq!(names, ["likes", "apa", "near"]);
        let summaries: Vec<_> = summary
            .manifest
            .relations
            .iter()
            .zip(&summary.by_relation)
            .map(|(r, c)| (r.name.as_str(), c.read, c.merged))
            .collect();
        assert_eq!(summaries, [("likes", 3, 1), ("apa", 1, 0), ("near", 1, 0)]);
    }
}

#[test]
fn nodes_can_be_counted_listed_or_given_by_features() {
    let files = mixed(1);
    std::fs::write(files.0.path().join("nodes.txt"), "9\n7\n5\n4\n3\n2\n0\n").unwrap();
    let mtx = "%%MatrixMarket matrix coordinate real general\n12 2 1\n3 1 0.5\n";
    std::fs::write(files.0.path().join("x.mtx"), mtx).unwrap();
    let expect = |spec: &str, nodes: &str| {
        files.run(spec).unwrap();
        assert_eq!(ids(&files), nodes);
        assert_eq!(shown(&files.entries("likes")), "2>2:1 5>2:2");
        assert_eq!(shown(&files.entries("apa")), "2>9:1 9>2:1");
    };
    expect(&format!("nodes = 11\n{MIXED}"), "0 1 2 3 4 5 6 7 8 9 10");
    expect(&format!("nodes = \"nodes.txt\"\n{MIXED}"), "9 7 5 4 3 2 0");
    expect(&format!("features = \"x.mtx\"\n{MIXED}"), "0 1 2 3 4 5 6 7 8 9 10 11");
    std::fs::remove_dir_all(files.0.path().join("out")).unwrap();
    let beyond = "expected a node id below 9, as set by nodes in the specification, found \"9\"";
    assert_eq!(files.message(&format!("nodes = 9\n{MIXED}")), format!("pa.csv:3: {beyond}"));
    let likes = "nodes = 4\ntarget = \"author\"\n[relations.likes]\nfile = \"likes.tsv\"\n";
    let beyond = "expected a node id below 4, as set by nodes in the specification, found \"5\"";
    assert_eq!(files.message(likes), format!("likes.tsv:1: {beyond}"));
    std::fs::write(files.0.path().join("nodes.txt"), "2\n4\n").unwrap();
    let message = files.message(&format!("nodes = \"nodes.txt\"\n{MIXED}"));
    assert_eq!(message, "pa.csv:3: expected a node of nodes.txt, found \"9\"");
}

#[test]
fn features_labels_and_splits_come_along() {
    let files = mixed(1);
    for (name, text) in
        [("l.csv", "node,label\n2,x\n9,y\n4,x\n"), ("s.csv", "node,split\n2,train\n9,test\n")]
    {
        std::fs::write(files.0.path().join(name), text).unwrap();
    }
    std::fs::write(files.0.path().join("x.csv"), "node,a,b\n2,1,2\n9,3,4\n").unwrap();
    let data = "features = \"x.csv\"\nmissing-features = \"zero\"\nlabels = \"l.csv\"\nsplits = \
                [\"s.csv\"]\n\
                split = [\"drawn:train=0.5,test=0.5\"]\n";
    let (summary, notes) = files.run(&format!("{data}{MIXED}")).unwrap();
    let manifest = &summary.manifest;
    assert_eq!(manifest.features.as_ref().unwrap().columns, 2);
    assert_eq!(manifest.labels.as_ref().unwrap().classes, 2);
    assert_eq!(
        manifest.splits.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
        ["default", "drawn"]
    );
    assert!(notes.contains(&"nodes without features, which got zeros: 4".to_string()));
    assert_eq!(
        manifest.made_by.options["relations.apa"],
        "author-paper-author binary without its diagonal"
    );
}

#[test]
fn lists_may_be_matrices_and_paths_may_name_their_lists() {
    let mtx = "%%MatrixMarket matrix coordinate pattern general\n3 5 3\n1 1\n1 2\n3 2\n";
    let files = Fixture::new(&[("pa.mtx", mtx), ("wrote.tsv", "0 4\n0 0\n")]);
    let spec = r#"
        target = "author"
        normalise = "none"
        [lists.matrix]
        file = "pa.mtx"
        columns = ["paper", "author"]
        [lists.wrote]
        file = "wrote.tsv"
        columns = ["paper", "author"]
        [relations.matrix]
        path = ["author", "paper", "author"]
        through = ["matrix", "matrix"]
        counted = true
        diagonal = true
        [relations.both]
        path = ["author", "paper", "author"]
        through = ["matrix", "wrote"]
    "#;
    let file = "file = \"pa.mtx\"";
    // The format recognised, named, and named as in version 0.1.0.
    for format in ["", "format = \"mtx\"", "form = \"matrix-market\""] {
        let spec = spec.replace(file, &format!("{file}\n{format}"));
        let (summary, _) = files.run(&spec).unwrap();
        assert_eq!(ids(&files), "0 1 2 3 4");
        assert_eq!(shown(&files.entries("matrix")), "0>0:1 0>1:1 1>0:1 1>1:2");
        assert_eq!(shown(&files.entries("both")), "0>4:1 1>0:1 1>4:1");
        assert!(!summary.manifest.relations[1].symmetric);
    }
}

/// The real data, if it is available.
fn shared(folder: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let shared =
        std::env::var_os("IGNN_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let data = shared.join("data").join(folder);
    if !data.exists() {
        eprintln!("skipped: no {} (set IGNN_SHARED to the folder with data/)", data.display());
        return None;
    }
    Some(data)
}

/// Runs an example of the project, changed a little; returns the non-zeros of its relations.
fn example(name: &str, change: impl Fn(String) -> String) -> Option<Vec<(String, u64)>> {
    let data = shared(name)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let spec = std::fs::read_to_string(root.join(format!("examples/specs/{name}.toml"))).unwrap();
    let files = Fixture::new(&[]);
    let job = IngestRelations { data: Some(data), ..files.job(&change(spec), "out") };
    let (summary, _) = run_with(&job, 2, AMPLE).unwrap();
    Some(summary.manifest.relations.iter().map(|r| (r.name.clone(), r.nonzeros)).collect())
}

#[test]
fn published_sets_have_their_published_counts() {
    let named = |all: &[(&str, u64)]| {
        all.iter().map(|&(name, count)| (name.to_string(), count)).collect::<Vec<_>>()
    };
    // Renormalisation gives every node a self-loop.
    if let Some(found) = example("acm", |spec| spec) {
        assert_eq!(found, named(&[("pap", 29_281), ("psp", 2_210_761)]));
    }
    if let Some(found) = example("imdb", |spec| spec) {
        assert_eq!(found, named(&[("mam", 66_428), ("mdm", 13_788)]));
    }
    let kept = |spec: String| {
        format!("normalise = \"none\"\n{}", spec.replace("path =", "diagonal = true\npath ="))
    };
    if let Some(found) = example("dblp-authors", kept) {
        assert_eq!(found, named(&[("apa", 11_113), ("apcpa", 5_000_495), ("aptpa", 7_043_571)]));
    }
}
