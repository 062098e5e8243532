//! Sweeps repeated until the state stays: the forward equilibrium and the adjoint, one loop for
//! both. It knows when to stop and what to say about the result; how a sweep is computed is for
//! `kernels`.
//!
//! Stopping: the relative residual of a sweep ([`Measure`]) at or below the tolerance; or the
//! sweeps are used up; or the residual (in the certificate's norm, where there is one) has not
//! fallen for [`SolveParams::patience`] sweeps. In every case the state is the best there is, and
//! [`SolveInfo`] tells which case it was. NaN and infinity are errors that name their origin. The
//! same bits for any number of threads.
//!
//! Acceleration ([`super::anderson`]): a solve that has many sweeps to go at the rate of its first
//! ones goes on from states proposed by what its sweeps did. A sweep that moves a proposal much
//! more than the best before it drops what led there, and after some of these sweeps go on alone.
//! The result is always what a sweep wrote, and residual and certificate are that sweep's.
//!
//! Active rows ([`crate::kernels::sweep::Activity`]): where a certificate holds, rows that gather
//! from none that moved by more than a part of the tolerance are passed over, and the last sweep
//! computes all rows: residual and certificate are that sweep's, and where it finds more than the
//! tolerance the solve goes on, more carefully.
//!
//! Best iterate: where a certificate holds, sweeps contract and the newest state is the best.
//! Elsewhere the state that a sweep moved least is kept. States are buffers by their place: none is
//! ever copied. Memory: the state and its [`Workspace`].

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::anderson::{self, DEPTH};
use super::certificate::{Certificate, ErrorBound};
use super::error::{SolveError, blame};
use super::method::{Choice, Method};
use super::walk::Walk;
use super::workspace::{Place, Workspace};
use crate::dense::Matrix;
use crate::json_number;
use crate::kernels::Change;
use crate::kernels::sweep::{Direction, Sweep};
use crate::settings::words;

/// Default of [`SolveParams::tolerance`].
pub const TOLERANCE: f64 = 1e-5;
/// Default of [`SolveParams::max_sweeps`].
pub const MAX_SWEEPS: usize = 300;
/// Default of [`SolveParams::patience`].
pub const PATIENCE: usize = 20;

/// No residual above this is good enough.
pub const LOOSEST: f64 = 1e-2;

/// States smaller than this are taken for zero: a residual relative to them would mean nothing.
const TINY: f64 = f32::MIN_POSITIVE as f64;

/// Rows below this part of the state's largest entry have faded away: no residual is relative to
/// them.
pub(super) const FADED: f32 = 1e-12;

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolveParams {
    /// Relative residual to reach.
    pub tolerance: f64,
    /// Sweeps at most.
    pub max_sweeps: usize,
    /// Sweeps without a smaller residual before the solve gives up: rounding, or no convergence at
    /// all.
    pub patience: usize,
    /// What the residual is relative to.
    pub measure: Measure,
    /// How it is solved.
    pub method: Method,
    /// Sweeps that acceleration looks back on, at most [`super::anderson::MAX_DEPTH`].
    pub depth: usize,
    /// How states on the way are stored.
    pub storage: Storage,
    /// Part of the first sweep's residual that is good enough, where that is more than the
    /// tolerance; 0 for none. From a warm start the first residual tells how far the solution has
    /// moved: what is left of it need not be smaller than what the next move will be.
    pub follow: f64,
}

words! {
    /// How states are stored until the equilibrium is reached.
    pub enum Storage {
        /// 32-bit numbers.
        F32 = "f32",
        /// 16-bit numbers until the residual is near 1e-3 (8e-3 with Anderson acceleration), then
        /// 32-bit ones: half the memory traffic for two more 16-bit buffers. Used only where a
        /// contraction is certified, residuals are relative to the whole state and no rows are
        /// skipped. Pays off where memory is the bottleneck: many cores, narrow states, loose
        /// tolerances.
        F16 = "f16",
    }
}

/// What a residual is relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The largest entry of the state: max |Delta| / max |X|.
    #[default]
    State,
    /// Each row for itself, the worst of those that have not faded (below 1e-12 of the largest
    /// entry): max_i (max_k |Delta_ik| / max_k |X_ik|). For states that fade along long paths and
    /// are read row by row, where nodes far from any input would otherwise be left at zero.
    /// Patience does not apply: a wave that travels moves its front by as much as it is, sweep
    /// after sweep.
    Row,
}

impl Default for SolveParams {
    fn default() -> Self {
        Self {
            tolerance: TOLERANCE,
            max_sweeps: MAX_SWEEPS,
            patience: PATIENCE,
            measure: Measure::default(),
            method: Method::default(),
            depth: DEPTH,
            storage: Storage::default(),
            follow: 0.0,
        }
    }
}

impl SolveParams {
    /// Matrices of 16 bits that a solve may take, of the state's shape.
    pub fn shorts(&self) -> usize {
        let depth = match self.method {
            Method::Plain | Method::Active | Method::Ordered => 0,
            Method::Auto | Method::Anderson => self.depth,
        };
        anderson::shorts(depth) + if self.may_shorten() { 2 } else { 0 }
    }

    /// Whether states may be stored in 16 bits, where a contraction is certified.
    pub(super) fn may_shorten(&self) -> bool {
        self.storage == Storage::F16
            && self.measure == Measure::State
            && self.method != Method::Active
    }

    /// The residual to reach, given that of the first sweep.
    fn target(&self, first: f64) -> f64 {
        self.tolerance.max((self.follow * first).min(LOOSEST))
    }
}

/// Why a solve stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolveInfo {
    /// Sweeps made.
    pub sweeps: usize,
    /// Rows that were computed.
    pub row_updates: u64,
    /// By the measure asked for, of the sweep that gave the state, or, of a best state that was
    /// kept, of the one that read it.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub relative_residual: f64,
    /// The contraction bound, where it is below 1.
    pub contraction: Option<f64>,
    /// How far the state is from the equilibrium at most, where that is certified.
    pub certified_error: Option<ErrorBound>,
    /// The residual that was to be reached.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub tolerance: f64,
    /// Whether it was.
    pub converged: bool,
    /// Why it stopped.
    pub stopped: Stopped,
    /// How it was solved, and why so.
    #[serde(flatten)]
    pub choice: Choice,
    /// Wall time.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub seconds: f64,
}

impl SolveInfo {
    /// Whether it did what was asked for: the tolerance was reached, or a set number of sweeps was
    /// made.
    pub fn is_done(&self) -> bool {
        self.converged || self.stopped == Stopped::Truncated
    }

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
                row_updates: sum.row_updates + next.row_updates,
                relative_residual: sum.relative_residual.max(next.relative_residual),
                contraction: worse(sum.contraction, next.contraction),
                certified_error: error(sum.certified_error, next.certified_error),
                tolerance: sum.tolerance.max(next.tolerance),
                converged: sum.converged && next.converged,
                stopped: if sum.converged { next.stopped } else { sum.stopped },
                choice: sum.choice.together(next.choice),
                seconds: sum.seconds + next.seconds,
            }
        }))
    }
}

/// Solves `X = phi(sum_r A_r^T X W_r^T + B)`, or `G = D * (sum_r A_r G W_r + R)`, from the state
/// given (zero, or that of an earlier solve).
///
/// # Panics
/// Where shapes do not fit, or `workspace` keeps no best state and no certificate holds.
pub fn solve(
    sweep: &Sweep<'_>,
    direction: Direction<'_>,
    certificate: Option<&Certificate>,
    params: &SolveParams,
    state: &mut Matrix,
    workspace: &mut Workspace,
) -> Result<SolveInfo, SolveError> {
    Solve { sweep, direction, certificate, params }.run(state, workspace)
}

struct Solve<'a> {
    sweep: &'a Sweep<'a>,
    direction: Direction<'a>,
    certificate: Option<&'a Certificate>,
    params: &'a SolveParams,
}

impl Solve<'_> {
    fn run(&self, state: &mut Matrix, workspace: &mut Workspace) -> Result<SolveInfo, SolveError> {
        let start = Instant::now();
        let certificate = self.certificate.filter(|certificate| certificate.holds());
        assert!(
            certificate.is_some() || workspace.keeps_best(),
            "a solve without certificate keeps its best"
        );
        // Among the buffers while it lasts: every state is a place there.
        let empty = Matrix::zeros(0, state.cols());
        workspace.buffers.push(std::mem::replace(state, empty));
        let mut walk = Walk::new(workspace, certificate.is_some(), self.params);
        let ended = self.iterate(certificate, &mut walk, workspace);
        let choice = walk.end(workspace, self.sweep.input.rows());
        *state = match walk.at {
            Place::Full(at) => workspace.buffers.swap_remove(at),
            // Left behind by a solve that failed only.
            Place::Short(..) => {
                workspace.buffers.pop();
                Matrix::zeros(self.sweep.input.rows(), self.sweep.input.cols())
            }
        };
        let stopped = ended?;
        let activation = match self.direction {
            Direction::Forward(activation) => Some(activation),
            Direction::Adjoint(_) => None,
        };
        let error = |certificate: &Certificate| {
            certificate.error(walk.moved, state.view(), self.sweep.input, activation)
        };
        Ok(SolveInfo {
            sweeps: walk.sweeps,
            row_updates: walk.rows,
            relative_residual: walk.residual,
            contraction: certificate.map(|certificate| certificate.q),
            certified_error: if walk.sweeps > 0 { certificate.and_then(error) } else { None },
            tolerance: walk.tolerance,
            converged: stopped == Stopped::Converged,
            stopped,
            choice,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// Sweeps until one of the reasons to stop; the result is the buffer that the walk is at.
    fn iterate(
        &self,
        certificate: Option<&Certificate>,
        walk: &mut Walk,
        workspace: &mut Workspace,
    ) -> Result<Stopped, SolveError> {
        let by_row = self.params.measure == Measure::Row;
        let mut norm = certificate.map(Certificate::norm).unwrap_or_default();
        norm.rows = by_row.then_some(0.0);
        let mut since = 0;
        while walk.sweeps < self.params.max_sweeps {
            walk.propose(workspace);
            let is_last = walk.sweeps + 1 == self.params.max_sweeps
                || (since + 1 >= self.params.patience && !by_row);
            let (to, short) = walk.target(workspace, is_last);
            let mut next = workspace.take(to);
            let mut moves = short.map(|at| (at, workspace.take_short(at)));
            let from = workspace.state(walk.at);
            let rows = from.rows();
            let beside = walk.beside(to, moves.as_mut().map(|moves| &mut moves.1), is_last);
            let change = self.sweep.step(self.direction, norm, beside, from, next.view_mut());
            workspace.put(to, next);
            if let Some((at, moves)) = moves {
                workspace.shorts[at] = moves;
            }
            walk.sweeps += 1;
            walk.rows += change.rows;
            if !change.finite {
                let read = workspace.state(walk.at).full();
                return Err(blame(self.sweep, self.direction.name(), walk.sweeps, read));
            }
            let is_full = change.rows == rows as u64;
            let change = walk.whole(change, is_full);
            norm.rows = norm.rows.map(|_| walk.faded());
            let residual = relative_residual(&change, self.params.measure);
            if walk.sweeps == 1 {
                walk.tolerance = self.params.target(residual);
            }
            walk.moved = change.weighted;
            // Where sweeps contract, the certificate's norm falls until rounding stops it; the
            // plain maximum may rise for a while (a wave along a chain).
            let measure = if certificate.is_some() { change.weighted } else { change.largest };
            let better = measure < walk.least;
            since = if better { 0 } else { since + 1 };
            if better && certificate.is_none() {
                // It was read: the residual is that of this state, not of the one written.
                walk.best = walk.at_full().map(|at| (at, residual));
            }
            walk.took(to, residual, measure, change.moved as f64 / rows as f64);
            if walk.has_arrived(is_full) {
                return Ok(Stopped::Converged);
            }
            if since >= self.params.patience && !by_row {
                if !walk.fall_back() {
                    walk.back_to_best();
                    return Ok(Stopped::Stagnated);
                }
                since = 0;
            }
        }
        walk.back_to_best();
        Ok(Stopped::MaxSweeps)
    }
}

/// The change of a sweep by a measure.
pub(super) fn relative_residual(change: &Change, measure: Measure) -> f64 {
    match measure {
        Measure::State => f64::from(change.largest) / f64::from(change.state).max(TINY),
        Measure::Row => f64::from(change.row),
    }
}
