//! Blocks of consecutive rows with about the same work, computed in parallel and merged in a fixed
//! order. The caller says what a row costs and what to do with it; this module splits and
//! schedules.
//!
//! Blocks depend on the work alone, never on the number of threads, and results are merged along a
//! tree over the block numbers. Any reduction, including sums of floats, therefore gives the same
//! bits on 1 and on 64 threads. There are many more blocks than threads, and idle threads steal
//! from the far end, so that each thread works on mostly consecutive rows.

use std::ops::Range;

/// Consecutive row ranges that cover all rows.
///
/// ```
/// use ignn::parallel::RowBlocks;
///
/// let blocks = RowBlocks::parts(1000, &[], 1, 8);
/// assert_eq!((blocks.len(), blocks.rows()), (8, 1000));
///
/// // The sum of the squares of all row numbers, one partial sum per block.
/// let squares = |_, rows: std::ops::Range<usize>, ()| rows.map(|row| row * row).sum::<usize>();
/// let sum = blocks.map_reduce((), |(), _| ((), ()), squares, |a, b| a + b);
/// assert_eq!(sum, Some(332_833_500));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowBlocks {
    /// Block `b` is `bounds[b]..bounds[b + 1]`.
    bounds: Vec<usize>,
}

impl RowBlocks {
    /// Work of a block, in units of [`RowBlocks::balanced`]: a few tenths of a millisecond at common
    /// widths.
    pub const BLOCK_WORK: u64 = 1 << 14;

    /// Every part of [`RowBlocks::for_sums`] begins with a multiple of this many rows.
    pub const STEP: usize = 16;
    /// Least number of parts of [`RowBlocks::for_sums`], where there are enough rows.
    pub const SUM_PARTS: usize = 64;
    /// Work of a row of a state of common width, in units of a neighbour.
    const SUM_WORK: u64 = 16;

    /// Blocks of about the same work: one unit per non-zero and `row_work` units per row.
    ///
    /// `offsets` holds the row offsets of each relation, all with the same number of rows. A row
    /// with more work than a block becomes a block of its own.
    pub fn balanced(rows: usize, offsets: &[&[u64]], row_work: u64) -> Self {
        Self::balanced_in(rows, offsets, row_work, 1)
    }

    /// The same; every block begins with a multiple of `step` rows.
    pub fn balanced_in(rows: usize, offsets: &[&[u64]], row_work: u64, step: usize) -> Self {
        Self::with_work(rows, offsets, row_work, Self::BLOCK_WORK, step)
    }

    /// About `parts` blocks of about the same work.
    pub fn parts(rows: usize, offsets: &[&[u64]], row_work: u64, parts: usize) -> Self {
        let total = work_before(rows, offsets, row_work);
        Self::with_work(rows, offsets, row_work, total.div_ceil(parts.max(1) as u64).max(1), 1)
    }

    /// The parts along which sums over all rows are computed: at most 16 rows, or one of
    /// [`RowBlocks::SUM_PARTS`] parts of the work, or more parts where there are many rows. Every
    /// part begins with a multiple of 16 rows, so that rows which share a line of memory belong to
    /// one part. They depend on the rows alone, so that the sums of all matrices with these rows
    /// can be cut at the same places.
    pub fn for_sums(rows: usize, offsets: &[&[u64]]) -> Self {
        let parts = (rows / 1024).clamp(Self::SUM_PARTS, 64 * Self::SUM_PARTS);
        let target = Self::work_of_sums(rows, offsets).div_ceil(parts as u64).max(1);
        Self::with_work(rows, offsets, Self::SUM_WORK, target, Self::STEP)
    }

    /// Where the tree over some blocks branches.
    pub(super) fn middle(blocks: &Range<usize>) -> usize {
        blocks.start + blocks.len() / 2
    }

    /// Calls `take` with the largest subtrees of a tree over blocks that consist of `own` blocks
    /// alone, in order.
    pub(super) fn subtrees(
        &self,
        blocks: Range<usize>,
        own: &Range<usize>,
        take: &mut impl FnMut(Range<usize>),
    ) {
        if blocks.start.max(own.start) >= blocks.end.min(own.end) {
            return;
        }
        if own.start <= blocks.start && blocks.end <= own.end {
            return take(blocks);
        }
        let middle = Self::middle(&blocks);
        self.subtrees(blocks.start..middle, own, take);
        self.subtrees(middle..blocks.end, own, take);
    }

    /// The value of a subtree, which has at least one block.
    pub(super) fn reduce_subtree<R: Send>(
        &self,
        blocks: Range<usize>,
        work: &(impl Fn(Range<usize>) -> R + Sync),
        merge: &(impl Fn(R, R) -> R + Sync),
    ) -> R {
        let split = |(), _: usize| ((), ());
        self.map_reduce_range(blocks, (), &split, &|_, rows, ()| work(rows), merge)
    }

    /// Work of the rows before `row`, as [`RowBlocks::for_sums`] counts it.
    pub(super) fn work_of_sums(row: usize, offsets: &[&[u64]]) -> u64 {
        work_before(row, offsets, Self::SUM_WORK)
    }

    fn with_work(rows: usize, offsets: &[&[u64]], row_work: u64, target: u64, step: usize) -> Self {
        for offsets in offsets {
            assert_eq!(offsets.len(), rows + 1, "offsets of a relation: one per row and one more");
        }
        let mut bounds = vec![0];
        let mut start = 0;
        while start < rows {
            let limit = work_before(start, offsets, row_work).saturating_add(target);
            // Bisect for the last row with which the block stays within the target.
            let (mut low, mut high) = (start + 1, rows);
            while low < high {
                let middle = low + (high - low).div_ceil(2);
                if work_before(middle, offsets, row_work) <= limit {
                    low = middle;
                } else {
                    high = middle - 1;
                }
            }
            // The bounds are multiples of the step; a block has at least one.
            start = (low - low % step).max(start + step).min(rows);
            bounds.push(start);
        }
        Self { bounds }
    }

    /// Number of blocks.
    pub fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.bounds[self.len()]
    }

    /// The rows of a block.
    pub fn range(&self, block: usize) -> Range<usize> {
        self.bounds[block]..self.bounds[block + 1]
    }

    /// Computes `work(block, rows, part)` for every block in parallel, and merges the results in
    /// the order of the blocks. Returns `None` if there are no rows. Allocates nothing.
    ///
    /// `parts` is what belongs to all rows, such as a mutable matrix; `split(parts, rows)` cuts off
    /// the part of the first `rows` rows.
    pub fn map_reduce<P: Send, R: Send>(
        &self,
        parts: P,
        split: impl Fn(P, usize) -> (P, P) + Sync,
        work: impl Fn(usize, Range<usize>, P) -> R + Sync,
        merge: impl Fn(R, R) -> R + Sync,
    ) -> Option<R> {
        if self.is_empty() {
            None
        } else {
            Some(self.map_reduce_range(0..self.len(), parts, &split, &work, &merge))
        }
    }

    fn map_reduce_range<P: Send, R: Send>(
        &self,
        blocks: Range<usize>,
        parts: P,
        split: &(impl Fn(P, usize) -> (P, P) + Sync),
        work: &(impl Fn(usize, Range<usize>, P) -> R + Sync),
        merge: &(impl Fn(R, R) -> R + Sync),
    ) -> R {
        if blocks.len() == 1 {
            return work(blocks.start, self.range(blocks.start), parts);
        }
        let middle = Self::middle(&blocks);
        let (first, second) = split(parts, self.bounds[middle] - self.bounds[blocks.start]);
        let (first, second) = rayon::join(
            || self.map_reduce_range(blocks.start..middle, first, split, work, merge),
            || self.map_reduce_range(middle..blocks.end, second, split, work, merge),
        );
        merge(first, second)
    }
}

/// Work of the rows before `row`.
fn work_before(row: usize, offsets: &[&[u64]], row_work: u64) -> u64 {
    let nonzeros = offsets.iter().fold(0u64, |sum, offsets| sum.saturating_add(offsets[row]));
    nonzeros.saturating_add(row_work.saturating_mul(row as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::with_threads;

    #[test]
    fn blocks_cover_all_rows_and_hubs_get_their_own() {
        let mut offsets = vec![0u64];
        for row in 0..1000u64 {
            let nonzeros = if row == 500 { 100_000 } else { row % 7 };
            offsets.push(offsets[row as usize] + nonzeros);
        }
        let blocks = RowBlocks::with_work(1000, &[&offsets], 2, 500, 1);
        assert_eq!(blocks.rows(), 1000);
        for block in 0..blocks.len() {
            let range = blocks.range(block);
            let work = offsets[range.end] - offsets[range.start] + 2 * range.len() as u64;
            assert!(!range.is_empty() && (work <= 500 || range.len() == 1), "{range:?}: {work}");
        }
        assert!((0..blocks.len()).any(|block| blocks.range(block) == (500..501)));
        assert!(RowBlocks::parts(1000, &[&offsets], 2, 8).len() <= 16);
        assert!(RowBlocks::balanced(0, &[&[0]], 1).is_empty());
        let blocks = RowBlocks::with_work(1000, &[&offsets], 2, 500, 16);
        assert_eq!(blocks.rows(), 1000);
        for block in 0..blocks.len() {
            let range = blocks.range(block);
            let work = offsets[range.end] - offsets[range.start] + 2 * range.len() as u64;
            assert!(
                range.start.is_multiple_of(16) && (work <= 500 || range.len() <= 16),
                "{range:?}"
            );
        }
    }

    #[test]
    fn float_sums_have_the_same_bits_on_any_number_of_threads() {
        let blocks = RowBlocks::with_work(10_000, &[], 1, 7, 1);
        let sum = |threads| {
            with_threads(threads, || {
                let parts: Vec<f32> = (0..10_000).map(|i| 1.0 / (i as f32 + 1.0)).collect();
                let split = |values: &'static [f32], at| values.split_at(at);
                let values: &'static [f32] = Vec::leak(parts);
                blocks.map_reduce(
                    values,
                    split,
                    |_, _, part| part.iter().sum::<f32>(),
                    |a, b| a + b,
                )
            })
        };
        assert_eq!(sum(1), sum(2));
        assert_eq!(sum(1), sum(4));
    }
}
