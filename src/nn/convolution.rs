//! The graph convolution: X = phi(P^k B + bias), P the mean of the relations' A^T, and back. With k
//! = 1 a layer of GCN (B = x Omega^T), with more SGC, with none a layer of a perceptron, which sees
//! no edge.
//!
//! ```text
//! H = R * phi'(X)      dL/dbias = column sums of H      G = (P^T)^k H
//! ```

use super::drop_edge::{DropEdge, KeptEdges};
use super::explicit::{Given, Map, Memory};
use super::operators::Operators;
use super::readout::Slot;
use super::{elementwise, propagate};
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::{Activation, gradient};
use crate::solver::SolveInfo;

/// A convolution apart from any graph.
#[derive(Clone, Debug)]
pub struct Convolution {
    /// k
    pub steps: usize,
    /// phi
    pub activation: Activation,
    /// m
    pub width: usize,
    /// Edges left out in training.
    pub drop_edge: Option<DropEdge>,
}

impl Convolution {
    /// The bias.
    pub fn slots(&self, layer: usize) -> Vec<Slot> {
        vec![Slot { name: format!("layer{layer}.bias"), shape: (1, self.width), is_bias: true }]
    }

    /// A bias of zero.
    pub fn initial(&self, _layer: usize, _seed: u64) -> Vec<Matrix> {
        vec![Matrix::zeros(1, self.width)]
    }
}

/// A convolution on a graph.
pub struct ConvolutionOnGraph {
    operators: Operators,
    shape: Convolution,
    /// The edges of the last pass, where some were left out.
    kept: Option<KeptEdges>,
}

impl ConvolutionOnGraph {
    /// On a graph.
    pub fn new(operators: &Operators, shape: Convolution) -> Self {
        Self { operators: operators.clone(), shape, kept: None }
    }

    /// to = P from, or P^T from.
    fn step(&self, is_forward: bool, from: MatrixRef<'_>, to: MatrixMut<'_>) {
        let operators = &self.operators;
        match (&self.kept, is_forward) {
            (Some(kept), true) => propagate::mean(kept.blocks(true), &kept.incoming(), from, to),
            (Some(kept), false) => propagate::mean(kept.blocks(false), &kept.outgoing(), from, to),
            (None, true) => {
                propagate::mean(operators.incoming_blocks(), &operators.incoming(), from, to)
            }
            (None, false) => {
                propagate::mean(operators.outgoing_blocks(), &operators.outgoing(), from, to)
            }
        }
    }

    /// to = P^k from, or its transpose; `spare` is of the same shape.
    fn steps(&self, is_forward: bool, from: MatrixRef<'_>, to: &mut Matrix, spare: &mut Matrix) {
        if self.shape.steps == 0 {
            return elementwise::copy(from, to.view_mut());
        }
        self.step(is_forward, from, to.view_mut());
        for _ in 1..self.shape.steps {
            std::mem::swap(to, spare);
            self.step(is_forward, spare.view(), to.view_mut());
        }
    }
}

impl Map for ConvolutionOnGraph {
    fn forward(&mut self, given: &Given<'_>, memory: &mut Memory) -> Option<SolveInfo> {
        let Given { values, draw, .. } = *given;
        let drop_edge = self.shape.drop_edge.zip(draw);
        self.kept = drop_edge.map(|(drop_edge, draw)| drop_edge.draw(&self.operators, draw.epoch));
        let Memory { input, state, spare, .. } = memory;
        self.steps(true, input.view(), state, spare);
        elementwise::add_row_and_activate(
            self.shape.activation,
            values[0].row(0),
            state.view_mut(),
        );
        None
    }

    fn backward(
        &mut self,
        _values: &[MatrixRef<'_>],
        memory: &mut Memory,
        gradients: &mut [MatrixMut<'_>],
    ) {
        let Memory { state, right, adjoint, spare, .. } = memory;
        elementwise::differentiate(self.shape.activation, state.view(), right.view_mut());
        gradients[0].row_mut(0).copy_from_slice(&gradient::bias(right.view()));
        self.steps(false, right.view(), adjoint, spare);
    }
}
