//! Detects collapse: training that has lost most of what it had learned, for example after a step
//! that was too large. `train.on_collapse` says what to do then.
//!
//! The loss is that of the training part without dropout. Training has collapsed when the losses of
//! two evaluated epochs in a row are above the middle between the first loss and the lowest one.
//! Before the loss has once fallen to half of the first one, nothing counts as a collapse, so that
//! large early losses do not.

use super::record::{EpochRecord, Observer};
use crate::config::{Config, OnCollapse};
use crate::models::file::Texts;

/// Number of consecutive epochs above the limit that count as a collapse. A single one may be a
/// spike.
const EPOCHS: u64 = 2;
/// A collapse is only possible once the lowest loss is below this fraction of the first.
const GAINED: f64 = 0.5;
/// Training that loses more than this fraction of its improvement has collapsed.
const LOST: f64 = 0.5;

const FIRST: &str = "collapse_first_bits";
const LOWEST: &str = "collapse_lowest_bits";
const LOWEST_EPOCH: &str = "collapse_lowest_epoch";
const ABOVE: &str = "collapse_above";
const LAST: &str = "collapse_last_bits";
const RESTORED: &str = "collapse_restored";
const RESTORED_AT: &str = "collapse_restored_at";

/// What is remembered of the losses so far. It is part of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CollapseWatch {
    /// Loss of the first epoch; NaN before it.
    first: f64,
    /// The lowest loss, and its epoch.
    lowest: f64,
    lowest_epoch: u64,
    /// Epochs in a row that were above the limit.
    above: u64,
    /// The last loss, for messages.
    last: f64,
    /// How often the best model was restored.
    pub restored: u64,
    /// The epoch after the last restoration; 0 before the first.
    pub restored_at: u64,
}

impl Default for CollapseWatch {
    fn default() -> Self {
        Self {
            first: f64::NAN,
            lowest: f64::INFINITY,
            lowest_epoch: 0,
            above: 0,
            last: f64::NAN,
            restored: 0,
            restored_at: 0,
        }
    }
}

impl CollapseWatch {
    /// Takes the loss of an epoch, NaN if it has none. Returns whether training has collapsed in
    /// this epoch. Later epochs are not reported again until the loss has recovered.
    pub fn note(&mut self, epoch: u64, loss: f64) -> bool {
        if loss.is_nan() {
            return false;
        }
        self.last = loss;
        if self.first.is_nan() {
            self.first = loss;
        }
        if loss < self.lowest {
            (self.lowest, self.lowest_epoch) = (loss, epoch);
        }
        let has_gained = self.lowest < GAINED * self.first;
        let limit = self.lowest + LOST * (self.first - self.lowest);
        self.above = if has_gained && loss > limit { self.above.saturating_add(1) } else { 0 };
        self.above == EPOCHS
    }

    /// Whether training has collapsed and not recovered.
    pub fn is_collapsed(&self) -> bool {
        self.above >= EPOCHS
    }

    /// The best model was restored; `epoch` is the next one.
    pub fn restore(&mut self, epoch: u64) {
        self.above = 0;
        self.restored = self.restored.saturating_add(1);
        self.restored_at = epoch;
    }

    /// The factor by which the learning rate is multiplied.
    pub fn rate_factor(&self, config: &Config) -> f64 {
        config.train.collapse_factor.powi(self.restored.min(1000) as i32)
    }

    /// For a checkpoint.
    pub fn save(&self, texts: &mut Texts) {
        let numbers = [
            (FIRST, self.first.to_bits()),
            (LOWEST, self.lowest.to_bits()),
            (LOWEST_EPOCH, self.lowest_epoch),
            (ABOVE, self.above),
            (LAST, self.last.to_bits()),
            (RESTORED, self.restored),
            (RESTORED_AT, self.restored_at),
        ];
        texts.extend(numbers.map(|(name, number)| (name.to_string(), number.to_string())));
    }

    /// From a checkpoint; checkpoints of older versions do not have it.
    pub fn load<E>(texts: &Texts, number: impl Fn(&str) -> Result<u64, E>) -> Result<Self, E> {
        if !texts.contains_key(FIRST) {
            return Ok(Self::default());
        }
        Ok(Self {
            first: f64::from_bits(number(FIRST)?),
            lowest: f64::from_bits(number(LOWEST)?),
            lowest_epoch: number(LOWEST_EPOCH)?,
            above: number(ABOVE)?,
            last: f64::from_bits(number(LAST)?),
            restored: number(RESTORED)?,
            restored_at: number(RESTORED_AT)?,
        })
    }

    /// Reports a collapse in this epoch to an observer.
    pub fn report(
        &self,
        record: &EpochRecord,
        config: &Config,
        best: Option<u64>,
        observer: &mut dyn Observer,
    ) -> ignn_format::Result<()> {
        let epoch = record.epoch;
        let lowest = format!("{:.4} in epoch {}", self.lowest, self.lowest_epoch);
        let found = match record.loss.is_finite() {
            true => format!("the training loss is {:.4}, the lowest was {lowest}", self.last),
            false => format!("a gradient or a state is not finite, the lowest loss was {lowest}"),
        };
        let best = best.map_or_else(|| "none".into(), |best| format!("epoch {best}"));
        let rate = config.optim.learning_rate;
        let next = match config.train.on_collapse {
            OnCollapse::Warn => format!(
                "the best model ({best}) is kept. Try train.on_collapse=restore, \
                 optim.learning_rate={}, or optim.clip=global",
                rate * config.train.collapse_factor
            ),
            OnCollapse::Stop => format!("training stops, the best model ({best}) is kept"),
            OnCollapse::Restore => format!(
                "training continues from the best model ({best}) with the learning rate times {:.3}",
                self.rate_factor(config)
            ),
        };
        observer.note(&format!("epoch {epoch}: training has collapsed: {found}; {next}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collapses(losses: &[f64]) -> Vec<u64> {
        let mut watch = CollapseWatch::default();
        let noted = losses.iter().zip(0..).filter(|&(&loss, epoch)| watch.note(epoch, loss));
        noted.map(|(_, epoch)| epoch).collect()
    }

    #[test]
    fn a_collapse_is_two_epochs_that_lost_half_of_the_gain() {
        assert_eq!(collapses(&[0.7, 0.3, 0.01, 0.02, 0.9, 0.56, 0.55, 0.5]), [5]);
        assert_eq!(collapses(&[0.7, 0.3, 0.01, 0.9, 0.02, 0.03]), [0; 0], "a spike that passes");
        assert_eq!(collapses(&[0.7, 30.0, 5.0, 0.6, 0.4, 0.6, 0.7]), [0; 0], "nothing gained yet");
        assert_eq!(
            collapses(&[2.0, 0.5, 1.2, 1.0, 1.1, 1.2, 1.3]),
            [0; 0],
            "overfitting is slower"
        );
        assert_eq!(
            collapses(&[0.7, 0.1, 0.6, 0.6, 0.1, 0.6, 0.6]),
            [3, 6],
            "after a recovery again"
        );
        assert_eq!(collapses(&[f64::NAN, 0.7, 0.1, f64::NAN, 0.6, f64::NAN, 0.6]), [6]);
    }

    #[test]
    fn a_watch_reads_back_from_a_checkpoint_and_older_ones_have_none() {
        let mut watch = CollapseWatch::default();
        [0.7, 0.1, 0.6].into_iter().zip(0..).for_each(|(loss, epoch)| {
            watch.note(epoch, loss);
        });
        watch.restore(4);
        let mut texts = Texts::default();
        watch.save(&mut texts);
        let number = |name: &str| texts[name].parse::<u64>();
        assert_eq!(CollapseWatch::load(&texts, number), Ok(watch));
        let old = CollapseWatch::load(&Texts::default(), number).unwrap();
        assert!(old.first.is_nan() && old.restored == 0);
    }
}
