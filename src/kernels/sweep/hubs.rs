//! Rows with more entries than a block of rows should have work. They are gathered before the others, in
//! parts on all threads: a thread that had such a row to itself would keep all others
//! waiting. The parts of a row are added in their order, so that the sum has the same bits on any
//! number of threads.

use std::cmp::Reverse;
use std::ops::Range;

use rayon::prelude::*;

use super::super::gather;
use super::super::simd::Isa;
use super::active::Watch;
use super::pass::Gathered;
use crate::dense::{LINE, Line};
use crate::parallel::RowBlocks;

/// Entries of a part.
const PART: usize = RowBlocks::BLOCK_WORK as usize / 2;

/// The parts of a hub. Rows with more entries than a block should have work are always hubs, and have
/// several. Others are hubs only where their block is heavy, and have one: sums do not depend on the
/// blocks.
pub(super) fn parts(entries: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let most = match entries.len() as u64 > RowBlocks::BLOCK_WORK {
        true => PART,
        false => entries.len().max(1),
    };
    entries.clone().step_by(most).map(move |start| start..entries.end.min(start + most))
}

/// The gathered sums of hubs.
#[derive(Debug, Default)]
pub(super) struct Hubs {
    /// Terms and rows, ascending.
    rows: Vec<(usize, usize)>,
    /// The first part of each hub, and the number of all parts.
    starts: Vec<usize>,
    /// Hub and entries of each part.
    parts: Vec<(usize, Range<usize>)>,
    /// The sums of the parts, in whole lines. Those of a hub are in the place of its first part.
    sums: Vec<Line>,
    per_row: usize,
}

impl Hubs {
    /// Finds and gathers the hubs of a pass, those that are active.
    pub fn fill(
        &mut self,
        terms: &[Gathered<'_>],
        blocks: &RowBlocks,
        watch: Option<Watch<'_>>,
        isa: Isa,
    ) {
        self.rows.clear();
        self.starts.clear();
        self.parts.clear();
        for (at, term) in terms.iter().enumerate() {
            for row in heavy_rows(term.adjacency.offsets(), blocks) {
                if watch.is_some_and(|watch| !watch.is_active(terms, row)) {
                    continue;
                }
                let (hub, range) = (self.rows.len(), term.adjacency.range(row));
                self.rows.push((at, row));
                self.starts.push(self.parts.len());
                self.parts.extend(parts(range).map(|part| (hub, part)));
            }
        }
        self.starts.push(self.parts.len());
        if self.rows.is_empty() {
            return;
        }
        let per_row = gather::lines_per_row(terms[0].from.cols());
        self.per_row = per_row;
        self.sums.resize(self.parts.len() * per_row, Line([0.0; LINE]));
        let (rows, parts) = (&self.rows, &self.parts);
        // The largest first: nobody waits for one that was begun last.
        let mut each: Vec<_> = self.sums.chunks_exact_mut(per_row).zip(parts).collect();
        each.sort_by_key(|(_, (_, range))| Reverse(range.len()));
        each.into_par_iter().with_max_len(1).for_each(|(out, (hub, range))| {
            let (term, row) = rows[*hub];
            let Gathered { adjacency, from, .. } = terms[term];
            gather::part_of_row(isa, adjacency, from, row, range.clone(), out);
        });
        for (hub, &(term, row)) in rows.iter().enumerate() {
            let (first, end) = (self.starts[hub] * per_row, self.starts[hub + 1] * per_row);
            let (sum, others) = self.sums[first..end].split_at_mut(per_row);
            let sum: &mut [f32] = bytemuck::cast_slice_mut(sum);
            for other in others.chunks_exact(per_row) {
                let other: &[f32] = bytemuck::cast_slice(other);
                sum.iter_mut().zip(other).for_each(|(sum, x)| *sum += x);
            }
            let factor = terms[term].adjacency.row_factor(row);
            sum.iter_mut().for_each(|sum| *sum *= factor);
        }
    }

    /// The hubs among some rows of a term, as terms and rows, and the number of the first one.
    pub fn among(&self, term: usize, rows: &Range<usize>) -> (&[(usize, usize)], usize) {
        let [start, end] =
            [rows.start, rows.end].map(|row| self.rows.partition_point(|&hub| hub < (term, row)));
        (&self.rows[start..end], start)
    }

    /// The sum of a hub.
    pub fn sum(&self, hub: usize) -> &[Line] {
        &self.sums[self.starts[hub] * self.per_row..][..self.per_row]
    }

    /// The first hub among some rows of a term, with its sum.
    pub fn first_in(&self, term: usize, rows: &Range<usize>) -> Option<(usize, &[Line])> {
        let at = self.rows.partition_point(|&hub| hub < (term, rows.start));
        let &(of, row) = self.rows.get(at)?;
        (of == term && row < rows.end).then(|| (row, self.sum(at)))
    }
}

/// The rows that make a block heavier than it should be. Where rows share lines, a block has one line
/// of rows at least, and several of them may be heavy.
pub(super) fn heavy_rows<'a>(
    offsets: &'a [u64],
    blocks: &'a RowBlocks,
) -> impl Iterator<Item = usize> + use<'a> {
    let entries = |rows: &Range<usize>| offsets[rows.end] - offsets[rows.start];
    let blocks = (0..blocks.len()).map(|block| blocks.range(block));
    let heavy = blocks.filter(move |rows| entries(rows) > RowBlocks::BLOCK_WORK);
    let least = RowBlocks::BLOCK_WORK / LINE as u64;
    heavy.flatten().filter(move |&row| entries(&(row..row + 1)) > least)
}
