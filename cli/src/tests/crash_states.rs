//! After a loss of power at any moment, a target is the old one, the new one, or absent where there
//! was none, and the next run cleans up. `IGNN_CRASH_STATES=2500` tests that many states of each
//! command.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};

use ignn_format::storage::{self, Operation};

use super::crashed_disk::{Random, Recording};
use super::place::{Place, TINY, Tree, below, drafts, finished, outside, with_datasets};
use crate::terminal::printer;

/// States of one command in the ordinary tests.
const STATES: usize = 120;

/// Tests the states of a command. `is_whole` says whether the targets are old, new or absent;
/// `next` is the run that cleans up, and `is_done` whether it did.
fn test(
    place: &Place,
    line: &str,
    is_whole: impl Fn(&Tree, &Tree, &Tree) -> bool,
    next: impl Fn(&Tree) -> String,
    is_done: impl Fn(&Tree, &Tree) -> bool,
) {
    let old = place.tree();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let watch = storage::watch(place.root(), move |operation| {
        sink.lock().unwrap().push(operation.clone());
        Ok(())
    });
    place.succeeds(line);
    drop(watch);
    let new = place.tree();
    let operations = seen.lock().unwrap().clone();
    let recording = Recording::new(&old, place.root(), &operations);
    let moments = recording.moments();
    let differs = || {
        let replayed = recording.complete(moments);
        let names = replayed.keys().chain(new.keys());
        names.filter(|name| replayed.get(*name) != new.get(*name)).cloned().collect::<Vec<_>>()
    };
    assert!(recording.complete(moments) == new, "{line}: not recorded: {:?}", differs());
    assert!(recording.complete(0) == old, "{line}");
    notices_missing_syncs(&old, place, &operations, |state| is_whole(state, &old, &new));
    let all = std::env::var("IGNN_CRASH_STATES").ok().map(|count| count.parse().unwrap());
    let count: usize = all.unwrap_or(STATES);
    let mut random = Random(16);
    let mut known: HashSet<Tree> = HashSet::new();
    let (mut olds, mut news, mut absents) = (0, 0, 0);
    for number in 0..count.max(2 * moments + 2) {
        // First every moment with all and with none of the unsynced operations, then random ones.
        let (round, moment) = (number / (moments + 1), number % (moments + 1));
        let state = match round {
            0 => recording.complete(moment),
            1 => recording.crashed(moment, &mut random, true),
            _ => {
                let moment = random.below(moments + 1);
                recording.crashed(moment, &mut random, false)
            }
        };
        let what = format!("{line}: state {number} of {moments} moments");
        let names: Vec<_> = state.keys().collect();
        assert!(is_whole(&state, &old, &new), "{what}: neither old nor new: {names:?}");
        match () {
            () if state == old => olds += 1,
            () if state == new => news += 1,
            () => absents += 1,
        }
        // The ordinary tests clean up only some of the states, and no state twice.
        if known.contains(&state) || all.is_none() && number % 4 != 0 {
            continue;
        }
        place.restore(&state);
        let next = next(&state);
        if let Err(error) = place.run(&next) {
            panic!("{what}: {next}: {error:#}: {names:?}");
        }
        let found = place.tree();
        assert!(drafts(&found).is_empty(), "{what}: {:?}", drafts(&found));
        assert!(is_done(&found, &new), "{what}: {next}: another result: {:?}", found.keys());
        known.insert(state);
    }
    if all.is_some() {
        let (count, different) = (count.max(2 * moments + 2), known.len());
        printer::message(&format!(
            "crash states: {count} ({different} different) of {moments} steps, all whole ({olds} \
             exactly as before, {news} exactly as after, {absents} also with something \
             unfinished): {line}"
        ));
    }
}

/// Asserts that the same operations without syncs of files leave something damaged; otherwise these
/// tests would prove nothing.
fn notices_missing_syncs(
    old: &Tree,
    place: &Place,
    operations: &[Operation],
    is_whole: impl Fn(&Tree) -> bool,
) {
    let is_sync = |operation: &&Operation| matches!(operation, Operation::SyncFile { .. });
    let careless: Vec<_> = operations.iter().filter(|one| !is_sync(one)).cloned().collect();
    let recording = Recording::new(old, place.root(), &careless);
    let mut random = Random(61);
    let is_damaged = |_| {
        let moment = random.below(recording.moments() + 1);
        !is_whole(&recording.crashed(moment, &mut random, false))
    };
    assert!((0..1000).any(is_damaged), "missing syncs were not noticed");
}

/// Whether a target is the old one or the new one, to the byte.
fn is_either(target: &str, state: &Tree, old: &Tree, new: &Tree) -> bool {
    let found = below(state, target);
    found == below(old, target) || found == below(new, target)
}

/// Whether all but the targets and their drafts is untouched.
fn is_untouched(targets: &[&str], state: &Tree, old: &Tree) -> bool {
    outside(&finished(state), targets) == outside(old, targets)
}

/// The names of two trees below a target.
fn has_same_names(target: &str, one: &Tree, other: &Tree) -> bool {
    below(one, target).keys().eq(below(other, target).keys())
}

#[test]
fn a_dataset_that_is_replaced() {
    let place = with_datasets();
    place.file("e.txt", "0 1\n1 2\n2 3\n").succeeds("ingest edges @e.txt --out @d");
    let line = "ingest tu @tu --out @d --force";
    test(
        &place,
        line,
        |state, old, new| is_either("d", state, old, new) && is_untouched(&["d"], state, old),
        |_| line.into(),
        |found, new| has_same_names("d", found, new) && place.run("check @d").is_ok(),
    );
}

#[test]
fn predictions() {
    let place = with_datasets();
    place.succeeds(&format!("train @s --out @run {TINY}"));
    let line = "predict @s --model @run --out @p.csv --embeddings @new/e.parquet --force";
    for is_there in [false, true] {
        if is_there {
            place.succeeds(&format!("{line} --split train"));
        }
        test(
            &place,
            line,
            |state, old, new| {
                let is_either = |target| is_either(target, state, old, new);
                is_either("p.csv")
                    && is_either("new/e.parquet")
                    && is_untouched(&["p.csv", "new"], state, old)
            },
            |_| line.into(),
            |found, new| found == new,
        );
    }
}

#[test]
fn checkpoints_and_models() {
    let place = with_datasets();
    place.succeeds(&format!("train @s --out @run {TINY}"));
    let line = "train --resume @run --epochs 4";
    let is_whole = |state: &Tree, old: &Tree, new: &Tree| {
        // Every model and checkpoint on the way is whole if it can be loaded: the next run does so.
        // Until the last one is written, the model is that of the run before.
        is_untouched(&["run"], state, old)
            && is_either("run/model.safetensors", state, old, new)
            && !below(state, "run/checkpoint/state.safetensors").is_empty()
    };
    let is_done = |found: &Tree, new: &Tree| {
        let name = "run/model.safetensors";
        below(found, name) == below(new, name)
    };
    test(&place, line, is_whole, |_| line.into(), is_done);
}

#[test]
fn a_new_run() {
    let place = with_datasets();
    let line = format!("train @s --out @run {TINY}");
    let is_whole = |state: &Tree, old: &Tree, new: &Tree| {
        let model = below(state, "run/model.safetensors");
        let is_model = model.is_empty() || model == below(new, "run/model.safetensors");
        let is_begun = below(state, "run").is_empty()
            || is_either("run/config.toml", state, new, new)
                && is_either("run/dataset.txt", state, new, new);
        is_untouched(&["run"], state, old) && is_model && is_begun
    };
    let next = |state: &Tree| match below(state, "run/checkpoint/state.safetensors").is_empty() {
        true => format!("{line} --force"),
        false => "train --resume @run".into(),
    };
    let is_done = |found: &Tree, new: &Tree| {
        let name = "run/model.safetensors";
        below(found, name) == below(new, name)
    };
    test(&place, &line, is_whole, next, is_done);
}

/// A cross-validation in place of nothing, or of an old one.
fn test_crossval(place: &Place, line: &str) {
    let old = below(&place.tree(), "cv");
    let is_old = |state: &Tree| below(state, "cv") == old;
    let is_whole = |state: &Tree, before: &Tree, new: &Tree| {
        let is_new = |name: &str| is_either(&format!("cv/{name}"), state, new, new);
        let is_begun = ["setup.json", "folds.csv", "config.toml", "dataset.txt"].map(is_new);
        // A fold with a record is finished.
        let is_finished = |fold: usize| {
            let records = ["fold.json", "model.safetensors", "metrics.jsonl"];
            let has_record = state.contains_key(Path::new(&format!("cv/fold-{fold}/fold.json")));
            !has_record || records.iter().all(|name| is_new(&format!("fold-{fold}/{name}")))
        };
        let is_new = is_begun.iter().all(|is_new| *is_new) && (0..3).all(is_finished);
        is_untouched(&["cv"], state, before) && (is_old(state) || is_new)
    };
    let next = |state: &Tree| match is_old(state) {
        true => line.into(),
        false => "crossval --resume @cv".into(),
    };
    let is_done = |found: &Tree, new: &Tree| {
        let is_same = |fold: usize| {
            let model = format!("cv/fold-{fold}/model.safetensors");
            below(found, &model) == below(new, &model)
        };
        has_same_names("cv", found, new) && (0..3).all(is_same)
    };
    test(place, line, is_whole, next, is_done);
}

#[test]
fn a_cross_validation() {
    let place = with_datasets();
    let line = "crossval @g --preset graphs --folds 3 --epochs 1 --set model.state=2 --out @cv";
    test_crossval(&place, line);
    place.restore(&outside(&place.tree(), &["cv"]));
    place.succeeds(&line.replace("folds 3", "folds 4"));
    test_crossval(&place, &format!("{line} --force"));
}
