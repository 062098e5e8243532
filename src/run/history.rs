//! An observer that reduces the records of a run to its figures. A resumed run starts it with the
//! records in its file.

use ignn_format::Result;

use super::summary::{BestTestEpoch, ChosenEpoch, Figures, SweepsPerEpoch};
use crate::metrics::Metric;
use crate::solver::SolveInfo;
use crate::train::{Ended, EpochRecord, EpochScore, Observer, PartRecord, Trainer};

/// What is kept of the records.
pub struct History {
    monitor: Metric,
    chosen: Option<Chosen>,
    best_test: Option<BestTestEpoch>,
    last: Option<EpochRecord>,
    forward_sweeps: u64,
    adjoint_sweeps: u64,
    records: u64,
    seconds: f64,
}

/// The epoch that is best on the validation part.
struct Chosen {
    score: EpochScore,
    test: Option<PartRecord>,
    has_converged: bool,
}

impl History {
    /// A history of the records so far.
    pub fn new(monitor: Metric, records: Vec<EpochRecord>) -> Self {
        let mut history = Self {
            monitor,
            chosen: None,
            best_test: None,
            last: None,
            forward_sweeps: 0,
            adjoint_sweeps: 0,
            records: 0,
            seconds: 0.0,
        };
        records.into_iter().for_each(|record| history.add(record));
        history
    }

    fn add(&mut self, record: EpochRecord) {
        let EpochRecord { epoch, validation, test, .. } = &record;
        if let Some(test) = test {
            let value = test.value(self.monitor);
            let best = self.best_test.as_ref();
            if best.is_none_or(|best| self.monitor.is_better(value, best.value)) {
                self.best_test = Some(BestTestEpoch { epoch: *epoch, value, test: test.clone() });
            }
        }
        if let Some(validation) = validation
            && let Some(score) = EpochScore::new(self.monitor, *epoch, validation)
        {
            let chosen = self.chosen.as_ref();
            if chosen.is_none_or(|chosen| score.is_better_than(&chosen.score, self.monitor)) {
                let has_converged = record.has_converged();
                self.chosen = Some(Chosen { score, test: test.clone(), has_converged });
            }
        }
        let sweeps = |solve: Option<SolveInfo>| solve.map_or(0, |solve| solve.sweeps as u64);
        self.forward_sweeps = self.forward_sweeps.saturating_add(sweeps(record.forward));
        self.adjoint_sweeps = self.adjoint_sweeps.saturating_add(sweeps(record.adjoint));
        self.seconds += record.seconds.total();
        self.records += 1;
        self.last = Some(record);
    }

    /// Whether the solve of the epoch whose model is kept converged: the chosen one, or the last
    /// one where there is no validation part.
    pub fn has_converged(&self) -> bool {
        match &self.chosen {
            Some(chosen) => chosen.has_converged,
            None => self.last.as_ref().is_none_or(EpochRecord::has_converged),
        }
    }

    /// The figures at the end of a session.
    pub fn into_figures(
        self,
        trainer: &Trainer,
        ended: Ended,
        seconds: f64,
        estimated_bytes: u64,
    ) -> Figures {
        let per_epoch = |total: f64| total / self.records.max(1) as f64;
        let chosen = self.chosen.map(|Chosen { score, test, .. }| ChosenEpoch {
            epoch: score.epoch,
            validation: score.value,
            test,
        });
        Figures {
            seed: trainer.config().train.seed,
            ended,
            epochs: trainer.epoch(),
            monitor: self.monitor,
            chosen_on_validation: chosen,
            best_on_test: self.best_test,
            last: self.last,
            sweeps_per_epoch: SweepsPerEpoch {
                forward: per_epoch(self.forward_sweeps as f64),
                adjoint: per_epoch(self.adjoint_sweeps as f64),
            },
            failures: trainer.failures(),
            seconds,
            seconds_per_epoch: per_epoch(self.seconds),
            estimated_bytes,
        }
    }
}

impl Observer for History {
    fn epoch(&mut self, record: &EpochRecord) -> Result<()> {
        self.add(record.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::testing::record;

    fn with_scores(epoch: u64, validation: f64, test: f64) -> EpochRecord {
        let mut record = record(epoch);
        record.test = record.validation.clone();
        let set = |part: &mut Option<PartRecord>, value| {
            part.as_mut().unwrap().scores.insert("accuracy".into(), value);
        };
        set(&mut record.validation, validation);
        set(&mut record.test, test);
        record
    }

    #[test]
    fn the_chosen_epoch_and_the_best_on_test_are_the_first_best() {
        let scores = [(0.5, 0.9), (0.7, 0.6), (0.7, 0.8), (0.6, 0.9)];
        let records: Vec<_> =
            (0..).zip(scores).map(|(at, (val, test))| with_scores(at, val, test)).collect();
        let history = History::new(Metric::Accuracy, records);
        let (chosen, best) = (history.chosen.unwrap(), history.best_test.unwrap());
        assert_eq!((chosen.score.epoch, chosen.score.value), (1, 0.7));
        assert_eq!((best.epoch, best.value), (0, 0.9));
        assert_eq!(chosen.test.unwrap().value(Metric::Accuracy), 0.6);
        assert_eq!((history.forward_sweeps, history.adjoint_sweeps, history.records), (48, 36, 4));
    }

    #[test]
    fn a_smaller_loss_decides_between_equal_scores() {
        let mut later = with_scores(1, 0.7, 0.1);
        later.validation.as_mut().unwrap().loss = 0.2;
        let records = vec![with_scores(0, 0.7, 0.2), later];
        let history = History::new(Metric::Accuracy, records);
        assert_eq!(history.chosen.unwrap().score.epoch, 1);
    }

    #[test]
    fn convergence_is_that_of_the_epoch_that_is_kept() {
        let mut failed = with_scores(1, 0.1, 0.1);
        let solve = failed.forward.as_mut().unwrap();
        (solve.converged, solve.stopped) = (false, crate::solver::Stopped::MaxSweeps);
        let history = |records: &[EpochRecord]| History::new(Metric::Accuracy, records.to_vec());
        assert!(history(&[with_scores(0, 0.7, 0.2), failed.clone()]).has_converged());
        assert!(!history(&[failed.clone()]).has_converged());
        failed.validation = None;
        assert!(!history(&[record(0), failed.clone()]).last.unwrap().has_converged());
        assert!(!history(&[failed]).has_converged());
    }
}
