//! Errors of a solve: NaN or infinity, by origin, and a request to stop. The search for the origin
//! runs only after a sweep has found a value that is not finite.

use crate::dense::MatrixRef;
use crate::kernels::elementwise::first_not_finite;
use crate::kernels::sweep::Sweep;
use crate::parallel::Rows;

/// A value that is not finite, by its origin; or a request to stop.
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
    /// [`crate::parallel::stoppable`] was asked to end the work.
    #[error("{direction} solve: stopped on request before sweep {sweep}")]
    Stopped {
        /// "forward" or "adjoint".
        direction: &'static str,
        /// The sweep that was not made.
        sweep: usize,
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

/// Where the value that is not finite came from in this sweep; `read` is the own rows of the state
/// that the sweep read. The same on all ranks, with rows as they are numbered in the graph.
pub(super) fn find_origin(
    sweep: &Sweep<'_>,
    direction: &'static str,
    sweeps: usize,
    read: Option<MatrixRef<'_>>,
    rows: &Rows,
) -> SolveError {
    let (place, row, found) = first_origin(sweep, sweeps, read);
    let own = [place.number(), (rows.own().start + row) as u64, u64::from(found.to_bits())];
    let first = rows.ranks().merge(own, |a, b| if b[..2] < a[..2] { b } else { a });
    let (row, found) = (first[1] as usize, f32::from_bits(first[2] as u32));
    match Place::of(first[0]) {
        Place::Input => SolveError::Input { direction, row, found },
        Place::Weight(relation) => SolveError::Weight { direction, relation, found },
        Place::Edge(relation) => SolveError::Edge { direction, relation, row, found },
        Place::Start => SolveError::Start { direction, row, found },
        Place::Sweeps => SolveError::Overflow { direction, sweep: sweeps },
    }
}

/// Where a value that is not finite can come from, in the order in which it is looked for.
#[derive(Clone, Copy)]
enum Place {
    Input,
    Weight(usize),
    Edge(usize),
    Start,
    Sweeps,
}

impl Place {
    fn number(self) -> u64 {
        match self {
            Self::Input => 0,
            Self::Weight(relation) => 1 + 2 * relation as u64,
            Self::Edge(relation) => 2 + 2 * relation as u64,
            Self::Start => u64::MAX - 1,
            Self::Sweeps => u64::MAX,
        }
    }

    fn of(number: u64) -> Self {
        match number {
            0 => Self::Input,
            u64::MAX => Self::Sweeps,
            number if number == u64::MAX - 1 => Self::Start,
            number if number % 2 == 1 => Self::Weight((number / 2) as usize),
            number => Self::Edge((number / 2 - 1) as usize),
        }
    }
}

/// The first place of this rank, with the row, from 0, and the value.
fn first_origin(
    sweep: &Sweep<'_>,
    sweeps: usize,
    read: Option<MatrixRef<'_>>,
) -> (Place, usize, f32) {
    if let Some((row, found)) = sweep.input.first_not_finite() {
        return (Place::Input, row, found);
    }
    for (relation, term) in sweep.terms.iter().enumerate() {
        let weights = term.weights;
        let entries =
            (0..weights.inner()).flat_map(|l| (0..weights.outer()).map(move |k| weights.at(l, k)));
        if let Some(found) = entries.into_iter().find(|x| !x.is_finite()) {
            return (Place::Weight(relation), 0, found);
        }
        let wrong = |row| term.adjacency.entries(row).find(|entry| !entry.1.is_finite());
        let edge =
            (0..term.adjacency.rows()).find_map(|row| wrong(row).map(|entry| (row, entry.1)));
        if let Some((row, found)) = edge {
            return (Place::Edge(relation), row, found);
        }
    }
    match read.filter(|_| sweeps == 1).and_then(first_not_finite) {
        Some((row, found)) => (Place::Start, row, found),
        None => (Place::Sweeps, 0, f32::NAN),
    }
}
