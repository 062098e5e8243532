//! `ignn ingest edges`: edge lists of any form, with features, labels and splits, become a dataset.

use std::path::PathBuf;

use ignn_format::Manifest;

use crate::builder::RelationOptions;
use crate::context::Context;
use crate::error::Result;

/// The forms an edge file can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeForm {
    /// Two or three columns split by whitespace, tabs or commas.
    List,
    /// Matrix Market coordinate.
    MatrixMarket,
    /// A Parquet table.
    Parquet,
    /// `degree neighbour neighbour ...`, the node is the line number from 0.
    Adjacency,
}

/// Type of the ids in the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdChoice {
    /// By the first edge.
    #[default]
    Auto,
    /// Integers from 0 to 2^64 - 1.
    Integer,
    /// Any text without the separator.
    String,
}

/// Order of the nodes in the dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By id: integers rising, strings by their bytes (or as listed by `nodes_file`).
    #[default]
    None,
    /// Highest degree first.
    Degree,
    /// Reverse Cuthill-McKee: neighbours near each other.
    Rcm,
}

/// Which communities of a community file become labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommunityChoice {
    /// All of them.
    All,
    /// Those with more members than this.
    LargerThan(u64),
    /// This many of the largest.
    Top(usize),
}

/// Options of `ignn ingest edges`.
#[derive(Clone, Debug)]
pub struct IngestEdges {
    /// Edge files or globs, read in this order.
    pub files: Vec<PathBuf>,
    /// The dataset directory to make.
    pub out: PathBuf,
    /// Replace an existing target.
    pub force: bool,
    /// Form of the files; recognised where absent.
    pub form: Option<EdgeForm>,
    /// Type of the ids.
    pub ids: IdChoice,
    /// Whether the first line is a header; recognised where absent.
    pub header: Option<bool>,
    /// Column of the source, by name or by position from 0.
    pub source: Option<String>,
    /// Column of the target.
    pub target: Option<String>,
    /// Column of the weight; `None`: a third column that is named like a weight, or the third of exactly three
    /// unnamed ones.
    pub weight: Option<String>,
    /// Never read weights.
    pub unweighted: bool,
    /// Direction, normalisation, duplicates, self-loops.
    pub relation: RelationOptions,
    /// Order of the nodes.
    pub order: Order,
    /// Ids `0 .. count - 1` exist, with edges or without.
    pub node_count: Option<u64>,
    /// A file with all node ids, one a line, in node order.
    pub nodes_file: Option<PathBuf>,
    /// Node features.
    pub features: Option<PathBuf>,
    /// Nodes without features get zeros instead of an error.
    pub missing_features_zero: bool,
    /// Node labels (`node,label`).
    pub labels: Option<PathBuf>,
    /// Communities, one a line, as labels.
    pub communities: Option<(PathBuf, CommunityChoice)>,
    /// Split tables: `node,split` or `node,<name>,<name>...`.
    pub splits: Vec<PathBuf>,
    /// Splits to draw: `[NAME:]train=0.06,test=0.10`.
    pub draw: Vec<String>,
}

impl IngestEdges {
    /// Runs the job.
    pub fn run(&self, context: &Context) -> Result<Manifest> {
        let _ = context;
        todo!()
    }
}
