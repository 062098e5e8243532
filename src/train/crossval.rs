//! Cross-validation over the items of a dataset, which are graphs or nodes: the training of one fold,
//! and the summary of all. `folds` draws the folds; `run` schedules them and keeps their results.
//!
//! | protocol | epoch of a fold |
//! | --- | --- |
//! | validation | the best on the fold's validation part: the fair figure |
//! | mean curve | the one epoch with the best mean test score over all folds (GIN paper) |
//! | best of each | the best on the fold's own test part (published IGNN code) |
//!
//! The last two select on the test parts: they are for comparison with papers only. Deviations are
//! sample standard deviations (n - 1). The score is that of [`metric`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::svm_readout::{SvmRecord, SvmSearch};
use super::{Ended, EpochRecord, Observer, PartRecord, Parts, Task, TrainError, Trainer, memory};
use crate::config::Config;
use crate::graph::{Graph, Labels};
use crate::metrics::{MeanDeviation, Metric};
use crate::models::Model;
use crate::nn::svm::Gram;

/// The score of folds: accuracy of classes, micro-F1 of sets of classes, R2 of numbers.
pub fn metric(labels: &Labels) -> Metric {
    match labels {
        Labels::Single { .. } => Metric::Accuracy,
        Labels::Multi { .. } => Metric::MicroF1,
        Labels::Number { .. } => Metric::R2,
    }
}

/// Further scores of numbers, which have a unit.
const OF_NUMBERS: [Metric; 2] = [Metric::Rmse, Metric::Mae];

/// The scores of a fold in one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The epoch; 0 is the untrained model.
    pub epoch: u64,
    /// On the validation part.
    pub validation: f64,
    /// On the test part.
    pub test: f64,
}

/// A finished fold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoldRecord {
    /// From 0.
    pub fold: usize,
    /// Number of items, graphs or nodes, for training, validation and test.
    #[serde(rename = "graphs")]
    pub items: [usize; 3],
    /// The epoch chosen on the validation part.
    pub chosen: Point,
    /// All epochs that were evaluated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curve: Vec<Point>,
    /// RMSE and MAE of the test part in the chosen epoch, by their names; empty for classes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, f64>,
    /// The support vector machine on the embeddings of the chosen epoch, if one was trained.
    pub svm: Option<SvmRecord>,
    /// Forward and adjoint sweeps per epoch.
    pub sweeps: [f64; 2],
    /// Solves that did not converge.
    pub failures: u64,
    /// Whether every solve of the last evaluation converged.
    pub converged: bool,
    /// Wall time.
    pub seconds: f64,
}

impl FoldRecord {
    /// The highest score on the test part, of any epoch.
    pub fn best_test(&self) -> f64 {
        self.curve.iter().map(|point| point.test).fold(self.chosen.test, f64::max)
    }
}

/// Mean test score over the finished folds, by each protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of finished folds.
    pub folds: usize,
    /// Each fold at the epoch chosen on its validation part.
    pub validation: MeanDeviation,
    /// The best epoch of the mean test curve.
    pub mean_curve: MeanDeviation,
    /// That epoch.
    pub mean_curve_epoch: u64,
    /// Each fold at the epoch that is best on its test part.
    pub best_of_each: MeanDeviation,
    /// RMSE and MAE at the epochs chosen on validation; empty for classes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<String, MeanDeviation>,
    /// The support vector machines, if they were trained.
    pub svm: Option<MeanDeviation>,
}

/// How the folds are trained.
pub struct FoldTraining<'a> {
    /// The dataset.
    pub dataset: &'a Graph,
    /// The configuration; its split is ignored.
    pub config: &'a Config,
    /// The support vector machine to train on the embeddings, if any.
    pub svm: Option<SvmSearch>,
    /// Memory in bytes that a fold may take.
    pub memory: u64,
}

/// How the training of a fold ended.
pub enum FoldOutcome {
    /// All epochs are complete, or early stopping.
    Finished(Box<FoldRecord>, Box<Model>),
    /// Asked to stop.
    Stopped,
}

impl FoldTraining<'_> {
    /// Trains a fold to its end, or until `stop` is set.
    pub fn train(
        &self,
        fold: usize,
        parts: Parts,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<FoldOutcome, TrainError> {
        let clock = Instant::now();
        let items = parts.lengths();
        let task = Arc::new(Task::with_parts(self.dataset.clone(), self.config, Some(parts))?);
        let needed = memory::check(&task, self.config, self.memory)?;
        if self.svm.is_some() {
            if task.graphs().is_none() || metric(task.labels()) != Metric::Accuracy {
                return Err(TrainError::NoMachine);
            }
            let all = items.iter().sum::<usize>() as u64;
            let needed = needed.saturating_add(Gram::bytes(all));
            if needed > self.memory {
                let hint = format!(
                    "the support vector machine compares all pairs of {all} graphs: use --readout \
                     model, or raise --memory"
                );
                return Err(TrainError::Memory { needed, allowed: self.memory, hint });
            }
        }
        let mut trainer = Trainer::with_task(Arc::clone(&task), self.config.clone())?;
        let mut curve = Curve {
            observer,
            metric: metric(task.labels()),
            points: Vec::new(),
            errors: HashMap::new(),
            sweeps: [0, 0],
            epochs: 0,
            converged: true,
        };
        let ended = trainer.run(&mut curve, stop, |_| Ok(()))?;
        if ended == Ended::Stopped {
            return Ok(FoldOutcome::Stopped);
        }
        let Curve { points, mut errors, sweeps, epochs, converged, .. } = curve;
        let best = trainer.best().map(|best| best.score.epoch);
        let chosen =
            points.iter().find(|point| Some(point.epoch) == best).or(points.last()).copied();
        let svm = match &self.svm {
            Some(search) => Some(search.train_on_embeddings(&task, &mut trainer)?),
            None => None,
        };
        let each = |sweeps: u64| sweeps as f64 / f64::from(epochs.max(1));
        let record = FoldRecord {
            fold,
            items,
            errors: chosen.and_then(|point| errors.remove(&point.epoch)).unwrap_or_default(),
            chosen: chosen.unwrap_or(Point { epoch: 0, validation: f64::NAN, test: f64::NAN }),
            curve: points,
            svm,
            sweeps: sweeps.map(each),
            failures: trainer.failures(),
            converged,
            seconds: clock.elapsed().as_secs_f64(),
        };
        Ok(FoldOutcome::Finished(record.into(), trainer.into_best_model().into()))
    }
}

/// Keeps the scores of every epoch and passes the record on.
struct Curve<'a> {
    observer: &'a mut dyn Observer,
    metric: Metric,
    points: Vec<Point>,
    /// Those of [`OF_NUMBERS`] on the test part, by epoch.
    errors: HashMap<u64, BTreeMap<String, f64>>,
    sweeps: [u64; 2],
    epochs: u32,
    converged: bool,
}

impl Observer for Curve<'_> {
    fn start(&mut self, monitor: Metric) -> ignn_format::Result<()> {
        self.observer.start(monitor)
    }

    fn epoch(&mut self, record: &EpochRecord) -> ignn_format::Result<()> {
        let name = self.metric.name();
        let score = |part: &PartRecord| part.scores.get(name).copied();
        if let (Some(validation), Some(test)) =
            (record.validation.as_ref().and_then(score), record.test.as_ref().and_then(score))
        {
            self.points.push(Point { epoch: record.epoch, validation, test });
        }
        if let (Metric::R2, Some(test)) = (self.metric, &record.test) {
            let error = |metric: Metric| {
                Some((metric.name().to_string(), *test.scores.get(metric.name())?))
            };
            self.errors.insert(record.epoch, OF_NUMBERS.into_iter().filter_map(error).collect());
        }
        let adjoint = record.adjoint.map_or(0, |solve| solve.sweeps);
        self.sweeps[0] += record.forward.map_or(0, |solve| solve.sweeps as u64);
        self.sweeps[1] += adjoint as u64;
        self.epochs += 1;
        self.converged = record.has_converged();
        self.observer.epoch(record)
    }

    fn note(&mut self, text: &str) -> ignn_format::Result<()> {
        self.observer.note(text)
    }
}

impl Summary {
    /// The summary of these folds; `None` without any.
    pub fn of(folds: &[FoldRecord]) -> Option<Self> {
        let first = folds.first()?;
        // Folds that stopped early have shorter curves: only epochs that all folds have are
        // compared.
        let by_epoch = |fold: &FoldRecord| -> HashMap<u64, f64> {
            // In reverse, so that the first point of an epoch wins.
            fold.curve.iter().rev().map(|point| (point.epoch, point.test)).collect()
        };
        let curves: Vec<_> = folds.iter().map(by_epoch).collect();
        let all = |epoch: u64| {
            curves.iter().map(|curve| curve.get(&epoch).copied()).collect::<Option<Vec<f64>>>()
        };
        let mut best: Option<(u64, MeanDeviation)> = None;
        for point in &first.curve {
            let Some(values) = all(point.epoch) else { continue };
            let mean = MeanDeviation::of(&values);
            if best.is_none_or(|(_, best)| mean.mean > best.mean) {
                best = Some((point.epoch, mean));
            }
        }
        let chosen: Vec<f64> = folds.iter().map(|fold| fold.chosen.test).collect();
        let svm: Option<Vec<f64>> =
            folds.iter().map(|fold| fold.svm.as_ref().map(|svm| svm.test)).collect();
        let (mean_curve_epoch, mean_curve) = best?;
        Some(Self {
            folds: folds.len(),
            validation: MeanDeviation::of(&chosen),
            mean_curve,
            mean_curve_epoch,
            best_of_each: MeanDeviation::of(
                &folds.iter().map(FoldRecord::best_test).collect::<Vec<_>>(),
            ),
            errors: OF_NUMBERS
                .into_iter()
                .filter_map(|metric| {
                    let of_fold = |fold: &FoldRecord| fold.errors.get(metric.name()).copied();
                    let values: Option<Vec<f64>> = folds.iter().map(of_fold).collect();
                    Some((metric.name().to_string(), MeanDeviation::of(&values?)))
                })
                .collect(),
            svm: svm.map(|values| MeanDeviation::of(&values)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(number: usize, chosen: usize, tests: &[f64]) -> FoldRecord {
        let point =
            |(epoch, &test): (usize, &f64)| Point { epoch: epoch as u64, validation: 0.5, test };
        let curve: Vec<Point> = tests.iter().enumerate().map(point).collect();
        FoldRecord {
            fold: number,
            items: [8, 1, 1],
            chosen: curve[chosen],
            curve,
            errors: BTreeMap::new(),
            svm: None,
            sweeps: [1.0, 1.0],
            failures: 0,
            converged: true,
            seconds: 1.0,
        }
    }

    #[test]
    fn protocols_choose_by_their_rules() {
        let folds = [fold(0, 1, &[0.5, 0.6, 0.9]), fold(1, 2, &[0.5, 0.8, 0.4, 1.0])];
        let summary = Summary::of(&folds).unwrap();
        assert!((summary.validation.mean - 0.5).abs() < 1e-12, "0.6 and 0.4");
        assert!((summary.validation.deviation - 0.02f64.sqrt()).abs() < 1e-12);
        assert_eq!(
            summary.mean_curve_epoch, 1,
            "0.5, 0.7, 0.65; the fourth epoch is of one fold only"
        );
        assert!((summary.mean_curve.mean - 0.7).abs() < 1e-12);
        assert!((summary.best_of_each.mean - 0.95).abs() < 1e-12);
        assert_eq!((summary.svm, summary.errors), (None, BTreeMap::new()));
        assert_eq!(Summary::of(&[]), None);
        // R2 may be below 0.
        let folds = [fold(0, 0, &[-3.0, -2.0]), fold(1, 0, &[-1.0, -2.0])];
        assert_eq!(Summary::of(&folds).unwrap().best_of_each.mean, -1.5);
    }
}
