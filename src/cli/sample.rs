//! The raw graphs that `demo` and `bench` feed to ingest, written as any user's files would be.
//! It writes raw files and the options to read them; datasets are made by the jobs themselves.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ignn_ingest::builder::RelationOptions;
use ignn_ingest::command::edges::{IdChoice, IngestEdges, Order};
use ignn_ingest::random::Stream;

/// Members of each community of [`write_communities`].
const MEMBERS: u64 = 500;
/// Names of the communities.
const COMMUNITIES: [&str; 4] = ["amber", "blue", "coral", "dun"];
/// Edges drawn for each node, of which this share stays inside its community.
const EDGES_A_NODE: u64 = 6;
const INSIDE: f64 = 0.85;

/// What [`write_communities`] wrote.
pub struct Communities {
    /// The edge list.
    pub edges: PathBuf,
    /// The labels.
    pub labels: PathBuf,
    /// Number of nodes.
    pub nodes: u64,
    /// Lines of the edge list.
    pub lines: u64,
}

/// The options of `ignn ingest edges FILE --out DIR`, all others at their defaults.
pub fn edges_job(file: PathBuf, out: PathBuf) -> IngestEdges {
    IngestEdges {
        files: vec![file],
        out,
        force: false,
        form: None,
        ids: IdChoice::default(),
        header: None,
        source: None,
        target: None,
        weight: None,
        unweighted: false,
        relation: RelationOptions::default(),
        order: Order::default(),
        node_count: None,
        nodes_file: None,
        features: None,
        missing_features_zero: false,
        labels: None,
        communities: None,
        splits: Vec::new(),
        draw: Vec::new(),
    }
}

/// A small graph of four communities (a stochastic block model): `edges.tsv` and `labels.csv` in a directory.
pub fn write_communities(directory: &Path, seed: u64) -> Result<Communities> {
    let (edges, labels) = (directory.join("edges.tsv"), directory.join("labels.csv"));
    let nodes = MEMBERS * COMMUNITIES.len() as u64;
    let mut stream = Stream::new(seed, "demo");
    write(&edges, |out| {
        for source in 0..nodes {
            for _ in 0..EDGES_A_NODE {
                let target = match stream.unit() < INSIDE {
                    true => source / MEMBERS * MEMBERS + stream.below(MEMBERS),
                    false => stream.below(nodes),
                };
                writeln!(out, "{source}\t{target}")?;
            }
        }
        Ok(())
    })?;
    write(&labels, |out| {
        writeln!(out, "node,label")?;
        (0..nodes).try_for_each(|node| writeln!(out, "{node},{}", COMMUNITIES[(node / MEMBERS) as usize]))
    })?;
    Ok(Communities { edges, labels, nodes, lines: nodes * EDGES_A_NODE })
}

/// An R-MAT edge list (a, b, c = 0.57, 0.19, 0.19) with about sixteen edges a node.
pub fn write_rmat(path: &Path, edges: u64, seed: u64) -> Result<()> {
    let scale = (edges / 16).max(2).ilog2();
    let stream = Stream::new(seed, "bench");
    write(path, |out| {
        for edge in 0..edges {
            let mut bits = stream.fork(edge);
            let (mut source, mut target) = (0u32, 0u32);
            for _ in 0..scale {
                let (down, right) = match bits.unit() {
                    u if u < 0.57 => (0, 0),
                    u if u < 0.76 => (0, 1),
                    u if u < 0.95 => (1, 0),
                    _ => (1, 1),
                };
                (source, target) = (source << 1 | down, target << 1 | right);
            }
            writeln!(out, "{source} {target}")?;
        }
        Ok(())
    })
}

fn write(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> Result<()> {
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        fill(&mut out)?;
        out.flush()
    });
    written.with_context(|| path.display().to_string())
}
