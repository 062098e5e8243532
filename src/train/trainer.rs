//! The loop: solve, evaluate, differentiate, step, project; one record an epoch.
//! It knows when a model is better and when to stop; it prints nothing and writes nothing but through its caller.
//!
//! Epoch e speaks of the model after e steps: epoch 0 of the first values, the last one of the last. One forward solve serves
//! both the evaluation (without dropout) and the step that follows:
//!
//! ```text
//! solve X -> evaluate the parts, keep the best -> read out the training nodes with dropout -> loss
//!         -> solve G -> gradients -> clip -> step -> project W
//! ```
//!
//! The same seed gives the same bits, whatever the number of threads, and whether or not the run was interrupted: random
//! numbers are functions of seed, epoch and place, and a checkpoint holds all the rest.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ignn_format::labels::{LabelKind, Labels};

use super::record::{EpochRecord, Observer, PartRecord, PhaseSeconds};
use super::settings::{clip, decay, method, monitor, schedule};
use super::{Task, TrainError};
use crate::config::{ClassWeights, GradientKind, IgnnConfig, OnFailure};
use crate::dense::Matrix;
use crate::metrics::Metric;
use crate::models::{Ignn, Model, Pass};
use crate::nn::{Backward, Loss, Operators, balanced_weights};
use crate::optim::Optimiser;
use crate::solver::SolveInfo;

/// The best model so far, by the monitored metric on the validation part.
#[derive(Clone, Debug)]
pub struct Best {
    /// Its epoch.
    pub epoch: u64,
    /// The metric's value.
    pub value: f64,
    /// The validation loss, which decides between equal values.
    pub loss: f64,
    /// Its parameters, in the model's order.
    pub values: Vec<Matrix>,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All epochs are done.
    Epochs,
    /// The validation metric did not get better for `train.stop_after` epochs.
    Patience,
    /// It was asked to stop; a checkpoint lets it go on.
    Stopped,
}

/// A run in memory.
pub struct Trainer<'g> {
    pub(super) config: IgnnConfig,
    pub(super) task: &'g Task,
    pub(super) model: Ignn<'g>,
    pub(super) optimiser: Optimiser,
    pub(super) best: Option<Best>,
    /// Of the model at hand: steps made.
    pub(super) epoch: u64,
    /// Solves without convergence.
    pub(super) failures: u64,
    loss: Loss,
    monitor: Metric,
    train: Pass,
    /// The parts that are evaluated, by name; none is empty.
    evaluated: Vec<(&'static str, Pass)>,
}

impl<'g> Trainer<'g> {
    /// A run before its first epoch.
    pub fn new(task: &'g Task, operators: &'g Operators<'g>, config: IgnnConfig) -> Result<Self, TrainError> {
        let monitor = monitor(task.labels(), config.train.monitor)?;
        let classes = task.labels().classes().len();
        let features = task.features()?;
        let seed = config.train.seed;
        let mut model = Ignn::new(operators, features, &config.model, classes, seed, true)?;
        let weights = match config.train.class_weights {
            ClassWeights::None => None,
            ClassWeights::Balanced => Some(balanced_weights(&task.parts().train, task.targets(), classes)),
        };
        let mut train = model.pass(task.parts().train.clone());
        train.by_logits = Matrix::zeros(train.nodes().len(), classes);
        let parts = task.parts();
        let parts = [("train", &parts.train), ("validation", &parts.validation), ("test", &parts.test)];
        let filled = parts.into_iter().filter(|(_, nodes)| !nodes.is_empty());
        let evaluated = filled.map(|(name, nodes)| (name, model.pass(nodes.clone()))).collect();
        let optimiser = Optimiser::new(method(&config), decay(&config), model.parameters_mut())?;
        let loss = Loss { kind: task.loss(), class_weights: weights };
        Ok(Self {
            config,
            task,
            model,
            optimiser,
            best: None,
            epoch: 0,
            failures: 0,
            loss,
            monitor,
            train,
            evaluated,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &IgnnConfig {
        &self.config
    }

    /// The model at hand.
    pub fn model(&self) -> &Ignn<'g> {
        &self.model
    }

    /// The model at hand, to give it other first values.
    pub fn model_mut(&mut self) -> &mut Ignn<'g> {
        &mut self.model
    }

    /// The best so far; none where there are no validation nodes.
    pub fn best(&self) -> Option<&Best> {
        self.best.as_ref()
    }

    /// What the best is judged by.
    pub fn monitor(&self) -> Metric {
        self.monitor
    }

    /// Epoch of the model at hand.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Solves without convergence so far.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Trains to the end, until patience runs out, or until `stop` is set. `after` is called after every epoch but the
    /// last: for checkpoints.
    pub fn run(
        &mut self,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
        mut after: impl FnMut(&Self) -> Result<(), TrainError>,
    ) -> Result<Ended, TrainError> {
        // A run that ran out of patience does so again.
        if self.epoch.checked_sub(1).is_some_and(|last| self.is_out_of_patience(last)) {
            return Ok(Ended::Patience);
        }
        loop {
            let record = self.advance()?;
            observer.epoch(&record)?;
            self.heed_failures(&record, observer)?;
            let is_last = record.epoch >= self.config.train.epochs;
            if is_last {
                return Ok(Ended::Epochs);
            }
            if self.is_out_of_patience(record.epoch) {
                return Ok(Ended::Patience);
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Ended::Stopped);
            }
            after(self)?;
        }
    }

    fn is_out_of_patience(&self, epoch: u64) -> bool {
        let patience = self.config.train.stop_after;
        let since = self.best.as_ref().map_or(0, |best| epoch.saturating_sub(best.epoch));
        patience > 0 && since >= patience
    }

    /// One epoch: the record of the model at hand, and a step, but after the last epoch.
    pub fn advance(&mut self) -> Result<EpochRecord, TrainError> {
        let epoch = self.epoch;
        let mut seconds = PhaseSeconds::default();
        if !self.config.solver.warm_start {
            self.model.layer_mut().reset();
        }
        let clock = Instant::now();
        let forward = self.model.solve(&self.config.forward());
        let forward = forward.map_err(|source| TrainError::Solve { epoch, source })?;
        self.failures += u64::from(!forward.converged);
        seconds.forward = clock.elapsed().as_secs_f64();

        let clock = Instant::now();
        let is_last = epoch >= self.config.train.epochs;
        let is_evaluated = is_last || epoch.is_multiple_of(self.config.train.evaluate_every.max(1));
        let mut parts = if is_evaluated { self.evaluate() } else { BTreeMap::new() };
        self.note_best(&parts);
        seconds.evaluation = clock.elapsed().as_secs_f64();
        let posedness = self.model.posedness();
        let mut record = EpochRecord {
            epoch,
            loss: f64::NAN,
            train: parts.remove("train"),
            validation: parts.remove("validation"),
            test: parts.remove("test"),
            forward,
            adjoint: None,
            contraction: forward.contraction.unwrap_or(posedness.by_eigenvalue),
            weight_radius: posedness.omega,
            gradient_norm: f64::NAN,
            learning_rate: 0.0,
            seconds,
            nodes_per_second: 0.0,
            edges_per_second: 0.0,
            failures: self.failures,
        };
        if !is_last {
            self.step(&mut record)?;
        }
        let solves = [Some(record.forward), record.adjoint];
        let sweeps: usize = solves.iter().flatten().map(|solve| solve.sweeps).sum();
        let time: f64 = solves.iter().flatten().map(|solve| solve.seconds).sum();
        let rate = |count: usize| count as f64 * sweeps as f64 / time.max(1e-9);
        record.nodes_per_second = rate(self.model.operators().nodes());
        record.edges_per_second = rate(self.model.operators().nonzeros());
        record.failures = self.failures;
        Ok(record)
    }

    /// Loss, adjoint, gradients, step and projection: the model becomes that of the next epoch.
    fn step(&mut self, record: &mut EpochRecord) -> Result<(), TrainError> {
        let epoch = self.epoch;
        let clock = Instant::now();
        self.model.read_out(&mut self.train, Some(epoch));
        let Pass { logits, by_logits, .. } = &mut self.train;
        let targets = self.task.targets();
        let nodes = &self.task.parts().train;
        record.loss = self.loss.evaluate(logits.view(), nodes, targets, Some(by_logits.view_mut()));
        let backward = match self.config.solver.gradient {
            GradientKind::Exact => Backward::Exact,
            GradientKind::JacobianFree => Backward::Truncated { steps: 1, damping: 1.0 },
            GradientKind::Phantom => Backward::Truncated {
                steps: self.config.solver.phantom_steps,
                damping: self.config.solver.phantom_damping as f32,
            },
        };
        let adjoint = self.model.backward(&mut self.train, epoch, backward, &self.config.adjoint());
        let adjoint = adjoint.map_err(|source| TrainError::Solve { epoch, source })?;
        self.failures += u64::from(backward == Backward::Exact && !adjoint.converged);
        record.seconds.adjoint = adjoint.seconds;
        record.seconds.gradients = clock.elapsed().as_secs_f64() - adjoint.seconds;
        record.adjoint = Some(adjoint);

        let clock = Instant::now();
        let clipped = clip(&self.config).apply(self.model.parameters_mut());
        record.gradient_norm = clipped.map_err(|source| TrainError::Gradient { epoch, source })?;
        let optim = &self.config.optim;
        let epochs = self.config.train.epochs as usize;
        record.learning_rate = schedule(&self.config).rate(optim.learning_rate, epoch as usize, epochs);
        self.optimiser.step(self.model.parameters_mut(), record.learning_rate);
        self.model.project().map_err(|source| TrainError::Projection { epoch, source })?;
        record.seconds.update = clock.elapsed().as_secs_f64();
        self.epoch += 1;
        Ok(())
    }

    /// Loss and scores of every part, without dropout.
    fn evaluate(&mut self) -> BTreeMap<&'static str, PartRecord> {
        let mut parts = BTreeMap::new();
        for (name, pass) in &mut self.evaluated {
            self.model.read_out(pass, None);
            let (logits, nodes) = (pass.logits.view(), pass.nodes());
            let loss = self.loss.evaluate(logits, nodes, self.task.targets(), None);
            let scores = self.task.scores(logits, nodes);
            let named = Metric::ALL.into_iter().filter(|metric| *metric != Metric::Loss);
            let scores = named.filter_map(|metric| Some((metric.name().into(), metric.of(&scores, loss)?)));
            parts.insert(*name, PartRecord { loss, scores: scores.collect() });
        }
        parts
    }

    /// Keeps the parameters where the validation part is better than ever.
    fn note_best(&mut self, parts: &BTreeMap<&'static str, PartRecord>) {
        let Some(part) = parts.get("validation") else { return };
        let value = match self.monitor {
            Metric::Loss => part.loss,
            metric => part.scores.get(metric.name()).copied().unwrap_or(f64::NAN),
        };
        let is_better = self.best.as_ref().is_none_or(|best| {
            self.monitor.is_better(value, best.value) || (value == best.value && part.loss < best.loss)
        });
        if !is_better {
            return;
        }
        let parameters = self.model.parameters();
        match &mut self.best {
            // Into the memory that is there.
            Some(best) => {
                (best.epoch, best.value, best.loss) = (self.epoch, value, part.loss);
                for (kept, parameter) in best.values.iter_mut().zip(parameters) {
                    kept.view_mut().padded_mut().copy_from_slice(parameter.value.view().padded());
                }
            }
            None => {
                let values = parameters.iter().map(|parameter| parameter.value.clone()).collect();
                self.best = Some(Best { epoch: self.epoch, value, loss: part.loss, values });
            }
        }
    }

    fn heed_failures(&self, record: &EpochRecord, observer: &mut dyn Observer) -> Result<(), TrainError> {
        let is_exact = self.config.solver.gradient == GradientKind::Exact;
        let adjoint = record.adjoint.filter(|_| is_exact);
        for (direction, solve) in [("forward", Some(record.forward)), ("adjoint", adjoint)] {
            let Some(SolveInfo { converged: false, sweeps, relative_residual, .. }) = solve else { continue };
            if self.config.solver.on_failure == OnFailure::Stop {
                return Err(TrainError::NotConverged {
                    epoch: record.epoch,
                    direction,
                    residual: relative_residual,
                    sweeps,
                });
            }
            observer.note(&format!(
                "epoch {}: the {direction} solve did not converge: residual {relative_residual:.1e} after {sweeps} sweeps",
                record.epoch
            ))?;
        }
        Ok(())
    }

    /// The best model, or the one at hand where nothing was chosen; to be written or put on a graph.
    pub fn finished(&self) -> Model {
        let slots = self.model.slots();
        let value = |at: usize| match &self.best {
            Some(best) => best.values[at].clone(),
            None => self.model.parameters()[at].value.clone(),
        };
        let labels = match self.task.labels() {
            Labels::Single { .. } => LabelKind::Single,
            Labels::Multi { .. } => LabelKind::Multi,
        };
        Model {
            config: self.config.clone(),
            classes: self.task.labels().classes().to_vec(),
            labels,
            dataset: self.task.dataset().manifest().checksum(),
            values: slots.into_iter().enumerate().map(|(at, slot)| (slot, value(at))).collect(),
        }
    }
}
