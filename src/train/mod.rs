//! Training: a dataset and a configuration become a model, epoch by epoch.
//! It emits records to an observer and prints nothing; files and terminals are for `report` and the command line.
//!
//! | file | what |
//! | --- | --- |
//! | [`task`] | what training needs of a dataset |
//! | [`trainer`] | the loop |
//! | [`checkpoint`] | everything a run needs to go on, in one file |
//! | [`memory`] | what a run will take, before it takes it |
//! | `record` | what is told of every epoch |

pub mod checkpoint;
mod error;
pub mod memory;
mod record;
mod settings;
pub mod task;
pub mod trainer;

pub use error::TrainError;
#[cfg(test)]
pub use record::testing;
pub use record::{EpochRecord, Observer, PartRecord, PhaseSeconds};
pub use task::{Parts, Task};
pub use trainer::{Best, Ended, Trainer};
