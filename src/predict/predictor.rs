//! A model on a graph, before and after its equilibria are solved: states and logits of nodes, or
//! of graphs where the model pools. What they mean is for `probability` and `evaluation`.
//!
//! A collection of graphs is solved in batches, each graph with its own bounds; a single graph is
//! solved whole. Memory: the features and their gathered copy, the states and the solver's
//! workspace of one batch, the rows that the readout sees, and one chunk of logits. A chunk has at
//! most `CHUNK_ITEMS` items, fewer where there are many classes.

use std::path::Path;
use std::sync::Arc;

use ignn_format::FormatError;
use ignn_format::encoding::Scaling;
use ignn_format::graphs::Graphs;
use rayon::prelude::*;

use super::error::PredictError;
use crate::config::Config;
use crate::dense::{Matrix, MatrixRef, Reuse, Scratch, stride};
use crate::graph::Graph;
use crate::kernels::{AdjacencyError, elementwise};
use crate::models::file::name;
use crate::models::kinds::FeatureRule;
use crate::models::{Facts, Kind, Mode, Model, Network, OnGraph, PlanError};
use crate::nn::{
    Features, GraphBatch, Input, Operators, Pooling, PoolingChoice, RankError, Slot, batches,
    normalise, select_rows,
};
use crate::parallel::{Node, Ranks, Rows};
use crate::solver::{Condition, Posedness, SolveInfo, SolveParams, Solves};

/// Largest number of items that are read out at once.
const CHUNK_ITEMS: usize = 1 << 16;
/// Approximate number of floats of a chunk's states and logits.
const CHUNK_FLOATS: usize = 1 << 24;

/// What a model predicts: nodes or whole graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// The class, or the classes, of every node.
    Node,
    /// The class of every graph.
    Graph,
}

impl Item {
    /// What a model predicts.
    pub fn of(model: &Model) -> Self {
        Self::of_config(&model.config)
    }

    /// The same of a model with this configuration.
    pub(super) fn of_config(config: &Config) -> Self {
        match config.model.pooling {
            // The file of a model that was trained on graphs always names its pooling.
            PoolingChoice::Auto | PoolingChoice::None => Self::Node,
            PoolingChoice::Sum | PoolingChoice::Mean | PoolingChoice::Max => Self::Graph,
        }
    }
}

/// A model on a graph, ready to be solved.
pub struct Predictor {
    network: Network,
    graph: Graph,
    operators: Operators,
    input: Input,
    scaling: Option<Scaling>,
    /// For a collection: the first node of each graph, and bounds by relation and graph.
    graphs: Option<(Vec<u64>, Vec<Vec<f64>>)>,
}

/// A model whose equilibria on a graph are solved.
pub struct SolvedModel {
    network: Network,
    /// What the readout sees, one row per item; on several ranks, of own nodes and ghosts.
    states: Matrix,
    /// The ranks of the job.
    ranks: Arc<dyn Ranks>,
    /// Who owns which rows, where ranks share them.
    rows: Option<Rows>,
    solves: Vec<SolveInfo>,
    scaling: Option<Scaling>,
    /// How far an entry of the last layer's result can be from that of exact equilibria, for numbers.
    error: Option<f64>,
    /// Largest absolute entry of the states before they were pooled, and the first node of each
    /// graph, where the model pools.
    pooled: Option<(f64, Vec<u64>)>,
}

impl Predictor {
    /// Checks that the model fits the graph, and reads the features it needs. `origin` is what
    /// messages call the model; `graphs` are those of a collection.
    pub fn new(
        model: &Model,
        origin: &Path,
        graph: &Graph,
        operators: &Operators,
        graphs: Option<&Graphs>,
    ) -> Result<Self, PredictError> {
        let (path, ranks) = (graph.path(), operators.ranks());
        let wrong = |source| PredictError::Ranks { path: path.into(), source };
        if !ranks.is_alone() {
            RankError::check_file("model", &model.checksum(), &**ranks).map_err(wrong)?;
        }
        check_finite(model, origin)?;
        let item = Item::of(model);
        if item == Item::Graph && graphs.is_none() {
            return Err(PredictError::OneGraph { model: origin.into(), dataset: path.into() });
        }
        let features = features(model, origin, graph, operators);
        let mut features = ranks.agree(features, PredictError::OtherRank)?;
        features.update(operators.rows());
        let wrong = |source: AdjacencyError| PredictError::Adjacency { path: path.into(), source };
        let graphs = match graphs {
            // Learned features belong to all nodes of their graph at once.
            Some(graphs) if features.columns().is_some() => {
                let radii = operators.graph_radii(&graphs.first_node).map_err(wrong)?;
                Some((graphs.first_node.clone(), radii))
            }
            _ => None,
        };
        let manifest = graph.manifest();
        let facts = Facts {
            nodes: manifest.nodes as usize,
            columns: features.columns(),
            relations: manifest.relations.iter().map(|relation| relation.name.clone()).collect(),
            radii: largest_radii(operators, graphs.as_ref()),
            outputs: model.classes.len(),
            pools: item == Item::Graph,
        };
        let mut network = model.restored(&facts, origin)?;
        network.keep_rows(operators.rows());
        let first = &network.layers[0];
        let input = Input::new(operators, features, first.input.clone(), first.between.is_some());
        let (graph, operators) = (graph.clone(), operators.clone());
        let scaling = model.scaling;
        Ok(Self { network, graph, operators, input, scaling, graphs })
    }

    /// Which condition for a unique equilibrium holds on this graph, one per layer with an
    /// equilibrium; in a collection, on the graph with the largest bound.
    pub fn posedness(&self) -> Vec<Posedness> {
        self.network.posedness(&largest_radii(&self.operators, self.graphs.as_ref()))
    }

    /// The number of graphs whose equilibrium is certified to be unique, each by its own bound;
    /// `None` for a single graph and for models without an equilibrium.
    pub fn certified_graphs(&self) -> Option<u64> {
        let (first_node, radii) = self.graphs.as_ref()?;
        if self.posedness().is_empty() {
            return None;
        }
        let count = first_node.len() - 1;
        let is_certain = |radii: &[f64]| {
            let layers = self.network.posedness(radii);
            layers.iter().all(|layer| layer.condition != Condition::NotCertified)
        };
        if is_certain(&largest_radii(&self.operators, self.graphs.as_ref())) {
            return Some(count as u64);
        }
        let own = |graph: usize| -> Vec<f64> { radii.iter().map(|radii| radii[graph]).collect() };
        Some((0..count).filter(|&graph| is_certain(&own(graph))).count() as u64)
    }

    /// The network with its memory for all graphs at once, including adjoints; for benchmarks.
    pub fn on_graph(self) -> (Network, OnGraph) {
        let on = OnGraph::with_input(&self.network, &self.operators, self.input, true);
        (self.network, on.keep_inputs())
    }

    /// Solves the equilibria from zero. Where that does not converge, the best state found is used:
    /// see [`SolveInfo::converged`].
    pub fn solve(self, params: &SolveParams) -> Result<SolvedModel, PredictError> {
        let graph = self.graph.clone();
        let ranks = Arc::clone(self.operators.ranks());
        let solved = self.solve_batches(params);
        // A disk without room explains whatever went wrong.
        Scratch::check_current()?;
        // First: a graph that was changed explains whatever went wrong.
        let unchanged = graph.check_unchanged().map_err(PredictError::from);
        ranks.agree(unchanged, PredictError::OtherRank)?;
        solved
    }

    fn solve_batches(self, params: &SolveParams) -> Result<SolvedModel, PredictError> {
        let Self { mut network, graph, operators, input, scaling, graphs } = self;
        let ranks = Arc::clone(operators.ranks());
        let Some((first_node, radii)) = graphs else {
            let mut on = OnGraph::with_input(&network, &operators, input, false);
            PlanError::check_order(&on, params)?;
            let solves = on.forward(&mut network, params, Mode::Evaluation)?;
            let error = scaling.and_then(|_| on.error_bound(&network, &solves));
            let states = on.seen(&network);
            let rows = Some(operators.rows().clone()).filter(|rows| !rows.is_alone());
            let pooled = None;
            return Ok(SolvedModel {
                states,
                ranks,
                rows,
                network,
                solves,
                scaling,
                error,
                pooled,
            });
        };
        let path = graph.path();
        let wrong = |source: AdjacencyError| PredictError::Adjacency { path: path.into(), source };
        let width = network.layers.last().map_or(0, |layer| layer.width);
        let pools = network.pooling.is_some();
        let items = if pools { first_node.len() - 1 } else { operators.nodes() };
        let graphs: Vec<u32> = (0..first_node.len() as u32 - 1).collect();
        let chunks = batches(&first_node, &graphs, network.widest());
        let solve = |chunk: usize| -> Result<Batch, PredictError> {
            let all = (&first_node[..], &radii[..]);
            let batch = GraphBatch::new(&operators, &input, all, &chunks[chunk]).map_err(wrong)?;
            let GraphBatch { operators, input, first_row, .. } = batch;
            let on = OnGraph::with_input(&network, &operators, input, false);
            let mut on = on.with_graphs(first_row);
            let solves = Solves(on.forward(&mut network, params, Mode::Evaluation)?);
            let error = scaling.and_then(|_| on.error_bound(&network, &solves.0));
            let mut largest: f64 = 0.0;
            if pools && scaling.is_some() {
                let entries = on.result().padded().iter().map(|entry| f64::from(entry.abs()));
                largest = entries.fold(largest, f64::max);
            }
            let states = on.seen(&network).view().padded().to_vec();
            Ok(Batch { states, largest, error, solves })
        };
        // Batches are dealt to the ranks of the job. The memory of one serves the next one.
        let _reuse = Reuse::new();
        let solved = operators.ranks().dealt(chunks.len(), solve, PredictError::OtherRank)?;
        let (mut states, mut solves) = (Matrix::zeros(items, width), Vec::<SolveInfo>::new());
        let (mut largest, mut error): (f64, _) = (0.0, scaling.map(|_| 0.0));
        for (chunk, batch) in chunks.iter().zip(solved) {
            largest = largest.max(batch.largest);
            error = error.and_then(|error: f64| Some(error.max(batch.error?)));
            solves = match solves.is_empty() {
                true => batch.solves.0,
                false => together(&solves, &batch.solves.0),
            };
            let (first, last) = (chunk[0] as usize, chunk[chunk.len() - 1] as usize + 1);
            let rows = match pools {
                true => first..last,
                false => first_node[first] as usize..first_node[last] as usize,
            };
            for (row, from) in rows.zip(batch.states.chunks(stride(width).max(1))) {
                states.view_mut().padded_row_mut(row).copy_from_slice(from);
            }
        }
        let pooled = (pools && scaling.is_some()).then_some((largest, first_node));
        Ok(SolvedModel { network, states, ranks, rows: None, solves, scaling, error, pooled })
    }
}

/// What the readout sees of a batch of graphs.
struct Batch {
    /// Its rows, padded.
    states: Vec<f32>,
    /// Largest entry before pooling, where it is needed.
    largest: f64,
    /// Certified bound on the error of its rows, where there is one.
    error: Option<f64>,
    solves: Solves,
}

impl Node for Batch {
    fn to_bytes(&self) -> Vec<u8> {
        let Self { states, largest, error, solves } = self;
        // Nothing is a number that no bound is.
        let numbers = vec![*largest, error.unwrap_or(f64::NAN)];
        Vec::list_to_bytes(&[states.to_bytes(), numbers.to_bytes(), solves.to_bytes()])
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let parts = Vec::<u8>::list_from_bytes(bytes);
        let [states, numbers, solves] = &parts[..] else {
            unreachable!("three parts were written")
        };
        let numbers: Vec<f64> = Vec::from_bytes(numbers);
        let (largest, error) = (numbers[0], Some(numbers[1]).filter(|error| !error.is_nan()));
        Self { states: Vec::from_bytes(states), largest, error, solves: Solves::from_bytes(solves) }
    }
}

/// The solves of two batches, merged layer by layer.
fn together(before: &[SolveInfo], more: &[SolveInfo]) -> Vec<SolveInfo> {
    before
        .iter()
        .zip(more)
        .filter_map(|(before, more)| SolveInfo::together(&[*before, *more]))
        .collect()
}

/// The largest bound of each relation over the graphs.
fn largest_radii(operators: &Operators, graphs: Option<&(Vec<u64>, Vec<Vec<f64>>)>) -> Vec<f64> {
    match graphs {
        Some((_, radii)) => {
            radii.iter().map(|radii| radii.iter().copied().fold(0.0, f64::max)).collect()
        }
        None => operators.radii().to_vec(),
    }
}

impl SolvedModel {
    /// How the equilibria were solved, all layers and graphs together; `None` for a model without
    /// an equilibrium.
    pub fn solve(&self) -> Option<SolveInfo> {
        SolveInfo::together(&self.solves)
    }

    /// How they were solved, one per layer with an equilibrium.
    pub fn solves(&self) -> &[SolveInfo] {
        &self.solves
    }

    /// Number of items of all ranks.
    pub fn len(&self) -> usize {
        self.rows.as_ref().map_or(self.states.rows(), Rows::all)
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `work` with the items and what the readout sees of them, one chunk at a time, one row
    /// per item. On several ranks all call it together, with the same items in ascending order.
    ///
    /// # Panics
    /// If there is no such item.
    pub fn each_state_chunk<E: From<PredictError> + ToString>(
        &self,
        items: &[u32],
        mut work: impl FnMut(&[u32], MatrixRef<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let width = self.states().cols() + self.outputs();
        let at_once = (CHUNK_FLOATS / width.max(1)).clamp(1, CHUNK_ITEMS);
        for chunk in items.chunks(at_once) {
            let mut rows = Matrix::zeros(chunk.len(), self.states.cols());
            match &self.rows {
                None => select_rows(self.states(), chunk, &mut rows),
                Some(over) => self.share_rows(over, chunk, &mut rows),
            }
            let other = |message| PredictError::OtherRank(message).into();
            self.ranks.agree(work(chunk, rows.view()), other)?;
        }
        Ok(())
    }

    /// The rows of some items, of all ranks.
    fn share_rows(&self, over: &Rows, items: &[u32], rows: &mut Matrix) {
        let own = over.positions(items);
        let mut rows = rows.view_mut();
        let stride = rows.stride();
        for at in own {
            let row = items[at] as usize - over.own().start;
            rows.padded_row_mut(at).copy_from_slice(self.states.view().padded_row(row));
        }
        over.share(items, rows.padded_mut(), stride);
    }

    /// What the readout sees: one row per node, or per graph where the model pools. For one layer
    /// that is the equilibrium. On several ranks, own nodes and ghosts have rows.
    pub fn states(&self) -> MatrixRef<'_> {
        self.states.view()
    }

    /// The matrix, without a copy.
    pub fn into_states(self) -> Matrix {
        self.states
    }

    /// The number that a row of logits of a regression stands for, in the user's unit; `None` for
    /// classes.
    pub fn number(&self, logits: &[f32]) -> Option<f64> {
        Some(self.scaling?.restored(f64::from(*logits.first()?)))
    }

    /// Whether there is a bound on the error of each number: see [`SolvedModel::number_error`].
    pub fn bounds_numbers(&self) -> bool {
        self.error.is_some()
    }

    /// How far the number of an item can be from the one that exact equilibria give, in the user's
    /// unit: the error of the last layer's result ([`OnGraph::error_bound`]), taken through the
    /// absolute values of the readout's weights, with the roundings of pooling, readout and scaling.
    /// It bounds errors of the computation, not of the model.
    ///
    /// `None` for classes, and where nothing certifies the state that the readout takes: a layer
    /// without an equilibrium, or a solve without a certificate.
    ///
    /// # Panics
    /// If there is no such item, or another rank has it.
    pub fn number_error(&self, item: u32) -> Option<f64> {
        let (scaling, largest) = (self.scaling?, self.error?);
        let mut own = match (self.network.pooling, &self.pooled) {
            (Some(pooling), Some((size, first_node))) => {
                let ends = &first_node[item as usize..=item as usize + 1];
                let nodes = (ends[1] - ends[0]) as f64;
                let rounding = (nodes + 1.0) * f64::from(f32::EPSILON) * size;
                match pooling {
                    Pooling::Sum => nodes * (largest + rounding),
                    Pooling::Mean => largest + rounding,
                    Pooling::Max => largest,
                }
            }
            (Some(_), None) => return None,
            (None, _) => largest,
        };
        let head = self.network.head()..self.network.parameters.len();
        let first = self.rows.as_ref().map_or(0, |rows| rows.own().start);
        let mut row = self.states.view().row(item as usize - first).to_vec();
        if self.network.normalises {
            own = normalise::error_bound(&mut row, own);
        }
        let bound = self.network.readout.error_bound(&self.network.values(&head), &row, own);
        let bound = bound.first()?;
        // mean + deviation * logit is rounded twice in f64. The bound has the roundings of the readout,
        // and with them the logit's size; without a map the logit is in the row.
        let largest = row.iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
        let logit = (bound / f64::from(f32::EPSILON)).max(largest.into());
        let rounding = f64::EPSILON * (scaling.mean.abs() + 2.0 * scaling.deviation * logit);
        Some(bound * scaling.deviation + rounding)
    }

    /// The same for some items, in ascending order. On several ranks all call it together.
    ///
    /// # Panics
    /// If there is no such item.
    pub fn number_errors(&self, items: &[u32]) -> Option<Vec<f64>> {
        if !self.bounds_numbers() {
            return None;
        }
        let own = self.rows.as_ref().map_or(0..items.len(), |rows| rows.positions(items));
        let mut errors = vec![0.0; items.len()];
        let places = errors[own.clone()].par_iter_mut().zip(&items[own]);
        places.for_each(|(to, &item)| *to = self.number_error(item).unwrap_or(f64::NAN));
        if let Some(rows) = &self.rows {
            rows.share(items, &mut errors, 1);
        }
        Some(errors)
    }

    /// Number of logits per item.
    pub fn outputs(&self) -> usize {
        self.network.outputs()
    }

    /// Calls `work` with the items and their logits, one chunk at a time, one row per item. Refuses
    /// logits that are not finite.
    ///
    /// # Panics
    /// If there is no such item.
    pub fn each_chunk<E: From<PredictError> + ToString>(
        &self,
        items: &[u32],
        mut work: impl FnMut(&[u32], MatrixRef<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each_state_chunk(items, |chunk, states| {
            let all: Vec<u32> = (0..chunk.len() as u32).collect();
            let logits = self.network.logits(states, &all);
            for (row, &number) in chunk.iter().enumerate() {
                if let Some(&found) = logits.row(row).iter().find(|logit| !logit.is_finite()) {
                    let item = if self.network.pooling.is_some() { "graph" } else { "node" };
                    return Err(PredictError::Overflow { item, number, found }.into());
                }
            }
            work(chunk, logits.view())
        })
    }
}

/// The features of this graph that the model reads.
fn features(
    model: &Model,
    origin: &Path,
    graph: &Graph,
    operators: &Operators,
) -> Result<Features, PredictError> {
    let shape = |name: &str| {
        model.values.iter().find(|(slot, _)| slot.name == name).map(|value| value.0.shape)
    };
    let path = graph.path();
    if let Some((rows, _)) = shape(name::E) {
        let (found, expected) = (graph.manifest().nodes, rows as u64);
        if found != expected {
            return Err(PredictError::Nodes {
                model: origin.into(),
                dataset: path.into(),
                found,
                expected,
            });
        }
        model.check_nodes(graph, origin)?;
        return Ok(Features::Learned);
    }
    let omega = |slot: &Slot| slot.name == name::OMEGA || slot.name.starts_with("layer0.Omega.");
    let Some((_, columns)) =
        model.values.iter().find(|(slot, _)| omega(slot)).map(|value| value.0.shape)
    else {
        let names: Vec<_> = model.values.iter().map(|(slot, _)| slot.name.as_str()).collect();
        let expected = format!("{} or {}", name::OMEGA, name::E);
        return Err(FormatError::invalid(origin, "parameters", names.join(", "), expected).into());
    };
    let config = &model.config.model;
    let made = match Kind::of(config.kind).features {
        FeatureRule::Computed(computed) => Some((computed.compute)(config, operators)),
        _ => None,
    };
    let found = match &made {
        Some(made) => made.cols() as u64,
        None => graph.directory().features()?.columns,
    };
    if made.is_none() {
        check_encoding(model, origin, graph)?;
    }
    let expected = columns as u64;
    if found != expected {
        return Err(PredictError::Columns {
            model: origin.into(),
            dataset: path.into(),
            found,
            expected,
        });
    }
    match made {
        Some(made) => Ok(Features::Dense(made)),
        None => {
            let features = Features::read_rows(graph, operators.rows())?;
            let normalises = model.config.model.normalise_features;
            Ok(if normalises { features.normalised() } else { features })
        }
    }
}

/// Refuses features of a table that was encoded otherwise than the one that the model was trained on:
/// the same column would mean something else.
fn check_encoding(model: &Model, origin: &Path, graph: &Graph) -> Result<(), PredictError> {
    let Some(expected) = &model.encoding else { return Ok(()) };
    let found = match &graph.manifest().encoding {
        Some(found) => found.difference(expected),
        None => Some("features that are not those of a node table".into()),
    };
    match found {
        None => Ok(()),
        Some(found) => Err(PredictError::Encoding {
            model: origin.into(),
            dataset: graph.path().into(),
            found,
        }),
    }
}

/// Refuses parameters that are not finite; otherwise they would only show up in the predictions.
/// Those of a file are finite; those of a program need not be.
fn check_finite(model: &Model, origin: &Path) -> Result<(), FormatError> {
    for (Slot { name, .. }, value) in &model.values {
        if let Some((_, found)) = elementwise::first_not_finite(value.view()) {
            let expected = "finite numbers: training went wrong";
            return Err(FormatError::invalid(origin, format!("parameter {name}"), found, expected));
        }
    }
    Ok(())
}
