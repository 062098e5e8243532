//! Gradients that are cheaper than the adjoint equilibrium: a fixed number of damped adjoint sweeps
//! from zero. They are approximations without a certificate, and their record says so.
//!
//! ```text
//! G_0 = 0,   G_{t+1} = (1 - damping) G_t + damping * D * (A G_t W + R),   t < steps
//! ```
//!
//! One undamped step is the Jacobian-free gradient G = D * R; several damped ones are the phantom
//! gradient. With many steps both converge to the exact gradient, if there is one.

use std::time::Instant;

use super::effort::Effort;
use super::error::{SolveError, find_origin};
use super::fixed_point::{Measure, SolveInfo, Stopped, relative_residual};
use super::method::{Choice, Used};
use super::workspace::Workspace;
use crate::dense::Matrix;
use crate::kernels::elementwise;
use crate::kernels::sweep::Sweep;
use crate::kernels::{Change, Derivative, Norm, update_ghosts};

/// Makes `steps` adjoint sweeps from zero; `state` is overwritten.
///
/// # Panics
/// If shapes do not match.
pub fn adjoint(
    sweep: &Sweep<'_>,
    derivative: Derivative<'_>,
    steps: usize,
    damping: f32,
    state: &mut Matrix,
    workspace: &mut Workspace,
) -> Result<SolveInfo, SolveError> {
    let start = Instant::now();
    elementwise::clear(state.view_mut());
    let rows = workspace.rows().clone();
    let mut change = Change::NONE;
    for step in 1..=steps {
        let to = workspace.spare().view_mut().first(rows.len());
        change = sweep.adjoint(derivative, Norm::default(), state.view(), to);
        change = change.of_ranks(rows.ranks());
        if !change.finite {
            let read = state.view().first(rows.len());
            return Err(find_origin(sweep, "adjoint", step, Some(read), &rows));
        }
        if damping == 1.0 {
            std::mem::swap(state, workspace.spare());
        } else {
            elementwise::damp(damping, workspace.spare().view(), state.view_mut());
        }
        update_ghosts(&rows, state.view_mut());
    }
    Ok(SolveInfo {
        sweeps: steps,
        row_updates: (steps * rows.all()) as u64,
        relative_residual: relative_residual(&change, Measure::State),
        contraction: None,
        certified_error: None,
        estimated_error: None,
        tolerance: f64::INFINITY,
        converged: false,
        stopped: Stopped::Truncated,
        choice: Choice::asked(Used::Truncated),
        certificate: Effort::default(),
        seconds: start.elapsed().as_secs_f64(),
    })
}
