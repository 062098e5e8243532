//! A study as an HTML page: the paper's figures redrawn from our results, and tables that compare
//! them with the published figures.

use super::{Cost, Dataset, Panel, Row, SCALING, Study};
use crate::report::page::{Axis, Cell, Chart, Page, Section, Series, Table};
use crate::report::quantity;
use crate::report::runs::title;

/// What the two figures of a row are.
pub(super) const PROTOCOLS: &str = "In parentheses: the standard deviation. \
     \"Validation\": test score of the epoch that is best on the validation part. \"Best test\": of \
     the epoch that is best on the test part, as papers often report it; for comparison only.";

impl Study {
    /// The page.
    pub fn page(&self) -> Page {
        let quick = match self.is_quick {
            true => {
                " This is the quick form with fewer points, seeds and epochs: its figures are not \
                 comparable with published ones."
            }
            false => "",
        };
        let mut page = Page::new(&self.title, format!("{}{quick}", self.about));
        if !self.notes.is_empty() {
            let mut section = Section::new("notes", "Notes");
            self.notes.iter().for_each(|note| {
                section.text(note);
            });
            page.section(section);
        }
        for panel in &self.panels {
            page.section(section(panel));
        }
        if !self.datasets.is_empty() {
            page.section(data(&self.datasets));
        }
        if !self.choices.is_empty() {
            let mut section = Section::new("settings", "How the settings were chosen");
            self.choices.iter().for_each(|choice| {
                section.text(&choice.words());
            });
            page.section(section);
        }
        let mut section = Section::new("commands", "Commands and machine");
        section.text(&self.command);
        let mut table = Table::pairs();
        for (name, value) in &self.facts {
            table.row([Cell::text(name), Cell::text(value)]);
        }
        if !table.is_empty() {
            section.table(&table);
        }
        section.folded_text("The commands behind this page", &self.commands.join("\n"));
        page.section(section);
        page
    }
}

fn section(panel: &Panel) -> Section {
    let mut section = Section::new(&panel.id, &panel.title);
    section.text(&format!("Means over {}. {PROTOCOLS}", panel.repeats));
    if let Some(axis) = &panel.axis {
        let charts: Vec<Chart> = panel
            .distinct(|row| &row.score)
            .iter()
            .flat_map(|score| {
                ["validation", "best test"].map(|protocol| chart(panel, axis, score, protocol))
            })
            .collect();
        section.charts(&charts);
    }
    let mut table = Table::new(&[
        &panel.points,
        "method",
        "score",
        "validation, %",
        "best test, %",
        "runs",
        "time",
        "per epoch",
        "sweeps per epoch",
        "memory",
        "published, %",
    ]);
    for row in &panel.rows {
        let runs =
            row.validation.as_ref().or(row.best_test.as_ref()).map_or(0, |figure| figure.count);
        let published = row.published_words();
        let cost = |words: &dyn Fn(&Cost) -> Option<String>| {
            Cell::number(row.cost.as_ref().and_then(words).unwrap_or("–".into()))
        };
        table.row([
            Cell::text(&row.point),
            Cell::text(&row.method),
            Cell::text(title(&row.score)),
            Cell::number(row.words(&row.validation)),
            Cell::number(row.words(&row.best_test)),
            Cell::number(runs),
            cost(&|cost| Some(quantity::seconds(cost.seconds))),
            cost(&|cost| cost.seconds_per_epoch.map(quantity::seconds)),
            cost(&Cost::sweeps_words),
            cost(&|cost| cost.peak_bytes.map(quantity::bytes)),
            Cell::text(if published.is_empty() { "–".into() } else { published }),
        ]);
    }
    section.table(&table);
    section
}

/// What the data are, and what making them took.
fn data(datasets: &[Dataset]) -> Section {
    let mut section = Section::new("data", "Data");
    section.text("Time and peak memory from raw files, or from a generator, to the dataset.");
    let mut table = Table::new(&["dataset", "nodes", "non-zeros", "on disk", "time", "memory"]);
    for one in datasets {
        table.row([
            Cell::text(&one.name),
            Cell::number(quantity::count(one.nodes)),
            Cell::number(quantity::count(one.nonzeros)),
            Cell::number(one.bytes_on_disk.map_or("–".into(), quantity::bytes)),
            Cell::number(one.seconds.map_or("–".into(), quantity::seconds)),
            Cell::number(one.peak_bytes.map_or("–".into(), quantity::bytes)),
        ]);
    }
    section.table(&table);
    let scaling: Vec<_> = datasets.iter().flat_map(Dataset::scaling_cells).collect();
    if !scaling.is_empty() {
        section.text("Sweeps over all rows by the number of threads, the best of several.");
        let mut table = Table::new(&SCALING);
        for [name, numbers @ ..] in &scaling {
            let numbers = numbers.iter().map(Cell::number);
            table.row([Cell::text(name)].into_iter().chain(numbers));
        }
        section.table(&table);
    }
    section
}

fn chart(panel: &Panel, axis: &str, score: &str, protocol: &str) -> Chart {
    let title = title(score);
    let id = format!("chart-{}-{score}-{protocol}", panel.id);
    let y = Axis::linear(format!("{title}, % of the test part")).including(&[0.0, 100.0]);
    let heading = format!(
        "{title}, {}",
        match protocol {
            "validation" => "epoch chosen on validation",
            _ => "best epoch on the test part",
        }
    );
    let mut chart = Chart::new(&id, &heading, Axis::linear(axis), y);
    let rows = |method: &str| -> Vec<&Row> {
        panel.rows.iter().filter(|row| row.method == method && row.score == score).collect()
    };
    for method in panel.distinct(|row| &row.method) {
        let mut series = Series { name: method.clone(), is_marked: true, ..Series::default() };
        for row in rows(&method) {
            let figure = if protocol == "validation" { &row.validation } else { &row.best_test };
            let Some(figure) = figure else { continue };
            let (mean, deviation) = (100.0 * figure.mean, 100.0 * figure.deviation);
            series.points.push((row.x, mean));
            series.band.push((row.x, (mean - deviation).max(0.0), (mean + deviation).min(100.0)));
        }
        chart.series.push(series);
    }
    let mut sources: Vec<(String, Series)> = Vec::new();
    for row in panel.rows.iter().filter(|row| row.score == score) {
        for published in &row.published {
            let key = format!("{} {}", row.method, published.source);
            if !sources.iter().any(|(known, _)| *known == key) {
                let name = published.source.clone();
                sources.push((key.clone(), Series { name, is_marked: true, ..Series::default() }));
            }
            if let Some((_, series)) = sources.iter_mut().find(|(known, _)| *known == key) {
                series.points.push((row.x, 100.0 * published.value));
            }
        }
    }
    chart.series.extend(sources.into_iter().map(|(_, series)| series));
    chart.note = "Bands show one standard deviation on either side.".into();
    chart
}

#[cfg(test)]
mod tests {
    use super::super::testing::study;

    #[test]
    fn every_method_and_every_source_is_drawn() {
        let page = study().page();
        assert_eq!(page.charts(), 2);
        let html = page.render();
        for name in ["IGNN", "GCN", "published code"] {
            assert_eq!(html.matches(&format!("data-series=\"{name}\"")).count(), 2, "{name}");
        }
        for word in [
            "data &lt;x&gt; is absent",
            "95.00 (7.07)",
            "failed",
            "64.5, published code",
            "quick form",
            "chains-10",
            "12.0 + 9.0",
            "3.0 MiB",
            "speed-up",
            "1.50",
        ] {
            assert!(html.contains(word), "{word}");
        }
    }
}
