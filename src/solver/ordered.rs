//! Rows that can be settled before any sweep: all, where no cycle passes through more than one
//! node, in an order in which each comes after those that it gathers from; elsewhere those that
//! gather from nothing but themselves. It finds the rows and their state; sweeps then verify it or
//! do the rest, and residual and certificate are theirs.
//!
//! A wave along a chain of l nodes takes plain sweeps l passes over all rows; here it is one. Only
//! a node's own loop is iterated, in cache. One thread there, as a row waits for those before it;
//! rows that wait for none are shared out. The same bits on any number of threads.

use std::time::Instant;

use super::certificate::Certificate;
use super::error::SolveError;
use super::fixed_point::{self, SolveInfo, SolveParams};
use super::method::{Choice, Method, Used, Why};
use super::workspace::Workspace;
use crate::dense::Matrix;
use crate::kernels::AdjacencyRef;
use crate::kernels::sweep::{Direction, InOrder, Settled, Sweep};

/// Rows are settled to this part of the tolerance: what is left of a row's error goes into all that
/// follow.
const SHARE: f64 = 1.0 / 16.0;
/// Repetitions of a row's own loop at most; sweeps do the rest.
const REPEATS: usize = 300;

/// Rows that need no sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// All rows, after those that they gather from.
    All(Vec<u32>),
    /// Rising: those that gather from themselves alone. Rows that gather nothing are settled by any
    /// sweep.
    Alone(Vec<u32>),
}

impl Order {
    /// Of the rows that gather by these relations; none where every row waits for others. O(nodes +
    /// non-zeros).
    pub fn of(relations: &[AdjacencyRef<'_>]) -> Option<Self> {
        if let Some(order) = acyclic(relations) {
            return Some(Self::All(order));
        }
        let rows = relations.first().map_or(0, AdjacencyRef::rows);
        let is_alone = |row: usize| {
            let mut columns = relations
                .iter()
                .flat_map(|a| a.range(row).map(move |at| a.column(row, at)))
                .peekable();
            columns.peek().is_some() && columns.all(|column| column == row)
        };
        let alone: Vec<u32> =
            (0..rows).filter(|&row| is_alone(row)).map(|row| row as u32).collect();
        (!alone.is_empty()).then_some(Self::Alone(alone))
    }

    fn rows(&self) -> InOrder<'_> {
        match self {
            Self::All(rows) => InOrder::All(rows),
            Self::Alone(rows) => InOrder::Alone(rows),
        }
    }
}

/// Rows after all others that they gather from, over all relations; none where a cycle passes
/// through several.
///
/// Of a graph with an edge in both directions it ends there.
fn acyclic(relations: &[AdjacencyRef<'_>]) -> Option<Vec<u32>> {
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

/// [`fixed_point::solve`], rows in this order first.
///
/// # Panics
/// As there.
pub fn solve(
    sweep: &Sweep<'_>,
    direction: Direction<'_>,
    order: &Order,
    certificate: Option<&Certificate>,
    params: &SolveParams,
    state: &mut Matrix,
    workspace: &mut Workspace,
) -> Result<SolveInfo, SolveError> {
    let start = Instant::now();
    let settled = sweep.settle(direction, order.rows(), until(params), state.view_mut());
    let params = prepare(order, settled, params, state);
    let info = fixed_point::solve(sweep, direction, certificate, &params, state, workspace)?;
    Ok(told(order, info, settled, start))
}

/// When a row is settled.
fn until(params: &SolveParams) -> (f32, usize) {
    ((params.tolerance * SHARE) as f32, REPEATS.min(params.max_sweeps))
}

/// What is left for sweeps; where rows went beyond all numbers they begin anew, and say where from.
fn prepare(
    order: &Order,
    settled: Settled,
    params: &SolveParams,
    state: &mut Matrix,
) -> SolveParams {
    if !settled.is_finite {
        state.view_mut().padded_mut().fill(0.0);
    }
    match (order, params.method) {
        (Order::All(_), _) | (_, Method::Ordered) => {
            SolveParams { method: Method::Plain, ..*params }
        }
        (Order::Alone(_), _) => *params,
    }
}

fn told(order: &Order, info: SolveInfo, settled: Settled, start: Instant) -> SolveInfo {
    let choice = match order {
        Order::All(_) => Choice { why: Why::Acyclic, ..Choice::asked(Used::Ordered) },
        Order::Alone(_) => info.choice,
    };
    let row_updates = info.row_updates + settled.updates;
    SolveInfo { row_updates, choice, seconds: start.elapsed().as_secs_f64(), ..info }
}
