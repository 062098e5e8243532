//! Independent jobs, several at a time: folds of a cross-validation, runs with different seeds.
//! It schedules; what a job does is the caller's business.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Works on independent jobs, `at_once` at a time with one thread each, or one after another on all
/// threads where `at_once` is 1. Results come in the order of `jobs`. After an error, jobs that
/// have not started are left out, and the first error in the order of `jobs` is returned.
///
/// ```
/// let squares = ignn::parallel::for_each_job(&[1, 2, 3], 2, |n| Ok::<_, String>(n * n));
/// assert_eq!(squares, Ok(vec![1, 4, 9]));
/// ```
pub fn for_each_job<J: Sync, R: Send, E: Send>(
    jobs: &[J],
    at_once: usize,
    work: impl Fn(&J) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let workers = at_once.min(jobs.len());
    if workers <= 1 {
        return super::inside(|| jobs.iter().map(&work).collect());
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let done: Mutex<Vec<(usize, Result<R, E>)>> = Mutex::new(Vec::new());
    let worker = || {
        super::with_threads(1, || {
            while !failed.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(at) else { return };
                let result = work(job);
                failed.fetch_or(result.is_err(), Ordering::Relaxed);
                done.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
            }
        });
    };
    std::thread::scope(|scope| {
        for _ in 1..workers {
            // Where the system allows no more threads, fewer do the same.
            if std::thread::Builder::new().spawn_scoped(scope, worker).is_err() {
                break;
            }
        }
        worker();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_the_first_error_is_returned() {
        let jobs = [4, 2, 7, 1];
        for at_once in [1, 2, 4] {
            let found = for_each_job(&jobs, at_once, |job| -> Result<usize, ()> { Ok(job * 10) });
            assert_eq!(found, Ok(vec![40, 20, 70, 10]));
            let found =
                for_each_job(&jobs, at_once, |&job| if job == 2 { Err(job) } else { Ok(()) });
            assert_eq!(found, Err(2));
        }
    }
}
