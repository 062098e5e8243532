//! Runs: training in a directory that keeps everything. A [`Run`] writes checkpoints while it
//! trains, and can be resumed with the same results to the bit. [`RunDir`] names the files, and
//! [`SavedRun`] reads them back. This module prints nothing; showing runs on a terminal or a page
//! is done by `report` and the program.
//!
//! | file | what |
//! | --- | --- |
//! | `directory`, `files` | the files of a run; its lock, and what may be replaced |
//! | `training`, `seeds` | a run, and one run per seed |
//! | `place` | the directory of an active run: when it appears, and what is written to it |
//! | `crossval` | a cross-validation and its directory |
//! | `crossval_setup`, `fold_file` | what it was begun with, and its finished folds |
//! | `history` | an observer that reduces records to figures |
//! | `summary` | `run.json` |
//! | `metrics_file`, `tensorboard` | observers that write `metrics.jsonl` and event files |
//! | `saved` | a run read back |
//! | [`machine`] | cores, memory and processor |
//! | [`path_text`], [`csv`] | how paths and texts are written in files |
//!
//! # Example
//!
//! A run that is stopped after its third epoch and resumed:
//!
//! ```
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use ignn::config::Config;
//! use ignn::graph::GraphBuilder;
//! use ignn::run::{Run, RunDir};
//! use ignn::train::{Ended, EpochRecord, Observer};
//!
//! # let directory = tempfile::tempdir()?;
//! # let (dataset, out) = (directory.path().join("rings.ignn"), directory.path().join("run"));
//! // Two rings of ten nodes, one per class, with one feature.
//! let ring = |first: u32| (0..10).map(move |node| (first + node, first + (node + 1) % 10));
//! let class = |node: u32| node / 10;
//! let feature = |node: u32| [1.0, -1.0][class(node) as usize] * (1 + node % 3) as f32;
//! let graph = GraphBuilder::new(20)
//!     .edges(ring(0).chain(ring(10)))
//!     .features(1, (0..20).map(feature).collect())
//!     .classes(["first", "second"], (0..20).map(|node| Some(class(node))))
//!     .split([0, 5, 10, 15], [1, 6, 11, 16], [2, 7, 12, 17])
//!     .write(&dataset)?;
//!
//! /// Asks the run to stop once it has seen epoch 3.
//! struct StopAfterThree<'a>(&'a AtomicBool);
//! impl Observer for StopAfterThree<'_> {
//!     fn epoch(&mut self, record: &EpochRecord) -> Result<(), ignn::FormatError> {
//!         self.0.fetch_or(record.epoch == 3, Ordering::Relaxed);
//!         Ok(())
//!     }
//! }
//!
//! let settings = ["train.epochs=6".to_string(), "model.state=4".to_string()];
//! let config = Config::resolve(None, None, &settings)?;
//! let stop = AtomicBool::new(false);
//! let run = Run::new(graph, config, &out);
//! let stopped = run.train(&mut StopAfterThree(&stop), &stop)?;
//! assert_eq!(stopped.figures.ended, Ended::Stopped);
//!
//! let finished = Run::resume(&out)?.train(&mut (), &AtomicBool::new(false))?;
//! assert_eq!(finished.figures.ended, Ended::Epochs);
//! let epochs: Vec<u64> = RunDir::new(&out).records()?.iter().map(|r| r.epoch).collect();
//! assert_eq!(epochs, [0, 1, 2, 3, 4, 5, 6]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod crossval;
mod crossval_setup;
pub mod csv;
mod directory;
mod error;
mod files;
mod fold_file;
mod history;
pub mod machine;
mod metrics_file;
pub mod path_text;
mod place;
mod saved;
mod seeds;
mod summary;
mod tensorboard;
mod training;

pub use crossval::{
    CROSSVAL, Crossval, CrossvalDataset, CrossvalDir, CrossvalMachine, CrossvalSummary,
    FoldObserver,
};
pub use crossval_setup::{CrossvalSetup, FoldReadout};
pub use directory::{RUN, RunDir};
pub use error::RunError;
pub use metrics_file::MetricsWriter;
pub use saved::SavedRun;
#[cfg(test)]
pub use saved::testing;
pub use summary::{
    BestTestEpoch, ChosenEpoch, DatasetSummary, Figures, MachineSummary, RunSummary, SweepsPerEpoch,
};
pub use tensorboard::TensorBoard;
pub use training::{FinishedRun, Run};
