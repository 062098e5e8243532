//! The binary `ignn`: allocator, parse, run, exit code. Words become options, options become a
//! call, results go to standard output. It computes nothing itself.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | done; also when the reader of our output closed the pipe |
//! | 1 | finished, but the goal was missed: `check` found damage, a solve did not converge |
//! | 2 | wrong usage, wrong input, or the system refused |
//! | 130 | stopped by a signal; unfinished output was removed, a run of `train` has its checkpoint |

mod commands;
#[cfg(test)]
mod document;
mod machine;
mod options;
mod reproduce;
mod sample;
mod terminal;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Parser, Subcommand};
use ignn_ingest::{Context, Observer};

use commands::{
    bench, check, completions, crossval, demo, eval, export, generate, ingest, inspect, man,
    predict, report, train,
};
use options::memory_size::{self, MemorySize};
use terminal::messages;

// Many threads allocate buffers of a few megabytes and free them on other threads: the system's
// allocator keeps such memory in per-thread arenas, and peak memory drifts past `--memory`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    messages::stop_cleanly_on_signals();
    match Cli::parse().run() {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Missed) => ExitCode::from(1),
        Ok(Outcome::Stopped) => ExitCode::from(messages::STOPPED),
        Err(error) if messages::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            messages::print_error(&error);
            ExitCode::from(messages::code(&error))
        }
    }
}

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It did what it was asked to.
    Done,
    /// It finished, but missed its goal.
    Missed,
    /// A signal ended it early, and it left its work in order.
    Stopped,
}

/// Implicit graph neural networks on large graphs, on the cores of one machine
///
/// Raw graph files become a dataset directory once (`ignn ingest`), in as little memory as you
/// allow; every other command maps that directory and starts at once. Results go to standard
/// output, progress to standard error.
#[derive(Debug, Parser)]
#[command(name = "ignn", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  ignn demo                                          see the whole way on a small graph
  ignn ingest edges graph.txt.gz --out graph.ignn    turn an edge list into a dataset
  ignn inspect graph.ignn                            see what is in it

Exit codes: 0 done; 1 goal missed (check found damage, a solve did not converge); 2 usage, input or IO; 130 stopped
`ignn COMMAND --help` explains each command with examples.")]
struct Cli {
    #[command(flatten)]
    shared: Shared,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Shared options")]
struct Shared {
    /// Worker threads; results do not depend on it [default: all cores]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,

    /// Memory that buffers may take together: a size (2GiB, 512MiB) or a share of the machine (50%)
    ///
    /// Beyond it, work goes on in temporary files beside the output. Results do not depend on it.
    #[arg(long, global = true, value_name = "SIZE", default_value_t = memory_size::DEFAULT)]
    memory: MemorySize,

    /// Seed of everything drawn at random; the same seed gives the same bytes [default: 0, or that
    /// of the settings]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    seed: Option<u64>,

    /// Print the result as one JSON object
    #[arg(long, global = true)]
    json: bool,

    /// No progress and no notes on standard error; errors are still printed
    #[arg(long, short, global = true)]
    quiet: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Ingest(ingest::Command),
    Generate(generate::Command),
    Train(train::Command),
    Crossval(crossval::Command),
    Inspect(inspect::Command),
    Check(check::Command),
    Export(export::Command),
    Predict(predict::Command),
    Eval(eval::Command),
    Report(report::Command),
    Reproduce(reproduce::Command),
    Demo(demo::Command),
    Bench(bench::Command),
    Completions(completions::Command),
    Man(man::Command),
}

impl Cli {
    /// Runs the command that was named.
    fn run(self) -> Result<Outcome> {
        let session = Session::new(&self.shared);
        match self.command {
            Command::Ingest(command) => command.run(&session),
            Command::Generate(command) => command.run(&session),
            Command::Train(command) => command.run(&session),
            Command::Crossval(command) => command.run(&session),
            Command::Inspect(command) => command.run(&session),
            Command::Check(command) => command.run(&session),
            Command::Export(command) => command.run(&session),
            Command::Predict(command) => command.run(&session),
            Command::Eval(command) => command.run(&session),
            Command::Report(command) => command.run(&session),
            Command::Reproduce(command) => command.run(&session),
            Command::Demo(command) => command.run(&session),
            Command::Bench(command) => command.run(&session),
            Command::Completions(command) => command.run(&session),
            Command::Man(command) => command.run(&session),
        }
    }
}

/// The shared options, resolved on this machine.
struct Session {
    threads: usize,
    memory: u64,
    /// 0 where none was given.
    seed: u64,
    has_seed: bool,
    json: bool,
    quiet: bool,
}

impl Session {
    fn new(shared: &Shared) -> Self {
        let threads = shared.threads.map_or_else(machine::cores, usize::from);
        ignn::parallel::start(threads);
        Self {
            threads,
            memory: shared.memory.resolve(machine::memory()),
            seed: shared.seed.unwrap_or(0),
            has_seed: shared.seed.is_some(),
            json: shared.json,
            quiet: shared.quiet,
        }
    }

    /// What an ingest job is given.
    fn context<'a>(&self, observer: &'a dyn Observer) -> Context<'a> {
        Context { threads: self.threads, memory: self.memory, seed: self.seed, observer }
    }

    /// Refuses a seed for what was begun with one.
    fn refuse_seed(&self) -> Result<()> {
        if self.has_seed {
            bail!("--seed: a run goes on with the seed that it has: leave it out");
        }
        Ok(())
    }

    /// Writes a result to standard output.
    fn print(&self, text: &str) -> Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// Writes a result to standard output as one JSON object.
    fn print_json(&self, value: &serde_json::Value) -> Result<()> {
        self.print(&format!("{value:#}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_teaches() {
        fn visit(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            assert!(command.get_about().is_some(), "{path}: what does it do?");
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{path}: {}: no help", argument.get_id());
            }
            if command.has_subcommands() {
                command.get_subcommands().for_each(|sub| visit(sub, &path));
            } else {
                assert!(command.get_long_about().is_some(), "{path}: no long help");
                let examples =
                    command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(examples.contains("Example"), "{path}: no example");
            }
        }
        let command = Cli::command();
        visit(&command, "");
    }
}
