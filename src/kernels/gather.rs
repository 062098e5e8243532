//! Gathering: rows of A^T X into cache. The product with the weights is in `sweep`.
//!
//! The entries of a row are added in their stored order, 64 columns at a time in registers. Rows
//! are prefetched some entries ahead; those that a sweep has prefetched before are already in cache
//! and cost nothing more.

use std::ops::Range;

use super::AdjacencyRef;
use super::simd::Lanes;
use crate::dense::{LINE, Line, MatrixRef};

/// Rows are prefetched this many entries before they are summed, across the ends of rows: a few
/// microseconds.
const AHEAD: usize = 24;

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
}

impl Entries<'_> {
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
#[inline(always)]
pub fn rows<L: Lanes>(
    adjacency: &AdjacencyRef<'_>,
    from: MatrixRef<'_>,
    rows: Range<usize>,
    out: &mut [Line],
) {
    rows_until::<L>(adjacency, from, rows, adjacency.neighbours().len(), out);
}

/// The same, without prefetching the entries from `end` on, which are not gathered next.
#[inline(always)]
pub fn rows_until<L: Lanes>(
    adjacency: &AdjacencyRef<'_>,
    from: MatrixRef<'_>,
    rows: Range<usize>,
    end: usize,
    out: &mut [Line],
) {
    for (row, out) in rows.zip(out.chunks_exact_mut(lines_per_row(from.cols()))) {
        let range = adjacency.range(row);
        let entries = Entries {
            neighbours: &adjacency.neighbours()[range.start..end.max(range.end)],
            count: range.len(),
            shift: adjacency.shift(row),
        };
        let scale = adjacency.row_factor(row);
        match (adjacency.values(), adjacency.gather_scale()) {
            (None, None) => one_row::<L, _>(entries, One, from, scale, out),
            (Some(values), None) => {
                one_row::<L, _>(entries, Values(&values[range]), from, scale, out);
            }
            (None, Some(scales)) => one_row::<L, _>(entries, Scales(scales), from, scale, out),
            (Some(values), Some(scales)) => {
                one_row::<L, _>(entries, ValuesAndScales(&values[range], scales), from, scale, out);
            }
        }
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
        1 => narrow::<L, W, 1>(entries, weight, from.padded(), scale, out),
        2 => narrow::<L, W, 2>(entries, weight, from.padded(), scale, out),
        4 => narrow::<L, W, 4>(entries, weight, from.padded(), scale, out),
        8 => narrow::<L, W, 8>(entries, weight, from.padded(), scale, out),
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
    for (entry, &neighbour) in entries.neighbours[..entries.count].iter().enumerate() {
        let column = entries.column(neighbour);
        let lines = &source[column * per_row + first..][..LINES];
        if first == 0
            && let Some(&later) = entries.neighbours.get(entry + AHEAD)
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
            let weight = L::splat(weight.at(entry, neighbour));
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
fn narrow<L: Lanes, W: Weight, const STRIDE: usize>(
    entries: Entries<'_>,
    weight: W,
    source: &[f32],
    scale: f32,
    out: &mut [Line],
) {
    let mut sums = [0.0; STRIDE];
    for (entry, &neighbour) in entries.neighbours[..entries.count].iter().enumerate() {
        let column = entries.column(neighbour);
        if let Some(&later) = entries.neighbours.get(entry + AHEAD) {
            L::prefetch(source.as_ptr().wrapping_add(entries.column(later) * STRIDE).cast());
            weight.prefetch::<L>(later);
        }
        let weight = weight.at(entry, neighbour);
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
