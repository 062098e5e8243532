//! What the program prints and how: progress and messages on standard error, results as tables and
//! JSON on standard output. Nothing here computes a result.

pub mod crossval_report;
pub mod figures;
pub mod job_progress;
pub mod messages;
pub mod notes;
pub mod on_dataset;
pub mod printer;
pub mod progress;
pub mod radius;
pub mod score_tables;
pub mod shell;
pub mod summary;
pub mod training;
