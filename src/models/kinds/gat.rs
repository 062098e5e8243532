//! Graph attention (Velickovic et al. 2018): `X_i = phi(sum_j alpha_ij H_j + bias)`, a softmax over
//! the incoming edges of each node, head by head, and its backward. `H = B = x Omega^T`. Only the
//! pattern of the adjacency matters, not its values.
//!
//! | symbol | shape | meaning |
//! | --- | --- | --- |
//! | B, G | n x heads f | as in [`explicit`](crate::nn::explicit) |
//! | X, R | n x m | as there; m = heads f, or f where heads are averaged |
//! | a_source, a_target | heads x f | parameters |
//! | bias | 1 x m | parameter |
//! | s, d | n x heads | scores of a node as source and as target |
//!
//! ```text
//! s_j = a_source . H_j    d_i = a_target . H_i    e_ij = lrelu(s_j + d_i)
//! alpha_ij = exp(e_ij) / sum_l exp(e_il)
//! ```
//! Head k has columns `k f .. (k + 1) f` of H, and row k of `source` and `target`. Heads are side by
//! side in X; in a last layer of logits, X is their mean. Each relation has its own softmax; their
//! results are averaged. In training, weights are dropped per edge and head (`mask` below) after the
//! softmax.
//!
//! Backward, with g = R * phi'(X) (divided by the heads where they are averaged) and p_ij = g_i . H_j
//! of a head, l' the slope of lrelu:
//!
//! ```text
//! c_i = sum_j alpha mask p      de_ij = alpha (mask p - c_i)
//! by d_i: sum_j de l'           by s_j: sum_i de l'
//! G_j = sum_i alpha mask g_i + a_source (by s_j) + a_target (by d_j)
//! ```
//! Sums over i run over outgoing edges. [`attention`] has the loops over edges.

use std::sync::Arc;

use rayon::prelude::*;

use super::{Kind, Layer, LayerPlan, Request};
use crate::config::ModelKind;
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::{Activation, attention, elementwise, gradient, update_ghosts};
use crate::models::ModelError;
use crate::nn::dropout::{Dropout, Mask};
use crate::nn::explicit::{Given, Map, MapOnGraph, Memory};
use crate::nn::{Operators, Slot};
use crate::solver::SolveInfo;

/// Rows per piece of work that visits no edges.
const ROWS: usize = 64;

pub(super) const KIND: Kind = Kind::new(
    ModelKind::Gat,
    &["model.depth", "model.heads", "model.state", "model.activation"],
    layers,
);

fn layers(request: &Request<'_>) -> Result<Vec<LayerPlan>, ModelError> {
    request.stack(request.config.depth, |layer| {
        let (heads, f) = heads(request, layer)?;
        let name = format!("layer{}.attention", layer.number);
        Ok(Arc::new(Attention {
            heads,
            f,
            width: layer.width,
            activation: layer.activation()?,
            dropout: request.dropout(request.config.dropout, &name),
        }))
    })
}

/// The heads of a layer, and columns per head. One number is that of all layers but the logits',
/// which then have one head.
fn heads(request: &Request<'_>, layer: Layer<'_>) -> Result<(usize, usize), ModelError> {
    let (width, layers) = (layer.width, request.config.depth);
    let heads = match &request.config.heads[..] {
        [_] if layer.is_logits => 1,
        [one] => *one,
        each if each.len() == layers => each[layer.number],
        each => return Err(ModelError::LayerHeads { found: each.len(), layers }),
    };
    match layer.is_logits {
        true => Ok((heads, width)),
        false if width.is_multiple_of(heads) => Ok((heads, width / heads)),
        false => Err(ModelError::Heads { width, heads }),
    }
}

#[derive(Clone, Debug)]
struct Attention {
    heads: usize,
    /// Columns per head.
    f: usize,
    /// m
    width: usize,
    /// phi
    activation: Activation,
    /// Dropout of the weights.
    dropout: Option<Dropout>,
}

impl Map for Attention {
    fn slots(&self, layer: usize) -> Vec<Slot> {
        vec![
            Slot::weight(format!("layer{layer}.source"), self.heads, self.f),
            Slot::weight(format!("layer{layer}.target"), self.heads, self.f),
            Slot::bias(format!("layer{layer}.bias"), self.width),
        ]
    }

    /// Uniform within sqrt(6 / (f + 1)), a bias of zero.
    fn initial(&self, layer: usize, seed: u64) -> Vec<Matrix> {
        let bound = (6.0 / (self.f + 1) as f64).sqrt();
        self.slots(layer).iter().map(|slot| slot.initial(seed, bound)).collect()
    }

    fn input_width(&self, _width: usize) -> usize {
        self.heads * self.f
    }

    fn draws(&self) -> bool {
        self.dropout.is_some()
    }

    fn on_graph(&self, operators: &Operators) -> Box<dyn MapOnGraph + Send> {
        let (rows, heads) = (operators.rows(), self.heads);
        let nodes = rows.with_ghosts();
        let softmax =
            operators.incoming().iter().map(|_| Matrix::zeros(nodes, 2 * heads)).collect();
        let [source, target] = [0, 1].map(|_| Matrix::zeros(nodes, heads));
        Box::new(OnGraph {
            numbers: (!rows.is_alone()).then(|| rows.numbers()),
            operators: operators.clone(),
            shape: self.clone(),
            source,
            target,
            softmax,
            mask: None,
        })
    }
}

struct OnGraph {
    operators: Operators,
    shape: Attention,
    /// On several ranks, the number in the graph of each row.
    numbers: Option<Vec<u32>>,
    /// s and d, one column per head.
    source: Matrix,
    target: Matrix,
    /// Per relation: the largest e of a row's entries, then the sum of its exponentials, one column
    /// per head each.
    softmax: Vec<Matrix>,
    mask: Option<Mask>,
}

impl OnGraph {
    fn weights(
        &self,
    ) -> attention::Weights<'_, impl Fn(u32, u32, usize) -> f32 + Copy + Sync + use<'_>> {
        let (mask, heads, numbers) = (self.mask, self.shape.heads, self.numbers.as_deref());
        let number = move |row: u32| numbers.map_or(row, |numbers| numbers[row as usize]);
        attention::Weights {
            source: self.source.view(),
            target: self.target.view(),
            mask: move |from: u32, to: u32, head: usize| {
                let at =
                    |mask: Mask| mask.at(number(from).into(), number(to) as usize * heads + head);
                mask.map_or(1.0, at)
            },
        }
    }
}

impl MapOnGraph for OnGraph {
    fn forward(&mut self, given: &Given<'_>, memory: &mut Memory) -> Option<SolveInfo> {
        let Given { values, draw, .. } = *given;
        self.mask = self.shape.dropout.zip(draw).map(|(dropout, draw)| dropout.mask(draw.epoch));
        let nodes = self.operators.nodes();
        update_ghosts(self.operators.rows(), memory.input.view_mut());
        let h = memory.input.view();
        scores(h, values[0], &mut self.source);
        scores(h, values[1], &mut self.target);
        let (relations, blocks) = (self.operators.incoming(), self.operators.incoming_blocks());
        let mut softmax = std::mem::take(&mut self.softmax);
        let [mut state, mut spare] =
            [&mut memory.state, &mut memory.spare].map(|matrix| matrix.view_mut().first(nodes));
        for (at, (adjacency, softmax)) in relations.iter().zip(&mut softmax).enumerate() {
            let to = if at == 0 { &mut state } else { &mut spare };
            let (y, softmax) = (to.reborrow(), softmax.view_mut().first(nodes));
            attention::forward(blocks, *adjacency, self.weights(), h, y, softmax);
            if at > 0 {
                elementwise::add(spare.as_ref(), state.reborrow());
            }
        }
        self.softmax = softmax;
        if relations.len() > 1 {
            elementwise::scale(1.0 / relations.len() as f32, state.reborrow());
        }
        elementwise::add_row_and_activate(self.shape.activation, values[2].row(0), state);
        None
    }

    fn backward(
        &mut self,
        values: &[MatrixRef<'_>],
        memory: &mut Memory,
        gradients: &mut [MatrixMut<'_>],
    ) {
        let Memory { input, state, right, adjoint, .. } = memory;
        let rows = self.operators.rows().clone();
        let (nodes, heads) = (rows.len(), self.shape.heads);
        let mut own = right.view_mut().first(nodes);
        elementwise::differentiate(
            self.shape.activation,
            state.view().first(nodes),
            own.reborrow(),
        );
        gradients[2].row_mut(0).copy_from_slice(&gradient::bias_over(&rows, own.as_ref()));
        // Outgoing edges end at ghosts: what the results of these passed on is needed as well.
        update_ghosts(&rows, right.view_mut());
        self.softmax.iter_mut().for_each(|softmax| update_ghosts(&rows, softmax.view_mut()));
        let [mut by_source, mut by_target] = [0, 1].map(|_| Matrix::zeros(nodes, heads));
        let mut adjoint = adjoint.view_mut().first(nodes);
        elementwise::clear(adjoint.reborrow());
        let (h, g, operators) = (input.view(), right.view(), &self.operators);
        // Relations are averaged, and heads that share the columns of X.
        let averaged = self.softmax.len() * if g.cols() < h.cols() { heads } else { 1 };
        let share = 1.0 / averaged as f32;
        let sides = operators.incoming().into_iter().zip(operators.outgoing());
        for ((incoming, outgoing), softmax) in sides.zip(&self.softmax) {
            let (weights, softmax) = (self.weights(), softmax.view());
            let back = attention::Backward { weights, softmax, h, g, share };
            let mut sums = Matrix::zeros(rows.with_ghosts(), 2 * heads);
            back.by_target(operators.incoming_blocks(), incoming, sums.view_mut().first(nodes));
            update_ghosts(&rows, sums.view_mut());
            for row in 0..nodes {
                let by_d = &sums.row(row)[heads..];
                by_target.row_mut(row).iter_mut().zip(by_d).for_each(|(to, x)| *to += x);
            }
            let (by_h, by_s) = (adjoint.reborrow(), by_source.view_mut());
            back.by_source(operators.outgoing_blocks(), outgoing, sums.view(), by_h, by_s);
        }
        add_outer(by_source.view(), values[0], adjoint.reborrow());
        add_outer(by_target.view(), values[1], adjoint);
        for (by_score, gradient) in [by_source, by_target].iter().zip(gradients) {
            // Row k of the product is head k against all columns: its own block is the gradient.
            let all = gradient::input_over(&rows, by_score.view(), h.first(nodes));
            let width = gradient.cols();
            for head in 0..heads {
                gradient.row_mut(head).copy_from_slice(&all.row(head)[head * width..][..width]);
            }
        }
    }
}

/// Column k of `to` = row k of `a` times the columns of head k.
fn scores(h: MatrixRef<'_>, a: MatrixRef<'_>, to: &mut Matrix) {
    let (f, heads) = (a.cols(), a.rows());
    let mut to = to.view_mut();
    let stride = to.stride();
    to.padded_mut().par_chunks_mut(ROWS * stride).enumerate().for_each(|(chunk, part)| {
        for (at, to) in part.chunks_exact_mut(stride).enumerate() {
            let h = h.row(chunk * ROWS + at);
            for (head, to) in to[..heads].iter_mut().enumerate() {
                *to = dot(&h[head * f..][..f], a.row(head));
            }
        }
    });
}

/// Columns of head k of `to` += column k of `by` times row k of `a`.
fn add_outer(by: MatrixRef<'_>, a: MatrixRef<'_>, mut to: MatrixMut<'_>) {
    let (f, heads, stride) = (a.cols(), a.rows(), to.stride());
    to.padded_mut().par_chunks_mut(ROWS * stride).enumerate().for_each(|(chunk, part)| {
        for (at, to) in part.chunks_exact_mut(stride).enumerate() {
            let by = by.row(chunk * ROWS + at);
            for head in 0..heads {
                add_times(by[head], a.row(head), &mut to[head * f..][..f]);
            }
        }
    });
}

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[inline(always)]
fn add_times(factor: f32, from: &[f32], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += factor * from);
}
