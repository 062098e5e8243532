//! SSE (Dai et al. 2018): the steady state of `h = W1 phi(W2 P h + B)`, approached by damped steps,
//! and the backward through the last few. The input map makes B from own and gathered features
//! (W_u and W_u' of the paper); the readout reads h.
//!
//! | symbol | shape | meaning |
//! | --- | --- | --- |
//! | B, X, R, G | n x m | as in [`explicit`](crate::nn::explicit); X is h after the last step |
//! | h_t, z_t | n x m | state and activation of step t |
//! | W1, W2 | m x m | parameters |
//! | P | n x n | the mean of the relations' A^T |
//!
//! ```text
//! z_t = phi(P h_{t-1} W2^T + B)      h_t = (1 - a) h_{t-1} + a z_t W1^T
//! ```
//! As published, the state is kept from pass to pass: a pass makes T steps from where the last one
//! ended, and the gradient goes through these T steps and no further. A pass that starts from zero
//! (the first one, batches of graphs, predictions) iterates to the solver's tolerance, within its
//! limit of sweeps. Nothing bounds W1 and W2, so a steady state need not exist. If the state exceeds
//! `MOST`, the pass ends with T steps from zero and reports that it did not converge.
//!
//! Backward, from g_T = R:
//!
//! ```text
//! q = a (g_t W1) * phi'(z_t)    dL/dW1 += a g_t^T z_t    dL/dW2 += q^T (P h_{t-1})
//! G += q                        g_{t-1} = (1 - a) g_t + P^T (q W2)
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::{Kind, LayerPlan, Output, Request};
use crate::config::ModelKind;
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::{Activation, elementwise, gradient, update_ghosts};
use crate::models::ModelError;
use crate::nn::explicit::{Given, Map, MapOnGraph, Memory};
use crate::nn::{InputMap, Operators, Slot, linear, propagate};
use crate::solver::fixed_point::Stopped;
use crate::solver::{Choice, Effort, SolveInfo, Used};

/// A state with a larger entry counts as diverged.
const MOST: f32 = 1e12;

pub(super) const KIND: Kind = Kind {
    output: Output::Readout,
    ..Kind::new(
        ModelKind::Sse,
        &[
            "model.depth",
            "model.state",
            "model.activation",
            "model.sse_damping",
            "solver.tolerance",
            "solver.max_sweeps",
            "solver.warm_start",
        ],
        layers,
    )
};

fn layers(request: &Request<'_>) -> Result<Vec<LayerPlan>, ModelError> {
    let config = request.config;
    let mut layers = request.stack(1, |layer| {
        Ok(Arc::new(Steady {
            steps: config.depth,
            damping: config.sse_damping,
            width: layer.width,
            activation: layer.activation()?,
        }))
    })?;
    // Dropout is before the readout only: masks that change would move the steady state.
    layers[0].dropout = 0.0;
    // A learned table has one map.
    if request.facts.columns.is_some() {
        layers[0].input = InputMap::Both;
    }
    Ok(layers)
}

#[derive(Clone, Debug)]
struct Steady {
    /// T
    steps: usize,
    /// a
    damping: f64,
    /// m
    width: usize,
    /// phi
    activation: Activation,
}

impl Map for Steady {
    fn slots(&self, layer: usize) -> Vec<Slot> {
        let m = self.width;
        ["W1", "W2"].map(|name| Slot::weight(format!("layer{layer}.{name}"), m, m)).into()
    }

    /// Uniform within 1 / sqrt(m).
    fn initial(&self, layer: usize, seed: u64) -> Vec<Matrix> {
        let bound = 1.0 / (self.width.max(1) as f64).sqrt();
        self.slots(layer).iter().map(|slot| slot.initial(seed, bound)).collect()
    }

    /// Two matrices per differentiated step, and two of the backward pass.
    fn extra_matrices(&self) -> u64 {
        2 + 2 * self.steps as u64
    }

    fn on_graph(&self, operators: &Operators) -> Box<dyn MapOnGraph + Send> {
        let (shape, path) = (self.clone(), VecDeque::new());
        Box::new(OnGraph { operators: operators.clone(), shape, is_warm: false, path })
    }
}

struct OnGraph {
    operators: Operators,
    shape: Steady,
    /// Whether the state is that of an earlier pass.
    is_warm: bool,
    /// h before and z of the last steps, T at most; only if a backward pass will follow.
    path: VecDeque<[Matrix; 2]>,
}

impl OnGraph {
    /// One step of the state. Returns the undamped change relative to the state, or `None` if the
    /// state diverged.
    fn step(&mut self, values: &[MatrixRef<'_>], memory: &mut Memory) -> Option<f64> {
        let Memory { input, state, spare, trains, .. } = memory;
        let (operators, width, damping) =
            (&self.operators, state.cols(), self.shape.damping as f32);
        let rows = operators.rows();
        let [mut before, mut z] = match self.path.len() == self.shape.steps {
            true => self.path.pop_front().expect("a step at least"),
            false => [rows.with_ghosts(), rows.len()].map(|rows| Matrix::zeros(rows, width)),
        };
        let (mut own, mut spare) =
            (state.view_mut().first(rows.len()), spare.view_mut().first(rows.len()));
        elementwise::copy(own.as_ref(), before.view_mut().first(rows.len()));
        update_ghosts(rows, before.view_mut());
        let blocks = operators.incoming_blocks();
        propagate::mean(blocks, &operators.incoming(), before.view(), spare.reborrow());
        linear::forward(values[1], None, spare.as_ref(), z.view_mut());
        let b = input.view().first(rows.len());
        elementwise::add_and_activate(self.shape.activation, b, z.view_mut());
        linear::forward(values[0], None, z.view(), spare.reborrow());
        let moved = elementwise::damp(damping, spare.as_ref(), own.reborrow());
        let [moved, size] = rows
            .ranks()
            .merge([moved.0, moved.1], |a: [f32; 2], b| [a[0].max(b[0]), a[1].max(b[1])]);
        if *trains {
            self.path.push_back([before, z]);
        }
        (size <= MOST).then(|| f64::from(moved) / f64::from(size).max(f64::from(f32::MIN_POSITIVE)))
    }
}

impl MapOnGraph for OnGraph {
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
            row_updates: (sweeps * self.operators.rows().all()) as u64,
            relative_residual: residual,
            contraction,
            certified_error,
            estimated_error: None,
            tolerance: params.tolerance,
            converged,
            stopped,
            choice: Choice::asked(Used::Plain),
            certificate: Effort::default(),
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
        let (operators, width, damping) =
            (&self.operators, right.cols(), self.shape.damping as f32);
        let (rows, nodes) = (operators.rows(), operators.nodes());
        let [mut g, mut q] = [0, 1].map(|_| Matrix::zeros(nodes, width));
        elementwise::copy(right.view().first(nodes), g.view_mut());
        let mut adjoint = adjoint.view_mut().first(nodes);
        elementwise::clear(adjoint.reborrow());
        gradients.iter_mut().for_each(|gradient| gradient.padded_mut().fill(0.0));
        for [before, z] in self.path.iter().rev() {
            linear::backward(values[0], g.view(), q.view_mut());
            elementwise::scale(damping, q.view_mut());
            elementwise::differentiate(self.shape.activation, z.view(), q.view_mut());
            let by_first = gradient::input_over(rows, g.view(), z.view());
            elementwise::mix(1.0, damping, by_first.view(), gradients[0].reborrow());
            let mut own = spare.view_mut().first(nodes);
            let (blocks, incoming) = (operators.incoming_blocks(), operators.incoming());
            propagate::mean(blocks, &incoming, before.view(), own.reborrow());
            let by_second = gradient::input_over(rows, q.view(), own.as_ref());
            elementwise::add(by_second.view(), gradients[1].reborrow());
            elementwise::add(q.view(), adjoint.reborrow());
            linear::backward(values[1], q.view(), own);
            update_ghosts(rows, spare.view_mut());
            let (blocks, outgoing) = (operators.outgoing_blocks(), operators.outgoing());
            propagate::mean(blocks, &outgoing, spare.view(), q.view_mut());
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
