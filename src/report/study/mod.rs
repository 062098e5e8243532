//! A reproduced experiment of the paper: our figures by both protocols beside the published ones.
//! It holds and lays out figures; `ignn reproduce` runs the experiments.

mod files;
mod page;
mod text;

use serde::Serialize;

use crate::metrics::MeanDeviation;

/// An experiment with its results so far.
#[derive(Clone, Debug, Serialize)]
pub struct Study {
    /// Its name on the command line.
    pub name: String,
    /// Its title on the page.
    pub title: String,
    /// What is measured, in a few sentences.
    pub about: String,
    /// Whether it is the quick form, whose figures are not comparable.
    pub is_quick: bool,
    /// What a reader must know: substituted datasets, methods that failed.
    pub notes: Vec<String>,
    /// Tables and figures.
    pub panels: Vec<Panel>,
    /// The commands that were run, in order.
    pub commands: Vec<String>,
    /// Version, machine, day.
    pub facts: Vec<(String, String)>,
}

/// A table or figure of the paper.
#[derive(Clone, Debug, Serialize)]
pub struct Panel {
    /// Its anchor on the page is made from this.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What the points are: the title of their column.
    pub points: String,
    /// The horizontal axis with its unit, where the points are numbers.
    pub axis: Option<String>,
    /// Rows in the order of points, methods and scores.
    pub rows: Vec<Row>,
}

/// One method at one point by one score.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The point's name.
    pub point: String,
    /// Its position on the axis.
    pub x: f64,
    /// The method's name.
    pub method: String,
    /// The score's name.
    pub score: String,
    /// Test score at the epoch that is best on validation.
    pub validation: Option<Figure>,
    /// Test score at the epoch that is best on the test part.
    pub best_test: Option<Figure>,
    /// Published figures.
    pub published: Vec<Published>,
    /// Mean seconds per run.
    pub seconds: Option<f64>,
    /// Why there are no figures.
    pub failure: Option<String>,
}

/// A mean over seeds or folds, as a fraction of 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation.
    pub deviation: f64,
    /// Number of values.
    pub count: usize,
}

/// A published figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Published {
    /// As a fraction of 1.
    pub value: f64,
    /// The standard deviation, if it is given.
    pub deviation: Option<f64>,
    /// Where it was published.
    pub source: String,
}

impl Figure {
    /// Mean and deviation of the finite values; `None` without any.
    pub fn of(values: &[f64]) -> Option<Self> {
        let finite = values.iter().copied().filter(|value| value.is_finite());
        let MeanDeviation { mean, deviation } = MeanDeviation::of_finite(finite.clone())?;
        Some(Self { mean, deviation, count: finite.count() })
    }

    /// `81.80 (0.90)`, in per cent; a single value is shown without a deviation.
    pub fn words(&self) -> String {
        match self.count {
            1 => format!("{:.2}", 100.0 * self.mean),
            _ => format!("{:.2} ({:.2})", 100.0 * self.mean, 100.0 * self.deviation),
        }
    }
}

impl Published {
    /// `89.3 (6.7), paper`, in per cent.
    pub fn words(&self) -> String {
        let value = format!("{:.1}", 100.0 * self.value);
        match self.deviation {
            Some(deviation) => format!("{value} ({:.1}), {}", 100.0 * deviation, self.source),
            None => format!("{value}, {}", self.source),
        }
    }
}

impl Row {
    /// A figure, "failed" if the method failed, or a dash.
    fn words(&self, figure: &Option<Figure>) -> String {
        match (figure, &self.failure) {
            (Some(figure), _) => figure.words(),
            (None, Some(_)) => "failed".into(),
            (None, None) => "–".into(),
        }
    }

    fn published_words(&self) -> String {
        self.published.iter().map(Published::words).collect::<Vec<_>>().join("; ")
    }
}

impl Panel {
    /// The distinct values of a column, in order.
    fn distinct(&self, column: impl Fn(&Row) -> &str) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for row in &self.rows {
            if !all.iter().any(|value| value == column(row)) {
                all.push(column(row).into());
            }
        }
        all
    }
}

#[cfg(test)]
pub mod testing {
    //! A study for tests.

    use super::*;

    /// Two points, two methods, one of which failed.
    pub fn study() -> Study {
        let row = |point: &str, x, method: &str, values: &[f64], published: Vec<Published>| Row {
            point: point.into(),
            x,
            method: method.into(),
            score: "accuracy".into(),
            validation: Figure::of(values),
            best_test: Figure::of(values),
            published,
            seconds: Some(1.0),
            failure: values.is_empty().then(|| "no such model".into()),
        };
        let published =
            Published { value: 0.645, deviation: None, source: "published code".into() };
        let rows = vec![
            row("10", 10.0, "IGNN", &[1.0, 0.9], Vec::new()),
            row("10", 10.0, "GCN", &[], Vec::new()),
            row("40", 40.0, "IGNN", &[0.95, 0.85], vec![published]),
            row("40", 40.0, "GCN", &[0.5], Vec::new()),
        ];
        let panel = Panel {
            id: "length".into(),
            title: "Accuracy against length".into(),
            points: "length".into(),
            axis: Some("nodes of a chain".into()),
            rows,
        };
        Study {
            name: "chains".into(),
            title: "Chains".into(),
            about: "How far information travels.".into(),
            is_quick: true,
            notes: vec!["data <x> is absent".into()],
            panels: vec![panel],
            commands: vec!["ignn train a --out b".into()],
            facts: vec![("version".into(), "0.1.0".into())],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_means_in_per_cent() {
        assert_eq!(Figure::of(&[1.0, 0.9]).unwrap().words(), "95.00 (7.07)");
        assert_eq!(Figure::of(&[0.5]).unwrap().words(), "50.00");
        assert_eq!((Figure::of(&[]), Figure::of(&[f64::NAN])), (None, None));
        let published = Published { value: 0.893, deviation: Some(0.067), source: "paper".into() };
        assert_eq!(published.words(), "89.3 (6.7), paper");
    }
}
