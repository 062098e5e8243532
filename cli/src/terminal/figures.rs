//! The figures of finished runs as text and as JSON.

use ignn::metrics::{MeanDeviation, Metric};
use ignn::report::quantity;
use ignn::report::runs::score_name;
use ignn::report::sheet::Sheet;
use ignn::run::{Figures, FinishedRun};
use ignn::solver::{SolveInfo, Stopped};
use ignn::train::Ended;
use serde_json::{Value, json};

use super::shell;
use crate::options::verification;

/// The runs of one command for other programs: one run's figures, or all of them with means.
pub fn as_json(runs: &[FinishedRun]) -> Value {
    let mut value = match runs {
        [run] => json!(run.figures),
        _ => {
            let metrics = means(runs).into_iter().map(|(name, value)| {
                json!({"metric": name, "mean": value.mean, "deviation": value.deviation})
            });
            json!({
                "runs": runs.iter().map(|run| &run.figures).collect::<Vec<_>>(),
                "summary": metrics.collect::<Vec<_>>(),
            })
        }
    };
    // All runs have the same dataset.
    value["not_verified"] = json!(runs.first().map_or(&[][..], |run| &run.not_verified));
    value
}

/// Mean and deviation over runs of each test score at the chosen epoch, then of the best on the
/// test part.
fn means(runs: &[FinishedRun]) -> Vec<(String, MeanDeviation)> {
    let mut rows = Vec::new();
    let mut add = |name: String, values: Vec<f64>| {
        if !values.is_empty() {
            rows.push((name, MeanDeviation::of(&values)));
        }
    };
    for metric in Metric::ALL.into_iter().filter(|metric| *metric != Metric::Loss) {
        let chosen = runs.iter().filter_map(|run| {
            let test = run.figures.chosen_on_validation.as_ref()?.test.as_ref()?;
            test.scores.get(metric.name()).copied()
        });
        add(format!("test {} (chosen on validation)", metric.name()), chosen.collect());
    }
    let best = runs.iter().filter_map(|run| Some(run.figures.best_on_test.as_ref()?.value));
    let monitor = runs.first().map_or("", |run| run.figures.monitor.name());
    add(format!("test {monitor} (best epoch on test)"), best.collect());
    rows
}

/// The runs of one command for people: their figures, models, and the next command.
pub fn as_text(runs: &[FinishedRun]) -> String {
    let mut text = match runs {
        // Of a first epoch that nothing keeps.
        [run] if !run.is_kept => String::new(),
        [run] => one_run(&run.figures) + "\n",
        _ => several_runs(runs) + "\n",
    };
    if let Some(files) = runs.first().and_then(|run| verification::words(&run.not_verified)) {
        text += &format!("not verified: {files}\n");
    }
    for run in runs {
        text += &match run.is_kept {
            true => format!("model: {}\n", run.directory.model_file().display()),
            false => {
                let run = run.directory.path().display();
                format!("stopped: before its first checkpoint, so nothing was written to {run}\n")
            }
        };
    }
    let runs: Vec<&FinishedRun> = runs.iter().filter(|run| run.is_kept).collect();
    let stopped = runs.iter().find(|run| run.figures.ended == Ended::Stopped);
    match (stopped, runs.first()) {
        (Some(run), _) => {
            let run = shell::path(run.directory.path());
            text += &format!("next: ignn train --resume {run}\n");
        }
        (None, Some(run)) => {
            let (dataset, run) = (shell::path(&run.dataset), shell::path(run.directory.path()));
            text += &format!("next: ignn eval {dataset} --model {run}\n");
        }
        (None, None) => {}
    }
    text
}

fn several_runs(runs: &[FinishedRun]) -> String {
    let monitor = runs.first().map_or("", |run| run.figures.monitor.name());
    let monitor = score_name(monitor);
    let (validation, test) = (format!("validation {monitor}"), format!("test {monitor}"));
    let mut sheet = Sheet::columns(&["seed", "epochs", "best epoch", &validation, &test]);
    for FinishedRun { figures, .. } in runs {
        let none = || "-".to_string();
        let (epoch, validation, test) = match &figures.chosen_on_validation {
            Some(chosen) => {
                let test = chosen.test.as_ref().map(|test| test.value(figures.monitor));
                (
                    chosen.epoch.to_string(),
                    format!("{:.4}", chosen.validation),
                    test.map_or_else(none, |value| format!("{value:.4}")),
                )
            }
            None => (none(), none(), none()),
        };
        sheet.row([figures.seed.to_string(), figures.epochs.to_string(), epoch, validation, test]);
    }
    let mut scores = Sheet::columns(&["score", "mean", "deviation"]);
    for (name, MeanDeviation { mean, deviation }) in means(runs) {
        scores.row([score_name(&name), format!("{mean:.4}"), format!("{deviation:.4}")]);
    }
    format!("{}\n{}", sheet.render(), scores.render())
}

/// The figures of one run for people.
pub fn one_run(figures: &Figures) -> String {
    let mut sheet = Sheet::pairs();
    let ended = match figures.ended {
        Ended::Epochs => "all epochs done",
        Ended::Patience => "early stopping: no better validation for train.stop_after epochs",
        Ended::Stopped => "stopped; continue with --resume",
        Ended::Collapsed => "stopped: training has collapsed",
    };
    sheet.row(["epochs".to_string(), format!("{}: {ended}", figures.epochs)]);
    let monitor = score_name(figures.monitor.name());
    if let Some(chosen) = &figures.chosen_on_validation {
        let best = format!("{}, by validation {monitor} {:.4}", chosen.epoch, chosen.validation);
        sheet.row(["best epoch".to_string(), best]);
        for (score, value) in chosen.test.iter().flat_map(|test| &test.scores) {
            sheet.row([format!("test {}", score_name(score)), format!("{value:.4}")]);
        }
    }
    let last = figures.last.as_ref().filter(|last| last.validation.is_none());
    if let Some(last) = last.filter(|_| figures.chosen_on_validation.is_none()) {
        let what = format!("epoch {}, the last one: there is no validation part", last.epoch);
        sheet.row(["model".to_string(), what]);
        for (score, value) in last.test.iter().flat_map(|test| &test.scores) {
            sheet.row([format!("test {}", score_name(score)), format!("{value:.4}")]);
        }
    }
    if let Some(best) = &figures.best_on_test {
        let what = format!(
            "{:.4} in epoch {}: not a fair figure, for comparison with papers",
            best.value, best.epoch
        );
        sheet.row([format!("best test {monitor}"), what]);
    }
    match figures.last.as_ref().and_then(|last| last.forward.as_ref()) {
        Some(solve) => {
            let sweeps = figures.sweeps_per_epoch;
            let each = format!("{:.1} forward, {:.1} adjoint", sweeps.forward, sweeps.adjoint);
            sheet.row(["sweeps per epoch".to_string(), each]);
            sheet.row(["solves".to_string(), convergence(figures.failures, solve)]);
            if let Some(exchange) = figures.last.as_ref().and_then(|last| last.exchange) {
                let words = format!(
                    "{} exchanges between ranks in the last epoch, {}, {}",
                    quantity::count(exchange.exchanges),
                    quantity::bytes(exchange.bytes),
                    quantity::seconds(exchange.seconds)
                );
                sheet.row(["exchange".to_string(), words]);
            }
        }
        None => {
            sheet.row(["solves", "none: this model has no equilibrium"]);
        }
    }
    let each = quantity::seconds(figures.seconds_per_epoch);
    let total = quantity::seconds(figures.seconds);
    sheet.row(["time".to_string(), format!("{total}, {each} per epoch")]);
    sheet.render()
}

/// One line for a run among several: `test accuracy 0.8120 at epoch 34, 12.3 s`.
pub fn in_short(figures: &Figures) -> String {
    let time = quantity::seconds(figures.seconds);
    match &figures.chosen_on_validation {
        Some(chosen) => {
            let (part, value) = match &chosen.test {
                Some(test) => ("test", test.value(figures.monitor)),
                None => ("validation", chosen.validation),
            };
            let (monitor, epoch) = (score_name(figures.monitor.name()), chosen.epoch);
            format!("{part} {monitor} {value:.4} at epoch {epoch}, {time}")
        }
        None => format!("{}, {time}", quantity::items(figures.epochs, "epochs")),
    }
}

fn convergence(failures: u64, last: &SolveInfo) -> String {
    match (failures, last.stopped == Stopped::Truncated) {
        // Nothing bounds the weights of such a model, so that only this figure shows whether it
        // has a steady state.
        (0, true) => format!(
            "a set number of steps each; the last one would move the state by {:.2} % of its size",
            100.0 * last.relative_residual
        ),
        (0, false) => "all converged".to_string(),
        (failures, _) => format!("{failures} did not converge"),
    }
}
