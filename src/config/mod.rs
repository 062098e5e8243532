//! The configuration of a run: settings from presets, TOML files and `--set`, each value checked
//! where it is given. It builds no model and opens no dataset.
//!
//! Sections and keys are plain structs, declared once, each by the module that reads it:
//! [`SolverConfig`] in `solver`, [`OptimConfig`] in `optim`, and here, for the modules above,
//! [`ModelConfig`] and [`TrainConfig`]. Types, defaults, ranges and texts of `docs/config.md`, of
//! `ignn train --list` and of the JSON Schema come from these declarations ([`SECTIONS`]).
//!
//! Sources are applied in order, later ones win: `defaults < preset < file < --set`.
//!
//! ```
//! use ignn::config::Config;
//!
//! let config = Config::default();
//! assert_eq!(config.model.state, [128]);
//! assert_eq!(config.optim.learning_rate, 0.01);
//!
//! // A preset, and one setting on top of it.
//! let config = Config::resolve(Some("cora"), None, &["model.state=32".into()])?;
//! assert_eq!(config.model.state, [32]);
//! assert_eq!(config.train.epochs, 300);
//! # Ok::<(), ignn::config::ConfigError>(())
//! ```

pub mod document;
mod error;
mod json_schema;
mod layers;
mod model;
mod parts;
pub mod presets;
#[cfg(test)]
mod tests;
mod train;

use std::fmt::Write;
use std::path::Path;

use ignn_format::nearest::nearest;
use ignn_format::regular;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use error::{ConfigError, Place};
pub use json_schema::json_schema;
pub use model::{FeatureSource, FeatureStart, Init, ModelConfig, ModelKind, ReadoutKind};
pub use parts::find_part;
pub use train::{Learn, OnCollapse, TaskChoice, TrainConfig};

pub use crate::optim::OptimConfig;
use crate::settings::{Field, Section, SettingError, literal};
use crate::solver::SolveParams;
pub use crate::solver::SolverConfig;
use layers::{Layers, Source};

/// A configuration is written by hand; a longer file is something else.
const MAX_BYTES: u64 = 4 << 20;

/// A whole configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The model: layers, features and readout.
    pub model: ModelConfig,
    /// How equilibria and their gradients are solved.
    pub solver: SolverConfig,
    /// How gradients become steps.
    pub optim: OptimConfig,
    /// How long to train, on which part of the dataset, and how to choose the best epoch.
    pub train: TrainConfig,
}

/// A section of the file, as its module declares it.
#[derive(Clone, Copy, Debug)]
pub struct SectionInfo {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub doc: &'static str,
    /// Its keys.
    pub fields: &'static [Field],
}

/// All sections, in the order in which they are written.
pub const SECTIONS: [SectionInfo; 4] = [
    section::<ModelConfig>("model"),
    section::<SolverConfig>("solver"),
    section::<OptimConfig>("optim"),
    section::<TrainConfig>("train"),
];

const fn section<S: Section>(name: &'static str) -> SectionInfo {
    SectionInfo { name, doc: S::DOC, fields: S::FIELDS }
}

/// All keys with the name of their section.
pub fn fields() -> impl Iterator<Item = (&'static str, &'static Field)> {
    SECTIONS.iter().flat_map(|section| section.fields.iter().map(|field| (section.name, field)))
}

impl Config {
    /// Applies a preset, a file and settings `section.key=value`, in this order, to the defaults.
    ///
    /// A wrong setting is refused with its place, the value and what was expected:
    ///
    /// ```
    /// use ignn::config::Config;
    ///
    /// let error = Config::resolve(None, None, &["model.dropout=1".into()]).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "--set model.dropout=1: model.dropout: wrong value \
    ///      (found 1, expected a number from 0 to below 1)"
    /// );
    /// ```
    pub fn resolve(
        preset: Option<&str>,
        file: Option<&Path>,
        sets: &[String],
    ) -> Result<Self, ConfigError> {
        let mut layers = Layers::defaults();
        if let Some(name) = preset {
            let preset = presets::find(name).ok_or_else(|| unknown_preset(name))?;
            layers.add_text(Source::Preset(preset.name), preset.text)?;
        }
        if let Some(path) = file {
            let text = regular::read_text(path, MAX_BYTES)?;
            layers.add_text(Source::File(path), &text)?;
        }
        for setting in sets {
            layers.add_setting(setting)?;
        }
        Ok(layers.finish())
    }

    /// The settings that a file and `section.key=value` give, as `section.key`, each once.
    ///
    /// ```
    /// use ignn::config::Config;
    ///
    /// let keys = Config::keys_given(None, &["model.state=32".into(), "model.bias=true".into()])?;
    /// assert_eq!(keys, ["model.state", "model.bias"]);
    /// # Ok::<(), ignn::config::ConfigError>(())
    /// ```
    pub fn keys_given(file: Option<&Path>, sets: &[String]) -> Result<Vec<String>, ConfigError> {
        let mut layers = Layers::defaults();
        if let Some(path) = file {
            layers.add_text(Source::File(path), &regular::read_text(path, MAX_BYTES)?)?;
        }
        sets.iter().try_for_each(|setting| layers.add_setting(setting))?;
        Ok(layers.given())
    }

    /// Reads TOML over the defaults; `origin` is the file that messages name.
    ///
    /// ```
    /// use ignn::config::Config;
    ///
    /// let text = "[model]\nstate = [64, 32]\n\n[train]\nstop_after = 20\n";
    /// let config = Config::from_toml(text, "my.toml".as_ref())?;
    /// assert_eq!(config.model.state, [64, 32]);
    ///
    /// let error = Config::from_toml("[model]\nstat = 64\n", "my.toml".as_ref()).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "my.toml:2: key \"model.stat\" is not known (did you mean model.state?)"
    /// );
    /// # Ok::<(), ignn::config::ConfigError>(())
    /// ```
    pub fn from_toml(text: &str, origin: &Path) -> Result<Self, ConfigError> {
        let mut layers = Layers::defaults();
        layers.add_text(Source::File(origin), text)?;
        Ok(layers.finish())
    }

    /// Checks a configuration whose fields a program has set.
    ///
    /// ```
    /// use ignn::config::Config;
    ///
    /// let mut config = Config::default();
    /// config.model.state = vec![0];
    /// let message = config.check().unwrap_err().to_string();
    /// assert!(message.starts_with("configuration: model.state: wrong value (found [0], "));
    /// ```
    pub fn check(&self) -> Result<(), ConfigError> {
        let Self { model, solver, optim, train } = self;
        let within = |section: &'static str| {
            move |SettingError { key, found, expected }| {
                let (place, key) = (Place::Program, format!("{section}.{key}"));
                ConfigError::Value { place, key, found, expected }
            }
        };
        model.check().map_err(within("model"))?;
        solver.check().map_err(within("solver"))?;
        optim.check().map_err(within("optim"))?;
        train.check().map_err(within("train"))?;
        model.check_slope().map_err(within("model"))
    }

    /// All settings as TOML, which reads back to the same configuration.
    ///
    /// ```
    /// use ignn::config::Config;
    ///
    /// let mut config = Config::default();
    /// config.train.seed = 7;
    /// let text = config.to_toml();
    /// assert!(text.starts_with("[model]\nkind = \"ignn\"\nstate = [128]\n"));
    /// assert_eq!(Config::from_toml(&text, "config.toml".as_ref())?, config);
    /// # Ok::<(), ignn::config::ConfigError>(())
    /// ```
    pub fn to_toml(&self) -> String {
        let values = self.values();
        let mut text = String::new();
        for SectionInfo { name, fields, .. } in SECTIONS {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}[{name}]");
            for Field { key, .. } in fields {
                let _ = writeln!(text, "{key} = {}", literal(&values[name][key]));
            }
        }
        text
    }

    /// The first setting in which two configurations differ, as TOML: here and in the other.
    ///
    /// ```
    /// use ignn::config::Config;
    ///
    /// let mut other = Config::default();
    /// assert_eq!(Config::default().difference(&other), None);
    /// other.model.bias = true;
    /// let found = Config::default().difference(&other);
    /// assert_eq!(found, Some(["bias = false", "bias = true"].map(String::from)));
    /// ```
    pub fn difference(&self, other: &Self) -> Option<[String; 2]> {
        let (here, there) = (self.to_toml(), other.to_toml());
        let mut pairs = here.lines().zip(there.lines());
        let (here, there) = pairs.find(|(here, there)| here != there)?;
        Some([here, there].map(String::from))
    }

    /// The values by section and key.
    pub fn values(&self) -> Value {
        serde_json::to_value(self).expect("a configuration is plain data")
    }

    /// When forward solves stop.
    pub fn forward(&self) -> SolveParams {
        self.solver.forward(self.model.normalise_state)
    }

    /// When forward solves stop that serve a training step and no evaluation.
    pub fn step(&self) -> SolveParams {
        SolveParams { follow: self.solver.follow, ..self.forward() }
    }

    /// When adjoint solves stop.
    pub fn adjoint(&self) -> SolveParams {
        SolveParams { tolerance: self.solver.adjoint_tolerance, ..self.step() }
    }
}

fn unknown_preset(found: &str) -> ConfigError {
    let names = || presets::PRESETS.iter().map(|preset| preset.name);
    let hint = nearest(found, names()).map(|name| format!(": did you mean {name}?"));
    let expected = names().collect::<Vec<_>>().join(", ");
    ConfigError::Preset { found: found.into(), expected, hint: hint.unwrap_or_default() }
}
