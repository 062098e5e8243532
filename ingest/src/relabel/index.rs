//! The ids of a dataset's nodes, in each of their representations, and the lookup from id to node.

use std::collections::HashMap;
use std::path::Path;

use ignn_format::ids::{IdKind, Ids};
use ignn_format::nearest::nearest;

use crate::edges::map::BitRank;
use crate::error::{IngestError, Result, quoted};
use crate::nodes::NodeLookup;
use crate::relabel::external::KeyFile;
use crate::relabel::intern::IntegerMap;
use crate::source::edge_list::{self, Key, LISTED};
use crate::source::table::Table;
use crate::source::text::Lines;

/// Ids among which the nearest one is looked for: more would take seconds.
const NEAR_IDS: usize = 1 << 18;

/// Ids in ascending order or as listed, and a new order of the nodes, if there is one.
pub struct NodeIndex {
    ids: KnownIds,
    nodes: u64,
    /// New number of each node, if they were reordered.
    position: Option<Vec<u32>>,
}

/// The ids of all nodes before reordering.
pub enum KnownIds {
    /// Node `i` has id `i`.
    Consecutive,
    /// The members of a set, ascending.
    Set(BitRank),
    /// Integers, ascending.
    Integers(Vec<u64>),
    /// Strings, ascending.
    Strings(Vec<Box<str>>),
    /// As listed by the user.
    Listed(NodeList),
    /// On disk; they are already in the dataset.
    OnDisk(KeyFile),
}

/// Nodes in the order of the user's list.
pub enum NodeList {
    /// Integer ids.
    Integers(Vec<u64>, IntegerMap),
    /// String ids.
    Strings(Vec<Box<str>>, HashMap<Box<str>, u32>),
}

impl NodeList {
    /// Reads a file with one id per line into memory, at most `limit` bytes.
    pub fn read(path: &Path, integer: Option<bool>, limit: u64) -> Result<Self> {
        let (mut names, mut lines_of): (Vec<Box<str>>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut lines = Lines::open(path)?;
        let mut bytes = 0;
        while let Some((line, text)) = lines.next()? {
            let text = text.trim_ascii();
            if text.is_empty() || text[0] == b'#' {
                continue;
            }
            let wrong = |expected| IngestError::line(path, line, expected, quoted(text));
            let id = edge_list::lone_id(text).map_err(wrong)?;
            let name = <&str>::parse(&id).map_err(wrong)?;
            bytes += name.len() as u64 + 120;
            if bytes > limit {
                let what = format!(
                    "the list of nodes needs more than {} MiB: raise --memory",
                    limit >> 20
                );
                return Err(IngestError::file(path, what));
            }
            names.push(name.into());
            lines_of.push(line);
        }
        if names.is_empty() {
            return Err(IngestError::file(path, "no node ids (expected one per line)"));
        }
        Self::of_names(names, integer, |at, expected, found| {
            IngestError::line(path, lines_of[at], expected, found)
        })
    }

    /// The column of ids of a table, at most `limit` bytes of memory.
    pub fn of_table(mut table: Table, integer: Option<bool>, limit: u64) -> Result<Self> {
        let column = table.require_id()?;
        let (mut names, mut numbers): (Vec<Box<str>>, Vec<u64>) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while let Some(batch) = table.next_batch()? {
            for row in 0..batch.rows() {
                let cell = batch.cell(row, column);
                let Some(name) = cell.text() else {
                    return Err(table.error(batch.number(row), "a node id", cell.shown()));
                };
                bytes += name.len() as u64 + 120;
                if bytes > limit {
                    return Err(IngestError::memory(table.path(), "the ids", bytes, limit));
                }
                names.push(name.into());
                numbers.push(batch.number(row));
            }
        }
        Self::of_names(names, integer, |at, expected, found| {
            table.error(numbers[at], expected, found)
        })
    }

    fn of_names(
        names: Vec<Box<str>>,
        integer: Option<bool>,
        wrong: impl Fn(usize, &str, String) -> IngestError,
    ) -> Result<Self> {
        let twice = |at: usize| wrong(at, "each node once", format!("{:?} again", names[at]));
        let integer =
            integer.unwrap_or_else(|| names.iter().all(|name| u64::parse(name.as_bytes()).is_ok()));
        if integer {
            let mut ids = Vec::with_capacity(names.len());
            let mut map = IntegerMap::default();
            for (at, name) in names.iter().enumerate() {
                let id = u64::parse(name.as_bytes());
                let id = id.map_err(|e| wrong(at, e, quoted(name.as_bytes())))?;
                ids.push(id);
                if map.insert(id, at as u32).is_some() {
                    return Err(twice(at));
                }
            }
            return Ok(Self::Integers(ids, map));
        }
        let mut map = HashMap::with_capacity(names.len());
        for (at, name) in names.iter().enumerate() {
            if map.insert(name.clone(), at as u32).is_some() {
                return Err(twice(at));
            }
        }
        Ok(Self::Strings(names, map))
    }

    /// Names the file of the nodes in an error about an id that is none of them, and the nearest id.
    pub fn explain(&self, error: IngestError, origin: &Path) -> IngestError {
        let better = |expected: String, found: &str| {
            if expected != LISTED {
                return expected;
            }
            let near = match self {
                Self::Integers(..) => None,
                Self::Strings(ids, _) => {
                    nearest(found.trim_matches('"'), ids.iter().take(NEAR_IDS).map(|id| &**id))
                }
            };
            let near = near.map(|near| format!(", did you mean {near:?}?")).unwrap_or_default();
            format!("a node of {}{near}", origin.display())
        };
        match error {
            IngestError::Line { path, line, expected, found } => {
                let expected = better(expected, &found);
                IngestError::Line { path, line, expected, found }
            }
            IngestError::Row { path, row, expected, found } => {
                let expected = better(expected, &found);
                IngestError::Row { path, row, expected, found }
            }
            other => other,
        }
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        match self {
            Self::Integers(ids, _) => ids.len(),
            Self::Strings(ids, _) => ids.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl NodeIndex {
    /// An index for this number of nodes; detects ids `0, 1, ..., nodes - 1`.
    pub fn new(ids: KnownIds, nodes: u64) -> Self {
        let counting = match &ids {
            KnownIds::Set(set) => {
                nodes == 0
                    || set.contains(nodes - 1) && u64::from(set.rank(nodes as u32 - 1)) + 1 == nodes
            }
            // If the largest of n distinct integers is n - 1, they are 0 .. n.
            KnownIds::Integers(ids) => ids.last().is_none_or(|&last| last == nodes - 1),
            KnownIds::Listed(NodeList::Integers(ids, _)) => {
                ids.iter().zip(0..).all(|(&id, at)| id == at)
            }
            _ => false,
        };
        Self { ids: if counting { KnownIds::Consecutive } else { ids }, nodes, position: None }
    }

    /// Reorders the nodes: `position[i]` is the new number of node `i`.
    pub fn reorder(&mut self, position: Vec<u32>) {
        self.position = Some(position);
    }

    /// The new number of each node, if they were reordered.
    pub fn position(&self) -> Option<&[u32]> {
        self.position.as_deref()
    }

    /// The ids before reordering.
    pub fn known(&self) -> &KnownIds {
        &self.ids
    }

    /// The id of a node before reordering, for messages.
    pub fn name(&self, node: u32) -> String {
        let at = node as usize;
        match &self.ids {
            KnownIds::Consecutive => node.to_string(),
            KnownIds::Set(set) => set.iter().nth(at).map_or_else(String::new, |id| id.to_string()),
            KnownIds::Integers(ids) | KnownIds::Listed(NodeList::Integers(ids, _)) => {
                ids[at].to_string()
            }
            KnownIds::Strings(ids) | KnownIds::Listed(NodeList::Strings(ids, _)) => {
                format!("{:?}", ids[at])
            }
            KnownIds::OnDisk(_) => format!("node number {node}"),
        }
    }

    /// The ids in their final order, if the nodes were reordered; otherwise [`Self::known`] has
    /// them in order.
    pub fn reordered(&self) -> Option<Ids> {
        let position = self.position.as_ref()?;
        let nodes = position.len();
        let mut original = vec![0u32; nodes];
        for (node, &place) in position.iter().enumerate() {
            original[place as usize] = node as u32;
        }
        let integers = |id: &dyn Fn(usize) -> u64| {
            Some(Ids::Integer(original.iter().map(|&n| id(n as usize)).collect()))
        };
        match &self.ids {
            KnownIds::Consecutive => integers(&|node| node as u64),
            KnownIds::Set(set) => {
                let ids: Vec<u32> = set.iter().collect();
                integers(&|node| u64::from(ids[node]))
            }
            KnownIds::Integers(ids) | KnownIds::Listed(NodeList::Integers(ids, _)) => {
                integers(&|node| ids[node])
            }
            KnownIds::Strings(ids) | KnownIds::Listed(NodeList::Strings(ids, _)) => {
                let (mut offsets, mut text) = (vec![0u64], String::new());
                for &node in &original {
                    text.push_str(&ids[node as usize]);
                    offsets.push(text.len() as u64);
                }
                Some(Ids::String { offsets, text })
            }
            KnownIds::OnDisk(_) => None,
        }
    }

    fn placed(&self, node: Option<u32>) -> Option<u32> {
        node.map(|node| self.position.as_ref().map_or(node, |position| position[node as usize]))
    }
}

impl NodeLookup for NodeIndex {
    fn kind(&self) -> IdKind {
        match &self.ids {
            KnownIds::Consecutive | KnownIds::Set(_) | KnownIds::Integers(_) => IdKind::Integer,
            KnownIds::Listed(NodeList::Integers(..)) => IdKind::Integer,
            KnownIds::Strings(_) | KnownIds::Listed(NodeList::Strings(..)) => IdKind::String,
            KnownIds::OnDisk(keys) => keys.kind(),
        }
    }

    fn nodes(&self) -> u64 {
        self.nodes
    }

    fn find_integer(&self, id: u64) -> Result<Option<u32>> {
        let node = match &self.ids {
            KnownIds::Consecutive => (id < self.nodes).then_some(id as u32),
            KnownIds::Set(set) => set.contains(id).then(|| set.rank(id as u32)),
            KnownIds::Integers(ids) => ids.binary_search(&id).ok().map(|at| at as u32),
            KnownIds::Listed(NodeList::Integers(_, map)) => map.get(&id).copied(),
            KnownIds::OnDisk(keys) if keys.kind() == IdKind::Integer => keys.find_integer(id)?,
            _ => None,
        };
        Ok(self.placed(node))
    }

    fn find_string(&self, id: &str) -> Result<Option<u32>> {
        let node = match &self.ids {
            KnownIds::Strings(ids) => {
                ids.binary_search_by(|known| (**known).cmp(id)).ok().map(|at| at as u32)
            }
            KnownIds::Listed(NodeList::Strings(_, map)) => map.get(id).copied(),
            KnownIds::OnDisk(keys) if keys.kind() == IdKind::String => keys.find_string(id)?,
            _ => None,
        };
        Ok(self.placed(node))
    }

    fn find_row(&self, row: u64) -> Result<Option<u32>> {
        match &self.ids {
            KnownIds::Listed(_) => Ok(self.placed((row < self.nodes).then_some(row as u32))),
            _ => self.find_integer(row),
        }
    }

    fn describe(&self, node: u32) -> Result<String> {
        let original = match &self.position {
            Some(position) => position.iter().position(|&place| place == node).unwrap_or(0) as u32,
            None => node,
        };
        Ok(self.name(original))
    }

    fn is_consecutive(&self) -> bool {
        matches!(self.ids, KnownIds::Consecutive) && self.position.is_none()
    }
}
