//! Node labels and class names: `labels.parquet` (one row per node) and `classes.parquet` (one row
//! per class).

use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int32Array, ListArray, StringArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field};
use serde::{Deserialize, Serialize};

use crate::checksum::WrittenFiles;
use crate::error::{FormatError, Result};
use crate::names;
use crate::table::{self, BATCH_ROWS, Table, TableWriter};

/// Name of the file of labels.
pub const LABELS: &str = "labels.parquet";
/// Name of the file of class names.
pub const CLASSES: &str = "classes.parquet";

/// The labels' part of the manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabelsEntry {
    /// One class per node, sets, or numbers.
    pub kind: LabelKind,
    /// Number of classes; 1 for numbers.
    pub classes: u64,
    /// Nodes with at least one label.
    pub labelled: u64,
}

/// One label per node, sets of labels, or a number per node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelKind {
    /// Column `label`: i32, null for none.
    Single,
    /// Column `labels`: list of i32, ascending, null for none. An empty list is a label as well: the
    /// node is known to have no class. In files whose column is not nullable an empty list means that
    /// the node is not labelled.
    Multi,
    /// Column `number`: f64, finite, null for none. The only class name is that of the number.
    Number,
}

/// Labels of all nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    /// One class per node; -1 for none.
    Single {
        /// Class names, in class order.
        classes: Vec<String>,
        /// Class of each node, or -1.
        of: Vec<i32>,
    },
    /// One set per node: classes `offsets[i] .. offsets[i + 1]` of `of`, ascending. Empty for a node
    /// that is not labelled, and for one that is known to have no class.
    Multi {
        /// Class names, in class order.
        classes: Vec<String>,
        /// Nodes + 1 offsets.
        offsets: Vec<u64>,
        /// Classes.
        of: Vec<u32>,
        /// Whether each node is labelled.
        labelled: Vec<bool>,
    },
    /// One number per node, to be predicted by regression.
    Number {
        /// What the number is, such as `price`: the name of the only output.
        name: [String; 1],
        /// The number of each node; NaN for none.
        of: Vec<f64>,
    },
}

impl Labels {
    /// Class names, in class order; the name of the number where nodes have numbers.
    pub fn classes(&self) -> &[String] {
        match self {
            Self::Single { classes, .. } | Self::Multi { classes, .. } => classes,
            Self::Number { name, .. } => name,
        }
    }

    /// The kind.
    pub fn kind(&self) -> LabelKind {
        match self {
            Self::Single { .. } => LabelKind::Single,
            Self::Multi { .. } => LabelKind::Multi,
            Self::Number { .. } => LabelKind::Number,
        }
    }

    /// Numbers with a name; NaN for none.
    pub fn numbers(name: impl Into<String>, of: Vec<f64>) -> Self {
        Self::Number { name: [name.into()], of }
    }

    /// Classes whose names are all numbers, as these numbers; numbers as they are. Otherwise what
    /// was found instead, for messages.
    ///
    /// ```
    /// use ignn_format::labels::Labels;
    ///
    /// let classes = vec!["1990".into(), "2005".into()];
    /// let years = Labels::Single { classes, of: vec![1, 0, 1] }.into_numbers();
    /// assert_eq!(years, Ok(Labels::numbers("label", vec![2005.0, 1990.0, 2005.0])));
    /// ```
    pub fn into_numbers(self) -> std::result::Result<Self, String> {
        match self {
            Self::Number { .. } => Ok(self),
            Self::Multi { .. } => Err("sets of classes".into()),
            Self::Single { classes, of } => {
                let number = |name: &String| match name.trim().parse::<f64>() {
                    Ok(number) if number.is_finite() => Ok(number),
                    _ => Err(format!("the class {name:?}")),
                };
                let numbers =
                    classes.iter().map(number).collect::<std::result::Result<Vec<f64>, _>>()?;
                let known = |&class: &i32| {
                    let class = usize::try_from(class).ok()?;
                    numbers.get(class).copied()
                };
                let of = of.iter().map(|class| known(class).unwrap_or(f64::NAN)).collect();
                Ok(Self::numbers("label", of))
            }
        }
    }

    /// Number of nodes, labelled or not.
    pub fn nodes(&self) -> usize {
        match self {
            Self::Single { of, .. } => of.len(),
            Self::Multi { offsets, .. } => offsets.len().saturating_sub(1),
            Self::Number { of, .. } => of.len(),
        }
    }

    /// Sets of classes in which an empty one means that the node is not labelled.
    pub fn sets(classes: Vec<String>, offsets: Vec<u64>, of: Vec<u32>) -> Self {
        let labelled = offsets.windows(2).map(|ends| ends[0] < ends[1]).collect();
        Self::Multi { classes, offsets, of, labelled }
    }

    /// Sets of classes in which every node is labelled: an empty one means that it has no class.
    pub fn complete_sets(classes: Vec<String>, offsets: Vec<u64>, of: Vec<u32>) -> Self {
        let labelled = vec![true; offsets.len().saturating_sub(1)];
        Self::Multi { classes, offsets, of, labelled }
    }

    /// Whether a node is labelled.
    pub fn is_labelled(&self, node: usize) -> bool {
        match self {
            Self::Single { of, .. } => of[node] >= 0,
            Self::Multi { labelled, .. } => labelled[node],
            Self::Number { of, .. } => !of[node].is_nan(),
        }
    }

    /// Number of labelled nodes.
    pub fn labelled(&self) -> u64 {
        (0..self.nodes()).filter(|&node| self.is_labelled(node)).count() as u64
    }

    /// Checks that every label is a class, sets are strictly increasing, and numbers are finite.
    fn validate(&self, path: &Path) -> Result<()> {
        let classes = self.classes().len();
        let expected = || format!("a class below {classes}");
        match self {
            Self::Single { of, .. } => {
                for (node, class) in of.iter().enumerate() {
                    if *class < -1 || *class >= classes.min(i32::MAX as usize) as i32 {
                        return Err(FormatError::invalid(
                            path,
                            format!("label of node {node}"),
                            class,
                            expected(),
                        ));
                    }
                }
            }
            Self::Number { of, .. } => {
                if let Some(node) = of.iter().position(|number| number.is_infinite()) {
                    let what = format!("number of node {node}");
                    return Err(FormatError::invalid(path, what, of[node], "a finite number"));
                }
            }
            Self::Multi { offsets, of, labelled, .. } => {
                if labelled.len() != self.nodes() {
                    let (found, expected) = (labelled.len(), self.nodes());
                    return Err(FormatError::invalid(path, "nodes of labels", found, expected));
                }
                for (node, ends) in offsets.windows(2).enumerate() {
                    let set = &of[ends[0] as usize..ends[1] as usize];
                    let what = || format!("labels of node {node}");
                    if !labelled[node] && !set.is_empty() {
                        let found = format!("{} classes", set.len());
                        let expected = "none, as the node is not labelled";
                        return Err(FormatError::invalid(path, what(), found, expected));
                    }
                    if let Some(class) = set.iter().find(|class| **class as usize >= classes) {
                        return Err(FormatError::invalid(path, what(), class, expected()));
                    }
                    if let Some(pair) = set.windows(2).find(|pair| pair[0] >= pair[1]) {
                        let found = format!("{} after {}", pair[1], pair[0]);
                        return Err(FormatError::invalid(
                            path,
                            what(),
                            found,
                            "strictly increasing classes",
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Writes both files.
pub fn write(dataset: &Path, labels: &Labels) -> Result<(LabelsEntry, WrittenFiles)> {
    let path = dataset.join(LABELS);
    labels.validate(&path)?;
    names::check_unique(&dataset.join(CLASSES), "classes", labels.classes())?;
    if labels.classes().len() > i32::MAX as usize {
        return Err(FormatError::invalid(
            path,
            "classes",
            labels.classes().len(),
            "at most 2147483647",
        ));
    }
    let kind = labels.kind();
    let field = match kind {
        LabelKind::Single => Field::new("label", DataType::Int32, true),
        LabelKind::Multi => Field::new("labels", table::list_of(DataType::Int32), true),
        LabelKind::Number => Field::new("number", DataType::Float64, true),
    };
    let mut table = TableWriter::create(path, vec![field], table::properties())?;
    for rows in table::batches_of(labels.nodes()) {
        let column: ArrayRef = match labels {
            Labels::Single { of, .. } => Arc::new(Int32Array::from_iter(
                of[rows].iter().map(|&class| (class >= 0).then_some(class)),
            )),
            Labels::Number { of, .. } => Arc::new(Float64Array::from_iter(
                of[rows].iter().map(|&number| (!number.is_nan()).then_some(number)),
            )),
            Labels::Multi { offsets, of, labelled, .. } => {
                let (start, end) = (offsets[rows.start] as usize, offsets[rows.end] as usize);
                let lengths = offsets[rows.start..=rows.end]
                    .windows(2)
                    .map(|ends| (ends[1] - ends[0]) as usize);
                let lengths = OffsetBuffer::from_lengths(lengths);
                let items =
                    Int32Array::from_iter_values(of[start..end].iter().map(|&class| class as i32));
                Arc::new(ListArray::new(
                    table::item_field(DataType::Int32),
                    lengths,
                    Arc::new(items),
                    Some(NullBuffer::from(&labelled[rows])),
                ))
            }
        };
        table.write(vec![column])?;
    }
    let classes = labels.classes();
    let names = vec![Field::new("name", DataType::Utf8, false)];
    let mut names = TableWriter::create(dataset.join(CLASSES), names, table::properties())?;
    for rows in table::batches_of(classes.len()) {
        names.write(vec![Arc::new(StringArray::from_iter_values(&classes[rows]))])?;
    }
    let entry = LabelsEntry { kind, classes: classes.len() as u64, labelled: labels.labelled() };
    Ok((entry, vec![table.finish()?, names.finish()?]))
}

/// Reads both files; checks lengths and class range.
pub fn read(dataset: &Path, entry: &LabelsEntry, nodes: u64) -> Result<Labels> {
    let classes = read_classes(&dataset.join(CLASSES), entry.classes)?;
    let path = dataset.join(LABELS);
    let labels = match entry.kind {
        LabelKind::Single => Labels::Single { classes, of: read_single(&path, nodes)? },
        LabelKind::Multi => read_multi(&path, nodes, classes)?,
        LabelKind::Number => match <[String; 1]>::try_from(classes) {
            Ok(name) => Labels::Number { name, of: read_numbers(&path, nodes)? },
            Err(names) => {
                let path = dataset.join(CLASSES);
                return Err(FormatError::invalid(path, "names of numbers", names.len(), 1));
            }
        },
    };
    labels.validate(&path)?;
    if labels.labelled() != entry.labelled {
        return Err(FormatError::invalid(
            path,
            "labelled nodes",
            labels.labelled(),
            entry.labelled,
        ));
    }
    Ok(labels)
}

fn read_classes(path: &Path, classes: u64) -> Result<Vec<String>> {
    let table = Table::open(path, &[table::column("name", &[DataType::Utf8])], Some(classes))?;
    let mut names = Vec::new();
    table.read(None, BATCH_ROWS, |batch| {
        let column = table.required(batch, 0)?.as_string::<i32>();
        names.extend((0..column.len()).map(|i| column.value(i).to_string()));
        Ok(())
    })?;
    table.expect_read(names.len())?;
    names::check_unique(path, "classes", &names)?;
    Ok(names)
}

fn read_single(path: &Path, nodes: u64) -> Result<Vec<i32>> {
    let table = Table::open(path, &[table::column("label", &[DataType::Int32])], Some(nodes))?;
    let mut of = Vec::new();
    table.read(None, BATCH_ROWS, |batch| {
        of.extend(
            batch.column(0).as_primitive::<Int32Type>().iter().map(|class| class.unwrap_or(-1)),
        );
        Ok(())
    })?;
    table.expect_read(of.len())?;
    Ok(of)
}

fn read_numbers(path: &Path, nodes: u64) -> Result<Vec<f64>> {
    let table = Table::open(path, &[table::column("number", &[DataType::Float64])], Some(nodes))?;
    let mut of = Vec::new();
    table.read(None, BATCH_ROWS, |batch| {
        let numbers = batch.column(0).as_primitive::<Float64Type>();
        of.extend(numbers.iter().map(|number| number.unwrap_or(f64::NAN)));
        Ok(())
    })?;
    table.expect_read(of.len())?;
    Ok(of)
}

fn read_multi(path: &Path, nodes: u64, classes: Vec<String>) -> Result<Labels> {
    let columns = [table::list_of(DataType::Int32)];
    let table = Table::open(path, &[table::column("labels", &columns)], Some(nodes))?;
    let (mut offsets, mut of, mut labelled) = (vec![0], Vec::new(), Vec::new());
    let nullable = table.is_nullable(0);
    table.read(None, BATCH_ROWS, |batch| {
        let lists = batch.column(0).as_list::<i32>();
        let items = table::items_of::<Int32Type>(path, lists)?;
        for (at, row) in lists.value_offsets().windows(2).enumerate() {
            for class in &items[row[0] as usize..row[1] as usize] {
                let negative = |_| FormatError::invalid(path, "labels", class, "a class from 0");
                of.push(u32::try_from(*class).map_err(negative)?);
            }
            offsets.push(of.len() as u64);
            labelled.push(if nullable { lists.is_valid(at) } else { row[0] < row[1] });
        }
        Ok(())
    })?;
    table.expect_read(offsets.len() - 1)?;
    Ok(Labels::Multi { classes, offsets, of, labelled })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|class| format!("class {class}")).collect()
    }

    fn round_trip(labels: &Labels) -> LabelsEntry {
        let dir = tempfile::tempdir().unwrap();
        let (entry, files) = write(dir.path(), labels).unwrap();
        for (path, file) in files {
            assert_eq!(file, crate::checksum::of_file(&path, 0).unwrap());
        }
        assert_eq!(read(dir.path(), &entry, labels.nodes() as u64).unwrap(), *labels);
        entry
    }

    #[test]
    fn round_trips() {
        round_trip(&Labels::Single { classes: vec![], of: vec![] });
        round_trip(&Labels::sets(vec![], vec![0], vec![]));
        assert_eq!(round_trip(&Labels::Single { classes: vec![], of: vec![-1; 3] }).labelled, 0);
        let of: Vec<i32> = (0..150_000).map(|i| i % 8 - 1).collect();
        assert_eq!(round_trip(&Labels::Single { classes: names(7), of }).labelled, 131_250);
        let offsets = (0..=100_000).map(|i| i / 2 * 3).collect();
        let of = (0..150_000).map(|i| i % 3).collect();
        let sets = Labels::sets(names(3), offsets, of);
        let entry = round_trip(&sets);
        assert_eq!((entry.labelled, entry.kind), (50_000, LabelKind::Multi));
        let Labels::Multi { classes, offsets, of, .. } = sets else { panic!() };
        let complete = Labels::complete_sets(classes, offsets, of);
        assert_eq!(round_trip(&complete).labelled, 100_000);
        let dir = tempfile::tempdir().unwrap();
        let numbers = Labels::numbers("price", vec![1.5, f64::NAN, -1e300, f64::MIN_POSITIVE]);
        let (entry, _) = write(dir.path(), &numbers).unwrap();
        assert_eq!((entry.kind, entry.classes, entry.labelled), (LabelKind::Number, 1, 3));
        let Labels::Number { name, of } = read(dir.path(), &entry, 4).unwrap() else { panic!() };
        assert_eq!((&name[0][..], of[0], of[2], of[3]), ("price", 1.5, -1e300, f64::MIN_POSITIVE));
        assert!(of[1].is_nan());
    }

    #[test]
    fn wrong_labels_are_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let message = |labels: Labels| {
            let error = write(dir.path(), &labels).unwrap_err().to_string();
            error.split_once("labels.parquet: ").unwrap().1.to_string()
        };
        let too_large = Labels::Single { classes: names(2), of: vec![0, 2] };
        assert_eq!(message(too_large), "label of node 1 (found 2, expected a class below 2)");
        let falling = Labels::sets(names(2), vec![0, 2], vec![1, 1]);
        assert_eq!(
            message(falling),
            "labels of node 0 (found 1 after 1, expected strictly increasing classes)"
        );

        let infinite = Labels::numbers("price", vec![0.0, f64::INFINITY]);
        assert_eq!(message(infinite), "number of node 1 (found inf, expected a finite number)");

        let twice = Labels::Single { classes: vec!["a".into(), "a".into()], of: vec![0, 1] };
        let error = write(dir.path(), &twice).unwrap_err().to_string();
        let expected = "classes.parquet: classes (found \"a\" twice, expected unique names)";
        assert!(error.ends_with(expected), "{error}");

        let labels = Labels::Single { classes: names(3), of: vec![0, 2, -1] };
        let (entry, _) = write(dir.path(), &labels).unwrap();
        let message =
            |entry: &LabelsEntry, nodes| read(dir.path(), entry, nodes).unwrap_err().to_string();
        let wrong = message(&LabelsEntry { labelled: 3, ..entry }, 3);
        assert!(wrong.ends_with("labels.parquet: labelled nodes (found 2, expected 3)"), "{wrong}");
        let wrong = message(&LabelsEntry { classes: 2, ..entry }, 3);
        assert!(
            wrong.ends_with("classes.parquet: number of rows (found 3, expected 2)"),
            "{wrong}"
        );
        let wrong = message(&LabelsEntry { kind: LabelKind::Multi, ..entry }, 3);
        assert!(
            wrong.ends_with("labels.parquet: columns (found label, expected labels)"),
            "{wrong}"
        );
        // Forged, because none are written.
        let path = dir.path().join(CLASSES);
        std::fs::remove_file(&path).unwrap();
        let fields = vec![Field::new("name", DataType::Utf8, false)];
        let mut forged = TableWriter::create(path, fields, table::properties()).unwrap();
        forged.write(vec![Arc::new(StringArray::from(vec!["a", "b", "a"]))]).unwrap();
        forged.finish().unwrap();
        assert!(message(&entry, 3).ends_with(expected));
    }
}
