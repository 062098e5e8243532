//! One error for everything that the library does, so that a caller may use `?` throughout. Each
//! module has its own type; this one wraps them and adds nothing to their messages.

use crate::config::ConfigError;
use crate::kernels::AdjacencyError;
use crate::models::{LayerError, ModelError, SavedError};
use crate::predict::{PredictError, TruthError};
use crate::run::RunError;
use crate::solver::SolveError;
use crate::train::TrainError;
use ignn_format::FormatError;

/// Anything that goes wrong in the library.
///
/// ```
/// use ignn::prelude::*;
///
/// fn nodes(path: &str) -> ignn::Result<usize> {
///     Ok(Graph::open(path)?.nodes())
/// }
/// let error = nodes("nowhere").unwrap_err();
/// assert!(matches!(error, ignn::Error::Format(_)));
/// assert_eq!(error.to_string(), "nowhere: not an ignn dataset: no such directory");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A dataset or another file.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Settings.
    #[error(transparent)]
    Config(Box<ConfigError>),
    /// Arrays that are not a graph.
    #[error(transparent)]
    Adjacency(#[from] AdjacencyError),
    /// A solve.
    #[error(transparent)]
    Solve(#[from] SolveError),
    /// A solve, with its layer.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// A model that does not fit its data.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A saved model.
    #[error(transparent)]
    Saved(#[from] SavedError),
    /// Training.
    #[error(transparent)]
    Train(Box<TrainError>),
    /// Predicting.
    #[error(transparent)]
    Predict(Box<PredictError>),
    /// A run directory.
    #[error(transparent)]
    Run(Box<RunError>),
    /// Labels that cannot be compared with predictions.
    #[error(transparent)]
    Truth(#[from] TruthError),
    /// Reading or writing elsewhere.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Errors that would make every `Result` large are boxed.
macro_rules! boxed {
    ($($variant:ident($error:ty),)+) => {$(
        impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::$variant(Box::new(error))
            }
        }
    )+};
}

boxed! {
    Config(ConfigError),
    Train(TrainError),
    Predict(PredictError),
    Run(RunError),
}

/// A result of the library.
pub type Result<T, E = Error> = std::result::Result<T, E>;
