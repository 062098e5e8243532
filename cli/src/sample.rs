//! The raw graphs that `demo` and `bench` ingest, made by the same generators as `ignn generate
//! --raw`.

use std::path::PathBuf;

use ignn_format::manifest::Normalisation;
use ignn_ingest::command::generate::{Generate, Kind};
use ignn_ingest::synthetic::chains::{CHAINS, CLASSES, ChainsOptions};
use ignn_ingest::synthetic::rmat::RmatOptions;

/// Nodes per chain of the demo's graph.
pub const DEMO_LENGTH: u64 = 60;
/// Nodes of the demo's graph.
pub const DEMO_NODES: u64 = CLASSES * CHAINS * DEMO_LENGTH;
/// Edges per id of the benchmark's graph.
const BENCH_EDGE_FACTOR: u64 = 16;

/// Chains with labels, features and a split: `edges.tsv`, `labels.csv`, `features.npy` and
/// `splits.csv`.
pub fn chains(directory: PathBuf) -> Generate {
    raw(Kind::Chains(ChainsOptions { length: DEMO_LENGTH, ..ChainsOptions::default() }), directory)
}

/// An R-MAT edge list, `edges.txt`.
pub fn rmat(directory: PathBuf, edges: u64) -> Generate {
    let scale = (edges / BENCH_EDGE_FACTOR).max(2).ilog2().min(31);
    raw(Kind::Rmat(RmatOptions { scale, edges: Some(edges), ..RmatOptions::default() }), directory)
}

fn raw(kind: Kind, directory: PathBuf) -> Generate {
    Generate {
        kind,
        out: None,
        raw: Some(directory),
        force: true,
        normalise: Normalisation::Renorm,
    }
}
