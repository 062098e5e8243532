//! `--memory` bounds the peak memory and does not change the result; the estimated memory of
//! training agrees with the measured memory.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};

use serde_json::Value;

use crate::sandbox::{Sandbox, files_below};

const BOUND: u64 = 64 << 20;
/// What a job may use in addition: the program itself, thread stacks, buffers of system libraries.
const BESIDES: u64 = 256 << 20;
const EDGES: u64 = 3_000_000;

/// Writes a copy of `edges.txt` in which every id is replaced consistently.
fn transformed(sandbox: &Sandbox, name: &str, mut id: impl FnMut(u64, &mut dyn Write)) {
    let source = BufReader::new(File::open(sandbox.path("raw/edges.txt")).unwrap());
    let mut out = BufWriter::new(File::create(sandbox.path(name)).unwrap());
    for line in source.lines() {
        let line = line.unwrap();
        let mut ids = line.split_ascii_whitespace().map(|id| id.parse().unwrap());
        id(ids.next().unwrap(), &mut out);
        out.write_all(b" ").unwrap();
        id(ids.next().unwrap(), &mut out);
        out.write_all(b"\n").unwrap();
    }
    out.flush().unwrap();
}

/// A bijection of 64-bit ids that does not keep their order.
fn scatter(id: u64) -> u64 {
    id.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Ingests a file with little and with much memory.
fn bounded(sandbox: &Sandbox, file: &str) {
    let ingest = |out: &str, memory: &str| {
        let arguments =
            ["ingest", "edges", file, "--out", out, "--memory", memory, "--quiet", "--json"];
        sandbox.ignn(&arguments).exits(0).json()
    };
    let (little, much) = (ingest("little", "64MiB"), ingest("much", "1GiB"));
    assert_eq!(little["edges_read"], EDGES, "{file}");
    assert!(little["spilled_bytes"].as_u64().unwrap() > 0, "{file}: {little:#}");
    assert_eq!(much["spilled_bytes"], 0, "{file}: {much:#}");
    match little["peak_memory_bytes"].as_u64() {
        Some(peak) => assert!(peak <= BOUND + BESIDES, "{file}: peak memory {peak}"),
        None => println!("skipped: the peak memory is not known on this system"),
    }
    let (little, much) = (files_below(&sandbox.path("little")), files_below(&sandbox.path("much")));
    assert!(little.keys().eq(much.keys()), "{file}: {:?} {:?}", little.keys(), much.keys());
    for (name, bytes) in &little {
        assert!(*bytes == much[name], "{file}: {} depends on the memory", name.display());
    }
}

fn with_edges() -> Sandbox {
    let sandbox = Sandbox::new();
    let edges = EDGES.to_string();
    let generate =
        ["generate", "rmat", "--scale", "19", "--edges", &edges, "--raw", "raw", "--quiet"];
    sandbox.ignn(&generate).exits(0);
    sandbox
}

#[test]
fn integer_ids() {
    bounded(&with_edges(), "raw/edges.txt");
}

#[test]
fn sparse_ids() {
    let sandbox = with_edges();
    transformed(&sandbox, "sparse.txt", |id, out| write!(out, "{}", scatter(id)).unwrap());
    bounded(&sandbox, "sparse.txt");
}

#[test]
fn string_ids() {
    let sandbox = with_edges();
    transformed(&sandbox, "words.txt", |id, out| write!(out, "user-{:x}", scatter(id)).unwrap());
    bounded(&sandbox, "words.txt");
}

/// Largest relative difference of estimated and measured memory.
const ESTIMATED_WITHIN: f64 = 0.15;

fn generate(sandbox: &Sandbox, name: &str, nodes: &str, features: &str) {
    let sizes = ["--nodes", nodes, "--blocks", "8", "--features", features];
    let arguments = [&["generate", "sbm", "--out", name, "--quiet"][..], &sizes].concat();
    sandbox.ignn(&arguments).exits(0);
}

/// Trains for two epochs, after which every array has been used; what `run.json` says.
fn train(sandbox: &Sandbox, dataset: &str, sets: &[&str]) -> Value {
    let mut arguments = vec!["train", dataset, "--out", "run", "--force", "--threads", "2"];
    arguments.extend(["--quiet", "--set", "train.epochs=2"]);
    arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
    sandbox.ignn(&arguments).exits(0);
    serde_json::from_str(&sandbox.read("run/run.json")).unwrap()
}

fn estimated(run: &Value) -> u64 {
    run["figures"]["estimated_bytes"].as_u64().unwrap()
}

/// What `inspect` says of a width of 128, the default of `train`.
fn inspected(sandbox: &Sandbox, dataset: &str) -> Value {
    let found = sandbox.ignn(&["inspect", dataset, "--json"]).exits(0).json();
    let memory = found["training_memory"][1].clone();
    assert_eq!(memory["width"], 128);
    memory
}

#[test]
fn inspect_and_train_estimate_the_same_memory() {
    let sandbox = Sandbox::new();
    for (name, features) in [("learned", "0"), ("given", "20")] {
        generate(&sandbox, name, "500", features);
        let run = train(&sandbox, name, &[]);
        assert_eq!(inspected(&sandbox, name)["total"], estimated(&run), "{name}");
    }
}

/// The estimate is compared with the peak minus two parts: the peak of the same training on a small
/// graph, which is the program itself with its threads, and the mapped files of the graph.
#[test]
fn the_estimate_is_the_measured_peak() {
    // Mixing in every solve and slow solves: all buffers that the estimate counts are filled.
    let mixed = ["solver.method=anderson", "model.kappa=0.99"];
    let plain = ["solver.method=plain"];
    let own = ["solver.method=plain", "model.input=own"];
    let fixed = ["solver.method=plain", "model.input=own", "optim.table_factor=0"];
    let sandbox = Sandbox::new();
    generate(&sandbox, "small", "200", "8");
    let peak = |run: &Value| run["machine"]["peak_bytes"].as_u64();
    for (name, nodes, features, sets) in [
        ("learned", "20000", "0", &mixed[..]),
        ("given", "60000", "64", &mixed[..]),
        ("plain", "40000", "0", &plain[..]),
        ("own", "40000", "0", &own[..]),
        ("fixed", "60000", "0", &fixed[..]),
        ("dense", "40000", "64", &plain[..]),
    ] {
        generate(&sandbox, name, nodes, features);
        let graph = inspected(&sandbox, name)["graph"].as_u64().unwrap();
        // Which pages of files are in memory at the peak depends on what else the machine does: of
        // three measurements one has to agree.
        let mut ratios = Vec::new();
        while ratios.len() < 3 {
            let base = train(&sandbox, "small", sets);
            let run = train(&sandbox, name, sets);
            let (Some(base), Some(peak)) = (peak(&base), peak(&run)) else {
                return println!("skipped: the peak memory is not known on this system");
            };
            let ratio = estimated(&run) as f64 / (peak - base - graph) as f64;
            println!(
                "{name}: peak {peak}, program {base}, graph {graph}, estimate/measured {ratio:.3}"
            );
            ratios.push(ratio);
            if (ratio - 1.0).abs() <= ESTIMATED_WITHIN {
                break;
            }
        }
        let last = ratios[ratios.len() - 1];
        assert!((last - 1.0).abs() <= ESTIMATED_WITHIN, "{name}: {ratios:.3?}");
    }
}

/// A graph whose states of 128 columns are large enough for a disk, and a directory for scratch
/// files.
fn with_large_states() -> Sandbox {
    let sandbox = Sandbox::new();
    let graph = ["generate", "rmat", "--scale", "14", "--edges", "50k", "--labels", "600"];
    sandbox.ignn(&[&graph[..], &["--out", "g", "--quiet"]].concat()).exits(0);
    std::fs::create_dir(sandbox.path("scratch")).unwrap();
    sandbox
}

const ON_DISK: [&str; 4] = ["--memory", "60MiB", "--scratch", "scratch"];

fn training<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let sets = ["model.state=128", "train.epochs=2", "train.checkpoint_epochs=1"];
    let mut arguments = vec!["train", "g", "--out", out];
    arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
    arguments.extend(more);
    arguments
}

#[test]
fn matrices_on_a_disk_change_no_byte_of_the_results() {
    let sandbox = with_large_states();
    sandbox.ignn(&training("whole", &[])).exits(0);
    let run = sandbox.ignn(&training("disk", &ON_DISK)).exits(0);
    assert!(run.stderr.contains(" GiB: matrices are in scratch files in scratch (up to "));
    let bytes = |file: &str| std::fs::read(sandbox.path(file)).unwrap();
    for file in ["model.safetensors", "checkpoint/state.safetensors"] {
        assert!(bytes(&format!("whole/{file}")) == bytes(&format!("disk/{file}")), "{file}");
    }
    let evaluated = |more: &[&str]| {
        let arguments = ["eval", "g", "--model", "whole", "--json"];
        sandbox.ignn(&[&arguments[..], more].concat()).exits(0).json()
    };
    let (whole, disk) = (evaluated(&[]), evaluated(&ON_DISK));
    assert_eq!(whole["evaluation"], disk["evaluation"]);
    assert_eq!(whole["solve"]["sweeps"], disk["solve"]["sweeps"]);
    for (name, more) in [("whole", &[][..]), ("disk", &ON_DISK)] {
        let [out, states] = ["p", "e"].map(|what| format!("{what}-{name}.csv"));
        let arguments =
            ["predict", "g", "--model", "whole", "--out", &out, "--embeddings", &states];
        sandbox.ignn(&[&arguments[..], more].concat()).exits(0);
    }
    assert!(
        bytes("p-whole.csv") == bytes("p-disk.csv") && bytes("e-whole.csv") == bytes("e-disk.csv")
    );
    let run = sandbox.ignn(&[&["inspect", "g"][..], &ON_DISK].concat()).exits(0);
    let says = "training with --memory 60.0 MiB: matrices are in scratch files in scratch\n";
    assert!(run.stdout.contains(says), "{}", run.stdout);
    assert_eq!(sandbox.path("scratch").read_dir().unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_run_on_a_disk_that_is_killed_or_finds_no_room_goes_on_to_the_same_bytes() {
    let sandbox = with_large_states();
    sandbox.ignn(&training("whole", &["--quiet"])).exits(0);
    let model = |run: &str| std::fs::read(sandbox.path(run).join("model.safetensors")).unwrap();
    let mut is_interrupted = [false; 2];
    for (out, fault, code) in [
        ("a", "14:ENOSPC", Some(2)),
        ("b", "30:KILL", None),
        ("c", "60:KILL", None),
        ("d", "75:ENOSPC", Some(2)),
    ] {
        let arguments = training(out, &[&ON_DISK[..], &["--quiet"]].concat());
        let output = sandbox.command(&arguments).env("IGNN_FAULT", fault).output().unwrap();
        is_interrupted[usize::from(code.is_none())] |= output.status.code() == code;
        let resumed = [&["train", "--resume", out][..], &ON_DISK].concat();
        let has_begun = sandbox.path(out).join("checkpoint/state.safetensors").exists();
        if !has_begun && sandbox.path(out).exists() {
            std::fs::remove_dir_all(sandbox.path(out)).unwrap();
        }
        sandbox.ignn(if has_begun { &resumed } else { &arguments }).exits(0);
        assert!(model(out) == model("whole"), "{fault}");
        assert_eq!(sandbox.path("scratch").read_dir().unwrap().count(), 0, "nothing is left");
    }
    assert_eq!(is_interrupted, [true; 2]);
}
