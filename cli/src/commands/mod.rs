//! The commands that a user needs daily, one file per subcommand: options become a call of the
//! library, its result becomes lines. The paper's experiments are in `reproduce`.

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
