//! One method at one point: its directory, its settings, and the words of the commands that run it.
//! It reads back what those commands wrote; starting them is for `runner`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ignn::config::IgnnConfig;
use ignn::report::runs::{Group, RunRecord};
use ignn::report::study::Figure;
use serde_json::Value;

use super::experiment::{Judged, Method, Panel, Point, Readout};
use super::runner::Ended;
use super::slug;
use crate::terminal::run;

/// Figures of a cross-validation, in its directory.
const CROSSVAL: &str = "crossval.json";

/// What is to be run.
pub struct Plan {
    /// Directory of the runs, below that of all runs.
    pub directory: PathBuf,
    pub preset: &'static str,
    pub sets: Vec<String>,
    pub judged: Judged,
    pub readout: Readout,
    pub scores: &'static [&'static str],
    pub is_quick: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Trial {
    /// By score: chosen on validation, best on test.
    pub figures: BTreeMap<String, (Option<Figure>, Option<Figure>)>,
    pub seconds: Option<f64>,
    pub failure: Option<String>,
    pub ended: Ended,
}

/// How far a run is.
#[derive(Debug, PartialEq, Eq)]
pub enum State {
    /// Finished, with the same settings and data.
    Done,
    /// Begun with the same settings and data.
    Begun,
    /// Something else, or nothing.
    Other,
}

impl Plan {
    /// Settings later in the list win: the point's, the method's, those on top.
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
        let (preset, judged, scores) = (point.preset, panel.judged, panel.scores);
        Self {
            directory,
            preset,
            sets: sets.collect(),
            judged,
            readout: method.readout,
            scores,
            is_quick,
        }
    }

    /// The configuration of a seed.
    pub fn config(&self, seed: u64) -> Result<IgnnConfig> {
        let mut sets = self.sets.clone();
        sets.push(format!("train.seed={seed}"));
        Ok(IgnnConfig::resolve(Some(self.preset), None, &sets)?)
    }

    /// Folds of a cross-validation.
    pub fn folds(&self) -> Option<usize> {
        match self.judged {
            Judged::BySeeds => None,
            Judged::ByFolds(folds, quick) => Some(if self.is_quick { quick } else { folds }),
        }
    }

    /// The words that run a seed from its beginning.
    pub fn words(&self, dataset: &Path, out: &Path, seed: u64) -> Vec<String> {
        let command = if self.folds().is_some() { "crossval" } else { "train" };
        let mut words = vec![command.to_string(), dataset.display().to_string()];
        words.extend([
            "--out".into(),
            out.display().to_string(),
            "--preset".into(),
            self.preset.into(),
        ]);
        for set in &self.sets {
            words.extend(["--set".into(), set.clone()]);
        }
        words.extend(["--set".into(), format!("train.seed={seed}")]);
        if let Some(folds) = self.folds() {
            words.extend(["--folds".into(), folds.to_string()]);
            words.extend(["--readout".into(), self.readout_word().into()]);
        }
        words
    }

    fn readout_word(&self) -> &'static str {
        if self.readout == Readout::Model { "model" } else { "svm" }
    }

    /// How far the run in a directory is.
    pub fn state(&self, directory: &Path, config: &IgnnConfig, checksum: &str) -> State {
        let is_same = fs::read_to_string(directory.join(run::CONFIG))
            .is_ok_and(|text| text == config.to_toml());
        if !is_same {
            return State::Other;
        }
        let json = |name: &str| -> Value {
            let text = fs::read_to_string(directory.join(name)).unwrap_or_default();
            serde_json::from_str(&text).unwrap_or_default()
        };
        let (facts, has_ended, begun) = match self.folds() {
            None => {
                let facts = json(run::RUN);
                let ended =
                    facts["figures"]["ended"].as_str().is_some_and(|ended| ended != "stopped");
                (facts, ended, ignn::train::checkpoint::path(directory).exists())
            }
            Some(folds) => {
                let (facts, setup) = (json(CROSSVAL), json("setup.json"));
                let is_same = setup["folds"] == folds && setup["readout"] == self.readout_word();
                let done = is_same && facts["summary"]["folds"] == folds;
                (facts, done, is_same)
            }
        };
        let found = facts["dataset"]["checksum"].as_str();
        match found {
            Some(found) if found != checksum => State::Other,
            Some(_) if has_ended => State::Done,
            _ if begun => State::Begun,
            _ => State::Other,
        }
    }

    /// Reads finished runs back.
    pub fn read(&self, directories: &[PathBuf]) -> Result<Trial> {
        let mut trial =
            Trial { figures: BTreeMap::new(), seconds: None, failure: None, ended: Ended::Well };
        if self.folds().is_some() {
            for directory in directories {
                let path = directory.join(CROSSVAL);
                let file = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                let facts: Value =
                    serde_json::from_str(&file).with_context(|| path.display().to_string())?;
                let figure = |name: &str| {
                    let summary = &facts["summary"];
                    let (mean, deviation) =
                        (summary[name]["mean"].as_f64()?, summary[name]["deviation"].as_f64()?);
                    Some(Figure { mean, deviation, count: summary["folds"].as_u64()? as usize })
                };
                let figures = match self.readout {
                    // Its settings are chosen inside the fold, at the epoch that validation chose:
                    // there is no best epoch of its own.
                    Readout::SvmOf(_) => (figure("svm"), None),
                    Readout::Model | Readout::BesideSvm => {
                        (figure("validation"), figure("best_of_each"))
                    }
                };
                trial.figures.insert("accuracy".into(), figures);
                trial.seconds = facts["seconds"].as_f64();
            }
            return Ok(trial);
        }
        let runs = directories
            .iter()
            .map(|directory| RunRecord::read(directory))
            .collect::<Result<Vec<_>, _>>()?;
        let group = Group { name: String::new(), runs };
        let all = |figure: &dyn Fn(&RunRecord) -> Option<f64>| {
            Figure::of(&group.runs.iter().filter_map(figure).collect::<Vec<_>>())
        };
        for score in self.scores {
            let figures = (all(&|run| run.chosen(score)), all(&|run| run.best(score)));
            trial.figures.insert(score.to_string(), figures);
        }
        trial.seconds = group.statistic(|run| run.figure("/seconds")).map(|seconds| seconds.mean);
        Ok(trial)
    }
}
