//! Predictions and embeddings as tables in files: one row per node or graph, with its original id.
//! The columns are described in `docs/cli.md` under `ignn predict`.

use std::path::Path;

use ignn_format::Result;
use ignn_format::storage::{ANY_FILE, Kind};

use super::table::{Cell, ColumnKind, TableTarget, TableWriter, check_made};
use crate::dense::MatrixRef;
use crate::graph::{Graph, Graphs, IdRef, Ids, LabelKind};
use crate::predict::{
    Embeddings, Item, PredictError, Predictions, SolvedModel, predicted_classes, probabilities,
    ranked_classes,
};

/// With more classes than this, the probabilities of single classes are not written as columns.
const MOST_COLUMNS: usize = 32;

/// Tables of predictions, which `--force` may replace.
pub static PREDICTIONS: Kind = Kind {
    check: |path| {
        check_made(path, "a table of predictions", |columns| match after_ids(columns) {
            ["predicted", "probability" | "probabilities", rest @ ..] => are_classes(rest),
            ["predicted"] | ["predicted", "error_bound"] => true,
            _ => false,
        })
    },
};

/// Tables of embeddings, which `--force` may replace.
pub static EMBEDDINGS: Kind = Kind {
    check: |path| {
        check_made(path, "a table of embeddings", |columns| are_numbered(after_ids(columns)))
    },
};

/// Whether columns are `x0`, `x1`, ..., one or more.
pub fn are_numbered(columns: &[&str]) -> bool {
    let is_next = |(at, column): (usize, &&str)| *column == format!("x{at}");
    !columns.is_empty() && columns.iter().enumerate().all(is_next)
}

/// Whether columns are those of classes: `p_CLASS`, ...; or `class_1`, `probability_1`, ...
fn are_classes(columns: &[&str]) -> bool {
    let of_top = |(at, column): (usize, &&str)| {
        let what = if at % 2 == 0 { "class" } else { "probability" };
        *column == format!("{what}_{}", at / 2 + 1)
    };
    columns.iter().all(|column| column.starts_with("p_")) || columns.iter().enumerate().all(of_top)
}

/// The columns after those of [`IdColumns`]; none where these are missing.
fn after_ids<'a>(columns: &'a [&'a str]) -> &'a [&'a str] {
    match columns {
        ["graph", "id", rest @ ..] | ["graph" | "id", rest @ ..] => rest,
        _ => &[],
    }
}

/// The columns that say which node or graph a row is about: `graph` in a collection, and `id` for
/// nodes.
pub struct IdColumns {
    /// Ids of nodes; `None` if graphs are predicted.
    ids: Option<Ids>,
    graphs: Option<Graphs>,
}

impl IdColumns {
    /// Reads the ids.
    pub fn of(graph: &Graph, item: Item) -> Result<Self> {
        let ids = match item {
            Item::Node => Some(graph.ids()?),
            Item::Graph => None,
        };
        Ok(Self { ids, graphs: graph.collection()? })
    }

    /// Names and kinds.
    pub fn columns(&self) -> Vec<(String, ColumnKind)> {
        let graph = self.graphs.as_ref().map(|_| ("graph".to_string(), ColumnKind::Text));
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

    /// The cells of an item.
    pub fn cells(&self, item: u32) -> Vec<Cell<'_>> {
        let graph = self.graphs.as_ref().map(|graphs| {
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

/// Turns logits into rows of a table of predictions.
pub struct PredictionRows<'a> {
    /// Names of the classes, one per logit.
    pub classes: &'a [String],
    /// Whether an item has one class or a set of them.
    pub labels: LabelKind,
    /// The number of most probable classes to write, instead of one column per class.
    pub top: Option<usize>,
    /// Which item a row is about.
    pub ids: &'a IdColumns,
    /// The solved model, which knows the unit of numbers and bounds their errors.
    pub solved: &'a SolvedModel,
}

impl PredictionRows<'_> {
    /// Columns of a regression.
    fn number_columns(&self) -> Vec<(String, ColumnKind)> {
        let bound = self.solved.bounds_numbers().then_some("error_bound");
        let names = ["predicted"].into_iter().chain(bound);
        names.map(|name| (name.into(), ColumnKind::Double)).collect()
    }

    fn top(&self) -> usize {
        self.top.unwrap_or(0).min(self.classes.len())
    }

    fn has_all(&self) -> bool {
        self.top.is_none() && self.classes.len() <= MOST_COLUMNS
    }

    /// Names and kinds.
    pub fn columns(&self) -> Vec<(String, ColumnKind)> {
        let mut columns = self.ids.columns();
        columns.extend(match self.labels {
            LabelKind::Number => {
                columns.extend(self.number_columns());
                return columns;
            }
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
            let all = self.classes.iter();
            columns.extend(all.map(|class| (format!("p_{class}"), ColumnKind::Float)));
        }
        columns
    }

    /// Writes the rows of some items from their logits, one row each, with bounds of the errors of
    /// numbers where there are any ([`SolvedModel::number_errors`]).
    pub fn write(
        &self,
        table: &mut TableWriter,
        items: &[u32],
        logits: MatrixRef<'_>,
        errors: Option<&[f64]>,
    ) -> Result<()> {
        let name = |class: usize| self.classes[class].as_str();
        let (mut probability, mut order) = (Vec::new(), Vec::new());
        for (row, &item) in items.iter().enumerate() {
            let logits = logits.row(row);
            if let Some(number) = self.solved.number(logits) {
                let mut cells = self.ids.cells(item);
                cells.push(Cell::Double(number));
                cells.extend(errors.map(|errors| Cell::Double(errors[row])));
                table.row(&cells)?;
                continue;
            }
            probabilities(self.labels, logits, &mut probability);
            let predicted = predicted_classes(self.labels, logits);
            let names: Vec<&str> = predicted.iter().map(|&class| name(class)).collect();
            let likely: Vec<f32> = predicted.iter().map(|&class| probability[class]).collect();
            let mut cells = self.ids.cells(item);
            cells.extend(match self.labels {
                LabelKind::Single => [Cell::Text(names[0]), Cell::Float(likely[0])],
                LabelKind::Multi | LabelKind::Number => {
                    [Cell::Texts(&names), Cell::Floats(&likely)]
                }
            });
            for &class in ranked_classes(logits, self.top(), &mut order) {
                let class = class as usize;
                cells.extend([Cell::Text(name(class)), Cell::Float(probability[class])]);
            }
            if self.has_all() {
                cells.extend(probability.iter().map(|&probability| Cell::Float(probability)));
            }
            table.row(&cells)?;
        }
        Ok(())
    }
}

/// A table of embeddings of this width under a temporary name; call [`TableWriter::finish`] to give
/// it its own.
pub fn embedding_table(target: TableTarget, ids: &IdColumns, width: usize) -> Result<TableWriter> {
    let mut columns = ids.columns();
    columns.extend((0..width).map(|column| (format!("x{column}"), ColumnKind::Float)));
    TableWriter::create(target, &columns)
}

/// Adds the embeddings of some items, one row of `states` for each.
pub fn write_embeddings(
    table: &mut TableWriter,
    ids: &IdColumns,
    items: &[u32],
    states: MatrixRef<'_>,
) -> Result<()> {
    for (row, &item) in items.iter().enumerate() {
        let mut cells = ids.cells(item);
        cells.extend(states.row(row).iter().map(|&x| Cell::Float(x)));
        table.row(&cells)?;
    }
    Ok(())
}

impl Predictions {
    /// Writes the table that `ignn predict` writes: original id, predicted class, its probability,
    /// and the probability of every class; of a regression the number, and a bound of its error.
    /// The extension chooses the format: `.parquet`, `.csv` or `.tsv`. An existing file is
    /// replaced, once the new one is complete.
    ///
    /// ```
    /// use ignn::prelude::*;
    ///
    /// # let graph = GraphBuilder::new(4)
    /// #     .edges([(0, 1), (2, 3)])
    /// #     .features(1, vec![1.0, 1.0, -1.0, -1.0])
    /// #     .classes(["a", "b"], (0..4).map(|node| Some(node / 2)))
    /// #     .split([0, 2], [], [1, 3])
    /// #     .build()?;
    /// # let mut config = Config::default();
    /// # (config.model.state, config.train.epochs) = (vec![4], 20);
    /// # let model = Trainer::new(&graph, config)?.fit()?.model;
    /// # let directory = tempfile::tempdir()?;
    /// # let file = directory.path().join("predictions.csv");
    /// model.predict(&graph)?.write(&file)?;
    /// let text = std::fs::read_to_string(&file)?;
    /// assert_eq!(text.lines().next(), Some("id,predicted,probability,p_a,p_b"));
    /// assert_eq!(text.lines().count(), 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write(&self, file: impl AsRef<Path>) -> Result<(), PredictError> {
        let ids = IdColumns::of(self.graph(), self.item())?;
        let (classes, labels) = (self.classes(), self.label_kind());
        let rows = PredictionRows { classes, labels, top: None, ids: &ids, solved: self.solved() };
        let target = TableTarget::claim(file.as_ref(), Some(&ANY_FILE))?;
        let mut table = TableWriter::create(target, &rows.columns())?;
        let items: Vec<u32> = (0..self.len() as u32).collect();
        let errors = self.solved().number_errors(&items);
        rows.write(&mut table, &items, self.logits(), errors.as_deref())?;
        Ok(table.finish()?)
    }
}

impl Embeddings {
    /// Writes one row per item: original id, then one column per dimension, `x0`, `x1`, ... The
    /// extension chooses the format: `.parquet`, `.csv` or `.tsv`. An existing file is replaced,
    /// once the new one is complete.
    pub fn write(&self, file: impl AsRef<Path>) -> Result<(), PredictError> {
        let ids = IdColumns::of(self.graph(), self.item())?;
        let items: Vec<u32> = (0..self.view().rows() as u32).collect();
        let target = TableTarget::claim(file.as_ref(), Some(&ANY_FILE))?;
        let mut table = embedding_table(target, &ids, self.view().cols())?;
        write_embeddings(&mut table, &ids, &items, self.view())?;
        Ok(table.finish()?)
    }
}
