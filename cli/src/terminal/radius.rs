//! What `inspect` reports on the spectral radius of a relation, and what it means for the rows of
//! W. The bound itself comes from the solver.

use ignn::kernels::AdjacencyRef;
use ignn::report::quantity::{self, count, plural};
use ignn::solver::spectral::{self, one_norm};
use ignn::solver::{SpectralBound, SpectralParams, Structure};
use ignn_format::Relation;
use serde::Serialize;

/// The kappa of the report: the sum over all relations.
pub const KAPPA: f64 = 0.9;

/// Largest number of entries that the iteration visits: a few seconds.
const VISITS: u64 = 1 << 29;
/// Smallest number of sweeps, whatever they cost.
const FEWEST_SWEEPS: u64 = 10;

/// Bounds on the spectral radius of a relation.
#[derive(Serialize)]
pub struct Radius {
    #[serde(flatten)]
    bound: SpectralBound,
    /// Largest column sum of A; with several relations, kappa is divided by it.
    one_norm: f64,
    /// The share of kappa for this relation.
    kappa: f64,
    /// Limit of the L1 norm of each row of W at this kappa; none if any W is well-posed.
    weight_radius: Option<f64>,
    #[serde(skip)]
    is_alone: bool,
}

impl Radius {
    /// Bounds the spectral radius of a relation, one of `relations`.
    pub fn of(relation: &Relation, relations: usize) -> Self {
        let incoming = AdjacencyRef::incoming(relation);
        let outgoing = AdjacencyRef::outgoing(relation);
        let sweeps = VISITS / (relation.entry.nonzeros + 1);
        let most = SpectralParams::default().max_sweeps as u64;
        let max_sweeps = sweeps.clamp(FEWEST_SWEEPS, most) as usize;
        let params = SpectralParams { max_sweeps, ..SpectralParams::default() };
        let bound = SpectralBound::of(&incoming, Some(&outgoing), &params);
        let (one_norm, is_alone) = (one_norm(&incoming), relations == 1);
        let kappa = KAPPA / relations.max(1) as f64;
        let radius =
            if is_alone { bound.weight_radius(kappa) } else { (kappa / one_norm).next_down() };
        let weight_radius = radius.is_finite().then_some(radius);
        Self { bound, one_norm, kappa, weight_radius, is_alone }
    }

    /// The rows of the report.
    pub fn rows(&self) -> Vec<[String; 2]> {
        let SpectralBound { rho, lower, structure, sweeps, effort } = self.bound;
        let how = match structure {
            Structure::Acyclic => "no cycle".into(),
            Structure::Regular => "closed form: equal row sums".into(),
            Structure::Renormalised => "closed form: renormalised".into(),
            Structure::General if rho == f64::INFINITY => "an entry is not finite".into(),
            Structure::General => {
                let sweeps = plural(sweeps as u64, "sweep", "sweeps");
                let is_tight = self.bound.is_tight(spectral::TOLERANCE);
                let loose =
                    if is_tight { String::new() } else { format!(", at least {}", number(lower)) };
                format!("power iteration, {sweeps} in {}{loose}", quantity::seconds(effort.seconds))
            }
        };
        let mut rows = vec![["spectral bound".into(), format!("{} ({how})", number(rho))]];
        let by = if self.is_alone { "the spectral bound" } else { "the 1-norm" };
        if !self.is_alone {
            rows.push(["1-norm".into(), number(self.one_norm)]);
        }
        let kappa = number(self.kappa);
        rows.push([
            "rows of W".into(),
            match self.weight_radius {
                Some(radius) => {
                    format!(
                        "L1 norm at most {} at kappa {kappa} (kappa divided by {by})",
                        number(radius)
                    )
                }
                None if rho == f64::INFINITY => "no bound".into(),
                None => "no limit: without cycles every W is well-posed".into(),
            },
        ]);
        rows
    }
}

/// A number with at most six digits.
fn number(x: f64) -> String {
    if !x.is_finite() {
        return "none".into();
    }
    if x >= 1e6 {
        return count(x.round() as u64);
    }
    if x != 0.0 && x < 1e-4 {
        return format!("{x:.3e}");
    }
    let whole = if x < 1.0 { 0 } else { x.log10().floor() as usize };
    let text = format!("{x:.*}", 5 - whole);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_at_most_six_digits() {
        let cases = [
            (0.0, "0"),
            (1.0 + 1e-7, "1"),
            (4.054_090_005, "4.05409"),
            (0.225, "0.225"),
            (123_456.7, "123457"),
            (1_234_567.0, "1,234,567"),
            (1.5e-7, "1.500e-7"),
            (f64::INFINITY, "none"),
        ];
        for (x, expected) in cases {
            assert_eq!(number(x), expected);
        }
    }
}
