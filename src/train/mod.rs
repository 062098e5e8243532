//! Trains a model on a dataset, epoch by epoch. It passes a record of every epoch to an observer
//! and prints nothing. Run directories, resuming, and when checkpoints are written are in `run`.
//!
//! | file | what |
//! | --- | --- |
//! | [`task`] | what training needs of a dataset |
//! | [`trainer`], `best` | the training loop, and the best model so far |
//! | `one_graph`, `many_graphs` | a step on one graph, or on a batch of many graphs |
//! | `evaluator` | loss and scores of logits |
//! | `hidden`, `label_start` | nodes hidden from a step; initial values from labels |
//! | [`checkpoint`] | the complete state of training in one file |
//! | [`folds`], [`crossval`] | stratified folds of graphs; training and summary of folds |
//! | [`svm_readout`] | a support vector machine on the embeddings of a fold |
//! | [`memory`], `concurrency` | estimated memory; how many models are trained at a time |
//! | `regression` | a readout that is fitted in closed form |
//! | [`lookup`] | scores of a lookup by equal features, without a model |
//! | `record`, `solves`, `failures` | records of epochs and of their solves |
//! | `collapse`, `faded` | detect training that has lost what it had learned, or cannot learn |

mod best;
pub mod checkpoint;
mod collapse;
mod concurrency;
pub mod crossval;
mod error;
mod evaluator;
mod faded;
mod failures;
pub mod folds;
mod hidden;
mod label_start;
pub mod lookup;
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
pub use record::{EpochRecord, ExchangeRecord, LayerRecord, Observer, PartRecord, PhaseSeconds};
pub use settings::unused as unused_settings;
pub(crate) use task::wanted_labels;
pub use task::{Parts, Task};
pub use trainer::{Ended, Fit, Trainer};
