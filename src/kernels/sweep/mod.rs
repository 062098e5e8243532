//! The fused sweep and its adjoint: one pass over the state, no n x m temporary.
//! A single sweep; iterating it to a fixed point is for `solver`.
//!
//!     forward   X' = phi( sum_r (A_r^T X) W_r^T + B )      A_r^T: `AdjacencyRef::incoming`, weights: `PackedWeights::forward`
//!     adjoint   G' = D * ( sum_r (A_r G) W_r + R )         A_r:   `AdjacencyRef::outgoing`, weights: `PackedWeights::adjoint`
//!
//! Rows are independent and each is computed in one fixed order: the result has the same bits on any number of threads.

mod finish;
mod pass;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, PoisonError};

use super::simd::Isa;
use super::{Activation, AdjacencyRef, Change, Derivative, Norm, PackedWeights, gather};
use crate::dense::{MatrixMut, MatrixRef};
use crate::parallel::{self, RowBlocks};
use finish::{Activate, AddBias, Differentiate, Finish};
use pass::{Block, Pass, Tile};

/// Results larger than this are stored past the caches: nothing of them would be left there for the next sweep.
const LARGE: usize = 32 << 20;

/// One relation of a sweep: what is gathered, and what it is multiplied by.
#[derive(Clone, Copy, Debug)]
pub struct Term<'a> {
    /// The operator.
    pub adjacency: AdjacencyRef<'a>,
    /// The right factor.
    pub weights: &'a PackedWeights,
}

/// Memory of a sweep, made once and used by all sweeps of a solve: a gathered tile for each thread.
#[derive(Debug)]
pub struct SweepScratch {
    isa: Isa,
    /// One a thread; a lock is taken once a block and never contended but in pools larger than the one at hand.
    tiles: Vec<Mutex<Tile>>,
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
        Self { isa, tiles: (0..parallel::threads()).map(|_| Mutex::new(tile.clone())).collect() }
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        let bytes = |tile: &Mutex<Tile>| tile.lock().unwrap_or_else(PoisonError::into_inner).bytes();
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
    let offsets: Vec<_> = terms.iter().map(|term| term.adjacency.offsets()).collect();
    // Multiplying a row takes about as long as gathering an eighth of its width in neighbours.
    let row_work = terms.iter().map(|term| term.weights.inner() as u64 / 8 + 1).sum();
    RowBlocks::balanced(rows, &offsets, row_work)
}

/// What stays the same from sweep to sweep.
#[derive(Clone, Copy, Debug)]
pub struct Sweep<'a> {
    /// Rows by block; [`blocks`] makes them.
    pub blocks: &'a RowBlocks,
    /// The relations, at least one.
    pub terms: &'a [Term<'a>],
    /// B of the forward sweep, R of the adjoint.
    pub input: MatrixRef<'a>,
    /// Memory.
    pub scratch: &'a SweepScratch,
}

impl Sweep<'_> {
    /// X' from X.
    ///
    /// # Panics
    /// Where shapes do not fit.
    pub fn forward(
        &self,
        activation: Activation,
        norm: Norm<'_>,
        from: MatrixRef<'_>,
        to: MatrixMut<'_>,
    ) -> Change {
        self.run(Activate { input: self.input, activation }, norm, from, to)
    }

    /// G' from G.
    ///
    /// # Panics
    /// Where shapes do not fit.
    pub fn adjoint(
        &self,
        derivative: Derivative<'_>,
        norm: Norm<'_>,
        from: MatrixRef<'_>,
        to: MatrixMut<'_>,
    ) -> Change {
        if let Some(shape) = derivative.shape() {
            assert_eq!(shape, (to.rows(), to.cols()), "a derivative of the state's shape");
        }
        self.run(Differentiate { input: self.input, derivative }, norm, from, to)
    }

    fn run(&self, finish: impl Finish, norm: Norm<'_>, from: MatrixRef<'_>, to: MatrixMut<'_>) -> Change {
        let shape = (to.rows(), to.cols());
        assert_eq!((from.rows(), from.cols()), shape, "states of one shape");
        assert_eq!((self.input.rows(), self.input.cols()), shape, "an input of the state's shape");
        assert!(norm.u.is_none_or(|u| u.len() == to.rows()), "a weight a row");
        assert!(norm.v.is_none_or(|v| v.len() == to.cols()), "a weight a column");
        let is_large = size_of_val(from.padded()) > LARGE;
        let pass = Pass { terms: self.terms, plain: None, from, finish, norm: Some(norm), is_large };
        run(&pass, self.blocks, self.scratch, to)
    }
}

/// A product of rows: sum_r (A_r^T U) P_r + U P + bias, in one pass; the input maps, and any linear layer.
///
/// # Panics
/// Where shapes do not fit.
pub fn product(
    blocks: &RowBlocks,
    terms: &[Term<'_>],
    plain: Option<&PackedWeights>,
    bias: Option<&[f32]>,
    from: MatrixRef<'_>,
    to: MatrixMut<'_>,
    scratch: &SweepScratch,
) {
    assert!(bias.is_none_or(|bias| bias.len() == to.cols()), "a bias a column");
    assert!(plain.is_none() || from.rows() == to.rows(), "rows in, rows out");
    let is_large = to.rows() * to.stride() * size_of::<f32>() > LARGE;
    let pass = Pass { terms, plain, from, finish: AddBias { bias }, norm: None, is_large };
    run(&pass, blocks, scratch, to);
}

fn run<F: Finish>(
    pass: &Pass<'_, F>,
    blocks: &RowBlocks,
    scratch: &SweepScratch,
    to: MatrixMut<'_>,
) -> Change {
    assert_eq!(blocks.rows(), to.rows(), "blocks of the result's rows");
    for term in pass.terms {
        assert_eq!(term.adjacency.rows(), to.rows(), "an operator with the result's rows");
        assert_eq!(
            term.adjacency.columns(),
            pass.from.rows(),
            "an operator with the state's rows as columns"
        );
    }
    for weights in pass.terms.iter().map(|term| term.weights).chain(pass.plain) {
        let shape = (pass.from.cols(), to.cols());
        assert_eq!((weights.inner(), weights.outer()), shape, "weights of the state's width");
    }
    let change = blocks.run(
        to,
        MatrixMut::split_at,
        |_, rows, to| {
            let tile = &scratch.tiles[parallel::thread_index() % scratch.tiles.len()];
            // A tile is written before it is read: what a panic left in it does no harm.
            let mut tile = tile.lock().unwrap_or_else(PoisonError::into_inner);
            scratch.isa.run(Block { pass, rows, to, scratch: &mut tile })
        },
        Change::merge,
    );
    change.unwrap_or(Change::NONE)
}
