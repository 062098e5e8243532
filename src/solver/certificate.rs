//! An upper bound of the distance between a state and the equilibrium: a contraction bound q, and
//! the norm in which it holds. It applies to the equation as stored in f32 and includes the
//! rounding of the sweeps.
//!
//! A sweep is `to = phi(sum_r A_r from P_r + input)`, in either direction: P = W^T and A^T in the
//! forward sweep, P = W and A in the adjoint (where phi is the product with D, |D| <= lipschitz).
//! For positive vectors u (one entry per row) and v (one per column) let
//! `|E|_uv = max |E_ik| / (u_i v_k)`. Then a sweep contracts by
//!
//! ```text
//! q = lipschitz * max_ik sum_r (|A_r| u)_i / u_i * (|P_r|^T v)_k / v_k
//! ```
//!
//! and after a sweep from x to x' that moved the state by Delta with a rounding error of e
//!
//! ```text
//! |X* - x'|_uv <= (q |Delta|_uv + |e|_uv) / (1 - q)       entry (i, k): that times u_i v_k
//! |e|_uv       <= gamma(K) q |x|_uv + lipschitz gamma(M) |input|_uv + error of phi
//! gamma(K)      = K eps / (1 - K eps),   eps = 2^-24
//! ```
//!
//! with K the number of roundings on the longest path of a term into an entry, and M that of the
//! input. These are worst cases: they hold for any order of the sums, and whether or not products
//! are fused. A subnormal result may be off by the smallest float each time, which is counted too.
//!
//! The vectors come from [`super::tightening`]. They are f32, as sweeps take them; q is evaluated
//! with these very vectors in f64 and rounded up, so that it holds however they were found.

use std::time::Instant;

use rayon::prelude::*;

use super::effort::Effort;
use super::entries::{self, ROWS_PER_TASK, Sums, Vector, divide};
use crate::dense::{LINE, MatrixRef};
use crate::json_number;
use crate::kernels::sweep::{Direction, Sweep, Term};
use crate::kernels::{self, Activation, Added, AdjacencyRef, Norm, PackedWeights, exact};
use crate::parallel::{Alone, Ranks, Rows};

/// Unit roundoff of f32.
const EPS: f64 = f32::EPSILON as f64 / 2.0;
/// Rounding of the quotients of [`Norm`] in f32: the kernels round five times; sixteen are counted.
const NORM_SLACK: f64 = 1.0 + 16.0 * EPS;
/// The smallest float, rounded up: twice the largest error of a subnormal result.
pub(crate) const TINY: f64 = 1.5e-45;
/// Weights of the norm lie between the inverse of this and this, so that dividing by two of them
/// cannot overflow.
const LARGEST_WEIGHT: f32 = 1e18;

/// A contraction bound, and the norm in which it holds.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// Contraction of a sweep, rounded up; a certificate holds if it is below 1.
    pub q: f64,
    /// What finding it took.
    pub effort: Effort,
    u: Option<Vec<f32>>,
    v: Option<Vec<f32>>,
    /// Number of rows whose weights are those of the norm; u goes on with those of ghosts.
    rows: usize,
    lipschitz: f64,
    /// Number of roundings on the longest path of a gathered term, and of the input.
    roundings: (f64, f64),
    /// Smallest and largest u_i v_k.
    weights: (f64, f64),
    /// Smallest u_i.
    least_u: f64,
    /// Largest factor by which the error of a subnormal number grows within a sweep.
    growth: f64,
}

/// An error bound, in the plain maximum norm: against the exact equilibrium of the equation as it
/// was given, its input included.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ErrorBound {
    /// Largest distance of any entry from the equilibrium.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub largest: f64,
    /// The part that comes from rounding: further sweeps cannot reduce the bound below it.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub rounding: f64,
    /// `largest` divided by the largest absolute entry of the state; NaN in records of versions
    /// that did not know it.
    #[serde(default = "json_number::nan", deserialize_with = "json_number::or_nan")]
    pub relative: f64,
    /// Lower bound of the distance of the entry that is farthest from the equilibrium; 0 where only
    /// the upper bound is known. See [`super::refined`].
    #[serde(default)]
    pub at_least: f64,
}

impl ErrorBound {
    /// With its size relative to that of a state, given as the state's largest absolute entry.
    pub(super) fn of_state(self, size: f64) -> Self {
        let relative = if self.largest == 0.0 { 0.0 } else { (self.largest / size).next_up() };
        Self { relative, ..self }
    }

    /// What holds for two states at once: the larger bound of each kind.
    pub(super) fn or_worse(self, other: Self) -> Self {
        let worst = if other.largest > self.largest { other } else { self };
        let relative = match self.relative.is_nan() || other.relative.is_nan() {
            true => f64::NAN,
            false => self.relative.max(other.relative),
        };
        Self { relative, at_least: self.at_least.max(other.at_least), ..worst }
    }
}

/// The relative error of a value that is rounded `count` times in f32.
pub(crate) fn gamma(count: f64) -> f64 {
    if count * EPS < 0.5 { count * EPS / (1.0 - count * EPS) } else { f64::INFINITY }
}

/// The largest slope of an activation.
///
/// ```
/// use ignn::kernels::Activation;
/// use ignn::solver::certificate::lipschitz;
///
/// assert_eq!(lipschitz(Activation::Tanh), 1.0);
/// assert_eq!(lipschitz(Activation::Sigmoid), 0.25);
/// ```
pub fn lipschitz(activation: Activation) -> f64 {
    match activation {
        Activation::Sigmoid => 0.25,
        Activation::LeakyRelu(slope) => f64::from(slope).abs().max(1.0),
        _ => 1.0,
    }
}

/// Largest absolute error of an activation evaluated in f32, for values near 1.
pub fn activation_error(activation: Option<Activation>) -> f64 {
    match activation {
        Some(Activation::Tanh | Activation::Sigmoid | Activation::Elu) => 8.0 * EPS,
        _ => 0.0,
    }
}

impl Certificate {
    /// The certificate that given vectors make, such as those kept from an earlier solve; a missing
    /// vector is all ones.
    ///
    /// It holds for sweeps over these very terms, with an activation or a derivative whose slope is
    /// at most `lipschitz`.
    ///
    /// # Panics
    /// If lengths do not match.
    pub fn with_vectors(
        terms: &[Term<'_>],
        lipschitz: f64,
        u: Option<Vec<f32>>,
        v: Option<Vec<f32>>,
    ) -> Self {
        Self::over(&Alone, terms, lipschitz, u, v)
    }

    /// The same over the rows of all ranks: u has one entry for each column of the terms, with those
    /// of ghosts.
    ///
    /// # Panics
    /// If lengths do not match.
    pub fn over(
        ranks: &dyn Ranks,
        terms: &[Term<'_>],
        lipschitz: f64,
        u: Option<Vec<f32>>,
        v: Option<Vec<f32>>,
    ) -> Self {
        let start = Instant::now();
        let rows = terms.first().map_or(0, |term| term.adjacency.rows());
        let columns: Vec<Vec<f64>> =
            terms.iter().map(|term| column_ratios(term.weights, v.as_deref())).collect();
        let weights = Vector::of(u.as_deref());
        let product = match terms {
            [] => 0.0,
            [term] => {
                let ratio = entries::ratios(&term.adjacency, weights).high;
                ranks.merge(ratio, nan_max) * largest(&columns[0])
            }
            _ => {
                let sums: Vec<_> =
                    terms.iter().map(|term| Sums::of(&term.adjacency, weights)).collect();
                let row = |i: usize| {
                    let ratio = |sums: &Sums<'_>| divide(sums.row(i), weights.at(i)).high;
                    let ratios: Vec<f64> = sums.iter().map(ratio).collect();
                    let entry = |k: usize| -> f64 {
                        ratios.iter().zip(&columns).map(|(r, c)| r * c[k]).sum()
                    };
                    largest(&(0..columns[0].len()).map(entry).collect::<Vec<_>>())
                };
                let tasks = (0..rows).into_par_iter().with_min_len(ROWS_PER_TASK / 16);
                ranks.merge(tasks.map(row).reduce(|| 0.0, nan_max), nan_max)
            }
        };
        let effort = Effort { passes: 1, seconds: start.elapsed().as_secs_f64() };
        Self { effort, ..Self::with_product(ranks, terms, lipschitz, (u, v), product) }
    }

    /// The same for a single relation, of which max_i (|A| u)_i / u_i is known.
    pub(super) fn with_ratio(
        term: &Term<'_>,
        lipschitz: f64,
        (u, ratio): (Option<&Vec<f32>>, f64),
        v: Option<&Vec<f32>>,
    ) -> Self {
        let product = ratio * largest(&column_ratios(term.weights, v.map(Vec::as_slice)));
        let vectors = (u.cloned(), v.cloned());
        Self::with_product(&Alone, std::slice::from_ref(term), lipschitz, vectors, product)
    }

    /// `product` is q without the slope of the activation.
    fn with_product(
        ranks: &dyn Ranks,
        terms: &[Term<'_>],
        lipschitz: f64,
        (u, v): (Option<Vec<f32>>, Option<Vec<f32>>),
        product: f64,
    ) -> Self {
        let rows = terms.first().map_or(0, |term| term.adjacency.rows());
        let q = product * lipschitz * (1.0 + (terms.len() + 2) as f64 * f64::EPSILON);
        let u_range = match &u {
            // Own rows alone: of no rows, nothing is the smallest weight.
            Some(u) => range_over(ranks, &u[..rows.min(u.len())]),
            None => Some((1.0, 1.0)),
        };
        let v_range = range(v.as_deref());
        let largest_scale = |term: &Term<'_>| -> f64 {
            let rows = (0..term.adjacency.rows()).into_par_iter().with_min_len(ROWS_PER_TASK);
            rows.map(|row| f64::from(term.adjacency.row_factor(row)).abs()).reduce(|| 1.0, nan_max)
        };
        let scale = terms.iter().map(largest_scale).fold(1.0, nan_max);
        let scale = ranks.merge(scale, nan_max);
        let columns: f64 =
            terms.iter().map(|term| largest(&column_ratios(term.weights, v.as_deref()))).sum();
        let weights = u_range.zip(v_range).map(|(u, v)| (u.0 * v.0, u.1 * v.1));
        Self {
            q: if q.is_finite() && weights.is_some() { q } else { f64::INFINITY },
            effort: Effort::default(),
            u,
            v,
            lipschitz,
            roundings: roundings(ranks, terms),
            rows,
            weights: weights.unwrap_or((1.0, 1.0)),
            least_u: u_range.map_or(1.0, |u| u.0),
            // Column sums are relative to v.
            growth: scale
                * (1.0 + columns * v_range.map_or(1.0, |v| v.1 / v.0))
                * lipschitz.max(1.0),
        }
    }

    /// Whether a sweep contracts: then there is exactly one equilibrium, and sweeps converge to it.
    pub fn holds(&self) -> bool {
        self.q < 1.0
    }

    /// The norm in which the certificate holds.
    pub fn norm(&self) -> Norm<'_> {
        Norm { u: self.u.as_deref().map(|u| &u[..self.rows]), v: self.v.as_deref(), rows: None }
    }

    /// The vectors u and v; a missing one is all ones.
    pub fn vectors(&self) -> [Option<&[f32]>; 2] {
        [self.u.as_deref(), self.v.as_deref()]
    }

    /// The error that a change of 1 in the maximum norm certifies; infinite if the certificate does
    /// not hold.
    pub fn amplification(&self) -> f64 {
        if self.holds() {
            self.weights.1 / self.weights.0 * self.q / (1.0 - self.q)
        } else {
            f64::INFINITY
        }
    }

    /// Bounds the error of the state that a sweep wrote, given by how much the sweep moved it in
    /// [`Certificate::norm`], and the sizes of state and input ([`Certificate::size`]). `activation`
    /// is `None` for the adjoint.
    pub fn error(
        &self,
        moved: f32,
        [state, input]: [f64; 2],
        activation: Option<Activation>,
    ) -> Option<ErrorBound> {
        let moved = self.moved(moved);
        // The state that the sweep read is larger by at most the move.
        let before = state + moved;
        self.bound(self.q * moved, before, input, activation)
    }

    /// |Delta|_uv from what a sweep computed, rounded up.
    fn moved(&self, weighted: f32) -> f64 {
        // The quotient by v may underflow before it is divided by u.
        f64::from(weighted) * NORM_SLACK + 4.0 * TINY * (1.0 + 1.0 / self.least_u)
    }

    /// (moved + |e|) / (1 - q) in the maximum norm, for a sweep that read a state of size `read`.
    fn bound(
        &self,
        moved: f64,
        read: f64,
        input: f64,
        activation: Option<Activation>,
    ) -> Option<ErrorBound> {
        if !self.holds() {
            return None;
        }
        let (path, of_input) = self.roundings;
        let mut rounding = gamma(path) * self.q * read + self.lipschitz * gamma(of_input) * input;
        // A factor of an entry may underflow as well: then the size of the other factor counts.
        let tiny = (path + of_input) * TINY * self.growth * (1.0 + read * self.weights.1);
        rounding += (activation_error(activation) + tiny) / self.weights.0;
        let scale = self.weights.1 / (1.0 - self.q) * (1.0 + 1e-12);
        Some(ErrorBound {
            largest: (moved + rounding) * scale,
            rounding: rounding * scale,
            relative: f64::NAN,
            at_least: 0.0,
        })
    }

    /// Bounds |X* - y|_uv of any state y from its residual in f64. Worse than [`Certificate::error`]
    /// by nothing but a factor q, and free of the rounding of sweeps in f32.
    ///
    /// # Panics
    /// If shapes do not match.
    pub(super) fn distance(
        &self,
        sweep: &Sweep<'_>,
        direction: Direction<'_>,
        state: MatrixRef<'_>,
        rows: &Rows,
    ) -> f64 {
        let v: Option<Vec<f64>> =
            self.v.as_ref().map(|v| v.iter().map(|&v| f64::from(v).recip()).collect());
        let inverse_v = v.unwrap_or_else(|| vec![1.0; state.cols()]);
        let residual = exact::evaluate(
            sweep,
            direction,
            exact::State::Single(state),
            (),
            |(), _| ((), ()),
            |(), _, row, values| {
                let entries = values.iter().zip(state.row(row)).zip(&inverse_v);
                let far = |((&next, &y), inverse): ((&f64, &f32), &f64)| {
                    (next - f64::from(y)).abs() * inverse
                };
                let largest = entries.map(far).fold(0.0, nan_max);
                largest / self.u.as_ref().map_or(1.0, |u| f64::from(u[row]))
            },
        );
        let activation = match direction {
            Direction::Forward(activation) => Some(activation),
            Direction::Adjoint(_) => None,
        };
        let own = state.first(rows.len());
        let largest = [residual, self.size(own), self.size_of(sweep.input)];
        let [residual, state, input] = largest.map(|of| rows.ranks().max(of));
        self.by_residual(residual, state, input, activation)
    }

    /// |X* - y|_uv from |residual|_uv, |y|_uv and |input|_uv, all of which were computed in f64 with
    /// the usual few roundings.
    pub(super) fn by_residual(
        &self,
        residual: f64,
        state: f64,
        input: f64,
        activation: Option<Activation>,
    ) -> f64 {
        if !self.holds() {
            return f64::INFINITY;
        }
        // Terms are rounded a few times more than in a sweep. The derivative of an adjoint is
        // rounded by itself, and its slope may be a quarter: that is less than the factor 8.
        let count = 8.0 * (self.roundings.0 + 16.0) * f64::EPSILON;
        let mut rounding = count * (self.q * state + self.lipschitz.max(1.0) * input);
        // Functions of the system's library are trusted to 16 units in the last place.
        if activation_error(activation) > 0.0 {
            rounding += 16.0 * f64::EPSILON * (1.0 + residual) / self.weights.0;
        }
        (residual * (1.0 + 1e-12) + rounding) / (1.0 - self.q) * (1.0 + 1e-12)
    }

    /// u_i v_k
    pub(super) fn weight(&self, row: usize) -> impl Fn(usize) -> f64 + '_ {
        let u = self.u.as_ref().map_or(1.0, |u| f64::from(u[row]));
        move |col| u * self.v.as_ref().map_or(1.0, |v| f64::from(v[col]))
    }

    /// Largest u_i v_k.
    pub(super) fn largest_weight(&self) -> f64 {
        self.weights.1
    }

    /// The error that a residual of 1 in the maximum norm certifies.
    pub(super) fn amplification_of_residual(&self) -> f64 {
        self.weights.1 / self.weights.0 / (1.0 - self.q)
    }

    /// How far an entry of the equilibrium moves at most if the input moves by `input` in the norm
    /// |.|_uv; infinite if the certificate does not hold.
    pub fn response(&self, input: f64) -> f64 {
        if !self.holds() {
            return f64::INFINITY;
        }
        self.lipschitz * input / (1.0 - self.q) * self.weights.1 * (1.0 + 1e-12)
    }

    /// `max_i (|A| 1)_i / u_i`, rounded up: how large rows with entries of at most 1 are once they are
    /// gathered, in the norm of the rows.
    pub fn gathered(&self, adjacency: &AdjacencyRef<'_>) -> f64 {
        let sums = Sums::of(adjacency, Vector::Ones);
        let weights = Vector::of(self.u.as_deref());
        let rows = (0..adjacency.rows()).into_par_iter().with_min_len(ROWS_PER_TASK);
        rows.map(|row| divide(sums.row(row), weights.at(row)).high).reduce(|| 0.0, nan_max)
    }

    /// `max_k (|M| 1)_k / v_k` of a map with one row per column of the state, rounded up.
    pub fn mapped(&self, map: MatrixRef<'_>) -> f64 {
        let slack = 1.0 + (map.cols() + 4) as f64 * f64::EPSILON;
        let row = |k: usize| {
            let sum: f64 = map.row(k).iter().map(|&x| f64::from(x).abs()).sum();
            sum * slack / self.v.as_ref().map_or(1.0, |v| f64::from(v[k]))
        };
        (0..map.rows()).map(row).fold(0.0, nan_max)
    }

    /// `max_i 1 / u_i`: the same as [`Certificate::gathered`] without a graph.
    pub fn of_rows(&self) -> f64 {
        (1.0 / self.least_u).next_up()
    }

    /// The norm |.|_uv of a matrix whose entries are at most 1.
    pub fn of_ones(&self) -> f64 {
        1.0 / self.weights.0
    }

    /// |M|_uv of a matrix, rounded up.
    pub fn size(&self, matrix: MatrixRef<'_>) -> f64 {
        self.moved(kernels::largest(matrix, self.norm()))
    }

    /// The same of what a sweep adds.
    pub fn size_of(&self, added: Added<'_>) -> f64 {
        let (places, rows) = match added {
            Added::All(matrix) => return self.size(matrix),
            Added::Some { places, rows } => (places, rows),
        };
        let norm = self.norm();
        let u: Option<Vec<f32>> =
            norm.u.map(|u| places.listed().iter().map(|&row| u[row as usize]).collect());
        self.moved(kernels::largest(rows, Norm { u: u.as_deref(), ..norm }))
    }
}

/// (|P|^T v)_k / v_k for every k, rounded up.
pub(super) fn column_ratios(weights: &PackedWeights, v: Option<&[f32]>) -> Vec<f64> {
    let weight = |k: usize| v.map_or(1.0, |v| f64::from(v[k]));
    let slack = 1.0 + (weights.inner() + 4) as f64 * f64::EPSILON;
    let sums = column_sums(weights, weight);
    sums.iter().enumerate().map(|(k, sum)| sum * slack / weight(k)).collect()
}

/// (|P|^T v)_k for every k, panel by panel in the order of memory.
pub(super) fn column_sums(weights: &PackedWeights, v: impl Fn(usize) -> f64 + Sync) -> Vec<f64> {
    let v: Vec<f64> = (0..weights.inner()).map(v).collect();
    let mut sums = vec![0.0f64; weights.outer()];
    let panels = sums.par_chunks_mut(LINE).enumerate().with_min_len(4);
    panels.for_each(|(panel, sums)| {
        let mut whole = [0.0f64; LINE];
        for (line, v) in weights.panel(panel).iter().zip(&v) {
            whole.iter_mut().zip(&line.0).for_each(|(sum, &x)| *sum += f64::from(x).abs() * v);
        }
        sums.copy_from_slice(&whole[..sums.len()]);
    });
    sums
}

/// The smallest and the largest weight; `None` if one is outside of the allowed range.
fn range(weights: Option<&[f32]>) -> Option<(f64, f64)> {
    let weights = weights.unwrap_or(&[1.0]);
    let usable = |x: &f32| (1.0 / LARGEST_WEIGHT..=LARGEST_WEIGHT).contains(x);
    let first = *weights.first().unwrap_or(&1.0);
    let parts = weights.par_chunks(ROWS_PER_TASK).map(|part| {
        let (low, high) =
            part.iter().fold((first, first), |(low, high), &x| (low.min(x), high.max(x)));
        (low, high, part.iter().all(usable))
    });
    let both = |a: (f32, f32, bool), b: (f32, f32, bool)| (a.0.min(b.0), a.1.max(b.1), a.2 && b.2);
    let (low, high, all) = parts.reduce(|| (first, first, true), both);
    all.then_some((f64::from(low), f64::from(high)))
}

/// The same over the rows of all ranks, of which this one has some or none.
fn range_over(ranks: &dyn Ranks, weights: &[f32]) -> Option<(f64, f64)> {
    let none = [f64::INFINITY, 0.0, 1.0];
    let own = match range(Some(weights)) {
        _ if weights.is_empty() => none,
        Some((low, high)) => [low, high, 1.0],
        None => [1.0, 1.0, 0.0],
    };
    let [low, high, usable] =
        ranks.merge(own, |a, b| [a[0].min(b[0]), a[1].max(b[1]), a[2].min(b[2])]);
    let is_empty = low == f64::INFINITY;
    (usable == 1.0).then_some(if is_empty { (1.0, 1.0) } else { (low, high) })
}

/// The larger of two numbers; infinity if one is NaN.
pub(super) fn nan_max(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() { f64::INFINITY } else { x.max(y) }
}

pub(super) fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, nan_max)
}

/// Number of roundings of a gathered term, and of the input, on the way into an entry; see the
/// module documentation.
fn roundings(ranks: &dyn Ranks, terms: &[Term<'_>]) -> (f64, f64) {
    let products: usize = terms.iter().map(|term| term.weights.inner()).sum();
    let longest = terms.iter().map(|term| term.adjacency.longest_sum()).max().unwrap_or(0);
    let longest = ranks.merge(longest, u64::max);
    // The input is added last; then comes the slope, or a derivative that takes two steps, and its
    // product. That makes four roundings; six are counted. Before that, a term is rounded in the
    // three factors of its entry, the sum of the row, the weight, and the sum of products.
    let of_input = 6.0;
    (longest as f64 + 3.0 + products as f64 + 1.0 + of_input, of_input)
}
