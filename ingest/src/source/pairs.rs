//! Lists of pairs whose columns are ids of two types, each type with a numbering of its own.
//! It numbers ids and keeps pairs as they come; duplicates, direction and products are for others.

use std::collections::HashMap;
use std::path::Path;

use ignn_format::ids::IdKind;

use crate::command::edges::IngestEdges;
use crate::context::{Context, Unit};
use crate::edges::spool::{Plain, Spool};
use crate::error::{IngestError, Result};
use crate::nodes::NodeLookup;
use crate::pipeline;
use crate::relabel::index::NodeIndex;
use crate::relabel::intern::{IntegerMap, OwnedId};
use crate::source::edge_list::Pushed;
use crate::source::edges::{self, EdgeFiles, Item, Parsed};
use crate::source::table;
use crate::source::text::Lines;

/// The ids of a type.
pub enum TypeIds<'a> {
    /// Known before any list is read; others are refused.
    Known(&'a NodeIndex),
    /// Numbered as they come.
    Gathered(GatheredIds),
}

/// Ids with their numbers.
pub enum GatheredIds {
    /// Integers.
    Integers(IntegerMap),
    /// Strings.
    Strings(HashMap<Box<str>, u32>),
}

/// An id of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdRef<'a> {
    /// An integer.
    Integer(u64),
    /// Text.
    Text(&'a str),
}

impl TypeIds<'_> {
    /// Number of ids.
    pub fn len(&self) -> u64 {
        match self {
            Self::Known(index) => index.nodes(),
            Self::Gathered(GatheredIds::Integers(map)) => map.len() as u64,
            Self::Gathered(GatheredIds::Strings(map)) => map.len() as u64,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl GatheredIds {
    /// What `place` says of each number's id; `None` if it knows one not.
    pub fn places(&self, place: impl Fn(IdRef) -> Option<u32>) -> Option<Vec<u32>> {
        let mut places;
        match self {
            Self::Integers(map) => {
                places = vec![0; map.len()];
                for (&id, &number) in map {
                    places[number as usize] = place(IdRef::Integer(id))?;
                }
            }
            Self::Strings(map) => {
                places = vec![0; map.len()];
                for (id, &number) in map {
                    places[number as usize] = place(IdRef::Text(id))?;
                }
            }
        }
        Some(places)
    }
}

/// Memory that the ids of all types may take.
pub struct IdMemory {
    /// The bound.
    pub limit: u64,
    /// Bytes taken.
    pub used: u64,
}

/// An id of a list.
trait ListId: OwnedId {
    /// The node with this id.
    fn find(index: &NodeIndex, token: Self::Token<'_>) -> Option<u32>;
    /// Its number among the ids of its type, and the bytes it added.
    fn number_in(&self, ids: &mut TypeIds) -> (u32, u64);
}

impl ListId for u64 {
    fn find(index: &NodeIndex, token: u64) -> Option<u32> {
        // Only ids on disk can fail, and those are not known beforehand.
        let found = match index.kind() {
            IdKind::Integer => index.find_integer(token),
            IdKind::String => index.find_string(&token.to_string()),
        };
        found.ok().flatten()
    }

    fn number_in(&self, ids: &mut TypeIds) -> (u32, u64) {
        match ids {
            TypeIds::Known(index) => (Self::find(index, *self).unwrap_or(0), 0),
            TypeIds::Gathered(GatheredIds::Integers(map)) => <u64 as OwnedId>::number(map, *self),
            TypeIds::Gathered(GatheredIds::Strings(map)) => {
                <Box<str> as OwnedId>::number(map, &self.to_string())
            }
        }
    }
}

impl ListId for Box<str> {
    fn find(index: &NodeIndex, token: &str) -> Option<u32> {
        index.find_text(token).ok().flatten()
    }

    fn number_in(&self, ids: &mut TypeIds) -> (u32, u64) {
        match ids {
            TypeIds::Known(index) => (Self::find(index, self).unwrap_or(0), 0),
            // A type has integers only where all lists with it have.
            TypeIds::Gathered(GatheredIds::Integers(map)) => {
                <u64 as OwnedId>::number(map, self.parse().unwrap_or(0))
            }
            TypeIds::Gathered(GatheredIds::Strings(map)) => <Box<str> as OwnedId>::number(map, self),
        }
    }
}

/// Opens the files of a list. Where a header names both types, the columns are those; else they are the first two.
pub fn open(files: &IngestEdges, columns: &[String; 2]) -> Result<EdgeFiles> {
    let mut wishes = files.clone();
    let by_user = wishes.source.is_some() || wishes.target.is_some();
    let first = edges::expand(&files.files)?.into_iter().next();
    if let (false, Some(first)) = (by_user || columns[0] == columns[1], first)
        && names_columns(&first, columns)?
    {
        (wishes.source, wishes.target) = (Some(columns[0].clone()), Some(columns[1].clone()));
    }
    EdgeFiles::open_pairs(&wishes)
}

/// Whether a file is a table whose columns have these names.
fn names_columns(path: &Path, columns: &[String; 2]) -> Result<bool> {
    if table::is_parquet(path)? {
        return Ok(true);
    }
    let mut lines = Lines::open(path)?;
    while let Some((_, line)) = lines.next()? {
        let line = String::from_utf8_lossy(line);
        if line.trim().is_empty() || line.trim_start().starts_with(['#', '%']) {
            continue;
        }
        let cells: Vec<&str> =
            line.split([',', '\t', ' ']).map(|cell| cell.trim().trim_matches('"')).collect();
        return Ok(columns.iter().all(|name| cells.iter().any(|cell| cell.eq_ignore_ascii_case(name))));
    }
    Ok(false)
}

/// Reads all pairs of a list into a spool; `types` are those of its columns in `all`.
pub fn read(
    context: &Context,
    files: &EdgeFiles,
    all: &mut [TypeIds],
    types: [usize; 2],
    memory: &mut IdMemory,
    spool: &mut Spool<Plain>,
) -> Result<()> {
    context.observer.phase("read lists", Some(files.bytes), Unit::Bytes);
    if files.integer {
        read_ids::<u64>(context, files, all, types, memory, spool)?;
    } else {
        read_ids::<Box<str>>(context, files, all, types, memory, spool)?;
    }
    files.finish()?;
    if spool.store.records() == 0 {
        return Err(IngestError::file(files.first_path(), "no pairs in it (expected at least one)"));
    }
    Ok(())
}

/// The ids and pairs of a piece of a file, numbered by themselves.
struct Piece<I> {
    ids: [Vec<I>; 2],
    pairs: Vec<[u32; 2]>,
    bytes: u64,
}

fn read_ids<I: ListId>(
    context: &Context,
    files: &EdgeFiles,
    all: &mut [TypeIds],
    types: [usize; 2],
    memory: &mut IdMemory,
    spool: &mut Spool<Plain>,
) -> Result<()> {
    let known = types.map(|kind| match &all[kind] {
        TypeIds::Known(index) => Some(*index),
        _ => None,
    });
    let work = |item| number_piece::<I>(files, files.load(item)?, known);
    pipeline::ordered(context.threads, files.items(), work, |piece: Piece<I>| {
        let mut numbers = [Vec::new(), Vec::new()];
        for side in 0..2 {
            let ids = &mut all[types[side]];
            numbers[side].extend(piece.ids[side].iter().map(|id| {
                let (number, bytes) = id.number_in(ids);
                memory.used += bytes;
                number
            }));
            if ids.len() > u64::from(u32::MAX) {
                return Err(IngestError::file(
                    files.first_path(),
                    "more than 2^32 - 1 different ids in a column",
                ));
            }
        }
        if memory.used > memory.limit {
            let what =
                format!("the ids of the lists need more than {} MiB: raise --memory", memory.limit >> 20);
            return Err(IngestError::file(files.first_path(), what));
        }
        context.observer.advance(piece.bytes);
        let number = |pair: &[u32; 2]| Plain {
            source: numbers[0][pair[0] as usize],
            target: numbers[1][pair[1] as usize],
        };
        spool.push(piece.pairs.iter().map(number).collect())
    })
}

fn number_piece<I: ListId>(
    files: &EdgeFiles,
    item: Item,
    known: [Option<&NodeIndex>; 2],
) -> Result<Piece<I>> {
    let mut maps = [I::Map::default(), I::Map::default()];
    let mut pairs = Vec::new();
    let parsed = files.parse::<I::Token<'_>>(&item, |source, target, _| {
        let mut pair = [0; 2];
        for (side, token) in [source, target].into_iter().enumerate() {
            let (number, added) = I::number(&mut maps[side], token);
            if added > 0 && known[side].is_some_and(|index| I::find(index, token).is_none()) {
                return if side == 0 { Pushed::UnknownSource } else { Pushed::UnknownTarget };
            }
            pair[side] = number;
        }
        pairs.push(pair);
        Pushed::Taken
    })?;
    debug_assert_eq!(parsed, Parsed::Whole);
    let ids = maps.map(|map| {
        let mut ids: Vec<(I, u32)> = I::drain(map).collect();
        ids.sort_unstable_by_key(|(_, number)| *number);
        ids.into_iter().map(|(id, _)| id).collect()
    });
    Ok(Piece { ids, pairs, bytes: files.item_bytes(&item) })
}
