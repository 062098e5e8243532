//! One method at one point: its directory, its settings, and the commands that train it. It reads
//! back what those commands wrote; `runner` starts them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use ignn::config::Config;
use ignn::graph::Graph;
use ignn::metrics::{MeanDeviation, Metric, MetricError};
use ignn::report::study::{Cost, Figure};
use ignn::run::{CrossvalDir, CrossvalSetup, CrossvalSummary, FoldReadout, RunDir, SavedRun};
use ignn::train::crossval::Summary;
use ignn::train::{Ended as RunEnded, Task, lookup};

use super::experiment::{Method, Panel, Point, Readout, Repeats};
use super::runner::Ended;
use super::slug;

/// What is to be trained.
pub struct Plan {
    /// Directory of the runs, below that of all runs.
    pub directory: PathBuf,
    pub preset: Option<&'static str>,
    pub sets: Vec<String>,
    pub repeats: Repeats,
    pub readout: Readout,
    pub scores: &'static [&'static str],
    pub is_quick: bool,
}

/// The results of a plan.
#[derive(Debug)]
pub struct Trial {
    /// By score: chosen on validation, best on test.
    pub figures: BTreeMap<String, (Option<Figure>, Option<Figure>)>,
    pub cost: Option<Cost>,
    pub failure: Option<String>,
    pub ended: Ended,
}

/// The state of a run.
#[derive(Debug, PartialEq, Eq)]
pub enum State {
    /// Finished, with the same settings and data.
    Done,
    /// Begun with the same settings and data.
    Begun,
    /// Something else, or not started.
    Other,
}

impl Trial {
    /// No results.
    pub fn new(ended: Ended) -> Self {
        Self { figures: BTreeMap::new(), cost: None, failure: None, ended }
    }
}

impl Plan {
    /// Later settings win: the point's, the method's, then `on_top`.
    pub fn new(
        panel: &Panel,
        point: &Point,
        method: &Method,
        on_top: &[String],
        is_quick: bool,
    ) -> Self {
        let own = if method.is_constant { &[][..] } else { point.sets };
        let sets =
            own.iter().chain(method.sets).map(ToString::to_string).chain(on_top.iter().cloned());
        let name = if let Readout::SvmOf(other) = method.readout { other } else { method.name };
        let place = PathBuf::from(panel.id);
        let directory = match method.is_constant {
            true => place.join(slug(name)),
            false => place.join(slug(point.name)).join(slug(name)),
        };
        let preset = method.has_preset.then_some(point.preset);
        let (repeats, scores) = (panel.repeats, panel.scores);
        Self {
            directory,
            preset,
            sets: sets.collect(),
            repeats,
            readout: method.readout,
            scores,
            is_quick,
        }
    }

    /// The configuration of a seed.
    pub fn config(&self, seed: u64) -> Result<Config> {
        let mut sets = self.sets.clone();
        sets.push(format!("train.seed={seed}"));
        Ok(Config::resolve(self.preset, None, &sets)?)
    }

    /// Folds of a cross-validation.
    pub fn folds(&self) -> Option<usize> {
        match self.repeats {
            Repeats::BySeeds => None,
            Repeats::ByFolds(folds, quick) => Some(if self.is_quick { quick } else { folds }),
        }
    }

    /// The arguments that train a seed from the start.
    pub fn arguments(&self, dataset: &Path, out: &Path, seed: u64) -> Vec<String> {
        let command = if self.folds().is_some() { "crossval" } else { "train" };
        let mut arguments = vec![command.to_string(), dataset.display().to_string()];
        arguments.extend(["--out".into(), out.display().to_string()]);
        arguments.extend(self.preset.into_iter().flat_map(|name| ["--preset".into(), name.into()]));
        for set in &self.sets {
            arguments.extend(["--set".into(), set.clone()]);
        }
        arguments.extend(["--set".into(), format!("train.seed={seed}")]);
        if let Some(folds) = self.folds() {
            arguments.extend(["--folds".into(), folds.to_string()]);
            let readout = match self.fold_readout() {
                FoldReadout::Model => "model".to_string(),
                FoldReadout::Svm | FoldReadout::SvmLinear => "svm".to_string(),
            };
            arguments.extend(["--readout".into(), readout]);
        }
        arguments
    }

    fn fold_readout(&self) -> FoldReadout {
        match self.readout {
            Readout::Model | Readout::Lookup => FoldReadout::Model,
            Readout::BesideSvm | Readout::SvmOf(_) => FoldReadout::Svm,
        }
    }

    /// The state of the run or cross-validation in a directory.
    pub fn state(&self, directory: &Path, config: &Config, checksum: &str) -> State {
        let run = RunDir::new(directory);
        let is_same =
            fs::read_to_string(run.config_file()).is_ok_and(|text| text == config.to_toml());
        if !is_same {
            return State::Other;
        }
        let (found, is_done, is_begun) = match self.folds() {
            None => {
                let summary = run.summary().ok().flatten();
                let is_done =
                    summary.as_ref().is_some_and(|run| run.figures.ended != RunEnded::Stopped);
                let checksum = summary.map(|run| run.dataset.checksum);
                (checksum, is_done, run.checkpoint_file().exists())
            }
            Some(folds) => {
                let crossval = CrossvalDir::new(directory);
                let wanted = CrossvalSetup { folds, readout: self.fold_readout(), csv_safe: false };
                let is_same = crossval.setup().is_ok_and(|setup| setup == wanted);
                let summary = crossval.summary().ok().flatten();
                let finished = |summary: &Summary| summary.folds == folds;
                let is_done = is_same
                    && summary.as_ref().and_then(|all| all.summary.as_ref()).is_some_and(finished);
                (summary.map(|summary| summary.dataset.checksum), is_done, is_same)
            }
        };
        match found {
            Some(found) if found != checksum => State::Other,
            Some(_) if is_done => State::Done,
            _ if is_begun => State::Begun,
            _ => State::Other,
        }
    }

    /// Looks up the test part in the training part.
    pub fn look_up(&self, graph: &Graph) -> Result<Trial> {
        let started = Instant::now();
        let task = Task::open(graph.clone(), &self.config(0)?)?;
        let mut trial = Trial::new(Ended::Finished);
        let found = lookup::scores(&task, &task.parts().test)?;
        for score in self.scores {
            let metric: Metric = score.to_string().try_into().map_err(|e: MetricError| e)?;
            let value = found.as_ref().and_then(|scores| metric.of(scores, f64::NAN));
            // Nothing is chosen: there is one figure.
            let figure = value.and_then(|value| Figure::of(&[value]));
            trial.figures.insert(score.to_string(), (figure, None));
        }
        trial.cost = Some(Cost::of_seconds(started.elapsed().as_secs_f64()));
        Ok(trial)
    }

    /// The figures of cross-validations by several seeds are means over the seeds; those of a single
    /// one are means over its folds.
    fn of_crossvals(&self, all: &[CrossvalSummary]) -> Trial {
        let figures: Vec<&Summary> = all.iter().filter_map(|one| one.summary.as_ref()).collect();
        let figure = |of: &dyn Fn(&Summary) -> Option<MeanDeviation>| match &figures[..] {
            [one] => {
                let MeanDeviation { mean, deviation } = of(one)?;
                Some(Figure { mean, deviation, count: one.folds })
            }
            all => {
                let means = all.iter().filter_map(|one| of(one)).map(|figure| figure.mean);
                Figure::of(&means.collect::<Vec<_>>())
            }
        };
        let both = match self.readout {
            // Its settings are chosen inside the fold, at the epoch that validation chose: there is
            // no best epoch of its own.
            Readout::SvmOf(_) => (figure(&|one| one.svm), None),
            Readout::Model | Readout::BesideSvm | Readout::Lookup => {
                (figure(&|one| Some(one.validation)), figure(&|one| Some(one.best_of_each)))
            }
        };
        let mut trial = Trial::new(Ended::Finished);
        trial.figures.insert(Metric::Accuracy.name().into(), both);
        let seconds = MeanDeviation::of_finite(all.iter().map(|one| one.seconds));
        trial.cost = seconds.map(|seconds| Cost {
            peak_bytes: all.iter().filter_map(|one| one.machine.peak_bytes).max(),
            ..Cost::of_seconds(seconds.mean)
        });
        trial
    }

    /// Reads finished runs back.
    pub fn read(&self, directories: &[PathBuf]) -> Result<Trial> {
        let mut trial = Trial::new(Ended::Finished);
        if self.folds().is_some() {
            let summaries = directories
                .iter()
                .map(|directory| CrossvalDir::new(directory).summary())
                .collect::<Result<Vec<_>, _>>()?;
            let summaries: Vec<_> = summaries.into_iter().flatten().collect();
            return Ok(self.of_crossvals(&summaries));
        }
        let runs = directories
            .iter()
            .map(|directory| SavedRun::read(&RunDir::new(directory)))
            .collect::<Result<Vec<_>, _>>()?;
        let all = |figure: &dyn Fn(&SavedRun) -> Option<f64>| {
            Figure::of(&runs.iter().filter_map(figure).collect::<Vec<_>>())
        };
        for score in self.scores {
            let metric: Metric = score.to_string().try_into().map_err(|e: MetricError| e)?;
            let figures = (all(&|run| run.chosen(metric)), all(&|run| run.best(metric)));
            trial.figures.insert(score.to_string(), figures);
        }
        trial.cost = Cost::of_runs(&runs);
        Ok(trial)
    }
}
