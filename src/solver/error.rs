//! What can go wrong in a solve: numbers that are none, by their origin.
//! It looks for the origin once something went wrong; when that is, is for the solves.

use crate::dense::MatrixRef;
use crate::kernels::sweep::Sweep;

/// A number that is none, by its origin; or a solve that cannot be trusted to end where it should.
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
    /// In a layer that is computed, not solved.
    #[error(
        "row {row} of the state is not finite (found {found}): a smaller optim.learning_rate may help"
    )]
    State {
        /// The first such row.
        row: usize,
        /// The entry.
        found: f32,
    },
    /// Grown beyond all bounds, sweep by sweep.
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

/// The first number of a matrix that is none.
fn wrong(matrix: MatrixRef<'_>) -> Option<(usize, f32)> {
    let row = |row| matrix.row(row).iter().find(|x| !x.is_finite()).map(|&found| (row, found));
    (0..matrix.rows()).find_map(row)
}

/// Where the first number that is none came from in this sweep; `start` is what the first sweep
/// read, where it is still there.
pub(super) fn blame(
    sweep: &Sweep<'_>,
    direction: &'static str,
    sweeps: usize,
    start: Option<MatrixRef<'_>>,
) -> SolveError {
    if let Some((row, found)) = wrong(sweep.input) {
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
    match start.filter(|_| sweeps == 1).and_then(wrong) {
        Some((row, found)) => SolveError::Start { direction, row, found },
        None => SolveError::Overflow { direction, sweep: sweeps },
    }
}
