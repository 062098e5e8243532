//! Verifies the Parquet files: what their readers check, and also that features are finite and ids
//! are unique.

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::check::files::Sound;
use crate::check::tally::Tally;
use crate::check::{Finding, Progress};
use crate::dataset::{self, DatasetDir};
use crate::error::{FormatError, Result};
use crate::features::{self, FEATURES, FeatureKind, FeaturesEntry, SparseRows};
use crate::graphs::GRAPHS;
use crate::ids::{IDS, Ids};
use crate::labels::{CLASSES, LABELS};
use crate::splits::SPLITS;

/// Bytes of dense features held at once.
const PIECE_BYTES: u64 = 64 << 20;

/// Verifies every table whose files are sound.
pub(super) fn check(
    dataset: &DatasetDir,
    sound: &Sound,
    observe: &(dyn Fn(&str, u64, u64) + Sync),
    findings: &mut Vec<Finding>,
) {
    let manifest = dataset.manifest();
    if sound.has(IDS) {
        match dataset.ids() {
            Ok(ids) => check_unique(dataset, &ids, findings),
            Err(error) => findings.push(error.into()),
        }
    }
    let mut read = |there: bool, files: &[&str], result: &dyn Fn() -> Result<()>| {
        if there && files.iter().all(|file| sound.has(file)) {
            findings.extend(result().err().map(Finding::from));
        }
    };
    read(manifest.labels.is_some(), &[LABELS, CLASSES], &|| dataset.labels().map(drop));
    read(!manifest.splits.is_empty(), &[SPLITS], &|| dataset.splits().map(drop));
    read(manifest.graphs.is_some(), &[GRAPHS], &|| dataset.graphs().map(drop));
    if let Some(entry) = &manifest.features
        && sound.has_all(dataset::of_features(manifest))
    {
        let checked = match entry.kind {
            FeatureKind::Dense => check_dense(dataset, entry, observe),
            FeatureKind::Sparse => check_sparse(dataset, entry),
        };
        match checked {
            Ok(tally) => tally.report(&dataset.path().join(FEATURES), findings),
            Err(error) => findings.push(error.into()),
        }
    }
}

fn not_finite(node: u64, column: u64, value: f32) -> String {
    format!("node {node}, column {column}: value (found {value}, expected a finite number)")
}

fn check_dense(
    dataset: &DatasetDir,
    entry: &FeaturesEntry,
    observe: &(dyn Fn(&str, u64, u64) + Sync),
) -> Result<Tally> {
    let (nodes, columns) = (dataset.nodes(), entry.columns);
    // The last shard ends with the last node; otherwise reading a row fails.
    features::check_last_shard(dataset.path(), entry, nodes)?;
    let row_bytes = columns * size_of::<f32>() as u64;
    let progress = Progress::new("features", nodes.saturating_mul(row_bytes), observe);
    let piece_rows = (PIECE_BYTES / row_bytes).clamp(1, nodes.max(1));
    let mut piece = vec![0f32; (piece_rows * columns) as usize];
    let mut all = Tally::default();
    for first in (0..nodes).step_by(piece_rows as usize) {
        let rows = piece_rows.min(nodes - first);
        let piece = &mut piece[..(rows * columns) as usize];
        dataset.read_dense(first, piece, columns as usize)?;
        let row = |(row, values): (usize, &[f32])| {
            let mut tally = Tally::default();
            if let Some(column) = values.iter().position(|value| !value.is_finite()) {
                tally.add(|| not_finite(first + row as u64, column as u64, values[column]));
            }
            tally
        };
        let rows_in_parallel = piece.par_chunks_exact(columns as usize).enumerate();
        all = all.then(rows_in_parallel.map(row).reduce(Tally::default, Tally::then));
        progress.add(rows * row_bytes);
    }
    Ok(all)
}

fn check_sparse(dataset: &DatasetDir, entry: &FeaturesEntry) -> Result<Tally> {
    let visit = |first: u64, rows: SparseRows| {
        let mut tally = Tally::default();
        for (row, ends) in rows.offsets.windows(2).enumerate() {
            let items = ends[0] as usize..ends[1] as usize;
            if let Some(at) = items.clone().find(|at| !rows.values[*at].is_finite()) {
                tally.add(|| {
                    not_finite(first + row as u64, rows.columns[at].into(), rows.values[at])
                });
            }
        }
        (tally, rows.rows() as u64)
    };
    let groups = features::visit_sparse(dataset.path(), entry, visit)?;
    let path = dataset.path().join(FEATURES);
    let rows: u64 = groups.iter().map(|(_, rows)| rows).sum();
    if rows != dataset.nodes() {
        return Err(FormatError::invalid(path, "number of rows", rows, dataset.nodes()));
    }
    Ok(groups.into_iter().fold(Tally::default(), |all, (tally, ..)| all.then(tally)))
}

/// After sorting, equal ids are adjacent; strings are compared only if their hashes are equal.
fn check_unique(dataset: &DatasetDir, ids: &Ids, findings: &mut Vec<Finding>) {
    let mut tally = Tally::default();
    match ids {
        Ids::Integer(ids) => {
            let mut sorted = ids.clone();
            sorted.par_sort_unstable();
            for pair in sorted.windows(2).filter(|pair| pair[0] == pair[1]) {
                tally.add(|| format!("duplicate id {}", pair[0]));
            }
        }
        Ids::String { offsets, text } => {
            let bytes = |i: usize| &text.as_bytes()[offsets[i] as usize..offsets[i + 1] as usize];
            let hash = |i: usize| (xxh3_64(bytes(i)), i as u32);
            let mut sorted: Vec<_> = (0..ids.len()).into_par_iter().map(hash).collect();
            sorted.par_sort_unstable();
            for run in sorted.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() > 1) {
                let mut run: Vec<_> = run.iter().map(|(_, i)| ids.get(*i as usize)).collect();
                run.sort_unstable();
                for pair in run.windows(2).filter(|pair| pair[0] == pair[1]) {
                    tally.add(|| format!("duplicate id {:?}", pair[0].to_string()));
                }
            }
        }
    }
    tally.report(&dataset.path().join(IDS), findings);
}
