//! Acceleration by Anderson mixing: when proposals are made, and when they have failed.
//!
//! While it is on, every sweep records by how much it moved each entry (16-bit, in the workspace),
//! and every few sweeps the solve continues from a state that [`super::anderson`] extrapolates
//! from them. A sweep that moves the state much more than the smallest move so far shows that the
//! proposal was bad: what led there is forgotten. After several of these without a better state in
//! between, acceleration gives up and plain sweeps go on. A few failures are normal where the kink
//! of an activation moves.
//!
//! [`Acceleration`] chooses buffers and watches moves; the arithmetic is in `anderson`.

use super::anderson::History;
use super::workspace::Workspace;
use crate::kernels::mixing::unit;

/// A sweep that moves the state by more than this times the smallest move counts as a failure.
const GROWTH: f32 = 4.0;
/// Number of failures without a better state in between after which acceleration gives up.
const FAILURES: usize = 3;

/// Where a sweep records its moves: a 16-bit buffer of the workspace, and the unit of its entries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slot {
    pub buffer: usize,
    pub unit: f32,
}

/// Anderson mixing of one solve, on or off.
#[derive(Debug)]
pub(super) struct Acceleration {
    depth: usize,
    /// Present while it is on.
    history: Option<History>,
    /// Of the next sweep.
    slot: Option<Slot>,
    /// The smallest move since it is on, or since the history was dropped.
    smallest_move: f32,
    failures: usize,
}

impl Acceleration {
    /// Off at first, for histories of `depth` sweeps.
    pub fn new(depth: usize) -> Self {
        Self { depth, history: None, slot: None, smallest_move: f32::INFINITY, failures: 0 }
    }

    pub fn start(&mut self) {
        self.history = Some(History::new(self.depth));
    }

    /// Turns it off; whether it was on.
    pub fn stop(&mut self) -> bool {
        self.history.take().is_some()
    }

    pub fn is_on(&self) -> bool {
        self.history.is_some()
    }

    /// The buffer of a state to continue from instead of the one in `from`, where a proposal is
    /// due. The state in `best` is left alone.
    pub fn propose(
        &mut self,
        workspace: &mut Workspace,
        from: usize,
        best: Option<usize>,
    ) -> Option<usize> {
        let history = self.history.as_mut().filter(|history| history.is_due())?;
        let mixing = workspace.take_mixing();
        let to = workspace.free_state(|buffer| buffer == from || Some(buffer) == best);
        let jump = workspace.free_moves(|buffer| history.uses(buffer));
        let (mut proposal, mut jumped) = (workspace.take_state(to), workspace.take_moves(jump));
        let is_made = history.propose(
            &mixing,
            &workspace.states[from],
            &mut proposal,
            &workspace.moves,
            (jump, &mut jumped),
        );
        workspace.states[to] = proposal;
        workspace.moves[jump] = jumped;
        workspace.mixing = Some(mixing);
        if is_made {
            workspace.update(Some(from), to, None);
        }
        if !is_made {
            history.clear();
        }
        is_made.then_some(to)
    }

    /// Where the next sweep records its moves, where it is to: the last one moved entries by at
    /// most `largest_move`, which gives their unit; `None` before the first sweep.
    pub fn reserve_slot(
        &mut self,
        workspace: &mut Workspace,
        largest_move: Option<f32>,
    ) -> Option<Slot> {
        self.slot = None;
        if let Some(history) = &mut self.history {
            history.make_room();
            self.slot = largest_move.map(|largest| Slot {
                buffer: workspace.free_moves(|buffer| history.uses(buffer)),
                unit: unit(largest),
            });
        }
        self.slot
    }

    /// Takes note of a sweep that moved the state by `moved`. `false` once proposals have failed
    /// too often.
    pub fn observe(&mut self, moved: f32, is_smallest_move: bool) -> bool {
        let Some(history) = &mut self.history else { return true };
        if moved > GROWTH * self.smallest_move {
            history.clear();
            self.failures += 1;
            self.smallest_move = moved;
        } else {
            if let Some(slot) = self.slot {
                history.note(slot.buffer, slot.unit);
            }
            self.smallest_move = self.smallest_move.min(moved);
            if is_smallest_move {
                self.failures = 0;
            }
        }
        self.failures < FAILURES
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::super::anderson::PERIOD;
    use super::*;
    use crate::dense::Matrix;

    /// x' = x / 2 + 1 in every entry, whose fixed point is 2; records its moves where asked to.
    fn sweep(workspace: &mut Workspace, from: usize, to: usize, slot: Option<Slot>) -> f32 {
        let (rows, cols) = (workspace.rows().len(), workspace.cols());
        let old = workspace.states[from].clone();
        workspace.states[to] = Matrix::from_fn(rows, cols, |i, k| old.row(i)[k] / 2.0 + 1.0);
        let moved = workspace.states[to].row(0)[0] - old.row(0)[0];
        if let Some(Slot { buffer, unit }) = slot {
            for i in 0..rows {
                workspace.moves[buffer].row_mut(i).fill(f16::from_f32(moved / unit));
            }
        }
        moved.abs()
    }

    #[test]
    fn a_proposal_comes_after_a_period_of_sweeps_and_ends_a_linear_iteration() {
        // Buffers 0 and 1 take turns.
        let mut workspace = Workspace::new(3, 2, true);
        let mut acceleration = Acceleration::new(5);
        acceleration.start();
        let (mut at, mut largest) = (0, None);
        for sweeps in 0..=PERIOD {
            assert_eq!(acceleration.propose(&mut workspace, at, None), None, "after {sweeps}");
            let slot = acceleration.reserve_slot(&mut workspace, largest);
            assert_eq!(slot.is_some(), sweeps > 0, "the first sweep has no unit for its moves");
            let moved = sweep(&mut workspace, at, 1 - at, slot);
            assert!(acceleration.observe(moved, true));
            (at, largest) = (1 - at, Some(moved));
        }
        let best = 1 - at;
        let proposed = acceleration.propose(&mut workspace, at, Some(best)).unwrap();
        assert!(proposed != at && proposed != best);
        for i in 0..3 {
            for &x in workspace.states[proposed].row(i) {
                assert!((x - 2.0).abs() < 1e-3, "{x}");
            }
        }
        assert_eq!(acceleration.propose(&mut workspace, proposed, None), None);
    }

    #[test]
    fn moves_are_recorded_in_buffers_of_their_own_and_no_more_than_needed() {
        let depth = 2;
        let mut workspace = Workspace::new(3, 2, false);
        let mut acceleration = Acceleration::new(depth);
        assert_eq!(acceleration.reserve_slot(&mut workspace, Some(1.0)), None, "it is off");
        acceleration.start();
        let mut kept: Vec<usize> = Vec::new();
        for _ in 0..10 {
            let slot = acceleration.reserve_slot(&mut workspace, Some(0.75)).unwrap();
            assert_eq!(slot.unit, 1.0);
            let newest = kept.len().saturating_sub(depth);
            assert!(!kept[newest..].contains(&slot.buffer), "{kept:?} {slot:?}");
            acceleration.observe(1.0, true);
            kept.push(slot.buffer);
        }
        assert_eq!(workspace.moves.len(), depth + 1);
    }

    #[test]
    fn it_gives_up_after_three_failures_without_a_better_state() {
        let observe = |moves: &[(f32, bool)]| -> Vec<bool> {
            let mut acceleration = Acceleration::new(5);
            acceleration.start();
            moves.iter().map(|&(moved, is_best)| acceleration.observe(moved, is_best)).collect()
        };
        // Each move is more than four times the one before.
        let growing = [(1.0, true), (5.0, false), (25.0, false), (125.0, false)];
        assert_eq!(observe(&growing), [true, true, true, false]);
        // Four times is not too much, and a better state in between forgives.
        assert!(observe(&[(1.0, true), (4.0, false), (4.0, false), (4.0, false)])[3]);
        let forgiven = [(1.0, true), (5.0, false), (25.0, false), (0.5, true), (3.0, false)];
        assert!(observe(&forgiven)[4]);
        let mut acceleration = Acceleration::new(5);
        acceleration.start();
        assert!(acceleration.stop() && !acceleration.stop() && !acceleration.is_on());
    }

    #[test]
    fn a_failure_drops_the_history() {
        let mut workspace = Workspace::new(3, 2, true);
        let mut acceleration = Acceleration::new(5);
        acceleration.start();
        for sweeps in 0..3 * PERIOD {
            acceleration.reserve_slot(&mut workspace, Some(1.0));
            // The last one is bad.
            let is_bad = sweeps + 1 == 3 * PERIOD;
            acceleration.observe(if is_bad { 100.0 } else { 1.0 }, !is_bad);
        }
        assert_eq!(acceleration.propose(&mut workspace, 0, None), None);
    }
}
