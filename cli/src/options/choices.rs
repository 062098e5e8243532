//! Options that several commands share, and the words of their values.
//! Each word stands for a variant of the library's own enum.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ignn_format::manifest::Normalisation;
use ignn_ingest::builder::{self, RelationOptions};
use ignn_ingest::command::edges::{EdgeForm, IdChoice, Order};

/// Where a dataset goes.
#[derive(Debug, Args)]
pub struct Target {
    /// The dataset directory to make; it appears when it is complete
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,

    /// Replace an existing target
    #[arg(long)]
    pub force: bool,
}

/// How edges become a matrix.
#[derive(Debug, Args)]
pub struct RelationArgs {
    /// Keep the direction of edges; without it each edge counts both ways
    #[arg(long)]
    directed: bool,

    /// Normalisation of the matrix
    #[arg(long, value_enum, default_value_t = Normalise::Renorm)]
    normalise: Normalise,

    /// What becomes of an edge given more than once
    #[arg(long, value_enum, default_value_t = Duplicates::Max)]
    duplicates: Duplicates,

    /// What becomes of edges from a node to itself
    #[arg(long, value_enum, default_value_t = SelfLoops::Drop)]
    self_loops: SelfLoops,
}

impl RelationArgs {
    /// The library's options.
    pub fn options(&self) -> RelationOptions {
        RelationOptions {
            directed: self.directed,
            normalise: self.normalise.choice(),
            duplicates: match self.duplicates {
                Duplicates::Max => builder::Duplicates::Max,
                Duplicates::Sum => builder::Duplicates::Sum,
                Duplicates::First => builder::Duplicates::First,
                Duplicates::Error => builder::Duplicates::Error,
            },
            self_loops: match self.self_loops {
                SelfLoops::Keep => builder::SelfLoops::Keep,
                SelfLoops::Drop => builder::SelfLoops::Drop,
            },
        }
    }
}

/// Words of `--normalise`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Normalise {
    /// D^-1/2 (A + I) D^-1/2, D the row sums of A + I: the GCN trick, for directed graphs too
    Renorm,
    /// D^-1 A: what leaves a node sums to one
    Row,
    /// as read
    None,
}

impl Normalise {
    /// The library's choice.
    pub fn choice(self) -> Normalisation {
        match self {
            Self::Renorm => Normalisation::Renorm,
            Self::Row => Normalisation::Row,
            Self::None => Normalisation::None,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Duplicates {
    /// the largest weight stays; unweighted edges stay unweighted
    Max,
    /// weights are added; an unweighted edge counts 1
    Sum,
    /// the first in the input stays
    First,
    /// they are refused
    Error,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SelfLoops {
    /// they stay
    Keep,
    /// they are left out
    Drop,
}

/// Words of `--format`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Form {
    /// by the file's first bytes
    Auto,
    /// two or three columns split by whitespace, tabs or commas
    List,
    /// Matrix Market coordinate
    Mtx,
    /// a Parquet table
    Parquet,
    /// `degree neighbour neighbour ...`, the node is the line number from 0
    Adjacency,
}

impl Form {
    /// The library's choice; nothing for "recognise it".
    pub fn choice(self) -> Option<EdgeForm> {
        match self {
            Self::Auto => None,
            Self::List => Some(EdgeForm::List),
            Self::Mtx => Some(EdgeForm::MatrixMarket),
            Self::Parquet => Some(EdgeForm::Parquet),
            Self::Adjacency => Some(EdgeForm::Adjacency),
        }
    }
}

/// Words of `--ids`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum IdWord {
    /// integers if all ids in the first lines are, else text
    Auto,
    /// integers from 0 to 2^64 - 1
    Integer,
    /// any text without the separator
    String,
}

impl IdWord {
    /// The library's choice.
    pub fn choice(self) -> IdChoice {
        match self {
            Self::Auto => IdChoice::Auto,
            Self::Integer => IdChoice::Integer,
            Self::String => IdChoice::String,
        }
    }
}

/// Words of `--order`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OrderWord {
    /// by id: integers rising, strings by their bytes
    None,
    /// highest degree first
    Degree,
    /// reverse Cuthill-McKee: neighbours near each other
    Rcm,
}

impl OrderWord {
    /// The library's choice.
    pub fn choice(self) -> Order {
        match self {
            Self::None => Order::None,
            Self::Degree => Order::Degree,
            Self::Rcm => Order::Rcm,
        }
    }
}

/// Words of `--missing-features`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MissingFeatures {
    /// a node without features is refused
    Error,
    /// it gets zeros
    Zero,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        relation: RelationArgs,
    }

    #[test]
    fn defaults_are_the_library_s() {
        assert_eq!(Only::parse_from(["x"]).relation.options(), RelationOptions::default());
    }
}
