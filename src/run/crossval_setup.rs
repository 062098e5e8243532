//! `setup.json`: what a cross-validation was begun with. A resumed one must have the same settings,
//! dataset and folds; its finished folds name the set-up that they belong to.

use std::path::Path;

use ignn_format::{FormatError, checksum};
use serde::{Deserialize, Serialize};

use super::RunError;
use crate::config::Config;
use crate::graph::Graph;
use crate::train::folds::{FEWEST, MOST};
use crate::train::svm_readout::SvmSearch;

/// Name of the file.
pub(super) const SETUP: &str = "setup.json";

/// What to do with a directory that cannot be continued.
const START_AGAIN: &str = "restore the file, or cross-validate again with --force";

/// What predicts the class of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoldReadout {
    /// The model's own readout.
    #[default]
    Model,
    /// Also a support vector machine on the embeddings, with an RBF kernel.
    Svm,
    /// Also a support vector machine on the embeddings, with a linear kernel.
    SvmLinear,
}

impl FoldReadout {
    pub(super) fn search(self) -> Option<SvmSearch> {
        match self {
            Self::Model => None,
            Self::Svm => Some(SvmSearch::Rbf),
            Self::SvmLinear => Some(SvmSearch::Linear),
        }
    }
}

/// The options of a cross-validation that are not in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrossvalSetup {
    /// Number of folds.
    pub folds: usize,
    /// What predicts classes.
    pub readout: FoldReadout,
    /// Whether ids in `folds.csv` are written as [`Texts::Safe`](super::csv::Texts::Safe).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub csv_safe: bool,
}

impl CrossvalSetup {
    /// Refuses a number of folds that no cross-validation has; `file` is where it was found.
    pub(super) fn check(self, file: &Path) -> Result<Self, FormatError> {
        match self.folds {
            FEWEST..=MOST => Ok(self),
            found => {
                let expected = format!("{FEWEST} to {MOST}");
                Err(FormatError::invalid(file, "folds", found, expected))
            }
        }
    }
}

/// All of `setup.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BegunWith {
    #[serde(flatten)]
    pub setup: CrossvalSetup,
    /// Checksum of the dataset.
    dataset: String,
    /// Checksum of `folds.csv`: which graph is in which fold.
    assignment: String,
    /// The configuration, as in `config.toml`.
    config: String,
}

impl BegunWith {
    pub fn new(setup: CrossvalSetup, graph: &Graph, config: &Config, folds_csv: &str) -> Self {
        Self {
            setup,
            dataset: graph.manifest().checksum(),
            assignment: checksum::hex(checksum::of_bytes(folds_csv.as_bytes())),
            config: config.to_toml(),
        }
    }

    /// The text of the file.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("plain data") + "\n"
    }

    /// The id by which finished folds refer to it. It does not depend on the layout of the file.
    pub fn id(&self) -> String {
        checksum::hex(checksum::of_bytes(self.to_text().as_bytes()))
    }

    /// Refuses another dataset, and other settings than those in `file`, which is `config.toml`.
    pub fn check(&self, graph: &Graph, config: &Config, file: &Path) -> Result<(), RunError> {
        let found = graph.manifest().checksum();
        if found != self.dataset {
            let what = "not the dataset that the cross-validation was begun with: checksum";
            let expected = format!("{}, as in {SETUP}", self.dataset);
            return Err(FormatError::invalid(graph.path(), what, found, expected).into());
        }
        let begun = Config::from_toml(&self.config, &file.with_file_name(SETUP))?;
        match config.difference(&begun) {
            None => Ok(()),
            Some([found, expected]) => {
                let what = "not the settings that the cross-validation was begun with";
                let expected = format!("{expected}, as in {SETUP}: {START_AGAIN}");
                Err(FormatError::invalid(file, what, found, expected).into())
            }
        }
    }

    /// Refuses other options than those of `file`, which is `setup.json`.
    pub fn check_setup(&self, found: CrossvalSetup, file: &Path) -> Result<(), FormatError> {
        if self.setup == found {
            return Ok(());
        }
        let what = "the cross-validation was replaced while it was being resumed: folds";
        let words = |setup: CrossvalSetup| format!("{} ({:?})", setup.folds, setup.readout);
        let expected = format!("{}, as before: resume it again", words(found));
        Err(FormatError::invalid(file, what, words(self.setup), expected))
    }

    /// Refuses folds with other graphs; `file` is `setup.json`.
    pub fn check_folds(&self, same: &Self, file: &Path) -> Result<(), FormatError> {
        if self.assignment == same.assignment {
            return Ok(());
        }
        let what = "checksum of the folds";
        let expected =
            format!("{}, as the graphs are assigned now: {START_AGAIN}", same.assignment);
        Err(FormatError::invalid(file, what, &self.assignment, expected))
    }

    /// Refuses another `folds.csv`; `file` is its path.
    pub fn check_folds_file(&self, file: &Path) -> Result<(), FormatError> {
        let found = match file.is_file() {
            true => checksum::of_file(file, 0)?.xxh3,
            false => "none".into(),
        };
        if found == self.assignment {
            return Ok(());
        }
        let what = "not the folds that the cross-validation was begun with: checksum";
        let expected = format!("{}, as in {SETUP}: {START_AGAIN}", self.assignment);
        Err(FormatError::invalid(file, what, found, expected))
    }
}
