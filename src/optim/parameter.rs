//! A parameter: a named matrix with its gradient.
//! Models give names their meaning; optimisers change the values.

use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::parallel::Rows;

/// A learned matrix.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Name in files: `layer0.W`.
    pub name: String,
    /// The value.
    pub value: Matrix,
    /// Gradient of the loss with respect to the value, of the same shape; empty where there is none, and
    /// where its memory is lent for a step.
    pub gradient: Matrix,
    /// Whether weight decay applies: to weights, not to biases.
    pub decays: bool,
    /// Multiplies the learning rate; 0 for a value that no step changes.
    pub rate_factor: f64,
    /// For a table with a row for each node: who owns which rows. A rank has its own alone.
    pub rows: Option<Rows>,
}

impl Parameter {
    /// A parameter with a gradient of zero.
    pub fn new(name: impl Into<String>, value: Matrix, decays: bool) -> Self {
        let gradient = Matrix::zeros(value.rows(), value.cols());
        Self { name: name.into(), value, gradient, decays, rate_factor: 1.0, rows: None }
    }

    /// A weight without memory for its gradient, which whoever computes it provides.
    pub fn without_gradient(name: impl Into<String>, value: Matrix) -> Self {
        let gradient = Matrix::zeros(0, value.cols());
        Self { name: name.into(), value, gradient, decays: true, rate_factor: 1.0, rows: None }
    }

    /// A value that no step changes, without memory for a gradient.
    pub fn fixed(name: impl Into<String>, value: Matrix) -> Self {
        let gradient = Matrix::zeros(0, value.cols());
        Self { name: name.into(), value, gradient, decays: false, rate_factor: 0.0, rows: None }
    }

    /// Fixes the value from now on, and frees the memory of its gradient.
    pub fn fix(&mut self) {
        self.gradient = Matrix::zeros(0, self.value.cols());
        self.rate_factor = 0.0;
    }

    /// Whether no step changes the value.
    pub fn is_fixed(&self) -> bool {
        self.rate_factor == 0.0
    }
}

/// Values to read and gradients to write at the same time, as the backward pass of a layer needs
/// them.
pub fn values_and_gradients(
    parameters: &mut [Parameter],
) -> (Vec<MatrixRef<'_>>, Vec<MatrixMut<'_>>) {
    parameters
        .iter_mut()
        .map(|parameter| (parameter.value.view(), parameter.gradient.view_mut()))
        .unzip()
}
