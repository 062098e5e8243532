//! Progress of several models that are trained at a time, one per fold or seed: one bar for the
//! epochs of all of them, and one line per finished model.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use super::notes::Notes;
use super::printer;

/// Maximum number of notes to show; the figures have the total.
const MOST_NOTES: u64 = 3;

/// Progress on standard error, fed from several threads.
pub struct JobProgress<'a> {
    notes: &'a Notes,
    bar: Option<ProgressBar>,
    is_quiet: bool,
    /// "fold" or "seed".
    unit: &'static str,
    epochs: u64,
    noted: AtomicU64,
}

impl<'a> JobProgress<'a> {
    /// For this number of folds or seeds with at most this number of epochs each.
    pub fn new(
        is_quiet: bool,
        unit: &'static str,
        jobs: usize,
        epochs: u64,
        notes: &'a Notes,
    ) -> Self {
        let bar = (!is_quiet && io::stderr().is_terminal()).then(|| {
            let style =
                ProgressStyle::with_template("{bar:30} {pos}/{len} epochs, {per_sec}, {eta} left")
                    .expect("a template that parses");
            ProgressBar::new((epochs + 1) * jobs as u64).with_style(style)
        });
        Self { notes, bar, is_quiet, unit, epochs, noted: AtomicU64::new(0) }
    }

    /// An epoch of any of them.
    pub fn epoch(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// A note about one of them; only the first few are shown.
    pub fn note(&self, job: u64, text: &str) {
        let text = match self.noted.fetch_add(1, Ordering::Relaxed) {
            before if before < MOST_NOTES => format!("{} {job}: {text}", self.unit),
            MOST_NOTES => "there are more such notes: see the figures".into(),
            _ => return,
        };
        self.notes.add(&text);
        self.print(&format!("note: {text}"));
    }

    /// One of them ended after this number of epochs; `result` is one line.
    pub fn finished(&self, job: u64, epochs: u64, result: &str) {
        if let Some(bar) = &self.bar {
            bar.inc(self.epochs.saturating_sub(epochs));
        }
        self.print(&format!("{} {job}: {result}", self.unit));
    }

    /// Removes the bar.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn print(&self, line: &str) {
        if !self.is_quiet {
            printer::message_above(self.bar.as_ref(), line);
        }
    }
}
