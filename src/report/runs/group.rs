//! Runs that differ in their seed only, taken together: means and ranges. A single run is a group
//! of one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::ShownRun;
use crate::metrics::MeanDeviation;
use crate::report::page::Series;
use crate::run::SavedRun;
use crate::train::EpochRecord;

/// Runs under one name.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name on the page.
    pub name: String,
    /// In the order of their seeds; never empty.
    pub runs: Vec<ShownRun>,
}

impl Group {
    /// The first run, for what all of them have in common.
    pub fn first(&self) -> &SavedRun {
        &self.runs[0].saved
    }

    /// A line by epoch: the run's own, or the mean with a band from the minimum to the maximum.
    pub fn series(&self, name: &str, value: &dyn Fn(&EpochRecord) -> Option<f64>) -> Series {
        let name = name.to_string();
        if let [run] = &self.runs[..] {
            return Series { name, points: run.saved.curve(value), ..Series::default() };
        }
        let mut by_epoch: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for run in &self.runs {
            for (epoch, value) in run.saved.curve(value) {
                by_epoch.entry(epoch as u64).or_default().push(value);
            }
        }
        let mut series = Series { name, ..Series::default() };
        for (epoch, values) in by_epoch {
            let x = epoch as f64;
            let (lowest, highest) = values
                .iter()
                .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
            series.points.push((x, MeanDeviation::of(&values).mean));
            series.band.push((x, lowest, highest));
        }
        series
    }

    /// Mean and deviation over the runs that have this figure.
    pub fn statistic(&self, figure: impl Fn(&SavedRun) -> Option<f64>) -> Option<MeanDeviation> {
        MeanDeviation::of_finite(self.runs.iter().filter_map(|run| figure(&run.saved)))
    }
}

/// Short names that distinguish paths: the last component of each, with those before it where two
/// are alike.
pub fn names(paths: &[PathBuf]) -> Vec<String> {
    let name = |path: &Path, steps: usize| {
        let all: Vec<_> =
            path.components().map(|step| step.as_os_str().to_string_lossy()).collect();
        all[all.len().saturating_sub(steps)..].join("/")
    };
    let longest = paths.iter().map(|path| path.components().count()).max().unwrap_or(1);
    let all = |steps: usize| paths.iter().map(|path| name(path, steps)).collect::<Vec<_>>();
    let differ = |names: &[String]| (0..names.len()).all(|at| !names[..at].contains(&names[at]));
    (1..=longest).map(all).find(|names| differ(names)).unwrap_or_else(|| all(longest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metric;
    use crate::run::testing;

    #[test]
    fn names_are_as_short_as_possible() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(names(&paths(&["runs/a", "runs/b"])), ["a", "b"]);
        assert_eq!(names(&paths(&["x/run", "y/run"])), ["x/run", "y/run"]);
        assert_eq!(names(&paths(&["same", "same"])), ["same", "same"]);
    }

    #[test]
    fn seeds_make_a_mean_and_a_band() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str, epochs| {
            let run = testing::write(&dir.path().join(name), epochs, true);
            ShownRun { saved: SavedRun::read(&run).unwrap(), classes: None }
        };
        let mut group = Group { name: "g".into(), runs: vec![read("a", 2), read("b", 1)] };
        group.runs[1].saved.records[0].loss = 1.5;
        let series = group.series("loss", &|record| Some(record.loss));
        assert_eq!(series.points, [(0.0, 1.0), (1.0, 0.5)]);
        assert_eq!(series.band, [(0.0, 0.5, 1.5), (1.0, 0.5, 0.5)]);
        assert_eq!(
            group.statistic(|run| run.chosen(Metric::Accuracy)),
            Some(MeanDeviation { mean: 0.5, deviation: 0.0 })
        );
        assert_eq!(group.statistic(|run| run.chosen(Metric::MacroF1)), None);
    }
}
