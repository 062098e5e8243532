//! Anderson mixing: extrapolates a slow solve from its last few sweeps. It proposes a state to
//! continue from; the caller judges the proposal by the next sweep (`acceleration`).
//!
//! Sweep j takes the state x_j to g_j and moves it by f_j = g_j - x_j. Let c minimise
//! `| f_n - sum_j c_j (f_{j+1} - f_j) |` over the last sweeps. The proposal is
//! `g_n - sum_j c_j (g_{j+1} - g_j)`: the secant method in as many directions as sweeps are kept
//! (`depth` of them). For a linear equation with no more directions than that it is exact.
//!
//! Only moves are kept, as 16-bit floats. If x_{j+1} is g_j, then g_{j+1} - g_j is f_{j+1}; if
//! x_{j+1} is a proposal, the jump from g_j to it is added. A solve therefore has two states in
//! f32, as without mixing. Rounding a move to 11 bits loses a fraction of that move, which vanishes
//! with it.
//!
//! Proposals are made every `PERIOD` sweeps, with plain sweeps in between. That cuts the memory
//! traffic to a third for about a tenth more sweeps.
//!
//! The small system is scaled to a unit diagonal with a ridge and solved in f64 by Cholesky, newest
//! directions first; a direction that the earlier ones nearly span is left out. Products are summed
//! in a fixed order: the same bits on any number of threads.

use half::f16;

use crate::dense::Matrix;
use crate::kernels::mixing::{self, Mixing, Products, STEPS, Scaled};

/// Default of [`super::SolveParams::depth`].
pub const DEPTH: usize = 5;
/// Largest depth.
pub const MAX_DEPTH: usize = STEPS - 1;
/// Sweeps from one proposal to the next.
pub(super) const PERIOD: usize = 3;
/// Added to the unit diagonal of the small system.
const RIDGE: f64 = 1e-9;
/// A direction is left out if the square of its new part is below this.
const LEAST_PIVOT: f64 = 1e-7;
/// Largest sum of the factors of a proposal: larger ones would amplify rounding.
const LARGEST_FACTORS: f64 = 1e4;

/// Number of 16-bit buffers, for moves and jumps, that mixing of a depth needs.
pub(super) fn buffers(depth: usize) -> usize {
    if depth == 0 { 0 } else { depth + 1 + (depth + 1).div_ceil(PERIOD) }
}

/// A sweep: its move, and the jump from its result to where the next one started. Both are 16-bit
/// buffers of the workspace, each with its unit.
#[derive(Debug)]
struct Step {
    moved: (usize, f32),
    jump: Option<(usize, f32)>,
}

/// The last sweeps of a solve, oldest first.
#[derive(Debug)]
pub(super) struct History {
    depth: usize,
    steps: Vec<Step>,
    since: usize,
}

impl History {
    pub fn new(depth: usize) -> Self {
        let depth = depth.clamp(1, MAX_DEPTH);
        Self { depth, steps: Vec::with_capacity(depth + 1), since: 0 }
    }

    /// Whether a buffer is still needed.
    pub fn uses(&self, buffer: usize) -> bool {
        self.steps
            .iter()
            .any(|step| step.moved.0 == buffer || step.jump.is_some_and(|jump| jump.0 == buffer))
    }

    /// Drops the oldest sweep if the next one would exceed the depth.
    pub fn make_room(&mut self) {
        if self.steps.len() > self.depth {
            self.steps.remove(0);
        }
    }

    /// Adds a sweep, given the buffer of its move.
    pub fn note(&mut self, buffer: usize, unit: f32) {
        self.steps.push(Step { moved: (buffer, unit), jump: None });
        self.since += 1;
    }

    /// Drops all sweeps.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.since = 0;
    }

    /// Whether a proposal is due.
    pub fn is_due(&self) -> bool {
        self.since >= PERIOD && self.steps.len() > 1
    }

    /// Writes a proposal to `to`, from the state that the last sweep wrote, and its jump to a free
    /// buffer, given with its number. Returns `false` if the small system has no usable solution.
    pub fn propose(
        &mut self,
        mixing: &Mixing,
        from: &Matrix,
        to: &mut Matrix,
        kept_moves: &[Matrix<f16>],
        (jump, jumped): (usize, &mut Matrix<f16>),
    ) -> bool {
        self.since = 0;
        let of = |place: (usize, f32)| Scaled { matrix: &kept_moves[place.0], unit: place.1 };
        let moves: Vec<Scaled<'_>> = self.steps.iter().map(|step| of(step.moved)).collect();
        let Some(factors) = factors(&mixing.products(&moves), moves.len()) else { return false };
        // -c_j (f_{j+1} + jump_j)
        let mut parts: Vec<((usize, f32), f64)> = Vec::with_capacity(2 * self.steps.len());
        for (pair, c) in self.steps.windows(2).zip(&factors).filter(|(_, c)| **c != 0.0) {
            parts.push((pair[1].moved, -c));
            parts.extend(pair[0].jump.map(|jump| (jump, -c)));
        }
        let size: f64 = parts.iter().map(|(place, factor)| f64::from(place.1) * factor.abs()).sum();
        let unit = mixing::unit(size as f32);
        let parts: Vec<(&Matrix<f16>, f32)> = parts
            .iter()
            .map(|(place, factor)| (&kept_moves[place.0], (f64::from(place.1) * factor) as f32))
            .collect();
        mixing.mix(from, &parts, to, (jumped, unit));
        if let Some(last) = self.steps.last_mut() {
            last.jump = Some((jump, unit));
        }
        true
    }
}

/// c_0, ..., c_{n-1}: the factors of the differences of moves.
fn factors(products: &Products, steps: usize) -> Option<Vec<f64>> {
    let last = steps - 1;
    // Newest directions first, so that `LEAST_PIVOT` leaves out old ones.
    let direction = |at: usize| last - 1 - at;
    let scale: Vec<f64> =
        (0..last).map(|at| products.at(direction(at), direction(at)).sqrt()).collect();
    let mut lower: Vec<Vec<f64>> = Vec::new();
    let mut kept: Vec<usize> = Vec::new();
    let mut forward: Vec<f64> = Vec::new();
    for at in 0..last {
        if !(scale[at].is_normal() && scale[at] > 0.0) {
            continue;
        }
        let with =
            |other: usize| products.at(direction(at), direction(other)) / scale[at] / scale[other];
        let mut row: Vec<f64> = Vec::new();
        for (&other, above) in kept.iter().zip(&lower) {
            let done: f64 = row.iter().zip(above).map(|(a, b)| a * b).sum();
            row.push((with(other) - done) / above[row.len()]);
        }
        let pivot = 1.0 + RIDGE - row.iter().map(|x| x * x).sum::<f64>();
        if pivot.is_nan() || pivot < LEAST_PIVOT {
            continue;
        }
        let right = products.at(direction(at), last) / scale[at];
        let done: f64 = row.iter().zip(&forward).map(|(a, b)| a * b).sum();
        row.push(pivot.sqrt());
        forward.push((right - done) / row[row.len() - 1]);
        lower.push(row);
        kept.push(at);
    }
    let mut solution = vec![0.0; kept.len()];
    for at in (0..kept.len()).rev() {
        let done: f64 = (at + 1..kept.len()).map(|below| lower[below][at] * solution[below]).sum();
        solution[at] = (forward[at] - done) / lower[at][at];
    }
    let mut factors = vec![0.0; last];
    for (&at, solution) in kept.iter().zip(solution) {
        factors[direction(at)] = solution / scale[at];
    }
    // The factors of the states g_0, ..., g_n.
    let of_state = |j: usize| {
        let before = if j == 0 { 0.0 } else { factors[j - 1] };
        let after = if j == last { 1.0 } else { factors[j] };
        after - before
    };
    let size: f64 = (0..steps).map(|j| of_state(j).abs()).sum();
    (!kept.is_empty() && size <= LARGEST_FACTORS).then_some(factors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::rounded;
    use crate::parallel::{RowBlocks, Rows};

    /// x' = M x + b for a diagonal M is solved by as many directions as M has different entries.
    /// The second proposal looks back across the jump of the first.
    #[test]
    fn a_linear_equation_of_few_directions_is_solved() {
        let diagonal = [0.9f32, 0.5, -0.3, 0.9];
        let sweep = |x: &Matrix| Matrix::from_fn(4, 1, |i, _| diagonal[i] * x.row(i)[0] + 1.0);
        let mut state = Matrix::zeros(4, 1);
        let mut kept_moves: Vec<Matrix<f16>> = Vec::new();
        let mut history = History::new(5);
        let mixing = Mixing::new(&Rows::alone(RowBlocks::for_sums(4, &[])), 1);
        let off = |state: &Matrix| {
            let off = |(i, d): (usize, &f32)| (state.row(i)[0] - 1.0 / (1.0 - d)).abs();
            diagonal.iter().enumerate().map(off).fold(0.0, f32::max)
        };
        for least in [0.02, 1e-4] {
            for _ in 0..4 {
                let next = sweep(&state);
                let moved = Matrix::from_fn(4, 1, |i, _| next.row(i)[0] - state.row(i)[0]);
                let unit = mixing::unit(moved.row(0)[0].abs());
                history.make_room();
                history.note(kept_moves.len(), unit);
                kept_moves.push(rounded(&moved, unit));
                state = next;
            }
            let mut to = Matrix::zeros(4, 1);
            let mut jump = Matrix::blank(4, 1);
            let place = (kept_moves.len(), &mut jump);
            assert!(history.is_due());
            assert!(history.propose(&mixing, &state, &mut to, &kept_moves, place));
            kept_moves.push(jump);
            state = to;
            assert!(off(&state) < least, "{} {least}", off(&state));
        }
    }

    #[test]
    fn singular_systems_give_no_proposal_or_use_fewer_directions() {
        let still = Matrix::blank(3, 2);
        let mixing = Mixing::new(&Rows::alone(RowBlocks::for_sums(3, &[])), 2);
        let moves = [Scaled { matrix: &still, unit: 1.0 }; 2];
        assert_eq!(factors(&mixing.products(&moves), 2), None);
        // Moves that are multiples of each other: one direction is used, the others left out.
        let states = [0.0f32, 1.0, 1.5, 1.75, 1.875];
        let moves: Vec<_> =
            states.windows(2).map(|pair| Matrix::from_fn(3, 2, |_, _| pair[1] - pair[0])).collect();
        let mut kept_moves: Vec<_> = moves.iter().map(|moved| rounded(moved, 1.0)).collect();
        let found = |kept_moves: &[Matrix<f16>]| {
            let moves: Vec<_> =
                kept_moves.iter().map(|matrix| Scaled { matrix, unit: 1.0 }).collect();
            factors(&mixing.products(&moves), 4)
        };
        let c = found(&kept_moves).unwrap();
        let limit: f64 = 1.875 - c.iter().zip([0.5, 0.25, 0.125]).map(|(c, f)| c * f).sum::<f64>();
        assert!((limit - 2.0).abs() < 1e-6, "{c:?}");
        // NaN gives no proposal.
        kept_moves[3].row_mut(1)[0] = f16::from_f32(f32::NAN);
        assert_eq!(found(&kept_moves), None);
    }
}
