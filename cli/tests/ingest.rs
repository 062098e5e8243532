//! `ignn ingest edges` and the commands after it, on files of a few lines.

use crate::sandbox::Sandbox;

/// A path 10-20-30, a duplicate edge, and a node with only a self-loop.
const EDGES: &str = "# source target\n10 20\n20 30\n30 20\n40 40\n";

/// A sandbox with dataset `d`, made from [`EDGES`] with these options.
fn dataset(options: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("edges.txt", EDGES);
    sandbox.ignn(&[&["ingest", "edges", "edges.txt", "--out", "d"], options].concat()).exits(0);
    sandbox
}

#[test]
fn a_summary_and_the_next_command() {
    let sandbox = Sandbox::new();
    sandbox.file("edges.txt", EDGES);
    let run = sandbox.ignn(&["ingest", "edges", "edges.txt", "--out", "d"]).exits(0);
    let run = run.says("made d\n").says("nodes").says("next: ignn inspect d\n");
    let lines: Vec<_> = run.stderr.lines().map(|line| line.split(':').next()).collect();
    assert!(!lines.is_empty(), "progress goes to standard error");
    assert!(
        lines.windows(2).all(|pair| pair[0] != pair[1]),
        "a phase is told once:\n{}",
        run.stderr
    );
    assert_eq!(sandbox.names(), ["d", "edges.txt"]);
}

#[test]
fn quiet_says_nothing_on_standard_error() {
    let sandbox = Sandbox::new();
    sandbox.file("edges.txt", EDGES);
    let run = sandbox.ignn(&["ingest", "edges", "edges.txt", "--out", "d", "--quiet"]).exits(0);
    assert_eq!(run.stderr, "");
}

#[test]
fn json_is_one_object() {
    let sandbox = Sandbox::new();
    sandbox.file("edges.txt", EDGES);
    let made =
        sandbox.ignn(&["ingest", "edges", "edges.txt", "--out", "d", "--json"]).exits(0).json();
    assert_eq!(made["nodes"], 4);
    assert_eq!(made["command"], "ingest edges");
    assert_eq!(made["relations"][0]["symmetric"], true);
    assert!(made["bytes_on_disk"].as_u64().unwrap() > 0 && made["seconds"].as_f64().unwrap() > 0.0);
    assert!(!made["phases"].as_array().unwrap().is_empty());
}

#[test]
fn an_existing_target_is_kept_without_force() {
    let sandbox = dataset(&[]);
    let before = sandbox.read("d/manifest.json");
    let again = ["ingest", "edges", "edges.txt", "--out", "d", "--directed", "--quiet"];
    sandbox
        .ignn(&again)
        .fails_with("d: already exists: choose another name, or pass --force to replace it");
    assert_eq!(sandbox.read("d/manifest.json"), before);
    sandbox.ignn(&[&again[..], &["--force"]].concat()).exits(0);
    assert_ne!(sandbox.read("d/manifest.json"), before);
    assert_eq!(sandbox.names(), ["d", "edges.txt"]);
}

#[test]
fn a_bad_line_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    sandbox.file("edges.txt", "1 2\n3\n");
    let run = sandbox.ignn(&["ingest", "edges", "edges.txt", "--out", "d", "--quiet"]).exits(2);
    assert!(run.stderr.starts_with("error: edges.txt:2: expected "), "{}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1);
    assert_eq!(sandbox.names(), ["edges.txt"]);
}

#[test]
fn a_new_dataset_is_intact_and_damage_is_found() {
    let sandbox = dataset(&["--quiet"]);
    sandbox.ignn(&["check", "d"]).exits(0).says("ok");
    let verified = sandbox.ignn(&["check", "d", "--json"]).exits(0).json();
    assert_eq!(verified["sound"], true);
    let path = sandbox.path("d/relations/edges/in.neighbours.u32");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    sandbox.ignn(&["check", "d"]).exits(1).says("in.neighbours.u32");
    let verified = sandbox.ignn(&["check", "d", "--json"]).exits(1).json();
    assert_eq!(verified["sound"], false);
}
