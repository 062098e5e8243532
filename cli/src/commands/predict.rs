//! `ignn predict`: writes the predictions of a model for the nodes, or graphs, of a dataset, with
//! the original ids. The library solves and scores; this module writes the rows.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use ignn::graph::LabelKind;
use ignn::predict::{Evaluation, Parts, SolvedModel, Truth};
use ignn::report::predictions::{
    EMBEDDINGS, IdColumns, PREDICTIONS, PredictionRows, embedding_table, write_embeddings,
};
use ignn::report::quantity::plural;
use ignn::report::table::{TableTarget, TableWriter};
use ignn::run::csv::Texts;
use ignn::run::path_text;
use ignn_ingest::{Observer, Unit};
use serde_json::json;

use crate::options::scratch::ScratchArgs;
use crate::terminal::on_dataset::{ModelArgs, ModelReport, Opened};
use crate::terminal::progress::Console;
use crate::terminal::score_tables;
use crate::{Outcome, Session};

/// Predict the nodes or graphs of a dataset with a trained model
///
/// Solves the model's equation on the dataset's graph and writes one row per node, with the ids of
/// the raw files. Models of whole graphs, as `ignn crossval` trains them, write one row per graph.
/// The extension chooses the format: .parquet, .tsv or .csv. Files appear only when they are
/// complete. If the dataset has labels, scores are printed.
///
/// The dataset may be another one than the model was trained on, as long as its features have the
/// same columns. A model with learned features works only on the nodes it was trained on.
///
/// The spectral bound of this graph decides whether the solution is certified to be unique. If it
/// is not, a note says so; with --certified nothing is written. If the solve does not converge, the
/// files are written and the exit code is 1.
///
/// Matrices that do not fit in --memory lie on a disk, in --scratch, which changes the time and not
/// the predictions. If memory does not hold all columns of the state at once, the bound of its
/// error is not tightened.
#[derive(Debug, Args)]
#[command(after_help = "\
Columns:
  graph            id of the graph, if the dataset has many graphs
  id               id of the node as in the raw files; absent if graphs are predicted
  predicted        the class; multi-label: list of the classes with probability 0.5 or more;
                   regression: the number, in the unit of the training data
  error_bound      regression: how far the number can be from that of the exact equilibrium, by
                   the certified error of the state; absent where nothing certifies it. It bounds
                   the error of the computation, not of the model
  probability      its probability; multi-label: `probabilities`, a list like `predicted`
  p_CLASS, ...     probability of every class, for at most 32 classes and without --top
  class_1, probability_1, ...    with --top K: the K most probable classes, best first
In text files, lists are JSON: [\"a\",\"b\"].

Examples:
  ignn predict cora.ignn --model runs/cora --out predictions.parquet
  ignn predict cora.ignn --model runs/cora --out test.csv --part test --top 3
  ignn predict other.ignn --model runs/cora/model.safetensors --out p.parquet --certified
  ignn predict cora.ignn --model runs/cora --embeddings states.parquet

In Python: pandas.read_parquet(\"predictions.parquet\")")]
pub struct Command {
    #[command(flatten)]
    model: ModelArgs,

    /// Write predictions to this file
    #[arg(long, value_name = "FILE", required_unless_present = "embeddings")]
    out: Option<PathBuf>,

    /// Write embeddings to this file: id, x0, x1, ..., the state that the readout sees
    #[arg(long, value_name = "FILE")]
    embeddings: Option<PathBuf>,

    /// Predict only one part of the split, such as test
    #[arg(long, value_name = "PART")]
    part: Option<String>,

    /// Split of the dataset [default: the one the model was trained on]
    #[arg(long, value_name = "NAME")]
    split: Option<String>,

    /// Write the K most probable classes instead of one column per class
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..))]
    top: Option<u16>,

    /// Write nothing and exit with 1 unless the solution is certified to be unique on this graph
    #[arg(long)]
    certified: bool,

    #[command(flatten)]
    scratch: ScratchArgs,

    /// Put a single quote before texts in CSV and TSV that a spreadsheet would run as a formula
    ///
    /// These are ids and names that begin with =, +, -, @, a tab or a line break and are not plain
    /// numbers. Number columns and Parquet files are never changed.
    #[arg(long)]
    csv_safe: bool,

    /// Replace existing files, if they are tables of the same kind
    ///
    /// A Parquet file must have been made by ignn. CSV and TSV files cannot say who made them: they
    /// must have the columns that ignn writes.
    #[arg(long)]
    force: bool,
}

/// Targets, model and dataset, parts, whether only the first is predicted, and labels.
type Prepared = ([Option<TableTarget>; 2], Opened, Parts, bool, Option<Truth>);

/// What `predict` did.
struct Report {
    model: ModelReport,
    written: Vec<(PathBuf, u64)>,
    evaluation: Option<Evaluation>,
    is_refused: bool,
}

impl Command {
    /// Solves, writes and prints.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let console = Console::new(session.quiet);
        let result = self.predict(session, &console);
        // After an error too: the progress bar must be gone before the message.
        console.finish();
        let report = result?;
        if session.json {
            let mut value = report.as_json()?;
            value["notes"] = json!(console.notes());
            session.print_json(&value)?;
        } else {
            session.print(&report.as_text())?;
        }
        Ok(if report.is_refused { Outcome::Missed } else { report.model.outcome() })
    }

    fn predict(&self, session: &Session, console: &Console) -> Result<Report> {
        let (targets, opened, parts, is_one, truth) =
            session.agree(self.prepare(session, console))?;
        let operators = opened.operators(&session.ranks, console)?;
        let (predictor, mut report) = opened.predictor(&operators, console)?;
        if self.certified && report.is_certified != Some(true) {
            return Ok(Report {
                model: report,
                written: Vec::new(),
                evaluation: None,
                is_refused: true,
            });
        }
        opened.note_mixed(&parts, &report, console);
        let prediction = opened.solve(predictor, &mut report, console)?;
        let items: Vec<u32> = match is_one {
            true => parts.parts[0].items.clone(),
            false => (0..prediction.len() as u32).collect(),
        };
        console.phase("write", Some(items.len() as u64), Unit::Items("rows"));
        let written = self.write(session, targets, &opened, &prediction, &items, console)?;
        // The ids, too.
        report.not_verified = opened.dataset.not_verified();
        let score = |truth| {
            console.phase("score", None, Unit::Items("rows"));
            Evaluation::of(&prediction, opened.item, &truth, &parts)
        };
        let evaluation = truth.map(score).transpose()?;
        Ok(Report { model: report, written, evaluation, is_refused: false })
    }

    /// What can be refused before the long work: targets, model and dataset, parts, labels.
    fn prepare(&self, session: &Session, console: &Console) -> Result<Prepared> {
        // Refuse whatever can be refused before the long work.
        if let (Some(out), Some(embeddings)) = (&self.out, &self.embeddings)
            && out == embeddings
        {
            bail!("{}: named twice: each table needs its own file", out.display());
        }
        let texts = Texts::safe_if(self.csv_safe);
        let claim = |file: &Option<PathBuf>, kind| -> Result<Option<TableTarget>> {
            // The first rank writes.
            let Some(file) = file.as_ref().filter(|_| session.ranks.is_first()) else {
                return Ok(None);
            };
            Ok(Some(TableTarget::claim(file, self.force.then_some(kind))?.with_texts(texts)))
        };
        let targets = [claim(&self.out, &PREDICTIONS)?, claim(&self.embeddings, &EMBEDDINGS)?];
        let output = self.out.as_ref().or(self.embeddings.as_ref());
        let directory = self.scratch.directory(output.map(PathBuf::as_path));
        let opened = self.model.open_within(session, &directory, console)?;
        if self.top.is_some() && opened.model.labels == LabelKind::Number {
            let model = opened.model.classes.join("");
            bail!("--top: the model predicts a number, {model:?}, and no classes: leave --top out");
        }
        let (parts, is_one) = self.parts(&opened, console)?;
        let truth = truth(&opened, console)?;
        Ok((targets, opened, parts, is_one, truth))
    }

    /// The parts to score, and whether the first of them is all that is predicted.
    fn parts(&self, opened: &Opened, console: &Console) -> Result<(Parts, bool)> {
        let (choice, usual) = (opened.choice(), opened.model.config.train.split.as_str());
        let Some(split) = &self.split else {
            return Ok(match &self.part {
                Some(part) => (Parts::only(choice, None, part, usual)?, true),
                None => (Parts::of(choice, None, usual)?, false),
            });
        };
        if let Some(part) = &self.part {
            return Ok((Parts::only(choice, Some(split), part, usual)?, true));
        }
        // Earlier versions took PART or SPLIT:PART here.
        let (of, part) = match split.split_once(':') {
            Some((of, part)) => (Some(of), part),
            None => (None, split.as_str()),
        };
        let before = Parts::only(choice, of, part, usual);
        match (Parts::of(choice, Some(split), usual), before) {
            (Ok(_), Ok(_)) => bail!(
                "--split {split}: a split and a part have this name: pass --part {split} for the \
                 part, or --split {split} with --part PART"
            ),
            (Ok(parts), Err(_)) => Ok((parts, false)),
            (Err(_), Ok(parts)) => {
                let of = of.map(|of| format!(" --split {of}")).unwrap_or_default();
                console.note(&format!("--split {split} is a part: write --part {part}{of}"));
                Ok((parts, true))
            }
            (Err(error), Err(_)) => Err(error.into()),
        }
    }

    fn write(
        &self,
        session: &Session,
        [out, embeddings]: [Option<TableTarget>; 2],
        opened: &Opened,
        prediction: &SolvedModel,
        items: &[u32],
        console: &Console,
    ) -> Result<Vec<(PathBuf, u64)>> {
        let ids = session.agree(IdColumns::of(&opened.dataset, opened.item).map_err(Into::into))?;
        let written = |target: &TableTarget| (target.path().to_path_buf(), items.len() as u64);
        let written = [&out, &embeddings].into_iter().flatten().map(written).collect();
        let mut tables = Vec::new();
        if self.out.is_some() {
            let (model, top) = (&opened.model, self.top.map(usize::from));
            let (classes, labels) = (&model.classes[..], model.labels);
            let rows_of = PredictionRows { classes, labels, top, ids: &ids, solved: prediction };
            let table = out.map(|target| TableWriter::create(target, &rows_of.columns()));
            let mut table = session.agree(table.transpose().map_err(Into::into))?;
            prediction.each_chunk(items, |items, logits| -> Result<()> {
                let errors = prediction.number_errors(items);
                if let Some(table) = &mut table {
                    rows_of.write(table, items, logits, errors.as_deref())?;
                }
                console.advance(items.len() as u64);
                Ok(())
            })?;
            tables.extend(table);
        }
        if self.embeddings.is_some() {
            let width = prediction.states().cols();
            let table = embeddings.map(|target| embedding_table(target, &ids, width));
            let mut table = session.agree(table.transpose().map_err(Into::into))?;
            prediction.each_state_chunk(items, |items, states| -> Result<()> {
                if let Some(table) = &mut table {
                    write_embeddings(table, &ids, items, states)?;
                }
                Ok(())
            })?;
            tables.extend(table);
        }
        let finished = tables.into_iter().try_for_each(TableWriter::finish);
        session.agree(finished.map_err(Into::into))?;
        Ok(written)
    }
}

/// The labels, if there are any. Prints a note if they cannot be compared with the model's classes.
fn truth(opened: &Opened, console: &Console) -> Result<Option<Truth>> {
    if !opened.has_labels() {
        return Ok(None);
    }
    match opened.truth(console) {
        Ok(truth) => Ok(Some(truth)),
        // A file that cannot be read is an error.
        Err(error) if error.downcast_ref::<ignn_format::FormatError>().is_some() => Err(error),
        Err(error) => {
            console.note(&format!("no scores: {error}"));
            Ok(None)
        }
    }
}

impl Report {
    fn as_text(&self) -> String {
        let mut tables = vec![self.model.as_text()];
        tables.extend(self.evaluation.as_ref().map(score_tables::parts));
        let line = |(file, rows): &(PathBuf, u64)| {
            format!("{}: {}\n", file.display(), plural(*rows, "row", "rows"))
        };
        match self.is_refused {
            true => tables
                .push("nothing was written: the solution is not certified to be unique\n".into()),
            false => tables.push(self.written.iter().map(line).collect()),
        }
        tables.join("\n")
    }

    fn as_json(&self) -> Result<serde_json::Value> {
        let mut value = serde_json::to_value(&self.model)?;
        let file =
            |(file, rows): &(PathBuf, u64)| json!({ "file": path_text::of(file), "rows": rows });
        value["files"] = self.written.iter().map(file).collect();
        let evaluation = self.evaluation.as_ref().map(score_tables::as_json).transpose()?;
        value["evaluation"] = json!(evaluation);
        Ok(value)
    }
}
