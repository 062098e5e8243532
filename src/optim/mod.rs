//! Optimisers: parameters, their gradients, and the steps that move them. This module knows neither
//! models nor losses: gradients come from `nn`, and `train` decides when to step.
//!
//! One step of training, in this order: gradients are filled in, [`Clip::apply`],
//! [`Optimiser::step`] with the rate of [`OptimConfig::rate`]. All of it is elementwise over the
//! rows with their padding, which stays zero; the same bits for any number of threads.

mod clip;
mod config;
mod optimiser;
mod parameter;
mod schedule;
#[cfg(test)]
mod tests;

pub use clip::{Clip, GradientError};
pub use config::OptimConfig;
pub use optimiser::{Method, Optimiser, RestoreError};
pub use parameter::{Parameter, values_and_gradients};
pub use schedule::Schedule;

/// Floats that a thread takes at a time: large enough to hide the cost of handing them out, small
/// against a table.
const CHUNK: usize = 1 << 14;
