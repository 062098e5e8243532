//! Models: their named parameters and the file that holds them.
//! They wire layers of `nn` together; how they are trained is for `train`.

mod baselines;
mod body;
pub mod file;
mod ignn;
mod initial;
mod on_graph;
mod pass;
mod saved;

pub use baselines::layer_shapes;
pub use ignn::{BodyShape, Facts, Ignn, LayerShape, ModelError, Places};
pub use on_graph::{LayerError, Mode, OnGraph};
pub use pass::Pass;
pub use saved::{Model, SavedError};
