//! Rows that can be solved before any sweep. If no cycle passes through more than one node, these
//! are all rows, in topological order. Otherwise they are the rows that gather from nothing but
//! themselves. Sweeps then verify the result or do the rest; residual and certificate are theirs.
//!
//! A wave along a chain of l nodes takes l plain sweeps over all rows; in order it takes one pass.
//! Only a node's own loop is iterated, in cache. Where most rows are in wide levels, threads divide
//! the rows of a level, which wait for earlier levels alone. Otherwise a topological order is
//! followed by one thread, because each row waits for the rows before it. Rows that wait for no other
//! are computed in parallel. On several ranks, each solves the rows that wait for none of another
//! rank, sends those that others wait for, and so on, round by round. Results have the same bits on
//! any number of threads and ranks.

use std::time::Instant;

use super::certificate::Certificate;
use super::error::SolveError;
use super::fixed_point::{self, SolveInfo, SolveParams};
use super::method::{Choice, Method, Used, Why};
use super::workspace::Workspace;
use crate::dense::Matrix;
use crate::kernels::AdjacencyRef;
use crate::kernels::sweep::{Direction, InOrder, Settled, Sweep, WIDE};
use crate::parallel::{Node, Rows, SomeRows};

/// Rows are solved to this fraction of the tolerance, because the error of a row is passed on to
/// all rows after it.
const SHARE: f64 = 1.0 / 16.0;
/// Largest number of iterations of a row's own loop; sweeps do the rest.
const REPEATS: usize = 300;

/// Rows that can be solved without sweeps.
///
/// ```
/// use ignn::kernels::Adjacency;
/// use ignn::solver::ordered::Order;
///
/// // Edges 2 -> 1 -> 0, and a loop at node 0. A row lists the nodes that it gathers from.
/// let chain = Adjacency::from_csr(3, vec![0, 2, 3, 3], vec![0, 1, 2])?;
/// assert_eq!(Order::of(&[chain.view()]), Some(Order::All(vec![2, 1, 0])));
///
/// // A cycle of two nodes: every row waits for another.
/// let cycle = Adjacency::from_csr(2, vec![0, 1, 2], vec![1, 0])?;
/// assert_eq!(Order::of(&[cycle.view()]), None);
/// # Ok::<(), ignn::kernels::AdjacencyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// All rows, each after those that it gathers from.
    All(Vec<u32>),
    /// The same, where most rows are in wide levels.
    Levels(Levels),
    /// The rows that gather from themselves alone, ascending. Rows that gather from nothing need no
    /// iteration: any sweep gives their final values.
    Alone(Vec<u32>),
    /// On several ranks, all own rows: those of a round gather from rows before them, and from
    /// ghosts of earlier rounds.
    Rounds(Vec<Round>),
}

/// All rows by the length of the longest path that leads to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    /// Level by level, ascending in each.
    rows: Vec<u32>,
    /// The end of every level among the rows.
    ends: Vec<usize>,
}

/// Own rows that are solved one after the other, and what is exchanged then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Round {
    rows: Vec<u32>,
    exchange: SomeRows,
}

impl Order {
    /// The rows of these relations that need no sweeps, or `None` if every row waits for another.
    /// Takes O(nodes + non-zeros).
    pub fn of(relations: &[AdjacencyRef<'_>]) -> Option<Self> {
        if let Some(order) = acyclic(relations) {
            let levels = Levels::of(&order, relations);
            return Some(if levels.are_wide() { Self::Levels(levels) } else { Self::All(order) });
        }
        let alone = Self::alone(relations);
        (!alone.is_empty()).then_some(Self::Alone(alone))
    }

    /// The rows that gather from themselves alone, ascending.
    pub fn alone(relations: &[AdjacencyRef<'_>]) -> Vec<u32> {
        let rows = relations.first().map_or(0, AdjacencyRef::rows);
        let is_alone = |row: usize| {
            let mut columns = relations
                .iter()
                .flat_map(|a| a.range(row).map(move |at| a.column(row, at)))
                .peekable();
            columns.peek().is_some() && columns.all(|column| column == row)
        };
        (0..rows).filter(|&row| is_alone(row)).map(|row| row as u32).collect()
    }

    /// The rows of a rank of a graph without cycles, of whose relations `whole` has all rows. All
    /// ranks call it together.
    ///
    /// # Panics
    /// If there is a cycle through several nodes.
    pub fn rounds(whole: &[AdjacencyRef<'_>], rows: &Rows) -> Self {
        let messages = if rows.ranks().is_first() { all_rounds(whole, rows) } else { Vec::new() };
        let own = rows.ranks().scatter(messages);
        let own: Vec<[u32; 2]> = Vec::from_bytes(&own);
        let mut round_of = vec![0.0; rows.with_ghosts()];
        for &[row, round] in &own {
            // The bits are a number.
            round_of[row as usize] = f32::from_bits(round);
        }
        rows.update(None, &mut round_of, (1, 1), None);
        let round_of: Vec<u32> = round_of.iter().map(|round| round.to_bits()).collect();
        let last = own.iter().map(|[_, round]| *round).max().unwrap_or(0);
        let count = rows.ranks().max(f64::from(last)) as usize + 1;
        let mut rounds: Vec<Round> = rows
            .in_rounds(&round_of, count)
            .into_iter()
            .map(|exchange| Round { rows: Vec::new(), exchange })
            .collect();
        own.iter().for_each(|&[row, round]| rounds[round as usize].rows.push(row));
        Self::Rounds(rounds)
    }

    /// Solves the rows.
    fn settle(
        &self,
        sweep: &Sweep<'_>,
        direction: Direction<'_>,
        params: &SolveParams,
        state: &mut Matrix,
        rows: &Rows,
    ) -> Settled {
        let limits = row_limits(params);
        let settle =
            |order, state: &mut Matrix| sweep.settle(direction, order, limits, state.view_mut());
        let rounds = match self {
            Self::All(order) => return settle(InOrder::All(order), state),
            Self::Levels(Levels { rows, ends }) => {
                return settle(InOrder::Levels(rows, ends), state);
            }
            Self::Alone(order) => return settle(InOrder::Alone(order), state),
            Self::Rounds(rounds) => rounds,
        };
        let mut all = Settled::NONE;
        for round in rounds {
            if all.is_finite {
                all = all.merge(settle(InOrder::All(&round.rows), state));
            }
            let mut view = state.view_mut();
            let shape = (view.stride(), view.cols());
            rows.update_some(&round.exchange, view.padded_mut(), shape);
        }
        all
    }
}

impl Levels {
    /// All rows, each after those that it gathers from.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// The levels of rows in topological order.
    fn of(order: &[u32], relations: &[AdjacencyRef<'_>]) -> Self {
        let mut levels = vec![0u32; order.len()];
        let mut ends = Vec::new();
        for &row in order {
            let row = row as usize;
            let before = relations.iter().flat_map(|a| a.range(row).map(|at| a.column(row, at)));
            let before = before.filter(|&column| column != row);
            let level = before.map(|column| levels[column] + 1).max().unwrap_or(0);
            levels[row] = level;
            ends.resize(ends.len().max(level as usize + 1), 0);
            ends[level as usize] += 1;
        }
        // The start of each level, which becomes its end as rows are added.
        let mut before = 0;
        for end in &mut ends {
            before += std::mem::replace(end, before);
        }
        let mut rows = vec![0; order.len()];
        for (row, &level) in levels.iter().enumerate() {
            let end = &mut ends[level as usize];
            rows[*end] = row as u32;
            *end += 1;
        }
        Self { rows, ends }
    }

    /// Whether at least half of the rows are in levels that threads divide.
    fn are_wide(&self) -> bool {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let widths = self.ends.iter().zip(starts).map(|(end, start)| end - start);
        2 * widths.filter(|&width| width >= WIDE).sum::<usize>() > self.rows.len()
    }
}

/// For each rank its own rows, numbered from 0, in topological order, each with its round: the
/// largest number of times that a path to it goes from one rank to another.
fn all_rounds(whole: &[AdjacencyRef<'_>], rows: &Rows) -> Vec<Vec<u8>> {
    let order = acyclic(whole).expect("a graph without cycles");
    let mut rounds = vec![0u32; order.len()];
    let mut lists: Vec<Vec<[u32; 2]>> = vec![Vec::new(); rows.ranks().size()];
    for row in order {
        let owner = rows.owner(row as usize);
        let mut round = 0;
        for relation in whole {
            for at in relation.range(row as usize) {
                let column = relation.column(row as usize, at);
                let is_ghost = u32::from(rows.owner(column) != owner);
                round = round.max(rounds[column] + is_ghost);
            }
        }
        rounds[row as usize] = round;
        lists[owner].push([row - rows.rows_of(owner).start as u32, round]);
    }
    lists.iter().map(Vec::to_bytes).collect()
}

/// A topological order over all relations, or `None` if a cycle passes through several nodes. The
/// search ends at the first such cycle, which is early in graphs with edges in both directions.
fn acyclic(relations: &[AdjacencyRef<'_>]) -> Option<Vec<u32>> {
    const NEW: u8 = 0;
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let rows = relations.first().map_or(0, AdjacencyRef::rows);
    let mut marks = vec![NEW; rows];
    let mut order = Vec::new();
    // A row, a relation, and the position of the next entry there.
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

/// Solves the rows of an order, then calls [`fixed_point::solve`].
///
/// # Panics
/// As [`fixed_point::solve`] does.
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
    let settled = order.settle(sweep, direction, params, state, workspace.rows());
    let ranks = workspace.rows().ranks();
    let settled =
        Settled { updates: ranks.sum(settled.updates), is_finite: !ranks.any(!settled.is_finite) };
    let params = prepare(order, settled, params, state);
    let info = fixed_point::solve(sweep, direction, certificate, &params, state, workspace)?;
    Ok(record(order, info, settled, start))
}

/// Tolerance and largest number of iterations of a row.
fn row_limits(params: &SolveParams) -> (f32, usize) {
    ((params.tolerance * SHARE) as f32, REPEATS.min(params.max_sweeps))
}

/// The parameters of the sweeps that follow. If a row overflowed, they start from zero, so that
/// their error names the origin.
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
        (Order::All(_) | Order::Levels(_) | Order::Rounds(_), _) | (_, Method::Ordered) => {
            SolveParams { method: Method::Plain, ..*params }
        }
        (Order::Alone(_), _) => *params,
    }
}

fn record(order: &Order, info: SolveInfo, settled: Settled, start: Instant) -> SolveInfo {
    let choice = match order {
        Order::All(_) | Order::Levels(_) | Order::Rounds(_) => {
            Choice { why: Why::Acyclic, ..Choice::asked(Used::Ordered) }
        }
        Order::Alone(_) => info.choice,
    };
    let row_updates = info.row_updates + settled.updates;
    SolveInfo { row_updates, choice, seconds: start.elapsed().as_secs_f64(), ..info }
}
