//! `ignn predict`: writes the predictions of a model for the nodes, or graphs, of a dataset, with
//! the original ids. The library solves and scores; this module writes the rows.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use ignn::dense::MatrixRef;
use ignn::metrics::predicted_class;
use ignn::models::Model;
use ignn::predict::{Evaluation, Item, Parts, Prediction, Truth, probabilities, ranked_classes};
use ignn::report::quantity::plural;
use ignn::report::table::{Cell, ColumnKind, TableWriter};
use ignn_format::graphs::Graphs;
use ignn_format::ids::{IdRef, Ids};
use ignn_format::labels::LabelKind;
use ignn_ingest::{Observer, Unit};
use serde_json::json;

use crate::terminal::on_dataset::{ModelArgs, Opened, Standing};
use crate::terminal::progress::Console;
use crate::terminal::score_tables;
use crate::{Outcome, Session};

/// With more classes than this, the probabilities of single classes are not written as columns.
const MOST_COLUMNS: usize = 32;

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
#[derive(Debug, Args)]
#[command(after_help = "\
Columns:
  graph            id of the graph, if the dataset has many graphs
  id               id of the node as in the raw files; absent if graphs are predicted
  predicted        the class; multi-label: list of the classes with probability 0.5 or more
  probability      its probability; multi-label: `probabilities`, a list like `predicted`
  p_CLASS, ...     probability of every class, for at most 32 classes and without --top
  class_1, probability_1, ...    with --top K: the K most probable classes, best first
In text files, lists are JSON: [\"a\",\"b\"].

Examples:
  ignn predict cora.ignn --model runs/cora --out predictions.parquet
  ignn predict cora.ignn --model runs/cora --out test.csv --split test --top 3
  ignn predict other.ignn --model runs/cora/model.safetensors --out p.parquet --certified
  ignn predict cora.ignn --model runs/cora --embeddings states.parquet

In Python: pandas.read_parquet(\"predictions.parquet\")")]
pub struct Command {
    #[command(flatten)]
    model: ModelArgs,

    /// Write predictions to this file
    #[arg(long, value_name = "FILE", required_unless_present = "embeddings")]
    out: Option<PathBuf>,

    /// Write embeddings to this file: id, x0, x1, ..., the state that the read-out sees
    #[arg(long, value_name = "FILE")]
    embeddings: Option<PathBuf>,

    /// Predict only one part of the split that the model was trained on, or SPLIT:PART of another
    #[arg(long, value_name = "PART")]
    split: Option<String>,

    /// Write the K most probable classes instead of one column per class
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..))]
    top: Option<u16>,

    /// Write nothing and exit with 1 unless the solution is certified to be unique on this graph
    #[arg(long)]
    certified: bool,

    /// Replace existing files
    #[arg(long)]
    force: bool,
}

/// What `predict` did.
struct Report {
    standing: Standing,
    written: Vec<(PathBuf, u64)>,
    evaluation: Option<Evaluation>,
    is_refused: bool,
}

impl Command {
    /// Solves, writes and prints.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let console = Console::new(session.quiet);
        let result = self.predict(&console);
        // After an error too: the progress bar must be gone before the message.
        console.finish();
        let report = result?;
        if session.json {
            session.print_json(&report.as_json()?)?;
        } else {
            session.print(&report.as_text())?;
        }
        Ok(if report.is_refused { Outcome::Missed } else { report.standing.outcome() })
    }

    fn predict(&self, console: &Console) -> Result<Report> {
        // Refuse whatever can be refused before the long work.
        let files: Vec<&PathBuf> = [&self.out, &self.embeddings].into_iter().flatten().collect();
        for file in &files {
            TableWriter::accepts(file, self.force)?;
        }
        if let [out, embeddings] = files[..]
            && out == embeddings
        {
            bail!("{}: named twice: each table needs its own file", out.display());
        }
        let opened = self.model.open()?;
        let usual = &opened.model.config.train.split;
        let parts = match &self.split {
            Some(asked) => Parts::only(opened.choice(), asked, usual)?,
            None => Parts::of(opened.choice(), None, usual)?,
        };
        let truth = truth(&opened, console)?;
        let operators = opened.operators(console)?;
        let (predictor, mut standing) = opened.predictor(&operators, console)?;
        if self.certified && standing.is_certified != Some(true) {
            return Ok(Report {
                standing,
                written: Vec::new(),
                evaluation: None,
                is_refused: true,
            });
        }
        let prediction = opened.solve(predictor, &mut standing, console)?;
        let items: Vec<u32> = match self.split {
            Some(_) => parts.parts[0].items.clone(),
            None => (0..prediction.states().rows() as u32).collect(),
        };
        console.phase("write", Some(items.len() as u64), Unit::Items("rows"));
        let written = self.write(&opened, &prediction, &items, console)?;
        let score = |truth| {
            console.phase("score", None, Unit::Items("rows"));
            Evaluation::of(&prediction, opened.item, &truth, &parts)
        };
        let evaluation = truth.map(score).transpose()?;
        Ok(Report { standing, written, evaluation, is_refused: false })
    }

    fn write(
        &self,
        opened: &Opened,
        prediction: &Prediction,
        items: &[u32],
        console: &Console,
    ) -> Result<Vec<(PathBuf, u64)>> {
        let keys = Keys::of(opened)?;
        let rows = items.len() as u64;
        let (mut tables, mut written) = (Vec::new(), Vec::new());
        if let Some(file) = &self.out {
            let rows_of =
                Rows { model: &opened.model, top: self.top.map(usize::from), keys: &keys };
            let mut table = TableWriter::create(file, &rows_of.columns(), self.force)?;
            prediction.each_chunk(items, |items, logits| -> Result<()> {
                rows_of.write(&mut table, items, logits)?;
                console.advance(items.len() as u64);
                Ok(())
            })?;
            tables.push(table);
            written.push((file.clone(), rows));
        }
        if let Some(file) = &self.embeddings {
            tables.push(embeddings(file, &keys, prediction.states(), items, self.force)?);
            written.push((file.clone(), rows));
        }
        tables.into_iter().try_for_each(TableWriter::finish)?;
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

/// Turns predictions into rows of a table.
struct Rows<'a> {
    model: &'a Model,
    top: Option<usize>,
    keys: &'a Keys<'a>,
}

impl Rows<'_> {
    fn top(&self) -> usize {
        self.top.unwrap_or(0).min(self.model.classes.len())
    }

    fn has_all(&self) -> bool {
        self.top.is_none() && self.model.classes.len() <= MOST_COLUMNS
    }

    fn columns(&self) -> Vec<(String, ColumnKind)> {
        let mut columns = self.keys.columns();
        columns.extend(match self.model.labels {
            LabelKind::Single => {
                [("predicted".into(), ColumnKind::Text), ("probability".into(), ColumnKind::Float)]
            }
            LabelKind::Multi => [
                ("predicted".into(), ColumnKind::Texts),
                ("probabilities".into(), ColumnKind::Floats),
            ],
        });
        for k in 1..=self.top() {
            columns.push((format!("class_{k}"), ColumnKind::Text));
            columns.push((format!("probability_{k}"), ColumnKind::Float));
        }
        if self.has_all() {
            let all = self.model.classes.iter();
            columns.extend(all.map(|class| (format!("p_{class}"), ColumnKind::Float)));
        }
        columns
    }

    fn write(&self, table: &mut TableWriter, items: &[u32], logits: MatrixRef<'_>) -> Result<()> {
        let name = |class: u32| self.model.classes[class as usize].as_str();
        let (mut probability, mut predicted, mut order) = (Vec::new(), Vec::new(), Vec::new());
        for (row, &item) in items.iter().enumerate() {
            let logits = logits.row(row);
            probabilities(self.model.labels, logits, &mut probability);
            predicted.clear();
            match self.model.labels {
                LabelKind::Single => predicted.push(predicted_class(logits) as u32),
                LabelKind::Multi => {
                    let likely = (0..).zip(logits).filter(|(_, logit)| **logit >= 0.0);
                    predicted.extend(likely.map(|(class, _)| class));
                }
            }
            let names: Vec<&str> = predicted.iter().map(|&class| name(class)).collect();
            let likely: Vec<f32> =
                predicted.iter().map(|&class| probability[class as usize]).collect();
            let mut cells = self.keys.cells(item);
            cells.extend(match self.model.labels {
                LabelKind::Single => [Cell::Text(names[0]), Cell::Float(likely[0])],
                LabelKind::Multi => [Cell::Texts(&names), Cell::Floats(&likely)],
            });
            for &class in ranked_classes(logits, self.top(), &mut order) {
                cells.extend([Cell::Text(name(class)), Cell::Float(probability[class as usize])]);
            }
            if self.has_all() {
                cells.extend(probability.iter().map(|&probability| Cell::Float(probability)));
            }
            table.row(&cells)?;
        }
        Ok(())
    }
}

/// The table of states, complete but not yet renamed to its final name.
fn embeddings(
    file: &Path,
    keys: &Keys<'_>,
    states: MatrixRef<'_>,
    items: &[u32],
    force: bool,
) -> Result<TableWriter> {
    let mut columns = keys.columns();
    columns.extend((0..states.cols()).map(|column| (format!("x{column}"), ColumnKind::Float)));
    let mut table = TableWriter::create(file, &columns, force)?;
    for &item in items {
        let mut cells = keys.cells(item);
        cells.extend(states.row(item as usize).iter().map(|&x| Cell::Float(x)));
        table.row(&cells)?;
    }
    Ok(table)
}

/// The ids of what is predicted.
struct Keys<'a> {
    /// Ids of nodes; none if graphs are predicted.
    ids: Option<Ids>,
    graphs: Option<&'a Graphs>,
}

impl<'a> Keys<'a> {
    fn of(opened: &'a Opened) -> Result<Self> {
        let ids = match opened.item {
            Item::Node => Some(opened.dataset.directory().ids()?),
            Item::Graph => None,
        };
        Ok(Self { ids, graphs: opened.graphs.as_ref() })
    }

    fn columns(&self) -> Vec<(String, ColumnKind)> {
        let graph = self.graphs.map(|_| ("graph".to_string(), ColumnKind::Text));
        let id = self.ids.as_ref().map(|ids| {
            let kind = match ids.integers() {
                Some(ids) if ids.iter().any(|&id| id > i64::MAX as u64) => ColumnKind::Wide,
                Some(_) => ColumnKind::Integer,
                None => ColumnKind::Text,
            };
            ("id".to_string(), kind)
        });
        graph.into_iter().chain(id).collect()
    }

    fn cells(&self, item: u32) -> Vec<Cell<'_>> {
        let graph = self.graphs.map(|graphs| {
            let graph = match self.ids {
                // The last graph that starts at or before the node.
                Some(_) => graphs.first_node.partition_point(|&first| first <= u64::from(item)) - 1,
                None => item as usize,
            };
            Cell::Text(&graphs.ids[graph])
        });
        let id = self.ids.as_ref().map(|ids| match ids.get(item as usize) {
            IdRef::Integer(id) => Cell::Integer(id),
            IdRef::String(id) => Cell::Text(id),
        });
        graph.into_iter().chain(id).collect()
    }
}

impl Report {
    fn as_text(&self) -> String {
        let mut tables = vec![self.standing.as_text()];
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
        let mut value = serde_json::to_value(&self.standing)?;
        let file = |(file, rows): &(PathBuf, u64)| json!({ "file": file, "rows": rows });
        value["files"] = self.written.iter().map(file).collect();
        let evaluation = self.evaluation.as_ref().map(score_tables::as_json).transpose()?;
        value["evaluation"] = json!(evaluation);
        Ok(value)
    }
}
