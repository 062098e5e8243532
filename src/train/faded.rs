//! States that fade: rows that are zero, or almost, may pass no gradient on. With
//! `model.normalise_state`, rows that are almost zero are scaled to length 1 but pass none
//! ([`normalise::FADED`]); relu passes none where it is zero. If that is so of every row that a step
//! sees, the layers learn nothing, which the user is told once.

use ignn_format::Result;

use super::Observer;
use crate::nn::normalise;

/// Notices an epoch in which all states have faded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FadedWatch {
    epoch: Option<u64>,
    is_reported: bool,
}

impl FadedWatch {
    /// Takes note of an epoch.
    pub fn note(&mut self, epoch: u64, has_faded: bool) {
        if has_faded {
            self.epoch.get_or_insert(epoch);
        }
    }

    /// Tells the observer, once.
    pub fn report(&mut self, is_normalised: bool, observer: &mut dyn Observer) -> Result<()> {
        let Some(epoch) = self.epoch.filter(|_| !self.is_reported) else { return Ok(()) };
        self.is_reported = true;
        observer.note(&match is_normalised {
            true => format!(
                "epoch {epoch}: the states of all training items are almost zero (shorter than {:e}), \
                 so that only the readout learns: the features are too small or too far away: scale \
                 them up (model.normalise_features=true), raise model.kappa, or set \
                 model.normalise_state=false",
                normalise::FADED
            ),
            false => format!(
                "epoch {epoch}: the states of all training items are zero, where relu passes no gradient \
                 on, so that only the readout learns: lower optim.learning_rate, or choose another \
                 model.activation, such as leaky-relu or tanh"
            ),
        })
    }
}
