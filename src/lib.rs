//! Implicit graph neural networks on large graphs, on the cores of one machine.
//!
//! A model's states are the equilibrium of `X = phi(A^T X W^T + B)`: information reaches a node
//! from any distance. The library trains such models, and others to compare with, on dataset
//! directories that `ignn ingest` makes of raw files, or on small graphs built in memory. It comes
//! with certificates: whether the equilibrium is unique, and how far the computed one is from it.
//!
//! ```
//! use ignn::prelude::*;
//!
//! // A graph: two groups of eight nodes, and one edge between them. `Graph::open` reads one that
//! // `ignn ingest` made.
//! let group = |first: u32| (0..8).flat_map(move |i| (0..i).map(move |j| (first + i, first + j)));
//! let graph = GraphBuilder::new(16)
//!     .edges(group(0).chain(group(8)).chain([(0, 8)]))
//!     .classes(["left", "right"], (0..16).map(|node| Some(node / 8)))
//!     .split([1, 9], [2, 10], (3..8).chain(11..16))
//!     .build()?;
//!
//! // Train.
//! let config = Config::resolve(None, None, &["model.state=8".into(), "train.epochs=30".into()])?;
//! let fit = Trainer::new(&graph, config)?.fit()?;
//!
//! // Predict, on this graph or on another one.
//! let predictions = fit.model.predict(&graph)?;
//! assert_eq!(predictions.class_name(15), "right");
//! assert!(predictions.is_certified(), "there is exactly one equilibrium");
//! # Ok::<(), ignn::Error>(())
//! ```
//!
//! The common path is in the [`prelude`]: [`graph::Graph`], [`config::Config`], [`train::Trainer`],
//! [`models::Model`], [`predict::Predictions`]. Training in a directory, with checkpoints, resuming
//! and records in files, is in [`run`]. Below that, an equilibrium layer is [`nn::Equilibrium`],
//! its sweeps are [`kernels::sweep`], and its certificates [`solver::Certificate`]. The `examples/`
//! folder shows each of these.
//!
//! Types of the dataset format are those of [`format`](mod@format), JSON values those of
//! [`serde_json`], sparse matrices those of [`sprs`]. All three are re-exported, so that a program
//! needs `ignn` alone.
//!
//! # Modules
//!
//! Modules have numbers. A module names only modules with lower numbers, or itself
//! (`ARCHITECTURE.md`); a test reads this table.
//!
//! | module | number | what |
//! | --- | --- | --- |
//! | [`parallel`] | 0 | the thread pool, blocks of rows balanced by work |
//! | [`dense`] | 0 | row-major f32 matrices, aligned |
//! | [`settings`] | 0 | how a module declares its settings |
//! | `json_number` | 0 | floats in JSON: null where they are not finite |
//! | [`graph`] | 1 | graphs: mapped datasets, sparse views, a builder, statistics |
//! | [`kernels`] | 2 | the fused sweep, gather, products, activations: pure compute |
//! | [`solver`] | 3 | fixed points: bounds, certificates, solves forward and adjoint |
//! | [`nn`] | 4 | layers, readouts and losses: forward and backward |
//! | [`optim`] | 4 | parameters and the steps that move them |
//! | [`metrics`] | 4 | scores of predictions against the truth |
//! | [`config`] | 5 | the settings of all modules: presets, files, messages, documentation |
//! | [`models`] | 6 | wiring, named parameters, the file of a model |
//! | [`train`] | 7 | the training loop, checkpoints, records for observers |
//! | [`predict`] | 7 | a model and a graph to predictions, embeddings and scores |
//! | [`run`] | 8 | run directories: checkpoints, resume, records, figures; seeds and folds |
//! | [`report`] | 9 | results for people: quantities, tables, HTML pages of runs |
//! | `error` | 10 | one error type over those of all modules |
//! | [`prelude`] | 11 | the types of the common path |

#![warn(unnameable_types)]

pub mod config;
pub mod dense;
mod error;
pub mod graph;
mod json_number;
pub mod kernels;
pub mod metrics;
pub mod models;
pub mod nn;
pub mod optim;
pub mod parallel;
pub mod predict;
pub mod prelude;
pub mod report;
pub mod run;
pub mod settings;
pub mod solver;
pub mod train;

pub use error::{Error, Result};
pub use ignn_format as format;
pub use ignn_format::FormatError;
pub use serde_json;
pub use sprs;
