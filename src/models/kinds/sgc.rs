//! SGC (Wu et al. 2019): one linear layer, `P^T x Omega^T + bias` with T = `depth`, P the mean of
//! the relations' A^T. Forward and backward are those of [`Convolution`].

use std::sync::Arc;

use super::{Kind, LayerPlan, Request};
use crate::config::ModelKind;
use crate::kernels::Activation;
use crate::models::ModelError;
use crate::nn::{Convolution, DropEdge};

pub(super) const KIND: Kind =
    Kind::new(ModelKind::Sgc, &["model.depth", "model.drop_edge"], layers);

fn layers(request: &Request<'_>) -> Result<Vec<LayerPlan>, ModelError> {
    request.stack(1, |layer| {
        Ok(Arc::new(Convolution {
            steps: request.config.depth,
            activation: Activation::Identity,
            width: layer.width,
            drop_edge: DropEdge::new(request.config.drop_edge, request.seed),
        }))
    })
}
