//! The settings of a solve: the section `[solver]`.

use super::anderson::{DEPTH, MAX_DEPTH};
use super::fixed_point::{MAX_SWEEPS, Measure, PATIENCE, SolveParams, TOLERANCE};
use super::method::Method;
use crate::settings::{settings, words};

settings! {
    /// How equilibria and their gradients are solved.
    pub struct SolverConfig {
        /// A forward solve has converged when its relative residual, max |Delta| / max |X|, is at
        /// most this.
        tolerance: f64 = TOLERANCE, above(0.0);
        /// Largest number of sweeps in a solve, forward or adjoint.
        max_sweeps: usize = MAX_SWEEPS, at_least(1.0).at_most(1e6);
        /// A solve stops when its residual has not fallen for this many sweeps.
        patience: usize = PATIENCE, at_least(1.0).at_most(1e6);
        /// What a residual is relative to.
        measure: MeasureChoice = MeasureChoice::Auto;
        /// How equilibria are found. The record of each epoch says which method was used, and why.
        method: Method = Method::Auto;
        /// Number of earlier sweeps that Anderson acceleration combines. Each takes one state of
        /// 16-bit numbers.
        depth: usize = DEPTH, at_least(1.0).at_most(MAX_DEPTH as f64);
        /// The tolerance of adjoint solves.
        adjoint_tolerance: f64 = TOLERANCE, above(0.0);
        /// Lets solves of training steps stop early: at this fraction of their first residual,
        /// where that is above the tolerance. Evaluations always reach the tolerance. 0 turns it
        /// off.
        follow: f64 = 0.0, at_least(0.0).at_most(1.0);
        /// How the gradient passes through the equilibrium.
        gradient: GradientKind = GradientKind::Exact;
        /// Number of steps of the phantom gradient.
        phantom_steps: usize = 5, at_least(1.0).at_most(1e4);
        /// Weight of the new value in each step of the phantom gradient.
        phantom_damping: f64 = 0.5, above(0.0).at_most(1.0);
        /// Starts each solve from the result of the previous epoch.
        warm_start: bool = true;
        /// What happens when a solve does not converge.
        on_failure: OnFailure = OnFailure::Warn;
    }
}

words! {
    /// What the residual of a solve is relative to.
    pub enum MeasureChoice {
        /// `row` if `model.normalise_state` is set, `state` otherwise.
        Auto = "auto",
        /// The largest entry of the state.
        State = "state",
        /// The largest entry of each row. Also accurate for rows that are small because they are
        /// far from any input.
        Row = "row",
    }

    /// How the gradient passes through the equilibrium.
    pub enum GradientKind {
        /// Solves the adjoint equation.
        Exact = "exact",
        /// Treats the equilibrium as a single evaluation: one adjoint step.
        JacobianFree = "jacobian-free",
        /// Takes `phantom_steps` damped steps of the adjoint equation.
        Phantom = "phantom",
    }

    /// What happens when a solve does not converge.
    pub enum OnFailure {
        /// The run prints a note, counts the failure and continues.
        Warn = "warn",
        /// The run ends with an error.
        Stop = "stop",
    }
}

impl MeasureChoice {
    /// The measure, for a model that does or does not normalise the rows of its state.
    pub fn resolve(self, normalises_rows: bool) -> Measure {
        match self {
            Self::Auto if normalises_rows => Measure::Row,
            Self::Auto | Self::State => Measure::State,
            Self::Row => Measure::Row,
        }
    }
}

impl SolverConfig {
    /// When forward solves stop, for a model that does or does not normalise the rows of its state.
    pub fn forward(&self, normalises_rows: bool) -> SolveParams {
        SolveParams {
            tolerance: self.tolerance,
            max_sweeps: self.max_sweeps,
            patience: self.patience,
            measure: self.measure.resolve(normalises_rows),
            method: self.method,
            depth: self.depth,
            follow: 0.0,
            tight: false,
        }
    }
}
