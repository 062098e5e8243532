//! `ignn crossval`: graph classification judged fold by fold. Words to a plan and calls of the
//! library; what is shown and written of it is in `crossval_report`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use ignn::config::IgnnConfig;
use ignn::graph::Dataset;
use ignn::report::json_lines::JsonLines;
use ignn::train::crossval::{FoldRecord, NODES_FOR_ALL_THREADS, Outcome as Folded, Plan};
use ignn::train::folds::{FEWEST, Folds};
use ignn::train::svm_readout::SvmSearch;
use ignn::train::{EpochRecord, Observer, Task};
use ignn::{parallel, predict};
use ignn_format::FormatError;

use crate::options::settings::Settings;
use crate::terminal::crossval_report::{self, Report, Setup};
use crate::terminal::{messages, run};
use crate::{Outcome, Session};

/// Folds where none are asked for.
const FOLDS: u16 = 10;

/// Cross-validate graph classification on a dataset of many graphs
///
/// The graphs are dealt to folds, each class evenly and drawn by --seed. Every fold is trained by
/// itself: judged on its own graphs, its epoch chosen on those of the next fold, learned from all
/// others. Told are three figures, each a mean and a deviation (n - 1) over folds: accuracy at the
/// epoch that validation chose, which is the fair one; at the one epoch whose mean test accuracy is
/// best, as the GIN paper does it; and at the epoch that is best on each fold's test part, as the
/// published code of the IGNN paper does it. The last two have seen the test parts and are for
/// comparison with papers only.
///
/// Small graphs are trained a fold a thread, large ones on all threads; the figures are the same to
/// the bit. With --out, the directory holds config.toml (resolved), folds.csv (the fold of each
/// graph), crossval.json (figures), and for each fold metrics.jsonl, fold.json and
/// model.safetensors. Ctrl-C stops after the epochs at hand; finished folds are kept there, and
/// --resume trains the others.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn ingest tu MUTAG --normalise none --out mutag.ignn
  ignn crossval mutag.ignn --preset graphs --out runs/mutag
  ignn crossval mutag.ignn --preset graphs --readout svm --epochs 0
  ignn crossval --resume runs/mutag")]
pub struct Command {
    /// The dataset: many graphs with labels
    #[arg(value_name = "DATASET", required_unless_present = "resume")]
    dataset: Option<PathBuf>,

    /// Folds, each judged once [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(FEWEST as i64..))]
    folds: Option<u16>,

    #[command(flatten)]
    settings: Settings,

    /// What tells the classes of graphs
    #[arg(long, value_enum, default_value_t = Readout::Model)]
    readout: Readout,

    /// The directory to write to
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Go on with a directory whose folds are not all done
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dataset", "folds", "preset", "config", "sets", "epochs", "readout", "out", "force"])]
    resume: Option<PathBuf>,

    /// Replace an existing directory of a cross-validation
    #[arg(long)]
    force: bool,
}

/// What tells classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Readout {
    /// The model's own read-out
    Model,
    /// Beside it a support vector machine on the pooled embeddings, with an RBF kernel
    Svm,
    /// The same with a linear kernel
    SvmLinear,
}

impl Readout {
    fn search(self) -> Option<SvmSearch> {
        match self {
            Self::Model => None,
            Self::Svm => Some(SvmSearch::Rbf),
            Self::SvmLinear => Some(SvmSearch::Linear),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Svm => "svm",
            Self::SvmLinear => "svm-linear",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Model, Self::Svm, Self::SvmLinear].into_iter().find(|readout| readout.word() == word)
    }
}

/// Everything that was asked for.
struct Job {
    dataset: PathBuf,
    config: IgnnConfig,
    folds: usize,
    readout: Readout,
    out: Option<PathBuf>,
    /// An older directory that makes room as soon as this one can begin.
    replaces: bool,
}

impl Command {
    /// Trains every fold.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        if let Some(directory) = &self.resume {
            session.refuse_seed()?;
            let Setup { folds, readout } = crossval_report::setup(directory)?;
            let Some(readout) = Readout::parse(&readout) else {
                bail!(
                    "{}: readout: found {readout:?}, expected model, svm or svm-linear",
                    directory.display()
                );
            };
            let config = IgnnConfig::resolve(None, Some(&directory.join(run::CONFIG)), &[])?;
            let dataset = run::dataset_of(directory)?;
            let done = crossval_report::finished(directory, folds)?;
            let out = Some(directory.clone());
            return Job { dataset, config, folds, readout, out, replaces: false }
                .run(session, done);
        }
        let Some(dataset) = self.dataset.clone() else { bail!("DATASET is needed") };
        let config = self.settings.resolve(session)?;
        let mut replaces = false;
        if let Some(out) = &self.out
            && out.exists()
            && !run::is_empty(out)
        {
            if !self.force {
                return Err(FormatError::Exists { path: out.clone() }.into());
            }
            crossval_report::check_replaceable(out)?;
            replaces = true;
        }
        let folds = usize::from(self.folds.unwrap_or(FOLDS));
        let Self { readout, out, .. } = self;
        Job { dataset, config, folds, readout, out, replaces }.run(session, Vec::new())
    }
}

impl Job {
    fn run(&self, session: &Session, done: Vec<FoldRecord>) -> Result<Outcome> {
        let clock = Instant::now();
        let dataset = Dataset::open(&self.dataset)?;
        let graphs = dataset.directory().graphs()?;
        let folds =
            Folds::stratified(graphs.as_ref(), self.folds, self.config.train.seed, &self.dataset)?;
        let Some(graphs) = graphs else { bail!("{}: one graph", self.dataset.display()) };
        let workers = self.workers(session, &folds)?;
        if let Some(out) = self.out.as_ref().filter(|_| self.replaces) {
            run::remove(out)?;
        }
        let _held = self.out.as_deref().map(run::hold).transpose()?;
        if let Some(out) = &self.out {
            run::write(&out.join(run::CONFIG), &self.config.to_toml())?;
            run::write(&out.join(run::DATASET), &format!("{}\n", run::absolute(&self.dataset)))?;
            let setup = Setup { folds: self.folds, readout: self.readout.word().into() };
            crossval_report::write_setup(out, &setup, &graphs.ids, &folds)?;
        }
        let open: Vec<usize> =
            (0..self.folds).filter(|fold| done.iter().all(|record| record.fold != *fold)).collect();
        let stop = messages::ask_to_stop();
        let progress = crossval_report::Progress::new(session.quiet, &self.config, open.len());
        let plan = Plan {
            dataset: &self.dataset,
            config: &self.config,
            svm: self.readout.search(),
            memory: session.memory / workers as u64,
        };
        let results = parallel::for_each_job(&open, workers, |&fold| {
            self.fold(&plan, &folds, fold, &progress, stop)
        });
        progress.finish();
        let mut records = done;
        records.extend(results?.into_iter().flatten());
        records.sort_by_key(|record| record.fold);
        let report = Report {
            dataset: &self.dataset,
            out: self.out.as_deref(),
            checksum: dataset.manifest().checksum(),
            folds: self.folds,
            workers,
            seconds: clock.elapsed().as_secs_f64(),
            records: &records,
        };
        let value = report.as_json(session.threads);
        if let Some(out) = &self.out {
            run::write(&out.join(crossval_report::FIGURES), &format!("{value:#}\n"))?;
        }
        match session.json {
            true => session.print_json(&value)?,
            false => session.print(&report.as_text())?,
        }
        if records.len() < self.folds {
            return Ok(Outcome::Stopped);
        }
        Ok(if records.iter().all(|record| record.converged) {
            Outcome::Done
        } else {
            Outcome::Missed
        })
    }

    /// Folds beside each other where a batch is too small for several threads.
    fn workers(&self, session: &Session, folds: &Folds) -> Result<usize> {
        let task =
            Task::with_graphs(Dataset::open(&self.dataset)?, &self.config, Some(folds.parts(0)))?;
        let is_small = task.nodes_at_once(&self.config) < NODES_FOR_ALL_THREADS;
        Ok(if is_small { session.threads.clamp(1, self.folds) } else { 1 })
    }

    fn fold(
        &self,
        plan: &Plan<'_>,
        folds: &Folds,
        fold: usize,
        progress: &crossval_report::Progress,
        stop: &AtomicBool,
    ) -> Result<Option<FoldRecord>> {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let place = self.out.as_ref().map(|out| crossval_report::fold_place(out, fold));
        let lines = match &place {
            Some(place) => {
                fs::create_dir_all(place).map_err(FormatError::io("create", place))?;
                Some(JsonLines::create(&place.join(run::METRICS))?)
            }
            None => None,
        };
        let mut observer = Told { lines, progress, fold };
        let Folded::Finished(record, model) =
            plan.fold(fold, folds.parts(fold), &mut observer, stop)?
        else {
            return Ok(None);
        };
        if let Some(place) = &place {
            model.write(&place.join(predict::MODEL))?;
            write_record(place, &record)?;
        }
        progress.fold(&record);
        Ok(Some(*record))
    }
}

/// Last: a fold with this file is done.
fn write_record(place: &Path, record: &FoldRecord) -> Result<()> {
    let text = serde_json::to_string_pretty(record)?;
    run::write(&place.join(crossval_report::FOLD), &format!("{text}\n"))
}

/// Who is told of an epoch of a fold.
struct Told<'a> {
    lines: Option<JsonLines>,
    progress: &'a crossval_report::Progress,
    fold: usize,
}

impl Observer for Told<'_> {
    fn epoch(&mut self, record: &EpochRecord) -> ignn_format::Result<()> {
        self.progress.epoch();
        self.lines.as_mut().map_or(Ok(()), |lines| lines.epoch(record))
    }

    fn note(&mut self, text: &str) -> ignn_format::Result<()> {
        self.progress.note(self.fold, text);
        Ok(())
    }
}
