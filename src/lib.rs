//! Implicit graph neural networks on large graphs, on the cores of one machine: the engine's library.
//! It reads dataset directories and never raw files: those are for `ignn-ingest`, which only the binary joins to it.
//!
//! Modules are rooms with numbers; a module names only rooms with lower numbers, or itself (`ARCHITECTURE.md`).
//!
//! | room | number | what |
//! | --- | --- | --- |
//! | [`parallel`] | 0 | the thread pool, blocks of rows balanced by work |
//! | [`dense`] | 0 | row-major f32 matrices, aligned |
//! | [`graph`] | 1 | mapped views of a dataset directory, and what can be counted on them |
//! | [`kernels`] | 2 | the fused sweep, gather, products, activations: pure compute |
//! | [`solver`] | 3 | fixed points: bounds, certificates, solves forward and adjoint |
//! | [`config`] | 4 | what a run is asked for: one schema, presets, messages |
//! | [`nn`] | 4 | layers, read-outs and losses: forward and backward |
//! | [`optim`] | 4 | parameters and the steps that move them |
//! | [`metrics`] | 4 | scores of predictions against the truth |
//! | [`models`] | 5 | wiring, named parameters, the file of a model |
//! | [`train`] | 6 | the loop, checkpoints, records for observers |
//! | [`predict`] | 6 | model and dataset to predictions and embeddings |
//! | [`report`] | 7 | numbers for people: quantities, sheets, histograms, tables in files |
//!
//! ```no_run
//! let dataset = ignn::graph::Dataset::open("dblp.ignn")?;
//! for relation in dataset.relations()? {
//!     println!("{}: {} non-zeros", relation.entry.name, relation.entry.nonzeros);
//! }
//! # Ok::<(), ignn_format::FormatError>(())
//! ```

pub mod config;
pub mod dense;
pub mod graph;
pub mod kernels;
pub mod metrics;
pub mod models;
pub mod nn;
pub mod optim;
pub mod parallel;
pub mod predict;
pub mod report;
pub mod solver;
pub mod train;
