//! Options that several commands share, and the values they accept.
//! Each value stands for a variant of an enum in the library.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ignn_format::manifest::Normalisation;
use ignn_ingest::edges::options::{self, RelationOptions};
use ignn_ingest::features::encoded::{Missing, Numbers};
use ignn_ingest::order::Order;
use ignn_ingest::source::edge_input::{EdgeFormat, IdChoice};

/// Where a dataset goes.
#[derive(Debug, Args)]
pub struct Target {
    /// Dataset directory to create; it appears only when it is complete
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,

    /// Replace an existing dataset
    #[arg(long)]
    pub force: bool,
}

/// How edges become a matrix.
#[derive(Debug, Args)]
pub struct RelationArgs {
    /// Keep the direction of edges; by default every edge counts in both directions
    #[arg(long)]
    directed: bool,

    /// How to normalise the adjacency matrix
    #[arg(long, value_enum, default_value_t = Normalise::Renorm)]
    normalise: Normalise,

    /// What to do with an edge that occurs more than once
    #[arg(long, value_enum, default_value_t = Duplicates::Max)]
    duplicates: Duplicates,

    /// What to do with edges from a node to itself
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
                Duplicates::Max => options::Duplicates::Max,
                Duplicates::Sum => options::Duplicates::Sum,
                Duplicates::First => options::Duplicates::First,
                Duplicates::Error => options::Duplicates::Error,
            },
            self_loops: match self.self_loops {
                SelfLoops::Keep => options::SelfLoops::Keep,
                SelfLoops::Drop => options::SelfLoops::Drop,
            },
        }
    }
}

/// Values of `--normalise`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Normalise {
    /// D^-1/2 (A + I) D^-1/2 with D the row sums of A + I, as in GCN; also for directed graphs
    Renorm,
    /// D^-1 A: the outgoing weights of a node sum to one
    Row,
    /// keep the weights as read
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
    /// keep the largest weight; unweighted edges stay unweighted
    Max,
    /// add the weights; an unweighted edge counts 1
    Sum,
    /// keep the first one in the input
    First,
    /// stop with an error
    Error,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SelfLoops {
    /// keep them
    Keep,
    /// drop them
    Drop,
}

/// Values of `--format`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Form {
    /// recognise the format by the first bytes of the file
    Auto,
    /// two or three columns separated by whitespace, tabs or commas
    List,
    /// Matrix Market coordinate
    #[value(alias = "matrix-market")]
    Mtx,
    /// a Parquet table
    Parquet,
    /// one line per node, `degree neighbour neighbour ...`; line 1 is node 0
    Adjacency,
}

impl Form {
    /// The library's choice; `None` to recognise the format.
    pub fn choice(self) -> Option<EdgeFormat> {
        match self {
            Self::Auto => None,
            Self::List => Some(EdgeFormat::List),
            Self::Mtx => Some(EdgeFormat::MatrixMarket),
            Self::Parquet => Some(EdgeFormat::Parquet),
            Self::Adjacency => Some(EdgeFormat::Adjacency),
        }
    }
}

/// Values of `--ids`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum IdWord {
    /// integers if all ids in the first 1,000 lines are integers without leading zeros, otherwise text
    Auto,
    /// integers from 0 to 2^64 - 1, without leading zeros
    Integer,
    /// any text
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

/// Values of `--order`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum OrderWord {
    /// by id: integers ascending, text by its bytes
    None,
    /// highest degree first
    Degree,
    /// reverse Cuthill-McKee: places neighbours near each other
    Rcm,
    /// clusters of nodes together, and within them smaller ones: fewest rows to exchange on several
    /// ranks
    Cluster,
}

impl OrderWord {
    /// The library's choice.
    pub fn choice(self) -> Order {
        match self {
            Self::None => Order::None,
            Self::Degree => Order::Degree,
            Self::Rcm => Order::Rcm,
            Self::Cluster => Order::Cluster,
        }
    }
}

/// Values of `--numbers`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum NumberWord {
    /// mean 0 and deviation 1 over the training nodes
    Standardised,
    /// as they are
    Plain,
}

impl NumberWord {
    /// The library's choice.
    pub fn choice(self) -> Numbers {
        match self {
            Self::Standardised => Numbers::Standardised,
            Self::Plain => Numbers::Plain,
        }
    }
}

/// Values of `--missing`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum MissingWord {
    /// the mean of the training nodes (zeros for words), with a further column that is 1 where the
    /// value is missing, if training nodes lack values
    Mean,
    /// stop with an error
    Refuse,
}

impl MissingWord {
    /// The library's choice.
    pub fn choice(self) -> Missing {
        match self {
            Self::Mean => Missing::Mean,
            Self::Refuse => Missing::Refuse,
        }
    }
}

/// Values of `--missing-features`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MissingFeatures {
    /// stop with an error
    Error,
    /// fill in zeros
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
    fn defaults_match_the_library() {
        assert_eq!(Only::parse_from(["x"]).relation.options(), RelationOptions::default());
    }
}
