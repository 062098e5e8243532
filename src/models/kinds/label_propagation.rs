//! Label propagation (Zhou et al. 2004): the equilibrium `X = kappa / rho A^T X + E`, where row i of
//! E is the label of training node i and zero elsewhere. X is n x c; its rows are the scores.
//! Nothing is learned: forward is that of [`Equilibrium`](crate::nn::Equilibrium), backward is never
//! run.

use super::{FeatureRule, Kind, ignn};
use crate::config::{Init, ModelConfig, ModelKind, ReadoutKind};
use crate::kernels::Activation;
use crate::models::Facts;
use crate::nn::{InputMap, PoolingChoice};

pub(super) const KIND: Kind = Kind {
    features: FeatureRule::Labels,
    learns: false,
    fixed: Some(fixed),
    ..Kind::new(ModelKind::LabelPropagation, &["model.kappa", "solver"], ignn::layers)
};

/// An equilibrium with W = kappa / rho I and no readout.
fn fixed(config: &ModelConfig, facts: &Facts) -> ModelConfig {
    ModelConfig {
        state: vec![facts.outputs],
        activation: vec![Activation::Identity],
        input: InputMap::Own,
        bias: false,
        init: Init::Identity,
        init_input: 0.0,
        skip: false,
        batch_norm: false,
        pooling: PoolingChoice::None,
        normalise_state: false,
        dropout: 0.0,
        feature_dropout: 0.0,
        readout: ReadoutKind::None,
        ..config.clone()
    }
}
