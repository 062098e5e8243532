//! The micro-kernel of every product: some rows times some panels of packed weights, in registers.

use super::PackedWeights;
use super::simd::Lanes;
use crate::dense::{LINE, Line};

/// Gathered rows times `PANELS` panels of the weights, added to `sums`. Meanwhile the given number
/// of lines is prefetched from each of some addresses.
#[inline(always)]
pub fn product<L: Lanes, const ROWS: usize, const PANELS: usize>(
    gathered: &[Line],
    per_row: usize,
    weights: &PackedWeights,
    panel: usize,
    (fetched, fetched_lines): (&[usize], usize),
    mut sums: [[L; PANELS]; ROWS],
) -> [[L; PANELS]; ROWS] {
    let panels: [&[Line]; PANELS] = std::array::from_fn(|offset| weights.panel(panel + offset));
    for block in 0..per_row {
        let rows: [&[f32; LINE]; ROWS] =
            std::array::from_fn(|row| &gathered[row * per_row + block].0);
        let first = block * LINE;
        let end = weights.inner().min(first + LINE);
        let lines: [&[Line]; PANELS] = std::array::from_fn(|offset| &panels[offset][first..end]);
        for &address in if block < fetched_lines { fetched } else { &[] } {
            // The address is prefetched, never read.
            L::prefetch(std::ptr::without_provenance::<Line>(address).wrapping_add(block));
        }
        // The sums are passed by value so that they stay in registers throughout the block.
        sums = if end - first == LINE {
            outer_products::<L, ROWS, PANELS>(LINE, &rows, &lines, sums)
        } else {
            outer_products::<L, ROWS, PANELS>(end - first, &rows, &lines, sums)
        };
    }
    sums
}

/// sums + the first `count` columns of the rows times the lines of the panels.
#[inline(always)]
fn outer_products<L: Lanes, const ROWS: usize, const PANELS: usize>(
    count: usize,
    rows: &[&[f32; LINE]; ROWS],
    panels: &[&[Line]; PANELS],
    mut sums: [[L; PANELS]; ROWS],
) -> [[L; PANELS]; ROWS] {
    for k in 0..count.min(LINE) {
        let mut weights = [L::splat(0.0); PANELS];
        for panel in 0..PANELS {
            weights[panel] = L::load(&panels[panel][k]);
        }
        for row in 0..ROWS {
            let x = L::splat(rows[row][k]);
            for panel in 0..PANELS {
                sums[row][panel] = x.mul_add(weights[panel], sums[row][panel]);
            }
        }
    }
    sums
}

/// The first `PANELS` lines of `count` rows, which begin `per_row` lines apart.
#[inline(always)]
pub fn load<L: Lanes, const ROWS: usize, const PANELS: usize>(
    rows: &[Line],
    per_row: usize,
    count: usize,
) -> [[L; PANELS]; ROWS] {
    let mut sums = [[L::splat(0.0); PANELS]; ROWS];
    for (row, sums) in sums.iter_mut().take(count).enumerate() {
        for (sum, line) in sums.iter_mut().zip(&rows[row * per_row..][..PANELS]) {
            *sum = L::load(line);
        }
    }
    sums
}

/// The same back.
#[inline(always)]
pub fn store<L: Lanes, const ROWS: usize, const PANELS: usize>(
    sums: [[L; PANELS]; ROWS],
    rows: &mut [Line],
    per_row: usize,
    count: usize,
) {
    for (row, sums) in sums.iter().take(count).enumerate() {
        for (sum, line) in sums.iter().zip(&mut rows[row * per_row..][..PANELS]) {
            sum.store(line);
        }
    }
}
