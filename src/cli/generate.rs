//! `ignn generate`: seeded synthetic graphs, as datasets or in the raw form that other programs read.
//! It turns words into the options of `ignn_ingest::command::generate`; the work is done there.

use anyhow::Result;
use clap::Args;

use super::{Outcome, Session};

/// Make a synthetic graph
#[derive(Debug, Args)]
pub struct Command {}
impl Command {
    /// Runs the generator and prints its summary.
    pub fn run(self, _session: &Session) -> Result<Outcome> {
        anyhow::bail!("no generator yet")
    }
}
