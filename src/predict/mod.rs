//! Applies a model to a graph: classes, probabilities, embeddings and scores. It trains nothing and
//! prints nothing; tables in files are in `report`.
//!
//! [`Model::predict`] and [`Model::embed`] do everything at once, in memory. For large graphs and
//! many classes there is a lower level: a [`Predictor`] is a model that was checked against a
//! graph. Solving it gives a [`SolvedModel`], which computes logits a chunk of rows at a time.
//! [`Truth`] holds the labels of a dataset in the model's classes, and [`Evaluation`] the scores
//! against them.
//!
//! ```
//! use ignn::predict::{Item, Predictor, operators};
//! use ignn::prelude::*;
//!
//! # let graph = GraphBuilder::new(4)
//! #     .edges([(0, 1), (2, 3)])
//! #     .features(1, vec![1.0, 1.0, -1.0, -1.0])
//! #     .classes(["a", "b"], (0..4).map(|node| Some(node / 2)))
//! #     .split([0, 2], [], [1, 3])
//! #     .build()?;
//! # let mut config = Config::default();
//! # (config.model.state, config.train.epochs) = (vec![4], 10);
//! let model = Trainer::new(&graph, config)?.fit()?.model;
//! assert_eq!(Item::of(&model), Item::Node);
//!
//! let operators = operators(&graph)?;
//! let predictor = Predictor::new(&model, "model".as_ref(), &graph, &operators, None)?;
//! assert!(predictor.posedness()[0].margin() > 0.0, "one equilibrium for certain");
//! let solved = predictor.solve(&SolveParams::default())?;
//!
//! // The logits of two nodes alone.
//! solved.each_chunk(&[1, 3], |nodes, logits| {
//!     assert_eq!((nodes, logits.rows(), logits.cols()), (&[1, 3][..], 2, 2));
//!     Ok::<(), ignn::Error>(())
//! })?;
//! # Ok::<(), ignn::Error>(())
//! ```

mod error;
mod evaluation;
mod parts;
mod plan;
mod predictions;
mod predictor;
mod probability;
mod truth;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignn_format::encoding::Encoding;
use ignn_format::manifest::MANIFEST;
use ignn_format::{DatasetDir, FormatError};

use crate::dense::Matrix;
use crate::graph::Graph;
use crate::models::Model;
use crate::nn::{Operators, RankError};
use crate::parallel::Ranks;
use crate::solver::SolveParams;

pub use error::PredictError;
pub use evaluation::{ClassLine, Evaluation, PartScores};
pub use parts::{Choice, Part, Parts};
pub use plan::{has_room_for_copies, plan};
pub use predictions::{Embeddings, Predictions, item_labels, predicted_classes};
pub use predictor::{Item, Predictor, SolvedModel};
pub use probability::{probabilities, ranked_classes};
pub use truth::{Truth, TruthError};

/// Name of the model's file in a run directory.
pub const MODEL: &str = "model.safetensors";

/// What messages call a model that has no file.
const NAME: &str = "model";

impl Model {
    /// Predicts all nodes of a graph, or all graphs of a collection where the model classifies
    /// graphs.
    ///
    /// The graph may be another one than the model was trained on, if it has the same relations and
    /// feature columns. A model with learned features fits its own graph only.
    pub fn predict(&self, graph: &Graph) -> Result<Predictions, PredictError> {
        self.predict_solved(graph, &self.config.forward())
    }

    /// The same with other parameters of the solve, such as a smaller tolerance.
    pub fn predict_solved(
        &self,
        graph: &Graph,
        params: &SolveParams,
    ) -> Result<Predictions, PredictError> {
        let predictor = self.predictor(graph)?;
        let posedness = predictor.posedness();
        let solved = predictor.solve(params)?;
        let items: Vec<u32> = (0..solved.len() as u32).collect();
        let mut logits = Matrix::zeros(items.len(), self.classes.len());
        solved.each_chunk(&items, |items, rows| {
            for (row, &item) in items.iter().enumerate() {
                logits.row_mut(item as usize).copy_from_slice(rows.row(row));
            }
            Ok::<(), PredictError>(())
        })?;
        Ok(Predictions {
            graph: graph.clone(),
            item: Item::of(self),
            classes: self.classes.clone(),
            labels: self.labels,
            split: self.config.train.split.clone(),
            solved,
            logits,
            posedness,
        })
    }

    /// Computes the rows that the readout takes, for all nodes of a graph, or all graphs of a
    /// collection where the model classifies graphs.
    pub fn embed(&self, graph: &Graph) -> Result<Embeddings, PredictError> {
        let solved = self.predictor(graph)?.solve(&self.config.forward())?;
        Ok(Embeddings { graph: graph.clone(), item: Item::of(self), solved })
    }

    fn predictor(&self, graph: &Graph) -> Result<Predictor, PredictError> {
        let graphs = graph.collection()?;
        Predictor::new(self, Path::new(NAME), graph, &operators(graph)?, graphs.as_ref())
    }
}

/// The operators of a graph, with their bounds.
pub fn operators(graph: &Graph) -> Result<Operators, PredictError> {
    Ok(Operators::of(graph.relations()?))
}

/// The same on one of several ranks, which all call this together.
pub fn operators_on(graph: &Graph, ranks: &Arc<dyn Ranks>) -> Result<Operators, PredictError> {
    let wrong = |source| PredictError::Ranks { path: graph.path().into(), source };
    RankError::check_same(graph, "", &**ranks).map_err(wrong)?;
    let relations = graph.relations().map_err(PredictError::from);
    let relations = ranks.agree(relations, PredictError::OtherRank)?;
    if graph.manifest().graphs.is_some() {
        return Ok(Operators::of_graphs(relations, ranks));
    }
    Operators::of_rank(relations, ranks).map_err(wrong)
}

/// The encoding of a node table that a dataset, or the model of a run or a file, keeps.
pub fn encoding_of(dataset_run_or_file: &Path) -> Result<Encoding, PredictError> {
    let path = dataset_run_or_file;
    let found = match path.join(MANIFEST).is_file() {
        true => DatasetDir::open(path)?.manifest().encoding.clone(),
        false => Model::load(model_file(path)?)?.encoding,
    };
    found.ok_or_else(|| PredictError::NoEncoding { path: path.into() })
}

/// The model's file: the one named, or the one in a run directory.
pub fn model_file(run_or_file: &Path) -> Result<PathBuf, FormatError> {
    if !run_or_file.is_dir() {
        return Ok(run_or_file.into());
    }
    let file = run_or_file.join(MODEL);
    if file.is_file() {
        return Ok(file);
    }
    // The runs of `ignn train --seeds`, and the folds of `ignn crossval`.
    let inner = fs::read_dir(run_or_file).into_iter().flatten().flatten();
    let mut inner: Vec<String> =
        inner.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    inner.retain(|name| {
        (name.starts_with("seed-") || name.starts_with("fold-"))
            && run_or_file.join(name).join(MODEL).is_file()
    });
    inner.sort_by_key(|name| (name.len(), name.clone()));
    let (found, hint) = match inner.first() {
        Some(first) => {
            let first = run_or_file.join(first);
            ("a directory of several runs", format!(": choose one, such as {}", first.display()))
        }
        None if run_or_file.join("manifest.json").is_file() => ("a dataset", String::new()),
        None if run_or_file.join("metrics.jsonl").is_file() => (
            "a run without a model",
            ": it ended before its first checkpoint; train again with --force".into(),
        ),
        None => ("another directory", String::new()),
    };
    let expected = format!("a run with a {MODEL}, as `ignn train` writes it{hint}");
    Err(FormatError::invalid(run_or_file, "not the directory of a run", found, expected))
}
