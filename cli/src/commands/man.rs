//! `ignn man`: writes manual pages for the program and each of its commands, from the same text as
//! `--help`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_mangen::Man;
use ignn::report::quantity;
use ignn::run::path_text;
use ignn_format::regular;
use ignn_format::storage::{self, DirectoryLock, Draft, Kind};

use crate::{Cli, Outcome, Session};

/// Write manual pages for all commands
///
/// Writes one page per command: ignn.1, ignn-ingest.1, ignn-ingest-edges.1 and so on.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ignn man ~/.local/share/man/man1 && man ignn-ingest-edges")]
pub struct Command {
    /// Directory to write to; it is created if it does not exist
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Replace pages of ignn, such as those of another version; any other file is refused
    #[arg(long)]
    force: bool,
}

impl Command {
    /// Writes the pages.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let directory = &self.directory;
        let _lock = DirectoryLock::create(directory)?;
        let mut drafts = Vec::new();
        // Reserve all names before the first page is written.
        for (name, text) in pages()? {
            let path = directory.join(&name);
            drafts.push((Draft::create(&path, self.force.then_some(&PAGE))?, name, text));
        }
        let mut pages = Vec::new();
        for (draft, name, text) in drafts {
            draft.write(&text)?;
            pages.push(name);
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

/// File name and text of each page.
fn pages() -> Result<Vec<(String, Vec<u8>)>> {
    fn visit(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> Result<()> {
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            visit(command, pages)?;
        }
        let (man, mut text) = (Man::new(command.clone()), Vec::new());
        man.render(&mut text).context("a manual page")?;
        pages.push((man.get_filename(), text));
        Ok(())
    }
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    visit(&command, &mut pages)?;
    Ok(pages)
}

/// Pages of this program.
static PAGE: Kind = Kind {
    check: |path| match regular::read(path, MOST_BYTES) {
        Ok(text) if is_page(&text) => Ok(()),
        _ => Err(storage::not_replaceable(path, "a manual page of ignn")),
    },
};

/// Most bytes of a page.
const MOST_BYTES: u64 = 1 << 24;

/// Whether a file is a page of ours: its title is that of a command of this program.
fn is_page(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let title = text.lines().find_map(|line| line.strip_prefix(".TH "));
    let name = title.and_then(|title| title.split_once(" 1 ")).map(|(name, _)| name);
    name.is_some_and(|name| name == "ignn" || name.starts_with("ignn-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_recognised() {
        assert!(pages().unwrap().iter().all(|(_, text)| is_page(text)));
        assert!(!is_page(b"my notes on ignn") && !is_page(b".TH ls 1 \"GNU\""));
    }
}
