//! `ignn train`: a dataset and a configuration become a run directory with a model.
//! Words become a configuration and calls of the library; what is shown of a run is in `run`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use ignn::config::{Config, document, json_schema};
use ignn::graph::Dataset;
use ignn::models::Model;
use ignn::predict;
use ignn::report::json_lines::JsonLines;
use ignn::report::tensorboard::TensorBoard;
use ignn::train::{Ended, Observer, Task, Trainer, checkpoint, memory};
use ignn_format::FormatError;

use crate::options::settings::Settings;
use crate::terminal::messages;
use crate::terminal::run::{self, Curve, Figures};
use crate::terminal::training::Console;
use crate::{Outcome, Session, machine};

/// Train a model on a dataset
///
/// Solves the equilibrium X = phi(A^T X W^T + b(U)) every epoch, differentiates through it, makes a
/// step and keeps W within the bound that makes the solution unique. The run directory holds
/// config.toml (resolved), metrics.jsonl (a line an epoch), tensorboard/, checkpoint/, dataset.txt
/// (where it was), run.json (figures) and model.safetensors: the epoch that was best on the
/// validation part, and all that `ignn predict` needs.
///
/// `--set model.kind=gcn` trains a baseline instead, without an equilibrium or with one of its own:
/// sgc, gat, gcnii, sse, mlp, structural, label-propagation. All else is the same.
///
/// Settings: defaults < --preset < --config FILE < --set KEY=VALUE. `ignn train --list` prints all
/// settings with their meaning. The same seed gives the same bits on any number of threads.
///
/// Ctrl-C (SIGINT, SIGTERM) ends the run after its epoch, with a checkpoint, the best model so far,
/// and exit code 130; --resume goes on to the same bits as if nothing had happened. Once more ends
/// it at once: --resume then goes on from the last checkpoint, as after any other sudden end.
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

    /// The run directory to make
    #[arg(long, value_name = "RUN", required_unless_present_any = ["list", "schema", "resume"])]
    out: Option<PathBuf>,

    #[command(flatten)]
    settings: Settings,

    /// Start from the values of a model file or run of the same shape
    #[arg(long, value_name = "MODEL")]
    init: Option<PathBuf>,

    /// Go on with an interrupted run from its checkpoint; DATASET is needed only if it has moved
    #[arg(long, value_name = "RUN", conflicts_with_all = ["out", "preset", "config", "sets", "init", "seeds", "force"])]
    resume: Option<PathBuf>,

    /// Train once for each seed, such as 0..9 (both ends) or 1,5,7, and report mean and deviation
    #[arg(long, value_name = "SEEDS", value_parser = parse_seeds)]
    seeds: Option<Seeds>,

    /// Replace an existing run
    #[arg(long)]
    force: bool,

    /// Print all settings as TOML, each with its meaning, and stop
    ///
    /// The values are the defaults, or those of --preset, --config and --set.
    #[arg(long)]
    list: bool,

    /// Print the JSON Schema of the settings, for editors, and stop
    #[arg(long, conflicts_with = "list")]
    schema: bool,
}

/// Seeds of one command at most.
const MOST_SEEDS: u64 = 10_000;

/// Seeds in the order of their runs.
#[derive(Clone, Debug)]
pub struct Seeds(pub Vec<u64>);

/// `0..9` with both ends, or `1,5,7`.
pub fn parse_seeds(text: &str) -> Result<Seeds, String> {
    let number = |part: &str| {
        let wrong = || format!("expected seeds such as 0..9 or 1,5,7, found {part:?}");
        let seed = part.trim().parse::<u64>().map_err(|_| wrong())?;
        // What a configuration can hold.
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
        return Err(format!("seed {seed} is there twice"));
    }
    if seeds.is_empty() { Err(format!("no seeds in {text:?}")) } else { Ok(Seeds(seeds)) }
}

impl Command {
    /// Trains.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        if self.list {
            session.print(&document::listing(&self.settings.resolve(session)?))?;
            return Ok(Outcome::Done);
        }
        if self.schema {
            session.print(&format!("{:#}\n", json_schema()))?;
            return Ok(Outcome::Done);
        }
        if let Some(run) = &self.resume {
            run::check(run)?;
            session.refuse_seed()?;
            let config_file = run.join(run::CONFIG);
            let config =
                Config::resolve(None, Some(&config_file), self.settings.epochs().as_slice())?;
            let dataset = match &self.dataset {
                Some(dataset) => dataset.clone(),
                None => run::dataset_of(run)?,
            };
            let job = Job {
                dataset,
                out: run.clone(),
                config,
                init: None,
                resumes: true,
                replaces: None,
            };
            let figures = job.train(session)?;
            return print(session, std::slice::from_ref(run), &[figures]);
        }
        let (Some(dataset), Some(out)) = (self.dataset.clone(), self.out.clone()) else {
            bail!("DATASET and --out RUN are needed");
        };
        let config = self.settings.resolve(session)?;
        let mut replaces = None;
        if out.exists() && !run::is_empty(&out) {
            if !self.force {
                return Err(FormatError::Exists { path: out }.into());
            }
            run::check_replaceable(&out)?;
            replaces = Some(out.clone());
        }
        let init = self.init.as_deref().map(predict::model_file).transpose()?;
        let Some(Seeds(seeds)) = &self.seeds else {
            let job = Job { dataset, out: out.clone(), config, init, resumes: false, replaces };
            let figures = job.train(session)?;
            return print(session, &[out], &[figures]);
        };
        let (mut places, mut all) = (Vec::new(), Vec::new());
        for &seed in seeds {
            let mut config = config.clone();
            config.train.seed = seed;
            let place = out.join(format!("seed-{seed}"));
            let job = Job {
                dataset: dataset.clone(),
                out: place.clone(),
                config,
                init: init.clone(),
                resumes: false,
                replaces: replaces.take(),
            };
            let figures = job.train(session)?;
            let is_stopped = figures.ended == Ended::Stopped;
            all.push(figures);
            places.push(place);
            if is_stopped {
                break;
            }
        }
        print(session, &places, &all)
    }
}

fn print(session: &Session, places: &[PathBuf], all: &[Figures]) -> Result<Outcome> {
    if session.json {
        session.print_json(&run::as_json(all))?;
    } else {
        session.print(&run::as_text(places, all))?;
    }
    if all.iter().any(|figures| figures.ended == Ended::Stopped) {
        return Ok(Outcome::Stopped);
    }
    let all_converged = all.iter().all(|figures| figures.converged);
    Ok(if all_converged { Outcome::Done } else { Outcome::Missed })
}

/// One run.
pub struct Job {
    /// The dataset.
    pub dataset: PathBuf,
    /// The run directory.
    pub out: PathBuf,
    /// The configuration, resolved.
    pub config: Config,
    /// A model to start from.
    pub init: Option<PathBuf>,
    /// Whether it goes on from a checkpoint.
    pub resumes: bool,
    /// An older run that makes room as soon as this one can begin.
    pub replaces: Option<PathBuf>,
}

impl Job {
    /// Trains to the end, or until it is asked to stop.
    pub fn train(&self, session: &Session) -> Result<Figures> {
        let started = Instant::now();
        let dataset = Dataset::open(&self.dataset)?;
        let task = Arc::new(Task::open(dataset, &self.config)?);
        let needed = memory::check(&task, &self.config, session.memory)?;
        let mut trainer = Trainer::with_task(Arc::clone(&task), self.config.clone())?;
        let place = checkpoint::path(&self.out);
        if let Some(init) = &self.init {
            Model::read(init)?.copy_into(trainer.model_mut(), init)?;
            // Another graph may have another bound.
            trainer.model_mut().project()?;
        }
        if let Some(old) = &self.replaces {
            run::remove(old)?;
        }
        let _held = run::hold(&self.out)?;
        if self.resumes {
            if !place.exists() {
                let out = self.out.display();
                bail!("{out}: the run ended before its first checkpoint: train anew, with --force");
            }
            trainer.restore(&place)?;
            if self.config.train.epochs < trainer.epoch() {
                let (out, epochs, epoch) =
                    (self.out.display(), self.config.train.epochs, trainer.epoch());
                bail!(
                    "{out}: the run is at epoch {epoch}: found {epochs} epochs, expected {epoch} or more"
                );
            }
        }
        run::write(&self.out.join(run::CONFIG), &self.config.to_toml())?;
        run::write(&self.out.join(run::DATASET), &format!("{}\n", run::absolute(&self.dataset)))?;
        let metrics = self.out.join(run::METRICS);
        let (lines, board) = match self.resumes {
            // The epoch of the checkpoint is told again.
            true => {
                let last = trainer.epoch().checked_sub(1);
                let lines = match last {
                    Some(last) => JsonLines::resume(&metrics, last)?,
                    None => JsonLines::create(&metrics)?,
                };
                (lines, TensorBoard::create(&self.out.join(run::TENSORBOARD), last)?)
            }
            false => (
                JsonLines::create(&metrics)?,
                TensorBoard::create(&self.out.join(run::TENSORBOARD), None)?,
            ),
        };
        let mut curve = Curve::new(trainer.monitor(), &metrics, self.resumes)?;
        let mut observers: Vec<Box<dyn Observer + '_>> = vec![
            Box::new(lines),
            Box::new(board),
            Box::new(&mut curve),
            Box::new(Console::new(session.quiet, &self.config, trainer.monitor())),
        ];
        let stop = messages::ask_to_stop();
        let (every, minutes) =
            (self.config.train.checkpoint_epochs, self.config.train.checkpoint_minutes);
        let mut last = Instant::now();
        // The last epoch only evaluates. The checkpoint is from before, so that a run that is given
        // more epochs goes on as if it had had them from the start.
        if trainer.is_at_last() {
            trainer.save(&place)?;
        }
        let ended = trainer.run(&mut observers, stop, |trainer| {
            let is_due = every > 0 && trainer.epoch() % every == 0;
            let is_late = minutes > 0.0 && last.elapsed().as_secs_f64() > minutes * 60.0;
            if is_due || is_late || trainer.is_at_last() {
                trainer.save(&place)?;
                last = Instant::now();
            }
            Ok(())
        })?;
        drop(observers);
        if ended != Ended::Epochs {
            trainer.save(&place)?;
        }
        trainer.finished().write(&self.out.join(predict::MODEL))?;
        let figures = curve.figures(&trainer, ended, started.elapsed().as_secs_f64(), needed);
        let facts = run::facts(&figures, &task, session.threads, machine::peak_memory());
        run::write(&self.out.join(run::RUN), &format!("{facts:#}\n"))?;
        Ok(figures)
    }
}
