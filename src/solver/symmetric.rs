//! Bounds of the spectral radius of a symmetric matrix, by power iteration over all rows at once.
//!
//! The upper bound is that of Collatz and Wielandt: `max_i (A u)_i / u_i`. It needs no components:
//! the quotients of a component come from its own entries alone, so those of the component with the
//! largest radius remain. The lower bound is the Rayleigh quotient of the best combination of the
//! last two vectors, which is ahead of that of the last one by the square of its rate. Any
//! combination gives a bound; how good the chosen one is does not matter for its being one.
//!
//! All numbers are rounded to the safe side. 24 bytes per node, one pass over the entries per sweep.

use std::ops::Range;

use rayon::prelude::*;

use super::certificate::nan_max;
use super::entries::{self, Bracket, ROWS_PER_TASK, Sums, Vector};
use super::spectral::SpectralParams;
use crate::kernels::AdjacencyRef;
use crate::parallel::RowBlocks;

/// Part of the estimated radius that is added to the diagonal while iterating, so that bipartite
/// graphs converge.
const SHIFT: f64 = 0.1;
/// Largest number of sweeps. Beyond it a component of small radius could underflow.
const MOST_SWEEPS: usize = 100;

/// Bounds of the radius, and the number of sweeps.
pub(super) fn iterate(a: &AdjacencyRef, params: &SpectralParams) -> (Bracket, usize) {
    let rows = a.rows();
    let blocks = entries::blocks(a);
    let roundings = roundings(a, &blocks);
    let mut best = Bracket { low: 0.0, high: f64::INFINITY };
    let mut before: Option<Moments> = None;
    let (mut u, mut previous, mut next) = (vec![1.0f64; rows], vec![0.0; rows], vec![0.0; rows]);
    let sweeps = params.max_sweeps.min(MOST_SWEEPS);
    // The next vector is written while this one is multiplied, with the estimate of the sweep before.
    let mut step: Option<Step> = None;
    for sweep in 1..=sweeps {
        let x = if sweep == 1 { Vector::Ones } else { Vector::Double(&u) };
        let found = multiply(a, &blocks, x, (&u, &previous), step, &mut next);
        best.high = best.high.min(found.ratio);
        best.low = best.low.max(found.lower_bound(before.as_ref(), roundings));
        let estimate = found.au / found.uu;
        let is_usable = estimate > 0.0 && estimate.is_finite() && best.high.is_finite();
        if best.is_tight(params.tolerance) || sweep == sweeps || !is_usable {
            return (best, sweep);
        }
        let own = Step { shift: SHIFT * estimate, scale: 1.0 / (estimate + SHIFT * estimate) };
        if step.is_none() {
            let vectors = (&mut next, &u).into_par_iter().with_min_len(ROWS_PER_TASK);
            vectors.for_each(|(next, u)| *next = own.from(*next, *u));
        }
        (previous, u, next) = (u, next, previous);
        (before, step) = (Some(found), Some(own));
    }
    (best, sweeps)
}

/// The next vector, from a product and the vector: `(A u + shift u) scale`.
#[derive(Clone, Copy)]
struct Step {
    shift: f64,
    scale: f64,
}

impl Step {
    #[inline(always)]
    fn from(self, product: f64, u: f64) -> f64 {
        (product + self.shift * u) * self.scale
    }
}

/// Inner products of the vectors of a sweep: u, p from the sweep before, and A u.
#[derive(Clone, Copy, Debug)]
struct Moments {
    /// The largest quotient, rounded up.
    ratio: f64,
    uu: f64,
    up: f64,
    au: f64,
    ap: f64,
}

impl Moments {
    const NONE: Self = Self { ratio: 0.0, uu: 0.0, up: 0.0, au: 0.0, ap: 0.0 };

    fn with(self, other: Self) -> Self {
        Self {
            ratio: nan_max(self.ratio, other.ratio),
            uu: self.uu + other.uu,
            up: self.up + other.up,
            au: self.au + other.au,
            ap: self.ap + other.ap,
        }
    }

    /// A Rayleigh quotient, rounded down: the best of u and some u + c p.
    fn lower_bound(&self, before: Option<&Self>, roundings: u64) -> f64 {
        let alone = quotient([(1.0, self.au)], [(1.0, self.uu)], roundings);
        let Some(Self { uu: pp, au: p_a_p, .. }) = before else { return alone };
        let Self { uu, up, au, ap, .. } = self;
        // Where the derivative by c vanishes.
        let (square, linear, constant) =
            (p_a_p * up - ap * pp, p_a_p * uu - au * pp, ap * uu - au * up);
        let root = (linear * linear - 4.0 * square * constant).max(0.0).sqrt();
        let combined = [root, -root].map(|root| {
            let c = (root - linear) / (2.0 * square);
            if !c.is_finite() {
                return 0.0;
            }
            let weights = [1.0, 2.0 * c, c * c];
            let (above, below) = ([*au, *ap, *p_a_p], [*uu, *up, *pp]);
            let pairs = |of: [f64; 3]| [0, 1, 2].map(|k| (weights[k], of[k]));
            quotient(pairs(above), pairs(below), roundings)
        });
        combined.into_iter().fold(alone, f64::max)
    }
}

/// `sum w_k x_k / sum w_k y_k` rounded down, where x and y are sums of non-negative terms that were
/// rounded so many times; 0 if it may be negative.
fn quotient<const N: usize>(above: [(f64, f64); N], below: [(f64, f64); N], roundings: u64) -> f64 {
    // The weights and these sums take fewer than 16 more roundings.
    let slack = (roundings + 16) as f64 * f64::EPSILON;
    let sum = |terms: [(f64, f64); N], sign: f64| -> f64 {
        terms.iter().map(|(w, x)| w * x + sign * slack * (w * x).abs()).sum()
    };
    let (above, below) = (sum(above, -1.0), sum(below, 1.0));
    let quotient = (above / below).next_down();
    if above > 0.0 && below > 0.0 && quotient.is_finite() { quotient } else { 0.0 }
}

/// Roundings on the way of an entry into an inner product.
fn roundings(a: &AdjacencyRef, blocks: &RowBlocks) -> u64 {
    let longest = (0..blocks.len()).map(|block| blocks.range(block).len()).max().unwrap_or(0);
    // Those of a product, the sum over a block, and the tree over the blocks.
    a.longest_sum() + longest as u64 + 2 * u64::from(usize::BITS)
}

/// The next vector, or `A u` where no step is known, and the inner products.
fn multiply(
    a: &AdjacencyRef,
    blocks: &RowBlocks,
    x: Vector<'_>,
    (u, previous): (&[f64], &[f64]),
    step: Option<Step>,
    next: &mut [f64],
) -> Moments {
    let sums = Sums::of(a, x);
    let block = |_, rows: Range<usize>, next: &mut [f64]| {
        let mut all = Moments::NONE;
        for (row, next) in rows.zip(next) {
            let ((sum, roundings), u, p) = (sums.rounded(row), u[row], previous[row]);
            // Two more roundings for the quotient and this product, as in `Bracket::around`.
            let ratio = sum / u * (1.0 + (roundings + 6) as f64 * f64::EPSILON);
            *next = step.map_or(sum, |step| step.from(sum, u));
            all = all.with(Moments { ratio, uu: u * u, up: u * p, au: u * sum, ap: p * sum });
        }
        all
    };
    let all = blocks.map_reduce(next, <[f64]>::split_at_mut, block, Moments::with);
    all.unwrap_or(Moments::NONE)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Graph, Random, cases};
    use super::super::{SpectralBound, Structure};
    use super::*;

    /// A random symmetric graph: every edge in both directions with one weight.
    fn symmetric(random: &mut Random) -> Graph {
        let mut graph = Graph::random(random);
        let mut entries = std::collections::BTreeMap::new();
        for &(i, j, value) in &graph.entries {
            entries.insert((i, j), value);
            entries.insert((j, i), value);
        }
        graph.entries = entries.into_iter().map(|((i, j), value)| (i, j, value)).collect();
        graph
    }

    /// The bounds contain those of the search over components, after any number of sweeps.
    #[test]
    fn they_agree_with_those_of_components() {
        let mut random = Random::new(11);
        let (mut tight, graphs) = (0, cases(2000));
        for _ in 0..graphs {
            let csr = symmetric(&mut random).csr(false);
            let tolerance = 1e-6;
            let exact = SpectralBound::of(
                &csr.view(),
                None,
                &SpectralParams { tolerance: 1e-9, max_sweeps: 5000 },
            );
            if exact.structure == Structure::Acyclic {
                continue;
            }
            for max_sweeps in [1, 2, 3, 7, 100] {
                let params = SpectralParams { tolerance, max_sweeps };
                let (found, sweeps) = iterate(&csr.view(), &params);
                assert!(sweeps <= max_sweeps);
                assert!(found.high >= exact.lower, "{found:?} {exact:?}");
                assert!(found.low <= exact.rho, "{found:?} {exact:?}");
                if max_sweeps == 100 {
                    tight += usize::from(found.is_tight(tolerance));
                }
            }
        }
        assert!(tight > graphs * 9 / 10 * 8 / 10, "{tight} of {graphs} are tight");
    }

    #[test]
    fn bounds_of_a_star_and_of_a_path() {
        // A star of 99 leaves: bipartite, radius sqrt(99).
        let entries = (1..100).flat_map(|leaf| [(0, leaf, 1.0), (leaf, 0, 1.0)]).collect();
        let star = Graph { nodes: 100, entries }.csr(false);
        let params = SpectralParams { tolerance: 1e-7, max_sweeps: 100 };
        let (found, sweeps) = iterate(&star.view(), &params);
        assert!(found.low <= 99f64.sqrt() && 99f64.sqrt() <= found.high && sweeps < 100);
        assert!(found.is_tight(1e-7), "{found:?}");
        // Of a path the first and the second eigenvalue are close: the bounds are apart, and hold.
        let entries = (0..999).flat_map(|i| [(i, i + 1, 1.0), (i + 1, i, 1.0)]).collect();
        let path = Graph { nodes: 1000, entries }.csr(false);
        let radius = 2.0 * (std::f64::consts::PI / 1001.0).cos();
        let (found, _) = iterate(&path.view(), &params);
        assert!(found.low <= radius && radius <= found.high && found.low > 1.99, "{found:?}");
    }
}
