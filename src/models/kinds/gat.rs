//! Graph attention (Velickovic et al. 2018): `X_i = phi(sum_j alpha_ij H_j + bias)`, a softmax over
//! the incoming edges of each node, head by head, and its backward. `H = B = x Omega^T`. Only the
//! pattern of the adjacency matters, not its values.
//!
//! | symbol | shape | meaning |
//! | --- | --- | --- |
//! | B, X, R, G | n x m | as in [`explicit`](crate::nn::explicit) |
//! | a_source, a_target | heads x f | parameters, m = heads f |
//! | bias | 1 x m | parameter |
//! | s, d | n x heads | scores of a node as source and as target |
//!
//! ```text
//! s_j = a_source . H_j    d_i = a_target . H_i    e_ij = lrelu(s_j + d_i)
//! alpha_ij = exp(e_ij) / sum_l exp(e_il)
//! ```
//! Head k has columns `k f .. (k + 1) f` of H and X, and row k of `source` and `target`. Each
//! relation has its own softmax; their results are averaged. In training, weights are dropped per
//! edge and head (`mask` below) after the softmax.
//!
//! Nothing is stored per edge: the weights follow from s, d and two numbers per row and head (the
//! largest s, and the sum). Backward, with g = R * phi'(X) and p_ij = g_i . H_j of a head, l' the
//! slope of lrelu:
//!
//! ```text
//! c_i = sum_j alpha mask p      de_ij = alpha (mask p - c_i)
//! by d_i: sum_j de l'           by s_j: sum_i de l'
//! G_j = sum_i alpha mask g_i + a_source (by s_j) + a_target (by d_j)
//! ```
//! Sums over i run over outgoing edges. Every row is summed in its stored order: the same bits on
//! any number of threads.

use std::sync::Arc;

use rayon::prelude::*;

use super::{Kind, LayerPlan, Request};
use crate::config::ModelKind;
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::{Activation, AdjacencyRef, elementwise, gradient};
use crate::models::ModelError;
use crate::nn::dropout::{Dropout, Mask};
use crate::nn::explicit::{Given, Map, MapOnGraph, Memory};
use crate::nn::{Operators, Slot};
use crate::solver::SolveInfo;

/// Slope of lrelu below zero.
const SLOPE: f32 = 0.2;
/// Rows per piece of work that visits no edges.
const ROWS: usize = 64;

pub(super) const KIND: Kind = Kind::new(ModelKind::Gat, layers);

fn layers(request: &Request<'_>) -> Result<Vec<LayerPlan>, ModelError> {
    let config = request.config;
    request.stack(config.depth, |layer| {
        let (heads, width) = (if layer.is_logits { 1 } else { config.heads }, layer.width);
        if !width.is_multiple_of(heads) {
            return Err(ModelError::Heads { width, heads });
        }
        let dropout = request.dropout(config.dropout, &format!("layer{}.attention", layer.number));
        Ok(Arc::new(Attention { heads, width, activation: layer.activation()?, dropout }))
    })
}

#[derive(Clone, Debug)]
struct Attention {
    /// Heads; the width is a multiple of them.
    heads: usize,
    /// m: columns of all heads together.
    width: usize,
    /// phi
    activation: Activation,
    /// Dropout of the weights.
    dropout: Option<Dropout>,
}

impl Map for Attention {
    fn slots(&self, layer: usize) -> Vec<Slot> {
        let (heads, f) = (self.heads, self.width / self.heads);
        vec![
            Slot::weight(format!("layer{layer}.source"), heads, f),
            Slot::weight(format!("layer{layer}.target"), heads, f),
            Slot::bias(format!("layer{layer}.bias"), self.width),
        ]
    }

    /// Uniform within sqrt(6 / (f + 1)), a bias of zero.
    fn initial(&self, layer: usize, seed: u64) -> Vec<Matrix> {
        let bound = (6.0 / (self.width / self.heads + 1) as f64).sqrt();
        self.slots(layer).iter().map(|slot| slot.initial(seed, bound)).collect()
    }

    fn draws(&self) -> bool {
        self.dropout.is_some()
    }

    fn on_graph(&self, operators: &Operators) -> Box<dyn MapOnGraph + Send> {
        let (nodes, heads) = (operators.nodes(), self.heads);
        let softmax =
            operators.incoming().iter().map(|_| Matrix::zeros(nodes, 2 * heads)).collect();
        let [source, target] = [0, 1].map(|_| Matrix::zeros(nodes, heads));
        Box::new(OnGraph {
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
    /// s and d, one column per head.
    source: Matrix,
    target: Matrix,
    /// Per relation: the largest e of a row's entries, then the sum of its exponentials, one column
    /// per head each.
    softmax: Vec<Matrix>,
    mask: Option<Mask>,
}

/// The numbers that weights follow from.
#[derive(Clone, Copy)]
struct Weights<'a> {
    source: MatrixRef<'a>,
    target: MatrixRef<'a>,
    mask: Option<Mask>,
    heads: usize,
}

impl Weights<'_> {
    /// e and the slope of lrelu there, of the edge from j to i in a head.
    #[inline(always)]
    fn score(self, j: usize, i: usize, head: usize) -> (f32, f32) {
        let z = self.source.row(j)[head] + self.target.row(i)[head];
        if z > 0.0 { (z, 1.0) } else { (SLOPE * z, SLOPE) }
    }

    /// What an edge's weight is multiplied by; ends by their stored numbers.
    #[inline(always)]
    fn factor(self, from: u32, to: u32, head: usize) -> f32 {
        self.mask.map_or(1.0, |mask| mask.at(from.into(), to as usize * self.heads + head))
    }
}

impl OnGraph {
    fn weights(&self) -> Weights<'_> {
        let (source, target) = (self.source.view(), self.target.view());
        Weights { source, target, mask: self.mask, heads: self.shape.heads }
    }
}

impl MapOnGraph for OnGraph {
    fn forward(&mut self, given: &Given<'_>, memory: &mut Memory) -> Option<SolveInfo> {
        let Given { values, draw, .. } = *given;
        self.mask = self.shape.dropout.zip(draw).map(|(dropout, draw)| dropout.mask(draw.epoch));
        let h = memory.input.view();
        scores(h, values[0], &mut self.source);
        scores(h, values[1], &mut self.target);
        let relations = self.operators.incoming();
        let mut softmax = std::mem::take(&mut self.softmax);
        for (at, (adjacency, softmax)) in relations.iter().zip(&mut softmax).enumerate() {
            let to = if at == 0 { &mut memory.state } else { &mut memory.spare };
            attend(&self.operators, adjacency, self.weights(), h, to.view_mut(), softmax);
            if at > 0 {
                elementwise::add(memory.spare.view(), memory.state.view_mut());
            }
        }
        self.softmax = softmax;
        if relations.len() > 1 {
            elementwise::scale(1.0 / relations.len() as f32, memory.state.view_mut());
        }
        elementwise::add_row_and_activate(
            self.shape.activation,
            values[2].row(0),
            memory.state.view_mut(),
        );
        None
    }

    fn backward(
        &mut self,
        values: &[MatrixRef<'_>],
        memory: &mut Memory,
        gradients: &mut [MatrixMut<'_>],
    ) {
        let Memory { input, state, right, adjoint, .. } = memory;
        elementwise::differentiate(self.shape.activation, state.view(), right.view_mut());
        gradients[2].row_mut(0).copy_from_slice(&gradient::bias(right.view()));
        let (nodes, heads) = (input.rows(), self.shape.heads);
        let [mut by_source, mut by_target] = [0, 1].map(|_| Matrix::zeros(nodes, heads));
        elementwise::clear(adjoint.view_mut());
        // Relations are averaged.
        let share = 1.0 / self.softmax.len() as f32;
        let (h, g) = (input.view(), right.view());
        let (incoming, outgoing) = (self.operators.incoming(), self.operators.outgoing());
        let sides = incoming.iter().zip(&outgoing);
        for ((incoming, outgoing), softmax) in sides.zip(&self.softmax) {
            let back = Back { weights: self.weights(), h, g, share, softmax: softmax.view() };
            let mut sums = Matrix::zeros(nodes, 2 * heads);
            back.by_target(&self.operators, incoming, sums.view_mut());
            for row in 0..nodes {
                let by_d = &sums.row(row)[heads..];
                by_target.row_mut(row).iter_mut().zip(by_d).for_each(|(to, x)| *to += x);
            }
            back.by_source(
                &self.operators,
                outgoing,
                sums.view(),
                adjoint.view_mut(),
                by_source.view_mut(),
            );
        }
        add_outer(by_source.view(), values[0], adjoint.view_mut());
        add_outer(by_target.view(), values[1], adjoint.view_mut());
        for (by_score, gradient) in [by_source, by_target].iter().zip(gradients) {
            // Row k of the product is head k against all columns: its own block is the gradient.
            let all = gradient::input(by_score.view(), h);
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

/// The first rows of two matrices, and the rest.
#[allow(clippy::type_complexity)] // Two matrices, twice.
fn split_both<'a>(
    (a, b): (MatrixMut<'a>, MatrixMut<'a>),
    rows: usize,
) -> ((MatrixMut<'a>, MatrixMut<'a>), (MatrixMut<'a>, MatrixMut<'a>)) {
    let ((a, more_a), (b, more_b)) = (a.split_at(rows), b.split_at(rows));
    ((a, b), (more_a, more_b))
}

/// sum_j alpha_ij H_j for every row, and the numbers of its softmax.
fn attend(
    operators: &Operators,
    adjacency: &AdjacencyRef<'_>,
    weights: Weights<'_>,
    h: MatrixRef<'_>,
    to: MatrixMut<'_>,
    softmax: &mut Matrix,
) {
    let heads = weights.heads;
    let f = h.cols() / heads;
    let work =
        |_, rows: std::ops::Range<usize>, (mut to, mut softmax): (MatrixMut<'_>, MatrixMut<'_>)| {
            for i in rows.clone() {
                let (to, softmax) = (to.row_mut(i - rows.start), softmax.row_mut(i - rows.start));
                to.fill(0.0);
                let (largest, sums) = softmax.split_at_mut(heads);
                largest.fill(f32::NEG_INFINITY);
                sums.fill(0.0);
                for at in adjacency.range(i) {
                    let s = weights.source.row(adjacency.column(i, at));
                    largest.iter_mut().zip(s).for_each(|(largest, &s)| *largest = largest.max(s));
                }
                // lrelu rises: the largest s gives the largest e.
                for (largest, &d) in largest.iter_mut().zip(weights.target.row(i)) {
                    let z = *largest + d;
                    *largest = if z > 0.0 { z } else { SLOPE * z };
                }
                let own = adjacency.stored_row(i) as u32;
                for at in adjacency.range(i) {
                    let j = adjacency.column(i, at);
                    let row = h.row(j);
                    for head in 0..heads {
                        let weight = (weights.score(j, i, head).0 - largest[head]).exp();
                        sums[head] += weight;
                        let weight = weight * weights.factor(adjacency.neighbours()[at], own, head);
                        add_times(weight, &row[head * f..][..f], &mut to[head * f..][..f]);
                    }
                }
                for (to, sum) in to.chunks_exact_mut(f).zip(sums) {
                    // A node that nothing comes to has no weights.
                    let scale = if *sum > 0.0 { 1.0 / *sum } else { 0.0 };
                    *sum = scale;
                    to.iter_mut().for_each(|x| *x *= scale);
                }
            }
        };
    let blocks = operators.incoming_blocks();
    blocks.map_reduce((to, softmax.view_mut()), split_both, work, |(), ()| ());
}

/// What both passes of the backward read.
#[derive(Clone, Copy)]
struct Back<'a> {
    weights: Weights<'a>,
    h: MatrixRef<'a>,
    g: MatrixRef<'a>,
    share: f32,
    /// Largest e, and one over the sum, of every row and head.
    softmax: MatrixRef<'a>,
}

impl Back<'_> {
    /// alpha, the slope of lrelu, and mask of the edge from j to i; ends also by their stored
    /// numbers.
    #[inline(always)]
    fn edge(&self, (j, from): (usize, u32), (i, to): (usize, u32), head: usize) -> (f32, f32, f32) {
        let (e, slope) = self.weights.score(j, i, head);
        let softmax = self.softmax.row(i);
        let alpha = (e - softmax[head]).exp() * softmax[self.weights.heads + head];
        (alpha, slope, self.weights.factor(from, to, head))
    }

    #[inline(always)]
    fn product(&self, j: usize, i: usize, head: usize) -> f32 {
        let f = self.h.cols() / self.weights.heads;
        let part = head * f..(head + 1) * f;
        self.share * dot(&self.g.row(i)[part.clone()], &self.h.row(j)[part])
    }

    /// c and the gradient by d of every row, one column per head each.
    fn by_target(&self, operators: &Operators, adjacency: &AdjacencyRef<'_>, sums: MatrixMut<'_>) {
        let heads = self.weights.heads;
        let work = |_, rows: std::ops::Range<usize>, mut sums: MatrixMut<'_>| {
            // sum_j alpha l', which c is to be multiplied by.
            let mut slopes = vec![0.0; heads];
            for i in rows.clone() {
                let own = adjacency.stored_row(i) as u32;
                let (c, by_d) = sums.row_mut(i - rows.start).split_at_mut(heads);
                slopes.fill(0.0);
                for at in adjacency.range(i) {
                    let j = adjacency.column(i, at);
                    for head in 0..heads {
                        let (alpha, slope, mask) =
                            self.edge((j, adjacency.neighbours()[at]), (i, own), head);
                        let term = alpha * mask * self.product(j, i, head);
                        c[head] += term;
                        by_d[head] += term * slope;
                        slopes[head] += alpha * slope;
                    }
                }
                for head in 0..heads {
                    by_d[head] -= c[head] * slopes[head];
                }
            }
        };
        operators.incoming_blocks().map_reduce(sums, MatrixMut::split_at, work, |(), ()| ());
    }

    /// Adds sum_i alpha mask g_i to G, and the gradient by s, of every row j of outgoing edges;
    /// `sums` has c.
    fn by_source(
        &self,
        operators: &Operators,
        adjacency: &AdjacencyRef<'_>,
        sums: MatrixRef<'_>,
        to: MatrixMut<'_>,
        by_source: MatrixMut<'_>,
    ) {
        let heads = self.weights.heads;
        let f = self.h.cols() / heads;
        let work =
            |_, rows: std::ops::Range<usize>, (mut to, mut by): (MatrixMut<'_>, MatrixMut<'_>)| {
                for j in rows.clone() {
                    let own = adjacency.stored_row(j) as u32;
                    let (to, by) = (to.row_mut(j - rows.start), by.row_mut(j - rows.start));
                    for at in adjacency.range(j) {
                        let i = adjacency.column(j, at);
                        let (g, c) = (self.g.row(i), sums.row(i));
                        for head in 0..heads {
                            let (alpha, slope, mask) =
                                self.edge((j, own), (i, adjacency.neighbours()[at]), head);
                            by[head] += alpha * (mask * self.product(j, i, head) - c[head]) * slope;
                            let part = head * f..(head + 1) * f;
                            add_times(self.share * alpha * mask, &g[part.clone()], &mut to[part]);
                        }
                    }
                }
            };
        operators.outgoing_blocks().map_reduce((to, by_source), split_both, work, |(), ()| ());
    }
}
