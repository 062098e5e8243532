//! The thread pool of the process and the blocks of rows it works on; it knows no graph.
//! Results never depend on the number of threads.

mod blocks;
mod jobs;

pub use blocks::RowBlocks;
pub use jobs::for_each_job;

/// Starts the pool that all parallel work shares. The first call decides; later ones change
/// nothing.
pub fn start(threads: usize) {
    // An error means that the pool runs already: a caller of the library, or a test, was first.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build_global();
}

/// Threads of the pool that the caller is in, or of the shared one.
pub fn threads() -> usize {
    rayon::current_num_threads()
}

/// Number of the calling thread in its pool, below [`threads`]; 0 outside of any pool.
pub fn thread_index() -> usize {
    rayon::current_thread_index().unwrap_or(0)
}

/// Runs `work` on a thread of the pool: each piece of parallel work begins there without waking
/// another thread.
pub fn inside<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    rayon::scope(|_| work())
}

/// Runs `work` in a pool of its own with so many threads; for measuring, and for tests of
/// determinism.
pub fn with_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    match rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build() {
        Ok(pool) => pool.install(work),
        // The system gives no more threads: the result is the same with those there are.
        Err(_) => work(),
    }
}
