//! Inverted dropout, in place: entries become zero with probability `rate`, the others are scaled
//! by 1 / (1 - rate). No mask is stored: seed, epoch, node and column determine which entries are
//! dropped, so the backward pass draws the same ones again.
//!
//! Forward and backward are the same function, applied to the state or to its gradient. Masks are
//! drawn by node, not by row of the matrix, so the mask of a node does not depend on which other
//! nodes are read out, nor on the number of threads.
//!
//! ```
//! use ignn::dense::Matrix;
//! use ignn::nn::Dropout;
//!
//! let dropout = Dropout::new(0.5, 7)?;
//! let [mut once, mut again] = [0, 1].map(|_| Matrix::from_fn(2, 8, |_, _| 1.0));
//! dropout.apply(3, &[10, 20], once.view_mut());
//! dropout.apply(3, &[10, 20], again.view_mut());
//! // The mask depends on seed, epoch, node and column only.
//! assert_eq!(once.row(1), again.row(1));
//! assert!(once.row(0).iter().all(|&x| x == 0.0 || x == 2.0));
//! # Ok::<(), ignn::nn::dropout::DropoutError>(())
//! ```

use rayon::prelude::*;

use super::random::{Row, Stream};
use crate::dense::MatrixMut;

/// Rows per piece of work.
const ROWS: usize = 64;

/// Dropout, with its rate and its stream of random numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dropout {
    rate: f64,
    stream: Stream,
}

/// A rate that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("dropout: rate out of range (found {found}, expected 0 or more and less than 1)")]
pub struct DropoutError {
    /// The rate.
    pub found: f64,
}

impl Dropout {
    /// Dropout that drops nothing.
    pub fn none() -> Self {
        Self { rate: 0.0, stream: Stream::new(0, "dropout") }
    }

    /// Dropout with probability `rate`.
    pub fn new(rate: f64, seed: u64) -> Result<Self, DropoutError> {
        match rate {
            0.0..1.0 => Ok(Self { rate, stream: Stream::new(seed, "dropout") }),
            _ => Err(DropoutError { found: rate }),
        }
    }

    /// Dropout at another place in a model, whose masks are drawn from a stream of this name.
    pub fn named(rate: f64, seed: u64, name: &str) -> Result<Self, DropoutError> {
        Self::new(rate, seed).map(|dropout| Self { stream: Stream::new(seed, name), ..dropout })
    }

    /// The factors by which entries are multiplied in an epoch.
    pub fn mask(&self, epoch: u64) -> Mask {
        Mask {
            stream: self.stream.narrowed(epoch),
            scale: (1.0 / (1.0 - self.rate)) as f32,
            // Compared with the upper half of the bits: exact to 2^-32.
            threshold: (self.rate * 2f64.powi(32)).round() as u64,
        }
    }

    /// Drops entries of a compact state in an epoch or, applied to a gradient, the same entries of
    /// that. Row r belongs to node `nodes[r]`.
    ///
    /// # Panics
    /// If there is not one node per row.
    pub fn apply(&self, epoch: u64, nodes: &[u32], x: MatrixMut<'_>) {
        assert_eq!(nodes.len(), x.rows(), "one node per row");
        if self.rate == 0.0 {
            return;
        }
        self.mask(epoch).apply(nodes, x);
    }
}

/// The factors of an epoch.
#[derive(Clone, Copy, Debug)]
pub struct Mask {
    stream: Stream,
    scale: f32,
    threshold: u64,
}

impl Mask {
    /// The factor of an entry: 0, or 1 / (1 - rate).
    #[inline]
    pub fn at(&self, row: u64, column: usize) -> f32 {
        self.factor(self.stream.row(row), column)
    }

    /// Multiplies every entry by its factor. Row r belongs to node `nodes[r]`.
    ///
    /// # Panics
    /// If there is not one node per row.
    pub fn apply(&self, nodes: &[u32], mut x: MatrixMut<'_>) {
        assert_eq!(nodes.len(), x.rows(), "one node per row");
        let (stride, cols) = (x.stride(), x.cols());
        let parts = x.padded_mut().par_chunks_mut(ROWS * stride).zip(nodes.par_chunks(ROWS));
        parts.for_each(|(part, nodes)| {
            for (row, &node) in part.chunks_exact_mut(stride).zip(nodes) {
                let numbers = self.stream.row(u64::from(node));
                for (column, x) in row[..cols].iter_mut().enumerate() {
                    *x *= self.factor(numbers, column);
                }
            }
        });
    }

    #[inline(always)]
    fn factor(&self, numbers: Row, column: usize) -> f32 {
        if numbers.bits(column) >> 32 < self.threshold { 0.0 } else { self.scale }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Matrix;
    use crate::parallel::with_threads;

    #[test]
    fn masks_have_the_rate_and_follow_node_and_epoch() {
        for rate in [0.0, 0.3, 0.5, 0.9] {
            let dropout = Dropout::new(rate, 5).unwrap();
            let nodes: Vec<u32> = (0..2000).map(|r| 7 * r).collect();
            let draw = |threads, epoch| {
                with_threads(threads, || {
                    let mut x = Matrix::from_fn(2000, 40, |_, _| 1.0);
                    dropout.apply(epoch, &nodes, x.view_mut());
                    x
                })
            };
            let x = draw(1, 3);
            let rows = || (0..2000).flat_map(|r| x.row(r));
            let scale = (1.0 / (1.0 - rate)) as f32;
            assert!(rows().all(|&x| x == 0.0 || x == scale));
            let dropped = rows().filter(|&&x| x == 0.0).count() as f64 / 80_000.0;
            assert!((dropped - rate).abs() < 4.5 * (rate * (1.0 - rate) / 80_000.0).sqrt() + 1e-12);
            assert_eq!(x.view().padded(), draw(4, 3).view().padded());
            assert!(rate == 0.0 || x.view().padded() != draw(1, 4).view().padded());
            let mut one = Matrix::from_fn(1, 40, |_, _| 1.0);
            dropout.apply(3, &nodes[1234..1235], one.view_mut());
            assert_eq!(one.row(0), x.row(1234), "a node's mask is its own");
        }
    }

    #[test]
    fn rates_out_of_range_are_refused() {
        for (rate, shown) in [(1.0, "1"), (-0.5, "-0.5"), (f64::NAN, "NaN")] {
            let error = Dropout::new(rate, 0).unwrap_err().to_string();
            let range = "expected 0 or more and less than 1";
            assert_eq!(error, format!("dropout: rate out of range (found {shown}, {range})"));
        }
    }
}
