//! Integer ids of moderate size: one bit per possible id, set while edges are read. The number of a
//! node is its rank.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::context::Context;
use crate::edges::map::BitRank;
use crate::edges::spool::{Edge, Spool};
use crate::error::{IngestError, Result};
use crate::pipeline::{self, BufferPool};
use crate::source::edge_list::Pushed;
use crate::source::edges::{EdgeFiles, Parsed};

/// Ids are stored in 32 bits in the spool.
const MAX_IDS: u64 = 1 << 32;

/// Reads all edges; `None` if an id is `limit` or more.
pub fn read<E: Edge>(
    context: &Context,
    files: &EdgeFiles,
    spool: &mut Spool<E>,
    limit: u64,
    min_nodes: u64,
) -> Result<Option<BitRank>> {
    let limit = limit.min(MAX_IDS);
    if min_nodes > limit {
        return Ok(None);
    }
    let bitmap = Bitmap::new(limit);
    let mark = |id: u64| bitmap.mark(id);
    let spare = BufferPool::default();
    let mut full = false;
    let mut largest = min_nodes.saturating_sub(1);
    let work = |item| {
        let item = files.load(item)?;
        let bytes = files.item_bytes(&item);
        let mut edges: Vec<E> = spare.take();
        let mut largest = 0;
        let parsed = files.parse::<u64>(&item, |source, target, weight| {
            let larger = source.max(target);
            if larger >= limit {
                return Pushed::Full;
            }
            largest = larger.max(largest);
            mark(source);
            mark(target);
            edges.push(E::new(source as u32, target as u32, weight));
            Pushed::Taken
        })?;
        Ok((parsed, edges, largest, bytes))
    };
    // Once an id is too large, items in flight are dropped; the error below stops the reading.
    let outcome = pipeline::ordered(
        context.threads,
        files.items().map(|item| item.map_err(Some)),
        |item| work(item).map_err(Some),
        |(parsed, edges, top, bytes): (Parsed, Vec<E>, u64, u64)| {
            if parsed == Parsed::Full {
                return Err(None);
            }
            context.observer.advance(bytes);
            IngestError::unless_stopped(context.observer.is_stopped()).map_err(Some)?;
            largest = largest.max(top);
            spool.push(&edges).map_err(Some)?;
            spare.give(edges);
            Ok(())
        },
    );
    match outcome {
        Ok(()) => {}
        Err(None) => full = true,
        Err(Some(error)) => return Err(error),
    }
    if full {
        return Ok(None);
    }
    for id in 0..min_nodes {
        mark(id);
    }
    Ok(Some(BitRank::new(bitmap.words(largest))))
}

/// Ids per segment.
const SEGMENT: u64 = 1 << 22;

/// A shared bitmap whose segments are allocated when their first id is marked.
struct Bitmap {
    segments: Vec<OnceLock<Vec<AtomicU64>>>,
}

impl Bitmap {
    fn new(limit: u64) -> Self {
        Self { segments: (0..limit.div_ceil(SEGMENT)).map(|_| OnceLock::new()).collect() }
    }

    #[inline]
    fn mark(&self, id: u64) {
        let segment = &self.segments[(id / SEGMENT) as usize];
        let words = segment.get_or_init(|| bytemuck::zeroed_vec((SEGMENT / 64) as usize));
        let (word, bit) = (&words[(id % SEGMENT / 64) as usize], 1 << (id % 64));
        // Most ids are already marked, and a read does not take the cache line from other cores.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// All words up to the one of the largest id.
    fn words(self, largest: u64) -> Vec<u64> {
        let mut all = vec![0u64; (largest / 64 + 1) as usize];
        for (out, segment) in all.chunks_mut((SEGMENT / 64) as usize).zip(self.segments) {
            for (out, word) in out.iter_mut().zip(segment.into_inner().into_iter().flatten()) {
                *out = word.into_inner();
            }
        }
        all
    }
}
