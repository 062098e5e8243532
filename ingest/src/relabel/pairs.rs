//! Lists of pairs whose columns are ids of two types, each type with its own numbering. Pairs are
//! kept as they are; duplicates, direction and products are handled elsewhere.

use std::collections::HashMap;
use std::path::Path;

use ignn_format::ids::IdKind;

use crate::context::{Context, Unit};
use crate::edges::spool::{Plain, Spool};
use crate::error::{IngestError, Result};
use crate::nodes::NodeLookup;
use crate::pipeline;
use crate::relabel::index::NodeIndex;
use crate::relabel::intern::{IntegerMap, OwnedId};
use crate::source::edge_input::EdgeInput;
use crate::source::edge_list::Pushed;
use crate::source::edges::{self, EdgeFiles, Item, Parsed};
use crate::source::table;
use crate::source::text::Lines;

/// The ids of a type.
pub enum TypeIds<'a> {
    /// Known before any list is read; other ids are an error.
    Known(&'a NodeIndex),
    /// Numbered in the order in which they are read.
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
    /// The result of `place` for the id of each number; `None` if any id is unknown.
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

/// Memory for the ids of all types.
pub struct IdMemory {
    /// Bytes allowed.
    pub limit: u64,
    /// Bytes used.
    pub used: u64,
}

/// An id of a list.
trait ListId: OwnedId {
    /// The node with this id.
    fn find(index: &NodeIndex, token: Self::Token<'_>) -> Option<u32>;
    /// Its number among the ids of its type, and the bytes that it added.
    fn number_in(&self, ids: &mut TypeIds) -> (u32, u64);
}

impl ListId for u64 {
    fn find(index: &NodeIndex, token: u64) -> Option<u32> {
        // Only ids on disk can fail, and those are not known in advance.
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
            // A type has integer ids only if all lists with that type have integers.
            TypeIds::Gathered(GatheredIds::Integers(map)) => {
                <u64 as OwnedId>::number(map, self.parse().unwrap_or(0))
            }
            TypeIds::Gathered(GatheredIds::Strings(map)) => {
                <Box<str> as OwnedId>::number(map, self)
            }
        }
    }
}

/// Opens the files of a list. If a header names both types, those are its columns; otherwise the
/// first two are.
pub fn open(input: &EdgeInput, columns: &[String; 2]) -> Result<EdgeFiles> {
    let mut input = input.clone();
    let by_user = input.source.is_some() || input.target.is_some();
    let first = edges::expand(&input.files)?.into_iter().next();
    if let (false, Some(first)) = (by_user || columns[0] == columns[1], first)
        && names_columns(&first, columns)?
    {
        (input.source, input.target) = (Some(columns[0].clone()), Some(columns[1].clone()));
    }
    EdgeFiles::open_pairs(&input)
}

/// Whether a file is a table whose columns have these names.
fn names_columns(path: &Path, columns: &[String; 2]) -> Result<bool> {
    if table::is_parquet(path)? {
        return Ok(true);
    }
    // Types whose names look like ids are not column names.
    if columns.iter().any(|name| name.parse::<u64>().is_ok()) {
        return Ok(false);
    }
    let mut lines = Lines::open(path)?;
    while let Some((_, line)) = lines.next()? {
        let line = String::from_utf8_lossy(line);
        if line.trim().is_empty() || line.trim_start().starts_with(['#', '%']) {
            continue;
        }
        let cells: Vec<&str> =
            line.split([',', '\t', ' ']).map(|cell| cell.trim().trim_matches('"')).collect();
        return Ok(columns
            .iter()
            .all(|name| cells.iter().any(|cell| cell.eq_ignore_ascii_case(name))));
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
    if spool.is_empty() {
        return Err(IngestError::file(files.first_path(), "no pairs (expected at least one)"));
    }
    Ok(())
}

/// The ids and pairs of a piece of a file, with a numbering of their own.
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
    let work = |item| number_piece::<I>(files, &files.load(item)?, known);
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
            let what = format!(
                "the ids of the lists need more than {} MiB: raise --memory",
                memory.limit >> 20
            );
            return Err(IngestError::file(files.first_path(), what));
        }
        context.observer.advance(piece.bytes);
        IngestError::unless_stopped(context.observer.is_stopped())?;
        let number = |pair: &[u32; 2]| Plain {
            source: numbers[0][pair[0] as usize],
            target: numbers[1][pair[1] as usize],
        };
        spool.push(&piece.pairs.iter().map(number).collect::<Vec<_>>())
    })
}

fn number_piece<I: ListId>(
    files: &EdgeFiles,
    item: &Item,
    known: [Option<&NodeIndex>; 2],
) -> Result<Piece<I>> {
    let mut maps = [I::Map::default(), I::Map::default()];
    let mut pairs = Vec::new();
    let parsed = files.parse::<I::Token<'_>>(item, |source, target, _| {
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
    Ok(Piece { ids, pairs, bytes: files.item_bytes(item) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Recorder;
    use crate::edges::store::Budget;
    use proptest::prelude::*;

    /// The pairs of a text as ids, and whether they are integers.
    fn pairs(text: &[u8], threads: usize, memory: u64) -> Result<Vec<(String, String)>> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pairs.txt");
        std::fs::write(&path, text).unwrap();
        let columns = ["paper".to_string(), "author".to_string()];
        let input = EdgeInput { unweighted: true, ..EdgeInput::new(vec![path]) };
        let files = open(&input, &columns)?;
        let fresh = || match files.integer {
            true => TypeIds::Gathered(GatheredIds::Integers(Default::default())),
            false => TypeIds::Gathered(GatheredIds::Strings(Default::default())),
        };
        let mut all = [fresh(), fresh()];
        let observer = Recorder::default();
        let context = Context { threads, memory, seed: 0, observer: &observer };
        let mut spool = Spool::new(dir.path(), &Budget::new(memory));
        let mut limit = IdMemory { limit: memory, used: 0 };
        read(&context, &files, &mut all, [0, 1], &mut limit, &mut spool)?;
        let names = all.map(|ids| {
            let names: Vec<(u32, String)> = match ids {
                TypeIds::Gathered(GatheredIds::Integers(map)) => {
                    map.into_iter().map(|(id, number)| (number, id.to_string())).collect()
                }
                TypeIds::Gathered(GatheredIds::Strings(map)) => {
                    map.into_iter().map(|(id, number)| (number, id.into())).collect()
                }
                TypeIds::Known(_) => Vec::new(),
            };
            names.into_iter().collect::<HashMap<u32, String>>()
        });
        let mut found = Vec::new();
        spool.visit(|chunk| {
            found.extend(
                chunk.iter().map(|p| (names[0][&p.source].clone(), names[1][&p.target].clone())),
            );
        })?;
        Ok(found)
    }

    fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|&(a, b)| (a.into(), b.into())).collect()
    }

    #[test]
    fn columns_are_found_by_the_names_of_their_types() {
        let expected = owned(&[("7", "1"), ("8", "2")]);
        assert_eq!(pairs(b"7\t1\n8\t2\n", 1, 1 << 20).unwrap(), expected);
        assert_eq!(pairs(b"# x\n7 1 0.5\n8 2 z\n", 1, 1 << 20).unwrap(), expected);
        assert_eq!(
            pairs(b"Author,year,\"Paper\"\n1,2001,7\n2,2002,8\n", 1, 1 << 20).unwrap(),
            expected
        );
        let text = pairs(b"author,paper\nann,7\nann,p\n", 1, 1 << 20).unwrap();
        assert_eq!(text, owned(&[("7", "ann"), ("p", "ann")]));
    }

    #[test]
    fn ids_beyond_the_memory_are_rejected() {
        let text: String = (0..10_000).map(|id| format!("{id} {id}\n")).collect();
        let error = pairs(text.as_bytes(), 1, 1 << 20).unwrap_err().to_string();
        assert!(
            error.ends_with("pairs.txt: the ids of the lists need more than 1 MiB: raise --memory"),
            "{error}"
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = pairs(&bytes, 1, 1 << 20);
        }

        #[test]
        fn pairs_come_back_in_order(
            list in prop::collection::vec((0u64..50, 0u64..1 << 60), 1..200),
            threads in 1usize..4,
        ) {
            let text: String = list.iter().map(|(a, b)| format!("{a},{b}\n")).collect();
            let expected: Vec<_> = list.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
            prop_assert_eq!(pairs(text.as_bytes(), threads, 1 << 20).unwrap(), expected);
        }
    }
}
