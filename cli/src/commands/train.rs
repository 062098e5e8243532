//! `ignn train`: turns options into a [`Run`], trains it and prints the figures.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use ignn::config::{document, json_schema};
use ignn::predict;
use ignn::run::{FinishedRun, Run, RunDir, RunError};
use ignn::train::{Ended, EpochRecord, Observer};

use crate::options::scratch::ScratchArgs;
use crate::options::settings::TrainingSettings;
use crate::options::verification::Verification;
use crate::terminal::job_progress::JobProgress;
use crate::terminal::notes::Notes;
use crate::terminal::training::Console;
use crate::terminal::{figures, messages, printer, shell};
use crate::{Outcome, Session};

/// Train a model on a dataset
///
/// Every epoch solves the equilibrium X = phi(A^T X W^T + b(U)), differentiates through it, takes
/// a step, and keeps W within the bound that makes the solution unique. The run directory holds
/// config.toml (resolved), metrics.jsonl (one line per epoch), tensorboard/, checkpoint/,
/// dataset.txt (its path), run.json (figures) and model.safetensors: the model of the epoch that
/// was best on the validation part, with everything that `ignn predict` needs.
///
/// Epoch e is the model after e steps, epoch 0 the initial model. The best epoch is the one with
/// the best validation score by train.monitor; ties are broken by the smaller validation loss, then
/// by the earlier epoch.
///
/// `--set model.kind=gcn` trains a baseline instead; `ignn train --list` shows all kinds. Everything
/// else stays the same.
///
/// Settings: defaults < --preset < --config FILE < --set KEY=VALUE. `ignn train --list` prints all
/// settings with their meaning. The same seed gives the same bits on any number of threads.
///
/// Matrices that do not fit in --memory lie on a disk, in --scratch, which changes the time and not
/// the result; a note says so, with what a sweep reads and writes. Collections of graphs and models
/// without an equilibrium train in memory only.
///
/// With --seeds, small graphs are trained with several seeds at a time, one thread each, as many as
/// --threads and --memory allow; large graphs with one seed after another on all threads. The
/// results are the same.
///
/// Ctrl-C (SIGINT, SIGTERM) ends the run after its current epoch, with a checkpoint, the best model
/// so far, and exit code 130; --resume then gives the same bits as a run without interruption. A
/// second Ctrl-C ends it at once: --resume then continues from the last checkpoint, as after a
/// crash.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn train graph.ignn --out run
  ignn train chains.ignn --out run --preset chains --set train.epochs=200
  ignn train graph.ignn --out run --config my.toml --seeds 0..9
  ignn train --resume run")]
pub struct Command {
    /// The dataset
    #[arg(value_name = "DATASET", required_unless_present_any = ["list", "schema", "resume"])]
    dataset: Option<PathBuf>,

    /// The run directory to create
    #[arg(long, value_name = "RUN", required_unless_present_any = ["list", "schema", "resume"])]
    out: Option<PathBuf>,

    #[command(flatten)]
    settings: TrainingSettings,

    /// Start from the parameters of a model file or run of the same shape
    #[arg(long, value_name = "MODEL")]
    init: Option<PathBuf>,

    /// Continue an interrupted run from its checkpoint; DATASET is needed only if it has moved
    #[arg(long, value_name = "RUN")]
    #[arg(conflicts_with_all = ["out", "preset", "config", "sets", "init", "seeds", "force"])]
    resume: Option<PathBuf>,

    /// Train once for each seed, such as 0..9 (inclusive) or 1,5,7, and report mean and deviation
    #[arg(long, value_name = "SEEDS", value_parser = parse_seeds)]
    seeds: Option<Seeds>,

    /// Replace an existing run, once the first epoch is finished
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    scratch: ScratchArgs,

    #[command(flatten)]
    verification: Verification,

    /// Print all settings as TOML, each with its meaning, and stop
    ///
    /// The values are the defaults, or those of --preset, --config and --set.
    #[arg(long)]
    list: bool,

    /// Print the JSON Schema of the settings, for editors, and stop
    #[arg(long, conflicts_with = "list")]
    schema: bool,
}

/// Largest number of seeds of one command.
const MOST_SEEDS: u64 = 10_000;

/// The seeds of --seeds, in order.
#[derive(Clone, Debug)]
pub struct Seeds(pub Vec<u64>);

/// Parses `0..9`, which includes both ends, or `1,5,7`.
pub fn parse_seeds(text: &str) -> Result<Seeds, String> {
    let number = |part: &str| {
        let wrong = || format!("expected seeds such as 0..9 or 1,5,7, found {part:?}");
        let seed = part.trim().parse::<u64>().map_err(|_| wrong())?;
        // The largest integer in TOML.
        if seed > i64::MAX as u64 {
            Err(format!("expected seeds up to {}, found {seed}", i64::MAX))
        } else {
            Ok(seed)
        }
    };
    let seeds: Vec<u64> = match text.split_once("..") {
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
            if last.saturating_sub(first) >= MOST_SEEDS {
                return Err(format!("expected at most {MOST_SEEDS} seeds, found {text}"));
            }
            (first..=last).collect()
        }
        None => text.split(',').map(number).collect::<Result<_, _>>()?,
    };
    if let Some(seed) =
        seeds.iter().enumerate().find_map(|(at, s)| seeds[..at].contains(s).then_some(s))
    {
        return Err(format!("seed {seed} is given twice"));
    }
    if seeds.is_empty() { Err(format!("no seeds in {text:?}")) } else { Ok(Seeds(seeds)) }
}

impl Command {
    /// Trains and prints the figures.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        if self.list {
            session.print(&document::listing(&self.settings.resolve(session)?))?;
            return Ok(Outcome::Done);
        }
        if self.schema {
            printer::exact(&format!("{:#}\n", json_schema()))?;
            return Ok(Outcome::Done);
        }
        let notes = Notes::new(session.quiet);
        let run = match &self.resume {
            Some(directory) => self.resumed(directory, session),
            None => self.new_run(session, &notes),
        };
        let run = session.agree(run)?.on_ranks(Arc::clone(&session.ranks));
        let runs = match &self.seeds {
            Some(_) if session.has_seed => bail!("--seed and --seeds: give one of them"),
            Some(Seeds(seeds)) => train_seeds(&run, seeds, session, &notes)?,
            None => vec![train_one(&run, session, &notes)?],
        };
        print(session, &runs, &notes)
    }

    fn resumed(&self, directory: &PathBuf, session: &Session) -> Result<Run> {
        let run = match &self.dataset {
            Some(dataset) => Run::resume_on(directory, dataset)?,
            None => Run::resume(directory).map_err(|error| has_moved(error, directory))?,
        };
        session.refuse_seed()?;
        self.verification.of(run.graph())?;
        let scratch = self.scratch.directory(Some(directory));
        let run = run.memory(session.memory).scratch(scratch);
        Ok(match self.settings.epochs() {
            Some(epochs) => run.epochs(epochs)?,
            None => run,
        })
    }

    fn new_run(&self, session: &Session, notes: &Notes) -> Result<Run> {
        let (Some(dataset), Some(out)) = (&self.dataset, &self.out) else {
            bail!("DATASET and --out RUN are needed");
        };
        let config = self.settings.resolve(session)?;
        let graph = self.verification.open(dataset)?;
        self.settings.note_unused(session, &graph, notes)?;
        let scratch = self.scratch.directory(Some(out));
        let mut run = Run::new(graph, config, out).memory(session.memory).scratch(scratch);
        if self.force {
            run = run.replacing();
        }
        if let Some(init) = &self.init {
            run = run.starting_from(predict::model_file(init)?);
        }
        Ok(run)
    }
}

/// An error of a run that is resumed, with what to do if its dataset is no longer where it was.
fn has_moved(error: RunError, directory: &Path) -> anyhow::Error {
    match RunDir::new(directory).dataset() {
        Ok(dataset) if !dataset.exists() => {
            let run = shell::path(directory);
            anyhow!(
                "{error}: if it has moved, pass its new place: `ignn train DATASET --resume {run}`"
            )
        }
        _ => error.into(),
    }
}

/// Trains one run with its progress on the terminal.
pub fn train_one(run: &Run, session: &Session, notes: &Notes) -> Result<FinishedRun> {
    let mut console = Console::new(session.quiet, run.config(), notes);
    Ok(run.train(&mut console, messages::ask_to_stop())?)
}

fn train_seeds(
    run: &Run,
    seeds: &[u64],
    session: &Session,
    notes: &Notes,
) -> Result<Vec<FinishedRun>> {
    let (at_once, stop) = (run.runs_at_once(seeds.len())?, messages::ask_to_stop());
    if at_once == 1 {
        let observe = |run: &Run| Console::new(session.quiet, run.config(), notes);
        return Ok(run.train_seeds(seeds, at_once, observe, |_| (), stop)?);
    }
    let epochs = run.config().train.epochs;
    let progress = JobProgress::new(session.quiet, "seed", seeds.len(), epochs, notes);
    let observe = |run: &Run| SeedObserver { progress: &progress, seed: run.config().train.seed };
    let finished = |run: &FinishedRun| {
        progress.finished(run.figures.seed, run.figures.epochs, &figures::in_short(&run.figures));
    };
    let runs = run.train_seeds(seeds, at_once, observe, finished, stop);
    progress.clear();
    Ok(runs?)
}

/// Passes the epochs of one of several runs on to the progress of all.
struct SeedObserver<'a> {
    progress: &'a JobProgress<'a>,
    seed: u64,
}

impl Observer for SeedObserver<'_> {
    fn epoch(&mut self, _record: &EpochRecord) -> ignn_format::Result<()> {
        self.progress.epoch();
        Ok(())
    }

    fn note(&mut self, text: &str) -> ignn_format::Result<()> {
        self.progress.note(self.seed, text);
        Ok(())
    }
}

fn print(session: &Session, runs: &[FinishedRun], notes: &Notes) -> Result<Outcome> {
    if session.json {
        let mut value = figures::as_json(runs);
        value["notes"] = notes.all().into();
        session.print_json(&value)?;
    } else {
        session.print(&figures::as_text(runs))?;
    }
    if runs.iter().any(|run| run.figures.ended == Ended::Stopped) || runs.is_empty() {
        return Ok(Outcome::Stopped);
    }
    let is_good = |run: &FinishedRun| run.has_converged && run.figures.ended != Ended::Collapsed;
    Ok(if runs.iter().all(is_good) { Outcome::Done } else { Outcome::Missed })
}
