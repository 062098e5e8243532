//! `ignn predict`: what a model says of the nodes, or graphs, of a dataset, in tables with the
//! original ids. It lays rows out; the equilibrium and the scores are the library's.

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

/// With more classes than this, probabilities of all of them are no columns any more.
const MOST_COLUMNS: usize = 32;

/// Predict the nodes, or graphs, of a dataset with a trained model
///
/// Solves the model's equilibrium on the dataset's graph and writes a row a node, under the ids of
/// the raw files; a model of graphs, as `ignn crossval` writes them, a row a graph. The file's
/// ending chooses the form: .parquet, .tsv or .csv. Files appear when they are complete.
///
/// The dataset need not be the one that the model was trained on, if its features have the same
/// columns (a model of learned features knows only its own nodes). Whether the equation has exactly
/// one equilibrium is checked with the bound of this graph, of many graphs with each one's own;
/// where it is not certain a note says so, and --certified refuses. Where the dataset has labels,
/// scores are printed. A solve that did not converge writes its files all the same, and ends with
/// exit code 1.
#[derive(Debug, Args)]
#[command(after_help = "\
Columns:
  graph            where the dataset has many graphs: its id
  id               of the node, as in the raw files: integers or text; not where graphs are predicted
  predicted        the class; for sets of labels the list of those of probability 0.5 or more
  probability      of that class; for sets `probabilities`, a list as long as `predicted`
  p_CLASS, ...     probability of every class, where there are at most 32 and no --top
  class_1, probability_1, ...    with --top K: the K most probable classes, best first
Lists are JSON in text files: [\"a\",\"b\"].

Examples:
  ignn predict cora.ignn --model runs/cora --out predictions.parquet
  ignn predict cora.ignn --model runs/cora --out test.csv --split test --top 3
  ignn predict other.ignn --model runs/cora/model.safetensors --out p.parquet --certified
  ignn predict cora.ignn --model runs/cora --embeddings states.parquet

In Python: pandas.read_parquet(\"predictions.parquet\"), or duckdb.sql(\"from 'predictions.parquet'\")")]
pub struct Command {
    #[command(flatten)]
    model: ModelArgs,

    /// Predictions: the table to write
    #[arg(long, value_name = "FILE", required_unless_present = "embeddings")]
    out: Option<PathBuf>,

    /// States: id, x0, x1, ...: what the read-out sees, a vector a node or graph
    #[arg(long, value_name = "FILE")]
    embeddings: Option<PathBuf>,

    /// Only the nodes, or graphs, of a part of the split that the model was trained on, or of
    /// another: SPLIT:PART
    #[arg(long, value_name = "PART")]
    split: Option<String>,

    /// The K most probable classes of each node, instead of a column a class
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..))]
    top: Option<u16>,

    /// Write nothing unless exactly one equilibrium is certain on this graph; exit code 1 where it
    /// is not
    #[arg(long)]
    certified: bool,

    /// Replace existing files
    #[arg(long)]
    force: bool,
}

/// What was done.
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
        // Also after an error: the bar must be gone before the message.
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
        // Everything that can be refused is, before the work.
        let files: Vec<&PathBuf> = [&self.out, &self.embeddings].into_iter().flatten().collect();
        for file in &files {
            TableWriter::accepts(file, self.force)?;
        }
        if let [out, embeddings] = files[..]
            && out == embeddings
        {
            bail!("{}: named twice: each table needs a file of its own", out.display());
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

/// The labels, where there are some that can be compared; a note where there are others.
fn truth(opened: &Opened, console: &Console) -> Result<Option<Truth>> {
    if !opened.has_labels() {
        return Ok(None);
    }
    match opened.truth(console) {
        Ok(truth) => Ok(Some(truth)),
        // A file that cannot be read is another matter.
        Err(error) if error.downcast_ref::<ignn_format::FormatError>().is_some() => Err(error),
        Err(error) => {
            console.note(&format!("no scores: {error}"));
            Ok(None)
        }
    }
}

/// How predictions become rows.
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

/// The table of states, complete but for its name.
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

/// The user's own names of what is predicted.
struct Keys<'a> {
    /// Of nodes; none where graphs are predicted.
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
                // The last graph that begins at or before the node.
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
            true => tables.push("nothing was written: not certified\n".into()),
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
