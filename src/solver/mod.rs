//! Fixed points X = phi(A^T X W^T + B): bounds, certificates, and the iteration that finds them.
//! It knows neither losses nor training; its arithmetic over the graph is that of `kernels`.
//!
//! | file | what |
//! | --- | --- |
//! | [`spectral`] | a rigorous upper bound of the spectral radius of a non-negative adjacency |
//! | [`projection`] | rows of W on L1 balls: the training constraint |
//! | [`posedness`] | which condition for one equilibrium holds, and by how much; rescaling |
//! | `config` | the settings of a solve |
//! | [`certificate`] | contraction bound and norm: how far a state is from the equilibrium at most |
//! | [`tightening`] | the vectors of that norm |
//! | [`fixed_point`] | the solves, forward and adjoint |
//! | `stopping` | when a solve stops, and how many sweeps it still needs |
//! | `active_rows` | which rows a sweep computes |
//! | `acceleration` | when Anderson mixing proposes a state, and when it has failed |
//! | `error` | what can go wrong |
//! | [`anderson`] | fewer sweeps: where the last few are heading |
//! | [`ordered`] | row after row, where no cycle passes through more than one |
//! | [`method`] | what is asked for, what was taken, and why |
//! | [`truncated`] | a set number of damped adjoint sweeps, for cheaper gradients |
//! | [`workspace`] | their memory |

mod acceleration;
mod active_rows;
pub mod anderson;
pub mod certificate;
mod components;
mod config;
mod entries;
mod error;
pub mod fixed_point;
pub mod graph_radii;
pub mod method;
pub mod ordered;
pub mod posedness;
pub mod projection;
pub mod spectral;
mod stopping;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod tightening;
pub mod truncated;
pub mod workspace;

pub use certificate::{Certificate, ErrorBound};
pub use config::{GradientKind, MeasureChoice, OnFailure, SolverConfig};
pub use error::SolveError;
pub use fixed_point::{Measure, SolveInfo, SolveParams, Stopped};
pub use graph_radii::graph_radii;
pub use method::{Choice, Method, Used, Why};
pub use posedness::{Condition, Posedness, Rescaling};
pub use spectral::{SpectralBound, SpectralParams, Structure};
pub use workspace::Workspace;
