//! `ignn generate`: synthetic graphs from a seed, as datasets or as raw files for other programs. It
//! fills in the options of `ignn_ingest::command::generate`, which does the work.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use clap::{ArgGroup, Args, Subcommand};
use ignn::run::path_text;
use ignn_ingest::command::generate::{Generate, Kind};
use ignn_ingest::synthetic::chains::{self, ChainsOptions};
use ignn_ingest::synthetic::grid::{self, GridOptions};
use ignn_ingest::synthetic::ppi::{self, PpiOptions};
use ignn_ingest::synthetic::rings::{self, RingsOptions};
use ignn_ingest::synthetic::rmat::{self, RmatOptions};
use ignn_ingest::synthetic::sbm::{self, Density, SbmOptions};
use serde_json::json;

use crate::options::choices::Normalise;
use crate::options::count;
use crate::terminal::summary::{self, Job};
use crate::{Outcome, Session};

const DEGREES: Numbers<2> = Numbers([sbm::DEGREE_WITHIN, sbm::DEGREE_BETWEEN]);

/// Generate a synthetic graph
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Chains(Chains),
    Ppi(Ppi),
    Rmat(Rmat),
    Sbm(Sbm),
    Grid(Grid),
    Rings(Rings),
}

impl Command {
    /// Runs the generator and prints its summary.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let (kind, output) = match self.what {
            What::Chains(chains) => (Kind::Chains(chains.options()), chains.output),
            What::Ppi(ppi) => (Kind::Ppi(ppi.options()), ppi.output),
            What::Rmat(rmat) => (Kind::Rmat(rmat.options()), rmat.output),
            What::Sbm(sbm) => (Kind::Sbm(sbm.options()), sbm.output),
            What::Grid(grid) => (Kind::Grid(grid.options()), grid.output),
            What::Rings(rings) => (Kind::Rings(rings.options()), rings.output),
        };
        let Output { out, raw, force, normalise } = output;
        let job = Generate { kind, out, raw, force, normalise: normalise.choice() };
        let (made, run) = summary::observe(session, |context| job.run(context))?;
        if let Some(raw) = &job.raw
            && !session.json
        {
            session.print(&format!("made {} (raw files)\n", raw.display()))?;
        }
        match (made, &job.out) {
            (Some(made), Some(out)) => Job { made, run }.print(session, out)?,
            _ if session.json => {
                let phases = run.phases.iter().map(summary::phase_json).collect::<Vec<_>>();
                let raw = job.raw.as_deref().map(path_text::of);
                session
                    .print_json(&json!({ "raw": raw, "seconds": run.seconds, "phases": phases }))?;
            }
            _ => {}
        }
        Ok(Outcome::Done)
    }
}

/// Where a generated graph goes: a dataset, raw files, or both.
#[derive(Debug, Args)]
#[group(skip)]
#[command(group = ArgGroup::new("destination").required(true).multiple(true).args(["out", "raw"]))]
struct Output {
    /// Dataset directory to create
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Directory of raw files to create, in formats that other programs read
    #[arg(long, value_name = "DIR")]
    raw: Option<PathBuf>,

    /// Replace existing output
    #[arg(long)]
    force: bool,

    /// How to normalise the adjacency matrix of the dataset
    #[arg(long, value_enum, default_value_t = Normalise::Renorm)]
    normalise: Normalise,
}

/// Directed chains where only the first node carries the class
///
/// The label of every node is the class of its chain. All features are zero, except feature number
/// `class` of the first node of each chain. A test of long-range dependencies.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ignn generate chains --length 100 --out chains.ignn")]
struct Chains {
    #[command(flatten)]
    output: Output,

    /// Number of classes
    #[arg(long, value_name = "N", default_value_t = chains::CLASSES)]
    classes: u64,

    /// Number of chains per class
    #[arg(long, value_name = "N", default_value_t = chains::CHAINS)]
    chains: u64,

    /// Number of nodes per chain
    #[arg(long, value_name = "N", default_value_t = chains::LENGTH)]
    length: u64,

    /// Number of features, at least the number of classes
    #[arg(long, value_name = "N", default_value_t = chains::FEATURES)]
    features: usize,

    /// Number of training nodes, drawn at random
    #[arg(long, value_name = "N", default_value_t = chains::TRAIN)]
    train: u64,

    /// Number of validation nodes
    #[arg(long, value_name = "N", default_value_t = chains::VAL)]
    val: u64,

    /// Number of test nodes
    #[arg(long, value_name = "N", default_value_t = chains::TEST)]
    test: u64,
}

/// Rings of nodes with a number to predict: a regression with a known answer
///
/// A node has one feature u, a normal variate. Its number is
/// 20 + 5 (sum over d of decay^|d| u(i + d) + noise e(i)), summed around its ring without end: every
/// node of the ring counts. A linear model with a state of one number is exact: without noise it
/// reaches R2 = 1. Half of the nodes are for training, a quarter for validation.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn generate rings --out rings.ignn
  ignn train rings.ignn --set model.state=1 --set model.activation=identity \\
      --set model.input=own --set model.dropout=0 --out run
  ignn generate rings --by-graph --rings 400 --length 12 --out graphs.ignn")]
struct Rings {
    #[command(flatten)]
    output: Output,

    /// Number of rings
    #[arg(long, value_name = "N", default_value_t = rings::RINGS)]
    rings: u64,

    /// Number of nodes per ring
    #[arg(long, value_name = "N", default_value_t = rings::LENGTH)]
    length: u64,

    /// Factor by which a feature counts less per step
    #[arg(long, value_name = "X", default_value_t = rings::DECAY)]
    decay: f64,

    /// Deviation of the noise, in units of that of the features
    #[arg(long, value_name = "X", default_value_t = rings::NOISE)]
    noise: f64,

    /// Make each ring a graph with a number, the mean of those of its nodes
    #[arg(long)]
    by_graph: bool,
}

impl Rings {
    fn options(&self) -> RingsOptions {
        let Self { rings, length, decay, noise, by_graph, .. } = *self;
        RingsOptions { rings, length, decay, noise, by_graph }
    }
}

/// A synthetic stand-in for the PPI data set: 24 graphs, multi-label, inductive
///
/// It has as many nodes, edges, features and labels as the published set. Its labels can only be
/// learned from neighbourhoods that are many hops wide.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn generate ppi --out ppi.ignn
  ignn generate ppi --raw ppi/        writes train_graph.json, train_feats.npy, ...")]
struct Ppi {
    #[command(flatten)]
    output: Output,

    /// Fraction of the nodes and edges of the full set, for quick runs
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    scale: f64,

    /// Restart probability; smaller values make labels depend on wider neighbourhoods
    #[arg(long, value_name = "P", default_value_t = ppi::RESTART)]
    restart: f64,
}

/// An R-MAT graph: large, with a few nodes of very high degree
///
/// Every edge is placed by choosing one of the four quarters of the adjacency matrix, again and
/// again, down to a single entry. Raw files contain duplicates and self-loops, as R-MAT defines;
/// the dataset does not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn generate rmat --scale 20 --out rmat.ignn
  ignn generate rmat --scale 22 --edges 50M --raw rmat/
  ignn generate rmat --scale 24 --edges 200M --labels 1M --out large.ignn")]
struct Rmat {
    #[command(flatten)]
    output: Output,

    /// Base-2 logarithm of the number of ids, 1 to 31
    #[arg(long, value_name = "N", default_value_t = rmat::SCALE)]
    scale: u32,

    /// Number of edges to draw, such as 800k, 5M or 1G [default: --edge-factor times the ids]
    #[arg(long, value_name = "N", value_parser = count::parse, conflicts_with = "edge_factor")]
    edges: Option<u64>,

    /// Number of edges per id
    #[arg(long, value_name = "N", default_value_t = rmat::EDGE_FACTOR)]
    edge_factor: u64,

    /// Probabilities of the quarters: both ids low, target high, source high, both high
    #[arg(long, value_name = "A,B,C,D", default_value_t = Numbers(rmat::QUARTERS))]
    quarters: Numbers<4>,

    /// Do not shuffle the ids; the ids with many zero bits are then the hubs
    #[arg(long)]
    no_permute: bool,

    /// Keep the direction of edges
    #[arg(long)]
    directed: bool,

    /// Number of nodes with a label, such as 1M; all nodes then have features
    ///
    /// Half of them are for training, a quarter each for validation and test. Classes are drawn at
    /// random, and features are a noisy indicator of the class.
    #[arg(long, value_name = "N", value_parser = count::parse)]
    labels: Option<u64>,

    /// Number of classes, and of columns of the features
    #[arg(long, value_name = "N", default_value_t = rmat::CLASSES)]
    classes: u32,
}

/// A stochastic block model: communities with features and labels
///
/// Nodes of the same block are connected more often than nodes of different blocks. The label of a
/// node is its block; its features are a noisy indicator of the block.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn generate sbm --nodes 100000 --blocks 10 --out sbm.ignn
  ignn generate sbm --probabilities 0.02,0.001 --raw sbm/")]
struct Sbm {
    #[command(flatten)]
    output: Output,

    /// Number of nodes
    #[arg(long, value_name = "N", default_value_t = sbm::NODES)]
    nodes: u64,

    /// Number of blocks
    #[arg(long, value_name = "N", default_value_t = sbm::BLOCKS)]
    blocks: u64,

    /// Average number of neighbours in the node's own block, and in all other blocks
    #[arg(long, value_name = "WITHIN,BETWEEN", default_value_t = DEGREES, conflicts_with = "probabilities")]
    degrees: Numbers<2>,

    /// Edge probabilities within a block and between blocks, instead of --degrees
    #[arg(long, value_name = "WITHIN,BETWEEN")]
    probabilities: Option<Numbers<2>>,

    /// Number of features, at least the number of blocks, or 0 [default: number of blocks]
    #[arg(long, value_name = "N")]
    features: Option<usize>,

    /// Standard deviation of the noise on the features
    #[arg(long, value_name = "X", default_value_t = sbm::NOISE)]
    noise: f64,

    /// Fractions of training, validation and test nodes
    #[arg(long, value_name = "TRAIN,VAL,TEST", default_value_t = Numbers(sbm::FRACTIONS))]
    split: Numbers<3>,
}

/// A grid or torus, with known distances
///
/// Every node is connected to the next one in its row and in its column. There are no labels.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ignn generate grid --rows 1000 --columns 1000 --torus --out torus.ignn")]
struct Grid {
    #[command(flatten)]
    output: Output,

    /// Number of rows
    #[arg(long, value_name = "N", default_value_t = grid::ROWS)]
    rows: u64,

    /// Number of columns
    #[arg(long, value_name = "N", default_value_t = grid::COLUMNS)]
    columns: u64,

    /// Connect the ends of rows and columns
    #[arg(long)]
    torus: bool,

    /// Add two features: row and column of the node, scaled to [0, 1]
    #[arg(long)]
    coordinates: bool,
}

impl Chains {
    fn options(&self) -> ChainsOptions {
        let Self { classes, chains, length, features, train, val, test, .. } = *self;
        ChainsOptions { classes, chains, length, features, train, val, test }
    }
}

impl Ppi {
    fn options(&self) -> PpiOptions {
        PpiOptions { scale: self.scale, restart: self.restart }
    }
}

impl Rmat {
    fn options(&self) -> RmatOptions {
        RmatOptions {
            scale: self.scale,
            edges: self.edges,
            edge_factor: self.edge_factor,
            quarters: self.quarters.0,
            permute: !self.no_permute,
            directed: self.directed,
            labels: self.labels.unwrap_or(0),
            classes: self.classes,
        }
    }
}

impl Sbm {
    fn options(&self) -> SbmOptions {
        let density = match (self.probabilities, self.degrees) {
            (Some(Numbers([within, between])), _) => Density::Probabilities { within, between },
            (None, Numbers([within, between])) => Density::Degrees { within, between },
        };
        SbmOptions {
            nodes: self.nodes,
            blocks: self.blocks,
            density,
            features: self.features,
            noise: self.noise,
            fractions: self.split.0,
        }
    }
}

impl Grid {
    fn options(&self) -> GridOptions {
        let Self { rows, columns, torus, coordinates, .. } = *self;
        GridOptions { rows, columns, torus, coordinates }
    }
}

/// A fixed number of comma-separated numbers: `0.1,0.1,0.8`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Numbers<const N: usize>([f64; N]);

impl<const N: usize> FromStr for Numbers<N> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<f64>> =
            text.split(',').map(|number| number.trim().parse().ok()).collect();
        let numbers = numbers.and_then(|numbers| <[f64; N]>::try_from(numbers).ok());
        numbers.map(Self).ok_or_else(|| format!("expected {N} numbers separated by commas"))
    }
}

impl<const N: usize> fmt::Display for Numbers<N> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.0.map(|number| number.to_string()).join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(subcommand)]
        what: What,
    }

    #[test]
    fn defaults_match_the_library() {
        let parse = |name| Only::parse_from(["x", name, "--out", "d"]).what;
        let What::Chains(chains) = parse("chains") else { panic!() };
        assert_eq!(chains.options(), ChainsOptions::default());
        let What::Ppi(ppi) = parse("ppi") else { panic!() };
        assert_eq!(ppi.options(), PpiOptions::default());
        let What::Rmat(rmat) = parse("rmat") else { panic!() };
        assert_eq!(rmat.options(), RmatOptions::default());
        let What::Sbm(sbm) = parse("sbm") else { panic!() };
        assert_eq!(sbm.options(), SbmOptions::default());
        let What::Grid(grid) = parse("grid") else { panic!() };
        assert_eq!(grid.options(), GridOptions::default());
    }

    #[test]
    fn lists_of_numbers() {
        assert_eq!("0.5, 1".parse(), Ok(Numbers([0.5, 1.0])));
        for wrong in ["1", "1,2,3", "1,x", ""] {
            let error = wrong.parse::<Numbers<2>>().unwrap_err();
            assert_eq!(error, "expected 2 numbers separated by commas");
        }
    }
}
