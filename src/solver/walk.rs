//! Where a solve is, and how it goes on: by sweeps over all rows, over those that move, or from
//! proposals. It decides; sweeps, residuals and the end are `fixed_point`'s.

use super::anderson::History;
use super::fixed_point::{FADED, Measure, SolveParams};
use super::method::{Choice, Method, Used, Why};
use super::workspace::{Place, Workspace};
use crate::dense::{F16, Matrix};
use crate::kernels::mixing::unit;
use crate::kernels::sweep::{Activity, Beside, Moves, Threshold};
use crate::kernels::{Change, State};

/// At the rate of its sweeps a solve with more than so many to go is accelerated.
const FEW: f64 = 8.0;
/// A sweep that moves the state by more than this times the least before has left the way.
const GROWTH: f32 = 4.0;
/// After so many of them without a better state in between a solve goes on without proposals.
const FAILURES: usize = 3;
/// Where fewer than this part of the rows move, passing over the others saves more than proposals,
/// which move all.
const QUIET: f64 = 0.6;
/// Nor is it worth the sweep that verifies, where no more than so many are to go.
const LEAST: f64 = 4.0;
/// A row that moves by less than this part of the tolerance does not wake those that gather from
/// it.
const SHARE: f64 = 0.1;
/// Where that turns out to have been too much it is cut to this part of itself.
const CUT: f64 = 0.25;

/// Rounding to 11 bits moves a state by a part of 2^-12 at most: with residuals below some times
/// that a solve goes on in 32 bits.
const ROUGH: f64 = 1.0 / 1024.0;
/// The same while proposals are made, which are differences of rounded states: at 2^-8 some solves
/// took half as many sweeps more.
const ROUGH_MIXED: f64 = 1.0 / 128.0;
/// So it does after so many sweeps without a smaller residual.
const STUCK: usize = 4;
/// And with no more than so many to go: the last one must be in 32 bits.
const LAST: f64 = 2.0;

/// Which buffer holds the state, which rows still move, and what acceleration remembers.
pub(super) struct Walk {
    /// The newest state that a sweep wrote, or that was proposed.
    pub at: Place,
    pub sweeps: usize,
    /// Rows that were computed.
    pub rows: u64,
    pub residual: f64,
    /// Of the last sweep, in the certificate's norm.
    pub moved: f32,
    /// The smallest measure so far.
    pub least: f32,
    /// Of a solve without certificate: the buffer that a sweep moved least, and its residual.
    pub best: Option<(usize, f64)>,
    /// Present while proposals are made.
    history: Option<History>,
    /// The smallest measure since they are made.
    least_since: f32,
    /// How often a proposal made things worse, since a state was the best.
    failures: usize,
    pub choice: Choice,
    depth: usize,
    is_certified: bool,
    pub tolerance: f64,
    measure: Measure,
    /// Largest entry of the state.
    size: f32,
    /// Largest move of the last sweep.
    largest: f32,
    /// Where the moves of this sweep are kept, and in which unit.
    kept: Option<(usize, f32)>,
    /// Of a solve that may pass over rows.
    activity: Option<Activity>,
    share: f64,
    /// Whether it does.
    skips: bool,
    /// What the last sweep read and wrote.
    last: Option<(Place, Place)>,
    /// Whether states may be stored in 16 bits, whether the next one is, and sweeps since the
    /// residual fell.
    may_shorten: bool,
    shortens: bool,
    stuck: usize,
    /// Whether the next sweep tells if the rows that were passed over could be.
    verifies: bool,
}

impl Walk {
    pub fn new(workspace: &mut Workspace, is_certified: bool, params: &SolveParams) -> Self {
        let (method, why) = match params.method {
            Method::Auto => (Used::Plain, Why::Fast),
            Method::Plain | Method::Ordered | Method::Active => (Used::Plain, Why::Asked),
            Method::Anderson => (Used::Anderson, Why::Asked),
        };
        let passes_over = is_certified && matches!(params.method, Method::Auto | Method::Active);
        Self {
            at: Place::Full(workspace.buffers.len() - 1),
            sweeps: 0,
            rows: 0,
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
            measure: params.measure,
            size: 0.0,
            largest: 0.0,
            kept: None,
            activity: passes_over.then(|| workspace.take_activity()),
            share: SHARE,
            skips: params.method == Method::Active,
            last: None,
            may_shorten: is_certified && params.may_shorten(),
            shortens: false,
            stuck: 0,
            verifies: false,
        }
    }

    /// Gives back what was borrowed; what the solve did is told.
    pub fn end(&mut self, workspace: &mut Workspace, rows: usize) -> Choice {
        if let Some(activity) = self.activity.take() {
            workspace.keep_activity(activity);
        }
        if self.choice.method == Used::Plain && self.rows < (self.sweeps * rows) as u64 {
            self.choice.method = Used::Active;
        }
        self.choice
    }

    /// Goes to a proposal, where it is time for one and there is one.
    pub fn propose(&mut self, workspace: &mut Workspace) {
        let Some(history) = self.history.as_mut().filter(|history| history.is_due()) else {
            return;
        };
        let (mixing, from, best) = (workspace.take_mixing(), self.at, self.best.map(|best| best.0));
        let to = match from {
            Place::Full(_) => {
                Place::Full(workspace.free(|buffer| from.is_full(buffer) || Some(buffer) == best))
            }
            Place::Short(..) => {
                let is_used = |short: usize| from.is_short(short) || history.uses(short);
                Place::Short(workspace.free_short(is_used), unit(self.size))
            }
        };
        let is_used =
            |short: usize| from.is_short(short) || to.is_short(short) || history.uses(short);
        let jump = workspace.free_short(is_used);
        let (mut proposal, mut jumped) = (workspace.take(to), workspace.take_short(jump));
        let (shorts, jumped_to) = (&workspace.shorts, (jump, &mut jumped));
        let is_made = match (from, &mut proposal) {
            (Place::Full(at), State::Full(to)) => {
                let from = (&workspace.buffers[at], 1.0);
                history.propose(&mixing, from, (to, 1.0), shorts, jumped_to)
            }
            (Place::Short(at, unit), State::Short(to, to_unit)) => {
                history.propose(&mixing, (&shorts[at], unit), (to, *to_unit), shorts, jumped_to)
            }
            _ => unreachable!("a proposal is stored as what it is made from"),
        };
        workspace.shorts[jump] = jumped;
        workspace.put(to, proposal);
        workspace.mixing = Some(mixing);
        if is_made {
            self.at = to;
            self.choice.proposals += 1;
        } else {
            history.clear();
        }
    }

    /// Where the next sweep is to write, the state before this one where that is free; and where to
    /// keep what it moves. The last sweep before an end writes 32 bits, and so do the first two,
    /// which tell the unit of others and how many there will be.
    pub fn target(&mut self, workspace: &mut Workspace, is_last: bool) -> (Place, Option<usize>) {
        if let Some(history) = &mut self.history {
            history.make_room();
        }
        let (at, history) = (self.at, &self.history);
        let is_kept = |short: usize| history.as_ref().is_some_and(|history| history.uses(short));
        let best = self.best.map(|best| best.0);
        let is_used = |buffer: usize| at.is_full(buffer) || Some(buffer) == best;
        let to = match self.last {
            _ if self.shortens && !is_last => {
                let free = workspace.free_short(|short| at.is_short(short) || is_kept(short));
                Place::Short(free, unit(self.size))
            }
            Some((Place::Full(before), _)) if !is_used(before) => Place::Full(before),
            _ => Place::Full(workspace.free(is_used)),
        };
        // How large moves will be is told by those before.
        self.kept = (history.is_some() && self.sweeps > 0).then(|| {
            let is_used = |short: usize| at.is_short(short) || to.is_short(short) || is_kept(short);
            (workspace.free_short(is_used), unit(self.largest))
        });
        (to, self.kept.map(|kept| kept.0))
    }

    /// Whether a sweep to this place reads and writes 32 bits: only then is it told which rows
    /// move.
    fn is_full(&self, to: Place) -> bool {
        matches!((self.at, to), (Place::Full(_), Place::Full(_)))
    }

    /// The buffer of a state in 32 bits.
    pub fn at_full(&self) -> Option<usize> {
        if let Place::Full(at) = self.at { Some(at) } else { None }
    }

    /// What the next sweep keeps beside its result: its moves where there is a matrix for them, or
    /// which rows move. The last sweep before an end takes all rows.
    pub fn beside<'a>(
        &'a mut self,
        to: Place,
        moves: Option<&'a mut Matrix<F16>>,
        is_last: bool,
    ) -> Beside<'a> {
        match (moves, self.kept) {
            (Some(moves), Some((_, unit))) => {
                Beside::Moves(Moves { to: moves.view_mut(), factor: 1.0 / unit })
            }
            _ => self.activity(to, is_last).map_or(Beside::Nothing, Beside::Activity),
        }
    }

    /// Which rows the next sweep computes; none for all.
    fn activity(&mut self, to: Place, is_last: bool) -> Option<&mut Activity> {
        if !self.is_full(to) {
            return None;
        }
        let continues = self.last == Some((to, self.at));
        let activity = self.activity.as_mut().filter(|_| self.history.is_none())?;
        activity.takes_all |= !continues || !self.skips || self.verifies || is_last;
        let part = (self.share * self.tolerance) as f32;
        activity.threshold = match self.measure {
            Measure::State => Threshold { absolute: part * self.size, ..Threshold::default() },
            Measure::Row => Threshold { absolute: 0.0, relative: part, least: self.size * FADED },
        };
        Some(activity)
    }

    /// The change of a sweep with the largest entry of the whole state, though it may not have
    /// computed all rows.
    pub fn whole(&mut self, change: Change, is_full: bool) -> Change {
        self.size = if is_full { change.state } else { self.size.max(change.state) };
        self.largest = change.largest;
        Change { state: self.size, ..change }
    }

    /// Rows that fade below this are not looked at.
    pub fn faded(&self) -> f32 {
        self.size * FADED
    }

    /// Whether the solve is at its end: the tolerance is reached, and all rows were computed.
    pub fn has_arrived(&mut self, is_full: bool) -> bool {
        let is_small = self.residual <= self.tolerance;
        if is_full && self.verifies && !is_small {
            self.share *= CUT;
        }
        self.verifies = is_small && !is_full;
        is_small && is_full && self.at_full().is_some()
    }

    /// A sweep wrote a state, `moving` the part of the rows that count as moved: goes there, and
    /// decides how to go on.
    pub fn took(&mut self, to: Place, residual: f64, measure: f32, moving: f64) {
        let rate = residual / self.residual;
        // Of a wave that travels nobody knows how far.
        let to_go =
            if rate < 1.0 { (self.tolerance / residual).ln() / rate.ln() } else { f64::INFINITY };
        let can_skip = self.is_full(to)
            && self.activity.as_ref().is_some_and(|activity| !activity.never_skips);
        let is_quiet = can_skip && moving < QUIET;
        self.skips |= self.sweeps > 1 && is_quiet && to_go > LEAST;
        let is_falling = measure < self.least;
        self.choice.short_sweeps += usize::from(matches!(to, Place::Short(..)));
        self.stuck = if is_falling { 0 } else { self.stuck + 1 };
        let rough = if self.history.is_some() { ROUGH_MIXED } else { ROUGH };
        // What the next sweep would find must still be larger than what rounding adds; after a
        // proposal no rate tells.
        let is_plain = self.sweeps > 1 && self.history.is_none();
        let next = if is_plain { residual * rate.min(1.0) } else { residual };
        self.may_shorten &= next > self.tolerance.max(rough) && self.stuck < STUCK;
        let skips = self.skips && self.history.is_none();
        self.shortens = self.may_shorten && self.sweeps > 1 && to_go > LAST && !skips;
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
                    if let Some((short, unit)) = self.kept {
                        history.note(short, unit);
                    }
                    self.least_since = self.least_since.min(measure);
                    // Where an activation's kink moves, some proposals fail and the next ones do
                    // not.
                    self.failures = if is_falling { 0 } else { self.failures };
                }
                if self.failures >= FAILURES {
                    self.fall_back();
                }
            }
            None if matches!(self.choice.why, Why::Fast | Why::Quiet) => {
                self.choice.rate = if rate.is_finite() { rate } else { 0.0 };
                // Where nothing is certified it may be that there is no equilibrium, or one that
                // sweeps lead away from: only what converges by itself is hastened. Waves are not.
                if self.sweeps > 1
                    && to_go > FEW
                    && to_go.is_finite()
                    && (self.is_certified || is_falling)
                {
                    if is_quiet {
                        self.choice.why = Why::Quiet;
                    } else {
                        self.history = Some(History::new(self.depth));
                        self.choice =
                            Choice { method: Used::Anderson, why: Why::Slow, ..self.choice };
                    }
                }
            }
            None => {}
        }
        self.last = Some((self.at, to));
        self.at = to;
    }

    /// No more proposals; whether there were any.
    pub fn fall_back(&mut self) -> bool {
        let fell = self.history.take().is_some();
        if fell {
            self.choice.why = Why::FellBack;
            // Flags were not kept meanwhile.
            if let Some(activity) = &mut self.activity {
                activity.takes_all = true;
            }
        }
        fell
    }

    /// Of a solve without certificate that did not converge, the best state is the result.
    pub fn back_to_best(&mut self) {
        if let Some((at, residual)) = self.best {
            (self.at, self.residual) = (Place::Full(at), residual);
        }
    }
}
