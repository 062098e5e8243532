//! What can go wrong in training: one enum, each message with its place and what to do.

use std::path::PathBuf;

use ignn_format::FormatError;

use crate::config::ConfigError;
use crate::kernels::AdjacencyError;
use crate::metrics::Metric;
use crate::models::{LayerError, ModelError, PlanError};
use crate::nn::RankError;
use crate::optim::GradientError;
use crate::settings::SettingError;
use crate::solver::projection::ProjectionError;

/// Why training cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A file.
    #[error(transparent)]
    File(#[from] FormatError),
    /// The model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A configuration that a program has made.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The optimiser.
    #[error(transparent)]
    Optimiser(#[from] SettingError),
    /// More memory than allowed, with or without a disk.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A graph that cannot be shared by several ranks.
    #[error("{}: {source}", path.display())]
    Ranks {
        /// The dataset.
        path: PathBuf,
        /// Why not.
        source: RankError,
    },
    /// An error of another rank.
    #[error("{0}")]
    OtherRank(String),
    /// The dataset's graph.
    #[error("{}: {source}", path.display())]
    Graph {
        /// The dataset.
        path: PathBuf,
        /// What is wrong.
        source: AdjacencyError,
    },
    /// Numbers wanted, but labels are something else.
    #[error(
        "train.task: regression needs numbers (found {found}): make the dataset with `ignn ingest \
         ... --regress COLUMN`, or use train.task=classification"
    )]
    NotNumbers {
        /// What labels are.
        found: String,
    },
    /// Classes wanted, but labels are numbers.
    #[error(
        "train.task: classification needs classes (found numbers, {name:?}): make the dataset with \
         `ignn ingest ... --label {name}`, or use train.task=regression"
    )]
    NotClasses {
        /// The name of the number.
        name: String,
    },
    /// A setting that has a meaning for classes only.
    #[error("{setting}: needs classes (found numbers, {name:?}): {hint}")]
    ClassesOnly {
        /// The setting with its value.
        setting: &'static str,
        /// The name of the number.
        name: String,
        /// What to do.
        hint: &'static str,
    },
    /// A ranking of one class.
    #[error(
        "train.monitor: {monitor} needs items of at least two classes in the validation part \
         (found one class): use another score, or another split"
    )]
    OneClass {
        /// The metric.
        monitor: Metric,
    },
    /// A loss that does not suit the labels.
    #[error(
        "train.loss: {found} does not fit the dataset's labels (found {labels}, expected \
         {expected}): use train.loss={fits} or auto"
    )]
    Loss {
        /// The loss asked for.
        found: &'static str,
        /// The labels.
        labels: &'static str,
        /// The labels that it needs.
        expected: &'static str,
        /// The loss that fits.
        fits: &'static str,
    },
    /// No such split.
    #[error("{}: no split named {wanted} (found {found}): use --set \
             train.split=NAME", path.display())]
    Split {
        /// The dataset.
        path: PathBuf,
        /// The name asked for.
        wanted: String,
        /// The names that exist.
        found: String,
    },
    /// A part that was asked for by name and does not exist.
    #[error("{}: split {split} has no part {wanted:?} (it has: {found}): \
             correct {key}", path.display())]
    Part {
        /// The dataset.
        path: PathBuf,
        /// The split.
        split: String,
        /// The setting that names the part.
        key: &'static str,
        /// The name asked for.
        wanted: String,
        /// The names that exist.
        found: String,
    },
    /// No training items.
    #[error("{}: split {split} has no labelled {item} in its part {part} (found parts {found}): \
             use --set train.train_part=NAME, or make the dataset with a split", path.display())]
    NoTrainItems {
        /// The dataset.
        path: PathBuf,
        /// The split.
        split: String,
        /// "node" or "graph".
        item: &'static str,
        /// The part asked for.
        part: String,
        /// The parts that exist.
        found: String,
    },
    /// Pooling where nodes have the labels.
    #[error("{}: graphs have no labels (found model.pooling={wanted}, expected none or \
             auto)", path.display())]
    Pooling {
        /// The dataset.
        path: PathBuf,
        /// What was asked for.
        wanted: String,
    },
    /// Learned features with graphs that training does not see.
    #[error(
        "model.features: learned features belong to the nodes of one graph (found a split over \
         graphs): use features that the dataset gives"
    )]
    LearnedByGraph,
    /// Label propagation with graphs that training does not see.
    #[error(
        "model.kind: label propagation spreads the labels of nodes within one graph (found a \
         split over graphs): use another kind, such as gcn"
    )]
    NothingToSpread,
    /// Labels as initial features, in a model that cannot start from them.
    #[error("model.init_features: labels as features need {what} (found {found}): {hint}")]
    LabelStart {
        /// What is needed.
        what: String,
        /// What was found.
        found: String,
        /// What to do.
        hint: &'static str,
    },
    /// Features that cannot be hidden.
    #[error(
        "train.hide: only learned features are hidden (found {found} with features of the \
         dataset): use train.hide=0 or model.features=learned"
    )]
    Hide {
        /// The fraction.
        found: f64,
    },
    /// A part that is used twice.
    #[error(
        "{}: two of train.train_part, train.validation_part and train.test_part are the part \
         {part:?} of the split {split:?}: scores on items that were learned or chosen by say \
         nothing: name three different parts",
        path.display()
    )]
    SamePart {
        /// The dataset.
        path: PathBuf,
        /// The split.
        split: String,
        /// The part.
        part: String,
    },
    /// No best model to restore.
    #[error(
        "{}: train.on_collapse=restore continues from the best model on the validation part, and \
         the split has none: use train.on_collapse=stop, or make the dataset with such a part",
        path.display()
    )]
    NothingToRestore {
        /// The dataset.
        path: PathBuf,
    },
    /// A metric that the labels do not have.
    #[error(
        "train.monitor: {found} is no score of the dataset's labels (found {labels}): use {fits} \
         or auto"
    )]
    Monitor {
        /// The metric asked for.
        found: String,
        /// The kind of labels.
        labels: &'static str,
        /// Scores that fit.
        fits: String,
    },
    /// A readout that cannot be learned by itself, or not that way.
    #[error(
        "train.learn: {learn} needs a readout of its own (found model.readout={found}, expected \
         {expected})"
    )]
    Readout {
        /// What learns.
        learn: String,
        /// The readout.
        found: String,
        /// What would work.
        expected: &'static str,
    },
    /// A model whose last layer is the readout.
    #[error(
        "train.learn: {learn} needs a readout of its own (found model.kind={kind}, expected \
         {expected})"
    )]
    LearnKind {
        /// What learns.
        learn: String,
        /// The model.
        kind: String,
        /// Kinds that have one.
        expected: String,
    },
    /// A solve that gave NaN or infinity.
    #[error("epoch {epoch}: {source}")]
    Solve {
        /// The epoch.
        epoch: u64,
        /// What and where.
        source: LayerError,
    },
    /// A gradient that is not finite.
    #[error("epoch {epoch}: {source}")]
    Gradient {
        /// The epoch.
        epoch: u64,
        /// Which.
        source: GradientError,
    },
    /// A weight that is not finite.
    #[error("W, epoch {epoch}: {source}")]
    Projection {
        /// The epoch.
        epoch: u64,
        /// Which.
        source: ProjectionError,
    },
    /// A solve that did not converge, where the configuration makes that an error.
    #[error(
        "epoch {epoch}{layer}: the {direction} solve did not converge (residual {residual:.1e} \
         after sweep {sweeps}): raise solver.max_sweeps, lower model.kappa, or use \
         solver.on_failure=warn"
    )]
    NotConverged {
        /// The epoch.
        epoch: u64,
        /// The layer, if there are several: `, layer 2`.
        layer: String,
        /// "forward" or "adjoint".
        direction: &'static str,
        /// Relative residual.
        residual: f64,
        /// Sweeps made.
        sweeps: usize,
    },
    /// A number to predict whose square overflows.
    #[error(
        "labels: the number {found:e} of {name:?} is too large (expected 1e100 at most in size): \
         divide the numbers by a fixed one, or leave this one out, and ingest again"
    )]
    LargeNumber {
        /// The column.
        name: String,
        /// The number.
        found: f64,
    },
    /// A support vector machine on what is not one class per graph.
    #[error(
        "--readout: a support vector machine needs many graphs with a class each: use --readout model"
    )]
    NoMachine,
    /// More memory than allowed.
    #[error("training needs about {:.2} GiB (found {:.2} GiB allowed): \
             {hint}", gibibytes(*needed), gibibytes(*allowed))]
    Memory {
        /// Bytes.
        needed: u64,
        /// Bytes.
        allowed: u64,
        /// What would fit.
        hint: String,
    },
    /// A checkpoint of another run.
    #[error("{}: the checkpoint does not fit ({what})", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// Why.
        what: String,
    },
}

fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / (1u64 << 30) as f64
}
