//! Ending long work early, on request of another thread.
//!
//! The request belongs to the thread that drives the work, not to the work's arguments: solves are
//! called from many places, none of which has anything to say about it.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static REQUEST: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Runs `work`. Once `stop` is set, solves that this thread runs in it end with an error, at their
/// next sweep. Parts of the work that cannot fail go on to their end. It is not for work on several
/// [`Ranks`](super::Ranks), which must end together.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::AtomicBool;
/// use ignn::kernels::Activation;
/// use ignn::nn::{Equilibrium, Operators};
/// use ignn::parallel;
/// use ignn::prelude::*;
///
/// let graph = GraphBuilder::new(3).edges([(0, 1), (1, 2)]).build()?;
/// let mut layer = Equilibrium::new(&Operators::of(graph.relations()?), 1, Activation::Tanh);
/// let w = Matrix::from_fn(1, 1, |_, _| 0.5);
///
/// // Usually set by another thread, while the work goes on.
/// let stop = Arc::new(AtomicBool::new(true));
/// let solve = || layer.solve(&[w.view()], &SolveParams::default());
/// let error = parallel::stoppable(&stop, solve).unwrap_err();
/// assert_eq!(error.to_string(), "forward solve: stopped on request before sweep 1");
/// assert!(layer.solve(&[w.view()], &SolveParams::default())?.converged);
/// # Ok::<(), ignn::Error>(())
/// ```
pub fn stoppable<R>(stop: &Arc<AtomicBool>, work: impl FnOnce() -> R) -> R {
    /// Work may be nested: a thread that waits for others may take over other work meanwhile.
    struct Restore(Option<Arc<AtomicBool>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            REQUEST.set(self.0.take());
        }
    }
    let _restore = Restore(REQUEST.replace(Some(Arc::clone(stop))));
    work()
}

/// Whether the work of this thread should end.
pub fn is_stopped() -> bool {
    REQUEST.with_borrow(|stop| stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_work_has_its_own_request() {
        let [stop, go] = [true, false].map(|is_set| Arc::new(AtomicBool::new(is_set)));
        let seen = stoppable(&stop, || [stoppable(&go, is_stopped), is_stopped()]);
        assert_eq!((seen, is_stopped()), ([false, true], false));
        let panicked = std::panic::catch_unwind(|| stoppable(&stop, || panic!("in the work")));
        assert!(panicked.is_err() && !is_stopped());
    }
}
