//! Layers, readouts and losses, with the forward and the backward pass of each in one file. They
//! know neither datasets nor optimisers: parameters come as matrices, gradients go into matrices.
//!
//! All matrices are stored by rows, one row per node, and formulas are written that way: a linear
//! map is `X V^T`, where V has one row per output. Gathering over incoming edges is `A^T X`. The
//! IGNN paper writes the same equations with one *column* per node.
//!
//! | file | what |
//! | --- | --- |
//! | [`operators`] | the graph as a layer sees it, with its bounds |
//! | [`equilibrium`] | the equilibrium layer |
//! | [`explicit`] | layers that are computed, not solved: the memory they share |
//! | [`convolution`] | rows gathered once, several times or never: GCN, SGC, perceptrons |
//! | [`propagate`] | rows gathered by all relations, averaged |
//! | [`drop_edge`] | edges dropped at random in training |
//! | [`features`] | the features of all nodes: dense, sparse or learned |
//! | [`input_shape`] | the parameters of an input map |
//! | [`input`] | from features to the input term of the first layer |
//! | [`feed`] | from the layer below to the input term of the next |
//! | [`linear`] | rows times a matrix of parameters |
//! | [`random`] | initial values, drawn by seed, name and position |
//! | [`batch_norm`] | batch normalisation |
//! | [`pooling`] | from the rows of a graph to one row |
//! | [`rows`] | selected rows of the state, to a compact matrix and back |
//! | [`normalise`] | rows scaled to length 1 |
//! | [`dropout`] | entries dropped at random |
//! | [`readout`] | from rows to logits: linear, or through hidden layers |
//! | [`ridge`] | a linear readout in closed form |
//! | [`selected`] | some graphs of a dataset as a batch |
//! | [`drop_nodes`] | a batch without some of its nodes |
//! | [`slot`] | name and shape of a parameter |
//! | [`svm`] | from rows to classes by support vector machines |
//! | [`loss`] | losses and their gradients |
//!
//! Order in a model: state X (n x m), [`select_rows`], [`normalise`], [`dropout`], [`readout`],
//! [`loss`]. The backward pass runs in the opposite order.

pub mod batch_norm;
pub mod convolution;
pub mod drop_edge;
pub mod drop_nodes;
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
mod rank_plan;
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
pub use drop_nodes::DropNodes;
pub use dropout::Dropout;
pub use equilibrium::{Backward, Equilibrium, Vectors};
pub use explicit::{Draw, Explicit};
pub use features::Features;
pub use feed::Feed;
pub use input::Input;
pub use input_shape::{InputMap, InputShape, Mapped};
pub use loss::{ClassWeights, Loss, LossChoice, LossKind, Targets, balanced_weights};
pub use operators::{Operators, RankDifference, RankError};
pub use pooling::{Pooling, PoolingChoice, PoolingMemory};
pub use rank_plan::{Cluster, RankPlan, SweepTimes};
pub use readout::{Readout, ReadoutMemory};
pub use rows::{clear_rows, scatter_rows, select_rows};
pub use selected::{GraphBatch, batches, evaluated_nodes};
pub use slot::Slot;
