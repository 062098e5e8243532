//! The memory of a solve beyond its result: states to write to, the best one of a solve without certificate, and the
//! moves that acceleration looks back on.
//! It holds buffers; what is in them between solves means nothing.
//!
//! The first buffers are made at once, those of acceleration when a solve turns out to be slow; all are kept from then on.

use super::anderson;
use crate::dense::{F16, Matrix, stride};
use crate::kernels::mixing::Mixing;
use crate::kernels::sweep::Activity;

/// Buffers of the state's shape.
#[derive(Debug)]
pub struct Workspace {
    rows: usize,
    cols: usize,
    keeps_best: bool,
    /// While a solve runs its state is among them, the last at first.
    pub(super) buffers: Vec<Matrix>,
    /// Moves and jumps of acceleration.
    shorts: Vec<Matrix<F16>>,
    mixing: Option<Mixing>,
    /// Lent to a solve while it runs.
    activity: Option<Activity>,
}

impl Workspace {
    /// For states of `rows` x `cols`. A solve without certificate needs `keep_best`: see [`super::fixed_point`].
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

    /// Bytes that [`Workspace::new`] takes, and acceleration of a depth (0 for none); the state itself comes on top.
    pub fn bytes(rows: usize, cols: usize, keep_best: bool, depth: usize) -> u64 {
        let entries = (rows as u64).saturating_mul(stride(cols) as u64);
        let states = (1 + usize::from(keep_best)) * size_of::<f32>();
        let moves = anderson::shorts(depth) * size_of::<F16>();
        entries.saturating_mul((states + moves) as u64).saturating_add(Activity::bytes(rows))
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
        let free = (0..self.buffers.len()).find(|&at| !is_used(at));
        free.unwrap_or_else(|| {
            self.buffers.push(Matrix::zeros(self.rows, self.cols));
            self.buffers.len() - 1
        })
    }

    /// The same of short matrices.
    pub(super) fn free_short(&mut self, is_used: impl Fn(usize) -> bool) -> usize {
        let free = (0..self.shorts.len()).find(|&at| !is_used(at));
        free.unwrap_or_else(|| {
            self.shorts.push(Matrix::blank(self.rows, self.cols));
            self.shorts.len() - 1
        })
    }

    /// A buffer to read, another one to write, and a short matrix where one is named.
    pub(super) fn for_sweep(
        &mut self,
        from: usize,
        to: usize,
        short: Option<usize>,
    ) -> (&Matrix, &mut Matrix, Option<&mut Matrix<F16>>) {
        let [from, to] = self.buffers.get_disjoint_mut([from, to]).expect("two buffers");
        (from, to, short.map(|at| &mut self.shorts[at]))
    }

    /// A buffer to read, another one to write, all short matrices, and the arithmetic over them.
    pub(super) fn for_mixing(
        &mut self,
        from: usize,
        to: usize,
    ) -> (&Mixing, &Matrix, &mut Matrix, &mut [Matrix<F16>]) {
        let mixing = self.mixing.get_or_insert_with(|| Mixing::new(&self.buffers[from]));
        let [from, to] = self.buffers.get_disjoint_mut([from, to]).expect("two buffers");
        (mixing, from, to, &mut self.shorts)
    }
}
