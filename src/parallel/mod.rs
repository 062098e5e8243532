//! The thread pool of the process, and the blocks of rows that it works on; ranks that share rows,
//! and what they exchange. Results never depend on the number of threads or ranks. This module knows
//! nothing about graphs.

mod blocks;
mod jobs;
#[cfg(feature = "mpi")]
mod mpi;
mod partition;
mod ranks;
mod rows;
mod stop;

use std::error::Error;
use std::io;
use std::sync::mpsc;

use ignn_format::mapped::AnonymousMemory;
use rayon::ThreadBuilder;

pub use blocks::RowBlocks;
pub use jobs::for_each_job;
#[cfg(feature = "mpi")]
pub use mpi::Mpi;
pub use partition::Partition;
pub use ranks::{Alone, Incoming, Outgoing, Ranks, ThreadRanks};
pub use rows::{Node, RowFlags, Rows, SomeRows, Traffic};
pub use stop::{is_stopped, stoppable};

/// Starts the pool that all parallel work shares. Only the first call has an effect. An error is
/// that of a system that refuses to start so many threads.
pub fn start(threads: usize) -> io::Result<()> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1));
    let built = builder.spawn_handler(spawn).build_global();
    // The only other error is that the pool is already running: a user of the library was first.
    match built.as_ref().err().and_then(|error| error.source()?.downcast_ref::<io::Error>()) {
        Some(refused) => Err(io::Error::new(refused.kind(), refused.to_string())),
        None => Ok(()),
    }
}

/// Stack of a thread of the standard library.
const STACK_BYTES: usize = 2 << 20;
/// What a thread needs besides: while it starts, the standard library takes memory for the handler
/// of stack overflows, and the process ends if there is none.
const START_BYTES: usize = 1 << 20;

/// Starts a thread where there is memory for it, and waits until it runs: the memory of the next one
/// is looked for after that.
fn spawn(thread: ThreadBuilder) -> io::Result<()> {
    if AnonymousMemory::new(STACK_BYTES + START_BYTES).is_none() {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let (runs, started) = mpsc::channel();
    std::thread::Builder::new().spawn(move || {
        // The other end waits for it.
        let _ = runs.send(());
        thread.run();
    })?;
    // An error is that of a thread that ended before it ran.
    started.recv().map_err(io::Error::other)
}

/// The most threads that a machine with this many cores may be asked for: eight times as many, and
/// never fewer than 256, so that tests can ask for more threads than there are cores.
pub fn most_threads(cores: usize) -> usize {
    cores.saturating_mul(8).max(256)
}

/// Number of threads of the pool that the caller runs in, or of the shared one.
pub fn threads() -> usize {
    rayon::current_num_threads()
}

/// Index of the calling thread in its pool, below [`threads`]; 0 outside of any pool.
pub fn thread_index() -> usize {
    rayon::current_thread_index().unwrap_or(0)
}

/// Runs `work` on a thread of the pool. Parallel work then starts there, instead of waking another
/// thread each time.
pub fn inside<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| work())
}

/// Runs `work` in a pool of its own with this many threads: for benchmarks, and for tests of
/// determinism.
///
/// ```
/// use ignn::parallel;
///
/// let threads = parallel::with_threads(2, parallel::threads);
/// assert_eq!(threads, 2);
/// ```
pub fn with_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    match rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build() {
        Ok(pool) => pool.install(work),
        // The system allows no more threads: those that there are give the same result.
        Err(_) => work(),
    }
}
