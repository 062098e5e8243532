//! What training needs from a graph: operators, labels, and the items of each part of a split. This
//! module reads and checks; it holds no model.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ignn_format::FormatError;
use ignn_format::encoding::Scaling;
use ignn_format::graphs::Graphs;
use ignn_format::labels::{LabelKind, Labels};
use ignn_format::splits::Split;

use super::TrainError;
use super::settings::words;
use crate::config::{
    Config, FeatureSource, FeatureStart, ModelConfig, TaskChoice, TrainConfig, find_part,
};
use crate::dense::{Matrix, MatrixRef};
use crate::graph::{Graph, Manifest, RelationEntry};
use crate::metrics::{Ranking, Scores};
use crate::models::kinds::{ComputedFeatures, FeatureRule};
use crate::models::{Facts, Kind, ModelError};
use crate::nn::{
    ClassWeights, Features, LossChoice, LossKind, Operators, PoolingChoice, RankError, Targets,
};
use crate::parallel::{Alone, Ranks, Rows};

/// Kinds of labels, for messages.
pub(super) const CLASSES: &str = "one class per node";
pub(super) const SETS: &str = "sets of classes";
pub(super) const NUMBERS: &str = "numbers";

/// The nodes, or graphs, of each part, in ascending order. In a [`Task`] each has a label.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// The items that the loss is computed on.
    pub train: Vec<u32>,
    /// The items that the best epoch is chosen on; empty where the split has no such part.
    pub validation: Vec<u32>,
    /// The items that are only reported; empty where the split has no such part.
    pub test: Vec<u32>,
}

impl Parts {
    /// The parts with their names in records.
    pub fn named(&self) -> [(&'static str, &[u32]); 3] {
        [("train", &self.train), ("validation", &self.validation), ("test", &self.test)]
    }

    /// Number of items for training, validation and test.
    pub fn lengths(&self) -> [usize; 3] {
        self.named().map(|(_, items)| items.len())
    }

    fn map(&self, of: impl Fn(&[u32]) -> Vec<u32>) -> Self {
        Self { train: of(&self.train), validation: of(&self.validation), test: of(&self.test) }
    }

    /// The items with a label.
    fn labelled(&self, labels: &Labels) -> Self {
        self.map(|items| {
            items.iter().copied().filter(|&item| labels.is_labelled(item as usize)).collect()
        })
    }

    /// The nodes of these graphs.
    fn nodes(&self, graphs: &Graphs) -> Self {
        let range =
            |&graph: &u32| graphs.first_node[graph as usize]..graphs.first_node[graph as usize + 1];
        self.map(|own| own.iter().flat_map(range).map(|node| node as u32).collect())
    }
}

/// Columns of features computed from the graph, for kinds of models that have them.
pub(super) fn computed_columns(manifest: &Manifest, config: &ModelConfig) -> Option<usize> {
    let FeatureRule::Computed(computed) = Kind::of(config.kind).features else { return None };
    let directions = |relation: &RelationEntry| 1 + usize::from(!relation.symmetric);
    Some((computed.columns)(config, manifest.relations.iter().map(directions).sum()))
}

/// A graph, opened for training. Several trainers may share it.
///
/// ```
/// use std::sync::Arc;
/// use ignn::prelude::*;
/// use ignn::train::{Parts, Task};
///
/// let graph = GraphBuilder::new(4)
///     .edges([(0, 1), (2, 3)])
///     .classes(["a", "b"], [Some(0), None, Some(1), None])
///     .split([0, 1, 2], [], [])
///     .build()?;
/// let mut config = Config::default();
/// (config.model.state, config.train.epochs) = (vec![4], 3);
/// let task = Arc::new(Task::open(graph, &config)?);
/// assert_eq!(task.parts().train, [0, 2], "the nodes with a label");
/// // Two seeds; relations are mapped, checked and bounded once.
/// for seed in [1, 2] {
///     config.train.seed = seed;
///     Trainer::with_task(Arc::clone(&task), config.clone())?.fit()?;
/// }
///
/// // Other nodes than those of the split.
/// let parts = Parts { train: vec![2, 3], ..Parts::default() };
/// let task = Task::with_parts(task.graph().clone(), &config, Some(parts))?;
/// assert_eq!(task.parts().train, [2]);
/// # Ok::<(), ignn::Error>(())
/// ```
#[derive(Debug)]
pub struct Task {
    graph: Graph,
    ranks: Arc<dyn Ranks>,
    operators: OnceLock<Operators>,
    /// Whether there is no memory for copies of the operators' entries.
    leaves_out_copies: AtomicBool,
    labels: Labels,
    /// For numbers: the statistics of the training part, and all numbers standardised by them.
    standardised: Option<(Scaling, Vec<f32>)>,
    parts: Parts,
    /// For a split of graphs: all graphs, and the graphs of each part.
    graphs: Option<(Graphs, Parts)>,
    pools: bool,
    loss: LossKind,
    learns_features: bool,
    normalises_features: bool,
    /// Features computed from the graph, with their settings, for kinds of models that have them.
    computed_features: Option<(ComputedFeatures, ModelConfig)>,
}

impl Task {
    /// Opens the relations, labels and split that the configuration selects.
    pub fn open(graph: Graph, config: &Config) -> Result<Self, TrainError> {
        Self::with_parts(graph, config, None)
    }

    /// The same on one of several ranks, which all call this together.
    pub fn on_ranks(
        graph: Graph,
        config: &Config,
        ranks: Arc<dyn Ranks>,
    ) -> Result<Self, TrainError> {
        let path = graph.path().to_path_buf();
        let same = RankError::check_same(&graph, &config.to_toml(), &*ranks);
        same.map_err(|source| TrainError::Ranks { path, source })?;
        let opened = ranks.agree(Self::open(graph, config), TrainError::OtherRank)?;
        Ok(Self { ranks, ..opened })
    }

    /// The ranks that share the graph.
    pub fn ranks(&self) -> &Arc<dyn Ranks> {
        &self.ranks
    }

    /// Like [`Task::open`], but the caller chooses the items of each part instead of a split: nodes of one
    /// graph, or graphs of a collection. Those without a label are left out.
    ///
    /// # Panics
    /// If there is no such item.
    pub fn with_parts(
        graph: Graph,
        config: &Config,
        chosen: Option<Parts>,
    ) -> Result<Self, TrainError> {
        // Mapped here, so that a damaged relation is the first thing reported.
        graph.relations()?;
        let graphs = graph.collection()?;
        let pools = match (&graphs, config.model.pooling) {
            (_, PoolingChoice::None) => false,
            (Some(graphs), _) if graphs.has_labels() => true,
            (_, PoolingChoice::Auto) => false,
            (_, wanted) => {
                return Err(TrainError::Pooling {
                    path: graph.path().into(),
                    wanted: wanted.to_string(),
                });
            }
        };
        let labels = match graphs.as_ref().filter(|_| pools).and_then(Graphs::item_labels) {
            Some(labels) => labels,
            None => graph.labels()?,
        };
        let labels = wanted_labels(labels, config.train.task)?;
        let (graphs, chosen) = match graphs {
            Some(graphs) => {
                let parts = graph_parts(&graph, &graphs, config, chosen, pools)?;
                // Where graphs have the labels, one without a label has nothing to learn from.
                let parts = parts.map(|parts| if pools { parts.labelled(&labels) } else { parts });
                (parts.map(|parts| (graphs, parts)), None)
            }
            None => (None, chosen),
        };
        let parts = match (&graphs, chosen) {
            (Some((_, parts)), _) if pools => parts.clone(),
            (Some((graphs, parts)), _) => parts.nodes(graphs).labelled(&labels),
            (None, Some(chosen)) => chosen.labelled(&labels),
            (None, None) => node_parts(&graph, &config.train)?.labelled(&labels),
        };
        if parts.train.is_empty() {
            return Err(no_train_items(&graph, &config.train, pools));
        }
        let loss = loss(labels.kind(), config.train.loss)?;
        check_numbers(&labels, config)?;
        check_size(&labels)?;
        let standardised = standardised(&labels, &parts.train);
        let has_features = graph.manifest().features.is_some();
        let rule = Kind::of(config.model.kind).features;
        let learns_features = match (rule, config.model.features) {
            (FeatureRule::Labels, _) => true,
            (FeatureRule::Computed(_), _) => false,
            (FeatureRule::Configured, FeatureSource::Auto) => !has_features,
            (FeatureRule::Configured, FeatureSource::Learned) => true,
            (FeatureRule::Configured, FeatureSource::Given) if has_features => false,
            (FeatureRule::Configured, FeatureSource::Given) => {
                return Err(ModelError::NoFeatures.into());
            }
        };
        if learns_features && graphs.is_some() {
            return Err(match rule {
                FeatureRule::Labels => TrainError::NothingToSpread,
                _ => TrainError::LearnedByGraph,
            });
        }
        let computed_features = match rule {
            FeatureRule::Computed(computed) => Some((computed, config.model.clone())),
            _ => None,
        };
        let normalises_features = config.model.normalise_features;
        Ok(Self {
            graph,
            ranks: Alone::shared(),
            operators: OnceLock::new(),
            leaves_out_copies: AtomicBool::new(false),
            labels,
            standardised,
            parts,
            graphs,
            pools,
            loss,
            learns_features,
            normalises_features,
            computed_features,
        })
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The operators of its relations, with their bounds; computed by the first call.
    pub fn operators(&self) -> Result<&Operators, TrainError> {
        if let Some(operators) = self.operators.get() {
            return Ok(operators);
        }
        let relations = self.graph.relations()?;
        // Batches of graphs are not divided.
        let operators = match self.graphs {
            Some(_) => Ok(Operators::of_graphs(relations, &self.ranks)),
            None => Operators::of_rank(relations, &self.ranks),
        };
        let path = || self.graph.path().into();
        let operators = operators.map_err(|source| TrainError::Ranks { path: path(), source })?;
        if self.leaves_out_copies() {
            operators.leave_out_copies();
        }
        Ok(self.operators.get_or_init(|| operators))
    }

    /// Trains without copies of the operators' entries, for want of memory.
    pub(super) fn leave_out_copies(&self) {
        self.leaves_out_copies.store(true, Ordering::Relaxed);
        if let Some(operators) = self.operators.get() {
            operators.leave_out_copies();
        }
    }

    pub(super) fn leaves_out_copies(&self) -> bool {
        self.leaves_out_copies.load(Ordering::Relaxed)
    }

    /// The rows of this rank, if there are several.
    pub fn rows_of_rank(&self) -> Option<&Rows> {
        self.operators.get().map(Operators::rows).filter(|rows| !rows.is_alone())
    }

    /// What a model has to know about the graph. `radii` has one bound per relation; kappa is
    /// divided by it.
    pub fn facts(&self, radii: Vec<f64>) -> Facts {
        let manifest = self.graph.manifest();
        let given = manifest.features.as_ref().map(|entry| entry.columns as usize);
        let columns = self.computed_columns().or(given);
        Facts {
            nodes: manifest.nodes as usize,
            columns: columns.filter(|_| !self.learns_features),
            relations: manifest.relations.iter().map(|relation| relation.name.clone()).collect(),
            radii,
            outputs: self.labels.classes().len(),
            pools: self.pools,
        }
    }

    /// The largest number of nodes that are solved at once.
    pub fn nodes_at_once(&self, config: &Config) -> u64 {
        let Some((graphs, parts)) = &self.graphs else { return self.graph.manifest().nodes };
        let nodes = |graph: &u32| {
            graphs.first_node[*graph as usize + 1] - graphs.first_node[*graph as usize]
        };
        let mut sizes: Vec<u64> = parts.train.iter().map(nodes).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let count = if config.train.batch == 0 { sizes.len() } else { config.train.batch as usize };
        sizes.iter().take(count).sum()
    }

    /// For a split of graphs: all graphs, and the graphs of each part.
    pub fn graphs(&self) -> Option<(&Graphs, &Parts)> {
        self.graphs.as_ref().map(|(graphs, parts)| (graphs, parts))
    }

    /// Whether a node, or a graph where graphs have the labels, has a label.
    pub fn is_labelled(&self, item: u32) -> bool {
        self.labels.is_labelled(item as usize)
    }

    /// Reads or computes the features; nothing where they are learned.
    pub fn features(&self) -> Result<Features, TrainError> {
        if let Some((computed, config)) = &self.computed_features {
            return Ok(Features::Dense((computed.compute)(config, self.operators()?)));
        }
        if self.learns_features {
            return Ok(Features::Learned);
        }
        let normalised = |features: Features| match self.normalises_features {
            true => features.normalised(),
            false => features,
        };
        let rows = self.operators()?.rows();
        if rows.is_alone() {
            return Ok(normalised(Features::read(&self.graph)?));
        }
        let features = Features::read_rows(&self.graph, rows).map_err(TrainError::from);
        let mut features = normalised(self.ranks.agree(features, TrainError::OtherRank)?);
        features.update(rows);
        Ok(features)
    }

    /// Columns of features computed from the graph, for kinds of models that have them.
    pub fn computed_columns(&self) -> Option<usize> {
        let (_, config) = self.computed_features.as_ref()?;
        computed_columns(self.graph.manifest(), config)
    }

    /// Writes 1 for every label of a training node into a table with one row per node and at least
    /// one column per class. Returns the number of labels.
    pub fn put_labels(&self, table: &mut Matrix) -> usize {
        let mut count = 0;
        for &node in &self.parts.train {
            let row = table.row_mut(node as usize);
            for class in self.targets().classes_of(node) {
                row[class] = 1.0;
                count += 1;
            }
        }
        count
    }

    /// Whether features are learned.
    pub fn learns_features(&self) -> bool {
        self.learns_features
    }

    /// Labels of all nodes, or graphs.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The labelled items of each part.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The loss.
    pub fn loss(&self) -> LossKind {
        self.loss
    }

    /// Whether the validation part has several numbers to predict, all of them equal.
    pub(super) fn validation_is_constant(&self) -> bool {
        let Labels::Number { of, .. } = self.labels() else { return false };
        let mut numbers = self.parts().validation.iter().map(|&item| of[item as usize]);
        let Some(first) = numbers.next() else { return false };
        let mut others = numbers.peekable();
        others.peek().is_some() && others.all(|number| number == first)
    }

    /// The labels as the loss reads them; numbers are standardised.
    pub fn targets(&self) -> Targets<'_> {
        match (&self.standardised, Targets::of_classes(&self.labels)) {
            (Some((_, numbers)), _) => Targets::Numbers(numbers),
            (None, Some(targets)) => targets,
            (None, None) => unreachable!("numbers are standardised when a task is opened"),
        }
    }

    /// The statistics that numbers are standardised by: those of the training part.
    pub fn scaling(&self) -> Option<Scaling> {
        self.standardised.as_ref().map(|(scaling, _)| *scaling)
    }

    /// Scores of some items that all have a label, but the log loss; with those of a ranking if
    /// `ranked`.
    pub fn scores(&self, logits: MatrixRef<'_>, nodes: &[u32], ranked: bool) -> Scores {
        let ranking = |ranking: &dyn Fn() -> Ranking| match ranked {
            true => ranking(),
            false => Ranking::default(),
        };
        match &self.labels {
            Labels::Single { of, .. } => Scores::of_classes(logits, nodes, of)
                .with_ranking(ranking(&|| Ranking::of_classes(logits, nodes, of))),
            Labels::Multi { offsets, of, .. } => Scores::of_labels(logits, nodes, offsets, of)
                .with_ranking(ranking(&|| Ranking::of_labels(logits, nodes, offsets, of))),
            Labels::Number { of, .. } => {
                let scaling = self.scaling().expect("of numbers");
                let predicted = |row| scaling.restored(f64::from(logits.row(row)[0]));
                let predicted: Vec<f64> = (0..logits.rows()).map(predicted).collect();
                let truth: Vec<f64> = nodes.iter().map(|&node| of[node as usize]).collect();
                Scores::of_numbers(&predicted, &truth)
            }
        }
    }
}

/// The labels as the task wants them: classes with numbers as names may be read as numbers.
pub(crate) fn wanted_labels(labels: Labels, task: TaskChoice) -> Result<Labels, TrainError> {
    match (task, labels) {
        (TaskChoice::Classification, Labels::Number { name: [name], .. }) => {
            Err(TrainError::NotClasses { name })
        }
        (TaskChoice::Regression, labels) => {
            labels.into_numbers().map_err(|found| TrainError::NotNumbers { found })
        }
        (_, labels) => Ok(labels),
    }
}

/// Refuses settings that have a meaning for classes only.
fn check_numbers(labels: &Labels, config: &Config) -> Result<(), TrainError> {
    let Labels::Number { name: [name], .. } = labels else { return Ok(()) };
    let refused =
        |setting, hint| Err(TrainError::ClassesOnly { setting, name: name.clone(), hint });
    if config.train.class_weights != ClassWeights::None {
        return refused("train.class_weights", "use train.class_weights=none");
    }
    if let FeatureRule::Labels = Kind::of(config.model.kind).features {
        return refused("model.kind", "use another kind, such as sgc or gcn");
    }
    if config.model.init_features == FeatureStart::Labels {
        return refused("model.init_features", "use model.init_features=random");
    }
    Ok(())
}

/// Largest size of a number to predict: squares of differences of many are finite.
const LARGEST: f64 = 1e100;

fn check_size(labels: &Labels) -> Result<(), TrainError> {
    let Labels::Number { name: [name], of } = labels else { return Ok(()) };
    match of.iter().find(|number| number.abs() > LARGEST) {
        Some(&found) => Err(TrainError::LargeNumber { name: name.clone(), found }),
        None => Ok(()),
    }
}

/// Statistics of the numbers of these items, and all numbers standardised by them.
fn standardised(labels: &Labels, train: &[u32]) -> Option<(Scaling, Vec<f32>)> {
    let Labels::Number { of, .. } = labels else { return None };
    let known: Vec<f64> = train.iter().map(|&item| of[item as usize]).collect();
    let scaling = Scaling::of(&known);
    Some((scaling, of.iter().map(|&number| scaling.standardised(number) as f32).collect()))
}

fn loss(labels: LabelKind, wanted: LossChoice) -> Result<LossKind, TrainError> {
    let (kind, expected) = match wanted {
        LossChoice::Auto => {
            return Ok(match labels {
                LabelKind::Single => LossKind::CrossEntropy,
                LabelKind::Multi => LossKind::BinaryCrossEntropy,
                LabelKind::Number => LossKind::Squared,
            });
        }
        LossChoice::CrossEntropy => (LossKind::CrossEntropy, LabelKind::Single),
        LossChoice::BinaryCrossEntropy => (LossKind::BinaryCrossEntropy, LabelKind::Multi),
        LossChoice::Squared => (LossKind::Squared, LabelKind::Number),
        LossChoice::Absolute => (LossKind::Absolute, LabelKind::Number),
    };
    if labels == expected {
        return Ok(kind);
    }
    let fits = match labels {
        LabelKind::Single => "cross-entropy",
        LabelKind::Multi => "binary-cross-entropy",
        LabelKind::Number => "squared, absolute",
    };
    let (found, labels, expected) = (wanted.word(), words(labels), words(expected));
    Err(TrainError::Loss { found, labels, expected, fits })
}

/// The nodes of each part of the selected split.
fn node_parts(graph: &Graph, config: &TrainConfig) -> Result<Parts, TrainError> {
    let splits = graph.splits()?;
    if splits.is_empty() {
        let (what, hint) = ("splits".into(), ": ingest with --splits or --split".into());
        return Err(FormatError::Missing { path: graph.path().into(), what, hint }.into());
    }
    parts_of(graph, &splits, config)
}

fn no_train_items(graph: &Graph, config: &TrainConfig, pools: bool) -> TrainError {
    let manifest = graph.manifest();
    let splits = match &manifest.graphs {
        Some(graphs) if !graphs.splits.is_empty() => &graphs.splits,
        _ => &manifest.splits,
    };
    let split = splits.iter().find(|split| split.name == config.split).or(splits.first());
    let parts =
        split.map_or(Vec::new(), |split| split.parts.iter().map(|part| part.0.clone()).collect());
    TrainError::NoTrainItems {
        path: graph.path().into(),
        split: split.map_or_else(|| config.split.clone(), |split| split.name.clone()),
        item: if pools { "graph" } else { "node" },
        part: config.train_part.clone(),
        found: parts.join(", "),
    }
}

/// The graphs of each part; `None` where nodes have the labels and there is no split of graphs.
fn graph_parts(
    graph: &Graph,
    graphs: &Graphs,
    config: &Config,
    chosen: Option<Parts>,
    pools: bool,
) -> Result<Option<Parts>, TrainError> {
    if chosen.is_some() {
        return Ok(chosen);
    }
    if graphs.splits.is_empty() && !pools {
        return Ok(None);
    }
    if graphs.splits.is_empty() {
        let what = "splits over graphs".into();
        let hint = ": use `ignn crossval`, which needs none".into();
        return Err(FormatError::Missing { path: graph.path().into(), what, hint }.into());
    }
    parts_of(graph, &graphs.splits, &config.train).map(Some)
}

/// The items of each part of the selected split.
fn parts_of(graph: &Graph, splits: &[Split], config: &TrainConfig) -> Result<Parts, TrainError> {
    let path = || graph.path().to_path_buf();
    let names =
        |splits: &[Split]| splits.iter().map(|s| s.name.clone()).collect::<Vec<_>>().join(", ");
    let split = splits.iter().find(|split| split.name == config.split).or(match splits {
        // The only split needs no name.
        [only] if config.split == "default" => Some(only),
        _ => None,
    });
    let Some(split) = split else {
        return Err(TrainError::Split {
            path: path(),
            wanted: config.split.clone(),
            found: names(splits),
        });
    };
    let items = |wanted: &str| -> Vec<u32> {
        let Some(part) = find_part(&split.parts, wanted) else { return Vec::new() };
        let own = split.of.iter().enumerate().filter(|(_, of)| usize::from(**of) == part);
        own.map(|(item, _)| item as u32).collect()
    };
    // A dataset may lack the parts of the default names; a name that was set by hand is a mistake.
    let default = TrainConfig::default();
    for (key, wanted, default) in [
        ("train.validation_part", &config.validation_part, &default.validation_part),
        ("train.test_part", &config.test_part, &default.test_part),
    ] {
        if wanted != default && find_part(&split.parts, wanted).is_none() {
            return Err(TrainError::Part {
                path: path(),
                split: split.name.clone(),
                key,
                wanted: wanted.clone(),
                found: split.parts.join(", "),
            });
        }
    }
    let used = [&config.train_part, &config.validation_part, &config.test_part];
    for (at, wanted) in used.into_iter().enumerate() {
        let part = find_part(&split.parts, wanted);
        if part.is_some() && used[..at].iter().any(|other| find_part(&split.parts, other) == part) {
            return Err(TrainError::SamePart {
                path: path(),
                split: split.name.clone(),
                part: wanted.clone(),
            });
        }
    }
    Ok(Parts {
        train: items(&config.train_part),
        validation: items(&config.validation_part),
        test: items(&config.test_part),
    })
}
