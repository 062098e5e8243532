//! The settings of an optimiser: the section `[optim]`.

use super::{Clip, Method, Schedule};
use crate::settings::settings;

settings! {
    /// How gradients become steps.
    pub struct OptimConfig {
        /// The optimiser.
        method: Method = Method::Adam;
        /// Learning rate before the schedule.
        learning_rate: f64 = 0.01, above(0.0).at_most(1000.0);
        /// Decay of Adam's mean of gradients.
        beta1: f64 = 0.9, at_least(0.0).below(1.0);
        /// Decay of Adam's mean of squared gradients.
        beta2: f64 = 0.999, at_least(0.0).below(1.0);
        /// Added to the denominator of Adam's step.
        epsilon: f64 = 1e-8, at_least(1e-30).at_most(1.0);
        /// Momentum of `sgd`.
        momentum: f64 = 0.9, at_least(0.0).below(1.0);
        /// Strength of weight decay. Biases do not decay.
        weight_decay: f64 = 0.0, at_least(0.0);
        /// Decays weights directly (AdamW) instead of through the gradient (L2).
        decoupled: bool = false;
        /// How gradients are clipped.
        clip: Clip = Clip::None;
        /// Largest norm of a clipped gradient.
        clip_norm: f64 = 0.5, above(0.0);
        /// How the learning rate changes from epoch to epoch.
        schedule: Schedule = Schedule::Constant;
        /// Lowest learning rate of the cosine schedule, as a fraction of `learning_rate`.
        schedule_floor: f64 = 0.0, at_least(0.0).at_most(1.0);
        /// Number of epochs per step of the step schedule.
        step_epochs: u64 = 100, at_least(1.0);
        /// Factor by which each step of the step schedule multiplies the learning rate.
        step_factor: f64 = 0.5, above(0.0).at_most(1.0);
        /// Number of epochs in which the learning rate rises linearly to its full value.
        warmup_epochs: u64 = 0, at_least(0.0);
        /// Multiplies the learning rate of all weights below the readout. 0 freezes them.
        layer_factor: f64 = 1.0, at_least(0.0).at_most(1000.0);
        /// Multiplies the learning rate of learned features. 0 freezes them.
        table_factor: f64 = 1.0, at_least(0.0).at_most(1000.0);
    }
}
