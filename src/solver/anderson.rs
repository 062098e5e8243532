//! Anderson mixing: from the last few sweeps of a slow solve, where they are heading.
//! It proposes a state to go on from; what that is worth is told by the next sweep, which the caller watches.
//!
//! A sweep takes x_j to g_j and moves it by f_j = g_j - x_j. With c the least-squares solution of
//! `f_n ~ sum_j c_j (f_{j+1} - f_j)` over the last sweeps, the proposal is `g_n - sum_j c_j (g_{j+1} - g_j)`: the secant
//! method in as many directions as sweeps are kept (`depth` of them). For a linear equation with no more directions than that it is exact.
//!
//! Proposals are made every `PERIOD` sweeps, and the sweeps between them are plain: states are then shared by neighbouring
//! sweeps, which halves what is kept and cuts the bytes moved to a third, for about a tenth more sweeps.
//!
//! The small system is solved in f64 by Cholesky, scaled to a unit diagonal with a ridge; directions that those before
//! them nearly span, newest first, are left out. Products are summed in a fixed order: the same bits on any number of threads.

use crate::dense::Matrix;
use crate::kernels::mixing::{Mixing, Products, STEPS};

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

/// States that mixing of a depth keeps beside the two of a plain solve: the sweeps, an end for each run of them, and one to write to.
pub(super) fn buffers(depth: usize) -> usize {
    if depth == 0 { 0 } else { depth + depth.div_ceil(PERIOD) }
}

/// The last sweeps of a solve: which buffers they read and wrote, oldest first.
#[derive(Debug)]
pub(super) struct History {
    depth: usize,
    steps: Vec<(usize, usize)>,
    since: usize,
}

impl History {
    pub fn new(depth: usize) -> Self {
        let depth = depth.clamp(1, MAX_DEPTH);
        Self { depth, steps: Vec::with_capacity(depth + 1), since: 0 }
    }

    /// Whether a buffer is still needed.
    pub fn uses(&self, buffer: usize) -> bool {
        self.steps.iter().any(|step| step.0 == buffer || step.1 == buffer)
    }

    /// Forgets the oldest sweep where the next one would be too many.
    pub fn make_room(&mut self) {
        if self.steps.len() > self.depth {
            self.steps.remove(0);
        }
    }

    /// Notes a sweep.
    pub fn note(&mut self, from: usize, to: usize) {
        self.steps.push((from, to));
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

    /// A proposal: the buffer that it is in; none where the small system gives none. A pinned buffer is not written to.
    pub fn propose(
        &mut self,
        buffers: &mut [Matrix],
        mixing: &Mixing,
        pinned: Option<usize>,
    ) -> Option<usize> {
        self.since = 0;
        // What the oldest sweep read is no part of the mixture: its memory takes the result.
        if self.steps.len() > 2 && pinned == Some(self.steps[0].0) {
            self.steps.remove(0);
        }
        let target = self.steps[0].0;
        if pinned == Some(target) {
            return None;
        }
        let steps: Vec<(&Matrix, &Matrix)> =
            self.steps.iter().map(|step| (&buffers[step.0], &buffers[step.1])).collect();
        let factors = factors(&mixing.products(&steps), steps.len())?;
        let mut to = std::mem::replace(&mut buffers[target], Matrix::zeros(0, 0));
        let parts: Vec<(&Matrix, f32)> = self
            .steps
            .iter()
            .zip(&factors)
            .map(|(step, &factor)| (&buffers[step.1], factor as f32))
            .collect();
        mixing.mix(&parts, &mut to);
        buffers[target] = to;
        self.steps.remove(0);
        Some(target)
    }
}

/// The factors of g_0, g_1, ..., g_n in a proposal; they sum to 1.
fn factors(products: &Products, steps: usize) -> Option<Vec<f64>> {
    let last = steps - 1;
    // Newest directions first: `LEAST_PIVOT` leaves out the old.
    let direction = |at: usize| last - 1 - at;
    let scale: Vec<f64> = (0..last).map(|at| products.at(direction(at), direction(at)).sqrt()).collect();
    let mut lower: Vec<Vec<f64>> = Vec::new();
    let mut kept: Vec<usize> = Vec::new();
    let mut forward: Vec<f64> = Vec::new();
    for at in 0..last {
        if !(scale[at].is_normal() && scale[at] > 0.0) {
            continue;
        }
        let with = |other: usize| products.at(direction(at), direction(other)) / scale[at] / scale[other];
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
    let mut factors = vec![0.0; steps];
    factors[last] = 1.0;
    for (&at, solution) in kept.iter().zip(solution) {
        let c = solution / scale[at];
        factors[direction(at) + 1] -= c;
        factors[direction(at)] += c;
    }
    let size: f64 = factors.iter().map(|x| x.abs()).sum();
    (!kept.is_empty() && size <= LARGEST_FACTORS).then_some(factors)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// x' = M x + b for a diagonal M: as many directions as there are different entries solve it.
    #[test]
    fn a_linear_equation_of_few_directions_is_solved() {
        let diagonal = [0.9f32, 0.5, -0.3, 0.9];
        let sweep = |x: &Matrix| Matrix::from_fn(4, 1, |i, _| diagonal[i] * x.row(i)[0] + 1.0);
        let mut buffers = vec![Matrix::zeros(4, 1)];
        let mut history = History::new(5);
        for at in 0..4 {
            buffers.push(sweep(&buffers[at]));
            history.note(at, at + 1);
        }
        let mixing = Mixing::new(&buffers[0]);
        let at = history.propose(&mut buffers, &mixing, None).unwrap();
        for (i, d) in diagonal.iter().enumerate() {
            assert!((buffers[at].row(i)[0] - 1.0 / (1.0 - d)).abs() < 1e-3, "{:?}", buffers[at].row(i));
        }
    }

    #[test]
    fn systems_without_a_solution_give_nothing_or_the_last_state() {
        let still = [Matrix::zeros(3, 2), Matrix::zeros(3, 2), Matrix::zeros(3, 2)];
        let mixing = Mixing::new(&still[0]);
        let steps: Vec<_> = still.windows(2).map(|pair| (&pair[0], &pair[1])).collect();
        assert_eq!(factors(&mixing.products(&steps), 2), None);
        // Steps that are multiples of each other: one direction is used, the others left out.
        let state = |x: f32| Matrix::from_fn(3, 2, |_, _| x);
        let states: Vec<_> = [0.0, 1.0, 1.5, 1.75, 1.875].map(state).into();
        let steps: Vec<_> = states.windows(2).map(|pair| (&pair[0], &pair[1])).collect();
        let factors = factors(&mixing.products(&steps), 4).unwrap();
        let limit: f64 = factors.iter().zip([1.0, 1.5, 1.75, 1.875]).map(|(f, x)| f * x).sum();
        assert!((limit - 2.0).abs() < 1e-6 && (factors.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // Not a number anywhere: nothing.
        let mut wrong = states.clone();
        wrong[2].row_mut(1)[0] = f32::NAN;
        let steps: Vec<_> = wrong.windows(2).map(|pair| (&pair[0], &pair[1])).collect();
        assert_eq!(super::factors(&mixing.products(&steps), 4), None);
    }
}
