//! How far the result of a pass can be from that of exact equilibria, through all layers of a stack.
//!
//! The exact network is the one with these parameters, computed without rounding and with every
//! equilibrium solved exactly. What the features alone decide, the input term of the first layer and
//! the product of its skip connection, is taken as computed. From layer to layer
//!
//! ```text
//! e_solve  = certified error of the solve, for the input term as computed
//! |dB|_uv <= (e_below + gamma |x|) sum_r max_i (|A_r| 1)_i / u_i  max_k (|Omega_r| 1)_k / v_k
//! e_state  = e_solve + lipschitz max(u v) |dB|_uv / (1 - q)
//! e_mixed  = lipschitz(between) (e_state + |V|_inf e_below + rounding)    with a skip connection
//! e        = max_k |scale_k| / sqrt(variance_k + eps) e_mixed + rounding   with batch normalisation
//! ```
//!
//! Every factor is rounded upwards. Worst cases multiply from layer to layer: a bound that is too
//! large to be of use shrinks with the tolerance of the solves.

use super::{Fed, Layer, OnGraph};
use crate::dense::MatrixRef;
use crate::kernels::{Norm, largest};
use crate::models::body::Body;
use crate::models::network::Network;
use crate::solver::SolveInfo;
use crate::solver::certificate::{TINY, activation_error, gamma, lipschitz};

impl OnGraph {
    /// The bound for the entries of [`OnGraph::result`], after a pass for evaluation whose solves were
    /// these. `None` where a layer is no equilibrium or its solve is not certified. On several ranks
    /// all call it together.
    pub fn error_bound(&self, model: &Network, solves: &[SolveInfo]) -> Option<f64> {
        let is_bounded = |(layer, solve): (&Layer, &SolveInfo)| {
            matches!(layer.body, Body::Equilibrium(_)) && solve.certified_error.is_some()
        };
        if solves.len() != self.layers.len() || !self.layers.iter().zip(solves).all(is_bounded) {
            return None;
        }
        let mut below: Option<(&Layer, f64)> = None;
        for (at, (layer, solve)) in self.layers.iter().zip(solves).enumerate() {
            let error = self.error_of_layer(model, at, solve, below)?;
            below = Some((layer, error));
        }
        below.map(|(_, error)| error)
    }

    fn error_of_layer(
        &self,
        model: &Network,
        at: usize,
        solve: &SolveInfo,
        below: Option<(&Layer, f64)>,
    ) -> Option<f64> {
        let (layer, shape) = (&self.layers[at], &model.layers[at]);
        let Body::Equilibrium(body) = &layer.body else { return None };
        let below = below.map(|(below, error)| [self.size(below.result()), error]);
        let mut error = solve.certified_error?.largest;
        if let (Some(below), Fed::Below(feed)) = (below, &layer.fed) {
            let certificate = body.certificate()?;
            let input = feed.error_bound(&model.values(&shape.at.input), below, certificate);
            error += certificate.response(input);
        }
        if let Some(between) = shape.between {
            let skip = model.values(&shape.at.skip);
            if let Some([size, moved]) = below {
                let v = skip[0];
                let roundings = v.cols() as f64 + 4.0;
                let sum = |row: &[f32]| row.iter().map(|&x| f64::from(x).abs()).sum::<f64>();
                let widest = (0..v.rows()).map(|k| sum(v.row(k))).fold(0.0, f64::max);
                let bias = skip[1].row(0).iter().fold(0.0, |most: f32, x| most.max(x.abs()));
                error += widest * moved + gamma(roundings) * (widest * size + f64::from(bias));
                error += roundings * TINY * (1.0 + widest);
            }
            // The sum is off by one rounding. An activation passes on a relative error of its argument
            // as no more than that of max(|phi|, 1).
            let rounding = f64::from(f32::EPSILON) * (1.0 + self.size(layer.mixed()));
            error = lipschitz(between) * error + rounding + activation_error(Some(between));
        }
        if let Some(norm) = shape.norm {
            let parameters = model.values(&shape.at.norm);
            let sizes = [self.size(layer.mixed()), error];
            error = norm.error_bound(&parameters, &model.statistics[at], sizes);
        }
        Some(error * (1.0 + 1e-12))
    }

    /// The largest absolute entry over all ranks.
    fn size(&self, rows: MatrixRef<'_>) -> f64 {
        let rows = rows.first(self.operators.nodes());
        self.operators.rows().ranks().max(largest(rows, Norm::default()).into())
    }
}
