//! What every ingest job gets besides its input: threads, memory, seed, and an observer for its
//! progress.

use std::sync::Mutex;
use std::time::Instant;

/// Threads, memory, seed and observer of a job.
pub struct Context<'a> {
    /// Number of worker threads, at least 1. It does not affect the result.
    pub threads: usize,
    /// Bytes that all buffers together may use. It does not affect the result.
    pub memory: u64,
    /// Seed of all random choices.
    pub seed: u64,
    /// Receives progress and notes.
    pub observer: &'a dyn Observer,
}

/// The unit in which a phase reports its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of input or output.
    Bytes,
    /// Edges.
    Edges,
    /// Anything else, with its plural name: "rows", "nodes", "graphs".
    Items(&'static str),
}

/// Receives the progress of a job. Phases follow each other; a new phase ends the previous one.
pub trait Observer: Sync {
    /// A phase begins; `total` is the amount of work, if it is known.
    fn phase(&self, name: &str, total: Option<u64>, unit: Unit);
    /// Reports work done in the current phase. Called from any thread, but not for every item.
    fn advance(&self, amount: u64);
    /// Reports something a user should know that is not an error.
    fn note(&self, message: &str);
    /// The last phase has ended.
    fn finish(&self);
    /// Whether the job should end with an error, and leave nothing behind. Asked for every chunk.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// An observer that records phases with their times, and notes; for tests, benchmarks and
/// summaries.
#[derive(Default)]
pub struct Recorder {
    state: Mutex<RecorderState>,
}

#[derive(Default)]
struct RecorderState {
    phases: Vec<Phase>,
    started: Option<Instant>,
    notes: Vec<String>,
}

/// A finished phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// Work done, in `unit`.
    pub amount: u64,
    /// Unit of `amount`.
    pub unit: Unit,
    /// Wall-clock time.
    pub seconds: f64,
}

impl Recorder {
    /// The phases so far.
    pub fn phases(&self) -> Vec<Phase> {
        self.state.lock().expect("no panic while held").phases.clone()
    }

    /// The notes so far.
    pub fn notes(&self) -> Vec<String> {
        self.state.lock().expect("no panic while held").notes.clone()
    }
}

impl RecorderState {
    fn close(&mut self) {
        if let (Some(started), Some(last)) = (self.started.take(), self.phases.last_mut()) {
            last.seconds = started.elapsed().as_secs_f64();
        }
    }
}

impl Observer for Recorder {
    fn phase(&self, name: &str, _total: Option<u64>, unit: Unit) {
        let mut state = self.state.lock().expect("no panic while held");
        state.close();
        state.phases.push(Phase { name: name.into(), amount: 0, unit, seconds: 0.0 });
        state.started = Some(Instant::now());
    }

    fn advance(&self, amount: u64) {
        if let Some(last) = self.state.lock().expect("no panic while held").phases.last_mut() {
            last.amount += amount;
        }
    }

    fn note(&self, message: &str) {
        self.state.lock().expect("no panic while held").notes.push(message.into());
    }

    fn finish(&self) {
        self.state.lock().expect("no panic while held").close();
    }
}
