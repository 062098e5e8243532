//! The command line as users see it: help, typos, exit codes, pipes, signals.

use std::process::{Command, Stdio};

use crate::sandbox::{Run, Sandbox};

#[test]
fn help_and_version_are_results() {
    let sandbox = Sandbox::new();
    let run = sandbox
        .ignn(&["--help"])
        .exits(0)
        .says("Usage: ignn")
        .says("Examples:")
        .says("Exit codes:");
    assert_eq!(run.stderr, "");
    sandbox.ignn(&["--version"]).exits(0).says(concat!("ignn ", env!("CARGO_PKG_VERSION")));
    let run = sandbox.ignn(&["ingest", "edges", "--help"]).exits(0);
    for word in
        ["--out", "--communities-top", "[default: renorm]", "[default: 50%]", "rcm", "Examples:"]
    {
        assert!(run.stdout.contains(word), "no {word} in\n{}", run.stdout);
    }
    sandbox.ignn(&["help", "inspect"]).exits(0).says("Show what is in a dataset");
}

#[test]
fn no_command_shows_help_and_fails() {
    let run = Sandbox::new().ignn(&[]).exits(2);
    assert!(run.stderr.contains("Usage: ignn"), "{}", run.stderr);
}

#[test]
fn a_typo_suggests_the_nearest_command() {
    let sandbox = Sandbox::new();
    let run = sandbox.ignn(&["inspct", "x"]).exits(2);
    assert!(run.stderr.contains("'inspect'"), "{}", run.stderr);
    let run =
        sandbox.ignn(&["ingest", "edges", "f", "--out", "x", "--normalise", "renrm"]).exits(2);
    assert!(run.stderr.contains("'renorm'"), "{}", run.stderr);
}

#[test]
fn wrong_options_are_refused_before_anything_happens() {
    let sandbox = Sandbox::new();
    let cases: [(&[&str], &str); 6] = [
        (&["ingest", "edges", "f"], "--out <DIR>"),
        (&["inspect", "d", "--memory", "4"], "the unit is missing"),
        (&["inspect", "d", "--memory", "130%"], "at most 100%"),
        (&["inspect", "d", "--threads", "0"], "--threads"),
        (&["ingest", "edges", "f", "--out", "d", "--weight", "w", "--unweighted"], "--unweighted"),
        (&["ingest", "edges", "f", "--out", "d", "--communities-top", "5"], "--communities"),
    ];
    for (arguments, expected) in cases {
        let run = sandbox.ignn(arguments).exits(2);
        assert!(run.stderr.contains(expected), "{arguments:?}: no {expected:?} in\n{}", run.stderr);
        assert_eq!(run.stdout, "");
    }
    assert!(sandbox.names().is_empty());
}

#[test]
fn a_path_that_is_not_a_dataset_gives_one_error() {
    let sandbox = Sandbox::new();
    sandbox.file("file", "x").file("empty/x", "");
    let hint = "it has no manifest.json (create one with `ignn ingest` or `ignn generate`)";
    for command in ["inspect", "check"] {
        sandbox.ignn(&[command, "gone"]).fails_with("gone: not an ignn dataset: no such directory");
        sandbox
            .ignn(&[command, "file"])
            .fails_with("file: not an ignn dataset: it is a file, not a directory");
        sandbox
            .ignn(&[command, "empty"])
            .fails_with(&format!("empty: not an ignn dataset: {hint}"));
    }
    sandbox
        .ignn(&["export", "gone", "--ids", "x.tsv"])
        .fails_with("gone: not an ignn dataset: no such directory");
}

#[test]
fn completions_and_manual_pages() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        sandbox.ignn(&["completions", shell]).exits(0).says("communities-top");
    }
    sandbox.ignn(&["man", "pages"]).exits(0).says(" pages in pages");
    assert!(
        sandbox.read("pages/ignn.1").contains("implicit")
            || sandbox.read("pages/ignn.1").contains("Implicit")
    );
    assert!(sandbox.read("pages/ignn-ingest-edges.1").contains("communities"));
    let pages = sandbox.ignn(&["man", "other", "--json"]).exits(0).json();
    assert!(pages["pages"].as_array().unwrap().len() > 10);
    // Pages of an older version are replaced on request, and nothing else.
    let old = ".TH ignn 1  \"ignn 0.0.1\" \n";
    sandbox.file("pages/ignn.1", old).file("pages/ignn-train.1", "mine");
    let run = sandbox.ignn(&["man", "pages"]).exits(2);
    assert!(run.stderr.contains(".1: already exists: choose another name"), "{}", run.stderr);
    let mine = "pages/ignn-train.1: not a manual page of ignn: --force replaces only what ignn \
                made: choose another name";
    sandbox.ignn(&["man", "pages", "--force"]).fails_with(mine);
    assert_eq!(sandbox.read("pages/ignn-train.1"), "mine");
    assert_eq!(sandbox.read("pages/ignn.1"), old, "none is written if one cannot be");
    std::fs::remove_file(sandbox.path("pages/ignn-train.1")).unwrap();
    sandbox.ignn(&["man", "pages", "--force"]).exits(0);
    assert_eq!(sandbox.read("pages/ignn.1"), sandbox.read("other/ignn.1"));
}

#[test]
fn the_next_command_can_be_copied() {
    let sandbox = Sandbox::new();
    let next = |run: Run| {
        let line = run.exits(0).stdout.lines().last().unwrap().to_string();
        line.strip_prefix("next: ignn ").unwrap_or_else(|| panic!("{line}")).to_string()
    };
    let repeated = |line: &str| {
        let mut command = Command::new("sh");
        let script = format!("exec \"$0\" {line}");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_ignn")]);
        let output = command.current_dir(sandbox.path("")).output().unwrap();
        assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
    };
    let graph = "generate sbm --nodes 300 --blocks 3 -q --out";
    let graph: Vec<&str> = graph.split(' ').collect();
    let inspect = next(sandbox.ignn(&[&graph[..], &["it's a; graph"]].concat()));
    assert_eq!(inspect, r"inspect 'it'\''s a; graph'");
    repeated(&inspect);
    let train = ["train", "it's a; graph", "--epochs", "1", "--set", "model.state=4", "--out"];
    let eval = next(sandbox.ignn(&[&train[..], &["a run", "-q"]].concat()));
    assert_eq!(eval, r"eval 'it'\''s a; graph' --model 'a run'");
    repeated(&eval);
    // What a terminal would not show is spelled as bash, zsh and ksh read it.
    let inspect = next(sandbox.ignn(&[&graph[..], &["two\nlines"]].concat()));
    assert_eq!(inspect, r"inspect $'two\x0alines'");
}

#[test]
fn bench_train_times_the_epochs_that_are_asked_for() {
    let sandbox = Sandbox::new();
    let graph = "generate sbm --nodes 300 --blocks 3 --out s -q";
    sandbox.ignn(&graph.split(' ').collect::<Vec<_>>()).exits(0);
    for option in ["--epochs", "--repeat"] {
        let line = format!("bench train s {option} 3 --warm-up 1 --set model.state=4 --json -q");
        let timed = sandbox.ignn(&line.split(' ').collect::<Vec<_>>()).exits(0).json();
        assert_eq!((&timed["warm_up"], &timed["timed"]), (&1.into(), &3.into()), "{option}");
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let sandbox = Sandbox::new();
    for arguments in [&["completions", "bash"][..], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = sandbox.command(arguments);
        let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn a_full_disk_under_standard_output_is_an_error() {
    let sandbox = Sandbox::new();
    for arguments in [&["--help"][..], &["-h"], &["--version"], &["help", "train"], &["man", "-h"]]
    {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = sandbox.command(arguments).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "error: standard output: cannot write: No space left on device (os error 28)\n",
            "{arguments:?}"
        );
    }
}

#[test]
fn a_signal_removes_unfinished_output() {
    let stopped = "stopped: unfinished output was removed\n";
    for (signal, option, said) in [("INT", "--threads=2", stopped), ("TERM", "--quiet", "")] {
        let sandbox = Sandbox::new();
        // Enough edges that the job cannot finish before the signal.
        let mut command = sandbox.command(&["bench", "ingest", "--edges", "1G", option]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let work = sandbox.path(".ignn-bench.ignn-draft/ignn-new");
        while !work.join(".raw.ignn-draft/ignn-new/edges.txt").exists() {
            std::thread::yield_now();
        }
        let kill = format!("kill -{signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{signal}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.ends_with(said) && (option != "--quiet" || stderr.is_empty()), "{stderr}");
        assert!(sandbox.names().is_empty(), "{signal}: {:?}", sandbox.names());
    }
}
