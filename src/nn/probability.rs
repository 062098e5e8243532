//! Logits to probabilities, in place: what a model trained with a loss says about each class.
//! For predictions; losses take logits.
//!
//! ```text
//! cross entropy          p_j = exp z_j / sum_l exp z_l
//! binary cross entropy   p_j = 1 / (1 + exp -z_j)
//! ```

use rayon::prelude::*;

use super::LossKind;
use crate::dense::MatrixMut;

/// Rows of a piece of work.
const ROWS: usize = 64;

/// Replaces each row of logits by probabilities.
pub fn from_logits(kind: LossKind, mut logits: MatrixMut<'_>) {
    let (stride, cols) = (logits.stride(), logits.cols());
    let rows = logits.padded_mut().par_chunks_mut(stride).with_min_len(ROWS);
    rows.for_each(|row| {
        let row = &mut row[..cols];
        match kind {
            LossKind::CrossEntropy => {
                let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                row.iter_mut().for_each(|z| *z = (*z - largest).exp());
                let scale = 1.0 / row.iter().map(|&e| f64::from(e)).sum::<f64>();
                row.iter_mut().for_each(|e| *e = (f64::from(*e) * scale) as f32);
            }
            // Where z is very negative exp(-z) is infinite and the quotient 0, as it should be.
            LossKind::BinaryCrossEntropy => row.iter_mut().for_each(|z| *z = 1.0 / (1.0 + (-*z).exp())),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Matrix;

    #[test]
    fn both_kinds() {
        let logits = |i: usize, k: usize| [[0.0, 1.0, -2.0], [1e4, -1e4, 0.0], [3.0, 3.0, 3.0]][i][k];
        let mut softmax = Matrix::from_fn(3, 3, logits);
        from_logits(LossKind::CrossEntropy, softmax.view_mut());
        let mut sigmoid = Matrix::from_fn(3, 3, logits);
        from_logits(LossKind::BinaryCrossEntropy, sigmoid.view_mut());
        for i in 0..3 {
            let sum: f64 = softmax.row(i).iter().map(|&p| f64::from(p)).sum();
            assert!((sum - 1.0).abs() < 1e-6);
            for k in 0..3 {
                let z = f64::from(logits(i, k));
                assert!((f64::from(sigmoid.row(i)[k]) - 1.0 / (1.0 + (-z).exp())).abs() < 1e-7);
            }
            assert_eq!((softmax.view().padded_row(i)[3], sigmoid.view().padded_row(i)[3]), (0.0, 0.0));
        }
        assert_eq!(softmax.row(1), [1.0, 0.0, 0.0]);
        assert_eq!(sigmoid.row(1), [1.0, 0.0, 0.5]);
        assert!((softmax.row(0)[1] / softmax.row(0)[0] - 1f32.exp()).abs() < 1e-5);
    }
}
