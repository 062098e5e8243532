//! What the bounds before a solve cost: the spectral bound of the graph, and the search for a
//! certificate with a weight at the limit of what training allows.

use std::time::Instant;

use ignn::dense::Matrix;
use ignn::kernels::{Activation, Adjacency, PackedWeights, sweep};
use ignn::nn::Operators;
use ignn::report::quantity::{plural, seconds};
use ignn::solver::certificate::lipschitz;
use ignn::solver::{Certificate, Effort};
use serde_json::json;

/// Sum of the norms that the weights have, relative to the bounds of their relations.
const KAPPA: f64 = 0.9;

/// The operators, and what bounding their radii took.
pub struct Bounds {
    operators: Operators,
    radius: Effort,
}

/// A certificate, and what both bounds took.
#[derive(Clone, Copy)]
pub struct Cost {
    radius: Effort,
    certificate: Effort,
    q: f64,
}

impl Bounds {
    /// Bounds the radii.
    pub fn of(incoming: &[Adjacency], outgoing: &[Adjacency]) -> Self {
        let started = Instant::now();
        let operators = Operators::new(incoming.to_vec(), outgoing.to_vec());
        let passes = operators.spectral().map_or(1, |bound| bound.effort.passes);
        Self { radius: Effort { passes, seconds: started.elapsed().as_secs_f64() }, operators }
    }

    /// Searches for a certificate of weights like these, whose rows are scaled to kappa.
    pub fn certify(&self, w: &[Matrix], activation: Activation) -> Cost {
        let kappa = KAPPA / w.len() as f64;
        let scaled = w.iter().enumerate().map(|(relation, w)| {
            let limit =
                self.operators.weight_radius(relation, kappa).min(1e6) / lipschitz(activation);
            let mut w = w.clone();
            for row in 0..w.rows() {
                let row = w.row_mut(row);
                let norm: f64 = row.iter().map(|&x| f64::from(x.abs())).sum();
                row.iter_mut().for_each(|x| *x = (f64::from(*x) * limit / norm) as f32);
            }
            PackedWeights::forward(w.view())
        });
        let weights: Vec<_> = scaled.collect();
        let terms = self.operators.incoming();
        let terms = sweep::terms(&terms, &weights);
        let radius = self.operators.spectral_radius();
        let found = Certificate::of(&terms, lipschitz(activation), radius);
        Cost { radius: self.radius, certificate: found.effort, q: found.q }
    }
}

impl Cost {
    /// Both in words, `sweep` being the time of a sweep.
    pub fn words(&self, sweep: f64) -> String {
        let part = |effort: Effort| {
            let passes = plural(effort.passes as u64, "pass", "passes");
            format!("{passes} in {}", seconds(effort.seconds))
        };
        format!(
            "spectral bound {}, certificate {} (q {:.4}): {:.1} sweeps",
            part(self.radius),
            part(self.certificate),
            self.q,
            self.radius.with(self.certificate).seconds / sweep
        )
    }

    /// The same numbers.
    pub fn as_json(&self) -> serde_json::Value {
        json!({ "spectral_bound": self.radius, "certificate": self.certificate, "q": self.q })
    }
}
