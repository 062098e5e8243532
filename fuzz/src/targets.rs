//! The bodies of the fuzz targets: plain functions of bytes, which panic where a property is
//! violated. The fuzzers call them with what libFuzzer makes up; `tests/fuzz_corpus.rs` of the
//! engine calls them with the committed corpus.
//!
//! Every target works in a temporary directory and reads through the same functions as the program.
//! Jobs run with one thread and little memory ([`MEMORY`]). Whoever calls the targets bounds the
//! memory of the process, so that a size in a header that is believed ends in a crash.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ignn::config::Config;
use ignn::format::DatasetDir;
use ignn::format::check::check;
use ignn::format::checksum;
use ignn::format::manifest::Normalisation;
use ignn::graph::{Graph, GraphBuilder};
use ignn::models::Model;
use ignn::run::{CrossvalDir, RunDir};
use ignn::train::Trainer;
use ignn_ingest::command::dgcnn::IngestDgcnn;
use ignn_ingest::command::edges::IngestEdges;
use ignn_ingest::command::graphsage::IngestGraphSage;
use ignn_ingest::command::node_data::NodeTable;
use ignn_ingest::command::relations::IngestRelations;
use ignn_ingest::command::tu::IngestTu;
use ignn_ingest::context::Recorder;
use ignn_ingest::edges::options::{Duplicates, RelationOptions, SelfLoops};
use ignn_ingest::features::encoded::{Chosen, Words};
use ignn_ingest::labels::{self, CommunityChoice};
use ignn_ingest::nodes::Consecutive;
use ignn_ingest::source::{node_link, npy::NpyArray, npz, zip::Zip};
use ignn_ingest::{Context, IngestError, splits};
use tempfile::TempDir;

/// Memory of a job.
const MEMORY: u64 = 4 << 20;
/// Longer inputs only make the fuzzers slow.
const MAX_BYTES: usize = 64 << 10;

/// A target: its name, which is that of its corpus, and its body.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: &[Target] = &[
    ("edge_list", edge_list),
    ("node_table", node_table),
    ("matrix_market", matrix_market),
    ("npy", npy),
    ("npz", npz),
    ("parquet", parquet),
    ("node_link", node_link),
    ("graphsage", graphsage),
    ("tu", tu),
    ("dgcnn", dgcnn),
    ("communities", communities),
    ("spec", spec),
    ("dataset", dataset),
    ("model", model),
    ("checkpoint", checkpoint),
    ("config", config),
    ("run_files", run_files),
];

/// A directory with files.
struct Place(TempDir);

impl Place {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let place = Self(tempfile::tempdir().expect("a temporary directory"));
        for (name, bytes) in files {
            place.file(name, bytes);
        }
        place
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().expect("a name below the directory")).expect("created");
        fs::write(&path, bytes).expect("written");
        path
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a job that writes a dataset to `out`. What it writes must be sound, and what it says
    /// must name a file.
    fn job<T>(&self, out: &str, run: impl FnOnce(&Context) -> Result<T, IngestError>) {
        let observer = Recorder::default();
        let context = Context { threads: 1, memory: MEMORY, seed: 7, observer: &observer };
        match run(&context) {
            Ok(_) => {
                let made = DatasetDir::open(self.path(out)).expect("a dataset that can be opened");
                let findings = check(&made, &|_, _, _| {});
                assert!(findings.is_empty(), "a dataset that was just written: {findings:?}");
            }
            Err(error) => {
                self.names_a_file(&error.to_string());
                assert!(!self.path(out).exists(), "a job that failed left a dataset");
            }
        }
    }

    fn names_a_file(&self, message: &str) {
        let directory = self.0.path().display().to_string();
        assert!(message.contains(&directory), "no file is named: {message}");
        assert!(message.len() < 4096, "a message of {} bytes", message.len());
    }

    /// The outcome of a parser, whose error must name a file.
    fn parsed<T, E: std::fmt::Display>(&self, outcome: Result<T, E>) -> Option<T> {
        outcome.map_err(|error| self.names_a_file(&error.to_string())).ok()
    }
}

/// Splits bytes into files: one byte for the name (a position in `names`), two for the length
/// (little endian), the content, and so on. What exceeds the end is cut.
pub fn unpack<'a>(mut bytes: &'a [u8], names: &[&'static str]) -> Vec<(&'static str, &'a [u8])> {
    let mut files = Vec::new();
    while let [name, low, high, rest @ ..] = bytes {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        files.push((names[usize::from(*name) % names.len()], &rest[..length]));
        bytes = &rest[length..];
    }
    files
}

/// The bytes that [`unpack`] splits into these files, for seeds.
pub fn pack(files: &[(&str, Vec<u8>)], names: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in files {
        let position = names.iter().position(|known| known == name).expect("a known name");
        bytes.push(position as u8);
        bytes.extend(u16::try_from(content.len()).expect("a small file").to_le_bytes());
        bytes.extend(content);
    }
    bytes
}

/// A byte that chooses among variants, and the rest.
fn choice(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    (rest.len() <= MAX_BYTES).then_some((first, rest))
}

/// Edge lists and adjacency lists, plain or compressed; the first byte chooses options.
pub fn edge_list(bytes: &[u8]) {
    let Some((options, text)) = choice(bytes) else { return };
    let place = Place::new(&[("edges.txt", text)]);
    let mut job = IngestEdges::new(vec![place.path("edges.txt")], place.path("out"));
    job.relation.directed = options & 1 != 0;
    job.input.unweighted = options & 2 != 0;
    job.input.header = [None, Some(false), Some(true), None][usize::from(options >> 2 & 3)];
    if options & 16 != 0 {
        job.input.weight = Some("2".into());
    }
    job.relation.normalise = match options >> 5 & 3 {
        0 | 1 => Normalisation::Renorm,
        2 => Normalisation::Row,
        _ => Normalisation::None,
    };
    if options & 128 != 0 {
        (job.relation.duplicates, job.relation.self_loops) = (Duplicates::Sum, SelfLoops::Keep);
    }
    place.job("out", |context| job.run(context));
}

/// A graph of four nodes, 0 to 3.
const SQUARE: &[u8] = b"0 1\n1 2\n2 3\n3 0\n";

/// Adds features to the square.
fn features(place: &Place, file: &str, zero: bool) {
    let edges = place.file("edges.txt", SQUARE);
    let mut job = IngestEdges::new(vec![edges], place.path("out"));
    job.node_data.features = Some(place.path(file));
    job.node_data.missing_features_zero = zero;
    place.job("out", |context| job.run(context));
}

/// Tables of labels, splits and features as text, or one table with everything; the first byte
/// chooses which.
pub fn node_table(bytes: &[u8]) {
    let Some((kind, text)) = choice(bytes) else { return };
    let place = Place::new(&[("table.csv", text)]);
    if kind & 0x40 != 0 {
        return whole_table(&place, kind);
    }
    table(&place, "table.csv", kind);
}

/// A table with everything about the nodes, for a graph of its first two nodes.
fn whole_table(place: &Place, kind: u8) {
    let edges = place.file("edges.csv", b"a,b\n");
    let mut job = IngestEdges::new(vec![edges], place.path("out"));
    let mut table = NodeTable::new(place.path("table.csv"));
    table.columns.features = Chosen::All;
    table.columns.words = if kind & 1 != 0 { Words::Hashed(3) } else { Words::Auto };
    table.label = (kind & 2 != 0).then(|| "label".into());
    table.splits = if kind & 4 != 0 { vec!["part".into()] } else { Vec::new() };
    job.node_data.regress = (kind & 8 != 0).then(|| "number".into());
    job.node_data.table = Some(table);
    place.job("out", |context| job.run(context));
}

fn table(place: &Place, file: &str, kind: u8) {
    let observer = Recorder::default();
    let context = Context { threads: 1, memory: MEMORY, seed: 7, observer: &observer };
    let path = place.path(file);
    match kind % 4 {
        0 => drop(place.parsed(labels::from_table(&context, &Consecutive(4), &path))),
        1 => drop(place.parsed(splits::from_table(&context, &Consecutive(4), &path))),
        kind => features(place, file, kind == 3),
    }
}

/// Matrix Market files as edges and as features.
pub fn matrix_market(bytes: &[u8]) {
    let Some((kind, text)) = choice(bytes) else { return };
    let place = Place::new(&[("x.mtx", text)]);
    if kind & 1 != 0 {
        return features(&place, "x.mtx", kind & 2 != 0);
    }
    let mut job = IngestEdges::new(vec![place.path("x.mtx")], place.path("out"));
    job.relation.directed = kind & 2 != 0;
    place.job("out", |context| job.run(context));
}

/// NumPy arrays as features.
pub fn npy(bytes: &[u8]) {
    if bytes.len() > MAX_BYTES {
        return;
    }
    let place = Place::new(&[("x.npy", bytes)]);
    if let Some(array) = place.parsed(NpyArray::open(&place.path("x.npy")))
        && array.columns() == 1
    {
        let mut out = vec![0; (array.rows() as usize).min(MAX_BYTES)];
        let _ = place.parsed(array.read_integers(0, &mut out));
    }
    features(&place, "x.npy", true);
}

/// NumPy archives as features, and zip archives by themselves.
pub fn npz(bytes: &[u8]) {
    if bytes.len() > MAX_BYTES {
        return;
    }
    let place = Place::new(&[("x.npz", bytes)]);
    let file = fs::File::open(place.path("x.npz")).expect("it was just written");
    if let Ok(zip) = Zip::open(file) {
        let names: Vec<String> = zip.names().take(8).map(String::from).collect();
        for name in names {
            if let Ok(member) = zip.member(&name) {
                let mut limited = std::io::Read::take(member, 1 << 20);
                let _ = std::io::copy(&mut limited, &mut std::io::sink());
            }
        }
    }
    let _ = place.parsed(npz::rows(&place.path("x.npz")));
    features(&place, "x.npz", true);
}

/// Parquet files as edges, labels, splits and features.
pub fn parquet(bytes: &[u8]) {
    let Some((kind, bytes)) = choice(bytes) else { return };
    let place = Place::new(&[("x.parquet", bytes)]);
    match kind % 5 {
        4 => {
            let job = IngestEdges::new(vec![place.path("x.parquet")], place.path("out"));
            place.job("out", |context| job.run(context));
        }
        kind => table(&place, "x.parquet", kind),
    }
}

/// Node-link JSON.
pub fn node_link(bytes: &[u8]) {
    if bytes.len() > MAX_BYTES {
        return;
    }
    let place = Place::new(&[("graph.json", bytes)]);
    let path = place.path("graph.json");
    if let Some(graph) = place.parsed(node_link::read(&path)) {
        let nodes = graph.nodes.len() as u32;
        let edges = place.parsed(graph.edges(&path)).unwrap_or_default();
        assert!(edges.iter().flatten().all(|&end| end < nodes), "an edge beyond the nodes");
    }
}

/// The files of both formats of GraphSAGE.
pub const GRAPHSAGE_FILES: &[&str] = &[
    "raw/x-G.json",
    "raw/x-id_map.json",
    "raw/x-class_map.json",
    "raw/x-feats.npy",
    "raw/train_graph.json",
    "raw/train_graph_id.npy",
    "raw/train_feats.npy",
    "raw/train_labels.npy",
    "raw/valid_graph.json",
    "raw/valid_graph_id.npy",
    "raw/valid_feats.npy",
    "raw/valid_labels.npy",
    "raw/test_graph.json",
    "raw/test_graph_id.npy",
    "raw/test_feats.npy",
    "raw/test_labels.npy",
];

/// Directories in the formats of GraphSAGE.
pub fn graphsage(bytes: &[u8]) {
    let place = Place::new(&unpack(bytes, GRAPHSAGE_FILES));
    let job = IngestGraphSage {
        directory: place.path("raw"),
        out: place.path("out"),
        force: false,
        relation: RelationOptions::default(),
    };
    place.job("out", |context| job.run(context));
}

/// The files of a TU dataset.
pub const TU_FILES: &[&str] = &[
    "raw/T_A.txt",
    "raw/T_graph_indicator.txt",
    "raw/T_graph_labels.txt",
    "raw/T_node_labels.txt",
    "raw/T_node_attributes.txt",
];

/// TU datasets.
pub fn tu(bytes: &[u8]) {
    let place = Place::new(&unpack(bytes, TU_FILES));
    let job = IngestTu {
        regress: None,
        draw: Vec::new(),
        directory: place.path("raw"),
        out: place.path("out"),
        force: false,
        degree_features: bytes.len() & 1 != 0,
        relation: RelationOptions::default(),
    };
    place.job("out", |context| job.run(context));
}

/// DGCNN datasets.
pub fn dgcnn(bytes: &[u8]) {
    if bytes.len() > MAX_BYTES {
        return;
    }
    let place = Place::new(&[("set.txt", bytes)]);
    let job = IngestDgcnn {
        file: place.path("set.txt"),
        out: place.path("out"),
        force: false,
        relation: RelationOptions::default(),
    };
    place.job("out", |context| job.run(context));
}

/// Community files.
pub fn communities(bytes: &[u8]) {
    let Some((kind, text)) = choice(bytes) else { return };
    let place = Place::new(&[("cmty.txt", text)]);
    let observer = Recorder::default();
    let context = Context { threads: 1, memory: MEMORY, seed: 7, observer: &observer };
    let choice = match kind % 4 {
        0 => CommunityChoice::All,
        1 => CommunityChoice::LargerThan(2),
        _ => CommunityChoice::Top(usize::from(kind)),
    };
    let path = place.path("cmty.txt");
    let _ = place.parsed(labels::from_communities(&context, &Consecutive(4), &path, choice));
}

/// Specifications of relations, beside a few files that they can name.
pub fn spec(bytes: &[u8]) {
    // Names of other files, and patterns, lead out of the directory.
    if bytes.len() > MAX_BYTES || bytes.iter().any(|byte| b"/*?".contains(byte)) {
        return;
    }
    let place = Place::new(&[
        ("spec.toml", bytes),
        ("edges.txt", SQUARE),
        ("pairs.tsv", b"paper\tauthor\n0\t0\n0\t1\n1\t2\n2\t3\n3\t3\n"),
        ("labels.csv", b"node,label\n0,a\n1,b\n2,a\n3,b\n"),
        ("features.csv", b"node,f0\n0,1\n1,2\n2,0\n3,1\n"),
    ]);
    let job = IngestRelations {
        encoding: None,
        spec: place.path("spec.toml"),
        data: None,
        out: place.path("out"),
        force: false,
    };
    place.job("out", |context| job.run(context));
}

/// The files of a dataset.
pub const DATASET_FILES: &[&str] = &[
    "d/manifest.json",
    "d/ids.parquet",
    "d/labels.parquet",
    "d/classes.parquet",
    "d/splits.parquet",
    "d/graphs.parquet",
    "d/features/part-00000.parquet",
    "d/features/part-00001.parquet",
    "d/relations/edges/in.offsets.u64",
    "d/relations/edges/in.neighbours.u32",
    "d/relations/edges/in.values.f32",
    "d/relations/edges/scale.f32",
    "d/relations/flow/in.offsets.u64",
    "d/relations/flow/in.neighbours.u32",
    "d/relations/flow/in.values.f32",
    "d/relations/flow/out.offsets.u64",
    "d/relations/flow/out.neighbours.u32",
    "d/relations/flow/out.values.f32",
    "d/relations/flow/scale.f32",
    "d/relations/link/in.offsets.u64",
    "d/relations/link/in.neighbours.u32",
    "d/relations/link/out.offsets.u64",
    "d/relations/link/out.neighbours.u32",
];

/// Datasets; the first byte says whether the checksums are made right, so that damage gets past
/// them. Where `check` finds nothing, everything can be read.
pub fn dataset(bytes: &[u8]) {
    let Some((sealed, bytes)) = choice(bytes) else { return };
    let place = Place::new(&unpack(bytes, DATASET_FILES));
    let path = place.path("d");
    if sealed & 1 != 0 {
        seal(&path);
    }
    let Some(dataset) = place.parsed(DatasetDir::open(&path)) else { return };
    let findings = check(&dataset, &|_, _, _| {});
    let manifest = dataset.manifest();
    let mut failures: Vec<String> = Vec::new();
    let mut note = |outcome: Result<(), ignn::FormatError>| {
        if let Err(error) = outcome {
            place.names_a_file(&error.to_string());
            failures.push(error.to_string());
        }
    };
    for relation in &manifest.relations {
        note(dataset.relation(&relation.name).map(drop));
    }
    note(dataset.ids().map(drop));
    note(dataset.splits().map(drop));
    note(dataset.graphs().map(drop));
    if manifest.labels.is_some() {
        note(dataset.labels().map(drop));
    }
    if let Some(features) = &manifest.features {
        let (rows, columns) = (manifest.nodes.min(64) as usize, features.columns.min(64) as usize);
        match features.kind {
            ignn::format::features::FeatureKind::Sparse => note(dataset.read_sparse().map(drop)),
            ignn::format::features::FeatureKind::Dense if features.columns == columns as u64 => {
                let mut out = vec![0.0; rows * columns];
                note(dataset.read_dense(0, &mut out, columns));
            }
            ignn::format::features::FeatureKind::Dense => {}
        }
    }
    if findings.is_empty() {
        assert!(failures.is_empty(), "`check` finds nothing, but: {failures:?}");
        let graph = Graph::open(&path).expect("a graph of a sound dataset");
        graph.relations().expect("relations of a sound dataset");
        graph.collection().expect("graphs of a sound dataset");
    }
}

/// Makes the checksums of array headers and of the manifest those of what is there.
fn seal(dataset: &Path) {
    for name in DATASET_FILES.iter().filter(|name| name.contains("/relations/")) {
        let path = dataset.join(&name[2..]);
        if let Ok(mut bytes) = fs::read(&path)
            && bytes.len() >= 64
        {
            let sum = checksum::of_bytes(&bytes[..56]);
            bytes[56..64].copy_from_slice(&sum.to_le_bytes());
            fs::write(&path, bytes).expect("written");
        }
    }
    let path = dataset.join("manifest.json");
    let Ok(text) = fs::read(&path) else { return };
    let Ok(mut manifest) = serde_json::from_slice::<serde_json::Value>(&text) else { return };
    let Some(fields) = manifest.as_object_mut() else { return };
    fields.remove("xxh3");
    if let Some(files) = fields.get_mut("files").and_then(serde_json::Value::as_object_mut) {
        for (name, entry) in files.iter_mut() {
            let known = DATASET_FILES.iter().any(|known| known[2..] == **name);
            let skip = if name.starts_with("relations/") { 64 } else { 0 };
            if known && let Ok(found) = checksum::of_file(&dataset.join(name), skip) {
                *entry = serde_json::json!({ "bytes": found.bytes, "xxh3": found.xxh3 });
            }
        }
    }
    let text = serde_json::to_string_pretty(&manifest).expect("plain data");
    let body = text.strip_suffix("\n}").unwrap_or(&text);
    let sum = checksum::hex(checksum::of_bytes(body.as_bytes()));
    fs::write(&path, format!("{body},\n  \"xxh3\": \"{sum}\"\n}}\n")).expect("written");
}

/// Model files: what was read and written again is the same.
pub fn model(bytes: &[u8]) {
    if bytes.len() > MAX_BYTES {
        return;
    }
    let place = Place::new(&[("model.safetensors", bytes)]);
    let Some(model) = place.parsed(Model::load(place.path("model.safetensors"))) else { return };
    let [first, second] = ["first.safetensors", "second.safetensors"].map(|name| place.path(name));
    model.save(&first).expect("a model that was read can be written");
    let again = Model::load(&first).expect("a model that was written can be read");
    again.save(&second).expect("and written again");
    assert_eq!(fs::read(first).expect("there"), fs::read(second).expect("there"));
    // It need not fit the graph, but may not bring the program down.
    let _ = again.predict(&TRAINED.with(Rc::clone).0);
}

/// A graph and a configuration to train it with.
type Trained = Rc<(Graph, Config)>;

thread_local! {
    /// Not a static, which is never dropped: the graph has a temporary directory.
    pub static TRAINED: Trained = trained();
}

fn trained() -> Trained {
    let graph = GraphBuilder::new(6)
        .edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)])
        .classes(["left", "right"], (0..6).map(|node| Some(node / 3)))
        .split([0, 3], [1, 4], [2, 5])
        .build()
        .expect("a small graph");
    let mut config = Config::default();
    (config.model.state, config.train.epochs) = (vec![2], 2);
    Rc::new((graph, config))
}

/// Checkpoints: a training that continues from one can be saved and continued again.
pub fn checkpoint(bytes: &[u8]) {
    if bytes.len() > MAX_BYTES {
        return;
    }
    let place = Place::new(&[("state.safetensors", bytes)]);
    let trained = TRAINED.with(Rc::clone);
    let fresh = || Trainer::new(&trained.0, trained.1.clone()).expect("a small training");
    let (path, saved) = (place.path("state.safetensors"), place.path("again.safetensors"));
    let mut trainer = fresh();
    if place.parsed(trainer.restore(&path)).is_none() {
        return;
    }
    trainer.save(&saved).expect("a restored training can be saved");
    fresh().restore(&saved).expect("and restored again");
}

/// Configurations: written and read again, it is the same.
pub fn config(bytes: &[u8]) {
    if bytes.len() > MAX_BYTES {
        return;
    }
    let place = Place::new(&[("config.toml", bytes)]);
    let path = place.path("config.toml");
    let Some(config) = place.parsed(Config::resolve(None, Some(&path), &[])) else { return };
    let again = Config::from_toml(&config.to_toml(), &path).expect("a configuration as written");
    assert_eq!(config, again);
}

/// The small files of run directories.
pub const RUN_FILES: &[&str] = &[
    "run/metrics.jsonl",
    "run/run.json",
    "run/config.toml",
    "run/setup.json",
    "run/folds.csv",
    "run/fold-0/fold.json",
];

/// Records, summaries and set-ups of runs.
pub fn run_files(bytes: &[u8]) {
    let place = Place::new(&unpack(bytes, RUN_FILES));
    let run = RunDir::new(place.path("run"));
    let _ = place.parsed(run.records());
    let _ = place.parsed(run.summary());
    let _ = place.parsed(run.config());
    let crossval = CrossvalDir::new(place.path("run"));
    let _ = place.parsed(crossval.setup());
    let _ = place.parsed(crossval.summary());
    let _ = place.parsed(crossval.finished());
}
