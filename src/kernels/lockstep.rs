//! A copy of an operator's entries in the order in which narrow states gather them. Sums of one, two
//! or four columns take so little time that the ends of short rows, which no processor predicts,
//! cost more than the entries. Here eight rows of about the same length are summed together.
//!
//! The rows of a window are sorted by their number of entries and taken in groups. The entries of a
//! group alternate: the first of each row, then the second, and so on; rows that have no more are the
//! last of their group and drop out. A row is still summed entry by entry in its stored order, so
//! that its sum has the same bits as that of [`super::gather`]. Long rows are left out, and are
//! gathered by themselves.
//!
//! The copy takes as much memory as the neighbours, and three bytes per row. It is worth its making
//! after some tens of sweeps.

use std::ops::Range;

use rayon::prelude::*;

use super::AdjacencyRef;
use super::simd::Lanes;
use crate::parallel::RowBlocks;

/// Rows that are sorted together.
pub(super) const WINDOW: usize = 256;
/// Rows that are summed together.
const GROUP: usize = 8;
/// Rows with more entries are left out. Hubs have more.
pub(super) const LONGEST: usize = RowBlocks::BLOCK_WORK as usize / crate::dense::LINE;
/// Neighbours are prefetched this many entries before their turn.
const AHEAD: usize = 64;
/// Largest number of floats per row that gain from it: the sums of a group have to fit in registers.
const WIDEST: usize = 4;

/// The entries of an operator, for narrow states.
#[derive(Debug)]
pub struct Lockstep {
    rows: usize,
    /// The first entry of each window.
    windows: Vec<usize>,
    /// The sorted rows of each window, relative to its first one.
    places: Vec<u8>,
    /// Their numbers of entries; 0 for long rows.
    lengths: Vec<u16>,
    neighbours: Vec<u32>,
    values: Option<Vec<f32>>,
    /// Rows that are left out, ascending.
    long: Vec<u32>,
}

impl Lockstep {
    /// Whether sweeps over states of this many columns gather by such a copy, if there is one.
    pub fn serves(width: usize) -> bool {
        (1..=WIDEST).contains(&width)
    }

    /// Bytes of a copy, at most.
    pub fn bytes(rows: u64, entries: u64, has_values: bool) -> u64 {
        let entry = if has_values { 8 } else { 4 };
        let windows = rows.div_ceil(WINDOW as u64);
        let of_rows = rows.saturating_mul(3).saturating_add(windows.saturating_mul(8));
        entries.saturating_mul(entry).saturating_add(of_rows)
    }

    /// A copy of these entries.
    ///
    /// # Panics
    /// If the operator is a selection.
    pub fn of(a: &AdjacencyRef<'_>) -> Self {
        assert!(!a.is_selection(), "stored rows");
        let rows = a.rows();
        let mut places = vec![0u8; rows];
        let mut lengths = vec![0u16; rows];
        let sorted = places.par_chunks_mut(WINDOW).zip(lengths.par_chunks_mut(WINDOW));
        let entries: Vec<usize> = sorted
            .enumerate()
            .map(|(window, (places, lengths))| sort(a, window * WINDOW, places, lengths))
            .collect();
        let mut windows = Vec::with_capacity(entries.len());
        let total = entries.iter().fold(0, |first, count| {
            windows.push(first);
            first + count
        });
        let mut neighbours = vec![0; total];
        let mut values = a.values().map(|_| vec![0.0; total]);
        let mut copies = Vec::with_capacity(windows.len());
        let (mut left, mut left_values) = (&mut neighbours[..], values.as_deref_mut());
        for &count in &entries {
            let (own, rest) = std::mem::take(&mut left).split_at_mut(count);
            let (own_values, rest_values) =
                left_values.take().map(|values| values.split_at_mut(count)).unzip();
            copies.push((own, own_values));
            (left, left_values) = (rest, rest_values);
        }
        let sorted = places.par_chunks(WINDOW).zip(lengths.par_chunks(WINDOW));
        copies.into_par_iter().zip(sorted).enumerate().for_each(|(window, (to, sorted))| {
            copy(a, window * WINDOW, sorted, to);
        });
        let long = (0..rows as u32).filter(|&row| a.range(row as usize).len() > LONGEST).collect();
        Self { rows, windows, places, lengths, neighbours, values, long }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of entries, with those that are left out not counted.
    pub fn entries(&self) -> usize {
        self.neighbours.len()
    }

    /// Bytes allocated.
    pub fn held(&self) -> usize {
        size_of_val(&self.windows[..])
            + size_of_val(&self.places[..])
            + size_of_val(&self.lengths[..])
            + size_of_val(&self.neighbours[..])
            + self.values.as_deref().map_or(0, size_of_val)
            + size_of_val(&self.long[..])
    }

    /// The long rows among some rows.
    #[inline(always)]
    pub(super) fn long_rows(&self, rows: &Range<usize>) -> &[u32] {
        let [start, end] = [rows.start, rows.end]
            .map(|row| self.long.partition_point(|&long| (long as usize) < row));
        &self.long[start..end]
    }

    /// The windows that lie in a range of rows, as rows.
    #[inline(always)]
    pub(super) fn whole_windows(&self, rows: &Range<usize>) -> Range<usize> {
        let start = rows.start.next_multiple_of(WINDOW);
        let end = if rows.end == self.rows { rows.end } else { rows.end - rows.end % WINDOW };
        if start < end { start..end } else { rows.start..rows.start }
    }

    /// Gathers whole windows of rows of `STRIDE` floats. Long rows become zero.
    #[inline(always)]
    pub(super) fn gather<L: Lanes, const STRIDE: usize>(
        &self,
        factors: Option<&[f32]>,
        source: &[[f32; STRIDE]],
        prefetches: bool,
        rows: Range<usize>,
        out: &mut [[f32; STRIDE]],
    ) {
        match (&self.values, prefetches) {
            (None, false) => {
                self.windows::<L, STRIDE, false, false>(factors, source, rows, out);
            }
            (None, true) => self.windows::<L, STRIDE, false, true>(factors, source, rows, out),
            (Some(_), false) => {
                self.windows::<L, STRIDE, true, false>(factors, source, rows, out);
            }
            (Some(_), true) => self.windows::<L, STRIDE, true, true>(factors, source, rows, out),
        }
    }

    #[inline(always)]
    fn windows<L: Lanes, const STRIDE: usize, const VALUES: bool, const FETCHES: bool>(
        &self,
        factors: Option<&[f32]>,
        source: &[[f32; STRIDE]],
        rows: Range<usize>,
        out: &mut [[f32; STRIDE]],
    ) {
        let values = self.values.as_deref().unwrap_or_default();
        for (start, out) in rows.clone().step_by(WINDOW).zip(out.chunks_mut(WINDOW)) {
            let these = start..rows.end.min(start + WINDOW);
            let mut at = self.windows[start / WINDOW];
            let (places, lengths) = (&self.places[these.clone()], &self.lengths[these]);
            for (places, lengths) in places.chunks(GROUP).zip(lengths.chunks(GROUP)) {
                let mut common = [[0.0; STRIDE]; GROUP];
                let mut done = 0;
                if let [.., shortest] = lengths
                    && lengths.len() == GROUP
                {
                    done = *shortest;
                    let count = usize::from(*shortest) * GROUP;
                    let entries = self.neighbours[at..at + count].as_chunks::<GROUP>().0;
                    for (k, entries) in entries.iter().enumerate() {
                        let first = at + k * GROUP;
                        if FETCHES
                            && let Some(later) = self.neighbours.get(first + AHEAD..)
                            && let Some(later) = later.first_chunk::<GROUP>()
                        {
                            for &later in later {
                                let at = source.as_ptr().wrapping_add(later as usize);
                                L::prefetch(at.cast());
                            }
                        }
                        let values = if VALUES { &values[first..][..GROUP] } else { &[0.0; GROUP] };
                        for k in 0..GROUP {
                            let x = &source[entries[k] as usize];
                            add::<STRIDE, VALUES>(&mut common[k], x, values[k]);
                        }
                    }
                    at += count;
                }
                // A copy, so that the sums above stay in registers.
                let mut sums = common;
                let mut active = lengths.len();
                while done < lengths[0] {
                    while lengths[active - 1] <= done {
                        active -= 1;
                    }
                    let until = lengths[active - 1];
                    let count = usize::from(until - done) * active;
                    for first in (at..at + count).step_by(active) {
                        let entries = &self.neighbours[first..first + active];
                        for (k, (sum, &neighbour)) in sums.iter_mut().zip(entries).enumerate() {
                            let value = if VALUES { values[first + k] } else { 0.0 };
                            add::<STRIDE, VALUES>(sum, &source[neighbour as usize], value);
                        }
                    }
                    (at, done) = (at + count, until);
                }
                for (&place, sum) in places.iter().zip(&sums) {
                    let place = usize::from(place);
                    let factor = factors.map_or(1.0, |factors| factors[start + place]);
                    out[place] = sum.map(|sum| sum * factor);
                }
            }
        }
    }
}

#[inline(always)]
fn add<const STRIDE: usize, const VALUES: bool>(
    sum: &mut [f32; STRIDE],
    x: &[f32; STRIDE],
    value: f32,
) {
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum += if VALUES { value * x } else { *x };
    }
}

/// Sorts the rows of a window by falling length. Returns the number of their entries.
fn sort(a: &AdjacencyRef<'_>, first: usize, places: &mut [u8], lengths: &mut [u16]) -> usize {
    // By length and place in one number: rows of one length stay in their order.
    let mut keys = [0u32; WINDOW];
    let keys = &mut keys[..places.len()];
    for (place, key) in (0..).zip(&mut *keys) {
        let length = a.range(first + place as usize).len();
        let length = if length > LONGEST { 0 } else { length as u32 };
        *key = (LONGEST as u32 - length) << 8 | place;
    }
    keys.sort_unstable();
    let mut entries = 0;
    for ((key, place), to) in keys.iter().zip(places).zip(lengths) {
        let length = LONGEST as u32 - (key >> 8);
        (*place, *to) = (*key as u8, length as u16);
        entries += length as usize;
    }
    entries
}

/// Copies the entries of a window.
fn copy(
    a: &AdjacencyRef<'_>,
    first: usize,
    (places, lengths): (&[u8], &[u16]),
    (neighbours, mut values): (&mut [u32], Option<&mut [f32]>),
) {
    let mut at = 0;
    for (places, lengths) in places.chunks(GROUP).zip(lengths.chunks(GROUP)) {
        let mut starts = [0; GROUP];
        for (start, &place) in starts.iter_mut().zip(places) {
            *start = a.range(first + usize::from(place)).start;
        }
        let mut active = lengths.len();
        for k in 0..lengths[0] {
            while lengths[active - 1] <= k {
                active -= 1;
            }
            for &start in &starts[..active] {
                let from = start + usize::from(k);
                neighbours[at] = a.neighbours()[from];
                if let (Some(to), Some(values)) = (&mut values, a.values()) {
                    to[at] = values[from];
                }
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::{Operator, Random};

    #[test]
    fn every_entry_is_copied_once_and_long_rows_are_left_out() {
        for (rows, parts) in [(1, 0), (7, 1), (256, 0), (257, 1), (700, 1)] {
            let mut operator = Operator::random(&mut Random(rows as u64), rows, 90, parts);
            let has_long = rows == 700;
            if has_long {
                let long = [300, 301].map(|row| operator.offsets[row] as usize);
                let more = LONGEST + 1 - (long[1] - long[0]);
                let at = long[0];
                operator.neighbours.splice(at..at, std::iter::repeat_n(3, more));
                operator.values.as_mut().unwrap().splice(at..at, std::iter::repeat_n(0.5, more));
                operator.offsets[301..].iter_mut().for_each(|offset| *offset += more as u64);
            }
            let view = operator.view();
            let copy = Lockstep::of(&view);
            assert_eq!(copy.rows(), rows);
            assert_eq!(copy.long, if has_long { vec![300] } else { Vec::new() });
            let left_out: usize = copy.long.iter().map(|&row| view.range(row as usize).len()).sum();
            assert_eq!(copy.entries() + left_out, view.nonzeros());
            let bits = |value: f32| value.to_bits();
            let values = |of: Option<&[f32]>| of.map(|of| of.iter().copied().map(bits).collect());
            let mut expected: Vec<(u32, Option<u32>)> = Vec::new();
            for row in (0..rows).filter(|&row| view.range(row).len() <= LONGEST) {
                expected.extend(view.range(row).map(|at| {
                    (view.neighbours()[at], view.values().map(|values| bits(values[at])))
                }));
            }
            let found: Option<Vec<u32>> = values(copy.values.as_deref());
            let mut found: Vec<_> = copy
                .neighbours
                .iter()
                .enumerate()
                .map(|(at, &neighbour)| (neighbour, found.as_ref().map(|values| values[at])))
                .collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected);
            let bound = Lockstep::bytes(rows as u64, view.nonzeros() as u64, parts == 1);
            assert!(copy.held() as u64 <= bound + 4 * copy.long.len() as u64);
        }
    }
}
