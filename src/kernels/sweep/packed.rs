//! A pass over a block of rows of a narrow state, of at most 8 columns. Several rows share a line, in
//! memory and in registers: they are multiplied, finished and compared together. Rows are gathered
//! one behind the other, as they lie in the state.
//!
//! The product of a line with W takes one step for each column l: every lane becomes its row's entry
//! l, and is multiplied by the lane's entry of row l of W.

use std::ops::Range;

use super::super::gather;
use super::super::lockstep::WINDOW;
use super::super::simd::{Lanes, Order};
use super::super::{Change, Norm};
use super::finish::{Finish, Maxima, RowSizes, clear_lanes};
use super::pass::{Block, Tile, tile_rows};
use crate::dense::{LINE, Line};

/// Widest state whose rows share lines.
pub(super) const WIDEST: usize = LINE / 2;

impl<F: Finish> Block<'_, '_, F> {
    /// The pass; `norm` is that of a sweep.
    #[inline(always)]
    pub(super) fn packed<L: Lanes>(mut self, norm: Norm<'_>) -> Change {
        let (stride, cols) = (self.to.stride(), self.to.cols());
        let shared = LINE / stride;
        assert!(self.rows.start.is_multiple_of(shared), "blocks of whole lines");
        let segments = self.pass.terms.len();
        let tile = whole_windows(tile_rows(segments), stride);
        self.scratch.check(tile * segments, tile, 1);
        norm.invert_v(stride, &mut self.scratch.inverse_v[..1]);
        self.spread_weights(stride);
        let orders: [Order; WIDEST] = std::array::from_fn(|l| {
            Order(std::array::from_fn(|lane| (lane - lane % stride + l % stride) as u32))
        });
        // The lanes of columns, without padding.
        let kept = (0..LINE).fold(0, |bits, at| bits | u16::from(at % stride < cols) << at);
        let mut maxima = Maxima::<L>::new();
        let (mut next, end) = (self.rows.start / shared, self.rows.end.div_ceil(shared));
        let (mut computed, mut moved) = (0, 0);
        loop {
            self.take_lines(&mut next, end, tile);
            let lines = std::mem::take(&mut self.scratch.coming);
            let mut first = 0;
            while first < lines.len() {
                let run = consecutive(&lines[first..]);
                let line = lines[first] as usize;
                let rows = line * shared..self.rows.end.min((line + run) * shared);
                computed += match self.scratch.active.get(first..first + run) {
                    Some(active) => {
                        active.iter().map(|lanes| lanes.count_ones()).sum::<u32>() / stride as u32
                    }
                    None => rows.len() as u32,
                } as u64;
                self.gather_packed(rows, tile, first, run);
                self.multiply_packed::<L>(&orders, tile, first, run);
                let products = &mut self.scratch.products[first..first + run];
                self.pass.finish.lines::<L>(line, products);
                if kept != u16::MAX {
                    products.iter_mut().for_each(|line| clear_lanes::<L>(line, kept));
                }
                let used = self.rows.end * stride - (line + run - 1) * LINE;
                if used < LINE {
                    clear_lanes::<L>(&mut products[run - 1], kept & ((1 << used) - 1));
                }
                self.keep_skipped::<L>(line, first..first + run);
                moved += self.finish_packed::<L>(&norm, line, first..first + run, &mut maxima);
                first += run;
            }
            let is_last = lines.is_empty();
            self.scratch.coming = lines;
            if is_last {
                break;
            }
        }
        L::fence();
        let change = maxima.change(norm.u.is_some() || norm.v.is_some());
        Change { rows: computed, moved, ..change }
    }

    /// Row l of the weights of each term, once for each of the rows that share a line.
    #[inline(always)]
    fn spread_weights(&mut self, stride: usize) {
        let all = self.scratch.spread.chunks_exact_mut(WIDEST);
        for (term, spread) in self.pass.terms.iter().zip(all) {
            for (spread, line) in spread.iter_mut().zip(term.weights.panel(0)) {
                for row in spread.0.chunks_exact_mut(stride) {
                    row.copy_from_slice(&line.0[..stride]);
                }
            }
        }
    }

    /// Lists the next lines to compute, at most a tile of them: all, or those with an active row.
    /// Copies skipped lines that differ.
    #[inline(always)]
    fn take_lines(&mut self, next: &mut usize, end: usize, tile: usize) {
        self.scratch.coming.clear();
        self.scratch.active.clear();
        let Some((watch, flags)) = self.pass.watch.as_ref().zip(self.flags.as_mut()) else {
            let last = end.min(*next + tile);
            self.scratch.coming.extend(*next as u32..last as u32);
            *next = last;
            return;
        };
        let stride = self.to.stride();
        let shared = LINE / stride;
        while *next < end && self.scratch.coming.len() < tile {
            let line = *next;
            *next += 1;
            let rows = line * shared..self.rows.end.min((line + 1) * shared);
            let at = rows.start - self.rows.start..rows.end - self.rows.start;
            let lanes = ((1u32 << stride) - 1) as u16;
            let active = rows.enumerate().fold(0, |active, (place, row)| {
                let is_active = watch.is_active(self.pass.terms, row);
                if is_active { active | lanes << (place * stride) } else { active }
            });
            if active != 0 {
                self.scratch.coming.push(line as u32);
                self.scratch.active.push(active);
                continue;
            }
            flags.moved[at.clone()].fill(0);
            if flags.differs[at.clone()].iter().any(|&differs| differs != 0) {
                self.to.lines_mut()[at.start / shared] = self.pass.from.lines()[line];
                flags.differs[at].fill(0);
            }
        }
    }

    /// Gathers rows into the tile from line `first` on.
    #[inline(always)]
    fn gather_packed(&mut self, rows: Range<usize>, tile: usize, first: usize, lines: usize) {
        let (stride, isa) = (self.to.stride(), self.pass.isa);
        let terms = self.pass.terms.iter().enumerate();
        for ((at, term), out) in terms.zip(self.scratch.gathered.chunks_exact_mut(tile)) {
            let out = &mut out[first..first + lines];
            // The end of the last line.
            out[lines - 1] = Line([0.0; LINE]);
            let out: &mut [f32] = bytemuck::cast_slice_mut(out);
            let (hubs, number) = self.pass.hubs.among(at, &rows);
            gather::packed(isa, term.adjacency, term.from, rows.clone(), hubs, out);
            for (hub, &(_, row)) in (number..).zip(hubs) {
                let to = &mut out[(row - rows.start) * stride..][..stride];
                to.copy_from_slice(&self.pass.hubs.sum(hub)[0].0[..stride]);
            }
        }
    }

    /// The product of gathered lines with the weights.
    #[inline(always)]
    fn multiply_packed<L: Lanes>(
        &mut self,
        orders: &[Order; WIDEST],
        tile: usize,
        first: usize,
        lines: usize,
    ) {
        let (cols, stride) = (self.to.cols(), self.to.stride());
        let Tile { gathered, products, spread, .. } = &mut *self.scratch;
        let weights = || spread.chunks_exact(WIDEST).take(self.pass.terms.len());
        for (at, out) in products[first..first + lines].iter_mut().enumerate() {
            let mut sum = L::splat(0.0);
            for (weights, gathered) in weights().zip(gathered.chunks_exact(tile)) {
                let x = L::load(&gathered[first + at]);
                if stride == 1 {
                    sum = x.mul_add(L::load(&weights[0]), sum);
                    continue;
                }
                for (weight, order) in weights.iter().zip(orders).take(cols) {
                    sum = x.permute(order).mul_add(L::load(weight), sum);
                }
            }
            sum.store(out);
        }
    }

    /// Takes back the rows that share a line with an active row and are not active themselves.
    #[inline(always)]
    fn keep_skipped<L: Lanes>(&mut self, line: usize, run: Range<usize>) {
        let old = &self.pass.from.lines()[line..];
        let Tile { active, products, .. } = &mut *self.scratch;
        let Some(active) = active.get(run.clone()) else { return };
        for ((&active, new), old) in active.iter().zip(&mut products[run]).zip(old) {
            if active != u16::MAX {
                L::by_bits(active, L::load(new), L::load(old)).store(new);
            }
        }
    }

    /// Compares and stores finished lines. Returns the number of rows that count as moved.
    #[inline(always)]
    fn finish_packed<L: Lanes>(
        &mut self,
        norm: &Norm<'_>,
        line: usize,
        run: Range<usize>,
        maxima: &mut Maxima<L>,
    ) -> u64 {
        let pass = self.pass;
        let stride = self.to.stride();
        let shared = LINE / stride;
        let start = line - self.rows.start / shared;
        let old = &pass.from.lines()[line..][..run.len()];
        let first_of_run = run.start;
        let new = &self.scratch.products[run];
        let mut moved = 0;
        if norm.u.is_none() && norm.v.is_none() && norm.rows.is_none() && pass.watch.is_none() {
            maxima.note(old, new);
        } else {
            let inverse_v = &self.scratch.inverse_v[0];
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                let first = (line + at) * shared;
                let sizes = RowSizes::<L>::of(stride, old, new);
                maxima.note_shared(norm, first, &sizes, (old, new), inverse_v);
                let (Some(watch), Some(flags)) = (&pass.watch, &mut self.flags) else { continue };
                let (delta, size) = (sizes.delta.to_array(), sizes.new.to_array());
                let rows =
                    first - self.rows.start..self.rows.end.min(first + shared) - self.rows.start;
                let active = self.scratch.active[first_of_run + at];
                for (lane, row) in rows.enumerate().map(|(place, row)| (place * stride, row)) {
                    let is_active = active >> lane & 1 == 1;
                    let has_moved = is_active && watch.threshold.is_above(delta[lane], size[lane]);
                    (flags.moved[row], flags.differs[row]) = (has_moved.into(), is_active.into());
                    moved += u64::from(has_moved);
                }
            }
        }
        if let Some(moves) = &mut self.moves {
            moves.note::<L>(start, old, new, pass.is_large);
        }
        super::pass::put::<L>(new, &mut self.to.lines_mut()[start..], pass.is_large);
        moved
    }
}

/// The lines of a tile, at most so many: if they hold windows of rows in lockstep, whole ones.
fn whole_windows(lines: usize, stride: usize) -> usize {
    let window = WINDOW * stride / LINE;
    if lines < window { lines } else { lines - lines % window }
}

/// Number of consecutive lines at the beginning of a list.
#[inline(always)]
pub(super) fn consecutive(list: &[u32]) -> usize {
    list.windows(2).take_while(|pair| pair[1] == pair[0] + 1).count() + 1
}
