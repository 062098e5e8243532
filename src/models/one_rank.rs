//! What works on one rank only.

use super::network::Network;
use super::shape::{BodyShape, LayerShape};
use crate::nn::Operators;
use crate::solver::SolveParams;

/// Something that works on one rank only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} on one rank only: run it without mpirun{hint}")]
pub struct OneRank {
    what: &'static str,
    /// Another way, after a comma.
    hint: &'static str,
}

impl OneRank {
    /// A collection of graphs.
    pub const COLLECTION: Self = Self { what: "a collection of graphs works", hint: "" };
    /// A cross-validation in place of another.
    pub const REPLACE: Self =
        Self { what: "crossval --force works", hint: ", or remove the directory" };
    /// A model to start from, whose table has all rows.
    pub const INIT: Self = Self { what: "--init with learned features works", hint: "" };
}

impl Network {
    /// Refuses a network that cannot be computed on the ranks of these operators.
    pub fn check_ranks(&self, operators: &Operators, params: &SolveParams) -> Result<(), OneRank> {
        if operators.rows().is_alone() {
            return Ok(());
        }
        let refuse = |what, hint| Err(OneRank { what, hint });
        let is_solved = |layer: &LayerShape| matches!(layer.body, BodyShape::Equilibrium { .. });
        if !self.layers.iter().all(is_solved) {
            return refuse("a model without an equilibrium works", "");
        }
        if operators.is_acyclic() && params.method.takes_order() {
            return refuse(
                "solving a graph without cycles in its order works",
                ", or train with --set solver.method=plain",
            );
        }
        Ok(())
    }
}
