//! The thread pool of the process; it knows no graph.
//! Results never depend on the number of threads.

/// Starts the pool that all parallel work shares. The first call decides; later ones change nothing.
pub fn start(threads: usize) {
    // An error means that the pool runs already: a caller of the library, or a test, was first.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build_global();
}
