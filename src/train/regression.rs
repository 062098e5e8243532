//! A readout fitted in closed form: ridge regression over the training items, as the only step of
//! training. `nn::ridge` has the algebra.

use std::time::Instant;

use super::record::PhaseSeconds;
use super::solves::Solves;
use super::trainer::{GraphSet, Steps};
use super::{TrainError, Trainer};
use crate::nn::ridge::Ridge;

impl Trainer {
    /// Replaces the readout by the one that fits the training items best.
    pub(super) fn regress(
        &mut self,
        seconds: &mut PhaseSeconds,
        solves: &mut Solves,
    ) -> Result<Steps, TrainError> {
        let (clock, epoch, place) = (Instant::now(), self.epoch, self.place());
        let Self { model, graphs, task, config, .. } = self;
        let first = model.head();
        let theta = &model.parameters[first].value;
        let mut ridge = Ridge::new(theta.cols(), theta.rows());
        match graphs {
            GraphSet::One(one) => one.add_rows(model, task, &mut ridge),
            GraphSet::Many(many) => {
                let solved = many.add_rows(model, config, &mut ridge);
                solves.evaluation.extend(solved.map_err(|error| error.at_epoch(epoch, place))?);
            }
        }
        let penalty = (config.train.ridge > 0.0).then_some(config.train.ridge);
        let fitted = ridge.fit(penalty, config.model.head_bias);
        model.parameters[first].value = fitted.theta;
        if let Some(bias) = fitted.bias {
            model.parameters[first + 1].value = bias;
        }
        seconds.update += clock.elapsed().as_secs_f64();
        Ok(Steps { loss: fitted.loss, ..Steps::none() })
    }
}
