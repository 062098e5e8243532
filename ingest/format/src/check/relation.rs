//! Verifies the adjacency of a relation: the order and range of entries, the agreement of both
//! directions, and the scale.

use std::path::Path;

use rayon::prelude::*;

use crate::check::files::Sound;
use crate::check::tally::Tally;
use crate::check::{Finding, Progress};
use crate::csr::{CsrFile, RowFaults};
use crate::dataset::{self, DatasetDir, Relation, relation_path};
use crate::graphs::Graphs;
use crate::manifest::{Normalisation, RelationEntry};

/// Rows per block.
const BLOCK_ROWS: usize = 1 << 10;
/// Tolerated relative error of a scale: a few roundings of f32.
const SCALE_TOLERANCE: f64 = 1e-6;

/// Verifies one relation, if all its files are sound.
pub(super) fn check(
    dataset: &DatasetDir,
    entry: &RelationEntry,
    sound: &Sound,
    graphs: Option<&Graphs>,
    observe: &(dyn Fn(&str, u64, u64) + Sync),
    findings: &mut Vec<Finding>,
) {
    if !sound.has_all(dataset::of_relation(entry)) {
        return;
    }
    let relation = match dataset.map_relation(&entry.name, CsrFile::map) {
        Ok(relation) => relation,
        Err(error) => return findings.push(error.into()),
    };
    let directory = relation_path(dataset.path(), &entry.name);
    let path = |direction: &str| directory.join(format!("{direction}.neighbours.u32"));
    let bytes = entry.nonzeros.saturating_mul(if entry.weighted { 8 } else { 4 });
    // Each direction is read once on its own and once against the other.
    let passes = if entry.symmetric { 2 } else { 3 };
    let progress =
        Progress::new(format!("relation {}", entry.name), bytes.saturating_mul(passes), observe);

    let before = findings.len();
    check_direction(&relation.incoming, &path("in"), entry, graphs, &progress, findings);
    if let Some(outgoing) = &relation.outgoing {
        check_direction(outgoing, &path("out"), entry, graphs, &progress, findings);
    }
    // Rows that are not sorted cannot be searched.
    if findings.len() == before {
        let (mirror, claim) = match &relation.outgoing {
            Some(outgoing) => (outgoing, "out is not the transpose of in"),
            None => (&relation.incoming, "not symmetric"),
        };
        check_mirror(&relation.incoming, mirror, claim, &path("in"), &progress, findings);
    }
    check_scale(&relation, &directory.join("scale.f32"), findings);
}

/// The problems of some rows of a direction.
#[derive(Default)]
struct Rows {
    range: Tally,
    unsorted: Tally,
    values: Tally,
    blocks: Tally,
    diagonal: u64,
}

impl Rows {
    fn then(self, later: Self) -> Self {
        Self {
            range: self.range.then(later.range),
            unsorted: self.unsorted.then(later.unsorted),
            values: self.values.then(later.values),
            blocks: self.blocks.then(later.blocks),
            diagonal: self.diagonal + later.diagonal,
        }
    }

    fn add(&mut self, csr: &CsrFile, row: usize, graphs: Option<&Graphs>) {
        let (neighbours, nodes) = (csr.row(row), csr.rows());
        let RowFaults { range, order, value } = csr.faults(row);
        let tallies =
            [(&mut self.range, range), (&mut self.unsorted, order), (&mut self.values, value)];
        for (tally, fault) in tallies {
            if let Some(fault) = fault {
                tally.add(|| fault);
            }
        }
        if let Some(graphs) = graphs {
            // Rows are sorted, so the first and the last neighbour suffice; unsorted rows are
            // already reported.
            let graph =
                graphs.first_node.partition_point(|first| *first <= row as u64).saturating_sub(1);
            let end = graphs.first_node.get(graph + 1).copied().unwrap_or(nodes as u64);
            let block = graphs.first_node[graph]..end;
            let ends = [neighbours.first(), neighbours.last()].into_iter().flatten();
            if let Some(outside) = ends.into_iter().find(|end| !block.contains(&u64::from(**end))) {
                self.blocks.add(|| {
                    let (from, to) = (block.start, block.end);
                    format!(
                        "row {row}: neighbour in another graph (found {outside}, expected {from} \
                         to {to})"
                    )
                });
            }
        }
        self.diagonal +=
            neighbours.iter().filter(|neighbour| **neighbour as usize == row).count() as u64;
    }
}

/// Processes blocks of rows in parallel and joins their results in row order.
fn over_rows<T: Send + Default>(
    csr: &CsrFile,
    progress: &Progress,
    each: impl Fn(&mut T, usize) + Sync,
    then: impl Fn(T, T) -> T + Sync + Send,
) -> T {
    let rows = csr.rows();
    let entry_bytes = if csr.values().is_some() { 8 } else { 4 };
    let block = |block: usize| {
        let (first, end) = (block * BLOCK_ROWS, rows.min((block + 1) * BLOCK_ROWS));
        let mut result = T::default();
        (first..end).for_each(|row| each(&mut result, row));
        progress.add((csr.offsets()[end] - csr.offsets()[first]) * entry_bytes);
        result
    };
    (0..rows.div_ceil(BLOCK_ROWS)).into_par_iter().map(block).reduce(T::default, then)
}

fn check_direction(
    csr: &CsrFile,
    path: &Path,
    entry: &RelationEntry,
    graphs: Option<&Graphs>,
    progress: &Progress,
    findings: &mut Vec<Finding>,
) {
    let rows =
        over_rows(csr, progress, |rows: &mut Rows, row| rows.add(csr, row, graphs), Rows::then);
    if rows.diagonal != entry.diagonal {
        let message = format!(
            "entries on the diagonal (found {}, expected {})",
            rows.diagonal, entry.diagonal
        );
        findings.push(Finding { path: path.into(), message });
    }
    rows.range.report(path, findings);
    rows.unsorted.report(path, findings);
    rows.values.report(path, findings);
    rows.blocks.report(path, findings);
}

/// Whether every entry (i, j) of `csr` is entry (j, i) of `mirror`, with the same bits. Both have
/// the same number of entries and strictly increasing rows, so they are then transposes of each
/// other.
fn check_mirror(
    csr: &CsrFile,
    mirror: &CsrFile,
    claim: &str,
    path: &Path,
    progress: &Progress,
    findings: &mut Vec<Finding>,
) {
    let value = |csr: &CsrFile, at: usize| csr.values().map(|values| values[at]);
    let each = |tally: &mut Tally, row: usize| {
        for (at, &neighbour) in csr.range(row).zip(csr.row(row)) {
            let other = neighbour as usize;
            let Ok(found) = mirror.row(other).binary_search(&(row as u32)) else {
                tally.add(|| format!("{claim}: entry {neighbour} of row {row} has no counterpart"));
                continue;
            };
            let (here, there) = (value(csr, at), value(mirror, mirror.range(other).start + found));
            if here.map(f32::to_bits) != there.map(f32::to_bits) {
                tally.add(|| {
                    let (here, there) = (here.unwrap_or(1.0), there.unwrap_or(1.0));
                    format!(
                        "{claim}: entry {neighbour} of row {row} is {here}, its counterpart {there}"
                    )
                });
            }
        }
    };
    over_rows(csr, progress, each, Tally::then).report(path, findings);
}

/// Whether the scale is that of the normalisation, computed from the sums over the outgoing edges.
fn check_scale(relation: &Relation, path: &Path, findings: &mut Vec<Finding>) {
    let Some(scale) = &relation.scale else { return };
    let outgoing = relation.outgoing.as_ref().unwrap_or(&relation.incoming);
    let sum = |node: usize| match outgoing.values() {
        Some(values) => values[outgoing.range(node)].iter().map(|value| f64::from(*value)).sum(),
        None => outgoing.range(node).len() as f64,
    };
    let expected = |sum: f64| match relation.entry.normalisation {
        // A node without outgoing edges has scale 0.
        Normalisation::Row | Normalisation::Renorm if sum == 0.0 => 0.0,
        Normalisation::Renorm => sum.sqrt().recip(),
        Normalisation::Row => sum.recip(),
        Normalisation::None => 1.0,
    };
    let each = |node: usize| {
        let mut tally = Tally::default();
        let (found, expected) = (f64::from(scale[node]), expected(sum(node)));
        // Written so that a NaN fails.
        let near = (found - expected).abs() <= SCALE_TOLERANCE * expected;
        if !(near && found.is_finite()) {
            tally.add(|| format!("scale of node {node} (found {found:e}, expected {expected:e})"));
        }
        tally
    };
    let nodes = (0..scale.len()).into_par_iter().with_min_len(BLOCK_ROWS);
    nodes.map(each).reduce(Tally::default, Tally::then).report(path, findings);
}
