//! Ordered work on several threads: items are produced one by one, processed in parallel and
//! consumed in order. Only a fixed number of items is alive at a time, so memory is bounded, and
//! results never depend on the number of threads.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossbeam_channel::bounded;

/// Items alive at a time, per worker.
const ALIVE_PER_WORKER: usize = 3;

/// Maximum number of items that [`ordered`] keeps alive at a time.
pub fn alive(threads: usize) -> usize {
    threads.max(1) * ALIVE_PER_WORKER
}

/// Buffers for reuse: fresh memory costs one page fault per page, reused memory does not.
#[derive(Debug)]
pub struct BufferPool<T>(Mutex<Vec<Vec<T>>>);

impl<T> Default for BufferPool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> BufferPool<T> {
    /// An empty buffer, a used one if possible.
    pub fn take(&self) -> Vec<T> {
        self.0.lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default()
    }

    /// Returns a buffer; its contents are discarded.
    pub fn give(&self, mut buffer: Vec<T>) {
        buffer.clear();
        if let Ok(mut spare) = self.0.lock() {
            spare.push(buffer);
        }
    }
}

/// Runs `produce -> work -> consume`. The reported error is that of the first failed item in order,
/// whichever thread fails first.
pub fn ordered<T, U, E>(
    threads: usize,
    produce: impl Iterator<Item = Result<T, E>> + Send,
    work: impl Fn(T) -> Result<U, E> + Sync,
    mut consume: impl FnMut(U) -> Result<(), E>,
) -> Result<(), E>
where
    T: Send,
    U: Send,
    E: Send,
{
    let alive = alive(threads);
    let (permit_in, permits) = bounded::<()>(alive);
    for _ in 0..alive {
        permit_in.send(()).expect("room for every permit");
    }
    let (done_in, done) = bounded::<(u64, Result<U, E>)>(alive);
    let stop = AtomicBool::new(false);
    let source = Mutex::new((0u64, produce));
    thread::scope(|scope| {
        let mut workers = 0;
        for _ in 0..threads.max(1) {
            let (permits, done_in) = (permits.clone(), done_in.clone());
            let (source, stop, work) = (&source, &stop, &work);
            let worker = thread::Builder::new().spawn_scoped(scope, move || {
                while permits.recv().is_ok() {
                    let (index, item) = {
                        // A poisoned lock means that the producer panicked on another worker; the
                        // scope propagates the panic.
                        let Ok(mut source) = source.lock() else { return };
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                        let Some(item) = source.1.next() else {
                            stop.store(true, Ordering::Relaxed);
                            return;
                        };
                        if item.is_err() {
                            stop.store(true, Ordering::Relaxed);
                        }
                        source.0 += 1;
                        (source.0 - 1, item)
                    };
                    if done_in.send((index, item.and_then(work))).is_err() {
                        return;
                    }
                }
            });
            // If the system allows no more threads, those that exist do all the work.
            if worker.is_err() {
                break;
            }
            workers += 1;
        }
        drop((done_in, permits));
        if workers == 0
            && let Ok(mut source) = source.lock()
        {
            return source.1.by_ref().try_for_each(|item| consume(work(item?)?));
        }
        let mut waiting = BTreeMap::new();
        let mut next = 0;
        let mut outcome = Ok(());
        'receive: for (index, result) in &done {
            waiting.insert(index, result);
            while let Some(result) = waiting.remove(&next) {
                next += 1;
                outcome = result.and_then(&mut consume);
                if outcome.is_err() {
                    break 'receive;
                }
                // Sending fails if all workers have ended.
                let _ = permit_in.send(());
            }
        }
        stop.store(true, Ordering::Relaxed);
        drop((permit_in, done));
        outcome
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumes_in_order_whatever_the_threads() {
        for threads in [1, 2, 5] {
            let mut seen = Vec::new();
            let work = |i: u64| {
                if i.is_multiple_of(7) {
                    thread::yield_now();
                }
                Ok::<_, ()>(i * 2)
            };
            ordered(threads, (0..1000).map(Ok), work, |i| {
                seen.push(i);
                Ok(())
            })
            .unwrap();
            assert_eq!(seen, (0..1000).map(|i| i * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_first_failure_in_order_is_reported() {
        for threads in [1, 2, 4] {
            let work = |i: u64| if i == 40 || i == 41 || i == 300 { Err(i) } else { Ok(i) };
            assert_eq!(ordered(threads, (0..1000).map(Ok), work, |_| Ok(())), Err(40));
            let produce = (0..1000).map(|i| if i == 20 { Err(i) } else { Ok(i) });
            assert_eq!(ordered(threads, produce, Ok::<u64, u64>, |_| Ok(())), Err(20));
            assert_eq!(
                ordered(threads, (0..1000).map(Ok), Ok::<u64, u64>, |i| if i == 3 {
                    Err(i)
                } else {
                    Ok(())
                }),
                Err(3)
            );
        }
    }
}
