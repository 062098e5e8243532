//! The right factor P of a product S P, packed once for the micro-kernel and used for all rows. P
//! is W^T in the forward sweep and W in the adjoint.
//!
//! Layout: panels of 16 columns. A panel holds one line per row of P: the 16 floats of its columns.
//! Columns beyond the last are zero.

use std::ops::Range;

use rayon::prelude::*;

use crate::dense::{LINE, Line, MatrixRef};

/// Lines per task: enough to pay for starting it.
const LINES_PER_TASK: usize = 1 << 12;

/// P (`inner` x `outer`) in panels.
///
/// ```
/// use ignn::dense::Matrix;
/// use ignn::kernels::PackedWeights;
///
/// let w = Matrix::from_fn(2, 3, |k, l| (10 * k + l) as f32);
/// // P = W^T in the forward sweep, P = W in the adjoint.
/// let (forward, adjoint) = (PackedWeights::forward(w.view()), PackedWeights::adjoint(w.view()));
/// assert_eq!((forward.inner(), forward.outer(), forward.at(2, 1)), (3, 2, 12.0));
/// assert_eq!((adjoint.inner(), adjoint.outer(), adjoint.at(1, 2)), (2, 3, 12.0));
/// ```
#[derive(Clone, Debug)]
pub struct PackedWeights {
    lines: Vec<Line>,
    inner: usize,
    outer: usize,
}

impl PackedWeights {
    /// P = W^T for W of `outer` rows: (S W^T).
    pub fn forward(w: MatrixRef<'_>) -> Self {
        let mut packed = Self::zeros(w.cols(), w.rows());
        packed.repack_forward(w);
        packed
    }

    /// P = 0, to be filled by [`PackedWeights::set_row`].
    pub(crate) fn zeros(inner: usize, outer: usize) -> Self {
        Self { lines: vec![Line([0.0; LINE]); inner * outer.div_ceil(LINE)], inner, outer }
    }

    /// Sets a row of P, given as one line per panel.
    pub(crate) fn set_row(&mut self, inner: usize, row: &[Line]) {
        for (panel, line) in row.iter().enumerate() {
            self.lines[panel * self.inner + inner] = *line;
        }
    }

    /// P = W for W of `inner` rows: (S W).
    pub fn adjoint(w: MatrixRef<'_>) -> Self {
        let mut packed = Self::zeros(w.rows(), w.cols());
        packed.repack_adjoint(w);
        packed
    }

    /// Packs W^T again into the same memory: after a step of the optimiser.
    pub fn repack_forward(&mut self, w: MatrixRef<'_>) {
        assert_eq!((self.inner, self.outer), (w.cols(), w.rows()), "weights of the same shape");
        self.fill(|columns, lines| {
            for (lane, outer) in columns.enumerate() {
                lines.iter_mut().zip(w.row(outer)).for_each(|(line, &x)| line.0[lane] = x);
            }
        });
    }

    /// Packs W again into the same memory.
    pub fn repack_adjoint(&mut self, w: MatrixRef<'_>) {
        assert_eq!((self.inner, self.outer), (w.rows(), w.cols()), "weights of the same shape");
        self.fill(|columns, lines| {
            for (inner, line) in lines.iter_mut().enumerate() {
                line.0[..columns.len()].copy_from_slice(&w.row(inner)[columns.clone()]);
            }
        });
    }

    /// Fills every panel, given its columns of P.
    fn fill(&mut self, panel: impl Fn(Range<usize>, &mut [Line]) + Sync) {
        if self.inner == 0 {
            return;
        }
        let (inner, outer) = (self.inner, self.outer);
        let panels =
            self.lines.par_chunks_mut(inner).enumerate().with_min_len(LINES_PER_TASK / inner + 1);
        panels.for_each(|(at, lines)| panel(at * LINE..outer.min((at + 1) * LINE), lines));
    }

    /// Number of rows of P: the width of gathered rows.
    pub fn inner(&self) -> usize {
        self.inner
    }

    /// Number of columns of P: the width of the result.
    pub fn outer(&self) -> usize {
        self.outer
    }

    /// The lines of a panel, one for each row of P.
    pub(crate) fn panel(&self, panel: usize) -> &[Line] {
        &self.lines[panel * self.inner..][..self.inner]
    }

    /// An entry of P.
    pub fn at(&self, inner: usize, outer: usize) -> f32 {
        self.panel(outer / LINE)[inner].0[outer % LINE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Matrix;

    #[test]
    fn both_orientations() {
        let w = Matrix::from_fn(19, 5, |k, l| (k * 100 + l) as f32);
        let (mut forward, mut adjoint) =
            (PackedWeights::forward(w.view()), PackedWeights::adjoint(w.view()));
        for _ in 0..2 {
            for k in 0..19 {
                for l in 0..5 {
                    assert_eq!((forward.at(l, k), adjoint.at(k, l)), (w.row(k)[l], w.row(k)[l]));
                }
            }
            assert_eq!(forward.panel(1)[4].0[3..], [0.0; 13]);
            forward.repack_forward(w.view());
            adjoint.repack_adjoint(w.view());
        }
    }
}
