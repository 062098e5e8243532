//! Runs that are stopped or killed, and continue to the same bits as one that was not.

use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use super::{bytes, communities, metrics, names, words};
use crate::sandbox::{Sandbox, send};

/// A second of epochs, with dropout and adam: everything that a checkpoint has to hold counts.
const LINE: &str = "--epochs 150 --set model.state=8 --set model.bias=true";

fn start(sandbox: &Sandbox, line: &str) -> Child {
    sandbox.command(&words(line)).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a run has recorded this number of epochs and, if asked for, written a checkpoint.
fn wait_for(child: &mut Child, sandbox: &Sandbox, run: &str, epochs: usize, checkpoint: bool) {
    let recorded = || {
        let text =
            fs::read_to_string(sandbox.path(&format!("{run}/metrics.jsonl"))).unwrap_or_default();
        text.lines().count() >= epochs
    };
    let saved =
        || !checkpoint || sandbox.path(&format!("{run}/checkpoint/state.safetensors")).exists();
    while !(recorded() && saved()) {
        assert!(child.try_wait().unwrap().is_none(), "the run was faster than its signal");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[track_caller]
fn assert_same(sandbox: &Sandbox, run: &str, whole: &str) {
    let model = |run: &str| bytes(sandbox, &format!("{run}/model.safetensors"));
    assert!(model(run) == model(whole), "{run}: another model");
    assert_eq!(metrics(sandbox, run), metrics(sandbox, whole), "{run}");
    let state = |run: &str| bytes(sandbox, &format!("{run}/checkpoint/state.safetensors"));
    assert!(state(run) == state(whole), "{run}: another state in the end");
    assert_eq!(names(sandbox, &format!("{run}/checkpoint")), ["state.safetensors"]);
}

#[test]
fn a_stopped_run_continues_as_if_it_had_not_been() {
    let sandbox = communities();
    sandbox.ignn(&words(&format!("train s --out whole {LINE} -q"))).exits(0);
    for (signal, epochs) in [(Signal::SIGINT, 1), (Signal::SIGTERM, 20)] {
        let run = format!("run-{signal}");
        let mut child = start(&sandbox, &format!("train s --out {run} {LINE}"));
        wait_for(&mut child, &sandbox, &run, epochs, false);
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        let (printed, progress) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        assert_eq!(output.status.code(), Some(130), "{printed}{progress}");
        assert!(
            progress.contains("stopping after this epoch; a second signal stops at once\n"),
            "{progress}"
        );
        assert!(printed.contains(": stopped; continue with --resume\n"), "{printed}");
        assert!(printed.ends_with(&format!("next: ignn train --resume {run}\n")), "{printed}");
        // It can be used as it is.
        sandbox.ignn(&words(&format!("predict s --model {run} --out p.csv --force -q"))).exits(0);
        let recorded = metrics(&sandbox, &run).len();
        assert!((epochs..150).contains(&recorded), "{recorded}");
        sandbox
            .ignn(&words(&format!("train --resume {run} -q")))
            .exits(0)
            .says("150: all epochs done");
        assert_same(&sandbox, &run, "whole");
        assert_eq!(
            names(&sandbox, &format!("{run}/tensorboard")).len(),
            2,
            "one event file per session"
        );
    }
}

#[test]
fn a_killed_run_continues_from_its_last_checkpoint() {
    let sandbox = communities();
    let line = format!("{LINE} --set train.checkpoint_epochs=7");
    sandbox.ignn(&words(&format!("train s --out whole {line} -q"))).exits(0);
    let mut child = start(&sandbox, &format!("train s --out run {line} -q"));
    wait_for(&mut child, &sandbox, "run", 24, true);
    send(Signal::SIGKILL, &child);
    assert_eq!(child.wait().unwrap().code(), None);
    assert!(!sandbox.path("run/model.safetensors").exists());
    // A line that was never finished is not a record.
    let mut text = sandbox.read("run/metrics.jsonl");
    text.push_str("{\"epoch\":99,\"lo");
    fs::write(sandbox.path("run/metrics.jsonl"), text).unwrap();
    // From anywhere: the run knows where its dataset is.
    let mut resume = sandbox.command(&words("train --resume ../run -q"));
    fs::create_dir(sandbox.path("elsewhere")).unwrap();
    assert!(
        resume
            .current_dir(sandbox.path("elsewhere"))
            .stdout(Stdio::null())
            .status()
            .unwrap()
            .success()
    );
    assert_same(&sandbox, "run", "whole");
}

#[test]
fn what_cannot_be_resumed_says_why() {
    let sandbox = communities();
    let fails = |line: &str, message: &str| sandbox.ignn(&words(line)).fails_with(message);
    fails("train --resume none -q", "none: not a run directory (expected config.toml in it)");
    fails("train --resume s -q", "s: not a run directory (expected config.toml in it)");
    sandbox.ignn(&words("train s --out run --epochs 2 --set model.state=8 -q")).exits(0);
    // Another dataset in its place.
    sandbox.ignn(&words("generate sbm --nodes 300 --blocks 3 --seed 9 --out other -q")).exits(0);
    let run = sandbox.ignn(&words("train other --resume run -q")).exits(2);
    let start =
        "error: run/checkpoint/state.safetensors: the checkpoint does not fit (dataset: found ";
    assert!(
        run.stderr.starts_with(start) && run.stderr.ends_with(": has it changed?)\n"),
        "{}",
        run.stderr
    );
    // Another shape in its configuration.
    let config = sandbox.read("run/config.toml");
    fs::write(sandbox.path("run/config.toml"), config.replace("state = [8]\n", "state = [9]\n"))
        .unwrap();
    fails(
        "train --resume run -q",
        "run/checkpoint/state.safetensors: the checkpoint does not fit (settings: found state = \
         [9], expected state = [8]: a run continues with the settings it began with)",
    );
    // The refusals have changed nothing.
    fs::write(sandbox.path("run/config.toml"), config).unwrap();
    sandbox.ignn(&words("train --resume run -q --epochs 4")).exits(0).says("4: all epochs done");
    assert_eq!(metrics(&sandbox, "run").len(), 5);
    fails(
        "train --resume run -q --epochs 1",
        "run: the run is at epoch 4: found 1 epochs, expected 4 or more",
    );
    fails(
        "train --resume run -q --seed 3",
        "--seed: a resumed run keeps its own seed: leave the option out",
    );
    fs::remove_dir_all(sandbox.path("run/checkpoint")).unwrap();
    fails(
        "train --resume run -q",
        "run: the run ended before its first checkpoint: train again with --force",
    );
}

#[test]
fn a_run_in_progress_is_left_alone() {
    let sandbox = communities();
    sandbox
        .ignn(&words("train s --out runs --seeds 0,1 --epochs 2 --set model.state=8 -q"))
        .exits(0);
    let held = fs::File::open(sandbox.path("runs/seed-1")).unwrap();
    held.lock().unwrap();
    let before = bytes(&sandbox, "runs/seed-1/metrics.jsonl");
    let message = "runs/seed-1: another process is using it: wait until it ends, or stop it first";
    for line in
        ["train --resume runs/seed-1 --epochs 4 -q", "train s --out runs --force --epochs 2 -q"]
    {
        sandbox.ignn(&words(line)).fails_with(message);
    }
    assert!(bytes(&sandbox, "runs/seed-1/metrics.jsonl") == before);
    held.unlock().unwrap();
    sandbox.ignn(&words("train --resume runs/seed-1 --epochs 4 -q")).exits(0);
    sandbox.ignn(&words("train s --out runs --force --epochs 2 --set model.state=8 -q")).exits(0);
}

#[test]
fn more_epochs_continue_a_finished_run_as_if_it_had_had_them() {
    let sandbox = communities();
    let line = "--set model.state=8 --set model.bias=true -q";
    sandbox.ignn(&words(&format!("train s --out whole {line} --epochs 9"))).exits(0);
    sandbox.ignn(&words(&format!("train s --out run {line} --epochs 4"))).exits(0);
    // Nothing is left to do, and nothing changes.
    sandbox.ignn(&words("train --resume run -q")).exits(0).says("4: all epochs done");
    sandbox.ignn(&words("train --resume run --epochs 9 -q")).exits(0).says("9: all epochs done");
    assert_same(&sandbox, "run", "whole");
}

#[test]
fn a_run_that_stopped_early_prints_the_same_when_resumed() {
    let sandbox = communities();
    let line = "train s --out run --epochs 300 --set train.stop_after=3 --set model.state=8 --set \
                solver.max_sweeps=2 -q";
    let first = sandbox.ignn(&words(line)).exits(1);
    let again = sandbox.ignn(&words("train --resume run -q")).exits(1);
    let solves =
        |said: &str| said.lines().find(|line| line.contains("solves")).unwrap().to_string();
    assert!(solves(&first.stdout).ends_with(" did not converge"), "{}", first.stdout);
    assert_eq!(solves(&first.stdout), solves(&again.stdout));
}

#[test]
fn only_runs_are_replaced() {
    let sandbox = communities();
    fs::create_dir(sandbox.path("mine")).unwrap();
    fs::write(sandbox.path("mine/config.toml"), "title = \"mine\"\n").unwrap();
    let line = "train s --force --epochs 1 --set model.state=8 -q --out";
    sandbox.ignn(&words(&format!("{line} mine"))).fails_with(
        "mine: not a run directory (it holds config.toml): --force replaces only what ignn made: \
             choose another name",
    );
    sandbox.ignn(&words(&format!("{line} run"))).exits(0);
    fs::write(sandbox.path("run/notes.txt"), "precious").unwrap();
    sandbox.ignn(&words(&format!("{line} run"))).fails_with(
        "run/notes.txt: not a file of a run: --force would remove it: move it away first",
    );
    assert_eq!(sandbox.read("run/notes.txt"), "precious");
    fs::remove_file(sandbox.path("run/notes.txt")).unwrap();
    sandbox.ignn(&words(&format!("{line} run"))).exits(0);
}

#[test]
fn seeds_that_train_at_a_time_all_write_their_checkpoint() {
    let sandbox = communities();
    let line = "--set model.state=8 --set model.bias=true --epochs 150 --threads 2";
    sandbox.ignn(&words(&format!("train s --out whole --seeds 0..2 {line} -q"))).exits(0);
    let mut child = start(&sandbox, &format!("train s --out runs --seeds 0..2 {line}"));
    for run in ["runs/seed-0", "runs/seed-1"] {
        wait_for(&mut child, &sandbox, run, 2, false);
    }
    send(Signal::SIGINT, &child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.ends_with("next: ignn train --resume runs/seed-0\n"), "{said}");
    assert_eq!(names(&sandbox, "runs"), ["seed-0", "seed-1"], "the third has not started");
    for seed in [0, 1] {
        let run = format!("runs/seed-{seed}");
        sandbox.ignn(&words(&format!("train --resume {run} -q"))).exits(0);
        assert_same(&sandbox, &run, &format!("whole/seed-{seed}"));
    }
}

#[test]
fn seeds_without_end_are_refused() {
    let sandbox = communities();
    for (seeds, message) in [
        ("0..99999999999", "expected at most 10000 seeds, found 0..99999999999"),
        (
            "18446744073709551615",
            "expected seeds up to 9223372036854775807, found 18446744073709551615",
        ),
    ] {
        let run = sandbox.ignn(&words(&format!("train s --out run --seeds {seeds}"))).exits(2);
        assert!(run.stderr.contains(message), "{}", run.stderr);
    }
}
