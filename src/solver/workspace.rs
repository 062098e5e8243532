//! The memory of a solve beyond its result. It holds buffers; what is in them between solves means
//! nothing.
//!
//! | buffers | entries | how many |
//! | --- | --- | --- |
//! | states | n x m, f32 | one for the next state; one more for the best state without certificate |
//! | moves | n x m, f16 | those of Anderson mixing: [`SolveParams::mixing_buffers`] at most |
//! | flags | n, three bytes | which rows are active |
//!
//! On several ranks, n is the number of own rows, and states and flags also have rows for ghosts.
//!
//! States and flags are allocated with the workspace, moves when a solve turns out to be slow. All
//! are kept for later solves.
//!
//! [`SolveParams::mixing_buffers`]: super::SolveParams::mixing_buffers

use half::f16;

use crate::dense::{Entry, Matrix, stride};
use crate::kernels::mixing::Mixing;
use crate::kernels::sweep::Activity;
use crate::parallel::{RowBlocks, RowFlags, Rows};

/// Buffers of the state's shape.
#[derive(Debug)]
pub struct Workspace {
    rows: Rows,
    cols: usize,
    keeps_best: bool,
    /// While a solve runs its own state is among them, at first as the last one.
    pub(super) states: Vec<Matrix>,
    /// Moves and jumps of Anderson mixing.
    pub(super) moves: Vec<Matrix<f16>>,
    /// Lent to a proposal while it is made.
    pub(super) mixing: Option<Mixing>,
    /// Lent to a solve while it runs.
    activity: Option<Activity>,
}

impl Workspace {
    /// For states of `rows` x `cols`. A solve without certificate needs `keep_best`: see
    /// [`super::fixed_point`].
    pub fn new(rows: usize, cols: usize, keep_best: bool) -> Self {
        Self::over(&Rows::alone(RowBlocks::for_sums(rows, &[])), cols, keep_best)
    }

    /// The same for the rows of a rank: solves then exchange ghosts with the other ranks, which
    /// make the same solves.
    pub fn over(rows: &Rows, cols: usize, keep_best: bool) -> Self {
        let state = |_| Matrix::zeros(rows.with_ghosts(), cols);
        let states = (0..1 + usize::from(keep_best)).map(state).collect();
        Self {
            rows: rows.clone(),
            cols,
            keeps_best: keep_best,
            states,
            moves: Vec::new(),
            mixing: None,
            activity: Some(Activity::new(rows.with_ghosts())),
        }
    }

    /// Bytes that [`Workspace::new`] allocates, plus those of the 16-bit matrices of Anderson
    /// mixing ([`super::SolveParams::mixing_buffers`]). The state itself comes on top.
    pub fn bytes(rows: usize, cols: usize, keep_best: bool, mixing_buffers: usize) -> u64 {
        let entries = (rows as u64).saturating_mul(stride(cols) as u64);
        let states = (1 + usize::from(keep_best)) * size_of::<f32>();
        entries
            .saturating_mul((states + mixing_buffers * size_of::<f16>()) as u64)
            .saturating_add(Activity::bytes(rows))
    }

    /// A matrix of the state's shape that is free between solves.
    pub fn spare(&mut self) -> &mut Matrix {
        &mut self.states[0]
    }

    /// Whether solves without certificate can use it.
    pub fn keeps_best(&self) -> bool {
        self.keeps_best
    }

    /// The rows of the states.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Number of columns of the states.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes that are allocated now.
    pub fn held(&self) -> u64 {
        let flags = self.activity.as_ref().map_or(0, |_| Activity::bytes(self.rows.with_ghosts()));
        let states = self.states.iter().map(|state| size_of_val(state.all_lines()));
        let moves = self.moves.iter().map(|moves| size_of_val(moves.all_lines()));
        flags + states.chain(moves).sum::<usize>() as u64
    }

    /// Brings the ghosts of a state up to date. With `before`, a buffer whose ghosts are, only rows
    /// that differ from it are sent.
    pub(super) fn update(&mut self, before: Option<usize>, at: usize, flags: Option<RowFlags<'_>>) {
        if self.rows.is_alone() {
            return;
        }
        let mut state = self.take_state(at);
        let before = before.filter(|&before| before != at);
        let before = before.map(|before| self.states[before].view().padded());
        let mut view = state.view_mut();
        let shape = (view.stride(), view.cols());
        self.rows.update(before, view.padded_mut(), shape, flags);
        self.states[at] = state;
    }

    /// Flags of active rows; the next sweep computes all rows.
    pub(super) fn take_activity(&mut self) -> Activity {
        let mut activity =
            self.activity.take().unwrap_or_else(|| Activity::new(self.rows.with_ghosts()));
        activity.takes_all = true;
        activity
    }

    pub(super) fn keep_activity(&mut self, activity: Activity) {
        self.activity = Some(activity);
    }

    /// The first state buffer that is not in use, allocated if all are.
    pub(super) fn free_state(&mut self, is_used: impl Fn(usize) -> bool) -> usize {
        free(&mut self.states, (self.rows.with_ghosts(), self.cols), is_used)
    }

    /// The same of the 16-bit buffers.
    pub(super) fn free_moves(&mut self, is_used: impl Fn(usize) -> bool) -> usize {
        free(&mut self.moves, (self.rows.len(), self.cols), is_used)
    }

    /// A state buffer to write, out of its place until it is put back.
    pub(super) fn take_state(&mut self, at: usize) -> Matrix {
        std::mem::replace(&mut self.states[at], Matrix::zeros(0, 0))
    }

    /// A 16-bit buffer to write, out of its place until it is put back.
    pub(super) fn take_moves(&mut self, at: usize) -> Matrix<f16> {
        std::mem::replace(&mut self.moves[at], Matrix::blank(0, 0))
    }

    /// The arithmetic of Anderson mixing, to be given back.
    pub(super) fn take_mixing(&mut self) -> Mixing {
        self.mixing.take().unwrap_or_else(|| Mixing::new(&self.rows, self.cols))
    }
}

fn free<E: Entry>(
    buffers: &mut Vec<Matrix<E>>,
    (rows, cols): (usize, usize),
    is_used: impl Fn(usize) -> bool,
) -> usize {
    let free = (0..buffers.len()).find(|&at| !is_used(at));
    free.unwrap_or_else(|| {
        buffers.push(Matrix::blank(rows, cols));
        buffers.len() - 1
    })
}
