//! Tables of one or several runs: final figures, time, classes, configuration, machine.
//! Scores are in per cent, with the deviation over seeds in parentheses.

use serde_json::Value;

use super::group::Group;
use crate::metrics::MeanDeviation;
use crate::report::page::{Cell, Section, Table};
use crate::report::quantity;
use crate::settings::literal;

/// Classes beyond which the table is folded.
const CLASSES: usize = 40;

/// `top_k_micro_f1` as people write it.
pub fn title(score: &str) -> String {
    let words = score.replace("top_k", "top-k").replace('_', " ").replace("f1", "F1");
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `81.80 % (0.90)`, or without the deviation of a single run.
fn score(statistic: Option<MeanDeviation>, runs: usize) -> Cell {
    Cell::Number(match statistic {
        None => "–".into(),
        Some(MeanDeviation { mean, .. }) if runs < 2 => format!("{:.2} %", 100.0 * mean),
        Some(MeanDeviation { mean, deviation }) => {
            format!("{:.2} % ({:.2})", 100.0 * mean, 100.0 * deviation)
        }
    })
}

fn figure(value: Option<f64>, decimals: usize) -> Cell {
    Cell::Number(value.map_or("–".into(), |value| format!("{value:.decimals$}")))
}

/// Final figures, by both protocols.
pub fn results(groups: &[Group]) -> Section {
    let mut section = Section::new("results", "Results");
    section.text(
        "\"Validation\" is the test score of the epoch that is best on the validation part: the fair figure. \"Best test\" is that of the epoch \
         that is best on the test part, as papers often report it: for comparison only.",
    );
    let mut table = Table::new(&["run", "score", "validation", "best test", "seeds"]);
    for group in groups {
        let runs = group.runs.len();
        for name in group.first().scores() {
            table.row([
                Cell::text(&group.name),
                Cell::text(title(&name)),
                score(group.statistic(|run| run.chosen(&name)), runs),
                score(group.statistic(|run| run.best(&name)), runs),
                Cell::number(runs),
            ]);
        }
    }
    section.table(&table);
    let header = [
        "run",
        "seed",
        "judged by",
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
    for (group, run) in
        groups.iter().flat_map(|group| group.runs.iter().map(move |run| (group, run)))
    {
        let monitor = run.monitor();
        let ended = match run.facts["figures"]["ended"].as_str() {
            Some("epochs") => "last epoch",
            Some("patience") => "patience",
            Some("stopped") => "stopped",
            _ => "unfinished",
        };
        table.row([
            Cell::text(&group.name),
            Cell::number(run.config.train.seed),
            Cell::text(title(&monitor)),
            figure(run.figure("/chosen_on_validation/epoch"), 0),
            Cell::percent(
                run.figure("/chosen_on_validation/validation").filter(|_| monitor != "loss"),
            ),
            Cell::percent(run.chosen(&monitor).filter(|_| monitor != "loss")),
            Cell::percent(run.best(&monitor).filter(|_| monitor != "loss")),
            figure(run.figure("/best_on_test/epoch"), 0),
            figure(run.epochs.last().and_then(|last| last["epoch"].as_f64()), 0),
            figure(run.figure("/sweeps_per_epoch/forward"), 1),
            figure(run.figure("/sweeps_per_epoch/adjoint"), 1),
            figure(run.figure("/failures"), 0),
            Cell::number(run.figure("/seconds").map_or("–".into(), quantity::seconds)),
            Cell::text(ended),
        ]);
    }
    section.heading("Run by run").table(&table);
    section
}

/// Seconds by phase; a column a group.
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
    let sums = bars.iter().map(|(_, told, _)| Cell::number(told));
    table.summary(std::iter::once(Cell::text("together")).chain(sums));
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

/// What differs between the groups, and the whole of each.
pub fn configuration(groups: &[Group]) -> Section {
    let mut section = Section::new("config", "Configuration");
    let settings = |group: &Group| serde_json::to_value(&group.first().config).unwrap_or_default();
    let all: Vec<Value> = groups.iter().map(settings).collect();
    let mut header = vec!["setting"];
    header.extend(groups.iter().map(|group| group.name.as_str()));
    let mut table = Table::new(&header);
    for (section, field) in crate::config::fields() {
        let values: Vec<String> =
            all.iter().map(|config| literal(&config[section][field.key])).collect();
        if values.iter().any(|value| *value != values[0]) {
            let name = format!("{section}.{}", field.key);
            table.row(std::iter::once(Cell::text(name)).chain(values.into_iter().map(Cell::text)));
        }
    }
    if groups.len() > 1 {
        match table.is_empty() {
            true => section.text("All runs have the same settings."),
            false => section.heading("What differs").table(&table),
        };
    }
    for group in groups {
        section.folded_text(&format!("All settings of {}", group.name), &group.first().config_text);
    }
    section
}

/// How a value of `run.json` is shown.
type Show = fn(&Value) -> Option<String>;

/// Where and on what the runs were made.
pub fn machine(groups: &[Group]) -> Section {
    let mut section = Section::new("machine", "Dataset and machine");
    let mut header = vec![""];
    header.extend(groups.iter().map(|group| group.name.as_str()));
    let mut table = Table::new(&header);
    let rows: [(&str, &str, Show); 14] = [
        ("dataset", "/dataset/name", text),
        ("dataset's checksum", "/dataset/checksum", text),
        ("nodes", "/dataset/nodes", count),
        ("train items", "/dataset/train", count),
        ("validation items", "/dataset/validation", count),
        ("test items", "/dataset/test", count),
        ("processor", "/machine/processor", text),
        ("cores", "/machine/cores", count),
        ("threads", "/machine/threads", count),
        ("SIMD", "/machine/simd", text),
        ("memory of the machine", "/machine/memory_bytes", bytes),
        ("memory at the peak", "/machine/peak_bytes", bytes),
        ("ended", "/machine/ended", text),
        ("version of ignn", "/version", text),
    ];
    for (name, pointer, show) in rows {
        let value = |group: &Group| group.first().facts.pointer(pointer).and_then(show);
        let values: Vec<Option<String>> = groups.iter().map(value).collect();
        if values.iter().any(Option::is_some) {
            let cells =
                values.into_iter().map(|value| Cell::text(value.unwrap_or_else(|| "–".into())));
            table.row(std::iter::once(Cell::text(name)).chain(cells));
        }
    }
    if table.is_empty() {
        section.text("Told at the end of a run only.");
    } else {
        section.table(&table);
    }
    section
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(Into::into)
}

fn count(value: &Value) -> Option<String> {
    value.as_u64().map(quantity::count)
}

fn bytes(value: &Value) -> Option<String> {
    value.as_u64().map(quantity::bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_have_readable_names() {
        assert_eq!(title("accuracy"), "Accuracy");
        assert_eq!(title("top_k_micro_f1"), "Top-k micro F1");
        let accuracy = Some(MeanDeviation { mean: 0.818, deviation: 0.009 });
        assert_eq!(score(accuracy, 10), Cell::Number("81.80 % (0.90)".into()));
        assert_eq!(score(accuracy, 1), Cell::Number("81.80 %".into()));
        assert_eq!(score(None, 1), Cell::Number("–".into()));
    }
}
