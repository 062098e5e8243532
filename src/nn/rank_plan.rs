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
                }
            })
            .collect();
        for &ghost in needed.iter().flatten() {
            plans[partition.owner(ghost as usize)].sent += 1;
        }
        plans
    }

    /// Bytes that it sends before a sweep of states of this width, if all rows have moved.
    pub fn exchange_bytes(&self, width: usize) -> u64 {
        self.sent * width as u64 * size_of::<f32>() as u64
    }

    /// Bytes of the states of an equilibrium layer of this width while it trains.
    pub fn state_bytes(&self, width: usize, relations: usize, mixing_buffers: usize) -> u64 {
        let ghosts = self.ghosts * stride(width) as u64 * size_of::<f32>() as u64;
        // X, G, R and the buffer of solves have rows for ghosts.
        Equilibrium::bytes(self.rows, width as u64, relations, true, mixing_buffers) + 4 * ghosts
    }
}
