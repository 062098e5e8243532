//! A perceptron on each node's own features: `depth` layers `x_l = phi(x_{l-1} Omega_l^T + bias_l)`,
//! the last without activation. Forward and backward are those of [`Convolution`] with no step.

use std::sync::Arc;

use super::{Kind, LayerPlan, Request};
use crate::config::ModelKind;
use crate::models::ModelError;
use crate::nn::Convolution;

pub(super) const KIND: Kind =
    Kind::new(ModelKind::Mlp, &["model.depth", "model.state", "model.activation"], layers);

fn layers(request: &Request<'_>) -> Result<Vec<LayerPlan>, ModelError> {
    request.stack(request.config.depth, |layer| {
        let (activation, width) = (layer.activation()?, layer.width);
        Ok(Arc::new(Convolution { steps: 0, activation, width, drop_edge: None }))
    })
}
