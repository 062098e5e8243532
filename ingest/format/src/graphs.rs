//! A dataset of many graphs: `graphs.parquet` has one row per graph, with its range of nodes, its
//! label and its splits. The edges of all graphs are in the same relations; `ignn check` verifies
//! that no edge connects two graphs.

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field};
use parquet::basic::Encoding;
use parquet::schema::types::ColumnPath;
use serde::{Deserialize, Serialize};

use crate::checksum::WrittenFiles;
use crate::error::{FormatError, Result};
use crate::labels::Labels;
use crate::splits::{self, Split, SplitEntry};
use crate::table::{self, BATCH_ROWS, Table, TableWriter};

/// Name of the file.
pub const GRAPHS: &str = "graphs.parquet";

/// The graphs' part of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphsEntry {
    /// Number of graphs.
    pub count: u64,
    /// Class names of the graph labels, in class order; empty if graphs have no labels.
    pub classes: Vec<String>,
    /// Whether graphs have numbers instead of classes; the only class name is that of the number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub numbers: bool,
    /// Splits over graphs.
    pub splits: Vec<SplitEntry>,
}

/// The graphs of a dataset; graph `g` has the nodes `first_node[g] .. first_node[g + 1]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Graphs {
    /// The user's names of the graphs.
    pub ids: Vec<String>,
    /// Graphs + 1 offsets, non-decreasing, from 0 to the number of nodes.
    pub first_node: Vec<u64>,
    /// Class names; empty if graphs have no labels.
    pub classes: Vec<String>,
    /// Class of each graph, -1 for none; empty if graphs have no classes.
    pub labels: Vec<i32>,
    /// Number of each graph, NaN for none; empty if graphs have no numbers. The name of the number
    /// is the only class name.
    pub numbers: Vec<f64>,
    /// Splits over graphs.
    pub splits: Vec<Split>,
}

impl Graphs {
    /// Number of graphs.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The labels of the graphs, if they have any.
    pub fn item_labels(&self) -> Option<Labels> {
        match (&self.classes[..], self.numbers.is_empty()) {
            ([name], false) => Some(Labels::numbers(name, self.numbers.clone())),
            _ if self.labels.is_empty() => None,
            _ => Some(Labels::Single { classes: self.classes.clone(), of: self.labels.clone() }),
        }
    }

    /// Whether graphs have classes or numbers.
    pub fn has_labels(&self) -> bool {
        !self.labels.is_empty() || !self.numbers.is_empty()
    }

    /// Checks that the ranges of nodes are contiguous from 0 to `nodes` and that labels are
    /// classes.
    fn validate(&self, path: &Path, nodes: u64) -> Result<()> {
        let (first, end) = (self.first_node[0], self.first_node[self.first_node.len() - 1]);
        if first != 0 {
            return Err(FormatError::invalid(path, "first node of graph 0", first, 0));
        }
        if end != nodes {
            return Err(FormatError::invalid(path, "nodes of all graphs", end, nodes));
        }
        if let Some(graph) = self.first_node.windows(2).position(|pair| pair[0] > pair[1]) {
            let expected = format!("at least {}", self.first_node[graph]);
            let what = format!("end of graph {graph}");
            return Err(FormatError::invalid(path, what, self.first_node[graph + 1], expected));
        }
        if let Some(graph) = self.numbers.iter().position(|number| number.is_infinite()) {
            let what = format!("number of graph {graph}");
            let expected = "a finite number";
            return Err(FormatError::invalid(path, what, self.numbers[graph], expected));
        }
        if !self.numbers.is_empty() && self.classes.len() != 1 {
            let found = self.classes.len();
            return Err(FormatError::invalid(path, "names of numbers", found, 1));
        }
        for (graph, class) in self.labels.iter().enumerate() {
            if *class < -1 || i64::from(*class) >= self.classes.len() as i64 {
                let expected = format!("a class below {}", self.classes.len());
                return Err(FormatError::invalid(
                    path,
                    format!("label of graph {graph}"),
                    class,
                    expected,
                ));
            }
        }
        Ok(())
    }
}

/// The column of a split over graphs.
fn split_column(name: &str) -> String {
    format!("split.{name}")
}

/// Writes `graphs.parquet`: columns `id`, `first_node`, `nodes`, `label` (i32, nullable; only if
/// graphs have labels), and `split.<name>` for each split.
pub fn write(dataset: &Path, graphs: &Graphs) -> Result<(GraphsEntry, WrittenFiles)> {
    let path = dataset.join(GRAPHS);
    let count = graphs.len();
    assert_eq!(graphs.first_node.len(), count + 1, "one offset per graph, and the end");
    assert!(graphs.splits.iter().all(|split| split.of.len() == count), "splits of the same graphs");
    let labelled = !graphs.labels.is_empty();
    assert!(!labelled || graphs.labels.len() == count, "one label per graph");
    let numbers = !graphs.numbers.is_empty();
    assert!(!numbers || graphs.numbers.len() == count, "one number per graph");
    assert!(!(labelled && numbers), "classes or numbers");
    graphs.validate(&path, graphs.first_node[count])?;
    if i64::try_from(graphs.first_node[count]).is_err() {
        return Err(FormatError::invalid(
            path,
            "number of nodes",
            graphs.first_node[count],
            "at most 4294967295",
        ));
    }
    let entry = GraphsEntry {
        count: count as u64,
        classes: graphs.classes.clone(),
        numbers,
        splits: splits::entries(&path, &graphs.splits)?,
    };

    let mut fields = vec![
        Field::new("id", DataType::Utf8, false),
        Field::new("first_node", DataType::Int64, false),
        Field::new("nodes", DataType::Int64, false),
    ];
    if has_labels(&entry) {
        fields.push(match numbers {
            true => Field::new("number", DataType::Float64, true),
            false => Field::new("label", DataType::Int32, true),
        });
    }
    fields.extend(graphs.splits.iter().map(|split| splits::field(&split_column(&split.name))));
    let delta = |properties: parquet::file::properties::WriterPropertiesBuilder, column: &str| {
        properties
            .set_column_encoding(ColumnPath::from(column), Encoding::DELTA_BINARY_PACKED)
            .set_column_dictionary_enabled(ColumnPath::from(column), false)
    };
    let properties = delta(delta(table::properties(), "first_node"), "nodes");
    let mut table = TableWriter::create(path, fields, properties)?;
    for rows in table::batches_of(count) {
        let ends = &graphs.first_node[rows.start..=rows.end];
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(&graphs.ids[rows.clone()])),
            Arc::new(Int64Array::from_iter_values(
                ends[..rows.len()].iter().map(|&first| first as i64),
            )),
            Arc::new(Int64Array::from_iter_values(
                ends.windows(2).map(|pair| (pair[1] - pair[0]) as i64),
            )),
        ];
        if numbers {
            let known = graphs.numbers[rows.clone()].iter();
            let known = known.map(|&number| (!number.is_nan()).then_some(number));
            columns.push(Arc::new(Float64Array::from_iter(known)));
        } else if has_labels(&entry) {
            let class = |graph| graphs.labels.get(graph).copied().filter(|class| *class >= 0);
            columns.push(Arc::new(Int32Array::from_iter(rows.clone().map(class))));
        }
        columns.extend(graphs.splits.iter().map(|split| splits::encode(split, rows.clone())));
        table.write(columns)?;
    }
    Ok((entry, vec![table.finish()?]))
}

fn has_labels(entry: &GraphsEntry) -> bool {
    !entry.classes.is_empty()
}

/// Reads and checks `graphs.parquet`.
pub fn read(dataset: &Path, entry: &GraphsEntry, nodes: u64) -> Result<Graphs> {
    let path = dataset.join(GRAPHS);
    let split_columns: Vec<_> =
        entry.splits.iter().map(|split| split_column(&split.name)).collect();
    let mut columns = vec![
        table::column("id", &[DataType::Utf8]),
        table::column("first_node", &[DataType::Int64]),
        table::column("nodes", &[DataType::Int64]),
    ];
    if has_labels(entry) {
        columns.push(match entry.numbers {
            true => table::column("number", &[DataType::Float64]),
            false => table::column("label", &[DataType::Int32]),
        });
    }
    let first_split = columns.len();
    columns.extend(split_columns.iter().map(|name| table::column(name, &[DataType::Utf8])));
    let table = Table::open(&path, &columns, Some(entry.count))?;

    let mut graphs = Graphs {
        ids: Vec::new(),
        first_node: vec![0],
        classes: entry.classes.clone(),
        labels: Vec::new(),
        numbers: Vec::new(),
        splits: entry.splits.iter().map(splits::empty).collect(),
    };
    table.read(None, BATCH_ROWS, |batch| {
        let ids = table.required(batch, 0)?.as_string::<i32>();
        let first = table.required(batch, 1)?.as_primitive::<Int64Type>().values();
        let count = table.required(batch, 2)?.as_primitive::<Int64Type>().values();
        for ((row, first), count) in first.iter().enumerate().zip(count) {
            let graph = graphs.ids.len();
            let begin = graphs.first_node[graph];
            if u64::try_from(*first) != Ok(begin) {
                let what = format!("first node of graph {graph}");
                return Err(FormatError::invalid(&path, what, first, begin));
            }
            let end = u64::try_from(*count).ok().and_then(|count| begin.checked_add(count));
            let end = end.filter(|end| *end <= nodes).ok_or_else(|| {
                let what = format!("nodes of graph {graph}");
                FormatError::invalid(&path, what, count, format!("at most {}", nodes - begin))
            })?;
            graphs.ids.push(ids.value(row).to_string());
            graphs.first_node.push(end);
        }
        if entry.numbers && has_labels(entry) {
            let numbers = batch.column(3).as_primitive::<Float64Type>();
            graphs.numbers.extend(numbers.iter().map(|number| number.unwrap_or(f64::NAN)));
        } else if has_labels(entry) {
            let labels = batch.column(3).as_primitive::<Int32Type>();
            graphs.labels.extend(labels.iter().map(|class| class.unwrap_or(-1)));
        }
        let columns = batch.columns()[first_split..].iter();
        graphs
            .splits
            .iter_mut()
            .zip(columns)
            .try_for_each(|(split, column)| splits::decode(&path, split, column))
    })?;
    table.expect_read(graphs.len())?;
    graphs.validate(&path, nodes)?;
    for (split, entry) in graphs.splits.iter().zip(&entry.splits) {
        splits::check_counts(&path, split, entry)?;
    }
    Ok(graphs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::splits::NO_PART;

    fn graphs() -> Graphs {
        Graphs {
            ids: vec!["a".into(), "b".into(), "c".into()],
            first_node: vec![0, 2, 2, 7],
            classes: vec!["x".into(), "y".into()],
            labels: vec![1, -1, 0],
            numbers: vec![],
            splits: vec![Split {
                name: "default".into(),
                parts: vec!["train".into(), "test".into()],
                of: vec![1, NO_PART, 0],
            }],
        }
    }

    #[test]
    fn round_trips() {
        let unlabelled = Graphs { classes: vec![], labels: vec![], splits: vec![], ..graphs() };
        let none = Graphs { ids: vec![], first_node: vec![0], ..unlabelled.clone() };
        let many = Graphs {
            ids: (0..100_000).map(|i| i.to_string()).collect(),
            first_node: (0..=100_000).map(|i| i * 3).collect(),
            ..unlabelled.clone()
        };
        let numbers = Graphs {
            classes: vec!["energy".into()],
            labels: vec![],
            numbers: vec![-1.5, 0.0, 1e-300],
            ..graphs()
        };
        for graphs in [graphs(), unlabelled, none, many, numbers] {
            let dir = tempfile::tempdir().unwrap();
            let (entry, files) = write(dir.path(), &graphs).unwrap();
            assert_eq!(files[0].1, crate::checksum::of_file(&files[0].0, 0).unwrap());
            let nodes = *graphs.first_node.last().unwrap();
            assert_eq!(read(dir.path(), &entry, nodes).unwrap(), graphs);
        }
    }

    #[test]
    fn wrong_graphs_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let message = |graphs: Graphs| {
            let error = write(dir.path(), &graphs).unwrap_err().to_string();
            error.split_once("graphs.parquet: ").unwrap().1.to_string()
        };
        let falling = Graphs { first_node: vec![0, 4, 2, 7], ..graphs() };
        assert_eq!(message(falling), "end of graph 1 (found 2, expected at least 4)");
        let class = Graphs { labels: vec![1, 2, 0], ..graphs() };
        assert_eq!(message(class), "label of graph 1 (found 2, expected a class below 2)");
        let numbers = vec![0.0, f64::INFINITY, 0.0];
        let infinite = Graphs { labels: vec![], numbers, ..graphs() };
        assert_eq!(message(infinite), "number of graph 1 (found inf, expected a finite number)");

        let (entry, _) = write(dir.path(), &graphs()).unwrap();
        let error = read(dir.path(), &entry, 6).unwrap_err().to_string();
        assert!(error.ends_with("nodes of graph 2 (found 5, expected at most 4)"), "{error}");
        let error = read(dir.path(), &entry, 8).unwrap_err().to_string();
        assert!(error.ends_with("nodes of all graphs (found 7, expected 8)"), "{error}");
    }
}
