//! Training on many graphs: a step takes a batch of them. A batch is a view of the dataset's arrays
//! with compact states that live for one step; solves start from zero, so that results do not
//! depend on earlier solves.

use std::path::PathBuf;
use std::sync::Arc;

use ignn_format::graphs::Graphs;

use super::evaluator::Evaluator;
use super::record::PartRecord;
use super::{Parts, Task, TrainError};
use crate::config::Config;
use crate::dense::{Matrix, MatrixRef, Reuse};
use crate::kernels::AdjacencyError;
use crate::models::{LayerError, Mode, Network, OnGraph, Pass};
use crate::nn::ridge::Ridge;
use crate::nn::{Backward, DropNodes, Equilibrium, GraphBatch, Input, Operators, batches, random};
use crate::parallel::Node;
use crate::solver::{SolveInfo, Solves};

/// The graphs with their prepared input.
pub(super) struct ManyGraphs {
    task: Arc<Task>,
    operators: Operators,
    input: Input,
    /// Bounds of the spectral radius, by relation and graph.
    radii: Vec<Vec<f64>>,
    drop_nodes: Option<DropNodes>,
    /// The memory of a step serves the next one.
    _reuse: Reuse,
}

/// Why a batch failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum BatchError {
    #[error(transparent)]
    Graph(#[from] AdjacencyError),
    #[error(transparent)]
    Solve(#[from] LayerError),
    #[error("{0}")]
    OtherRank(String),
}

impl BatchError {
    /// The error of an epoch.
    pub fn at_epoch(self, epoch: u64, path: PathBuf) -> TrainError {
        match self {
            Self::Graph(source) => TrainError::Graph { path, source },
            Self::Solve(source) => TrainError::Solve { epoch, source },
            Self::OtherRank(message) => TrainError::OtherRank(message),
        }
    }
}

/// The result of one batch.
pub(super) struct Step {
    pub loss: f64,
    pub logits: Matrix,
    pub ids: Vec<u32>,
    pub forward: Vec<SolveInfo>,
    pub adjoint: Vec<SolveInfo>,
    pub nodes: usize,
    pub nonzeros: usize,
    /// Whether no state that the step saw passes a gradient on.
    pub has_faded: bool,
}

impl ManyGraphs {
    /// # Panics
    /// If the task is not one on many graphs.
    pub fn new(
        task: &Arc<Task>,
        model: &Network,
        operators: &Operators,
        radii: Vec<Vec<f64>>,
        config: &Config,
    ) -> Result<Self, TrainError> {
        let shape = model.layers[0].input.clone();
        let drop_nodes = DropNodes::new(config.train.drop_nodes, config.train.seed);
        let keeps_own = drop_nodes.is_some() || model.reads_own_features();
        let input = Input::new(operators, task.features()?, shape, keeps_own);
        assert!(task.graphs().is_some(), "a task on many graphs");
        let (task, operators) = (Arc::clone(task), operators.clone());
        Ok(Self { task, operators, input, radii, drop_nodes, _reuse: Reuse::new() })
    }

    /// All graphs.
    fn graphs(&self) -> &Graphs {
        self.task.graphs().expect("checked when it was made").0
    }

    /// Graphs of each part.
    fn parts(&self) -> &Parts {
        self.task.graphs().expect("checked when it was made").1
    }

    /// The training graphs in the shuffled batches of an epoch.
    pub fn batches(&self, config: &Config, epoch: u64) -> Vec<Vec<u32>> {
        let stream = random::Stream::new(config.train.seed, "batches").narrowed(epoch);
        let mut graphs = self.parts().train.clone();
        graphs.sort_by_key(|&graph| (stream.row(u64::from(graph)).bits(0), graph));
        let size = match config.train.batch {
            0 => graphs.len().max(1),
            size => size as usize,
        };
        graphs.chunks(size).map(<[u32]>::to_vec).collect()
    }

    /// Forward pass, loss and gradients on a batch.
    pub fn differentiate(
        &self,
        model: &mut Network,
        evaluator: &Evaluator,
        batch: &[u32],
        epoch: u64,
        config: &Config,
        backward: Option<Backward>,
    ) -> Result<Step, BatchError> {
        self.with_batch(model, batch, Some(epoch), |model, on, mut pass| {
            let forward = on.forward(model, &config.step(), Mode::Training(epoch))?;
            on.read_out(model, &mut pass, Some(epoch));
            let loss = evaluator.differentiate(&mut pass);
            let adjoint = match backward {
                Some(backward) => {
                    on.backward(model, &mut pass, epoch, backward, &config.adjoint())?
                }
                None => {
                    on.backward_head(model, &mut pass);
                    Vec::new()
                }
            };
            let (nodes, nonzeros) = (on.operators().nodes(), on.operators().nonzeros());
            let (ids, has_faded) = (pass.ids().to_vec(), pass.has_faded());
            let logits = pass.logits;
            Ok(Step { loss, logits, ids, forward, adjoint, nodes, nonzeros, has_faded })
        })
    }

    /// Logits of every labelled item of some graphs, without dropout; and the solves of each layer.
    /// Batches are dealt to the ranks of the job.
    #[allow(clippy::type_complexity)] // Logits, items and solves: a type of its own is no clearer.
    pub fn logits(
        &self,
        model: &mut Network,
        graphs: &[u32],
        config: &Config,
    ) -> Result<(Matrix, Vec<u32>, Vec<Vec<SolveInfo>>), BatchError> {
        let chunks = self.chunks(model, graphs);
        let evaluate = |chunk: usize| {
            self.with_batch(model, &chunks[chunk], None, |model, on, mut pass| {
                let solves = on.forward(model, &config.forward(), Mode::Evaluation)?;
                on.read_out(model, &mut pass, None);
                let mut collected = Collected::default();
                collected.add(pass.logits.view(), pass.ids());
                Ok(Evaluated { collected, solves: Solves(solves) })
            })
        };
        let found = self.task.ranks().dealt(chunks.len(), evaluate, BatchError::OtherRank)?;
        let (mut all, mut solves) = (Collected::default(), Vec::new());
        for Evaluated { collected, solves: of_chunk } in found {
            all.values.extend(collected.values);
            all.ids.extend(collected.ids);
            solves.push(of_chunk.0);
        }
        let (logits, ids) = all.finish(model.outputs());
        Ok((logits, ids, solves))
    }

    /// The readout's input rows of all labelled graphs or nodes of the dataset, and their ids.
    pub fn rows(
        &self,
        model: &mut Network,
        config: &Config,
    ) -> Result<(Matrix, Vec<u32>), BatchError> {
        let all: Vec<u32> = (0..self.graphs().len() as u32).collect();
        let (mut rows, mut width) = (Collected::default(), 0);
        for chunk in self.chunks(model, &all) {
            self.with_batch(model, &chunk, None, |model, on, mut pass| {
                on.forward(model, &config.forward(), Mode::Evaluation)?;
                on.read_out(model, &mut pass, None);
                width = pass.rows().cols();
                rows.add(pass.rows(), pass.ids());
                Ok(())
            })?;
        }
        Ok(rows.finish(width))
    }

    /// Adds the training items' rows to the regression, without dropout; returns the solves.
    pub fn add_rows(
        &self,
        model: &mut Network,
        config: &Config,
        ridge: &mut Ridge,
    ) -> Result<Vec<Vec<SolveInfo>>, BatchError> {
        let chunks = self.chunks(model, &self.parts().train);
        let chunk = |chunk: Vec<u32>| {
            self.with_batch(model, &chunk, None, |model, on, mut pass| {
                let solves = on.forward(model, &config.forward(), Mode::Evaluation)?;
                on.read_out(model, &mut pass, None);
                ridge.add(pass.rows(), pass.ids(), self.task.targets());
                Ok(solves)
            })
        };
        chunks.into_iter().map(chunk).collect()
    }

    /// Loss and scores of the validation and test part, and of the training part if asked for.
    #[allow(clippy::type_complexity)] // Parts and solves: a type of its own is no clearer.
    pub fn evaluate(
        &self,
        model: &mut Network,
        evaluator: &Evaluator,
        config: &Config,
        with_train: bool,
    ) -> Result<(Vec<(&'static str, PartRecord)>, Vec<Vec<SolveInfo>>), BatchError> {
        let (mut parts, mut all) = (Vec::new(), Vec::new());
        for (name, graphs) in self.parts().named() {
            if graphs.is_empty() || (name == "train" && !with_train) {
                continue;
            }
            let (logits, ids, solves) = self.logits(model, graphs, config)?;
            all.extend(solves);
            if !ids.is_empty() {
                parts.push((name, evaluator.evaluate(logits.view(), &ids)));
            }
        }
        Ok((parts, all))
    }

    /// The graphs in order, in batches that are evaluated together.
    fn chunks(&self, model: &Network, graphs: &[u32]) -> Vec<Vec<u32>> {
        batches(&self.graphs().first_node, graphs, model.widest())
    }

    /// Calls `work` with the model on some graphs, and a pass over all of their labelled items: to
    /// train in an epoch, or to evaluate.
    fn with_batch<R>(
        &self,
        model: &mut Network,
        graphs: &[u32],
        epoch: Option<u64>,
        work: impl FnOnce(&mut Network, &mut OnGraph, Pass) -> Result<R, BatchError>,
    ) -> Result<R, BatchError> {
        let all = (&self.graphs().first_node[..], &self.radii[..]);
        let batch = GraphBatch::new(&self.operators, &self.input, all, graphs);
        let mut batch = batch.map_err(BatchError::Graph)?;
        if let Some((drop_nodes, epoch)) = self.drop_nodes.zip(epoch) {
            batch = batch.without(drop_nodes, epoch, &self.input).map_err(BatchError::Graph)?;
        }
        let GraphBatch { operators, input, nodes, first_row } = batch;
        let trains = epoch.is_some();
        let on = OnGraph::with_input(model, &operators, input, trains).with_graphs(first_row);
        let mut on = on.with_ids(&nodes);
        let certify =
            if trains { Equilibrium::certify_closed_forms } else { Equilibrium::certify_quickly };
        on.equilibria_mut().for_each(certify);
        let candidates = if model.pooling.is_some() { graphs } else { &nodes[..] };
        let labelled = (0..).zip(candidates).filter(|(_, id)| self.task.is_labelled(**id));
        let (items, ids) = labelled.map(|(item, id): (u32, &u32)| (item, *id)).unzip();
        let pass = on.pass(model, items, ids);
        work(model, &mut on, pass)
    }
}

/// What an evaluation of a batch gives.
struct Evaluated {
    collected: Collected,
    solves: Solves,
}

impl Node for Evaluated {
    fn to_bytes(&self) -> Vec<u8> {
        let Collected { values, ids } = &self.collected;
        Vec::list_to_bytes(&[values.to_bytes(), ids.to_bytes(), self.solves.to_bytes()])
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let parts = Vec::<u8>::list_from_bytes(bytes);
        let [values, ids, solves] = &parts[..] else { unreachable!("three parts were written") };
        let (values, ids) = (Vec::from_bytes(values), Vec::from_bytes(ids));
        Self { collected: Collected { values, ids }, solves: Solves::from_bytes(solves) }
    }
}

/// Rows of logits, collected batch by batch.
#[derive(Default)]
pub(super) struct Collected {
    values: Vec<f32>,
    ids: Vec<u32>,
}

impl Collected {
    pub fn add(&mut self, logits: MatrixRef<'_>, ids: &[u32]) {
        (0..logits.rows()).for_each(|row| self.values.extend_from_slice(logits.row(row)));
        self.ids.extend_from_slice(ids);
    }

    pub fn finish(self, classes: usize) -> (Matrix, Vec<u32>) {
        let logits =
            Matrix::from_fn(self.ids.len(), classes, |row, k| self.values[row * classes + k]);
        (logits, self.ids)
    }
}
