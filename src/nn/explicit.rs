//! A layer that is computed, not solved: X = f(B) by one of several maps, and back. Here is the
//! memory that all maps share; what each does is in its own file, and where B comes from is for
//! others.
//!
//! | symbol | shape | meaning |
//! | --- | --- | --- |
//! | B | n x m | input term, written by the caller before a forward pass |
//! | X | n x m | the result |
//! | R | n x m | dL/dX, written by the caller before a backward pass; maps may scale its rows, never fill them |
//! | G | n x m | dL/dB |

use rayon::prelude::*;

use super::attention::{Attention, AttentionOnGraph};
use super::convolution::{Convolution, ConvolutionOnGraph};
use super::elementwise;
use super::gcnii::{Gcnii, GcniiOnGraph};
use super::operators::Operators;
use super::readout::Slot;
use super::steady::{Steady, SteadyOnGraph};
use crate::dense::{Matrix, MatrixMut, MatrixRef, stride};
use crate::solver::{SolveError, SolveInfo, SolveParams};

/// Floats of a piece of elementwise work.
const CHUNK: usize = 1 << 14;

/// A map apart from any graph.
#[derive(Clone, Debug)]
pub enum ExplicitShape {
    /// GCN, SGC, or rows alone.
    Convolution(Convolution),
    /// GAT.
    Attention(Attention),
    /// SSE.
    Steady(Steady),
    /// GCNII, all layers of it.
    Gcnii(Gcnii),
}

/// What a pass of training draws by.
#[derive(Clone, Copy, Debug)]
pub struct Draw<'a> {
    /// The epoch.
    pub epoch: u64,
    /// The number of each row's node in the dataset.
    pub ids: &'a [u32],
}

/// What a forward pass is given.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// Parameters in the order of the slots.
    pub values: &'a [MatrixRef<'a>],
    /// In a pass of training.
    pub draw: Option<Draw<'a>>,
    /// For maps that solve something.
    pub params: &'a SolveParams,
}

/// B, X, R, G, and a matrix of their shape in which nothing is kept.
#[derive(Debug)]
pub struct Memory {
    /// B
    pub input: Matrix,
    /// X
    pub state: Matrix,
    /// R; empty without [`Explicit::with_adjoint`].
    pub right: Matrix,
    /// G; likewise.
    pub adjoint: Matrix,
    /// Free between passes.
    pub spare: Matrix,
}

/// A map on a graph: parameters come in the order of its slots.
pub trait Map {
    /// X from B. How it was solved, where something was.
    fn forward(&mut self, given: &Given<'_>, memory: &mut Memory) -> Option<SolveInfo>;

    /// G and the gradients of the parameters, which are replaced, from R, after a forward pass of
    /// training.
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

    /// Tells that the state is one to go on from, or that it is zero.
    fn set_warm(&mut self, _is_warm: bool) {}
}

/// The layer with its memory.
pub struct Explicit {
    map: Box<dyn Map + Send>,
    /// What the map reads and writes.
    pub memory: Memory,
}

impl ExplicitShape {
    /// The parameters, in the order in which passes take them.
    pub fn slots(&self, layer: usize) -> Vec<Slot> {
        match self {
            Self::Convolution(shape) => shape.slots(layer),
            Self::Attention(shape) => shape.slots(layer),
            Self::Steady(shape) => shape.slots(layer),
            Self::Gcnii(shape) => shape.slots(layer),
        }
    }

    /// First values, in the order of the slots.
    pub fn initial(&self, layer: usize, seed: u64) -> Vec<Matrix> {
        match self {
            Self::Convolution(shape) => shape.initial(layer, seed),
            Self::Attention(shape) => shape.initial(layer, seed),
            Self::Steady(shape) => shape.initial(layer, seed),
            Self::Gcnii(shape) => shape.initial(layer, seed),
        }
    }

    /// Whether a pass of training differs from others.
    pub fn draws(&self) -> bool {
        match self {
            Self::Convolution(shape) => shape.drop_edge.is_some(),
            Self::Attention(shape) => shape.dropout.is_some(),
            Self::Steady(_) => false,
            Self::Gcnii(shape) => !shape.dropout.is_empty(),
        }
    }

    /// Matrices of the state's shape that a layer takes.
    pub fn matrices(&self) -> u64 {
        match self {
            Self::Convolution(_) | Self::Attention(_) => 5,
            // Two matrices a step that is differentiated, and two of the backward.
            Self::Steady(shape) => 7 + 2 * shape.steps as u64,
            // The state of every step, and three of the backward.
            Self::Gcnii(shape) => 8 + shape.depth as u64,
        }
    }
}

impl Explicit {
    /// A layer for forward passes.
    pub fn new(operators: &Operators, shape: &ExplicitShape, width: usize) -> Self {
        let map: Box<dyn Map + Send> = match shape {
            ExplicitShape::Convolution(shape) => {
                Box::new(ConvolutionOnGraph::new(operators, shape.clone()))
            }
            ExplicitShape::Attention(shape) => {
                Box::new(AttentionOnGraph::new(operators, shape.clone()))
            }
            ExplicitShape::Steady(shape) => Box::new(SteadyOnGraph::new(operators, shape.clone())),
            ExplicitShape::Gcnii(shape) => Box::new(GcniiOnGraph::new(operators, shape.clone())),
        };
        let (nodes, matrix) = (operators.nodes(), |rows| Matrix::zeros(rows, width));
        let memory = Memory {
            input: matrix(nodes),
            state: matrix(nodes),
            right: matrix(0),
            adjoint: matrix(0),
            spare: matrix(nodes),
        };
        Self { map, memory }
    }

    /// The same, with the memory of backward passes.
    pub fn with_adjoint(mut self) -> Self {
        let (nodes, width) = (self.memory.state.rows(), self.memory.state.cols());
        self.memory.right = Matrix::zeros(nodes, width);
        self.memory.adjoint = Matrix::zeros(nodes, width);
        self
    }

    /// Bytes that a layer takes.
    pub fn bytes(shape: &ExplicitShape, nodes: u64, width: u64) -> u64 {
        nodes.saturating_mul(stride(width as usize) as u64 * 4).saturating_mul(shape.matrices())
    }

    /// X from B; an error where it is not finite.
    pub fn forward(
        &mut self,
        values: &[MatrixRef<'_>],
        draw: Option<Draw<'_>>,
        params: &SolveParams,
    ) -> Result<Option<SolveInfo>, SolveError> {
        let info = self.map.forward(&Given { values, draw, params }, &mut self.memory);
        let state = self.memory.state.view();
        if state.padded().par_chunks(CHUNK).all(|chunk| chunk.iter().all(|x| x.is_finite())) {
            return Ok(info);
        }
        let wrong =
            |row: usize| state.row(row).iter().find(|x| !x.is_finite()).map(|&found| (row, found));
        match (0..state.rows()).find_map(wrong) {
            Some((row, found)) => Err(SolveError::State { row, found }),
            None => Ok(info),
        }
    }

    /// G and the gradients of the parameters from R.
    pub fn backward(&mut self, values: &[MatrixRef<'_>], gradients: &mut [MatrixMut<'_>]) {
        self.map.backward(values, &mut self.memory, gradients);
    }

    /// The state that the next pass starts from, where it does.
    pub fn kept(&self) -> Option<&Matrix> {
        self.map.keeps_state().then_some(&self.memory.state)
    }

    /// Takes over a state that [`Explicit::kept`] told.
    pub fn keep(&mut self, state: Matrix) {
        self.memory.state = state;
        self.map.set_warm(true);
    }

    /// Forgets the state.
    pub fn reset(&mut self) {
        if self.map.keeps_state() {
            elementwise::clear(self.memory.state.view_mut());
            self.map.set_warm(false);
        }
    }
}
