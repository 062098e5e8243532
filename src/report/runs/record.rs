//! One run, as its directory tells it: configuration, a record an epoch, final figures.
//! A run that is not finished is read as far as it got.

use std::fs;
use std::path::{Path, PathBuf};

use ignn_format::FormatError;
use serde_json::Value;

use crate::config::IgnnConfig;
use crate::predict::PartScores;

/// The resolved configuration.
pub const CONFIG: &str = "config.toml";
/// The dataset's path.
pub const DATASET: &str = "dataset.txt";
/// Records, a line an epoch.
pub const METRICS: &str = "metrics.jsonl";
/// Final figures.
pub const RUN: &str = "run.json";

/// A run.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// Its directory.
    pub path: PathBuf,
    /// What it was asked for.
    pub config: IgnnConfig,
    /// The configuration's text.
    pub config_text: String,
    /// A record an epoch, see `train::EpochRecord`.
    pub epochs: Vec<Value>,
    /// `run.json`; null while the run is not finished.
    pub facts: Value,
    /// Scores of the test part by class, where somebody computed them.
    pub classes: Option<PartScores>,
}

impl RunRecord {
    /// Reads a run directory.
    pub fn read(path: &Path) -> Result<Self, FormatError> {
        let text = |name: &str| {
            let file = path.join(name);
            fs::read_to_string(&file).map_err(FormatError::io("read", &file))
        };
        let config_text = text(CONFIG)?;
        let config = IgnnConfig::from_toml(&config_text, &path.join(CONFIG)).map_err(|error| {
            FormatError::invalid(
                path,
                CONFIG,
                error.to_string(),
                "the configuration of a run of this version",
            )
        })?;
        let epochs = parse_lines(&path.join(METRICS), &text(METRICS)?)?;
        let facts = match path.join(RUN).is_file() {
            true => serde_json::from_str(&text(RUN)?)
                .map_err(|error| FormatError::invalid(path, RUN, error.to_string(), "JSON"))?,
            false => Value::Null,
        };
        Ok(Self { path: path.into(), config, config_text, epochs, facts, classes: None })
    }

    /// Whether it came to its end.
    pub fn is_finished(&self) -> bool {
        !self.facts.is_null() && self.facts["figures"]["ended"] != "stopped"
    }

    /// A value by epoch, such as `/validation/loss`; epochs without it are left out.
    pub fn curve(&self, pointer: &str) -> Vec<(f64, f64)> {
        let point =
            |record: &Value| Some((record["epoch"].as_f64()?, record.pointer(pointer)?.as_f64()?));
        self.epochs.iter().filter_map(point).collect()
    }

    /// A final figure, such as `/chosen_on_validation/epoch`.
    pub fn figure(&self, pointer: &str) -> Option<f64> {
        self.facts["figures"].pointer(pointer)?.as_f64()
    }

    /// Test score at the epoch that is best on the validation part.
    pub fn chosen(&self, score: &str) -> Option<f64> {
        self.figure(&format!("/chosen_on_validation/test/{score}"))
    }

    /// Test score at the epoch that is best on the test part: the published protocol.
    pub fn best(&self, score: &str) -> Option<f64> {
        self.figure(&format!("/best_on_test/test/{score}"))
    }

    /// What it was judged by; the last epoch tells where the run is not finished.
    pub fn monitor(&self) -> String {
        match self.facts["figures"]["monitor"].as_str() {
            Some(monitor) => monitor.into(),
            None => self.scores().into_iter().next().unwrap_or_else(|| "loss".into()),
        }
    }

    /// Names of its scores; the one it was judged by comes first.
    pub fn scores(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for record in &self.epochs {
            for part in ["validation", "test", "train"] {
                let fields = record[part].as_object().into_iter().flatten();
                for (name, _) in fields.filter(|(name, _)| *name != "loss") {
                    if !names.contains(name) {
                        names.push(name.clone());
                    }
                }
            }
        }
        let monitor = self.facts["figures"]["monitor"].as_str().unwrap_or_default();
        names.sort_by_key(|name| name != monitor);
        names
    }

    /// Seconds by phase of all epochs, in the order of an epoch.
    pub fn seconds(&self) -> Vec<(&'static str, f64)> {
        let none = crate::train::PhaseSeconds::default();
        let total = |phase: &str| {
            self.epochs.iter().filter_map(|record| record["seconds"][phase].as_f64()).sum()
        };
        none.named().into_iter().map(|(phase, _)| (phase, total(phase))).collect()
    }
}

/// Records; a last line that was never finished is left out.
fn parse_lines(path: &Path, text: &str) -> Result<Vec<Value>, FormatError> {
    let whole = match text.rfind('\n') {
        Some(end) => &text[..=end],
        None => "",
    };
    let record = |(at, line): (usize, &str)| {
        let wrong = |found: String| {
            FormatError::invalid(path, format!("line {}", at + 1), found, "an object with an epoch")
        };
        let record: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        if record["epoch"].is_u64() { Ok(record) } else { Err(wrong("something else".into())) }
    };
    whole.lines().enumerate().map(record).collect()
}

#[cfg(test)]
pub mod testing {
    //! A run on disk for the tests of pages.

    use super::*;
    use crate::report::json_lines::JsonLines;
    use crate::train::Observer;
    use crate::train::testing::record;

    /// Writes a run of so many epochs, finished or not.
    pub fn write(path: &Path, epochs: u64, is_finished: bool) {
        fs::create_dir_all(path).unwrap();
        fs::write(path.join(CONFIG), IgnnConfig::default().to_toml()).unwrap();
        let mut lines = JsonLines::create(&path.join(METRICS)).unwrap();
        (0..epochs).for_each(|epoch| lines.epoch(&record(epoch)).unwrap());
        if is_finished {
            let test = serde_json::json!({"loss": 0.25, "accuracy": 0.5});
            let facts = serde_json::json!({
                "version": "0.1.0",
                "machine": {"threads": 2, "simd": "avx2", "peak_bytes": 1 << 20},
                "dataset": {"checksum": "00", "nodes": 800, "train": 20, "validation": 100, "test": 200},
                "figures": {
                    "seed": 0, "ended": "epochs", "epochs": epochs, "monitor": "accuracy", "seconds": 1.5,
                    "chosen_on_validation": {"epoch": 1, "validation": 0.75, "test": test},
                    "best_on_test": {"epoch": 1, "value": 0.5, "test": test},
                },
            });
            fs::write(path.join(RUN), facts.to_string()).unwrap();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_training_wrote_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        testing::write(dir.path(), 3, true);
        let run = RunRecord::read(dir.path()).unwrap();
        assert_eq!(run.curve("/validation/accuracy"), [(0.0, 0.75), (1.0, 0.75), (2.0, 0.75)]);
        assert!(run.curve("/test/accuracy").is_empty(), "null in the file");
        assert_eq!((run.monitor(), run.chosen("accuracy")), ("accuracy".into(), Some(0.5)));
        assert_eq!(run.seconds()[0], ("forward", 1.5));
        assert!(run.is_finished());
    }

    #[test]
    fn an_unfinished_run_is_read_as_far_as_it_got() {
        let dir = tempfile::tempdir().unwrap();
        testing::write(dir.path(), 2, false);
        let path = dir.path().join(METRICS);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.clone() + "{\"epoch\":2,\"lo").unwrap();
        let run = RunRecord::read(dir.path()).unwrap();
        assert_eq!(
            (run.epochs.len(), run.is_finished(), run.monitor()),
            (2, false, "accuracy".into())
        );
        fs::write(&path, text + "mine\n").unwrap();
        let error = RunRecord::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("metrics.jsonl: line 3"), "{error}");
    }
}
