//! Layers that are computed, not solved: `X = f(B)` for some map `f`, and its derivative.
//! This file has the two traits of a map and the memory that all maps share. Each map is in a file
//! of its own; the input term `B` comes from the caller.
//!
//! | symbol | shape | meaning |
//! | --- | --- | --- |
//! | B | n x b | input term, written by the caller before a forward pass |
//! | X | n x m | state, the result |
//! | R | n x m | dL/dX, written by the caller before a backward pass |
//! | G | n x b | dL/dB |
//!
//! b = m unless a map says otherwise ([`Map::input_width`]).
//!
//! A map may scale rows of R, but a row of zeros has to stay zero: the caller fills in the rows of
//! its batch only.
//!
//! On several ranks, n counts the rank's own nodes and its ghosts ([`Rows`]).
//! The caller fills in own rows; a map brings the ghosts of what it gathers from up to date.

use std::fmt::Debug;

use super::operators::Operators;
use super::slot::Slot;
use crate::dense::{Matrix, MatrixMut, MatrixRef, stride};
use crate::kernels::elementwise;
use crate::parallel::Rows;
use crate::solver::{SolveError, SolveInfo, SolveParams};

/// Matrices in [`Memory`].
pub const MEMORY_MATRICES: u64 = 5;

/// Source of the random numbers of a training pass.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    /// The epoch.
    pub epoch: u64,
    /// Dataset node number of each row.
    pub ids: &'a [u32],
}

/// Arguments of a forward pass.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// Parameters, in the order of [`Map::slots`].
    pub values: &'a [MatrixRef<'a>],
    /// Set in a training pass, `None` in an evaluation.
    pub draw: Option<Draw<'a>>,
    /// For maps that iterate to a tolerance.
    pub params: &'a SolveParams,
}

/// B, X, R, G and a scratch matrix.
#[derive(Debug)]
pub struct Memory {
    /// B
    pub input: Matrix,
    /// X
    pub state: Matrix,
    /// R; empty without [`Explicit::with_adjoint`].
    pub right: Matrix,
    /// G; empty without [`Explicit::with_adjoint`].
    pub adjoint: Matrix,
    /// Scratch of the state's shape: nothing is kept in it between passes.
    pub spare: Matrix,
    /// Whether a backward pass may follow a forward pass.
    pub trains: bool,
}

/// A map without a graph: its parameters and its needs.
pub trait Map: Debug + Send + Sync {
    /// Parameters of the layer with this number, in the order in which passes take them.
    fn slots(&self, layer: usize) -> Vec<Slot>;

    /// Initial values, in the order of the slots.
    fn initial(&self, layer: usize, seed: u64) -> Vec<Matrix>;

    /// Width b of the input term, given the width m of the state.
    fn input_width(&self, width: usize) -> usize {
        width
    }

    /// Whether a training pass draws random numbers, so that it differs from an evaluation.
    fn draws(&self) -> bool {
        false
    }

    /// Matrices of the state's shape that training holds at its peak, beyond [`MEMORY_MATRICES`].
    fn extra_matrices(&self) -> u64 {
        0
    }

    /// The map on a graph.
    fn on_graph(&self, operators: &Operators) -> Box<dyn MapOnGraph + Send>;
}

/// A map on a graph, with what it keeps from the forward to the backward pass.
pub trait MapOnGraph {
    /// Computes X from B. Maps that iterate report how it went.
    fn forward(&mut self, given: &Given<'_>, memory: &mut Memory) -> Option<SolveInfo>;

    /// Computes G and the gradients of the parameters from R, after a training pass. Old gradients
    /// are overwritten.
    fn backward(
        &mut self,
        values: &[MatrixRef<'_>],
        memory: &mut Memory,
        gradients: &mut [MatrixMut<'_>],
    );

    /// Whether the next pass starts from the state of the last one.
    fn keeps_state(&self) -> bool {
        false
    }

    /// Declares the state a warm start (`true`) or zero (`false`).
    fn set_warm(&mut self, _is_warm: bool) {}
}

/// A computed layer with its memory.
pub struct Explicit {
    map: Box<dyn MapOnGraph + Send>,
    rows: Rows,
    /// The matrices that the map reads and writes.
    pub memory: Memory,
}

impl Explicit {
    /// A layer for forward passes.
    pub fn new(operators: &Operators, map: &dyn Map, width: usize) -> Self {
        let rows = operators.rows().clone();
        let (nodes, input_width) = (rows.with_ghosts(), map.input_width(width));
        let memory = Memory {
            input: Matrix::zeros(nodes, input_width),
            state: Matrix::zeros(nodes, width),
            right: Matrix::zeros(0, width),
            adjoint: Matrix::zeros(0, input_width),
            spare: Matrix::zeros(nodes, width),
            trains: false,
        };
        Self { map: map.on_graph(operators), rows, memory }
    }

    /// Adds the memory of backward passes.
    pub fn with_adjoint(mut self) -> Self {
        let Memory { input, state, right, adjoint, trains, .. } = &mut self.memory;
        *trains = true;
        *right = Matrix::zeros(state.rows(), state.cols());
        *adjoint = Matrix::zeros(input.rows(), input.cols());
        self
    }

    /// Bytes of a layer that is trained.
    pub fn bytes(map: &dyn Map, nodes: u64, width: u64) -> u64 {
        let matrix = |width: usize| nodes.saturating_mul(stride(width) as u64 * 4);
        let (width, input_width) = (width as usize, map.input_width(width as usize));
        // B and G, and the others.
        let states = MEMORY_MATRICES - 2 + map.extra_matrices();
        matrix(input_width).saturating_mul(2).saturating_add(matrix(width).saturating_mul(states))
    }

    /// Computes X from B; fails where an entry of X is not finite.
    pub fn forward(
        &mut self,
        values: &[MatrixRef<'_>],
        draw: Option<Draw<'_>>,
        params: &SolveParams,
    ) -> Result<Option<SolveInfo>, SolveError> {
        let info = self.map.forward(&Given { values, draw, params }, &mut self.memory);
        match self.first_not_finite() {
            Some((row, found)) => Err(SolveError::State { row, found }),
            None => Ok(info),
        }
    }

    /// The first entry of the state of all ranks that is not finite, with the number of its row.
    fn first_not_finite(&self) -> Option<(usize, f32)> {
        let own = self.memory.state.view().first(self.rows.len());
        let found = elementwise::first_not_finite(own);
        let found = found
            .map(|(row, found)| [(self.rows.own().start + row) as u64, found.to_bits().into()]);
        // Rows of a rank come before those of the next.
        let first = |a: [u64; 2], b: [u64; 2]| if a[0] <= b[0] { a } else { b };
        let [row, bits] = self.rows.ranks().merge(found.unwrap_or([u64::MAX; 2]), first);
        (row < u64::MAX).then(|| (row as usize, f32::from_bits(bits as u32)))
    }

    /// Computes G and the gradients of the parameters from R.
    pub fn backward(&mut self, values: &[MatrixRef<'_>], gradients: &mut [MatrixMut<'_>]) {
        self.map.backward(values, &mut self.memory, gradients);
    }

    /// The state that the next pass starts from, for maps that keep one.
    pub fn kept(&self) -> Option<&Matrix> {
        self.map.keeps_state().then_some(&self.memory.state)
    }

    /// Restores a state that [`Explicit::kept`] returned.
    pub fn keep(&mut self, state: Matrix) {
        self.memory.state = state;
        self.map.set_warm(true);
    }

    /// Resets the state to zero, for maps that keep one.
    pub fn reset(&mut self) {
        if self.map.keeps_state() {
            elementwise::clear(self.memory.state.view_mut());
            self.map.set_warm(false);
        }
    }
}
