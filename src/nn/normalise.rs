//! Scales each row to length 1, forward and backward, in place. There are no parameters and no
//! statistics over rows; for those see [`batch_norm`](super::batch_norm).
//!
//! ```text
//! forward    y = x / |x|                    |x| the Euclidean length of a row, summed in f64
//! backward   dL/dx = (g - y (y . g)) / |x|  g = dL/dy
//! ```
//!
//! A row shorter than [`VANISHED`] has no usable direction in f32: it becomes zero. A row shorter
//! than [`FADED`] has one, and what reads it learns from it, but its gradient with respect to x is
//! set to zero: such gradients grow as 1 / |x|, would dominate those of all other rows, and a model
//! on long chains would not learn from nearby nodes first, as it must.
//!
//! ```
//! use ignn::dense::Matrix;
//! use ignn::nn::normalise;
//!
//! let mut rows = Matrix::from_fn(1, 2, |_, k| [3.0, 4.0][k]);
//! let mut lengths = [0.0];
//! normalise::forward(rows.view_mut(), &mut lengths);
//! assert!((rows.row(0)[0] - 0.6).abs() < 1e-6 && (rows.row(0)[1] - 0.8).abs() < 1e-6);
//! ```

use rayon::prelude::*;

use crate::dense::{Matrix, MatrixMut, MatrixRef};

/// Rows shorter than this pass no gradient on.
pub const FADED: f64 = 1e-12;

/// Rows shorter than this count as zero: their smaller entries are no longer normal numbers of f32.
pub const VANISHED: f64 = 1e-30;

/// Rows per piece of work.
const ROWS: usize = 64;

/// Scales each row to length 1 and stores its old length in `lengths`: 0 for rows that count as
/// zero.
///
/// # Panics
/// If there is not one length per row.
pub fn forward(mut x: MatrixMut<'_>, lengths: &mut [f32]) {
    assert_eq!(x.rows(), lengths.len(), "one length per row");
    let stride = x.stride();
    let parts = x.padded_mut().par_chunks_mut(ROWS * stride).zip(lengths.par_chunks_mut(ROWS));
    parts.for_each(|(part, lengths)| {
        for (row, length) in part.chunks_exact_mut(stride).zip(lengths) {
            let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
            if norm < VANISHED {
                *length = 0.0;
                row.fill(0.0);
            } else {
                *length = norm as f32;
                let scale = 1.0 / norm;
                row.iter_mut().for_each(|x| *x = (f64::from(*x) * scale) as f32);
            }
        }
    });
}

/// Scales one row like [`forward`], and bounds how far an entry is from that of the exact row, of
/// which no entry is off by more than `error`: `|x / |x| - z / |z|| <= 2 |x - z| / |x|`.
pub fn error_bound(row: &mut [f32], error: f64) -> f64 {
    let length = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    let mut scaled = Matrix::from_fn(1, row.len(), |_, k| row[k]);
    forward(scaled.view_mut(), &mut [0.0]);
    row.copy_from_slice(scaled.row(0));
    let far = 2.0 * (row.len() as f64).sqrt() * error / length * (1.0 + 1e-9);
    // Entries of rows of length 1 are apart by 2 at most; a row that vanished became zero.
    let most = if length < VANISHED { 1.0 } else { far.min(2.0) };
    most + f64::from(f32::EPSILON)
}

/// Turns the gradient with respect to y into that with respect to x. `y` and `lengths` are the
/// results of [`forward`].
///
/// # Panics
/// If shapes do not match.
pub fn backward(y: MatrixRef<'_>, lengths: &[f32], mut gradient: MatrixMut<'_>) {
    assert_eq!(
        (y.rows(), y.cols()),
        (gradient.rows(), gradient.cols()),
        "a gradient of the same shape"
    );
    assert_eq!(y.rows(), lengths.len(), "one length per row");
    let stride = gradient.stride();
    let rows = gradient.padded_mut().par_chunks_mut(stride).zip(lengths).enumerate();
    rows.with_min_len(ROWS).for_each(|(at, (gradient, &length))| {
        if f64::from(length) < FADED {
            return gradient.fill(0.0);
        }
        let y = y.padded_row(at);
        let along: f64 = y.iter().zip(&*gradient).map(|(&y, &g)| f64::from(y) * f64::from(g)).sum();
        let scale = 1.0 / f64::from(length);
        for (g, &y) in gradient.iter_mut().zip(y) {
            *g = ((f64::from(*g) - f64::from(y) * along) * scale) as f32;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::Random;

    fn normalised(x: &[f64]) -> Vec<f64> {
        let length = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        x.iter().map(|x| x / length).collect()
    }

    #[test]
    fn differences_agree() {
        for cols in [1, 3, 16, 21] {
            let random = &mut Random(cols as u64);
            let (x, g) = (random.matrix(130, cols), random.matrix(130, cols));
            let (mut y, mut lengths, mut gradient) = (x.clone(), vec![0.0; 130], g.clone());
            forward(y.view_mut(), &mut lengths);
            backward(y.view(), &lengths, gradient.view_mut());
            for i in 0..130 {
                let wide =
                    |row: &[f32]| -> Vec<f64> { row.iter().map(|&x| f64::from(x)).collect() };
                let (x, g) = (wide(x.row(i)), wide(g.row(i)));
                let size = x.iter().map(|x| x * x).sum::<f64>().sqrt();
                let value =
                    |x: &[f64]| normalised(x).iter().zip(&g).map(|(y, g)| y * g).sum::<f64>();
                for k in 0..cols {
                    assert!((f64::from(y.row(i)[k]) - normalised(&x)[k]).abs() < 1e-6);
                    let h = 1e-5 * size;
                    let moved = |by: f64| {
                        let mut x = x.clone();
                        x[k] += by;
                        value(&x)
                    };
                    let difference = (moved(h) - moved(-h)) / (2.0 * h);
                    let error = (f64::from(gradient.row(i)[k]) - difference).abs() * size;
                    assert!(error < 1e-5, "{cols} ({i}, {k}): {} {difference}", gradient.row(i)[k]);
                }
                assert!(y.view().padded_row(i)[cols..].iter().all(|&x| x == 0.0));
                assert!(gradient.view().padded_row(i)[cols..].iter().all(|&x| x == 0.0));
            }
        }
    }

    #[test]
    fn faded_rows_keep_their_direction_and_pass_no_gradient_on() {
        let entries = [
            [0.0, 0.0],
            [3e-10, -4e-10],
            [3e-25, 4e-25],
            [3e30, 4e30],
            [f32::NAN, 1.0],
            [3e-31, 0.0],
        ];
        let mut x = Matrix::from_fn(6, 2, |i, k| entries[i][k]);
        let mut lengths = [0.0; 6];
        forward(x.view_mut(), &mut lengths);
        assert_eq!((x.row(0), x.row(5)), (&[0.0; 2][..], &[0.0; 2][..]));
        assert!((x.row(1)[0] - 0.6).abs() < 1e-6 && (x.row(1)[1] + 0.8).abs() < 1e-6);
        assert!((x.row(2)[0] - 0.6).abs() < 1e-6 && (x.row(2)[1] - 0.8).abs() < 1e-6);
        assert!((x.row(3)[0] - 0.6).abs() < 1e-6 && (lengths[3] / 5e30 - 1.0).abs() < 1e-6);
        assert!(x.row(4)[0].is_nan() && x.row(4)[1].is_nan(), "NaN is not hidden");
        let mut gradient = Matrix::from_fn(6, 2, |_, k| k as f32);
        backward(x.view(), &lengths, gradient.view_mut());
        for row in [0, 2, 5] {
            assert_eq!(gradient.row(row), &[0.0; 2][..], "row {row}");
        }
        assert!(gradient.row(1).iter().all(|g| g.is_finite() && *g != 0.0));
    }
}
