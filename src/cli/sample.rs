//! The graphs that `demo` and `bench` feed to ingest: generators that write raw files, and the options to read them.
//! Nothing here is special: the same files come from `ignn generate --raw`.

use std::path::PathBuf;

use ignn_format::manifest::Normalisation;
use ignn_ingest::command::generate::{Generate, Kind};
use ignn_ingest::synthetic::rmat::RmatOptions;
use ignn_ingest::synthetic::sbm::SbmOptions;

/// Nodes of the demo's graph.
pub const DEMO_NODES: u64 = 2_000;
/// Communities of the demo's graph.
pub const DEMO_BLOCKS: u64 = 4;
/// Edges drawn for each id of the benchmark's graph.
const BENCH_EDGE_FACTOR: u64 = 16;

/// Communities with labels, features and a split: `edges.tsv`, `labels.csv`, `features.npy` and `splits.csv`.
pub fn communities(directory: PathBuf) -> Generate {
    raw(Kind::Sbm(SbmOptions { nodes: DEMO_NODES, blocks: DEMO_BLOCKS, ..SbmOptions::default() }), directory)
}

/// An R-MAT edge list, `edges.txt`.
pub fn rmat(directory: PathBuf, edges: u64) -> Generate {
    let scale = (edges / BENCH_EDGE_FACTOR).max(2).ilog2().min(31);
    raw(Kind::Rmat(RmatOptions { scale, edges: Some(edges), ..RmatOptions::default() }), directory)
}

fn raw(kind: Kind, directory: PathBuf) -> Generate {
    Generate { kind, out: None, raw: Some(directory), force: true, normalise: Normalisation::Renorm }
}
