//! A tight bound of the error of a state x, by a second state y that is closer to the equilibrium
//! X*. The state itself stays as it is.
//!
//! The bound of [`Certificate::error`] knows one number, the largest move of a sweep. It assumes
//! the worst about everything else: that the move is as bad at every node, that all columns add up,
//! and that every rounding error of a sweep in f32 is as large as it can be, with the same sign. On
//! trained models that is ten to thousands of times the true error. Here some more sweeps lead from x to y,
//! and one evaluation in f64 gives the residual r of y without the rounding of f32:
//!
//! ```text
//! |X* - x| <= |y - x| + |X* - y|                                     entry by entry
//! |X* - y|_uv <= (|r|_uv + rounding in f64) / (1 - q)
//! ```
//!
//! The first part is known exactly. The second makes the same assumptions as before, but about a
//! residual that is many times smaller; and |y - x| minus it is a lower bound of the error, so that
//! the result also says how tight it is. It is no use where x is already as close as f32 allows:
//! then y is no closer.
//!
//! Cost: at most as many sweeps as the solve took or [`LEAST_SWEEPS`], one evaluation in f64 (as
//! long as a few sweeps), and one state.

use rayon::prelude::*;

use super::certificate::{Certificate, ErrorBound, nan_max};
use super::fixed_point::{self, Measure, SolveInfo, SolveParams};
use super::method::Method;
use super::workspace::Workspace;
use crate::dense::Matrix;
use crate::kernels::sweep::{Direction, Sweep};
use crate::kernels::{Norm, exact, gathers_at_once, largest};

/// Sweeps from x to y that are always allowed.
pub const LEAST_SWEEPS: usize = 20;
/// Sweeps without a smaller move before y is as good as f32 allows.
const PATIENCE: usize = 4;
/// The second part of the bound may be this many times the residual of x.
const SHARE: f64 = 4.0;
/// The residual of y is at least this fraction of that of x, and at most an eighth.
const LEAST: f64 = 1.0 / 1024.0;
/// Relative residuals below this are rounding.
const FLOOR: f64 = 1e-7;

/// Tightens the certified error of a solve that ended with `state`; a solve without one stays as it
/// is.
///
/// # Panics
/// If shapes do not match.
pub fn tighten(
    sweep: &Sweep<'_>,
    direction: Direction<'_>,
    certificate: Option<&Certificate>,
    params: &SolveParams,
    state: &Matrix,
    workspace: &mut Workspace,
    info: SolveInfo,
) -> SolveInfo {
    let certificate = certificate.filter(|certificate| certificate.holds());
    let Some((certificate, loose)) = certificate.zip(info.certified_error) else {
        return info;
    };
    // A state on a disk, of which memory does not hold all columns: rows cannot be gathered in f64.
    let operators: Vec<_> = sweep.terms.iter().map(|term| term.adjacency).collect();
    if !gathers_at_once(state.view(), &operators) {
        return info;
    }
    let residual = match params.measure {
        Measure::State => info.relative_residual,
        Measure::Row => info.relative_residual.min(info.tolerance),
    };
    let share = (SHARE / certificate.amplification_of_residual()).clamp(LEAST, 0.125);
    let limits = SolveParams {
        tolerance: (share * residual).max(FLOOR),
        max_sweeps: info.sweeps.max(LEAST_SWEEPS),
        patience: PATIENCE,
        measure: Measure::State,
        // Rows in order are what x is already.
        method: if params.method == Method::Ordered { Method::Plain } else { params.method },
        follow: 0.0,
        ..*params
    };
    let mut closer = state.clone();
    let certified = Some(certificate);
    let solve = fixed_point::solve(sweep, direction, certified, &limits, &mut closer, workspace);
    if solve.is_err() {
        return info;
    }
    let over = workspace.rows();
    let rest = certificate.distance(sweep, direction, closer.view(), over);
    let row = |row: usize| {
        let weight = certificate.weight(row);
        let entries = state.row(row).iter().zip(closer.row(row)).enumerate();
        entries.fold([0.0f64; 3], |[most, least, apart], (col, (&x, &y))| {
            let distance = (f64::from(y) - f64::from(x)).abs();
            let rest = rest * weight(col);
            [nan_max(most, distance + rest), least.max(distance - rest), apart.max(distance)]
        })
    };
    let larger = |a: [f64; 3], b: [f64; 3]| [nan_max(a[0], b[0]), a[1].max(b[1]), a[2].max(b[2])];
    let rows = (0..over.len()).into_par_iter().with_min_len(256);
    let found = rows.map(row).reduce(|| [0.0; 3], larger);
    let [most, least, apart] = over.ranks().merge(found, larger);
    let size = largest(state.view().first(over.len()), Norm::default());
    let size = over.ranks().max(f64::from(size));
    let bound = ErrorBound {
        largest: (most * (1.0 + 1e-12)).min(loose.largest),
        rounding: (rest * certificate.largest_weight()).min(loose.rounding),
        at_least: least * (1.0 - 1e-12),
        ..loose
    };
    let estimated_error = if size > 0.0 { Some(apart / size) } else { info.estimated_error };
    SolveInfo { certified_error: Some(bound.of_state(size)), estimated_error, ..info }
}

/// An equilibrium in f64, for measurements: how far a state really is from it.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Rows of the state, one after the other.
    state: Vec<f64>,
    /// Upper bound of the distance of any entry from the equilibrium.
    pub error: f64,
    /// Number of sweeps in f64.
    pub sweeps: usize,
}

impl Reference {
    /// Sweeps in f64 from a state, until the error is at most a fraction `part` of the distance
    /// from that state, at most `max_sweeps` times. `None` without a certificate that holds.
    ///
    /// # Panics
    /// If shapes do not match.
    pub fn solve(
        sweep: &Sweep<'_>,
        direction: Direction<'_>,
        certificate: &Certificate,
        start: &Matrix,
        part: f64,
        max_sweeps: usize,
    ) -> Option<Self> {
        if !certificate.holds() {
            return None;
        }
        let width = start.cols();
        let activation = match direction {
            Direction::Forward(activation) => Some(activation),
            Direction::Adjoint(_) => None,
        };
        let wide = |row: usize| start.row(row).iter().map(|&x| f64::from(x));
        let mut state: Vec<f64> = (0..start.rows()).flat_map(wide).collect();
        let mut next = vec![0.0; state.len()];
        let mut found = Self { state: Vec::new(), error: f64::INFINITY, sweeps: 0 };
        let [mut size, input] = [certificate.size(start.view()), certificate.size_of(sweep.input)];
        while found.sweeps < max_sweeps {
            let before = &state;
            let moved = exact::evaluate(
                sweep,
                direction,
                exact::State::Double(before),
                &mut next[..],
                |part, rows| part.split_at_mut(rows * width),
                |part, block, row, values| {
                    part[(row - block.start) * width..][..width].copy_from_slice(values);
                    let weight = certificate.weight(row);
                    let entries = values.iter().zip(&before[row * width..]).enumerate();
                    let moved =
                        |(col, (new, old)): (usize, (&f64, &f64))| (new - old).abs() / weight(col);
                    entries.map(moved).fold(0.0, nan_max)
                },
            );
            std::mem::swap(&mut state, &mut next);
            found.sweeps += 1;
            size += moved;
            // The residual of the new state is less than the move.
            let rest = certificate.by_residual(moved, size, input, activation);
            found.error = rest * certificate.largest_weight();
            if found.error <= part * distance(&state, start) {
                break;
            }
        }
        found.state = state;
        Some(found)
    }

    /// The largest distance of an entry of a state; the true distance from the equilibrium differs
    /// by at most `error`.
    pub fn distance(&self, state: &Matrix) -> f64 {
        distance(&self.state, state)
    }
}

fn distance(wide: &[f64], state: &Matrix) -> f64 {
    let row = |row: usize| {
        let wide = &wide[row * state.cols()..];
        state.row(row).iter().zip(wide).map(|(&x, y)| (f64::from(x) - y).abs()).fold(0.0, nan_max)
    };
    (0..state.rows()).into_par_iter().with_min_len(256).map(row).reduce(|| 0.0, nan_max)
}
