//! Random initial values. Each number depends on the seed, the name of the parameter, its row and
//! its column alone, so the bits are the same for any number of threads. The generator is
//! [`ignn_format::random`].

use rayon::prelude::*;

pub use ignn_format::random::{Row, Stream};

use crate::dense::Matrix;

/// Rows per piece of work.
const ROWS: usize = 64;

/// Entries uniform between -bound and bound.
pub fn uniform(seed: u64, stream: &str, rows: usize, cols: usize, bound: f64) -> Matrix {
    let stream = Stream::new(seed, stream);
    let mut matrix = Matrix::zeros(rows, cols);
    let mut view = matrix.view_mut();
    let stride = view.stride();
    let chunks = view.padded_mut().par_chunks_mut(ROWS * stride).enumerate();
    chunks.for_each(|(chunk, part)| {
        for (at, row) in part.chunks_exact_mut(stride).enumerate() {
            let numbers = stream.row((chunk * ROWS + at) as u64);
            for (column, entry) in row[..cols].iter_mut().enumerate() {
                *entry = (numbers.symmetric(column) * bound) as f32;
            }
        }
    });
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::with_threads;

    #[test]
    fn the_same_bits_on_any_number_of_threads_and_other_bits_elsewhere() {
        let draw = |threads, seed, name: &str| {
            with_threads(threads, || uniform(seed, name, 333, 21, 0.5).view().padded().to_vec())
        };
        let one = draw(1, 7, "layer0.W");
        assert_eq!(one, draw(2, 7, "layer0.W"));
        assert_eq!(one, draw(4, 7, "layer0.W"));
        assert_ne!(one, draw(1, 8, "layer0.W"));
        assert_ne!(one, draw(1, 7, "layer1.W"));
        let narrow = uniform(7, "layer0.W", 100, 9, 0.5);
        let wide = uniform(7, "layer0.W", 333, 21, 0.5);
        assert_eq!(narrow.row(50), &wide.row(50)[..9], "a number does not depend on the shape");
    }

    #[test]
    fn moments_and_correlations_are_those_of_the_uniform_distribution() {
        let (rows, cols) = (2000, 50);
        let matrix = uniform(1, "test", rows, cols, 2.0);
        let count = (rows * cols) as f64;
        let at = |i: usize, k: usize| f64::from(matrix.row(i % rows)[k % cols]);
        let mean = |f: &dyn Fn(usize, usize) -> f64| {
            (0..rows)
                .flat_map(|i| (0..cols).map(move |k| (i, k)))
                .map(|(i, k)| f(i, k))
                .sum::<f64>()
                / count
        };
        let close = |found: f64, expected: f64, deviation: f64| {
            assert!(
                (found - expected).abs() < 4.5 * deviation / count.sqrt(),
                "{found} {expected}"
            );
        };
        close(mean(&|i, k| at(i, k)), 0.0, 1.155);
        close(mean(&|i, k| at(i, k).powi(2)), 4.0 / 3.0, 1.193);
        close(mean(&|i, k| at(i, k) * at(i + 1, k)), 0.0, 1.334);
        close(mean(&|i, k| at(i, k) * at(i, k + 1)), 0.0, 1.334);
        close(mean(&|i, k| at(i, k) * at(i + 1, k + 1)), 0.0, 1.334);
        assert!(mean(&|i, k| f64::from(u8::from(at(i, k).abs() > 2.0))) == 0.0);
    }
}
