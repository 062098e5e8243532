//! Pure computation: the fused sweep and its adjoint, gathering, the products of the gradients,
//! attention over edges, and elementwise operations. No files, no logging, and no allocation inside a
//! call but what a scratch lends for matrices on a disk. `solver` iterates sweeps to a fixed point.
//!
//! Legend (matrices have one contiguous row per node):
//!
//! | symbol | shape | meaning |
//! | --- | --- | --- |
//! | A | n x n | A[j, i] is the weight of the edge j -> i |
//! | X, G, B, R | n x m | state, adjoint state, input term, gradient with respect to the state |
//! | W | m x m | weight: one row per output, one column per input |
//! | D | n x m | derivative of the activation |

mod activation;
mod added;
mod adjacency;
mod ahead;
pub mod attention;
mod change;
mod derivative;
pub mod elementwise;
pub mod exact;
mod gather;
pub mod gradient;
mod local;
mod lockstep;
pub mod mixing;
mod operator;
pub mod peak;
mod product;
mod selected;
mod selection;
mod shared_rows;
mod simd;
mod size;
pub mod sweep;
mod transposed;
mod weights;

pub use activation::Activation;
pub use added::{Added, RowPlaces};
pub use adjacency::{AdjacencyError, AdjacencyRef};
pub use ahead::gathers_at_once;
pub use change::{Change, Norm};
pub use derivative::{Derivative, Signs};
pub use local::{ghosts, update_ghosts};
pub use lockstep::Lockstep;
pub use operator::{Adjacency, views};
pub use selected::Selected;
pub use selection::Selection;
pub use shared_rows::SharedRows;
pub use simd::{Isa, VARIABLE as SIMD_VARIABLE};
pub use size::largest;
pub use weights::PackedWeights;

#[cfg(test)]
pub(crate) mod naive;
