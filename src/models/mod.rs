//! Models: their named parameters and the file that holds them.
//! They wire layers of `nn` together; how they are trained is for `train`.

pub mod file;
mod ignn;
mod saved;

pub use ignn::{Ignn, ModelError, Pass, only_relation};
pub use saved::{Model, SavedError};
