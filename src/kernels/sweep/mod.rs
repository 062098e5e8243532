//! The fused sweep and its adjoint: one pass over the state without an n x m temporary. Iterating
//! it to a fixed point is for `solver`.
//!
//! ```text
//! forward   X' = phi( sum_r (A_r^T X) W_r^T + B )      AdjacencyRef::incoming, PackedWeights::forward
//! adjoint   G' = D * ( sum_r (A_r G) W_r + R )         AdjacencyRef::outgoing, PackedWeights::adjoint
//! ```
//!
//! Rows are independent and each is computed in one fixed order: the result has the same bits on
//! any number of threads.

mod active;
pub mod balance;
mod finish;
mod hubs;
mod moves;
mod ordered;
mod packed;
mod pass;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ahead::Ahead;
use super::lockstep::WINDOW;
use super::simd::Isa;
use super::{
    Activation, Added, AdjacencyRef, Change, Derivative, Norm, PackedWeights, elementwise, gather,
    gradient,
};
use crate::dense::{LINE, Line, Matrix, MatrixMut, MatrixRef, stride};
use crate::parallel::{self, RowBlocks};
pub use active::{Activity, Threshold};
use active::{Flags, Watch};
use finish::{Activate, AddBias, Differentiate, Finish};
use hubs::Hubs;
pub use moves::Moves;
use ordered::{Constants, InPlace, Ordered};
pub use ordered::{InOrder, Settled, WIDE};
use pass::{Block, Gathered, Pass, Tile};

/// Results larger than this are stored past the caches: nothing of them would still be there in the
/// next sweep.
const LARGE: usize = 32 << 20;

/// One relation of a sweep: what is gathered, and what it is multiplied by.
#[derive(Clone, Copy, Debug)]
pub struct Term<'a> {
    /// The operator.
    pub adjacency: AdjacencyRef<'a>,
    /// The right factor.
    pub weights: &'a PackedWeights,
}

/// Every relation's operator with its weights.
pub fn terms<'a>(adjacency: &[AdjacencyRef<'a>], weights: &'a [PackedWeights]) -> Vec<Term<'a>> {
    let pairs = adjacency.iter().zip(weights);
    pairs.map(|(&adjacency, weights)| Term { adjacency, weights }).collect()
}

/// Scratch memory for all sweeps of a solve: one gathered tile per thread.
#[derive(Debug)]
pub struct SweepScratch {
    isa: Isa,
    /// One per thread. A lock is taken once per block, and contended only in a pool with more
    /// threads than there were at construction.
    tiles: Vec<Mutex<Tile>>,
    /// Allocated by the first sweep.
    tables: Mutex<Tables>,
}

/// What is computed before the rows of a sweep.
#[derive(Debug, Default)]
struct Tables {
    /// For each term, what it gathers from instead of the state: nothing else; the collected columns
    /// and the distinct rows if rows repeat; the rows of a narrow state times their factors.
    of_terms: Vec<Vec<Matrix>>,
    hubs: Hubs,
    /// Values of rows that were solved in order, before they are copied to their places.
    apart: Vec<Line>,
}

impl SweepScratch {
    /// Memory for sweeps over these relations, with the best instruction set.
    pub fn new(terms: &[Term<'_>]) -> Self {
        let widths: Vec<_> = terms.iter().map(|term| term.weights.inner()).collect();
        let width = terms.first().map_or(0, |term| term.weights.outer());
        Self::with_widths(&widths, width, Isa::chosen())
    }

    /// Memory for products of `width` columns whose parts are gathered from rows of these widths.
    pub fn with_widths(widths: &[usize], width: usize, isa: Isa) -> Self {
        let lines = widths.iter().map(|&width| gather::lines_per_row(width)).sum();
        let tile = Tile::new(lines, gather::lines_per_row(width));
        let tiles = (0..parallel::threads()).map(|_| Mutex::new(tile.clone())).collect();
        Self { isa, tiles, tables: Mutex::default() }
    }

    /// The calling thread's tile.
    fn tile(&self) -> MutexGuard<'_, Tile> {
        let tile = &self.tiles[parallel::thread_index() % self.tiles.len()];
        // A tile is written before it is read, so that a panic elsewhere does no harm.
        tile.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        let bytes =
            |tile: &Mutex<Tile>| tile.lock().unwrap_or_else(PoisonError::into_inner).bytes();
        self.tiles.iter().map(bytes).sum()
    }

    /// The instruction set that sweeps use.
    pub fn isa(&self) -> Isa {
        self.isa
    }
}

/// Blocks of rows for sweeps over these relations.
pub fn blocks(terms: &[Term<'_>]) -> RowBlocks {
    let rows = terms.first().map_or(0, |term| term.adjacency.rows());
    let offsets: Vec<_> = terms.iter().map(|term| term.adjacency.gathered_offsets()).collect();
    // Rows that share a line belong to one block.
    let width = terms.first().map_or(LINE, |term| term.weights.outer());
    let step = match terms.iter().any(|term| term.adjacency.goes_in_lockstep(width)) {
        true => WINDOW,
        false => (LINE / stride(width).max(1)).max(1),
    };
    RowBlocks::balanced_in(rows, &offsets, row_work(terms), step)
}

/// Work of a row besides its entries: multiplying a row of width m takes about as long as gathering
/// m / 8 neighbours.
fn row_work(terms: &[Term<'_>]) -> u64 {
    terms.iter().map(|term| term.weights.inner() as u64 / 8 + 1).sum()
}

/// Which of the two equations a sweep evaluates.
#[derive(Clone, Copy, Debug)]
pub enum Direction<'a> {
    /// X' = phi(sum + B)
    Forward(Activation),
    /// G' = D * (sum + R)
    Adjoint(Derivative<'a>),
}

impl Direction<'_> {
    /// "forward" or "adjoint".
    pub fn name(&self) -> &'static str {
        match self {
            Self::Forward(_) => "forward",
            Self::Adjoint(_) => "adjoint",
        }
    }
}

/// What a sweep records besides its result.
#[derive(Debug)]
pub enum Tracking<'a> {
    /// Nothing.
    Nothing,
    /// Which rows moved. Only active rows are computed; `to` must hold the state before `from`.
    Activity(&'a mut Activity),
    /// The move of every entry.
    Moves(Moves<'a>),
}

/// The constants of a solve: everything but the state.
#[derive(Clone, Copy, Debug)]
pub struct Sweep<'a> {
    /// Blocks of rows, made by [`blocks`].
    pub blocks: &'a RowBlocks,
    /// The relations, at least one.
    pub terms: &'a [Term<'a>],
    /// B of the forward sweep, R of the adjoint.
    pub input: Added<'a>,
    /// Scratch memory.
    pub scratch: &'a SweepScratch,
}

impl Sweep<'_> {
    /// X' from X.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn forward(
        &self,
        activation: Activation,
        norm: Norm<'_>,
        from: MatrixRef<'_>,
        to: MatrixMut<'_>,
    ) -> Change {
        self.step(Direction::Forward(activation), norm, Tracking::Nothing, from, to)
    }

    /// G' from G.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn adjoint(
        &self,
        derivative: Derivative<'_>,
        norm: Norm<'_>,
        from: MatrixRef<'_>,
        to: MatrixMut<'_>,
    ) -> Change {
        self.step(Direction::Adjoint(derivative), norm, Tracking::Nothing, from, to)
    }

    /// One sweep in either direction.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn step(
        &self,
        direction: Direction<'_>,
        norm: Norm<'_>,
        tracking: Tracking<'_>,
        from: MatrixRef<'_>,
        to: MatrixMut<'_>,
    ) -> Change {
        let input = self.input;
        match direction {
            Direction::Forward(activation) => {
                self.sweep_rows(Activate { input, activation }, norm, tracking, from, to)
            }
            Direction::Adjoint(derivative) => {
                if let Some(shape) = derivative.shape() {
                    assert_eq!(shape, (to.rows(), to.cols()), "a derivative of the state's shape");
                }
                self.sweep_rows(Differentiate { input, derivative }, norm, tracking, from, to)
            }
        }
    }

    /// Solves rows in an order in which no row gathers from a later one. A row that gathers from
    /// itself is iterated until it changes by at most a fraction `until.0` of itself, at most
    /// `until.1` times.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn settle(
        &self,
        direction: Direction<'_>,
        order: InOrder<'_>,
        until: (f32, usize),
        state: MatrixMut<'_>,
    ) -> Settled {
        let input = self.input;
        match direction {
            Direction::Forward(activation) => {
                self.settle_rows(&Activate { input, activation }, order, until, state)
            }
            Direction::Adjoint(derivative) => {
                if let Some(shape) = derivative.shape() {
                    let expected = (self.input.rows(), self.input.cols());
                    assert_eq!(shape, expected, "a derivative of the input's shape");
                }
                self.settle_rows(&Differentiate { input, derivative }, order, until, state)
            }
        }
    }

    fn settle_rows(
        &self,
        finish: &impl Finish,
        order: InOrder<'_>,
        (tolerance, repeats): (f32, usize),
        state: MatrixMut<'_>,
    ) -> Settled {
        let shape = (self.input.rows(), self.input.cols());
        assert_eq!(shape.1, state.cols(), "an input of the state's width");
        self.input.check();
        check(self.terms, None, self.blocks, (state.rows(), state.cols()), shape);
        if shape.1 == 0 {
            return Settled::NONE;
        }
        let (isa, constants) =
            (self.scratch.isa, Constants { terms: self.terms, finish, tolerance, repeats });
        let settle = |order: &[u32], first: usize, state: MatrixMut<'_>| {
            let (mut tile, place) = (self.scratch.tile(), InPlace(state, first));
            isa.dispatch(Ordered { constants, order, place, scratch: &mut tile })
        };
        match order {
            InOrder::All(order) => settle(order, 0, state),
            InOrder::Levels(rows, ends) => {
                let mut state = state;
                let mut tables = self.scratch.tables.lock().unwrap_or_else(PoisonError::into_inner);
                let (mut all, mut start) = (Settled::NONE, 0);
                for &end in ends {
                    let (level, state) = (&rows[start..end], state.reborrow());
                    start = end;
                    let settled = match level.len() < WIDE || parallel::threads() == 1 {
                        true => settle(level, 0, state),
                        false => {
                            ordered::level(constants, self.scratch, level, state, &mut tables.apart)
                        }
                    };
                    all = all.merge(settled);
                    if !all.is_finite {
                        break;
                    }
                }
                all
            }
            InOrder::Alone(order) => {
                let block = |_, rows: Range<usize>, state| {
                    let [start, end] = [rows.start, rows.end]
                        .map(|row| order.partition_point(|&at| (at as usize) < row));
                    settle(&order[start..end], rows.start, state)
                };
                let settled = self.blocks.map_reduce(
                    state.first(shape.0),
                    MatrixMut::split_at,
                    block,
                    Settled::merge,
                );
                settled.unwrap_or(Settled::NONE)
            }
        }
    }

    fn sweep_rows(
        &self,
        finish: impl Finish,
        norm: Norm<'_>,
        tracking: Tracking<'_>,
        from: MatrixRef<'_>,
        to: MatrixMut<'_>,
    ) -> Change {
        let shape = (to.rows(), to.cols());
        assert_eq!(from.cols(), shape.1, "states of one width");
        assert_eq!((self.input.rows(), self.input.cols()), shape, "an input of the state's shape");
        self.input.check();
        assert!(norm.u.is_none_or(|u| u.len() == to.rows()), "one weight per row");
        assert!(norm.v.is_none_or(|v| v.len() == to.cols()), "one weight per column");
        let is_large = size_of_val(from.padded()) > LARGE;
        let (isa, no_hubs) = (self.scratch.isa, Hubs::default());
        let pass = Pass {
            terms: &[],
            plain: None,
            from,
            finish,
            norm: Some(norm),
            is_large,
            watch: None,
            isa,
            hubs: &no_hubs,
        };
        let activity = match tracking {
            Tracking::Activity(activity) => activity,
            Tracking::Moves(moves) => {
                assert_eq!((moves.to.rows(), moves.to.cols()), shape, "moves of the state's shape");
                return compute_pass(
                    pass,
                    self.terms,
                    self.blocks,
                    self.scratch,
                    (to, None, Some(moves)),
                );
            }
            Tracking::Nothing => {
                return compute_pass(pass, self.terms, self.blocks, self.scratch, (to, None, None));
            }
        };
        // With repeated rows, rows gather from a table, for which there are no flags.
        activity.never_skips = self.terms.iter().any(|term| term.adjacency.factors().is_some());
        activity.takes_all |= activity.never_skips;
        let threshold = activity.threshold;
        let (before, flags) = activity.parts();
        assert_eq!(flags.moved.len(), from.rows(), "flags of the state's rows");
        // Those of ghosts are set when the ghosts are.
        let flags = flags.split_at(to.rows()).0;
        let pass = Pass { watch: Some(Watch { before, threshold }), ..pass };
        let change =
            compute_pass(pass, self.terms, self.blocks, self.scratch, (to, Some(flags), None));
        activity.turn();
        change
    }
}

/// The product sum_r (A_r^T U) P_r + U P + bias in one pass: the input maps, and any linear layer.
///
/// # Panics
/// If shapes do not match.
pub fn product(
    blocks: &RowBlocks,
    terms: &[Term<'_>],
    plain: Option<&PackedWeights>,
    bias: Option<&[f32]>,
    from: MatrixRef<'_>,
    to: MatrixMut<'_>,
    scratch: &SweepScratch,
) {
    assert!(bias.is_none_or(|bias| bias.len() == to.cols()), "one bias per column");
    // Rows of ghosts have no result.
    assert!(plain.is_none() || from.rows() >= to.rows(), "rows in, rows out");
    let is_large = to.rows() * to.stride() * size_of::<f32>() > LARGE;
    let finish = AddBias { bias };
    let (isa, hubs) = (scratch.isa, &Hubs::default());
    let pass =
        Pass { terms: &[], plain, from, finish, norm: None, is_large, watch: None, isa, hubs };
    compute_pass(pass, terms, blocks, scratch, (to, None, None));
}

/// Computes a pass with these terms. Each is gathered from `pass.from` or, if its rows repeat, from
/// the table of distinct rows.
fn compute_pass<F: Finish>(
    pass: Pass<'_, F>,
    terms: &[Term<'_>],
    blocks: &RowBlocks,
    scratch: &SweepScratch,
    part: Part<'_>,
) -> Change {
    check(
        terms,
        pass.plain,
        blocks,
        (pass.from.rows(), pass.from.cols()),
        (part.0.rows(), part.0.cols()),
    );
    let isa = scratch.isa;
    let mut tables = scratch.tables.lock().unwrap_or_else(PoisonError::into_inner);
    let Tables { of_terms, hubs, .. } = &mut *tables;
    of_terms.resize_with(terms.len(), Vec::new);
    let operators: Vec<_> = terms.iter().map(|term| term.adjacency).collect();
    let ahead = Ahead::of(pass.from, &operators);
    let copy = ahead.as_ref().filter(|ahead| ahead.takes_all()).map(Ahead::all);
    let rows = match ahead.filter(|ahead| !ahead.takes_all()) {
        Some(ahead) => ahead.rows_of_all(terms.len(), blocks.rows(), |from, to| {
            let (gathered, hubs) = prepare(terms, from, blocks, pass.watch, isa, (of_terms, hubs));
            for (at, to) in to.iter_mut().enumerate() {
                let block = |_, rows, mut to: MatrixMut<'_>| {
                    gather_active(pass.watch, &gathered, (isa, hubs, at), rows, to.lines_mut());
                };
                blocks.map_reduce(to.view_mut(), MatrixMut::split_at, block, |(), ()| ());
            }
        }),
        None => Vec::new(),
    };
    let from = copy.as_ref().map_or(pass.from, |copy| copy.view());
    let (gathered, hubs) = match rows.is_empty() {
        true => prepare(terms, from, blocks, pass.watch, isa, (of_terms, hubs)),
        false => {
            let gathered = terms.iter().zip(&rows).map(|(&Term { adjacency, weights }, rows)| {
                Gathered { adjacency, weights, from, ahead: Some(rows) }
            });
            (gathered.collect(), &*hubs)
        }
    };
    let pass = &Pass { terms: &gathered, hubs, ..pass };
    let change = blocks.map_reduce(
        part,
        split,
        |_, rows, (to, flags, moves)| {
            let mut tile = scratch.tile();
            scratch.isa.dispatch(Block { pass, rows, to, flags, moves, scratch: &mut tile })
        },
        Change::merge,
    );
    change.unwrap_or(Change::NONE)
}

/// What the terms of a pass gather from a matrix in memory, with what is gathered before the rows.
fn prepare<'a>(
    terms: &[Term<'a>],
    from: MatrixRef<'a>,
    blocks: &RowBlocks,
    watch: Option<Watch<'_>>,
    isa: Isa,
    (of_terms, hubs): (&'a mut [Vec<Matrix>], &'a mut Hubs),
) -> (Vec<Gathered<'a>>, &'a Hubs) {
    let gathered = terms.iter().zip(of_terms).map(|(term, tables)| {
        let (adjacency, from) = fill(term.adjacency, from, tables);
        Gathered { adjacency, weights: term.weights, from, ahead: None }
    });
    let gathered: Vec<_> = gathered.collect();
    hubs.fill(&gathered, blocks, watch, isa);
    (gathered, hubs)
}

/// Gathers the rows of one term, those that are active.
fn gather_active(
    watch: Option<Watch<'_>>,
    terms: &[Gathered<'_>],
    (isa, hubs, at): (Isa, &Hubs, usize),
    rows: Range<usize>,
    out: &mut [Line],
) {
    let end = terms[at].adjacency.neighbours().len();
    let Some(watch) = watch.filter(|watch| watch.before.is_some()) else {
        return terms[at].rows(isa, (hubs, at), rows, end, out);
    };
    let per_row = gather::lines_per_row(terms[at].from.cols());
    for (row, out) in rows.zip(out.chunks_exact_mut(per_row)) {
        if watch.is_active(terms, row) {
            terms[at].rows(isa, (hubs, at), row..row + 1, end, out);
        }
    }
}

/// Rows of the result, with their flags or their moves if these are recorded.
type Part<'a> = (MatrixMut<'a>, Option<Flags<'a>>, Option<Moves<'a>>);

fn split<'a>((to, flags, moves): Part<'a>, rows: usize) -> (Part<'a>, Part<'a>) {
    let (first, second) = to.split_at(rows);
    let (left, right) = flags.map(|flags| flags.split_at(rows)).unzip();
    let (above, below) = moves.map(|moves| moves.split_at(rows)).unzip();
    ((first, left, above), (second, right, below))
}

/// What a term gathers, and from where. Repeated rows are gathered once, into a table. The rows of a
/// narrow state are multiplied by their factors once, instead of for every entry.
fn fill<'a>(
    adjacency: AdjacencyRef<'a>,
    from: MatrixRef<'a>,
    tables: &'a mut Vec<Matrix>,
) -> (AdjacencyRef<'a>, MatrixRef<'a>) {
    if let Some(factors) = adjacency.factors() {
        let shapes = [factors.collect.0, factors.core.0].map(|a| (a.rows(), from.cols()));
        make(tables, &shapes);
        let [collected, rows] = &mut tables[..] else { unreachable!("two shapes") };
        gradient::fill_table(&factors, from, collected, rows);
        (factors.expand, rows.view())
    } else if let Some(scale) = adjacency.gather_scale()
        && from.cols() <= packed::WIDEST
    {
        make(tables, &[(from.rows(), from.cols())]);
        elementwise::scaled_rows(scale, adjacency.source(), from, tables[0].view_mut());
        (adjacency.without_gather_scale(), tables[0].view())
    } else {
        (adjacency, from)
    }
}

/// Number of copies of the state that sweeps keep, at most: one per relation of a narrow state, with
/// the factors of its rows.
pub fn scaled_copies(width: usize, relations: usize) -> u64 {
    if width <= packed::WIDEST { relations as u64 } else { 0 }
}

/// Matrices of these shapes; those of another direction or width are replaced.
fn make(tables: &mut Vec<Matrix>, shapes: &[(usize, usize)]) {
    if !tables.iter().map(|table| (table.rows(), table.cols())).eq(shapes.iter().copied()) {
        *tables = shapes.iter().map(|&(rows, cols)| Matrix::resident(rows, cols)).collect();
    }
}

/// Asserts that operators and weights fit a product of shape `to` from a matrix of shape `from`.
fn check(
    terms: &[Term<'_>],
    plain: Option<&PackedWeights>,
    blocks: &RowBlocks,
    from: (usize, usize),
    to: (usize, usize),
) {
    assert_eq!(blocks.rows(), to.0, "blocks of the result's rows");
    for term in terms {
        assert_eq!(term.adjacency.rows(), to.0, "an operator with the result's rows");
        assert_eq!(
            term.adjacency.columns(),
            from.0,
            "an operator with the state's rows as columns"
        );
    }
    for weights in terms.iter().map(|term| term.weights).chain(plain) {
        assert_eq!(
            (weights.inner(), weights.outer()),
            (from.1, to.1),
            "weights of the state's width"
        );
    }
}
