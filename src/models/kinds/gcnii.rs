//! GCNII (Chen et al. 2020): deep convolutions with an initial residual and an identity mapping,
//! and their backward. All T steps are one layer; input map and readout are those of any model.
//!
//! | symbol | shape | meaning |
//! | --- | --- | --- |
//! | B, X, R, G | n x m | as in [`explicit`](crate::nn::explicit) |
//! | H_l, S_l | n x m | state after step l, and its argument |
//! | bias | 1 x m | parameter of the start |
//! | W_l, M_l | m x m | parameter of step l, and the map that it makes |
//!
//! ```text
//! H_0 = phi(B + bias)      S_l = (1 - alpha) P H~_{l-1} + alpha H_0      H_l = phi(S_l M_l^T),  l = 1 .. T
//! M_l = (1 - beta_l) I + beta_l W_l      beta_l = ln(lambda / l + 1)      X = H_T
//! ```
//! P is the mean of the relations' A^T, H~ is H after dropout. Backward, from g_T = R:
//!
//! ```text
//! q = g_l * phi'(H_l)    dL/dW_l = beta_l q^T S_l    by S_l: q M_l    g_{l-1} = mask (1 - alpha) P^T (q M_l)
//! by H_0: sum_l alpha q M_l + g_0
//! ```

use std::sync::Arc;

use super::{Kind, LayerPlan, Output, Request};
use crate::config::ModelKind;
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::{Activation, elementwise, gradient, update_ghosts};
use crate::models::ModelError;
use crate::nn::explicit::{Given, Map, MapOnGraph, Memory};
use crate::nn::{Dropout, Operators, Slot, linear, propagate};
use crate::solver::SolveInfo;

pub(super) const KIND: Kind = Kind {
    output: Output::Readout,
    ..Kind::new(
        ModelKind::Gcnii,
        &[
            "model.depth",
            "model.state",
            "model.activation",
            "model.gcnii_alpha",
            "model.gcnii_lambda",
        ],
        layers,
    )
};

fn layers(request: &Request<'_>) -> Result<Vec<LayerPlan>, ModelError> {
    let config = request.config;
    request.stack(1, |layer| {
        let name = |step: usize| format!("layer{}.step{step}.dropout", layer.number);
        let dropout =
            (1..=config.depth).filter_map(|step| request.dropout(config.dropout, &name(step)));
        Ok(Arc::new(Gcnii {
            depth: config.depth,
            alpha: config.gcnii_alpha,
            lambda: config.gcnii_lambda,
            width: layer.width,
            activation: layer.activation()?,
            dropout: dropout.collect(),
        }))
    })
}

#[derive(Clone, Debug)]
struct Gcnii {
    /// T
    depth: usize,
    alpha: f64,
    lambda: f64,
    /// m
    width: usize,
    /// phi
    activation: Activation,
    /// One before every step; empty without dropout.
    dropout: Vec<Dropout>,
}

impl Gcnii {
    fn beta(&self, step: usize) -> f64 {
        (self.lambda / step as f64).ln_1p()
    }

    /// M of a step; the first step is 1.
    fn mixed(&self, step: usize, w: MatrixRef<'_>) -> Matrix {
        let beta = self.beta(step);
        let entry = |k: usize, l: usize| {
            let identity = if k == l { 1.0 - beta } else { 0.0 };
            (identity + beta * f64::from(w.row(k)[l])) as f32
        };
        Matrix::from_fn(self.width, self.width, entry)
    }
}

impl Map for Gcnii {
    /// The bias of the start, then W of every step.
    fn slots(&self, layer: usize) -> Vec<Slot> {
        let m = self.width;
        let bias = Slot::bias(format!("layer{layer}.bias"), m);
        let weight = |l| Slot::weight(format!("layer{layer}.W{l}"), m, m);
        [bias].into_iter().chain((1..=self.depth).map(weight)).collect()
    }

    /// Weights uniform within 1 / sqrt(m), the bias zero.
    fn initial(&self, layer: usize, seed: u64) -> Vec<Matrix> {
        let bound = 1.0 / (self.width.max(1) as f64).sqrt();
        self.slots(layer).iter().map(|slot| slot.initial(seed, bound)).collect()
    }

    fn draws(&self) -> bool {
        !self.dropout.is_empty()
    }

    /// The state of every step, and three matrices of the backward pass.
    fn extra_matrices(&self) -> u64 {
        3 + self.depth as u64
    }

    fn on_graph(&self, operators: &Operators) -> Box<dyn MapOnGraph + Send> {
        Box::new(OnGraph {
            operators: operators.clone(),
            shape: self.clone(),
            kept: Vec::new(),
            drawn: None,
        })
    }
}

struct OnGraph {
    operators: Operators,
    shape: Gcnii,
    /// H_0 .. H_{T-1}, with ghosts; H_T is the state. Only H_0 without a backward pass.
    kept: Vec<Matrix>,
    /// Epoch and rows that the last training pass drew its dropout by.
    drawn: Option<(u64, Vec<u32>)>,
}

impl OnGraph {
    /// to = S of a step, from the H before it, whose ghosts are up to date; `spare` receives that H
    /// after dropout.
    fn mix(&self, step: usize, h: MatrixRef<'_>, spare: &mut Matrix, to: &mut Matrix) {
        let alpha = self.shape.alpha as f32;
        let operators = &self.operators;
        let start = self.kept[0].view().first(operators.nodes());
        let h = match &self.drawn {
            Some((epoch, ids)) if !self.shape.dropout.is_empty() => {
                elementwise::copy(h, spare.view_mut());
                self.shape.dropout[step - 1].apply(*epoch, ids, spare.view_mut());
                spare.view()
            }
            _ => h,
        };
        propagate::mean(operators.incoming_blocks(), &operators.incoming(), h, to.view_mut());
        elementwise::mix(1.0 - alpha, alpha, start, to.view_mut());
    }
}

impl MapOnGraph for OnGraph {
    fn forward(&mut self, given: &Given<'_>, memory: &mut Memory) -> Option<SolveInfo> {
        let Given { values, draw, .. } = *given;
        self.drawn = draw.map(|draw| (draw.epoch, draw.ids.to_vec()));
        let Memory { input, state, spare, trains, .. } = memory;
        let (rows, width, trains) = (self.operators.rows().clone(), input.cols(), *trains);
        let count = if trains { self.shape.depth } else { 1 };
        self.kept.resize_with(count, || Matrix::zeros(input.rows(), width));
        let mut start = self.kept[0].view_mut().first(rows.len());
        elementwise::copy(input.view().first(rows.len()), start.reborrow());
        elementwise::add_row_and_activate(self.shape.activation, values[0].row(0), start);
        update_ghosts(&rows, self.kept[0].view_mut());
        let mut sum = Matrix::zeros(rows.len(), width);
        for (step, &w) in values.iter().enumerate().skip(1) {
            let before = if step == 1 || trains {
                self.kept[step.min(count) - 1].view()
            } else {
                state.view()
            };
            self.mix(step, before, spare, &mut sum);
            let mixed = self.shape.mixed(step, w);
            let mut own = state.view_mut().first(rows.len());
            linear::forward(mixed.view(), None, sum.view(), own.reborrow());
            elementwise::activate(self.shape.activation, own);
            if step < self.shape.depth {
                update_ghosts(&rows, state.view_mut());
            }
            if let Some(kept) = self.kept.get_mut(step) {
                elementwise::copy(state.view(), kept.view_mut());
            }
        }
        None
    }

    fn backward(
        &mut self,
        values: &[MatrixRef<'_>],
        memory: &mut Memory,
        gradients: &mut [MatrixMut<'_>],
    ) {
        let Memory { state, right, adjoint, spare, .. } = memory;
        let (operators, width, depth) = (&self.operators, state.cols(), self.shape.depth);
        let (rows, nodes) = (operators.rows(), operators.nodes());
        let alpha = self.shape.alpha as f32;
        let [mut g, mut sum] = [0, 1].map(|_| Matrix::zeros(nodes, width));
        let mut by_sum = Matrix::zeros(rows.with_ghosts(), width);
        elementwise::copy(right.view().first(nodes), g.view_mut());
        // G accumulates the gradient of H_0 over the steps.
        let mut adjoint = adjoint.view_mut().first(nodes);
        elementwise::clear(adjoint.reborrow());
        for step in (1..=depth).rev() {
            let after = if step == depth { state.view() } else { self.kept[step].view() };
            elementwise::differentiate(self.shape.activation, after.first(nodes), g.view_mut());
            self.mix(step, self.kept[step - 1].view(), spare, &mut sum);
            let by_w = gradient::input_over(rows, g.view(), sum.view());
            elementwise::copy(by_w.view(), gradients[step].reborrow());
            elementwise::scale(self.shape.beta(step) as f32, gradients[step].reborrow());
            let mixed = self.shape.mixed(step, values[step]);
            linear::backward(mixed.view(), g.view(), by_sum.view_mut().first(nodes));
            elementwise::mix(1.0, alpha, by_sum.view().first(nodes), adjoint.reborrow());
            update_ghosts(rows, by_sum.view_mut());
            propagate::mean(
                operators.outgoing_blocks(),
                &operators.outgoing(),
                by_sum.view(),
                g.view_mut(),
            );
            elementwise::scale(1.0 - alpha, g.view_mut());
            if let (Some((epoch, ids)), Some(dropout)) =
                (&self.drawn, self.shape.dropout.get(step - 1))
            {
                dropout.apply(*epoch, &ids[..nodes], g.view_mut());
            }
        }
        elementwise::add(g.view(), adjoint.reborrow());
        let start = self.kept[0].view().first(nodes);
        elementwise::differentiate(self.shape.activation, start, adjoint.reborrow());
        let bias = gradient::bias_over(rows, adjoint.as_ref());
        gradients[0].row_mut(0).copy_from_slice(&bias);
    }
}
