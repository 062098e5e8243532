//! One pass over a block of rows: gather a tile of rows into cache, multiply, finish, store. Blocks
//! are disjoint; each is one call on one thread.
//!
//! While a tile is multiplied, the rows that the next tile gathers are prefetched, a few per step,
//! so that arithmetic hides the latency of memory. A panel of the weights (inner x 16 floats) stays
//! in the first-level cache for a tile.

use std::ops::Range;

use super::super::ahead::GatheredRows;
use super::super::product::{product, store};
use super::super::simd::{Isa, Kernel, Lanes};
use super::super::{AdjacencyRef, Change, Norm, PackedWeights, gather};
use super::active::{Flags, Watch};
use super::finish::{Finish, Maxima, clear_padding};
use super::hubs::Hubs;
use super::moves::Moves;
use super::packed::{WIDEST, consecutive};
use crate::dense::{LINE, Line, MatrixMut, MatrixRef};

/// Rows of the largest tile.
const LARGEST_TILE: usize = 96;
/// Lines of a gathered tile: 16 KiB, half of a first-level cache.
const TILE_LINES: usize = 256;
/// Smallest number of rows of a tile: a panel that comes from a distant cache is used often enough.
const SMALLEST_TILE: usize = 24;
/// Lines prefetched for a tile: they must not evict the weights from the second-level cache.
const FETCHED_LINES: usize = 4096;
/// Rows of fewer lines than this are not prefetched while the tile before is multiplied: the product
/// is short, and keeping the list takes longer than it saves.
const LEAST_FETCHED: usize = 3;
/// Lines that are finished together, if a row has no more.
const FINISHED_LINES: usize = 8;

/// Rows of a tile whose gathered rows take this many lines each.
pub(super) fn tile_rows(lines: usize) -> usize {
    let rows = (TILE_LINES / lines.max(1)).clamp(SMALLEST_TILE, LARGEST_TILE);
    rows - rows % Isa::TILE
}

/// One term of a pass: what is gathered, from where, and what it is multiplied by.
#[derive(Clone, Copy)]
pub(super) struct Gathered<'a> {
    pub adjacency: AdjacencyRef<'a>,
    pub weights: &'a PackedWeights,
    /// The old state; for a relation with repeated rows, its distinct rows.
    pub from: MatrixRef<'a>,
    /// Its rows, if they were gathered before.
    pub ahead: Option<&'a GatheredRows>,
}

impl Gathered<'_> {
    /// Gathers consecutive rows in whole lines; `at` is the number of the term. Entries from `end`
    /// on are not prefetched.
    #[inline(always)]
    pub fn rows(
        &self,
        isa: Isa,
        (hubs, at): (&Hubs, usize),
        range: Range<usize>,
        end: usize,
        out: &mut [Line],
    ) {
        if let Some(ahead) = self.ahead {
            return ahead.copy(range, out);
        }
        let per_row = gather::lines_per_row(self.from.cols());
        let (mut start, mut out) = (range.start, out);
        while let Some((row, sum)) = hubs.first_in(at, &(start..range.end)) {
            let (before, rest) = out.split_at_mut((row - start) * per_row);
            gather::rows_until(isa, self.adjacency, self.from, start..row, end, before);
            rest[..per_row].copy_from_slice(sum);
            (start, out) = (row + 1, &mut rest[per_row..]);
        }
        gather::rows_until(isa, self.adjacency, self.from, start..range.end, end, out);
    }
}

/// What all blocks of a pass share.
pub(super) struct Pass<'a, F> {
    /// Gathered and multiplied.
    pub terms: &'a [Gathered<'a>],
    /// Multiplied without gathering.
    pub plain: Option<&'a PackedWeights>,
    pub from: MatrixRef<'a>,
    pub finish: F,
    /// The norm of the change from `from`; `None` if the result is not a new state.
    pub norm: Option<Norm<'a>>,
    /// Whether the result is too large for the caches: it is stored past them.
    pub is_large: bool,
    /// The instruction set of the pass.
    pub isa: Isa,
    /// Rows that were gathered before.
    pub hubs: &'a Hubs,
    /// Which rows are computed; `None` for all.
    pub watch: Option<Watch<'a>>,
}

/// A pass over one block.
pub(super) struct Block<'p, 'a, F> {
    pub pass: &'p Pass<'a, F>,
    pub rows: Range<usize>,
    pub to: MatrixMut<'p>,
    /// The flags of the block's rows, if activity is tracked.
    pub flags: Option<Flags<'p>>,
    /// Where moves are recorded, if they are.
    pub moves: Option<Moves<'p>>,
    pub scratch: &'p mut Tile,
}

impl<F: Finish> Kernel for Block<'_, '_, F> {
    type Output = Change;

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(mut self) -> Change {
        let pass = self.pass;
        if let Some(norm) = pass.norm
            && self.to.cols() <= WIDEST
        {
            return self.packed::<L>(norm);
        }
        let per_row = gather::lines_per_row(pass.from.cols());
        let segments = pass.terms.len() + usize::from(pass.plain.is_some());
        let tile = tile_rows(per_row * segments);
        let panels = self.to.cols().div_ceil(LINE);
        self.scratch.check(tile * per_row * segments, tile * panels, panels);
        pass.norm
            .unwrap_or_default()
            .invert_v(panels * LINE, &mut self.scratch.inverse_v[..panels]);
        let mut maxima = Maxima::<L>::new();
        let (mut start, mut computed, mut moved) = (self.rows.start, 0, 0);
        self.take_rows::<L>(&mut start, tile);
        while !self.scratch.coming.is_empty() {
            let Tile { rows, coming, .. } = &mut *self.scratch;
            std::mem::swap(rows, coming);
            let count = rows.len();
            self.gather(tile);
            let next = start;
            self.take_rows::<L>(&mut start, tile);
            if per_row < LEAST_FETCHED {
                self.scratch.addresses.clear();
            } else if self.scratch.coming.is_empty() && self.flags.is_none() {
                // The next block usually goes to the same thread.
                let total = pass.terms.first().map_or(self.rows.end, |term| term.adjacency.rows());
                self.scratch.coming.extend(next as u32..total.min(next + tile) as u32);
                self.scratch.list::<L, F>(pass);
                self.scratch.coming.clear();
            } else {
                self.scratch.list::<L, F>(pass);
            }
            let steps = count.div_ceil(ROWS) * panels.div_ceil(PANELS) * segments;
            let mut fetch = Fetch { steps, due: 0, next: 0, lines: fetched_lines(pass.from) };
            let mut panel = 0;
            while panel + PANELS <= panels {
                self.multiply::<L, ROWS, PANELS>(count, panel, tile, &mut fetch);
                panel += PANELS;
            }
            while panel < panels {
                self.multiply::<L, ROWS, 1>(count, panel, tile, &mut fetch);
                panel += 1;
            }
            let together = (FINISHED_LINES / panels.max(1)).max(1);
            let mut at = 0;
            while at < count {
                let end = count.min(at + together);
                let run = consecutive(&self.scratch.rows[at..end]);
                moved += self.finish_rows::<L>(at..at + run, &mut maxima);
                at += run;
            }
            computed += count as u64;
        }
        L::fence();
        let change =
            maxima.change(pass.norm.is_some_and(|norm| norm.u.is_some() || norm.v.is_some()));
        Change { rows: computed, moved, ..change }
    }
}

impl<F: Finish> Block<'_, '_, F> {
    /// Lists the next rows to compute from `start` on, at most a tile of them. Copies skipped rows
    /// that differ.
    #[inline(always)]
    fn take_rows<L: Lanes>(&mut self, start: &mut usize, tile: usize) {
        self.scratch.coming.clear();
        let Some((watch, flags)) = self.pass.watch.as_ref().zip(self.flags.as_mut()) else {
            let end = self.rows.end.min(*start + tile);
            self.scratch.coming.extend(*start as u32..end as u32);
            *start = end;
            return;
        };
        while *start < self.rows.end && self.scratch.coming.len() < tile {
            let (row, at) = (*start, *start - self.rows.start);
            *start += 1;
            if watch.is_active(self.pass.terms, row) {
                self.scratch.coming.push(row as u32);
                continue;
            }
            flags.moved[at] = 0;
            if flags.differs[at] != 0 {
                self.to.padded_row_mut(at).copy_from_slice(self.pass.from.padded_row(row));
                flags.differs[at] = 0;
            }
        }
    }

    /// Gathers the rows of a tile, run by run.
    #[inline(always)]
    fn gather(&mut self, tile: usize) {
        let pass = self.pass;
        let isa = pass.isa;
        let per_row = gather::lines_per_row(pass.from.cols());
        let Tile { gathered, rows, .. } = &mut *self.scratch;
        let mut first = 0;
        while first < rows.len() {
            let run = consecutive(&rows[first..]);
            let range = rows[first] as usize..rows[first] as usize + run;
            let terms = pass.terms.iter().enumerate();
            for ((at, term), out) in terms.zip(gathered.chunks_exact_mut(tile * per_row)) {
                let end = match pass.watch.is_some_and(|watch| watch.before.is_some()) {
                    true => term.adjacency.range(range.end - 1).end,
                    false => usize::MAX,
                };
                let end = end.min(term.adjacency.neighbours().len());
                let out = &mut out[first * per_row..];
                term.rows(isa, (pass.hubs, at), range.clone(), end, out);
            }
            if pass.plain.is_some() {
                let out = &mut gathered[(pass.terms.len() * tile + first) * per_row..];
                gather::copy(pass.from, range, out);
            }
            first += run;
        }
    }

    /// Columns of `PANELS` panels of the product for the rows of a tile.
    #[inline(always)]
    fn multiply<L: Lanes, const ROWS: usize, const PANELS: usize>(
        &mut self,
        rows: usize,
        panel: usize,
        tile: usize,
        fetch: &mut Fetch,
    ) {
        let pass = self.pass;
        let per_row = gather::lines_per_row(pass.from.cols());
        let panels = self.to.cols().div_ceil(LINE);
        let weights = pass.terms.iter().map(|term| term.weights).chain(pass.plain);
        let Tile { gathered, products, addresses, .. } = &mut *self.scratch;
        let mut first = 0;
        while first < rows {
            let mut sums = [[L::splat(0.0); PANELS]; ROWS];
            let at = first * per_row;
            for (weights, gathered) in weights.clone().zip(gathered.chunks_exact(tile * per_row)) {
                let gathered = &gathered[at..at + ROWS * per_row];
                let fetched = (fetch.share(addresses), fetch.lines);
                sums = product::<L, ROWS, PANELS>(gathered, per_row, weights, panel, fetched, sums);
            }
            store(sums, &mut products[first * panels + panel..], panels, ROWS);
            first += ROWS;
        }
    }

    /// Finishes and stores consecutive rows, some of the tile. Returns how many count as moved.
    #[inline(always)]
    fn finish_rows<L: Lanes>(&mut self, tile: Range<usize>, maxima: &mut Maxima<L>) -> u64 {
        let pass = self.pass;
        let cols = self.to.cols();
        let panels = cols.div_ceil(LINE);
        let Tile { products, inverse_v, rows, .. } = &mut *self.scratch;
        let first = rows[tile.start] as usize;
        let (rows, at) = (first..first + tile.len(), first - self.rows.start);
        let new = &mut products[tile.start * panels..tile.end * panels];
        pass.finish.lines::<L>(first * panels, new);
        clear_padding::<L>(new, cols);
        if self.to.stride() < LINE {
            // The result of a product; sweeps of narrow states are packed.
            for (at, new) in (at..).zip(new.iter()) {
                let to = self.to.padded_row_mut(at);
                to.copy_from_slice(&new.0[..to.len()]);
            }
            return 0;
        }
        let mut moved = 0;
        if let Some(norm) = pass.norm {
            let old = &pass.from.lines()[first * panels..][..new.len()];
            maxima.note_rows(&norm, rows, old, new, &inverse_v[..panels]);
            if let (Some(watch), Some(flags)) = (pass.watch, &mut self.flags) {
                let lines = old.chunks_exact(panels).zip(new.chunks_exact(panels));
                for (at, (old, new)) in (at..).zip(lines) {
                    let has_moved = watch.has_moved::<L>(old, new);
                    (flags.moved[at], flags.differs[at]) = (has_moved.into(), 1);
                    moved += u64::from(has_moved);
                }
            }
            if let Some(moves) = &mut self.moves {
                moves.note::<L>(at * panels, old, new, pass.is_large);
            }
        }
        put::<L>(new, &mut self.to.lines_mut()[at * panels..], pass.is_large);
        moved
    }
}

/// Stores lines.
#[inline(always)]
pub(super) fn put<L: Lanes>(new: &[Line], to: &mut [Line], is_large: bool) {
    for (new, out) in new.iter().zip(to) {
        let lanes = L::load(new);
        if is_large { lanes.stream(out) } else { lanes.store(out) }
    }
}

/// Scratch memory of a thread.
#[derive(Clone, Debug)]
pub(super) struct Tile {
    /// The gathered rows of every term.
    pub gathered: Vec<Line>,
    /// Their products with the weights.
    pub products: Vec<Line>,
    /// 1 / v of the norm.
    pub inverse_v: Vec<Line>,
    /// The weights of a narrow state, spread over lines; see `packed`.
    pub spread: Vec<Line>,
    /// Addresses of the rows that the next tile reads.
    addresses: Vec<usize>,
    /// The rows of the tile, and of the next one.
    rows: Vec<u32>,
    pub coming: Vec<u32>,
    /// Lanes of active rows, for each line of a tile of a narrow state; empty where all are.
    pub active: Vec<u16>,
}

impl Tile {
    /// For gathered rows of `lines` lines in all, and products of `panels` lines.
    pub fn new(lines: usize, panels: usize) -> Self {
        let zero = Line([0.0; LINE]);
        let rows = tile_rows(lines);
        Self {
            gathered: vec![zero; rows * lines],
            products: vec![zero; rows * panels],
            inverse_v: vec![zero; panels],
            spread: vec![zero; lines * WIDEST],
            addresses: Vec::with_capacity(FETCHED_LINES + 2 * LARGEST_TILE),
            rows: Vec::with_capacity(LARGEST_TILE),
            coming: Vec::with_capacity(LARGEST_TILE),
            active: Vec::with_capacity(LARGEST_TILE),
        }
    }

    pub fn bytes(&self) -> usize {
        let lines = [&self.gathered, &self.products, &self.inverse_v, &self.spread].map(Vec::len);
        let lines: usize = lines.iter().sum();
        lines * size_of::<Line>() + self.addresses.capacity() * size_of::<usize>()
    }

    /// # Panics
    /// If the memory was made for smaller products.
    pub fn check(&self, gathered: usize, products: usize, panels: usize) {
        let is_enough = self.gathered.len() >= gathered
            && self.products.len() >= products
            && self.inverse_v.len() >= panels;
        assert!(is_enough, "a scratch made for these widths");
    }

    /// Lists what the next tile will read: rows that its entries gather, then its rows of the input
    /// and of the old state.
    #[inline(always)]
    fn list<L: Lanes, F: Finish>(&mut self, pass: &Pass<'_, F>) {
        let Self { addresses, coming, .. } = self;
        addresses.clear();
        let lines = fetched_lines(pass.from);
        let largest = FETCHED_LINES / lines;
        for term in pass.terms.iter().filter(|term| term.ahead.is_none()) {
            let rows = Rows::of(term.from);
            for &row in coming.iter() {
                let (entries, shift) =
                    (term.adjacency.range(row as usize), term.adjacency.shift(row as usize));
                let room = largest - addresses.len().min(largest);
                for &neighbour in
                    &term.adjacency.neighbours()[entries.start..][..entries.len().min(room)]
                {
                    addresses.push(rows.address(neighbour.wrapping_sub(shift) as usize));
                    if let Some(scale) = term.adjacency.gather_scale() {
                        L::prefetch(scale.as_ptr().wrapping_add(neighbour as usize).cast());
                    }
                }
            }
        }
        let old = (pass.norm.is_some() || pass.plain.is_some()).then_some(pass.from);
        for state in [pass.finish.input(), old].into_iter().flatten() {
            let rows = Rows::of(state);
            addresses.extend(coming.iter().map(|&row| rows.address(row as usize)));
        }
    }
}

/// Lines of a row of a state: what is prefetched from each address.
#[inline(always)]
fn fetched_lines(state: MatrixRef<'_>) -> usize {
    state.stride().div_ceil(LINE).max(1)
}

/// Addresses of the rows of a matrix.
#[derive(Clone, Copy)]
struct Rows {
    start: usize,
    bytes: usize,
}

impl Rows {
    #[inline(always)]
    fn of(state: MatrixRef<'_>) -> Self {
        Self { start: state.padded().as_ptr().addr(), bytes: state.stride() * size_of::<f32>() }
    }

    #[inline(always)]
    fn address(self, row: usize) -> usize {
        self.start.wrapping_add(row * self.bytes)
    }
}

/// Distributes the rows of a list evenly over the steps of a tile; a step is the product of a group
/// of rows with some panels.
///
/// Line b of a step's rows is prefetched before block b of its product. The pages of the rows are
/// looked up together, and their lines arrive one after the other; in a burst they would wait for
/// each other, and the product for them.
struct Fetch {
    steps: usize,
    /// Rows that are due, in units of 1 / `steps`.
    due: usize,
    /// The next row of the list.
    next: usize,
    /// Lines from each address of the list on.
    lines: usize,
}

impl Fetch {
    /// The rows of the next step.
    #[inline(always)]
    fn share<'a>(&mut self, addresses: &'a [usize]) -> &'a [usize] {
        let first = self.next;
        self.due += addresses.len();
        while self.due >= self.steps {
            self.due -= self.steps;
            self.next += 1;
        }
        &addresses[first..self.next]
    }
}
