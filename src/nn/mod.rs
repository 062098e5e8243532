//! Layers, read-outs and losses: forward and backward, in one file each.
//! They know neither data sets nor optimisers: parameters come as matrices, gradients go into matrices.
//!
//! | file | what |
//! | --- | --- |
//! | [`operators`] | the graph as a layer sees it, with its bounds |
//! | [`equilibrium`] | the equilibrium layer |
//! | [`features`] | what is known of the nodes |
//! | [`input`] | features to the layer's input term |
//! | [`random`] | numbers drawn by place: initial values, dropout |
//! | [`rows`] | chosen rows of the state to a compact matrix and back |
//! | [`normalise`] | rows scaled to length 1 |
//! | [`dropout`] | entries dropped at random |
//! | [`readout`] | rows to logits: linear, or several layers |
//! | [`loss`] | logits and targets to a number and its gradient |
//!
//! Order in a model: state X (n x m), `select_rows`, normalise, dropout, read-out, loss; and back in the opposite order.

pub mod dropout;
pub mod equilibrium;
pub mod features;
pub mod input;
pub mod loss;
pub mod normalise;
pub mod operators;
pub mod random;
pub mod readout;
pub mod rows;
pub mod selected;
#[cfg(test)]
mod tests;

pub use dropout::Dropout;
pub use equilibrium::{Backward, Equilibrium, Vectors};
pub use features::Features;
pub use input::{Input, InputMap};
pub use loss::{Loss, LossKind, Targets, balanced_weights};
pub use operators::Operators;
pub use readout::{Readout, ReadoutMemory, Slot};
pub use rows::{clear_rows, scatter_rows, select_rows};
pub use selected::SelectedOperators;
