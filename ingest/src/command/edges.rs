//! `ignn ingest edges`: edge lists of any form, with features, labels and splits, become a dataset.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ignn_format::csr::CsrFile;
use ignn_format::dataset::relation_path;
use ignn_format::ids::IdsWriter;

use crate::build::Built;
use crate::builder::{DatasetBuilder, Duplicates, Made, RelationOptions};
use crate::context::{Context, Unit};
use crate::edges::map::NodeMap;
use crate::error::{IngestError, Result};
use crate::nodes::NodeLookup;
use crate::order::{self, Pattern};
use crate::relabel::index::{KnownIds, NodeIndex, NodeList};
use crate::relabel::{Reader, Relabelled};
use crate::source::edges::EdgeFiles;
use crate::source::text;
use crate::{features, labels, splits};

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
    /// Integers if all ids in the first lines are, else text.
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
    /// Column of the weight; `None`: a third column that is named like a weight, or the third of
    /// exactly three unnamed ones.
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

/// The one relation of a homogeneous graph.
pub const RELATION: &str = "edges";

impl IngestEdges {
    /// A job with everything else as it is by default.
    pub fn new(files: Vec<PathBuf>, out: PathBuf) -> Self {
        Self {
            files,
            out,
            force: false,
            form: None,
            ids: IdChoice::Auto,
            header: None,
            source: None,
            target: None,
            weight: None,
            unweighted: false,
            relation: RelationOptions::default(),
            order: Order::None,
            node_count: None,
            nodes_file: None,
            features: None,
            missing_features_zero: false,
            labels: None,
            communities: None,
            splits: Vec::new(),
            draw: Vec::new(),
        }
    }

    /// Runs the job.
    pub fn run(&self, context: &Context) -> Result<Made> {
        if self.labels.is_some() && self.communities.is_some() {
            return Err(IngestError::Usage("--labels and --communities exclude each other".into()));
        }
        self.check_node_data()?;
        let mut builder = DatasetBuilder::begin(
            context,
            &self.out,
            self.force,
            "ingest edges",
            self.options(context),
        )?;
        let scratch = builder.scratch();
        let files = EdgeFiles::open(self)?;
        files.guesses.iter().for_each(|guess| context.observer.note(guess));
        let list = self.node_list(context)?;
        let least_nodes = self.least_nodes(&files)?;
        builder.set_nodes(least_nodes)?;
        // Unweighted duplicates that are to be summed count 1 each.
        let weighted = files.weighted || self.relation.duplicates == Duplicates::Sum;
        let mut read =
            Reader::new(context, &builder, &files, &scratch, least_nodes).read(weighted, list)?;
        files.finish()?;
        if read.edges.is_empty() && least_nodes == 0 {
            return Err(IngestError::file(
                files.first_path(),
                "no edges in it (expected at least one)",
            ));
        }
        if let Some(count) = self.node_count
            && read.index.nodes() > count
        {
            return Err(files.beyond(count, "as --nodes says"));
        }
        builder.set_nodes(read.index.nodes())?;
        let built = self.build(&mut builder, &mut read, context)?;
        builder.add_built(built);
        add_ids(&mut builder, &read.index, read.written.take())?;
        self.add_node_data(context, &mut builder, &read.index)?;
        builder.finish()
    }

    /// Refuses what can be refused before the edges are read, which may take long: files that are
    /// not there, and splits that cannot be drawn.
    fn check_node_data(&self) -> Result<()> {
        let communities = self.communities.iter().map(|(path, _)| path);
        let files = self.features.iter().chain(&self.labels).chain(communities).chain(&self.splits);
        files.chain(&self.nodes_file).try_for_each(|path| text::open_file(path).map(drop))?;
        splits::check(&self.draw)
    }

    /// Adds features, labels and splits.
    pub(crate) fn add_node_data(
        &self,
        context: &Context,
        builder: &mut DatasetBuilder,
        index: &NodeIndex,
    ) -> Result<()> {
        if let Some(path) = &self.features {
            let summary = features::add(context, builder, index, path, self.missing_features_zero)?;
            if summary.missing > 0 {
                context
                    .observer
                    .note(&format!("{} nodes had no features and got zeros", summary.missing));
            }
        }
        let labels = match (&self.labels, &self.communities) {
            (Some(path), _) => Some(labels::from_table(context, index, path)?),
            (None, Some((path, choice))) => {
                Some(labels::from_communities(context, index, path, *choice)?)
            }
            (None, None) => None,
        };
        if let Some(labels) = &labels {
            builder.add_labels(labels)?;
        }
        let mut all_splits = Vec::new();
        for path in &self.splits {
            all_splits.extend(splits::from_table(context, index, path)?);
        }
        all_splits.extend(splits::draw(
            &self.draw,
            labels.as_ref(),
            index.nodes(),
            index.position(),
            context.seed,
        )?);
        if !all_splits.is_empty() {
            builder.add_splits(&all_splits)?;
        }
        Ok(())
    }

    /// The options that shaped the result, for the manifest.
    fn options(&self, context: &Context) -> BTreeMap<String, String> {
        let mut options = BTreeMap::new();
        let mut set = |name: &str, value: String| options.insert(name.to_string(), value);
        let name = |path: &PathBuf| {
            path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
        };
        let names = |paths: &[PathBuf]| paths.iter().map(name).collect::<Vec<_>>().join(" ");
        set("files", names(&self.files));
        set("directed", self.relation.directed.to_string());
        set("duplicates", format!("{:?}", self.relation.duplicates).to_lowercase());
        set("self-loops", format!("{:?}", self.relation.self_loops).to_lowercase());
        set("normalise", format!("{:?}", self.relation.normalise).to_lowercase());
        for (option, path) in [
            ("features", &self.features),
            ("labels", &self.labels),
            ("nodes-file", &self.nodes_file),
        ] {
            if let Some(path) = path {
                set(option, name(path));
            }
        }
        if let Some((path, choice)) = &self.communities {
            set("communities", format!("{} {choice:?}", name(path)));
        }
        if !self.splits.is_empty() {
            set("splits", names(&self.splits));
        }
        if !self.draw.is_empty() {
            set("split", self.draw.join(" "));
            set("seed", context.seed.to_string());
        }
        options
    }

    fn node_list(&self, context: &Context) -> Result<Option<NodeList>> {
        let integer = match self.ids {
            IdChoice::Auto => None,
            IdChoice::Integer => Some(true),
            IdChoice::String => Some(false),
        };
        let limit = Reader::id_memory(context);
        self.nodes_file.as_ref().map(|path| NodeList::read(path, integer, limit)).transpose()
    }

    /// Ids `0 .. this` exist: by the user's word, by the form of the files, or by features without
    /// ids.
    fn least_nodes(&self, files: &EdgeFiles) -> Result<u64> {
        let least = files.least_nodes;
        if let Some(count) = self.node_count {
            if !files.integer {
                let what = "--nodes counts integer ids, but the ids are strings: list the nodes with --nodes-file";
                return Err(IngestError::Usage(what.into()));
            }
            if least > count {
                let what = format!("{least} nodes (expected at most {count}, as --nodes says)");
                return Err(IngestError::file(files.first_path(), what));
            }
            return Ok(count);
        }
        match &self.features {
            Some(path) if files.integer && self.nodes_file.is_none() => {
                Ok(least.max(features::rows_by_position(path)?.unwrap_or(0)))
            }
            _ => Ok(least),
        }
    }

    /// Builds the adjacency; a second time where the nodes are to be reordered by what the first
    /// one shows.
    fn build(
        &self,
        builder: &mut DatasetBuilder,
        read: &mut Relabelled,
        context: &Context,
    ) -> Result<Built> {
        let (index, rank) = (&read.index, &read.rank);
        let describe = |node: u32| index.name(node);
        let map = read_map(index, rank);
        let reorder = self.order != Order::None;
        if reorder {
            let (nodes, edges) = (index.nodes(), read.edges.len());
            let entries = nodes + if self.relation.directed { edges } else { 2 * edges };
            order::check_memory(
                self.order,
                nodes,
                entries,
                self.relation.directed,
                context.memory,
            )?;
            if matches!(index.known(), KnownIds::OnDisk(_)) {
                let what = "--order needs the node ids in memory, and they do not fit: raise --memory, or use --order none";
                return Err(IngestError::Usage(what.into()));
            }
        }
        let built =
            builder.build(RELATION, &mut read.edges, map, &self.relation, &describe, reorder)?;
        if !reorder {
            return Ok(built);
        }
        context.observer.phase("order nodes", Some(index.nodes()), Unit::Items("nodes"));
        let directory = relation_path(builder.path(), RELATION);
        let open = |direction| {
            let entry = &built.entry;
            CsrFile::open(&directory, direction, index.nodes(), entry.nonzeros, entry.weighted)
        };
        let incoming = open("in")?;
        let outgoing = if built.entry.symmetric { None } else { Some(open("out")?) };
        let position = order::positions(
            self.order,
            &Pattern { incoming: &incoming, outgoing: outgoing.as_ref() },
        );
        drop((incoming, outgoing));
        let spilled = built.counts.spilled;
        builder.discard_built(built)?;
        builder.set_order(match self.order {
            Order::None => "none",
            Order::Degree => "degree",
            Order::Rcm => "rcm",
        });
        let composed: Vec<u32> = rank.iter().map(|&node| position[node as usize]).collect();
        let map = match map {
            NodeMap::Rank(set) => NodeMap::RankTable(set, &position),
            NodeMap::Table(_) => NodeMap::Table(&composed),
            _ => NodeMap::Table(&position),
        };
        let mut built =
            builder.build(RELATION, &mut read.edges, map, &self.relation, &describe, false)?;
        built.counts.spilled += spilled;
        read.index.reorder(position);
        Ok(built)
    }
}

/// Writes the ids of all nodes, unless a writer did so on the way.
pub(crate) fn add_ids(
    builder: &mut DatasetBuilder,
    index: &NodeIndex,
    written: Option<IdsWriter>,
) -> Result<()> {
    if let Some(writer) = written {
        return builder.add_ids_written(writer);
    }
    if let Some(ids) = index.reordered() {
        return builder.add_ids(&ids);
    }
    match index.known() {
        KnownIds::Counting => builder.add_ids_counting(),
        KnownIds::Set(set) => builder.add_ids_streamed(set.iter().map(u64::from)),
        KnownIds::Integers(ids) | KnownIds::Listed(NodeList::Integers(ids, _)) => {
            builder.add_integer_ids(ids)
        }
        KnownIds::Strings(ids) | KnownIds::Listed(NodeList::Strings(ids, _)) => {
            builder.add_string_ids(ids.iter().map(|id| &**id))
        }
        KnownIds::OnDisk(_) => unreachable!("ids on disk were written on the way"),
    }
}

/// From the numbers in the spool to node numbers.
fn read_map<'a>(index: &'a NodeIndex, rank: &'a [u32]) -> NodeMap<'a> {
    match index.known() {
        KnownIds::Set(set) => NodeMap::Rank(set),
        _ if !rank.is_empty() => NodeMap::Table(rank),
        _ => NodeMap::Identity,
    }
}
