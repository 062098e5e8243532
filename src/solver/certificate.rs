//! How far a state is from the equilibrium, at most: a contraction bound q with the norm in which it holds.
//! It speaks of the equation as stored in f32 and counts the rounding of the sweeps; it neither iterates nor decides.
//!
//! A sweep is `to = phi(sum_r A_r from P_r + input)`, in either direction: P = W^T and A^T in the forward sweep, P = W and
//! A in the adjoint (where phi is the product with D, |D| <= lipschitz). For u > 0 (a row) and v > 0 (a column) let
//! `|E|_uv = max |E_ik| / (u_i v_k)`. Then a sweep contracts by
//!
//!     q = lipschitz * max_ik sum_r (|A_r| u)_i / u_i * (|P_r|^T v)_k / v_k
//!
//! and after a sweep from x to x' that moved by Delta and was off by e through rounding
//!
//!     |X* - x'|_uv <= (q |Delta|_uv + |e|_uv) / (1 - q),      entry (i, k): at most that times u_i v_k
//!     |e|_uv <= gamma(K) q |x|_uv + lipschitz gamma(M) |input|_uv + error of phi,  gamma(K) = K eps / (1 - K eps)
//!
//! with K the roundings on the longest path of a term into an entry, M those of the input, eps = 2^-24: worst cases,
//! whatever the order of the sums.
//!
//! **Tightening.** u = v = 1 needs norms below 1 where only the spectral radii are. For a target t above the radius the
//! least u >= 1 with `A u <= t u` is found by u := max(u, A u / t): it stays 1 where sums of rows allow it, and grows only
//! as far as needed, while the Perron vector itself may span many orders (hubs against leaves; nothing at all where the
//! graph is reducible), all of which a bound in the plain maximum norm has to pay for. Half of the gap between the
//! product of the radii and 1 is spent on even vectors.
//!
//! Vectors are f32, as sweeps take them; q is evaluated with these, in f64, rounded up: it holds whatever the iteration did.

use rayon::prelude::*;

use super::entries::{self, ROWS_A_TASK, divide, row_sum};
use super::spectral::{SpectralBound, SpectralParams};
use crate::dense::MatrixRef;
use crate::kernels::sweep::Term;
use crate::kernels::{Activation, AdjacencyRef, Norm, PackedWeights};

/// Sweeps of the tightening at most.
const MAX_SWEEPS: usize = 300;
/// By how much a tightened sum may miss its target, where nothing asks for less.
const SLACK: f64 = 1e-3;
/// Weights stay below this: quotients by them stay f32 numbers.
const LARGEST_WEIGHT: f64 = (1u64 << 40) as f64;
/// Unit roundoff of f32.
const EPS: f64 = f32::EPSILON as f64 / 2.0;
/// Rounding of [`Norm`]'s quotients in f32 that the kernels admit, doubled.
const NORM_SLACK: f64 = 1.0 + 16.0 * EPS;

/// A contraction bound, and the norm in which it holds.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// Contraction of a sweep, rounded up; certified where below 1.
    pub q: f64,
    u: Option<Vec<f32>>,
    v: Option<Vec<f32>>,
    lipschitz: f64,
    /// Roundings on the longest path of a gathered term, and of the input.
    roundings: (f64, f64),
    /// Smallest and largest u_i v_k.
    weights: (f64, f64),
}

/// An error bound, in the plain maximum norm.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct ErrorBound {
    /// No entry of the state is farther from the equilibrium.
    pub largest: f64,
    /// The part that comes from rounding: no number of further sweeps is certain to go below.
    pub rounding: f64,
}

/// The largest slope of an activation.
pub fn lipschitz(activation: Activation) -> f64 {
    match activation {
        Activation::Sigmoid => 0.25,
        Activation::LeakyRelu(slope) => f64::from(slope).abs().max(1.0),
        _ => 1.0,
    }
}

/// What the f32 evaluation of an activation may be off by, at most: an absolute error, as values are about 1.
pub fn activation_error(activation: Option<Activation>) -> f64 {
    match activation {
        Some(Activation::Tanh | Activation::Sigmoid | Activation::Elu) => 8.0 * EPS,
        _ => 0.0,
    }
}

impl Certificate {
    /// The best certificate among plain and tightened vectors for these relations, forward or adjoint.
    ///
    /// `radius` bounds the spectral radius of a single relation, where it is known: it saves computing it.
    pub fn of(terms: &[Term<'_>], lipschitz: f64, radius: Option<f64>) -> Self {
        let plain = Self::with_vectors(terms, lipschitz, None, None);
        let mut best = plain;
        let mut offer = |candidate: Self| {
            if candidate.amplification() < best.amplification() || (best.q >= 1.0 && candidate.q < best.q) {
                best = candidate;
            }
        };
        if let [term] = terms {
            let roots = renormalised(&term.adjacency);
            let (u, rho) = match &roots {
                Some(u) => (Some(u), entries::ratios(&term.adjacency, |i| f64::from(u[i])).high),
                None => (None, f64::INFINITY),
            };
            let radius = radius.unwrap_or_else(|| match rho <= 1.0 + 1e-5 {
                true => rho,
                false => SpectralBound::of(&term.adjacency, None, &SpectralParams::default()).rho,
            });
            let omega = weight_radius(term.weights);
            let Targets { rows, columns, slack } = Targets::of(radius, omega, lipschitz);
            let weights = Combined { terms: &[*term], factors: &[1.0] };
            if let Some(u) = u {
                let given = Targets::of(rho, omega, lipschitz);
                let v = weights.tight_columns(given.product / rho / lipschitz, given.slack);
                offer(Self::with_vectors(terms, lipschitz, Some(u.clone()), None));
                offer(Self::with_vectors(terms, lipschitz, Some(u.clone()), v));
            }
            if best.q >= 1.0 || roots.is_none() {
                let (u, v) = (weights.tight_rows(rows, slack), weights.tight_columns(columns, slack));
                offer(Self::with_vectors(terms, lipschitz, u.clone(), None));
                offer(Self::with_vectors(terms, lipschitz, None, v.clone()));
                offer(Self::with_vectors(terms, lipschitz, u, v));
            }
        } else if best.q >= 1.0 {
            for target in [0.9, 0.99] {
                let norms: Vec<f64> = terms
                    .iter()
                    .map(|term| lipschitz * largest(&column_ratios(term.weights, None)))
                    .collect();
                let u = Combined { terms, factors: &norms }.tight_rows(target, SLACK);
                let weight = |i: usize| u.as_ref().map_or(1.0, |u| f64::from(u[i]));
                let sums: Vec<f64> = terms
                    .iter()
                    .map(|term| lipschitz * entries::ratios(&term.adjacency, weight).high)
                    .collect();
                let v = Combined { terms, factors: &sums }.tight_columns(target, SLACK);
                offer(Self::with_vectors(terms, lipschitz, u.clone(), None));
                offer(Self::with_vectors(terms, lipschitz, u, v));
            }
        }
        best
    }

    /// The certificate that given vectors (all ones where absent) make; for vectors kept from solve to solve.
    ///
    /// # Panics
    /// Where lengths do not fit.
    pub fn with_vectors(
        terms: &[Term<'_>],
        lipschitz: f64,
        u: Option<Vec<f32>>,
        v: Option<Vec<f32>>,
    ) -> Self {
        let columns: Vec<Vec<f64>> =
            terms.iter().map(|term| column_ratios(term.weights, v.as_deref())).collect();
        let weight = |i: usize| u.as_ref().map_or(1.0, |u| f64::from(u[i]));
        let product = match terms {
            [] => 0.0,
            [term] => entries::ratios(&term.adjacency, weight).high * largest(&columns[0]),
            _ => {
                let rows = terms[0].adjacency.rows();
                let row = |i: usize| {
                    let ratio =
                        |term: &Term<'_>| divide(row_sum(&term.adjacency, i, weight, |_| true), weight(i));
                    let ratios: Vec<f64> = terms.iter().map(|term| ratio(term).high).collect();
                    let entry =
                        |k: usize| -> f64 { ratios.iter().zip(&columns).map(|(r, c)| r * c[k]).sum() };
                    largest(&(0..columns[0].len()).map(entry).collect::<Vec<_>>())
                };
                (0..rows).into_par_iter().with_min_len(ROWS_A_TASK / 16).map(row).reduce(|| 0.0, nan_max)
            }
        };
        let q = product * lipschitz * (1.0 + (terms.len() + 2) as f64 * f64::EPSILON);
        let range = |weights: &Option<Vec<f32>>| {
            let weights = weights.as_deref().unwrap_or(&[1.0]).iter().map(|&x| f64::from(x));
            weights.fold((f64::INFINITY, 0.0f64), |(low, high), x| (low.min(x), high.max(x)))
        };
        let (u_range, v_range) = (range(&u), range(&v));
        let valid = u_range.0 > 0.0 && v_range.0 > 0.0 && u_range.1.is_finite() && v_range.1.is_finite();
        Self {
            q: if q.is_finite() && valid { q } else { f64::INFINITY },
            u,
            v,
            lipschitz,
            roundings: roundings(terms),
            weights: (u_range.0 * v_range.0, u_range.1 * v_range.1),
        }
    }

    /// Whether a sweep contracts, so that there is one equilibrium and every order of sweeps finds it.
    pub fn holds(&self) -> bool {
        self.q < 1.0
    }

    /// The norm, as sweeps take it.
    pub fn norm(&self) -> Norm<'_> {
        Norm { u: self.u.as_deref(), v: self.v.as_deref() }
    }

    /// A change of 1 in the maximum norm certifies an error of at most so much; infinite where nothing is certified.
    pub fn amplification(&self) -> f64 {
        if self.holds() { self.weights.1 / self.weights.0 * self.q / (1.0 - self.q) } else { f64::INFINITY }
    }

    /// The error of the state that a sweep wrote, from what it moved in [`Certificate::norm`].
    ///
    /// `activation` is that of a forward sweep, and none in the adjoint.
    pub fn error(
        &self,
        moved: f32,
        state: MatrixRef<'_>,
        input: MatrixRef<'_>,
        activation: Option<Activation>,
    ) -> Option<ErrorBound> {
        let moved = f64::from(moved) * NORM_SLACK;
        // The sweep read the state before: not farther away than it moved.
        let before = self.size(state.rows(), |i| state.row(i).iter().copied()) + moved;
        self.bound(self.q * moved, before, input, activation)
    }

    /// The error of a state by what a sweep from it would move; `size` is the state's [`Certificate::size`].
    pub(super) fn error_of_read(
        &self,
        moved: f64,
        size: f64,
        input: MatrixRef<'_>,
        activation: Option<Activation>,
    ) -> Option<ErrorBound> {
        self.bound(moved * NORM_SLACK, size, input, activation)
    }

    /// (moved + |e|) / (1 - q) in the maximum norm, for a sweep that read a state of a size.
    fn bound(
        &self,
        moved: f64,
        read: f64,
        input: MatrixRef<'_>,
        activation: Option<Activation>,
    ) -> Option<ErrorBound> {
        if !self.holds() {
            return None;
        }
        let gamma =
            |count: f64| if count * EPS < 0.5 { count * EPS / (1.0 - count * EPS) } else { f64::INFINITY };
        let (path, of_input) = self.roundings;
        let input = self.size(input.rows(), |i| input.row(i).iter().copied());
        let mut rounding = gamma(path) * self.q * read + self.lipschitz * gamma(of_input) * input;
        // Numbers below the normal ones lose up to half of the smallest each time.
        let tiny = (path + of_input) * f64::from(f32::from_bits(1));
        rounding += (activation_error(activation) + tiny) / self.weights.0;
        let scale = self.weights.1 / (1.0 - self.q) * (1.0 + 1e-12);
        Some(ErrorBound { largest: (moved + rounding) * scale, rounding: rounding * scale })
    }

    /// |M|_uv of a matrix by rows, rounded up.
    pub(super) fn size<R: Iterator<Item = f32>>(&self, rows: usize, row: impl Fn(usize) -> R + Sync) -> f64 {
        let largest = |i: usize| {
            let u = self.u.as_ref().map_or(1.0, |u| f64::from(u[i]));
            let entries = row(i).enumerate().map(|(k, x)| {
                let v = self.v.as_ref().map_or(1.0, |v| f64::from(v[k]));
                f64::from(x).abs() / v
            });
            entries.fold(0.0, nan_max) / u
        };
        let rows = (0..rows).into_par_iter().with_min_len(ROWS_A_TASK / 16);
        rows.map(largest).reduce(|| 0.0, nan_max) * (1.0 + 4.0 * f64::EPSILON)
    }
}

/// What the tightened vectors aim at.
struct Targets {
    /// max (|A| u)_i / u_i
    rows: f64,
    /// max (|P|^T v)_k / v_k
    columns: f64,
    /// q
    product: f64,
    /// By how much either may be missed.
    slack: f64,
}

impl Targets {
    /// Half of the gap between the product of both radii and 1, given to both sides alike; beside a side of radius 0
    /// the other takes a little.
    fn of(rho: f64, omega: f64, lipschitz: f64) -> Self {
        let product = (1.0 + (rho * omega * lipschitz).min(1.0)) / 2.0;
        let both = product / lipschitz;
        let (rows, columns) = match (rho > 0.0, omega > 0.0) {
            (true, true) => {
                let share = (both / (rho * omega)).max(1.0).sqrt();
                (rho * share, omega * share)
            }
            (true, false) => (rho * 1.5, both / (rho * 1.5)),
            (false, true) => (both / (omega * 1.5), omega * 1.5),
            (false, false) => (both.sqrt(), both.sqrt()),
        };
        Self { rows, columns, product, slack: ((1.0 - product) / 10.0).min(SLACK) }
    }
}

/// 1/s where a scale s stands on both sides.
fn renormalised(adjacency: &AdjacencyRef<'_>) -> Option<Vec<f32>> {
    let (row, gather) = (adjacency.row_scale()?, adjacency.gather_scale()?);
    let same = row.par_iter().zip(gather).all(|(s, t)| s == t && s.is_normal() && *s > 0.0);
    same.then(|| row.par_iter().map(|s| s.recip()).collect())
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

/// (|P|^T v)_k / v_k for every k, rounded up.
fn column_ratios(weights: &PackedWeights, v: Option<&[f32]>) -> Vec<f64> {
    let weight = |k: usize| v.map_or(1.0, |v| f64::from(v[k]));
    let inner = weights.inner();
    let slack = 1.0 + (inner + 4) as f64 * f64::EPSILON;
    let ratio = |k: usize| {
        let sum: f64 = (0..inner).map(|l| f64::from(weights.at(l, k)).abs() * weight(l)).sum();
        sum * slack / weight(k)
    };
    (0..weights.outer()).map(ratio).collect()
}

fn nan_max(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() { f64::INFINITY } else { x.max(y) }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, nan_max)
}

/// Roundings of a gathered term on its way into an entry, and of the input: see the module's text.
fn roundings(terms: &[Term<'_>]) -> (f64, f64) {
    let products: usize = terms.iter().map(|term| term.weights.inner()).sum();
    let longest = |term: &Term<'_>| {
        let lengths = term.adjacency.offsets().par_windows(2).map(|pair| pair[1] - pair[0]);
        lengths.max().unwrap_or(0)
    };
    let longest = terms.iter().map(longest).max().unwrap_or(0);
    // Three factors of an entry, the weight, and the slope or the derivative after the sum.
    let of_input = (products + terms.len() + 3) as f64;
    (longest as f64 + of_input + 4.0, of_input)
}

/// `sum_r factor_r A_r` and `sum_r factor_r |P_r|`.
struct Combined<'a> {
    terms: &'a [Term<'a>],
    factors: &'a [f64],
}

impl Combined<'_> {
    /// The least u >= 1 with A u <= target u, or as near as the sweeps get; `None` for all ones.
    fn tight_rows(&self, target: f64, slack: f64) -> Option<Vec<f32>> {
        let rows = self.terms.first()?.adjacency.rows();
        let sum = |u: &[f64], i: usize| {
            let parts = self.terms.iter().zip(self.factors);
            parts.map(|(term, factor)| factor * row_sum(&term.adjacency, i, |j| u[j], |_| true).high).sum()
        };
        tighten(rows, target, slack, sum)
    }

    /// The same for |P|^T v <= target v.
    fn tight_columns(&self, target: f64, slack: f64) -> Option<Vec<f32>> {
        let parts: Vec<_> =
            self.terms.iter().map(|term| term.weights).zip(self.factors.iter().copied()).collect();
        tight_columns(&parts, target, slack)
    }
}

/// The least v >= 1 with `sum_r factor_r |P_r|^T v <= target v`; `None` for all ones.
pub(super) fn tight_columns(parts: &[(&PackedWeights, f64)], target: f64, slack: f64) -> Option<Vec<f32>> {
    let columns = parts.first()?.0.outer();
    let sum = |v: &[f64], k: usize| {
        let column = |weights: &PackedWeights| -> f64 {
            (0..weights.inner()).map(|l| f64::from(weights.at(l, k)).abs() * v[l]).sum()
        };
        parts.iter().map(|(weights, factor)| factor * column(weights)).sum()
    };
    tighten(columns, target, slack, sum)
}

/// u := max(u, sum(u) / target) from all ones until no entry grows by more than `slack` of itself: then the sums are
/// within that of their target.
fn tighten(
    length: usize,
    target: f64,
    slack: f64,
    sum: impl Fn(&[f64], usize) -> f64 + Sync,
) -> Option<Vec<f32>> {
    if !(target > 0.0 && target.is_finite()) {
        return None;
    }
    let mut u = vec![1.0f64; length];
    let mut next = u.clone();
    for _ in 0..MAX_SWEEPS {
        let growth = next
            .par_iter_mut()
            .with_min_len(ROWS_A_TASK)
            .enumerate()
            .map(|(i, next)| {
                *next = (sum(&u, i) / target).max(u[i]).min(LARGEST_WEIGHT);
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
