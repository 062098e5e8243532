//! SSE (Dai et al. 2018): the steady state of h = W1 phi(W2 P h + B), approached by damped steps,
//! and back through a few. The input map makes B (own and gathered features, W_u and W_u' of the
//! paper) and the read-out reads h.
//!
//! ```text
//! z_t = phi(P h_{t-1} W2^T + B)      h_t = (1 - a) h_{t-1} + a z_t W1^T      P: the mean of the relations' A^T
//! ```
//! As published, the state is kept from pass to pass: a pass makes T steps from where the last one
//! ended, and the gradient goes through these T steps and no further. A pass that starts from zero
//! (the first one, batches of graphs, predictions) goes on until the steps stand still, by the
//! solver's tolerance and at most its sweeps. Nothing bounds W1 and W2: no steady state is certain.
//! A state that outgrows `MOST` is given up: the pass ends with T steps from zero and is told as
//! one that did not converge.
//!
//! Backward, from g_T = R:
//!
//! ```text
//! q = a (g_t W1) * phi'(z_t)    dL/dW1 += a g_t^T z_t    dL/dW2 += q^T (P h_{t-1})    G += q    g_{t-1} = (1 - a) g_t + P^T (q W2)
//! ```

use std::collections::VecDeque;
use std::time::Instant;

use rayon::prelude::*;

use super::explicit::{Given, Map, Memory};
use super::operators::Operators;
use super::readout::Slot;
use super::{elementwise, linear, propagate, random};
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::{Activation, gradient};
use crate::solver::fixed_point::Stopped;
use crate::solver::{Choice, SolveInfo, Used};

/// Floats of a piece of elementwise work.
const CHUNK: usize = 1 << 14;

/// States with a larger entry are on their way out of all bounds.
const MOST: f32 = 1e12;

/// SSE apart from any graph.
#[derive(Clone, Debug)]
pub struct Steady {
    /// T
    pub steps: usize,
    /// a
    pub damping: f64,
    /// m
    pub width: usize,
    /// phi
    pub activation: Activation,
}

impl Steady {
    /// W1 and W2.
    pub fn slots(&self, layer: usize) -> Vec<Slot> {
        let shape = (self.width, self.width);
        ["W1", "W2"]
            .map(|name| Slot { name: format!("layer{layer}.{name}"), shape, is_bias: false })
            .into()
    }

    /// Uniform within 1 / sqrt(m).
    pub fn initial(&self, layer: usize, seed: u64) -> Vec<Matrix> {
        let bound = 1.0 / (self.width.max(1) as f64).sqrt();
        let value = |slot: &Slot| random::uniform(seed, &slot.name, self.width, self.width, bound);
        self.slots(layer).iter().map(value).collect()
    }
}

/// SSE on a graph.
pub struct SteadyOnGraph {
    operators: Operators,
    shape: Steady,
    /// Whether the state is that of an earlier pass.
    is_warm: bool,
    /// h before and z of the last steps, T at most; only where a backward will ask for them.
    path: VecDeque<[Matrix; 2]>,
}

impl SteadyOnGraph {
    /// On a graph, from zero.
    pub fn new(operators: &Operators, shape: Steady) -> Self {
        Self { operators: operators.clone(), shape, is_warm: false, path: VecDeque::new() }
    }

    /// One step of the state; how far it would have gone undamped, relative to the state. None
    /// where it outgrew all bounds.
    fn step(&mut self, values: &[MatrixRef<'_>], memory: &mut Memory) -> Option<f64> {
        let Memory { input, state, right, spare, .. } = memory;
        let (nodes, width, damping) = (state.rows(), state.cols(), self.shape.damping as f32);
        let [mut before, mut z] = match self.path.len() == self.shape.steps {
            true => self.path.pop_front().expect("a step at least"),
            false => [0, 1].map(|_| Matrix::zeros(nodes, width)),
        };
        elementwise::copy(state.view(), before.view_mut());
        let operators = &self.operators;
        propagate::mean(
            operators.incoming_blocks(),
            &operators.incoming(),
            before.view(),
            spare.view_mut(),
        );
        linear::forward(values[1], None, spare.view(), z.view_mut());
        elementwise::add_and_activate(self.shape.activation, input.view(), z.view_mut());
        linear::forward(values[0], None, z.view(), spare.view_mut());
        let (new, mut to) = (spare.view(), state.view_mut());
        let chunks = to.padded_mut().par_chunks_mut(CHUNK).zip(new.padded().par_chunks(CHUNK));
        let largest = |(to, new): (&mut [f32], &[f32])| {
            let (mut moved, mut size) = (0f32, 0f32);
            for (to, new) in to.iter_mut().zip(new) {
                let change = new - *to;
                *to += damping * change;
                (moved, size) = (moved.max(change.abs()), size.max(to.abs()));
            }
            (moved, size)
        };
        let (moved, size) =
            chunks.map(largest).reduce(|| (0.0, 0.0), |a, b| (a.0.max(b.0), a.1.max(b.1)));
        if right.rows() == nodes {
            self.path.push_back([before, z]);
        }
        (size <= MOST).then(|| f64::from(moved) / f64::from(size).max(f64::from(f32::MIN_POSITIVE)))
    }
}

impl Map for SteadyOnGraph {
    fn forward(&mut self, given: &Given<'_>, memory: &mut Memory) -> Option<SolveInfo> {
        let Given { values, params, .. } = *given;
        let start = Instant::now();
        let most =
            if self.is_warm { self.shape.steps } else { params.max_sweeps.max(self.shape.steps) };
        let (mut sweeps, mut residual, mut is_lost) = (0, f64::INFINITY, false);
        while sweeps < most
            && (self.is_warm || sweeps < self.shape.steps || residual > params.tolerance)
        {
            sweeps += 1;
            let Some(found) = self.step(values, memory) else {
                is_lost = true;
                break;
            };
            residual = found;
        }
        if is_lost {
            residual = f64::INFINITY;
            elementwise::clear(memory.state.view_mut());
            self.path.clear();
            sweeps += self.shape.steps;
            for _ in 0..self.shape.steps {
                self.step(values, memory);
            }
        }
        let converged = residual <= params.tolerance;
        let stopped = match () {
            () if converged => Stopped::Converged,
            () if is_lost => Stopped::Stagnated,
            () if self.is_warm => Stopped::Truncated,
            () => Stopped::MaxSweeps,
        };
        self.is_warm = true;
        let seconds = start.elapsed().as_secs_f64();
        let (contraction, certified_error) = (None, None);
        Some(SolveInfo {
            sweeps,
            row_updates: (sweeps * memory.state.rows()) as u64,
            relative_residual: residual,
            contraction,
            certified_error,
            tolerance: params.tolerance,
            converged,
            stopped,
            choice: Choice::asked(Used::Plain),
            seconds,
        })
    }

    fn backward(
        &mut self,
        values: &[MatrixRef<'_>],
        memory: &mut Memory,
        gradients: &mut [MatrixMut<'_>],
    ) {
        let Memory { right, adjoint, spare, .. } = memory;
        let (nodes, width, damping) = (right.rows(), right.cols(), self.shape.damping as f32);
        let [mut g, mut q] = [0, 1].map(|_| Matrix::zeros(nodes, width));
        elementwise::copy(right.view(), g.view_mut());
        elementwise::clear(adjoint.view_mut());
        gradients.iter_mut().for_each(|gradient| gradient.padded_mut().fill(0.0));
        let operators = &self.operators;
        for [before, z] in self.path.iter().rev() {
            linear::backward(values[0], g.view(), q.view_mut());
            elementwise::scale(damping, q.view_mut());
            elementwise::differentiate(self.shape.activation, z.view(), q.view_mut());
            let by_first = gradient::input(g.view(), z.view());
            elementwise::mix(1.0, damping, by_first.view(), gradients[0].reborrow());
            propagate::mean(
                operators.incoming_blocks(),
                &operators.incoming(),
                before.view(),
                spare.view_mut(),
            );
            elementwise::add(
                gradient::input(q.view(), spare.view()).view(),
                gradients[1].reborrow(),
            );
            elementwise::add(q.view(), adjoint.view_mut());
            linear::backward(values[1], q.view(), spare.view_mut());
            propagate::mean(
                operators.outgoing_blocks(),
                &operators.outgoing(),
                spare.view(),
                q.view_mut(),
            );
            elementwise::mix(1.0 - damping, 1.0, q.view(), g.view_mut());
        }
    }

    fn keeps_state(&self) -> bool {
        true
    }

    fn set_warm(&mut self, is_warm: bool) {
        self.is_warm = is_warm;
        self.path.clear();
    }
}
