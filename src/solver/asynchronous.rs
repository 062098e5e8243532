//! In-place sweeps by all threads at once: one state instead of two, each row reading whatever is newest.
//! Not reproducible to the bit, and refused where no contraction is certified; the limit is that of the synchronous solve.
//!
//! Chazan-Miranker and Frommer-Szyld: where a sweep contracts in a weighted maximum norm, updates in any order and with
//! any bounded delay converge to the same fixed point. That is exactly what a [`Certificate`] says.
//!
//! The state is f32 bits in relaxed atomics: rows are read while they are written, number by number, which is no data
//! race; a row half old and half new is as good an iterate as any. Between passes over all rows the threads meet. A pass
//! that moved less than the tolerance is followed by one that only looks: the residual of the state as it stands, from
//! which error and convergence are reported. Looks are not counted as sweeps.
//!
//! Memory: the state, and the scratch of the sweep.

use std::time::Instant;

use super::certificate::Certificate;
use super::fixed_point::{Measure, SolveError, SolveInfo, SolveParams, Stopped, blame, relative_residual};
use super::method::{Choice, Used};
use crate::dense::SharedMatrix;
use crate::kernels::sweep::Sweep;
use crate::kernels::{Activation, Change, Derivative, Norm};

/// [`super::fixed_point::forward`], in place.
///
/// # Panics
/// Where shapes do not fit.
pub fn forward(
    sweep: &Sweep<'_>,
    activation: Activation,
    certificate: &Certificate,
    params: &SolveParams,
    state: &mut SharedMatrix,
) -> Result<SolveInfo, SolveError> {
    let pass = |norm: Norm<'_>, state: &SharedMatrix, writes| {
        sweep.forward_in_place(activation, norm, state, writes)
    };
    run(sweep, "forward", pass, Some(activation), certificate, params, state)
}

/// [`super::fixed_point::adjoint`], in place.
///
/// # Panics
/// Where shapes do not fit.
pub fn adjoint(
    sweep: &Sweep<'_>,
    derivative: Derivative<'_>,
    certificate: &Certificate,
    params: &SolveParams,
    state: &mut SharedMatrix,
) -> Result<SolveInfo, SolveError> {
    let pass = |norm: Norm<'_>, state: &SharedMatrix, writes| {
        sweep.adjoint_in_place(derivative, norm, state, writes)
    };
    run(sweep, "adjoint", pass, None, certificate, params, state)
}

fn run(
    sweep: &Sweep<'_>,
    direction: &'static str,
    pass: impl Fn(Norm<'_>, &SharedMatrix, bool) -> Change,
    activation: Option<Activation>,
    certificate: &Certificate,
    params: &SolveParams,
    state: &SharedMatrix,
) -> Result<SolveInfo, SolveError> {
    if !certificate.holds() {
        return Err(SolveError::NotCertified { direction, q: certificate.q });
    }
    let start = Instant::now();
    // Looked for before it spreads and its origin is gone.
    let wrong = |row| state.row(row).find(|x| !x.is_finite()).map(|found| (row, found));
    if let Some((row, found)) = (0..state.rows()).find_map(wrong) {
        return Err(SolveError::Start { direction, row, found });
    }
    let norm = Norm { rows: (params.measure == Measure::Row).then_some(0.0), ..certificate.norm() };
    let pass = |writes| pass(norm, state, writes);
    let (mut sweeps, mut least, mut since) = (0, f32::INFINITY, 0);
    let mut stopped = Stopped::MaxSweeps;
    let mut looked = None;
    while sweeps < params.max_sweeps {
        let change = pass(true);
        sweeps += 1;
        if !change.finite {
            return Err(blame(sweep, direction, sweeps, None));
        }
        since = if change.weighted < least { 0 } else { since + 1 };
        least = least.min(change.weighted);
        if relative_residual(&change, params.measure) <= params.tolerance {
            let change = pass(false);
            if relative_residual(&change, params.measure) <= params.tolerance {
                (stopped, looked) = (Stopped::Converged, Some(change));
                break;
            }
        }
        if since >= params.patience {
            stopped = Stopped::Stagnated;
            break;
        }
    }
    let change = looked.unwrap_or_else(|| pass(false));
    let size = certificate.size(state.rows(), |i| state.row(i));
    Ok(SolveInfo {
        sweeps,
        row_updates: (sweeps * state.rows()) as u64,
        relative_residual: relative_residual(&change, params.measure),
        contraction: Some(certificate.q),
        certified_error: certificate.error_of_read(change.weighted, size, sweep.input, activation),
        converged: stopped == Stopped::Converged,
        stopped,
        choice: Choice::asked(Used::Asynchronous),
        seconds: start.elapsed().as_secs_f64(),
    })
}
