//! A rigorous upper bound of the spectral radius of an adjacency, with a lower bound that shows how
//! tight it is. These are bounds, not estimates: every number is rounded to the safe side, and the
//! iteration only decides how close they get.
//!
//! For u > 0 (Collatz-Wielandt), `min_i (A u)_i / u_i <= lambda(A) <= max_i (A u)_i / u_i`. A and
//! A^T have the same radius, so either one may give the bound. Four methods are tried in this
//! order:
//!
//! 1. Closed forms. u = 1 if all row sums are equal: regular graphs, and rows normalised to one.
//!    u = 1/s if the same scale s applies to rows and columns: renormalised graphs, undirected ones
//!    from either side and directed ones from the A side.
//! 2. Symmetric matrices: power iteration over all rows, with a Rayleigh quotient as the lower
//!    bound (`symmetric.rs`).
//! 3. Cycles. The radius is the largest radius of a strongly connected component. A graph without
//!    cycles has radius 0.
//! 4. Power iteration inside all components at once, on A + sigma I with sigma half the current
//!    bound, so that bipartite components converge too. A component drops out when it can no longer
//!    have the largest radius.
//!
//! Components need no common vector here. The vector of a certificate is common to all nodes:
//! [`super::certificate`].
//!
//! Cost: one to four passes over the non-zeros for 1, one pass per sweep for 2 and 4, and serial
//! O(nodes + non-zeros) for 3; 24 bytes per node. Results do not depend on the number of threads.

use std::time::Instant;

use rayon::prelude::*;
use serde::Serialize;

use super::components::{Components, NO_CYCLE};
use super::effort::Effort;
use super::entries::{self, Bracket, ROWS_PER_TASK, Sums, Vector, divide, row_sum};
use super::symmetric;
use crate::kernels::AdjacencyRef;

/// Default of [`SpectralParams::tolerance`]. A weight that could have kappa 0.98 gets at least
/// 0.9799.
pub const TOLERANCE: f64 = 1e-4;
/// Default of [`SpectralParams::max_sweeps`].
pub const MAX_SWEEPS: usize = 500;

/// Row sums that differ by less, relative to themselves, count as equal: stored numbers are f32.
const EQUAL: f64 = 1e-6;
/// Fraction of the bound that is added to the diagonal while iterating.
const SHIFT: f64 = 0.5;
/// Lower limit of the iterated vector, which starts at 1: products stay normal numbers.
const FLOOR: f64 = 1e-150;

/// When the iteration stops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpectralParams {
    /// Relative gap between the two bounds at which it stops.
    pub tolerance: f64,
    /// Largest number of sweeps of power iteration. The bound holds after any number.
    pub max_sweeps: usize,
}

impl Default for SpectralParams {
    fn default() -> Self {
        Self { tolerance: TOLERANCE, max_sweeps: MAX_SWEEPS }
    }
}

/// The structure that gave the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Structure {
    /// No cycles: the radius is 0, and any weight is well-posed.
    Acyclic,
    /// All row sums of A, or all column sums, are equal: that sum is the radius.
    Regular,
    /// `D^-1/2 A' D^-1/2` with D the row sums of A': the radius is 1, with the vector sqrt(d).
    Renormalised,
    /// None of these: the bound comes from power iteration.
    General,
}

/// Bounds of the spectral radius.
///
/// ```
/// use ignn::kernels::Adjacency;
/// use ignn::solver::{SpectralBound, SpectralParams, Structure};
///
/// // A cycle of three nodes: every row has the sum 1.
/// let cycle = Adjacency::from_csr(3, vec![0, 1, 2, 3], vec![2, 0, 1])?;
/// let bound = SpectralBound::of(&cycle.view(), None, &SpectralParams::default());
/// assert_eq!(bound.structure, Structure::Regular);
/// assert!(bound.rho >= 1.0 && bound.rho < 1.0 + 1e-12);
/// // Rows of W within this L1 norm keep kappa = 0.9.
/// assert!(bound.weight_radius(0.9) * bound.rho <= 0.9);
/// # Ok::<(), ignn::kernels::AdjacencyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpectralBound {
    /// Upper bound of the radius; infinite if an entry is not finite.
    pub rho: f64,
    /// Lower bound of the radius.
    pub lower: f64,
    /// The structure that gave the bound.
    pub structure: Structure,
    /// Number of sweeps of power iteration.
    pub sweeps: usize,
    /// What the search took.
    pub effort: Effort,
}

impl SpectralBound {
    /// Bounds the radius of A. `incoming` has the rows of A^T; `outgoing` has those of A, if known.
    pub fn of(
        incoming: &AdjacencyRef,
        outgoing: Option<&AdjacencyRef>,
        params: &SpectralParams,
    ) -> Self {
        let (start, mut passes) = (Instant::now(), 0);
        let found = Self::search(incoming, outgoing, params, &mut passes);
        Self { effort: Effort { passes, seconds: start.elapsed().as_secs_f64() }, ..found }
    }

    fn search(
        incoming: &AdjacencyRef,
        outgoing: Option<&AdjacencyRef>,
        params: &SpectralParams,
        passes: &mut usize,
    ) -> Self {
        let is_symmetric = outgoing.is_some_and(|outgoing| incoming.is_symmetric(outgoing));
        let other = outgoing.filter(|_| !is_symmetric);
        for side in [Some(incoming), other].into_iter().flatten() {
            if let Some(bound) = closed_form(side, passes) {
                return bound;
            }
        }
        let mut known = Bracket { low: 0.0, high: f64::INFINITY };
        if is_symmetric {
            let (found, sweeps) = symmetric::iterate(incoming, params);
            *passes += sweeps;
            known = found;
            if found.is_tight(params.tolerance) || sweeps >= params.max_sweeps {
                return Self::new(found, Structure::General, sweeps);
            }
        }
        // The search for components visits every entry once.
        *passes += 1;
        let components = Components::of(incoming);
        if components.count == 0 {
            return Self::new(Bracket::default(), Structure::Acyclic, 0);
        }
        let found = iterate(incoming, &components, params);
        *passes += found.sweeps;
        Self { rho: found.rho.min(known.high), lower: found.lower.max(known.low), ..found }
    }

    fn new(Bracket { low, high }: Bracket, structure: Structure, sweeps: usize) -> Self {
        Self { rho: high, lower: low, structure, sweeps, effort: Effort::default() }
    }

    /// Whether both bounds agree to the tolerance.
    pub fn is_tight(&self, tolerance: f64) -> bool {
        self.rho - self.lower <= tolerance * self.rho
    }

    /// The radius of the L1 balls for the rows of W, `kappa / rho` rounded down; infinite for a
    /// graph without cycles.
    pub fn weight_radius(&self, kappa: f64) -> f64 {
        if self.rho == 0.0 { f64::INFINITY } else { (kappa / self.rho).next_down().max(0.0) }
    }
}

/// ||A||_1, rounded up: the largest column sum of A, which is a row sum of `incoming`.
pub fn one_norm(incoming: &AdjacencyRef) -> f64 {
    entries::ratios(incoming, Vector::Ones).high
}

/// Step 1: vectors that are exact for some graphs.
fn closed_form(side: &AdjacencyRef, passes: &mut usize) -> Option<SpectralBound> {
    let bound = |bracket: Bracket, structure| {
        let structure = if bracket.high == 0.0 { Structure::Acyclic } else { structure };
        SpectralBound::new(bracket, structure, 0)
    };
    if side.rows() == 0 {
        return Some(bound(Bracket::default(), Structure::Acyclic));
    }
    *passes += 1;
    let sums = entries::ratios(side, Vector::Ones);
    if sums.high == f64::INFINITY {
        return Some(bound(sums, Structure::General));
    }
    if sums.is_tight(EQUAL) {
        return Some(bound(sums, Structure::Regular));
    }
    let scale = side.common_scale()?;
    let roots = (0..side.rows()).into_par_iter().with_min_len(ROWS_PER_TASK);
    let roots: Vec<f64> = roots.map(|node| f64::from(scale(node)).recip()).collect();
    *passes += 1;
    let roots = entries::ratios(side, Vector::Double(&roots));
    roots.is_tight(EQUAL).then(|| bound(roots, Structure::Renormalised))
}

/// The bounds of one component.
#[derive(Clone, Copy)]
struct Local {
    /// The best bounds of all sweeps.
    best: Bracket,
    /// Those of the last sweep.
    last: Bracket,
}

/// Step 4.
fn iterate(a: &AdjacencyRef, components: &Components, params: &SpectralParams) -> SpectralBound {
    let of = &components.of;
    let mut active = components.members();
    let mut u = vec![1.0f64; of.len()];
    let mut sums = vec![0.0f64; active.len()];
    let unknown = Local { best: Bracket { low: 0.0, high: f64::INFINITY }, last: Bracket::NONE };
    let mut locals = vec![unknown; components.count];
    let crosses = crosses(a, of, &active);
    for sweeps in 1.. {
        let segments = sweep(a, of, crosses, &active, &u, &mut sums[..active.len()]);
        locals.iter_mut().for_each(|local| local.last = Bracket::NONE);
        for (component, ratios) in segments {
            let last = &mut locals[component as usize].last;
            *last = last.with(ratios);
        }
        let (mut rho, mut lower) = (0.0f64, 0.0f64);
        for Local { best, last } in &mut locals {
            if last.high > 0.0 {
                *best = Bracket { low: best.low.max(last.low), high: best.high.min(last.high) };
            }
            rho = rho.max(best.high);
            lower = lower.max(best.low);
        }
        // Only a component that may have the largest radius, and whose own bounds are still apart,
        // can improve the bounds.
        let matters = |&node: &u32| {
            let best = locals[of[node as usize] as usize].best;
            best.high > lower && best.high - best.low > params.tolerance * best.high
        };
        let tight = rho - lower <= params.tolerance * rho || !rho.is_finite();
        if tight || sweeps >= params.max_sweeps || !active.iter().any(matters) {
            return SpectralBound::new(
                Bracket { low: lower, high: rho },
                Structure::General,
                sweeps,
            );
        }
        for (&node, &sum) in active.iter().zip(&sums) {
            let high = locals[of[node as usize] as usize].last.high;
            let entry = &mut u[node as usize];
            *entry = ((sum + SHIFT * high * *entry) / (high + SHIFT * high)).max(FLOOR);
        }
        active.retain(matters);
    }
    unreachable!("the loop returns")
}

/// Whether an entry leads from one component into another: never in undirected graphs.
fn crosses(a: &AdjacencyRef, of: &[u32], active: &[u32]) -> bool {
    active.par_iter().with_min_len(ROWS_PER_TASK).any(|&node| {
        let (node, component) = (node as usize, of[node as usize]);
        a.range(node).any(|at| of[a.column(node, at)] != component)
    })
}

/// `sums[k] = sum_j a_ij u_j` inside the component of row `i = active[k]`. Returns the ratios per
/// task and component.
fn sweep(
    a: &AdjacencyRef,
    of: &[u32],
    crosses: bool,
    active: &[u32],
    u: &[f64],
    sums: &mut [f64],
) -> Vec<(u32, Bracket)> {
    let all = (!crosses).then(|| Sums::of(a, Vector::Double(u)));
    let task = |(active, sums): (&[u32], &mut [f64])| {
        let mut segments: Vec<(u32, Bracket)> = Vec::new();
        for (&node, sum) in active.iter().zip(sums) {
            let (node, component) = (node as usize, of[node as usize]);
            debug_assert_ne!(component, NO_CYCLE);
            let found = match &all {
                Some(all) => all.row(node),
                None => row_sum(a, node, |j| u[j], |j| of[j] == component),
            };
            *sum = found.high;
            let ratio = divide(found, u[node]);
            match segments.last_mut() {
                Some((last, ratios)) if *last == component => {
                    *ratios = ratios.with(ratio);
                }
                _ => segments.push((component, ratio)),
            }
        }
        segments
    };
    let tasks = active.par_chunks(ROWS_PER_TASK).zip(sums.par_chunks_mut(ROWS_PER_TASK));
    tasks.map(task).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Csr, Graph, Random, cases};
    use super::*;

    /// Brackets the radius of a dense non-negative matrix by norms of powers: with s =
    /// ||M^(2^k)||_inf, lambda <= s^(1/2^k), and trace(M^(2^k)) <= n lambda^(2^k).
    fn by_powers(mut m: Vec<Vec<f64>>) -> (f64, f64) {
        let n = m.len();
        let norm = |m: &[Vec<f64>]| m.iter().map(|row| row.iter().sum::<f64>()).fold(0.0, f64::max);
        // ln of the factor taken out of M^(2^k), so that nothing overflows.
        let (mut logarithm, mut power) = (0.0, 1.0);
        for _ in 0..26 {
            let norm = norm(&m);
            if norm == 0.0 {
                return (0.0, 0.0);
            }
            logarithm += norm.ln();
            m.iter_mut().flatten().for_each(|x| *x /= norm);
            let entry = |i: usize, j: usize| m[i].iter().zip(&m).map(|(x, row)| x * row[j]).sum();
            m = (0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect();
            logarithm *= 2.0;
            power *= 2.0;
        }
        let trace: f64 = (0..n).map(|i| m[i][i]).sum();
        let root = |x: f64| ((x.ln() + logarithm) / power).exp();
        (root(trace / n as f64), root(norm(&m)))
    }

    /// The bracket of a graph. Powers of odd cycles have no trace, but those of M + cI do, and its
    /// radius is larger by c.
    fn dense_radius(graph: &Graph) -> (f64, f64) {
        let n = graph.nodes;
        let mut m = vec![vec![0.0f64; n]; n];
        for &(i, j, value) in &graph.entries {
            m[i][j] = f64::from(value);
        }
        let (low, high) = by_powers(m.clone());
        (0..n).for_each(|i| m[i][i] += high);
        let shifted = by_powers(m).0;
        (low.max(shifted - high - 1e-12 * high), high)
    }

    fn bound(graph: &Graph) -> SpectralBound {
        let (incoming, outgoing) = (graph.csr(false), graph.csr(true));
        SpectralBound::of(&incoming.view(), Some(&outgoing.view()), &SpectralParams::default())
    }

    #[test]
    fn it_is_an_upper_bound_of_dense_eigenvalues_and_close() {
        let mut random = Random::new(1);
        let (mut loose, graphs) = (0, cases(4000));
        for _ in 0..graphs {
            let mut graph = Graph::random(&mut random);
            if random.below(4) == 0 {
                graph = graph.renormalised();
            }
            let (low, high) = dense_radius(&graph);
            let found = bound(&graph);
            // The powers themselves are rounded: 2^26 relative errors of 1e-15 in a 2^26-th root.
            let slack = 1e-12 * high;
            assert!(found.rho >= low - slack, "{found:?} below {low}: {graph:?}");
            assert!(found.lower <= high + slack, "{found:?} above {high}: {graph:?}");
            assert_eq!(found.rho == 0.0, found.structure == Structure::Acyclic);
            if high == 0.0 {
                assert_eq!(found.rho, 0.0, "{graph:?}");
            } else {
                assert!(found.rho <= 1.01 * high, "{found:?} {high} {graph:?}");
                loose += usize::from(found.rho > high * (1.0 + 2.0 * TOLERANCE));
            }
        }
        assert!(loose <= graphs / 50, "{loose} of {graphs} bounds are loose");
    }

    #[test]
    fn the_bound_holds_after_any_number_of_sweeps() {
        let mut random = Random::new(2);
        for _ in 0..500 {
            let graph = Graph::random(&mut random);
            let incoming = graph.csr(false);
            let (low, high) = dense_radius(&graph);
            for max_sweeps in [1, 2, 5] {
                let params = SpectralParams { max_sweeps, ..SpectralParams::default() };
                let found = SpectralBound::of(&incoming.view(), None, &params);
                assert!(found.rho >= low * (1.0 - 1e-12) && found.lower <= high * (1.0 + 1e-12));
            }
        }
    }

    fn edges(nodes: usize, entries: impl IntoIterator<Item = (usize, usize)>) -> Graph {
        let entries = entries.into_iter().map(|(i, j)| (i, j, 1.0));
        Graph { nodes, entries: entries.collect() }
    }

    #[test]
    fn structures_are_recognised() {
        let path = bound(&edges(5, (0..4).map(|i| (i, i + 1))));
        assert_eq!((path.rho, path.structure), (0.0, Structure::Acyclic));
        assert_eq!(path.weight_radius(0.9), f64::INFINITY);
        let looped = bound(&edges(5, (0..4).map(|i| (i, i + 1)).chain([(2, 2)])));
        assert_eq!(looped.structure, Structure::General, "a stored diagonal is no DAG");
        assert!((looped.rho - 1.0).abs() < 1e-12);
        let cycle = bound(&edges(6, (0..6).flat_map(|i| [(i, (i + 1) % 6), ((i + 1) % 6, i)])));
        assert_eq!(cycle.structure, Structure::Regular);
        assert!((cycle.rho - 2.0).abs() < 1e-12 && cycle.rho >= 2.0);
        assert!(cycle.weight_radius(0.9) <= 0.45 && cycle.weight_radius(0.9) > 0.4499);
        // Every node has one edge out, but not one in: regular from the A side only.
        let funnel = bound(&edges(4, [(0, 1), (1, 0), (2, 0), (3, 0)]));
        assert_eq!(funnel.structure, Structure::Regular);
        assert_eq!(bound(&edges(3, [])).structure, Structure::Acyclic);
        assert_eq!(bound(&edges(0, [])).rho, 0.0);
    }

    #[test]
    fn scales_on_both_sides_are_the_renormalised_form() {
        let undirected = [(0, 1), (1, 0), (1, 2), (2, 1), (0, 0), (1, 1), (2, 2), (3, 3)];
        let directed = [(0, 1), (1, 2), (2, 0), (0, 2), (0, 0), (1, 1), (2, 2), (3, 3)];
        for (entries, needs_out) in [(undirected, false), (directed, true)] {
            let graph = edges(4, entries);
            let degree = |node| graph.entries.iter().filter(|entry| entry.0 == node).count() as f32;
            let scale: Vec<f32> = (0..4).map(|node| degree(node).sqrt().recip()).collect();
            let scaled = |csr: &Csr| {
                let csr: &'static Csr = Box::leak(Box::new(csr.clone()));
                let scale: &'static [f32] = scale.clone().leak();
                let plain = AdjacencyRef::new(4, &csr.offsets, &csr.neighbours).unwrap();
                plain.with_gather_scale(scale).with_row_scale(scale)
            };
            let (incoming, outgoing) = (scaled(&graph.csr(false)), scaled(&graph.csr(true)));
            let params = SpectralParams::default();
            let one_side = SpectralBound::of(&incoming, None, &params);
            assert_eq!(one_side.structure == Structure::Renormalised, !needs_out);
            let found = SpectralBound::of(&incoming, Some(&outgoing), &params);
            assert_eq!(found.structure, Structure::Renormalised);
            assert!((found.rho - 1.0).abs() < 3e-7 && found.sweeps == 0, "{found:?}");
        }
    }

    #[test]
    fn entries_that_are_not_finite_bound_nothing() {
        let graph = Graph { nodes: 2, entries: vec![(0, 1, f32::NAN), (1, 0, 1.0)] };
        let found = bound(&graph);
        assert_eq!((found.rho, found.structure), (f64::INFINITY, Structure::General));
    }
}
