//! GIN (Xu et al. 2019): `x' = MLP((1 + eps) x + P x)`, a perceptron of two maps on each node's own
//! row plus those of its neighbours, and its backward. P is the mean of the relations' A^T, a sum
//! over neighbours where the adjacency is plain. The first map commutes with the sum, so it is the
//! input map: `B = x Omega^T`.
//!
//! | symbol | shape | meaning |
//! | --- | --- | --- |
//! | B, X, R, G | n x m | as in [`explicit`](crate::nn::explicit) |
//! | T | n x m | between the two maps |
//! | bias1, bias2 | 1 x m | parameters |
//! | W2 | m x m | parameter: the second map |
//! | eps | 1 x 1 | parameter, or 0 |
//!
//! ```text
//! T = phi((1 + eps) B + P B + bias1)      X = phi(T W2^T + bias2)
//! ```
//! Backward, by column sums for the biases:
//!
//! ```text
//! q = R * phi'(X)     dL/dW2 = q^T T         h = (q W2) * phi'(T)
//! G = (1 + eps) h + P^T h                    dL/deps = sum of h * B
//! ```

use std::sync::Arc;

use super::{Kind, LayerPlan, Output, Request};
use crate::config::ModelKind;
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::{Activation, elementwise, gradient, update_ghosts};
use crate::models::ModelError;
use crate::nn::explicit::{Given, Map, MapOnGraph, Memory};
use crate::nn::{Operators, Slot, linear, propagate};
use crate::parallel::Rows;
use crate::solver::SolveInfo;

pub(super) const KIND: Kind = Kind {
    output: Output::Readout,
    ..Kind::new(
        ModelKind::Gin,
        &["model.depth", "model.state", "model.activation", "model.gin_learn_epsilon"],
        layers,
    )
};

fn layers(request: &Request<'_>) -> Result<Vec<LayerPlan>, ModelError> {
    request.stack(request.config.depth, |layer| {
        Ok(Arc::new(Gin {
            width: layer.width,
            activation: layer.activation()?,
            learns_epsilon: request.config.gin_learn_epsilon,
        }))
    })
}

#[derive(Clone, Debug)]
struct Gin {
    /// m
    width: usize,
    /// phi
    activation: Activation,
    learns_epsilon: bool,
}

impl Map for Gin {
    fn slots(&self, layer: usize) -> Vec<Slot> {
        let name = |what: &str| format!("layer{layer}.{what}");
        let mut slots = vec![
            Slot::bias(name("bias1"), self.width),
            Slot::weight(name("W2"), self.width, self.width),
            Slot::bias(name("bias2"), self.width),
        ];
        slots.extend(self.learns_epsilon.then(|| Slot::bias(name("epsilon"), 1)));
        slots
    }

    /// W2 uniform within 1 / sqrt(m), all else zero.
    fn initial(&self, layer: usize, seed: u64) -> Vec<Matrix> {
        let bound = 1.0 / (self.width.max(1) as f64).sqrt();
        self.slots(layer).iter().map(|slot| slot.initial(seed, bound)).collect()
    }

    /// T.
    fn extra_matrices(&self) -> u64 {
        1
    }

    fn on_graph(&self, operators: &Operators) -> Box<dyn MapOnGraph + Send> {
        Box::new(OnGraph {
            inner: Matrix::zeros(operators.nodes(), self.width),
            operators: operators.clone(),
            activation: self.activation,
        })
    }
}

struct OnGraph {
    operators: Operators,
    activation: Activation,
    /// T
    inner: Matrix,
}

/// 1 + eps
fn own_weight(values: &[MatrixRef<'_>]) -> f32 {
    1.0 + values.get(3).map_or(0.0, |epsilon| epsilon.row(0)[0])
}

impl MapOnGraph for OnGraph {
    fn forward(&mut self, given: &Given<'_>, memory: &mut Memory) -> Option<SolveInfo> {
        let (values, operators) = (given.values, &self.operators);
        update_ghosts(operators.rows(), memory.input.view_mut());
        let (b, inner) = (memory.input.view(), &mut self.inner);
        propagate::mean(operators.incoming_blocks(), &operators.incoming(), b, inner.view_mut());
        let own = b.first(operators.nodes());
        elementwise::mix(1.0, own_weight(values), own, inner.view_mut());
        elementwise::add_row_and_activate(self.activation, values[0].row(0), inner.view_mut());
        let mut state = memory.state.view_mut().first(operators.nodes());
        linear::forward(values[1], Some(values[2].row(0)), inner.view(), state.reborrow());
        elementwise::activate(self.activation, state);
        None
    }

    fn backward(
        &mut self,
        values: &[MatrixRef<'_>],
        memory: &mut Memory,
        gradients: &mut [MatrixMut<'_>],
    ) {
        let Memory { input, state, right, adjoint, spare, .. } = memory;
        let (operators, inner) = (&self.operators, self.inner.view());
        let (rows, nodes) = (operators.rows(), operators.nodes());
        let mut g = right.view_mut().first(nodes);
        elementwise::differentiate(self.activation, state.view().first(nodes), g.reborrow());
        let g = g.as_ref();
        elementwise::copy(gradient::input_over(rows, g, inner).view(), gradients[1].reborrow());
        gradients[2].row_mut(0).copy_from_slice(&gradient::bias_over(rows, g));
        let mut own = spare.view_mut().first(nodes);
        linear::backward(values[1], g, own.reborrow());
        elementwise::differentiate(self.activation, inner, own);
        update_ghosts(rows, spare.view_mut());
        let h = spare.view().first(nodes);
        gradients[0].row_mut(0).copy_from_slice(&gradient::bias_over(rows, h));
        if let Some(by_epsilon) = gradients.get_mut(3) {
            by_epsilon.row_mut(0)[0] = sum_of_products(rows, h, input.view()) as f32;
        }
        let (blocks, outgoing) = (operators.outgoing_blocks(), operators.outgoing());
        let mut adjoint = adjoint.view_mut().first(nodes);
        propagate::mean(blocks, &outgoing, spare.view(), adjoint.reborrow());
        elementwise::mix(1.0, own_weight(values), h, adjoint);
    }
}

fn sum_of_products(rows: &Rows, a: MatrixRef<'_>, b: MatrixRef<'_>) -> f64 {
    let row = |row: usize| -> f64 {
        a.row(row).iter().zip(b.row(row)).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let sum = rows.sum(|rows| vec![rows.map(row).sum::<f64>()], |a, b| vec![a[0] + b[0]]);
    sum.map_or(0.0, |sum| sum[0])
}
