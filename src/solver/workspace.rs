//! The memory of a solve beyond its result, allocated once: states to write to, and the certificate's best.
//! It holds buffers; what is in them between solves means nothing.

use crate::dense::{Matrix, stride};

/// Buffers of the state's shape.
#[derive(Debug)]
pub struct Workspace {
    pub(super) next: Matrix,
    /// Takes the best state of a solve that is not certified: where sweeps contract, the last one is the best.
    pub(super) best: Option<Matrix>,
}

impl Workspace {
    /// For states of `rows` x `cols`. A solve without certificate needs `keep_best`: see [`super::fixed_point`].
    pub fn new(rows: usize, cols: usize, keep_best: bool) -> Self {
        let best = keep_best.then(|| Matrix::zeros(rows, cols));
        Self { next: Matrix::zeros(rows, cols), best }
    }

    /// Bytes that [`Workspace::new`] takes; the state itself comes on top.
    pub fn bytes(rows: usize, cols: usize, keep_best: bool) -> u64 {
        let state = (rows as u64).saturating_mul(stride(cols) as u64).saturating_mul(size_of::<f32>() as u64);
        state.saturating_mul(1 + u64::from(keep_best))
    }

    /// A matrix of the state's shape that is free between solves.
    pub fn spare(&mut self) -> &mut Matrix {
        &mut self.next
    }

    /// Whether solves without certificate can use it.
    pub fn keeps_best(&self) -> bool {
        self.best.is_some()
    }

    /// Number of rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.next.rows(), self.next.cols())
    }
}
