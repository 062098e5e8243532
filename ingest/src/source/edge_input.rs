//! What a user can say about edge files: their names, their format, and their columns.

use std::path::PathBuf;

/// The formats of edge files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeFormat {
    /// Two or three columns separated by whitespace, tabs or commas.
    List,
    /// Matrix Market coordinate.
    MatrixMarket,
    /// A Parquet table.
    Parquet,
    /// `degree neighbour neighbour ...`; the node is the line number, from 0.
    Adjacency,
}

/// Type of the ids in the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdChoice {
    /// Integers if all ids in the first lines are integers without leading zeros, else text.
    #[default]
    Auto,
    /// Integers from 0 to 2^64 - 1, without leading zeros.
    Integer,
    /// Any text without the separator.
    String,
}

/// Edge files and how they are read.
#[derive(Clone, Debug, Default)]
pub struct EdgeInput {
    /// Files or globs, read in this order.
    pub files: Vec<PathBuf>,
    /// Format of the files; detected if absent.
    pub format: Option<EdgeFormat>,
    /// Type of the ids.
    pub ids: IdChoice,
    /// Whether the first line is a header; detected if absent.
    pub header: Option<bool>,
    /// Column of the source, by name or by position from 0.
    pub source: Option<String>,
    /// Column of the target.
    pub target: Option<String>,
    /// Column of the weight. If absent, it is a column with a name like `weight`, or the third of
    /// exactly three unnamed columns.
    pub weight: Option<String>,
    /// Never read weights.
    pub unweighted: bool,
}

impl EdgeInput {
    /// These files, with everything else detected.
    pub fn new(files: Vec<PathBuf>) -> Self {
        Self { files, ..Self::default() }
    }
}
