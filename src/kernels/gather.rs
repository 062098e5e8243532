//! Gathering: rows of A^T X into cache. The product with the weights is in `sweep`.
//!
//! The entries of a row are added in their stored order, 64 columns at a time in registers. Rows
//! are prefetched some entries ahead; those that a sweep has prefetched before are already in cache
//! and cost nothing more.

use std::ops::Range;

use super::AdjacencyRef;
use super::simd::{Isa, Kernel, Lanes};
use crate::dense::{LINE, Line, MatrixMut, MatrixRef};
use crate::parallel::RowBlocks;

/// Rows are prefetched this many entries before they are summed, across the ends of rows: a few
/// microseconds.
const AHEAD: usize = 24;
/// The same for rows of at most two lines, which are summed in less time.
const FAR_AHEAD: usize = 64;

/// Narrower rows are prefetched if the matrix is larger than the caches of a thread. From these the
/// processor has enough of them in flight by itself, as the loads of an entry depend on nothing but
/// its neighbour.
const CACHED: usize = 6 << 20;

/// Lines that a gathered row takes; narrow rows take one.
pub fn lines_per_row(cols: usize) -> usize {
    cols.div_ceil(LINE)
}

/// The entries of a row: the first `count` of a slice that continues with the following rows.
#[derive(Clone, Copy)]
struct Entries<'a> {
    neighbours: &'a [u32],
    count: usize,
    shift: u32,
    /// Number of the first one among all entries.
    first: usize,
}

impl<'a> Entries<'a> {
    /// The entries `range` of a row, followed by those before `end`.
    #[inline(always)]
    fn of(adjacency: &AdjacencyRef<'a>, row: usize, range: Range<usize>, end: usize) -> Self {
        Self {
            neighbours: &adjacency.neighbours()[range.start..end],
            count: range.len(),
            shift: adjacency.shift(row),
            first: range.start,
        }
    }

    /// The column of a neighbour; any number for neighbours of other rows.
    #[inline(always)]
    fn column(self, neighbour: u32) -> usize {
        neighbour.wrapping_sub(self.shift) as usize
    }
}

/// The value of an entry without the factor of its row.
trait Weight: Copy {
    const ALL_ONE: bool;
    fn at(self, entry: usize, neighbour: u32) -> f32;
    /// Prefetches what `at` will read for a later neighbour.
    fn prefetch<L: Lanes>(self, neighbour: u32);
}

#[derive(Clone, Copy)]
struct One;
#[derive(Clone, Copy)]
struct Values<'a>(&'a [f32]);
#[derive(Clone, Copy)]
struct Scales<'a>(&'a [f32]);
#[derive(Clone, Copy)]
struct ValuesAndScales<'a>(&'a [f32], &'a [f32]);

impl Weight for One {
    const ALL_ONE: bool = true;
    #[inline(always)]
    fn at(self, _entry: usize, _neighbour: u32) -> f32 {
        1.0
    }
    #[inline(always)]
    fn prefetch<L: Lanes>(self, _neighbour: u32) {}
}

impl Weight for Values<'_> {
    const ALL_ONE: bool = false;
    #[inline(always)]
    fn at(self, entry: usize, _neighbour: u32) -> f32 {
        self.0[entry]
    }
    #[inline(always)]
    fn prefetch<L: Lanes>(self, _neighbour: u32) {}
}

impl Weight for Scales<'_> {
    const ALL_ONE: bool = false;
    #[inline(always)]
    fn at(self, _entry: usize, neighbour: u32) -> f32 {
        self.0[neighbour as usize]
    }
    #[inline(always)]
    fn prefetch<L: Lanes>(self, neighbour: u32) {
        L::prefetch(self.0.as_ptr().wrapping_add(neighbour as usize).cast());
    }
}

impl Weight for ValuesAndScales<'_> {
    const ALL_ONE: bool = false;
    #[inline(always)]
    fn at(self, entry: usize, neighbour: u32) -> f32 {
        self.0[entry] * self.1[neighbour as usize]
    }
    #[inline(always)]
    fn prefetch<L: Lanes>(self, neighbour: u32) {
        L::prefetch(self.1.as_ptr().wrapping_add(neighbour as usize).cast());
    }
}

/// Gathers rows into `out`, with [`lines_per_row`] lines per row and zero padding.
pub fn rows(
    isa: Isa,
    adjacency: AdjacencyRef<'_>,
    from: MatrixRef<'_>,
    rows: Range<usize>,
    out: &mut [Line],
) {
    rows_until(isa, adjacency, from, rows, adjacency.neighbours().len(), out);
}

/// The same, without prefetching the entries from `end` on, which are not gathered next.
pub fn rows_until(
    isa: Isa,
    adjacency: AdjacencyRef<'_>,
    from: MatrixRef<'_>,
    rows: Range<usize>,
    end: usize,
    out: &mut [Line],
) {
    isa.dispatch(Gather { adjacency, from, what: What::Rows { rows, end, out } });
}

/// Gathers all rows, on all threads.
pub fn all(
    isa: Isa,
    blocks: &RowBlocks,
    adjacency: AdjacencyRef<'_>,
    from: MatrixRef<'_>,
    to: MatrixMut<'_>,
) {
    let block = |_, range, mut to: MatrixMut<'_>| {
        if to.stride() < LINE {
            packed(isa, adjacency, from, range, &[], to.padded_mut());
        } else {
            rows(isa, adjacency, from, range, to.lines_mut());
        }
    };
    blocks.map_reduce(to, MatrixMut::split_at, block, |(), ()| ());
}

/// The sum of some entries of a row, without the factor of the row, in the layout of [`rows`].
pub fn part_of_row(
    isa: Isa,
    adjacency: AdjacencyRef<'_>,
    from: MatrixRef<'_>,
    row: usize,
    range: Range<usize>,
    out: &mut [Line],
) {
    isa.dispatch(Gather { adjacency, from, what: What::Part { row, range, out } });
}

/// Rows of a narrow matrix, one behind the other as in the matrix: `stride` floats per row. `hubs`
/// are terms and rows that were gathered before, ascending and among these rows; what is in their
/// place afterwards is not their sum.
pub fn packed(
    isa: Isa,
    adjacency: AdjacencyRef<'_>,
    from: MatrixRef<'_>,
    rows: Range<usize>,
    hubs: &[(usize, usize)],
    out: &mut [f32],
) {
    isa.dispatch(Gather { adjacency, from, what: What::Packed { rows, hubs, out } });
}

/// Gathering as a function of its own: it is compiled once for each instruction set, apart from what
/// is done with the rows.
struct Gather<'a> {
    adjacency: AdjacencyRef<'a>,
    from: MatrixRef<'a>,
    what: What<'a>,
}

enum What<'a> {
    Rows { rows: Range<usize>, end: usize, out: &'a mut [Line] },
    Part { row: usize, range: Range<usize>, out: &'a mut [Line] },
    Packed { rows: Range<usize>, hubs: &'a [(usize, usize)], out: &'a mut [f32] },
}

impl Kernel for Gather<'_> {
    type Output = ();

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) {
        match (self.adjacency.values(), self.adjacency.gather_scale()) {
            (None, None) => self.gather::<L, _>(One),
            (Some(values), None) => self.gather::<L, _>(Values(values)),
            (None, Some(scales)) => self.gather::<L, _>(Scales(scales)),
            (Some(values), Some(scales)) => self.gather::<L, _>(ValuesAndScales(values, scales)),
        }
    }
}

impl Gather<'_> {
    #[inline(always)]
    fn gather<L: Lanes, W: Weight>(self, weight: W) {
        let Self { adjacency, from, what } = self;
        let per_row = lines_per_row(from.cols());
        match what {
            What::Rows { rows, end, out } => {
                for (row, out) in rows.zip(out.chunks_exact_mut(per_row)) {
                    let range = adjacency.range(row);
                    let end = end.max(range.end);
                    let entries = Entries::of(&adjacency, row, range, end);
                    one_row::<L, W>(entries, weight, from, adjacency.row_factor(row), out);
                }
            }
            What::Part { row, range, out } => {
                let end = range.end;
                let entries = Entries::of(&adjacency, row, range, end);
                one_row::<L, W>(entries, weight, from, 1.0, out);
            }
            What::Packed { rows, hubs, out } => match from.stride() {
                1 => narrow_rows::<L, W, 1>(&adjacency, weight, from.padded(), rows, hubs, out),
                2 => narrow_rows::<L, W, 2>(&adjacency, weight, from.padded(), rows, hubs, out),
                4 => narrow_rows::<L, W, 4>(&adjacency, weight, from.padded(), rows, hubs, out),
                _ => besides::<L, W, 8>(&adjacency, weight, from.padded(), rows, hubs, out),
            },
        }
    }
}

/// Rows of at most 4 floats: those of whole windows in lockstep, if the operator has a copy of its
/// entries for that, and the others one after the other. The sums have the same bits either way.
#[inline(always)]
fn narrow_rows<L: Lanes, W: Weight, const STRIDE: usize>(
    adjacency: &AdjacencyRef<'_>,
    weight: W,
    source: &[f32],
    rows: Range<usize>,
    hubs: &[(usize, usize)],
    out: &mut [f32],
) {
    let Some(copy) = adjacency.lockstep() else {
        return besides::<L, W, STRIDE>(adjacency, weight, source, rows, hubs, out);
    };
    let windows = copy.whole_windows(&rows);
    let (before, rest) = out.split_at_mut((windows.start - rows.start) * STRIDE);
    let (within, after) = rest.split_at_mut(windows.len() * STRIDE);
    let upto = |row: usize| hubs.partition_point(|hub| hub.1 < row);
    let (first, last) = (upto(windows.start), upto(windows.end));
    let others = rows.start..windows.start;
    besides::<L, W, STRIDE>(adjacency, weight, source, others, &hubs[..first], before);
    let others = windows.end..rows.end;
    besides::<L, W, STRIDE>(adjacency, weight, source, others, &hubs[last..], after);
    let (hubs, out) = (&hubs[first..last], within.as_chunks_mut::<STRIDE>().0);
    let (from, _) = source.as_chunks::<STRIDE>();
    let prefetches = size_of_val(source) > CACHED;
    copy.gather::<L, STRIDE>(adjacency.row_scale(), from, prefetches, windows.clone(), out);
    for &row in copy.long_rows(&windows) {
        let row = row as usize;
        if hubs.binary_search_by_key(&row, |hub| hub.1).is_err() {
            let out = out[row - windows.start..][..1].as_flattened_mut();
            besides::<L, W, STRIDE>(adjacency, weight, source, row..row + 1, &[], out);
        }
    }
}

/// Rows other than hubs.
#[inline(always)]
fn besides<L: Lanes, W: Weight, const STRIDE: usize>(
    adjacency: &AdjacencyRef<'_>,
    weight: W,
    source: &[f32],
    rows: Range<usize>,
    hubs: &[(usize, usize)],
    out: &mut [f32],
) {
    let mut start = rows.start;
    for end in hubs.iter().map(|hub| hub.1).chain([rows.end]) {
        let out = &mut out[(start - rows.start) * STRIDE..];
        summed::<L, W, STRIDE>(adjacency, weight, source, start..end, out);
        start = end + 1;
    }
}

/// Rows of at most 8 floats, one after the other: each is summed in registers.
#[inline(always)]
fn summed<L: Lanes, W: Weight, const STRIDE: usize>(
    adjacency: &AdjacencyRef<'_>,
    weight: W,
    source: &[f32],
    rows: Range<usize>,
    out: &mut [f32],
) {
    let (neighbours, (source, _)) = (adjacency.neighbours(), source.as_chunks::<STRIDE>());
    let prefetches = size_of_val(source) > CACHED;
    for (row, out) in rows.zip(out.as_chunks_mut::<STRIDE>().0) {
        let (range, shift) = (adjacency.range(row), adjacency.shift(row));
        let mut sums = [0.0; STRIDE];
        for (entry, &neighbour) in range.clone().zip(&neighbours[range]) {
            if prefetches && let Some(&later) = neighbours.get(entry + FAR_AHEAD) {
                let at = later.wrapping_sub(shift) as usize;
                L::prefetch(source.as_ptr().wrapping_add(at).cast());
            }
            let x = &source[neighbour.wrapping_sub(shift) as usize];
            let weight = weight.at(entry, neighbour);
            for (sum, x) in sums.iter_mut().zip(x) {
                *sum += weight * x;
            }
        }
        let factor = adjacency.row_factor(row);
        *out = sums.map(|sum| sum * factor);
    }
}

/// The rows themselves, in the layout of [`rows`].
#[inline(always)]
pub fn copy(from: MatrixRef<'_>, rows: Range<usize>, out: &mut [Line]) {
    for (row, out) in rows.zip(out.chunks_exact_mut(lines_per_row(from.cols()))) {
        let out: &mut [f32] = bytemuck::cast_slice_mut(out);
        let row = from.padded_row(row);
        out[..row.len()].copy_from_slice(row);
        out[row.len()..].fill(0.0);
    }
}

#[inline(always)]
fn one_row<L: Lanes, W: Weight>(
    entries: Entries<'_>,
    weight: W,
    from: MatrixRef<'_>,
    scale: f32,
    out: &mut [Line],
) {
    match from.stride() {
        1 => narrow::<W, 1>(entries, weight, from.padded(), scale, out),
        2 => narrow::<W, 2>(entries, weight, from.padded(), scale, out),
        4 => narrow::<W, 4>(entries, weight, from.padded(), scale, out),
        8 => narrow::<W, 8>(entries, weight, from.padded(), scale, out),
        _ => {
            let (source, per_row) = (from.lines(), out.len());
            let mut first = 0;
            while first + 4 <= per_row {
                some_lines::<L, W, 4>(entries, weight, source, per_row, first, scale, out);
                first += 4;
            }
            if first + 2 <= per_row {
                some_lines::<L, W, 2>(entries, weight, source, per_row, first, scale, out);
                first += 2;
            }
            if first < per_row {
                some_lines::<L, W, 1>(entries, weight, source, per_row, first, scale, out);
            }
        }
    }
}

/// Gathers lines `first..first + LINES` of a row.
#[inline(always)]
fn some_lines<L: Lanes, W: Weight, const LINES: usize>(
    entries: Entries<'_>,
    weight: W,
    source: &[Line],
    per_row: usize,
    first: usize,
    scale: f32,
    out: &mut [Line],
) {
    let mut sums = [L::splat(0.0); LINES];
    let ahead = if per_row > 2 { AHEAD } else { FAR_AHEAD };
    for (entry, &neighbour) in entries.neighbours[..entries.count].iter().enumerate() {
        let column = entries.column(neighbour);
        let lines = &source[column * per_row + first..][..LINES];
        if first == 0
            && let Some(&later) = entries.neighbours.get(entry + ahead)
        {
            let start = source.as_ptr().wrapping_add(entries.column(later) * per_row);
            for line in 0..per_row {
                L::prefetch(start.wrapping_add(line));
            }
            weight.prefetch::<L>(later);
        }
        if W::ALL_ONE {
            for (sum, line) in sums.iter_mut().zip(lines) {
                *sum = sum.add(L::load(line));
            }
        } else {
            let weight = L::splat(weight.at(entries.first + entry, neighbour));
            for (sum, line) in sums.iter_mut().zip(lines) {
                *sum = L::load(line).mul_add(weight, *sum);
            }
        }
    }
    let scale = L::splat(scale);
    for (sum, line) in sums.iter().zip(&mut out[first..first + LINES]) {
        sum.mul(scale).store(line);
    }
}

/// Gathers a row that is shorter than a line.
#[inline(always)]
fn narrow<W: Weight, const STRIDE: usize>(
    entries: Entries<'_>,
    weight: W,
    source: &[f32],
    scale: f32,
    out: &mut [Line],
) {
    let mut sums = [0.0; STRIDE];
    for (entry, &neighbour) in entries.neighbours[..entries.count].iter().enumerate() {
        let column = entries.column(neighbour);
        let weight = weight.at(entries.first + entry, neighbour);
        for (sum, x) in sums.iter_mut().zip(&source[column * STRIDE..][..STRIDE]) {
            *sum += weight * x;
        }
    }
    let mut line = [0.0; LINE];
    for (out, sum) in line.iter_mut().zip(sums) {
        *out = sum * scale;
    }
    out[0].0 = line;
}
