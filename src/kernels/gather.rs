//! Gathering: row i of A^T X for consecutive rows, into cache.
//! Sums only; the product with the weights is in `sweep`.
//!
//! The entries of a row are added in their stored order, 64 columns at a time in registers.

use std::ops::Range;

use super::AdjacencyRef;
use super::simd::Lanes;
use crate::dense::{LINE, Line, MatrixRef};

/// Rows with more entries fetch ahead while they are summed; shorter ones were fetched before ([`prefetch`]).
const LONG: usize = 64;
/// How many entries ahead.
const AHEAD: usize = 8;

/// Lines that a gathered row takes; narrow rows take one.
pub fn lines_per_row(cols: usize) -> usize {
    cols.div_ceil(LINE)
}

/// The value of an entry but for the factor of its row.
trait Weight: Copy {
    const ALL_ONE: bool;
    fn at(self, entry: usize, column: usize) -> f32;
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
    fn at(self, _entry: usize, _column: usize) -> f32 {
        1.0
    }
}

impl Weight for Values<'_> {
    const ALL_ONE: bool = false;
    #[inline(always)]
    fn at(self, entry: usize, _column: usize) -> f32 {
        self.0[entry]
    }
}

impl Weight for Scales<'_> {
    const ALL_ONE: bool = false;
    #[inline(always)]
    fn at(self, _entry: usize, column: usize) -> f32 {
        self.0[column]
    }
}

impl Weight for ValuesAndScales<'_> {
    const ALL_ONE: bool = false;
    #[inline(always)]
    fn at(self, entry: usize, column: usize) -> f32 {
        self.0[entry] * self.1[column]
    }
}

/// Gathers rows into `out`, [`lines_per_row`] lines a row, padding zero.
#[inline(always)]
pub fn rows<L: Lanes>(
    adjacency: &AdjacencyRef<'_>,
    from: MatrixRef<'_>,
    rows: Range<usize>,
    out: &mut [Line],
) {
    for (row, out) in rows.zip(out.chunks_exact_mut(lines_per_row(from.cols()))) {
        let range = adjacency.range(row);
        let neighbours = &adjacency.neighbours()[range.clone()];
        let scale = adjacency.row_scale().map_or(1.0, |scale| scale[row]);
        match (adjacency.values(), adjacency.gather_scale()) {
            (None, None) => one_row::<L, _>(neighbours, One, from, scale, out),
            (Some(values), None) => one_row::<L, _>(neighbours, Values(&values[range]), from, scale, out),
            (None, Some(scales)) => one_row::<L, _>(neighbours, Scales(scales), from, scale, out),
            (Some(values), Some(scales)) => {
                one_row::<L, _>(neighbours, ValuesAndScales(&values[range], scales), from, scale, out);
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
    neighbours: &[u32],
    weight: W,
    from: MatrixRef<'_>,
    scale: f32,
    out: &mut [Line],
) {
    match from.stride() {
        1 => narrow::<W, 1>(neighbours, weight, from.padded(), scale, out),
        2 => narrow::<W, 2>(neighbours, weight, from.padded(), scale, out),
        4 => narrow::<W, 4>(neighbours, weight, from.padded(), scale, out),
        8 => narrow::<W, 8>(neighbours, weight, from.padded(), scale, out),
        _ => {
            let (source, per_row) = (from.lines(), out.len());
            let mut first = 0;
            while first + 4 <= per_row {
                some_lines::<L, W, 4>(neighbours, weight, source, per_row, first, scale, out);
                first += 4;
            }
            if first + 2 <= per_row {
                some_lines::<L, W, 2>(neighbours, weight, source, per_row, first, scale, out);
                first += 2;
            }
            if first < per_row {
                some_lines::<L, W, 1>(neighbours, weight, source, per_row, first, scale, out);
            }
        }
    }
}

/// Lines `first..first + LINES` of a row.
#[inline(always)]
fn some_lines<L: Lanes, W: Weight, const LINES: usize>(
    neighbours: &[u32],
    weight: W,
    source: &[Line],
    per_row: usize,
    first: usize,
    scale: f32,
    out: &mut [Line],
) {
    let mut sums = [L::splat(0.0); LINES];
    let is_long = neighbours.len() > LONG;
    for (entry, &column) in neighbours.iter().enumerate() {
        let column = column as usize;
        let lines = &source[column * per_row + first..][..LINES];
        if is_long && let Some(&next) = neighbours.get(entry + AHEAD) {
            let next = source.as_ptr().wrapping_add(next as usize * per_row + first);
            for line in 0..LINES {
                L::prefetch(next.wrapping_add(line));
            }
        }
        if W::ALL_ONE {
            for (sum, line) in sums.iter_mut().zip(lines) {
                *sum = sum.add(L::load(line));
            }
        } else {
            let weight = L::splat(weight.at(entry, column));
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

/// Rows of less than a line.
#[inline(always)]
fn narrow<W: Weight, const STRIDE: usize>(
    neighbours: &[u32],
    weight: W,
    source: &[f32],
    scale: f32,
    out: &mut [Line],
) {
    let mut sums = [0.0; STRIDE];
    for (entry, &column) in neighbours.iter().enumerate() {
        let column = column as usize;
        let weight = weight.at(entry, column);
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

/// Asks for what [`rows`] will read for some entries of the operator.
#[inline(always)]
pub fn prefetch<L: Lanes>(adjacency: &AdjacencyRef<'_>, from: MatrixRef<'_>, entries: Range<usize>) {
    let stride = from.stride();
    let source = from.padded().as_ptr();
    for &column in &adjacency.neighbours()[entries] {
        let row = source.wrapping_add(column as usize * stride).cast::<Line>();
        for line in 0..stride.div_ceil(LINE) {
            L::prefetch(row.wrapping_add(line));
        }
        if let Some(scale) = adjacency.gather_scale() {
            L::prefetch(scale.as_ptr().wrapping_add(column as usize).cast());
        }
    }
}
