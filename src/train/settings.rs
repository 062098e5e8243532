//! Checks of settings that depend on the labels or on the kind of model.

use ignn_format::labels::Labels;

use super::TrainError;
use super::task::{CLASSES, SETS};
use crate::config::{Config, Learn, ReadoutKind};
use crate::metrics::{Metric, Monitor};
use crate::models::Kind;
use crate::models::kinds::{KINDS, Output};

/// Checks `train.monitor`: the metric must be defined for these labels.
pub fn monitor(labels: &Labels, wanted: Monitor) -> Result<Metric, TrainError> {
    let is_single = matches!(labels, Labels::Single { .. });
    let metric = wanted.metric(is_single);
    let fits = match metric {
        Metric::Accuracy => is_single,
        Metric::TopKMicroF1 | Metric::TopKMacroF1 => !is_single,
        _ => true,
    };
    if fits {
        return Ok(metric);
    }
    let (labels, fits) = match is_single {
        true => (CLASSES, "accuracy, micro-f1, macro-f1, loss"),
        false => (SETS, "micro-f1, macro-f1, top-k-micro-f1, top-k-macro-f1, loss"),
    };
    Err(TrainError::Monitor { found: wanted.to_string(), labels, fits })
}

/// Checks `train.learn`: the readout must be one that can be learned that way.
pub fn learnable(config: &Config) -> Result<(), TrainError> {
    let (learn, readout, kind) = (config.train.learn, config.model.readout, config.model.kind);
    if learn != Learn::All && Kind::of(kind).output != Output::Readout {
        let fits = KINDS.iter().filter(|kind| kind.output == Output::Readout);
        let fits: Vec<&str> = fits.map(|kind| kind.name()).collect();
        let expected = match &fits[..] {
            [before @ .., last] => format!("{} or {last}", before.join(", ")),
            [] => String::new(),
        };
        let (learn, kind) = (learn.to_string(), kind.to_string());
        return Err(TrainError::LearnKind { learn, kind, expected });
    }
    let expected = match (learn, readout) {
        (Learn::Readout, ReadoutKind::None) => "linear or mlp",
        (Learn::Ridge, ReadoutKind::None | ReadoutKind::Mlp) => "linear",
        _ => return Ok(()),
    };
    Err(TrainError::Readout { learn: learn.to_string(), found: readout.to_string(), expected })
}
