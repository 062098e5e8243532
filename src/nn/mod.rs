//! Layers, read-outs and losses: forward and backward, in one file each. They know neither data
//! sets nor optimisers: parameters come as matrices, gradients go into matrices.
//!
//! | file | what |
//! | --- | --- |
//! | [`operators`] | the graph as a layer sees it, with its bounds |
//! | [`equilibrium`] | the equilibrium layer |
//! | [`explicit`] | layers that are computed, not solved: the memory they share |
//! | [`convolution`] | rows gathered once, several times or never: GCN, SGC, perceptrons |
//! | [`propagate`] | rows gathered by all relations, averaged |
//! | [`drop_edge`] | edges left out in training |
//! | [`features`] | what is known of the nodes |
//! | [`input_shape`] | the parameters of an input map |
//! | [`input`] | features to a first layer's input term |
//! | [`feed`] | the layer below to the input term of the next |
//! | [`linear`] | rows times a matrix of parameters |
//! | [`random`] | numbers drawn by place: initial values, dropout |
//! | [`batch_norm`] | columns scaled over the rows of a step |
//! | [`pooling`] | the rows of each graph to one |
//! | [`rows`] | chosen rows of the state to a compact matrix and back |
//! | [`normalise`] | rows scaled to length 1 |
//! | [`dropout`] | entries dropped at random |
//! | [`readout`] | rows to logits: linear, or several layers |
//! | [`svm`] | rows to classes by support vector machines |
//! | [`loss`] | logits and targets to a number and its gradient |
//!
//! Order in a model: state X (n x m), `select_rows`, normalise, dropout, read-out, loss; and back
//! in the opposite order.

pub mod batch_norm;
pub mod convolution;
pub mod drop_edge;
pub mod dropout;
pub mod equilibrium;
pub mod explicit;
pub mod features;
pub mod feed;
pub mod input;
pub mod input_shape;
pub mod linear;
pub mod loss;
pub mod normalise;
pub mod operators;
pub mod pooling;
pub mod propagate;
pub mod random;
pub mod readout;
pub mod ridge;
pub mod rows;
pub mod selected;
pub mod slot;
pub mod svm;
#[cfg(test)]
mod tests;

pub use batch_norm::{BatchNorm, BatchNormMemory, RunningStatistics};
pub use convolution::Convolution;
pub use drop_edge::DropEdge;
pub use dropout::Dropout;
pub use equilibrium::{Backward, Equilibrium, Vectors};
pub use explicit::{Draw, Explicit};
pub use features::Features;
pub use feed::Feed;
pub use input::Input;
pub use input_shape::{InputMap, InputShape, Mapped};
pub use loss::{ClassWeights, Loss, LossChoice, LossKind, Targets, balanced_weights};
pub use operators::Operators;
pub use pooling::{Pooling, PoolingChoice, PoolingMemory};
pub use readout::{Readout, ReadoutMemory};
pub use rows::{clear_rows, scatter_rows, select_rows};
pub use selected::GraphBatch;
pub use slot::Slot;
