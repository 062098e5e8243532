//! The training loop: solve, evaluate, differentiate, step, project. It keeps the best model, stops
//! early, and passes one record per epoch to an observer; it prints and writes nothing.
//!
//! The record of epoch e describes the model after e steps, that of epoch 0 the initial model. One
//! forward solve serves both the evaluation, without dropout, and the step that follows it:
//!
//! ```text
//! solve X -> evaluate the parts, keep the best -> read out the training nodes with dropout -> loss
//!         -> solve G -> gradients -> clip -> step -> project W
//! ```
//!
//! The same seed gives the same bits on any number of threads, and whether or not the run was
//! interrupted: random numbers are functions of seed, epoch and position, and a checkpoint holds
//! everything else.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::best::{self, Best, EpochScore};
use super::collapse::CollapseWatch;
use super::evaluator::Evaluator;
use super::faded::FadedWatch;
use super::failures;
use super::many_graphs::{Collected, ManyGraphs};
use super::one_graph::OneGraph;
use super::record::{EpochRecord, ExchangeRecord, Observer, PartRecord, PhaseSeconds};
use super::settings::{check_ranked, learnable, monitor};
use super::solves::Solves;
use super::{Task, TrainError, label_start};
use crate::config::{Config, FeatureStart, Learn, OnCollapse};
use crate::dense::{Matrix, MatrixRef, Scratch};
use crate::graph::Graph;
use crate::metrics::Metric;
use crate::models::file::{Shared, Texts, name};
use crate::models::kinds::FeatureRule;
use crate::models::{Kind, Mode, Model, Network, PlanError, tensor};
use crate::nn::{Backward, PoolingChoice, Slot};
use crate::optim::Optimiser;
use crate::parallel::{Rows, Traffic};
use crate::solver::{GradientKind, Posedness, SolveInfo};

/// Why training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All epochs are complete.
    Epochs,
    /// Early stopping: the validation metric did not improve for `train.stop_after` epochs.
    Patience,
    /// The stop flag was set.
    Stopped,
    /// Training has collapsed, with `train.on_collapse = "stop"`.
    Collapsed,
}

/// What [`Trainer::fit`] returns.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The model of the best epoch by the monitored metric on the validation part; the last model
    /// where there is no such part.
    pub model: Model,
    /// One record per epoch, in order; the first is about the initial values.
    pub history: Vec<EpochRecord>,
    /// Why training ended.
    pub ended: Ended,
    /// The epoch of the model; `None` where there is no validation part.
    pub best_epoch: Option<u64>,
}

/// Trains a model on a graph, in memory. Checkpoints, resuming and files of records are in
/// `ignn::run`.
///
/// ```
/// use ignn::prelude::*;
///
/// // Two rings of ten nodes; only one node of each is labelled for training.
/// let ring = |first: u32| (0..10).map(move |i| (first + i, first + (i + 1) % 10));
/// let graph = GraphBuilder::new(20)
///     .edges(ring(0).chain(ring(10)))
///     .classes(["one", "other"], (0..20).map(|node| Some(node / 10)))
///     .split([0, 10], [1, 11], (2..10).chain(12..20))
///     .build()?;
///
/// let mut config = Config::default();
/// (config.model.state, config.train.epochs) = (vec![4], 40);
/// let fit = Trainer::new(&graph, config)?.fit()?;
/// assert_eq!((fit.ended, fit.history.len()), (Ended::Epochs, 41));
/// let best = &fit.history[fit.best_epoch.expect("a validation part") as usize];
/// assert_eq!(best.validation.as_ref().map(|part| part.scores["accuracy"]), Some(1.0));
/// # Ok::<(), ignn::Error>(())
/// ```
pub struct Trainer {
    pub(super) config: Config,
    pub(super) task: Arc<Task>,
    pub(super) model: Network,
    pub(super) graphs: GraphSet,
    pub(super) optimiser: Optimiser,
    pub(super) best: Option<Best>,
    /// Number of steps taken.
    pub(super) epoch: u64,
    /// Number of solves that did not converge.
    pub(super) failures: u64,
    pub(super) collapse: CollapseWatch,
    faded: FadedWatch,
    /// Checksum of the node ids, where features are learned.
    nodes: Option<String>,
    /// Largest bound of a graph that is only evaluated, relative to that of the training graphs.
    held_out: f64,
    evaluator: Evaluator,
    monitor: Metric,
    stop: Arc<AtomicBool>,
}

/// What a step is computed on: one whole graph, or a batch of many graphs.
#[allow(clippy::large_enum_variant)] // One per run.
pub(super) enum GraphSet {
    One(OneGraph),
    Many(ManyGraphs),
}

/// The steps of an epoch.
#[derive(Default)]
pub(super) struct Steps {
    /// Mean loss over the items.
    pub loss: f64,
    /// Norm of the last gradient.
    pub gradient_norm: f64,
    pub learning_rate: f64,
    /// Scores of the training part as seen by the steps, where they saw all of it.
    pub train: Option<PartRecord>,
}

impl Trainer {
    /// Opens what training needs from the graph, and initialises a model.
    pub fn new(graph: impl Into<Graph>, config: Config) -> Result<Self, TrainError> {
        let task = Task::open(graph.into(), &config)?;
        Self::with_task(Arc::new(task), config)
    }

    /// The same on an open task, which several trainers may share.
    pub fn with_task(task: Arc<Task>, mut config: Config) -> Result<Self, TrainError> {
        config.check()?;
        let operators = task.operators()?;
        let monitor = monitor(task.labels().kind(), config.train.monitor)?;
        check_ranked(&task, monitor)?;
        learnable(&config)?;
        if !Kind::of(config.model.kind).carries_learned_features {
            (config.train.hide, config.model.init_features) = (0.0, FeatureStart::Random);
        }
        if config.train.hide > 0.0 && !task.learns_features() {
            return Err(TrainError::Hide { found: config.train.hide });
        }
        if config.train.on_collapse == OnCollapse::Restore && task.parts().validation.is_empty() {
            return Err(TrainError::NothingToRestore { path: task.graph().path().into() });
        }
        let mut held_out: f64 = 0.0;
        let (mut model, graph_set) = match task.graphs() {
            None => {
                let facts = task.facts(operators.radii().to_vec());
                let mut model = Network::new(&config.model, &facts, config.train.seed, true)?;
                if let FeatureRule::Labels = Kind::of(config.model.kind).features {
                    let known =
                        model.parameters.iter_mut().find(|parameter| parameter.name == name::E);
                    task.put_labels(&mut known.expect("a table of labels").value);
                }
                label_start::apply(&task, &config, &mut model)?;
                model.keep_rows(operators.rows());
                let one = OneGraph::new(&task, &model, operators)?;
                PlanError::check_order(&one.on, &config.forward())?;
                (model, GraphSet::One(one))
            }
            Some((graphs, parts)) => {
                let place = || task.graph().path().to_path_buf();
                let radii = operators.graph_radii(&graphs.first_node);
                let radii = radii.map_err(|source| TrainError::Graph { path: place(), source })?;
                // Only training graphs constrain the weights, never those that are evaluated.
                let largest = |radii: &Vec<f64>| {
                    parts.train.iter().map(|&graph| radii[graph as usize]).fold(0.0, f64::max)
                };
                let largest: Vec<f64> = radii.iter().map(largest).collect();
                for (radii, largest) in radii.iter().zip(&largest) {
                    let others = parts.validation.iter().chain(&parts.test);
                    let others = others.map(|&graph| radii[graph as usize]).fold(0.0, f64::max);
                    held_out = held_out.max(others / largest.max(f64::MIN_POSITIVE));
                }
                let facts = task.facts(largest);
                let mut model = Network::new(&config.model, &facts, config.train.seed, true)?;
                label_start::apply(&task, &config, &mut model)?;
                let many = ManyGraphs::new(&task, &model, operators, radii, &config)?;
                (model, GraphSet::Many(many))
            }
        };
        set_learning_rate_factors(&mut model, &config);
        let first = first_learned(&model, &config);
        let optimiser = Optimiser::new(&config.optim, &model.parameters[first..])?;
        let nodes = model.parameters.iter().any(|parameter| parameter.name == name::E);
        let nodes = nodes.then(|| task.graph().ids().map(|ids| ids.checksum())).transpose()?;
        Scratch::check_current()?;
        Ok(Self {
            nodes,
            held_out,
            evaluator: Evaluator::new(&task, &config, monitor),
            config,
            task,
            model,
            graphs: graph_set,
            optimiser,
            best: None,
            epoch: 0,
            failures: 0,
            collapse: CollapseWatch::default(),
            faded: FadedWatch::default(),
            monitor,
            stop: Arc::default(),
        })
    }

    /// Ends [`Trainer::fit`] after the epoch in which `stop` is set, from another thread or by an
    /// observer.
    pub fn with_stop(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..self }
    }

    /// Trains until all epochs are complete, or until early stopping.
    pub fn fit(&mut self) -> Result<Fit, TrainError> {
        self.fit_with(&mut ())
    }

    /// The same, with an observer that receives a record of every epoch.
    ///
    /// ```
    /// use ignn::prelude::*;
    ///
    /// /// Keeps the number of sweeps of every epoch.
    /// struct Sweeps(Vec<usize>);
    ///
    /// impl Observer for Sweeps {
    ///     fn epoch(&mut self, record: &EpochRecord) -> Result<(), ignn::FormatError> {
    ///         self.0.extend(record.forward.map(|solve| solve.sweeps));
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # let graph = GraphBuilder::new(4)
    /// #     .edges([(0, 1), (2, 3)])
    /// #     .classes(["a", "b"], (0..4).map(|node| Some(node / 2)))
    /// #     .split([0, 2], [], [1, 3])
    /// #     .build()?;
    /// # let mut config = Config::default();
    /// # (config.model.state, config.train.epochs) = (vec![4], 5);
    /// let mut sweeps = Sweeps(Vec::new());
    /// Trainer::new(&graph, config)?.fit_with(&mut sweeps)?;
    /// assert_eq!(sweeps.0.len(), 6);
    /// # Ok::<(), ignn::Error>(())
    /// ```
    pub fn fit_with(&mut self, observer: &mut dyn Observer) -> Result<Fit, TrainError> {
        let mut history = History(Vec::new());
        let mut all: Vec<Box<dyn Observer + '_>> = vec![Box::new(&mut history), Box::new(observer)];
        let stop = Arc::clone(&self.stop);
        let ended = self.run(&mut all, &stop, |_| Ok(()))?;
        drop(all);
        let best_epoch = self.best.as_ref().map(|best| best.score.epoch);
        Ok(Fit { model: self.best_model(), history: history.0, ended, best_epoch })
    }

    /// The task: the graph with its labels and split.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The current network.
    pub fn network(&self) -> &Network {
        &self.model
    }

    /// The current network, for changing its values.
    pub fn network_mut(&mut self) -> &mut Network {
        &mut self.model
    }

    /// What to know before training starts, for people.
    pub fn notes(&self) -> Vec<String> {
        let constant = (self.monitor == Metric::R2 && self.task.validation_is_constant()).then(|| {
            "train.monitor: all numbers of the validation part are equal, so that r2 is 0 for every \
             model that is not exact: the validation loss chooses the best epoch instead"
                .into()
        });
        self.held_out_note().into_iter().chain(constant).collect()
    }

    /// What to know where graphs that are only evaluated have larger bounds than the training
    /// graphs, which alone bound the weights: there, the equation may contract less than `kappa`
    /// says.
    fn held_out_note(&self) -> Option<String> {
        if self.held_out <= 1.001 || self.model.posedness(self.model.radii()).is_empty() {
            return None;
        }
        let relations = self.task.graph().manifest().relations.len();
        let kappa = self.config.model.largest_kappa(relations);
        let bound = kappa * self.held_out;
        let then = match bound < 1.0 {
            true => "solutions are still unique, but solves take more sweeps there",
            false => "where it reaches 1, solutions are not certified to be unique",
        };
        Some(format!(
            "the spectral bound of a validation or test graph is {:.4} times the largest of the \
             training graphs, which bound the weights: the contraction bound is up to {bound:.4} \
             there, above kappa = {kappa}: {then}",
            self.held_out
        ))
    }

    /// The best model so far; `None` where there is no validation part.
    pub fn best(&self) -> Option<&Best> {
        self.best.as_ref()
    }

    /// The metric that the best model is chosen by.
    pub fn monitor(&self) -> Metric {
        self.monitor
    }

    /// The current epoch: the number of steps taken.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of solves so far that did not converge.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// Trains until all epochs are complete, until early stopping, or until `stop` is set. `after`
    /// is called after every epoch but the last, to write checkpoints.
    pub fn run(
        &mut self,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
        after: impl FnMut(&Self) -> Result<(), TrainError>,
    ) -> Result<Ended, TrainError> {
        let ended = self.run_epochs(observer, stop, after);
        // First: a graph that was changed explains whatever went wrong.
        self.agree(self.task.graph().check_unchanged().map_err(TrainError::from))?;
        ended
    }

    /// A result that another rank may not have; see [`Ranks::agree`](crate::parallel::Ranks).
    fn agree<T>(&self, result: Result<T, TrainError>) -> Result<T, TrainError> {
        self.task.ranks().agree(result, TrainError::OtherRank)
    }

    fn run_epochs(
        &mut self,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
        mut after: impl FnMut(&Self) -> Result<(), TrainError>,
    ) -> Result<Ended, TrainError> {
        self.agree(observer.start(self.monitor).map_err(TrainError::from))?;
        // A run that is resumed after early stopping stops again.
        if self.epoch.checked_sub(1).is_some_and(|last| self.is_out_of_patience(last)) {
            return Ok(Ended::Patience);
        }
        let stops = self.config.train.on_collapse == OnCollapse::Stop;
        if stops && self.collapse.is_collapsed() {
            return Ok(Ended::Collapsed);
        }
        loop {
            let record = self.advance();
            // First: a disk without room explains whatever went wrong.
            Scratch::check_current()?;
            let record = record?;
            let reported = self.report(&record, observer);
            self.agree(reported)?;
            if record.has_collapsed && stops {
                return Ok(Ended::Collapsed);
            }
            let is_last = record.epoch >= self.epochs();
            if is_last {
                return Ok(Ended::Epochs);
            }
            if self.is_out_of_patience(record.epoch) {
                return Ok(Ended::Patience);
            }
            if self.task.ranks().any(stop.load(Ordering::Relaxed)) {
                return Ok(Ended::Stopped);
            }
            after(self)?;
        }
    }

    /// Passes on what is to be known of an epoch.
    fn report(
        &mut self,
        record: &EpochRecord,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        observer.epoch(record)?;
        failures::report(record, &self.config, observer)?;
        self.faded.report(self.config.model.normalise_state, observer)?;
        if record.has_collapsed {
            let best = self.best.as_ref().map(|best| best.score.epoch);
            self.collapse.report(record, &self.config, best, observer)?;
        }
        Ok(())
    }

    /// Whether all steps are taken; the last model is still to be evaluated.
    pub fn is_at_last(&self) -> bool {
        self.epoch >= self.epochs()
    }

    /// The number of epochs: one for a readout in closed form, none where nothing is learned.
    fn epochs(&self) -> u64 {
        match self.config.train.learn {
            _ if !Kind::of(self.config.model.kind).learns => 0,
            Learn::Ridge => self.config.train.epochs.min(1),
            _ => self.config.train.epochs,
        }
    }

    fn is_out_of_patience(&self, epoch: u64) -> bool {
        let patience = self.config.train.stop_after;
        let best = self.best.as_ref().map(|best| best.score.epoch.max(self.collapse.restored_at));
        let since = best.map_or(0, |best| epoch.saturating_sub(best));
        patience > 0 && since >= patience
    }

    /// One epoch: evaluates the current model, and takes its steps unless it is the last one.
    pub fn advance(&mut self) -> Result<EpochRecord, TrainError> {
        let epoch = self.epoch;
        let is_last = epoch >= self.epochs();
        let is_evaluated = is_last || epoch.is_multiple_of(self.config.train.evaluate_every.max(1));
        let (mut seconds, mut solves) = (PhaseSeconds::default(), Solves::default());
        let rows = self.task.operators()?.rows().clone();
        let before = rows.traffic();
        let mut parts = self.evaluate(is_evaluated, is_last, &mut seconds, &mut solves)?;
        if let Some((_, part)) = parts.iter().find(|(name, _)| *name == "validation")
            && let Some(score) = EpochScore::new(self.monitor, epoch, part)
        {
            best::keep(&mut self.best, score, self.monitor, &self.model);
        }
        let posedness = self.model.posedness(self.model.radii());
        let (steps, has_collapsed) = match is_last {
            true => (Steps::none(), false),
            false => {
                let evaluated = parts.iter().find(|(name, _)| *name == "train");
                let loss = evaluated.map(|(_, part)| part.loss);
                self.watched_steps(loss, &mut seconds, &mut solves)?
            }
        };
        let mut part = |wanted: &str| {
            let at = parts.iter().position(|(name, _)| *name == wanted)?;
            Some(parts.swap_remove(at).1)
        };
        let is_exact = self.config.solver.gradient == GradientKind::Exact;
        self.failures += solves.failures(is_exact);
        let (forward, adjoint) = (solves.forward(), solves.adjoint());
        // NaN where nothing is solved.
        let largest = |of: fn(&Posedness) -> f64| posedness.iter().map(of).fold(f64::NAN, f64::max);
        let contraction = forward.and_then(|solve| solve.contraction);
        let (nodes_per_second, edges_per_second) = solves.rates();
        Ok(EpochRecord {
            epoch,
            loss: steps.loss,
            train: part("train").or(steps.train),
            validation: part("validation"),
            test: part("test"),
            forward,
            adjoint,
            layers: solves.by_layer(),
            contraction: contraction.unwrap_or_else(|| largest(|layer| layer.by_eigenvalue)),
            weight_radius: largest(|layer| layer.omega),
            gradient_norm: steps.gradient_norm,
            learning_rate: steps.learning_rate,
            seconds,
            exchange: exchanged(&rows, rows.traffic().since(before)),
            nodes_per_second,
            edges_per_second,
            failures: self.failures,
            has_collapsed,
        })
    }

    /// Loss and scores of the parts, without dropout. On one graph, this includes the solve that
    /// the step starts from.
    fn evaluate(
        &mut self,
        is_evaluated: bool,
        is_last: bool,
        seconds: &mut PhaseSeconds,
        solves: &mut Solves,
    ) -> Result<Vec<(&'static str, PartRecord)>, TrainError> {
        let (clock, epoch, place) = (Instant::now(), self.epoch, self.place());
        let steps_apart = self.steps_apart();
        let Self { model, graphs, evaluator, config, .. } = self;
        let (parts, forward) = match graphs {
            GraphSet::One(_) if !is_evaluated && steps_apart => (Vec::new(), 0.0),
            GraphSet::One(one) => {
                let solved = one.solve(model, config, Mode::Evaluation);
                let solved = solved.map_err(|source| TrainError::Solve { epoch, source })?;
                let operators = one.on.operators();
                seconds.forward = clock.elapsed().as_secs_f64();
                if steps_apart && !is_last {
                    solves.evaluation.push(solved);
                } else {
                    solves.step(solved, operators.rows().all(), operators.nonzeros());
                }
                (
                    if is_evaluated { one.evaluate(model, evaluator) } else { Vec::new() },
                    seconds.forward,
                )
            }
            GraphSet::Many(many) if is_evaluated => {
                let found = many.evaluate(model, evaluator, config, is_last);
                let (parts, solved) = found.map_err(|error| error.at_epoch(epoch, place))?;
                solves.evaluation.extend(solved);
                (parts, 0.0)
            }
            GraphSet::Many(_) => (Vec::new(), 0.0),
        };
        seconds.evaluation = clock.elapsed().as_secs_f64() - forward;
        Ok(parts)
    }

    /// Takes the steps of an epoch and checks whether training has collapsed; if so, restores the
    /// best model if the configuration asks for it. `loss` is that of an evaluation of the training
    /// part: with dropout, the loss of a step on few nodes is too noisy.
    fn watched_steps(
        &mut self,
        loss: Option<f64>,
        seconds: &mut PhaseSeconds,
        solves: &mut Solves,
    ) -> Result<(Steps, bool), TrainError> {
        let (epoch, restores) = (self.epoch, self.config.train.on_collapse == OnCollapse::Restore);
        let steps = match self.steps(seconds, solves) {
            Err(TrainError::Gradient { .. } | TrainError::Solve { .. })
                if restores && self.best.is_some() =>
            {
                self.epoch += 1;
                self.restore_best()?;
                return Ok((Steps::none(), true));
            }
            steps => steps?,
        };
        // Steps on batches have seen the training part; an epoch without either does not count.
        let loss = loss.or(steps.train.as_ref().map(|part| part.loss));
        let has_collapsed = self.collapse.note(epoch, loss.unwrap_or(f64::NAN));
        if has_collapsed && restores {
            self.restore_best()?;
        }
        Ok((steps, has_collapsed))
    }

    /// Continues from the best model: its values, a new optimiser, a lower rate, states from zero.
    fn restore_best(&mut self) -> Result<(), TrainError> {
        let Some(best) = &self.best else { return Ok(()) };
        best.restore(&mut self.model);
        let first = first_learned(&self.model, &self.config);
        self.optimiser = Optimiser::new(&self.config.optim, &self.model.parameters[first..])?;
        if let GraphSet::One(one) = &mut self.graphs {
            one.on.reset();
        }
        self.collapse.restore(self.epoch);
        Ok(())
    }

    /// The steps of an epoch, each with loss, adjoint, gradients, update and projection.
    fn steps(
        &mut self,
        seconds: &mut PhaseSeconds,
        solves: &mut Solves,
    ) -> Result<Steps, TrainError> {
        let epoch = self.epoch;
        let backward = (first_learned(&self.model, &self.config) == 0)
            .then(|| Backward::of(&self.config.solver));
        let steps = match &mut self.graphs {
            _ if self.config.train.learn == Learn::Ridge => self.regress(seconds, solves)?,
            GraphSet::One(_) => self.step_on_one_graph(backward, seconds, solves)?,
            GraphSet::Many(many) => {
                let batches = many.batches(&self.config, epoch);
                self.steps_on_batches(&batches, backward, seconds, solves)?
            }
        };
        self.epoch += 1;
        Ok(steps)
    }

    /// Whether a step on one graph needs a forward solve of its own, because it hides or drops what
    /// an evaluation sees.
    fn steps_apart(&self) -> bool {
        let is_step = self.config.train.learn != Learn::Ridge;
        is_step && (self.model.trains_apart() || self.config.train.hide > 0.0)
    }

    fn step_on_one_graph(
        &mut self,
        backward: Option<Backward>,
        seconds: &mut PhaseSeconds,
        solves: &mut Solves,
    ) -> Result<Steps, TrainError> {
        let epoch = self.epoch;
        let wrong = |source| TrainError::Solve { epoch, source };
        let steps_apart = self.steps_apart();
        let Self { model, graphs: GraphSet::One(one), evaluator, config, .. } = self else {
            unreachable!("a step on one graph")
        };
        if steps_apart {
            let clock = Instant::now();
            let solved = one.solve_for_step(model, config, epoch).map_err(wrong)?;
            let operators = one.on.operators();
            solves.step(solved, operators.rows().all(), operators.nonzeros());
            seconds.forward += clock.elapsed().as_secs_f64();
        }
        let clock = Instant::now();
        let (loss, adjoint) =
            one.differentiate(model, evaluator, epoch, backward, config).map_err(wrong)?;
        let spent: f64 = adjoint.iter().map(|solve| solve.seconds).sum();
        seconds.adjoint += spent;
        seconds.gradients += clock.elapsed().as_secs_f64() - spent;
        let operators = one.on.operators();
        solves.step_back(adjoint, operators.rows().all(), operators.nonzeros());
        // Whoever has been told that training has collapsed knows what to do.
        self.faded.note(epoch, one.has_faded && !self.collapse.is_collapsed());
        let (gradient_norm, learning_rate) = self.update(seconds)?;
        Ok(Steps { loss, gradient_norm, learning_rate, train: None })
    }

    fn steps_on_batches(
        &mut self,
        batches: &[Vec<u32>],
        backward: Option<Backward>,
        seconds: &mut PhaseSeconds,
        solves: &mut Solves,
    ) -> Result<Steps, TrainError> {
        let (epoch, place) = (self.epoch, self.place());
        let (mut steps, mut all, mut weight) = (Steps::default(), Collected::default(), 0.0);
        let mut has_faded = true;
        for batch in batches {
            let clock = Instant::now();
            let Self { model, graphs: GraphSet::Many(many), evaluator, config, .. } = self else {
                unreachable!("steps on batches")
            };
            let made = many.differentiate(model, evaluator, batch, epoch, config, backward);
            let step = made.map_err(|error| error.at_epoch(epoch, place.clone()))?;
            let spent =
                |solves: &[SolveInfo]| solves.iter().map(|solve| solve.seconds).sum::<f64>();
            let (forward, adjoint) = (spent(&step.forward), spent(&step.adjoint));
            seconds.forward += forward;
            seconds.adjoint += adjoint;
            seconds.gradients += clock.elapsed().as_secs_f64() - forward - adjoint;
            solves.step(step.forward, step.nodes, step.nonzeros);
            solves.step_back(step.adjoint, step.nodes, step.nonzeros);
            if step.ids.is_empty() {
                continue;
            }
            has_faded &= step.has_faded;
            all.add(step.logits.view(), &step.ids);
            steps.loss += step.loss * step.ids.len() as f64;
            weight += step.ids.len() as f64;
            (steps.gradient_norm, steps.learning_rate) = self.update(seconds)?;
        }
        let is_told = self.collapse.is_collapsed();
        self.faded.note(epoch, has_faded && weight > 0.0 && !is_told);
        let (logits, ids) = all.finish(self.model.outputs());
        steps.train = Some(self.evaluator.evaluate(logits.view(), &ids));
        steps.loss /= weight;
        Ok(steps)
    }

    /// The path of the dataset, for messages.
    pub(super) fn place(&self) -> PathBuf {
        self.task.graph().path().into()
    }

    /// Clips the gradients, updates the parameters, and projects. Returns the gradients' norm and
    /// the learning rate.
    fn update(&mut self, seconds: &mut PhaseSeconds) -> Result<(f64, f64), TrainError> {
        let (epoch, clock) = (self.epoch, Instant::now());
        let first = first_learned(&self.model, &self.config);
        let learned = &mut self.model.parameters[first..];
        let optim = &self.config.optim;
        let clipped = optim.clip.apply(optim.clip_norm, learned);
        let norm = clipped.map_err(|source| TrainError::Gradient { epoch, source })?;
        let rate =
            optim.rate(epoch, self.config.train.epochs) * self.collapse.rate_factor(&self.config);
        self.optimiser.step(learned, rate);
        if first == 0 {
            self.model.project().map_err(|source| TrainError::Projection { epoch, source })?;
        }
        seconds.update += clock.elapsed().as_secs_f64();
        Ok((norm, rate))
    }

    /// What the readout of the best model sees of every graph of a collection: one row per graph,
    /// in the dataset's order. The network takes the values of the best model.
    ///
    /// # Panics
    /// If nodes, not graphs, have the labels.
    pub fn embeddings(&mut self) -> Result<Matrix, TrainError> {
        let (epoch, place) = (self.epoch, self.place());
        if let Some(best) = &self.best {
            best.restore(&mut self.model);
        }
        let Self { model, graphs: GraphSet::Many(many), config, .. } = self else {
            panic!("embeddings of graphs")
        };
        let (rows, ids) = many.rows(model, config).map_err(|error| error.at_epoch(epoch, place))?;
        assert!(
            ids.iter().enumerate().all(|(at, &id)| at == id as usize),
            "every graph in its order"
        );
        Ok(rows)
    }

    /// The best model so far, or the current one where there is no validation part. On several ranks
    /// all call it together, and the first one has all rows of learned features.
    pub fn best_model(&self) -> Model {
        let Self { model, best, config, task, nodes, .. } = self;
        saved(model, best.as_ref(), config, task, nodes.as_ref())
    }

    /// The file of the best model, to be written once: the texts, and tensors of which each rank has
    /// its own rows. Nothing is copied.
    pub(crate) fn best_file(&self) -> (Texts, Shared<'_>) {
        let Self { model, best, config, task, nodes, .. } = self;
        let tensor = |(at, (slot, value)): (usize, (Slot, _))| {
            let tensor = tensor(&slot, best_value(best.as_ref(), at, value));
            match rows_of(model, at) {
                Some(rows) => tensor.divided(rows),
                None => tensor,
            }
        };
        let tensors = all_values(model).into_iter().enumerate().map(tensor).collect();
        let texts = described(model, config, task, nodes.as_ref()).texts();
        (texts, Shared::new(tensors, &**task.ranks()))
    }

    /// The best model, after the memory of training is free: the model is a copy.
    pub fn into_best_model(self) -> Model {
        drop((self.graphs, self.optimiser));
        saved(&self.model, self.best.as_ref(), &self.config, &self.task, self.nodes.as_ref())
    }
}

/// The value of a parameter or statistic in the best epoch, or that at hand if there is none.
fn best_value<'a>(best: Option<&'a Best>, at: usize, value: &'a Matrix) -> &'a Matrix {
    best.and_then(|best| best.values[at].as_ref()).unwrap_or(value)
}

/// The rows of ranks that a parameter is divided by.
fn rows_of(network: &Network, at: usize) -> Option<&Rows> {
    network.parameters.get(at).and_then(|parameter| parameter.rows.as_ref())
}

/// A model with the values of the best epoch.
fn saved(
    network: &Network,
    best: Option<&Best>,
    config: &Config,
    task: &Task,
    nodes: Option<&String>,
) -> Model {
    let value = |(at, (mut slot, value)): (usize, (Slot, &Matrix))| {
        let best = best_value(best, at, value);
        let value = rows_of(network, at).and_then(|rows| whole_rows(best.view(), rows));
        let value = value.unwrap_or_else(|| best.clone());
        slot.shape = (value.rows(), value.cols());
        (slot, value)
    };
    let values = all_values(network).into_iter().enumerate().map(value).collect();
    Model { values, ..described(network, config, task, nodes) }
}

/// A model without its values.
fn described(network: &Network, config: &Config, task: &Task, nodes: Option<&String>) -> Model {
    let mut config = config.clone();
    if config.model.pooling == PoolingChoice::Auto && network.pooling.is_some() {
        // A saved model must know what it predicts, whatever graph it is used on.
        config.model.pooling = PoolingChoice::Sum;
    }
    Model {
        config,
        classes: task.labels().classes().to_vec(),
        labels: task.labels().kind(),
        scaling: task.scaling(),
        encoding: task.graph().manifest().encoding.clone(),
        dataset: task.graph().manifest().checksum(),
        nodes: nodes.cloned(),
        values: Vec::new(),
    }
}

/// Keeps all records.
struct History(Vec<EpochRecord>);

impl Observer for History {
    fn epoch(&mut self, record: &EpochRecord) -> ignn_format::Result<()> {
        self.0.push(record.clone());
        Ok(())
    }
}

impl Steps {
    pub fn none() -> Self {
        Self { loss: f64::NAN, gradient_norm: f64::NAN, learning_rate: 0.0, train: None }
    }
}

/// Sets the learning-rate factors of the parameters. Those that no step changes are fixed.
fn set_learning_rate_factors(model: &mut Network, config: &Config) {
    let (head, table) = (model.head(), model.table());
    for (at, parameter) in model.parameters[..head].iter_mut().enumerate() {
        let is_table = table == Some(at);
        let factor = if is_table { config.optim.table_factor } else { config.optim.layer_factor };
        if is_table && factor == 0.0 {
            parameter.fix();
        }
        parameter.rate_factor = factor;
    }
}

/// Position of the first parameter that is learned: all are, or only those of the readout.
fn first_learned(model: &Network, config: &Config) -> usize {
    let head = model.head();
    let below = model.parameters[..head].iter().any(|parameter| parameter.rate_factor > 0.0);
    if config.train.learn == Learn::All && below { 0 } else { head }
}

/// On the first of several ranks, the rows of all of them; all call it together.
pub(super) fn whole_rows(own: MatrixRef<'_>, rows: &Rows) -> Option<Matrix> {
    if rows.is_alone() {
        return None;
    }
    let all = rows.collect(own.first(rows.len()).padded())?;
    let mut whole = Matrix::zeros(rows.all(), own.cols());
    whole.view_mut().padded_mut().copy_from_slice(&all);
    Some(whole)
}

/// All parameters, then all statistics, by name.
pub(super) fn all_values(model: &Network) -> Vec<(Slot, &Matrix)> {
    let parameters = model.slots().into_iter().zip(model.parameters.iter().map(|p| &p.value));
    let statistics = model.statistics_by_name().into_iter().map(|(name, value)| {
        let shape = (value.rows(), value.cols());
        (Slot { name, shape, is_bias: true }, value)
    });
    parameters.chain(statistics).collect()
}

/// What all ranks exchanged; all call it together.
fn exchanged(rows: &Rows, traffic: Traffic) -> Option<ExchangeRecord> {
    (!rows.is_alone()).then(|| ExchangeRecord {
        exchanges: traffic.exchanges,
        bytes: rows.ranks().sum(traffic.bytes),
        seconds: rows.ranks().max(traffic.seconds),
    })
}
