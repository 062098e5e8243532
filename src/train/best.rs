//! The best epoch of a run: the one rule by which epochs are compared, and the parameters of the
//! best one.

use super::record::PartRecord;
use super::trainer::all_values;
use crate::dense::Matrix;
use crate::metrics::Metric;
use crate::models::Network;
use crate::optim::Parameter;

/// How good an epoch is on the validation part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EpochScore {
    /// The epoch.
    pub epoch: u64,
    /// Value of the monitored metric.
    pub value: f64,
    /// The validation loss, which breaks ties.
    pub loss: f64,
}

impl EpochScore {
    /// The score of an epoch, from its record of the validation part; `None` if it is not finite,
    /// because such an epoch is never the best.
    pub fn new(monitor: Metric, epoch: u64, validation: &PartRecord) -> Option<Self> {
        let value = validation.value(monitor);
        value.is_finite().then_some(Self { epoch, value, loss: validation.loss })
    }

    /// Whether this epoch is to be preferred: by the metric, and among equal values by the loss.
    pub fn is_better_than(&self, other: &Self, monitor: Metric) -> bool {
        monitor.is_better(self.value, other.value)
            || (self.value == other.value && self.loss < other.loss)
    }
}

/// The best model so far, by the monitored metric on the validation part.
#[derive(Clone, Debug)]
pub struct Best {
    /// Its epoch and score.
    pub score: EpochScore,
    /// Its parameters in the model's order, followed by its statistics; `None` for a parameter that
    /// no step changes.
    pub values: Vec<Option<Matrix>>,
}

impl Best {
    /// Gives a model the values of the best epoch.
    pub(super) fn restore(&self, model: &mut Network) {
        for (value, kept) in all_values_mut(model).into_iter().zip(&self.values) {
            if let Some(kept) = kept {
                value.view_mut().padded_mut().copy_from_slice(kept.view().padded());
            }
        }
    }
}

/// Keeps the model's parameters if this epoch is better than all before.
pub(super) fn keep(best: &mut Option<Best>, score: EpochScore, monitor: Metric, model: &Network) {
    if best.as_ref().is_some_and(|best| !score.is_better_than(&best.score, monitor)) {
        return;
    }
    let values = all_values(model);
    match best {
        // Reuses the memory of the previous best.
        Some(best) => {
            best.score = score;
            for (kept, (_, value)) in best.values.iter_mut().zip(values) {
                if let Some(kept) = kept {
                    kept.view_mut().padded_mut().copy_from_slice(value.view().padded());
                }
            }
        }
        None => {
            let is_fixed = |at: usize| model.parameters.get(at).is_some_and(Parameter::is_fixed);
            let kept =
                |(at, (_, value)): (usize, (_, &Matrix))| (!is_fixed(at)).then(|| value.clone());
            let values = values.into_iter().enumerate().map(kept).collect();
            *best = Some(Best { score, values });
        }
    }
}

/// The values of all parameters, then of all statistics.
fn all_values_mut(model: &mut Network) -> Vec<&mut Matrix> {
    let Network { parameters, statistics, .. } = model;
    let parameters = parameters.iter_mut().map(|parameter| &mut parameter.value);
    let statistics = statistics.iter_mut().flat_map(|kept| [&mut kept.mean, &mut kept.variance]);
    parameters.chain(statistics).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_are_broken_by_the_loss_and_nan_never_wins() {
        let part = |loss| PartRecord { loss, ..PartRecord::default() };
        assert_eq!(EpochScore::new(Metric::Loss, 3, &part(0.5)).unwrap().epoch, 3);
        for (monitor, loss) in
            [(Metric::Loss, f64::NAN), (Metric::Loss, f64::INFINITY), (Metric::Accuracy, 0.5)]
        {
            assert_eq!(EpochScore::new(monitor, 3, &part(loss)), None);
        }
        let score = |value, loss| EpochScore { epoch: 0, value, loss };
        let better = |a: EpochScore, b: EpochScore| a.is_better_than(&b, Metric::Accuracy);
        assert!(better(score(0.9, 2.0), score(0.8, 1.0)));
        assert!(better(score(0.9, 0.5), score(0.9, 1.0)));
        assert!(!better(score(0.9, 1.0), score(0.9, 1.0)));
        assert!(!better(score(f64::NAN, 0.0), score(0.1, 1.0)));
        assert!(better(score(0.1, 1.0), score(f64::NAN, 0.0)));
        assert!(score(0.1, 0.1).is_better_than(&score(0.2, 0.2), Metric::Loss));
    }
}
