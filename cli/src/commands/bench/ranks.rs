//! `ignn bench sweep` on several ranks: the time of a forward sweep over each rank's own rows, and of
//! the exchange that follows it, with the bytes that were sent against those of the plan.

use std::time::Instant;

use anyhow::{Result, bail};
use ignn::dense::Matrix;
use ignn::kernels::sweep::{self, SweepScratch};
use ignn::kernels::{Activation, AdjacencyRef, Norm, PackedWeights, update_ghosts};
use ignn::nn::{Operators, RankPlan};
use ignn::parallel::Rows;
use ignn::predict;
use ignn::report::quantity;
use ignn::report::sheet::Sheet;
use serde_json::{Value, json};

use super::sweep::{Sweep, TOLERANCE, difference, entry};
use crate::{Outcome, Session};

/// Own rows that a rank computes again, at most, and as many ghosts.
const SAMPLE: usize = 500;

/// The figures of one width, of all ranks.
struct Measured {
    width: usize,
    /// Best time of a sweep, of the rank that takes longest.
    sweep: f64,
    /// Best time of an exchange, likewise, waiting for other ranks included.
    exchange: f64,
    /// Best time of both.
    both: f64,
    /// Bytes of an exchange of all rows: of all ranks, and of the one that sends most.
    sent: [u64; 2],
    /// The same by the plan, without the length of messages.
    planned: [u64; 2],
    /// Largest difference from plain loops in f64, relative to the largest entry.
    error: f64,
}

impl Sweep {
    /// Measures on all ranks, and prints on the first.
    pub fn run_on_ranks(&self, session: &Session) -> Result<Outcome> {
        if self.bounds || self.unshared {
            bail!("--bounds and --unshared work on one rank only: run them without mpirun");
        }
        let graph = session.agree(self.verification.open(&self.dataset))?;
        let operators = predict::operators_on(&graph, &session.ranks)?;
        let relations = session.agree(graph.relations().map_err(Into::into))?;
        let plan = RankPlan::of(relations, session.ranks.size());
        let whole: Vec<_> = relations.iter().map(|one| AdjacencyRef::incoming(one)).collect();
        let widths = self.state.iter().map(|&width| usize::from(width));
        let all: Vec<Measured> =
            widths.map(|width| self.measure_on_ranks(&operators, &whole, &plan, width)).collect();
        if session.json {
            let widths: Vec<_> = all.iter().map(Measured::as_json).collect();
            let ranks = session.ranks.size();
            session.print_json(&json!({ "ranks": ranks, "widths": widths }))?;
        } else {
            session.print(&text(&all, &plan, session))?;
        }
        let is_verified = all.iter().all(Measured::is_verified);
        Ok(if is_verified { Outcome::Done } else { Outcome::Missed })
    }

    fn measure_on_ranks(
        &self,
        operators: &Operators,
        whole: &[AdjacencyRef<'_>],
        plan: &[RankPlan],
        width: usize,
    ) -> Measured {
        let rows = operators.rows();
        let ranks = rows.ranks();
        let activation = Activation::from(self.activation);
        let made = |seed: u64, numbers: &[u32], size: f32| {
            Matrix::from_fn(numbers.len(), width, |row, column| {
                size * entry(seed, numbers[row].into(), column)
            })
        };
        // By the numbers of rows in the graph, so that all ranks have the same.
        let columns: Vec<u32> = (0..width as u32).collect();
        let w: Vec<Matrix> =
            (0..whole.len() as u64).map(|at| made(9 + at, &columns, 1.0 / width as f32)).collect();
        let numbers = rows.numbers();
        let (input, from) = (made(1, &numbers[..rows.len()], 1.0), made(2, &numbers, 1.0));
        let mut to = Matrix::zeros(rows.with_ghosts(), width);
        let packed: Vec<_> = w.iter().map(|w| PackedWeights::forward(w.view())).collect();
        let adjacency = operators.incoming();
        let terms = sweep::terms(&adjacency, &packed);
        let (blocks, scratch) = (sweep::blocks(&terms), SweepScratch::new(&terms));
        let sweep = sweep::Sweep {
            blocks: &blocks,
            terms: &terms,
            input: input.view().into(),
            scratch: &scratch,
        };
        let mut best = [f64::INFINITY; 3];
        let (mut largest, mut sent) = (0.0, 0);
        let started = Instant::now();
        for round in 0..=self.repeat {
            let is_over = started.elapsed().as_secs_f64() > self.seconds / self.state.len() as f64;
            // All ranks start together.
            if ranks.any(is_over) && round > 1 {
                break;
            }
            let before = rows.traffic();
            let clock = Instant::now();
            let own = to.view_mut().first(rows.len());
            let change = sweep.forward(activation, Norm::default(), from.view(), own);
            let swept = clock.elapsed().as_secs_f64();
            update_ghosts(rows, to.view_mut());
            let both = clock.elapsed().as_secs_f64();
            (largest, sent) = (change.state, rows.traffic().since(before).bytes);
            let times = [swept, both - swept, both].map(|seconds| ranks.max(seconds));
            // The first round touches the memory.
            if round > 0 {
                best = std::array::from_fn(|at| best[at].min(times[at]));
            }
        }
        let error = verify(rows, whole, &w, activation, &to) / ranks.max(largest.into()).max(1e-30);
        let planned = plan.iter().map(|rank| rank.exchange_bytes(width));
        Measured {
            width,
            sweep: best[0],
            exchange: best[1],
            both: best[2],
            sent: [ranks.sum(sent), ranks.max(sent as f64) as u64],
            planned: [planned.clone().sum(), planned.max().unwrap_or(0)],
            error: ranks.max(error),
        }
    }
}

/// The largest difference of some rows and ghosts from plain loops over the whole graph.
fn verify(
    rows: &Rows,
    whole: &[AdjacencyRef<'_>],
    w: &[Matrix],
    activation: Activation,
    result: &Matrix,
) -> f64 {
    let width = result.cols();
    let plain = |node: usize| {
        let mut z: Vec<f64> = (0..width).map(|k| f64::from(entry(1, node as u64, k))).collect();
        for (adjacency, w) in whole.iter().zip(w) {
            let mut gathered = vec![0.0; width];
            for (neighbour, value) in adjacency.entries(node) {
                for (k, sum) in gathered.iter_mut().enumerate() {
                    *sum += f64::from(value) * f64::from(entry(2, neighbour as u64, k));
                }
            }
            for (k, z) in z.iter_mut().enumerate() {
                let products = gathered.iter().zip(w.row(k)).map(|(sum, &w)| sum * f64::from(w));
                *z += products.sum::<f64>();
            }
        }
        z.into_iter().map(|z| f64::from(activation.value(z as f32))).collect::<Vec<f64>>()
    };
    let numbers = rows.numbers();
    let (own, ghosts) = (0..rows.len(), Rows::first_ghost(rows.len())..rows.with_ghosts());
    let some = |part: std::ops::Range<usize>| {
        let step = part.len().div_ceil(SAMPLE).max(1);
        part.step_by(step)
    };
    let at = some(own).chain(some(ghosts).filter(|_| !rows.is_alone()));
    at.map(|at| difference(result.row(at), plain(numbers[at] as usize).into_iter()))
        .fold(0.0, f64::max)
}

impl Measured {
    fn is_verified(&self) -> bool {
        self.error <= TOLERANCE
    }

    fn as_json(&self) -> Value {
        json!({
            "width": self.width,
            "sweep_seconds": self.sweep,
            "exchange_seconds": self.exchange,
            "both_seconds": self.both,
            "bytes": self.sent[0],
            "largest_bytes": self.sent[1],
            "planned_bytes": self.planned[0],
            "largest_planned_bytes": self.planned[1],
            "relative_error": self.error,
            "verified": self.is_verified(),
        })
    }
}

fn text(all: &[Measured], plan: &[RankPlan], session: &Session) -> String {
    let milliseconds = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
    let headings = ["width", "sweep", "exchange", "both", "sent", "planned", "verified"];
    let mut rows = Sheet::columns(&headings);
    for one in all {
        rows.row([
            one.width.to_string(),
            milliseconds(one.sweep),
            milliseconds(one.exchange),
            milliseconds(one.both),
            quantity::bytes(one.sent[0]),
            quantity::bytes(one.planned[0]),
            if one.is_verified() { "yes" } else { "WRONG" }.to_string(),
        ]);
    }
    let mut facts = Sheet::pairs();
    let sum = |of: fn(&RankPlan) -> u64| quantity::count(plan.iter().map(of).sum());
    facts.row(["ranks".to_string(), format!("{}, {} threads each", plan.len(), session.threads)]);
    facts.row(["nodes".to_string(), sum(|rank| rank.rows)]);
    facts.row(["ghosts".to_string(), sum(|rank| rank.ghosts)]);
    let times = "best of several, of the rank that takes longest; an exchange includes waiting";
    facts.row(["times".to_string(), times.to_string()]);
    let sent = "bytes of an exchange of all rows, all ranks together";
    facts.row(["sent".to_string(), sent.to_string()]);
    format!("{}\n{}", rows.render(), facts.render())
}
