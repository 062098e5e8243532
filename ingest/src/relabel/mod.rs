//! From the ids in the files to node numbers `0 .. n`, in the order of the ids. There are three
//! methods; the available memory decides which one is used.
//!
//! | method | ids | memory |
//! | --- | --- | --- |
//! | [`bitmap`] | integers below a limit that depends on the memory | one bit per id |
//! | [`intern`] | any, while their table fits in memory | tens of bytes per node |
//! | [`external`] | any | one bucket at a time, through the disk |
//!
//! Each method reads the files and, if its memory does not suffice, gives way to the next, which
//! reads them again. All three give the same numbers.

pub mod bitmap;
pub mod external;
pub mod index;
pub mod intern;
pub mod pairs;

use std::path::Path;

use ignn_format::ids::IdsWriter;

use crate::context::{Context, Unit};
use crate::edges::spool::{Edge, EdgeSpool, Spool};
use crate::edges::store::Budget;
use crate::error::{IngestError, Result};
use crate::pipeline;
use crate::source::edge_list::Pushed;
use crate::source::edges::EdgeFiles;
use index::{KnownIds, NodeIndex, NodeList};

/// Edges read, with the ids of their nodes.
pub struct Relabelled {
    /// The edges, in provisional or final numbers.
    pub edges: EdgeSpool,
    /// The ids.
    pub index: NodeIndex,
    /// Provisional numbers to final ones, for [`KnownIds::Integers`] and [`KnownIds::Strings`].
    pub rank: Vec<u32>,
    /// The ids, if they were written while they were read.
    pub written: Option<IdsWriter>,
}

/// What is needed to read edges.
pub struct Reader<'a> {
    /// Threads, memory, observer.
    pub context: &'a Context<'a>,
    /// The files.
    pub files: &'a EdgeFiles,
    /// For spilling.
    pub scratch: &'a Path,
    /// The unfinished dataset.
    pub dataset: &'a Path,
    /// Memory for chunks.
    pub budget: &'a Budget,
    /// Integer ids below this number exist even without edges.
    pub min_nodes: u64,
    /// The file that lists the nodes, if one does.
    pub listed_in: Option<&'a Path>,
}

impl Reader<'_> {
    /// Reads all edges. With `weighted`, the spool has weights, which are 1 if the files have none.
    pub fn read(&self, weighted: bool, list: Option<NodeList>) -> Result<Relabelled> {
        if weighted {
            self.read_edges(EdgeSpool::Weighted, list)
        } else {
            self.read_edges(EdgeSpool::Plain, list)
        }
    }

    /// The share of the memory for ids.
    pub fn id_memory(context: &Context) -> u64 {
        context.memory / 4
    }

    fn read_edges<E: Edge>(
        &self,
        wrap: fn(Spool<E>) -> EdgeSpool,
        list: Option<NodeList>,
    ) -> Result<Relabelled> {
        let fresh = || Spool::<E>::new(self.scratch, self.budget);
        let limit = Self::id_memory(self.context);
        let observer = self.context.observer;
        let start = || observer.phase("read edges", Some(self.files.bytes), Unit::Bytes);
        let done = |spool, ids, nodes, rank| Relabelled {
            edges: wrap(spool),
            index: NodeIndex::new(ids, nodes),
            rank,
            written: None,
        };
        start();
        let mut spool = fresh();
        if let Some(list) = list {
            let read = self.read_listed(&list, &mut spool);
            read.map_err(|error| match self.listed_in {
                Some(file) => list.explain(error, file),
                None => error,
            })?;
            let nodes = list.len() as u64;
            return Ok(done(spool, KnownIds::Listed(list), nodes, Vec::new()));
        }
        if self.files.integer {
            if let Some(set) =
                bitmap::read(self.context, self.files, &mut spool, limit / 2 * 8, self.min_nodes)?
            {
                let nodes = set.members();
                return Ok(done(spool, KnownIds::Set(set), nodes, Vec::new()));
            }
            drop(spool);
            let mut spool = fresh();
            start();
            if let Some(found) = intern::read::<u64, E>(
                self.context,
                self.files,
                &mut spool,
                limit,
                0..self.min_nodes,
            )? {
                let nodes = found.ids.len() as u64;
                return Ok(done(spool, KnownIds::Integers(found.ids), nodes, found.rank));
            }
            drop(spool);
            return self.read_external::<external::Integers, E>(wrap);
        }
        if let Some(found) =
            intern::read::<Box<str>, E>(self.context, self.files, &mut spool, limit, [])?
        {
            let nodes = found.ids.len() as u64;
            return Ok(done(spool, KnownIds::Strings(found.ids), nodes, found.rank));
        }
        drop(spool);
        self.read_external::<external::Strings, E>(wrap)
    }

    fn read_external<K: external::TokenFamily, E: Edge>(
        &self,
        wrap: fn(Spool<E>) -> EdgeSpool,
    ) -> Result<Relabelled> {
        let mut spool = Spool::<E>::new(self.scratch, self.budget);
        let places = external::Places {
            context: self.context,
            scratch: self.scratch,
            dataset: self.dataset,
            budget: self.budget,
        };
        let (written, keys) =
            external::read::<K, E>(&places, self.files, &mut spool, self.min_nodes)?;
        let nodes = keys.nodes();
        let index = NodeIndex::new(KnownIds::OnDisk(keys), nodes);
        Ok(Relabelled { edges: wrap(spool), index, rank: Vec::new(), written: Some(written) })
    }

    fn read_listed<E: Edge>(&self, list: &NodeList, spool: &mut Spool<E>) -> Result<()> {
        fn pair(source: Option<&u32>, target: Option<&u32>) -> Result<(u32, u32), Pushed> {
            let source = *source.ok_or(Pushed::UnknownSource)?;
            Ok((source, *target.ok_or(Pushed::UnknownTarget)?))
        }
        let work = |item| {
            let item = self.files.load(item)?;
            let mut edges: Vec<E> = Vec::new();
            let mut add = |found: Result<(u32, u32), Pushed>, weight| match found {
                Ok((source, target)) => {
                    edges.push(E::new(source, target, weight));
                    Pushed::Taken
                }
                Err(unknown) => unknown,
            };
            match list {
                NodeList::Integers(_, map) => self
                    .files
                    .parse::<u64>(&item, |s, t, w| add(pair(map.get(&s), map.get(&t)), w))?,
                NodeList::Strings(_, map) => self
                    .files
                    .parse::<&str>(&item, |s, t, w| add(pair(map.get(s), map.get(t)), w))?,
            };
            Ok((edges, self.files.item_bytes(&item)))
        };
        pipeline::ordered(
            self.context.threads,
            self.files.items(),
            work,
            |(edges, bytes): (Vec<E>, u64)| {
                self.context.observer.advance(bytes);
                IngestError::unless_stopped(self.context.observer.is_stopped())?;
                spool.push(&edges)
            },
        )
    }
}
