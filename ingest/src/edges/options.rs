//! How the edges of a relation become its matrix: direction, normalisation, duplicates, self-loops.

use ignn_format::manifest::Normalisation;

/// How the edges of a relation become its matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationOptions {
    /// Keep the direction of edges; otherwise each edge counts both ways.
    pub directed: bool,
    /// Normalisation of the matrix.
    pub normalise: Normalisation,
    /// What becomes of an edge given more than once.
    pub duplicates: Duplicates,
    /// What becomes of edges from a node to itself. Renormalisation gives every node a loop of
    /// weight 1; loops that are kept add to it.
    pub self_loops: SelfLoops,
}

/// What becomes of an edge given more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// Weights are added (an unweighted edge counts 1).
    Sum,
    /// The largest weight stays; unweighted edges stay unweighted.
    Max,
    /// The first in the input stays.
    First,
    /// They are refused.
    Error,
}

/// What becomes of edges from a node to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelfLoops {
    /// They stay.
    Keep,
    /// They are left out.
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
