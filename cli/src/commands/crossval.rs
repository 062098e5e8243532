//! `ignn crossval`: turns options into a [`Crossval`], runs it and prints the figures.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use ignn::run::{Crossval, CrossvalSetup, FoldObserver, FoldReadout};
use ignn::train::EpochRecord;
use ignn::train::crossval::FoldRecord;
use ignn::train::folds::FEWEST;

use crate::options::settings::TrainingSettings;
use crate::options::verification::Verification;
use crate::terminal::crossval_report::{self, CrossvalReport};
use crate::terminal::job_progress::JobProgress;
use crate::terminal::messages;
use crate::terminal::notes::Notes;
use crate::{Outcome, Session};

/// Number of folds by default.
const FOLDS: u16 = 10;

/// Cross-validate on the graphs of a dataset, or on the labelled nodes of one graph
///
/// Graphs, or nodes, are divided into stratified folds, shuffled by --seed: each fold has its share of
/// every class, or of small and large numbers. Each fold trains its own model, which is tested on the
/// items of the fold. Its epoch is chosen on those of the next fold, and it is trained on all others.
/// The result is the test accuracy (numbers: R2, with RMSE and MAE) by three protocols, each
/// with mean and standard deviation (n - 1) over folds: at the epoch chosen on validation, which is
/// the fair figure; at the epoch with the best mean test accuracy, as in the GIN paper; and at the
/// best test epoch of each fold, as in the published code of the IGNN paper. The last two select on
/// the test parts and are for comparison with papers only.
///
/// On small graphs, several folds are trained at a time with one thread each, as many as --threads
/// and --memory allow; on large ones, one fold after another on all threads. The figures are the
/// same to the bit. With --out, the directory holds config.toml (resolved), folds.csv (the fold of
/// each graph), crossval.json (figures), and for each fold metrics.jsonl, fold.json and
/// model.safetensors. Ctrl-C stops after the current epochs; finished folds are kept there, and
/// --resume trains the others.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn ingest tu MUTAG --normalise none --out mutag.ignn
  ignn crossval mutag.ignn --preset graphs --out runs/mutag
  ignn crossval mutag.ignn --preset graphs --readout svm --epochs 0
  ignn crossval homes.ignn --folds 5 --set model.dropout=0
  ignn crossval --resume runs/mutag")]
pub struct Command {
    /// The dataset: many graphs with labels, or one with labelled nodes; its splits are not used
    #[arg(value_name = "DATASET", required_unless_present = "resume")]
    dataset: Option<PathBuf>,

    /// Number of folds [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(FEWEST as i64..))]
    folds: Option<u16>,

    #[command(flatten)]
    settings: TrainingSettings,

    /// What predicts the class of a graph
    #[arg(long, value_enum, default_value_t = Readout::Model)]
    readout: Readout,

    /// The directory to write to
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Continue an interrupted cross-validation: train the folds that are not finished; DATASET is
    /// needed only if it has moved
    #[arg(long, value_name = "DIR")]
    #[arg(conflicts_with_all = [
        "folds", "preset", "config", "sets", "epochs", "readout", "out", "csv_safe", "force",
    ])]
    resume: Option<PathBuf>,

    /// Put a single quote before ids in folds.csv that a spreadsheet would run as a formula
    #[arg(long, requires = "out")]
    csv_safe: bool,

    /// Replace an existing directory of a cross-validation, once the first fold is finished
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    verification: Verification,
}

/// What predicts classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Readout {
    /// The model's own readout
    Model,
    /// Also a support vector machine on the pooled embeddings, with an RBF kernel
    Svm,
    /// The same with a linear kernel
    SvmLinear,
}

impl From<Readout> for FoldReadout {
    fn from(readout: Readout) -> Self {
        match readout {
            Readout::Model => Self::Model,
            Readout::Svm => Self::Svm,
            Readout::SvmLinear => Self::SvmLinear,
        }
    }
}

impl Command {
    /// Trains the folds and prints the figures.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let notes = Notes::new(session.quiet);
        let crossval = session.agree(self.crossval(session, &notes))?.memory(session.memory);
        let crossval = crossval.on_ranks(Arc::clone(&session.ranks));
        let (folds, epochs) = (crossval.open_folds().len(), crossval.config().train.epochs);
        let progress = FoldProgress(JobProgress::new(session.quiet, "fold", folds, epochs, &notes));
        let result = crossval.train(&progress, messages::ask_to_stop());
        progress.0.clear();
        let (summary, records) = result?;
        if session.json {
            let mut value = summary.to_json();
            value["notes"] = notes.all().into();
            session.print_json(&value)?;
        } else {
            // Stopped before its first fold, it has not replaced another.
            let is_kept = !self.force || !records.is_empty();
            let out = self.resume.as_deref().or(self.out.as_deref()).filter(|_| is_kept);
            let report = CrossvalReport { summary: &summary, records: &records, out };
            session.print(&report.as_text())?;
        }
        if records.len() < summary.folds_asked_for {
            return Ok(Outcome::Stopped);
        }
        let has_converged = records.iter().all(|record| record.converged);
        Ok(if has_converged { Outcome::Done } else { Outcome::Missed })
    }

    fn crossval(&self, session: &Session, notes: &Notes) -> Result<Crossval> {
        if let Some(directory) = &self.resume {
            session.refuse_seed()?;
            let crossval = match &self.dataset {
                Some(dataset) => Crossval::resume_on(directory, dataset)?,
                None => Crossval::resume(directory)?,
            };
            self.verification.of(crossval.graph())?;
            return Ok(crossval);
        }
        let Some(dataset) = &self.dataset else { bail!("DATASET is needed") };
        let config = self.settings.resolve(session)?;
        let folds = usize::from(self.folds.unwrap_or(FOLDS));
        let (readout, csv_safe) = (self.readout.into(), self.csv_safe);
        let setup = CrossvalSetup { folds, readout, csv_safe };
        let graph = self.verification.open(dataset)?;
        self.settings.note_unused(session, &graph, notes)?;
        let crossval = Crossval::new(graph, config, setup);
        Ok(match &self.out {
            Some(out) => crossval.in_directory(out, self.force),
            None => crossval,
        })
    }
}

/// Shows the folds' progress.
struct FoldProgress<'a>(JobProgress<'a>);

impl FoldObserver for FoldProgress<'_> {
    fn epoch(&self, _fold: usize, _record: &EpochRecord) {
        self.0.epoch();
    }

    fn note(&self, fold: usize, text: &str) {
        self.0.note(fold as u64, text);
    }

    fn finished(&self, record: &FoldRecord) {
        let epochs = record.curve.last().map_or(0, |point| point.epoch);
        self.0.finished(record.fold as u64, epochs, &crossval_report::in_short(record));
    }
}
