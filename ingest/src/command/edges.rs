//! `ignn ingest edges`: turns edge files of any format, with features, labels and splits, into a
//! dataset.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ignn_format::csr::CsrFile;
use ignn_format::dataset::relation_path;

use crate::builder::{self, DatasetBuilder, DatasetSummary, RELATION};
use crate::command::node_data::{NodeData, add_ids, file_name, file_names};
use crate::context::{Context, Unit};
use crate::edges::map::NodeMap;
use crate::edges::options::{Duplicates, RelationOptions};
use crate::error::{IngestError, Result};
use crate::features;
use crate::nodes::NodeLookup;
use crate::order::{self, Order, Pattern};
use crate::relabel::index::{KnownIds, NodeIndex, NodeList};
use crate::relabel::{Reader, Relabelled};
use crate::relation::BuiltRelation;
use crate::source::edge_input::{EdgeInput, IdChoice};
use crate::source::edges::EdgeFiles;
use crate::source::text;

/// Options of `ignn ingest edges`.
#[derive(Clone, Debug)]
pub struct IngestEdges {
    /// The edge files and how they are read.
    pub input: EdgeInput,
    /// The dataset directory to create.
    pub out: PathBuf,
    /// Replace an existing target.
    pub force: bool,
    /// Direction, normalisation, duplicates, self-loops.
    pub relation: RelationOptions,
    /// Order of the nodes.
    pub order: Order,
    /// Ids `0 .. count - 1` exist, with edges or without.
    pub node_count: Option<u64>,
    /// A file with all node ids, one per line, in node order.
    pub nodes_file: Option<PathBuf>,
    /// Features, labels and splits.
    pub node_data: NodeData,
}

impl IngestEdges {
    /// A job with default options.
    pub fn new(files: Vec<PathBuf>, out: PathBuf) -> Self {
        Self {
            input: EdgeInput::new(files),
            out,
            force: false,
            relation: RelationOptions::default(),
            order: Order::None,
            node_count: None,
            nodes_file: None,
            node_data: NodeData::default(),
        }
    }

    /// Runs the job.
    pub fn run(&self, context: &Context) -> Result<DatasetSummary> {
        self.node_data.check(context)?;
        self.nodes_file.iter().try_for_each(|path| text::open_file(path).map(drop))?;
        let mut builder = DatasetBuilder::begin(
            context,
            builder::claim(&self.out, self.force)?,
            "ingest edges",
            self.options(context),
        )?;
        let scratch = builder.scratch();
        let files = EdgeFiles::open(&self.input, self.relation.directed, self.node_count);
        let files = files.map_err(|error| self.explain_target(context, error))?;
        files.guesses.iter().for_each(|guess| context.observer.note(guess));
        builder.add_read_as(files.read_as());
        let list = self.node_list(context)?;
        let about = |error: IngestError| error.about(files.first_path());
        let min_nodes = self.min_nodes(&files).map_err(about)?;
        builder.set_nodes(min_nodes).map_err(about)?;
        // To sum unweighted duplicates, each edge needs a weight of 1.
        let weighted = files.weighted || self.relation.duplicates == Duplicates::Sum;
        let reader = Reader {
            context,
            files: &files,
            scratch: &scratch,
            dataset: builder.path(),
            budget: builder.budget(),
            min_nodes,
            listed_in: match &self.node_data.table {
                Some(table) => Some(&table.file),
                None => self.nodes_file.as_deref(),
            },
        };
        let mut read = reader.read(weighted, list)?;
        files.finish()?;
        if read.edges.is_empty() && min_nodes == 0 {
            return Err(IngestError::file(files.first_path(), "no edges (expected at least one)"));
        }
        if let Some(count) = self.node_count
            && read.index.nodes() > count
        {
            return Err(files.id_out_of_range(count, "as --nodes says"));
        }
        builder.set_nodes(read.index.nodes()).map_err(about)?;
        let built = self.build(&mut builder, &mut read, context).map_err(about)?;
        builder.add_built(built);
        add_ids(&mut builder, &read.index, read.written.take())?;
        self.node_data.add(context, &mut builder, &read.index)?;
        builder.finish()
    }

    /// Improves the message about a target that the edges lack, but the node table has: it is meant as
    /// what is predicted.
    fn explain_target(&self, context: &Context, error: IngestError) -> IngestError {
        match (&self.input.target, &self.node_data.table, error) {
            (Some(name), Some(table), IngestError::File { path, what })
                if table.open(context).is_ok_and(|table| table.position(name).is_ok()) =>
            {
                let table = table.file.display();
                let what = format!(
                    "{what}; --target is an end of edges: to predict the numbers of column {name:?} \
                     of {table}, pass --regress {name}"
                );
                IngestError::File { path, what }
            }
            (.., error) => error,
        }
    }

    /// The options that affect the result, for the manifest.
    fn options(&self, context: &Context) -> BTreeMap<String, String> {
        let mut options = BTreeMap::new();
        let mut set = |name: &str, value: String| options.insert(name.to_string(), value);
        set("files", file_names(&self.input.files));
        set("directed", self.relation.directed.to_string());
        set("duplicates", format!("{:?}", self.relation.duplicates).to_lowercase());
        set("self-loops", format!("{:?}", self.relation.self_loops).to_lowercase());
        set("normalise", format!("{:?}", self.relation.normalise).to_lowercase());
        if let Some(path) = &self.nodes_file {
            set("nodes-file", file_name(path));
        }
        self.node_data.record(context, &mut options);
        options
    }

    fn node_list(&self, context: &Context) -> Result<Option<NodeList>> {
        let integer = match self.input.ids {
            IdChoice::Auto => None,
            IdChoice::Integer => Some(true),
            IdChoice::String => Some(false),
        };
        if let Some(table) = &self.node_data.table {
            return table.list(context, integer).map(Some);
        }
        let limit = Reader::id_memory(context);
        self.nodes_file.as_ref().map(|path| NodeList::read(path, integer, limit)).transpose()
    }

    /// Ids below this number exist even without edges: because the user says so, because of the
    /// format of the edge files, or because there are that many rows of features without ids.
    fn min_nodes(&self, files: &EdgeFiles) -> Result<u64> {
        let least = files.min_nodes;
        if let Some(count) = self.node_count {
            if !files.integer {
                let what = "--nodes counts integer ids, but the ids are text: list the nodes with \
                            --nodes-file, or insist on integers with --ids integer";
                return Err(IngestError::Usage(what.into()));
            }
            if least > count {
                let what = format!("{least} nodes (expected at most {count}, as --nodes says)");
                return Err(IngestError::file(files.first_path(), what));
            }
            return Ok(count);
        }
        match &self.node_data.features {
            Some(path) if files.integer && self.nodes_file.is_none() => {
                Ok(least.max(features::rows_by_position(path)?.unwrap_or(0)))
            }
            _ => Ok(least),
        }
    }

    /// Builds the adjacency. To reorder the nodes, it is built twice: the new order is computed
    /// from the first adjacency.
    fn build(
        &self,
        builder: &mut DatasetBuilder,
        read: &mut Relabelled,
        context: &Context,
    ) -> Result<BuiltRelation> {
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
                let what = "--order needs the node ids in memory, and they do not fit: raise \
                            --memory, or use --order none";
                return Err(IngestError::Usage(what.into()));
            }
        }
        let built =
            builder.build(RELATION, &mut read.edges, map, &self.relation, &describe, reorder)?;
        let directory = relation_path(builder.path(), RELATION);
        let open = |direction| {
            let entry = &built.entry;
            CsrFile::open(&directory, direction, index.nodes(), entry.nonzeros, entry.weighted)
        };
        if !reorder {
            if index.nodes() >= order::MANY_NODES
                && let Some(advice) = order::advice(open("in")?.offsets())
            {
                context.observer.note(&advice);
            }
            return Ok(built);
        }
        context.observer.phase("order nodes", Some(index.nodes()), Unit::Items("nodes"));
        let incoming = open("in")?;
        let outgoing = if built.entry.symmetric { None } else { Some(open("out")?) };
        let position = order::positions(
            self.order,
            &Pattern { incoming: &incoming, outgoing: outgoing.as_ref() },
        );
        drop((incoming, outgoing));
        let spilled = built.counts.spilled;
        builder.discard_built(built)?;
        builder.set_order(self.order.word());
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

/// The map from the numbers in the spool to node numbers.
fn read_map<'a>(index: &'a NodeIndex, rank: &'a [u32]) -> NodeMap<'a> {
    match index.known() {
        KnownIds::Set(set) => NodeMap::Rank(set),
        _ if !rank.is_empty() => NodeMap::Table(rank),
        _ => NodeMap::Identity,
    }
}

#[cfg(test)]
mod tests;
