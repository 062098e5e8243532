//! How a solve finds its equilibrium: what is asked for, what was taken, and why.
//! Words and numbers; the methods themselves are in `walk`, `anderson` and `ordered`.

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
    /// Whether the order of a graph without cycles is used.
    pub fn takes_order(self) -> bool {
        matches!(self, Self::Auto | Self::Ordered)
    }
}

/// What was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Used {
    /// Sweeps alone.
    Plain,
    /// Sweeps, some of them over the rows alone whose inputs moved.
    Active,
    /// Sweeps, and proposals from what they did.
    Anderson,
    /// Row after row, each settled before those that gather from it; then sweeps.
    Ordered,
    /// A set number of damped sweeps.
    Truncated,
}

/// Why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It was asked for.
    Asked,
    /// At the rate of its sweeps it had few to go.
    Fast,
    /// At the rate of its sweeps it had many to go.
    Slow,
    /// At the rate of its sweeps it had many to go, for few rows.
    Quiet,
    /// No cycle passes through more than one node.
    Acyclic,
    /// Proposals did not help, or the small system gave none: sweeps alone went on.
    FellBack,
}

/// A method, why it was taken, and what it did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The method.
    pub method: Used,
    /// Why.
    pub why: Why,
    /// Residual of a sweep over that of the one before, when the choice was made; 0 where none was
    /// measured.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub rate: f64,
    /// States that were proposed.
    pub proposals: usize,
}

impl Choice {
    /// One that was asked for.
    pub fn asked(method: Used) -> Self {
        Self { method, why: Why::Asked, rate: 0.0, proposals: 0 }
    }

    /// Of two solves: the one that did more than sweep, proposals of both.
    pub fn together(self, other: Self) -> Self {
        let first = if self.method == Used::Plain { other } else { self };
        Self {
            proposals: self.proposals + other.proposals,
            rate: self.rate.max(other.rate),
            ..first
        }
    }
}
