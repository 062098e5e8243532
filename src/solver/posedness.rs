//! Whether the equation has exactly one solution: which condition shows it, and by what margin. A
//! weight can be rescaled here; projecting it is part of a training step ([`super::projection`]).
//!
//! | condition | needs |
//! | --- | --- |
//! | acyclic | nothing: rho = 0, any W |
//! | norm | `slope * rho * ||W||_inf < 1`: what training enforces |
//! | eigenvalue | `slope * rho * lambda(|W|) < 1` (Perron-Frobenius) |
//! | norms of relations | `slope * sum_i ||A_i||_1 ||W_i||_inf < 1` |
//!
//! All numbers are upper bounds, so a reported condition holds. One that is not reported may still
//! hold.
//!
//! **Rescaling.** Let phi be positively homogeneous and X the solution for W and B. Then `X S` is
//! the solution for `S W S^-1` and `B S`, and the readout `Theta S^-1` gives the same output. The
//! scaling S = diag(1/v) with |W| v <= t v brings the norm down to t.

use serde::Serialize;

use super::certificate::lipschitz;
use super::tightening::{tight_columns, weight_radius};
use crate::dense::{Matrix, MatrixRef};
use crate::kernels::{Activation, PackedWeights};

/// The strongest condition that holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// The graph has no cycle.
    Acyclic,
    /// The norm of W is small enough.
    Norm,
    /// The spectral radius of |W| is, though its norm is not.
    Eigenvalue,
    /// No condition is certain to hold.
    NotCertified,
}

/// The conditions of a weight on a graph.
///
/// ```
/// use ignn::dense::Matrix;
/// use ignn::kernels::Activation;
/// use ignn::solver::{Condition, Posedness};
///
/// // |W| has norm 1.5, but spectral radius 0.5.
/// let w = Matrix::from_fn(2, 2, |k, l| [[0.5, 1.0], [0.0, 0.5]][k][l]);
/// let posedness = Posedness::of(1.0, w.view(), Activation::Relu);
/// assert_eq!(posedness.condition, Condition::Eigenvalue);
/// // Any W is well-posed on a graph without cycles.
/// let acyclic = Posedness::of(0.0, w.view(), Activation::Relu);
/// assert_eq!(acyclic.condition, Condition::Acyclic);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Posedness {
    /// The strongest condition that holds.
    pub condition: Condition,
    /// Bound of the spectral radius of A; of its 1-norm for several relations.
    pub rho: f64,
    /// ||W||_inf.
    pub norm: f64,
    /// Bound of the spectral radius of |W|.
    pub omega: f64,
    /// `slope * rho * norm`, summed over relations; the norm condition is that it is below 1.
    pub by_norm: f64,
    /// `slope * rho * omega`; the eigenvalue condition is that it is below 1.
    pub by_eigenvalue: f64,
}

impl Posedness {
    /// The conditions for one relation whose spectral radius is at most `rho`.
    pub fn of(rho: f64, w: MatrixRef<'_>, activation: Activation) -> Self {
        let slope = lipschitz(activation);
        let (norm, omega) = (infinity_norm(w), weight_radius(&PackedWeights::forward(w)));
        // 0 times infinity (a DAG, and a weight that is not finite) certifies nothing.
        let product = |weight: f64| {
            let product = (slope * rho * weight).next_up();
            if product.is_nan() { f64::INFINITY } else { product }
        };
        let (by_norm, by_eigenvalue) = (product(norm), product(omega));
        let condition = match () {
            () if rho == 0.0 && norm.is_finite() => Condition::Acyclic,
            () if by_norm < 1.0 => Condition::Norm,
            () if by_eigenvalue < 1.0 => Condition::Eigenvalue,
            () => Condition::NotCertified,
        };
        Self { condition, rho, norm, omega, by_norm, by_eigenvalue }
    }

    /// Of several relations, by the sum of `||A_i||_1 ||W_i||_inf`; `norms` holds the first factor
    /// of each.
    pub fn of_relations(relations: &[(f64, MatrixRef<'_>)], activation: Activation) -> Self {
        let sum: f64 = relations.iter().map(|(rho, w)| rho * infinity_norm(*w)).sum();
        let by_norm = lipschitz(activation) * sum * (1.0 + relations.len() as f64 * f64::EPSILON);
        let by_norm = if by_norm.is_nan() { f64::INFINITY } else { by_norm };
        let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
        let rho = largest(&mut relations.iter().map(|relation| relation.0));
        let norm = largest(&mut relations.iter().map(|relation| infinity_norm(relation.1)));
        let condition = if by_norm < 1.0 { Condition::Norm } else { Condition::NotCertified };
        Self { condition, rho, norm, omega: norm, by_norm, by_eigenvalue: by_norm }
    }

    /// The margin to 1 of the condition that holds; 0 if none does.
    pub fn margin(&self) -> f64 {
        match self.condition {
            Condition::Acyclic => 1.0,
            Condition::Norm => 1.0 - self.by_norm,
            Condition::Eigenvalue => 1.0 - self.by_eigenvalue,
            Condition::NotCertified => 0.0,
        }
    }
}

/// The largest sum of |entries| of a row, rounded up; infinite if an entry is not finite.
pub fn infinity_norm(w: MatrixRef<'_>) -> f64 {
    let sum = |row: usize| -> f64 { w.row(row).iter().map(|&x| f64::from(x).abs()).sum() };
    let norm = (0..w.rows())
        .map(sum)
        .fold(0.0, |m: f64, x| if x.is_nan() { f64::INFINITY } else { m.max(x) });
    norm * (1.0 + w.cols() as f64 * f64::EPSILON)
}

/// The diagonal S^-1 = diag(v) of a rescaling.
#[derive(Clone, Debug, PartialEq)]
pub struct Rescaling {
    v: Vec<f32>,
}

/// Why a weight cannot be rescaled.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum RescalingError {
    /// phi(c z) is not c phi(z).
    #[error(
        "rescaling needs a positively homogeneous activation \
         (found {found:?}, expected relu, leaky relu or identity)"
    )]
    Activation {
        /// The activation.
        found: Activation,
    },
    /// lambda(|W|) itself is too large.
    #[error(
        "rescaling cannot bring the norm of the weight to {limit} (spectral radius of |W| found {omega})"
    )]
    Radius {
        /// The norm asked for.
        limit: f64,
        /// The bound found.
        omega: f64,
    },
}

impl Rescaling {
    /// A scaling after which `||W||_inf <= limit`, if lambda(|W|) is below the limit.
    pub fn of(
        w: MatrixRef<'_>,
        limit: f64,
        activation: Activation,
    ) -> Result<Self, RescalingError> {
        if !activation.is_homogeneous() {
            return Err(RescalingError::Activation { found: activation });
        }
        let weights = PackedWeights::forward(w);
        let omega = weight_radius(&weights);
        let plain = Self { v: vec![1.0; w.rows()] };
        if infinity_norm(w) <= limit {
            return Ok(plain);
        }
        if omega < limit {
            // A target between the radius and the limit, missed by less than its distance to the
            // limit.
            let target = (limit * (1.0 - 1e-3)).max((limit + omega) / 2.0);
            let v = tight_columns(&[(&weights, 1.0)], target, (limit / target - 1.0) / 4.0);
            let scaling = Self { v: v.unwrap_or(plain.v) };
            let mut scaled = Matrix::from_fn(w.rows(), w.cols(), |k, l| w.row(k)[l]);
            scaling.weight(&mut scaled);
            if infinity_norm(scaled.view()) <= limit {
                return Ok(scaling);
            }
        }
        Err(RescalingError::Radius { limit, omega })
    }

    /// W := S W S^-1.
    pub fn weight(&self, w: &mut Matrix) {
        for k in 0..w.rows() {
            let own = f64::from(self.v[k]);
            for (x, v) in w.row_mut(k).iter_mut().zip(&self.v) {
                *x = (f64::from(*x) * f64::from(*v) / own) as f32;
            }
        }
    }

    /// B := B S; also for a bias, and for a state.
    pub fn input(&self, b: &mut Matrix) {
        for i in 0..b.rows() {
            for (x, v) in b.row_mut(i).iter_mut().zip(&self.v) {
                *x /= v;
            }
        }
    }

    /// Theta := Theta S^-1.
    pub fn read_out(&self, theta: &mut Matrix) {
        for i in 0..theta.rows() {
            for (x, v) in theta.row_mut(i).iter_mut().zip(&self.v) {
                *x *= v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Random;
    use super::*;

    fn weight(rows: &[[f32; 2]; 2]) -> Matrix {
        Matrix::from_fn(2, 2, |k, l| rows[k][l])
    }

    #[test]
    fn the_strongest_condition_is_named() {
        let relu = Activation::Relu;
        let of = |rho, rows| Posedness::of(rho, weight(rows).view(), relu);
        let small = of(1.0, &[[0.5, -0.25], [0.0, 0.5]]);
        assert_eq!(small.condition, Condition::Norm);
        assert!(
            (small.norm - 0.75).abs() < 1e-12
                && (small.omega - 0.5).abs() < 1e-5
                && small.omega >= 0.5
        );
        assert!((small.margin() - 0.25).abs() < 1e-12);
        let steep = of(1.0, &[[0.5, -100.0], [0.0, 0.5]]);
        assert_eq!(steep.condition, Condition::Eigenvalue);
        assert!((steep.margin() - 0.5).abs() < 1e-5);
        assert_eq!(of(0.0, &[[50.0, 1.0], [1.0, 50.0]]).condition, Condition::Acyclic);
        assert_eq!(of(2.0, &[[0.5, 0.0], [0.0, 0.5]]).condition, Condition::NotCertified);
        assert_eq!(of(0.0, &[[f32::NAN, 0.0], [0.0, 0.5]]).condition, Condition::NotCertified);
        let steep =
            Posedness::of(3.9, weight(&[[1.0, 0.0], [0.0, 1.0]]).view(), Activation::Sigmoid);
        assert_eq!(steep.condition, Condition::Norm, "the slope of the sigmoid is 1/4");
    }

    #[test]
    fn relations_add_up() {
        let (a, b) = (weight(&[[0.5, 0.0], [0.0, 0.25]]), weight(&[[0.125, 0.125], [0.0, 0.0]]));
        let relu = Activation::Relu;
        let fine = Posedness::of_relations(&[(1.0, a.view()), (1.5, b.view())], relu);
        assert_eq!(fine.condition, Condition::Norm);
        assert!((fine.by_norm - 0.875).abs() < 1e-12);
        let much = Posedness::of_relations(&[(1.0, a.view()), (2.5, b.view())], relu);
        assert_eq!((much.condition, much.margin()), (Condition::NotCertified, 0.0));
    }

    #[test]
    fn rescaling_brings_the_norm_down_and_keeps_the_products() {
        let mut random = Random::new(11);
        let mut done = 0;
        for _ in 0..300 {
            let m = 1 + random.below(6);
            let w = Matrix::from_fn(m, m, |k, l| {
                let steep = if k < l { 30.0 } else { 0.3 };
                (random.sign() * steep) as f32
            });
            let omega = weight_radius(&PackedWeights::forward(w.view()));
            let limit = omega * (1.05 + random.unit());
            let scaling = Rescaling::of(w.view(), limit, Activation::Relu).unwrap();
            let mut scaled = w.clone();
            scaling.weight(&mut scaled);
            assert!(infinity_norm(scaled.view()) <= limit);
            // The diagonal of a similar matrix stays, and so do products around a cycle.
            for k in 0..m {
                assert!((scaled.row(k)[k] - w.row(k)[k]).abs() <= 1e-6);
                for l in 0..m {
                    let (new, old) =
                        (scaled.row(k)[l] * scaled.row(l)[k], w.row(k)[l] * w.row(l)[k]);
                    assert!((new - old).abs() <= 1e-5 * old.abs().max(1e-3));
                }
            }
            // B S and Theta S^-1: the readout of the input stays.
            let mut b = Matrix::from_fn(3, m, |_, _| random.sign() as f32);
            let mut theta = Matrix::from_fn(2, m, |_, _| random.sign() as f32);
            let read = |b: &Matrix, theta: &Matrix| -> f32 {
                b.row(1).iter().zip(theta.row(0)).map(|(x, y)| x * y).sum()
            };
            let before = read(&b, &theta);
            scaling.input(&mut b);
            scaling.read_out(&mut theta);
            assert!((read(&b, &theta) - before).abs() < 1e-4);
            done += usize::from(infinity_norm(w.view()) > limit);
        }
        assert!(done > 100, "only {done} weights needed it");
        let w = weight(&[[2.0, 0.0], [0.0, 0.5]]);
        let error = Rescaling::of(w.view(), 1.0, Activation::Relu).unwrap_err().to_string();
        assert!(
            error
                .starts_with("rescaling cannot bring the norm of the weight to 1 (spectral radius"),
            "{error}"
        );
        let error = Rescaling::of(w.view(), 1.0, Activation::Tanh).unwrap_err().to_string();
        assert!(error.contains("(found Tanh, expected relu, leaky relu or identity)"), "{error}");
    }
}
