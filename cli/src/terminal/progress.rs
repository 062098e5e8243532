//! Progress of ingest and prediction on standard error: a bar with rate and time left on a
//! terminal, one line per finished phase elsewhere. With `--quiet` it only records the phases, for
//! the summary.

use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ignn::report::quantity;
use ignn_ingest::context::{Phase, Recorder};
use ignn_ingest::{Observer, Unit};
use indicatif::{ProgressBar, ProgressStyle};

use super::printer;

/// An observer for the console.
pub struct Console {
    mode: Mode,
    recorder: Recorder,
    bar: Mutex<Option<ProgressBar>>,
    /// Number of phases that were printed: a job may finish before its caller does.
    printed: AtomicUsize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Bars,
    Lines,
    Quiet,
}

impl Console {
    /// Bars if standard error is a terminal, lines if not, nothing if `quiet`.
    pub fn new(quiet: bool) -> Self {
        let mode = match (quiet, io::stderr().is_terminal()) {
            (true, _) => Mode::Quiet,
            (false, true) => Mode::Bars,
            (false, false) => Mode::Lines,
        };
        Self {
            mode,
            recorder: Recorder::default(),
            bar: Mutex::new(None),
            printed: AtomicUsize::new(0),
        }
    }

    /// The finished phases, in order.
    pub fn phases(&self) -> Vec<Phase> {
        self.recorder.phases()
    }

    /// Notes for the user.
    pub fn notes(&self) -> Vec<String> {
        self.recorder.notes()
    }

    /// Removes the bar and prints those of the first `ended` phases that were not printed yet.
    fn print_phases(&self, ended: usize) {
        if let Some(bar) = self.bar.lock().expect("no panic while held").take() {
            bar.finish_and_clear();
        }
        let printed = self.printed.fetch_max(ended, Ordering::Relaxed);
        if self.mode != Mode::Quiet {
            self.recorder
                .phases()
                .iter()
                .take(ended)
                .skip(printed)
                .for_each(|phase| printer::message(&phase_line(phase)));
        }
    }
}

impl Observer for Console {
    fn phase(&self, name: &str, total: Option<u64>, unit: Unit) {
        let before = self.recorder.phases().len();
        self.recorder.phase(name, total, unit);
        self.print_phases(before);
        if self.mode == Mode::Bars {
            let bar = ProgressBar::new(total.unwrap_or(0)).with_style(style(total.is_some(), unit));
            bar.set_message(printer::bar_name(name));
            // The library starts a thread for ticks and panics if the system refuses it.
            let thread = std::thread::Builder::new().spawn(|| {});
            if thread.is_ok_and(|thread| thread.join().is_ok()) {
                bar.enable_steady_tick(Duration::from_millis(200));
            }
            *self.bar.lock().expect("no panic while held") = Some(bar);
        }
    }

    fn advance(&self, amount: u64) {
        self.recorder.advance(amount);
        if self.mode == Mode::Bars
            && let Some(bar) = &*self.bar.lock().expect("no panic while held")
        {
            bar.inc(amount);
        }
    }

    fn note(&self, message: &str) {
        self.recorder.note(message);
        match (self.mode, &*self.bar.lock().expect("no panic while held")) {
            (Mode::Quiet, _) => {}
            (_, bar) => printer::message_above(bar.as_ref(), &format!("note: {message}")),
        }
    }

    fn finish(&self) {
        self.recorder.finish();
        self.print_phases(self.recorder.phases().len());
    }
}

/// `read edges: 725.0 MiB in 3.10 s (233.9 MiB/s)`.
pub fn phase_line(phase: &Phase) -> String {
    let amount = match phase.unit {
        Unit::Bytes => quantity::bytes(phase.amount),
        Unit::Edges => quantity::plural(phase.amount, "edge", "edges"),
        Unit::Items(name) => quantity::items(phase.amount, name),
    };
    let time = quantity::seconds(phase.seconds);
    if phase.amount == 0 {
        return format!("{}: {time}", phase.name);
    }
    format!("{}: {amount} in {time} ({})", phase.name, rate(phase))
}

/// `233.9 MiB/s`, `12.3 million edges/s`.
pub fn rate(phase: &Phase) -> String {
    let per_second = phase.amount as f64 / phase.seconds.max(1e-9);
    match phase.unit {
        Unit::Bytes => format!("{}/s", quantity::bytes(per_second as u64)),
        Unit::Edges => format!("{} edges/s", quantity::short(per_second)),
        Unit::Items(name) => format!("{} {name}/s", quantity::short(per_second)),
    }
}

fn style(total_is_known: bool, unit: Unit) -> ProgressStyle {
    let (done, speed) = match unit {
        Unit::Bytes => ("{binary_bytes}/{binary_total_bytes}", "{binary_bytes_per_sec}"),
        Unit::Edges | Unit::Items(_) => ("{human_pos}/{human_len}", "{per_sec}"),
    };
    let template = if total_is_known {
        format!("{{msg:24}} {{wide_bar}} {done} {speed}, {{eta}} left")
    } else {
        let done = done.split('/').next().unwrap_or(done);
        format!("{{msg:24}} {{spinner}} {done} {speed}, {{elapsed}}")
    };
    ProgressStyle::with_template(&template).expect("the template is a constant of this file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_show_amount_time_and_rate() {
        let phase = |amount, unit| Phase { name: "sort".into(), amount, unit, seconds: 2.0 };
        assert_eq!(phase_line(&phase(8 << 20, Unit::Bytes)), "sort: 8.0 MiB in 2.00 s (4.0 MiB/s)");
        let edges = phase_line(&phase(3_000_000, Unit::Edges));
        assert_eq!(edges, "sort: 3,000,000 edges in 2.00 s (1.50 million edges/s)");
        assert_eq!(
            phase_line(&phase(10, Unit::Items("graphs"))),
            "sort: 10 graphs in 2.00 s (5 graphs/s)"
        );
        assert_eq!(
            phase_line(&phase(1, Unit::Items("sweeps"))),
            "sort: 1 sweep in 2.00 s (0 sweeps/s)"
        );
        assert_eq!(phase_line(&phase(0, Unit::Edges)), "sort: 2.00 s");
    }

    #[test]
    fn every_style_is_a_template() {
        for unit in [Unit::Bytes, Unit::Edges, Unit::Items("rows")] {
            style(true, unit);
            style(false, unit);
        }
    }

    #[test]
    fn quiet_still_records() {
        let console = Console::new(true);
        console.phase("a", None, Unit::Edges);
        console.advance(5);
        console.note("look");
        console.phase("b", Some(1), Unit::Bytes);
        console.finish();
        let amounts: Vec<_> =
            console.phases().iter().map(|phase| (phase.name.clone(), phase.amount)).collect();
        assert_eq!(amounts, [("a".to_string(), 5), ("b".to_string(), 0)]);
        assert_eq!(console.notes(), ["look"]);
    }
}
