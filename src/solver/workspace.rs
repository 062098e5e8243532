//! The memory of a solve beyond its result: states to write to, the best one of a solve without
//! certificate, and the moves that acceleration looks back on. It holds buffers; what is in them
//! between solves means nothing.
//!
//! The first buffers are made at once, those of acceleration when a solve turns out to be slow; all
//! are kept from then on.

use crate::dense::{Entry, F16, Matrix, stride};
use crate::kernels::mixing::Mixing;
use crate::kernels::sweep::Activity;
use crate::kernels::{State, StateRef};

/// Where a state is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    /// Among those of 32 bits.
    Full(usize),
    /// Among those of 16 bits, with its unit.
    Short(usize, f32),
}

impl Place {
    /// Whether it is this one of 32 bits.
    pub fn is_full(self, at: usize) -> bool {
        self == Self::Full(at)
    }

    /// Whether it is this one of 16 bits.
    pub fn is_short(self, at: usize) -> bool {
        matches!(self, Self::Short(own, _) if own == at)
    }
}

/// Buffers of the state's shape.
#[derive(Debug)]
pub struct Workspace {
    rows: usize,
    cols: usize,
    keeps_best: bool,
    /// While a solve runs its state is among them, the last at first.
    pub(super) buffers: Vec<Matrix>,
    /// Moves and jumps of acceleration, and states of 16 bits.
    pub(super) shorts: Vec<Matrix<F16>>,
    /// Lent to a proposal while it is made.
    pub(super) mixing: Option<Mixing>,
    /// Lent to a solve while it runs.
    activity: Option<Activity>,
}

impl Workspace {
    /// For states of `rows` x `cols`. A solve without certificate needs `keep_best`: see
    /// [`super::fixed_point`].
    pub fn new(rows: usize, cols: usize, keep_best: bool) -> Self {
        let buffers = (0..1 + usize::from(keep_best)).map(|_| Matrix::zeros(rows, cols)).collect();
        Self {
            rows,
            cols,
            keeps_best: keep_best,
            buffers,
            shorts: Vec::new(),
            mixing: None,
            activity: Some(Activity::new(rows)),
        }
    }

    /// Bytes that [`Workspace::new`] takes, and so many short matrices
    /// ([`super::SolveParams::shorts`]); the state itself comes on top.
    pub fn bytes(rows: usize, cols: usize, keep_best: bool, shorts: usize) -> u64 {
        let entries = (rows as u64).saturating_mul(stride(cols) as u64);
        let states = (1 + usize::from(keep_best)) * size_of::<f32>();
        entries
            .saturating_mul((states + shorts * size_of::<F16>()) as u64)
            .saturating_add(Activity::bytes(rows))
    }

    /// A matrix of the state's shape that is free between solves.
    pub fn spare(&mut self) -> &mut Matrix {
        &mut self.buffers[0]
    }

    /// Whether solves without certificate can use it.
    pub fn keeps_best(&self) -> bool {
        self.keeps_best
    }

    /// Number of rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Bytes that it takes now.
    pub fn held(&self) -> u64 {
        let flags = self.activity.as_ref().map_or(0, |_| Activity::bytes(self.rows));
        let states = self.buffers.iter().map(|buffer| size_of_val(buffer.all_lines()));
        let moves = self.shorts.iter().map(|short| size_of_val(short.all_lines()));
        flags + states.chain(moves).sum::<usize>() as u64
    }

    /// Flags of active rows; the next sweep takes all.
    pub(super) fn take_activity(&mut self) -> Activity {
        let mut activity = self.activity.take().unwrap_or_else(|| Activity::new(self.rows));
        activity.takes_all = true;
        activity
    }

    pub(super) fn keep_activity(&mut self, activity: Activity) {
        self.activity = Some(activity);
    }

    /// The first buffer that is not in use; a new one where all are.
    pub(super) fn free(&mut self, is_used: impl Fn(usize) -> bool) -> usize {
        free(&mut self.buffers, (self.rows, self.cols), is_used)
    }

    /// The same of short matrices.
    pub(super) fn free_short(&mut self, is_used: impl Fn(usize) -> bool) -> usize {
        free(&mut self.shorts, (self.rows, self.cols), is_used)
    }

    /// A state to read.
    pub(super) fn state(&self, place: Place) -> StateRef<'_> {
        match place {
            Place::Full(at) => StateRef::Full(self.buffers[at].view()),
            Place::Short(at, unit) => StateRef::Short(self.shorts[at].view(), unit),
        }
    }

    /// A state to write, out of its place until it is put back.
    pub(super) fn take(&mut self, place: Place) -> State {
        match place {
            Place::Full(at) => {
                State::Full(std::mem::replace(&mut self.buffers[at], Matrix::zeros(0, 0)))
            }
            Place::Short(at, unit) => State::Short(self.take_short(at), unit),
        }
    }

    pub(super) fn put(&mut self, place: Place, state: State) {
        match (place, state) {
            (Place::Full(at), State::Full(matrix)) => self.buffers[at] = matrix,
            (Place::Short(at, _), State::Short(matrix, _)) => self.shorts[at] = matrix,
            _ => unreachable!("a state goes back to its place"),
        }
    }

    /// A short matrix to write, out of its place until it is put back.
    pub(super) fn take_short(&mut self, at: usize) -> Matrix<F16> {
        std::mem::replace(&mut self.shorts[at], Matrix::blank(0, 0))
    }

    /// The arithmetic over states and moves, to be given back.
    pub(super) fn take_mixing(&mut self) -> Mixing {
        self.mixing.take().unwrap_or_else(|| Mixing::new(self.rows, self.cols))
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
