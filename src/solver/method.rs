//! Which method a solve was asked for, which one it used, and why. The methods themselves are in
//! `fixed_point`, its policies, and `ordered`.

use serde::{Deserialize, Serialize};

use crate::json_number;

use crate::settings::words;

words! {
    /// How a solve finds its equilibrium.
    pub enum Method {
        /// The fastest method that suits the graph: `ordered` where it applies, `active` where a
        /// contraction is certified, `anderson` where the first sweeps converge slowly.
        Auto = "auto",
        /// Sweeps over all rows.
        Plain = "plain",
        /// Sweeps with Anderson acceleration from the start.
        Anderson = "anderson",
        /// Sweeps that skip rows whose inputs have stopped changing.
        Active = "active",
        /// One pass in topological order if the graph has no cycle through more than one node;
        /// sweeps otherwise.
        Ordered = "ordered",
    }
}

impl Method {
    /// Whether rows may be solved in topological order.
    pub fn takes_order(self) -> bool {
        matches!(self, Self::Auto | Self::Ordered)
    }
}

/// The method that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Used {
    /// Sweeps over all rows.
    Plain,
    /// Sweeps, some of which skipped rows whose inputs had stopped moving.
    Active,
    /// Sweeps with Anderson mixing.
    Anderson,
    /// Rows in topological order, then a sweep that verifies them.
    Ordered,
    /// A fixed number of damped sweeps.
    Truncated,
}

/// Why a method was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It was asked for.
    Asked,
    /// At its rate of convergence few sweeps were left.
    Fast,
    /// At its rate of convergence many sweeps were left.
    Slow,
    /// Many sweeps were left, but few rows still moved.
    Quiet,
    /// No cycle passes through more than one node.
    Acyclic,
    /// Anderson mixing did not help; plain sweeps took over.
    FellBack,
}

/// The method that was used, and why.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The method.
    pub method: Used,
    /// The reason.
    pub why: Why,
    /// Ratio of the last two residuals when the choice was made; 0 if it was not measured.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub rate: f64,
    /// Number of states that Anderson mixing proposed.
    pub proposals: usize,
}

impl Choice {
    /// A method that was asked for.
    pub fn asked(method: Used) -> Self {
        Self { method, why: Why::Asked, rate: 0.0, proposals: 0 }
    }

    /// The choice of two solves as one: that of the solve which did more than sweep, with the
    /// proposals of both.
    pub fn together(self, other: Self) -> Self {
        let first = if self.method == Used::Plain { other } else { self };
        Self {
            proposals: self.proposals + other.proposals,
            rate: self.rate.max(other.rate),
            ..first
        }
    }
}
