//! What is shown and written of a cross-validation: tables, JSON, the files of its directory,
//! progress. Figures come from `train::crossval`.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use ignn::config::IgnnConfig;
use ignn::metrics::MeanDeviation;
use ignn::report::quantity;
use ignn::report::sheet::Sheet;
use ignn::report::table::quoted;
use ignn::train::crossval::{FoldRecord, Summary};
use ignn::train::folds::Folds;
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::run;
use crate::machine;

/// How many folds, and what tells classes.
const SETUP: &str = "setup.json";
/// The fold of each graph.
const FOLDS: &str = "folds.csv";
/// Figures.
pub const FIGURES: &str = "crossval.json";
/// Figures of a finished fold, in its directory.
pub const FOLD: &str = "fold.json";
/// Notes about solves at most: the rest are counted.
const NOTES: u64 = 3;

/// What `--resume` needs beside the configuration.
#[derive(Debug, Serialize, Deserialize)]
pub struct Setup {
    pub folds: usize,
    pub readout: String,
}

/// Reads it.
pub fn setup(directory: &Path) -> Result<Setup> {
    let file = directory.join(SETUP);
    if !file.is_file() {
        bail!(
            "{}: not the directory of a cross-validation (expected {SETUP} in it)",
            directory.display()
        );
    }
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    serde_json::from_str(&text).with_context(|| file.display().to_string())
}

/// Refuses a directory that holds anything but a cross-validation: it must not be replaced.
pub fn check_replaceable(directory: &Path) -> Result<()> {
    let Ok(setup) = setup(directory) else {
        bail!(
            "{}: not the directory of a cross-validation: --force replaces only those",
            directory.display()
        );
    };
    let files = [SETUP, FOLDS, FIGURES, run::CONFIG, run::DATASET];
    let is_fold = |name: &str| {
        (0..setup.folds).any(|fold| fold_place(Path::new(""), fold) == Path::new(name))
    };
    let is_own = |name: &str| run::is_written(&files, name) || is_fold(name);
    run::check_names(directory, "a cross-validation", is_own)
}

/// Writes it, and the fold of each graph.
pub fn write_setup(directory: &Path, setup: &Setup, ids: &[String], folds: &Folds) -> Result<()> {
    let mut text = String::from("graph,fold\n");
    for (id, fold) in ids.iter().zip(folds.of()) {
        text += &format!("{},{fold}\n", quoted(id, ','));
    }
    run::write(&directory.join(FOLDS), &text)?;
    run::write(&directory.join(SETUP), &format!("{}\n", serde_json::to_string(setup)?))
}

/// The directory of a fold.
pub fn fold_place(directory: &Path, fold: usize) -> PathBuf {
    directory.join(format!("fold-{fold}"))
}

/// The folds that are done.
pub fn finished(directory: &Path, folds: usize) -> Result<Vec<FoldRecord>> {
    let mut records = Vec::new();
    for fold in 0..folds {
        let file = fold_place(directory, fold).join(FOLD);
        if file.is_file() {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            records.push(serde_json::from_str(&text).with_context(|| file.display().to_string())?);
        }
    }
    Ok(records)
}

/// A finished cross-validation, or what there is of it.
pub struct Report<'a> {
    pub dataset: &'a Path,
    pub out: Option<&'a Path>,
    pub checksum: String,
    pub folds: usize,
    pub workers: usize,
    pub seconds: f64,
    pub records: &'a [FoldRecord],
}

impl Report<'_> {
    /// For machines.
    pub fn as_json(&self, threads: usize) -> Value {
        let fold = |record: &FoldRecord| {
            let mut value = serde_json::to_value(record).unwrap_or(Value::Null);
            // The curves are in the folds' own files.
            if let Some(fields) = value.as_object_mut() {
                fields.remove("curve");
            }
            value
        };
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "dataset": { "path": self.dataset, "checksum": self.checksum },
            "machine": {
                "threads": threads,
                "folds_at_once": self.workers,
                "simd": ignn::kernels::Isa::chosen().name(),
                "peak_bytes": machine::peak_memory(),
            },
            "metric": "accuracy",
            "folds_asked_for": self.folds,
            "summary": Summary::of(self.records),
            "folds": self.records.iter().map(fold).collect::<Vec<_>>(),
            "seconds": self.seconds,
        })
    }

    /// For people.
    pub fn as_text(&self) -> String {
        let has_svm = self.records.iter().any(|record| record.svm.is_some());
        let mut header = vec!["fold", "graphs", "epoch", "validation", "test", "best test"];
        header.extend(has_svm.then_some(["svm C", "svm gamma", "svm test"]).iter().flatten());
        header.extend(["sweeps", "time"]);
        let mut sheet = Sheet::columns(&header);
        for record in self.records {
            let best = record.curve.iter().map(|point| point.test).fold(0.0, f64::max);
            let mut cells = vec![
                record.fold.to_string(),
                record.graphs.map(|count| count.to_string()).join("/"),
                record.chosen.epoch.to_string(),
                percent(record.chosen.validation),
                percent(record.chosen.test),
                percent(best),
            ];
            if let Some(svm) = &record.svm {
                let gamma = svm.gamma.map_or("-".into(), |gamma| format!("{gamma:.1e}"));
                cells.extend([format!("{}", svm.c), gamma, percent(svm.test)]);
            }
            let [forward, adjoint] = record.sweeps;
            cells.extend([
                format!("{forward:.0} + {adjoint:.0}"),
                quantity::seconds(record.seconds),
            ]);
            sheet.row(cells);
        }
        let mut text = sheet.render();
        if let Some(summary) = Summary::of(self.records) {
            text += &format!("\n{}", figures(&summary));
        }
        let failures: u64 = self.records.iter().map(|record| record.failures).sum();
        if failures > 0 {
            text += &format!("\nsolves that did not converge: {failures}\n");
        }
        let (done, all) = (self.records.len(), self.folds);
        text += &format!("\n{done} of {all} folds in {}, ", quantity::seconds(self.seconds));
        text += &format!("{} at a time\n", quantity::plural(self.workers as u64, "fold", "folds"));
        match (done < all, self.out) {
            (true, Some(out)) => {
                text += &format!("next: ignn crossval --resume {}\n", out.display())
            }
            (true, None) => text += "stopped: without --out nothing of it was kept\n",
            (false, Some(out)) => text += &format!("figures: {}\n", out.join(FIGURES).display()),
            (false, None) => {}
        }
        text
    }
}

/// The figures of all protocols.
fn figures(summary: &Summary) -> String {
    let mut sheet = Sheet::columns(&["accuracy on test", "mean", "deviation", "epoch"]);
    let mut row = |name: &str, MeanDeviation { mean, deviation }: MeanDeviation, epoch: String| {
        sheet.row([name.to_string(), percent(mean), percent(deviation), epoch]);
    };
    row(
        "validation",
        summary.validation,
        "chosen on validation in each fold: the fair figure".into(),
    );
    if let Some(svm) = summary.svm {
        row("svm", svm, "the same; C and gamma chosen inside the fold".into());
    }
    let epoch = summary.mean_curve_epoch;
    row(
        "mean curve",
        summary.mean_curve,
        format!("{epoch}, best of the mean test curve (GIN paper)"),
    );
    row(
        "best of each",
        summary.best_of_each,
        "best on test in each fold (published IGNN code)".into(),
    );
    sheet.render()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// What a terminal shows while folds train.
pub struct Progress {
    bar: Option<ProgressBar>,
    is_quiet: bool,
    notes: AtomicU64,
}

impl Progress {
    /// For so many folds.
    pub fn new(is_quiet: bool, config: &IgnnConfig, folds: usize) -> Self {
        let bar = (!is_quiet && io::stderr().is_terminal()).then(|| {
            let style =
                ProgressStyle::with_template("{bar:30} {pos}/{len} epochs, {per_sec}, {eta} left")
                    .expect("a template that parses");
            ProgressBar::new((config.train.epochs + 1) * folds as u64).with_style(style)
        });
        Self { bar, is_quiet, notes: AtomicU64::new(0) }
    }

    /// An epoch of any fold.
    pub fn epoch(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// A note of a fold; the first few are shown.
    pub fn note(&self, fold: usize, text: &str) {
        match self.notes.fetch_add(1, Ordering::Relaxed) {
            before if before < NOTES => self.say(&format!("note: fold {fold}: {text}")),
            NOTES => self.say("note: more solves did not converge: see the figures"),
            _ => {}
        }
    }

    /// A fold that is done.
    pub fn fold(&self, record: &FoldRecord) {
        let FoldRecord { fold, chosen, seconds, .. } = record;
        let (test, time) = (percent(chosen.test), quantity::seconds(*seconds));
        self.say(&format!("fold {fold}: test {test} at epoch {}, {time}", chosen.epoch));
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None if self.is_quiet => {}
            None => {
                // If standard error is closed there is nobody left to tell.
                let _ = writeln!(io::stderr(), "{line}");
            }
        }
    }
}
