//! Tables of one or several runs: final figures, time, classes, configuration, machine.
//! Scores are in per cent, or in their own unit, with the deviation over seeds in parentheses.

use serde_json::Value;

use super::group::Group;
use crate::config::Config;
use crate::metrics::{MeanDeviation, Metric};
use crate::report::page::{Cell, Section, Table};
use crate::report::quantity;
use crate::run::{Figures, RunSummary};
use crate::settings::literal;
use crate::train::Ended;

/// Number of classes above which the table is folded.
const CLASSES: usize = 40;

/// A score's name for people: `top_k_micro_f1` as "top-k micro-F1".
pub fn score_name(score: &str) -> String {
    let name = score.replace("top_k", "top-k").replace("_f1", "-F1").replace("roc_auc", "ROC-AUC");
    let upper = |word: &str| match word {
        "r2" | "rmse" | "mae" => word.to_uppercase(),
        word => word.into(),
    };
    name.split(['_', ' ']).map(upper).collect::<Vec<_>>().join(" ")
}

/// The same at the start of a line: "Top-k micro-F1".
pub fn title(score: &str) -> String {
    let words = score_name(score);
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `81.80 % (0.90)`, or without the deviation of a single run.
fn score(metric: Metric, statistic: Option<MeanDeviation>, runs: usize) -> Cell {
    Cell::Number(match statistic {
        None => "–".into(),
        Some(MeanDeviation { mean, .. }) if runs < 2 => quantity::score(metric, mean),
        Some(MeanDeviation { mean, deviation }) if !metric.is_share() => {
            format!("{} ({})", quantity::score(metric, mean), quantity::score(metric, deviation))
        }
        Some(MeanDeviation { mean, deviation }) => {
            format!("{:.2} % ({:.2})", 100.0 * mean, 100.0 * deviation)
        }
    })
}

fn figure(value: Option<f64>, decimals: usize) -> Cell {
    Cell::Number(value.map_or("–".into(), |value| format!("{value:.decimals$}")))
}

/// Final scores by both protocols, and one line per run.
pub fn results(groups: &[Group]) -> Section {
    let mut section = Section::new("results", "Results");
    section.text(
        "\"Test\" is the test score of the best epoch, which is chosen by the validation part: the \
         fair figure. \"Best test\" is that of the epoch that is best on the test part, as papers \
         often report it: for comparison only. \"Validation\" is the score of the validation part in \
         the best epoch. Epoch e is the model after e steps, epoch 0 the initial model.",
    );
    let mut table = Table::new(&["run", "score", "test", "best test", "seeds"]);
    for group in groups {
        let runs = group.runs.len();
        for metric in group.first().metrics() {
            table.row([
                Cell::text(&group.name),
                Cell::text(title(metric.name())),
                score(metric, group.statistic(|run| run.chosen(metric)), runs),
                score(metric, group.statistic(|run| run.best(metric)), runs),
                Cell::number(runs),
            ]);
        }
    }
    section.table(&table);
    let header = [
        "run",
        "seed",
        "monitored by",
        "best epoch",
        "validation",
        "test",
        "best test",
        "in epoch",
        "epochs",
        "sweeps forward",
        "adjoint",
        "failed solves",
        "time",
        "ended",
    ];
    let mut table = Table::new(&header);
    for group in groups {
        for run in group.runs.iter().map(|run| &run.saved) {
            let (monitor, figures) = (run.monitor(), run.figures());
            let ended = match figures.map(|figures| figures.ended) {
                Some(Ended::Epochs) => "last epoch",
                Some(Ended::Patience) => "early stopping",
                Some(Ended::Stopped) => "stopped",
                Some(Ended::Collapsed) => "collapsed",
                None => "unfinished",
            };
            let of = |value: fn(&Figures) -> Option<f64>| figures.and_then(value);
            let of_score = |value: Option<f64>| {
                let value = value.filter(|value| monitor != Metric::Loss && value.is_finite());
                score(monitor, value.map(|mean| MeanDeviation { mean, deviation: 0.0 }), 1)
            };
            let chosen =
                |figures: &Figures| Some(figures.chosen_on_validation.as_ref()?.validation);
            table.row([
                Cell::text(&group.name),
                Cell::number(run.config.train.seed),
                Cell::text(title(monitor.name())),
                figure(of(|figures| Some(figures.chosen_on_validation.as_ref()?.epoch as f64)), 0),
                of_score(figures.and_then(chosen)),
                of_score(run.chosen(monitor)),
                of_score(run.best(monitor)),
                figure(of(|figures| Some(figures.best_on_test.as_ref()?.epoch as f64)), 0),
                figure(run.epochs().map(|epochs| epochs as f64), 0),
                figure(of(|figures| Some(figures.sweeps_per_epoch.forward)), 1),
                figure(of(|figures| Some(figures.sweeps_per_epoch.adjoint)), 1),
                figure(of(|figures| Some(figures.failures as f64)), 0),
                Cell::number(
                    of(|figures| Some(figures.seconds)).map_or("–".into(), quantity::seconds),
                ),
                Cell::text(ended),
            ]);
        }
    }
    section.heading("Run by run").table(&table);
    section
}

/// Seconds by phase, one column per group.
pub fn seconds(phases: &[String], bars: &[(String, String, Vec<f64>)]) -> Table {
    let mut header = vec!["phase"];
    header.extend(bars.iter().map(|(name, _, _)| name.as_str()));
    let mut table = Table::new(&header);
    let total = |parts: &[f64]| parts.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    for (at, phase) in phases.iter().enumerate() {
        let cells = bars.iter().map(|(_, _, parts)| {
            let share = parts[at] / total(parts);
            Cell::Share(format!("{}, {:.0} %", quantity::seconds(parts[at]), 100.0 * share), share)
        });
        table.row(std::iter::once(Cell::text(phase)).chain(cells));
    }
    let sums = bars.iter().map(|(_, total, _)| Cell::number(total));
    table.summary(std::iter::once(Cell::text("total")).chain(sums));
    table
}

/// Scores by class, the mean over the runs of a group.
pub fn classes(groups: &[Group]) -> Section {
    let mut section = Section::new("classes", "Results by class");
    for group in groups {
        let scored: Vec<_> = group.runs.iter().filter_map(|run| run.classes.as_ref()).collect();
        let Some(first) = scored.first() else { continue };
        let mut table = Table::new(&["class", "F1", "precision", "recall", "items", "predicted"]);
        for (at, line) in first.classes.iter().enumerate() {
            let lines: Vec<_> = scored
                .iter()
                .filter_map(|part| part.classes.get(at))
                .filter(|other| other.name == line.name)
                .collect();
            let of = |value: &dyn Fn(&crate::metrics::ClassScores) -> f64| {
                MeanDeviation::of(&lines.iter().map(|line| value(&line.scores)).collect::<Vec<_>>())
                    .mean
            };
            let f1 = of(&|scores| scores.f1);
            table.row([
                Cell::text(&line.name),
                Cell::Share(format!("{:.2} %", 100.0 * f1), f1),
                Cell::percent(Some(of(&|scores| scores.precision))),
                Cell::percent(Some(of(&|scores| scores.recall))),
                Cell::number(quantity::count(line.scores.support)),
                Cell::number(format!("{:.0}", of(&|scores| scores.predicted as f64))),
            ]);
        }
        let seeds = if scored.len() > 1 {
            format!(", mean over {} seeds", scored.len())
        } else {
            String::new()
        };
        let heading = format!(
            "{}: part {} at the epoch that is best on validation{seeds}",
            group.name, first.part
        );
        match table.len() {
            0..=CLASSES => section.heading(&heading).table(&table),
            count => section.folded_table(&format!("{heading} ({count} classes)"), &table),
        };
    }
    section
}

/// The settings that differ, and all settings of each; each with its name and text.
pub fn configuration(all: &[(&str, &Config, &str)]) -> Section {
    let mut section = Section::new("config", "Configuration");
    let values: Vec<Value> = all.iter().map(|(_, config, _)| config.values()).collect();
    let mut header = vec!["setting"];
    header.extend(all.iter().map(|(name, ..)| name));
    let mut table = Table::new(&header);
    for (section, field) in crate::config::fields() {
        let values: Vec<String> =
            values.iter().map(|config| literal(&config[section][field.key])).collect();
        if values.iter().any(|value| *value != values[0]) {
            let name = format!("{section}.{}", field.key);
            table.row(std::iter::once(Cell::text(name)).chain(values.into_iter().map(Cell::text)));
        }
    }
    if all.len() > 1 {
        match table.is_empty() {
            true => section.text("All have the same settings."),
            false => section.heading("Differences").table(&table),
        };
    }
    for (name, _, text) in all {
        section.folded_text(&format!("All settings of {name}"), text);
    }
    section
}

/// A value of `run.json` as text.
type Shown = fn(&RunSummary) -> Option<String>;

/// Where and on what the runs were trained.
pub fn machine(groups: &[Group]) -> Section {
    let mut section = Section::new("machine", "Dataset and machine");
    let mut header = vec![""];
    header.extend(groups.iter().map(|group| group.name.as_str()));
    let mut table = Table::new(&header);
    let rows: [(&str, Shown); 14] = [
        ("dataset", |run| run.dataset.name.clone()),
        ("dataset's checksum", |run| Some(run.dataset.checksum.clone())),
        ("nodes", |run| Some(quantity::count(run.dataset.nodes))),
        ("train items", |run| Some(quantity::count(run.dataset.train as u64))),
        ("validation items", |run| Some(quantity::count(run.dataset.validation as u64))),
        ("test items", |run| Some(quantity::count(run.dataset.test as u64))),
        ("processor", |run| run.machine.processor.clone()),
        ("cores", |run| Some(quantity::count(run.machine.cores as u64))),
        ("threads", |run| Some(quantity::count(run.machine.threads as u64))),
        ("SIMD", |run| Some(run.machine.simd.clone())),
        ("memory of the machine", |run| Some(quantity::bytes(run.machine.memory_bytes))),
        ("peak memory", |run| run.machine.peak_bytes.map(quantity::bytes)),
        ("ended", |run| Some(run.machine.ended.clone())),
        ("version of ignn", |run| Some(run.version.clone())),
    ];
    for (name, shown) in rows {
        let value = |group: &Group| group.first().summary.as_ref().and_then(shown);
        let values: Vec<Option<String>> = groups.iter().map(value).collect();
        if values.iter().any(Option::is_some) {
            let cells =
                values.into_iter().map(|value| Cell::text(value.unwrap_or_else(|| "–".into())));
            table.row(std::iter::once(Cell::text(name)).chain(cells));
        }
    }
    if table.is_empty() {
        section.text("Known only after the end of a run.");
    } else {
        section.table(&table);
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_have_readable_names() {
        assert_eq!(title("accuracy"), "Accuracy");
        assert_eq!(title("top_k_micro_f1"), "Top-k micro-F1");
        assert_eq!(
            score_name("test roc_auc (chosen on validation)"),
            "test ROC-AUC (chosen on validation)"
        );
        assert_eq!(
            (title("rmse"), title("balanced_accuracy")),
            ("RMSE".into(), "Balanced accuracy".into())
        );
        let accuracy = Some(MeanDeviation { mean: 0.818, deviation: 0.009 });
        let shown = |metric, of, runs| score(metric, of, runs);
        assert_eq!(shown(Metric::Accuracy, accuracy, 10), Cell::Number("81.80 % (0.90)".into()));
        assert_eq!(shown(Metric::Accuracy, accuracy, 1), Cell::Number("81.80 %".into()));
        assert_eq!(shown(Metric::Mae, accuracy, 2), Cell::Number("0.81800 (0.0090000)".into()));
        assert_eq!(shown(Metric::Accuracy, None, 1), Cell::Number("–".into()));
    }
}
