//! The rows of a graph as one rank has them: its own rows, then ghosts, which are copies of rows of
//! other ranks. Two things are done with them, and everything on several ranks is made of these:
//! ghosts are brought up to date, and sums over all rows are taken along a fixed tree.
//!
//! | rows of a matrix | what |
//! | --- | --- |
//! | `0..len` | own rows, in the order of the graph |
//! | `len..first_ghost` | nothing: ghosts begin with a new line of memory |
//! | `first_ghost..with_ghosts` | ghosts, in the order of the graph |
//!
//! Sums follow the tree over the parts of all rows ([`RowBlocks::for_sums`]). A rank computes the
//! largest subtrees that are wholly its own; the rest of the tree is merged from them on every
//! rank. The result has the same bits on any number of ranks and threads.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytemuck::{AnyBitPattern, NoUninit};
use rayon::prelude::*;

use super::{Alone, Incoming, Outgoing, Partition, Ranks, RowBlocks};

/// Rows per piece of work when rows are packed; few in tests, whose graphs are small.
const PACKED: usize = if cfg!(test) { 8 } else { 512 };

/// Who owns which rows, and what this rank sends and receives. A clone shares everything.
///
/// ```
/// use ignn::parallel::{RowBlocks, Rows};
///
/// let rows = Rows::alone(RowBlocks::for_sums(100, &[]));
/// let sum = rows.sum(|rows| vec![rows.map(|row| row as f32).sum::<f32>()], |a, b| {
///     vec![a[0] + b[0]]
/// });
/// assert_eq!(sum, Some(vec![4950.0]));
/// ```
#[derive(Clone, Debug)]
pub struct Rows {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    ranks: Arc<dyn Ranks>,
    parts: RowBlocks,
    partition: Partition,
    /// Rows of other ranks, ascending.
    ghosts: Vec<u32>,
    /// Own rows that each of these ranks has as ghosts, ascending.
    sends: Vec<(usize, Vec<u32>)>,
    /// Positions among the ghosts of the rows of each of these ranks.
    receives: Vec<(usize, Range<usize>)>,
    traffic: Mutex<Traffic>,
    buffers: Mutex<Buffers>,
}

/// What a sweep that skips rows knows of them; a byte for each row of a matrix with ghosts. Those of
/// ghosts become those of their owners.
#[derive(Debug)]
pub struct RowFlags<'a> {
    /// Whether the row moved enough for those that gather from it; 0 for ghosts that were not sent.
    pub moved: &'a mut [u8],
    /// Whether the row may differ from what it was before. If this is 0 for a ghost, its row is there
    /// already.
    pub differs: &'a mut [u8],
    /// Whether all rows were computed: then no row is known to be as before, or to be there.
    pub all: bool,
}

/// Rows that a rank sends, and ghosts that it receives, by rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SomeRows {
    sends: RankLists,
    receives: RankLists,
}

/// Rows of a matrix, by rank.
type RankLists = Vec<(usize, Vec<u32>)>;

/// What a rank has exchanged to bring ghosts up to date.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    /// Number of exchanges.
    pub exchanges: u64,
    /// Bytes that it sent.
    pub bytes: u64,
    /// Time from the first row packed to the last one unpacked, waiting included.
    pub seconds: f64,
}

impl Traffic {
    /// What was exchanged after this.
    pub fn since(self, before: Self) -> Self {
        Self {
            exchanges: self.exchanges - before.exchanges,
            bytes: self.bytes - before.bytes,
            seconds: self.seconds - before.seconds,
        }
    }
}

/// A partial sum, or another value, that can be sent.
pub trait Node: Sized + Send {
    /// Its bytes.
    fn to_bytes(&self) -> Vec<u8>;
    /// The same value from its bytes.
    fn from_bytes(bytes: &[u8]) -> Self;

    /// The bytes of several values.
    fn list_to_bytes(list: &[Self]) -> Vec<u8> {
        let mut all = Vec::new();
        for value in list {
            let bytes = value.to_bytes();
            all.extend((bytes.len() as u64).to_le_bytes());
            all.extend(bytes);
        }
        all
    }

    /// The values from their bytes.
    fn list_from_bytes(mut bytes: &[u8]) -> Vec<Self> {
        let mut list = Vec::new();
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_at(size_of::<u64>());
            let (value, more) = rest.split_at(bytemuck::pod_read_unaligned::<u64>(length) as usize);
            list.push(Self::from_bytes(value));
            bytes = more;
        }
        list
    }
}

impl<T: AnyBitPattern + NoUninit + Send> Node for Vec<T> {
    fn to_bytes(&self) -> Vec<u8> {
        bytemuck::cast_slice(self).to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        bytemuck::pod_collect_to_vec(bytes)
    }
}

impl From<Inner> for Rows {
    fn from(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }
}

impl Rows {
    /// All rows on this rank.
    pub fn alone(parts: RowBlocks) -> Self {
        let partition = Partition::new(&parts, &[], 1);
        let (ghosts, sends, receives) = (Vec::new(), Vec::new(), Vec::new());
        let (traffic, buffers) = Default::default();
        let ranks = Alone::shared();
        Inner { ranks, parts, partition, ghosts, sends, receives, traffic, buffers }.into()
    }

    /// The rows of this rank, with these ghosts, ascending. All ranks call it together: each learns
    /// which of its rows the others need.
    pub fn of_rank(
        ranks: Arc<dyn Ranks>,
        parts: RowBlocks,
        partition: Partition,
        ghosts: Vec<u32>,
    ) -> Self {
        let mut receives: Vec<(usize, Range<usize>)> = Vec::new();
        let mut first = 0;
        while first < ghosts.len() {
            let owner = partition.owner(ghosts[first] as usize);
            let end = partition.rows(owner).end;
            let last = ghosts.partition_point(|&ghost| (ghost as usize) < end);
            receives.push((owner, first..last));
            first = last;
        }
        // An empty list for a rank whose rows are not needed.
        let others: Vec<usize> = (0..ranks.size()).filter(|&rank| rank != ranks.rank()).collect();
        let list = |&rank: &usize| {
            let needed = receives.iter().find(|(owner, _)| *owner == rank);
            let needed = needed.map_or(&[][..], |(_, range)| &ghosts[range.clone()]);
            (rank, needed.to_vec().to_bytes())
        };
        let lists = ranks.exchange(others.iter().map(list).collect(), &others);
        let start = partition.rows(ranks.rank()).start as u32;
        let sends = others.into_iter().zip(lists).map(|(rank, list)| {
            let rows: Vec<u32> = Vec::from_bytes(&list);
            (rank, rows.into_iter().map(|row| row - start).collect::<Vec<u32>>())
        });
        let sends = sends.filter(|(_, rows)| !rows.is_empty()).collect();
        let (traffic, buffers) = Default::default();
        Inner { ranks, parts, partition, ghosts, sends, receives, traffic, buffers }.into()
    }

    /// The ranks.
    pub fn ranks(&self) -> &dyn Ranks {
        &*self.inner.ranks
    }

    /// The same, shared.
    pub(crate) fn shared_ranks(&self) -> Arc<dyn Ranks> {
        Arc::clone(&self.inner.ranks)
    }

    /// Whether all rows are on this rank.
    pub fn is_alone(&self) -> bool {
        self.ranks().is_alone()
    }

    /// Number of rows of all ranks.
    pub fn all(&self) -> usize {
        self.inner.parts.rows()
    }

    /// Number of own rows.
    pub fn len(&self) -> usize {
        self.own().len()
    }

    /// Whether this rank has no rows.
    pub fn is_empty(&self) -> bool {
        self.own().is_empty()
    }

    /// The own rows, as they are numbered in the graph.
    pub fn own(&self) -> Range<usize> {
        self.inner.partition.rows(self.ranks().rank())
    }

    /// The ghosts, as they are numbered in the graph.
    pub fn ghosts(&self) -> &[u32] {
        &self.inner.ghosts
    }

    /// Number of rows of a matrix that has ghosts.
    pub fn with_ghosts(&self) -> usize {
        match self.is_alone() {
            true => self.len(),
            false => Self::first_ghost(self.len()) + self.inner.ghosts.len(),
        }
    }

    /// The first row of the ghosts behind this many own rows.
    pub fn first_ghost(own: usize) -> usize {
        own.next_multiple_of(RowBlocks::STEP)
    }

    /// Number of rows that this rank sends in an exchange, at most.
    pub fn sent(&self) -> usize {
        self.inner.sends.iter().map(|(_, rows)| rows.len()).sum()
    }

    /// What this rank has exchanged so far.
    pub fn traffic(&self) -> Traffic {
        *self.inner.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number in the graph of each row of a matrix that has ghosts; 0 between them.
    pub fn numbers(&self) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.own().map(|row| row as u32).collect();
        if !self.is_alone() {
            numbers.resize(Self::first_ghost(self.len()), 0);
            numbers.extend(&self.inner.ghosts);
        }
        numbers
    }

    /// What belongs to each row of a matrix that has ghosts, from what belongs to all rows of the
    /// graph; `filler` between them.
    pub fn select<T: Copy>(&self, all: &[T], filler: T) -> Vec<T> {
        let mut own = all[self.own()].to_vec();
        if !self.is_alone() {
            own.resize(Self::first_ghost(self.len()), filler);
            own.extend(self.inner.ghosts.iter().map(|&ghost| all[ghost as usize]));
        }
        own
    }

    /// The rows of a rank, as they are numbered in the graph.
    pub(crate) fn rows_of(&self, rank: usize) -> Range<usize> {
        self.inner.partition.rows(rank)
    }

    /// The rank that has a row of the graph.
    pub(crate) fn owner(&self, row: usize) -> usize {
        self.inner.partition.owner(row)
    }

    /// The positions of own rows in an ascending list of rows of the graph.
    pub fn positions(&self, items: &[u32]) -> Range<usize> {
        self.positions_of(self.ranks().rank(), items)
    }

    fn positions_of(&self, rank: usize, items: &[u32]) -> Range<usize> {
        let rows = self.inner.partition.rows(rank);
        let at = |row: usize| items.partition_point(|&item| (item as usize) < row);
        at(rows.start)..at(rows.end)
    }

    /// Brings the ghosts of a matrix up to date, given as `stride` floats per row of which the first
    /// `cols` count. With `before`, a matrix whose ghosts are up to date, only rows that differ from
    /// it are sent, and with flags only those that may.
    ///
    /// # Panics
    /// If lengths do not match.
    pub fn update(
        &self,
        before: Option<&[f32]>,
        state: &mut [f32],
        (stride, cols): (usize, usize),
        mut flags: Option<RowFlags<'_>>,
    ) {
        if self.is_alone() {
            return;
        }
        assert_eq!(state.len(), self.with_ghosts() * stride, "a matrix with ghosts");
        if cols == 0 {
            return;
        }
        let started = Instant::now();
        let inner = &*self.inner;
        let mut buffers = inner.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        let Buffers { packed, heads } = &mut *buffers;
        packed.resize_with(inner.sends.len(), Packed::default);
        heads.resize_with(inner.receives.len(), Vec::new);
        let first = Self::first_ghost(self.len());
        let (own, mut ghosts) = state.split_at_mut(first * stride);
        for ((_, rows), packed) in inner.sends.iter().zip(&mut *packed) {
            packed.fill(rows, before, own, (stride, cols), flags.as_ref());
        }
        let outgoing = inner.sends.iter().zip(&*packed).map(|((rank, rows), packed)| Outgoing {
            rank: *rank,
            head: &packed.head,
            data: bytemuck::cast_slice(&packed.rows[..packed.moved.len() * cols]),
            most: rows.len() * cols * size_of::<f32>(),
        });
        let outgoing: Vec<_> = outgoing.collect();
        let mut incoming = Vec::new();
        for ((rank, range), head) in inner.receives.iter().zip(&mut *heads) {
            head.resize(size_of::<u64>() + range.len() * (size_of::<u32>() + 1), 0);
            let (part, rest) = ghosts.split_at_mut(range.len() * stride);
            ghosts = rest;
            let data = bytemuck::cast_slice_mut(&mut part[..range.len() * cols]);
            incoming.push(Incoming { rank: *rank, head, data });
        }
        self.ranks().transfer(&outgoing, &mut incoming);
        let sent: usize = outgoing.iter().map(|out| out.head.len() + out.data.len()).sum();
        if let Some(flags) = &mut flags {
            flags.moved[first..].fill(0);
        }
        for ((_, range), head) in inner.receives.iter().zip(&*heads) {
            let (count, rest) = head.split_at(size_of::<u64>());
            let count = bytemuck::pod_read_unaligned::<u64>(count) as usize;
            let is_part = count < range.len();
            let (places, marks) = rest.split_at(if is_part { count * size_of::<u32>() } else { 0 });
            let places: Option<Vec<u32>> = is_part.then(|| Vec::from_bytes(places));
            let ghosts = first + range.start..first + range.end;
            let part = ghosts.start * stride..ghosts.end * stride;
            let mut known = None;
            if let Some(RowFlags { moved, differs, all }) = &mut flags {
                let moved = &mut moved[ghosts.clone()];
                match &places {
                    Some(places) => {
                        places.iter().zip(marks).for_each(|(&at, &mark)| moved[at as usize] = mark);
                    }
                    None => moved.copy_from_slice(&marks[..count]),
                }
                let differs = &mut differs[ghosts];
                if *all {
                    differs.fill(1);
                }
                known = Some(differs);
            }
            let before = before.map(|before| &before[part.clone()]);
            unpack(&mut state[part], (stride, cols), count, places.as_deref(), before, known);
        }
        let mut traffic = inner.traffic.lock().unwrap_or_else(PoisonError::into_inner);
        traffic.exchanges += 1;
        traffic.bytes += sent as u64;
        traffic.seconds += started.elapsed().as_secs_f64();
    }

    /// The exchanges of some rounds, each of the rows of its round. `round_of` has the round of each
    /// row of a matrix with ghosts.
    pub(crate) fn in_rounds(&self, round_of: &[u32], rounds: usize) -> Vec<SomeRows> {
        let mut all = vec![SomeRows::default(); rounds];
        let mut add = |lists: fn(&mut SomeRows) -> &mut RankLists, rank, row: u32| {
            let lists = lists(&mut all[round_of[row as usize] as usize]);
            match lists.last_mut().filter(|(last, _)| *last == rank) {
                Some((_, rows)) => rows.push(row),
                None => lists.push((rank, vec![row])),
            }
        };
        for (rank, rows) in &self.inner.sends {
            rows.iter().for_each(|&row| add(|some| &mut some.sends, *rank, row));
        }
        let first = Self::first_ghost(self.len());
        for (rank, range) in &self.inner.receives {
            range.clone().for_each(|at| add(|some| &mut some.receives, *rank, (first + at) as u32));
        }
        all
    }

    /// Brings some ghosts of a matrix up to date, as [`Rows::update`] does all of them.
    pub(crate) fn update_some(
        &self,
        some: &SomeRows,
        state: &mut [f32],
        (stride, cols): (usize, usize),
    ) {
        let row = |row: &u32| *row as usize * stride..*row as usize * stride + cols;
        let pack = |(rank, rows): &(usize, Vec<u32>)| {
            let entries = rows.iter().flat_map(|at| &state[row(at)]).copied();
            (*rank, entries.collect::<Vec<f32>>().to_bytes())
        };
        let messages = some.sends.iter().map(pack).collect();
        let from: Vec<usize> = some.receives.iter().map(|(rank, _)| *rank).collect();
        let received = self.ranks().exchange(messages, &from);
        for ((_, rows), message) in some.receives.iter().zip(received) {
            for (at, bytes) in rows.iter().zip(message.chunks_exact((cols * 4).max(1))) {
                bytemuck::cast_slice_mut(&mut state[row(at)]).copy_from_slice(bytes);
            }
        }
    }

    /// Makes a compact matrix, with one row of `stride` entries for each of these rows of the graph
    /// in ascending order, the same on every rank: each fills in its own rows before.
    pub(crate) fn share<T: AnyBitPattern + NoUninit>(
        &self,
        items: &[u32],
        compact: &mut [T],
        stride: usize,
    ) {
        if self.is_alone() {
            return;
        }
        assert_eq!(compact.len(), items.len() * stride, "one row per item");
        let entries = |rank: usize| {
            let positions = self.positions_of(rank, items);
            positions.start * stride..positions.end * stride
        };
        let own = bytemuck::cast_slice(&compact[entries(self.ranks().rank())]).to_vec();
        for (rank, bytes) in self.ranks().gather(own).iter().enumerate() {
            let to = bytemuck::cast_slice_mut::<T, u8>(&mut compact[entries(rank)]);
            to.copy_from_slice(bytes);
        }
    }

    /// On the first rank, what belongs to all rows of the graph, from what belongs to each rank's own
    /// rows.
    pub(crate) fn collect<T: AnyBitPattern + NoUninit + Send>(&self, own: &[T]) -> Option<Vec<T>> {
        assert_eq!(own.len() % self.len().max(1), 0, "as many entries for every row");
        if self.is_alone() {
            return Some(own.to_vec());
        }
        if self.ranks().rank() > 0 {
            self.ranks().exchange(vec![(0, bytemuck::cast_slice(own).to_vec())], &[]);
            return None;
        }
        let others: Vec<usize> = (1..self.ranks().size()).collect();
        let mut all = own.to_vec();
        for bytes in self.ranks().exchange(Vec::new(), &others) {
            all.extend(Vec::<T>::from_bytes(&bytes));
        }
        Some(all)
    }

    /// A sum over all rows: `work` is called with own rows, numbered from 0, one part at a time.
    /// `None` if there are no rows.
    pub fn sum<R: Node>(
        &self,
        work: impl Fn(Range<usize>) -> R + Sync,
        merge: impl Fn(R, R) -> R + Sync,
    ) -> Option<R> {
        let start = self.own().start;
        let work = |rows: Range<usize>| work(rows.start - start..rows.end - start);
        let parts = &self.inner.parts;
        if self.is_alone() {
            return parts.map_reduce((), |(), _| ((), ()), |_, rows, ()| work(rows), merge);
        }
        let mut nodes = Vec::new();
        let own = self.inner.partition.parts(self.ranks().rank());
        parts.subtrees(0..parts.len(), &own, &mut |part| {
            nodes.push(parts.reduce_subtree(part, &work, &merge));
        });
        let mut found = std::collections::HashMap::new();
        for (rank, message) in self.ranks().gather(R::list_to_bytes(&nodes)).iter().enumerate() {
            let mut nodes = R::list_from_bytes(message).into_iter();
            let own = self.inner.partition.parts(rank);
            parts.subtrees(0..parts.len(), &own, &mut |part| {
                found.insert((part.start, part.end), nodes.next().expect("one node per subtree"));
            });
        }
        merged(0..parts.len(), &mut found, &merge)
    }

    /// A sum over all rows in their order, where `work` continues from the sum of the rows before:
    /// one rank after the other. Every rank gets the result.
    pub(crate) fn chain<T: AnyBitPattern + NoUninit + Send>(
        &self,
        start: Vec<T>,
        work: impl FnOnce(Vec<T>) -> Vec<T>,
    ) -> Vec<T> {
        if self.is_alone() {
            return work(start);
        }
        let (rank, last) = (self.ranks().rank(), self.ranks().size() - 1);
        let before = match rank {
            0 => start,
            _ => Vec::from_bytes(&self.ranks().exchange(Vec::new(), &[rank - 1])[0]),
        };
        let sum = if self.is_empty() { before } else { work(before) };
        if rank < last {
            self.ranks().exchange(vec![(rank + 1, sum.to_bytes())], &[]);
        }
        Vec::from_bytes(&self.ranks().broadcast(last, sum.to_bytes()))
    }
}

/// Memory of exchanges, kept from one to the next.
#[derive(Debug, Default)]
struct Buffers {
    /// One for each rank that rows are sent to.
    packed: Vec<Packed>,
    /// The heads of messages, one for each rank that rows come from.
    heads: Vec<Vec<u8>>,
}

/// Rows that are sent to a rank.
#[derive(Debug, Default)]
struct Packed {
    /// How many, which of them if not all, and a flag for each if there are any.
    head: Vec<u8>,
    /// Positions of the rows that moved.
    moved: Vec<u32>,
    /// These rows; what is behind them means nothing.
    rows: Vec<f32>,
}

/// Some rows that may be sent, and room for them and for their positions.
type ToPack<'a> = ((&'a [u32], &'a mut [f32]), &'a mut [u32]);

impl Packed {
    /// Packs those of some rows that differ from the ones before.
    fn fill(
        &mut self,
        rows: &[u32],
        before: Option<&[f32]>,
        state: &[f32],
        (stride, cols): (usize, usize),
        flags: Option<&RowFlags<'_>>,
    ) {
        let Self { head, moved, rows: packed } = self;
        packed.resize(packed.len().max(rows.len() * cols), 0.0);
        moved.resize(rows.len(), 0);
        let pack = |(chunk, ((rows, to), moved)): (usize, ToPack<'_>)| {
            let mut count = 0;
            let may_differ =
                |row: u32| flags.is_none_or(|flags| flags.all || flags.differs[row as usize] != 0);
            for (at, &row) in rows.iter().enumerate().filter(|(_, row)| may_differ(**row)) {
                let range = row as usize * stride..row as usize * stride + cols;
                let new = &state[range.clone()];
                let has_moved = |before: &[f32]| {
                    bytemuck::cast_slice::<f32, u8>(&before[range])
                        != bytemuck::cast_slice::<f32, u8>(new)
                };
                if before.is_none_or(has_moved) {
                    to[count * cols..][..cols].copy_from_slice(new);
                    moved[count] = (chunk * PACKED + at) as u32;
                    count += 1;
                }
            }
            count
        };
        let chunks = rows.par_chunks(PACKED).zip(packed.par_chunks_mut(PACKED * cols));
        let chunks = chunks.zip(moved.par_chunks_mut(PACKED)).enumerate();
        let counts: Vec<usize> = chunks.map(pack).collect();
        let mut end = 0;
        for (chunk, count) in counts.into_iter().enumerate() {
            let start = chunk * PACKED;
            if start > end {
                packed.copy_within(start * cols..(start + count) * cols, end * cols);
                moved.copy_within(start..start + count, end);
            }
            end += count;
        }
        moved.truncate(end);
        head.clear();
        head.extend((end as u64).to_le_bytes());
        if end < rows.len() {
            head.extend_from_slice(bytemuck::cast_slice(moved));
        }
        let flag = |flags: &RowFlags<'_>, at: &u32| flags.moved[rows[*at as usize] as usize];
        head.extend(flags.iter().flat_map(|flags| moved.iter().map(|at| flag(flags, at))));
    }
}

/// Moves the first `count` rows of a part of a matrix, which are there without padding, to their
/// places; ascending ones, or all of them. The other rows become those of `before`, which some of
/// them are already: `differs` says which are not.
fn unpack(
    part: &mut [f32],
    (stride, cols): (usize, usize),
    count: usize,
    places: Option<&[u32]>,
    before: Option<&[f32]>,
    differs: Option<&mut [u8]>,
) {
    let place = |at: usize| places.map_or(at, |places| places[at] as usize);
    if places.is_some() || stride > cols {
        // From the last one: no row is moved to where one is that is still to be moved.
        for at in (0..count).rev() {
            let start = place(at) * stride;
            part.copy_within(at * cols..(at + 1) * cols, start);
            part[start + cols..start + stride].fill(0.0);
        }
    }
    let mut all = Vec::new();
    let differs = differs.unwrap_or_else(|| {
        all.resize(part.len() / stride, 1);
        &mut all
    });
    let (Some(places), Some(before)) = (places, before) else { return differs.fill(1) };
    // Rows that were moved to the places of others on their way have overwritten what was there.
    differs[..count].fill(1);
    let chunks = part.par_chunks_mut(PACKED * stride).zip(before.par_chunks(PACKED * stride));
    let chunks = chunks.zip(differs.par_chunks_mut(PACKED)).enumerate();
    chunks.for_each(|(chunk, ((part, before), differs))| {
        let first = chunk * PACKED;
        let moved = &places[places.partition_point(|&at| (at as usize) < first)..];
        let mut moved = moved.iter().map(|&at| at as usize - first).peekable();
        let rows = part.chunks_mut(stride).zip(before.chunks(stride)).zip(differs);
        for (at, ((row, old), differs)) in rows.enumerate() {
            if moved.next_if_eq(&at).is_some() {
                *differs = 1;
            } else if std::mem::replace(differs, 0) != 0 {
                row.copy_from_slice(old);
            }
        }
    });
}

/// The value of a subtree from those of the subtrees that it consists of.
fn merged<R>(
    parts: Range<usize>,
    found: &mut std::collections::HashMap<(usize, usize), R>,
    merge: &impl Fn(R, R) -> R,
) -> Option<R> {
    if parts.is_empty() {
        return None;
    }
    if let Some(node) = found.remove(&(parts.start, parts.end)) {
        return Some(node);
    }
    let middle = RowBlocks::middle(&parts);
    let first = merged(parts.start..middle, found, merge)?;
    Some(merge(first, merged(middle..parts.end, found, merge)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parallel::ThreadRanks;

    /// Rows with neighbours, and what a rank of several sees of them.
    fn ranks_of(neighbours: &[Vec<u32>], ranks: Arc<dyn Ranks>) -> Rows {
        let mut offsets = vec![0u64];
        neighbours
            .iter()
            .for_each(|row| offsets.push(offsets[offsets.len() - 1] + row.len() as u64));
        let parts = RowBlocks::for_sums(neighbours.len(), &[&offsets]);
        let partition = Partition::new(&parts, &[&offsets], ranks.size());
        let own = partition.rows(ranks.rank());
        let mut ghosts: Vec<u32> = neighbours[own.clone()].iter().flatten().copied().collect();
        ghosts.retain(|&row| !own.contains(&(row as usize)));
        ghosts.sort_unstable();
        ghosts.dedup();
        Rows::of_rank(ranks, parts, partition, ghosts)
    }

    fn graph() -> impl Strategy<Value = Vec<Vec<u32>>> {
        (1usize..200).prop_flat_map(|rows| {
            let row = prop::collection::vec(0..rows as u32, 0..6);
            // The first row is a hub.
            prop::collection::vec(row, rows).prop_map(|mut graph| {
                graph[0] = (0..graph.len() as u32).collect();
                graph
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn an_exchange_is_a_gather_from_the_whole(
            graph in graph(),
            size in 1usize..9,
            // Rows with padding and without.
            shape in prop::sample::select(vec![(4, 3), (1, 1), (16, 16), (32, 20)]),
        ) {
            let value = |row: u32, turn: u32| (row * 7 + turn * (row % 3)) as f32;
            let found = ThreadRanks::run(size, 1, |ranks| {
                let rows = ranks_of(&graph, ranks);
                let numbers = rows.numbers();
                prop_assert_eq!(numbers.len(), rows.with_ghosts());
                let is_row = |at: usize| at < rows.len() || at >= Rows::first_ghost(rows.len());
                let fill = |turn: u32| -> Vec<f32> {
                    let own = numbers.iter().enumerate();
                    let own = own.flat_map(|(at, &row)| {
                        let value = if at < rows.len() { value(row, turn) } else { f32::NAN };
                        (0..shape.0).map(move |k| if k < shape.1 { value + k as f32 } else { 0.0 })
                    });
                    own.collect()
                };
                let mut before = fill(0);
                rows.update(None, &mut before, shape, None);
                let mut state = fill(1);
                let mut moved: Vec<u8> = numbers.iter().map(|row| (row % 5) as u8).collect();
                let (expected, mut differs) = (moved.clone(), vec![1; moved.len()]);
                let flags = RowFlags { moved: &mut moved, differs: &mut differs, all: true };
                rows.update(Some(&before), &mut state, shape, Some(flags));
                for (at, &row) in numbers.iter().enumerate().filter(|(at, _)| is_row(*at)) {
                    for (k, &found) in state[at * shape.0..][..shape.0].iter().enumerate() {
                        let expected = if k < shape.1 { value(row, 1) + k as f32 } else { 0.0 };
                        prop_assert_eq!(found, expected);
                    }
                    // Rows that did not move were not sent.
                    let sent = at < rows.len() || row % 3 != 0;
                    prop_assert_eq!(moved[at], if sent { expected[at] } else { 0 });
                }
                // A sweep that computes every fifth row, into the state before; the others are copied
                // there, but for ghosts.
                let is_computed = |row: u32| row % 5 == 1;
                let last = |row: u32| value(row, 1) + f32::from(u8::from(is_computed(row)));
                let mut next = before;
                for (at, &row) in numbers[..rows.len()].iter().enumerate() {
                    let to = &mut next[at * shape.0..][..shape.1];
                    to.iter_mut().zip(0u8..).for_each(|(to, k)| *to = last(row) + f32::from(k));
                    differs[at] = is_computed(row).into();
                }
                let flags = RowFlags { moved: &mut moved, differs: &mut differs, all: false };
                rows.update(Some(&state), &mut next, shape, Some(flags));
                for (at, &row) in numbers.iter().enumerate().filter(|(at, _)| is_row(*at)) {
                    for (&found, k) in next[at * shape.0..][..shape.1].iter().zip(0u8..) {
                        prop_assert_eq!(found, last(row) + f32::from(k));
                    }
                    prop_assert_eq!(differs[at] != 0, is_computed(row));
                }
                Ok(rows.sent())
            });
            let sent: Result<Vec<usize>, _> = found.into_iter().collect();
            let ghosts = ThreadRanks::run(size, 1, |ranks| ranks_of(&graph, ranks).ghosts().len());
            prop_assert_eq!(sent?.iter().sum::<usize>(), ghosts.iter().sum::<usize>());
        }

        #[test]
        fn sums_have_the_same_bits_on_any_number_of_ranks(graph in graph(), size in 2usize..9) {
            let term = |row: usize| 1.0 / (1.0 + row as f32);
            let sums = |ranks: Arc<dyn Ranks>| {
                let rows = ranks_of(&graph, ranks);
                let start = rows.own().start;
                let terms = |own: Range<usize>| own.map(|row| term(start + row));
                let add = |a: Vec<f32>, b: Vec<f32>| vec![a[0] + b[0]];
                let tree = rows.sum(|own| vec![terms(own).sum()], add);
                let own = 0..rows.len();
                let chain = rows.chain(vec![0.0f32], |sum| vec![terms(own).fold(sum[0], |a, b| a + b)]);
                let items: Vec<u32> = (0..graph.len() as u32).step_by(3).collect();
                let mut compact = vec![0u32; 2 * items.len()];
                for at in rows.positions(&items) {
                    compact[2 * at..][..2].fill(items[at] + 1);
                }
                rows.share(&items, &mut compact, 2);
                (tree, chain, compact)
            };
            let alone = sums(Alone::shared());
            prop_assert!(alone.2.chunks(2).zip((0..).step_by(3)).all(|(pair, item)| pair == [item + 1; 2]));
            for found in ThreadRanks::run(size, 1, sums) {
                prop_assert_eq!(&found, &alone);
            }
        }
    }
}
