//! The right factor of a product S P, packed for the micro-kernel once and used for all rows.
//! P is W^T in the forward sweep and W in the adjoint.
//!
//! Layout: panels of 16 columns; a panel holds, for each row of P, the 16 floats of its columns as one line; columns
//! beyond the last are zero.

use crate::dense::{LINE, Line, MatrixRef};

/// P (`inner` x `outer`) in panels.
#[derive(Clone, Debug)]
pub struct PackedWeights {
    lines: Vec<Line>,
    inner: usize,
    outer: usize,
}

impl PackedWeights {
    /// P = W^T for W of `outer` rows: (S W^T).
    pub fn forward(w: MatrixRef<'_>) -> Self {
        Self::pack(w.cols(), w.rows(), |inner, outer| w.row(outer)[inner])
    }

    /// P = 0, to be filled by [`PackedWeights::set_row`].
    pub(crate) fn zeros(inner: usize, outer: usize) -> Self {
        Self::pack(inner, outer, |_, _| 0.0)
    }

    /// A row of P: a line a panel.
    pub(crate) fn set_row(&mut self, inner: usize, row: &[Line]) {
        for (panel, line) in row.iter().enumerate() {
            self.lines[panel * self.inner + inner] = *line;
        }
    }

    /// P = W for W of `inner` rows: (S W).
    pub fn adjoint(w: MatrixRef<'_>) -> Self {
        Self::pack(w.rows(), w.cols(), |inner, outer| w.row(inner)[outer])
    }

    /// Packs W^T again into the same memory: after a step of the optimiser.
    pub fn repack_forward(&mut self, w: MatrixRef<'_>) {
        assert_eq!((self.inner, self.outer), (w.cols(), w.rows()), "weights of the same shape");
        self.fill(|inner, outer| w.row(outer)[inner]);
    }

    /// Packs W again into the same memory.
    pub fn repack_adjoint(&mut self, w: MatrixRef<'_>) {
        assert_eq!((self.inner, self.outer), (w.rows(), w.cols()), "weights of the same shape");
        self.fill(|inner, outer| w.row(inner)[outer]);
    }

    fn pack(inner: usize, outer: usize, entry: impl Fn(usize, usize) -> f32) -> Self {
        let lines = vec![Line([0.0; LINE]); inner * outer.div_ceil(LINE)];
        let mut packed = Self { lines, inner, outer };
        packed.fill(entry);
        packed
    }

    fn fill(&mut self, entry: impl Fn(usize, usize) -> f32) {
        if self.inner == 0 {
            return;
        }
        for (panel, lines) in self.lines.chunks_exact_mut(self.inner).enumerate() {
            let columns = panel * LINE..self.outer.min((panel + 1) * LINE);
            for (inner, line) in lines.iter_mut().enumerate() {
                for (value, outer) in line.0.iter_mut().zip(columns.clone()) {
                    *value = entry(inner, outer);
                }
            }
        }
    }

    /// Rows of P: width of what is gathered.
    pub fn inner(&self) -> usize {
        self.inner
    }

    /// Columns of P: width of the result.
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
        let (mut forward, mut adjoint) = (PackedWeights::forward(w.view()), PackedWeights::adjoint(w.view()));
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
