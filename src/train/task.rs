//! What training needs of a dataset: its relation, labels, and the nodes of each part of a split.
//! It reads and checks; it holds no model.

use ignn_format::labels::Labels;
use ignn_format::splits::Split;
use ignn_format::{FormatError, Relation};

use super::TrainError;
use crate::config::{FeatureSource, IgnnConfig, InputMap, LossName, TrainConfig, find_part};
use crate::dense::MatrixRef;
use crate::graph::Dataset;
use crate::metrics::Scores;
use crate::models::{ModelError, only_relation};
use crate::nn::{Features, LossKind, Operators, Targets};

/// Kinds of labels in words.
pub(super) const CLASSES: &str = "one class a node";
pub(super) const SETS: &str = "sets of classes";

/// Nodes of a part, rising, with at least one label each.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Learned from.
    pub train: Vec<u32>,
    /// The best epoch is chosen on these; empty where the split has no such part.
    pub validation: Vec<u32>,
    /// Told of only; likewise.
    pub test: Vec<u32>,
}

/// A dataset, opened for training.
#[derive(Debug)]
pub struct Task {
    dataset: Dataset,
    relations: Vec<Relation>,
    labels: Labels,
    parts: Parts,
    loss: LossKind,
    learns_features: bool,
}

impl Task {
    /// Opens relation, labels and split as the configuration asks for them.
    pub fn open(dataset: Dataset, config: &IgnnConfig) -> Result<Self, TrainError> {
        let relations = dataset.relations()?;
        only_relation(&relations)
            .map_err(|source| TrainError::Relations { path: dataset.directory().path().into(), source })?;
        let labels = dataset.directory().labels()?;
        let parts = parts(&dataset, &labels, &config.train)?;
        let loss = loss(&labels, config.train.loss)?;
        let has_features = dataset.manifest().features.is_some();
        let learns_features = match config.model.features {
            FeatureSource::Auto => !has_features,
            FeatureSource::Learned => true,
            FeatureSource::Given if has_features => false,
            FeatureSource::Given => return Err(ModelError::NoFeatures.into()),
        };
        if learns_features && config.model.input == InputMap::Both {
            return Err(ModelError::LearnedTwice.into());
        }
        Ok(Self { dataset, relations, labels, parts, loss, learns_features })
    }

    /// The dataset.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The operators of its relation, with their bound.
    pub fn operators(&self) -> Result<Operators<'_>, TrainError> {
        Operators::of(&self.relations).map_err(|error| TrainError::Graph {
            path: self.dataset.directory().path().into(),
            source: error,
        })
    }

    /// Its features, or the promise to learn some.
    pub fn features(&self) -> Result<Features, TrainError> {
        if self.learns_features { Ok(Features::Learned) } else { Ok(Features::read(&self.dataset)?) }
    }

    /// Whether features are learned.
    pub fn learns_features(&self) -> bool {
        self.learns_features
    }

    /// Labels of all nodes.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The nodes of each part.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Which loss fits.
    pub fn loss(&self) -> LossKind {
        self.loss
    }

    /// Labels as a loss takes them.
    pub fn targets(&self) -> Targets<'_> {
        match &self.labels {
            Labels::Single { of, .. } => Targets::Classes(of),
            Labels::Multi { offsets, of, .. } => Targets::Labels { offsets, of },
        }
    }

    /// The figures of some nodes.
    pub fn scores(&self, logits: MatrixRef<'_>, nodes: &[u32]) -> Scores {
        match &self.labels {
            Labels::Single { of, .. } => Scores::of_classes(logits, nodes, of),
            Labels::Multi { offsets, of, .. } => Scores::of_labels(logits, nodes, offsets, of),
        }
    }
}

fn loss(labels: &Labels, wanted: LossName) -> Result<LossKind, TrainError> {
    match (wanted, labels) {
        (LossName::Auto | LossName::CrossEntropy, Labels::Single { .. }) => Ok(LossKind::CrossEntropy),
        (LossName::Auto | LossName::BinaryCrossEntropy, Labels::Multi { .. }) => {
            Ok(LossKind::BinaryCrossEntropy)
        }
        (LossName::CrossEntropy, Labels::Multi { .. }) => {
            let (found, fits) = ("cross-entropy", "binary-cross-entropy");
            Err(TrainError::Loss { found, labels: SETS, expected: CLASSES, fits })
        }
        (LossName::BinaryCrossEntropy, Labels::Single { .. }) => {
            let (found, fits) = ("binary-cross-entropy", "cross-entropy");
            Err(TrainError::Loss { found, labels: CLASSES, expected: SETS, fits })
        }
    }
}

/// The labelled nodes of each part of the split that is asked for.
fn parts(dataset: &Dataset, labels: &Labels, config: &TrainConfig) -> Result<Parts, TrainError> {
    let path = || dataset.directory().path().to_path_buf();
    let splits = dataset.directory().splits()?;
    if splits.is_empty() {
        let (what, hint) = ("splits".into(), ": ingest with --splits or --split".into());
        return Err(FormatError::Missing { path: path(), what, hint }.into());
    }
    let names = |splits: &[Split]| splits.iter().map(|s| s.name.clone()).collect::<Vec<_>>().join(", ");
    let split = splits.iter().find(|split| split.name == config.split).or(match splits.as_slice() {
        // The only split needs no name.
        [only] if config.split == "default" => Some(only),
        _ => None,
    });
    let Some(split) = split else {
        return Err(TrainError::Split { path: path(), wanted: config.split.clone(), found: names(&splits) });
    };
    let is_labelled = |node: usize| match labels {
        Labels::Single { of, .. } => of[node] >= 0,
        Labels::Multi { offsets, .. } => offsets[node] < offsets[node + 1],
    };
    let nodes = |wanted: &str| -> Vec<u32> {
        let Some(part) = find_part(&split.parts, wanted) else { return Vec::new() };
        let own = split.of.iter().enumerate().filter(|(_, of)| usize::from(**of) == part);
        own.filter(|(node, _)| is_labelled(*node)).map(|(node, _)| node as u32).collect()
    };
    let parts = Parts {
        train: nodes(&config.train_part),
        validation: nodes(&config.validation_part),
        test: nodes(&config.test_part),
    };
    if parts.train.is_empty() {
        return Err(TrainError::NoTrainNodes {
            path: path(),
            split: split.name.clone(),
            part: config.train_part.clone(),
            found: split.parts.join(", "),
        });
    }
    Ok(parts)
}
