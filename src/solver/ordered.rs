//! Graphs in which no cycle passes through more than one node: rows are settled in an order in which each comes after all
//! that it gathers from.
//! It finds the order and the state; sweeps over all rows then verify it, and residual and certificate are theirs.
//!
//! A wave along a chain of l nodes takes plain sweeps l passes over all rows; here it is one. Only a node's own loop is
//! iterated, in cache. One thread: a row waits for those before it. The same bits on any number of threads.

use std::time::Instant;

use super::certificate::Certificate;
use super::fixed_point::{self, SolveError, SolveInfo, SolveParams};
use super::method::{Choice, Method, Used, Why};
use super::workspace::Workspace;
use crate::dense::Matrix;
use crate::kernels::sweep::{Settled, Sweep};
use crate::kernels::{Activation, AdjacencyRef, Derivative};

/// Rows are settled to this part of the tolerance: what is left of a row's error goes into all that follow.
const SHARE: f64 = 1.0 / 16.0;
/// Repetitions of a row's own loop at most; sweeps do the rest.
const REPEATS: usize = 300;

/// Rows after all others that they gather from, over all relations; none where a cycle passes through several.
///
/// O(nodes + non-zeros); of a graph with an edge in both directions it ends there.
pub fn order(relations: &[AdjacencyRef<'_>]) -> Option<Vec<u32>> {
    const NEW: u8 = 0;
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let rows = relations.first().map_or(0, AdjacencyRef::rows);
    let mut marks = vec![NEW; rows];
    let mut order = Vec::new();
    // A row, the relation and the place of its next entry there.
    let mut path: Vec<(usize, usize, usize)> = Vec::new();
    for root in 0..rows {
        if marks[root] != NEW {
            continue;
        }
        marks[root] = OPEN;
        path.push((root, 0, 0));
        while let Some((row, relation, at)) = path.last_mut() {
            let Some(adjacency) = relations.get(*relation) else {
                marks[*row] = DONE;
                order.push(*row as u32);
                path.pop();
                continue;
            };
            let range = adjacency.range(*row);
            if *at >= range.len() {
                (*relation, *at) = (*relation + 1, 0);
                continue;
            }
            let column = adjacency.column(*row, range.start + *at);
            *at += 1;
            match marks[column] {
                NEW => {
                    marks[column] = OPEN;
                    path.push((column, 0, 0));
                }
                OPEN if column != *row => return None,
                _ => {}
            }
        }
    }
    Some(order)
}

/// [`fixed_point::forward`], rows in this order first.
///
/// # Panics
/// As there.
pub fn forward(
    sweep: &Sweep<'_>,
    activation: Activation,
    order: &[u32],
    certificate: Option<&Certificate>,
    params: &SolveParams,
    state: &mut Matrix,
    workspace: &mut Workspace,
) -> Result<SolveInfo, SolveError> {
    let start = Instant::now();
    let settled = sweep.forward_in_order(activation, order, until(params), state.view_mut());
    let params = prepare(settled, params, state);
    let info = fixed_point::forward(sweep, activation, certificate, &params, state, workspace)?;
    Ok(told(info, settled, start))
}

/// [`fixed_point::adjoint`], rows in this order first.
///
/// # Panics
/// As there.
pub fn adjoint(
    sweep: &Sweep<'_>,
    derivative: Derivative<'_>,
    order: &[u32],
    certificate: Option<&Certificate>,
    params: &SolveParams,
    state: &mut Matrix,
    workspace: &mut Workspace,
) -> Result<SolveInfo, SolveError> {
    let start = Instant::now();
    let settled = sweep.adjoint_in_order(derivative, order, until(params), state.view_mut());
    let params = prepare(settled, params, state);
    let info = fixed_point::adjoint(sweep, derivative, certificate, &params, state, workspace)?;
    Ok(told(info, settled, start))
}

/// When a row is settled.
fn until(params: &SolveParams) -> (f32, usize) {
    ((params.tolerance * SHARE) as f32, REPEATS.min(params.max_sweeps))
}

/// What is left for sweeps; where rows went beyond all numbers they begin anew, and say where from.
fn prepare(settled: Settled, params: &SolveParams, state: &mut Matrix) -> SolveParams {
    if !settled.is_finite {
        state.view_mut().padded_mut().fill(0.0);
    }
    SolveParams { method: Method::Plain, ..*params }
}

fn told(info: SolveInfo, settled: Settled, start: Instant) -> SolveInfo {
    SolveInfo {
        row_updates: info.row_updates + settled.updates,
        choice: Choice { why: Why::Acyclic, ..Choice::asked(Used::Ordered) },
        seconds: start.elapsed().as_secs_f64(),
        ..info
    }
}
