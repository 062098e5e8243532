//! `--memory` bounds the peak memory and does not change the result.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};

use crate::util::{Sandbox, files_below};

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
