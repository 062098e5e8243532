//! Sweeps repeated until the state stays: the forward equilibrium and the adjoint, one loop for both.
//! It knows when to stop and what to say about the result; how a sweep is computed is for `kernels`.
//!
//! Stopping: the relative residual of a sweep ([`Measure`]) at or below the tolerance; or the sweeps are used
//! up; or the residual (in the certificate's norm, where there is one) has not fallen for [`SolveParams::patience`]
//! sweeps. In every case the state is the best there
//! is, and [`SolveInfo`] tells which case it was. NaN and infinity are errors that name their origin.
//! The same bits for any number of threads.
//!
//! Acceleration ([`super::anderson`]): a solve that has many sweeps to go at the rate of its first ones goes on from states
//! proposed by what its sweeps did. A sweep that moves a proposal much more than the best before it drops what led there, and after some of these sweeps
//! go on alone. The result is always what a sweep wrote, and residual and certificate are that sweep's.
//!
//! Best iterate: where a certificate holds, sweeps contract and the newest state is the best. Elsewhere the state
//! that a sweep moved least is kept. States are buffers by their place: none is ever copied. Memory: the state and
//! its [`Workspace`].

use std::time::Instant;

use serde::Serialize;

use super::anderson::{DEPTH, History};
use super::certificate::{Certificate, ErrorBound};
use super::method::{Choice, Method, Used, Why};
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

/// At the rate of its sweeps a solve with more than so many to go is accelerated.
const FEW: f64 = 8.0;
/// A sweep that moves the state by more than this times the least before has left the way.
const GROWTH: f32 = 4.0;
/// After so many of them a solve goes on without proposals.
const FAILURES: usize = 3;

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
    /// How it is solved.
    pub method: Method,
    /// Sweeps that acceleration looks back on, at most [`super::anderson::MAX_DEPTH`].
    pub depth: usize,
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
        Self {
            tolerance: TOLERANCE,
            max_sweeps: MAX_SWEEPS,
            patience: PATIENCE,
            measure: Measure::default(),
            method: Method::default(),
            depth: DEPTH,
        }
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
    /// Rows that were computed.
    pub row_updates: u64,
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
    /// How it was solved, and why so.
    #[serde(flatten)]
    pub choice: Choice,
    /// Wall time.
    pub seconds: f64,
}

impl SolveInfo {
    /// Whether it did what was asked for: the tolerance was reached, or a set number of sweeps was made.
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
                converged: sum.converged && next.converged,
                stopped: if sum.converged { next.stopped } else { sum.stopped },
                choice: sum.choice.together(next.choice),
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
            certificate.is_some() || workspace.keeps_best(),
            "a solve without certificate keeps its best"
        );
        // Among the buffers while it lasts: every state is a place there.
        let empty = Matrix::zeros(0, state.cols());
        workspace.buffers.push(std::mem::replace(state, empty));
        let mut walk = Walk::new(workspace.buffers.len() - 1, certificate.is_some(), self.params);
        let ended = self.iterate(step, certificate, &mut walk, workspace);
        *state = workspace.buffers.swap_remove(walk.at);
        let stopped = ended?;
        let error = |certificate: &Certificate| {
            certificate.error(walk.moved, state.view(), self.sweep.input, self.activation)
        };
        Ok(SolveInfo {
            sweeps: walk.sweeps,
            row_updates: (walk.sweeps * state.rows()) as u64,
            relative_residual: walk.residual,
            contraction: certificate.map(|certificate| certificate.q),
            certified_error: if walk.sweeps > 0 { certificate.and_then(error) } else { None },
            converged: stopped == Stopped::Converged,
            stopped,
            choice: walk.choice,
            seconds: start.elapsed().as_secs_f64(),
        })
    }

    /// Sweeps until one of the reasons to stop; the result is the buffer that the walk is at.
    fn iterate(
        &self,
        step: impl Fn(Norm<'_>, MatrixRef<'_>, MatrixMut<'_>) -> Change,
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
            let to = walk.target(workspace);
            let (from, next) = workspace.read_and_write(walk.at, to);
            let change = step(norm, from.view(), next.view_mut());
            walk.sweeps += 1;
            if !change.finite {
                return Err(blame(self.sweep, self.direction, walk.sweeps, Some(from.view())));
            }
            norm.rows = norm.rows.map(|_| change.state * FADED);
            let residual = relative_residual(&change, self.params.measure);
            walk.moved = change.weighted;
            // Where sweeps contract, the certificate's norm falls until rounding stops it; the plain maximum may rise
            // for a while (a wave along a chain).
            let measure = if certificate.is_some() { change.weighted } else { change.largest };
            let better = measure < walk.least;
            since = if better { 0 } else { since + 1 };
            if better && certificate.is_none() {
                // It was read: the residual is that of this state, not of the one written.
                walk.best = Some((walk.at, residual));
            }
            walk.took(to, residual, measure);
            if residual <= self.params.tolerance {
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

/// Where a solve is, and how it goes on: which buffer holds the state, and what acceleration remembers.
struct Walk {
    /// The buffer of the newest state that a sweep wrote, or that was proposed.
    at: usize,
    sweeps: usize,
    residual: f64,
    moved: f32,
    /// The smallest measure so far.
    least: f32,
    /// Of a solve without certificate: the buffer that a sweep moved least, and its residual.
    best: Option<(usize, f64)>,
    /// Present while proposals are made.
    history: Option<History>,
    /// The smallest measure since they are made.
    least_since: f32,
    /// How often a proposal made things worse.
    failures: usize,
    choice: Choice,
    depth: usize,
    is_certified: bool,
    tolerance: f64,
}

impl Walk {
    fn new(at: usize, is_certified: bool, params: &SolveParams) -> Self {
        let (method, why) = match params.method {
            Method::Auto => (Used::Plain, Why::Fast),
            Method::Plain | Method::Ordered => (Used::Plain, Why::Asked),
            Method::Anderson => (Used::Anderson, Why::Asked),
        };
        Self {
            at,
            sweeps: 0,
            residual: f64::INFINITY,
            moved: f32::INFINITY,
            least: f32::INFINITY,
            best: None,
            history: (params.method == Method::Anderson).then(|| History::new(params.depth)),
            least_since: f32::INFINITY,
            failures: 0,
            choice: Choice { method, why, ..Choice::asked(method) },
            depth: params.depth,
            is_certified,
            tolerance: params.tolerance,
        }
    }

    /// Goes to a proposal, where it is time for one and there is one.
    fn propose(&mut self, workspace: &mut Workspace) {
        let Some(history) = self.history.as_mut().filter(|history| history.is_due()) else { return };
        let (buffers, mixing) = workspace.mixing();
        // The best state stays: where the mixture would take its memory there is no proposal.
        let pinned = self.best.map(|best| best.0);
        match history.propose(buffers, mixing, pinned) {
            Some(at) => {
                self.at = at;
                self.choice.proposals += 1;
            }
            None => history.clear(),
        }
    }

    /// A buffer for the next sweep to write to.
    fn target(&mut self, workspace: &mut Workspace) -> usize {
        if let Some(history) = &mut self.history {
            history.make_room();
        }
        let best = self.best.map(|best| best.0);
        let is_used = |buffer: usize| {
            let kept = self.history.as_ref().is_some_and(|history| history.uses(buffer));
            buffer == self.at || Some(buffer) == best || kept
        };
        workspace.free(is_used)
    }

    /// A sweep wrote a buffer: goes there, and decides how to go on.
    fn took(&mut self, to: usize, residual: f64, measure: f32) {
        let rate = residual / self.residual;
        let is_falling = measure < self.least;
        self.least = self.least.min(measure);
        self.residual = residual;
        match &mut self.history {
            Some(history) => {
                if measure > GROWTH * self.least_since {
                    // Worse than what sweeps alone would have given: forget what led here.
                    history.clear();
                    self.failures += 1;
                    self.least_since = measure;
                } else {
                    history.note(self.at, to);
                    self.least_since = self.least_since.min(measure);
                }
                if self.failures >= FAILURES {
                    self.fall_back();
                }
            }
            None if self.choice.why == Why::Fast => {
                self.choice.rate = if rate.is_finite() { rate } else { 0.0 };
                // Not below 1 where a wave travels: nobody knows how far. Where nothing is certified it may be that there is
                // no equilibrium, or one that sweeps lead away from: only what converges by itself is hastened.
                let to_go = (self.tolerance / residual).ln() / rate.min(1.0).ln();
                if self.sweeps > 1 && to_go > FEW && (self.is_certified || is_falling) {
                    self.history = Some(History::new(self.depth));
                    self.choice = Choice { method: Used::Anderson, why: Why::Slow, ..self.choice };
                }
            }
            None => {}
        }
        self.at = to;
    }

    /// No more proposals; whether there were any.
    fn fall_back(&mut self) -> bool {
        let fell = self.history.take().is_some();
        if fell {
            self.choice.why = Why::FellBack;
        }
        fell
    }

    /// Of a solve without certificate that did not converge, the best state is the result.
    fn back_to_best(&mut self) {
        if let Some((at, residual)) = self.best {
            (self.at, self.residual) = (at, residual);
        }
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
