//! Why a model cannot predict on a dataset. Files and configurations have errors of their own;
//! these are about a model and a dataset that do not fit.

use std::path::PathBuf;

use ignn_format::FormatError;

use super::truth::TruthError;
use crate::kernels::AdjacencyError;
use crate::models::{LayerError, PlanError, SavedError};
use crate::nn::RankError;

/// A model and a dataset that do not fit, or a part of one that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// A file.
    #[error(transparent)]
    File(#[from] FormatError),
    /// The model's file.
    #[error(transparent)]
    Saved(#[from] SavedError),
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
    Adjacency {
        /// The dataset.
        path: PathBuf,
        /// What is wrong.
        source: AdjacencyError,
    },
    /// Features of another width.
    #[error(
        "{}: the model reads other features than the dataset has (found {found} columns in {}, \
         expected {expected}): make the dataset with the features that the model was trained with, \
         or train a model on it",
        model.display(), dataset.display()
    )]
    Columns {
        /// The model.
        model: PathBuf,
        /// The dataset.
        dataset: PathBuf,
        /// Its columns.
        found: u64,
        /// The model's.
        expected: u64,
    },
    /// Features that were encoded otherwise.
    #[error(
        "{}: the model reads the columns of a node table as it was encoded for its training (found \
         {found} in {}): make the dataset with `ignn ingest ... --encode-as {}`",
        model.display(), dataset.display(), model.display()
    )]
    Encoding {
        /// The model.
        model: PathBuf,
        /// The dataset.
        dataset: PathBuf,
        /// What differs.
        found: String,
    },
    /// No node table.
    #[error(
        "{}: no encoding of a node table (expected one made with `--nodes TABLE --features`)",
        path.display()
    )]
    NoEncoding {
        /// The dataset or model.
        path: PathBuf,
    },
    /// Learned features of other nodes.
    #[error(
        "{}: the model has learned a row of features for each node of its own graph (found {found} \
         nodes in {}, expected {expected}): train on this dataset, or train with \
         model.features=given for a model that goes from graph to graph",
        model.display(), dataset.display()
    )]
    Nodes {
        /// The model.
        model: PathBuf,
        /// The dataset.
        dataset: PathBuf,
        /// Its nodes.
        found: u64,
        /// The model's.
        expected: u64,
    },
    /// Classes of graphs, and one graph.
    #[error(
        "{}: the model classifies graphs (found one graph in {}, expected a dataset of many \
         graphs): `ignn ingest tu` and `ignn ingest dgcnn` make such datasets",
        model.display(), dataset.display()
    )]
    OneGraph {
        /// The model.
        model: PathBuf,
        /// The dataset.
        dataset: PathBuf,
    },
    /// A split that the dataset does not have.
    #[error("{}: the dataset has no split {found:?} (it has: {expected})", dataset.display())]
    Split {
        /// The dataset.
        dataset: PathBuf,
        /// The split asked for.
        found: String,
        /// Those that there are.
        expected: String,
    },
    /// A part that the split does not have.
    #[error("{}: split {split:?} has no part {found:?} (it has: {expected})", dataset.display())]
    Part {
        /// The dataset.
        dataset: PathBuf,
        /// The split.
        split: String,
        /// The part asked for.
        found: String,
        /// Those that there are.
        expected: String,
    },
    /// A part of a dataset with several splits, none of which is the model's.
    #[error(
        "{}: part {part:?} of which split (found {found}, expected {expected:?}, that of the \
         model): name it with --split",
        dataset.display()
    )]
    WhichSplit {
        /// The dataset.
        dataset: PathBuf,
        /// The part asked for.
        part: String,
        /// The splits that there are.
        found: String,
        /// The split that the model was trained on.
        expected: String,
    },
    /// Scores that are not finite, from parameters and states that are.
    #[error(
        "the model's scores overflowed (found {found} for {item} {number}, expected finite \
         numbers): the weights of its readout are too large: train it again with a smaller \
         optim.learning_rate, or with optim.weight_decay"
    )]
    Overflow {
        /// "node" or "graph".
        item: &'static str,
        /// Its number in the dataset, from 0.
        number: u32,
        /// The score.
        found: f32,
    },
    /// Labels that cannot be compared with the predictions.
    #[error("{}: {source}", dataset.display())]
    Truth {
        /// The dataset.
        dataset: PathBuf,
        /// What is wrong.
        source: TruthError,
    },
    /// A solve.
    #[error(transparent)]
    Solve(#[from] LayerError),
}
