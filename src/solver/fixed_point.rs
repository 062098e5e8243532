//! Sweeps repeated until the state stays: the forward equilibrium and the adjoint, one loop for both.
//! It knows when to stop and what to say about the result; how a sweep is computed is for `kernels`.
//!
//! Stopping: the relative residual of a sweep ([`Measure`]) at or below the tolerance; or the sweeps are used
//! up; or the residual (in the certificate's norm, where there is one) has not fallen for [`SolveParams::patience`]
//! sweeps. In every case the state is the best there
//! is, and [`SolveInfo`] tells which case it was. NaN and infinity are errors that name their origin.
//! The same bits for any number of threads.
//!
//! Best iterate: where a certificate holds, sweeps contract and the newest state is the best. Elsewhere the state
//! that a sweep moved least is kept, by turning three buffers around instead of copying. Memory: the state and its
//! [`Workspace`].

use std::time::Instant;

use serde::Serialize;

use super::certificate::{Certificate, ErrorBound};
use super::workspace::Workspace;
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::sweep::Sweep;
use crate::kernels::{Activation, Change, Derivative, Norm};

/// Default of [`SolveParams::tolerance`].
pub const TOLERANCE: f64 = 1e-5;
/// Default of [`SolveParams::max_sweeps`].
pub const MAX_SWEEPS: usize = 300;
/// Default of [`SolveParams::patience`].
pub const PATIENCE: usize = 20;

/// States smaller than this are taken for zero: a residual relative to them would mean nothing.
const TINY: f64 = f32::MIN_POSITIVE as f64;

/// Rows below this part of the state's largest entry have faded away: no residual is relative to them.
pub(super) const FADED: f32 = 1e-12;

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolveParams {
    /// Relative residual to reach.
    pub tolerance: f64,
    /// Sweeps at most.
    pub max_sweeps: usize,
    /// Sweeps without a smaller residual before the solve gives up: rounding, or no convergence at all.
    pub patience: usize,
    /// What the residual is relative to.
    pub measure: Measure,
}

/// What a residual is relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The largest entry of the state: max |Delta| / max |X|.
    #[default]
    State,
    /// Each row for itself, the worst of those that have not faded (below 1e-12 of the largest entry):
    /// max_i (max_k |Delta_ik| / max_k |X_ik|). For states that fade along
    /// long paths and are read row by row, where nodes far from any input would otherwise be left at zero. Patience does
    /// not apply: a wave that travels moves its front by as much as it is, sweep after sweep.
    Row,
}

impl Default for SolveParams {
    fn default() -> Self {
        Self { tolerance: TOLERANCE, max_sweeps: MAX_SWEEPS, patience: PATIENCE, measure: Measure::default() }
    }
}

/// Why a solve stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// The residual is at or below the tolerance.
    Converged,
    /// The sweeps were used up.
    MaxSweeps,
    /// The residual does not fall any more.
    Stagnated,
    /// A set number of sweeps was asked for: see [`super::truncated`].
    Truncated,
}

/// What a solve did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SolveInfo {
    /// Sweeps made.
    pub sweeps: usize,
    /// By the measure asked for, of the sweep that gave the state, or, of a best state that was kept, of the one that read it.
    pub relative_residual: f64,
    /// The contraction bound, where it is below 1.
    pub contraction: Option<f64>,
    /// How far the state is from the equilibrium at most, where that is certified.
    pub certified_error: Option<ErrorBound>,
    /// Whether the tolerance was reached.
    pub converged: bool,
    /// Why it stopped.
    pub stopped: Stopped,
    /// Wall time.
    pub seconds: f64,
}

impl SolveInfo {
    /// Several solves as one: sweeps and seconds summed, the worst of the rest; none of none.
    pub fn together(solves: &[Self]) -> Option<Self> {
        let (first, rest) = solves.split_first()?;
        Some(rest.iter().fold(*first, |sum, next| {
            let worse = |a: Option<f64>, b: Option<f64>| Some(a?.max(b?));
            let error = |a: Option<ErrorBound>, b: Option<ErrorBound>| {
                let (a, b) = (a?, b?);
                Some(if b.largest > a.largest { b } else { a })
            };
            Self {
                sweeps: sum.sweeps + next.sweeps,
                relative_residual: sum.relative_residual.max(next.relative_residual),
                contraction: worse(sum.contraction, next.contraction),
                certified_error: error(sum.certified_error, next.certified_error),
                converged: sum.converged && next.converged,
                stopped: if sum.converged { next.stopped } else { sum.stopped },
                seconds: sum.seconds + next.seconds,
            }
        }))
    }
}

/// A number that is none, by its origin; or a solve that cannot be trusted to end where it should.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SolveError {
    /// In the input term.
    #[error("{direction} solve: row {row} of the input is not finite (found {found})")]
    Input {
        /// "forward" or "adjoint".
        direction: &'static str,
        /// The first such row.
        row: usize,
        /// The entry.
        found: f32,
    },
    /// In a weight.
    #[error("{direction} solve: a weight of relation {relation} is not finite (found {found})")]
    Weight {
        /// "forward" or "adjoint".
        direction: &'static str,
        /// Position of the relation.
        relation: usize,
        /// The entry.
        found: f32,
    },
    /// In an adjacency.
    #[error("{direction} solve: an edge of node {row} in relation {relation} is not finite (found {found})")]
    Edge {
        /// "forward" or "adjoint".
        direction: &'static str,
        /// Position of the relation.
        relation: usize,
        /// The first row with such an entry.
        row: usize,
        /// The entry.
        found: f32,
    },
    /// In the state that the solve started from.
    #[error("{direction} solve: row {row} of the start is not finite (found {found})")]
    Start {
        /// "forward" or "adjoint".
        direction: &'static str,
        /// The first such row.
        row: usize,
        /// The entry.
        found: f32,
    },
    /// Without contraction the order of updates could decide where they lead.
    #[error(
        "{direction} solve: asynchronous sweeps need a certified contraction (found a bound of {q}, expected below 1)"
    )]
    NotCertified {
        /// "forward" or "adjoint".
        direction: &'static str,
        /// The bound.
        q: f64,
    },
    /// In a layer that is computed, not solved.
    #[error("row {row} of the state is not finite (found {found}): a smaller optim.learning_rate may help")]
    State {
        /// The first such row.
        row: usize,
        /// The entry.
        found: f32,
    },
    /// Grown beyond all bounds, sweep by sweep.
    #[error("{direction} solve: the state overflowed in sweep {sweep}: the equation is not well-posed")]
    Overflow {
        /// "forward" or "adjoint".
        direction: &'static str,
        /// The sweep.
        sweep: usize,
    },
}

/// Solves `X = phi(sum_r A_r^T X W_r^T + B)` from the state given (zero, or that of an earlier solve).
///
/// # Panics
/// Where shapes do not fit, or `workspace` keeps no best state and no certificate holds.
pub fn forward(
    sweep: &Sweep<'_>,
    activation: Activation,
    certificate: Option<&Certificate>,
    params: &SolveParams,
    state: &mut Matrix,
    workspace: &mut Workspace,
) -> Result<SolveInfo, SolveError> {
    let step =
        |norm: Norm<'_>, from: MatrixRef<'_>, to: MatrixMut<'_>| sweep.forward(activation, norm, from, to);
    let solve = Solve { sweep, direction: "forward", activation: Some(activation), certificate, params };
    solve.run(step, state, workspace)
}

/// Solves `G = D * (sum_r A_r G W_r + R)` from the state given.
///
/// # Panics
/// As [`forward`].
pub fn adjoint(
    sweep: &Sweep<'_>,
    derivative: Derivative<'_>,
    certificate: Option<&Certificate>,
    params: &SolveParams,
    state: &mut Matrix,
    workspace: &mut Workspace,
) -> Result<SolveInfo, SolveError> {
    let step =
        |norm: Norm<'_>, from: MatrixRef<'_>, to: MatrixMut<'_>| sweep.adjoint(derivative, norm, from, to);
    let solve = Solve { sweep, direction: "adjoint", activation: None, certificate, params };
    solve.run(step, state, workspace)
}

/// What both directions share.
struct Solve<'a> {
    sweep: &'a Sweep<'a>,
    direction: &'static str,
    activation: Option<Activation>,
    certificate: Option<&'a Certificate>,
    params: &'a SolveParams,
}

impl Solve<'_> {
    fn run(
        &self,
        step: impl Fn(Norm<'_>, MatrixRef<'_>, MatrixMut<'_>) -> Change,
        state: &mut Matrix,
        workspace: &mut Workspace,
    ) -> Result<SolveInfo, SolveError> {
        let start = Instant::now();
        let certificate = self.certificate.filter(|certificate| certificate.holds());
        assert!(
            certificate.is_some() || workspace.best.is_some(),
            "a solve without certificate keeps its best"
        );
        let by_row = self.params.measure == Measure::Row;
        let mut norm = certificate.map(Certificate::norm).unwrap_or_default();
        norm.rows = by_row.then_some(0.0);
        let (mut least, mut best_residual, mut since) = (f32::INFINITY, f64::INFINITY, 0);
        // The residual and the movement that belong to what `state` will be.
        let (mut residual, mut moved) = (f64::INFINITY, f32::INFINITY);
        let mut stopped = Stopped::MaxSweeps;
        let mut sweeps = 0;
        while sweeps < self.params.max_sweeps {
            let change = step(norm, state.view(), workspace.next.view_mut());
            sweeps += 1;
            if !change.finite {
                return Err(blame(self.sweep, self.direction, sweeps, Some(state.view())));
            }
            norm.rows = norm.rows.map(|_| change.state * FADED);
            residual = relative_residual(&change, self.params.measure);
            moved = change.weighted;
            // Where sweeps contract, the certificate's norm falls until rounding stops it; the plain maximum may rise
            // for a while (a wave along a chain).
            let measure = if certificate.is_some() { moved } else { change.largest };
            let better = measure < least;
            since = if better { 0 } else { since + 1 };
            if better {
                (least, best_residual) = (measure, residual);
            }
            // `state` was read and `next` written: the residual is that of `state`.
            match &mut workspace.best {
                Some(best) if certificate.is_none() && better => std::mem::swap(state, best),
                _ => {}
            }
            std::mem::swap(state, &mut workspace.next);
            if residual <= self.params.tolerance {
                stopped = Stopped::Converged;
                break;
            }
            if since >= self.params.patience && !by_row {
                stopped = Stopped::Stagnated;
                break;
            }
        }
        if stopped != Stopped::Converged
            && certificate.is_none()
            && sweeps > 0
            && let Some(best) = &mut workspace.best
        {
            std::mem::swap(state, best);
            residual = best_residual;
        }
        let error = |certificate: &Certificate| {
            certificate.error(moved, state.view(), self.sweep.input, self.activation)
        };
        Ok(SolveInfo {
            sweeps,
            relative_residual: residual,
            contraction: certificate.map(|certificate| certificate.q),
            certified_error: if sweeps > 0 { certificate.and_then(error) } else { None },
            converged: stopped == Stopped::Converged,
            stopped,
            seconds: start.elapsed().as_secs_f64(),
        })
    }
}

/// The change of a sweep by a measure.
pub(super) fn relative_residual(change: &Change, measure: Measure) -> f64 {
    match measure {
        Measure::State => f64::from(change.largest) / f64::from(change.state).max(TINY),
        Measure::Row => f64::from(change.row),
    }
}

/// The first number of a matrix that is none.
fn wrong(matrix: MatrixRef<'_>) -> Option<(usize, f32)> {
    let row = |row| matrix.row(row).iter().find(|x| !x.is_finite()).map(|&found| (row, found));
    (0..matrix.rows()).find_map(row)
}

/// Where the first number that is none came from in this sweep; `start` is what the first sweep read, where it is still
/// there.
pub(super) fn blame(
    sweep: &Sweep<'_>,
    direction: &'static str,
    sweeps: usize,
    start: Option<MatrixRef<'_>>,
) -> SolveError {
    if let Some((row, found)) = wrong(sweep.input) {
        return SolveError::Input { direction, row, found };
    }
    for (relation, term) in sweep.terms.iter().enumerate() {
        let weights = term.weights;
        let entries = (0..weights.inner()).flat_map(|l| (0..weights.outer()).map(move |k| weights.at(l, k)));
        if let Some(found) = entries.into_iter().find(|x| !x.is_finite()) {
            return SolveError::Weight { direction, relation, found };
        }
        let wrong = |row| term.adjacency.entries(row).find(|entry| !entry.1.is_finite());
        let edge = (0..term.adjacency.rows()).find_map(|row| wrong(row).map(|entry| (row, entry.1)));
        if let Some((row, found)) = edge {
            return SolveError::Edge { direction, relation, row, found };
        }
    }
    match start.filter(|_| sweeps == 1).and_then(wrong) {
        Some((row, found)) => SolveError::Start { direction, row, found },
        None => SolveError::Overflow { direction, sweep: sweeps },
    }
}
