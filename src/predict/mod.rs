//! Model and dataset to predictions and embeddings. It solves, reads out and counts; it trains
//! nothing, and files of predictions are for its callers.
//!
//! A [`Predictor`] is a model on a dataset: shapes are checked, and the conditions for one
//! equilibrium can be asked for. Solved, it is a [`Prediction`]: a row for every node, or graph
//! where graphs are classified, and logits of any of them, some at a time. [`Truth`] is what a
//! dataset knows in the model's classes, [`Evaluation`] the scores of a prediction against it, part
//! by part.
//!
//! ```no_run
//! use ignn::{graph::Graph, models::Model};
//! let dataset = Graph::open("cora.ignn")?;
//! let model = Model::read("runs/cora/model.safetensors".as_ref())?;
//! let predicted = model.predict(&dataset)?;
//! println!("{:?}: {:?}", predicted.logits.row(0), predicted.solve);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod evaluation;
mod parts;
mod prediction;
mod probability;
mod truth;

use std::path::{Path, PathBuf};

use ignn_format::FormatError;

use crate::dense::Matrix;
use crate::graph::Graph;
use crate::models::Model;
use crate::nn::Operators;
use crate::solver::{Posedness, SolveInfo};

pub use error::PredictError;
pub use evaluation::{ClassLine, Evaluation, PartScores};
pub use parts::{Choice, Part, Parts};
pub use prediction::{Item, Prediction, Predictor};
pub use probability::{probabilities, ranked_classes};
pub use truth::{Truth, TruthError};

/// The model's file in a run directory.
pub const MODEL: &str = "model.safetensors";

/// Everything that a model says of a dataset, in memory.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// One row a node, in node order, or a graph where the model pools; see [`probabilities`].
    pub logits: Matrix,
    /// What the read-out sees, one row a node or graph; of a single layer the equilibrium.
    pub states: Matrix,
    /// How it was solved, and whether it converged; none where the model has no equilibrium.
    pub solve: Option<SolveInfo>,
    /// Which condition for one equilibrium holds on this graph, by layer that has one.
    pub posedness: Vec<Posedness>,
}

impl Model {
    /// Solves and reads out all nodes, or graphs, of a dataset; [`Predictor`] does the same in
    /// bounded memory.
    pub fn predict(&self, dataset: &Graph) -> Result<Predicted, PredictError> {
        let operators = operators(dataset)?;
        let graphs = dataset.directory().graphs()?;
        let predictor =
            Predictor::new(self, Path::new("model"), dataset, &operators, graphs.as_ref())?;
        let posedness = predictor.posedness();
        let prediction = predictor.solve(&self.config.forward())?;
        let items: Vec<u32> = (0..prediction.states().rows() as u32).collect();
        let mut logits = Matrix::zeros(items.len(), self.classes.len());
        let copied: Result<(), PredictError> = prediction.each_chunk(&items, |items, rows| {
            for (row, &item) in items.iter().enumerate() {
                logits.row_mut(item as usize).copy_from_slice(rows.row(row));
            }
            Ok(())
        });
        copied?;
        Ok(Predicted {
            logits,
            solve: prediction.solve(),
            states: prediction.into_states(),
            posedness,
        })
    }
}

/// The graph of a dataset, with its bounds.
pub fn operators(dataset: &Graph) -> Result<Operators, PredictError> {
    let place = || dataset.directory().path().to_path_buf();
    Operators::of(dataset.relations()?)
        .map_err(|source| PredictError::Adjacency { path: place(), source })
}

/// The model's file: the one named, or that of a run directory.
pub fn model_file(run_or_file: &Path) -> Result<PathBuf, FormatError> {
    if !run_or_file.is_dir() {
        return Ok(run_or_file.into());
    }
    let file = run_or_file.join(MODEL);
    if file.is_file() {
        return Ok(file);
    }
    let found =
        if run_or_file.join("manifest.json").is_file() { "a dataset" } else { "another directory" };
    let expected = format!("a run with a {MODEL}, as `ignn train` writes it");
    Err(FormatError::invalid(run_or_file, "not the directory of a run", found, expected))
}
