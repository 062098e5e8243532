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
use crate::solver::Certificate;
use crate::solver::certificate::{TINY, gamma};

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

    /// Bounds how far B is from that of the exact rows, in the norm |.|_uv of a certificate of the
    /// layer: through the absolute values of A and of the maps, with the roundings of the product in
    /// f32. No entry of x is larger than `size`, nor off by more than `error`.
    pub fn error_bound(
        &self,
        values: &[MatrixRef<'_>],
        [size, error]: [f64; 2],
        certificate: &Certificate,
    ) -> f64 {
        let (gathered, own) = (self.shape.gathered(), self.shape.own());
        let adjacency = &self.operators.incoming()[..gathered];
        let longest = adjacency.iter().map(AdjacencyRef::longest_sum).max().unwrap_or(0);
        let factors = |a: &AdjacencyRef<'_>| -> f64 {
            (0..a.rows()).map(|row| f64::from(a.row_factor(row)).abs()).fold(1.0, f64::max)
        };
        let largest = adjacency.iter().map(factors).fold(1.0, f64::max);
        let ranks = self.operators.rows().ranks();
        let [longest, largest] = [longest as f64, largest].map(|of| ranks.max(of));
        let maps = gathered + usize::from(own.is_some());
        let inner: usize = values[..maps].iter().map(|map| map.cols()).sum();
        // A term is rounded in the three factors of its entry, the sum of its row, the map, and the
        // sums of products and of maps.
        let roundings = longest + inner as f64 + 8.0;
        let through = error + gamma(roundings) * size;
        let moved = |rows: f64, map: MatrixRef<'_>| rows * certificate.mapped(map) * through;
        let mut sum: f64 = adjacency
            .iter()
            .zip(values)
            .map(|(a, &map)| moved(ranks.max(certificate.gathered(a)), map))
            .sum();
        // Underflow: each term by the smallest float, or by that times the other factor.
        let mut tiny = roundings * TINY * largest * (1.0 + size);
        let widest = |map: &MatrixRef<'_>| {
            let row = |k: usize| map.row(k).iter().map(|&x| f64::from(x).abs()).sum::<f64>();
            (0..map.rows()).map(row).fold(0.0, f64::max)
        };
        tiny *= 1.0 + values[..maps].iter().map(widest).sum::<f64>();
        if let Some(own) = own {
            sum += moved(ranks.max(certificate.of_rows()), values[own]);
        }
        if self.shape.has_bias {
            let bias = values[values.len() - 1].row(0).iter().fold(0.0, |b: f32, x| b.max(x.abs()));
            tiny += gamma(roundings) * f64::from(bias);
        }
        (sum + tiny * certificate.of_ones()) * (1.0 + 1e-12)
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
