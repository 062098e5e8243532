//! A model on a graph, before and after its equilibrium is solved.
//! It hands out rows of states and logits; what they mean is for `probability` and `evaluation`.
//!
//! Memory: features and their gathered copy, the state of all nodes with the solver's workspace, and one chunk of logits. A
//! chunk is [`CHUNK_NODES`] nodes, fewer where there are many classes.

use std::path::Path;

use ignn_format::FormatError;

use super::error::PredictError;
use crate::config::ModelKind;
use crate::dense::{Matrix, MatrixRef};
use crate::graph::Dataset;
use crate::models::file::name;
use crate::models::{Facts, Ignn, Mode, Model, OnGraph};
use crate::nn::{Features, Operators, Slot, structural};
use crate::solver::{Posedness, SolveInfo, SolveParams};

/// Nodes that are read out at once, at most.
pub const CHUNK_NODES: usize = 1 << 16;
/// Floats of a chunk's states and logits, about.
const CHUNK_FLOATS: usize = 1 << 24;

/// A model on a graph.
pub struct Predictor<'g> {
    model: Ignn,
    on: OnGraph<'g>,
}

/// A model on a graph, solved.
pub struct Prediction<'g> {
    model: Ignn,
    on: OnGraph<'g>,
    solves: Vec<SolveInfo>,
}

impl<'g> Predictor<'g> {
    /// Checks that the model fits the dataset, and reads the features it needs. `origin` is what messages call the model.
    pub fn new(
        model: &Model,
        origin: &Path,
        dataset: &Dataset,
        operators: &'g Operators<'g>,
    ) -> Result<Self, PredictError> {
        check_finite(model, origin)?;
        let features = features(model, origin, dataset, operators)?;
        let manifest = dataset.manifest();
        let facts = Facts {
            nodes: manifest.nodes as usize,
            columns: features.columns(),
            relations: manifest.relations.iter().map(|relation| relation.name.clone()).collect(),
            radii: operators.radii().to_vec(),
            outputs: model.classes.len(),
            pools: false,
        };
        let model = model.restored(&facts, origin)?;
        let on = OnGraph::new(&model, operators, features, false);
        Ok(Self { model, on })
    }

    /// Which condition for one equilibrium holds on this graph, by layer that has one.
    pub fn posedness(&self) -> Vec<Posedness> {
        self.on.posedness(&self.model)
    }

    /// Solves the equilibria from zero. One that did not converge is the best there is: see [`SolveInfo::converged`].
    pub fn solve(self, params: &SolveParams) -> Result<Prediction<'g>, PredictError> {
        let Self { mut model, mut on } = self;
        let solves = on.forward(&mut model, params, Mode::Evaluation)?;
        Ok(Prediction { model, on, solves })
    }
}

impl Prediction<'_> {
    /// How it was solved; the layers of a stack together, none where the model has no equilibrium.
    pub fn solve(&self) -> Option<SolveInfo> {
        SolveInfo::together(&self.solves)
    }

    /// How it was solved, by layer that was.
    pub fn solves(&self) -> &[SolveInfo] {
        &self.solves
    }

    /// The last layer's result: n x m, one row a node; of a single layer the equilibrium.
    pub fn states(&self) -> MatrixRef<'_> {
        self.on.result()
    }

    /// The same without a copy.
    pub fn into_states(self) -> Matrix {
        self.on.into_result()
    }

    /// Number of logits of a node.
    pub fn outputs(&self) -> usize {
        self.model.outputs()
    }

    /// Calls back with some nodes and their logits, one row each, until all of these nodes have been told.
    ///
    /// # Panics
    /// Where the nodes do not rise, or one is none of the graph.
    pub fn each_chunk<E>(
        &self,
        nodes: &[u32],
        mut found: impl FnMut(&[u32], MatrixRef<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let width = self.states().cols() + self.outputs();
        let at_once = (CHUNK_FLOATS / width.max(1)).clamp(1, CHUNK_NODES);
        for chunk in nodes.chunks(at_once) {
            let mut pass = self.on.pass(&self.model, chunk.to_vec(), chunk.to_vec());
            self.on.read_out(&self.model, &mut pass, None);
            found(chunk, pass.logits.view())?;
        }
        Ok(())
    }
}

/// What the model takes for the features of this dataset's nodes.
fn features(
    model: &Model,
    origin: &Path,
    dataset: &Dataset,
    operators: &Operators<'_>,
) -> Result<Features, PredictError> {
    let shape =
        |name: &str| model.values.iter().find(|(slot, _)| slot.name == name).map(|value| value.0.shape);
    let place = dataset.directory().path();
    if let Some((rows, _)) = shape(name::E) {
        let (found, expected) = (dataset.manifest().nodes, rows as u64);
        if found != expected {
            return Err(PredictError::Nodes { model: origin.into(), dataset: place.into(), found, expected });
        }
        return Ok(Features::Learned);
    }
    let omega = |slot: &Slot| slot.name == name::OMEGA || slot.name.starts_with("layer0.Omega.");
    let Some((_, columns)) = model.values.iter().find(|(slot, _)| omega(slot)).map(|value| value.0.shape)
    else {
        let names: Vec<_> = model.values.iter().map(|(slot, _)| slot.name.as_str()).collect();
        let expected = format!("{} or {}", name::OMEGA, name::E);
        return Err(FormatError::invalid(origin, "parameters", names.join(", "), expected).into());
    };
    let made = match model.config.model.kind {
        ModelKind::Structural => Some(structural::features(operators, model.config.model.hops)),
        _ => None,
    };
    let found = match &made {
        Some(made) => made.cols() as u64,
        None => dataset.directory().features()?.columns,
    };
    let expected = columns as u64;
    if found != expected {
        return Err(PredictError::Columns { model: origin.into(), dataset: place.into(), found, expected });
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
