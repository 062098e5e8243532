//! The search for vectors u and v in whose norm a sweep contracts, for cases in which u = v = 1 is
//! not good enough. The vectors found here are proposals: [`Certificate::with_vectors`] evaluates
//! them independently.
//!
//! The plain norm u = v = 1 needs row sums below 1 where the spectral radii alone are. For a target
//! t above the radius, the least u >= 1 with `A u <= t u` is found by iterating u := max(1, A u /
//! t). It stays 1 where row sums allow it and grows no more than needed. The steps shrink by the same
//! factor in the end, so every few sweeps the rest of the series is added at once (Aitken).
//!
//! The Perron vector may span many orders of magnitude (hubs against leaves), or vanish if the graph
//! is reducible, and a bound in the maximum norm pays for that range. Half of the gap between the
//! product of the radii and 1 is spent on keeping the vectors even; if they still grow too large (long
//! chains), nearly all of it.
//!
//! Cost: one pass over the non-zeros in f64 if all ones are good enough, two for a renormalised
//! graph, and otherwise about twenty, at most [`MAX_SWEEPS`] and those of the spectral bound. The
//! vectors depend on the graph more than on W: keep them from solve to solve, and search again when
//! they fail.

use std::ops::Range;
use std::time::Instant;

use rayon::prelude::*;

use super::certificate::{Certificate, column_ratios, column_sums, largest, nan_max};
use super::effort::Effort;
use super::entries::{self, ROWS_PER_TASK, Sums, Vector};
use super::spectral::{SpectralBound, SpectralParams};
use crate::kernels::sweep::Term;
use crate::kernels::{AdjacencyRef, PackedWeights};
use crate::parallel::RowBlocks;

/// Largest number of sweeps of a search.
pub const MAX_SWEEPS: usize = 300;
/// Sweeps before the rest of the series is estimated.
const PLAIN_SWEEPS: usize = 6;
/// Largest multiple of a step that is added at once.
const MOST_STEPS: f64 = 200.0;
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
        let (start, mut passes) = (Instant::now(), 0);
        let mut found = match terms {
            [term] => Self::of_relation(term, lipschitz, radius, hint, &mut passes),
            _ => Self::of_relations(terms, lipschitz, hint, &mut passes),
        };
        found.effort = Effort { passes, seconds: start.elapsed().as_secs_f64() };
        found
    }

    /// The same for one relation.
    fn of_relation(
        term: &Term<'_>,
        lipschitz: f64,
        radius: Option<f64>,
        hint: Option<&Vec<f32>>,
        passes: &mut usize,
    ) -> Self {
        let mut ratio = |u: Option<&Vec<f32>>| {
            *passes += 1;
            entries::ratios(&term.adjacency, Vector::of(u.map(Vec::as_slice))).high
        };
        let with = |rows: (Option<&Vec<f32>>, f64), v: Option<&Vec<f32>>| {
            Self::with_ratio(term, lipschitz, rows, v)
        };
        let ones = (None, ratio(None));
        let mut best = with(ones, None);
        if best.q <= GOOD {
            return best;
        }
        let weights = Combined { terms: std::slice::from_ref(term), factors: &[1.0] };
        let omega = weight_radius(term.weights);
        // Vectors that may be good: those of a closed form or, if A is symmetric or nearly so, of the
        // other direction. More even ones would take many passes, for an error bound that is a few
        // times smaller.
        let scales = renormalised(&term.adjacency);
        for u in scales.as_ref().into_iter().chain(hint) {
            let rows = (Some(u), ratio(Some(u)));
            best = best.or(with(rows, None));
            if best.q <= GOOD {
                return best;
            }
            let target = Targets::of(rows.1, omega, lipschitz, SPENT[0]);
            let v = weights.tight_columns(target.product / rows.1 / lipschitz, target.slack);
            best = best.or(with(rows, v.as_ref()));
            if best.q <= target.product + target.slack {
                return best;
            }
        }
        let radius = radius.unwrap_or_else(|| {
            let found = SpectralBound::of(&term.adjacency, None, &SpectralParams::default());
            *passes += found.effort.passes;
            found.rho
        });
        for spent in SPENT {
            let Targets { rows, columns, slack, .. } = Targets::of(radius, omega, lipschitz, spent);
            let (u, sweeps) = weights.tight_rows(rows, slack);
            *passes += sweeps;
            let v = weights.tight_columns(columns, slack);
            best = best.or(with(ones, v.as_ref()));
            if let Some(u) = &u {
                *passes += 1;
                let ratio = entries::ratios(&term.adjacency, Vector::Single(u)).high;
                best = best.or(with((Some(u), ratio), None));
                best = best.or(with((Some(u), ratio), v.as_ref()));
            }
            // From 1 on there is no gap to spend.
            if best.holds() || radius * omega * lipschitz >= 1.0 {
                break;
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
        hint: Option<&Vec<f32>>,
        passes: &mut usize,
    ) -> Self {
        let with = |u: Option<&Vec<f32>>, v: Option<Vec<f32>>, passes: &mut usize| {
            *passes += 1;
            Self::with_vectors(terms, lipschitz, u.cloned(), v)
        };
        let sums = |u: Option<&Vec<f32>>, passes: &mut usize| -> Vec<f64> {
            *passes += 1;
            let u = Vector::of(u.map(Vec::as_slice));
            let sum = |term: &Term<'_>| lipschitz * entries::ratios(&term.adjacency, u).high;
            terms.iter().map(sum).collect()
        };
        let mut best = with(None, None, passes);
        if best.q <= GOOD {
            return best;
        }
        for u in hint.map(Some).into_iter().chain([None]) {
            let sums = sums(u, passes);
            for target in [GOOD, 0.99] {
                let v = Combined { terms, factors: &sums }.tight_columns(target, SLACK);
                best = best.or(with(u, v, passes));
                if best.holds() {
                    return best;
                }
            }
        }
        for target in [0.9, 0.99] {
            let norm = |term: &Term<'_>| lipschitz * largest(&column_ratios(term.weights, None));
            let norms: Vec<f64> = terms.iter().map(norm).collect();
            let (u, sweeps) = Combined { terms, factors: &norms }.tight_rows(target, SLACK);
            *passes += sweeps;
            let sums = sums(u.as_ref(), passes);
            let v = Combined { terms, factors: &sums }.tight_columns(target, SLACK);
            best = best.or(with(u.as_ref(), None, passes));
            best = best.or(with(u.as_ref(), v, passes));
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
        Self { rows, columns, product, slack: ((1.0 - product) / 10.0).min(0.01) }
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
    /// The least u >= 1 with A u <= target u, or as close as the sweeps get, and the number of
    /// sweeps; `None` for all ones.
    fn tight_rows(&self, target: f64, slack: f64) -> (Option<Vec<f32>>, usize) {
        let Some(first) = self.terms.first() else { return (None, 0) };
        let offsets: Vec<_> =
            self.terms.iter().map(|term| term.adjacency.gathered_offsets()).collect();
        let blocks = RowBlocks::balanced(first.adjacency.rows(), &offsets, 2);
        let pass = |u: &[f64], is_first: bool, next: &mut [f64], step: &mut [f64]| {
            let x = if is_first { Vector::Ones } else { Vector::Double(u) };
            let all = self.terms.iter().map(|term| Sums::of(&term.adjacency, x));
            let all: Vec<Sums<'_>> = all.collect();
            let sum =
                |i| all.iter().zip(self.factors).map(|(a, factor)| factor * a.rounded(i).0).sum();
            let block = |_, rows: Range<usize>, (next, step): Both<'_>| {
                next.iter_mut().zip(rows.clone()).for_each(|(next, row)| *next = sum(row));
                take_step(&u[rows], next, step, target)
            };
            let all = blocks.map_reduce((next, step), split_both, block, Progress::with);
            all.unwrap_or(Progress::NONE)
        };
        let entries: usize = self.terms.iter().map(|term| term.adjacency.gathered_entries()).sum();
        let sweeps = match self.terms {
            [_] => MAX_SWEEPS,
            _ => (MOST_ENTRIES / entries.max(1)).clamp(LEAST_SWEEPS, MAX_SWEEPS),
        };
        tighten(first.adjacency.rows(), target, slack, sweeps, pass)
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
    let pass = |v: &[f64], _, next: &mut [f64], step: &mut [f64]| {
        next.fill(0.0);
        for (weights, factor) in parts {
            let sums = column_sums(weights, |l| v[l]);
            next.iter_mut().zip(sums).for_each(|(next, sum)| *next += factor * sum);
        }
        take_step(v, next, step, target)
    };
    tighten(columns, target, slack, MAX_SWEEPS, pass).0
}

/// Iterates u := max(1, product(u) / target) from all ones until product(u) <= target u, up to a
/// fraction `slack`. `pass` multiplies u and takes the step ([`take_step`]); it is told which pass is
/// the first, where u is all ones. Returns the vector, `None` for all ones, and the number of sweeps.
fn tighten(
    length: usize,
    target: f64,
    slack: f64,
    sweeps: usize,
    pass: impl Fn(&[f64], bool, &mut [f64], &mut [f64]) -> Progress,
) -> (Option<Vec<f32>>, usize) {
    if !(target > 0.0 && target.is_finite()) {
        return (None, 0);
    }
    let (mut u, mut next, mut step) = (vec![1.0f64; length], vec![0.0; length], vec![0.0; length]);
    let (mut done, mut plain) = (0, 0);
    while done < sweeps {
        let Progress { growth, squares, products } = pass(&u, done == 0, &mut next, &mut step);
        done += 1;
        if !growth.is_finite() {
            return (None, done);
        }
        if growth <= 1.0 + slack {
            break;
        }
        plain += 1;
        let rate = products / squares;
        if plain >= PLAIN_SWEEPS && rate > 0.0 && rate < 1.0 {
            let steps = (rate / (1.0 - rate)).min(MOST_STEPS);
            let both = (&mut next, &mut step).into_par_iter().with_min_len(ROWS_PER_TASK);
            both.for_each(|(next, step)| {
                *next = (*next + steps * *step).clamp(1.0, LARGEST_WEIGHT);
                *step = 0.0;
            });
            plain = 0;
        }
        std::mem::swap(&mut u, &mut next);
    }
    let plain = u.par_iter().all(|&x| x == 1.0);
    ((!plain).then(|| u.into_par_iter().map(|x| x as f32).collect()), done)
}

/// Two vectors, cut after so many rows.
type Both<'a> = (&'a mut [f64], &'a mut [f64]);

fn split_both<'a>((next, step): Both<'a>, rows: usize) -> (Both<'a>, Both<'a>) {
    let (first, second) = next.split_at_mut(rows);
    let (left, right) = step.split_at_mut(rows);
    ((first, left), (second, right))
}

/// How far a step went.
#[derive(Clone, Copy)]
struct Progress {
    /// Largest quotient of a new and an old entry.
    growth: f64,
    /// Inner products of the step before with itself and with this one.
    squares: f64,
    products: f64,
}

impl Progress {
    const NONE: Self = Self { growth: 1.0, squares: 0.0, products: 0.0 };

    fn with(self, other: Self) -> Self {
        Self {
            growth: nan_max(self.growth, other.growth),
            squares: self.squares + other.squares,
            products: self.products + other.products,
        }
    }
}

/// `next` has the product on entry, the next vector on return; `step` the step before and this one.
fn take_step(u: &[f64], next: &mut [f64], step: &mut [f64], target: f64) -> Progress {
    let mut all = Progress::NONE;
    for ((u, next), step) in u.iter().zip(next).zip(step) {
        *next = (*next / target).clamp(1.0, LARGEST_WEIGHT);
        all.growth = nan_max(all.growth, *next / u);
        let before = std::mem::replace(step, *next - u);
        all.squares += before * before;
        all.products += before * *step;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Graph, Random};
    use super::*;
    use crate::dense::Matrix;
    use crate::kernels::sweep;
    use crate::parallel::with_threads;

    /// An undirected graph with hubs: node i is joined to a few nodes that are likely to be early
    /// ones.
    fn with_hubs(nodes: usize) -> Graph {
        let mut random = Random::new(9);
        let mut entries = std::collections::BTreeSet::new();
        for i in 1..nodes {
            for _ in 0..3 {
                let before = random.below(i) + 1;
                let j = random.below(before);
                entries.extend([(i, j), (j, i)]);
            }
        }
        Graph { nodes, entries: entries.into_iter().map(|(i, j)| (i, j, 1.0)).collect() }
    }

    #[test]
    fn a_graph_with_hubs_is_certified_in_few_passes_with_the_same_bits_on_any_number_of_threads() {
        let csr = with_hubs(6000).csr(false);
        let view = csr.view();
        let bound = SpectralBound::of(&view, Some(&view), &SpectralParams::default());
        assert!(bound.effort.passes <= 40, "{bound:?}");
        let size = (bound.weight_radius(0.9) / 4.0) as f32;
        let weights = [PackedWeights::forward(Matrix::from_fn(4, 4, |_, _| size).view())];
        let terms = sweep::terms(&[view], &weights);
        let search = |threads| {
            with_threads(threads, || {
                let mut found = Certificate::of(&terms, 1.0, Some(bound.rho));
                found.effort.seconds = 0.0;
                found
            })
        };
        let found = search(1);
        // Half of the gap between 0.9 and 1 is spent, and a tenth of the rest may be missing.
        assert!(found.q < 0.956 && found.effort.passes <= 40, "{} {:?}", found.q, found.effort);
        assert!(found.amplification() < 2000.0, "{}", found.amplification());
        for threads in [2, 5] {
            assert_eq!(format!("{found:?}"), format!("{:?}", search(threads)));
        }
        // Vectors of the other direction save the search if the matrix is symmetric.
        let hint = found.norm().u.map(<[f32]>::to_vec);
        let again = Certificate::with_hint(&terms, 1.0, Some(bound.rho), hint.as_ref());
        assert!(again.q < 0.956 && again.effort.passes == 2, "{:?}", again.effort);
    }
}
