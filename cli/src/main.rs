//! The binary `ignn`: sets the allocator, parses arguments, runs a command and returns its exit
//! code. Commands turn options into library calls and print the results; they compute nothing
//! themselves.
//!
//! | code | meaning |
//! | --- | --- |
//! | 0 | done |
//! | 1 | finished, but missed its goal: `check` found damage, a solve did not converge, training collapsed |
//! | 2 | usage, input or IO error |
//! | 130 | stopped by a signal; unfinished output is removed, `train` leaves a checkpoint |
//!
//! A reader that closes the pipe of the output changes none of these.

mod commands;
#[cfg(test)]
mod document;
mod options;
mod ranks;
mod reproduce;
mod sample;
mod terminal;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Parser, Subcommand};
use ignn::kernels::Isa;
use ignn::parallel::{self, Ranks};
use ignn::report::quantity;
use ignn::run::machine;
use ignn_format::storage;
use ignn_ingest::{Context, Observer};

use commands::{
    bench, check, completions, crossval, demo, eval, export, generate, ingest, inspect, man,
    predict, report, train,
};
use options::memory_size::{self, MemorySize};
use ranks::Job;
use terminal::{messages, printer};

// Ingest allocates buffers of a few megabytes on one thread and frees them on another. The system
// allocator keeps such memory in per-thread arenas, so that peak memory drifts past `--memory`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    #[cfg(debug_assertions)]
    storage::faults::from_environment();
    printer::set_silent(ranks::launched().is_some_and(|[rank, _]| rank > 0));
    let command = Cli::try_parse().unwrap_or_else(|error| {
        ranks::refuse_together(&error);
        messages::refuse(&error)
    });
    messages::stop_cleanly_on_signals(command.shared.quiet, ranks::launched().is_some());
    ignn_format::mapped::report_bus_errors();
    ignn_format::mapped::report_size_limits();
    messages::explain_panics();
    if let Err(error) = Isa::check_variable() {
        messages::print_error(&anyhow::anyhow!(error));
        return ExitCode::from(2);
    }
    let job = match Job::start() {
        Ok(job) => job,
        Err(error) => {
            messages::print_error(&error);
            return ExitCode::from(messages::code(&error));
        }
    };
    let outcome = command.run(job.ranks());
    if ranks::launched().is_some() {
        // A launcher asks all other ranks to stop as soon as one of them has ended with an error.
        messages::ignore_signals();
    }
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Missed) => ExitCode::from(1),
        Ok(Outcome::Stopped) => ExitCode::from(messages::STOPPED),
        Err(error) => ExitCode::from(job.report(&error)),
    }
}

/// How a command ended, if it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It did what was asked.
    Done,
    /// It finished, but missed its goal.
    Missed,
    /// A signal ended it early; what it leaves can be continued.
    Stopped,
}

/// Implicit graph neural networks on large graphs, on the cores of one machine
///
/// Convert raw graph files to a dataset directory once with `ignn ingest`; it keeps to the memory
/// that you allow. All other commands map that directory into memory and start at once. Results go
/// to standard output, progress to standard error.
#[derive(Debug, Parser)]
#[command(name = "ignn", version, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  ignn demo                                          see every step on a small graph
  ignn ingest edges graph.txt.gz --out graph.ignn    turn an edge list into a dataset
  ignn inspect graph.ignn                            see what is in it
  ignn train graph.ignn --out run                    train a model on it

Exit codes:
  0    done
  1    goal missed: `check` found damage, a solve did not converge, training collapsed
  2    usage, input or IO error
  130  stopped by a signal

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
    /// Number of threads; results do not depend on it [default: all cores]
    #[arg(long, global = true, value_name = "N", value_parser = at_least_one)]
    threads: Option<usize>,

    /// Memory limit for buffers: a size (2GiB, 512MiB) or a share of the machine (50%)
    ///
    /// Beyond it, sorting continues in temporary files next to the output, and training and
    /// prediction in the files of --scratch. Results do not depend on it. Under `mpirun` it is the
    /// limit of each rank, and ranks on one machine divide its memory among themselves.
    #[arg(long, global = true, value_name = "SIZE", default_value_t = memory_size::DEFAULT)]
    memory: MemorySize,

    /// Random seed; the same seed gives the same bytes [default: train.seed of the settings, or 0]
    #[arg(
        long,
        global = true,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64)
    )]
    seed: Option<u64>,

    /// Do not wait until the output is safe on the disk
    ///
    /// Faster for large outputs. If the power fails or the system crashes within about a minute
    /// after the command, its output can be damaged, and an output that it replaced is lost. A
    /// crash of the command alone does no harm.
    #[arg(long, global = true)]
    no_sync: bool,

    /// Print the result as one JSON object
    #[arg(long, global = true)]
    json: bool,

    /// Print only the result, on standard output, and errors
    ///
    /// Progress, notes and messages about signals are not printed. The result still suggests the
    /// next command and, with --json, contains the notes.
    #[arg(long, short, global = true)]
    quiet: bool,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a number of threads, at least 1".into()),
        Ok(threads) => Ok(threads),
    }
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

impl Command {
    /// Whether several ranks can do it together.
    fn runs_on_ranks(&self) -> bool {
        match self {
            Self::Train(_) | Self::Crossval(_) | Self::Predict(_) | Self::Eval(_) => true,
            Self::Bench(command) => command.runs_on_ranks(),
            _ => false,
        }
    }
}

impl Cli {
    /// Runs the chosen command.
    fn run(self, ranks: &Arc<dyn Ranks>) -> Result<Outcome> {
        let session = ranks::agree(&**ranks, Session::new(&self.shared, ranks))?;
        let arguments = format!("{:?} {:?}", self.command, self.shared.seed);
        ranks::check_arguments(&**ranks, arguments)?;
        if !ranks.is_alone() && !self.command.runs_on_ranks() {
            bail!("this command runs on one rank only: run it without mpirun");
        }
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
    /// 0 if none was given.
    seed: u64,
    has_seed: bool,
    no_sync: bool,
    json: bool,
    quiet: bool,
    ranks: Arc<dyn Ranks>,
}

impl Session {
    fn new(shared: &Shared, ranks: &Arc<dyn Ranks>) -> Result<Self> {
        let cores = machine::cores();
        let (threads, most) = (shared.threads.unwrap_or(cores), parallel::most_threads(cores));
        if threads > most {
            bail!(
                "--threads {threads}: too many (expected 1 to {most}: eight per core, or 256 where \
                 that is more)"
            );
        }
        parallel::start(threads).with_context(|| {
            format!(
                "the system refuses to start {}: use fewer with --threads, or raise the limit \
                 (`ulimit -u`)",
                quantity::plural(threads as u64, "thread", "threads")
            )
        })?;
        storage::set_sync(!shared.no_sync);
        Ok(Self {
            threads,
            // Ranks of one machine share it.
            memory: shared.memory.resolve(machine::memory() / ranks::on_this_machine()),
            seed: shared.seed.unwrap_or(0),
            has_seed: shared.seed.is_some(),
            no_sync: shared.no_sync,
            json: shared.json,
            // The first rank shows the progress.
            quiet: shared.quiet || !ranks.is_first(),
            ranks: Arc::clone(ranks),
        })
    }

    /// Threads, memory, seed and observer for an ingest job.
    fn context<'a>(&self, observer: &'a dyn Observer) -> Context<'a> {
        Context { threads: self.threads, memory: self.memory, seed: self.seed, observer }
    }

    /// The result of this rank, or the error of another one.
    fn agree<T>(&self, result: Result<T>) -> Result<T> {
        ranks::agree(&*self.ranks, result)
    }

    /// Refuses `--seed` for a run that already has a seed.
    fn refuse_seed(&self) -> Result<()> {
        if self.has_seed {
            bail!("--seed: a resumed run keeps its own seed: leave the option out");
        }
        Ok(())
    }

    /// Writes a result to standard output.
    fn print(&self, text: &str) -> Result<()> {
        printer::result(text)
    }

    /// Writes a result to standard output as one JSON object.
    fn print_json(&self, value: &serde_json::Value) -> Result<()> {
        printer::json(value)
    }
}

#[cfg(test)]
mod tests {
    mod crash_states;
    mod crashed_disk;
    mod faults;
    mod place;

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
            assert!(command.get_about().is_some(), "{path}: no help");
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
