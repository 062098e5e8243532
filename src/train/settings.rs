//! Checks of settings that depend on the labels or on the kind of model.

use std::path::Path;

use ignn_format::labels::LabelKind;

use super::task::{CLASSES, NUMBERS, SETS};
use super::{Task, TrainError};
use crate::config::{Config, ConfigError, Learn, ReadoutKind};
use crate::dense::Matrix;
use crate::graph::Graph;
use crate::metrics::{Metric, Monitor};
use crate::models::Kind;
use crate::models::kinds::{KINDS, Output};

/// Checks `train.monitor`: the metric must be defined for these labels.
pub fn monitor(labels: LabelKind, wanted: Monitor) -> Result<Metric, TrainError> {
    let metric = wanted.metric(Metric::usual(labels));
    if metric.fits(labels) {
        return Ok(metric);
    }
    let fits = Metric::ALL.into_iter().filter(|metric| metric.fits(labels));
    let fits: Vec<String> = fits.map(|metric| metric.name().replace('_', "-")).collect();
    let labels = words(labels);
    Err(TrainError::Monitor { found: wanted.to_string(), labels, fits: fits.join(", ") })
}

/// Checks that a ranking has something to rank: two classes in the validation part.
pub fn check_ranked(task: &Task, monitor: Metric) -> Result<(), TrainError> {
    let validation = &task.parts().validation;
    if !monitor.is_ranking() || validation.is_empty() {
        return Ok(());
    }
    // With equal logits, a score is undefined for the same classes as with any others.
    let logits = Matrix::zeros(validation.len(), task.labels().classes().len());
    let scores = task.scores(logits.view(), validation, true);
    match scores.roc_auc {
        Some(_) => Ok(()),
        None => Err(TrainError::OneClass { monitor }),
    }
}

/// A note about settings of a file or by hand that the kind of model does not use, if there are any.
pub fn unused(
    file: Option<&Path>,
    given: &[String],
    config: &Config,
    graph: &Graph,
) -> Result<Option<String>, ConfigError> {
    let is_pooled = graph.manifest().graphs.as_ref().is_some_and(|it| !it.classes.is_empty());
    let kind = Kind::of(config.model.kind);
    let mut unused = Config::keys_given(file, given)?;
    // Steps take some of many graphs, or the one graph whole.
    let is_one_graph = graph.manifest().graphs.is_none();
    let of_batches = |key: &str| matches!(key, "train.batch" | "train.drop_nodes");
    let without_batches: Vec<String> =
        unused.iter().filter(|key| is_one_graph && of_batches(key)).cloned().collect();
    unused.retain(|key| kind.ignores(key, &config.model, is_pooled));
    let mut notes = Vec::new();
    if !unused.is_empty() {
        let keys = unused.join(", ");
        notes.push(format!("model.kind={} does not use {keys}: without effect", kind.name()));
    }
    if !without_batches.is_empty() {
        let keys = without_batches.join(", ");
        notes.push(format!("the dataset is one graph, and {keys} is for many: without effect"));
    }
    Ok((!notes.is_empty()).then(|| notes.join("; ")))
}

/// A kind of labels, for messages.
pub fn words(labels: LabelKind) -> &'static str {
    match labels {
        LabelKind::Single => CLASSES,
        LabelKind::Multi => SETS,
        LabelKind::Number => NUMBERS,
    }
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
