//! The options that make a configuration, shared by all commands that train. What a setting means is
//! in `ignn::config`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use ignn::config::{Config, presets};
use ignn::graph::Graph;
use ignn::train::unused_settings;

use crate::Session;
use crate::terminal::notes::Notes;

/// Settings from a preset, a file and the command line.
#[derive(Debug, Args)]
pub struct Settings {
    #[arg(long, help = preset_help(), long_help = preset_long_help(), value_name = "NAME")]
    preset: Option<String>,

    /// TOML file of settings
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Change one setting, such as model.state=64; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

/// The same with a number of epochs, for commands that train to the end.
#[derive(Debug, Args)]
pub struct TrainingSettings {
    #[command(flatten)]
    settings: Settings,

    /// Number of epochs, short for --set train.epochs=N; 0 writes the initial model
    #[arg(long, value_name = "N")]
    epochs: Option<u64>,
}

impl Settings {
    /// The configuration. Later sources win: preset, file, --set, --seed.
    pub fn resolve(&self, session: &Session) -> Result<Config> {
        self.resolve_with(session, None)
    }

    fn resolve_with(&self, session: &Session, epochs: Option<u64>) -> Result<Config> {
        let mut sets = self.sets.clone();
        sets.extend(epochs.map(|epochs| format!("train.epochs={epochs}")));
        if session.has_seed {
            sets.push(format!("train.seed={}", session.seed));
        }
        Ok(Config::resolve(self.preset.as_deref(), self.config.as_deref(), &sets)?)
    }
}

impl TrainingSettings {
    /// The configuration. Later sources win: preset, file, --set, --epochs, --seed.
    pub fn resolve(&self, session: &Session) -> Result<Config> {
        self.settings.resolve_with(session, self.epochs)
    }

    /// Prints a note about settings of --config and --set that have no effect on the model.
    pub fn note_unused(&self, session: &Session, graph: &Graph, notes: &Notes) -> Result<()> {
        let Settings { config: file, sets, .. } = &self.settings;
        let config = self.resolve(session)?;
        if let Some(note) = unused_settings(file.as_deref(), sets, &config, graph)? {
            notes.print(&note);
        }
        Ok(())
    }

    /// The value of --epochs.
    pub fn epochs(&self) -> Option<u64> {
        self.epochs
    }
}

/// Says what each preset is for.
fn preset_long_help() -> String {
    let lines = presets::PRESETS.iter().map(|preset| format!("- {}: {}", preset.name, preset.doc));
    let lines: Vec<String> = lines.collect();
    format!(
        "Built-in settings to start from; `ignn train --list --preset NAME` shows them\n\n{}",
        lines.join("\n")
    )
}

/// Names all presets.
fn preset_help() -> String {
    let names: Vec<_> = presets::PRESETS.iter().map(|preset| preset.name).collect();
    format!("Built-in settings to start from: {}", names.join(", "))
}
