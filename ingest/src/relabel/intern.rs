//! Any ids, while a table of them fits in memory. An id gets a provisional number when it is first
//! seen, and its final number, the rank among all ids, when all are known.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::context::Context;
use crate::edges::spool::{Edge, Spool};
use crate::error::{IngestError, Result};
use crate::pipeline::{self, BufferPool};
use crate::source::edge_list::Pushed;
use crate::source::edges::{EdgeFiles, IdKey, Parsed};

/// Shards of the table, each with its own lock, so that workers rarely wait.
const SHARDS: usize = 256;

/// An id that a table can own.
pub trait OwnedId: Ord + Send + Sized {
    /// The id as it is in a file.
    type Token<'a>: IdKey<'a>;
    /// One shard of the table.
    type Map: Default + Send;
    /// Chooses the shard.
    fn shard(token: Self::Token<'_>) -> usize;
    /// The number of an id in its shard, and the bytes that it added.
    fn number(map: &mut Self::Map, token: Self::Token<'_>) -> (u32, u64);
    /// All ids of a shard with their numbers.
    fn drain(map: Self::Map) -> impl Iterator<Item = (Self, u32)>;
}

/// Multiplication by the golden ratio, high bits first: good enough for ids.
#[derive(Default)]
pub struct IntegerHasher(u64);

impl Hasher for IntegerHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

/// A table of integers.
pub type IntegerMap = HashMap<u64, u32, BuildHasherDefault<IntegerHasher>>;

/// Bytes per table entry, including growth and the final sort.
const ENTRY_BYTES: u64 = 64;

impl OwnedId for u64 {
    type Token<'a> = u64;
    type Map = IntegerMap;

    fn shard(token: u64) -> usize {
        // Uses other bits than the hash table within the shard.
        (token.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 56) as usize % SHARDS
    }

    fn number(map: &mut IntegerMap, token: u64) -> (u32, u64) {
        let next = map.len() as u32;
        let number = *map.entry(token).or_insert(next);
        (number, if number == next { ENTRY_BYTES } else { 0 })
    }

    fn drain(map: IntegerMap) -> impl Iterator<Item = (u64, u32)> {
        map.into_iter()
    }
}

impl OwnedId for Box<str> {
    type Token<'a> = &'a str;
    type Map = HashMap<Box<str>, u32>;

    fn shard(token: &str) -> usize {
        let fold = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        (token.as_bytes().iter().rev().take(12).fold(0xcbf2_9ce4_8422_2325, fold) >> 40) as usize
            % SHARDS
    }

    fn number(map: &mut Self::Map, token: &str) -> (u32, u64) {
        if let Some(&number) = map.get(token) {
            return (number, 0);
        }
        let next = map.len() as u32;
        map.insert(token.into(), next);
        (next, ENTRY_BYTES + 48 + token.len() as u64)
    }

    fn drain(map: Self::Map) -> impl Iterator<Item = (Box<str>, u32)> {
        map.into_iter()
    }
}

/// All ids in ascending order, and the rank of each provisional number.
pub struct Interned<I> {
    /// The ids.
    pub ids: Vec<I>,
    /// Provisional number to rank.
    pub rank: Vec<u32>,
}

/// Reads all edges with provisional numbers; `None` if the table would exceed `limit` bytes. The
/// ids in `also` exist even without edges.
pub fn read<I: OwnedId, E: Edge>(
    context: &Context,
    files: &EdgeFiles,
    spool: &mut Spool<E>,
    limit: u64,
    also: impl IntoIterator<Item = I::Token<'static>>,
) -> Result<Option<Interned<I>>> {
    let shards: Vec<Mutex<I::Map>> = (0..SHARDS).map(|_| Mutex::default()).collect();
    let bytes = AtomicU64::new(0);
    let number = |token: I::Token<'_>| {
        let shard = I::shard(token);
        let mut map = shards[shard].lock().expect("no panic while held");
        let (number, added) = I::number(&mut map, token);
        drop(map);
        if added > 0 {
            bytes.fetch_add(added, Ordering::Relaxed);
        }
        number.checked_mul(SHARDS as u32).map(|number| number + shard as u32)
    };
    let spare = BufferPool::default();
    for token in also {
        if number(token).is_none() || bytes.load(Ordering::Relaxed) > limit {
            return Ok(None);
        }
    }
    let work = |item| {
        let item = files.load(item).map_err(Some)?;
        let size = files.item_bytes(&item);
        let mut edges: Vec<E> = spare.take();
        let parsed = files.parse::<I::Token<'_>>(&item, |source, target, weight| {
            match (number(source), number(target)) {
                (Some(source), Some(target)) if bytes.load(Ordering::Relaxed) <= limit => {
                    edges.push(E::new(source, target, weight));
                    Pushed::Taken
                }
                _ => Pushed::Full,
            }
        });
        Ok((parsed.map_err(Some)?, edges, size))
    };
    let items = files.items().map(|item| item.map_err(Some));
    let outcome = pipeline::ordered(
        context.threads,
        items,
        work,
        |(parsed, edges, size): (Parsed, Vec<E>, u64)| {
            if parsed == Parsed::Full {
                return Err(None);
            }
            context.observer.advance(size);
            IngestError::unless_stopped(context.observer.is_stopped()).map_err(Some)?;
            spool.push(&edges).map_err(Some)?;
            spare.give(edges);
            Ok(())
        },
    );
    match outcome {
        Ok(()) => {}
        Err(None) => return Ok(None),
        Err(Some(error)) => return Err(error),
    }
    let mut known: Vec<(I, u32)> = Vec::new();
    for (shard, map) in shards.into_iter().enumerate() {
        let map = map.into_inner().expect("no panic while held");
        known.extend(I::drain(map).map(|(id, number)| (id, number * SHARDS as u32 + shard as u32)));
    }
    known.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let numbers = known.iter().map(|(_, number)| *number as usize + 1).max().unwrap_or(0);
    let mut rank = vec![0u32; numbers];
    for (at, (_, number)) in known.iter().enumerate() {
        rank[*number as usize] = at as u32;
    }
    let ids = known.into_iter().map(|(id, _)| id).collect();
    Ok(Some(Interned { ids, rank }))
}
