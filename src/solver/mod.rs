//! Fixed points `X = phi(sum_r A_r^T X W_r^T + B)` and their adjoints: when there is one, how it is
//! found, and how far an answer can be from it. This module knows neither losses nor training; its
//! arithmetic over the graph is that of [`kernels`](crate::kernels).
//!
//! | symbol | shape | meaning |
//! | --- | --- | --- |
//! | A_r | n x n | adjacency of relation r, non-negative: `A[j, i]` weights the edge j -> i |
//! | W_r | m x m | weight: output row, input column |
//! | X, B | n x m | state and input term: one row per node |
//! | G, R | n x m | adjoint state, and gradient of the loss with respect to X |
//! | phi, D | n x m | activation, and its derivative at X |
//! | rho | | upper bound of the spectral radius of A |
//! | u, v | n, m | positive vectors that weight the norm of a certificate |
//! | q | | contraction of a sweep in that norm |
//!
//! **Method.** A sweep evaluates the right-hand side once. A solve repeats sweeps; it may skip rows
//! whose inputs have stopped moving, extrapolate by Anderson mixing, or compute rows in topological
//! order ([`Method`]). **Stopping.** A solve has converged when a sweep over all rows moves the
//! state by `Delta` with `max |Delta| <= tolerance * max |X|` ([`Measure`]). **Bound.** If q < 1,
//! there is exactly one solution X*, and in the norm `max_ik |E_ik| / (u_i v_k)`
//!
//! ```text
//! |X* - X| <= (q |Delta| + rounding of the sweep) / (1 - q)
//! ```
//!
//! whatever method led there. Every solve reports this bound as [`SolveInfo::certified_error`].
//!
//! | module | contents |
//! | --- | --- |
//! | [`spectral`] | a rigorous upper bound of the spectral radius of a non-negative adjacency |
//! | [`projection`] | projection of the rows of W onto L1 balls: the training constraint |
//! | [`posedness`] | which condition for a unique solution holds, and by what margin; rescaling |
//! | [`certificate`] | the contraction bound q and the error bound that follows from it |
//! | [`tightening`] | the search for the vectors u and v |
//! | [`refined`] | a tight error bound, from a second state and a residual in f64 |
//! | [`fixed_point`] | the solve, forward and adjoint |
//! | `stopping`, `active_rows`, `acceleration` | the policies of a solve |
//! | [`anderson`] | Anderson mixing |
//! | [`ordered`] | rows in topological order |
//! | [`truncated`] | a fixed number of damped adjoint sweeps, for cheaper gradients |
//! | [`method`] | which method was asked for, which was used, and why |
//! | [`workspace`] | the memory of a solve |
//! | `config` | the settings of a solve |
//!
//! # Example
//!
//! The equilibrium on a cycle of three nodes, with an input at the first one:
//!
//! ```
//! use ignn::dense::Matrix;
//! use ignn::kernels::sweep::{self, Direction, Sweep, SweepScratch};
//! use ignn::kernels::{Activation, Adjacency, PackedWeights};
//! use ignn::solver::{Certificate, SolveParams, Workspace, fixed_point};
//!
//! // Edges 0 -> 1 -> 2 -> 0: node 0 gathers from node 2, node 1 from 0, node 2 from 1.
//! let graph = Adjacency::from_csr(3, vec![0, 1, 2, 3], vec![2, 0, 1])?;
//! let weights = [PackedWeights::forward(Matrix::from_fn(1, 1, |_, _| 0.5).view())];
//! let b = Matrix::from_fn(3, 1, |node, _| if node == 0 { 1.0 } else { 0.0 });
//!
//! let terms = sweep::terms(&[graph.view()], &weights);
//! let (blocks, scratch) = (sweep::blocks(&terms), SweepScratch::new(&terms));
//! let sweep = Sweep { blocks: &blocks, terms: &terms, input: b.view().into(), scratch: &scratch };
//! let certificate = Certificate::of(&terms, 1.0, None);
//! assert!(certificate.holds());
//!
//! let (mut x, mut workspace) = (Matrix::zeros(3, 1), Workspace::new(3, 1, false));
//! let (direction, params) = (Direction::Forward(Activation::Identity), SolveParams::default());
//! let certified = Some(&certificate);
//! let info = fixed_point::solve(&sweep, direction, certified, &params, &mut x, &mut workspace)?;
//!
//! // x_0 = 1 + x_2 / 2, x_1 = x_0 / 2, x_2 = x_1 / 2
//! let error = info.certified_error.unwrap().largest;
//! assert!(info.converged && error < 1e-4);
//! for (node, exact) in [8.0 / 7.0, 4.0 / 7.0, 2.0 / 7.0].into_iter().enumerate() {
//!     assert!((f64::from(x.row(node)[0]) - exact).abs() <= error);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod acceleration;
mod active_rows;
pub mod anderson;
pub mod certificate;
mod components;
mod config;
mod effort;
mod entries;
mod error;
pub mod fixed_point;
pub mod graph_radii;
pub mod method;
pub mod ordered;
pub mod posedness;
pub mod projection;
pub mod refined;
pub mod spectral;
mod stopping;
mod symmetric;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod tightening;
pub mod truncated;
pub mod workspace;

pub use certificate::{Certificate, ErrorBound};
pub use config::{GradientKind, MeasureChoice, OnFailure, SolverConfig};
pub use effort::Effort;
pub use error::SolveError;
pub(crate) use fixed_point::Solves;
pub use fixed_point::{Measure, SolveInfo, SolveParams, Stopped};
pub use graph_radii::graph_radii;
pub use method::{Choice, Method, Used, Why};
pub use posedness::{Condition, Posedness, Rescaling};
pub use refined::Reference;
pub use spectral::{SpectralBound, SpectralParams, Structure};
pub use workspace::Workspace;
