//! Formats a `predict::Evaluation` as text tables and JSON: scores by part, by class, and the
//! confusion matrix.

use ignn::metrics::{ClassScores, Confusion, Metric};
use ignn::predict::{Evaluation, PartScores};
use ignn::report::quantity::{count, score};
use ignn::report::readable;
use ignn::report::runs::score_name;
use ignn::report::sheet::Sheet;
use serde_json::{Value, json};

/// Largest number of classes of a confusion matrix on the terminal.
const SHOWN_CONFUSION: usize = 20;
/// Largest number of classes of a confusion matrix in JSON.
const WRITTEN_CONFUSION: usize = 1000;
/// Largest number of rows of the table of classes on the terminal.
const SHOWN_CLASSES: usize = 100;

/// Longest name of a part in a heading.
const SHOWN_NAME: usize = 120;

/// One row per part.
pub fn parts(evaluation: &Evaluation) -> String {
    let heading = match &evaluation.split {
        Some(split) => format!("split {split}"),
        None => format!("labelled {}", items(evaluation)),
    };
    let value = |part: &PartScores, metric: Metric| metric.of(&part.scores, f64::NAN);
    let shown: Vec<Metric> = Metric::ALL
        .into_iter()
        .filter(|metric| *metric != Metric::Loss)
        .filter(|metric| evaluation.parts.iter().any(|part| value(part, *metric).is_some()))
        .collect();
    let names: Vec<String> = shown.iter().map(|metric| score_name(metric.name())).collect();
    let names = names.iter().map(String::as_str);
    let is_bounded = evaluation.parts.iter().any(|part| part.error_bound.is_some());
    let names = names.chain(is_bounded.then_some("error bound"));
    let first = ["part", items(evaluation), "labelled"];
    let mut sheet = Sheet::columns(&first.into_iter().chain(names).collect::<Vec<_>>());
    for part in &evaluation.parts {
        let figure = |&metric: &Metric| match value(part, metric) {
            Some(value) if part.labelled > 0 => score(metric, value),
            _ => "-".into(),
        };
        let cells = [part.part.clone(), count(part.items()), count(part.labelled)];
        let bound = is_bounded.then(|| match part.error_bound {
            Some(bound) => format!("{bound:.1e}"),
            None => "-".into(),
        });
        sheet.row(cells.into_iter().chain(shown.iter().map(figure)).chain(bound));
    }
    format!("{heading}\n{}", sheet.render())
}

/// What the rows count: nodes or graphs.
fn items(evaluation: &Evaluation) -> &'static str {
    if evaluation.parts.iter().any(|part| part.graphs.is_some()) { "graphs" } else { "nodes" }
}

/// One row per class, for one part; `None` for numbers.
pub fn classes(part: &PartScores) -> Option<String> {
    if part.classes.is_empty() {
        return None;
    }
    let items = if part.graphs.is_some() { "graphs" } else { "nodes" };
    let mut sheet = Sheet::columns(&["class", "precision", "recall", "F1", items, "predicted"]);
    for line in part.classes.iter().take(SHOWN_CLASSES) {
        let ClassScores { precision, recall, f1, support, predicted, .. } = line.scores;
        let figures = [precision, recall, f1].map(percent);
        let counts = [support, predicted].map(count);
        sheet.row([line.name.clone()].into_iter().chain(figures).chain(counts));
    }
    let rest = part.classes.len().saturating_sub(SHOWN_CLASSES);
    let rest = if rest > 0 {
        format!("  and {} more: see --json\n", count(rest as u64))
    } else {
        String::new()
    };
    Some(format!("classes of part {}\n{}{rest}", one_line(&part.part), sheet.render()))
}

/// The confusion matrix, if there are not too many classes.
pub fn confusion(part: &PartScores) -> Option<String> {
    let confusion =
        part.confusion.as_ref().filter(|confusion| confusion.classes() <= SHOWN_CONFUSION)?;
    let names = || part.classes.iter().map(|line| line.name.as_str());
    let header: Vec<&str> = ["true \\ predicted"].into_iter().chain(names()).collect();
    let mut sheet = Sheet::columns(&header);
    for (class, name) in names().enumerate() {
        let row = confusion.row(class).iter().map(|&nodes| count(nodes));
        sheet.row([name.to_string()].into_iter().chain(row));
    }
    Some(format!("confusion in part {}\n{}", one_line(&part.part), sheet.render()))
}

/// The whole evaluation as JSON.
pub fn as_json(evaluation: &Evaluation) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(evaluation)?;
    for (at, part) in evaluation.parts.iter().enumerate() {
        let rows = |confusion: &Confusion| {
            (0..confusion.classes()).map(|class| confusion.row(class).to_vec()).collect::<Vec<_>>()
        };
        let confusion =
            part.confusion.as_ref().filter(|confusion| confusion.classes() <= WRITTEN_CONFUSION);
        value["parts"][at]["confusion"] = json!(confusion.map(rows));
    }
    Ok(value)
}

/// The name of a part in a heading.
fn one_line(name: &str) -> String {
    readable::line(name, SHOWN_NAME)
}

fn percent(figure: f64) -> String {
    format!("{:.2} %", 100.0 * figure)
}
