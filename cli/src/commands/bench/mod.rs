//! `ignn bench`: the speed of the program, compared with what this machine can do. One file per
//! benchmark; each measures and verifies, and a slow result is never an error.

mod bounds;
mod ingest;
mod ranks;
mod roofline;
mod solve;
mod sweep;
mod train;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::{Outcome, Session};

/// Measure the program on this machine
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Ingest(ingest::Ingest),
    Solve(solve::Solve),
    Sweep(sweep::Sweep),
    Train(train::Train),
}

impl Command {
    /// Whether several ranks can do it together.
    pub fn runs_on_ranks(&self) -> bool {
        matches!(self.what, What::Sweep(_) | What::Train(_))
    }

    /// Measures and prints.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        match self.what {
            What::Ingest(ingest) => ingest.run(session),
            What::Solve(solve) => solve.run(session),
            What::Sweep(sweep) => sweep.run(session),
            What::Train(train) => train.run(session),
        }
    }
}
