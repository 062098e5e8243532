//! Mean and standard deviation over runs, folds or seeds.

use serde::{Deserialize, Serialize};

use crate::json_number;

/// A mean with the standard deviation of a sample (divided by n - 1).
///
/// ```
/// let accuracy = ignn::metrics::MeanDeviation::of(&[0.5, 0.75]);
/// assert_eq!(accuracy.mean, 0.625);
/// assert!((accuracy.deviation - 0.03125f64.sqrt()).abs() < 1e-15);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanDeviation {
    /// The mean; NaN if there are no values.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub mean: f64,
    /// The sample standard deviation; 0 for a single value.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub deviation: f64,
}

impl MeanDeviation {
    /// Mean and deviation of these values.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self { mean, deviation: (squares / (count - 1.0).max(1.0)).sqrt() }
    }

    /// The same over the finite values; `None` if there are none.
    pub fn of_finite(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let finite: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        (!finite.is_empty()).then(|| Self::of(&finite))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deviation_is_that_of_a_sample() {
        assert_eq!(MeanDeviation::of(&[1.0, 3.0]).deviation, 2f64.sqrt());
        assert_eq!(MeanDeviation::of(&[0.25]), MeanDeviation { mean: 0.25, deviation: 0.0 });
        assert!(MeanDeviation::of(&[]).mean.is_nan());
        assert_eq!(MeanDeviation::of_finite([f64::NAN]), None);
        assert_eq!(MeanDeviation::of_finite([f64::NAN, 2.0]).unwrap().mean, 2.0);
    }
}
