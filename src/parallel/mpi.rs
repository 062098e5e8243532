//! Ranks that MPI has started, such as those of `mpirun`. The only file that knows MPI.
//!
//! Messages of any length are sent in pieces, because MPI counts in C ints. They begin with their
//! length: what a rank sends differs from exchange to exchange, and the receiver does not know it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mpi::Threading;
use mpi::datatype::PartitionMut;
use mpi::environment::Universe;
use mpi::point_to_point::Status;
use mpi::request::{WaitGuard, scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

use super::{Incoming, Outgoing, Ranks};

/// Bytes of a piece.
const PIECE: usize = 1 << 28;

/// MPI from its start to its end, which are those of the process.
pub struct Mpi {
    _universe: Universe,
}

impl Mpi {
    /// Starts MPI, once per process; `None` if it has been started before.
    pub fn start() -> Option<Self> {
        // One thread at a time calls MPI, but not always the same.
        let (universe, _) = mpi::initialize_with_threading(Threading::Serialized)?;
        Some(Self { _universe: universe })
    }

    /// The ranks of the job.
    pub fn ranks(&self) -> Arc<dyn Ranks> {
        let world = SimpleCommunicator::world();
        Arc::new(MpiRanks { rank: world.rank() as usize, size: world.size() as usize })
    }

    /// Whether all ranks get here within this time. Those that do can end in order.
    pub fn end_together(&self, within: Duration) -> bool {
        let start = Instant::now();
        let mut barrier = SimpleCommunicator::world().immediate_barrier();
        loop {
            barrier = match barrier.test() {
                Ok(_) => return true,
                Err(pending) => pending,
            };
            if start.elapsed() > within {
                // The job ends with this request pending.
                std::mem::forget(barrier);
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends all ranks at once, with this exit code.
    pub fn abort(&self, code: i32) -> ! {
        SimpleCommunicator::world().abort(code)
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The others would wait for this rank.
            self.abort(101);
        }
    }
}

#[derive(Debug)]
struct MpiRanks {
    rank: usize,
    size: usize,
}

impl Ranks for MpiRanks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn exchange(&self, messages: Vec<(usize, Vec<u8>)>, from: &[usize]) -> Vec<Vec<u8>> {
        let world = SimpleCommunicator::world();
        let lengths: Vec<[u8; 8]> =
            messages.iter().map(|(_, message)| (message.len() as u64).to_le_bytes()).collect();
        scope(|scope| {
            let mut sent = Vec::new();
            for ((rank, message), length) in messages.iter().zip(&lengths) {
                let to = world.process_at_rank(*rank as i32);
                sent.push(WaitGuard::from(to.immediate_send(scope, &length[..])));
                for piece in message.chunks(PIECE) {
                    sent.push(WaitGuard::from(to.immediate_send(scope, piece)));
                }
            }
            let receive = |&rank: &usize| {
                let from = world.process_at_rank(rank as i32);
                let mut length = [0u8; 8];
                from.receive_into(&mut length[..]);
                let mut message = vec![0u8; u64::from_le_bytes(length) as usize];
                for piece in message.chunks_mut(PIECE) {
                    from.receive_into(piece);
                }
                message
            };
            from.iter().map(receive).collect()
        })
    }

    fn transfer(
        &self,
        outgoing: &[Outgoing<'_>],
        incoming: &mut [Incoming<'_>],
    ) -> Vec<[usize; 2]> {
        let world = SimpleCommunicator::world();
        scope(|scope| {
            // Receives first, so that what arrives has its place.
            let mut received = Vec::new();
            for room in incoming.iter_mut() {
                let from = world.process_at_rank(room.rank as i32);
                let head = from.immediate_receive_into(scope, &mut *room.head);
                let data = room.data.chunks_mut(PIECE);
                let data: Vec<_> =
                    data.map(|piece| from.immediate_receive_into(scope, piece)).collect();
                received.push((head, data));
            }
            let mut sent = Vec::new();
            for out in outgoing {
                let to = world.process_at_rank(out.rank as i32);
                sent.push(WaitGuard::from(to.immediate_send(scope, out.head)));
                // As many pieces as the receiver waits for; the last ones may be empty.
                for start in (0..out.most).step_by(PIECE) {
                    let [start, end] =
                        [start, start + PIECE].map(|place| place.min(out.data.len()));
                    sent.push(WaitGuard::from(to.immediate_send(scope, &out.data[start..end])));
                }
            }
            let length = |status: Status| status.count(u8::equivalent_datatype()) as usize;
            let lengths = received.into_iter().map(|(head, data)| {
                let data = data.into_iter().map(|piece| length(piece.wait())).sum();
                [length(head.wait()), data]
            });
            lengths.collect()
        })
    }

    fn gather_equal(&self, message: &[u8]) -> Vec<u8> {
        let mut all = vec![0u8; message.len() * self.size];
        SimpleCommunicator::world().all_gather_into(message, &mut all[..]);
        all
    }

    fn gather(&self, mut message: Vec<u8>) -> Vec<Vec<u8>> {
        // The address of an empty vector without memory is 1, which Open MPI takes for MPI_IN_PLACE.
        message.reserve(1);
        let world = SimpleCommunicator::world();
        let mut lengths = vec![0u64; self.size];
        world.all_gather_into(&(message.len() as u64), &mut lengths[..]);
        let total: u64 = lengths.iter().sum();
        if total > PIECE as u64 {
            let others: Vec<usize> = (0..self.size).filter(|&rank| rank != self.rank).collect();
            let messages = others.iter().map(|&rank| (rank, message.clone())).collect();
            let mut all = self.exchange(messages, &others);
            all.insert(self.rank, message);
            return all;
        }
        let counts: Vec<i32> = lengths.iter().map(|&length| length as i32).collect();
        let ends = counts.iter().scan(0, |end, count| {
            *end += count;
            Some(*end - count)
        });
        let starts: Vec<i32> = ends.collect();
        if total == 0 {
            return vec![Vec::new(); self.size];
        }
        let mut all = vec![0u8; total as usize];
        let mut parts = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
        world.all_gather_varcount_into(&message[..], &mut parts);
        let part =
            |(start, count): (&i32, &i32)| all[*start as usize..][..*count as usize].to_vec();
        starts.iter().zip(&counts).map(part).collect()
    }

    fn broadcast(&self, root: usize, message: Vec<u8>) -> Vec<u8> {
        let world = SimpleCommunicator::world();
        let from = world.process_at_rank(root as i32);
        let mut length = message.len() as u64;
        from.broadcast_into(&mut length);
        let mut message = if self.rank == root { message } else { vec![0; length as usize] };
        for piece in message.chunks_mut(PIECE) {
            from.broadcast_into(piece);
        }
        message
    }
}
