//! Errors of a solve: NaN or infinity, by origin. The search for the origin runs only after a sweep
//! has found a value that is not finite.

use crate::dense::MatrixRef;
use crate::kernels::elementwise::first_not_finite;
use crate::kernels::sweep::Sweep;

/// A value that is not finite, by its origin.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SolveError {
    /// In the input term.
    #[error("{direction} solve: row {row} of the input is not finite (found {found})")]
    Input {
        /// "forward" or "adjoint".
        direction: &'static str,
        /// The first such row.
        row: usize,
        /// The entry.
        found: f32,
    },
    /// In a weight.
    #[error("{direction} solve: a weight of relation {relation} is not finite (found {found})")]
    Weight {
        /// "forward" or "adjoint".
        direction: &'static str,
        /// Position of the relation.
        relation: usize,
        /// The entry.
        found: f32,
    },
    /// In an adjacency.
    #[error(
        "{direction} solve: an edge of node {row} in relation {relation} is not finite (found {found})"
    )]
    Edge {
        /// "forward" or "adjoint".
        direction: &'static str,
        /// Position of the relation.
        relation: usize,
        /// The first row with such an entry.
        row: usize,
        /// The entry.
        found: f32,
    },
    /// In the state that the solve started from.
    #[error("{direction} solve: row {row} of the start is not finite (found {found})")]
    Start {
        /// "forward" or "adjoint".
        direction: &'static str,
        /// The first such row.
        row: usize,
        /// The entry.
        found: f32,
    },
    /// In the state of a layer without an equilibrium.
    #[error(
        "row {row} of the state is not finite (found {found}): a smaller optim.learning_rate may help"
    )]
    State {
        /// The first such row.
        row: usize,
        /// The entry.
        found: f32,
    },
    /// The state grew from sweep to sweep until it overflowed.
    #[error(
        "{direction} solve: the state overflowed in sweep {sweep}: the equation is not well-posed"
    )]
    Overflow {
        /// "forward" or "adjoint".
        direction: &'static str,
        /// The sweep.
        sweep: usize,
    },
}

/// Where the value that is not finite came from in this sweep; `read` is the state that the sweep
/// read.
pub(super) fn find_origin(
    sweep: &Sweep<'_>,
    direction: &'static str,
    sweeps: usize,
    read: Option<MatrixRef<'_>>,
) -> SolveError {
    if let Some((row, found)) = first_not_finite(sweep.input) {
        return SolveError::Input { direction, row, found };
    }
    for (relation, term) in sweep.terms.iter().enumerate() {
        let weights = term.weights;
        let entries =
            (0..weights.inner()).flat_map(|l| (0..weights.outer()).map(move |k| weights.at(l, k)));
        if let Some(found) = entries.into_iter().find(|x| !x.is_finite()) {
            return SolveError::Weight { direction, relation, found };
        }
        let wrong = |row| term.adjacency.entries(row).find(|entry| !entry.1.is_finite());
        let edge =
            (0..term.adjacency.rows()).find_map(|row| wrong(row).map(|entry| (row, entry.1)));
        if let Some((row, found)) = edge {
            return SolveError::Edge { direction, relation, row, found };
        }
    }
    match read.filter(|_| sweeps == 1).and_then(first_not_finite) {
        Some((row, found)) => SolveError::Start { direction, row, found },
        None => SolveError::Overflow { direction, sweep: sweeps },
    }
}
