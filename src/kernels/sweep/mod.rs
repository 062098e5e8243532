//! The fused sweep and its adjoint: one pass over the state, no n x m temporary.
//! A single sweep; iterating it to a fixed point is for `solver`.
//!
//!     forward   X' = phi( sum_r (A_r^T X) W_r^T + B )      A_r^T: `AdjacencyRef::incoming`, weights: `PackedWeights::forward`
//!     adjoint   G' = D * ( sum_r (A_r G) W_r + R )         A_r:   `AdjacencyRef::outgoing`, weights: `PackedWeights::adjoint`
//!
//! Rows are independent and each is computed in one fixed order: the result has the same bits on any number of threads.

use super::{Activation, AdjacencyRef, Change, Derivative, Norm, PackedWeights};
use crate::dense::{MatrixMut, MatrixRef};
use crate::parallel::RowBlocks;

/// One relation of a sweep: what is gathered, and what it is multiplied by.
#[derive(Clone, Copy, Debug)]
pub struct Term<'a> {
    /// The operator.
    pub adjacency: AdjacencyRef<'a>,
    /// The right factor.
    pub weights: &'a PackedWeights,
}

/// Memory of a sweep, made once and used by all sweeps of a solve.
#[derive(Debug, Default)]
pub struct SweepScratch {}

impl SweepScratch {
    /// Memory for sweeps over these relations.
    pub fn new(_terms: &[Term<'_>]) -> Self {
        Self {}
    }

    /// Bytes taken.
    pub fn bytes(&self) -> usize {
        0
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
        self.run(norm, from, to, |_, _, z| activation.value(z))
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
        self.run(norm, from, to, |i, k, z| derivative.at(i, k) * z)
    }

    fn run(
        &self,
        norm: Norm<'_>,
        from: MatrixRef<'_>,
        to: MatrixMut<'_>,
        finish: impl Fn(usize, usize, f32) -> f32 + Sync,
    ) -> Change {
        let change = self.blocks.run(
            to,
            MatrixMut::split_at,
            |_, rows, mut to| {
                let mut change = Change::NONE;
                for (at, i) in rows.enumerate() {
                    let mut z = self.input.row(i).to_vec();
                    for term in self.terms {
                        for (j, value) in term.adjacency.entries(i) {
                            for (l, x) in from.row(j).iter().enumerate() {
                                for (k, z) in z.iter_mut().enumerate() {
                                    *z += value * x * term.weights.at(l, k);
                                }
                            }
                        }
                    }
                    for (k, (z, to)) in z.iter().zip(to.row_mut(at)).enumerate() {
                        let (old, new) = (from.row(i)[k], finish(i, k, *z));
                        let delta = (new - old).abs();
                        let weight = norm.u.map_or(1.0, |u| u[i]) * norm.v.map_or(1.0, |v| v[k]);
                        let finite = new.is_finite() && delta.is_finite();
                        let entry =
                            Change { weighted: delta / weight, largest: delta, state: new.abs(), finite };
                        change = change.merge(entry);
                        *to = new;
                    }
                }
                change
            },
            Change::merge,
        );
        change.unwrap_or(Change::NONE)
    }
}

#[cfg(test)]
mod tests;
