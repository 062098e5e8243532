//! Progress of one run: a bar and one line per epoch on a terminal, a line every few seconds
//! elsewhere.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use ignn::config::Config;
use ignn::metrics::Metric;
use ignn::report::quantity;
use ignn::report::runs::score_name;
use ignn::train::{EpochRecord, Observer};
use indicatif::{ProgressBar, ProgressStyle};

use super::notes::Notes;
use super::printer;

/// Shortest time between two lines, where standard error is not a terminal.
const LINE_EVERY: Duration = Duration::from_secs(2);

/// An observer that prints to standard error.
pub struct Console<'a> {
    notes: &'a Notes,
    bar: Option<ProgressBar>,
    is_quiet: bool,
    monitor: Metric,
    epochs: u64,
    last_line: Option<Instant>,
}

impl<'a> Console<'a> {
    /// For a run with this configuration.
    pub fn new(is_quiet: bool, config: &Config, notes: &'a Notes) -> Self {
        let bar = (!is_quiet && io::stderr().is_terminal()).then(|| {
            let style =
                ProgressStyle::with_template("{bar:30} {pos}/{len} epochs, {per_sec}, {eta} left")
                    .expect("a template that parses");
            ProgressBar::new(config.train.epochs).with_style(style)
        });
        let epochs = config.train.epochs;
        Self { notes, bar, is_quiet, monitor: Metric::Loss, epochs, last_line: None }
    }

    fn print(&self, line: &str) {
        printer::message_above(self.bar.as_ref(), line);
    }
}

impl Observer for Console<'_> {
    fn start(&mut self, monitor: Metric) -> ignn_format::Result<()> {
        self.monitor = monitor;
        Ok(())
    }

    fn epoch(&mut self, record: &EpochRecord) -> ignn_format::Result<()> {
        if let Some(bar) = &self.bar {
            bar.set_position(record.epoch);
        }
        let is_due = self.last_line.is_none_or(|last| last.elapsed() >= LINE_EVERY);
        let is_last = record.epoch >= self.epochs;
        if !self.is_quiet && (self.bar.is_some() || is_due || is_last) {
            self.print(&epoch_line(record, self.monitor));
            self.last_line = Some(Instant::now());
        }
        if is_last && let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        Ok(())
    }

    fn note(&mut self, text: &str) -> ignn_format::Result<()> {
        self.notes.add(text);
        if !self.is_quiet {
            self.print(&format!("note: {text}"));
        }
        Ok(())
    }
}

/// `epoch 12: loss 0.4312, accuracy train 0.93 val 0.81 test 0.80, 14 + 17 sweeps, q 0.89, 0.21 s`
fn epoch_line(record: &EpochRecord, monitor: Metric) -> String {
    let mut line = format!("epoch {}:", record.epoch);
    if record.loss.is_finite() {
        line += &format!(" loss {:.4},", record.loss);
    }
    let parts: Vec<String> =
        record.parts().map(|(name, part)| format!("{name} {:.4}", part.value(monitor))).collect();
    if !parts.is_empty() {
        line += &format!(" {} {},", score_name(monitor.name()), parts.join(" "));
    }
    if let Some(forward) = record.forward {
        line += &match record.adjoint {
            Some(adjoint) => format!(" {} + {} sweeps,", forward.sweeps, adjoint.sweeps),
            None => format!(" {},", quantity::items(forward.sweeps as u64, "sweeps")),
        };
        if record.contraction.is_finite() {
            line += &format!(" q {:.4},", record.contraction);
        }
        if let Some(error) = forward.certified_error {
            line += &format!(" error at most {:.1e} of the state,", error.relative);
        }
    }
    line + &format!(" {}", quantity::seconds(record.seconds.total()))
}
