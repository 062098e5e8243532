//! Training: a dataset and a configuration become a model, epoch by epoch. It emits records to an
//! observer and prints nothing; files and terminals are for `report` and the command line.
//!
//! | file | what |
//! | --- | --- |
//! | [`task`] | what training needs of a dataset |
//! | [`trainer`], `best` | the loop, and the best model that it met |
//! | `one_graph`, `many_graphs` | what a step does on one graph, or on some of many |
//! | `hidden`, `label_start` | nodes that a step hides; first values that speak of labels |
//! | [`checkpoint`] | everything a run needs to go on, in one file |
//! | `folds`, [`crossval`] | graphs dealt to folds, each fold trained and all of them summed up |
//! | `svm_readout` | a support vector machine on the embeddings of a fold |
//! | [`memory`] | what a run will take, before it takes it |
//! | `regression` | the one step of a read-out that is learned in one go |
//! | `record` | what is told of every epoch |

mod best;
pub mod checkpoint;
mod concurrency;
pub mod crossval;
mod error;
mod failures;
pub mod folds;
mod hidden;
mod judge;
mod label_start;
mod many_graphs;
pub mod memory;
mod one_graph;
mod record;
mod regression;
mod settings;
mod solves;
pub mod svm_readout;
pub mod task;
pub mod trainer;

pub use best::{Best, EpochScore};
pub use concurrency::trainings_at_once;
pub use error::TrainError;
#[cfg(test)]
pub use record::testing;
pub use record::{EpochRecord, LayerRecord, Observer, PartRecord, PhaseSeconds};
pub use task::{Parts, Task};
pub use trainer::{Ended, Trainer};
