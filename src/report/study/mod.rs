//! A reproduced experiment of the paper: our figures by both protocols beside the published ones.
//! It holds and lays out figures; `ignn reproduce` runs the experiments.

mod files;
mod markdown;
mod page;
mod text;

use serde::{Deserialize, Serialize};

use crate::metrics::MeanDeviation;
use crate::report::quantity;
use crate::run::{Figures, SavedRun, SweepsPerEpoch};

/// An experiment with its results so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Study {
    /// Its name on the command line.
    pub name: String,
    /// Its title on the page.
    pub title: String,
    /// What is measured, in a few sentences.
    pub about: String,
    /// Whether it is the quick form, whose figures are not comparable.
    pub is_quick: bool,
    /// The command that makes all of it, with DATA and DIR for its directories.
    pub command: String,
    /// How the settings of its methods were chosen.
    pub choices: Vec<Choice>,
    /// What a reader must know: substituted datasets, methods that failed.
    pub notes: Vec<String>,
    /// The data, in the order in which they were made.
    pub datasets: Vec<Dataset>,
    /// Tables and figures.
    pub panels: Vec<Panel>,
    /// The commands that were run, in order.
    pub commands: Vec<String>,
    /// Version, machine, day.
    pub facts: Vec<(String, String)>,
}

/// How settings were chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Whose settings: a preset's, or those of the baselines.
    pub whose: String,
    /// Number of settings that were tried.
    pub tried: String,
    /// What decided among them.
    pub by: String,
    /// Whether test scores were in view; `None` if nobody recorded it.
    pub saw_test: Option<bool>,
}

impl Choice {
    /// `preset acm: tried: about 100; chosen: on validation; test scores in view: no`.
    fn words(&self) -> String {
        let saw_test = match self.saw_test {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not recorded",
        };
        format!(
            "{}: tried: {}; chosen: {}; test scores in view: {saw_test}",
            self.whose, self.tried, self.by
        )
    }
}

/// A dataset, and what making it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dataset {
    /// Name of its directory.
    pub name: String,
    /// Number of nodes.
    pub nodes: u64,
    /// Entries of its relations, self-loops of the renormalisation included.
    pub nonzeros: u64,
    /// Size of its files.
    pub bytes_on_disk: Option<u64>,
    /// Seconds from raw files, or parameters of a generator, to the finished dataset.
    pub seconds: Option<f64>,
    /// Peak resident memory of that process.
    pub peak_bytes: Option<u64>,
    /// Sweeps on several numbers of threads, where they were measured.
    pub scaling: Vec<Scaling>,
}

/// A sweep over all rows on some threads; the best of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// Number of threads.
    pub threads: usize,
    /// Seconds of a forward sweep.
    pub forward_seconds: f64,
    /// Seconds of an adjoint sweep.
    pub adjoint_seconds: f64,
}

impl Dataset {
    /// Its sweeps by threads: name, threads, forward, adjoint, and the speed-up over the first row.
    fn scaling_cells(&self) -> Vec<[String; 5]> {
        let row = |one: &Scaling| {
            let first = &self.scaling[0];
            [
                self.name.clone(),
                one.threads.to_string(),
                quantity::seconds(one.forward_seconds),
                quantity::seconds(one.adjoint_seconds),
                format!("{:.2}", first.forward_seconds / one.forward_seconds),
            ]
        };
        self.scaling.iter().map(row).collect()
    }
}

/// Titles of [`Dataset::scaling_cells`].
const SCALING: [&str; 5] = ["dataset", "threads", "forward sweep", "adjoint sweep", "speed-up"];

/// A table or figure of the paper.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Panel {
    /// Its anchor on the page is made from this.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What the points are: the title of their column.
    pub points: String,
    /// The horizontal axis with its unit, where the points are numbers.
    pub axis: Option<String>,
    /// What a figure is a mean of: seeds or folds.
    pub repeats: String,
    /// Rows in the order of points, methods and scores.
    pub rows: Vec<Row>,
}

/// One method at one point by one score.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
    /// What the runs took.
    pub cost: Option<Cost>,
    /// Why there are no figures.
    pub failure: Option<String>,
}

/// What runs took: means, where nothing else is said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Seconds per run, or of a cross-validation.
    pub seconds: f64,
    /// Seconds per epoch, evaluation included.
    pub seconds_per_epoch: Option<f64>,
    /// Epochs per run.
    pub epochs: Option<f64>,
    /// Sweeps of the forward solves per epoch; `None` for models that solve nothing.
    pub forward_sweeps: Option<f64>,
    /// Sweeps of the adjoint solves per epoch.
    pub adjoint_sweeps: Option<f64>,
    /// The largest peak of resident memory.
    pub peak_bytes: Option<u64>,
}

impl Cost {
    /// Only the time is known.
    pub fn of_seconds(seconds: f64) -> Self {
        Self {
            seconds,
            seconds_per_epoch: None,
            epochs: None,
            forward_sweeps: None,
            adjoint_sweeps: None,
            peak_bytes: None,
        }
    }

    /// The cost of these runs; `None` if none of them has ended.
    pub fn of_runs(runs: &[SavedRun]) -> Option<Self> {
        let mean = |value: &dyn Fn(&Figures) -> f64| {
            let values = runs.iter().filter_map(|run| run.figures()).map(value);
            MeanDeviation::of_finite(values).map(|all| all.mean)
        };
        let sweeps = |value: &dyn Fn(&SweepsPerEpoch) -> f64| {
            mean(&|figures| value(&figures.sweeps_per_epoch)).filter(|&sweeps| sweeps > 0.0)
        };
        let summaries = runs.iter().filter_map(|run| run.summary.as_ref());
        Some(Self {
            seconds: mean(&|figures| figures.seconds)?,
            seconds_per_epoch: mean(&|figures| figures.seconds_per_epoch),
            epochs: mean(&|figures| figures.epochs as f64),
            forward_sweeps: sweeps(&|sweeps| sweeps.forward),
            adjoint_sweeps: sweeps(&|sweeps| sweeps.adjoint),
            peak_bytes: summaries.filter_map(|summary| summary.machine.peak_bytes).max(),
        })
    }

    /// `12.0 + 9.0`: sweeps forward and adjoint per epoch.
    fn sweeps_words(&self) -> Option<String> {
        let forward = format!("{:.1}", self.forward_sweeps?);
        Some(match self.adjoint_sweeps {
            Some(adjoint) => format!("{forward} + {adjoint:.1}"),
            None => forward,
        })
    }
}

/// A mean over seeds or folds, as a fraction of 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation.
    pub deviation: f64,
    /// Number of values.
    pub count: usize,
}

/// A published figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
            cost: Some(Cost {
                seconds_per_epoch: Some(0.25),
                epochs: Some(40.0),
                forward_sweeps: Some(12.0),
                adjoint_sweeps: Some(9.0),
                peak_bytes: Some(3 << 20),
                ..Cost::of_seconds(10.0)
            }),
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
            repeats: "seeds 0, 1".into(),
            rows,
        };
        Study {
            name: "chains".into(),
            title: "Chains".into(),
            about: "How far information travels.".into(),
            is_quick: true,
            command: "ignn reproduce chains --quick --out DIR".into(),
            choices: vec![Choice {
                whose: "preset chains".into(),
                tried: "12".into(),
                by: "on validation".into(),
                saw_test: Some(false),
            }],
            notes: vec!["data <x> is absent".into()],
            datasets: vec![Dataset {
                name: "chains-10".into(),
                nodes: 400,
                nonzeros: 360,
                bytes_on_disk: Some(2048),
                seconds: Some(0.5),
                peak_bytes: Some(1 << 20),
                scaling: vec![
                    Scaling { threads: 1, forward_seconds: 0.75, adjoint_seconds: 0.5 },
                    Scaling { threads: 2, forward_seconds: 0.5, adjoint_seconds: 0.25 },
                ],
            }],
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
