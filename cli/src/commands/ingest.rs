//! `ignn ingest`: raw files of many forms become a dataset directory.
//! It turns words into the options of `ignn_ingest::command`; the work is done there.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};
use ignn_ingest::command::dgcnn::IngestDgcnn;
use ignn_ingest::command::edges::{CommunityChoice, IngestEdges};
use ignn_ingest::command::graphsage::IngestGraphSage;
use ignn_ingest::command::relations::IngestRelations;
use ignn_ingest::command::tu::IngestTu;

use crate::options::choices::{Form, IdWord, MissingFeatures, OrderWord, RelationArgs, Target};
use crate::terminal::summary;
use crate::{Outcome, Session};

/// Turn raw graph files into a dataset
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Command {
    #[command(subcommand)]
    form: RawForm,
}

#[derive(Debug, Subcommand)]
enum RawForm {
    Edges(Box<Edges>),
    Relations(Relations),
    Tu(Tu),
    Dgcnn(Dgcnn),
    Graphsage(Graphsage),
}

impl Command {
    /// Runs the job and prints its summary.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        match self.form {
            RawForm::Edges(arguments) => {
                let job = arguments.job();
                summary::run_job(session, &job.out, |context| job.run(context))
            }
            RawForm::Relations(arguments) => {
                let job = arguments.job();
                summary::run_job(session, &job.out, |context| job.run(context))
            }
            RawForm::Tu(arguments) => {
                let job = arguments.job();
                summary::run_job(session, &job.out, |context| job.run(context))
            }
            RawForm::Dgcnn(arguments) => {
                let job = arguments.job();
                summary::run_job(session, &job.out, |context| job.run(context))
            }
            RawForm::Graphsage(arguments) => {
                let job = arguments.job();
                summary::run_job(session, &job.out, |context| job.run(context))
            }
        }
    }
}

/// Edge lists, Matrix Market, Parquet or adjacency lists; plain, gzip or zstd
///
/// Reads edges from one or more files, maps their ids to dense node numbers (the originals are
/// kept), merges duplicates, and writes the adjacency, memory-mappable as it is. Features, labels
/// and splits can come along. Nothing is written under --out until all is complete; a malformed
/// line stops the job with file, line, what was found and what was expected.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn ingest edges com-dblp.ungraph.txt.gz --out dblp.ignn \\
      --communities com-dblp.all.cmty.txt.gz --communities-top 58 --split train=0.06,test=0.10
  ignn ingest edges 'part-*.csv' --source buyer --target seller --weight sum --directed --out t.ignn
  ignn ingest edges cora.mtx --features x.npz --labels labels.csv --splits split.csv --out cora.ignn")]
struct Edges {
    /// Edge files, or globs in quotes; read in this order
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    destination: Target,

    /// Form of the edge files
    #[arg(long, value_enum, default_value_t = Form::Auto, help_heading = "Reading edges")]
    format: Form,

    /// Type of the node ids
    #[arg(long, value_enum, default_value_t = IdWord::Auto, help_heading = "Reading edges")]
    ids: IdWord,

    /// The first line is a header [default: recognised]
    #[arg(long, conflicts_with = "no_header", help_heading = "Reading edges")]
    header: bool,

    /// The first line is an edge [default: recognised]
    #[arg(long, help_heading = "Reading edges")]
    no_header: bool,

    /// Column of the source, by name or by position from 0 [default: one named like source or from,
    /// else the first]
    #[arg(long, value_name = "COLUMN", help_heading = "Reading edges")]
    source: Option<String>,

    /// Column of the target, by name or by position from 0 [default: one named like target or to,
    /// else the second]
    #[arg(long = "target", value_name = "COLUMN", help_heading = "Reading edges")]
    target_column: Option<String>,

    /// Column of the weight, by name or by position from 0 [default: one named like weight, or the
    /// third of exactly three unnamed ones]
    #[arg(
        long,
        value_name = "COLUMN",
        conflicts_with = "unweighted",
        help_heading = "Reading edges"
    )]
    weight: Option<String>,

    /// Never read weights
    #[arg(long, help_heading = "Reading edges")]
    unweighted: bool,

    #[command(flatten, next_help_heading = "The matrix")]
    relation: RelationArgs,

    /// Order of the nodes in the dataset, for locality; original ids are unaffected
    #[arg(long, value_enum, default_value_t = OrderWord::None, help_heading = "Nodes")]
    order: OrderWord,

    /// Nodes 0 to N-1 exist, with edges or without; an id beyond is an error
    #[arg(long, value_name = "N", conflicts_with = "nodes_file", help_heading = "Nodes")]
    nodes: Option<u64>,

    /// All node ids, one a line, in node order; an id that is not listed is an error
    #[arg(long, value_name = "FILE", help_heading = "Nodes")]
    nodes_file: Option<PathBuf>,

    /// Node features: .npy, .npz (dense, or scipy CSR), Matrix Market, CSV or Parquet
    ///
    /// A CSV has the ids in its column `node` or in its first one, and a column a feature; Parquet
    /// likewise. Rows without ids, as in the other forms and in Parquet without a column `node`,
    /// belong to the nodes with ids 0, 1, 2, ..., or to those of --nodes-file in its order.
    #[arg(long, value_name = "FILE", help_heading = "Nodes")]
    features: Option<PathBuf>,

    /// What becomes of a node without features
    #[arg(long, value_enum, default_value_t = MissingFeatures::Error, help_heading = "Nodes")]
    missing_features: MissingFeatures,

    /// Labels, CSV or Parquet: `node,label`; a node in several rows has several labels
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "communities",
        help_heading = "Labels and splits"
    )]
    labels: Option<PathBuf>,

    /// Communities as labels, one community a line (the form of SNAP); a node's labels are all its
    /// communities
    #[arg(long, value_name = "FILE", help_heading = "Labels and splits")]
    communities: Option<PathBuf>,

    /// Only communities with more than N members
    #[arg(long, value_name = "N", requires = "communities", help_heading = "Labels and splits")]
    communities_larger_than: Option<u64>,

    /// Only the K largest communities
    #[arg(
        long,
        value_name = "K",
        requires = "communities",
        conflicts_with = "communities_larger_than",
        help_heading = "Labels and splits"
    )]
    communities_top: Option<usize>,

    /// Splits from a file, CSV or Parquet: `node,split`, or `node` and a column a split; may be
    /// repeated
    #[arg(long, value_name = "FILE", help_heading = "Labels and splits")]
    splits: Vec<PathBuf>,

    /// Draw a split over the labelled nodes with --seed, as shares: `[NAME:]train=0.06,test=0.10`;
    /// may be repeated
    #[arg(long, value_name = "SHARES", help_heading = "Labels and splits")]
    split: Vec<String>,
}

impl Edges {
    fn job(self) -> IngestEdges {
        let choice = match (self.communities_larger_than, self.communities_top) {
            (Some(members), _) => CommunityChoice::LargerThan(members),
            (None, Some(count)) => CommunityChoice::Top(count),
            (None, None) => CommunityChoice::All,
        };
        IngestEdges {
            files: self.files,
            out: self.destination.out,
            force: self.destination.force,
            form: self.format.choice(),
            ids: self.ids.choice(),
            header: match (self.header, self.no_header) {
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            },
            source: self.source,
            target: self.target_column,
            weight: self.weight,
            unweighted: self.unweighted,
            relation: self.relation.options(),
            order: self.order.choice(),
            node_count: self.nodes,
            nodes_file: self.nodes_file,
            features: self.features,
            missing_features_zero: self.missing_features == MissingFeatures::Zero,
            labels: self.labels,
            communities: self.communities.map(|file| (file, choice)),
            splits: self.splits,
            draw: self.split,
        }
    }
}

/// Several relations among nodes of one type, as a TOML file says
///
/// Each relation is read from edge files, or composed as a meta-path from lists that join the nodes
/// to things of other types (authors to papers, papers to conferences). Features, labels and splits
/// are named in the same file. All keys are explained in examples/specs/.
#[derive(Debug, Args)]
#[command(after_help = "\
Example (dblp.toml):
  target = \"author\"
  nodes = 4057
  features = \"features.mtx.gz\"
  labels = \"labels.csv\"
  splits = [\"splits.csv\"]
  [lists.paper-author]
  file = \"paper-author.tsv.gz\"
  columns = [\"paper\", \"author\"]
  [lists.paper-conference]
  file = \"paper-conference.tsv.gz\"
  columns = [\"paper\", \"conference\"]
  [relations.apcpa]
  path = [\"author\", \"paper\", \"conference\", \"paper\", \"author\"]
  [relations.cites]
  file = \"cites.tsv\"
  directed = true

  ignn ingest relations dblp.toml --out dblp.ignn")]
struct Relations {
    /// The specification
    #[arg(value_name = "SPEC.toml")]
    spec: PathBuf,

    /// What the paths in the specification are relative to [default: its own folder]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    #[command(flatten)]
    destination: Target,
}

impl Relations {
    fn job(self) -> IngestRelations {
        let Target { out, force, .. } = self.destination;
        IngestRelations { spec: self.spec, data: self.data, out, force }
    }
}

/// Graph classification sets of the TU collection
///
/// Reads `NAME_A.txt`, `NAME_graph_indicator.txt`, `NAME_graph_labels.txt` and, where they exist,
/// node labels (one-hot features) and node attributes (features), into one dataset of many graphs.
/// Files about edges are not used.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ignn ingest tu MUTAG/ --out mutag.ignn
  ignn ingest tu MUTAG/ --normalise none --out mutag.ignn   (nodes count their neighbours: for `--preset graphs`)")]
struct Tu {
    /// The directory with `NAME_A.txt` and the other files
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    #[command(flatten)]
    destination: Target,

    /// Add the degree as last feature column, which sets without node labels and attributes get
    /// anyway
    #[arg(long)]
    degree_features: bool,

    #[command(flatten, next_help_heading = "The matrix")]
    relation: RelationArgs,
}

impl Tu {
    fn job(self) -> IngestTu {
        IngestTu {
            directory: self.directory,
            out: self.destination.out,
            force: self.destination.force,
            degree_features: self.degree_features,
            relation: self.relation.options(),
        }
    }
}

/// Graph classification sets in the text form of DGCNN and GIN
///
/// First line: number of graphs. A graph: a line `nodes label`, then a line a node: `tag degree
/// neighbours...`. Tags become one-hot features.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ignn ingest dgcnn PTC.txt --normalise none --out ptc.ignn")]
struct Dgcnn {
    /// The file
    file: PathBuf,

    #[command(flatten)]
    destination: Target,

    #[command(flatten, next_help_heading = "The matrix")]
    relation: RelationArgs,
}

impl Dgcnn {
    fn job(self) -> IngestDgcnn {
        IngestDgcnn {
            file: self.file,
            out: self.destination.out,
            force: self.destination.force,
            relation: self.relation.options(),
        }
    }
}

/// Both published forms of the PPI set
///
/// Reads `train_graph.json`, `train_feats.npy`, `train_labels.npy`, `train_graph_id.npy` and the
/// same for `valid` and `test`; or GraphSAGE's `PREFIX-G.json`, `PREFIX-feats.npy`,
/// `PREFIX-class_map.json`, `PREFIX-id_map.json`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ignn ingest graphsage ppi/ --normalise none --out ppi.ignn")]
struct Graphsage {
    /// The directory with the files of either form
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    #[command(flatten)]
    destination: Target,

    #[command(flatten, next_help_heading = "The matrix")]
    relation: RelationArgs,
}

impl Graphsage {
    fn job(self) -> IngestGraphSage {
        IngestGraphSage {
            directory: self.directory,
            out: self.destination.out,
            force: self.destination.force,
            relation: self.relation.options(),
        }
    }
}
