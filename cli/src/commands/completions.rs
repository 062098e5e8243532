//! `ignn completions`: prints a completion script for a shell. Installing it is up to the user.

use anyhow::Result;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::terminal::printer;
use crate::{Cli, Outcome, Session};

/// Print a shell completion script
///
/// The script completes commands, options and their values. Save it where your shell looks for
/// completions.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn completions bash > ~/.local/share/bash-completion/completions/ignn
  ignn completions fish > ~/.config/fish/completions/ignn.fish")]
pub struct Command {
    /// The shell
    shell: Shell,
}

impl Command {
    /// Prints the script.
    pub fn run(self, _: &Session) -> Result<Outcome> {
        // Generate into memory first, because the generator panics on a closed pipe.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "ignn", &mut script);
        printer::exact(&String::from_utf8_lossy(&script))?;
        Ok(Outcome::Done)
    }
}
