//! Training: a dataset and a configuration become a model, epoch by epoch.
//! It emits records to an observer and prints nothing; files and terminals are for `report` and the command line.
//!
//! | file | what |
//! | --- | --- |
//! | [`task`] | what training needs of a dataset |
//! | [`trainer`] | the loop |
//! | `one_graph`, `many_graphs` | what a step does on one graph, or on some of many |
//! | `hidden`, `label_start` | nodes that a step hides; first values that speak of labels |
//! | [`checkpoint`] | everything a run needs to go on, in one file |
//! | [`memory`] | what a run will take, before it takes it |
//! | `record` | what is told of every epoch |

pub mod checkpoint;
mod error;
mod hidden;
mod judge;
mod label_start;
mod many_graphs;
pub mod memory;
mod one_graph;
mod record;
mod settings;
mod solves;
pub mod task;
pub mod trainer;

pub use error::TrainError;
#[cfg(test)]
pub use record::testing;
pub use record::{EpochRecord, LayerRecord, Observer, PartRecord, PhaseSeconds};
pub use task::{Parts, Task};
pub use trainer::{Best, Ended, Trainer};
