//! Options for building the matrix of a relation: direction, normalisation, duplicates, self-loops.

use ignn_format::manifest::Normalisation;

/// How the matrix of a relation is built from its edges.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationOptions {
    /// Keep the direction of edges; otherwise each edge counts in both directions.
    pub directed: bool,
    /// Normalisation of the matrix.
    pub normalise: Normalisation,
    /// How edges that are given more than once are handled.
    pub duplicates: Duplicates,
    /// How self-loops are handled. Renormalisation adds a self-loop of weight 1 to every node;
    /// self-loops that are kept add to it.
    pub self_loops: SelfLoops,
}

/// How edges that are given more than once are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Weights are added (an unweighted edge counts 1).
    Sum,
    /// The largest weight is kept; unweighted edges stay unweighted.
    Max,
    /// The first edge in the input is kept.
    First,
    /// Duplicates are an error.
    Error,
}

/// How self-loops are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfLoops {
    /// Self-loops are kept.
    Keep,
    /// Self-loops are dropped.
    Drop,
}

impl Default for RelationOptions {
    fn default() -> Self {
        Self {
            directed: false,
            normalise: Normalisation::Renorm,
            duplicates: Duplicates::Max,
            self_loops: SelfLoops::Drop,
        }
    }
}
