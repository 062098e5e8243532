//! A model on a dataset, before and after its equilibria are solved. It hands out rows and logits
//! of nodes, or of graphs where the model pools; what they mean is for `probability` and
//! `evaluation`.
//!
//! A dataset of many graphs is solved some graphs at a time ([`GRAPHS_NODES`]), each with its own
//! bounds; any other as a whole. Memory: features and their gathered copy, states and the solver's
//! workspace of what is solved at once, the rows that the read-out sees, and one chunk of logits. A
//! chunk is [`CHUNK_ITEMS`] items, fewer where there are many classes.

use std::path::{Path, PathBuf};

use ignn_format::FormatError;
use ignn_format::graphs::Graphs;

use super::error::PredictError;
use crate::dense::{Matrix, MatrixRef};
use crate::graph::Graph;
use crate::kernels::AdjacencyError;
use crate::models::file::name;
use crate::models::kinds::FeatureRule;
use crate::models::{Facts, Kind, Mode, Model, Network, OnGraph};
use crate::nn::{Features, GraphBatch, Input, Operators, PoolingChoice, Slot};
use crate::solver::{Condition, Posedness, SolveInfo, SolveParams};

/// Nodes or graphs that are read out at once, at most.
pub const CHUNK_ITEMS: usize = 1 << 16;
/// Floats of a chunk's states and logits, about.
const CHUNK_FLOATS: usize = 1 << 24;
/// Nodes of graphs that are solved together, about.
pub const GRAPHS_NODES: u64 = 1 << 15;

/// What a model predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A class, or classes, of every node.
    Node,
    /// Of every graph.
    Graph,
}

impl Item {
    /// What a model predicts.
    pub fn of(model: &Model) -> Self {
        match model.config.model.pooling {
            // A model that was trained on graphs says which pooling it has.
            PoolingChoice::Auto | PoolingChoice::None => Self::Node,
            PoolingChoice::Sum | PoolingChoice::Mean | PoolingChoice::Max => Self::Graph,
        }
    }
}

/// A model on a dataset.
pub struct Predictor {
    model: Network,
    place: PathBuf,
    operators: Operators,
    input: Input,
    /// Of many graphs: where they are, and bounds by relation and graph.
    graphs: Option<(Vec<u64>, Vec<Vec<f64>>)>,
}

/// A model on a dataset, solved.
pub struct Prediction {
    model: Network,
    /// What the read-out sees, a row an item.
    seen: Matrix,
    solves: Vec<SolveInfo>,
}

impl Predictor {
    /// Checks that the model fits the dataset, and reads the features it needs. `origin` is what
    /// messages call the model, `graphs` are the dataset's, where it has many.
    pub fn new(
        model: &Model,
        origin: &Path,
        dataset: &Graph,
        operators: &Operators,
        graphs: Option<&Graphs>,
    ) -> Result<Self, PredictError> {
        check_finite(model, origin)?;
        let place = dataset.directory().path();
        let item = Item::of(model);
        if item == Item::Graph && graphs.is_none() {
            return Err(PredictError::OneGraph { model: origin.into(), dataset: place.into() });
        }
        let features = features(model, origin, dataset, operators)?;
        let wrong = |source: AdjacencyError| PredictError::Adjacency { path: place.into(), source };
        let graphs = match graphs {
            // Learned rows belong to all nodes of their dataset.
            Some(graphs) if features.columns().is_some() => {
                let radii = operators.graph_radii(&graphs.first_node).map_err(wrong)?;
                Some((graphs.first_node.clone(), radii))
            }
            _ => None,
        };
        let manifest = dataset.manifest();
        let facts = Facts {
            nodes: manifest.nodes as usize,
            columns: features.columns(),
            relations: manifest.relations.iter().map(|relation| relation.name.clone()).collect(),
            radii: largest_radii(operators, graphs.as_ref()),
            outputs: model.classes.len(),
            pools: item == Item::Graph,
        };
        let model = model.restored(&facts, origin)?;
        let first = &model.layers[0];
        let input = Input::new(operators, features, first.input.clone(), first.between.is_some());
        Ok(Self { model, place: place.into(), operators: operators.clone(), input, graphs })
    }

    /// Which condition for one equilibrium holds on this dataset, by layer that has one; of many
    /// graphs on the one with the largest bound.
    pub fn posedness(&self) -> Vec<Posedness> {
        self.model.posedness(&largest_radii(&self.operators, self.graphs.as_ref()))
    }

    /// Of how many graphs it is certain that there is exactly one equilibrium, each by its own
    /// bound; none of a dataset that is one graph, and of models without an equilibrium.
    pub fn certified_graphs(&self) -> Option<u64> {
        let (first_node, radii) = self.graphs.as_ref()?;
        if self.posedness().is_empty() {
            return None;
        }
        let count = first_node.len() - 1;
        let is_certain = |radii: &[f64]| {
            let layers = self.model.posedness(radii);
            layers.iter().all(|layer| layer.condition != Condition::NotCertified)
        };
        if is_certain(&largest_radii(&self.operators, self.graphs.as_ref())) {
            return Some(count as u64);
        }
        let own = |graph: usize| -> Vec<f64> { radii.iter().map(|radii| radii[graph]).collect() };
        Some((0..count).filter(|&graph| is_certain(&own(graph))).count() as u64)
    }

    /// The model with its memory on all graphs at once, that of adjoints included: for
    /// measurements.
    pub fn on_graph(self) -> (Network, OnGraph) {
        let on = OnGraph::with_input(&self.model, &self.operators, self.input, true);
        (self.model, on)
    }

    /// Solves the equilibria from zero. One that did not converge is the best there is: see
    /// [`SolveInfo::converged`].
    pub fn solve(self, params: &SolveParams) -> Result<Prediction, PredictError> {
        let Self { mut model, place, operators, input, graphs } = self;
        let Some((first_node, radii)) = graphs else {
            let mut on = OnGraph::with_input(&model, &operators, input, false);
            let solves = on.forward(&mut model, params, Mode::Evaluation)?;
            return Ok(Prediction { seen: on.seen(&model), model, solves });
        };
        let wrong =
            |source: AdjacencyError| PredictError::Adjacency { path: place.clone(), source };
        let width = model.layers.last().map_or(0, |layer| layer.input.width);
        let pools = model.pooling.is_some();
        let items = if pools { first_node.len() - 1 } else { operators.nodes() };
        let (mut seen, mut solves) = (Matrix::zeros(items, width), Vec::<SolveInfo>::new());
        for chunk in chunks(&first_node) {
            let all = (&first_node[..], &radii[..]);
            let batch = GraphBatch::new(&operators, &input, all, &chunk).map_err(wrong)?;
            let rows = batch.first_rows();
            let GraphBatch { operators, input, .. } = batch;
            let mut on = OnGraph::with_input(&model, &operators, input, false).with_graphs(rows);
            let solved = on.forward(&mut model, params, Mode::Evaluation)?;
            let part = on.seen(&model);
            solves = match solves.is_empty() {
                true => solved,
                false => together(&solves, &solved),
            };
            let first = if pools { chunk[0] } else { first_node[chunk[0]] as usize };
            for row in 0..part.rows() {
                seen.row_mut(first + row).copy_from_slice(part.row(row));
            }
        }
        Ok(Prediction { model, seen, solves })
    }
}

/// Layer by layer.
fn together(before: &[SolveInfo], more: &[SolveInfo]) -> Vec<SolveInfo> {
    before
        .iter()
        .zip(more)
        .filter_map(|(before, more)| SolveInfo::together(&[*before, *more]))
        .collect()
}

/// Graphs that follow each other, cut where their nodes become many.
fn chunks(first_node: &[u64]) -> Vec<Vec<usize>> {
    let mut chunks: Vec<Vec<usize>> = Vec::new();
    let mut nodes = 0;
    for (graph, ends) in first_node.windows(2).enumerate() {
        let more = ends[1] - ends[0];
        match chunks.last_mut() {
            Some(chunk) if nodes + more <= GRAPHS_NODES => chunk.push(graph),
            _ => {
                chunks.push(vec![graph]);
                nodes = 0;
            }
        }
        nodes += more;
    }
    chunks
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

impl Prediction {
    /// How it was solved; the layers of a stack, and all graphs, together, none where the model has
    /// no equilibrium.
    pub fn solve(&self) -> Option<SolveInfo> {
        SolveInfo::together(&self.solves)
    }

    /// How it was solved, by layer that was.
    pub fn solves(&self) -> &[SolveInfo] {
        &self.solves
    }

    /// What the read-out sees, one row a node or, where the model pools, a graph; of a single layer
    /// the equilibrium.
    pub fn states(&self) -> MatrixRef<'_> {
        self.seen.view()
    }

    /// The same without a copy.
    pub fn into_states(self) -> Matrix {
        self.seen
    }

    /// Number of logits of an item.
    pub fn outputs(&self) -> usize {
        self.model.outputs()
    }

    /// Calls back with some items and their logits, one row each, until all of these items have
    /// been told, or one of the logits is no number.
    ///
    /// # Panics
    /// Where an item is none.
    pub fn each_chunk<E: From<PredictError>>(
        &self,
        items: &[u32],
        mut found: impl FnMut(&[u32], MatrixRef<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let width = self.states().cols() + self.outputs();
        let at_once = (CHUNK_FLOATS / width.max(1)).clamp(1, CHUNK_ITEMS);
        for chunk in items.chunks(at_once) {
            let logits = self.model.logits(self.states(), chunk);
            for (row, &number) in chunk.iter().enumerate() {
                if let Some(&found) = logits.row(row).iter().find(|logit| !logit.is_finite()) {
                    let item = if self.model.pooling.is_some() { "graph" } else { "node" };
                    return Err(PredictError::Overflow { item, number, found }.into());
                }
            }
            found(chunk, logits.view())?;
        }
        Ok(())
    }
}

/// What the model takes for the features of this dataset's nodes.
fn features(
    model: &Model,
    origin: &Path,
    dataset: &Graph,
    operators: &Operators,
) -> Result<Features, PredictError> {
    let shape = |name: &str| {
        model.values.iter().find(|(slot, _)| slot.name == name).map(|value| value.0.shape)
    };
    let place = dataset.directory().path();
    if let Some((rows, _)) = shape(name::E) {
        let (found, expected) = (dataset.manifest().nodes, rows as u64);
        if found != expected {
            return Err(PredictError::Nodes {
                model: origin.into(),
                dataset: place.into(),
                found,
                expected,
            });
        }
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
        None => dataset.directory().features()?.columns,
    };
    let expected = columns as u64;
    if found != expected {
        return Err(PredictError::Columns {
            model: origin.into(),
            dataset: place.into(),
            found,
            expected,
        });
    }
    match made {
        Some(made) => Ok(Features::Dense(made)),
        None if model.config.model.normalise_features => Ok(Features::read(dataset)?.normalised()),
        None => Ok(Features::read(dataset)?),
    }
}

/// A number that is none would only be found in the predictions.
fn check_finite(model: &Model, origin: &Path) -> Result<(), FormatError> {
    for (Slot { name, .. }, value) in &model.values {
        let mut entries = (0..value.rows()).flat_map(|row| value.row(row));
        if let Some(entry) = entries.find(|entry| !entry.is_finite()) {
            let expected = "finite numbers: training went wrong, or the file is damaged";
            return Err(FormatError::invalid(origin, format!("parameter {name}"), entry, expected));
        }
    }
    Ok(())
}
