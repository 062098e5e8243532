//! The commands for daily use, one file per subcommand. Each turns its options into a call of the
//! library and prints the result. The paper's experiments are in `reproduce`.

pub mod bench;
pub mod check;
pub mod completions;
pub mod crossval;
pub mod demo;
pub mod eval;
pub mod export;
pub mod generate;
pub mod ingest;
pub mod inspect;
pub mod man;
pub mod predict;
pub mod report;
pub mod train;
