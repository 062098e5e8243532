//! What the trainer tells of every epoch, and to whom.
//! Plain data for observers: files, terminals and plots are theirs, and so is what is shown of it.
//!
//! As JSON (see `report::json_lines`) a record is one object; scores stand beside the loss of their
//! part: `{"epoch":3,"loss":0.4,"train":{"loss":0.4,"accuracy":0.9},"validation":null,...}`. A
//! number that is not finite becomes null.

use std::collections::BTreeMap;

use ignn_format::Result;
use serde::Serialize;

use crate::solver::fixed_point::SolveInfo;

/// One epoch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EpochRecord {
    /// From 1; 0 is the model before its first step.
    pub epoch: u64,
    /// The training loss that the step was made for, dropout included.
    pub loss: f64,
    /// The evaluation on the training part, where this epoch had one.
    pub train: Option<PartRecord>,
    /// The evaluation on the validation part.
    pub validation: Option<PartRecord>,
    /// The evaluation on the test part.
    pub test: Option<PartRecord>,
    /// The solve of the equilibrium; of several layers or batches all together, see
    /// [`SolveInfo::together`]. None for models without one.
    pub forward: Option<SolveInfo>,
    /// The solve of the adjoint; none for the gradients without one.
    pub adjoint: Option<SolveInfo>,
    /// Layer by layer, where there are several layers or batches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerRecord>,
    /// The contraction bound q, whether or not it is below 1; the largest of the layers. Not a
    /// number without an equilibrium.
    pub contraction: f64,
    /// The upper bound of lambda(|W|), the spectral radius; the largest of the layers. Likewise.
    pub weight_radius: f64,
    /// Norm of all gradients together, before clipping.
    pub gradient_norm: f64,
    /// The learning rate of the step.
    pub learning_rate: f64,
    /// Where the time went.
    pub seconds: PhaseSeconds,
    /// Nodes times sweeps, forward and adjoint, a second of those solves.
    pub nodes_per_second: f64,
    /// Edges times sweeps, forward and adjoint, a second of those solves.
    pub edges_per_second: f64,
    /// Solves without convergence since the run began.
    pub failures: u64,
}

/// The solves of one layer in an epoch's steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LayerRecord {
    /// How many there were, one a step.
    pub solves: usize,
    /// The forward ones together.
    pub forward: SolveInfo,
    /// The adjoint ones.
    pub adjoint: Option<SolveInfo>,
}

/// An evaluation on one part of the split.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PartRecord {
    /// Mean loss, without dropout.
    pub loss: f64,
    /// Scores by name: those of [`crate::metrics::Metric`]. None is named "loss".
    #[serde(flatten)]
    pub scores: BTreeMap<String, f64>,
}

/// Wall time by phase of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PhaseSeconds {
    /// Solving the equilibrium.
    pub forward: f64,
    /// Solving the adjoint.
    pub adjoint: f64,
    /// Gradients of the parameters from it.
    pub gradients: f64,
    /// The step and the projection.
    pub update: f64,
    /// Losses and scores of the parts.
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

    /// All phases together.
    pub fn total(&self) -> f64 {
        self.named().iter().map(|(_, seconds)| seconds).sum()
    }
}

impl EpochRecord {
    /// The parts that were evaluated, with their names.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &PartRecord)> {
        let parts =
            [("train", &self.train), ("validation", &self.validation), ("test", &self.test)];
        parts.into_iter().filter_map(|(name, part)| Some((name, part.as_ref()?)))
    }
}

/// Somebody who is told how training goes. An error of one ends the run: a full disk is not to be
/// found out at the end.
pub trait Observer {
    /// After every epoch.
    fn epoch(&mut self, record: &EpochRecord) -> Result<()>;

    /// Something to say in words: a solve without convergence, a checkpoint, an early stop.
    fn note(&mut self, _text: &str) -> Result<()> {
        Ok(())
    }
}

/// Nobody.
impl Observer for () {
    fn epoch(&mut self, _record: &EpochRecord) -> Result<()> {
        Ok(())
    }
}

/// Several, in their order.
impl Observer for Vec<Box<dyn Observer + '_>> {
    fn epoch(&mut self, record: &EpochRecord) -> Result<()> {
        self.iter_mut().try_for_each(|observer| observer.epoch(record))
    }

    fn note(&mut self, text: &str) -> Result<()> {
        self.iter_mut().try_for_each(|observer| observer.note(text))
    }
}

#[cfg(test)]
pub mod testing {
    //! A record for the tests of observers.

    use super::*;
    use crate::solver::fixed_point::Stopped;
    use crate::solver::{Choice, Used};

    /// A record with something in every field.
    pub fn record(epoch: u64) -> EpochRecord {
        let solve = SolveInfo {
            sweeps: 12,
            row_updates: 1200,
            relative_residual: 1e-6,
            contraction: Some(0.9),
            certified_error: None,
            tolerance: 1e-5,
            converged: true,
            stopped: Stopped::Converged,
            choice: Choice::asked(Used::Plain),
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
            nodes_per_second: 1e6,
            edges_per_second: 4e6,
            failures: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_stand_beside_their_loss() {
        let json = serde_json::to_value(testing::record(3)).unwrap();
        assert_eq!(json["validation"], serde_json::json!({"loss": 0.25, "accuracy": 0.75}));
        assert_eq!((&json["epoch"], &json["test"]), (&3.into(), &serde_json::Value::Null));
        assert_eq!(json["forward"]["stopped"], "converged");
        assert_eq!(testing::record(1).seconds.total(), 0.75);
    }

    #[test]
    fn several_observers_are_told_until_one_fails() {
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
