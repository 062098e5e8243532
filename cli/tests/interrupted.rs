//! Jobs that are stopped, killed or run out of disk space leave no incomplete target, and what they
//! leave is cleaned up by the next job.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::Signal;

use crate::sandbox::{Sandbox, files_below, send};

/// A job that spills to disk and takes about a second.
const INGEST: [&str; 8] =
    ["ingest", "edges", "raw/edges.txt", "--out", "d", "--memory", "16MiB", "--quiet"];

/// The same with what it prints about signals.
const LOUD: &[&str] = INGEST.split_at(7).0;

/// A moment of a job: its name, and a test whether it has been reached in the working directory.
type Moment = (&'static str, fn(&Path) -> bool);

/// Moments of the temporary directory.
const MOMENTS: [Moment; 4] = [
    ("begun", |_| true),
    ("spilling", |work| fs::read_dir(work.join("scratch")).is_ok_and(|files| files.count() > 0)),
    ("writing", |work| work.join("relations/edges/in.neighbours.u32").exists()),
    ("nearly done", |work| work.join("ids.parquet").exists()),
];

/// A directory with an edge list.
fn with_edges() -> Sandbox {
    let sandbox = Sandbox::new();
    let edges =
        ["generate", "rmat", "--scale", "18", "--edges", "2000000", "--raw", "raw", "--quiet"];
    sandbox.ignn(&edges).exits(0);
    sandbox
}

fn spawn(sandbox: &Sandbox, arguments: &[&str]) -> Child {
    sandbox.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a job has reached a moment; false if it ended before.
fn wait_for(child: &mut Child, sandbox: &Sandbox, moment: fn(&Path) -> bool) -> bool {
    let work = sandbox.path(".d.ignn-draft/ignn-new");
    while !(work.exists() && moment(&work)) {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Starts a job, sends it a signal at a moment and returns its exit status; `None` if it ended
/// before the signal.
fn interrupt(
    sandbox: &Sandbox,
    arguments: &[&str],
    signal: Signal,
    moment: fn(&Path) -> bool,
) -> Option<Output> {
    let mut child = spawn(sandbox, arguments);
    let reached = wait_for(&mut child, sandbox, moment);
    if reached {
        send(signal, &child);
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() || said.lines().last() == Some("stopped") {
        // The last moment is short: the target may exist before the signal arrives, and is then
        // complete.
        sandbox.ignn(&["check", "d"]).exits(0);
        assert_eq!(sandbox.names(), ["d", "raw"]);
        fs::remove_dir_all(sandbox.path("d")).unwrap();
        return None;
    }
    assert!(reached, "{said}");
    Some(output)
}

#[test]
fn a_stopped_job_removes_its_output() {
    let sandbox = with_edges();
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        for (name, moment) in MOMENTS {
            let Some(output) = interrupt(&sandbox, LOUD, signal, moment) else { continue };
            assert_eq!(output.status.code(), Some(130), "{signal}, {name}");
            assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{signal}, {name}");
            let said = String::from_utf8_lossy(&output.stderr);
            let last = said.lines().last();
            assert_eq!(last, Some("stopped: unfinished output was removed"), "{signal}, {name}");
            assert_eq!(sandbox.names(), ["raw"], "{signal}, {name}");
        }
    }
}

#[test]
fn a_killed_job_leaves_no_target_and_the_next_one_cleans_up() {
    let sandbox = with_edges();
    for (name, moment) in MOMENTS {
        let Some(output) = interrupt(&sandbox, &INGEST, Signal::SIGKILL, moment) else { continue };
        assert_eq!(output.status.code(), None, "{name}");
        if sandbox.path("d").exists() {
            // Killed between the rename and its end.
            sandbox.ignn(&["check", "d"]).exits(0);
            fs::remove_dir_all(sandbox.path("d")).unwrap();
        }
        sandbox.ignn(&INGEST).exits(0);
        assert_eq!(sandbox.names(), ["d", "raw"], "{name}");
        sandbox.ignn(&["check", "d"]).exits(0);
        fs::remove_dir_all(sandbox.path("d")).unwrap();
    }
}

#[test]
fn two_jobs_do_not_write_the_same_target() {
    let sandbox = with_edges();
    let mut child = spawn(&sandbox, &INGEST);
    assert!(wait_for(&mut child, &sandbox, |_| true));
    let lock = ".d.ignn-draft";
    let busy = format!(
        "d: another run is writing this target (lock held on ./{lock}): wait for it, or choose another name"
    );
    sandbox.ignn(&INGEST).fails_with(&busy);
    assert!(child.wait().unwrap().success());
    assert_eq!(sandbox.names(), ["d", "raw"]);
}

#[test]
fn a_full_disk_leaves_nothing_behind() {
    let sandbox = with_edges();
    // Limits of the file size, in blocks of 512 or 1024 bytes depending on the shell. They hit the
    // first scratch file, a later one, and the adjacency.
    for blocks in [1, 2000, 6000] {
        // The signal SIGXFSZ is ignored, so that writing fails as it does on a full disk.
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_ignn")]).args(INGEST);
        let output = command.current_dir(sandbox.path("")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{blocks}: {said}");
        assert!(said.starts_with("error: ./.d.ignn-"), "{blocks}: {said}");
        assert!(
            said.ends_with(": cannot write: File too large (os error 27)\n"),
            "{blocks}: {said}"
        );
        assert_eq!(said.lines().count(), 1, "{blocks}: {said}");
        assert_eq!(sandbox.names(), ["raw"], "{blocks}");
    }
}

#[test]
fn a_replacement_that_fails_leaves_the_old_dataset() {
    let sandbox = with_edges();
    sandbox.file("small.txt", "1 2\n2 3\n").file("bad.txt", "1 2\n2\n");
    let small = ["ingest", "edges", "small.txt", "--out", "d", "--quiet"];
    sandbox.ignn(&small).exits(0);
    let old = files_below(&sandbox.path("d"));
    let intact = |why: &str| {
        assert!(files_below(&sandbox.path("d")) == old, "{why}");
        assert_eq!(sandbox.names(), ["bad.txt", "d", "raw", "small.txt"], "{why}");
    };
    let bad = ["ingest", "edges", "bad.txt", "--out", "d", "--force", "--quiet"];
    sandbox.ignn(&bad).exits(2);
    intact("a bad line");
    let large = [LOUD, &["--force"]].concat();
    for (name, moment) in &MOMENTS[..3] {
        let output = interrupt(&sandbox, &large, Signal::SIGTERM, *moment)
            .expect("half of it is still to come");
        assert_eq!(output.status.code(), Some(130), "{name}");
        intact(name);
    }
    let output = interrupt(&sandbox, &large, Signal::SIGKILL, MOMENTS[2].1)
        .expect("half of it is still to come");
    assert_eq!(output.status.code(), None);
    assert!(files_below(&sandbox.path("d")) == old);
    sandbox.ignn(&large).exits(0);
    assert!(files_below(&sandbox.path("d")) != old);
    assert_eq!(sandbox.names(), ["bad.txt", "d", "raw", "small.txt"]);
}
