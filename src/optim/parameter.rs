//! A parameter: a named matrix with its gradient.
//! What the name means is for the model; how the value moves is for the optimiser.

use crate::dense::{Matrix, MatrixMut, MatrixRef};

/// A matrix that is learned.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Name in files: `layer0.W`.
    pub name: String,
    /// The value.
    pub value: Matrix,
    /// Gradient of the loss by the value, of the same shape.
    pub gradient: Matrix,
    /// Whether weight decay applies: to weights, not to biases.
    pub decays: bool,
    /// What multiplies the learning rate; a value with factor 0 is left alone.
    pub rate_factor: f64,
}

impl Parameter {
    /// A parameter with a gradient of zero.
    pub fn new(name: impl Into<String>, value: Matrix, decays: bool) -> Self {
        let gradient = Matrix::zeros(value.rows(), value.cols());
        Self { name: name.into(), value, gradient, decays, rate_factor: 1.0 }
    }

    /// A value that no step will move: without memory for a gradient.
    pub fn fixed(name: impl Into<String>, value: Matrix) -> Self {
        let gradient = Matrix::zeros(0, value.cols());
        Self { name: name.into(), value, gradient, decays: false, rate_factor: 1.0 }
    }
}

/// Values to read and gradients to write at the same time, as the backward of a layer takes them.
pub fn values_and_gradients(
    parameters: &mut [Parameter],
) -> (Vec<MatrixRef<'_>>, Vec<MatrixMut<'_>>) {
    parameters
        .iter_mut()
        .map(|parameter| (parameter.value.view(), parameter.gradient.view_mut()))
        .unzip()
}
