//! The page of one or several cross-validations: figures by all protocols, folds, curves of the scores,
//! configuration. It lays out what [`CrossvalDir`] holds; nothing is trained here.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::page::{Axis, Cell, Chart, Page, Scale, Section, Series, Table};
use super::quantity;
use super::runs::{configuration, names, score_name, title};
use crate::config::Config;
use crate::metrics::{MeanDeviation, Metric};
use crate::run::{CrossvalDir, CrossvalSummary, RunDir, RunError};
use crate::train::crossval::{FoldRecord, Point, Summary};

/// A score of an epoch.
type ScoreOf = fn(&Point) -> f64;

/// A value of `crossval.json` as text.
type Shown = fn(&CrossvalSummary) -> String;

/// A cross-validation as a page shows it.
#[derive(Clone, Debug)]
pub struct ShownCrossval {
    /// Its name on the page.
    pub name: String,
    /// The figures of its last session.
    pub figures: CrossvalSummary,
    /// The finished folds, with their curves.
    pub folds: Vec<FoldRecord>,
    /// Their summary; `None` before the first is finished.
    pub summary: Option<Summary>,
    /// The settings.
    pub config: Config,
    /// The same as in `config.toml`.
    pub config_text: String,
}

/// Reads cross-validations; `None` where no path is one, and an error where only some are.
pub fn read(paths: &[PathBuf]) -> Result<Option<Vec<ShownCrossval>>, RunError> {
    let all: Vec<CrossvalDir> = paths.iter().map(CrossvalDir::new).collect();
    let is_crossval = all.iter().position(CrossvalDir::is_crossval);
    let is_other = all.iter().position(|directory| !directory.is_crossval());
    match (is_crossval, is_other) {
        (None, _) => Ok(None),
        (Some(one), Some(other)) => {
            let [crossval, other] = [one, other].map(|at| paths[at].clone());
            Err(RunError::TwoKinds { crossval, other })
        }
        (Some(_), None) => {
            let named = names(paths).into_iter().zip(&all);
            named
                .map(|(name, one)| ShownCrossval::read(name, one))
                .collect::<Result<_, _>>()
                .map(Some)
        }
    }
}

impl ShownCrossval {
    /// Reads a directory; one that was interrupted is shown as far as it got.
    fn read(name: String, directory: &CrossvalDir) -> Result<Self, RunError> {
        let figures = directory.summary()?.ok_or_else(|| RunError::NoFigures {
            path: directory.path().into(),
            expected: directory.summary_file(),
        })?;
        let folds = directory.finished()?;
        let config = RunDir::new(directory.path()).config()?;
        let (summary, config_text) = (Summary::of(&folds), config.to_toml());
        Ok(Self { name, figures, folds, summary, config, config_text })
    }

    fn cells(&self, value: MeanDeviation) -> [Cell; 2] {
        let metric = self.figures.metric;
        [value.mean, value.deviation].map(|value| Cell::number(shown(metric, value)))
    }

    /// A line by epoch over the folds: the mean, with a band from the minimum to the maximum.
    fn series(&self, name: &str, value: ScoreOf) -> Series {
        let mut by_epoch: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for point in self.folds.iter().flat_map(|fold| &fold.curve) {
            by_epoch.entry(point.epoch).or_default().push(value(point));
        }
        // Folds that stopped early are missing later: a mean of others would jump.
        by_epoch.retain(|_, values| values.len() == self.folds.len());
        let mut series = Series { name: name.into(), ..Series::default() };
        for (epoch, values) in by_epoch {
            let (low, high) = values
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
            series.points.push((epoch as f64, MeanDeviation::of(&values).mean));
            series.band.push((epoch as f64, low, high));
        }
        series
    }
}

/// The figures by all protocols: name, mean and deviation, and which epoch it is.
pub fn protocols(summary: &Summary) -> Vec<(&'static str, MeanDeviation, String)> {
    let fair = "chosen on validation in each fold: the fair figure";
    let mut rows = vec![("validation", summary.validation, fair.to_string())];
    let machine = |svm| ("svm", svm, "the same; C and gamma chosen inside the fold".to_string());
    rows.extend(summary.svm.map(machine));
    let epoch = summary.mean_curve_epoch;
    let curve = format!("{epoch}, best of the mean test curve (GIN paper)");
    rows.push(("mean curve", summary.mean_curve, curve));
    let best = "best on test in each fold (published IGNN code)".into();
    rows.push(("best of each", summary.best_of_each, best));
    rows
}

/// A score for tables of folds.
pub fn shown(metric: Metric, value: f64) -> String {
    match metric.is_share() {
        true => format!("{:.1} %", 100.0 * value),
        false => quantity::score(metric, value),
    }
}

/// The page of these cross-validations; there is at least one.
pub fn page(title: &str, all: &[ShownCrossval]) -> Page {
    let names = || all.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ");
    let mut lead = match all.len() {
        1 => format!("A cross-validation: {}.", names()),
        count => format!("{count} cross-validations compared: {}.", names()),
    };
    for one in all.iter().filter(|one| one.folds.len() < one.figures.folds_asked_for) {
        let (done, asked) = (one.folds.len(), one.figures.folds_asked_for);
        lead += &format!(" {} is not finished: {done} of {asked} folds.", one.name);
    }
    let settings: Vec<_> =
        all.iter().map(|one| (one.name.as_str(), &one.config, one.config_text.as_str())).collect();
    let mut page = Page::new(title, lead);
    page.section(results(all))
        .section(folds(all))
        .section(scores(all))
        .section(configuration(&settings))
        .section(machine(all));
    page
}

fn results(all: &[ShownCrossval]) -> Section {
    let mut section = Section::new("results", "Results");
    section.text(
        "Mean and deviation of the test score over folds. Only \"validation\" chooses the epoch \
         without the test part; the others are for comparison with papers.",
    );
    let mut table =
        Table::new(&["cross-validation", "score", "epoch", "mean", "deviation", "folds"]);
    for one in all {
        let Some(summary) = &one.summary else { continue };
        let score = title(one.figures.metric.name());
        let mut row = |score: &str, epoch: String, cells: [Cell; 2]| {
            let [mean, deviation] = cells;
            let (name, folds) = (Cell::text(&one.name), Cell::number(summary.folds));
            table.row([name, Cell::text(score), Cell::text(epoch), mean, deviation, folds]);
        };
        for (protocol, value, epoch) in protocols(summary) {
            row(&score, format!("{protocol}: {epoch}"), one.cells(value));
        }
        for (name, error) in &summary.errors {
            let cells = [error.mean, error.deviation];
            let cells = cells.map(|value| Cell::number(quantity::score(Metric::Rmse, value)));
            row(&title(name), "as for validation".into(), cells);
        }
    }
    if !table.is_empty() {
        section.table(&table);
    }
    section
}

fn folds(all: &[ShownCrossval]) -> Section {
    let mut section = Section::new("folds", "Fold by fold");
    for one in all.iter().filter(|one| !one.folds.is_empty()) {
        let items = format!("{}s", one.figures.item);
        let has_svm = one.folds.iter().any(|fold| fold.svm.is_some());
        let mut header = vec!["fold", &items, "epoch", "validation", "test", "best test"];
        header.extend(has_svm.then_some("svm test"));
        header.extend(["sweeps forward", "adjoint", "failed solves", "time"]);
        let mut table = Table::new(&header);
        let metric = one.figures.metric;
        for fold in &one.folds {
            let mut cells = vec![
                Cell::number(fold.fold),
                Cell::number(fold.items.map(|count| count.to_string()).join("/")),
                Cell::number(fold.chosen.epoch),
                Cell::number(shown(metric, fold.chosen.validation)),
                Cell::number(shown(metric, fold.chosen.test)),
                Cell::number(shown(metric, fold.best_test())),
            ];
            let svm = fold.svm.as_ref().map(|svm| shown(metric, svm.test));
            cells.extend(has_svm.then(|| Cell::number(svm.unwrap_or_else(|| "–".into()))));
            cells.extend(fold.sweeps.map(|sweeps| Cell::number(format!("{sweeps:.1}"))));
            cells.push(Cell::number(fold.failures));
            cells.push(Cell::number(quantity::seconds(fold.seconds)));
            table.row(cells);
        }
        let score = score_name(metric.name());
        section.heading(&format!("{}: {score}", one.name)).table(&table);
    }
    section
}

fn scores(all: &[ShownCrossval]) -> Section {
    let mut section = Section::new("metrics", "Scores by epoch");
    section.text(
        "Lines are means over folds; bands reach from the minimum to the maximum. Only epochs that \
         all finished folds have are drawn.",
    );
    let parts: [(&str, ScoreOf); 2] =
        [("validation", |point| point.validation), ("test", |point| point.test)];
    let mut charts = Vec::new();
    for (part, value) in parts {
        let score = title(all[0].figures.metric.name());
        let (x, y) = (Axis::linear("epoch"), Axis::scaled(score.clone(), Scale::Linear));
        let mut chart = Chart::new(&format!("chart-{part}"), &format!("{score}: {part}"), x, y);
        chart.series = all.iter().map(|one| one.series(&one.name, value)).collect();
        charts.push(chart);
    }
    for (at, one) in all.iter().enumerate() {
        let score = title(one.figures.metric.name());
        let name = format!("{}: {score} of the test part by fold", one.name);
        let (x, y) = (Axis::linear("epoch"), Axis::scaled(score, Scale::Linear));
        let mut chart = Chart::new(&format!("chart-folds-{at}"), &name, x, y);
        let line = |fold: &FoldRecord| {
            let points = fold.curve.iter().map(|point| (point.epoch as f64, point.test)).collect();
            Series { name: format!("fold {}", fold.fold), points, ..Series::default() }
        };
        chart.series = one.folds.iter().map(line).collect();
        charts.push(chart);
    }
    section.charts(&charts);
    section
}

fn machine(all: &[ShownCrossval]) -> Section {
    let mut section = Section::new("machine", "Dataset and machine");
    let mut header = vec![""];
    header.extend(all.iter().map(|one| one.name.as_str()));
    let mut table = Table::new(&header);
    let rows: [(&str, Shown); 8] = [
        ("dataset", |figures| figures.dataset.path.display().to_string()),
        ("dataset's checksum", |figures| figures.dataset.checksum.clone()),
        ("time of the last session", |figures| quantity::seconds(figures.seconds)),
        ("threads", |figures| figures.machine.threads.to_string()),
        ("folds at a time", |figures| figures.machine.folds_at_once.to_string()),
        ("SIMD", |figures| figures.machine.simd.clone()),
        ("peak memory", |figures| figures.machine.peak_bytes.map_or("–".into(), quantity::bytes)),
        ("version of ignn", |figures| figures.version.clone()),
    ];
    for (name, value) in rows {
        let cells = all.iter().map(|one| Cell::text(value(&one.figures)));
        table.row(std::iter::once(Cell::text(name)).chain(cells));
    }
    section.table(&table);
    section
}
