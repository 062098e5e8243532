//! The learning rate of each epoch: a linear warm-up, then constant, along a cosine, or in steps.
//! It computes a rate; it neither counts epochs nor applies the rate.
//!
//! ```
//! use ignn::optim::{OptimConfig, Schedule};
//!
//! let config = OptimConfig {
//!     learning_rate: 0.5,
//!     schedule: Schedule::Step,
//!     step_epochs: 2,
//!     step_factor: 0.5,
//!     ..OptimConfig::default()
//! };
//! let rates: Vec<f64> = (0..4).map(|epoch| config.rate(epoch, 4)).collect();
//! assert_eq!(rates, [0.5, 0.5, 0.25, 0.25]);
//! ```

use std::f64::consts::PI;

use super::OptimConfig;
use crate::settings::words;

words! {
    /// How the learning rate changes after the warm-up.
    pub enum Schedule {
        /// The learning rate stays the same.
        Constant = "constant",
        /// Half a cosine from the full learning rate to `schedule_floor` after the last epoch.
        Cosine = "cosine",
        /// Multiplied by `step_factor` every `step_epochs` epochs.
        Step = "step",
    }
}

impl OptimConfig {
    /// The learning rate of an epoch, counted from 0, of `epochs` in total.
    ///
    /// Of w epochs of warm-up the first has 1 / (w + 1) of the full rate, the next 2 / (w + 1) and
    /// so on.
    pub fn rate(&self, epoch: u64, epochs: u64) -> f64 {
        let (base, warmup) = (self.learning_rate, self.warmup_epochs);
        if epoch < warmup {
            return base * (epoch + 1) as f64 / (warmup + 1) as f64;
        }
        let (since, length) = (epoch - warmup, epochs.saturating_sub(warmup).max(1));
        match self.schedule {
            Schedule::Constant => base,
            Schedule::Cosine => {
                let (at, floor) = ((since as f64 / length as f64).min(1.0), self.schedule_floor);
                base * (floor + (1.0 - floor) * 0.5 * (1.0 + (PI * at).cos()))
            }
            Schedule::Step => {
                base * self.step_factor.powf((since / self.step_epochs.max(1)) as f64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(config: &OptimConfig, epochs: u64) -> Vec<f64> {
        (0..epochs).map(|epoch| config.rate(epoch, epochs)).collect()
    }

    #[test]
    fn every_schedule_gives_its_rates() {
        let base = OptimConfig { learning_rate: 0.5, ..OptimConfig::default() };
        assert_eq!(rates(&base, 3), [0.5; 3]);
        let (schedule, step_epochs, warmup_epochs) = (Schedule::Step, 2, 1);
        let steps = OptimConfig { schedule, step_epochs, warmup_epochs, ..base };
        assert_eq!(rates(&steps, 6), [0.25, 0.5, 0.5, 0.25, 0.25, 0.125]);
        let cosine = OptimConfig { schedule: Schedule::Cosine, schedule_floor: 0.2, ..base };
        let found = rates(&cosine, 4);
        assert_eq!(found[0], 0.5);
        assert!((found[2] - 0.5 * 0.6).abs() < 1e-15 && found[1] > found[2] && found[3] > 0.1);
        assert!((cosine.rate(4, 4) - 0.1).abs() < 1e-15);
        assert_eq!(cosine.rate(9, 4), cosine.rate(4, 4), "later epochs stay at the floor");
    }

    #[test]
    fn a_warm_up_rises_to_the_full_rate() {
        let (learning_rate, schedule, warmup_epochs) = (0.5, Schedule::Cosine, 3);
        let config =
            OptimConfig { learning_rate, schedule, warmup_epochs, ..OptimConfig::default() };
        assert_eq!(rates(&config, 5)[..4], [0.125, 0.25, 0.375, 0.5]);
        assert_eq!(config.rate(3, 2), 0.5, "a warm-up that is longer than the training");
    }
}
