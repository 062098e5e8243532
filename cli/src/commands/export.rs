//! `ignn export`: writes the tables of a dataset to files, with the original ids. It does not undo
//! node order or merged duplicates.

use std::iter;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use ignn::graph::{self, Graph};
use ignn::report::predictions::are_numbered;
use ignn::report::quantity;
use ignn::report::table::{Cell, ColumnKind, TableTarget, TableWriter, check_made};
use ignn::run::csv::Texts;
use ignn::run::path_text;
use ignn_format::Relation;
use ignn_format::features::FeatureKind;
use ignn_format::ids::Ids;
use ignn_format::labels::Labels;
use ignn_format::manifest::Scale;
use ignn_format::splits::{NO_PART, Split};
use ignn_format::storage::Kind;

use crate::options::verification::Verification;
use crate::terminal::printer;
use crate::{Outcome, Session};

/// The first columns of a table of graphs.
const GRAPH_COLUMNS: [&str; 4] = ["graph", "first_node", "nodes", "label"];
/// Dense feature rows read at once, in bytes.
const FEATURE_BYTES: usize = 16 << 20;

// The tables that `--force` may replace, each by the columns that are written below.
static EDGES: Kind = Kind {
    check: |path| {
        check_made(path, "a table of edges", |columns| match columns {
            ["source", "target", rest @ ..] => {
                rest.iter().all(|column| ["weight", "value", "value_back"].contains(column))
            }
            _ => false,
        })
    },
};
static FEATURES: Kind = Kind {
    check: |path| {
        check_made(path, "a table of features", |columns| match columns {
            ["node", "column", "value"] => true,
            ["node", dense @ ..] => are_numbered(dense),
            _ => false,
        })
    },
};
static LABELS: Kind = Kind {
    check: |path| check_made(path, "a table of labels", |columns| columns == ["node", "label"]),
};
// Splits have names of the user's: `TableTarget::only_over` compares them.
static SPLITS: Kind = Kind {
    check: |path| {
        check_made(path, "a table of splits", |columns| matches!(columns, ["node", _, ..]))
    },
};
static IDS: Kind =
    Kind { check: |path| check_made(path, "a table of ids", |columns| columns == ["id", "node"]) };
static GRAPHS: Kind = Kind {
    check: |path| {
        check_made(path, "a table of graphs", |columns| columns.starts_with(&GRAPH_COLUMNS))
    },
};

/// Export the tables of a dataset, with the original ids
///
/// Each option names a file to write. Its extension chooses the format: .parquet, .tsv or .csv (with
/// a header line). Files appear only when they are complete.
///
/// Edges are written as stored: after duplicates were merged and before normalisation. Undirected
/// edges are written once. Diagonal entries that renormalisation added are not written; in a
/// weighted relation, a self-loop has the weight by which its entry exceeds 1.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn export dblp.ignn --edges dblp.tsv --labels labels.csv
  ignn export acm.ignn --relation pap --edges pap.parquet --normalised")]
pub struct Command {
    /// The dataset directory
    #[arg(value_name = "DIR")]
    dataset: PathBuf,

    /// Relation whose edges to write [default: the only one]
    #[arg(long, value_name = "NAME", requires = "edges")]
    relation: Option<String>,

    /// Write edges: source, target, and weight if the relation is weighted
    #[arg(long, value_name = "FILE")]
    edges: Option<PathBuf>,

    /// Add the entry of the normalised matrix from source to target as column `value`
    ///
    /// An undirected relation with normalised rows has different values in the two directions; the
    /// other one is column `value_back`.
    #[arg(long, requires = "edges")]
    normalised: bool,

    /// Write features: node, x0, x1, ... if dense; node, column, value if sparse
    #[arg(long, value_name = "FILE")]
    features: Option<PathBuf>,

    /// Write labels: node, label; one row per label
    ///
    /// A node that is known to have no class has no row, as one without a label.
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,

    /// Write splits of the nodes: node, and one column per split with the name of the part
    #[arg(long, value_name = "FILE")]
    splits: Option<PathBuf>,

    /// Write ids: id, node (the number of the node in the dataset)
    #[arg(long, value_name = "FILE")]
    ids: Option<PathBuf>,

    /// Write graphs: graph, first_node, nodes, label, and one column per split
    #[arg(long, value_name = "FILE")]
    graphs: Option<PathBuf>,

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

    #[command(flatten)]
    verification: Verification,
}

impl Command {
    /// Writes the requested files.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let dataset = self.verification.open(&self.dataset)?;
        let files =
            [&self.edges, &self.features, &self.labels, &self.splits, &self.ids, &self.graphs];
        let files: Vec<&PathBuf> = files.into_iter().flatten().collect();
        if files.is_empty() {
            bail!(
                "nothing to export: name a file with --edges, --features, --labels, --splits, --ids \
                 or --graphs"
            );
        }
        for (index, file) in files.iter().enumerate() {
            if files[..index].contains(file) {
                bail!("{}: named twice: each table needs its own file", file.display());
            }
        }
        // All of them before the first is written.
        let texts = Texts::safe_if(self.csv_safe);
        let claim = |file: &Option<PathBuf>, kind| -> Result<Option<TableTarget>> {
            let Some(file) = file else { return Ok(None) };
            Ok(Some(TableTarget::claim(file, self.force.then_some(kind))?.with_texts(texts)))
        };
        let over = |target: Option<TableTarget>, columns: Vec<&str>| {
            target.map(|target| target.only_over(&columns)).transpose()
        };
        let edges = claim(&self.edges, &EDGES)?;
        let features = claim(&self.features, &FEATURES)?;
        let labels = claim(&self.labels, &LABELS)?;
        let splits = claim(&self.splits, &SPLITS)?;
        let names = dataset.manifest().splits.iter().map(|split| split.name.as_str());
        let splits = over(splits, iter::once("node").chain(names).collect())?;
        let ids = claim(&self.ids, &IDS)?;
        let graphs = claim(&self.graphs, &GRAPHS)?;
        let names = dataset.manifest().graphs.iter().flat_map(|graphs| &graphs.splits);
        let names = names.map(|split| split.name.as_str());
        let graphs = over(graphs, GRAPH_COLUMNS.into_iter().chain(names).collect())?;
        self.require_parts(&dataset)?;
        let export = Export { ids: dataset.directory().ids()?, dataset: &dataset };
        let mut written: Vec<(PathBuf, u64)> = Vec::new();
        let mut note = |target: TableTarget, write: &dyn Fn(TableTarget) -> Result<u64>| {
            written.push((target.path().to_path_buf(), write(target)?));
            anyhow::Ok(())
        };
        if let Some(target) = edges {
            let name = self.relation.as_deref();
            note(target, &|target| export.edges(target, name, self.normalised))?;
        }
        if let Some(target) = features {
            note(target, &|target| export.features(target))?;
        }
        let mut without = 0;
        if let Some(target) = labels {
            let labels = dataset.directory().labels()?;
            note(target, &|target| export.labels(target, &labels))?;
            without = labelled_with_none(&labels);
        }
        if let Some(target) = splits {
            note(target, &|target| export.splits(target))?;
        }
        if let Some(target) = ids {
            note(target, &|target| export.ids(target))?;
        }
        if let Some(target) = graphs {
            note(target, &|target| export.graphs(target))?;
        }
        if without > 0 && !session.quiet {
            let nodes = quantity::plural(without, "node is", "nodes are");
            printer::message(&format!(
                "note: {nodes} labelled with no class: without a row in the table, ingest reads them \
                 as not labelled"
            ));
        }
        if session.json {
            let files = written.iter().map(
                |(file, rows)| serde_json::json!({ "file": path_text::of(file), "rows": rows }),
            );
            session.print_json(&serde_json::json!({ "files": files.collect::<Vec<_>>() }))?;
        } else {
            let line = |(file, rows): &(PathBuf, u64)| {
                format!("{}: {}\n", file.display(), quantity::plural(*rows, "row", "rows"))
            };
            session.print(&written.iter().map(line).collect::<String>())?;
        }
        Ok(Outcome::Done)
    }

    /// Fails early if the dataset lacks a requested part.
    fn require_parts(&self, dataset: &Graph) -> Result<()> {
        let (directory, manifest) = (dataset.directory(), dataset.manifest());
        let place = directory.path().display();
        if self.features.is_some() {
            directory.features()?;
        }
        if self.labels.is_some() && manifest.labels.is_none() {
            // Only for the error message of the library; with labels this would read them all.
            directory.labels()?;
        }
        if self.splits.is_some() && manifest.splits.is_empty() {
            bail!("{place}: the dataset has no splits: ingest with --splits or --split");
        }
        if self.graphs.is_some() && manifest.graphs.is_none() {
            bail!("{place}: the dataset is one graph, not a set of graphs");
        }
        Ok(())
    }
}

/// The number of labelled nodes whose set of classes is empty.
fn labelled_with_none(labels: &Labels) -> u64 {
    let Labels::Multi { offsets, labelled, .. } = labels else { return 0 };
    let sets = offsets.windows(2).zip(labelled);
    sets.filter(|(ends, labelled)| **labelled && ends[0] == ends[1]).count() as u64
}

/// A dataset and its ids. The ids are held in memory; all other data is streamed.
struct Export<'a> {
    dataset: &'a Graph,
    ids: Ids,
}

impl Export<'_> {
    /// The id of a node as a cell.
    fn id(&self, node: usize) -> Cell<'_> {
        match &self.ids {
            Ids::Integer(ids) => Cell::Integer(ids[node]),
            Ids::String { offsets, text } => {
                Cell::Text(&text[offsets[node] as usize..offsets[node + 1] as usize])
            }
        }
    }

    fn nodes(&self) -> usize {
        self.dataset.manifest().nodes as usize
    }

    /// A table whose first columns hold ids.
    fn table(
        &self,
        target: TableTarget,
        ids: &[&str],
        others: Vec<(String, ColumnKind)>,
    ) -> Result<TableWriter> {
        let kind = match &self.ids {
            Ids::Integer(ids) if ids.iter().any(|&id| id > i64::MAX as u64) => ColumnKind::Wide,
            Ids::Integer(_) => ColumnKind::Integer,
            Ids::String { .. } => ColumnKind::Text,
        };
        let mut columns: Vec<_> = ids.iter().map(|name| (name.to_string(), kind)).collect();
        columns.extend(others);
        Ok(TableWriter::create(target, &columns)?)
    }

    fn edges(&self, target: TableTarget, name: Option<&str>, normalised: bool) -> Result<u64> {
        let relations = &self.dataset.manifest().relations;
        let name = match (name, relations.as_slice()) {
            (Some(name), _) => name,
            (None, [only]) => &only.name,
            (None, several) => {
                let names: Vec<_> = several.iter().map(|relation| relation.name.as_str()).collect();
                bail!(
                    "the dataset has several relations: choose one with --relation ({})",
                    names.join(", ")
                );
            }
        };
        let relation = self.dataset.directory().relation(name)?;
        let both_ways =
            normalised && relation.entry.symmetric && relation.entry.scale == Scale::Source;
        let columns =
            [("weight", relation.entry.weighted), ("value", normalised), ("value_back", both_ways)];
        let columns = columns
            .iter()
            .filter(|column| column.1)
            .map(|column| (column.0.into(), ColumnKind::Float));
        let mut table = self.table(target, &["source", "target"], columns.collect())?;
        let mut rows = 0;
        let mut cells = Vec::new();
        each_edge(&relation, |edge| {
            cells.clear();
            cells.extend([self.id(edge.source), self.id(edge.target)]);
            if relation.entry.weighted {
                cells.push(Cell::Float(edge.weight));
            }
            if normalised {
                cells.push(Cell::Float(value(&relation, edge.stored, edge.source, edge.target)));
            }
            if both_ways {
                cells.push(Cell::Float(value(&relation, edge.stored, edge.target, edge.source)));
            }
            rows += 1;
            Ok(table.row(&cells)?)
        })?;
        relation.check_unchanged()?;
        table.finish()?;
        Ok(rows)
    }

    fn features(&self, target: TableTarget) -> Result<u64> {
        let directory = self.dataset.directory();
        let entry = directory.features()?;
        if entry.kind == FeatureKind::Sparse {
            let features = directory.read_sparse()?;
            let columns =
                vec![("column".into(), ColumnKind::Integer), ("value".into(), ColumnKind::Float)];
            let mut table = self.table(target, &["node"], columns)?;
            for node in 0..self.nodes() {
                for at in features.offsets[node] as usize..features.offsets[node + 1] as usize {
                    let (column, value) = (features.columns[at].into(), features.values[at]);
                    table.row(&[self.id(node), Cell::Integer(column), Cell::Float(value)])?;
                }
            }
            table.finish()?;
            return Ok(features.columns.len() as u64);
        }
        let width = usize::try_from(entry.columns)?;
        let names = (0..width).map(|column| (format!("x{column}"), ColumnKind::Float));
        let mut table = self.table(target, &["node"], names.collect())?;
        let at_once = (FEATURE_BYTES / size_of::<f32>() / width.max(1)).max(1);
        let mut block = vec![0f32; at_once.min(self.nodes()) * width];
        let mut cells = Vec::with_capacity(width + 1);
        for first in (0..self.nodes()).step_by(at_once) {
            let rows = at_once.min(self.nodes() - first);
            let block = &mut block[..rows * width];
            directory.read_dense(first as u64, block, width)?;
            for row in 0..rows {
                cells.clear();
                cells.push(self.id(first + row));
                cells.extend(block[row * width..(row + 1) * width].iter().map(|&x| Cell::Float(x)));
                table.row(&cells)?;
            }
        }
        table.finish()?;
        Ok(self.nodes() as u64)
    }

    fn labels(&self, target: TableTarget, labels: &Labels) -> Result<u64> {
        let kind = match labels {
            Labels::Number { .. } => ColumnKind::Double,
            Labels::Single { .. } | Labels::Multi { .. } => ColumnKind::Text,
        };
        let mut table = self.table(target, &["node"], vec![("label".into(), kind)])?;
        let mut rows = 0;
        match labels {
            Labels::Number { of, .. } => {
                for (node, &number) in of.iter().enumerate().filter(|(_, n)| !n.is_nan()) {
                    table.row(&[self.id(node), Cell::Double(number)])?;
                    rows += 1;
                }
            }
            Labels::Single { classes, of } => {
                for (node, &class) in of.iter().enumerate() {
                    if let Ok(class) = usize::try_from(class) {
                        table.row(&[self.id(node), Cell::Text(&classes[class])])?;
                        rows += 1;
                    }
                }
            }
            Labels::Multi { classes, offsets, of, .. } => {
                for node in 0..self.nodes() {
                    for &class in &of[offsets[node] as usize..offsets[node + 1] as usize] {
                        table.row(&[self.id(node), Cell::Text(&classes[class as usize])])?;
                        rows += 1;
                    }
                }
            }
        }
        table.finish()?;
        Ok(rows)
    }

    fn splits(&self, target: TableTarget) -> Result<u64> {
        let splits = self.dataset.directory().splits()?;
        let columns = splits.iter().map(|split| (split.name.clone(), ColumnKind::Text)).collect();
        let mut table = self.table(target, &["node"], columns)?;
        for node in 0..self.nodes() {
            let mut cells = vec![self.id(node)];
            cells.extend(splits.iter().map(|split| part(split, node)));
            table.row(&cells)?;
        }
        table.finish()?;
        Ok(self.nodes() as u64)
    }

    fn ids(&self, target: TableTarget) -> Result<u64> {
        let mut table = self.table(target, &["id"], vec![("node".into(), ColumnKind::Integer)])?;
        for node in 0..self.nodes() {
            table.row(&[self.id(node), Cell::Integer(node as u64)])?;
        }
        table.finish()?;
        Ok(self.nodes() as u64)
    }

    fn graphs(&self, target: TableTarget) -> Result<u64> {
        let Some(graphs) = self.dataset.directory().graphs()? else { return Ok(0) };
        let (text, integer) = (ColumnKind::Text, ColumnKind::Integer);
        let kinds = [text, integer, integer, text];
        let columns = GRAPH_COLUMNS.into_iter().zip(kinds);
        let mut columns: Vec<_> = columns.map(|(name, kind)| (name.to_string(), kind)).collect();
        columns.extend(graphs.splits.iter().map(|split| (split.name.clone(), text)));
        let mut table = TableWriter::create(target, &columns)?;
        for (graph, nodes) in graphs.first_node.windows(2).enumerate() {
            let label = graphs.labels.get(graph).and_then(|&label| usize::try_from(label).ok());
            let label = label.and_then(|label| graphs.classes.get(label).cloned());
            let number = graphs.numbers.get(graph).filter(|number| !number.is_nan());
            let label = label.or_else(|| number.map(ToString::to_string));
            let mut cells = vec![
                graphs.ids.get(graph).map_or(Cell::Null, |id| Cell::Text(id)),
                Cell::Integer(nodes[0]),
                Cell::Integer(nodes[1] - nodes[0]),
                label.as_deref().map_or(Cell::Null, Cell::Text),
            ];
            cells.extend(graphs.splits.iter().map(|split| part(split, graph)));
            table.row(&cells)?;
        }
        table.finish()?;
        Ok(graphs.first_node.len() as u64 - 1)
    }
}

/// An edge as the user gave it, with its stored value.
struct Edge {
    source: usize,
    target: usize,
    /// The user's weight: the stored value without what renormalisation added.
    weight: f32,
    stored: f32,
}

/// Calls `found` for every edge, ordered by source and target. An undirected edge is visited once,
/// with source <= target.
fn each_edge(relation: &Relation, mut found: impl FnMut(Edge) -> Result<()>) -> Result<()> {
    let undirected = relation.outgoing.is_none();
    let outgoing = relation.outgoing.as_ref().unwrap_or(&relation.incoming);
    for source in 0..outgoing.rows() {
        let range = outgoing.range(source);
        for (at, &target) in range.clone().zip(outgoing.row(source)) {
            let target = target as usize;
            if undirected && target < source {
                continue;
            }
            let stored = outgoing.values().map(|values| values[at]);
            let weight = match source == target {
                true => graph::self_loops::weight(relation.entry.normalisation, stored),
                false => Some(stored.unwrap_or(1.0)),
            };
            if let Some(weight) = weight {
                found(Edge { source, target, weight, stored: stored.unwrap_or(1.0) })?;
            }
        }
    }
    Ok(())
}

/// The entry of the normalised matrix.
fn value(relation: &Relation, stored: f32, source: usize, target: usize) -> f32 {
    match (relation.entry.scale, &relation.scale) {
        (Scale::Both, Some(scale)) => stored * scale[source] * scale[target],
        (Scale::Source, Some(scale)) => stored * scale[source],
        _ => stored,
    }
}

/// The part of a node or graph as a cell.
fn part(split: &Split, index: usize) -> Cell<'_> {
    match split.of.get(index) {
        Some(&part) if part != NO_PART => {
            split.parts.get(part as usize).map_or(Cell::Null, |part| Cell::Text(part))
        }
        _ => Cell::Null,
    }
}
