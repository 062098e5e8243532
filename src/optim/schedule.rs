//! Learning rates by epoch: a linear warm-up, then constant, along a cosine, or in steps.
//! It tells a rate; it neither counts epochs nor applies it.

use std::f64::consts::PI;

/// How the rate falls after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Decay {
    /// Not at all.
    #[default]
    Constant,
    /// Along half a cosine from the base rate to `floor` times it, which the epoch after the last
    /// would have.
    Cosine {
        /// Part of the base rate that is left at the end, 0 to 1.
        floor: f64,
    },
    /// Times `factor` after every `every` epochs.
    Step {
        /// Epochs of a step; 0 for no steps.
        every: usize,
        /// Factor, 0 to 1.
        factor: f64,
    },
}

/// The learning rate of each epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Schedule {
    /// After the warm-up.
    pub decay: Decay,
    /// Epochs below the base rate: of w such epochs the first has 1/(w + 1) of it, the next 2/(w +
    /// 1) and so on.
    pub warm_up: usize,
}

impl Schedule {
    /// The rate of an epoch, counted from 0, of `epochs` in all.
    pub fn rate(&self, base: f64, epoch: usize, epochs: usize) -> f64 {
        if epoch < self.warm_up {
            return base * (epoch + 1) as f64 / (self.warm_up + 1) as f64;
        }
        let (since, length) = (epoch - self.warm_up, epochs.saturating_sub(self.warm_up).max(1));
        match self.decay {
            Decay::Constant => base,
            Decay::Cosine { floor } => {
                let at = (since as f64 / length as f64).min(1.0);
                base * (floor + (1.0 - floor) * 0.5 * (1.0 + (PI * at).cos()))
            }
            Decay::Step { every: 0, .. } => base,
            Decay::Step { every, factor } => base * factor.powf((since / every) as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(schedule: Schedule, epochs: usize) -> Vec<f64> {
        (0..epochs).map(|epoch| schedule.rate(0.5, epoch, epochs)).collect()
    }

    #[test]
    fn every_form() {
        assert_eq!(rates(Schedule::default(), 3), [0.5; 3]);
        let steps = Schedule { decay: Decay::Step { every: 2, factor: 0.5 }, warm_up: 1 };
        assert_eq!(rates(steps, 6), [0.25, 0.5, 0.5, 0.25, 0.25, 0.125]);
        let cosine = Schedule { decay: Decay::Cosine { floor: 0.2 }, warm_up: 0 };
        let found = rates(cosine, 4);
        assert_eq!(found[0], 0.5);
        assert!((found[2] - 0.5 * 0.6).abs() < 1e-15 && found[1] > found[2] && found[3] > 0.1);
        assert!((cosine.rate(0.5, 4, 4) - 0.1).abs() < 1e-15);
        assert_eq!(
            cosine.rate(0.5, 9, 4),
            cosine.rate(0.5, 4, 4),
            "epochs beyond the last stay at the floor"
        );
        let none = Schedule { decay: Decay::Step { every: 0, factor: 0.5 }, warm_up: 0 };
        assert_eq!(rates(none, 2), [0.5; 2]);
    }

    #[test]
    fn a_warm_up_rises_to_the_base_rate() {
        let schedule = Schedule { decay: Decay::Cosine { floor: 0.0 }, warm_up: 3 };
        let found = rates(schedule, 5);
        assert_eq!(found[..4], [0.125, 0.25, 0.375, 0.5]);
        assert_eq!(schedule.rate(0.5, 3, 2), 0.5, "a warm-up longer than the training");
    }
}
