//! Clipping: gradients with a larger norm than allowed are scaled down to it. A gradient that is
//! not finite is an error, because scaling cannot repair it.
//!
//! Norms are Euclidean, over all entries of a parameter or of all parameters, summed in f64 along a
//! tree that depends on the shapes only: the same bits for any number of threads.
//!
//! ```
//! use ignn::dense::Matrix;
//! use ignn::optim::{Clip, Parameter};
//!
//! let mut parameters = [Parameter::new("W", Matrix::zeros(1, 2), true)];
//! parameters[0].gradient = Matrix::from_fn(1, 2, |_, k| [3.0, 4.0][k]);
//! assert_eq!(Clip::Global.apply(1.0, &mut parameters)?, 5.0);
//! assert!((parameters[0].gradient.row(0)[1] - 0.8).abs() < 1e-6);
//! # Ok::<(), ignn::optim::GradientError>(())
//! ```

use std::ops::Range;

use rayon::prelude::*;

use super::{CHUNK, Parameter};
use crate::kernels::elementwise;
use crate::settings::words;

words! {
    /// How gradients are clipped.
    pub enum Clip {
        /// No clipping.
        None = "none",
        /// By the norm of each parameter's gradient.
        Tensor = "tensor",
        /// By the norm of all gradients together.
        Global = "global",
    }
}

/// A gradient that cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "gradient of {parameter}: not finite (found {found} in row {row}); lower the learning rate or \
     clip gradients"
)]
pub struct GradientError {
    /// Name of the parameter.
    pub parameter: String,
    /// Row of the first such entry.
    pub row: usize,
    /// The entry.
    pub found: f32,
}

impl Clip {
    /// Scales gradients in place if their norm is above `largest`. Returns the norm of all
    /// gradients before clipping. Fixed parameters do not count.
    ///
    /// If an entry is NaN or infinite, nothing is changed.
    pub fn apply(self, largest: f64, parameters: &mut [Parameter]) -> Result<f64, GradientError> {
        let mut squares = Vec::with_capacity(parameters.len());
        for parameter in parameters.iter() {
            let sum = squares_of(parameter);
            // Squares of f32 are far below the largest f64, so only an entry that is not finite
            // makes the sum so.
            if !sum.is_finite() {
                return Err(not_finite(parameter));
            }
            squares.push(sum);
        }
        let norm = squares.iter().sum::<f64>().sqrt();
        match self {
            Self::None => {}
            Self::Tensor => {
                for (parameter, squares) in parameters.iter_mut().zip(squares) {
                    shorten(parameter, squares.sqrt(), largest);
                }
            }
            Self::Global => parameters.iter_mut().for_each(|p| shorten(p, norm, largest)),
        }
        Ok(norm)
    }
}

fn shorten(parameter: &mut Parameter, norm: f64, largest: f64) {
    if norm > largest {
        let factor = (largest / norm) as f32;
        let mut gradient = parameter.gradient.view_mut();
        let chunks = gradient.padded_mut().par_chunks_mut(CHUNK);
        chunks.for_each(|chunk| chunk.iter_mut().for_each(|g| *g *= factor));
    }
}

/// Over the rows of all ranks, if the parameter has one for each node. A fixed one has no gradient.
fn squares_of(parameter: &Parameter) -> f64 {
    if parameter.is_fixed() {
        return 0.0;
    }
    let gradient = parameter.gradient.view();
    let Some(rows) = &parameter.rows else { return sum_of_squares(gradient.padded()) };
    let part = |rows: Range<usize>| vec![sum_of_squares(gradient.block(rows).padded())];
    rows.sum(part, |a, b| vec![a[0] + b[0]]).map_or(0.0, |sum| sum[0])
}

fn sum_of_squares(values: &[f32]) -> f64 {
    const LANES: usize = 8;
    if values.len() > CHUNK {
        let (first, second) = values.split_at((values.len() / 2).next_multiple_of(CHUNK));
        let (first, second) = rayon::join(|| sum_of_squares(first), || sum_of_squares(second));
        return first + second;
    }
    let mut sums = [0.0; LANES];
    // Chunks of a fixed length, so that the compiler vectorises the additions.
    let (parts, rest) = values.as_chunks::<LANES>();
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, &x)| *sum += f64::from(x) * f64::from(x));
    }
    sums.iter_mut().zip(rest).for_each(|(sum, &x)| *sum += f64::from(x) * f64::from(x));
    sums.iter().sum()
}

fn not_finite(parameter: &Parameter) -> GradientError {
    let first = elementwise::first_not_finite(parameter.gradient.view());
    let (mut row, mut found) = first.unwrap_or((usize::MAX, f32::NAN));
    if let Some(rows) = &parameter.rows {
        let own = [row.saturating_add(rows.own().start) as u64, found.to_bits().into()];
        let first = rows.ranks().merge(own, |a, b| if b[0] < a[0] { b } else { a });
        (row, found) = (first[0] as usize, f32::from_bits(first[1] as u32));
    }
    GradientError { parameter: parameter.name.clone(), row, found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Matrix;
    use crate::kernels::naive::Random;
    use crate::parallel::with_threads;

    fn parameters() -> Vec<Parameter> {
        let mut short = Parameter::new("short", Matrix::zeros(1, 2), true);
        short.gradient.row_mut(0).copy_from_slice(&[0.3, -0.4]);
        let mut long = Parameter::new("long", Matrix::zeros(3, 1), true);
        (0..3).for_each(|row| long.gradient.row_mut(row)[0] = [2.0, -6.0, 3.0][row]);
        vec![short, long]
    }

    fn norm(parameter: &Parameter) -> f64 {
        sum_of_squares(parameter.gradient.view().padded()).sqrt()
    }

    #[test]
    fn norms_before_and_after() {
        let expected = (49.25f64).sqrt();
        for (clip, largest, short, long) in [
            (Clip::None, 0.1, 0.5, 7.0),
            (Clip::Tensor, 1.0, 0.5, 1.0),
            (Clip::Tensor, 0.25, 0.25, 0.25),
            (Clip::Global, 100.0, 0.5, 7.0),
            (Clip::Global, 1.0, 0.5 / expected, 7.0 / expected),
        ] {
            let mut parameters = parameters();
            assert!((clip.apply(largest, &mut parameters).unwrap() - expected).abs() < 1e-6);
            assert!((norm(&parameters[0]) - short).abs() < 1e-6, "{clip:?} {largest}");
            assert!((norm(&parameters[1]) - long).abs() < 1e-6, "{clip:?} {largest}");
        }
        assert_eq!(Clip::Global.apply(1.0, &mut []), Ok(0.0));
        let mut zero = [Parameter::new("zero", Matrix::zeros(2, 2), true)];
        assert_eq!(Clip::Tensor.apply(0.0, &mut zero), Ok(0.0));
        assert_eq!(zero[0].gradient.row(0), [0.0; 2]);
    }

    #[test]
    fn gradients_that_are_not_finite_are_reported_and_left_alone() {
        for found in [f32::NAN, f32::INFINITY] {
            let mut parameters = parameters();
            parameters[1].gradient.row_mut(2)[0] = found;
            let error = Clip::Global.apply(1.0, &mut parameters).unwrap_err();
            let place = format!("gradient of long: not finite (found {found} in row 2)");
            assert_eq!(
                error.to_string(),
                format!("{place}; lower the learning rate or clip gradients")
            );
            assert_eq!(parameters[1].gradient.row(0), [2.0]);
        }
        let mut huge = [Parameter::new("huge", Matrix::zeros(1, 2), true)];
        huge[0].gradient.row_mut(0).fill(f32::MAX);
        assert!(Clip::Global.apply(1.0, &mut huge).unwrap() > 4e38);
        assert!((norm(&huge[0]) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn the_same_bits_on_any_number_of_threads() {
        let gradient = Random(3).matrix(3000, 40);
        let sum =
            |threads| with_threads(threads, || sum_of_squares(gradient.view().padded()).to_bits());
        assert_eq!(sum(1), sum(2));
        assert_eq!(sum(1), sum(4));
        let rows = (0..3000).flat_map(|row| gradient.row(row));
        let naive: f64 = rows.map(|&x| f64::from(x).powi(2)).sum();
        assert!((f64::from_bits(sum(1)) / naive - 1.0).abs() < 1e-12);
    }
}
