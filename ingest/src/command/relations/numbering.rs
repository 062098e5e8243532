//! One numbering of the nodes for all relations: reads every file and list once and maps its ids to
//! shared numbers. Building the relations is not done here.
//!
//! The nodes are those that the specification counts or lists. Without either, they are the union
//! of the ids in all relations and in the lists' columns of the target type, and of the rows of
//! features without ids. That union is held in memory.

use std::path::Path;

use crate::builder::DatasetBuilder;
use crate::command::relations::spec::{Edges, Nodes, Spec};
use crate::context::Context;
use crate::edges::map::{BitRank, NodeMap};
use crate::edges::options::Duplicates;
use crate::edges::spool::{EdgeSpool, Plain, Spool};
use crate::error::{IngestError, Result};
use crate::features;
use crate::nodes::NodeLookup;
use crate::relabel::index::{KnownIds, NodeIndex, NodeList};
use crate::relabel::pairs::{self, GatheredIds, IdMemory, IdRef, TypeIds};
use crate::relabel::{Reader, Relabelled};
use crate::source::edge_input::IdChoice;
use crate::source::edge_list::LISTED;
use crate::source::edges::EdgeFiles;

/// All input of a job, with one shared numbering of the nodes.
pub struct Numbered {
    /// The nodes.
    pub index: NodeIndex,
    /// Edges of the relations that come from files.
    pub relations: Vec<Option<NumberedEdges>>,
    /// Pairs of the lists that paths use.
    pub lists: Vec<Option<NumberedList>>,
    /// Number of entities of each type.
    pub sizes: Vec<u64>,
    /// From the numbers in the lists to node numbers, for the target type where they differ.
    pub places: Vec<Option<Vec<u32>>>,
    /// How the files of relations and lists were read, for people.
    pub read_as: Vec<String>,
}

/// Edges, and the map from their numbers to node numbers.
pub struct NumberedEdges {
    /// The edges.
    pub edges: EdgeSpool,
    /// The map.
    pub map: EdgeMap,
}

/// From the numbers in a spool to node numbers; see [`NodeMap`].
pub enum EdgeMap {
    /// They are node numbers.
    Identity,
    /// Through a table.
    Table(Vec<u32>),
    /// By rank in the relation's own set of ids, then through a table.
    Ranked(NodeIndex, Vec<u32>),
}

/// Pairs of a list.
pub struct NumberedList {
    /// Types of its columns.
    pub types: [usize; 2],
    /// The pairs.
    pub pairs: Spool<Plain>,
}

impl Numbered {
    /// Number of nodes.
    pub fn nodes(&self) -> u64 {
        self.index.nodes()
    }
}

impl EdgeMap {
    /// A view of this map for building a relation.
    pub fn as_map(&self) -> NodeMap<'_> {
        match self {
            Self::Identity => NodeMap::Identity,
            Self::Table(table) => NodeMap::Table(table),
            Self::Ranked(index, table) => match index.known() {
                KnownIds::Set(set) => NodeMap::RankTable(set, table),
                _ => NodeMap::Table(table),
            },
        }
    }
}

/// Reads all input.
pub fn read(context: &Context, builder: &DatasetBuilder, spec: &Spec) -> Result<Numbered> {
    let input = Input::open(context, spec)?;
    let job = Job { context, builder, spec, input: &input };
    let known = match (&spec.nodes, job.node_list()?) {
        (Nodes::Count(count), _) => Some(NodeIndex::new(KnownIds::Consecutive, *count)),
        (_, Some(list)) => {
            let nodes = list.len() as u64;
            Some(NodeIndex::new(KnownIds::Listed(list), nodes))
        }
        (_, None) => None,
    };
    let (mut types, lists) = job.read_lists(known.as_ref())?;
    let mut sizes: Vec<u64> = types.iter().map(TypeIds::len).collect();
    let mut places = vec![None; types.len()];
    let target = match input.target.map(|at| types.swap_remove(at)) {
        Some(TypeIds::Gathered(ids)) => Some(ids),
        _ => None,
    };
    drop(types);
    let read = job.read_relations()?;
    let index = match known {
        Some(index) => index,
        None => job.union(target.as_ref(), &read)?,
    };
    if let Some(at) = input.target {
        sizes[at] = index.nodes();
        places[at] = target.and_then(|ids| ids.places(|id| place(&index, id)));
    }
    let mut relations = Vec::new();
    for (files, read) in input.relations.iter().zip(read) {
        relations.push(match (files, read) {
            (Some(files), Some(read)) => Some(job.numbered(files, read, &index)?),
            _ => None,
        });
    }
    let files = input.relations.iter().chain(&input.lists).flatten();
    let read_as = files.flat_map(EdgeFiles::read_as).collect();
    Ok(Numbered { index, relations, lists, sizes, places, read_as })
}

/// The opened files of a specification.
struct Input {
    relations: Vec<Option<EdgeFiles>>,
    /// Lists that no path uses are not opened.
    lists: Vec<Option<EdgeFiles>>,
    /// All types of those lists.
    types: Vec<String>,
    /// Position of the target type among them.
    target: Option<usize>,
}

impl Input {
    fn open(context: &Context, spec: &Spec) -> Result<Self> {
        let count = match spec.nodes {
            Nodes::Count(count) => Some(count),
            _ => None,
        };
        let mut relations = Vec::new();
        for relation in &spec.relations {
            relations.push(match &relation.edges {
                Edges::Path(_) => None,
                Edges::Files(input, options) => {
                    let mut input = input.clone();
                    if count.is_some() && input.ids == IdChoice::Auto {
                        input.ids = IdChoice::Integer;
                    }
                    let open = EdgeFiles::open(&input, options.directed, count);
                    let key = format!("relations.{}.file", relation.name);
                    let files = open.map_err(|error| spec.about(&key, &error))?;
                    files.guesses.iter().for_each(|guess| context.observer.note(guess));
                    Some(files)
                }
            });
        }
        let used = |list: usize| {
            let mut paths = spec.relations.iter().filter_map(|relation| match &relation.edges {
                Edges::Path(path) => Some(path),
                Edges::Files(..) => None,
            });
            paths.any(|path| path.steps.iter().any(|step| step.list == list))
        };
        let (mut lists, mut types) = (Vec::new(), Vec::new());
        for (at, list) in spec.lists.iter().enumerate() {
            if !used(at) {
                context
                    .observer
                    .note(&format!("list {} is not used by any path and was not read", list.name));
                lists.push(None);
                continue;
            }
            let open = pairs::open(&list.input, &list.columns);
            let key = format!("lists.{}.file", list.name);
            lists.push(Some(open.map_err(|error| spec.about(&key, &error))?));
            types.extend(list.columns.clone());
        }
        types.sort_unstable();
        types.dedup();
        let target = types.iter().position(|name| *name == spec.target);
        Ok(Self { relations, lists, types, target })
    }

    /// The files with ids of the target type: those of relations, then those of lists.
    fn target_files<'a>(&'a self, spec: &'a Spec) -> impl Iterator<Item = &'a EdgeFiles> {
        let of_target = |at: &usize| spec.lists[*at].columns.contains(&spec.target);
        let lists =
            (0..self.lists.len()).filter(of_target).filter_map(|at| self.lists[at].as_ref());
        self.relations.iter().flatten().chain(lists)
    }
}

/// What is needed to read the input.
struct Job<'a> {
    context: &'a Context<'a>,
    builder: &'a DatasetBuilder<'a>,
    spec: &'a Spec,
    input: &'a Input,
}

/// The ids of all types, and the lists.
type ReadLists<'k> = (Vec<TypeIds<'k>>, Vec<Option<NumberedList>>);

impl Job<'_> {
    /// The nodes, where the specification lists them.
    fn node_list(&self) -> Result<Option<NodeList>> {
        Ok(match (&self.spec.nodes, &self.spec.node_data.table) {
            (Nodes::File(path), _) => {
                Some(NodeList::read(path, None, Reader::id_memory(self.context))?)
            }
            (Nodes::Table, Some(table)) => Some(table.list(self.context, None)?),
            _ => None,
        })
    }

    fn read_lists<'k>(&self, known: Option<&'k NodeIndex>) -> Result<ReadLists<'k>> {
        let (input, spec) = (self.input, self.spec);
        let integer = |kind: &String| {
            let mut lists =
                spec.lists.iter().zip(&input.lists).filter(|(list, _)| list.columns.contains(kind));
            let in_lists = lists.all(|(_, files)| files.as_ref().is_none_or(|files| files.integer));
            in_lists
                && (*kind != spec.target
                    || input.relations.iter().flatten().all(|files| files.integer))
        };
        let ids = |kind: &String| match known {
            Some(index) if *kind == spec.target => TypeIds::Known(index),
            _ if integer(kind) => TypeIds::Gathered(GatheredIds::Integers(Default::default())),
            _ => TypeIds::Gathered(GatheredIds::Strings(Default::default())),
        };
        let mut types: Vec<TypeIds> = input.types.iter().map(ids).collect();
        let mut memory = IdMemory { limit: Reader::id_memory(self.context), used: 0 };
        let mut lists = Vec::new();
        for (list, files) in spec.lists.iter().zip(&input.lists) {
            let Some(files) = files else {
                lists.push(None);
                continue;
            };
            let position =
                |kind: &String| input.types.iter().position(|name| name == kind).unwrap_or(0);
            let columns = [position(&list.columns[0]), position(&list.columns[1])];
            let mut pairs = Spool::new(&self.builder.scratch(), self.builder.budget());
            pairs::read(self.context, files, &mut types, columns, &mut memory, &mut pairs)
                .map_err(|error| self.explain_unknown_node(known, error))?;
            pairs.settle()?;
            lists.push(Some(NumberedList { types: columns, pairs }));
        }
        Ok((types, lists))
    }

    /// Reads the edges of all relations from files, each with a numbering of its own.
    fn read_relations(&self) -> Result<Vec<Option<Relabelled>>> {
        let scratch = self.builder.scratch();
        // The ids of all relations are in memory at the same time.
        let several = self.input.relations.iter().flatten().count().max(1) as u64;
        let Context { threads, memory, seed, observer } = *self.context;
        let share = Context { threads, memory: memory / several, seed, observer };
        let mut all = Vec::new();
        for (relation, files) in self.spec.relations.iter().zip(&self.input.relations) {
            let (Edges::Files(_, options), Some(files)) = (&relation.edges, files) else {
                all.push(None);
                continue;
            };
            self.check_kind(files)?;
            // To sum unweighted duplicates, each edge needs a weight of 1.
            let weighted = files.weighted || options.duplicates == Duplicates::Sum;
            let list = self.node_list()?;
            let reader = Reader {
                context: &share,
                files,
                scratch: &scratch,
                dataset: self.builder.path(),
                budget: self.builder.budget(),
                min_nodes: 0,
                listed_in: self.listed_in(),
            };
            let mut read = reader.read(weighted, list)?;
            read.edges.settle()?;
            files.finish()?;
            if read.edges.is_empty() && files.min_nodes == 0 {
                return Err(IngestError::file(files.first_path(), "no edges"));
            }
            if matches!(read.index.known(), KnownIds::OnDisk(_)) {
                let what =
                    "the node ids of all relations together do not fit in memory: raise --memory";
                return Err(IngestError::file(files.first_path(), what));
            }
            all.push(Some(read));
        }
        Ok(all)
    }

    /// Rejects integer ids if other files have strings.
    fn check_kind(&self, files: &EdgeFiles) -> Result<()> {
        let path = files.first_path();
        match &self.spec.nodes {
            Nodes::Count(_) if !files.integer => {
                let what = "node ids are text, but the specification counts nodes: list them with \
                            nodes = \"FILE\"";
                Err(IngestError::file(path, what))
            }
            Nodes::Seen if files.integer => {
                match self.input.target_files(self.spec).find(|files| !files.integer) {
                    Some(other) => {
                        let what = format!(
                            "node ids are integers, but those of {} are text",
                            other.first_path().display()
                        );
                        Err(IngestError::file(
                            path,
                            format!("{what}: set ids = \"string\" for this relation"),
                        ))
                    }
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// The nodes of a specification that neither counts nor lists them.
    fn union(
        &self,
        target: Option<&GatheredIds>,
        read: &[Option<Relabelled>],
    ) -> Result<NodeIndex> {
        let limit = Reader::id_memory(self.context);
        if self.input.target_files(self.spec).any(|files| !files.integer) {
            let mut ids: Vec<Box<str>> = Vec::new();
            if let Some(GatheredIds::Strings(map)) = target {
                ids.extend(map.keys().cloned());
            }
            for read in read.iter().flatten() {
                if let KnownIds::Strings(more) = read.index.known() {
                    ids.extend(more.iter().cloned());
                }
            }
            ids.sort_unstable();
            ids.dedup();
            let nodes = ids.len() as u64;
            return Ok(NodeIndex::new(KnownIds::Strings(ids), nodes));
        }
        let least = self.min_nodes()?;
        let each = |visit: &mut dyn FnMut(u64)| {
            if let Some(GatheredIds::Integers(map)) = target {
                map.keys().for_each(|&id| visit(id));
            }
            read.iter().flatten().for_each(|read| integers(&read.index).for_each(&mut *visit));
        };
        let (mut most, mut count) = (least.saturating_sub(1), least);
        each(&mut |id| (most, count) = (most.max(id), count + 1));
        if most < u64::from(u32::MAX) && most / 8 <= limit {
            let mut words = vec![0u64; most as usize / 64 + 1];
            let mut mark = |id: u64| words[id as usize / 64] |= 1 << (id % 64);
            (0..least).for_each(&mut mark);
            each(&mut mark);
            let set = BitRank::new(words);
            let nodes = set.members();
            return Ok(NodeIndex::new(KnownIds::Set(set), nodes));
        }
        if count.saturating_mul(size_of::<u64>() as u64) > limit {
            let what =
                format!("{count} node ids need more than {} MiB: raise --memory", limit >> 20);
            return Err(IngestError::file(&self.spec.path, what));
        }
        let mut ids: Vec<u64> = (0..least).collect();
        each(&mut |id| ids.push(id));
        ids.sort_unstable();
        ids.dedup();
        let nodes = ids.len() as u64;
        Ok(NodeIndex::new(KnownIds::Integers(ids), nodes))
    }

    /// Ids below this number exist even without edges: because of the shape of a matrix, or because
    /// there are that many rows of features without ids.
    fn min_nodes(&self) -> Result<u64> {
        let mut least =
            self.input.relations.iter().flatten().map(|files| files.min_nodes).max().unwrap_or(0);
        for (list, files) in self.spec.lists.iter().zip(&self.input.lists) {
            let columns =
                list.columns.iter().zip(files.as_ref().map_or([0; 2], |files| files.shape));
            least = columns
                .filter(|(kind, _)| **kind == self.spec.target)
                .fold(least, |l, (_, ids)| l.max(ids));
        }
        if let Some(path) = &self.spec.node_data.features {
            least = least.max(features::rows_by_position(path)?.unwrap_or(0));
        }
        Ok(least)
    }

    /// Maps the numbers of a relation to those of all nodes.
    fn numbered(
        &self,
        files: &EdgeFiles,
        read: Relabelled,
        index: &NodeIndex,
    ) -> Result<NumberedEdges> {
        let Relabelled { edges, index: own, rank, .. } = read;
        if matches!(self.spec.nodes, Nodes::File(_) | Nodes::Table) {
            return Ok(NumberedEdges { edges, map: EdgeMap::Identity });
        }
        // Without a rank, the numbers are the ids themselves.
        if rank.is_empty() && index.is_consecutive() {
            if integers(&own).last().is_none_or(|last| last < index.nodes()) {
                return Ok(NumberedEdges { edges, map: EdgeMap::Identity });
            }
            return Err(id_out_of_range(files, index));
        }
        let places: Option<Vec<u32>> = match own.known() {
            KnownIds::Strings(ids) => ids.iter().map(|id| place(index, IdRef::Text(id))).collect(),
            _ => integers(&own).map(|id| place(index, IdRef::Integer(id))).collect(),
        };
        let places = places.ok_or_else(|| id_out_of_range(files, index))?;
        let map = if rank.is_empty() {
            EdgeMap::Ranked(own, places)
        } else {
            EdgeMap::Table(rank.iter().map(|&node| places[node as usize]).collect())
        };
        Ok(NumberedEdges { edges, map })
    }

    /// The file that lists the nodes, if one does.
    fn listed_in(&self) -> Option<&Path> {
        match (&self.spec.nodes, &self.spec.node_data.table) {
            (Nodes::File(path), _) => Some(path),
            (Nodes::Table, Some(table)) => Some(&table.file),
            _ => None,
        }
    }

    /// Improves a message about an unknown node: by the number of nodes, or the file that lists them.
    fn explain_unknown_node(&self, known: Option<&NodeIndex>, error: IngestError) -> IngestError {
        if let (Some(KnownIds::Listed(list)), Some(file)) =
            (known.map(NodeIndex::known), self.listed_in())
        {
            return list.explain(error, file);
        }
        match (error, &self.spec.nodes) {
            (IngestError::Line { path, line, expected, found }, Nodes::Count(count))
                if expected == LISTED =>
            {
                let expected = format!("a node id below {count}, {AS_SPECIFIED}");
                IngestError::Line { path, line, expected, found }
            }
            (error, _) => error,
        }
    }
}

/// The error for the first id that is not below the number of nodes.
fn id_out_of_range(files: &EdgeFiles, index: &NodeIndex) -> IngestError {
    files.id_out_of_range(index.nodes(), AS_SPECIFIED)
}

/// Explains in messages where a limit comes from.
const AS_SPECIFIED: &str = "as set by nodes in the specification";

/// The node with an id.
fn place(index: &NodeIndex, id: IdRef) -> Option<u32> {
    // Only ids on disk can fail, and there are none here.
    match id {
        IdRef::Integer(id) => index.find_integer(id).ok().flatten(),
        IdRef::Text(id) => index.find_string(id).ok().flatten(),
    }
}

/// The integer ids of an index in the order of its nodes.
fn integers(index: &NodeIndex) -> Box<dyn Iterator<Item = u64> + '_> {
    match index.known() {
        KnownIds::Consecutive => Box::new(0..index.nodes()),
        KnownIds::Set(set) => Box::new(set.iter().map(u64::from)),
        KnownIds::Integers(ids) => Box::new(ids.iter().copied()),
        _ => Box::new(std::iter::empty()),
    }
}
