//! Any number of ids of any kind: through the disk, one bucket at a time.
//!
//! Ids become byte strings in the same order (integers big-endian). There are two passes over the
//! files: the first draws a sample and chooses the bounds between buckets, the second sends each
//! end of an edge, with its position, to the bucket of its id. Each bucket is then sorted in
//! memory, distinct ids get consecutive numbers, and each number goes, with its position, to a
//! bucket of positions. Those buckets, in order, become chunks of edges. All reads and writes are
//! large and sequential.

use std::path::Path;

use ignn_format::ids::{IdKind, IdsWriter};

use crate::context::{Context, Unit};
use crate::edges::spool::{Edge, Spool};
use crate::edges::store::{Budget, ChunkStore, ScratchFile};
use crate::error::{IngestError, Result};
use crate::pipeline;
use crate::source::edge_list::Pushed;
use crate::source::edges::{EdgeFiles, IdKey};

/// One end of an edge in this many is in the sample.
const SAMPLE_EVERY: usize = 499;
/// The position of a record without an edge: a node that exists on its own.
const NO_POSITION: u32 = u32::MAX;
/// Bytes of a record besides its key: position in its piece, length of the key.
const RECORD_BYTES: u64 = 8;

/// A key as bytes, in the same order.
pub trait ByteKey<'a>: IdKey<'a> {
    /// Appends the bytes.
    fn encode(self, out: &mut Vec<u8>);
}

impl ByteKey<'_> for u64 {
    fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

impl<'a> ByteKey<'a> for &'a str {
    fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

/// Context, directories and memory of the job.
pub struct Places<'a> {
    /// Threads, memory, observer.
    pub context: &'a Context<'a>,
    /// For spilling.
    pub scratch: &'a Path,
    /// The unfinished dataset, for its ids.
    pub dataset: &'a Path,
    /// Memory for chunks.
    pub budget: &'a Budget,
}

/// Pieces of records, written one after the other; each piece is grouped by bucket.
struct Pieces {
    file: ScratchFile,
    /// For each piece: its start in the file, the start of each bucket in it, its first position.
    pieces: Vec<(u64, Vec<u32>, u64)>,
}

impl Pieces {
    fn create(scratch: &Path) -> Result<Self> {
        Ok(Self { file: ScratchFile::create(scratch)?, pieces: Vec::new() })
    }

    fn push(&mut self, bytes: &[u8], starts: Vec<u32>, base: u64) -> Result<()> {
        let at = self.file.append(bytes)?;
        self.pieces.push((at, starts, base));
        Ok(())
    }

    /// The parts of a bucket in order, with the first position of their pieces.
    fn read(&self, bucket: usize, mut visit: impl FnMut(u64, &[u8])) -> Result<()> {
        let mut bytes = Vec::new();
        for (at, starts, base) in &self.pieces {
            let (start, end) = (starts[bucket], starts[bucket + 1]);
            if start < end {
                bytes.resize((end - start) as usize, 0);
                self.file.read(at + u64::from(start), &mut bytes)?;
                visit(*base, &bytes);
            }
        }
        Ok(())
    }
}

/// Groups byte records by bucket. Each of `records` is a bucket and a range in `bytes`. Returns the
/// grouped bytes, and the start of each bucket in them.
fn group(bytes: &[u8], records: &[(u32, u32, u32)], buckets: usize) -> (Vec<u8>, Vec<u32>) {
    let mut starts = vec![0u32; buckets + 1];
    for &(bucket, start, end) in records {
        starts[bucket as usize + 1] += end - start;
    }
    for bucket in 0..buckets {
        starts[bucket + 1] += starts[bucket];
    }
    let mut at = starts.clone();
    let mut out = vec![0u8; bytes.len()];
    for &(bucket, start, end) in records {
        let to = &mut at[bucket as usize];
        out[*to as usize..(*to + end - start) as usize]
            .copy_from_slice(&bytes[start as usize..end as usize]);
        *to += end - start;
    }
    (out, starts)
}

/// Number of ids without edges that are sent to their buckets at once.
const IDS_PER_PIECE: u64 = 1 << 16;

/// Appends a record; returns its bucket and range.
fn record(
    bytes: &mut Vec<u8>,
    bounds: &[&[u8]],
    position: u32,
    encode: impl FnOnce(&mut Vec<u8>),
) -> (u32, u32, u32) {
    let start = bytes.len();
    bytes.extend_from_slice(&position.to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    encode(bytes);
    let length = (bytes.len() - start - RECORD_BYTES as usize) as u32;
    bytes[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    let key = &bytes[start + RECORD_BYTES as usize..];
    let bucket = bounds.partition_point(|&bound| bound <= key);
    (bucket as u32, start as u32, bytes.len() as u32)
}

/// A sample of the ids, the number of ends of edges, their bytes, and the largest id.
struct Survey {
    sample: Vec<Vec<u8>>,
    ends: u64,
    bytes: u64,
    largest: Vec<u8>,
}

fn survey<K>(places: &Places, files: &EdgeFiles) -> Result<Survey>
where
    K: TokenFamily,
{
    let observer = places.context.observer;
    observer.phase("survey ids", Some(files.bytes), Unit::Bytes);
    let mut all = Survey { sample: Vec::new(), ends: 0, bytes: 0, largest: Vec::new() };
    let work = |item| {
        let item = files.load(item)?;
        let (mut sample, mut ends, mut bytes) = (Vec::new(), 0usize, 0u64);
        let (mut key, mut largest) = (Vec::new(), Vec::new());
        files.parse::<K::Token<'_>>(&item, |source, target, _| {
            for token in [source, target] {
                key.clear();
                token.encode(&mut key);
                bytes += key.len() as u64;
                if key > largest {
                    largest.clone_from(&key);
                }
                if ends % SAMPLE_EVERY == 0 {
                    sample.push(key.clone());
                }
                ends += 1;
            }
            Pushed::Taken
        })?;
        Ok::<_, IngestError>((sample, ends, bytes, largest, files.item_bytes(&item)))
    };
    pipeline::ordered(
        places.context.threads,
        files.items(),
        work,
        |(sample, ends, bytes, largest, size)| {
            observer.advance(size);
            IngestError::unless_stopped(observer.is_stopped())?;
            all.sample.extend(sample);
            all.ends += ends as u64;
            all.bytes += bytes;
            all.largest = largest.max(std::mem::take(&mut all.largest));
            Ok(())
        },
    )?;
    Ok(all)
}

/// Tokens of one type, for any lifetime.
pub trait TokenFamily {
    /// The token.
    type Token<'a>: ByteKey<'a>;
    /// Type of the ids.
    const KIND: IdKind;
}

/// Integer ids.
pub struct Integers;
/// String ids.
pub struct Strings;

impl TokenFamily for Integers {
    type Token<'a> = u64;
    const KIND: IdKind = IdKind::Integer;
}

impl TokenFamily for Strings {
    type Token<'a> = &'a str;
    const KIND: IdKind = IdKind::String;
}

/// Reads all edges into the spool with final numbers, writes the ids, and returns them as a
/// searchable file. Integer ids below `min_nodes` exist even without edges.
pub fn read<K: TokenFamily, E: Edge>(
    places: &Places,
    files: &EdgeFiles,
    spool: &mut Spool<E>,
    min_nodes: u64,
) -> Result<(IdsWriter, KeyFile)> {
    let (context, observer) = (places.context, places.context.observer);
    let mut survey = survey::<K>(places, files)?;
    let certain = (0..min_nodes).step_by(SAMPLE_EVERY).map(|id| id.to_be_bytes().to_vec());
    survey.sample.extend(certain);
    survey.sample.sort_unstable();
    survey.bytes += min_nodes * size_of::<u64>() as u64;
    let share =
        (context.memory / 6 / pipeline::alive(context.threads) as u64).clamp(1 << 16, 1 << 30);

    // Second pass: sends each end of an edge to the bucket of its id.
    observer.phase("read edges", Some(files.bytes), Unit::Bytes);
    // In memory, a record needs its bytes and 24 bytes of index.
    let total = survey.bytes + (survey.ends + min_nodes) * (RECORD_BYTES + 24);
    let buckets = (total.div_ceil(share) as usize).clamp(1, survey.sample.len().max(1));
    let quantile = |bucket: usize| survey.sample[bucket * survey.sample.len() / buckets].as_slice();
    let mut bounds: Vec<&[u8]> = (1..buckets).map(quantile).collect();
    bounds.dedup();
    let buckets = bounds.len() + 1;
    let mut by_id = Pieces::create(places.scratch)?;
    let mut weights = ChunkStore::<f32>::new(places.scratch, places.budget);
    let mut ends = 0u64;
    let work = |item| {
        let item = files.load(item)?;
        let (mut bytes, mut records, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        files.parse::<K::Token<'_>>(&item, |source, target, weight| {
            for token in [source, target] {
                let position = records.len() as u32;
                records.push(record(&mut bytes, &bounds, position, |out| token.encode(out)));
            }
            if E::WEIGHTED {
                weights.push(weight);
            }
            Pushed::Taken
        })?;
        let (grouped, starts) = group(&bytes, &records, buckets);
        Ok::<_, IngestError>((grouped, starts, records.len(), weights, files.item_bytes(&item)))
    };
    pipeline::ordered(
        context.threads,
        files.items(),
        work,
        |(grouped, starts, count, item_weights, size)| {
            observer.advance(size);
            IngestError::unless_stopped(observer.is_stopped())?;
            by_id.push(&grouped, starts, ends)?;
            ends += count as u64;
            if E::WEIGHTED {
                weights.push(item_weights)?;
            }
            Ok(())
        },
    )?;

    let mut next = 0;
    while next < min_nodes {
        let (mut bytes, mut records) = (Vec::new(), Vec::new());
        for id in next..min_nodes.min(next + IDS_PER_PIECE) {
            records.push(record(&mut bytes, &bounds, NO_POSITION, |out| {
                out.extend_from_slice(&id.to_be_bytes());
            }));
        }
        next += IDS_PER_PIECE;
        let (grouped, starts) = group(&bytes, &records, buckets);
        by_id.push(&grouped, starts, ends)?;
    }

    // For each bucket: sort, assign numbers, send the numbers to their positions.
    observer.phase("number ids", Some(ends), Unit::Items("edge ends"));
    let span = (share / 16).clamp(1 << 10, 1 << 30) & !1;
    let spans = ends.div_ceil(span).max(1) as usize;
    let mut by_position = Pieces::create(places.scratch)?;
    let wide =
        K::KIND == IdKind::Integer && survey.largest.first().is_some_and(|&byte| byte >= 0x80);
    let mut writer = IdsWriter::create(places.dataset, K::KIND, wide)?;
    let mut keys = KeyFile::create(places.scratch, K::KIND)?;
    let work = |bucket: usize| {
        let mut text = Vec::new();
        let mut records: Vec<(usize, u32, u64)> = Vec::new();
        by_id.read(bucket, |base, mut bytes| {
            while let Some((head, rest)) = bytes.split_at_checked(RECORD_BYTES as usize) {
                let number = |at: usize| {
                    u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"))
                };
                let (key, rest) = rest.split_at(number(4) as usize);
                let position =
                    if number(0) == NO_POSITION { u64::MAX } else { base + u64::from(number(0)) };
                records.push((text.len(), number(4), position));
                text.extend_from_slice(key);
                bytes = rest;
            }
        })?;
        let key = |record: &(usize, u32, u64)| &text[record.0..record.0 + record.1 as usize];
        records.sort_unstable_by(|a, b| key(a).cmp(key(b)));
        let (mut unique, mut lengths): (Vec<u8>, Vec<u32>) = (Vec::new(), Vec::new());
        let mut numbered: Vec<u8> = Vec::with_capacity(records.len() * 8);
        let mut owners = Vec::with_capacity(records.len());
        for (at, record) in records.iter().enumerate() {
            if at == 0 || key(&records[at - 1]) != key(record) {
                unique.extend_from_slice(key(record));
                lengths.push(record.1);
            }
            if record.2 == u64::MAX {
                continue;
            }
            let start = numbered.len() as u32;
            numbered.extend_from_slice(&((record.2 % span) as u32).to_le_bytes());
            numbered.extend_from_slice(&(lengths.len() as u32 - 1).to_le_bytes());
            owners.push(((record.2 / span) as u32, start, start + 8));
        }
        let (grouped, starts) = group(&numbered, &owners, spans);
        Ok::<_, IngestError>((unique, lengths, grouped, starts, records.len()))
    };
    let mut nodes = 0u64;
    let steps = (0..buckets).map(Ok);
    pipeline::ordered(
        context.threads,
        steps,
        work,
        |(unique, lengths, mut grouped, starts, count)| {
            observer.advance(count as u64);
            IngestError::unless_stopped(observer.is_stopped())?;
            let base = nodes;
            nodes += lengths.len() as u64;
            if nodes > u64::from(u32::MAX) {
                let what =
                    format!("more than {} distinct node ids (the supported maximum)", u32::MAX);
                return Err(IngestError::file(files.first_path(), what));
            }
            for record in grouped.chunks_exact_mut(8) {
                let rank = u32::from_le_bytes(record[4..].try_into().expect("four bytes"));
                record[4..].copy_from_slice(&(base as u32 + rank).to_le_bytes());
            }
            by_position.push(&grouped, starts, 0)?;
            keys.push(&unique, &lengths, &mut writer)
        },
    )?;
    drop(by_id);

    // For each span of positions: put the numbers in place; two ends make an edge.
    observer.phase("relabel edges", Some(ends / 2), Unit::Edges);
    let work = |at: usize| {
        let mut numbers = vec![0u32; (span.min(ends - at as u64 * span)) as usize];
        by_position.read(at, |_, bytes| {
            for record in bytes.chunks_exact(8) {
                let word = |at: usize| {
                    u32::from_le_bytes(record[at..at + 4].try_into().expect("four bytes"))
                };
                numbers[word(0) as usize] = word(4);
            }
        })?;
        Ok::<_, IngestError>(numbers)
    };
    let mut weights = Sequence { store: weights, chunk: 0, at: 0 };
    let steps = (0..if ends == 0 { 0 } else { spans }).map(Ok);
    pipeline::ordered(context.threads, steps, work, |numbers| {
        observer.advance(numbers.len() as u64 / 2);
        IngestError::unless_stopped(observer.is_stopped())?;
        let weights = if E::WEIGHTED { weights.next(numbers.len() / 2)? } else { Vec::new() };
        let weight = |at: usize| weights.get(at).copied().unwrap_or(1.0);
        let edges = numbers.chunks_exact(2).enumerate();
        spool
            .push(&edges.map(|(at, pair)| E::new(pair[0], pair[1], weight(at))).collect::<Vec<_>>())
    })?;
    Ok((writer, keys.finish(nodes)?))
}

/// Reads a store of chunks as one sequence.
struct Sequence {
    store: ChunkStore<f32>,
    chunk: usize,
    at: usize,
}

impl Sequence {
    fn next(&mut self, count: usize) -> Result<Vec<f32>> {
        let mut out = Vec::with_capacity(count);
        while out.len() < count {
            let left = self.store.chunk_records(self.chunk) - self.at;
            let take = left.min(count - out.len());
            self.store.append_range(self.chunk, self.at..self.at + take, &mut out)?;
            self.at += take;
            if take == left {
                (self.chunk, self.at) = (self.chunk + 1, 0);
            }
        }
        Ok(out)
    }
}

/// Keys per block of the file; only the first key of each block is also in memory.
const BLOCK_KEYS: usize = 256;

/// All ids in ascending order on disk, with every `BLOCK_KEYS`th in memory.
pub struct KeyFile {
    kind: IdKind,
    file: ScratchFile,
    blocks: Vec<(Vec<u8>, u64)>,
    block: Vec<u8>,
    block_keys: usize,
    nodes: u64,
}

impl KeyFile {
    fn create(scratch: &Path, kind: IdKind) -> Result<Self> {
        let file = ScratchFile::create(scratch)?;
        Ok(Self { kind, file, blocks: Vec::new(), block: Vec::new(), block_keys: 0, nodes: 0 })
    }

    fn push(&mut self, mut text: &[u8], lengths: &[u32], writer: &mut IdsWriter) -> Result<()> {
        let mut keys = Vec::with_capacity(lengths.len());
        for &length in lengths {
            let (key, rest) = text.split_at(length as usize);
            text = rest;
            if self.block_keys == 0 {
                self.blocks.push((key.to_vec(), self.file.len()));
            }
            self.block.extend_from_slice(&length.to_le_bytes());
            self.block.extend_from_slice(key);
            self.block_keys += 1;
            if self.block_keys == BLOCK_KEYS {
                self.flush()?;
            }
            keys.push(key);
        }
        match self.kind {
            IdKind::Integer => {
                let id = |key: &&[u8]| u64::from_be_bytes((*key).try_into().expect("eight bytes"));
                writer.push_integers(&keys.iter().map(id).collect::<Vec<_>>())?;
            }
            IdKind::String => {
                writer.push_strings(
                    keys.iter().map(|key| std::str::from_utf8(key).expect("was text")),
                )?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.file.append(&self.block)?;
        self.block.clear();
        self.block_keys = 0;
        Ok(())
    }

    fn finish(mut self, nodes: u64) -> Result<Self> {
        self.flush()?;
        self.nodes = nodes;
        Ok(self)
    }

    /// Number of ids.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Type of the ids.
    pub fn kind(&self) -> IdKind {
        self.kind
    }

    /// The rank of an integer id.
    pub fn find_integer(&self, id: u64) -> Result<Option<u32>> {
        self.find(&id.to_be_bytes())
    }

    /// The rank of a string id.
    pub fn find_string(&self, id: &str) -> Result<Option<u32>> {
        self.find(id.as_bytes())
    }

    fn find(&self, wanted: &[u8]) -> Result<Option<u32>> {
        let Some(block) =
            self.blocks.partition_point(|(first, _)| first.as_slice() <= wanted).checked_sub(1)
        else {
            return Ok(None);
        };
        let start = self.blocks[block].1;
        let end = self.blocks.get(block + 1).map_or(self.file.len(), |(_, at)| *at);
        let mut bytes = vec![0u8; (end - start) as usize];
        self.file.read(start, &mut bytes)?;
        let mut rest = bytes.as_slice();
        let mut rank = (block * BLOCK_KEYS) as u32;
        while let Some((length, after)) = rest.split_at_checked(4) {
            let length = u32::from_le_bytes(length.try_into().expect("four bytes"));
            let (key, after) = after.split_at(length as usize);
            if key == wanted {
                return Ok(Some(rank));
            }
            rest = after;
            rank += 1;
        }
        Ok(None)
    }
}
