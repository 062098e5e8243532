//! Graph convolution: `X = phi(P^k B + bias)`, P the mean of the relations' A^T, and its backward.
//! With k = 1 it is a layer of GCN (`B = x Omega^T`), with larger k it is SGC, with k = 0 a layer of
//! a perceptron, which uses no edges.
//!
//! | symbol | shape | meaning |
//! | --- | --- | --- |
//! | B, X, R, G | n x m | as in [`explicit`](super::explicit) |
//! | bias | 1 x m | parameter |
//! | P | n x n | never formed |
//!
//! ```text
//! H = R * phi'(X)      dL/dbias = column sums of H      G = (P^T)^k H
//! ```

use super::drop_edge::{DropEdge, KeptEdges};
use super::explicit::{Given, Map, MapOnGraph, Memory};
use super::operators::Operators;
use super::propagate;
use super::slot::Slot;
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::{Activation, elementwise, gradient, update_ghosts};
use crate::solver::SolveInfo;

/// A convolution.
#[derive(Clone, Debug)]
pub struct Convolution {
    /// k
    pub steps: usize,
    /// phi
    pub activation: Activation,
    /// m
    pub width: usize,
    /// Drops edges in training.
    pub drop_edge: Option<DropEdge>,
}

impl Map for Convolution {
    fn slots(&self, layer: usize) -> Vec<Slot> {
        vec![Slot::bias(format!("layer{layer}.bias"), self.width)]
    }

    fn initial(&self, _layer: usize, _seed: u64) -> Vec<Matrix> {
        vec![Matrix::zeros(1, self.width)]
    }

    fn draws(&self) -> bool {
        self.drop_edge.is_some()
    }

    fn on_graph(&self, operators: &Operators) -> Box<dyn MapOnGraph + Send> {
        Box::new(OnGraph { operators: operators.clone(), shape: self.clone(), kept: None })
    }
}

struct OnGraph {
    operators: Operators,
    shape: Convolution,
    /// Edges of the last pass, if some were dropped.
    kept: Option<KeptEdges>,
}

impl OnGraph {
    /// to = P from, or P^T from.
    fn step(&self, is_forward: bool, from: MatrixRef<'_>, to: MatrixMut<'_>) {
        let operators = &self.operators;
        match (&self.kept, is_forward) {
            (Some(kept), true) => propagate::mean(kept.blocks(true), &kept.incoming(), from, to),
            (Some(kept), false) => propagate::mean(kept.blocks(false), &kept.outgoing(), from, to),
            (None, true) => {
                propagate::mean(operators.incoming_blocks(), &operators.incoming(), from, to);
            }
            (None, false) => {
                propagate::mean(operators.outgoing_blocks(), &operators.outgoing(), from, to);
            }
        }
    }

    /// to = P^k from, or its transpose; `spare` is of the same shape.
    fn steps(&self, is_forward: bool, from: &mut Matrix, to: &mut Matrix, spare: &mut Matrix) {
        let rows = self.operators.rows();
        if self.shape.steps == 0 {
            let own = from.view().first(rows.len());
            return elementwise::copy(own, to.view_mut().first(rows.len()));
        }
        update_ghosts(rows, from.view_mut());
        self.step(is_forward, from.view(), to.view_mut().first(rows.len()));
        for _ in 1..self.shape.steps {
            std::mem::swap(to, spare);
            update_ghosts(rows, spare.view_mut());
            self.step(is_forward, spare.view(), to.view_mut().first(rows.len()));
        }
    }
}

impl MapOnGraph for OnGraph {
    fn forward(&mut self, given: &Given<'_>, memory: &mut Memory) -> Option<SolveInfo> {
        let Given { values, draw, .. } = *given;
        let drop_edge = self.shape.drop_edge.zip(draw);
        self.kept = drop_edge.map(|(drop_edge, draw)| drop_edge.draw(&self.operators, draw.epoch));
        let Memory { input, state, spare, .. } = memory;
        self.steps(true, input, state, spare);
        let own = state.view_mut().first(self.operators.nodes());
        elementwise::add_row_and_activate(self.shape.activation, values[0].row(0), own);
        None
    }

    fn backward(
        &mut self,
        _values: &[MatrixRef<'_>],
        memory: &mut Memory,
        gradients: &mut [MatrixMut<'_>],
    ) {
        let Memory { state, right, adjoint, spare, .. } = memory;
        let rows = self.operators.rows();
        let (own, mut g) = (state.view().first(rows.len()), right.view_mut().first(rows.len()));
        elementwise::differentiate(self.shape.activation, own, g.reborrow());
        gradients[0].row_mut(0).copy_from_slice(&gradient::bias_over(rows, g.as_ref()));
        self.steps(false, right, adjoint, spare);
    }
}
