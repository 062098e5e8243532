//! Runs through the library alone: stopped by a flag and resumed to the same bytes, seeds at a time,
//! a cross-validation that is resumed. No program is started.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use ignn::config::Config;
use ignn::graph::Graph;
use ignn::run::{
    Crossval, CrossvalDir, CrossvalSetup, FinishedRun, FoldObserver, FoldReadout, Run, RunDir,
    RunError, SavedRun,
};
use ignn::train::crossval::FoldRecord;
use ignn::train::{Ended, EpochRecord, Observer};
use ignn_format::FormatError;
use ignn_format::manifest::Normalisation;
use ignn_format::storage::{self, Operation};
use ignn_ingest::Context;
use ignn_ingest::command::generate::{Generate, Kind};
use ignn_ingest::command::tu::IngestTu;
use ignn_ingest::context::Recorder;
use ignn_ingest::edges::options::RelationOptions;
use ignn_ingest::synthetic::sbm::SbmOptions;

/// Three communities of 300 nodes in all.
fn communities(directory: &Path) -> Graph {
    let out = directory.join("s.ignn");
    let options = SbmOptions { nodes: 300, blocks: 3, ..SbmOptions::default() };
    let generate = Generate {
        kind: Kind::Sbm(options),
        out: Some(out.clone()),
        raw: None,
        force: false,
        normalise: Normalisation::Renorm,
    };
    let observer = Recorder::default();
    generate
        .run(&Context { threads: 1, memory: 1 << 28, seed: 0, observer: &observer })
        .expect("a dataset");
    Graph::open(out).expect("a dataset")
}

fn config(epochs: u64) -> Config {
    let sets = [
        format!("train.epochs={epochs}"),
        "model.state=8".into(),
        "model.bias=true".into(),
        "train.checkpoint_epochs=4".into(),
    ];
    Config::resolve(None, None, &sets).unwrap()
}

/// Sets a flag after an epoch.
struct StopAfter<'a>(u64, &'a AtomicBool);

impl Observer for StopAfter<'_> {
    fn epoch(&mut self, record: &EpochRecord) -> ignn_format::Result<()> {
        self.1.fetch_or(record.epoch == self.0, Ordering::Relaxed);
        Ok(())
    }
}

fn train(run: &Run) -> FinishedRun {
    run.train(&mut (), &AtomicBool::new(false)).unwrap()
}

/// Asserts that two runs left the same model, checkpoint and records, but for measured times.
fn assert_same(one: &RunDir, other: &RunDir) {
    let bytes = |path: PathBuf| fs::read(path).unwrap();
    assert!(bytes(one.model_file()) == bytes(other.model_file()), "another model");
    assert!(bytes(one.checkpoint_file()) == bytes(other.checkpoint_file()), "another checkpoint");
    assert_eq!(timeless(one), timeless(other));
}

fn timeless(run: &RunDir) -> Vec<EpochRecord> {
    let timeless = |mut record: EpochRecord| {
        record = record.without_times();
        // NaN is never equal to itself.
        let numbers = [&mut record.loss, &mut record.gradient_norm];
        numbers.into_iter().filter(|number| number.is_nan()).for_each(|number| *number = -1.0);
        record
    };
    run.records().unwrap().into_iter().map(timeless).collect()
}

#[test]
fn a_run_that_is_stopped_and_resumed_leaves_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = communities(dir.path());
    let whole = Run::new(dataset.clone(), config(12), dir.path().join("whole"));
    assert_eq!(train(&whole).figures.ended, Ended::Epochs);
    for last in [0, 3, 7] {
        let (path, stop) = (dir.path().join(format!("stopped-{last}")), AtomicBool::new(false));
        let run = Run::new(dataset.clone(), config(12), &path);
        let stopped = run.train(&mut StopAfter(last, &stop), &stop).unwrap();
        assert_eq!((stopped.figures.ended, stopped.figures.epochs), (Ended::Stopped, last + 1));
        assert_eq!(run.directory().records().unwrap().len() as u64, last + 1);
        let resumed = train(&Run::resume(&path).unwrap());
        assert_eq!((resumed.figures.ended, resumed.figures.epochs), (Ended::Epochs, 12));
        assert_same(run.directory(), whole.directory());
        let saved = SavedRun::read(run.directory()).unwrap();
        assert_eq!(saved.figures().unwrap().seed, 0);
        assert!(saved.is_finished());
        let expected = SavedRun::read(whole.directory()).unwrap();
        let chosen = |run: &SavedRun| run.figures().unwrap().chosen_on_validation.clone();
        assert_eq!(chosen(&saved), chosen(&expected));
    }
}

/// Raw TU files of rings and stars of 4 to 8 nodes, ingested.
pub fn rings_and_stars(directory: &Path, graphs: usize) -> Graph {
    let (mut indicator, mut edges, mut labels) = (String::new(), String::new(), String::new());
    let mut first = 1;
    for graph in 0..graphs {
        let nodes = 4 + graph * 7 % 5;
        indicator += &format!("{}\n", graph + 1).repeat(nodes);
        let mut edge = |u: usize, v: usize| {
            let (u, v) = (first + u, first + v);
            edges += &format!("{u}, {v}\n{v}, {u}\n");
        };
        match graph % 2 {
            0 => (0..nodes).for_each(|node| edge(node, (node + 1) % nodes)),
            _ => (1..nodes).for_each(|node| edge(0, node)),
        }
        labels += &format!("{}\n", graph % 2);
        first += nodes;
    }
    let (raw, out) = (directory.join("raw"), directory.join("g.ignn"));
    fs::create_dir(&raw).unwrap();
    for (name, text) in [("graph_indicator", indicator), ("A", edges), ("graph_labels", labels)] {
        fs::write(raw.join(format!("raw_{name}.txt")), text).unwrap();
    }
    let ingest = IngestTu {
        regress: None,
        draw: Vec::new(),
        directory: raw,
        out: out.clone(),
        force: false,
        degree_features: false,
        relation: RelationOptions::default(),
    };
    let observer = Recorder::default();
    ingest
        .run(&Context { threads: 1, memory: 1 << 28, seed: 0, observer: &observer })
        .expect("a dataset");
    Graph::open(out).expect("a dataset")
}

/// Counts finished folds, and asks to stop once there is one.
struct StopAfterOne<'a>(&'a AtomicBool, AtomicUsize);

impl FoldObserver for StopAfterOne<'_> {
    fn epoch(&self, _fold: usize, _record: &EpochRecord) {}

    fn note(&self, _fold: usize, _text: &str) {}

    fn finished(&self, _record: &FoldRecord) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_cross_validation_that_is_stopped_trains_only_the_other_folds_when_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = rings_and_stars(dir.path(), 24);
    let sets = ["model.state=8".to_string(), "train.epochs=6".into()];
    let config = Config::resolve(Some("graphs"), None, &sets).unwrap();
    let setup = CrossvalSetup { folds: 3, readout: FoldReadout::Model, csv_safe: false };
    let crossval = |name: &str| {
        let crossval = Crossval::new(dataset.clone(), config.clone(), setup);
        crossval.in_directory(dir.path().join(name), false)
    };
    let never = AtomicBool::new(false);
    let flag = AtomicBool::new(false);
    let (whole, _) =
        crossval("whole").train(&StopAfterOne(&flag, AtomicUsize::new(0)), &never).unwrap();
    assert_eq!(whole.summary.as_ref().unwrap().folds, 3);

    // One thread: the second fold is not started after the first one asked to stop.
    let stop = AtomicBool::new(false);
    let observer = StopAfterOne(&stop, AtomicUsize::new(0));
    let stopped = ignn::parallel::with_threads(1, || crossval("stopped").train(&observer, &stop));
    assert_eq!(stopped.unwrap().1.len(), 1);
    let resumed = Crossval::resume(dir.path().join("stopped")).unwrap();
    assert_eq!(resumed.open_folds(), [1, 2]);
    let observer = StopAfterOne(&flag, AtomicUsize::new(0));
    let (summary, records) = resumed.train(&observer, &never).unwrap();
    assert_eq!((observer.1.into_inner(), records.len()), (2, 3));
    assert_eq!(summary.summary, whole.summary);
    let directory = CrossvalDir::new(dir.path().join("stopped"));
    assert_eq!(directory.summary().unwrap(), Some(summary));
    for fold in 0..3 {
        let model = |name: &str| {
            let crossval = CrossvalDir::new(dir.path().join(name));
            fs::read(RunDir::new(crossval.fold(fold)).model_file()).unwrap()
        };
        assert!(model("whole") == model("stopped"), "fold {fold}: another model");
    }
}

/// A cross-validation of one epoch that may replace another.
fn short_crossval(graphs: &Graph, path: &Path, folds: usize) -> Crossval {
    let sets = ["model.state=4".to_string(), "train.epochs=1".into()];
    let config = Config::resolve(Some("graphs"), None, &sets).unwrap();
    let setup = CrossvalSetup { folds, readout: FoldReadout::Model, csv_safe: false };
    Crossval::new(graphs.clone(), config, setup).in_directory(path, true)
}

#[test]
fn a_cross_validation_is_read_after_it_was_reserved() {
    let dir = tempfile::tempdir().unwrap();
    let graphs = rings_and_stars(dir.path(), 12);
    let path = dir.path().join("crossval");
    let crossval = |folds: usize| short_crossval(&graphs, &path, folds);
    let (never, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let observer = || StopAfterOne(&stop, AtomicUsize::new(0));
    ignn::parallel::with_threads(1, || crossval(3).train(&observer(), &stop)).unwrap();
    // Three processes at once, of which two wait until the first is done.
    let [first, second, third] = [(); 3].map(|()| Crossval::resume(&path).unwrap());
    first.train(&observer(), &never).unwrap();
    let old = tree(&path);
    let watched = observer();
    let (summary, records) = second.train(&watched, &never).unwrap();
    assert_eq!((watched.1.into_inner(), records.len()), (0, 3), "all folds are finished");
    assert!(tree(&path) == old, "figures of a finished one stay as they are");
    assert_eq!(CrossvalDir::new(&path).summary().unwrap(), Some(summary));
    // Replaced in the meantime.
    crossval(4).train(&observer(), &never).unwrap();
    let old = tree(&path);
    let error = third.train(&observer(), &never).unwrap_err().to_string();
    assert!(error.contains("was replaced while it was being resumed"), "{error}");
    assert!(tree(&path) == old);
    // What is not a file is not a fold that is still to be trained.
    let fold = CrossvalDir::new(&path).fold(1).join("fold.json");
    fs::remove_file(&fold).unwrap();
    fs::create_dir(&fold).unwrap();
    let error = Crossval::resume(&path).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: not a regular file", fold.display())), "{error}");
}

/// Keeps the notes of a run.
#[derive(Default)]
struct NotesOf(Vec<String>);

impl Observer for NotesOf {
    fn epoch(&mut self, _record: &EpochRecord) -> ignn_format::Result<()> {
        Ok(())
    }

    fn note(&mut self, text: &str) -> ignn_format::Result<()> {
        self.0.push(text.into());
        Ok(())
    }
}

#[test]
fn lines_of_others_in_the_records_are_not_removed_without_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let run = train(&Run::new(communities(dir.path()), config(2), &path)).directory;
    let never = AtomicBool::new(false);
    let removed = || {
        let mut notes = NotesOf::default();
        Run::resume(&path).unwrap().train(&mut notes, &never).unwrap();
        notes.0.iter().any(|note| note.contains("that are no records were removed: 1"))
    };
    assert!(!removed(), "the last record is written again");
    let text = fs::read_to_string(run.metrics_file()).unwrap();
    fs::write(run.metrics_file(), text + "my notes\n").unwrap();
    assert!(removed());
    assert!(!removed());
}

#[test]
fn more_epochs_continue_a_finished_run() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = communities(dir.path());
    let whole = Run::new(dataset.clone(), config(9), dir.path().join("whole"));
    train(&whole);
    let path = dir.path().join("run");
    train(&Run::new(dataset, config(4), &path));
    train(&Run::resume(&path).unwrap().epochs(9).unwrap());
    assert_same(&RunDir::new(&path), whole.directory());
    let fewer = Run::resume(&path).unwrap().epochs(1).unwrap();
    let error = fewer.train(&mut (), &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, RunError::TooFewEpochs { epochs: 1, epoch: 9, .. }), "{error}");
}

#[test]
fn a_run_replaces_only_runs_and_only_when_it_is_asked_to() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = communities(dir.path());
    let path = dir.path().join("run");
    let run = Run::new(dataset.clone(), config(1), &path);
    train(&run);
    let again = run.train(&mut (), &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(again.ends_with("already exists: choose another name, or pass --force to replace it"));
    // A run that cannot start removes nothing.
    let mut wrong = config(1);
    wrong.train.split = "mine".into();
    let wrong = Run::new(dataset.clone(), wrong, &path).replacing();
    assert!(wrong.train(&mut (), &AtomicBool::new(false)).is_err() && path.exists());
    train(&run.replacing());
    fs::write(path.join("thesis.tex"), "").unwrap();
    let run = Run::new(dataset, config(1), &path).replacing();
    let refused = run.train(&mut (), &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(refused, RunError::File(FormatError::Foreign { .. })), "{refused}");
}

#[test]
fn seeds_train_at_a_time_to_the_same_bytes_as_one_after_another() {
    let dir = tempfile::tempdir().unwrap();
    let dataset = communities(dir.path());
    let stop = AtomicBool::new(false);
    let train = |name: &str, at_once: usize| {
        let run = Run::new(dataset.clone(), config(5), dir.path().join(name));
        let runs = run.train_seeds(&[4, 0, 7], at_once, |_| (), |_| (), &stop).unwrap();
        assert_eq!(runs.iter().map(|run| run.figures.seed).collect::<Vec<_>>(), [4, 0, 7]);
        runs
    };
    for (one, other) in train("one", 1).iter().zip(&train("several", 3)) {
        assert_same(&one.directory, &other.directory);
    }
    assert_eq!(RunDir::new(dir.path().join("several")).runs().len(), 3);
    // Memory bounds how many train at a time.
    let run = Run::new(dataset, config(5), dir.path().join("bounded"));
    let needed = RunDir::new(dir.path().join("one/seed-0")).summary().unwrap().unwrap();
    let needed = needed.figures.estimated_bytes;
    let at_once = |memory: u64| run.clone().memory(memory).runs_at_once(5);
    assert_eq!(at_once(needed).unwrap(), 1);
    assert!(at_once(2 * needed).unwrap() <= 2);
    assert!(at_once(needed - 1).is_err());
}

/// All files below a directory, with their content.
fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(tree(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

/// Fails in the first epoch.
struct Failing;

impl Observer for Failing {
    fn epoch(&mut self, _record: &EpochRecord) -> ignn_format::Result<()> {
        Err(FormatError::Exists { path: "test".into() })
    }
}

#[test]
fn an_old_run_stays_until_the_new_one_has_a_result() {
    let dir = tempfile::tempdir().unwrap();
    let (dataset, never) = (communities(dir.path()), AtomicBool::new(false));
    let [path, other] = ["run", "other"].map(|name| dir.path().join(name));
    train(&Run::new(dataset.clone(), config(2), &path));
    let old = tree(dir.path());
    for epochs in [0, 2] {
        let run = Run::new(dataset.clone(), config(epochs), &path).replacing();
        assert!(run.train(&mut Failing, &never).is_err());
        assert!(tree(dir.path()) == old, "{epochs} epochs");
        for at_once in [1, 2] {
            assert!(run.train_seeds(&[0, 1], at_once, |_| Failing, |_| (), &never).is_err());
            assert!(tree(dir.path()) == old, "seeds, {epochs} epochs");
            // The result itself cannot be written.
            let full = storage::watch(dir.path(), |operation| match operation {
                Operation::Create { path } if path.to_string_lossy().contains("checkpoint") => {
                    Err(std::io::ErrorKind::StorageFull.into())
                }
                _ => Ok(()),
            });
            assert!(run.train_seeds(&[0, 1], at_once, |_| (), |_| (), &never).is_err());
            drop(full);
            assert!(tree(dir.path()) == old, "seeds on a full disk, {epochs} epochs");
        }
    }
    // Asked to stop before it has replaced the old run, or in its first epoch.
    let run = Run::new(dataset.clone(), config(2), &path).replacing();
    let asked = AtomicBool::new(true);
    let stopped = run.train(&mut (), &asked).unwrap();
    assert_eq!((stopped.figures.ended, stopped.is_kept), (Ended::Stopped, false));
    assert!(tree(dir.path()) == old, "stopped");
    let asked = AtomicBool::new(false);
    assert!(!run.train(&mut StopAfter(0, &asked), &asked).unwrap().is_kept);
    assert!(tree(dir.path()) == old, "stopped in its first epoch");
    // One that replaces another is like one that does not.
    train(&Run::new(dataset.clone(), config(0), &path).replacing());
    train(&Run::new(dataset.clone(), config(0), &other));
    let [one, two] = [&path, &other].map(RunDir::new);
    assert_same(&one, &two);
    for run in [&path, &other] {
        train(&Run::resume(run).unwrap().epochs(3).unwrap());
    }
    assert_same(&one, &two);
    let run = Run::new(dataset, config(1), &path).replacing();
    run.train_seeds(&[0, 1], 2, |_| (), |_| (), &never).unwrap();
    assert_eq!(one.runs().len(), 2);
}

/// Touches a mapped file of the dataset in the first epoch.
struct Touching(PathBuf);

impl FoldObserver for Touching {
    fn epoch(&self, _fold: usize, _record: &EpochRecord) {
        let file = fs::File::options().write(true).open(&self.0).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }

    fn note(&self, _fold: usize, _text: &str) {}

    fn finished(&self, _record: &FoldRecord) {}
}

#[test]
fn an_old_cross_validation_stays_until_the_new_one_has_a_fold() {
    let dir = tempfile::tempdir().unwrap();
    let graphs = rings_and_stars(dir.path(), 12);
    let path = dir.path().join("crossval");
    let crossval = |folds: usize| short_crossval(&graphs, &path, folds);
    let none = Touching(dir.path().join("unused"));
    fs::write(&none.0, "").unwrap();
    crossval(4).train(&none, &AtomicBool::new(false)).unwrap();
    let old = tree(dir.path());
    // Stopped before its first fold, nothing is replaced.
    let (summary, records) = crossval(3).train(&none, &AtomicBool::new(true)).unwrap();
    assert_eq!((summary.folds_asked_for, records.len()), (3, 0));
    assert!(tree(dir.path()) == old);
    // Neither where it fails.
    let names: Vec<PathBuf> = old.keys().cloned().collect();
    let mapped = names.into_iter().find(|path| path.ends_with("in.neighbours.u32")).unwrap();
    let error = crossval(3).train(&Touching(mapped), &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("the file was changed while it was in use"), "{error}");
    assert!(tree(dir.path()) == old);
    let graphs = Graph::open(graphs.path()).unwrap();
    short_crossval(&graphs, &path, 3).train(&none, &AtomicBool::new(false)).unwrap();
    let directory = CrossvalDir::new(&path);
    assert_eq!(directory.finished().unwrap().len(), 3);
    assert!(!directory.fold(3).exists() && directory.summary_file().exists());
    assert!(Crossval::resume(&path).unwrap().open_folds().is_empty());
}
