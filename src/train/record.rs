//! The record of an epoch, and the observers that receive it. Records are plain data: writing files
//! and printing is up to the observers.
//!
//! As JSON (one line of `metrics.jsonl`, see `run`) a record is one object, in which each part has
//! its loss and its scores:
//! `{"epoch":3,"loss":0.4,"train":{"loss":0.4,"accuracy":0.9},"validation":null,...}`. A number
//! that is not finite is written as null and reads back as NaN; everything else reads back exactly.

use std::collections::BTreeMap;

use ignn_format::Result;
use serde::{Deserialize, Serialize};

use crate::json_number;
use crate::metrics::Metric;
use crate::solver::fixed_point::SolveInfo;

/// One epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// From 1; 0 is the model before its first step.
    pub epoch: u64,
    /// The training loss of the step that followed, dropout included; NaN after the last epoch.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub loss: f64,
    /// The evaluation on the training part, where this epoch had one.
    pub train: Option<PartRecord>,
    /// The evaluation on the validation part.
    pub validation: Option<PartRecord>,
    /// The evaluation on the test part.
    pub test: Option<PartRecord>,
    /// The solve of the equilibrium; several layers or batches are merged by
    /// [`SolveInfo::together`]. `None` for models without an equilibrium.
    pub forward: Option<SolveInfo>,
    /// The solve of the adjoint; `None` where the gradient needs none.
    pub adjoint: Option<SolveInfo>,
    /// One record per layer, where there are several layers or batches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerRecord>,
    /// The contraction bound q, whether or not it is below 1; the largest of the layers. NaN
    /// without an equilibrium.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub contraction: f64,
    /// The upper bound of lambda(|W|), the spectral radius; the largest of the layers. NaN without
    /// an equilibrium.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub weight_radius: f64,
    /// Global norm of the gradients, before clipping.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub gradient_norm: f64,
    /// The learning rate of the step.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub learning_rate: f64,
    /// Wall time by phase.
    pub seconds: PhaseSeconds,
    /// On several ranks: rows that were sent to others, and the time that it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<ExchangeRecord>,
    /// Nodes times sweeps per second of the solves, forward and adjoint.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub nodes_per_second: f64,
    /// Edges times sweeps per second of the solves, forward and adjoint.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub edges_per_second: f64,
    /// Solves that did not converge, since the run began.
    pub failures: u64,
    /// Whether training has collapsed in this epoch; see `train.on_collapse`.
    #[serde(default, rename = "collapsed", skip_serializing_if = "std::ops::Not::not")]
    pub has_collapsed: bool,
}

/// The solves of one layer over the steps of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// Number of solves, one per step.
    pub solves: usize,
    /// The forward solves, merged.
    pub forward: SolveInfo,
    /// The adjoint solves, merged.
    pub adjoint: Option<SolveInfo>,
}

/// An evaluation on one part of the split.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartRecord {
    /// Mean loss, without dropout.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub loss: f64,
    /// Scores by the name of their [`Metric`]; "loss" is not among them.
    #[serde(flatten, deserialize_with = "json_number::map_or_nan")]
    pub scores: BTreeMap<String, f64>,
}

/// Exchanges between ranks. They depend on the number of ranks, as times do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExchangeRecord {
    /// Number of exchanges.
    pub exchanges: u64,
    /// Bytes that all ranks sent together.
    pub bytes: u64,
    /// Wall time of the rank that spent most on them; a part of the times by phase.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub seconds: f64,
}

/// Wall time by phase of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseSeconds {
    /// Solving the equilibrium.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub forward: f64,
    /// Solving the adjoint.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub adjoint: f64,
    /// Gradients of the parameters from the adjoint.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub gradients: f64,
    /// The optimiser's step and the projection.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub update: f64,
    /// Losses and scores of the parts.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub evaluation: f64,
}

impl PhaseSeconds {
    /// The phases with their names, in the order of an epoch.
    pub fn named(&self) -> [(&'static str, f64); 5] {
        [
            ("forward", self.forward),
            ("adjoint", self.adjoint),
            ("gradients", self.gradients),
            ("update", self.update),
            ("evaluation", self.evaluation),
        ]
    }

    /// The sum over all phases.
    pub fn total(&self) -> f64 {
        self.named().iter().map(|(_, seconds)| seconds).sum()
    }
}

impl PartRecord {
    /// The value of a metric; NaN where the part has none.
    pub fn value(&self, metric: Metric) -> f64 {
        match metric {
            Metric::Loss => self.loss,
            metric => self.scores.get(metric.name()).copied().unwrap_or(f64::NAN),
        }
    }
}

impl EpochRecord {
    /// Whether the forward solve converged, or made the number of sweeps that was asked for; also
    /// true where there was none.
    pub fn has_converged(&self) -> bool {
        self.forward.is_none_or(|solve| solve.is_done())
    }

    /// The record without measured times and exchanges, which differ from run to run; all else
    /// depends on the dataset and the settings alone.
    pub fn without_times(&self) -> Self {
        let layer = |layer: &LayerRecord| LayerRecord {
            solves: layer.solves,
            forward: layer.forward.without_times(),
            adjoint: layer.adjoint.map(SolveInfo::without_times),
        };
        Self {
            forward: self.forward.map(SolveInfo::without_times),
            adjoint: self.adjoint.map(SolveInfo::without_times),
            layers: self.layers.iter().map(layer).collect(),
            seconds: PhaseSeconds::default(),
            exchange: None,
            nodes_per_second: 0.0,
            edges_per_second: 0.0,
            ..self.clone()
        }
    }

    /// The parts that were evaluated, with their names.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &PartRecord)> {
        let parts =
            [("train", &self.train), ("validation", &self.validation), ("test", &self.test)];
        parts.into_iter().filter_map(|(name, part)| Some((name, part.as_ref()?)))
    }
}

/// Receives a record after every epoch. An error ends the run at once: a full disk should not be
/// noticed only at the end.
pub trait Observer {
    /// Called once before the first epoch, with the metric that chooses the best epoch.
    fn start(&mut self, _monitor: Metric) -> Result<()> {
        Ok(())
    }

    /// Called after every epoch.
    fn epoch(&mut self, record: &EpochRecord) -> Result<()>;

    /// Called with a note for the user, such as a solve that did not converge.
    fn note(&mut self, _text: &str) -> Result<()> {
        Ok(())
    }
}

/// Ignores all records.
impl Observer for () {
    fn epoch(&mut self, _record: &EpochRecord) -> Result<()> {
        Ok(())
    }
}

/// Calls the observer behind a reference.
impl<O: Observer + ?Sized> Observer for &mut O {
    fn start(&mut self, monitor: Metric) -> Result<()> {
        (**self).start(monitor)
    }

    fn epoch(&mut self, record: &EpochRecord) -> Result<()> {
        (**self).epoch(record)
    }

    fn note(&mut self, text: &str) -> Result<()> {
        (**self).note(text)
    }
}

/// Calls several observers in order.
impl Observer for Vec<Box<dyn Observer + '_>> {
    fn start(&mut self, monitor: Metric) -> Result<()> {
        self.iter_mut().try_for_each(|observer| observer.start(monitor))
    }

    fn epoch(&mut self, record: &EpochRecord) -> Result<()> {
        self.iter_mut().try_for_each(|observer| observer.epoch(record))
    }

    fn note(&mut self, text: &str) -> Result<()> {
        self.iter_mut().try_for_each(|observer| observer.note(text))
    }
}

#[cfg(test)]
pub mod testing {
    //! A sample record for the tests of observers.

    use super::*;
    use crate::solver::fixed_point::Stopped;
    use crate::solver::{Choice, Effort, Used};

    /// A record with something in every field.
    pub fn record(epoch: u64) -> EpochRecord {
        let solve = SolveInfo {
            sweeps: 12,
            row_updates: 1200,
            relative_residual: 1e-6,
            contraction: Some(0.9),
            certified_error: None,
            estimated_error: None,
            tolerance: 1e-5,
            converged: true,
            stopped: Stopped::Converged,
            choice: Choice::asked(Used::Plain),
            certificate: Effort { passes: 3, seconds: 0.125 },
            seconds: 0.5,
        };
        let part = |accuracy| PartRecord {
            loss: 0.25,
            scores: BTreeMap::from([("accuracy".to_string(), accuracy)]),
        };
        EpochRecord {
            epoch,
            loss: 0.5,
            train: Some(part(1.0)),
            validation: Some(part(0.75)),
            test: None,
            forward: Some(solve),
            adjoint: Some(SolveInfo { sweeps: 9, ..solve }),
            layers: Vec::new(),
            contraction: 0.9,
            weight_radius: 0.875,
            gradient_norm: 2.0,
            learning_rate: 0.01,
            seconds: PhaseSeconds { forward: 0.5, adjoint: 0.25, ..PhaseSeconds::default() },
            exchange: None,
            nodes_per_second: 1e6,
            edges_per_second: 4e6,
            failures: 0,
            has_collapsed: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_scores_next_to_the_loss_of_their_part() {
        let json = serde_json::to_value(testing::record(3)).unwrap();
        assert_eq!(json["validation"], serde_json::json!({"loss": 0.25, "accuracy": 0.75}));
        assert_eq!((&json["epoch"], &json["test"]), (&3.into(), &serde_json::Value::Null));
        assert_eq!(json["forward"]["stopped"], "converged");
        assert_eq!(testing::record(1).seconds.total(), 0.75);
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let mut record = testing::record(3);
        record.layers =
            vec![LayerRecord { solves: 2, forward: record.forward.unwrap(), adjoint: None }];
        record.weight_radius = 0.1 + 0.2;
        record.seconds.update = 1e-7 / 3.0;
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<EpochRecord>(&text).unwrap(), record);
        // What JSON cannot hold becomes null and then NaN, also among the scores.
        (record.loss, record.contraction, record.adjoint) = (f64::NAN, f64::NAN, None);
        record.test = Some(PartRecord {
            loss: f64::NAN,
            scores: BTreeMap::from([("accuracy".to_string(), f64::NAN)]),
        });
        let text = serde_json::to_string(&record).unwrap();
        let read: EpochRecord = serde_json::from_str(&text).unwrap();
        assert_eq!(format!("{read:?}"), format!("{record:?}"));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn a_record_from_before_relative_errors_is_readable() {
        let mut json = serde_json::to_value(testing::record(3)).unwrap();
        json["forward"]["certified_error"] = serde_json::json!({"largest": 49.0, "rounding": 0.5});
        json["forward"].as_object_mut().unwrap().remove("estimated_error");
        let read: EpochRecord = serde_json::from_value(json).unwrap();
        let solve = read.forward.unwrap();
        let bound = solve.certified_error.unwrap();
        assert_eq!((bound.largest, bound.at_least, solve.estimated_error), (49.0, 0.0, None));
        assert!(bound.relative.is_nan());
    }

    #[test]
    fn observers_are_called_in_order_until_one_fails() {
        struct Counts<'a>(&'a mut u32, bool);
        impl Observer for Counts<'_> {
            fn epoch(&mut self, record: &EpochRecord) -> Result<()> {
                *self.0 += record.epoch as u32;
                let full = || std::io::Error::other("full");
                if self.1 {
                    Err(ignn_format::FormatError::io("write", "x")(full()))
                } else {
                    Ok(())
                }
            }
        }
        let (mut a, mut b, mut c) = (0, 0, 0);
        let mut all: Vec<Box<dyn Observer>> = vec![
            Box::new(Counts(&mut a, false)),
            Box::new(Counts(&mut b, true)),
            Box::new(Counts(&mut c, false)),
        ];
        assert!(all.epoch(&testing::record(2)).is_err());
        all.note("nothing").unwrap();
        drop(all);
        assert_eq!((a, b, c), (2, 2, 0));
    }
}
