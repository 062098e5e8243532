//! The linear map x V^T + v and its backward pass, for readouts, skip connections and input maps.
//! What the rows are, and which parameter V is, is up to the caller.

use crate::dense::{MatrixMut, MatrixRef};
use crate::kernels::sweep::{self, SweepScratch};
use crate::kernels::{Isa, PackedWeights};
use crate::parallel::RowBlocks;

/// to = x V^T + bias
pub fn forward(v: MatrixRef<'_>, bias: Option<&[f32]>, x: MatrixRef<'_>, to: MatrixMut<'_>) {
    multiply(&PackedWeights::forward(v), bias, x, to);
}

/// to = g V: the gradient with respect to x, from the gradient g of the result.
pub fn backward(v: MatrixRef<'_>, g: MatrixRef<'_>, to: MatrixMut<'_>) {
    multiply(&PackedWeights::adjoint(v), None, g, to);
}

fn multiply(packed: &PackedWeights, bias: Option<&[f32]>, from: MatrixRef<'_>, to: MatrixMut<'_>) {
    let blocks = RowBlocks::balanced(from.rows(), &[], packed.inner() as u64 / 8 + 1);
    let scratch = SweepScratch::with_widths(&[packed.inner()], packed.outer(), Isa::chosen());
    sweep::product(&blocks, &[], Some(packed), bias, from, to, &scratch);
}
