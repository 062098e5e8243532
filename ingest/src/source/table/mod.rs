//! Tables of node data, as text (CSV, TSV, whitespace) or Parquet, one batch of rows at a time.
//! This module finds the column of node ids and the types of cells; the meaning of the other
//! columns is up to the caller.
//!
//! Rows are numbered as users count them: lines of text from 1, rows of a Parquet file from 0.

mod columnar;
mod delimited;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};

use ignn_format::ids::IdKind;
use ignn_format::nearest::nearest;

use crate::error::{IngestError, Result, quoted};
use crate::node_set::NodeSet;
use crate::nodes::NodeLookup;
use crate::source::{parquet_file, plausible, text};
use columnar::{Columnar, ColumnarBatch};
use delimited::{Delimited, DelimitedBatch};

/// First bytes of a Parquet file.
pub const PARQUET_MAGIC: &[u8] = b"PAR1";
/// Texts that stand for a missing value, in lower case.
const MISSING: [&str; 4] = ["na", "n/a", "nan", "null"];
/// Names of the column of node ids, in lower case.
const ID_NAMES: [&str; 3] = ["node", "id", "node_id"];
/// The same in messages.
const ID_NAMES_SHOWN: &str = "\"node\", \"id\" or \"node_id\"";

/// How a table is opened.
#[derive(Clone, Debug)]
enum Opening {
    /// What is known of its cells decides whether the first line of text is a header.
    Guessed { ids: IdKind, numbers: bool },
    /// The first line of text is a header; ids are in the column of this name.
    Named { id: Option<String> },
}

/// An opened table.
pub struct Table {
    path: PathBuf,
    opening: Opening,
    memory: u64,
    names: Option<Vec<String>>,
    width: usize,
    id: Option<usize>,
    /// The line of the first row, where it may be a header that was not recognised.
    first: Option<u64>,
    /// The cells of that row.
    first_row: Vec<String>,
    rows: Rows,
}

enum Rows {
    Delimited(Delimited),
    Columnar(Columnar),
}

/// Some rows.
pub enum Batch {
    #[doc(hidden)]
    Delimited(DelimitedBatch),
    #[doc(hidden)]
    Columnar(ColumnarBatch),
}

/// Type of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text, which may be a number.
    Text,
    /// Integers.
    Integer,
    /// Floats.
    Float,
    /// True or false.
    Boolean,
    /// Lists of numbers.
    List,
    /// Something else, with the name of the type.
    Other(String),
}

/// One value of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Null or empty.
    Missing,
    /// Text.
    Text(&'a str),
    /// An integer of a signed column.
    Signed(i64),
    /// An integer of an unsigned column.
    Unsigned(u64),
    /// A float.
    Float(f64),
    /// True or false.
    Boolean(bool),
}

impl<'a> Cell<'a> {
    /// As text; `None` for a missing value and for NaN, which some programs write instead.
    pub fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Missing => None,
            Self::Text(text) => Some(text.into()),
            Self::Float(value) if value.is_nan() => None,
            other => Some(other.to_string().into()),
        }
    }

    /// As a word: its text, but truth values as `true` and `false`, which programs write as `True` or
    /// `TRUE` too.
    pub fn word(self) -> Option<Cow<'a, str>> {
        let text = self.text()?;
        let known = ["true", "false"].into_iter().find(|word| text.eq_ignore_ascii_case(word));
        Some(known.map_or(text, Cow::Borrowed))
    }

    /// As a number, if it is one. It may be NaN or infinite.
    pub fn number(self) -> Option<f32> {
        match self {
            Self::Missing => None,
            Self::Text(text) => text.parse().ok(),
            Self::Signed(value) => Some(value as f32),
            Self::Unsigned(value) => Some(value as f32),
            Self::Float(value) => Some(value as f32),
            Self::Boolean(value) => Some(f32::from(u8::from(value))),
        }
    }

    /// Whether it has no value: empty, null, NaN, or a text that stands for it.
    pub fn is_missing(self) -> bool {
        match self {
            Self::Missing => true,
            Self::Float(value) => value.is_nan(),
            Self::Text(text) => MISSING.iter().any(|missing| text.eq_ignore_ascii_case(missing)),
            _ => false,
        }
    }

    /// As a finite number, if it is one; a truth value is none.
    pub fn finite(self) -> Option<f64> {
        let number = match self {
            Self::Missing | Self::Boolean(_) => return None,
            Self::Text(text) => text.parse().ok()?,
            Self::Signed(value) => value as f64,
            Self::Unsigned(value) => value as f64,
            Self::Float(value) => value,
        };
        number.is_finite().then_some(number)
    }

    /// For messages: quoted, or "an empty cell".
    pub fn shown(self) -> String {
        match self {
            Self::Missing => "an empty cell".into(),
            Self::Float(value) => format!("\"{value:?}\""),
            other => quoted(other.to_string().as_bytes()),
        }
    }
}

/// Counts texts that stand for a missing value, such as NA: whether one of them is a name is for the
/// user to say.
#[derive(Clone, Debug, Default)]
pub struct MissingTexts {
    count: u64,
    example: Option<String>,
}

impl MissingTexts {
    /// The text of a cell; `None` where the value is missing.
    pub fn value<'a>(&mut self, cell: Cell<'a>) -> Option<Cow<'a, str>> {
        if cell.is_missing() {
            if let Cell::Text(_) = cell {
                self.count += 1;
                self.example.get_or_insert_with(|| cell.shown());
            }
            return None;
        }
        cell.text()
    }

    /// What to tell the user, if there were any; `fate` is what became of their nodes.
    pub fn note(&self, table: &Table, column: usize, fate: &str) -> Option<String> {
        let example = self.example.as_ref()?;
        Some(format!(
            "{}: {}: {example} and the like stand for a missing value: {} nodes {fate} (if it is a \
             name, write it in other words)",
            table.path().display(),
            table.column_name(column),
            self.count
        ))
    }
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => Ok(()),
            Self::Text(text) => f.write_str(text),
            Self::Signed(value) => value.fmt(f),
            Self::Unsigned(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::Boolean(value) => value.fmt(f),
        }
    }
}

impl Batch {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Self::Delimited(batch) => batch.rows(),
            Self::Columnar(batch) => batch.rows(),
        }
    }

    /// Number of a row as users count: the line from 1, or the row from 0.
    pub fn number(&self, row: usize) -> u64 {
        match self {
            Self::Delimited(batch) => batch.line(row),
            Self::Columnar(batch) => batch.number(row),
        }
    }

    /// A cell.
    pub fn cell(&self, row: usize, column: usize) -> Cell<'_> {
        match self {
            Self::Delimited(batch) => batch.cell(row, column),
            Self::Columnar(batch) => batch.cell(row, column),
        }
    }

    /// Calls `visit` with each item of a list. A single cell is a list of one, null an empty list.
    pub fn for_each_item(&self, row: usize, column: usize, visit: &mut dyn FnMut(Cell<'_>)) {
        match self {
            Self::Delimited(batch) => visit(batch.cell(row, column)),
            Self::Columnar(batch) => batch.for_each_item(row, column, visit),
        }
    }
}

impl Table {
    /// Opens a table. The first line of text is a header if one of its cells is `node`, `id` or
    /// `node_id`, or if it cannot be data: its first cell is not an integer although `ids` are, or
    /// another cell is not a number although `numbers` says that all are.
    ///
    /// A batch takes about `memory` bytes at most.
    pub fn open(path: &Path, ids: IdKind, numbers: bool, memory: u64) -> Result<Self> {
        Self::open_as(path, Opening::Guessed { ids, numbers }, memory)
    }

    /// Opens a table whose columns are chosen by name: the first line of text is a header. Ids are
    /// in the column `id`; without a name, in one named `node`, `id` or `node_id`, or else in the
    /// first column of a text.
    pub fn open_named(path: &Path, id: Option<&str>, memory: u64) -> Result<Self> {
        Self::open_as(path, Opening::Named { id: id.map(String::from) }, memory)
    }

    fn open_as(path: &Path, opening: Opening, memory: u64) -> Result<Self> {
        let named_id = match &opening {
            Opening::Named { id } => id.clone(),
            Opening::Guessed { .. } => None,
        };
        let id_of = |names: &[String]| match &named_id {
            Some(id) => position(path, names, id).map(Some),
            None => Ok(find_id(names)),
        };
        if is_parquet(path)? {
            let rows = Columnar::open(path, memory)?;
            let names = rows.names();
            check_unique(path, &names)?;
            let (width, id) = (names.len(), id_of(&names)?);
            return Ok(Self {
                path: path.into(),
                opening,
                memory,
                names: Some(names),
                width,
                id,
                first: None,
                first_row: Vec::new(),
                rows: Rows::Columnar(rows),
            });
        }
        let mut rows = Delimited::open(path)?;
        let first = rows.first_row();
        let is_integer = |cell: &String| cell.parse::<u64>().is_ok();
        let is_number = |cell: &String| cell.is_empty() || cell.parse::<f32>().is_ok();
        let is_header = match opening {
            Opening::Named { .. } => true,
            Opening::Guessed { ids, numbers } => {
                find_id(&first).is_some()
                    || ids == IdKind::Integer && !is_integer(&first[0])
                    || numbers && !first[1..].iter().all(is_number)
            }
        };
        let width = first.len();
        let (names, id, first, first_row) = if is_header {
            rows.drop_first_row();
            check_unique(path, &first)?;
            let id = id_of(&first)?.unwrap_or(0);
            (Some(first), Some(id), None, Vec::new())
        } else {
            (None, Some(0), Some(rows.first_line()), first)
        };
        let (path, rows) = (path.into(), Rows::Delimited(rows));
        Ok(Self { path, opening, memory, names, width, id, first, first_row, rows })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names of all columns, if there is a header.
    pub fn names(&self) -> Option<&[String]> {
        self.names.as_deref()
    }

    /// The column of this name; an error that names the nearest one if there is none.
    pub fn position(&self, name: &str) -> Result<usize> {
        position(&self.path, self.names().unwrap_or_default(), name)
    }

    /// Whether the file says what is a number and what is a text, as Parquet does.
    pub fn is_typed(&self) -> bool {
        matches!(self.rows, Rows::Columnar(_))
    }

    /// The same table from its first row.
    pub fn again(&self) -> Result<Self> {
        Self::open_as(&self.path, self.opening.clone(), self.memory)
    }

    /// The first row of a text without a header; empty otherwise.
    pub fn first_row(&self) -> &[String] {
        &self.first_row
    }

    /// The column of ids. Text always has one; in Parquet it is found by name.
    pub fn id_column(&self) -> Option<usize> {
        self.id
    }

    /// All columns except that of the ids.
    pub fn value_columns(&self) -> Vec<usize> {
        (0..self.width).filter(|&column| Some(column) != self.id).collect()
    }

    /// Type of a column.
    pub fn kind(&self, column: usize) -> ColumnKind {
        match &self.rows {
            Rows::Delimited(_) => ColumnKind::Text,
            Rows::Columnar(rows) => rows.kind(column),
        }
    }

    /// How messages name a column.
    pub fn column_name(&self, column: usize) -> String {
        match &self.names {
            Some(names) => format!("column {}", quoted(names[column].as_bytes())),
            None => format!("column {column} (counting from 0)"),
        }
    }

    /// Checks that a column is of an accepted type.
    pub fn require(&self, column: usize, accepted: &[ColumnKind], expected: &str) -> Result<()> {
        let kind = self.kind(column);
        if accepted.contains(&kind) {
            return Ok(());
        }
        let name = match kind {
            ColumnKind::Text => "text".into(),
            ColumnKind::Integer => "integers".into(),
            ColumnKind::Float => "floats".into(),
            ColumnKind::Boolean => "booleans".into(),
            ColumnKind::List => "lists".into(),
            ColumnKind::Other(name) => format!("values of type {name}"),
        };
        let what = format!("{} holds {name} (expected {expected})", self.column_name(column));
        Err(IngestError::file(&self.path, what))
    }

    /// The column of ids; an error if a Parquet file has none, or one of a wrong type.
    pub fn require_id(&self) -> Result<usize> {
        let Some(id) = self.id else {
            let names = self.names.as_deref().unwrap_or_default();
            let what = format!(
                "no column named {ID_NAMES_SHOWN} (found: {})",
                quoted(names.join(", ").as_bytes())
            );
            return Err(IngestError::file(&self.path, what));
        };
        self.require(id, &[ColumnKind::Integer, ColumnKind::Text], "node ids: integers or text")?;
        Ok(id)
    }

    /// The next rows.
    pub fn next_batch(&mut self) -> Result<Option<Batch>> {
        match &mut self.rows {
            Rows::Delimited(rows) => Ok(rows.next_batch()?.map(Batch::Delimited)),
            Rows::Columnar(rows) => Ok(rows.next_batch()?.map(Batch::Columnar)),
        }
    }

    /// The node of a row.
    pub fn node(&self, batch: &Batch, row: usize, nodes: &dyn NodeLookup) -> Result<u32> {
        let column = self.id.unwrap_or(0);
        let cell = batch.cell(row, column);
        let found = match (cell, nodes.kind()) {
            (Cell::Missing, _) => {
                return Err(self.error(batch.number(row), "a node id", cell.shown()));
            }
            (Cell::Text(id), _) => nodes.find_text(id)?,
            (Cell::Unsigned(id), IdKind::Integer) => nodes.find_integer(id)?,
            (Cell::Signed(id), IdKind::Integer) => match u64::try_from(id) {
                Ok(id) => nodes.find_integer(id)?,
                Err(_) => None,
            },
            (other, _) => nodes.find_string(&other.to_string())?,
        };
        found.ok_or_else(|| {
            let (number, found) = (batch.number(row), unknown(&cell.shown()));
            self.error(number, &self.expected_node(number), found)
        })
    }

    /// What the id of a row should be. If the ids may be in another column, it also says how that
    /// column is found.
    fn expected_node(&self, number: u64) -> String {
        let expected = "the id of a node of the graph";
        match (&self.names, self.id) {
            (None, _) if self.first == Some(number) => {
                format!("{expected} (or a header with a column named {ID_NAMES_SHOWN})")
            }
            (Some(names), Some(id)) if find_id(names).is_none() => format!(
                "{expected} in {} (ids are in the first column, or in one named {ID_NAMES_SHOWN})",
                self.column_name(id)
            ),
            _ => expected.into(),
        }
    }

    /// The node of a row, which joins those of the rows before; an error if it is one of them.
    pub fn new_node(
        &self,
        batch: &Batch,
        row: usize,
        nodes: &dyn NodeLookup,
        seen: &mut NodeSet,
    ) -> Result<u32> {
        let node = self.node(batch, row, nodes)?;
        if !seen.insert(node) {
            return Err(self.repeated(batch, row, node, nodes));
        }
        Ok(node)
    }

    /// The error for a node that an earlier row has too; it reads the file again to find that row.
    pub fn repeated(
        &self,
        batch: &Batch,
        row: usize,
        node: u32,
        nodes: &dyn NodeLookup,
    ) -> IngestError {
        let first = match self.first_row_of(node, nodes) {
            Ok(first) => first,
            Err(error) => return error,
        };
        let place = match self.rows {
            Rows::Delimited(_) => "on line",
            Rows::Columnar(_) => "in row",
        };
        let id = batch.cell(row, self.id.unwrap_or(0)).shown();
        let found = match first {
            Some(first) => format!("{id} again (first {place} {first})"),
            None => format!("{id} again"),
        };
        self.error(batch.number(row), "each node once", found)
    }

    fn first_row_of(&self, node: u32, nodes: &dyn NodeLookup) -> Result<Option<u64>> {
        let mut again = self.again()?;
        while let Some(batch) = again.next_batch()? {
            for row in 0..batch.rows() {
                if again.node(&batch, row, nodes)? == node {
                    return Ok(Some(batch.number(row)));
                }
            }
        }
        Ok(None)
    }

    /// The error for a row, given its number as users count.
    pub fn error(&self, number: u64, expected: &str, found: impl Into<String>) -> IngestError {
        match self.rows {
            Rows::Delimited(_) => IngestError::line(&self.path, number, expected, found),
            Rows::Columnar(_) => IngestError::row(&self.path, number, expected, found),
        }
    }
}

/// Whether a file is Parquet, by its name or its first bytes.
pub fn is_parquet(path: &Path) -> Result<bool> {
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet")) {
        return Ok(true);
    }
    let mut magic = [0; PARQUET_MAGIC.len()];
    let got = text::read_up_to(&mut text::open_file(path)?, &mut magic);
    Ok(got.map_err(IngestError::io("read", path))? == magic.len() && magic == PARQUET_MAGIC)
}

/// Whether a Parquet file has a column of node ids, and its number of rows.
pub fn parquet_rows(path: &Path) -> Result<(bool, u64)> {
    let metadata = parquet_file::metadata(path)?;
    let names: Vec<String> =
        metadata.schema().fields().iter().map(|field| field.name().clone()).collect();
    let groups = metadata.metadata().row_groups().iter();
    let rows = groups.fold(0u64, |sum, group| sum.saturating_add(group.num_rows().max(0) as u64));
    let bytes = std::fs::metadata(path).map_err(IngestError::io("read", path))?.len();
    if !plausible::rows(rows, bytes) {
        let what = format!(
            "{rows} rows in a file of {bytes} bytes: give the features with a column \"node\", or \
             the number of nodes with --nodes"
        );
        return Err(IngestError::file(path, what));
    }
    Ok((find_id(&names).is_some(), rows))
}

/// How messages show an id that is not that of a node.
pub fn unknown(id: &str) -> String {
    format!("{id} (unknown: if it is a node without edges, list all nodes with --nodes-file)")
}

/// Refuses two columns of one name: one of them would be left out or taken for the other.
fn check_unique(path: &Path, names: &[String]) -> Result<()> {
    let mut seen = HashSet::new();
    match names.iter().find(|name| !name.is_empty() && !seen.insert(name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let name = quoted(name.as_bytes());
            let what = format!("two columns named {name} (expected a name of its own for each)");
            Err(IngestError::file(path, what))
        }
    }
}

/// The position of a name among those of the columns.
fn position(path: &Path, names: &[String], name: &str) -> Result<usize> {
    names.iter().position(|own| own == name).ok_or_else(|| {
        let same = names.iter().find(|own| own.eq_ignore_ascii_case(name)).map(String::as_str);
        let near = same.or_else(|| nearest(name, names.iter().map(String::as_str)));
        let near = near.map_or(String::new(), |near| format!(", did you mean {near:?}?"));
        let what = format!(
            "no column {} (found: {}{near})",
            quoted(name.as_bytes()),
            quoted(names.join(", ").as_bytes())
        );
        IngestError::file(path, what)
    })
}

fn find_id(names: &[String]) -> Option<usize> {
    ID_NAMES.iter().find_map(|id| names.iter().position(|name| name.eq_ignore_ascii_case(id)))
}

#[cfg(test)]
pub(crate) mod tests;
