//! Damaged files of datasets, models, runs and cross-validations: opened, checked, trained on,
//! resumed and predicted with, through the library. No bytes may cause a panic, and damage in a
//! file that is said to be verified is always an error.
//!
//! Each case damages one file of a fresh copy. `IGNN_DAMAGE_CASES` sets the number of cases per
//! test.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{LazyLock, OnceLock};
use std::time::SystemTime;

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

/// Damages some bytes: flips, zeroed or random sectors, cuts, additions, and other numbers in
/// texts.
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
}

/// Whether a copy of the run is refused after a change of it, and how: `DIR` is the copy. Nothing
/// of it may have changed.
fn run_refusal(change: impl FnOnce(&Path)) -> String {
    let (_directory, path) = copied("run");
    change(&path);
    let content = || files(&path).into_iter().map(|file| (fs::read(&file).unwrap(), file));
    let before: Vec<_> = content().collect();
    let run = Run::resume(&path).unwrap().epochs(3).unwrap();
    let error = run.train(&mut Silent, &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(before.into_iter().eq(content()), "{error}: but something was written");
    error.replace(&path.display().to_string(), "DIR")
}

/// Changes the header and the data of a file of tensors. It becomes one of version 1, without a
/// checksum, so that readers get to see the change.
pub fn edit_tensors(path: &Path, edit: impl FnOnce(&mut serde_json::Value, &mut [u8])) {
    let mut bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let texts = header["__metadata__"].as_object_mut().unwrap();
    texts.remove("xxh3");
    texts.insert("ignn_format_version".into(), "1".into());
    edit(&mut header, &mut bytes[8 + length..]);
    let text = header.to_string();
    let start = (text.len() as u64).to_le_bytes();
    fs::write(path, [&start, text.as_bytes(), &bytes[8 + length..]].concat()).unwrap();
}

/// Makes the first number of a tensor NaN.
fn spoil(path: &Path, tensor: &str) {
    edit_tensors(path, |header, data| {
        let at = header[tensor]["data_offsets"][0].as_u64().unwrap() as usize;
        data[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    });
}

#[test]
fn a_run_continues_from_its_own_records_or_not_at_all() {
    let hint =
        "as in DIR/checkpoint/state.safetensors): restore the file, or train again with --force";
    let records = |change: &dyn Fn(&mut Vec<String>)| {
        run_refusal(|path| {
            let file = path.join("metrics.jsonl");
            let text = fs::read_to_string(&file).unwrap();
            let mut lines: Vec<String> = text.lines().map(|line| format!("{line}\n")).collect();
            change(&mut lines);
            fs::write(file, lines.concat()).unwrap();
        })
    };
    let expected = "expected one for each epoch from 0 to 1";
    assert_eq!(
        records(&|lines| drop(lines.remove(1))),
        format!("DIR/metrics.jsonl: records (found 1 of epochs 0 to 0, {expected}, {hint}")
    );
    assert_eq!(
        records(&Vec::clear),
        format!("DIR/metrics.jsonl: records (found none, {expected}, {hint}")
    );
    assert_eq!(
        run_refusal(|path| fs::remove_file(path.join("metrics.jsonl")).unwrap()),
        format!("DIR/metrics.jsonl: records (found none, {expected}, {hint}")
    );
    // Values that somebody might like to have, and others that no training gives.
    let edits: [(&str, &str, serde_json::Value); 4] = [
        ("validation", "accuracy", 1.into()),
        ("test", "accuracy", 7.5.into()),
        ("train", "loss", (-1.0).into()),
        ("test", "loss", serde_json::Value::Null),
    ];
    for (part, name, value) in edits {
        let error = records(&|lines| {
            let mut record: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
            assert_ne!(record[part][name], value);
            record[part][name] = value.clone();
            lines[1] = format!("{record}\n");
        });
        let start = "DIR/metrics.jsonl: checksum of the records up to epoch 1 (found ";
        assert!(error.starts_with(start) && error.ends_with(hint), "{error}");
    }
}

#[test]
fn a_flipped_bit_in_a_checkpoint_is_noticed() {
    let state = "checkpoint/state.safetensors";
    let file = SAMPLES.path("run").join(state);
    let length = fs::metadata(&file).unwrap().len() as usize;
    let header = u64::from_le_bytes(fs::read(&file).unwrap()[..8].try_into().unwrap()) as usize;
    // In a number, and in a text that nothing else checks.
    let steps = {
        let text = fs::read(&file).unwrap()[8..8 + header].to_vec();
        8 + String::from_utf8(text).unwrap().find("\"steps\":\"").unwrap() + "\"steps\":\"".len()
    };
    for at in [length - 1, 8 + header, steps] {
        let error = run_refusal(|path| {
            let mut bytes = fs::read(path.join(state)).unwrap();
            bytes[at] ^= 1;
            fs::write(path.join(state), bytes).unwrap();
        });
        assert!(error.starts_with(&format!("DIR/{state}: checksum (found ")), "{error}");
        let end = ": the file is damaged or was edited: restore it, or train again)";
        assert!(error.ends_with(end), "{error}");
    }
}

#[test]
fn a_checkpoint_with_numbers_that_are_not_finite_is_refused() {
    let state = "checkpoint/state.safetensors";
    for tensor in ["layer0.W.flow", "adam.second.head.Theta", "best.head.Theta", "state0.X"] {
        assert_eq!(
            run_refusal(|path| spoil(&path.join(state), tensor)),
            format!(
                "DIR/{state}: tensor {tensor}: row 0 (found NaN, expected finite numbers: training \
                 went wrong, or the file is damaged)"
            )
        );
    }
    let text = |name: &'static str, value: String| {
        run_refusal(|path| {
            edit_tensors(&path.join(state), |header, _| {
                assert!(header["__metadata__"][name].is_string(), "no {name}");
                header["__metadata__"][name] = value.into();
            });
        })
    };
    assert_eq!(
        text("best_value_bits", f64::NAN.to_bits().to_string()),
        format!(
            "DIR/{state}: the checkpoint does not fit (score of the best epoch: found NaN, \
             expected a finite number)"
        )
    );
    assert_eq!(
        text("best_epoch", "7".into()),
        format!(
            "DIR/{state}: the checkpoint does not fit (best epoch: found 7, expected at most 2)"
        )
    );
}

#[test]
fn files_with_numbers_that_are_not_finite_are_named() {
    let (_directory, path) = copied("run");
    let file = path.join("model.safetensors");
    spoil(&file, "head.Theta");
    let error = Model::load(&file).unwrap_err().to_string();
    let what = "tensor head.Theta: row 0 (found NaN, expected finite numbers: ";
    assert!(error.starts_with(&format!("{}: {what}", file.display())), "{error}");
    // Also where a run is to start from it.
    let graph = Graph::open(SAMPLES.path("one.ignn")).unwrap();
    let run = Run::new(graph, config(1), path.join("new")).starting_from(&file);
    let started = run.train(&mut Silent, &AtomicBool::new(false)).unwrap_err().to_string();
    assert_eq!(started, error);

    let (_directory, path) = copied("one.ignn");
    let shard = path.join("features/part-00000.parquet");
    fs::remove_file(&shard).unwrap();
    let mut values = vec![0.5; NODES as usize * 3];
    values[3 * 7 + 1] = f32::NAN;
    ignn_format::features::write_dense_shard(&path, 0, 3, &values).unwrap();
    reseal(&path);
    let graph = Graph::open(&path).unwrap();
    let expected = format!(
        "{}: feature of node 7 (found NaN, expected a finite number): the dataset is damaged: `ignn \
         check {}` shows the details",
        shard.display(),
        path.display()
    );
    assert_eq!(Trainer::new(&graph, config(1)).err().unwrap().to_string(), expected);
    assert_eq!(model_of("run").predict(&graph).err().unwrap().to_string(), expected);
}

/// Writes other weights into the mapped file of a relation, in place.
fn change_weights(dataset: &Path) -> PathBuf {
    let path = dataset.join("relations/flow/in.values.f32");
    let mut bytes = fs::read(&path).unwrap();
    bytes[64..].chunks_exact_mut(4).for_each(|value| value.copy_from_slice(&0.5f32.to_le_bytes()));
    let mut file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all(&bytes).unwrap();
    // Clocks of file systems may be too coarse for a test.
    file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    path
}

/// Changes the dataset after an epoch.
struct ChangeAfter<'a>(u64, &'a Path);

impl Observer for ChangeAfter<'_> {
    fn epoch(&mut self, record: &EpochRecord) -> ignn_format::Result<()> {
        if record.epoch == self.0 {
            change_weights(self.1);
        }
        Ok(())
    }
}

#[test]
fn a_dataset_that_is_changed_while_it_is_used_gives_no_result() {
    let (directory, path) = copied("one.ignn");
    let sets = ["train.epochs=6", "model.state=4", "train.checkpoint_epochs=2"].map(String::from);
    let config = Config::resolve(None, None, &sets).unwrap();
    let never = AtomicBool::new(false);
    let train = |name: &str, observer: &mut dyn Observer| {
        let graph = Graph::open(&path).unwrap();
        Run::new(graph, config.clone(), directory.path().join(name)).train(observer, &never)
    };
    train("whole", &mut Silent).unwrap();
    let error = train("run", &mut ChangeAfter(3, &path)).unwrap_err().to_string();
    let changed = path.join("relations/flow/in.values.f32");
    let expected = format!(
        "{}: the file was changed while it was in use, and no result is written: check the dataset \
         with `ignn check`, and start again; a run continues with --resume",
        changed.display()
    );
    assert_eq!(error, expected);
    let [run, whole] = ["run", "whole"].map(|name| RunDir::new(directory.path().join(name)));
    assert!(!run.model_file().exists() && !run.summary_file().exists());
    // The checkpoint is from before the change.
    fs::copy(SAMPLES.path("one.ignn/relations/flow/in.values.f32"), &changed).unwrap();
    Run::resume(run.path()).unwrap().train(&mut Silent, &never).unwrap();
    assert!(fs::read(run.model_file()).unwrap() == fs::read(whole.model_file()).unwrap());

    let graph = Graph::open(&path).unwrap();
    let mut trainer = Trainer::new(&graph, config.clone()).unwrap();
    let model = trainer.fit().unwrap().model;
    model.predict(&graph).unwrap();
    change_weights(&path);
    assert_eq!(model.predict(&graph).err().unwrap().to_string(), expected);
    assert_eq!(model.embed(&graph).err().unwrap().to_string(), expected);
    assert_eq!(trainer.save(&directory.path().join("state")).unwrap_err().to_string(), expected);
    assert_eq!(trainer.fit().unwrap_err().to_string(), expected);
}

#[test]
fn repeated_class_names_are_refused() {
    let (_directory, path) = copied("run");
    let file = path.join("model.safetensors");
    edit_tensors(&file, |header, _| header["__metadata__"]["classes"] = "[\"a\",\"a\"]".into());
    let error = Model::load(&file).unwrap_err().to_string();
    let expected = "(found \"a\" twice, expected unique names)";
    assert_eq!(error, format!("{}: text classes {expected}", file.display()));
    let (_directory, path) = copied("g.ignn");
    let mut manifest = Manifest::read(&path).unwrap();
    manifest.graphs.as_mut().unwrap().classes.fill("a".into());
    fs::write(path.join(MANIFEST), manifest.to_text()).unwrap();
    let error = Graph::open(&path).unwrap_err().to_string();
    let file = path.join(MANIFEST);
    assert_eq!(error, format!("{}: classes of the graphs {expected}", file.display()));
}

/// Whether a copy of the cross-validation is refused after a change of it, and how: `DIR` is the
/// copy.
fn crossval_refusal(change: impl FnOnce(&Path)) -> String {
    let (_directory, path) = copied("crossval");
    change(&path);
    let resumed = Crossval::resume(&path).and_then(|crossval| {
        crossval.train(&Silent, &AtomicBool::new(true))?;
        Ok(())
    });
    resumed.unwrap_err().to_string().replace(&path.display().to_string(), "DIR")
}

fn replace_in(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{}: no {from}", path.display());
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn a_cross_validation_is_resumed_as_it_was_begun_or_not_at_all() {
    let again = "remove the file, and --resume trains the fold again)";
    let restart = "restore the file, or cross-validate again with --force)";
    assert_eq!(
        crossval_refusal(|path| replace_in(
            &path.join("config.toml"),
            "\nepochs = 1\n",
            "\nepochs = 2\n"
        )),
        format!(
            "DIR/config.toml: not the settings that the cross-validation was begun with (found \
             epochs = 2, expected epochs = 1, as in setup.json: {restart}"
        )
    );
    let one = SAMPLES.path("one.ignn").display().to_string();
    let checksum = |name: &str| Graph::open(SAMPLES.path(name)).unwrap().manifest().checksum();
    let (found, expected) = (checksum("one.ignn"), checksum("g.ignn"));
    assert_eq!(
        crossval_refusal(|path| fs::write(path.join("dataset.txt"), &one).unwrap()),
        format!(
            "{one}: not the dataset that the cross-validation was begun with: checksum (found \
             {found}, expected {expected}, as in setup.json)"
        )
    );
    // Other folds, or another readout, than the finished folds have.
    for (from, to) in [("\"folds\":3", "\"folds\":4"), ("svm-linear", "svm")] {
        let error = crossval_refusal(|path| replace_in(&path.join("setup.json"), from, to));
        assert!(error.starts_with("DIR/fold-0/fold.json: set-up of the fold (found "), "{error}");
        assert!(error.ends_with(&format!(", that of this cross-validation: {again}")), "{error}");
    }
    let error = crossval_refusal(|path| {
        for fold in 0..3 {
            fs::remove_file(path.join(format!("fold-{fold}/fold.json"))).unwrap();
        }
        replace_in(&path.join("setup.json"), "\"assignment\":\"", "\"assignment\":\"f");
    });
    assert!(error.starts_with("DIR/setup.json: checksum of the folds (found f"), "{error}");
    assert!(error.ends_with(&format!(", as the graphs are assigned now: {restart}")), "{error}");
    // One that an older version began.
    let error = crossval_refusal(|path| {
        fs::write(path.join("setup.json"), "{\"folds\":3,\"readout\":\"svm-linear\"}").unwrap();
    });
    assert!(error.starts_with("DIR/setup.json: content (found missing field `dataset`"), "{error}");
    // A fold that claims to be another one would be trained again and counted twice.
    assert_eq!(
        crossval_refusal(|path| {
            fs::copy(path.join("fold-0/fold.json"), path.join("fold-1/fold.json")).unwrap();
        }),
        format!("DIR/fold-1/fold.json: fold (found 0, expected 1: {again}")
    );
    let error = crossval_refusal(|path| {
        replace_in(&path.join("fold-2/fold.json"), "\"failures\": 0", "\"failures\": 1");
    });
    assert!(error.starts_with("DIR/fold-2/fold.json: checksum (found "), "{error}");
    assert!(error.ends_with(again), "{error}");
    // A graph in another fold.
    let error = crossval_refusal(|path| {
        let file = path.join("folds.csv");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, text.replacen(",0\n", ",1\n", 1)).unwrap();
    });
    let start = "DIR/folds.csv: not the folds that the cross-validation was begun with: checksum (";
    assert!(error.starts_with(start), "{error}");
    assert!(error.ends_with(&format!(", as in setup.json: {restart}")), "{error}");
    // A finished fold whose model is missing, or that of another fold.
    let again =
        "restore the file, or remove fold.json beside it, and --resume trains the fold again)";
    let model = "fold-1/model.safetensors";
    assert_eq!(
        crossval_refusal(|path| fs::remove_file(path.join(model)).unwrap()),
        format!("DIR/{model}: checksum (found none, expected the file of a finished fold: {again}")
    );
    let error = crossval_refusal(|path| {
        fs::copy(path.join("fold-0/model.safetensors"), path.join(model)).unwrap();
    });
    assert!(error.starts_with(&format!("DIR/{model}: checksum (found ")), "{error}");
    assert!(error.ends_with(again), "{error}");
    // A fold elsewhere is not written to.
    let (_directory, path) = copied("crossval");
    fs::remove_file(path.join("fold-0/fold.json")).unwrap();
    fs::rename(path.join("fold-0"), path.with_file_name("elsewhere")).unwrap();
    std::os::unix::fs::symlink("../elsewhere", path.join("fold-0")).unwrap();
    let resumed = Crossval::resume(&path).unwrap().train(&Silent, &AtomicBool::new(false));
    let error = resumed.unwrap_err().to_string();
    assert!(error.ends_with("fold-0: output (found a link, expected a directory)"), "{error}");
    // How the file is laid out does not matter.
    let (_directory, path) = copied("crossval");
    replace_in(&path.join("setup.json"), "\"folds\":3", "\"folds\" : 3");
    assert!(Crossval::resume(&path).unwrap().open_folds().is_empty());
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
         damaged: `ignn check {}` shows the details",
        file.display(),
        path.display()
    );
    assert_eq!(error, expected);
}
