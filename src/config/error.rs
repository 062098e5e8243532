//! What can be wrong with a configuration: one enum, every message with its place.

use std::fmt;
use std::path::PathBuf;

use ignn_format::FormatError;

/// Where a value was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a file, from 1.
    File(PathBuf, usize),
    /// A line of a built-in preset.
    Preset(String, usize),
    /// A setting on the command line.
    Setting(String),
    /// A value that a program has set.
    Program,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] FormatError),
    /// The file is not TOML.
    #[error("{place}: not TOML: {message}")]
    Syntax {
        /// Where.
        place: Place,
        /// The error of the parser.
        message: String,
    },
    /// A setting without a key and a value.
    #[error("--set {found}: not a setting (expected KEY=VALUE, such as model.state=64)")]
    Setting {
        /// The setting.
        found: String,
    },
    /// A preset that does not exist.
    #[error("preset {found:?} is not known (expected {expected}){hint}")]
    Preset {
        /// The name.
        found: String,
        /// All names.
        expected: String,
        /// The nearest name, with its separator, or empty.
        hint: String,
    },
    /// A key or section that does not exist.
    #[error("{place}: {what} is not known ({hint})")]
    Unknown {
        /// Where.
        place: Place,
        /// `key "model.stat"`, `section "modle"`.
        what: String,
        /// The nearest known one, or all of them.
        hint: String,
    },
    /// A value of the wrong type, or out of range.
    #[error("{place}: {key}: wrong value (found {found}, expected {expected})")]
    Value {
        /// Where.
        place: Place,
        /// The key, or section.
        key: String,
        /// The value.
        found: String,
        /// What the key takes.
        expected: String,
    },
    /// A kappa without a unique equilibrium.
    #[error(
        "{place}: model.kappa: from 1 on the equilibrium need not exist or be unique \
         (found {found}, expected a number from 0 to below 1, such as 0.95)"
    )]
    Kappa {
        /// Where.
        place: Place,
        /// The value.
        found: String,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Preset(name, line) => write!(f, "preset {name}:{line}"),
            Self::Setting(setting) => write!(f, "--set {setting}"),
            Self::Program => f.write_str("configuration"),
        }
    }
}
