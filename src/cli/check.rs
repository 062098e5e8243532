//! `ignn check`: every file of a dataset read and verified.
//! The checks are those of `ignn_format`; this prints what they found.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::{Outcome, Session};

/// Verify every byte of a dataset
///
/// Reads all files and verifies sizes and checksums, that neighbours lie in range and rise strictly in each row,
/// that relations said to be symmetric are, that values and features are finite, and that labels and splits lie in
/// range. Prints each thing found wrong and exits with 1; a sound dataset is `ok`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ignn check dblp.ignn && echo sound")]
pub struct Command {
    /// The dataset directory
    #[arg(value_name = "DIR")]
    dataset: PathBuf,
}

impl Command {
    /// Checks and prints.
    pub fn run(self, _session: &Session) -> Result<Outcome> {
        let _ = self.dataset;
        anyhow::bail!("check: not yet")
    }
}
