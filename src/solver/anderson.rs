//! Anderson mixing: from the last few sweeps of a slow solve, where they are heading. It proposes a
//! state to go on from; what that is worth is told by the next sweep, which the caller watches.
//!
//! A sweep takes x_j to g_j and moves it by f_j = g_j - x_j. With c the least-squares solution of
//! `f_n ~ sum_j c_j (f_{j+1} - f_j)` over the last sweeps, the proposal is `g_n - sum_j c_j
//! (g_{j+1} - g_j)`: the secant method in as many directions as sweeps are kept (`depth` of them).
//! For a linear equation with no more directions than that it is exact.
//!
//! Only moves are kept, in 16 bits: where x_{j+1} is g_j, g_{j+1} - g_j is f_{j+1}, and where it is
//! a proposal, the jump from g_j to it comes on top. So a solve has two states of 32 bits, as a
//! plain one, and what rounding a move to 11 bits loses is a part of that move: it fades with them.
//!
//! Proposals are made every `PERIOD` sweeps, and the sweeps between them are plain, which cuts the
//! bytes moved to a third, for about a tenth more sweeps.
//!
//! The small system is solved in f64 by Cholesky, scaled to a unit diagonal with a ridge;
//! directions that those before them nearly span, newest first, are left out. Products are summed
//! in a fixed order: the same bits on any number of threads.

use half::f16;

use crate::dense::Matrix;
use crate::kernels::mixing::{self, Mixing, Products, STEPS, Scaled};

/// Default of [`super::SolveParams::depth`]: sweeps that are looked back on.
pub const DEPTH: usize = 5;
/// Largest depth.
pub const MAX_DEPTH: usize = STEPS - 1;
/// Sweeps from one proposal to the next.
pub(super) const PERIOD: usize = 3;
/// Added to the unit diagonal of the small system.
const RIDGE: f64 = 1e-9;
/// A direction of which less than this is new, squared, is left out.
const LEAST_PIVOT: f64 = 1e-7;
/// Factors of a proposal larger than this together would turn rounding into noise.
const LARGEST_FACTORS: f64 = 1e4;

/// Moves and jumps that mixing of a depth keeps, in 16 bits.
pub(super) fn buffers(depth: usize) -> usize {
    if depth == 0 { 0 } else { depth + 1 + (depth + 1).div_ceil(PERIOD) }
}

/// A sweep: what it moved, and how far the next one began from where it ended; places among short
/// matrices, with their units.
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

    /// Whether a short matrix is still needed.
    pub fn uses(&self, short: usize) -> bool {
        self.steps
            .iter()
            .any(|step| step.moved.0 == short || step.jump.is_some_and(|jump| jump.0 == short))
    }

    /// Forgets the oldest sweep where the next one would be too many.
    pub fn make_room(&mut self) {
        if self.steps.len() > self.depth {
            self.steps.remove(0);
        }
    }

    /// Notes a sweep by what it moved.
    pub fn note(&mut self, short: usize, unit: f32) {
        self.steps.push(Step { moved: (short, unit), jump: None });
        self.since += 1;
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.since = 0;
    }

    /// Whether it is time for a proposal.
    pub fn is_due(&self) -> bool {
        self.since >= PERIOD && self.steps.len() > 1
    }

    /// Writes a proposal, from the state that the last sweep wrote, both with their units; `false`
    /// where the small system gives none. Last a short matrix that is free, and its place.
    pub fn propose(
        &mut self,
        mixing: &Mixing,
        from: &Matrix,
        to: &mut Matrix,
        shorts: &[Matrix<f16>],
        (jump, jumped): (usize, &mut Matrix<f16>),
    ) -> bool {
        self.since = 0;
        let of = |place: (usize, f32)| Scaled { matrix: &shorts[place.0], unit: place.1 };
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
            .map(|(place, factor)| (&shorts[place.0], (f64::from(place.1) * factor) as f32))
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
    // Newest directions first: `LEAST_PIVOT` leaves out the old.
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
    // What the states g_0, ..., g_n are multiplied by.
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
    use crate::kernels::naive::shortened;

    /// x' = M x + b for a diagonal M: as many directions as there are different entries solve it,
    /// by a proposal after some sweeps and then again, over its jump.
    #[test]
    fn a_linear_equation_of_few_directions_is_solved() {
        let diagonal = [0.9f32, 0.5, -0.3, 0.9];
        let sweep = |x: &Matrix| Matrix::from_fn(4, 1, |i, _| diagonal[i] * x.row(i)[0] + 1.0);
        let mut state = Matrix::zeros(4, 1);
        let mut shorts: Vec<Matrix<f16>> = Vec::new();
        let mut history = History::new(5);
        let mixing = Mixing::new(4, 1);
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
                history.note(shorts.len(), unit);
                shorts.push(shortened(&moved, unit));
                state = next;
            }
            let mut to = Matrix::zeros(4, 1);
            let mut jump = Matrix::blank(4, 1);
            let place = (shorts.len(), &mut jump);
            assert!(history.is_due());
            assert!(history.propose(&mixing, &state, &mut to, &shorts, place));
            shorts.push(jump);
            state = to;
            assert!(off(&state) < least, "{} {least}", off(&state));
        }
    }

    #[test]
    fn systems_without_a_solution_give_nothing_or_the_last_state() {
        let still = Matrix::blank(3, 2);
        let mixing = Mixing::new(3, 2);
        let moves = [Scaled { matrix: &still, unit: 1.0 }; 2];
        assert_eq!(factors(&mixing.products(&moves), 2), None);
        // Moves that are multiples of each other: one direction is used, the others left out.
        let states = [0.0f32, 1.0, 1.5, 1.75, 1.875];
        let moves: Vec<_> =
            states.windows(2).map(|pair| Matrix::from_fn(3, 2, |_, _| pair[1] - pair[0])).collect();
        let mut shorts: Vec<_> = moves.iter().map(|moved| shortened(moved, 1.0)).collect();
        let found = |shorts: &[Matrix<f16>]| {
            let moves: Vec<_> = shorts.iter().map(|matrix| Scaled { matrix, unit: 1.0 }).collect();
            factors(&mixing.products(&moves), 4)
        };
        let c = found(&shorts).unwrap();
        let limit: f64 = 1.875 - c.iter().zip([0.5, 0.25, 0.125]).map(|(c, f)| c * f).sum::<f64>();
        assert!((limit - 2.0).abs() < 1e-6, "{c:?}");
        // Not a number anywhere: nothing.
        shorts[3].row_mut(1)[0] = f16::from_f32(f32::NAN);
        assert_eq!(found(&shorts), None);
    }
}
