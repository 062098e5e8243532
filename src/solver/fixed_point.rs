//! The solve: sweeps repeated until the state stops changing, one loop for the forward equilibrium
//! and the adjoint. How a sweep is computed is for `kernels`.
//!
//! After every sweep three policies decide how to go on, each a type of its own:
//!
//! | policy | decides |
//! | --- | --- |
//! | `Stopping` | whether the solve has converged, stagnates or has used up its sweeps |
//! | `ActiveRows` | which rows the next sweep computes |
//! | `Acceleration` | whether the next sweep starts from a state that Anderson mixing proposes |
//!
//! The result is always a state that a sweep over all rows has written or, if the solve did not
//! converge and nothing is certified, the state that a sweep moved least. Residual and certified
//! error are those of that sweep. NaN and infinity are errors that name their origin. Results have
//! the same bits on any number of threads and ranks.
//!
//! On several ranks, each sweeps its own rows; then the ghosts of the new state are brought up to
//! date. Ghosts of the state that a solve starts from need not be. All that the policies see is of
//! all ranks, so that they decide the same on each.
//!
//! States are buffers of the [`Workspace`] and are never copied. Memory: the state and its
//! workspace.

use std::time::Instant;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::acceleration::Acceleration;
use super::active_rows::{ActiveRows, NextSweep};
use super::anderson::{self, DEPTH};
use super::certificate::{Certificate, ErrorBound};
use super::effort::Effort;
use super::error::{SolveError, find_origin};
use super::method::{Choice, Method, Used, Why};
use super::stopping::{Progress, Stopping};
use super::workspace::Workspace;
use crate::dense::Matrix;
use crate::json_number;
use crate::kernels::sweep::{Direction, Moves, Sweep, Tracking};
use crate::kernels::{Added, Change};
use crate::parallel::{self, Node, Rows};

/// Default of [`SolveParams::tolerance`].
pub const TOLERANCE: f64 = 1e-5;
/// Default of [`SolveParams::max_sweeps`].
pub const MAX_SWEEPS: usize = 300;
/// Default of [`SolveParams::patience`].
pub const PATIENCE: usize = 20;

/// Largest tolerance that [`SolveParams::follow`] may lead to.
pub const LOOSEST: f64 = 1e-2;

/// A solve with more sweeps left than this, at the rate of its last two, is accelerated.
const FEW_SWEEPS: f64 = 8.0;

/// Inputs and states below this count as zero. A residual relative to smaller ones would mean nothing:
/// at the tolerance, their changes are not normal numbers.
const TINY: f32 = 1e-30;

/// Entries of the input that are looked at together.
const CHUNK: usize = 1 << 14;

/// Rows below this fraction of the state's largest entry have faded: no residual is relative to
/// them.
pub(super) const FADED: f32 = 1e-12;

/// How a solve runs, and when it stops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolveParams {
    /// Relative residual to reach.
    pub tolerance: f64,
    /// Largest number of sweeps.
    pub max_sweeps: usize,
    /// Sweeps without a smaller move before the solve gives up: rounding has stopped it, or it does
    /// not converge at all.
    pub patience: usize,
    /// What the residual is relative to.
    pub measure: Measure,
    /// The method.
    pub method: Method,
    /// Earlier sweeps that Anderson mixing combines, at most [`super::anderson::MAX_DEPTH`].
    pub depth: usize,
    /// Fraction of the first residual at which the solve may stop, where that is above the
    /// tolerance; 0 turns it off. From a warm start the first residual shows how far the last
    /// training step moved the solution, and a smaller error than the next step's is of no use.
    pub follow: f64,
    /// Whether the certified error is tightened after the solve: [`super::refined`]. The result is
    /// the same; it costs about as much as a second solve and one more state.
    pub tight: bool,
}

/// What a residual is relative to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// The largest entry of the state: max |Delta| / max |X|.
    #[default]
    State,
    /// The largest entry of each row: max_i (max_k |Delta_ik| / max_k |X_ik|), over the rows that
    /// have not faded below 1e-12 of the largest entry. For states that fade along long paths and
    /// are read row by row: nodes far from any input would otherwise stay at zero. Patience does
    /// not apply, as the front of a travelling wave moves by its own size in every sweep.
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
            follow: 0.0,
            tight: false,
        }
    }
}

impl SolveParams {
    /// 16-bit matrices of the state's shape that a solve may allocate.
    pub fn mixing_buffers(&self) -> usize {
        match self.method {
            Method::Plain | Method::Active | Method::Ordered => 0,
            Method::Auto | Method::Anderson => anderson::buffers(self.depth),
        }
    }

    /// The residual to reach, given that of the first sweep.
    pub(super) fn target(&self, first: f64) -> f64 {
        self.tolerance.max((self.follow * first).min(LOOSEST))
    }
}

/// Why a solve stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stopped {
    /// The residual is at or below the tolerance.
    Converged,
    /// The largest number of sweeps was reached.
    MaxSweeps,
    /// Moves have not become smaller for [`SolveParams::patience`] sweeps.
    Stagnated,
    /// A fixed number of sweeps was asked for: see [`super::truncated`].
    Truncated,
}

/// The record of a solve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SolveInfo {
    /// Number of sweeps.
    pub sweeps: usize,
    /// Number of rows computed, over all sweeps.
    pub row_updates: u64,
    /// Relative residual, by the [`Measure`] asked for, of the sweep that wrote the state. For the
    /// best state of a solve without certificate, that of the sweep that read it.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub relative_residual: f64,
    /// The contraction bound q, if it is below 1.
    pub contraction: Option<f64>,
    /// Upper bound of the distance from the equilibrium, if one is certified.
    pub certified_error: Option<ErrorBound>,
    /// An estimate of the error relative to the largest entry of the state. It is no bound: it
    /// assumes that further sweeps would contract as the last ones did. `None` where no two
    /// consecutive sweeps tell.
    #[serde(default)]
    pub estimated_error: Option<f64>,
    /// The residual to reach.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub tolerance: f64,
    /// Whether it was reached.
    pub converged: bool,
    /// Why it stopped.
    pub stopped: Stopped,
    /// Which method was used, and why.
    #[serde(flatten)]
    pub choice: Choice,
    /// What the certificate took, before the first sweep; nothing in records of versions that did
    /// not measure it.
    #[serde(default)]
    pub certificate: Effort,
    /// Wall time of the sweeps.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub seconds: f64,
}

impl SolveInfo {
    /// The record without measured times.
    pub fn without_times(self) -> Self {
        let certificate = Effort { seconds: 0.0, ..self.certificate };
        Self { certificate, seconds: 0.0, ..self }
    }

    /// Whether the solve did what was asked for: it reached the tolerance, or made a fixed number
    /// of sweeps.
    pub fn is_done(&self) -> bool {
        self.converged || self.stopped == Stopped::Truncated
    }

    /// Several solves as one: sweeps and seconds are summed, the rest is that of the worst solve.
    /// `None` for no solves.
    pub fn together(solves: &[Self]) -> Option<Self> {
        let (first, rest) = solves.split_first()?;
        Some(rest.iter().fold(*first, |sum, next| {
            let worse = |a: Option<f64>, b: Option<f64>| Some(a?.max(b?));
            Self {
                sweeps: sum.sweeps + next.sweeps,
                row_updates: sum.row_updates + next.row_updates,
                relative_residual: sum.relative_residual.max(next.relative_residual),
                contraction: worse(sum.contraction, next.contraction),
                certified_error: sum
                    .certified_error
                    .zip(next.certified_error)
                    .map(|(a, b)| a.or_worse(b)),
                estimated_error: worse(sum.estimated_error, next.estimated_error),
                tolerance: sum.tolerance.max(next.tolerance),
                converged: sum.converged && next.converged,
                stopped: if sum.converged { next.stopped } else { sum.stopped },
                choice: sum.choice.together(next.choice),
                certificate: sum.certificate.with(next.certificate),
                seconds: sum.seconds + next.seconds,
            }
        }))
    }
}

/// The solves of a batch, as ranks send them.
#[derive(Clone, Debug, Default)]
pub struct Solves(pub Vec<SolveInfo>);

impl Node for Solves {
    fn to_bytes(&self) -> Vec<u8> {
        // JSON has no infinity.
        let all: Vec<_> = self
            .0
            .iter()
            .map(|info| (info, info.relative_residual.to_bits(), info.tolerance.to_bits()))
            .collect();
        serde_json::to_vec(&all).expect("plain data")
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let all: Vec<(SolveInfo, u64, u64)> =
            serde_json::from_slice(bytes).expect("what another rank wrote");
        let exact = |(info, residual, tolerance)| SolveInfo {
            relative_residual: f64::from_bits(residual),
            tolerance: f64::from_bits(tolerance),
            ..info
        };
        Self(all.into_iter().map(exact).collect())
    }
}

/// Solves `X = phi(sum_r A_r^T X W_r^T + B)` or `G = D * (sum_r A_r G W_r + R)`, starting from
/// `state`: zero, or the result of an earlier solve.
///
/// # Panics
/// If shapes do not match, or if no certificate holds and `workspace` cannot keep a best state.
pub fn solve(
    sweep: &Sweep<'_>,
    direction: Direction<'_>,
    certificate: Option<&Certificate>,
    params: &SolveParams,
    state: &mut Matrix,
    workspace: &mut Workspace,
) -> Result<SolveInfo, SolveError> {
    let certificate = certificate.filter(|certificate| certificate.holds());
    assert!(
        certificate.is_some() || workspace.keeps_best(),
        "a solve without certificate keeps its best state"
    );
    let start = Instant::now();
    if certificate.is_some() && is_zero(sweep.input, workspace.rows()) {
        // An earlier state would fade by the contraction alone, and every sweep would change it by the
        // same part.
        state.view_mut().padded_mut().fill(0.0);
    }
    // Every state is a buffer of the workspace while the solve runs: none is ever copied.
    let empty = Matrix::zeros(0, state.cols());
    workspace.states.push(std::mem::replace(state, empty));
    workspace.update(None, workspace.states.len() - 1, None);
    let mut solver = Solver::new(sweep, direction, certificate, params, workspace);
    let stopped = solver.iterate(workspace);
    solver.release(workspace);
    *state = workspace.states.swap_remove(solver.at);
    Ok(solver.info(stopped?, state, workspace.rows(), start))
}

/// Whether all entries of the input, on all ranks, count as zero. The first that does not ends the
/// search.
fn is_zero(input: Added<'_>, rows: &Rows) -> bool {
    let has_more = |chunk: &[f32]| chunk.iter().any(|entry| entry.is_nan() || entry.abs() >= TINY);
    let has_more = input.kept().padded().par_chunks(CHUNK).any(has_more);
    rows.ranks().max(f64::from(u8::from(has_more))) == 0.0
}

/// One solve while it runs: sweeps, with a policy for when to stop, one for which rows to compute,
/// and one for acceleration.
struct Solver<'a> {
    sweep: &'a Sweep<'a>,
    direction: Direction<'a>,
    /// Present where it holds.
    certificate: Option<&'a Certificate>,
    measure: Measure,
    /// Buffer of the newest state, written by a sweep or proposed.
    at: usize,
    /// Buffers that the last sweep read and wrote.
    last: Option<(usize, usize)>,
    /// Largest entry of the state.
    size: f32,
    /// What the last sweep changed.
    change: Change,
    /// What the last sweep moved divided by what the one before moved, where it continued from that
    /// one's result and both computed all rows.
    rate: Option<f64>,
    row_updates: u64,
    stopping: Stopping,
    active: ActiveRows,
    acceleration: Acceleration,
    choice: Choice,
}

/// What a sweep did, as the policies see it.
struct Step {
    /// Buffer of its result.
    to: usize,
    residual: f64,
    /// How far it moved the state: in the certificate's norm, or in the maximum norm without one.
    moved: f32,
    /// Part of the rows that count as moved.
    moving: f64,
    computed_all: bool,
}

impl<'a> Solver<'a> {
    fn new(
        sweep: &'a Sweep<'a>,
        direction: Direction<'a>,
        certificate: Option<&'a Certificate>,
        params: &SolveParams,
        workspace: &mut Workspace,
    ) -> Self {
        let is_certified = certificate.is_some();
        let may_skip = is_certified && matches!(params.method, Method::Auto | Method::Active);
        let activity = may_skip.then(|| workspace.take_activity());
        let mut acceleration = Acceleration::new(params.depth);
        let (method, why) = match params.method {
            Method::Auto => (Used::Plain, Why::Fast),
            Method::Plain | Method::Ordered | Method::Active => (Used::Plain, Why::Asked),
            Method::Anderson => {
                acceleration.start();
                (Used::Anderson, Why::Asked)
            }
        };
        Self {
            sweep,
            direction,
            certificate,
            measure: params.measure,
            at: workspace.states.len() - 1,
            last: None,
            size: 0.0,
            change: Change::NONE,
            rate: None,
            row_updates: 0,
            stopping: Stopping::new(params, is_certified),
            active: ActiveRows::new(activity, params.method, params.measure),
            acceleration,
            choice: Choice { why, ..Choice::asked(method) },
        }
    }

    /// Sweeps until there is a reason to stop. The result is the state in buffer `at`.
    fn iterate(&mut self, workspace: &mut Workspace) -> Result<Stopped, SolveError> {
        while self.stopping.may_sweep() {
            if parallel::is_stopped() {
                let (direction, sweep) = (self.direction.name(), self.stopping.sweeps + 1);
                return Err(SolveError::Stopped { direction, sweep });
            }
            self.continue_from_proposal(workspace);
            let step = self.sweep_once(workspace)?;
            let progress = self.stopping.observe(self.at, step.residual, step.moved);
            self.choose_strategy(&step, &progress);
            self.last = Some((self.at, step.to));
            self.at = step.to;
            if self.active.accept(progress.is_within_tolerance, step.computed_all) {
                return Ok(Stopped::Converged);
            }
            if self.stopping.is_stagnant() {
                if !self.fall_back() {
                    self.return_to_best();
                    return Ok(Stopped::Stagnated);
                }
                self.stopping.reset_patience();
            }
        }
        self.return_to_best();
        Ok(Stopped::MaxSweeps)
    }

    /// Continues from a proposal of the acceleration, where there is one.
    fn continue_from_proposal(&mut self, workspace: &mut Workspace) {
        let best = self.stopping.best().map(|best| best.buffer);
        if let Some(proposal) = self.acceleration.propose(workspace, self.at, best) {
            self.at = proposal;
            self.choice.proposals += 1;
        }
    }

    /// Makes a sweep from the state at hand, with what the policies want it to record.
    fn sweep_once(&mut self, workspace: &mut Workspace) -> Result<Step, SolveError> {
        let to = self.target(workspace);
        let largest_move = (self.stopping.sweeps > 0).then_some(self.change.largest);
        let slot = self.acceleration.reserve_slot(workspace, largest_move);
        let mut next = workspace.take_state(to);
        let mut moves = slot.map(|slot| workspace.take_moves(slot.buffer));
        let next_sweep = NextSweep {
            continues: self.last == Some((to, self.at)),
            may_be_last: self.stopping.next_may_be_last(),
            tolerance: self.stopping.tolerance,
            size: self.size,
        };
        let is_tracked = slot.is_none() && !self.acceleration.is_on();
        let tracking = match (slot, &mut moves) {
            (Some(slot), Some(moves)) => {
                Tracking::Moves(Moves { to: moves.view_mut(), factor: 1.0 / slot.unit })
            }
            _ if self.acceleration.is_on() => Tracking::Nothing,
            _ => self.active.prepare(next_sweep).map_or(Tracking::Nothing, Tracking::Activity),
        };
        let mut norm = self.certificate.map(Certificate::norm).unwrap_or_default();
        norm.rows = (self.measure == Measure::Row).then_some((self.size * FADED).max(TINY));
        let from = workspace.states[self.at].view();
        let own = workspace.rows().len();
        let to_rows = next.view_mut().first(own);
        let change = self.sweep.step(self.direction, norm, tracking, from, to_rows);
        let change = change.of_ranks(workspace.rows().ranks());
        workspace.states[to] = next;
        let flags = if is_tracked { self.active.flags() } else { None };
        workspace.update(Some(self.at), to, flags);
        if let Some((slot, moves)) = slot.zip(moves) {
            workspace.moves[slot.buffer] = moves;
        }
        self.row_updates += change.rows;
        if !change.finite {
            let read = workspace.states[self.at].view().first(own);
            let (sweeps, rows) = (self.stopping.sweeps + 1, workspace.rows());
            return Err(find_origin(self.sweep, self.direction.name(), sweeps, Some(read), rows));
        }
        let rows = workspace.rows().all();
        let computed_all = change.rows == rows as u64;
        let continues = computed_all && self.last.is_some_and(|(_, written)| written == self.at);
        if continues && self.change.rows == rows as u64 && self.change.largest > 0.0 {
            self.rate = Some(f64::from(change.largest) / f64::from(self.change.largest));
        }
        // A sweep that skips rows saw a part of the state.
        self.size = if computed_all { change.state } else { self.size.max(change.state) };
        self.change = Change { state: self.size, ..change };
        Ok(Step {
            to,
            residual: relative_residual(&self.change, self.measure),
            moved: if self.certificate.is_some() { change.weighted } else { change.largest },
            moving: change.moved as f64 / rows as f64,
            computed_all,
        })
    }

    /// The buffer that the next sweep writes: that of the state before this one where it is free,
    /// so that skipped rows are there already.
    fn target(&self, workspace: &mut Workspace) -> usize {
        let best = self.stopping.best().map(|best| best.buffer);
        let is_used = |buffer: usize| buffer == self.at || Some(buffer) == best;
        match self.last {
            Some((before, _)) if !is_used(before) => before,
            _ => workspace.free_state(is_used),
        }
    }

    /// Decides by which of the three methods the solve goes on: sweeps alone, sweeps that skip
    /// rows, or acceleration.
    fn choose_strategy(&mut self, step: &Step, progress: &Progress) {
        let pace = progress.pace;
        let is_quiet = self.active.is_quiet(step.moving);
        self.active.observe(is_quiet, pace);
        if self.acceleration.is_on() {
            if !self.acceleration.observe(step.moved, progress.is_smallest_move) {
                self.fall_back();
            }
            return;
        }
        if !matches!(self.choice.why, Why::Fast | Why::Quiet) {
            return;
        }
        self.choice.rate = if pace.rate.is_finite() { pace.rate } else { 0.0 };
        // Without certificate there may be no equilibrium, or one that sweeps lead away from: only
        // what converges by itself is accelerated. Waves never are.
        let converges = self.certificate.is_some() || progress.is_smallest_move;
        if pace.sweeps_left > FEW_SWEEPS && pace.sweeps_left.is_finite() && converges {
            if is_quiet {
                self.choice.why = Why::Quiet;
            } else {
                self.acceleration.start();
                self.choice = Choice { method: Used::Anderson, why: Why::Slow, ..self.choice };
            }
        }
    }

    /// Turns the acceleration off; whether it was on.
    fn fall_back(&mut self) -> bool {
        let was_on = self.acceleration.stop();
        if was_on {
            self.choice.why = Why::FellBack;
            self.active.wake_all();
        }
        was_on
    }

    /// The result of a solve without certificate that did not converge is its best state.
    fn return_to_best(&mut self) {
        if let Some(best) = self.stopping.best() {
            self.at = best.buffer;
            self.stopping.residual = best.residual;
        }
    }

    /// Gives back what was borrowed from the workspace.
    fn release(&mut self, workspace: &mut Workspace) {
        if let Some(activity) = self.active.take_activity() {
            workspace.keep_activity(activity);
        }
    }

    fn info(&self, stopped: Stopped, state: &Matrix, rows: &Rows, start: Instant) -> SolveInfo {
        let activation = match self.direction {
            Direction::Forward(activation) => Some(activation),
            Direction::Adjoint(_) => None,
        };
        let sweeps = self.stopping.sweeps;
        let error = |certificate: &Certificate| {
            let state = state.view().first(rows.len());
            let sizes = [certificate.size(state), certificate.size_of(self.sweep.input)];
            let sizes = sizes.map(|of| rows.ranks().max(of));
            let bound = certificate.error(self.change.weighted, sizes, activation);
            Some(bound?.of_state(f64::from(self.size)))
        };
        // The geometric series of further moves.
        let ahead = self.rate.filter(|&rate| rate < 1.0).map(|rate| rate / (1.0 - rate));
        let moved = relative_residual(&self.change, Measure::State);
        let mut choice = self.choice;
        if choice.method == Used::Plain && self.row_updates < (sweeps * rows.all()) as u64 {
            choice.method = Used::Active;
        }
        SolveInfo {
            sweeps,
            row_updates: self.row_updates,
            relative_residual: self.stopping.residual,
            contraction: self.certificate.map(|certificate| certificate.q),
            certified_error: if sweeps > 0 { self.certificate.and_then(error) } else { None },
            estimated_error: ahead.filter(|_| sweeps > 0).map(|ahead| moved * ahead),
            tolerance: self.stopping.tolerance,
            converged: stopped == Stopped::Converged,
            stopped,
            choice,
            certificate: Effort::default(),
            seconds: start.elapsed().as_secs_f64(),
        }
    }
}

/// The relative residual of a sweep by a measure.
pub(super) fn relative_residual(change: &Change, measure: Measure) -> f64 {
    match measure {
        Measure::State => f64::from(change.largest) / f64::from(change.state.max(TINY)),
        Measure::Row => f64::from(change.row),
    }
}
