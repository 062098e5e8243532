//! `ignn man`: writes manual pages for the program and each of its commands, from the same text as
//! `--help`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use ignn::report::quantity;
use ignn::run::path_text;

use crate::{Cli, Outcome, Session};

/// Write manual pages for all commands
///
/// Writes one page per command: ignn.1, ignn-ingest.1, ignn-ingest-edges.1 and so on. Existing
/// pages with these names are replaced.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ignn man ~/.local/share/man/man1 && man ignn-ingest-edges")]
pub struct Command {
    /// Directory to write to; it is created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

impl Command {
    /// Writes the pages.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let directory = &self.directory;
        let place = || directory.display().to_string();
        fs::create_dir_all(directory).with_context(place)?;
        clap_mangen::generate_to(Cli::command(), directory).with_context(place)?;
        let mut pages = Vec::new();
        for entry in fs::read_dir(directory).with_context(place)? {
            let name = entry.with_context(place)?.file_name().to_string_lossy().into_owned();
            if name.starts_with("ignn") && name.ends_with(".1") {
                pages.push(name);
            }
        }
        pages.sort();
        if session.json {
            let directory = path_text::of(directory);
            session.print_json(&serde_json::json!({ "directory": directory, "pages": pages }))?;
        } else {
            let count = quantity::plural(pages.len() as u64, "page", "pages");
            session.print(&format!("{count} in {}\n", directory.display()))?;
        }
        Ok(Outcome::Done)
    }
}
