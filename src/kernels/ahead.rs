//! Gathering from a matrix that lies on a disk ([`Scratch`]). Rows are gathered from anywhere, which
//! no disk is good at. So some columns of all rows are copied to memory, the rows of the result are
//! gathered from there, and the next columns follow. Every pass over a matrix on the disk is
//! sequential.
//!
//! If the memory of the scratch holds all columns at once, kernels gather from the copy as they
//! would from the matrix itself. Otherwise all rows are gathered ahead ([`GatheredRows`]), on the
//! disk, and read back in order when they are multiplied. Columns are independent of each other
//! while rows are gathered: the results have the same bits either way.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use super::AdjacencyRef;
use super::gather::lines_per_row;
use crate::dense::{LINE, Lent, Line, MatrixMut, MatrixRef, Scratch};

/// Rows that are copied at a time.
const CHUNK: usize = 1 << 12;

/// How a matrix on the disk is gathered from.
pub(super) struct Ahead<'a> {
    from: MatrixRef<'a>,
    scratch: Arc<Scratch>,
    /// Lines of each row that are in memory at a time, at least one.
    lines: usize,
}

/// Rows that were gathered ahead, some columns in each of the matrices.
pub(super) struct GatheredRows {
    parts: Vec<Lent>,
}

impl<'a> Ahead<'a> {
    /// How these operators gather from a matrix; `None` if it is in memory.
    pub fn of(from: MatrixRef<'a>, operators: &[AdjacencyRef<'_>]) -> Option<Self> {
        let scratch = Scratch::current()?;
        if operators.is_empty() || !scratch.takes(size_of_val(from.padded())) {
            return None;
        }
        // Tables of distinct rows are in memory, too.
        let has_tables = operators.iter().any(|operator| operator.factors().is_some());
        let copies = if has_tables { 3 } else { 1 };
        let line = (from.rows() * size_of::<Line>() * copies) as u64;
        let lines = (scratch.memory() / line.max(1)) as usize;
        Some(Self { from, scratch, lines: lines.clamp(1, lines_per_row(from.cols()).max(1)) })
    }

    /// Whether all columns are in memory at once.
    pub fn takes_all(&self) -> bool {
        self.lines >= lines_per_row(self.from.cols())
    }

    /// A copy of all columns.
    pub fn all(&self) -> Lent {
        self.load(0..lines_per_row(self.from.cols()))
    }

    /// Gathers all rows, some columns at a time: calls `gather` with a copy of these columns and the
    /// matrix to write their rows to.
    pub fn rows(
        &self,
        rows: usize,
        mut gather: impl FnMut(MatrixRef<'_>, MatrixMut<'_>),
    ) -> GatheredRows {
        let gather = |from: MatrixRef<'_>, to: &mut [Lent]| gather(from, to[0].view_mut());
        self.rows_of_all(1, rows, gather).swap_remove(0)
    }

    /// The same for several operators.
    pub fn rows_of_all(
        &self,
        count: usize,
        rows: usize,
        mut gather: impl FnMut(MatrixRef<'_>, &mut [Lent]),
    ) -> Vec<GatheredRows> {
        let per_row = lines_per_row(self.from.cols());
        let groups = per_row.div_ceil(self.lines);
        let mut gathered: Vec<_> = (0..count).map(|_| GatheredRows { parts: Vec::new() }).collect();
        for group in 0..groups {
            let lines = group * per_row / groups..(group + 1) * per_row / groups;
            let copy = self.load(lines);
            let made = |_| self.scratch.lend(rows, copy.cols(), false);
            let mut parts: Vec<Lent> = (0..count).map(made).collect();
            gather(copy.view(), &mut parts);
            gathered.iter_mut().zip(parts).for_each(|(gathered, part)| gathered.parts.push(part));
        }
        gathered
    }

    /// Some lines of all rows.
    fn load(&self, lines: Range<usize>) -> Lent {
        let (from, per_row) = (self.from, lines_per_row(self.from.cols()));
        // Padding is copied like other columns: fewer of them would change the layout of rows.
        let cols = if lines.len() == per_row { from.cols() } else { lines.len() * LINE };
        let mut copy = self.scratch.lend(from.rows(), cols, true);
        let count = lines.len();
        let mut view = copy.view_mut();
        let to = view.lines_mut();
        if from.stride() < LINE || count == per_row {
            let chunks =
                to.par_chunks_mut(CHUNK * count).zip(from.lines().par_chunks(CHUNK * count));
            chunks.for_each(|(to, from)| to.copy_from_slice(from));
        } else {
            let rows = from.lines().par_chunks(CHUNK * per_row);
            to.par_chunks_mut(CHUNK * count).zip(rows).for_each(|(to, from)| {
                let rows = to.chunks_exact_mut(count).zip(from.chunks_exact(per_row));
                rows.for_each(|(to, from)| to.copy_from_slice(&from[lines.clone()]));
            });
        }
        copy
    }
}

impl GatheredRows {
    /// Some of the rows, in the layout of [`super::gather::rows`].
    #[inline(always)]
    pub fn copy(&self, rows: Range<usize>, out: &mut [Line]) {
        let per_row: usize = self.parts.iter().map(|part| lines_per_row(part.cols())).sum();
        let mut first = 0;
        for part in &self.parts {
            let count = lines_per_row(part.cols());
            let from = &part.view().lines()[rows.start * count..rows.end * count];
            for (from, out) in from.chunks_exact(count).zip(out.chunks_exact_mut(per_row)) {
                out[first..first + count].copy_from_slice(from);
            }
            first += count;
        }
    }
}

/// Whether rows of this matrix can be gathered in one pass: it is in memory, or fits there.
pub fn gathers_at_once(from: MatrixRef<'_>, operators: &[AdjacencyRef<'_>]) -> bool {
    Ahead::of(from, operators).is_none_or(|ahead| ahead.takes_all())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Results of `work` in memory, and on the disk with memory for all columns and for a few.
    pub fn everywhere<R>(rows: usize, cols: usize, work: impl Fn() -> R) -> Vec<R> {
        let dir = tempfile::tempdir().unwrap();
        let line = (rows * size_of::<Line>()) as u64;
        let per_row = lines_per_row(cols) as u64;
        let budgets = [0, line, 2 * line, 3 * line, per_row * line, 3 * per_row * line];
        let on_disk = budgets.map(|memory| {
            let scratch = Scratch::with_least(dir.path(), memory, 1);
            let result = scratch.scope(&work);
            scratch.check().unwrap();
            result
        });
        std::iter::once(work()).chain(on_disk).collect()
    }
}
