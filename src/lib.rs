//! Implicit graph neural networks on large graphs, on the cores of one machine: the engine's
//! library. It reads dataset directories and never raw files: those are for `ignn-ingest`, which
//! only the binary joins to it.
//!
//! Modules are rooms with numbers; a module names only rooms with lower numbers, or itself
//! (`ARCHITECTURE.md`).
//!
//! | room | number | what |
//! | --- | --- | --- |
//! | [`parallel`] | 0 | the thread pool, blocks of rows balanced by work |
//! | [`dense`] | 0 | row-major f32 matrices, aligned |
//! | [`settings`] | 0 | how a module declares its settings |
//! | `json_number` | 0 | floats in JSON: null where they are not finite |
//! | [`graph`] | 1 | mapped views of a dataset directory, and what can be counted on them |
//! | [`kernels`] | 2 | the fused sweep, gather, products, activations: pure compute |
//! | [`solver`] | 3 | fixed points: bounds, certificates, solves forward and adjoint |
//! | [`nn`] | 4 | layers, read-outs and losses: forward and backward |
//! | [`optim`] | 4 | parameters and the steps that move them |
//! | [`metrics`] | 4 | scores of predictions against the truth |
//! | [`config`] | 5 | the settings of all modules: presets, files, messages, documentation |
//! | [`models`] | 6 | wiring, named parameters, the file of a model |
//! | [`train`] | 7 | the loop, checkpoints, records for observers |
//! | [`predict`] | 7 | model and dataset to predictions and embeddings |
//! | [`run`] | 8 | run directories: checkpoints, resume, records, figures; seeds and folds |
//! | [`report`] | 9 | results for people: quantities, tables, HTML pages of runs |
//!
//! # A tour
//!
//! A dataset directory is opened and mapped ([`graph::Graph`]); a configuration is resolved from
//! a preset, a file and settings ([`config::Config`]); a [`train::Task`] joins the two, and a
//! [`train::Trainer`] runs epochs and tells an [`train::Observer`] of each. What comes out is a
//! [`models::Model`], apart from any graph, that predicts on the same dataset or another.
//!
//! ```no_run
//! use ignn::{config::Config, graph::Graph, train::{EpochRecord, Observer, Trainer}};
//!
//! struct Printer;
//! impl Observer for Printer {
//!     fn epoch(&mut self, record: &EpochRecord) -> ignn_format::Result<()> {
//!         println!("epoch {}: loss {}", record.epoch, record.loss);
//!         Ok(())
//!     }
//! }
//!
//! let config = Config::resolve(Some("cora"), None, &["model.state=32".into()])?;
//! let mut trainer = Trainer::new(Graph::open("cora.ignn")?, config)?;
//! trainer.run(&mut Printer, &std::sync::atomic::AtomicBool::new(false), |_| Ok(()))?;
//! let predicted = trainer.finished().predict(trainer.task().dataset())?;
//! println!("logits of the first node: {:?}", predicted.logits.row(0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Below that: a layer is solved by [`nn::Equilibrium`], whose sweeps are [`kernels::sweep`] and
//! whose certificates are [`solver::Certificate`].

pub mod config;
pub mod dense;
pub mod graph;
mod json_number;
pub mod kernels;
pub mod metrics;
pub mod models;
pub mod nn;
pub mod optim;
pub mod parallel;
pub mod predict;
pub mod report;
pub mod run;
pub mod settings;
pub mod solver;
pub mod train;

pub use ignn_format as format;
pub use ignn_format::FormatError;
pub use sprs;
