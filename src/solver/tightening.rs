//! The search for vectors u and v in whose norm a sweep contracts, for cases in which u = v = 1 is
//! not good enough. The vectors found here are proposals: [`Certificate::with_vectors`] evaluates
//! them independently.
//!
//! The plain norm u = v = 1 needs row sums below 1 where the spectral radii alone are. For a target
//! t above the radius, the least u >= 1 with `A u <= t u` is found by iterating u := max(u, A u /
//! t). It stays 1 where row sums allow it and grows no more than needed. The Perron vector may span
//! many orders of magnitude (hubs against leaves), or vanish if the graph is reducible, and a bound
//! in the maximum norm pays for that range. Half of the gap between the product of the radii and 1
//! is spent on keeping the vectors even; if they still grow too large (long chains), nearly all of
//! it.
//!
//! Cost: two passes over the non-zeros in f64 if all ones are good enough, four for a renormalised
//! graph, and otherwise up to [`MAX_SWEEPS`] and those of the spectral bound. The vectors depend on
//! the graph more than on W: keep them from solve to solve, and search again when they fail.

use rayon::prelude::*;

use super::certificate::{Certificate, column_ratios, column_sums, largest, nan_max};
use super::entries::{self, ROWS_PER_TASK, Sums};
use super::spectral::{SpectralBound, SpectralParams};
use crate::kernels::sweep::Term;
use crate::kernels::{AdjacencyRef, PackedWeights};

/// Largest number of sweeps of a search.
pub const MAX_SWEEPS: usize = 300;
/// Sweeps that are always allowed, however many entries there are.
const LEAST_SWEEPS: usize = 24;
/// Largest number of entries that a search over the rows of several relations visits, besides the
/// sweeps that are always allowed. A failed search is repeated for every solve, so it must be
/// cheap.
const MOST_ENTRIES: usize = 1 << 24;
/// Relative amount by which a tightened sum may miss its target.
const SLACK: f64 = 1e-3;
/// Largest weight: quotients by it stay within the range of f32.
const LARGEST_WEIGHT: f64 = (1u64 << 40) as f64;
/// Fractions of the gap between the product of the radii and 1 that are tried until a contraction
/// is found.
const SPENT: [f64; 3] = [0.5, 0.9, 0.99];
/// Target of a side if the radius of the other is 0.
const LITTLE: f64 = 1.05;
/// A contraction that is good enough: the search for a better one costs more than the sweeps that
/// it would save.
pub const GOOD: f64 = 0.97;

impl Certificate {
    /// The best certificate among plain and tightened vectors for these relations, forward or
    /// adjoint.
    ///
    /// `radius` is a known bound of the spectral radius of a single relation, which saves computing
    /// it.
    pub fn of(terms: &[Term<'_>], lipschitz: f64, radius: Option<f64>) -> Self {
        Self::with_hint(terms, lipschitz, radius, None)
    }

    /// The same with a `hint`: a u that was good enough for the other direction.
    pub fn with_hint(
        terms: &[Term<'_>],
        lipschitz: f64,
        radius: Option<f64>,
        hint: Option<&Vec<f32>>,
    ) -> Self {
        let with = |u: Option<&Vec<f32>>, v: Option<&Vec<f32>>| {
            Self::with_vectors(terms, lipschitz, u.cloned(), v.cloned())
        };
        let plain = with(None, None);
        if plain.q <= GOOD {
            return plain;
        }
        let [term] = terms else {
            return Self::of_relations(terms, lipschitz, plain, hint);
        };
        let weights = Combined { terms, factors: &[1.0] };
        let mut best = plain;
        let mut omega = None;
        if let Some(u) = renormalised(&term.adjacency) {
            best = best.or(with(Some(&u), None));
            if best.q <= GOOD {
                return best;
            }
            let rho = entries::ratios(&term.adjacency, |i| f64::from(u[i])).high;
            let omega = *omega.insert(weight_radius(term.weights));
            let target = Targets::of(rho, omega, lipschitz, SPENT[0]);
            let v = weights.tight_columns(target.product / rho / lipschitz, target.slack);
            best = best.or(with(Some(&u), v.as_ref()));
            // More even vectors would take a hundred or more passes, for an error bound that is a
            // few times smaller.
            if best.q <= target.product + target.slack {
                return best;
            }
        }
        if best.q > GOOD {
            let radius = radius.unwrap_or_else(|| {
                SpectralBound::of(&term.adjacency, None, &SpectralParams::default()).rho
            });
            let omega = omega.unwrap_or_else(|| weight_radius(term.weights));
            for spent in SPENT {
                let Targets { rows, columns, slack, .. } =
                    Targets::of(radius, omega, lipschitz, spent);
                let (u, v) =
                    (weights.tight_rows(rows, slack), weights.tight_columns(columns, slack));
                for (u, v) in [(u.as_ref(), None), (None, v.as_ref()), (u.as_ref(), v.as_ref())] {
                    best = best.or(with(u, v));
                }
                // From 1 on there is no gap to spend.
                if best.holds() || radius * omega * lipschitz >= 1.0 {
                    break;
                }
            }
        }
        best
    }

    /// The certificate of a closed form, without a search: by the scales of a renormalised graph,
    /// or by plain norms, which is what training enforces. Takes one pass over the entries.
    pub fn closed(terms: &[Term<'_>], lipschitz: f64) -> Self {
        let u = if let [term] = terms { renormalised(&term.adjacency) } else { None };
        Self::with_vectors(terms, lipschitz, u, None)
    }

    /// The same for several relations.
    ///
    /// First searches for columns, with plain rows or with those of the other direction: training
    /// does not bound the norms of the adjoint's weights, but a v that does is cheap to find. Then
    /// searches for rows, given the norms of the weights.
    fn of_relations(
        terms: &[Term<'_>],
        lipschitz: f64,
        plain: Self,
        hint: Option<&Vec<f32>>,
    ) -> Self {
        let mut best = plain;
        for u in hint.map(Some).into_iter().chain([None]) {
            let weight = |i: usize| u.map_or(1.0, |u| f64::from(u[i]));
            let sum = |term: &Term<'_>| lipschitz * entries::ratios(&term.adjacency, weight).high;
            let sums: Vec<f64> = terms.iter().map(sum).collect();
            for target in [GOOD, 0.99] {
                let v = Combined { terms, factors: &sums }.tight_columns(target, SLACK);
                best = best.or(Self::with_vectors(terms, lipschitz, u.cloned(), v));
                if best.holds() {
                    return best;
                }
            }
        }
        for target in [0.9, 0.99] {
            let norm = |term: &Term<'_>| lipschitz * largest(&column_ratios(term.weights, None));
            let norms: Vec<f64> = terms.iter().map(norm).collect();
            let u = Combined { terms, factors: &norms }.tight_rows(target, SLACK);
            let weight = |i: usize| u.as_ref().map_or(1.0, |u| f64::from(u[i]));
            let sum = |term: &Term<'_>| lipschitz * entries::ratios(&term.adjacency, weight).high;
            let sums: Vec<f64> = terms.iter().map(sum).collect();
            let v = Combined { terms, factors: &sums }.tight_columns(target, SLACK);
            best = best.or(Self::with_vectors(terms, lipschitz, u.clone(), None));
            best = best.or(Self::with_vectors(terms, lipschitz, u, v));
        }
        best
    }

    /// The one that certifies the smaller error for a change of 1 in the maximum norm.
    fn or(self, other: Self) -> Self {
        let is_better =
            other.amplification() < self.amplification() || (!self.holds() && other.q < self.q);
        if is_better { other } else { self }
    }
}

/// Targets of the tightened vectors.
struct Targets {
    /// max (|A| u)_i / u_i
    rows: f64,
    /// max (|P|^T v)_k / v_k
    columns: f64,
    /// q
    product: f64,
    /// Relative amount by which either may be missed.
    slack: f64,
}

impl Targets {
    /// Spends a fraction of the gap between the product of both radii and 1, equally on both sides;
    /// if one radius is 0, a fixed amount on the other side.
    fn of(rho: f64, omega: f64, lipschitz: f64, spent: f64) -> Self {
        let product = spent + (1.0 - spent) * (rho * omega * lipschitz).min(1.0);
        let both = product / lipschitz;
        let (rows, columns) = match (rho > 0.0, omega > 0.0) {
            (true, true) => {
                let share = (both / (rho * omega)).max(1.0).sqrt();
                (rho * share, omega * share)
            }
            (true, false) => (rho * LITTLE, both / (rho * LITTLE)),
            (false, true) => (both / (omega * LITTLE), omega * LITTLE),
            (false, false) => (both.sqrt(), both.sqrt()),
        };
        Self { rows, columns, product, slack: ((1.0 - product) / 10.0).min(SLACK) }
    }
}

/// 1/s if the same scale s applies to rows and columns.
fn renormalised(adjacency: &AdjacencyRef<'_>) -> Option<Vec<f32>> {
    let scale = adjacency.common_scale()?;
    Some((0..adjacency.rows()).into_par_iter().map(|row| scale(row).recip()).collect())
}

/// A bound of the spectral radius of |P|, which is that of |W|.
pub(crate) fn weight_radius(weights: &PackedWeights) -> f64 {
    let (rows, columns) = (weights.outer(), weights.inner());
    let offsets: Vec<u64> = (0..=rows as u64).map(|row| row * columns as u64).collect();
    let neighbours: Vec<u32> = (0..rows).flat_map(|_| 0..columns as u32).collect();
    let values: Vec<f32> =
        (0..rows).flat_map(|k| (0..columns).map(move |l| weights.at(l, k).abs())).collect();
    match AdjacencyRef::new(columns, &offsets, &neighbours) {
        Ok(matrix) if rows == columns => {
            SpectralBound::of(&matrix.with_values(&values), None, &SpectralParams::default()).rho
        }
        _ => f64::INFINITY,
    }
}

/// `sum_r factor_r A_r` and `sum_r factor_r |P_r|`.
struct Combined<'a> {
    terms: &'a [Term<'a>],
    factors: &'a [f64],
}

impl Combined<'_> {
    /// The least u >= 1 with A u <= target u, or as close as the sweeps get; `None` for all ones.
    fn tight_rows(&self, target: f64, slack: f64) -> Option<Vec<f32>> {
        let rows = self.terms.first()?.adjacency.rows();
        let sums = |u: &[f64]| -> Vec<Sums<'_>> {
            self.terms.iter().map(|term| Sums::of(&term.adjacency, |j| u[j])).collect()
        };
        let sum = |sums: &Vec<Sums<'_>>, u: &[f64], i: usize| {
            sums.iter()
                .zip(self.factors)
                .map(|(sums, factor)| factor * sums.row(i, |j| u[j]).high)
                .sum()
        };
        let entries: usize = self.terms.iter().map(|term| term.adjacency.gathered_entries()).sum();
        let sweeps = match self.terms {
            [_] => MAX_SWEEPS,
            _ => (MOST_ENTRIES / entries.max(1)).clamp(LEAST_SWEEPS, MAX_SWEEPS),
        };
        tighten(rows, target, slack, sweeps, sums, sum)
    }

    /// The same for |P|^T v <= target v.
    fn tight_columns(&self, target: f64, slack: f64) -> Option<Vec<f32>> {
        let parts: Vec<_> =
            self.terms.iter().map(|term| term.weights).zip(self.factors.iter().copied()).collect();
        tight_columns(&parts, target, slack)
    }
}

/// The least v >= 1 with `sum_r factor_r |P_r|^T v <= target v`; `None` for all ones.
pub(super) fn tight_columns(
    parts: &[(&PackedWeights, f64)],
    target: f64,
    slack: f64,
) -> Option<Vec<f32>> {
    let columns = parts.first()?.0.outer();
    let sums = |v: &[f64]| {
        let mut all = vec![0.0; columns];
        for (weights, factor) in parts {
            let sums = column_sums(weights, |l| v[l]);
            all.iter_mut().zip(sums).for_each(|(all, sum)| *all += factor * sum);
        }
        all
    };
    tighten(columns, target, slack, MAX_SWEEPS, sums, |sums: &Vec<f64>, _, k| sums[k])
}

/// Iterates u := max(u, sum(u) / target) from all ones until no entry grows by more than a fraction
/// `slack`: then the sums are within that fraction of their target.
///
/// `prepare(u)` is computed once per sweep, and `sum(prepared, u, i)` for every i.
fn tighten<P: Sync>(
    length: usize,
    target: f64,
    slack: f64,
    sweeps: usize,
    prepare: impl Fn(&[f64]) -> P,
    sum: impl Fn(&P, &[f64], usize) -> f64 + Sync,
) -> Option<Vec<f32>> {
    if !(target > 0.0 && target.is_finite()) {
        return None;
    }
    let mut u = vec![1.0f64; length];
    let mut next = u.clone();
    for _ in 0..sweeps {
        let prepared = prepare(&u);
        let growth = next
            .par_iter_mut()
            .with_min_len(ROWS_PER_TASK)
            .enumerate()
            .map(|(i, next)| {
                *next = (sum(&prepared, &u, i) / target).max(u[i]).min(LARGEST_WEIGHT);
                *next / u[i]
            })
            .reduce(|| 1.0, nan_max);
        std::mem::swap(&mut u, &mut next);
        if !growth.is_finite() {
            return None;
        }
        if growth <= 1.0 + slack {
            break;
        }
    }
    let plain = u.iter().all(|&x| x == 1.0);
    (!plain).then(|| u.into_iter().map(|x| x as f32).collect())
}
