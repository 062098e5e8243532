//! Every operation on a file system fails once, in every command that writes: no panic, one
//! message, no remains, and each target is the old one or the new one. `IGNN_FAULTS=all` takes
//! every operation of every command and prints counts; without it the longer commands take samples.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ignn_format::storage::{self, Operation};

use super::place::{Place, TINY, Tree, below, drafts, finished, outside, with_datasets};
use crate::terminal::{messages, printer};

const ENOSPC: i32 = 28;
const EIO: i32 = 5;
const EACCES: i32 = 13;

/// Which operations fail.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// One, with this error of the system.
    Once(i32),
    /// From one on, all that need space on the disk.
    FullDisk,
    /// From one on, all: also those that clean up.
    DeadDisk,
}

/// What a command leaves.
enum Output {
    /// Files or directories that appear as a whole.
    Whole(&'static [&'static str]),
    /// The directory of a run, with the commands that resume it and that start it again.
    Run { name: &'static str, resume: String, again: String },
}

/// A command on the datasets of [`with_datasets`].
struct Case {
    /// Commands before it.
    before: Vec<String>,
    line: String,
    output: Output,
    /// Without `IGNN_FAULTS=all`, only every `step`th operation is made to fail.
    step: u64,
}

/// Makes operations below the place fail from this number on; the counter holds how many there
/// were.
fn install(place: &Place, number: u64, fault: Fault) -> (storage::Watch, Arc<AtomicU64>) {
    let seen = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&seen);
    let watch = storage::watch(place.root(), move |operation| {
        let at = counter.fetch_add(1, Ordering::Relaxed) + 1;
        let needs_space = matches!(
            operation,
            Operation::Write { .. } | Operation::Create { .. } | Operation::MakeDirectory { .. }
        );
        match fault {
            Fault::Once(code) if at == number => Err(io::Error::from_raw_os_error(code)),
            Fault::FullDisk if at >= number && needs_space => {
                Err(io::Error::from_raw_os_error(ENOSPC))
            }
            Fault::DeadDisk if at >= number => Err(io::Error::from_raw_os_error(EIO)),
            _ => Ok(()),
        }
    });
    (watch, seen)
}

/// Whether every file of one tree is in the other, with the same bytes unless it differs between
/// two undisturbed runs (because of a time in it).
fn is_same(found: &Tree, expected: &Tree, again: &Tree) -> bool {
    found.keys().eq(expected.keys())
        && found.iter().all(|(path, content)| {
            expected.get(path) != again.get(path) || expected.get(path) == Some(content)
        })
}

impl Case {
    fn new(line: impl Into<String>, targets: &'static [&'static str], step: u64) -> Self {
        Self { before: Vec::new(), line: line.into(), output: Output::Whole(targets), step }
    }

    fn after(mut self, line: &str) -> Self {
        self.before.push(line.into());
        self
    }

    fn test(&self) {
        let place = with_datasets();
        for line in &self.before {
            place.succeeds(line);
        }
        let old = place.tree();
        place.succeeds(&self.line);
        let new = place.tree();
        place.restore(&old);
        place.succeeds(&self.line);
        let again = place.tree();
        assert!(drafts(&again).is_empty(), "{}", self.line);
        let all = std::env::var("IGNN_FAULTS").is_ok_and(|value| value == "all");
        let (mut failures, mut survived) = (0, 0);
        let step = if all { 1 } else { self.step };
        for kind in 0..3 {
            // Each kind of fault samples other operations.
            let mut number = if all { 1 } else { 1 + kind % step };
            loop {
                let fault = match kind {
                    0 => Fault::Once([ENOSPC, EIO, EACCES][number as usize % 3]),
                    1 => Fault::FullDisk,
                    _ => Fault::DeadDisk,
                };
                place.restore(&old);
                let (watch, seen) = install(&place, number, fault);
                let result = catch_unwind(AssertUnwindSafe(|| place.run(&self.line)));
                drop(watch);
                let what = format!("{}, operation {number}, {fault:?}", self.line);
                let Ok(result) = result else { panic!("{what}: panicked") };
                match &result {
                    Ok(_) => survived += 1,
                    Err(error) => {
                        failures += 1;
                        let message = messages::full_message(error);
                        assert_eq!(messages::code(error), 2, "{what}: {message}");
                        assert!(
                            !message.is_empty() && !message.contains('\n'),
                            "{what}: {message}"
                        );
                    }
                }
                self.verify(&place, result.is_ok(), fault, [&old, &new, &again], &what);
                if seen.load(Ordering::Relaxed) < number {
                    assert!(result.is_ok(), "{what}: {:?}", result.err());
                    break;
                }
                number += step;
            }
        }
        if all {
            let text = format!("faults: {failures} failed, {survived} did not: {}", self.line);
            printer::message(&text);
        }
    }

    /// What a command left behind, whether or not it noticed the fault.
    fn verify(&self, place: &Place, is_ok: bool, fault: Fault, trees: [&Tree; 3], what: &str) {
        let [old, new, again] = trees;
        let found = place.tree();
        let remains = drafts(&found);
        assert!(remains.is_empty() || fault == Fault::DeadDisk, "{what}: {remains:?}");
        match &self.output {
            Output::Whole(targets) => {
                let found = finished(&found);
                let is_untouched = outside(&found, targets) == outside(old, targets);
                assert!(is_untouched, "{what}: something else changed");
                for target in *targets {
                    let [found, old, new, again] =
                        [&found, old, new, again].map(|tree| below(tree, target));
                    let is_new = is_same(&found, &new, &again);
                    // Parents that were created, and could not be removed.
                    let is_empty = old.is_empty() && found.values().all(Option::is_none);
                    let is_old = found == old || is_empty && fault == Fault::DeadDisk;
                    assert!(is_new || !is_ok && is_old, "{what}: {target}: {:?}", found.keys());
                }
            }
            Output::Run { name, resume, again } => {
                assert!(
                    outside(&found, &[name]) == outside(old, &[name]) || !remains.is_empty(),
                    "{what}"
                );
                let has_begun = below(&found, name) != below(old, name);
                if is_ok {
                    let model = format!("{name}/model.safetensors");
                    assert!(below(&found, &model) == below(new, &model), "{what}: another model");
                }
                if let (true, Err(error)) = (has_begun, place.run(resume)) {
                    let message = error.to_string();
                    let is_early = message.contains("ended before its first checkpoint");
                    // A run that replaced another has a checkpoint from the start.
                    let is_forced = self.line.contains("--force");
                    assert!(is_early && !is_forced, "{what}: cannot be resumed: {message}");
                }
                place.succeeds(if has_begun { again } else { &self.line });
                let found = place.tree();
                assert!(drafts(&found).is_empty(), "{what}: {:?}", drafts(&found));
                for model in found.keys().filter(|path| path.ends_with("model.safetensors")) {
                    assert!(found[model] == new[model], "{what}: {}", model.display());
                }
                return;
            }
        }
        if fault == Fault::DeadDisk && !is_ok {
            place.restore(&found);
            let force = if self.line.contains("--force") { "" } else { " --force" };
            place.succeeds(&format!("{}{force}", self.line));
            let found = place.tree();
            assert!(drafts(&found).is_empty(), "{what}: {:?}", drafts(&found));
        }
    }
}

#[test]
fn ingest_and_generate() {
    let edges = "ingest edges @raw/edges.tsv --out @d";
    let raw = "generate grid --rows 3 --columns 2 --raw @raw";
    Case::new(edges, &["d"], 5).after(raw).test();
    let force = "ingest tu @tu --force --out @d";
    Case::new(force, &["d"], 5).after(raw).after(edges).test();
    Case::new("generate grid --rows 3 --columns 2 --raw @raw --out @d", &["raw", "d"], 9).test();
}

#[test]
fn predict_export_and_report() {
    let train = format!("train @s --out @run {TINY}");
    let after = |line: &str, targets, step| Case::new(line, targets, step).after(&train).test();
    after(
        "predict @s --model @run --out @p.csv --embeddings @e.parquet",
        &["p.csv", "e.parquet"],
        1,
    );
    after(
        "export @s --edges @e.parquet --ids @i.csv --labels @l.csv",
        &["e.parquet", "i.csv", "l.csv"],
        1,
    );
    after("report @run --no-classes --out @deep/r.html", &["deep"], 1);
    let old = "report @run --no-classes --out @r.html";
    Case::new(format!("{old} --force"), &["r.html"], 1).after(&train).after(old).test();
}

#[test]
fn train() {
    let line = format!("train @s --out @run {TINY}");
    let run = |again: &str| Output::Run {
        name: "run",
        resume: "train --resume @run".into(),
        again: again.into(),
    };
    let force = format!("{line} --force");
    let new = || Case { output: run(&force), ..Case::new(&line, &[], 11) };
    new().test();
    Case { line: force.clone(), ..new() }.after(&line.replace("epochs 2", "epochs 1")).test();
    let longer = "train --resume @run --epochs 3";
    Case { line: longer.into(), output: run(longer), ..new() }.after(&line).test();
}

#[test]
fn crossval() {
    let line = "crossval @g --preset graphs --folds 3 --epochs 1 --set model.state=2 --out @cv";
    let again = format!("{line} --force");
    let case = |line: &str| {
        let (resume, again) = ("crossval --resume @cv".into(), again.clone());
        Case { output: Output::Run { name: "cv", resume, again }, ..Case::new(line, &[], 13) }
    };
    case(line).test();
    case(&again).after(&line.replace("folds 3", "folds 4")).test();
}
