//! A parameter before it has a value: name, shape, and how its initial value is drawn.
//! Values and gradients are matrices in `optim::Parameter`.
//!
//! ```
//! use ignn::nn::Slot;
//!
//! let weight = Slot::weight("layer0.W", 4, 3).initial(7, 0.5);
//! assert!((0..4).flat_map(|row| weight.row(row)).all(|x| x.abs() < 0.5));
//! // The same seed and name give the same values, whatever else a model has.
//! assert_eq!(weight.row(2), Slot::weight("layer0.W", 4, 3).initial(7, 0.5).row(2));
//! assert_eq!(Slot::bias("layer0.bias", 3).initial(7, 0.5).row(0), [0.0; 3]);
//! ```

use super::random;
use crate::dense::Matrix;

/// Name and shape of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Name in model files.
    pub name: String,
    /// Rows and columns.
    pub shape: (usize, usize),
    /// Whether it is a bias: one row, and no weight decay.
    pub is_bias: bool,
}

impl Slot {
    /// A matrix of weights.
    pub fn weight(name: impl Into<String>, rows: usize, columns: usize) -> Self {
        Self { name: name.into(), shape: (rows, columns), is_bias: false }
    }

    /// A bias: a single row.
    pub fn bias(name: impl Into<String>, columns: usize) -> Self {
        Self { name: name.into(), shape: (1, columns), is_bias: true }
    }

    /// Initial value: weights uniform between `-bound` and `bound`, drawn by seed and name; a bias
    /// is zero.
    pub fn initial(&self, seed: u64, bound: f64) -> Matrix {
        let (rows, columns) = self.shape;
        match self.is_bias {
            true => Matrix::zeros(rows, columns),
            false => random::uniform(seed, &self.name, rows, columns, bound),
        }
    }
}
