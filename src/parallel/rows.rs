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

use super::{Alone, Partition, Ranks, RowBlocks};

/// Rows per piece of work when rows are packed.
const PACKED: usize = 512;

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
}

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

/// A partial sum that can be sent.
pub trait Node: Sized + Send {
    /// Its bytes.
    fn to_bytes(&self) -> Vec<u8>;
    /// The same value from its bytes.
    fn from_bytes(bytes: &[u8]) -> Self;
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
        let (ranks, traffic) = (Alone::shared(), Mutex::default());
        Inner { ranks, parts, partition, ghosts, sends, receives, traffic }.into()
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
        let traffic = Mutex::default();
        Inner { ranks, parts, partition, ghosts, sends, receives, traffic }.into()
    }

    /// The ranks.
    pub fn ranks(&self) -> &dyn Ranks {
        &*self.inner.ranks
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
    /// it are sent. `flags` has a byte for each row; those of ghosts become those of their owners,
    /// or 0 for rows that are not sent.
    ///
    /// # Panics
    /// If lengths do not match.
    pub fn update(
        &self,
        before: Option<&[f32]>,
        state: &mut [f32],
        (stride, cols): (usize, usize),
        mut flags: Option<&mut [u8]>,
    ) {
        if self.is_alone() {
            return;
        }
        assert_eq!(state.len(), self.with_ghosts() * stride, "a matrix with ghosts");
        let started = Instant::now();
        let row = |matrix: &[f32], row: u32| -> Range<usize> {
            debug_assert!(matrix.len() >= (row as usize + 1) * stride);
            row as usize * stride..row as usize * stride + cols
        };
        let has_moved = |at: u32| {
            before.is_none_or(|before| {
                let (old, new) = (&before[row(before, at)], &state[row(state, at)]);
                bytemuck::cast_slice::<f32, u32>(old) != bytemuck::cast_slice::<f32, u32>(new)
            })
        };
        let pack = |(rank, rows): &(usize, Vec<u32>)| {
            let moved: Vec<u32> = (0..rows.len() as u32)
                .into_par_iter()
                .with_min_len(PACKED)
                .filter(|&at| has_moved(rows[at as usize]))
                .collect();
            let flag = |&at: &u32| flags.as_ref().map(|flags| flags[rows[at as usize] as usize]);
            let mut message: Vec<u8> = (moved.len() as u64).to_le_bytes().to_vec();
            if moved.len() < rows.len() {
                message.extend_from_slice(bytemuck::cast_slice(&moved));
            }
            message.extend(moved.iter().filter_map(flag));
            let start = message.len();
            message.resize(start + moved.len() * cols * size_of::<f32>(), 0);
            let to = message[start..].par_chunks_exact_mut((cols * size_of::<f32>()).max(1));
            to.zip(&moved).with_min_len(PACKED).for_each(|(to, &at)| {
                to.copy_from_slice(bytemuck::cast_slice(&state[row(state, rows[at as usize])]));
            });
            (*rank, message)
        };
        let messages: Vec<(usize, Vec<u8>)> = self.inner.sends.iter().map(pack).collect();
        let sent: usize = messages.iter().map(|(_, message)| message.len()).sum();
        let from: Vec<usize> = self.inner.receives.iter().map(|(rank, _)| *rank).collect();
        let received = self.ranks().exchange(messages, &from);
        let first = Self::first_ghost(self.len());
        if let Some(before) = before {
            state[first * stride..].copy_from_slice(&before[first * stride..]);
        }
        if let Some(flags) = &mut flags {
            flags[first..].fill(0);
        }
        for ((_, range), message) in self.inner.receives.iter().zip(received) {
            let (count, rest) = message.split_at(size_of::<u64>());
            let count = bytemuck::pod_read_unaligned::<u64>(count) as usize;
            let (places, rest) = match count < range.len() {
                true => {
                    let (places, rest) = rest.split_at(count * size_of::<u32>());
                    (Vec::from_bytes(places), rest)
                }
                false => ((0..count as u32).collect(), rest),
            };
            let place = |at: u32| first + range.start + at as usize;
            let (marks, rest) = rest.split_at(if flags.is_some() { count } else { 0 });
            if let Some(flags) = &mut flags {
                places.iter().zip(marks).for_each(|(&at, &mark)| flags[place(at)] = mark);
            }
            for (&at, bytes) in places.iter().zip(rest.chunks_exact((cols * 4).max(1))) {
                let to = &mut state[place(at) * stride..][..cols];
                bytemuck::cast_slice_mut(to).copy_from_slice(bytes);
            }
        }
        let mut traffic = self.inner.traffic.lock().unwrap_or_else(PoisonError::into_inner);
        traffic.exchanges += 1;
        traffic.bytes += sent as u64;
        traffic.seconds += started.elapsed().as_secs_f64();
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
        let mut message = Vec::new();
        for node in nodes {
            let bytes = node.to_bytes();
            message.extend((bytes.len() as u64).to_le_bytes());
            message.extend(bytes);
        }
        let mut found = std::collections::HashMap::new();
        for (rank, message) in self.ranks().gather(message).iter().enumerate() {
            let mut rest = &message[..];
            let own = self.inner.partition.parts(rank);
            parts.subtrees(0..parts.len(), &own, &mut |part| {
                let (length, bytes) = rest.split_at(size_of::<u64>());
                let length = bytemuck::pod_read_unaligned::<u64>(length) as usize;
                let (node, more) = bytes.split_at(length);
                found.insert((part.start, part.end), R::from_bytes(node));
                rest = more;
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
        fn an_exchange_is_a_gather_from_the_whole(graph in graph(), size in 1usize..9) {
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
                        [value, -value, 0.0, 0.0]
                    });
                    own.collect()
                };
                let mut before = fill(0);
                rows.update(None, &mut before, (4, 2), None);
                let mut state = fill(1);
                let mut flags: Vec<u8> = numbers.iter().map(|row| (row % 5) as u8).collect();
                let expected = flags.clone();
                rows.update(Some(&before), &mut state, (4, 2), Some(&mut flags));
                for (at, &row) in numbers.iter().enumerate().filter(|(at, _)| is_row(*at)) {
                    prop_assert_eq!(state[4 * at], value(row, 1));
                    prop_assert_eq!(state[4 * at + 1], -value(row, 1));
                    // Rows that did not move were not sent.
                    let sent = at < rows.len() || row % 3 != 0;
                    prop_assert_eq!(flags[at], if sent { expected[at] } else { 0 });
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
