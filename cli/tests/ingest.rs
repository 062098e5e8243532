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
fn what_was_assumed_is_said() {
    let sandbox = Sandbox::new();
    sandbox.file("a.csv", "Buyer,when,seller,weight\n1,x,2,0.5\n2,y,3,0.5\n");
    let line = "ingest edges a.csv --source buyer --target seller --out d --directed";
    let line: Vec<&str> = line.split_whitespace().collect();
    let line = [&line[..], &["--normalise", "row"]].concat();
    sandbox
        .ignn(&[&line[..], &["-q"]].concat())
        .exits(0)
        .says(
            "read as      a.csv: commas between columns, a header, integer ids, source \"Buyer\", \
             target \"seller\", weight \"weight\", ignored: \"when\"\n",
        )
        .says("             directed; normalised: D^-1 A\n");
    let made = sandbox.ignn(&[&line[..], &["--force", "--json", "-q"]].concat()).exits(0).json();
    assert_eq!(made["read_as"].as_array().unwrap().len(), 2, "{made:#}");
    sandbox.file("e.txt", "1 2\n2 3\n").file("f.txt", "3 4\n");
    sandbox
        .ignn(&["ingest", "edges", "e.txt", "f.txt", "--out", "e", "-q"])
        .exits(0)
        .says(
            "e.txt and 1 more: blanks between columns, no header, integer ids, source column 0, \
             target column 1, no weight\n",
        )
        .says(
            "undirected: every edge counts in both directions; normalised: D^-1/2 (A + I) D^-1/2\n",
        );
}

#[test]
fn columns_that_could_be_misread_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.file("a.csv", "source,target,weight,weight\n1,2,3,4\n");
    sandbox.ignn(&["ingest", "edges", "a.csv", "--out", "d", "-q"]).fails_with(
        "a.csv: two columns named \"weight\" (expected a name of its own for each; pass \
         --no-header if the first line is an edge)",
    );
    sandbox.file("b.csv", "# edges\nsource;target\n1;2\n");
    sandbox.ignn(&["ingest", "edges", "b.csv", "--out", "d", "-q"]).fails_with(
        "b.csv:2: expected columns separated by commas, tabs or blanks, found semicolons: \
         \"source;target\"",
    );
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
