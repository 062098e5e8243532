//! Settings of a configuration in the terms of `optim` and `metrics`.
//! Words to values; what does not fit the labels is refused here.

use ignn_format::labels::Labels;

use super::TrainError;
use super::task::{CLASSES, SETS};
use crate::config::{self, IgnnConfig, Learn, ModelKind, Monitor};
use crate::metrics::Metric;
use crate::nn::Backward;
use crate::optim::{Clip, Decay, Method, Schedule, WeightDecay};

/// `train.monitor`.
pub fn monitor(labels: &Labels, wanted: Monitor) -> Result<Metric, TrainError> {
    let is_single = matches!(labels, Labels::Single { .. });
    let metric = match wanted {
        Monitor::Auto if is_single => Metric::Accuracy,
        Monitor::Auto | Monitor::MicroF1 => Metric::MicroF1,
        Monitor::Accuracy => Metric::Accuracy,
        Monitor::MacroF1 => Metric::MacroF1,
        Monitor::TopKMicroF1 => Metric::TopKMicroF1,
        Monitor::TopKMacroF1 => Metric::TopKMacroF1,
        Monitor::Loss => Metric::Loss,
    };
    let fits = match metric {
        Metric::Accuracy => is_single,
        Metric::TopKMicroF1 | Metric::TopKMacroF1 => !is_single,
        _ => true,
    };
    if fits {
        return Ok(metric);
    }
    let (labels, fits) = match is_single {
        true => (CLASSES, "accuracy, micro-f1, macro-f1, loss"),
        false => (SETS, "micro-f1, macro-f1, top-k-micro-f1, top-k-macro-f1, loss"),
    };
    Err(TrainError::Monitor { found: wanted.to_string(), labels, fits })
}

/// `train.learn`: a read-out that can be learned that way.
pub fn learnable(config: &IgnnConfig) -> Result<(), TrainError> {
    let (learn, readout, kind) = (config.train.learn, config.model.readout, config.model.kind);
    let has_readout = matches!(kind, ModelKind::Ignn | ModelKind::Gcnii | ModelKind::Sse);
    if learn != Learn::All && !has_readout {
        return Err(TrainError::LearnKind { learn: learn.to_string(), kind: kind.to_string() });
    }
    let expected = match (learn, readout) {
        (Learn::Readout, config::Readout::None) => "linear or mlp",
        (Learn::Ridge, config::Readout::None | config::Readout::Mlp) => "linear",
        _ => return Ok(()),
    };
    Err(TrainError::Readout { learn: learn.to_string(), found: readout.to_string(), expected })
}

/// `solver.gradient`.
pub fn backward(config: &IgnnConfig) -> Backward {
    match config.solver.gradient {
        config::GradientKind::Exact => Backward::Exact,
        config::GradientKind::JacobianFree => Backward::Truncated { steps: 1, damping: 1.0 },
        config::GradientKind::Phantom => Backward::Truncated {
            steps: config.solver.phantom_steps,
            damping: config.solver.phantom_damping as f32,
        },
    }
}

/// `optim.method`.
pub fn method(config: &IgnnConfig) -> Method {
    let optim = &config.optim;
    match optim.method {
        config::Method::Adam => {
            Method::Adam { beta1: optim.beta1, beta2: optim.beta2, epsilon: optim.epsilon }
        }
        config::Method::Sgd => Method::Sgd { momentum: optim.momentum },
    }
}

/// `optim.weight_decay`.
pub fn decay(config: &IgnnConfig) -> WeightDecay {
    WeightDecay { rate: config.optim.weight_decay, decoupled: config.optim.decoupled }
}

/// `optim.clip`.
pub fn clip(config: &IgnnConfig) -> Clip {
    match config.optim.clip {
        config::Clip::None => Clip::None,
        config::Clip::Tensor => Clip::Tensor(config.optim.clip_norm),
        config::Clip::Global => Clip::Global(config.optim.clip_norm),
    }
}

/// `optim.schedule`.
pub fn schedule(config: &IgnnConfig) -> Schedule {
    let optim = &config.optim;
    let decay = match optim.schedule {
        config::Schedule::Constant => Decay::Constant,
        config::Schedule::Cosine => Decay::Cosine { floor: optim.schedule_floor },
        config::Schedule::Step => {
            Decay::Step { every: optim.step_epochs as usize, factor: optim.step_factor }
        }
    };
    Schedule { decay, warm_up: optim.warmup_epochs as usize }
}
