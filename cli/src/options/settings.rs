//! The options that make a configuration, the same wherever something is trained.
//! What a setting means is for `ignn::config`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use ignn::config::{IgnnConfig, presets};

use crate::Session;

/// Settings by preset, file and word.
#[derive(Debug, Args)]
pub struct Settings {
    #[arg(long, help = preset_help(), value_name = "NAME")]
    preset: Option<String>,

    /// A TOML file of settings
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// A setting, such as model.state=64; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,

    /// Epochs: short for --set train.epochs=N; 0 leaves the model as it is before its first step
    #[arg(long, value_name = "N")]
    epochs: Option<u64>,
}

impl Settings {
    /// The configuration; later ones win: preset, file, words, epochs, the seed of the session.
    pub fn resolve(&self, session: &Session) -> Result<IgnnConfig> {
        let mut sets = self.sets.clone();
        sets.extend(self.epochs());
        if session.has_seed {
            sets.push(format!("train.seed={}", session.seed));
        }
        Ok(IgnnConfig::resolve(self.preset.as_deref(), self.config.as_deref(), &sets)?)
    }

    /// The epochs as a setting, where they are given.
    pub fn epochs(&self) -> Option<String> {
        self.epochs.map(|epochs| format!("train.epochs={epochs}"))
    }
}

/// The presets by name.
fn preset_help() -> String {
    let names: Vec<_> = presets::PRESETS.iter().map(|preset| preset.name).collect();
    format!("Built-in settings to start from: {}", names.join(", "))
}
