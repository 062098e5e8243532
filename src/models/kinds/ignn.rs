//! IGNN (Gu et al. 2020): one equilibrium layer per width in `model.state`, and a readout.
//!
//! ```text
//! X_l = phi(sum_r A_r^T X_l W_lr^T + b_l(x_{l-1}))
//! ```
//! Forward and backward are those of [`Equilibrium`](crate::nn::Equilibrium), for which kappa bounds
//! W. Each relation r has a W of its own.

use super::{Kind, LayerPlan, Output, Request, activation};
use crate::config::{ModelConfig, ModelKind};
use crate::models::{BodyShape, ModelError};
use crate::nn::InputMap;

pub(super) const KIND: Kind = Kind {
    output: Output::Readout,
    carries_learned_features: true,
    ..Kind::new(
        ModelKind::Ignn,
        &[
            "model.state",
            "model.activation",
            "model.input",
            "model.bias",
            "model.kappa",
            "model.init",
            "model.feature_dropout",
            "model.layer_dropout",
            "solver",
        ],
        layers,
    )
};

pub(super) fn layers(request: &Request<'_>) -> Result<Vec<LayerPlan>, ModelError> {
    let Request { config, facts, .. } = *request;
    let input = config.input;
    if facts.columns.is_none() && input == InputMap::Both {
        return Err(ModelError::LearnedTwice);
    }
    let layer = |(layer, &width): (usize, &usize)| {
        Ok(LayerPlan {
            width,
            input,
            has_bias: config.bias,
            dropout: if layer == 0 { config.feature_dropout } else { config.layer_dropout },
            body: BodyShape::Equilibrium {
                activation: activation(config, layer, config.state.len())?,
                kappas: kappas(config, layer, &facts.relations)?,
            },
        })
    };
    config.state.iter().enumerate().map(layer).collect()
}

/// kappa of each relation in a layer.
fn kappas(
    config: &ModelConfig,
    layer: usize,
    relations: &[String],
) -> Result<Vec<f64>, ModelError> {
    let (layers, count) = (config.state.len(), relations.len());
    match (&config.kappa[..], count) {
        ([kappa], _) => Ok(vec![kappa / count as f64; count]),
        (each, 1) if each.len() == layers => Ok(vec![each[layer]]),
        (each, 1) => Err(ModelError::LayerKappas { found: each.len(), layers }),
        (each, _) if each.len() == count => Ok(each.to_vec()),
        (each, _) => {
            Err(ModelError::RelationKappas { found: each.len(), relations: relations.to_vec() })
        }
    }
}
