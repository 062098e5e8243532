//! Active rows: sweeps that skip the rows whose inputs have stopped moving.
//!
//! A row that moved by less than a share of the tolerance does not wake the rows that gather from
//! it. Skipping starts when few rows move and enough sweeps are left to pay for one more: the
//! sweep that verifies. It computes all rows, and residual and certificate are its own. Where it
//! finds a residual above the tolerance, the share was too large; the solve goes on with a quarter
//! of it. That makes sense only where sweeps contract, so a solve without certificate never skips.
//!
//! [`ActiveRows`] decides; which rows moved is recorded by the sweep itself, in [`Activity`].

use super::fixed_point::{FADED, Measure};
use super::method::Method;
use super::stopping::Pace;
use crate::kernels::sweep::{Activity, Threshold};
use crate::parallel::RowFlags;

/// Where fewer than this part of the rows move, skipping the others saves more than Anderson
/// mixing, which moves all of them.
const QUIET: f64 = 0.6;
/// Skipping starts only with more than this many sweeps left: verifying costs one.
const LEAST_SWEEPS_LEFT: f64 = 4.0;
/// Part of the tolerance by which a row may move without waking the rows that gather from it.
const SHARE: f64 = 0.1;
/// What the share is multiplied by when a verifying sweep finds that it was too large.
const CUT: f64 = 0.25;

/// Facts about the next sweep that decide which rows it computes.
#[derive(Clone, Copy, Debug)]
pub(super) struct NextSweep {
    /// Whether the buffer it writes holds the state before the one that it reads.
    pub continues: bool,
    /// Whether its result may be that of the solve.
    pub may_be_last: bool,
    pub tolerance: f64,
    /// Largest entry of the state.
    pub size: f32,
}

/// Which rows the sweeps of a solve compute.
#[derive(Debug)]
pub(super) struct ActiveRows {
    /// Flags of the rows; `None` for a solve that never skips.
    activity: Option<Activity>,
    measure: Measure,
    share: f64,
    is_skipping: bool,
    /// Whether the next sweep verifies the result.
    verifies: bool,
}

impl ActiveRows {
    /// Takes the flags of a solve that may skip rows.
    pub fn new(activity: Option<Activity>, method: Method, measure: Measure) -> Self {
        let is_skipping = method == Method::Active;
        Self { activity, measure, share: SHARE, is_skipping, verifies: false }
    }

    /// Gives the flags back.
    pub fn take_activity(&mut self) -> Option<Activity> {
        self.activity.take()
    }

    /// What the next sweep is to record, and which rows it computes; `None`: all, unrecorded.
    pub fn prepare(&mut self, next: NextSweep) -> Option<&mut Activity> {
        let activity = self.activity.as_mut()?;
        activity.takes_all |=
            !next.continues || !self.is_skipping || self.verifies || next.may_be_last;
        let part = (self.share * next.tolerance) as f32;
        activity.threshold = match self.measure {
            Measure::State => Threshold { absolute: part * next.size, ..Threshold::default() },
            Measure::Row => Threshold { absolute: 0.0, relative: part, least: next.size * FADED },
        };
        Some(activity)
    }

    /// Which rows moved in the last sweep, for those of other ranks.
    pub fn flags(&mut self) -> Option<RowFlags<'_>> {
        self.activity.as_mut().map(Activity::of_rows)
    }

    /// Whether so few rows move, as a part of all, that skipping the others pays.
    pub fn is_quiet(&self, moving: f64) -> bool {
        let can_skip = self.activity.as_ref().is_some_and(|activity| !activity.never_skips);
        can_skip && moving < QUIET
    }

    /// Starts skipping where few rows move and many sweeps are left.
    pub fn observe(&mut self, is_quiet: bool, pace: Pace) {
        self.is_skipping |= is_quiet && pace.sweeps_left > LEAST_SWEEPS_LEFT;
    }

    /// Whether the solve is done: a sweep over all rows is within the tolerance. If one that
    /// skipped rows is, the next one verifies.
    pub fn accept(&mut self, is_within_tolerance: bool, computed_all: bool) -> bool {
        if computed_all && self.verifies && !is_within_tolerance {
            self.share *= CUT;
        }
        self.verifies = is_within_tolerance && !computed_all;
        is_within_tolerance && computed_all
    }

    /// The next sweep computes all rows: flags were not recorded for a while.
    pub fn wake_all(&mut self) {
        if let Some(activity) = &mut self.activity {
            activity.takes_all = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: NextSweep =
        NextSweep { continues: true, may_be_last: false, tolerance: 1e-4, size: 2.0 };
    const SLOW: Pace = Pace { rate: 0.9, sweeps_left: 50.0 };

    /// A policy whose flags say that some rows may be skipped.
    fn policy(method: Method, measure: Measure) -> ActiveRows {
        let mut activity = Activity::new(4);
        activity.takes_all = false;
        ActiveRows::new(Some(activity), method, measure)
    }

    fn takes_all(policy: &mut ActiveRows, next: NextSweep) -> bool {
        let activity = policy.prepare(next).unwrap();
        // As the sweep does when it is done.
        std::mem::replace(&mut activity.takes_all, false)
    }

    #[test]
    fn skipping_starts_when_few_rows_move_and_many_sweeps_are_left() {
        let mut policy = policy(Method::Auto, Measure::State);
        assert!(takes_all(&mut policy, NEXT));
        assert!(policy.is_quiet(0.5) && !policy.is_quiet(0.7));
        policy.observe(policy.is_quiet(0.7), SLOW);
        policy.observe(policy.is_quiet(0.5), Pace { sweeps_left: 3.0, ..SLOW });
        assert!(takes_all(&mut policy, NEXT));
        policy.observe(policy.is_quiet(0.5), SLOW);
        assert!(!takes_all(&mut policy, NEXT));
        // It goes on when more rows move again.
        policy.observe(policy.is_quiet(0.9), SLOW);
        assert!(!takes_all(&mut policy, NEXT));
    }

    #[test]
    fn all_rows_are_computed_where_flags_do_not_hold_or_the_result_is_verified() {
        let mut policy = policy(Method::Active, Measure::State);
        assert!(!takes_all(&mut policy, NEXT));
        assert!(takes_all(&mut policy, NextSweep { continues: false, ..NEXT }));
        assert!(takes_all(&mut policy, NextSweep { may_be_last: true, ..NEXT }));
        policy.wake_all();
        assert!(takes_all(&mut policy, NEXT) && !takes_all(&mut policy, NEXT));
        // Within the tolerance, but not all rows were computed: the next sweep verifies.
        assert!(!policy.accept(true, false));
        assert!(takes_all(&mut policy, NEXT));
        assert!(policy.accept(true, true));
    }

    #[test]
    fn the_share_is_cut_only_when_a_verifying_sweep_fails() {
        let mut policy = policy(Method::Active, Measure::State);
        let threshold = |policy: &mut ActiveRows| policy.prepare(NEXT).unwrap().threshold;
        let whole = threshold(&mut policy).absolute;
        assert_eq!(whole, (SHARE * NEXT.tolerance) as f32 * NEXT.size);
        assert!(!policy.accept(false, true) && !policy.accept(true, false));
        assert_eq!(threshold(&mut policy).absolute, whole);
        assert!(!policy.accept(false, true));
        assert_eq!(threshold(&mut policy).absolute, whole / 4.0);
    }

    #[test]
    fn residuals_by_row_have_thresholds_by_row() {
        let threshold = policy(Method::Active, Measure::Row).prepare(NEXT).unwrap().threshold;
        assert_eq!((threshold.absolute, threshold.relative), (0.0, 1e-5));
        assert_eq!(threshold.least, NEXT.size * FADED);
    }

    #[test]
    fn without_flags_nothing_is_skipped() {
        let mut policy = ActiveRows::new(None, Method::Active, Measure::State);
        assert!(policy.prepare(NEXT).is_none() && !policy.is_quiet(0.0));
        let mut shared = self::policy(Method::Auto, Measure::State);
        shared.activity.as_mut().unwrap().never_skips = true;
        assert!(!shared.is_quiet(0.0), "rows that repeat are gathered from a table without flags");
    }
}
