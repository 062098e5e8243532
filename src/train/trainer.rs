//! The loop: solve, evaluate, differentiate, step, project; one record an epoch. It knows when a
//! model is better and when to stop; it prints nothing and writes nothing but through its caller.
//!
//! Epoch e speaks of the model after e steps: epoch 0 of the first values, the last one of the
//! last. One forward solve serves both the evaluation (without dropout) and the step that follows:
//!
//! ```text
//! solve X -> evaluate the parts, keep the best -> read out the training nodes with dropout -> loss
//!         -> solve G -> gradients -> clip -> step -> project W
//! ```
//!
//! The same seed gives the same bits, whatever the number of threads, and whether or not the run
//! was interrupted: random numbers are functions of seed, epoch and place, and a checkpoint holds
//! all the rest.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ignn_format::labels::{LabelKind, Labels};
use serde::{Deserialize, Serialize};

use super::best::{self, Best, EpochScore};
use super::evaluator::Evaluator;
use super::failures;
use super::many_graphs::{Collected, ManyGraphs};
use super::one_graph::OneGraph;
use super::record::{EpochRecord, Observer, PartRecord, PhaseSeconds};
use super::settings::{learnable, monitor};
use super::solves::Solves;
use super::{Task, TrainError, label_start};
use crate::config::{Config, FeatureStart, Learn};
use crate::dense::Matrix;
use crate::graph::Graph;
use crate::metrics::Metric;
use crate::models::file::name;
use crate::models::kinds::FeatureRule;
use crate::models::{Kind, Mode, Model, Network};
use crate::nn::{Backward, PoolingChoice, Slot};
use crate::optim::Optimiser;
use crate::solver::{GradientKind, Posedness, SolveInfo};

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// All epochs are done.
    Epochs,
    /// The validation metric did not get better for `train.stop_after` epochs.
    Patience,
    /// It was asked to stop; a checkpoint lets it go on.
    Stopped,
}

/// A run in memory.
pub struct Trainer {
    pub(super) config: Config,
    pub(super) task: Arc<Task>,
    pub(super) model: Network,
    pub(super) graphs: GraphSet,
    pub(super) optimiser: Optimiser,
    pub(super) best: Option<Best>,
    /// Of the model at hand: steps made.
    pub(super) epoch: u64,
    /// Solves without convergence.
    pub(super) failures: u64,
    evaluator: Evaluator,
    monitor: Metric,
}

/// What a step sees: one graph whole, or some of many graphs.
#[allow(clippy::large_enum_variant)] // One per run.
pub(super) enum GraphSet {
    One(OneGraph),
    Many(ManyGraphs),
}

/// What the steps of an epoch came to.
#[derive(Default)]
pub(super) struct Steps {
    /// Mean over the items.
    pub loss: f64,
    /// Of the last one.
    pub gradient_norm: f64,
    pub learning_rate: f64,
    /// The training part as the steps saw it, where they saw all of it.
    pub train: Option<PartRecord>,
}

impl Trainer {
    /// A run before its first epoch.
    pub fn new(dataset: Graph, config: Config) -> Result<Self, TrainError> {
        let task = Task::open(dataset, &config)?;
        Self::with_task(Arc::new(task), config)
    }

    /// The same on a task that is open, which several runs may share.
    pub fn with_task(task: Arc<Task>, mut config: Config) -> Result<Self, TrainError> {
        config.check()?;
        let operators = task.operators()?;
        let monitor = monitor(task.labels(), config.train.monitor)?;
        learnable(&config)?;
        if !Kind::of(config.model.kind).carries_learned_features {
            (config.train.hide, config.model.init_features) = (0.0, FeatureStart::Random);
        }
        if config.train.hide > 0.0 && !task.learns_features() {
            return Err(TrainError::Hide { found: config.train.hide });
        }
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
                let one = OneGraph::new(&task, &model, operators)?;
                (model, GraphSet::One(one))
            }
            Some((graphs, parts)) => {
                let place = || task.dataset().directory().path().to_path_buf();
                let radii = operators.graph_radii(&graphs.first_node);
                let radii = radii.map_err(|source| TrainError::Graph { path: place(), source })?;
                // Training is constrained by the graphs that it sees, never by those it is judged
                // on.
                let largest = |radii: &Vec<f64>| {
                    parts.train.iter().map(|&graph| radii[graph as usize]).fold(0.0, f64::max)
                };
                let facts = task.facts(radii.iter().map(largest).collect());
                let mut model = Network::new(&config.model, &facts, config.train.seed, true)?;
                label_start::apply(&task, &config, &mut model)?;
                let many = ManyGraphs::new(&task, &model, operators, radii)?;
                (model, GraphSet::Many(many))
            }
        };
        set_paces(&mut model, &config);
        let first = first_learned(&model, &config);
        let optimiser = Optimiser::new(&config.optim, &model.parameters[first..])?;
        Ok(Self {
            evaluator: Evaluator::new(&task, &config),
            config,
            task,
            model,
            graphs: graph_set,
            optimiser,
            best: None,
            epoch: 0,
            failures: 0,
            monitor,
        })
    }

    /// The task: the dataset with labels and parts.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The model at hand.
    pub fn model(&self) -> &Network {
        &self.model
    }

    /// The model at hand, to give it other first values.
    pub fn model_mut(&mut self) -> &mut Network {
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

    /// Trains to the end, until patience runs out, or until `stop` is set. `after` is called after
    /// every epoch but the last: for checkpoints.
    pub fn run(
        &mut self,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
        mut after: impl FnMut(&Self) -> Result<(), TrainError>,
    ) -> Result<Ended, TrainError> {
        observer.start(self.monitor)?;
        // A run that ran out of patience does so again.
        if self.epoch.checked_sub(1).is_some_and(|last| self.is_out_of_patience(last)) {
            return Ok(Ended::Patience);
        }
        loop {
            let record = self.advance()?;
            observer.epoch(&record)?;
            failures::report(&record, &self.config, observer)?;
            let is_last = record.epoch >= self.epochs();
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

    /// Whether the model at hand is the last one: it is still to be evaluated.
    pub fn is_at_last(&self) -> bool {
        self.epoch >= self.epochs()
    }

    /// Epochs to come, at most: a regression is done in one, and propagated labels are not learned.
    fn epochs(&self) -> u64 {
        match self.config.train.learn {
            _ if !Kind::of(self.config.model.kind).learns => 0,
            Learn::Ridge => self.config.train.epochs.min(1),
            _ => self.config.train.epochs,
        }
    }

    fn is_out_of_patience(&self, epoch: u64) -> bool {
        let patience = self.config.train.stop_after;
        let since = self.best.as_ref().map_or(0, |best| epoch.saturating_sub(best.score.epoch));
        patience > 0 && since >= patience
    }

    /// One epoch: the record of the model at hand, and its steps, but after the last epoch.
    pub fn advance(&mut self) -> Result<EpochRecord, TrainError> {
        let epoch = self.epoch;
        let is_last = epoch >= self.epochs();
        let is_evaluated = is_last || epoch.is_multiple_of(self.config.train.evaluate_every.max(1));
        let (mut seconds, mut solves) = (PhaseSeconds::default(), Solves::default());
        let mut parts = self.evaluate(is_evaluated, is_last, &mut seconds, &mut solves)?;
        if let Some((_, part)) = parts.iter().find(|(name, _)| *name == "validation") {
            let score = EpochScore::new(self.monitor, epoch, part);
            best::keep(&mut self.best, score, self.monitor, &self.model);
        }
        let posedness = self.model.posedness(self.model.radii());
        let steps = if is_last { Steps::none() } else { self.steps(&mut seconds, &mut solves)? };
        let mut part = |wanted: &str| {
            let at = parts.iter().position(|(name, _)| *name == wanted)?;
            Some(parts.swap_remove(at).1)
        };
        let is_exact = self.config.solver.gradient == GradientKind::Exact;
        self.failures += solves.failures(is_exact);
        let (forward, adjoint) = (solves.forward(), solves.adjoint());
        // Not a number where nothing is solved.
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
            nodes_per_second,
            edges_per_second,
            failures: self.failures,
        })
    }

    /// Loss and scores of the parts, without dropout; on one graph also the solve that the step
    /// starts from.
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
                    solves.step(solved, operators.nodes(), operators.nonzeros());
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

    /// The steps of an epoch, each with loss, adjoint, gradients and projection: the model becomes
    /// that of the next epoch.
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

    /// Whether a step on one graph has a forward solve of its own: it hides or drops what an
    /// evaluation sees.
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
            solves.step(solved, one.on.operators().nodes(), one.on.operators().nonzeros());
            seconds.forward += clock.elapsed().as_secs_f64();
        }
        let clock = Instant::now();
        let (loss, adjoint) =
            one.differentiate(model, evaluator, epoch, backward, config).map_err(wrong)?;
        let spent: f64 = adjoint.iter().map(|solve| solve.seconds).sum();
        seconds.adjoint += spent;
        seconds.gradients += clock.elapsed().as_secs_f64() - spent;
        solves.step_back(adjoint, one.on.operators().nodes(), one.on.operators().nonzeros());
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
            all.add(step.logits.view(), &step.ids);
            steps.loss += step.loss * step.ids.len() as f64;
            weight += step.ids.len() as f64;
            (steps.gradient_norm, steps.learning_rate) = self.update(seconds)?;
        }
        let (logits, ids) = all.finish(self.model.outputs());
        steps.train = Some(self.evaluator.evaluate(logits.view(), &ids));
        steps.loss /= weight;
        Ok(steps)
    }

    /// The dataset, for messages.
    pub(super) fn place(&self) -> PathBuf {
        self.task.dataset().directory().path().into()
    }

    /// Clips the gradients, makes the step they ask for, and projects. Returns their norm and the
    /// learning rate.
    fn update(&mut self, seconds: &mut PhaseSeconds) -> Result<(f64, f64), TrainError> {
        let (epoch, clock) = (self.epoch, Instant::now());
        let first = first_learned(&self.model, &self.config);
        let learned = &mut self.model.parameters[first..];
        let optim = &self.config.optim;
        let clipped = optim.clip.apply(optim.clip_norm, learned);
        let norm = clipped.map_err(|source| TrainError::Gradient { epoch, source })?;
        let rate = optim.rate(epoch, self.config.train.epochs);
        self.optimiser.step(learned, rate);
        if first == 0 {
            self.model.project().map_err(|source| TrainError::Projection { epoch, source })?;
        }
        seconds.update += clock.elapsed().as_secs_f64();
        Ok((norm, rate))
    }

    /// What the read-out of the best model sees of every graph: a row a graph, in the dataset's
    /// order. The best model is the one at hand from then on.
    ///
    /// # Panics
    /// Where nodes, not graphs, have the labels.
    pub fn embeddings(&mut self) -> Result<Matrix, TrainError> {
        let (epoch, place) = (self.epoch, self.place());
        if let Some(best) = &self.best {
            self.model.take_values(best.values.clone());
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

    /// The best model, or the one at hand where nothing was chosen; to be written or put on a
    /// graph.
    pub fn finished(&self) -> Model {
        let at_hand = all_values(&self.model);
        let value = |(at, (slot, value)): (usize, (Slot, &Matrix))| {
            let best = self.best.as_ref().map(|best| &best.values[at]);
            (slot, best.unwrap_or(value).clone())
        };
        let labels = match self.task.labels() {
            Labels::Single { .. } => LabelKind::Single,
            Labels::Multi { .. } => LabelKind::Multi,
        };
        let mut config = self.config.clone();
        if config.model.pooling == PoolingChoice::Auto && self.model.pooling.is_some() {
            // The file tells what is predicted, whatever it is used on.
            config.model.pooling = PoolingChoice::Sum;
        }
        Model {
            config,
            classes: self.task.labels().classes().to_vec(),
            labels,
            dataset: self.task.dataset().manifest().checksum(),
            values: at_hand.into_iter().enumerate().map(value).collect(),
        }
    }
}

impl Steps {
    pub fn none() -> Self {
        Self { loss: f64::NAN, gradient_norm: f64::NAN, learning_rate: 0.0, train: None }
    }
}

/// The paces that the configuration gives to parameters.
fn set_paces(model: &mut Network, config: &Config) {
    let (head, table) = (model.head(), model.table());
    for (at, parameter) in model.parameters[..head].iter_mut().enumerate() {
        let is_table = table == Some(at);
        parameter.pace =
            if is_table { config.optim.table_factor } else { config.optim.layer_factor };
    }
}

/// Position of the first parameter that learns: all do, or the read-out's alone.
fn first_learned(model: &Network, config: &Config) -> usize {
    let head = model.head();
    let below = model.parameters[..head].iter().any(|parameter| parameter.pace > 0.0);
    if config.train.learn == Learn::All && below { 0 } else { head }
}

/// Parameters, then statistics, by name.
pub(super) fn all_values(model: &Network) -> Vec<(Slot, &Matrix)> {
    let parameters = model.slots().into_iter().zip(model.parameters.iter().map(|p| &p.value));
    let statistics = model.statistics_by_name().into_iter().map(|(name, value)| {
        let shape = (value.rows(), value.cols());
        (Slot { name, shape, is_bias: true }, value)
    });
    parameters.chain(statistics).collect()
}
