//! The best model of a run, by a metric of the validation part.
//! It keeps values; when a run is judged, and by what, is for the trainer.

use super::record::PartRecord;
use super::trainer::all_values;
use crate::dense::Matrix;
use crate::metrics::Metric;
use crate::models::Ignn;

/// The best model so far, by the monitored metric on the validation part.
#[derive(Clone, Debug)]
pub struct Best {
    /// Its epoch.
    pub epoch: u64,
    /// The metric's value.
    pub value: f64,
    /// The validation loss, which decides between equal values.
    pub loss: f64,
    /// Its parameters, in the model's order, then its statistics.
    pub values: Vec<Matrix>,
}

/// Keeps the model's values where the validation part is better than ever.
pub(super) fn keep(
    best: &mut Option<Best>,
    epoch: u64,
    monitor: Metric,
    part: &PartRecord,
    model: &Ignn,
) {
    let value = match monitor {
        Metric::Loss => part.loss,
        metric => part.scores.get(metric.name()).copied().unwrap_or(f64::NAN),
    };
    let is_better = best.as_ref().is_none_or(|best| {
        monitor.is_better(value, best.value) || (value == best.value && part.loss < best.loss)
    });
    if !is_better {
        return;
    }
    let values = all_values(model);
    match best {
        // Into the memory that is there.
        Some(best) => {
            (best.epoch, best.value, best.loss) = (epoch, value, part.loss);
            for (kept, (_, value)) in best.values.iter_mut().zip(values) {
                kept.view_mut().padded_mut().copy_from_slice(value.view().padded());
            }
        }
        None => {
            let values = values.into_iter().map(|(_, value)| value.clone()).collect();
            *best = Some(Best { epoch, value, loss: part.loss, values });
        }
    }
}
