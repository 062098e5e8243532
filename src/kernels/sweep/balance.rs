//! How evenly the work of a sweep is spread over threads: a count of work, not a measurement. Hubs
//! are gathered first, in parts, the largest ones first; then come the blocks. Threads take the next
//! part or block when they are done with one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Term;
use super::hubs::{self, heavy_rows};
use crate::parallel::RowBlocks;

/// The longest time that one of so many threads waits for others in a sweep, as a part of the time
/// of the sweep. Gathering an entry is a unit of work, and the product of a row as many as
/// [`super::blocks`] counts.
pub fn longest_wait(terms: &[Term<'_>], blocks: &RowBlocks, threads: usize) -> f64 {
    let offsets: Vec<_> = terms.iter().map(|term| term.adjacency.gathered_offsets()).collect();
    wait(&offsets, super::row_work(terms), blocks, threads)
}

pub(super) fn wait(offsets: &[&[u64]], row_work: u64, blocks: &RowBlocks, threads: usize) -> f64 {
    let entries = |offsets: &[u64], row: usize| offsets[row + 1] - offsets[row];
    let mut parts = Vec::new();
    let mut gathered = vec![0; blocks.len()];
    for offsets in offsets {
        let mut block = 0;
        for row in heavy_rows(offsets, blocks) {
            while blocks.range(block).end <= row {
                block += 1;
            }
            let count = entries(offsets, row);
            gathered[block] += count;
            parts.extend(hubs::parts(0..count as usize).map(|part| part.len() as u64));
        }
    }
    parts.sort_unstable_by_key(|&part| Reverse(part));
    let work = (0..blocks.len()).map(|block| {
        let rows = blocks.range(block);
        let all: u64 = offsets.iter().map(|of| of[rows.end] - of[rows.start]).sum();
        all - gathered[block] + row_work * rows.len() as u64
    });
    let (hubs, rest) = (schedule(parts, threads), schedule(work, threads));
    let total = hubs.1 + rest.1;
    if total == 0 { 0.0 } else { (total - hubs.0 - rest.0) as f64 / total as f64 }
}

/// When the first and when the last thread is done.
fn schedule(work: impl IntoIterator<Item = u64>, threads: usize) -> (u64, u64) {
    let mut ends: BinaryHeap<_> = (0..threads.max(1)).map(|_| Reverse(0)).collect();
    for work in work {
        if let Some(Reverse(first)) = ends.pop() {
            ends.push(Reverse(first + work));
        }
    }
    let ends = ends.into_iter().map(|Reverse(end)| end);
    ends.fold((u64::MAX, 0), |(first, last), end| (first.min(end), last.max(end)))
}
