//! Networks of every kind: their layers, their named parameters, and the file that holds them.
//! They combine layers of `nn`; `train` trains them.
//!
//! | file | what |
//! | --- | --- |
//! | [`kinds`] | the kinds of models, one file and one table row each |
//! | [`shape`](NetworkShape) | the one layer builder: from a kind to layers and parameter names |
//! | [`network`](Network) | a shape with values |
//! | [`on_graph`](OnGraph) | a network on a graph: forward and backward |
//! | `layer_memory` | which matrices of a layer there are, and which share memory |
//! | [`pass`](Pass) | the rows that are read out, and their gradients |
//! | [`disk_plan`](DiskPlan) | which matrices lie on a disk, where memory does not hold them |
//! | [`mod@file`] | `model.safetensors` |
//! | [`saved`](Model) | a trained model, read and written |

mod body;
mod disk_plan;
mod error;
pub mod file;
mod initial;
pub mod kinds;
mod layer_memory;
mod network;
mod on_graph;
mod pass;
mod saved;
mod shape;

pub use disk_plan::{DiskPlan, Needs, PlanError};
pub use error::ModelError;
pub use kinds::Kind;
pub use layer_memory::{LayerMemory, Right};
pub use network::Network;
pub use on_graph::{LayerError, Mode, OnGraph};
pub use pass::Pass;
pub(crate) use saved::tensor;
pub use saved::{Model, SavedError};
pub use shape::{BodyShape, Facts, LayerBytes, LayerShape, NetworkShape, Places};
