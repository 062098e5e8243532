//! What `run.json` holds: the figures of a run, its dataset and its machine. Plain data that is
//! written and read back as the same types.

use serde::{Deserialize, Serialize};

use super::machine;
use crate::json_number;
use crate::kernels::Isa;
use crate::metrics::Metric;
use crate::train::{Ended, EpochRecord, PartRecord, Task};

/// `run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Version of the program.
    pub version: String,
    /// What the run was trained on.
    pub dataset: DatasetSummary,
    /// Where it was trained.
    pub machine: MachineSummary,
    /// How it went.
    pub figures: Figures,
}

/// The dataset of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetSummary {
    /// Name of its directory.
    pub name: Option<String>,
    /// Checksum of its manifest.
    pub checksum: String,
    /// Nodes.
    pub nodes: u64,
    /// Labelled items of the training part.
    pub train: usize,
    /// Of the validation part.
    pub validation: usize,
    /// Of the test part.
    pub test: usize,
    /// Files of more than 16 MiB that were used without a comparison with their checksums.
    #[serde(default)]
    pub not_verified: Vec<String>,
}

/// The machine that a run was trained on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineSummary {
    /// Worker threads.
    pub threads: usize,
    /// The instruction set of the kernels.
    pub simd: String,
    /// Peak resident memory of the process, if the system reports it.
    pub peak_bytes: Option<u64>,
    /// Cores that the process could use.
    pub cores: usize,
    /// Memory that the process could use.
    pub memory_bytes: u64,
    /// The processor's name, if the system reports it.
    pub processor: Option<String>,
    /// The day of the run's end in UTC.
    pub ended: String,
}

/// The figures of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The seed.
    pub seed: u64,
    /// Why it ended.
    pub ended: Ended,
    /// Steps that the last model has made.
    pub epochs: u64,
    /// The metric that chose the best epoch.
    pub monitor: Metric,
    /// The epoch that is best on the validation part; its test scores are the fair result.
    pub chosen_on_validation: Option<ChosenEpoch>,
    /// The epoch that is best on the test part: for comparison with papers only.
    pub best_on_test: Option<BestTestEpoch>,
    /// The last record.
    pub last: Option<EpochRecord>,
    /// Sweeps per epoch.
    pub sweeps_per_epoch: SweepsPerEpoch,
    /// Solves that did not converge.
    pub failures: u64,
    /// Wall time of the session.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub seconds: f64,
    /// Wall time per epoch, over all sessions.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub seconds_per_epoch: f64,
    /// Memory that the run was estimated to need.
    pub estimated_bytes: u64,
}

/// The epoch that is best on the validation part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChosenEpoch {
    /// The epoch.
    pub epoch: u64,
    /// The monitored metric on the validation part.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub validation: f64,
    /// The record of the test part in that epoch.
    pub test: Option<PartRecord>,
}

/// The epoch that is best on the test part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestTestEpoch {
    /// The epoch.
    pub epoch: u64,
    /// The monitored metric on the test part.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub value: f64,
    /// The record of the test part in that epoch.
    pub test: PartRecord,
}

/// Mean number of sweeps per epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepsPerEpoch {
    /// Of the forward solves.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub forward: f64,
    /// Of the adjoint solves.
    #[serde(deserialize_with = "json_number::or_nan")]
    pub adjoint: f64,
}

impl RunSummary {
    /// The summary of a run that ends now on this machine.
    pub fn new(figures: Figures, task: &Task, threads: usize) -> Self {
        let (manifest, parts) = (task.graph().manifest(), task.parts());
        let name = task.graph().path().file_name();
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            dataset: DatasetSummary {
                name: name.map(|name| name.to_string_lossy().into_owned()),
                checksum: manifest.checksum(),
                nodes: manifest.nodes,
                train: parts.train.len(),
                validation: parts.validation.len(),
                test: parts.test.len(),
                not_verified: task.graph().not_verified(),
            },
            machine: MachineSummary {
                threads,
                simd: Isa::chosen().name().into(),
                peak_bytes: machine::peak_memory(),
                cores: machine::cores(),
                memory_bytes: machine::memory(),
                processor: machine::processor(),
                ended: machine::today(),
            },
            figures,
        }
    }

    /// The text of `run.json`: keys in alphabetical order.
    pub fn to_json(&self) -> String {
        let value = serde_json::to_value(self).expect("a summary is plain data");
        format!("{value:#}\n")
    }
}
