//! Optimisers: parameters, their gradients, and what a step makes of both. It knows neither models
//! nor losses; gradients come from `nn`, and who calls a step is for `train`.
//!
//! One step of training, in this order: gradients are filled in, [`Clip::apply`],
//! [`Optimiser::step`] with the rate that a [`Schedule`] gives. All of it is elementwise over the
//! rows with their padding, which stays zero; the same bits for any number of threads.

mod clip;
mod optimiser;
mod parameter;
mod schedule;
#[cfg(test)]
mod tests;

pub use clip::{Clip, GradientError};
pub use optimiser::{Method, Optimiser, OptimiserError, RestoreError, WeightDecay};
pub use parameter::{Parameter, values_and_gradients};
pub use schedule::{Decay, Schedule};

/// Floats that a thread takes at a time: large enough to hide the cost of handing them out, small
/// against a table.
const CHUNK: usize = 1 << 14;
