//! Scores of predicted numbers: R^2, root mean squared and mean absolute error, as scikit-learn
//! defines them, in the unit of the target.

/// The scores of a regression.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Residuals {
    /// The share of the variance that is explained: 1 - sum (y - f)^2 / sum (y - mean y)^2. It is 0
    /// for a model that always predicts the mean, and below 0 for a worse one. Where all targets are
    /// equal it is 1 if all predictions are exact, and 0 otherwise. `None` for fewer than two items.
    pub r2: Option<f64>,
    /// Root of the mean squared error.
    pub rmse: Option<f64>,
    /// Mean absolute error.
    pub mae: Option<f64>,
}

impl Residuals {
    /// Compares predictions with targets, item by item; nothing where there are none. Sums run in
    /// the order of the items.
    ///
    /// ```
    /// use ignn::metrics::Residuals;
    ///
    /// let scores = Residuals::of(&[2.5, 0.0, 2.0, 8.0], &[3.0, -0.5, 2.0, 7.0]);
    /// assert_eq!((scores.mae, scores.rmse), (Some(0.5), Some(0.375f64.sqrt())));
    /// assert!((scores.r2.unwrap() - 0.9486081370449679).abs() < 1e-15);
    /// ```
    ///
    /// # Panics
    /// If there is not one prediction per target.
    pub fn of(predicted: &[f64], truth: &[f64]) -> Self {
        assert_eq!(predicted.len(), truth.len(), "one prediction per target");
        if truth.is_empty() {
            return Self::default();
        }
        let count = truth.len() as f64;
        // Around one of the targets: their sum would lose what sets them apart where all are large.
        let first = truth[0];
        let mean = truth.iter().map(|y| y - first).sum::<f64>() / count;
        let spread: f64 = truth.iter().map(|y| (y - first - mean).powi(2)).sum();
        let errors = || predicted.iter().zip(truth).map(|(f, y)| f - y);
        let squares: f64 = errors().map(|error| error * error).sum();
        let explained = match spread > 0.0 {
            true => 1.0 - squares / spread,
            false if squares == 0.0 => 1.0,
            false => 0.0,
        };
        Self {
            r2: (truth.len() > 1).then_some(explained),
            rmse: Some((squares / count).sqrt()),
            mae: Some(errors().map(f64::abs).sum::<f64>() / count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_offset_of_all_targets_changes_nothing() {
        let (predicted, truth) = ([2.5, 0.0, 2.0, 8.0], [3.0, -0.5, 2.0, 7.0]);
        let far = |x: [f64; 4]| x.map(|x| x + 1e15);
        assert_eq!(Residuals::of(&far(predicted), &far(truth)), Residuals::of(&predicted, &truth));
    }

    #[test]
    fn special_cases_are_those_of_scikit_learn() {
        assert_eq!(Residuals::of(&[], &[]), Residuals::default());
        let one = Residuals::of(&[1.0], &[3.0]);
        assert_eq!((one.r2, one.rmse, one.mae), (None, Some(2.0), Some(2.0)));
        assert_eq!(Residuals::of(&[2.0, 2.0], &[2.0, 2.0]).r2, Some(1.0));
        assert_eq!(Residuals::of(&[2.0, 3.0], &[2.0, 2.0]).r2, Some(0.0));
        // From the documentation of r2_score: the mean explains nothing, the reverse less.
        assert_eq!(Residuals::of(&[2.0, 2.0, 2.0], &[1.0, 2.0, 3.0]).r2, Some(0.0));
        assert_eq!(Residuals::of(&[3.0, 2.0, 1.0], &[1.0, 2.0, 3.0]).r2, Some(-3.0));
    }
}
