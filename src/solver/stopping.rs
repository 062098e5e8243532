//! When a solve stops, and how many sweeps it still needs at its present rate.
//!
//! A solve stops after the sweep whose relative residual is at or below the tolerance, after
//! [`SolveParams::max_sweeps`], or when it stagnates: [`SolveParams::patience`] sweeps in a row
//! moved the state by no less than the smallest move so far. Moves are measured in the
//! certificate's norm where there is one. In that norm they fall in every sweep until rounding
//! stops them, while their plain maximum may rise for a while (a wave that travels along a chain).
//!
//! [`Stopping`] sees numbers only: it neither sweeps nor holds a state.

use super::fixed_point::{Measure, SolveParams};

/// How fast a solve converges, judged by its last two residuals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// The last residual divided by the one before; 0 after the first sweep.
    pub rate: f64,
    /// Sweeps until the tolerance at this rate; infinite where residuals do not fall.
    pub sweeps_left: f64,
}

impl Pace {
    fn between(before: f64, residual: f64, tolerance: f64) -> Self {
        let rate = residual / before;
        // A rising residual may be a wave, and how far it travels is unknown.
        let sweeps_left =
            if rate < 1.0 { (tolerance / residual).ln() / rate.ln() } else { f64::INFINITY };
        Self { rate, sweeps_left }
    }
}

/// What a sweep achieved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub pace: Pace,
    /// Whether the state moved less than in any sweep before.
    pub is_smallest_move: bool,
    /// Whether the residual is at or below the tolerance.
    pub is_within_tolerance: bool,
}

/// A state of a solve without certificate: its buffer, and the residual of the sweep that read it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Best {
    pub buffer: usize,
    pub residual: f64,
}

/// The stopping criterion of a solve.
#[derive(Debug)]
pub(super) struct Stopping {
    params: SolveParams,
    is_certified: bool,
    /// Residual to reach; known after the first sweep where [`SolveParams::follow`] is set.
    pub tolerance: f64,
    pub sweeps: usize,
    /// Residual of the last sweep.
    pub residual: f64,
    smallest_move: f32,
    /// Sweeps since the smallest move.
    stalled: usize,
    best: Option<Best>,
}

impl Stopping {
    pub fn new(params: &SolveParams, is_certified: bool) -> Self {
        Self {
            params: *params,
            is_certified,
            tolerance: params.tolerance,
            sweeps: 0,
            residual: f64::INFINITY,
            smallest_move: f32::INFINITY,
            stalled: 0,
            best: None,
        }
    }

    /// Whether another sweep is allowed.
    pub fn may_sweep(&self) -> bool {
        self.sweeps < self.params.max_sweeps
    }

    /// Whether the solve may end after the next sweep even if it does not converge: the sweep then
    /// has to compute all rows.
    pub fn next_may_be_last(&self) -> bool {
        self.sweeps + 1 == self.params.max_sweeps || self.is_stalled_for(self.stalled + 1)
    }

    /// Takes note of a sweep that read the state in `buffer`, left a relative residual and moved
    /// the state by `moved`: in the certificate's norm, or in the maximum norm without one.
    pub fn observe(&mut self, buffer: usize, residual: f64, moved: f32) -> Progress {
        self.sweeps += 1;
        if self.sweeps == 1 {
            self.tolerance = self.params.target(residual);
        }
        let pace = Pace::between(self.residual, residual, self.tolerance);
        let is_smallest_move = moved < self.smallest_move;
        self.stalled = if is_smallest_move { 0 } else { self.stalled + 1 };
        if is_smallest_move && !self.is_certified {
            // The sweep read this state: the residual is its own, not that of the state written.
            self.best = Some(Best { buffer, residual });
        }
        self.smallest_move = self.smallest_move.min(moved);
        self.residual = residual;
        Progress { pace, is_smallest_move, is_within_tolerance: residual <= self.tolerance }
    }

    /// Whether moves have not become smaller for too long.
    pub fn is_stagnant(&self) -> bool {
        self.is_stalled_for(self.stalled)
    }

    /// Starts counting anew: the solve goes on by another method.
    pub fn reset_patience(&mut self) {
        self.stalled = 0;
    }

    /// The state that a sweep moved least, of a solve without certificate. Sweeps of a certified
    /// solve contract, so that its newest state is the best one.
    pub fn best(&self) -> Option<Best> {
        self.best
    }

    /// Patience does not apply to residuals by row: the front of a wave moves by as much as it is,
    /// sweep after sweep.
    fn is_stalled_for(&self, sweeps: usize) -> bool {
        self.params.measure != Measure::Row && sweeps >= self.params.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> SolveParams {
        SolveParams { tolerance: 1e-4, max_sweeps: 100, patience: 3, ..SolveParams::default() }
    }

    #[test]
    fn the_pace_of_geometric_residuals_gives_the_sweeps_left() {
        let mut stopping = Stopping::new(&params(), true);
        let first = stopping.observe(0, 1.0, 1.0);
        assert_eq!(first.pace.rate, 0.0, "a single residual has no rate");
        let second = stopping.observe(1, 0.1, 0.1);
        assert!((second.pace.rate - 0.1).abs() < 1e-12);
        // 0.1 * 0.1^3 = 1e-4
        assert!((second.pace.sweeps_left - 3.0).abs() < 1e-9, "{second:?}");
        assert!(!second.is_within_tolerance && stopping.observe(0, 1e-4, 1e-4).is_within_tolerance);
        let rising = stopping.observe(1, 2e-4, 2e-4);
        assert_eq!((rising.pace.rate, rising.pace.sweeps_left), (2.0, f64::INFINITY));
    }

    #[test]
    fn it_stagnates_after_patience_sweeps_without_a_smaller_move() {
        let mut stopping = Stopping::new(&params(), true);
        stopping.observe(0, 1.0, 1.0);
        for (moved, is_stagnant) in [(1.0, false), (1.5, false), (0.9, false), (0.9, false)] {
            stopping.observe(0, 1.0, moved);
            assert_eq!(stopping.is_stagnant(), is_stagnant);
        }
        assert!(!stopping.next_may_be_last());
        stopping.observe(0, 1.0, f32::NAN);
        assert!(stopping.next_may_be_last() && !stopping.is_stagnant());
        stopping.observe(0, 1.0, 2.0);
        assert!(stopping.is_stagnant());
        stopping.reset_patience();
        assert!(!stopping.is_stagnant());
        let mut by_row = Stopping::new(&SolveParams { measure: Measure::Row, ..params() }, true);
        (0..50).for_each(|_| {
            by_row.observe(0, 1.0, 1.0);
        });
        assert!(!by_row.is_stagnant() && !by_row.next_may_be_last());
    }

    #[test]
    fn the_last_sweep_is_announced() {
        let mut stopping = Stopping::new(&SolveParams { max_sweeps: 2, ..params() }, true);
        assert!(stopping.may_sweep() && !stopping.next_may_be_last());
        stopping.observe(0, 1.0, 1.0);
        assert!(stopping.may_sweep() && stopping.next_may_be_last());
        stopping.observe(1, 0.9, 0.9);
        assert!(!stopping.may_sweep());
    }

    #[test]
    fn only_a_solve_without_certificate_remembers_its_best_state() {
        let (mut certified, mut other) =
            (Stopping::new(&params(), true), Stopping::new(&params(), false));
        for (buffer, residual, moved) in [(2, 1.0, 1.0), (0, 0.5, 0.4), (1, 0.7, 0.6)] {
            certified.observe(buffer, residual, moved);
            other.observe(buffer, residual, moved);
        }
        assert_eq!(certified.best(), None);
        assert_eq!(other.best(), Some(Best { buffer: 0, residual: 0.5 }));
    }

    #[test]
    fn a_solve_that_follows_takes_its_tolerance_from_the_first_residual() {
        let tolerance = |first: f64| {
            let mut stopping = Stopping::new(&SolveParams { follow: 0.1, ..params() }, true);
            stopping.observe(0, first, 1.0);
            stopping.observe(1, first / 10.0, 0.1);
            stopping.tolerance
        };
        assert_eq!(tolerance(0.05), 0.05 * 0.1);
        assert_eq!(tolerance(1e-9), 1e-4, "never below the tolerance asked for");
        assert_eq!(tolerance(1.0), super::super::fixed_point::LOOSEST);
    }
}
