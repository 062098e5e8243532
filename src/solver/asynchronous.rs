//! In-place sweeps by all threads at once: one state instead of two, each row reading whatever is newest.
//! Not reproducible to the bit, and refused where no contraction is certified; the limit is that of the synchronous solve.
//!
//! Chazan-Miranker and Frommer-Szyld: where a sweep contracts in a weighted maximum norm, updates in any order and with
//! any bounded delay converge to the same fixed point. That is exactly what a [`Certificate`] says.
//!
//! The state is f32 bits in relaxed atomics: rows are read while they are written, entry by entry, which is no data
//! race; a row half old and half new is as good an iterate as any. Between passes over all rows the threads meet. A pass
//! that moved less than the tolerance is followed by one that only looks: the residual of the state as it stands, from
//! which error and convergence are reported.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use super::certificate::Certificate;
use super::fixed_point::{SolveInfo, SolveParams, Stopped};
use crate::dense::{LINE, Matrix};
use crate::kernels::sweep::Sweep;
use crate::kernels::{Activation, Change, Derivative};

/// Rows that are gathered before they are multiplied, so that the weights are read once for all of them.
const ROWS: usize = 8;

/// A state that threads share.
#[derive(Debug)]
pub struct SharedState {
    bits: Box<[AtomicU32]>,
    rows: usize,
    cols: usize,
}

/// Why an asynchronous solve is refused or failed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum AsynchronousError {
    /// Without contraction the order of updates could decide where they lead.
    #[error("asynchronous sweeps need a certified contraction (found a bound of {q}, expected below 1)")]
    NotCertified {
        /// The bound.
        q: f64,
    },
    /// NaN or an infinity in the input, a weight or the start.
    #[error("asynchronous sweep {sweep}: the state is not finite")]
    NotFinite {
        /// The pass.
        sweep: usize,
    },
}

impl SharedState {
    /// All zero.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        let entries = rows.checked_mul(cols).expect("a state larger than the address space");
        Self { bits: bytemuck::allocation::zeroed_slice_box(entries), rows, cols }
    }

    /// Bytes of a state.
    pub fn bytes(rows: usize, cols: usize) -> u64 {
        (rows as u64).saturating_mul(cols as u64).saturating_mul(size_of::<f32>() as u64)
    }

    /// Takes a state over, for a warm start.
    ///
    /// # Panics
    /// Where shapes differ.
    pub fn store(&mut self, state: &Matrix) {
        assert_eq!((state.rows(), state.cols()), (self.rows, self.cols), "a state of the same shape");
        for i in 0..self.rows {
            for (bits, x) in self.bits[i * self.cols..][..self.cols].iter_mut().zip(state.row(i)) {
                *bits.get_mut() = x.to_bits();
            }
        }
    }

    /// The state as a matrix.
    pub fn to_matrix(&self) -> Matrix {
        Matrix::from_fn(self.rows, self.cols, |i, k| self.row(i).nth(k).unwrap_or(0.0))
    }

    /// The entries of a row, as they are now.
    pub fn row(&self, row: usize) -> impl Iterator<Item = f32> {
        self.bits[row * self.cols..][..self.cols].iter().map(|bits| f32::from_bits(bits.load(Relaxed)))
    }

    fn cells(&self, row: usize) -> &[AtomicU32] {
        &self.bits[row * self.cols..][..self.cols]
    }
}

/// [`super::fixed_point::forward`], in place.
///
/// # Panics
/// Where shapes do not fit.
pub fn forward(
    sweep: &Sweep<'_>,
    activation: Activation,
    certificate: &Certificate,
    params: &SolveParams,
    state: &mut SharedState,
) -> Result<SolveInfo, AsynchronousError> {
    let finish = |_: usize, _: usize, z: f32| activation.value(z);
    run(sweep, finish, Some(activation), certificate, params, state)
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
    state: &mut SharedState,
) -> Result<SolveInfo, AsynchronousError> {
    let finish = |i: usize, k: usize, z: f32| derivative.at(i, k) * z;
    run(sweep, finish, None, certificate, params, state)
}

fn run(
    sweep: &Sweep<'_>,
    finish: impl Fn(usize, usize, f32) -> f32 + Sync,
    activation: Option<Activation>,
    certificate: &Certificate,
    params: &SolveParams,
    state: &mut SharedState,
) -> Result<SolveInfo, AsynchronousError> {
    if !certificate.holds() {
        return Err(AsynchronousError::NotCertified { q: certificate.q });
    }
    assert_eq!(
        (state.rows, state.cols),
        (sweep.input.rows(), sweep.input.cols()),
        "a state of the input's shape"
    );
    let state = &*state;
    let start = Instant::now();
    let relative = |change: &Change| {
        f64::from(change.largest) / f64::from(change.state).max(f64::from(f32::MIN_POSITIVE))
    };
    let (mut sweeps, mut least, mut since) = (0, f64::INFINITY, 0);
    let mut stopped = Stopped::MaxSweeps;
    let mut looked = None;
    while sweeps < params.max_sweeps {
        let change = pass(sweep, &finish, certificate, state, true);
        sweeps += 1;
        if !change.finite {
            return Err(AsynchronousError::NotFinite { sweep: sweeps });
        }
        let moved = relative(&change);
        since = if moved < least { 0 } else { since + 1 };
        least = least.min(moved);
        if moved <= params.tolerance {
            let change = pass(sweep, &finish, certificate, state, false);
            if relative(&change) <= params.tolerance {
                (stopped, looked) = (Stopped::Converged, Some(change));
                break;
            }
        }
        if since >= params.patience {
            stopped = Stopped::Stagnated;
            break;
        }
    }
    let change = looked.unwrap_or_else(|| pass(sweep, &finish, certificate, state, false));
    let size = certificate.size(state.rows, |i| state.row(i));
    Ok(SolveInfo {
        sweeps,
        relative_residual: relative(&change),
        contraction: Some(certificate.q),
        certified_error: certificate.error_of_read(change.weighted, size, sweep.input, activation),
        converged: stopped == Stopped::Converged,
        stopped,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// One pass over all rows; writes, or only looks at what it would write.
fn pass(
    sweep: &Sweep<'_>,
    finish: &(impl Fn(usize, usize, f32) -> f32 + Sync),
    certificate: &Certificate,
    state: &SharedState,
    write: bool,
) -> Change {
    if state.cols == 0 {
        return Change::NONE;
    }
    let norm = certificate.norm();
    let work = |_: usize, rows: std::ops::Range<usize>, ()| {
        let mut change = Change::NONE;
        let widest = sweep.terms.iter().map(|term| term.weights.inner()).max().unwrap_or(0);
        let mut gathered = vec![0.0f32; ROWS * widest];
        let mut sums = vec![0.0f32; ROWS * state.cols];
        for first in rows.clone().step_by(ROWS) {
            let rows = first..rows.end.min(first + ROWS);
            for (i, sums) in rows.clone().zip(sums.chunks_exact_mut(state.cols)) {
                sums.copy_from_slice(sweep.input.row(i));
            }
            for term in sweep.terms {
                let inner = term.weights.inner();
                for (i, gathered) in rows.clone().zip(gathered.chunks_exact_mut(inner.max(1))) {
                    gathered.fill(0.0);
                    for (j, value) in term.adjacency.entries(i) {
                        for (sum, bits) in gathered.iter_mut().zip(state.cells(j)) {
                            *sum += value * f32::from_bits(bits.load(Relaxed));
                        }
                    }
                }
                for panel in 0..state.cols.div_ceil(LINE) {
                    let mut lines = [[0.0f32; LINE]; ROWS];
                    for (l, line) in term.weights.panel(panel).iter().enumerate() {
                        for (at, sums) in lines.iter_mut().enumerate() {
                            let x = gathered[at * inner + l];
                            for (sum, p) in sums.iter_mut().zip(&line.0) {
                                *sum += x * p;
                            }
                        }
                    }
                    for (line, sums) in lines.iter().zip(sums.chunks_exact_mut(state.cols)) {
                        for (sum, x) in sums[panel * LINE..].iter_mut().zip(line) {
                            *sum += x;
                        }
                    }
                }
            }
            for (i, sums) in rows.zip(sums.chunks_exact(state.cols)) {
                let u = norm.u.map_or(1.0, |u| u[i]);
                for (k, (bits, &z)) in state.cells(i).iter().zip(sums).enumerate() {
                    let new = finish(i, k, z);
                    let moved = (new - f32::from_bits(bits.load(Relaxed))).abs();
                    let weighted = moved / norm.v.map_or(1.0, |v| v[k]) / u;
                    let finite = new.is_finite() && moved.is_finite();
                    change = change.merge(Change { weighted, largest: moved, state: new.abs(), finite });
                    if write {
                        bits.store(new.to_bits(), Relaxed);
                    }
                }
            }
        }
        change
    };
    sweep.blocks.run((), |(), _| ((), ()), work, Change::merge).unwrap_or(Change::NONE)
}
