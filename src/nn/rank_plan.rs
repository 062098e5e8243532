//! What each of several ranks would hold and send, without running any: `ignn inspect --ranks`.

use rayon::prelude::*;
use serde::Serialize;

use super::Equilibrium;
use super::operators::partitioned;
use crate::dense::stride;
use crate::graph::Relation;
use crate::kernels::{AdjacencyRef, ghosts};

/// The share of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RankPlan {
    /// Nodes that it owns.
    pub rows: u64,
    /// Entries of their rows, in the direction of the forward sweep.
    pub nonzeros: u64,
    /// Nodes of other ranks whose states it needs.
    pub ghosts: u64,
    /// Rows that it sends in an exchange, at most: one for each rank that needs it.
    pub sent: u64,
    /// Number of ranks that it receives rows from.
    pub neighbours: u64,
}

/// What the time of a sweep on several ranks follows from, the same for all of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cluster {
    /// Bytes of [`RankPlan::sweep_bytes`] that a rank gets through in a second.
    pub sweep_rate: f64,
    /// Bytes that a rank sends in a second, and that it receives at the same time.
    pub bandwidth: f64,
    /// Seconds of a message without bytes.
    pub latency: f64,
}

/// The times of a sweep of all rows and of the exchange that follows it, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SweepTimes {
    /// Of the rank that sweeps longest.
    pub sweep: f64,
    /// Of the rank that exchanges longest, and of agreeing on the residual.
    pub exchange: f64,
}

impl Cluster {
    /// The model of `docs/distributed.md`: no rank sweeps while its rows travel.
    pub fn predict(&self, plans: &[RankPlan], width: usize) -> SweepTimes {
        let largest = |of: &dyn Fn(&RankPlan) -> f64| plans.iter().map(of).fold(0.0, f64::max);
        let exchange = |plan: &RankPlan| {
            let bytes = plan.sent.max(plan.ghosts) as f64 * (4 * width) as f64;
            bytes / self.bandwidth + plan.neighbours as f64 * self.latency
        };
        let turns = (plans.len() as f64).log2().ceil();
        SweepTimes {
            sweep: largest(&|plan| plan.sweep_bytes(width) as f64 / self.sweep_rate),
            exchange: largest(&exchange) + turns * self.latency,
        }
    }
}

impl RankPlan {
    /// The shares of all ranks, as training and prediction on that many ranks would have them.
    pub fn of(relations: &[Relation], ranks: usize) -> Vec<Self> {
        let incoming: Vec<_> =
            relations.iter().map(|relation| AdjacencyRef::incoming(relation)).collect();
        let outgoing: Vec<_> = relations
            .iter()
            .filter(|relation| relation.outgoing.is_some())
            .map(|relation| AdjacencyRef::outgoing(relation))
            .collect();
        let (_, partition) = partitioned(&incoming, ranks);
        let all: Vec<_> = incoming.iter().chain(&outgoing).copied().collect();
        let needed: Vec<Vec<u32>> =
            (0..ranks).into_par_iter().map(|rank| ghosts(&all, partition.rows(rank))).collect();
        let mut plans: Vec<Self> = (0..ranks)
            .map(|rank| {
                let rows = partition.rows(rank);
                let entries =
                    |a: &AdjacencyRef<'_>| a.offsets()[rows.end] - a.offsets()[rows.start];
                Self {
                    rows: rows.len() as u64,
                    nonzeros: incoming.iter().map(entries).sum(),
                    ghosts: needed[rank].len() as u64,
                    sent: 0,
                    neighbours: 0,
                }
            })
            .collect();
        for (rank, ghosts) in needed.iter().enumerate() {
            let mut last = None;
            for &ghost in ghosts {
                let owner = partition.owner(ghost as usize);
                plans[owner].sent += 1;
                // Ghosts rise, and so do their owners.
                plans[rank].neighbours += u64::from(last.replace(owner) != Some(owner));
            }
        }
        plans
    }

    /// Bytes that it sends before a sweep of states of this width, if all rows have moved.
    pub fn exchange_bytes(&self, width: usize) -> u64 {
        self.sent * width as u64 * size_of::<f32>() as u64
    }

    /// Bytes of the rows that a sweep reads and writes: one row and a column number for each non-zero,
    /// and the input, the old and the new state. Caches make a sweep faster than memory.
    pub fn sweep_bytes(&self, width: usize) -> u64 {
        let row = 4 * stride(width) as u64;
        self.nonzeros * (row + 4) + 3 * self.rows * row
    }

    /// Bytes of the states of an equilibrium layer of this width while it trains.
    pub fn state_bytes(&self, width: usize, relations: usize, mixing_buffers: usize) -> u64 {
        let ghosts = self.ghosts * stride(width) as u64 * size_of::<f32>() as u64;
        // X, G and the buffer of solves have rows for ghosts; what is sent is packed. R takes the
        // memory of B.
        let matrix = self.rows * stride(width) as u64 * size_of::<f32>() as u64;
        Equilibrium::bytes(self.rows, width as u64, relations, true, mixing_buffers)
            + 2 * matrix
            + 3 * ghosts
            + self.exchange_bytes(width)
    }
}
