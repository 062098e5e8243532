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
use crate::kernels::{Activation, elementwise, gradient};
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
        let (moved, size) = elementwise::damp(damping, spare.view(), state.view_mut());
        if right.rows() == nodes {
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
            row_updates: (sweeps * memory.state.rows()) as u64,
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
