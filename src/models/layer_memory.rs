//! The matrices with a row per node that a layer with an equilibrium holds while it trains, and which
//! of them share memory. [`super::OnGraph`] allocates by it, and estimates count by it.
//!
//! | matrix | forward solve | readout | adjoint solve | gradients | step |
//! | --- | --- | --- | --- | --- | --- |
//! | X | solved for | read | read | read | kept for the next solve |
//! | buffer of solves | next X | | next G | gradient of a learned table | read |
//! | moves of Anderson mixing | written | | written | | |
//! | B | made, read | | R | R | |
//! | G | kept | kept | solved for | read | kept for the next solve |
//!
//! So the gradient of a learned table takes the buffer of the layer's solves, and R takes the memory of
//! B, which the next forward pass makes anew. Two things need not be there at all: B where it is the
//! learned table itself ([`LayerShape::takes_table`]), and R where only the loss reads the state,
//! row by row; then the rows of the loss are R, and sweeps count the others as zeros.

use super::shape::LayerShape;
use crate::kernels::RowPlaces;
use crate::nn::Mapped;

/// Where the right-hand side R of a layer's adjoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Only the rows that the loss reads, which the pass has.
    Rows,
    /// All rows, in the memory of B.
    Input,
    /// All rows, in memory of its own.
    Own,
}

/// The plan of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerMemory {
    /// Whether B has memory of its own.
    pub has_input: bool,
    /// Where R is.
    pub right: Right,
    /// Whether the gradient of the learned table takes the buffer of solves.
    pub lends_buffer: bool,
}

impl LayerMemory {
    /// The plan of layer `at` of a network. On several ranks, the buffer of solves has rows for ghosts
    /// and is not lent.
    pub fn new(layers: &[LayerShape], at: usize, pools: bool, is_alone: bool) -> Self {
        let (shape, is_read) = (&layers[at], at + 1 == layers.len() && !pools);
        if !shape.is_solved() {
            return Self::whole();
        }
        let has_input = !shape.takes_table();
        let is_last = is_read && shape.between.is_none() && shape.norm.is_none();
        let right = match has_input {
            _ if is_last => Right::Rows,
            true => Right::Input,
            false => Right::Own,
        };
        let is_table = matches!(shape.input.mapped, Mapped::Learned(_));
        Self { has_input, right, lends_buffer: is_table && is_alone }
    }

    /// The plan in which nothing shares memory: for measurements, and for layers that are computed.
    pub fn whole() -> Self {
        Self { has_input: true, right: Right::Own, lends_buffer: false }
    }

    /// Bytes of B, given those of a matrix.
    pub fn input(&self, matrix: u64) -> u64 {
        if self.has_input { matrix } else { 0 }
    }

    /// Bytes of G and R, given those of a matrix and the number of nodes.
    pub fn adjoint(&self, matrix: u64, nodes: u64) -> u64 {
        matrix.saturating_add(match self.right {
            Right::Rows => RowPlaces::bytes(nodes),
            Right::Input => 0,
            Right::Own => matrix,
        })
    }
}
