//! Processes that compute together, each with rows of its own: the ranks of MPI, threads of one
//! process, or this process alone. They exchange messages and nothing else; who owns which rows,
//! and what is sent, is in [`Rows`](super::Rows).
//!
//! All ranks make the same calls in the same order. What they compute from the messages of all is
//! therefore the same on every rank, and so are their decisions.

use std::fmt::Debug;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::{AnyBitPattern, NoUninit};

use super::Node;

/// A message to a rank, in two parts.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The receiver.
    pub rank: usize,
    /// The first part.
    pub head: &'a [u8],
    /// The second part.
    pub data: &'a [u8],
    /// The largest length of the second part: that of the receiver's memory.
    pub most: usize,
}

/// Memory for a message from a rank.
#[derive(Debug)]
pub struct Incoming<'a> {
    /// The sender.
    pub rank: usize,
    /// For the first part; may be longer.
    pub head: &'a mut [u8],
    /// For the second part; may be longer.
    pub data: &'a mut [u8],
}

/// The ranks of a computation, as one of them sees them.
pub trait Ranks: Debug + Send + Sync {
    /// The number of this rank, below [`Ranks::size`].
    fn rank(&self) -> usize;

    /// The number of ranks.
    fn size(&self) -> usize;

    /// Sends messages, each to the rank given, and receives one message from each rank in `from`,
    /// in that order. There is at most one message from one rank to another, and none to itself.
    fn exchange(&self, messages: Vec<(usize, Vec<u8>)>, from: &[usize]) -> Vec<Vec<u8>>;

    /// Sends messages, and receives others into memory that is there already, one from each rank of
    /// `incoming`. Returns the lengths of what was received. All of it is sent from and to different
    /// ranks, at most one message from one rank to another.
    fn transfer(
        &self,
        outgoing: &[Outgoing<'_>],
        incoming: &mut [Incoming<'_>],
    ) -> Vec<[usize; 2]> {
        let parts =
            |out: &Outgoing<'_>| Vec::list_to_bytes(&[out.head.to_vec(), out.data.to_vec()]);
        let messages = outgoing.iter().map(|out| (out.rank, parts(out))).collect();
        let from: Vec<usize> = incoming.iter().map(|room| room.rank).collect();
        let received = self.exchange(messages, &from);
        let put = |(message, room): (&Vec<u8>, &mut Incoming<'_>)| {
            let parts = Vec::<u8>::list_from_bytes(message);
            for (part, room) in parts.iter().zip([&mut *room.head, &mut *room.data]) {
                room[..part.len()].copy_from_slice(part);
            }
            [parts[0].len(), parts[1].len()]
        };
        received.iter().zip(incoming).map(put).collect()
    }

    /// The messages of all ranks, of the same length each, one after the other.
    fn gather_equal(&self, message: &[u8]) -> Vec<u8> {
        self.gather(message.to_vec()).concat()
    }

    /// The message of every rank, in the order of ranks.
    fn gather(&self, message: Vec<u8>) -> Vec<Vec<u8>> {
        let others: Vec<usize> = (0..self.size()).filter(|&rank| rank != self.rank()).collect();
        let messages = others.iter().map(|&rank| (rank, message.clone())).collect();
        let mut all = self.exchange(messages, &others);
        all.insert(self.rank(), message);
        all
    }

    /// The message of rank `root`; what the others pass is not sent.
    fn broadcast(&self, root: usize, message: Vec<u8>) -> Vec<u8> {
        if self.rank() != root {
            return self.exchange(Vec::new(), &[root]).pop().unwrap_or_default();
        }
        let others = (0..self.size()).filter(|&rank| rank != root);
        self.exchange(others.map(|rank| (rank, message.clone())).collect(), &[]);
        message
    }
}

impl dyn Ranks + '_ {
    /// Whether there is only this rank.
    pub fn is_alone(&self) -> bool {
        self.size() == 1
    }

    /// Whether this is the rank that prints and writes.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// The values of all ranks, merged in the order of ranks.
    pub(crate) fn merge<T: AnyBitPattern + NoUninit>(
        &self,
        value: T,
        merge: impl Fn(T, T) -> T,
    ) -> T {
        if self.is_alone() {
            return value;
        }
        let all = self.gather_equal(bytemuck::bytes_of(&value));
        let all = all.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned);
        all.reduce(merge).unwrap_or(value)
    }

    /// The largest value of all ranks; NaN if one is.
    pub fn max(&self, value: f64) -> f64 {
        self.merge(value, |a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) })
    }

    /// The sum of counts of all ranks.
    pub fn sum(&self, count: u64) -> u64 {
        self.merge(count, |a, b| a + b)
    }

    /// The message for this rank of those that the first rank has, one for each rank.
    pub(crate) fn scatter(&self, mut messages: Vec<Vec<u8>>) -> Vec<u8> {
        if !self.is_first() {
            return self.exchange(Vec::new(), &[0]).pop().unwrap_or_default();
        }
        let own = std::mem::take(&mut messages[0]);
        self.exchange(messages.into_iter().enumerate().skip(1).collect(), &[]);
        own
    }

    /// Whether something holds on any rank.
    pub fn any(&self, holds: bool) -> bool {
        self.sum(holds.into()) > 0
    }

    /// What the first rank decides; the others may pass anything.
    pub fn decided(&self, by_first: bool) -> bool {
        self.broadcast(0, vec![by_first.into()]) == [1]
    }

    /// The results of some jobs in their order, each done by one rank alone and known to all. An error
    /// on one rank is an error on all, as with [`Ranks::agree`].
    pub(crate) fn dealt<T: Node, E: ToString>(
        &self,
        jobs: usize,
        work: impl FnMut(usize) -> Result<T, E>,
        other: impl FnOnce(String) -> E,
    ) -> Result<Vec<T>, E> {
        if self.is_alone() {
            return (0..jobs).map(work).collect();
        }
        let own: Result<Vec<T>, E> = (self.rank()..jobs).step_by(self.size()).map(work).collect();
        let own = self.agree(own, other)?;
        let all = self.gather(Node::list_to_bytes(&own));
        let mut all: Vec<_> =
            all.iter().map(|bytes| T::list_from_bytes(bytes).into_iter()).collect();
        let next = |job: usize| all[job % self.size()].next().expect("one result per job");
        Ok((0..jobs).map(next).collect())
    }

    /// The result of this rank, unless another one failed: then the error of the first rank that
    /// did, made by `other` from its message and its number, on every rank that did not fail itself.
    ///
    /// Whatever may fail on some ranks only goes through here, so that no rank waits for one that
    /// has given up.
    pub fn agree<T, E: ToString>(
        &self,
        result: Result<T, E>,
        other: impl FnOnce(String) -> E,
    ) -> Result<T, E> {
        if self.is_alone() {
            return result;
        }
        let message = match &result {
            Ok(_) => Vec::new(),
            // Never empty.
            Err(error) => format!("e{}", error.to_string()).into_bytes(),
        };
        let all = self.gather(message);
        let failed = all.iter().enumerate().find(|(_, message)| !message.is_empty());
        match (result, failed) {
            (Ok(_), Some((rank, message))) => {
                Err(other(format!("rank {rank}: {}", String::from_utf8_lossy(&message[1..]))))
            }
            (result, _) => result,
        }
    }
}

/// This process alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Alone {
    /// For whoever takes ranks.
    pub fn shared() -> Arc<dyn Ranks> {
        Arc::new(Self)
    }
}

impl Ranks for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn exchange(&self, _messages: Vec<(usize, Vec<u8>)>, _from: &[usize]) -> Vec<Vec<u8>> {
        Vec::new()
    }
}

/// Ranks that are threads of one process, for tests and for measuring what an exchange would send.
#[derive(Debug)]
pub struct ThreadRanks {
    rank: usize,
    /// By receiver.
    to: Vec<Sender<Vec<u8>>>,
    /// By sender.
    from: Vec<Mutex<Receiver<Vec<u8>>>>,
}

impl ThreadRanks {
    /// Runs `work` on this many ranks, each in a pool of its own with `threads` threads, and
    /// returns the results in the order of ranks.
    ///
    /// ```
    /// use ignn::parallel::{Ranks, ThreadRanks};
    ///
    /// let sums = ThreadRanks::run(3, 1, |ranks| ranks.sum(ranks.rank() as u64));
    /// assert_eq!(sums, [3, 3, 3]);
    /// ```
    ///
    /// # Panics
    /// If a rank does.
    pub fn run<R: Send>(
        size: usize,
        threads: usize,
        work: impl Fn(Arc<dyn Ranks>) -> R + Sync,
    ) -> Vec<R> {
        let mut senders: Vec<Vec<_>> = (0..size).map(|_| Vec::new()).collect();
        let mut receivers: Vec<Vec<_>> = (0..size).map(|_| Vec::new()).collect();
        for sender in &mut senders {
            for receiver in &mut receivers {
                let (to, from) = channel();
                sender.push(to);
                receiver.push(Mutex::new(from));
            }
        }
        let all = senders.into_iter().zip(receivers).enumerate();
        let all = all.map(|(rank, (to, from))| Self { rank, to, from });
        let work = &work;
        std::thread::scope(|scope| {
            let ranks: Vec<_> = all
                .map(|ranks| {
                    let ranks: Arc<dyn Ranks> = Arc::new(ranks);
                    scope.spawn(move || super::with_threads(threads, || work(ranks)))
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().expect("a rank that does not panic")).collect()
        })
    }
}

impl Ranks for ThreadRanks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn exchange(&self, messages: Vec<(usize, Vec<u8>)>, from: &[usize]) -> Vec<Vec<u8>> {
        for (rank, message) in messages {
            self.to[rank].send(message).expect("a rank that still runs");
        }
        let receive = |&rank: &usize| {
            let from = self.from[rank].lock().unwrap_or_else(PoisonError::into_inner);
            from.recv().expect("a rank that still runs")
        };
        from.iter().map(receive).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_and_the_first_error_is_everywhere() {
        for size in [1, 2, 5] {
            let found = ThreadRanks::run(size, 1, |ranks| {
                let rank = ranks.rank();
                assert_eq!(ranks.size(), size);
                let all = ranks.gather(vec![rank as u8; rank]);
                let expected: Vec<_> = (0..size).map(|rank| vec![rank as u8; rank]).collect();
                assert_eq!(all, expected);
                let root = size - 1;
                assert_eq!(ranks.broadcast(root, vec![rank as u8]), [root as u8]);
                assert_eq!(ranks.max(-(rank as f64)), 0.0);
                assert!(ranks.any(rank == root) && !ranks.any(false));
                let next = (rank + 1) % size;
                if size > 1 {
                    let before = (rank + size - 1) % size;
                    let got = ranks.exchange(vec![(next, vec![7; 3 + rank])], &[before]);
                    assert_eq!(got, [vec![7; 3 + before]]);
                }
                let result = if rank > 0 { Err(format!("{rank} fails")) } else { Ok(rank) };
                ranks.agree(result, |message| message)
            });
            assert_eq!(found[0], if size == 1 { Ok(0) } else { Err("rank 1: 1 fails".into()) });
            for (rank, found) in found.iter().enumerate().skip(1) {
                assert_eq!(*found, Err(format!("{rank} fails")));
            }
        }
    }
}
