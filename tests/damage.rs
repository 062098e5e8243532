//! Damaged files of datasets, models, runs and cross-validations: opened, checked, trained on,
//! resumed and predicted with, through the library. No bytes may cause a panic, and damage in a
//! file that is said to be verified is always an error.
//!
//! Each case damages one file of a fresh copy. `IGNN_DAMAGE_CASES` sets the number of cases per
//! test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{LazyLock, OnceLock};

use ignn::config::Config;
use ignn::graph::{Edges, Graph, GraphBuilder, Ids, Normalisation};
use ignn::models::Model;
use ignn::report::runs::{Group, ShownRun, page};
use ignn::run::{
    Crossval, CrossvalDir, CrossvalSetup, FoldObserver, FoldReadout, Run, RunDir, SavedRun,
};
use ignn::train::crossval::FoldRecord;
use ignn::train::{EpochRecord, Observer, Trainer};
use ignn_format::check::check;
use ignn_format::manifest::{MANIFEST, Manifest};
use ignn_format::random::Sequence;
use ignn_format::{DatasetDir, checksum};
use tempfile::TempDir;

use crate::run::rings_and_stars;

/// What is damaged: a dataset of one graph, one of many graphs, a run on the first, and a
/// cross-validation on the second.
struct Samples {
    directory: TempDir,
}

const NODES: u32 = 40;

impl Samples {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let graph = one_graph(&root.join("one.ignn"));
        let run = Run::new(graph, config(2), root.join("run"));
        run.train(&mut Silent, &AtomicBool::new(false)).unwrap();
        let graphs = rings_and_stars(root, 12);
        let crossval = Crossval::new(graphs, fold_config(), SETUP);
        let crossval = crossval.in_directory(root.join("crossval"), false);
        crossval.train(&Silent, &AtomicBool::new(false)).unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

static SAMPLES: LazyLock<Samples> = LazyLock::new(Samples::new);

const SETUP: CrossvalSetup =
    CrossvalSetup { folds: 3, readout: FoldReadout::SvmLinear, csv_safe: false };

fn one_graph(path: &Path) -> Graph {
    let ring = (0..NODES).map(|node| (node, (node + 1) % NODES));
    let chords = (0..NODES).map(|node| (node, (node * 7 + 3) % NODES));
    let weights = (0..NODES).map(|node| 0.01 + node as f32 / 1000.0).collect();
    let flow = Edges::directed(ring).weights(weights).normalisation(Normalisation::None);
    // Many rows of this relation are the same: those of a clique.
    let clique = (0..NODES / 2).flat_map(|a| (a + 1..NODES / 2).map(move |b| (a, b)));
    let names: Vec<String> = (0..NODES).map(|node| format!("node {node}")).collect();
    GraphBuilder::new(NODES as usize)
        .relation("flow", flow)
        .relation("shared", Edges::undirected(clique.chain(chords)))
        .features(3, (0..NODES * 3).map(|at| (at % 11) as f32 / 10.0 - 0.5).collect())
        .classes(["a", "b"], (0..NODES).map(|node| Some(node % 2)))
        .split(0..10, 10..20, 20..NODES)
        .ids(Ids::from_strings(names.iter().map(String::as_str)))
        .write(path)
        .unwrap()
}

fn config(epochs: u64) -> Config {
    let sets = [format!("train.epochs={epochs}"), "model.state=4".into()];
    Config::resolve(None, None, &sets).unwrap()
}

fn fold_config() -> Config {
    let sets = ["model.state=4".to_string(), "train.epochs=1".into()];
    Config::resolve(Some("graphs"), None, &sets).unwrap()
}

struct Silent;

impl Observer for Silent {
    fn epoch(&mut self, _record: &EpochRecord) -> ignn_format::Result<()> {
        Ok(())
    }
}

impl FoldObserver for Silent {
    fn epoch(&self, _fold: usize, _record: &EpochRecord) {}

    fn note(&self, _fold: usize, _text: &str) {}

    fn finished(&self, _record: &FoldRecord) {}
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// A copy of a sample in a directory of its own.
fn copied(name: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (SAMPLES.path(name), directory.path().join(name));
    for file in files(&from) {
        let target = to.join(file.strip_prefix(&from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(file, target).unwrap();
    }
    (directory, to)
}

/// Damages some bytes: flips, zeroed or random sectors, cuts, additions, and other numbers in texts.
fn damage(bytes: &mut Vec<u8>, random: &mut Sequence) {
    let at = random.below(bytes.len().max(1) as u64) as usize;
    match random.below(8) {
        0 | 1 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        2 => {
            let sector = at / 512 * 512;
            let end = bytes.len().min(sector + 512);
            bytes[sector..end].fill(0);
        }
        3 => {
            let end = bytes.len().min(at + 1 + random.below(16) as usize);
            bytes[at..end].iter_mut().for_each(|byte| *byte = random.bits() as u8);
        }
        4 => bytes.truncate(at),
        5 => bytes.extend((0..=random.below(100)).map(|_| random.bits() as u8)),
        _ => other_number(bytes, at, random),
    }
}

/// Replaces the first number after `at` by one that somebody could have chosen to do harm.
fn other_number(bytes: &mut Vec<u8>, at: usize, random: &mut Sequence) {
    let Some(start) = (at..bytes.len()).find(|&at| bytes[at].is_ascii_digit()) else { return };
    let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let numbers =
        ["0", "1", "-1", "65536", "4294967296", "9223372036854775807", "18446744073709551615"];
    let new = match random.below(2) {
        // Of the same length, which the lengths in headers allow.
        0 => "9".repeat(length),
        _ => numbers[random.below(numbers.len() as u64) as usize].to_string(),
    };
    bytes.splice(start..start + length, new.bytes());
}

/// Corrects lengths and checksums in the manifest, so that readers get to see the damage.
fn reseal(dataset: &Path) {
    let path = dataset.join(MANIFEST);
    // A damaged manifest is resealed too, as far as it is one.
    let Ok(mut value) = serde_json::from_slice::<serde_json::Value>(&fs::read(&path).unwrap())
    else {
        return;
    };
    value.as_object_mut().and_then(|fields| fields.remove("xxh3"));
    let Ok(mut manifest) = serde_json::from_value::<Manifest>(value) else { return };
    for (name, entry) in &mut manifest.files {
        let skip = if name.ends_with(".parquet") { 0 } else { 64 };
        if let Ok(found) = checksum::of_file(&dataset.join(name), skip) {
            *entry = found;
        }
    }
    fs::write(path, manifest.to_text()).unwrap();
}

/// The errors of whatever was tried, in short; empty if all of it worked.
type Errors = Vec<String>;

fn note<T, E: ToString>(errors: &mut Errors, result: Result<T, E>) -> Option<T> {
    result.map_err(|error| errors.push(error.to_string())).ok()
}

/// Reads every part, checks, trains and predicts.
fn use_dataset(path: &Path, model: &Model, config: Config) -> Errors {
    let mut errors = Errors::new();
    if let Some(directory) = note(&mut errors, DatasetDir::open(path)) {
        errors.extend(check(&directory, &|_, _, _| {}).iter().map(ToString::to_string));
    }
    let Some(graph) = note(&mut errors, Graph::open(path)) else { return errors };
    note(&mut errors, graph.ids());
    note(&mut errors, graph.splits());
    note(&mut errors, graph.collection());
    if graph.manifest().labels.is_some() {
        note(&mut errors, graph.labels());
    }
    if let Some(mut trainer) = note(&mut errors, Trainer::new(&graph, config)) {
        note(&mut errors, trainer.fit());
    }
    if let Some(predictions) = note(&mut errors, model.predict(&graph)) {
        note(&mut errors, predictions.evaluate());
    }
    note(&mut errors, graph.verify());
    errors
}

/// Reads, reports on, resumes and predicts with a run.
fn use_run(path: &Path) -> Errors {
    let mut errors = Errors::new();
    let directory = RunDir::new(path);
    if let Some(saved) = note(&mut errors, SavedRun::read(&directory)) {
        let runs = vec![ShownRun { saved, classes: None }];
        page("runs", &[Group { name: "run".into(), runs }]).render();
    }
    let graph = Graph::open(SAMPLES.path("one.ignn")).unwrap();
    if let Some(model) = note(&mut errors, Model::load(directory.model_file())) {
        note(&mut errors, model.predict(&graph));
    }
    let resumed = Run::resume_on(path, graph.path()).and_then(|run| run.epochs(3));
    if let Some(run) = note(&mut errors, resumed) {
        // Stopped after its first epoch, whatever the files say.
        note(&mut errors, run.train(&mut Silent, &AtomicBool::new(true)));
    }
    errors
}

/// Reads and resumes a cross-validation.
fn use_crossval(path: &Path) -> Errors {
    let mut errors = Errors::new();
    let directory = CrossvalDir::new(path);
    note(&mut errors, directory.summary());
    note(&mut errors, (ignn::run::CROSSVAL.check)(directory.path()));
    if let Some(crossval) = note(&mut errors, Crossval::resume(path)) {
        note(&mut errors, crossval.train(&Silent, &AtomicBool::new(true)));
    }
    errors
}

fn cases() -> u64 {
    static CASES: OnceLock<u64> = OnceLock::new();
    *CASES.get_or_init(|| {
        std::env::var("IGNN_DAMAGE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
    })
}

/// Damages one file of a sample per case; `work` gets the copy, whether the file has other bytes
/// than before, and a name of the case.
fn each_case(sample: &str, is_resealed: bool, work: impl Fn(&Path, bool, &str)) {
    for case in 0..cases() {
        let random = &mut Sequence::new(case, sample);
        let (_directory, path) = copied(sample);
        let all = files(&path);
        let file = &all[random.below(all.len() as u64) as usize];
        let before = fs::read(file).unwrap();
        let mut bytes = before.clone();
        for _ in 0..=random.below(2) {
            damage(&mut bytes, random);
        }
        fs::write(file, &bytes).unwrap();
        if is_resealed {
            reseal(&path);
        }
        let place = format!("case {case}: {}", file.strip_prefix(&path).unwrap().display());
        work(&path, bytes != before, &place);
    }
}

fn model_of(run: &str) -> Model {
    Model::load(SAMPLES.path(run).join("model.safetensors")).unwrap()
}

#[test]
fn the_samples_are_in_order() {
    let errors = use_dataset(&SAMPLES.path("one.ignn"), &model_of("run"), config(1));
    assert_eq!(errors, Errors::new());
    let model = model_of("crossval/fold-0");
    let graphs = use_dataset(&SAMPLES.path("g.ignn"), &model, fold_config());
    assert!(graphs.iter().all(|error| error.contains("split")), "{graphs:?}");
    let (_directory, run) = copied("run");
    assert_eq!(use_run(&run), Errors::new());
    let (_directory, crossval) = copied("crossval");
    assert_eq!(use_crossval(&crossval), Errors::new());
}

#[test]
fn damage_in_a_dataset_is_an_error() {
    let model = model_of("run");
    each_case("one.ignn", false, |path, is_changed, case| {
        let errors = use_dataset(path, &model, config(1));
        assert!(!is_changed || !errors.is_empty(), "{case}: unnoticed");
    });
    let model = model_of("crossval/fold-0");
    each_case("g.ignn", false, |path, is_changed, case| {
        let errors = use_dataset(path, &model, fold_config());
        let of_damage = errors.iter().any(|error| !error.contains("split"));
        assert!(!is_changed || of_damage, "{case}: unnoticed");
    });
}

#[test]
fn a_dataset_with_the_right_checksums_never_causes_a_panic() {
    let model = model_of("run");
    each_case("one.ignn", true, |path, _, _| drop(use_dataset(path, &model, config(1))));
    let model = model_of("crossval/fold-0");
    each_case("g.ignn", true, |path, _, _| {
        drop(use_dataset(path, &model, fold_config()));
        if let Ok(graph) = Graph::open(path) {
            let crossval = Crossval::new(graph, fold_config(), SETUP);
            let _ = crossval.train(&Silent, &AtomicBool::new(false));
        }
    });
}

#[test]
fn a_damaged_run_never_causes_a_panic() {
    each_case("run", false, |path, _, _| drop(use_run(path)));
}

#[test]
fn a_damaged_cross_validation_never_causes_a_panic() {
    each_case("crossval", false, |path, _, _| drop(use_crossval(path)));
}

#[test]
fn a_forged_setup_is_refused() {
    let (_directory, path) = copied("crossval");
    for (folds, found) in [("0", "0"), ("2", "2"), ("1152921504606846976", "1152921504606846976")] {
        let text = format!("{{\"folds\":{folds},\"readout\":\"model\"}}");
        fs::write(path.join("setup.json"), text).unwrap();
        let error = Crossval::resume(&path).unwrap_err().to_string();
        let expected = format!("setup.json: folds (found {found}, expected 3 to 65535)");
        assert!(error.ends_with(&expected), "{error}");
    }
    // A fold that claims to be another one would be trained again and counted twice.
    fs::copy(SAMPLES.path("crossval/setup.json"), path.join("setup.json")).unwrap();
    fs::copy(path.join("fold-0/fold.json"), path.join("fold-1/fold.json")).unwrap();
    let error = Crossval::resume(&path).unwrap_err().to_string();
    assert!(error.ends_with("fold-1/fold.json: fold (found 0, expected 1)"), "{error}");
}

#[test]
fn a_model_cannot_ask_for_more_memory_than_its_file_has_numbers() {
    let mut model = model_of("run");
    // 4 TiB for one weight.
    model.config.model.state = vec![1 << 20];
    let graph = Graph::open(SAMPLES.path("one.ignn")).unwrap();
    let error = model.predict(&graph).err().unwrap().to_string();
    assert!(error.contains("the model does not fit the dataset and configuration"), "{error}");
}

#[test]
fn repeated_neighbours_are_refused_with_their_file() {
    let (_directory, path) = copied("one.ignn");
    let file = path.join("relations/shared/in.neighbours.u32");
    let mut bytes = fs::read(&file).unwrap();
    bytes[64..].fill(0);
    fs::write(&file, bytes).unwrap();
    reseal(&path);
    let graph = Graph::open(&path).unwrap();
    let error = Trainer::new(&graph, config(1)).err().unwrap().to_string();
    let expected = format!(
        "{}: row 0: neighbours must be strictly increasing (found 0 after 0): the dataset is \
         damaged: `ignn check {}` tells more",
        file.display(),
        path.display()
    );
    assert_eq!(error, expected);
}
