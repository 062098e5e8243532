//! Work on a thread of its own, in the pool of the process. Meanwhile the calling thread, without
//! the GIL, waits for reports and signals: reports go to a Python listener on the thread that
//! called, and Ctrl-C raises `KeyboardInterrupt` there.
//!
//! The pool belongs to a process: one that was forked off makes its own.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use ignn::parallel;
use ignn::run::machine;
use ignn::serde_json::{self, Value};
use ignn::train::EpochRecord;
use ignn_ingest::Unit;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::failure::{Failure, exception};
use crate::values::to_python;

/// How often signals are looked at.
const PULSE: Duration = Duration::from_millis(10);
/// How long an interrupted call waits for its work to end.
const GRACE: Duration = Duration::from_millis(100);

struct Pool {
    process: u32,
    pool: Arc<ThreadPool>,
}

/// Locked by threads that are attached to the interpreter only: at a fork nobody else holds it.
static POOL: Mutex<Option<Pool>> = Mutex::new(None);
/// Jobs whose caller was interrupted and that have not ended yet.
static ABANDONED: AtomicUsize = AtomicUsize::new(0);

fn build_pool(threads: usize) -> PyResult<Arc<ThreadPool>> {
    let most = parallel::most_threads(machine::cores());
    if threads == 0 || threads > most {
        return Err(PyValueError::new_err(format!(
            "threads: expected 1 to {most}, found {threads}"
        )));
    }
    let built = ThreadPoolBuilder::new().num_threads(threads).build();
    let refused =
        |error| PyRuntimeError::new_err(format!("cannot start {threads} threads: {error}"));
    built.map(Arc::new).map_err(refused)
}

/// The pool of this process.
fn pool(_attached: Python<'_>) -> PyResult<Arc<ThreadPool>> {
    let mut own = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    let threads = match &*own {
        Some(Pool { process: of, pool }) if *of == process => return Ok(Arc::clone(pool)),
        Some(parent) => parent.pool.current_num_threads(),
        None => machine::cores(),
    };
    let pool = build_pool(threads)?;
    // The threads of a parent process are not here, and nothing can be asked of them.
    std::mem::forget(own.replace(Pool { process, pool: Arc::clone(&pool) }));
    Ok(pool)
}

/// Sets the number of threads of all further work.
#[pyfunction]
pub fn set_threads(py: Python<'_>, threads: i64) -> PyResult<()> {
    let threads = usize::try_from(threads).unwrap_or(0);
    let before = pool(py)?;
    if before.current_num_threads() == threads {
        return Ok(());
    }
    let new = Pool { process: std::process::id(), pool: build_pool(threads)? };
    *POOL.lock().unwrap_or_else(PoisonError::into_inner) = Some(new);
    Ok(())
}

/// The number of threads.
#[pyfunction]
pub fn threads(py: Python<'_>) -> PyResult<usize> {
    Ok(pool(py)?.current_num_threads())
}

/// Waits for work whose caller was interrupted: it ends after its epoch, with a checkpoint.
#[pyfunction]
pub fn wait(py: Python<'_>) -> PyResult<()> {
    let own = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let is_parents = own.as_ref().is_some_and(|own| own.process != std::process::id());
    drop(own);
    if is_parents {
        // That work goes on in the process that this one was forked off from.
        ABANDONED.store(0, Ordering::Relaxed);
    }
    while ABANDONED.load(Ordering::Acquire) > 0 {
        py.detach(|| thread::sleep(Duration::from_millis(5)));
        py.check_signals()?;
    }
    Ok(())
}

/// What work tells its caller.
enum Message<T> {
    /// An epoch. The work goes on when the caller has seen it and dropped the sender.
    Epoch(Value, Sender<()>),
    Note(String),
    Phase(String, Option<u64>),
    Done(Result<T, Failure>),
}

/// Passes the reports of work on to its caller.
pub struct Reports {
    send: Box<dyn Fn(Report) + Send + Sync>,
    /// Set where the work should end.
    pub stop: Arc<AtomicBool>,
    /// Whether anybody wants to see epochs.
    listens: bool,
    progress: Arc<AtomicU64>,
    /// Threads of the pool.
    pub threads: usize,
}

enum Report {
    Epoch(Value, Sender<()>),
    Note(String),
    Phase(String, Option<u64>),
}

impl ignn::train::Observer for &Reports {
    fn epoch(&mut self, record: &EpochRecord) -> Result<(), ignn::FormatError> {
        if self.listens && !self.stop.load(Ordering::Relaxed) {
            let record = serde_json::to_value(record).unwrap_or_default();
            let (answer, seen) = mpsc::channel();
            (self.send)(Report::Epoch(record, answer));
            // An error is the answer.
            let _ = seen.recv();
        }
        Ok(())
    }

    fn note(&mut self, text: &str) -> Result<(), ignn::FormatError> {
        (self.send)(Report::Note(text.into()));
        Ok(())
    }
}

impl ignn_ingest::Observer for Reports {
    fn phase(&self, name: &str, total: Option<u64>, _unit: Unit) {
        self.progress.store(0, Ordering::Relaxed);
        (self.send)(Report::Phase(name.into(), total));
    }

    fn advance(&self, amount: u64) {
        self.progress.fetch_add(amount, Ordering::Relaxed);
    }

    fn note(&self, message: &str) {
        (self.send)(Report::Note(message.into()));
    }

    fn finish(&self) {}

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The two ends of a job.
fn channel<T: Send + 'static>(
    listener: Option<&Bound<'_, PyAny>>,
    threads: usize,
) -> PyResult<(Reports, Sender<Message<T>>, Caller<T>)> {
    let wants = |listener: &Bound<'_, PyAny>| listener.getattr("wants_epochs")?.is_truthy();
    let listens = listener.map(wants).transpose()?.unwrap_or(false);
    let (sender, receiver) = mpsc::channel();
    let (stop, progress) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let done = sender.clone();
    let send = move |report| {
        // An error is that of a caller who was interrupted.
        let _ = sender.send(match report {
            Report::Epoch(record, answer) => Message::Epoch(record, answer),
            Report::Note(text) => Message::Note(text),
            Report::Phase(name, total) => Message::Phase(name, total),
        });
    };
    let reports = Reports {
        send: Box::new(send),
        stop: Arc::clone(&stop),
        listens,
        progress: Arc::clone(&progress),
        threads,
    };
    Ok((reports, done, Caller { receiver: Mutex::new(receiver), stop, progress }))
}

struct Caller<T> {
    receiver: Mutex<Receiver<Message<T>>>,
    stop: Arc<AtomicBool>,
    progress: Arc<AtomicU64>,
}

impl<T: Send> Caller<T> {
    /// Waits for a message.
    fn receive(&self, py: Python<'_>, time: Duration) -> Result<Message<T>, RecvTimeoutError> {
        let receiver = &self.receiver;
        py.detach(|| receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(time))
    }

    /// Waits for the result. An error is a signal, or an exception of the listener; the work has
    /// been asked to stop then.
    fn listen(
        &self,
        py: Python<'_>,
        listener: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Result<T, Failure>> {
        let tell = |what: &str, value: Py<PyAny>| -> PyResult<bool> {
            match listener {
                Some(listener) => listener.call1((what, value))?.is_truthy(),
                None => Ok(false),
            }
        };
        let mut last = 0;
        let heard = || -> PyResult<Result<T, Failure>> {
            loop {
                let asks_to_stop = match self.receive(py, PULSE) {
                    Ok(Message::Done(result)) => return Ok(result),
                    Ok(Message::Epoch(record, _answer)) => {
                        let asks_to_stop = tell("epoch", to_python(py, &record)?)?;
                        // Before the answer is dropped: the next epoch would begin, and fail.
                        self.stop.fetch_or(asks_to_stop, Ordering::Relaxed);
                        asks_to_stop
                    }
                    Ok(Message::Note(text)) => tell("note", to_python(py, &Value::from(text))?)?,
                    Ok(Message::Phase(name, total)) => {
                        tell("phase", to_python(py, &serde_json::json!([name, total]))?)?
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        py.check_signals()?;
                        let now = self.progress.load(Ordering::Relaxed);
                        let moved = now != std::mem::replace(&mut last, now);
                        moved && tell("progress", to_python(py, &Value::from(now))?)?
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        let what = "internal error: the work has panicked";
                        return Err(PyRuntimeError::new_err(what));
                    }
                };
                if asks_to_stop {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
        };
        let mut heard = heard;
        heard().inspect_err(|_| self.stop.store(true, Ordering::Relaxed))
    }

    /// Whether the work ends by itself within a time; its reports are dropped.
    fn ends_within(&self, py: Python<'_>, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.receive(py, left) {
                Ok(Message::Done(_)) | Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
                Ok(_) => {}
            }
        }
    }
}

/// Says that work has ended, also by a panic, if its caller is gone: whether that is so, until then.
struct End(Arc<Mutex<Option<bool>>>);

impl Drop for End {
    fn drop(&mut self) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).take() == Some(true) {
            ABANDONED.fetch_sub(1, Ordering::Release);
        }
    }
}

fn start(error: std::io::Error) -> PyErr {
    PyRuntimeError::new_err(format!("cannot start a thread: {error}"))
}

/// Runs work that owns what it needs. An interrupted caller does not wait for its end, which comes
/// with the next sweep of a solve or the next chunk of an ingest; the next job waits for it.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    listener: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Reports) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    wait(py)?;
    let pool = pool(py)?;
    let (reports, done, caller) = channel(listener, pool.current_num_threads())?;
    let abandoned = Arc::new(Mutex::new(Some(false)));
    let end = End(Arc::clone(&abandoned));
    let body = move || {
        let _end = end;
        let result = pool.install(|| parallel::stoppable(&reports.stop, || work(&reports)));
        // An error is that of a caller who was interrupted.
        let _ = done.send(Message::Done(result));
    };
    thread::Builder::new().name("ignn".into()).spawn(body).map_err(start)?;
    match caller.listen(py, listener) {
        Ok(result) => result.map_err(exception),
        Err(error) => {
            if !caller.ends_within(py, GRACE)
                && let Some(is_abandoned) =
                    &mut *abandoned.lock().unwrap_or_else(PoisonError::into_inner)
            {
                *is_abandoned = true;
                ABANDONED.fetch_add(1, Ordering::Relaxed);
            }
            Err(error)
        }
    }
}

/// Runs work that borrows from its caller, and that ends soon after it is asked to.
pub fn run_borrowing<T: Send + 'static>(
    py: Python<'_>,
    listener: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&Reports) -> Result<T, Failure> + Send,
) -> PyResult<T> {
    wait(py)?;
    let pool = pool(py)?;
    let (reports, done, caller) = channel(listener, pool.current_num_threads())?;
    thread::scope(|scope| {
        let body = move || {
            let result = pool.install(|| parallel::stoppable(&reports.stop, || work(&reports)));
            let _ = done.send(Message::Done(result));
        };
        let named = thread::Builder::new().name("ignn".into());
        let work = named.spawn_scoped(scope, body).map_err(start)?;
        let heard = caller.listen(py, listener);
        // The scope waits for the work, and must not keep the GIL while it does. Of a panic the caller
        // has heard already; the scope would repeat one that nobody waited for.
        let _ = py.detach(|| work.join());
        heard?.map_err(exception)
    })
}
