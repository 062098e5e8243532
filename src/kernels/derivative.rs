//! The derivative D of the activation at an equilibrium, as the adjoint sweep reads it. It follows
//! from the state X = phi(Z); Z itself is never kept.
//!
//! | activation | kept | bytes read per entry |
//! | --- | --- | --- |
//! | identity | nothing | 0 |
//! | relu, leaky relu | one bit per entry ([`Signs`]) | 1/8 |
//! | others | nothing: recomputed from X, which is in memory anyway | 4 |

use half::f16;
use rayon::prelude::*;

use super::Activation;
use crate::dense::{LINE, Matrix, MatrixRef, stride};

/// Lines whose signs one task records, at least.
const LINES_PER_TASK: usize = 4096;

/// Which entries of a state are positive: 16 bits for each line of the state, lowest bit first.
///
/// ```
/// use ignn::dense::Matrix;
/// use ignn::kernels::{Derivative, Signs};
///
/// let x = Matrix::from_fn(1, 3, |_, k| [0.5, 0.0, 2.0][k]);
/// let mut signs = Signs::new(1, 3);
/// signs.record(x.view());
/// // The derivative of relu at x.
/// let d = Derivative::Signs { signs: &signs, slope: 0.0 };
/// assert_eq!([d.at(0, 0), d.at(0, 1), d.at(0, 2)], [1.0, 0.0, 1.0]);
/// ```
#[derive(Clone, Debug)]
pub struct Signs {
    /// The words, as 16-bit entries of a matrix, which may lie on a disk.
    bits: Matrix<f16>,
    rows: usize,
    cols: usize,
}

impl Signs {
    /// Signs of a state without positive entries.
    pub fn new(rows: usize, cols: usize) -> Self {
        Self { bits: Matrix::blank((rows * stride(cols)).div_ceil(LINE), 1), rows, cols }
    }

    /// Bytes of the signs of a state of this shape.
    pub fn bytes(rows: u64, cols: usize) -> u64 {
        rows.saturating_mul(stride(cols) as u64).div_ceil(LINE as u64).saturating_mul(2)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// One word for each line of the state.
    pub fn words(&self) -> &[u16] {
        &bytemuck::cast_slice(self.bits.all_lines())[..self.bits.rows()]
    }

    /// Whether an entry is positive.
    pub fn get(&self, row: usize, col: usize) -> bool {
        let at = row * stride(self.cols) + col;
        self.words()[at / LINE] >> (at % LINE) & 1 == 1
    }

    /// Records the signs of a state of the same shape.
    pub fn record(&mut self, state: MatrixRef<'_>) {
        assert_eq!(
            (state.rows(), state.cols()),
            (self.rows, self.cols),
            "signs of a state of the same shape"
        );
        let count = self.bits.rows();
        let words: &mut [u16] = bytemuck::cast_slice_mut(self.bits.all_lines_mut());
        let words = words[..count].par_iter_mut().with_min_len(LINES_PER_TASK);
        words.zip(state.lines()).for_each(|(word, line)| {
            let bit = |(at, &x): (usize, &f32)| u16::from(x > 0.0) << at;
            *word = line.0.iter().enumerate().map(bit).fold(0, |word, bit| word | bit);
        });
    }
}

/// D, in one of its forms.
#[derive(Clone, Copy, Debug)]
pub enum Derivative<'a> {
    /// 1 everywhere: the identity.
    One,
    /// 1 where positive, `slope` elsewhere.
    Signs {
        /// Which entries are positive.
        signs: &'a Signs,
        /// The derivative of the others.
        slope: f32,
    },
    /// Recomputed from the state.
    State {
        /// The activation that gave the state.
        activation: Activation,
        /// X
        state: MatrixRef<'a>,
    },
    /// Stored by the caller.
    Matrix(MatrixRef<'a>),
}

impl Derivative<'_> {
    /// An entry of D.
    pub fn at(&self, row: usize, col: usize) -> f32 {
        match *self {
            Self::One => 1.0,
            Self::Signs { signs, slope } => {
                if signs.get(row, col) {
                    1.0
                } else {
                    slope
                }
            }
            Self::State { activation, state } => activation.derivative(state.row(row)[col]),
            Self::Matrix(matrix) => matrix.row(row)[col],
        }
    }

    /// The shape, if the form has one.
    pub(crate) fn shape(&self) -> Option<(usize, usize)> {
        match *self {
            Self::One => None,
            Self::Signs { signs, .. } => Some((signs.rows(), signs.cols())),
            Self::State { state: matrix, .. } | Self::Matrix(matrix) => {
                Some((matrix.rows(), matrix.cols()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Matrix;

    #[test]
    fn signs_determine_the_derivative_of_relu() {
        for cols in [1, 7, 16, 37] {
            let state = Matrix::from_fn(9, cols, |i, k| ((i * 31 + k * 17) % 5) as f32 - 2.0);
            let mut signs = Signs::new(9, cols);
            signs.record(state.view());
            let derivative = Derivative::Signs { signs: &signs, slope: 0.0 };
            let other = Derivative::State { activation: Activation::Relu, state: state.view() };
            for i in 0..9 {
                for k in 0..cols {
                    assert_eq!(derivative.at(i, k), other.at(i, k));
                }
            }
        }
    }
}
