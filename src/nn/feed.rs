//! The input map of a layer above the first. Its rows x come from the layer below and change in
//! every pass, so they are gathered and multiplied in one go. For the first layer, whose features
//! do not change, see [`input`](super::input).
//!
//! ```text
//! B          = sum_r (A_r^T x) Omega_r^T + x Omega2^T + bias
//! dL/dOmega_r = G^T (A_r^T x)     dL/dOmega2 = G^T x     dL/dx = sum_r (A_r G) Omega_r + G Omega2
//! ```

use super::input_shape::InputShape;
use super::operators::Operators;
use crate::dense::{MatrixMut, MatrixRef};
use crate::kernels::sweep::{self, SweepScratch};
use crate::kernels::{AdjacencyRef, PackedWeights, gradient};
use crate::parallel::RowBlocks;

/// The map on a graph.
pub struct Feed {
    operators: Operators,
    shape: InputShape,
}

impl Feed {
    /// A map on a graph.
    pub fn new(operators: &Operators, shape: InputShape) -> Self {
        Self { operators: operators.clone(), shape }
    }

    /// Computes B. `values` are the parameters in the order of the slots.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn forward(&self, values: &[MatrixRef<'_>], x: MatrixRef<'_>, b: MatrixMut<'_>) {
        let bias = self.shape.has_bias.then(|| values[values.len() - 1].row(0));
        self.multiply(&self.operators.incoming(), values, PackedWeights::forward, bias, x, b);
    }

    /// Computes the gradients of the parameters, in the order of the slots, and of x, from
    /// G = dL/dB. Old gradients are overwritten.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn backward(
        &self,
        values: &[MatrixRef<'_>],
        x: MatrixRef<'_>,
        g: MatrixRef<'_>,
        gradients: &mut [MatrixMut<'_>],
        by_x: MatrixMut<'_>,
    ) {
        let (gathered, rows) = (self.shape.gathered(), self.operators.rows());
        for (&adjacency, gradient) in
            self.operators.incoming().iter().zip(&mut gradients[..gathered])
        {
            let sum = gradient::weight_over(rows, adjacency, g.first(rows.len()), x);
            gradient.padded_mut().copy_from_slice(sum.view().padded());
        }
        if let Some(own) = self.shape.own() {
            let sum = gradient::input_over(rows, g.first(rows.len()), x.first(rows.len()));
            gradients[own].padded_mut().copy_from_slice(sum.view().padded());
        }
        if self.shape.has_bias {
            let last = gradients.len() - 1;
            let sum = gradient::bias_over(rows, g.first(rows.len()));
            gradients[last].row_mut(0).copy_from_slice(&sum);
        }
        self.multiply(&self.operators.outgoing(), values, PackedWeights::adjoint, None, g, by_x);
    }

    /// Adds up the rows gathered by every relation and the rows themselves, each multiplied by its
    /// map. Both directions use it.
    fn multiply(
        &self,
        adjacency: &[AdjacencyRef<'_>],
        values: &[MatrixRef<'_>],
        pack: impl Fn(MatrixRef<'_>) -> PackedWeights,
        bias: Option<&[f32]>,
        from: MatrixRef<'_>,
        to: MatrixMut<'_>,
    ) {
        let gathered = self.shape.gathered();
        let packed: Vec<_> = values[..gathered].iter().map(|value| pack(*value)).collect();
        let own = self.shape.own().map(|own| pack(values[own]));
        let terms = sweep::terms(&adjacency[..gathered], &packed);
        let blocks = match &own {
            Some(own) if terms.is_empty() => {
                RowBlocks::balanced(to.rows(), &[], own.inner() as u64 / 8 + 1)
            }
            _ => sweep::blocks(&terms),
        };
        let widths = vec![from.cols(); gathered + usize::from(own.is_some())];
        let scratch = SweepScratch::with_widths(&widths, to.cols(), crate::kernels::Isa::chosen());
        sweep::product(&blocks, &terms, own.as_ref(), bias, from, to, &scratch);
    }
}
