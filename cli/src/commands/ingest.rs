//! `ignn ingest`: converts raw files to a dataset directory. It fills in the options of
//! `ignn_ingest::command`, which does the work.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Subcommand};
use ignn::predict;
use ignn_ingest::command::dgcnn::IngestDgcnn;
use ignn_ingest::command::edges::IngestEdges;
use ignn_ingest::command::graphsage::IngestGraphSage;
use ignn_ingest::command::node_data::{NodeData, NodeTable};
use ignn_ingest::command::relations::IngestRelations;
use ignn_ingest::command::tu::IngestTu;
use ignn_ingest::features::encoded::{Chosen, Columns, Words};
use ignn_ingest::labels::CommunityChoice;
use ignn_ingest::source::edge_input::EdgeInput;

use crate::options::choices::{
    Form, IdWord, MissingFeatures, MissingWord, NumberWord, OrderWord, RelationArgs, Target,
};
use crate::terminal::summary;
use crate::{Outcome, Session};

/// Convert raw graph files to a dataset
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
                let job = arguments.job()?;
                summary::run_job(session, &job.out, |context| job.run(context))
            }
            RawForm::Relations(arguments) => {
                let job = arguments.job()?;
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
/// Reads edges from one or more files, maps ids to node numbers (and keeps the ids), merges
/// duplicates and writes the adjacency in a form that can be memory-mapped. Features, labels and
/// splits can be added at the same time.
///
/// The dataset appears in --out only when it is complete. A malformed line stops the job with the
/// file, the line, what was found and what was expected.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn ingest edges com-dblp.ungraph.txt.gz --out dblp.ignn \\
      --communities com-dblp.all.cmty.txt.gz --communities-top 58 --split train=0.06,test=0.10
  ignn ingest edges 'part-*.csv' --source buyer --target seller --weight sum --directed --out t.ignn
  ignn ingest edges cora.mtx --features x.npz --labels labels.csv --splits split.csv --out cora.ignn
  ignn ingest edges edges.csv --nodes people.csv --label team --features age,income,city \\
      --split train=0.6,val=0.2,test=0.2 --out people.ignn
  ignn ingest edges edges.csv --nodes homes.parquet --regress price --features all --out homes.ignn
  ignn ingest edges new-edges.csv --nodes new-people.csv --encode-as run --out new.ignn")]
struct Edges {
    /// Edge files, or quoted globs; read in this order
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    destination: Target,

    /// Format of the edge files
    #[arg(long, value_enum, default_value_t = Form::Auto, help_heading = "Reading edges")]
    format: Form,

    /// Type of the node ids
    ///
    /// An id with leading zeros is text: 007 and 7 are different nodes. Lists with commas or tabs
    /// may quote ids as in CSV, `"a, b"`; lists with blanks may not.
    #[arg(long, value_enum, default_value_t = IdWord::Auto, help_heading = "Reading edges")]
    ids: IdWord,

    /// Treat the first line as a header [default: detected]
    ///
    /// By default, the first line is a header if it has known names, such as source and target, or
    /// if it has no numbers although some column has numbers in all other lines. In case of doubt,
    /// a note says how the line was read.
    #[arg(long, conflicts_with = "no_header", help_heading = "Reading edges")]
    header: bool,

    /// Treat the first line as an edge [default: detected]
    #[arg(long, help_heading = "Reading edges")]
    no_header: bool,

    /// Column of the source: a name, or a position from 0 [default: a column named source, from or
    /// similar, otherwise the first]
    #[arg(long, value_name = "COLUMN", help_heading = "Reading edges")]
    source: Option<String>,

    /// Column of the target: a name, or a position from 0 [default: a column named target, to or
    /// similar, otherwise the second]
    #[arg(long = "target", value_name = "COLUMN", help_heading = "Reading edges")]
    target_column: Option<String>,

    /// Column of the weight: a name, or a position from 0 [default: a column named weight or
    /// similar, or the third of exactly three columns without names]
    #[arg(
        long,
        value_name = "COLUMN",
        conflicts_with = "unweighted",
        help_heading = "Reading edges"
    )]
    weight: Option<String>,

    /// Ignore weights
    #[arg(long, help_heading = "Reading edges")]
    unweighted: bool,

    #[command(flatten, next_help_heading = "The matrix")]
    relation: RelationArgs,

    /// Order of the nodes in the dataset, for memory locality; ids stay the same
    #[arg(long, value_enum, default_value_t = OrderWord::None, help_heading = "Nodes")]
    order: OrderWord,

    /// The nodes: a number N for ids 0 to N-1, or a table with one row per node
    ///
    /// Any other id in the edges is an error; nodes without edges are kept. The table is CSV, TSV or
    /// Parquet with a header. --label, --regress, --features and --split-column choose its columns by
    /// name. A file with ids alone is for --nodes-file.
    #[arg(
        long,
        value_name = "N|TABLE",
        conflicts_with = "nodes_file",
        value_parser = PathBufValueParser::new().map(NodesWord::from),
        help_heading = "Nodes"
    )]
    nodes: Option<NodesWord>,

    /// Column of the node table with the ids [default: node, id or node_id, otherwise the first]
    #[arg(long, value_name = "COLUMN", help_heading = "Nodes")]
    id_column: Option<String>,

    /// File with all node ids, one per line, in node order; any other id is an error
    #[arg(long, value_name = "FILE", help_heading = "Nodes")]
    nodes_file: Option<PathBuf>,

    /// Node features: a file (.npy, .npz, Matrix Market, CSV or Parquet), or columns of the node table
    ///
    /// With --nodes TABLE: names of columns, separated by commas, or `all` for all but those of ids,
    /// labels and splits. Numbers, words and missing values are encoded as --numbers, --words and
    /// --missing say. The dataset and models keep the encoding, and --encode-as applies it to another
    /// table.
    ///
    /// A file is dense or sparse (scipy CSR).
    /// CSV and Parquet have the ids in column `node` (CSV: or the first column) and one column per
    /// feature. Rows without ids, as in the other formats and in Parquet without a column `node`,
    /// belong to the nodes with ids 0, 1, 2, ..., or to those of --nodes-file in its order.
    #[arg(long, value_name = "FILE|COLUMNS", help_heading = "Nodes")]
    features: Option<PathBuf>,

    #[command(flatten, next_help_heading = "Nodes")]
    table: TableArgs,

    /// What to do with a node without features
    #[arg(long, value_enum, default_value_t = MissingFeatures::Error, help_heading = "Nodes")]
    missing_features: MissingFeatures,

    /// Column of the node table with the class of each node
    #[arg(long, value_name = "COLUMN", help_heading = "Labels and splits")]
    label: Option<String>,

    /// Column of numbers to predict, for a regression: of the node table, or of --labels
    ///
    /// --target is another option: the end of edges. A --label of numbers can be predicted as well, with
    /// `ignn train --set train.task=regression`.
    #[arg(long, value_name = "COLUMN", help_heading = "Labels and splits")]
    regress: Option<String>,

    /// Column of the node table with the part of each node, such as train, val or test
    ///
    /// Several columns, separated by commas, are several splits, or masks of one: see --splits.
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Labels and splits")]
    split_column: Vec<String>,

    /// Labels as CSV or Parquet: `node,label`; a node may have several rows, one per label
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "communities",
        help_heading = "Labels and splits"
    )]
    labels: Option<PathBuf>,

    /// Communities as labels, one community per line (as in SNAP); a node has the labels of all its
    /// communities
    #[arg(long, value_name = "FILE", help_heading = "Labels and splits")]
    communities: Option<PathBuf>,

    /// Use only communities with more than N members
    #[arg(long, value_name = "N", requires = "communities", help_heading = "Labels and splits")]
    communities_larger_than: Option<u64>,

    /// Use only the K largest communities
    #[arg(
        long,
        value_name = "K",
        requires = "communities",
        conflicts_with = "communities_larger_than",
        help_heading = "Labels and splits"
    )]
    communities_top: Option<usize>,

    /// Splits as CSV or Parquet: `node,split`, or `node` and one column per split; may be repeated
    ///
    /// Masks make one split: columns named train_mask, val_mask and test_mask (or the like) with
    /// true or false, or 1 or 0, for each node.
    #[arg(long, value_name = "FILE", help_heading = "Labels and splits")]
    splits: Vec<PathBuf>,

    /// Draw a random split of the labelled nodes by fractions: `[NAME:]train=0.06,test=0.10`; may
    /// be repeated
    #[arg(long, value_name = "SHARES", help_heading = "Labels and splits")]
    split: Vec<String>,
}

/// The value of `--nodes`.
#[derive(Clone, Debug)]
enum NodesWord {
    Count(u64),
    Table(PathBuf),
}

impl From<PathBuf> for NodesWord {
    fn from(word: PathBuf) -> Self {
        match word.to_str().and_then(|word| word.parse().ok()) {
            Some(count) => Self::Count(count),
            None => Self::Table(word),
        }
    }
}

/// How the columns of a node table become features.
#[derive(Debug, Args)]
struct TableArgs {
    /// Encode the node table as this dataset or model has it, instead of learning an encoding
    ///
    /// Words that the encoding does not know become zeros, with a note.
    #[arg(long, value_name = "DATASET|RUN|MODEL")]
    #[arg(conflicts_with_all = ["features", "numbers", "words", "missing", "categories"])]
    encode_as: Option<PathBuf>,

    /// What becomes of columns of numbers [default: standardised]
    #[arg(long, value_enum, hide_default_value = true)]
    numbers: Option<NumberWord>,

    /// What becomes of columns of words: auto, one-hot, hashed or hashed:COLUMNS [default: auto]
    ///
    /// one-hot: one feature per word of the training nodes; any other word becomes zeros. hashed: 64
    /// features, or COLUMNS; each word is 1 in one of them. auto: one-hot for up to 100 words, hashed
    /// for more.
    #[arg(long, value_name = "HOW")]
    words: Option<Words>,

    /// What becomes of missing values: empty cells, NA, N/A, NaN and null [default: mean]
    #[arg(long, value_enum, hide_default_value = true)]
    missing: Option<MissingWord>,

    /// Columns of numbers to read as words, such as codes
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    categories: Vec<String>,
}

impl TableArgs {
    /// The first option that was given, for messages.
    fn given(&self) -> Option<&'static str> {
        let all = [
            ("--encode-as", self.encode_as.is_some()),
            ("--numbers", self.numbers.is_some()),
            ("--words", self.words.is_some()),
            ("--missing", self.missing.is_some()),
            ("--categories", !self.categories.is_empty()),
        ];
        all.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    fn columns(&self, features: Chosen) -> Columns {
        Columns {
            features,
            categories: self.categories.clone(),
            numbers: self.numbers.map(NumberWord::choice).unwrap_or_default(),
            words: self.words.unwrap_or_default(),
            missing: self.missing.map(MissingWord::choice).unwrap_or_default(),
        }
    }
}

impl Edges {
    /// The node table with its columns, if there is one.
    fn node_table(&self) -> Result<Option<NodeTable>> {
        let Some(NodesWord::Table(file)) = &self.nodes else {
            let label = [
                ("--label", self.label.is_some()),
                ("--split-column", !self.split_column.is_empty()),
                ("--id-column", self.id_column.is_some()),
            ];
            let given = label.into_iter().find(|(_, given)| *given).map(|(name, _)| name);
            if let Some(option) = given.or_else(|| self.table.given()) {
                bail!("{option} needs a node table: pass --nodes TABLE");
            }
            return Ok(None);
        };
        let features = match self.features.as_deref().map(|word| word.to_str()) {
            None => Chosen::None,
            Some(Some("all")) => Chosen::All,
            Some(Some(names)) => {
                Chosen::Named(names.split(',').map(|name| name.trim().to_string()).collect())
            }
            Some(None) => bail!("--features: names of columns are UTF-8"),
        };
        Ok(Some(NodeTable {
            file: file.clone(),
            id: self.id_column.clone(),
            label: self.label.clone(),
            splits: self.split_column.clone(),
            columns: self.table.columns(features),
            encoding: self.table.encode_as.as_deref().map(predict::encoding_of).transpose()?,
        }))
    }

    fn job(self) -> Result<IngestEdges> {
        let table = self.node_table()?;
        let choice = match (self.communities_larger_than, self.communities_top) {
            (Some(members), _) => CommunityChoice::LargerThan(members),
            (None, Some(count)) => CommunityChoice::Top(count),
            (None, None) => CommunityChoice::All,
        };
        let header = match (self.header, self.no_header) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        };
        Ok(IngestEdges {
            input: EdgeInput {
                files: self.files,
                format: self.format.choice(),
                ids: self.ids.choice(),
                header,
                source: self.source,
                target: self.target_column,
                weight: self.weight,
                unweighted: self.unweighted,
            },
            out: self.destination.out,
            force: self.destination.force,
            relation: self.relation.options(),
            order: self.order.choice(),
            node_count: match self.nodes {
                Some(NodesWord::Count(count)) => Some(count),
                _ => None,
            },
            nodes_file: self.nodes_file,
            node_data: NodeData {
                features: self.features.filter(|_| table.is_none()),
                table,
                regress: self.regress,
                missing_features_zero: self.missing_features == MissingFeatures::Zero,
                labels: self.labels,
                communities: self.communities.map(|file| (file, choice)),
                splits: self.splits,
                draw: self.split,
            },
        })
    }
}

/// Several relations among nodes of one type, described by a TOML file
///
/// Each relation is read from edge files, or composed as a meta-path from lists that connect the
/// nodes with nodes of other types (authors with papers, papers with conferences). The same file
/// names features, labels and splits. All keys are explained in examples/specs/README.md.
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

  ignn ingest relations dblp.toml --out dblp.ignn

One table with everything about the nodes:
  node-table = \"authors.csv\"
  label = \"area\"
  features = [\"papers\", \"country\"]
  split-column = \"part\"")]
struct Relations {
    /// The TOML file
    #[arg(value_name = "SPEC.toml")]
    spec: PathBuf,

    /// Directory that paths in the TOML file are relative to [default: that of the file]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    #[command(flatten)]
    destination: Target,

    /// Encode the node table as this dataset or model has it, instead of learning an encoding
    ///
    /// The columns are those of the encoding, whatever the TOML file says about features.
    #[arg(long, value_name = "DATASET|RUN|MODEL")]
    encode_as: Option<PathBuf>,
}

impl Relations {
    fn job(self) -> Result<IngestRelations> {
        let Target { out, force, .. } = self.destination;
        let encoding = self.encode_as.as_deref().map(predict::encoding_of).transpose()?;
        Ok(IngestRelations { spec: self.spec, data: self.data, out, force, encoding })
    }
}

/// Graph classification sets of the TU collection
///
/// Reads `NAME_A.txt`, `NAME_graph_indicator.txt` and `NAME_graph_labels.txt` into one dataset of
/// many graphs. Node labels (as one-hot features) and node attributes are read if they exist. Edge
/// labels and attributes are ignored. With --regress, graphs have a number of
/// `NAME_graph_attributes.txt` to predict; train on a split of the graphs that --split draws.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn ingest tu MUTAG/ --out mutag.ignn
  ignn ingest tu MUTAG/ --normalise none --out mutag.ignn      as `--preset graphs` expects it")]
struct Tu {
    /// Directory with `NAME_A.txt` and the other files
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    #[command(flatten)]
    destination: Target,

    /// Add the degree as the last feature; automatic for sets without node labels and attributes
    #[arg(long)]
    degree_features: bool,

    /// Column of `NAME_graph_attributes.txt`, from 0, to predict instead of the class of a graph
    #[arg(long, value_name = "COLUMN", visible_alias = "target")]
    regress: Option<usize>,

    /// Draw a random split of the graphs by fractions: `[NAME:]train=0.8,val=0.1,test=0.1`; may be
    /// repeated
    #[arg(long, value_name = "SHARES")]
    split: Vec<String>,

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
            regress: self.regress,
            draw: self.split,
            relation: self.relation.options(),
        }
    }
}

/// Graph classification sets in the text format of DGCNN and GIN
///
/// The first line is the number of graphs. Each graph is a line `nodes label`, followed by one line
/// per node, `tag degree neighbours...`. Tags become one-hot features.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ignn ingest dgcnn PTC.txt --normalise none --out ptc.ignn")]
struct Dgcnn {
    /// The text file
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

/// The PPI set in either of its published forms
///
/// Reads `train_graph.json`, `train_feats.npy`, `train_labels.npy`, `train_graph_id.npy` and the
/// same for `valid` and `test`; or GraphSAGE's `PREFIX-G.json`, `PREFIX-feats.npy`,
/// `PREFIX-class_map.json`, `PREFIX-id_map.json`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ignn ingest graphsage ppi/ --out ppi.ignn")]
struct Graphsage {
    /// Directory with the files of either form
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
