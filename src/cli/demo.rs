//! `ignn demo`: the whole way on a small graph that the program makes itself.
//! It calls what the other commands call, one after the other, and says what each step did.

use anyhow::Result;
use clap::Args;

use super::{Outcome, Session};

/// See the whole way on a small graph
///
/// x
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  ignn demo")]
pub struct Command {}
impl Command {
    /// Runs.
    pub fn run(self, _session: &Session) -> Result<Outcome> {
        anyhow::bail!("not yet")
    }
}
