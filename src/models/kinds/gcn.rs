//! GCN (Kipf, Welling 2017): `depth` layers `x_l = phi(P x_{l-1} Omega_l^T + bias_l)`, P the mean of
//! the relations' A^T; the last layer has no activation and gives the logits.
//! Forward and backward are those of [`Convolution`].

use std::sync::Arc;

use super::{Kind, LayerPlan, Request};
use crate::config::ModelKind;
use crate::models::ModelError;
use crate::nn::{Convolution, DropEdge};

pub(super) const KIND: Kind = Kind::new(
    ModelKind::Gcn,
    &["model.depth", "model.state", "model.activation", "model.drop_edge"],
    layers,
);

fn layers(request: &Request<'_>) -> Result<Vec<LayerPlan>, ModelError> {
    request.stack(request.config.depth, |layer| {
        Ok(Arc::new(Convolution {
            steps: 1,
            activation: layer.activation()?,
            width: layer.width,
            drop_edge: DropEdge::new(request.config.drop_edge, request.seed),
        }))
    })
}
