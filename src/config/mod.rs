//! What a run is asked to do: one schema, read from presets, TOML files and settings, checked value
//! by value. It knows names, ranges and defaults; it builds no model and opens no dataset.
//!
//! Layers: `defaults < preset < file < settings`. The fields, with their ranges and defaults, are
//! one table ([`schema::FIELDS`]); the types below have the same fields, and a test holds the two
//! together. `docs/config.md` is written from the table.

mod choices;
pub mod document;
mod error;
mod layers;
mod parts;
pub mod presets;
pub mod schema;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::path::Path;

use ignn_format::nearest::nearest;
use serde::{Deserialize, Serialize};

pub use choices::{
    ActivationName, ClassWeights, Clip, FeatureSource, FeatureStart, GradientKind, InitName,
    InputMap, Learn, LossName, MeasureName, Method, ModelKind, Monitor, OnFailure, PoolingName,
    Readout, Schedule, SolveMethod, StorageName,
};
pub use error::{ConfigError, Place};
pub use parts::find_part;

use crate::kernels::Activation;
use crate::solver::{self, Measure, SolveParams};
use layers::{Layers, Source};

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IgnnConfig {
    /// The equation and the read-out.
    pub model: ModelConfig,
    /// How equilibria and adjoints are solved.
    pub solver: SolverConfig,
    /// How a gradient becomes a step.
    pub optim: OptimConfig,
    /// How long, on what, and judged by what.
    pub train: TrainConfig,
}

/// `[model]`; ranges and meanings in [`schema::FIELDS`].
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    pub kind: ModelKind,
    pub depth: usize,
    pub heads: usize,
    pub hops: usize,
    pub sse_damping: f64,
    pub gcnii_alpha: f64,
    pub gcnii_lambda: f64,
    pub drop_edge: f64,
    pub state: Vec<usize>,
    pub activation: Vec<ActivationName>,
    pub slope: f64,
    pub input: InputMap,
    pub bias: bool,
    pub kappa: Vec<f64>,
    pub init: InitName,
    pub init_input: f64,
    pub init_features: FeatureStart,
    pub features: FeatureSource,
    pub normalise_features: bool,
    pub feature_dropout: f64,
    pub skip: bool,
    pub between: ActivationName,
    pub batch_norm: bool,
    pub pooling: PoolingName,
    pub normalise_state: bool,
    pub dropout: f64,
    pub readout: Readout,
    pub hidden: Vec<usize>,
    pub head_bias: bool,
}

/// `[solver]`; ranges and meanings in [`schema::FIELDS`].
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SolverConfig {
    pub tolerance: f64,
    pub max_sweeps: usize,
    pub patience: usize,
    pub measure: MeasureName,
    pub method: SolveMethod,
    pub storage: StorageName,
    pub depth: usize,
    pub adjoint_tolerance: f64,
    pub follow: f64,
    pub gradient: GradientKind,
    pub phantom_steps: usize,
    pub phantom_damping: f64,
    pub warm_start: bool,
    pub on_failure: OnFailure,
}

/// `[optim]`; ranges and meanings in [`schema::FIELDS`].
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OptimConfig {
    pub method: Method,
    pub learning_rate: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub epsilon: f64,
    pub momentum: f64,
    pub weight_decay: f64,
    pub decoupled: bool,
    pub clip: Clip,
    pub clip_norm: f64,
    pub schedule: Schedule,
    pub schedule_floor: f64,
    pub step_epochs: u64,
    pub step_factor: f64,
    pub warmup_epochs: u64,
    pub layer_factor: f64,
    pub table_factor: f64,
}

/// `[train]`; ranges and meanings in [`schema::FIELDS`].
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    pub epochs: u64,
    pub seed: u64,
    pub loss: LossName,
    pub class_weights: ClassWeights,
    pub learn: Learn,
    pub ridge: f64,
    pub hide: f64,
    pub batch: u64,
    pub split: String,
    pub train_part: String,
    pub validation_part: String,
    pub test_part: String,
    pub evaluate_every: u64,
    pub stop_after: u64,
    pub monitor: Monitor,
    pub checkpoint_epochs: u64,
    pub checkpoint_minutes: f64,
}

impl Default for IgnnConfig {
    fn default() -> Self {
        Layers::defaults().finish()
    }
}

impl IgnnConfig {
    /// Puts the layers on top of each other: defaults, a preset, a file, settings
    /// `section.key=value` in their order.
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
            let text = std::fs::read_to_string(path)
                .map_err(|source| ConfigError::Read { path: path.into(), source })?;
            layers.add_text(Source::File(path), &text)?;
        }
        for setting in sets {
            layers.add_setting(setting)?;
        }
        Ok(layers.finish())
    }

    /// Reads TOML over the defaults; `origin` is the file that messages name.
    pub fn from_toml(text: &str, origin: &Path) -> Result<Self, ConfigError> {
        let mut layers = Layers::defaults();
        layers.add_text(Source::File(origin), text)?;
        Ok(layers.finish())
    }

    /// Checks a configuration that was not read but made by a program.
    pub fn check(&self) -> Result<(), ConfigError> {
        Layers::of(self).map(drop)
    }

    /// All fields as TOML; reads back to the same configuration.
    pub fn to_toml(&self) -> String {
        let sections = serde_json::to_value(self).expect("a configuration is plain data");
        let mut text = String::new();
        for (section, _) in schema::SECTIONS {
            let gap = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{gap}[{section}]");
            for field in schema::of_section(section) {
                let value = schema::literal(&sections[section][field.key()]);
                let _ = writeln!(text, "{} = {value}", field.key());
            }
        }
        text
    }
}

impl ModelConfig {
    /// An activation, with its slope.
    pub fn phi(&self, name: ActivationName) -> Activation {
        match name {
            ActivationName::Identity => Activation::Identity,
            ActivationName::Relu => Activation::Relu,
            ActivationName::LeakyRelu => Activation::LeakyRelu(self.slope as f32),
            ActivationName::Tanh => Activation::Tanh,
            ActivationName::Sigmoid => Activation::Sigmoid,
            ActivationName::Elu => Activation::Elu,
        }
    }
}

impl IgnnConfig {
    /// When forward solves stop.
    pub fn forward(&self) -> SolveParams {
        let measure = match self.solver.measure {
            MeasureName::Auto if self.model.normalise_state => Measure::Row,
            MeasureName::Auto | MeasureName::State => Measure::State,
            MeasureName::Row => Measure::Row,
        };
        let method = match self.solver.method {
            SolveMethod::Auto => solver::Method::Auto,
            SolveMethod::Plain => solver::Method::Plain,
            SolveMethod::Anderson => solver::Method::Anderson,
            SolveMethod::Active => solver::Method::Active,
            SolveMethod::Ordered => solver::Method::Ordered,
        };
        let storage = match self.solver.storage {
            StorageName::F32 => solver::Storage::F32,
            StorageName::F16 => solver::Storage::F16,
        };
        let SolverConfig { tolerance, max_sweeps, patience, depth, .. } = self.solver;
        SolveParams {
            tolerance,
            max_sweeps,
            patience,
            measure,
            method,
            depth,
            storage,
            follow: 0.0,
        }
    }

    /// When forward solves stop that serve a step alone, and no evaluation.
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
