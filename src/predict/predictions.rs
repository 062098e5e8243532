//! The predictions of a model for a graph, all in memory: classes, probabilities and embeddings,
//! per node or graph. [`super::Predictor`] computes the same in chunks of rows.

use super::error::PredictError;
use super::evaluation::Evaluation;
use super::parts::{Choice, Parts};
use super::predictor::{Item, SolvedModel};
use super::probability::probabilities;
use super::truth::Truth;
use crate::dense::{Matrix, MatrixRef};
use crate::graph::{Graph, Graphs, IdRef, Ids, LabelKind, Labels};
use crate::metrics::predicted_class;
use crate::solver::{Condition, Posedness, SolveInfo};

/// The predictions of a model for every node of a graph, or for every graph of a collection where
/// the model classifies graphs. Items are numbered as in the dataset, from 0.
///
/// ```
/// use ignn::prelude::*;
///
/// # let clique = |at: u32| (0..8).flat_map(move |i| (0..i).map(move |j| (at + i, at + j)));
/// # let names = Ids::Integer((100..116).collect());
/// let graph = GraphBuilder::new(16) // Two cliques of 8 nodes, joined by an edge; ids from 100.
/// #   .ids(names).edges(clique(0).chain(clique(8)).chain([(0, 8)]))
/// #   .classes(["left", "right"], (0..16).map(|node| Some(node / 8)))
/// #   .split([1, 9], [2, 10], (3..8).chain(11..16))
///     // ...
///     .build()?;
/// let mut config = Config::default();
/// (config.model.state, config.train.epochs) = (vec![4], 30);
/// let model = Trainer::new(&graph, config)?.fit()?.model;
///
/// let predictions = model.predict(&graph)?;
/// assert_eq!(predictions.class_name(5), "left");
/// assert!(predictions.probabilities(5)[0] > 0.5);
///
/// // By the original id: node 12 is called 112.
/// let node = predictions.position(IdRef::Integer(112))?.expect("a node of the graph");
/// assert_eq!(predictions.class_name(node), "right");
///
/// // How the equilibrium was found: converged, unique, and how far off at most.
/// let solve = predictions.solve().expect("a model with an equilibrium");
/// assert!(solve.converged && predictions.is_certified());
/// assert!(solve.certified_error.expect("a bound").largest < 0.1);
///
/// // Against the labels of the test part of the split.
/// let test = &predictions.evaluate()?.parts[2];
/// assert_eq!((test.part.as_str(), test.scores.accuracy), ("test", Some(1.0)));
/// # Ok::<(), ignn::Error>(())
/// ```
pub struct Predictions {
    pub(super) graph: Graph,
    pub(super) item: Item,
    pub(super) classes: Vec<String>,
    pub(super) labels: LabelKind,
    /// The split that the model was trained on.
    pub(super) split: String,
    pub(super) solved: SolvedModel,
    pub(super) logits: Matrix,
    pub(super) posedness: Vec<Posedness>,
}

impl Predictions {
    /// Number of nodes, or of graphs.
    pub fn len(&self) -> usize {
        self.logits.rows()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nodes or graphs are predicted.
    pub fn item(&self) -> Item {
        self.item
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Whether an item has one class or a set of them.
    pub fn label_kind(&self) -> LabelKind {
        self.labels
    }

    /// Scores before softmax or sigmoid: one row per item, one column per class.
    pub fn logits(&self) -> MatrixRef<'_> {
        self.logits.view()
    }

    /// The most probable class of an item, by position among [`Predictions::classes`].
    ///
    /// # Panics
    /// If there is no such item.
    pub fn class(&self, item: usize) -> usize {
        predicted_class(self.logits.row(item))
    }

    /// The name of the most probable class.
    ///
    /// # Panics
    /// If there is no such item.
    pub fn class_name(&self, item: usize) -> &str {
        &self.classes[self.class(item)]
    }

    /// All classes of an item: the most probable one, or those with a probability of at least 0.5
    /// where an item has a set of classes.
    ///
    /// # Panics
    /// If there is no such item.
    pub fn class_set(&self, item: usize) -> Vec<usize> {
        predicted_classes(self.labels, self.logits.row(item))
    }

    /// The probability of every class.
    ///
    /// # Panics
    /// If there is no such item.
    pub fn probabilities(&self, item: usize) -> Vec<f32> {
        let mut out = Vec::new();
        probabilities(self.labels, self.logits.row(item), &mut out);
        out
    }

    /// The number of an item, in the unit of the dataset; `None` for a model of classes.
    ///
    /// # Panics
    /// If there is no such item.
    pub fn number(&self, item: usize) -> Option<f64> {
        self.solved.number(self.logits.row(item))
    }

    /// How far the number of an item is from that of the exact equilibrium at most, in the unit of
    /// the dataset. It bounds errors of the computation, not of the model. See
    /// [`SolvedModel::number_error`].
    ///
    /// # Panics
    /// If there is no such item.
    pub fn number_error(&self, item: usize) -> Option<f64> {
        self.solved.number_error(item as u32)
    }

    /// The model on its graph, solved.
    pub fn solved(&self) -> &SolvedModel {
        &self.solved
    }

    /// The rows that the readout takes, one per item. For a model of one layer, that is the
    /// equilibrium.
    pub fn embeddings(&self) -> MatrixRef<'_> {
        self.solved.states()
    }

    /// Reads the original ids of the items.
    pub fn ids(&self) -> Result<Ids, PredictError> {
        item_ids(&self.graph, self.item)
    }

    /// The item with an original id; reads and searches all ids.
    pub fn position(&self, id: IdRef<'_>) -> Result<Option<usize>, PredictError> {
        Ok(self.ids()?.iter().position(|own| own == id))
    }

    /// How the equilibria were solved, all layers and graphs together; `None` for a model without
    /// an equilibrium.
    pub fn solve(&self) -> Option<SolveInfo> {
        self.solved.solve()
    }

    /// How they were solved, one per layer with an equilibrium.
    pub fn solves(&self) -> &[SolveInfo] {
        self.solved.solves()
    }

    /// Which condition for a unique equilibrium holds on this graph, one per layer with an
    /// equilibrium; in a collection, on the graph with the largest bound.
    pub fn posedness(&self) -> &[Posedness] {
        &self.posedness
    }

    /// Whether the equilibrium is certified to be unique; false for a model without one.
    pub fn is_certified(&self) -> bool {
        let holds = |layer: &Posedness| layer.condition != Condition::NotCertified;
        !self.posedness.is_empty() && self.posedness.iter().all(holds)
    }

    /// Scores against the graph's labels, for each part of the split that the model was trained on;
    /// without such a split, for all items.
    pub fn evaluate(&self) -> Result<Evaluation, PredictError> {
        let graphs = self.graph.collection()?;
        let labels = item_labels(&self.graph, graphs.as_ref(), self.item)?;
        let truth = Truth::new(labels, &self.classes, self.labels)
            .map_err(|source| PredictError::Truth { dataset: self.graph.path().into(), source })?;
        let choice = Choice { graph: &self.graph, graphs: graphs.as_ref(), item: self.item };
        let parts = Parts::of(choice, None, &self.split)?;
        Evaluation::of(&self.solved, self.item, &truth, &parts)
    }
}

/// The rows that the readout of a model takes, in memory; see [`crate::models::Model::embed`].
///
/// ```
/// use ignn::prelude::*;
///
/// # let graph = GraphBuilder::new(6).edges([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
/// #     .features(1, vec![1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
/// #     .classes(["a", "b"], (0..6).map(|node| Some(node / 3)))
/// #     .split([0, 3], [1, 4], [2, 5])
/// #     .build()?;
/// # let mut config = Config::default();
/// # (config.model.state, config.train.epochs) = (vec![4], 5);
/// let model = Trainer::new(&graph, config)?.fit()?.model;
/// let embeddings = model.embed(&graph)?;
/// assert_eq!((embeddings.view().rows(), embeddings.view().cols()), (6, 4));
/// // Nodes 0 and 1 have the same features and the same neighbourhood.
/// assert_eq!(embeddings.row(0), embeddings.row(1));
/// # Ok::<(), ignn::Error>(())
/// ```
pub struct Embeddings {
    pub(super) graph: Graph,
    pub(super) item: Item,
    pub(super) solved: SolvedModel,
}

impl Embeddings {
    /// One row per node, or per graph where the model classifies graphs.
    pub fn view(&self) -> MatrixRef<'_> {
        self.solved.states()
    }

    /// The row of an item.
    ///
    /// # Panics
    /// If there is no such item.
    pub fn row(&self, item: usize) -> &[f32] {
        self.solved.states().row(item)
    }

    /// The matrix, without a copy.
    pub fn into_matrix(self) -> Matrix {
        self.solved.into_states()
    }

    /// Whether rows are those of nodes or of graphs.
    pub fn item(&self) -> Item {
        self.item
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Reads the original ids of the items.
    pub fn ids(&self) -> Result<Ids, PredictError> {
        item_ids(&self.graph, self.item)
    }

    /// How the equilibria were solved, all layers and graphs together; `None` for a model without
    /// an equilibrium.
    pub fn solve(&self) -> Option<SolveInfo> {
        self.solved.solve()
    }
}

/// Classes that a row of logits predicts; none for a number.
pub fn predicted_classes(labels: LabelKind, logits: &[f32]) -> Vec<usize> {
    match labels {
        LabelKind::Single => vec![predicted_class(logits)],
        // A sigmoid of at least 0.5.
        LabelKind::Multi => (0..logits.len()).filter(|&class| logits[class] >= 0.0).collect(),
        LabelKind::Number => Vec::new(),
    }
}

fn item_ids(graph: &Graph, item: Item) -> Result<Ids, PredictError> {
    Ok(match (item, graph.collection()?) {
        (Item::Graph, Some(graphs)) => Ids::from_strings(graphs.ids.iter().map(String::as_str)),
        _ => graph.ids()?,
    })
}

/// Labels of the items that a model predicts.
pub fn item_labels(
    graph: &Graph,
    graphs: Option<&Graphs>,
    item: Item,
) -> Result<Labels, ignn_format::FormatError> {
    match (item, graphs) {
        (Item::Graph, Some(graphs)) => graphs.item_labels().ok_or_else(|| {
            let (path, what) = (graph.path().into(), "labels of graphs".into());
            ignn_format::FormatError::Missing { path, what, hint: String::new() }
        }),
        _ => graph.labels(),
    }
}
