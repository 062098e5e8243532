//! Tables in files, written row by row: Parquet, TSV or CSV by the file's extension. The file
//! appears whole or not at all.
//!
//! Text tables have a header line; a null is an empty cell; a cell with a separator, quote or line
//! break is quoted as in RFC 4180 (in TSV too). [`Texts`] decides how formulas are written. Floats
//! are written with the fewest digits that read back to the same value. Lists are lists in Parquet,
//! and JSON in text tables: `["a","b"]`, `[0.5,0.25]`.

use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use ignn_format::storage::{self, Draft, Kind, OutputFile};
use ignn_format::{FormatError, Result, guarded, regular};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::metadata::{KeyValue, ParquetMetaDataReader};
use parquet::file::properties::WriterProperties;

use crate::run::csv::{self, Texts};

/// Number of cells that are buffered before they are written.
const BATCH_CELLS: usize = 1 << 18;
/// Metadata of a Parquet file that shows that the program wrote it; the value is the version.
const MARK: &str = "ignn";
/// Longest header of a text table that is read: that of several million features.
const HEADER_BYTES: u64 = 64 << 20;
/// Most columns of such a header: each takes some 24 bytes of memory.
const HEADER_COLUMNS: usize = 4 << 20;

/// Formats of a table file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableForm {
    /// Apache Parquet.
    Parquet,
    /// Tab-separated values.
    Tsv,
    /// Comma-separated values.
    Csv,
}

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Integers up to 2^63 - 1: i64 in Parquet.
    Integer,
    /// Integers up to 2^64 - 1: u64 in Parquet.
    Wide,
    /// f32.
    Float,
    /// f64.
    Double,
    /// UTF-8, or null.
    Text,
    /// Lists of UTF-8.
    Texts,
    /// Lists of f32.
    Floats,
}

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// For [`ColumnKind::Integer`] and [`ColumnKind::Wide`].
    Integer(u64),
    /// For [`ColumnKind::Float`].
    Float(f32),
    /// For [`ColumnKind::Double`].
    Double(f64),
    /// For [`ColumnKind::Text`].
    Text(&'a str),
    /// Null, in a text column.
    Null,
    /// For [`ColumnKind::Texts`].
    Texts(&'a [&'a str]),
    /// For [`ColumnKind::Floats`].
    Floats(&'a [f32]),
}

/// The buffered cells of one column.
enum Column {
    Integer(Vec<u64>, ColumnKind),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Text(StringBuilder),
    Texts(ListBuilder<StringBuilder>),
    Floats(ListBuilder<Float32Builder>),
}

enum Sink {
    Text {
        out: BufWriter<OutputFile>,
        separator: char,
        texts: Texts,
    },
    Parquet {
        out: Box<ArrowWriter<OutputFile>>,
        schema: Arc<Schema>,
        columns: Vec<Column>,
        rows: usize,
    },
}

/// The reserved target of a table. Reserving it comes before the work that fills the table.
#[derive(Debug)]
pub struct TableTarget {
    draft: Draft,
    form: TableForm,
    texts: Texts,
}

/// Writes a table under a temporary name; [`TableWriter::finish`] renames it.
pub struct TableWriter {
    draft: Draft,
    sink: Sink,
    width: usize,
}

impl TableForm {
    /// The format that a file's extension asks for.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "parquet" => Some(Self::Parquet),
            "tsv" => Some(Self::Tsv),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

impl TableTarget {
    /// Reserves a target, and refuses one that could not be written later: an unknown extension, an
    /// existing file that may not be replaced, a directory without permission, a table that another
    /// process is writing.
    pub fn claim(target: &Path, replaces: Option<&'static Kind>) -> Result<Self> {
        let Some(form) = TableForm::of(target) else {
            return Err(FormatError::ending(target, ".parquet, .tsv or .csv"));
        };
        Ok(Self { draft: Draft::create(target, replaces)?, form, texts: Texts::Exact })
    }

    /// The same target, with a choice of how texts are written in CSV and TSV; by default exactly.
    pub fn with_texts(self, texts: Texts) -> Self {
        Self { texts, ..self }
    }

    /// The same target, unless a text table is there with other columns than these. For tables
    /// whose columns have names of the user's, so that their kind alone does not show who made
    /// them.
    pub fn only_over(self, columns: &[&str]) -> Result<Self> {
        let (path, texts) = (self.draft.target(), self.texts);
        let separator = match self.form {
            TableForm::Parquet => return Ok(self),
            TableForm::Tsv => '\t',
            TableForm::Csv => ',',
        };
        let is_empty = path.metadata().map_or(true, |found| found.len() == 0);
        let name = |column: &&str| texts.marked(column).into_owned();
        let expected: Vec<String> = columns.iter().map(name).collect();
        if is_empty || first_columns(path, separator).is_some_and(|found| found == expected) {
            return Ok(self);
        }
        let what = format!("a table with the columns {}", expected.join(", "));
        Err(storage::not_replaceable(path, what))
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.draft.target()
    }
}

/// The check of a [`Kind`] of tables, for `--force`: refuses a file whose columns `is_kind` does
/// not know, and a Parquet file that the program did not write. CSV and TSV have no place for such
/// a mark; there the columns alone decide.
pub fn check_made(path: &Path, what: &'static str, is_kind: fn(&[&str]) -> bool) -> Result<()> {
    let columns = match TableForm::of(path) {
        Some(TableForm::Parquet) => marked_columns(path),
        Some(TableForm::Tsv) => first_columns(path, '\t'),
        Some(TableForm::Csv) => first_columns(path, ','),
        None => None,
    };
    let columns = columns.unwrap_or_default();
    match is_kind(&columns.iter().map(String::as_str).collect::<Vec<_>>()) {
        true => Ok(()),
        false => Err(storage::not_replaceable(path, what)),
    }
}

/// The columns of a Parquet file that the program wrote.
fn marked_columns(path: &Path) -> Option<Vec<String>> {
    let (file, _) = regular::open(path).ok()?;
    let footer = guarded::call(path, || {
        let footer = ParquetMetaDataReader::new().parse_and_finish(&file);
        footer.map_err(FormatError::parquet(path))
    });
    let footer = footer.ok()?;
    let about = footer.file_metadata();
    let is_marked = about.key_value_metadata()?.iter().any(|pair| pair.key == MARK);
    let columns = about.schema().get_fields().iter().map(|field| field.name().to_string());
    is_marked.then(|| columns.collect())
}

/// The columns in the first line of a text table; `None` if it is longer than [`HEADER_BYTES`], has
/// more than [`HEADER_COLUMNS`] or does not end.
fn first_columns(path: &Path, separator: char) -> Option<Vec<String>> {
    let mut bytes = Vec::new();
    regular::open(path).ok()?.0.take(HEADER_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let (mut columns, mut name, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            // Two quotes within quotes are one.
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                name.push('"');
                letters.next();
            }
            '"' => is_quoted = !is_quoted,
            '\n' if !is_quoted => {
                columns.push(name.strip_suffix('\r').unwrap_or(&name).into());
                return Some(columns);
            }
            letter if letter == separator && !is_quoted => {
                if columns.len() == HEADER_COLUMNS {
                    return None;
                }
                columns.push(std::mem::take(&mut name));
            }
            letter => name.push(letter),
        }
    }
    None
}

impl TableWriter {
    /// Starts a table and writes its header.
    pub fn create(target: TableTarget, columns: &[(String, ColumnKind)]) -> Result<Self> {
        let TableTarget { draft, form, texts } = target;
        let file = draft.open()?;
        let sink = match form {
            TableForm::Parquet => {
                parquet_sink(file, columns).map_err(FormatError::parquet_written(draft.target()))?
            }
            TableForm::Tsv | TableForm::Csv => {
                let separator = if form == TableForm::Tsv { '\t' } else { ',' };
                Sink::Text { out: BufWriter::with_capacity(1 << 18, file), separator, texts }
            }
        };
        let mut writer = Self { draft, sink, width: columns.len() };
        if matches!(writer.sink, Sink::Text { .. }) {
            let header: Vec<_> = columns.iter().map(|(name, _)| Cell::Text(name)).collect();
            writer.row(&header)?;
        }
        Ok(writer)
    }

    /// Appends a row: one cell per column, of the column's kind.
    pub fn row(&mut self, cells: &[Cell]) -> Result<()> {
        assert_eq!(cells.len(), self.width, "a cell for every column");
        match &mut self.sink {
            Sink::Text { out, separator, texts } => {
                let written = write_line(out, cells, *separator, *texts);
                written.map_err(FormatError::io("write", self.draft.target()))
            }
            Sink::Parquet { out, schema, columns, rows } => {
                for (column, &cell) in columns.iter_mut().zip(cells) {
                    column.push(cell);
                }
                *rows += 1;
                if *rows * columns.len() < BATCH_CELLS {
                    return Ok(());
                }
                *rows = 0;
                write_batch(out, schema, columns)
                    .map_err(FormatError::parquet_written(self.draft.target()))
            }
        }
    }

    /// Completes the file and renames it to its final name.
    pub fn finish(self) -> Result<()> {
        let target = self.draft.target();
        let file = match self.sink {
            Sink::Text { out, .. } => {
                let written = out.into_inner().map_err(std::io::IntoInnerError::into_error);
                written.map_err(FormatError::io("write", target))?
            }
            Sink::Parquet { mut out, schema, mut columns, .. } => {
                let written = write_batch(&mut out, &schema, &mut columns);
                let written = written.and_then(|()| out.into_inner());
                written.map_err(FormatError::parquet_written(target))?
            }
        };
        self.draft.commit(file)
    }
}

impl Column {
    fn push(&mut self, cell: Cell) {
        match (self, cell) {
            (Self::Integer(cells, _), Cell::Integer(value)) => cells.push(value),
            (Self::Float(cells), Cell::Float(value)) => cells.push(value),
            (Self::Double(cells), Cell::Double(value)) => cells.push(value),
            (Self::Text(cells), Cell::Text(text)) => cells.append_value(text),
            (Self::Text(cells), Cell::Null) => cells.append_null(),
            (Self::Texts(cells), Cell::Texts(texts)) => {
                texts.iter().for_each(|text| cells.values().append_value(text));
                cells.append(true);
            }
            (Self::Floats(cells), Cell::Floats(values)) => {
                cells.values().append_slice(values);
                cells.append(true);
            }
            (_, cell) => panic!("a cell of its column's kind, not {cell:?}"),
        }
    }

    fn take(&mut self) -> ArrayRef {
        match self {
            Self::Integer(cells, ColumnKind::Wide) => {
                Arc::new(UInt64Array::from(std::mem::take(cells)))
            }
            Self::Integer(cells, _) => {
                Arc::new(Int64Array::from_iter_values(cells.drain(..).map(|id| id as i64)))
            }
            Self::Float(cells) => Arc::new(Float32Array::from(std::mem::take(cells))),
            Self::Double(cells) => Arc::new(Float64Array::from(std::mem::take(cells))),
            Self::Text(cells) => Arc::new(cells.finish()),
            Self::Texts(cells) => Arc::new(cells.finish()),
            Self::Floats(cells) => Arc::new(cells.finish()),
        }
    }
}

fn parquet_sink(
    file: OutputFile,
    columns: &[(String, ColumnKind)],
) -> parquet::errors::Result<Sink> {
    let field = |(name, kind): &(String, ColumnKind)| match kind {
        ColumnKind::Integer => Field::new(name, DataType::Int64, false),
        ColumnKind::Wide => Field::new(name, DataType::UInt64, false),
        ColumnKind::Float => Field::new(name, DataType::Float32, false),
        ColumnKind::Double => Field::new(name, DataType::Float64, false),
        ColumnKind::Text => Field::new(name, DataType::Utf8, true),
        ColumnKind::Texts => Field::new(name, DataType::List(item(DataType::Utf8)), false),
        ColumnKind::Floats => Field::new(name, DataType::List(item(DataType::Float32)), false),
    };
    let column = |(_, kind): &(String, ColumnKind)| match kind {
        ColumnKind::Integer | ColumnKind::Wide => Column::Integer(Vec::new(), *kind),
        ColumnKind::Float => Column::Float(Vec::new()),
        ColumnKind::Double => Column::Double(Vec::new()),
        ColumnKind::Text => Column::Text(StringBuilder::new()),
        ColumnKind::Texts => {
            Column::Texts(ListBuilder::new(StringBuilder::new()).with_field(item(DataType::Utf8)))
        }
        ColumnKind::Floats => Column::Floats(
            ListBuilder::new(Float32Builder::new()).with_field(item(DataType::Float32)),
        ),
    };
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let mark = KeyValue::new(MARK.into(), Some(env!("CARGO_PKG_VERSION").into()));
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(vec![mark]))
        .build();
    let out = ArrowWriter::try_new(file, schema.clone(), Some(properties))?;
    Ok(Sink::Parquet {
        out: Box::new(out),
        schema,
        columns: columns.iter().map(column).collect(),
        rows: 0,
    })
}

/// The field of a list's items.
fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type, false))
}

fn write_batch(
    out: &mut ArrowWriter<OutputFile>,
    schema: &Arc<Schema>,
    columns: &mut [Column],
) -> parquet::errors::Result<()> {
    let arrays = columns.iter_mut().map(Column::take).collect();
    out.write(&RecordBatch::try_new(schema.clone(), arrays)?)
}

fn write_line(
    out: &mut impl Write,
    cells: &[Cell],
    separator: char,
    texts: Texts,
) -> std::io::Result<()> {
    for (index, cell) in cells.iter().enumerate() {
        if index > 0 {
            write!(out, "{separator}")?;
        }
        match cell {
            Cell::Integer(value) => write!(out, "{value}")?,
            Cell::Float(value) => write!(out, "{value}")?,
            Cell::Double(value) => write!(out, "{value}")?,
            Cell::Text(text) => write!(out, "{}", texts.cell(text, separator))?,
            Cell::Null => {}
            // JSON begins with a bracket and is no formula.
            Cell::Texts(list) => {
                write!(out, "{}", csv::quote(&serde_json::to_string(list)?, separator))?;
            }
            Cell::Floats(values) => {
                let values = values.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
                write!(out, "{}", csv::quote(&format!("[{values}]"), separator))?;
            }
        }
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float32Type, UInt64Type};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    static KIND: Kind =
        Kind { check: |path| check_made(path, "a test", |columns| columns.starts_with(&["id"])) };

    fn write(path: &Path, force: bool) -> Result<()> {
        let columns =
            [("id", ColumnKind::Wide), ("value", ColumnKind::Float), ("name", ColumnKind::Text)];
        let mut writer = TableWriter::create(
            TableTarget::claim(path, force.then_some(&KIND))?,
            &columns.map(|(n, k)| (n.to_string(), k)),
        )?;
        writer.row(&[Cell::Integer(u64::MAX), Cell::Float(0.1), Cell::Text("a,\"b\"")])?;
        writer.row(&[Cell::Integer(7), Cell::Float(1e-30), Cell::Null])?;
        writer.finish()
    }

    #[test]
    fn a_header_of_endless_columns_is_no_table_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        fs::write(&path, ",".repeat(HEADER_COLUMNS) + "\n").unwrap();
        assert_eq!(first_columns(&path, ',').unwrap().len(), HEADER_COLUMNS + 1);
        fs::write(&path, ",".repeat(HEADER_COLUMNS + 1) + "\n").unwrap();
        assert!(first_columns(&path, ',').is_none());
    }

    #[test]
    fn text_is_quoted_where_it_must_be() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.csv");
        write(&path, false).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let small = 1e-30f32;
        assert_eq!(
            text,
            format!("id,value,name\n18446744073709551615,0.1,\"a,\"\"b\"\"\"\n7,{small},\n")
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn parquet_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        write(&path, false).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&path).unwrap()).unwrap();
        let batch = reader.build().unwrap().next().unwrap().unwrap();
        assert_eq!(batch.column(0).as_primitive::<UInt64Type>().values()[..], [u64::MAX, 7]);
        assert_eq!(batch.column(1).as_primitive::<Float32Type>().values()[..], [0.1, 1e-30]);
        let names = batch.column(2).as_string::<i32>();
        assert_eq!((names.value(0), names.is_null(1)), ("a,\"b\"", true));
    }

    #[test]
    fn lists_are_lists_or_json() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &Path| -> Result<()> {
            let columns =
                [("names".to_string(), ColumnKind::Texts), ("p".to_string(), ColumnKind::Floats)];
            let mut writer = TableWriter::create(TableTarget::claim(path, None)?, &columns)?;
            writer.row(&[Cell::Texts(&["a", "b \"c\""]), Cell::Floats(&[0.5, 0.25])])?;
            writer.row(&[Cell::Texts(&[]), Cell::Floats(&[])])?;
            writer.finish()
        };
        let (csv, parquet) = (dir.path().join("t.csv"), dir.path().join("t.parquet"));
        write(&csv).unwrap();
        let expected = r#""[""a"",""b \""c\""""]","[0.5,0.25]""#;
        assert_eq!(fs::read_to_string(&csv).unwrap(), format!("names,p\n{expected}\n[],[]\n"));
        write(&parquet).unwrap();
        let reader =
            ParquetRecordBatchReaderBuilder::try_new(File::open(&parquet).unwrap()).unwrap();
        let batch = reader.build().unwrap().next().unwrap().unwrap();
        let lists = batch.column(0).as_list::<i32>();
        assert_eq!(
            lists.value(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(),
            ["a", "b \"c\""]
        );
        assert_eq!((lists.value_length(1), lists.null_count()), (0, 0));
        let lists = batch.column(1).as_list::<i32>();
        assert_eq!(lists.value(0).as_primitive::<Float32Type>().values()[..], [0.5, 0.25]);
    }

    #[test]
    fn formulas_become_text_on_request() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, texts| {
            let columns = [("-a-b", ColumnKind::Text), ("x", ColumnKind::Float)];
            let columns = columns.map(|(name, kind)| (name.to_string(), kind));
            let path = dir.path().join(name);
            let target =
                TableTarget::claim(&path, Some(&storage::ANY_FILE)).unwrap().with_texts(texts);
            let mut writer = TableWriter::create(target, &columns).unwrap();
            writer.row(&[Cell::Text("=1+1"), Cell::Float(-0.5)]).unwrap();
            writer.finish().unwrap();
            fs::read(path).unwrap()
        };
        assert_eq!(write("t.csv", Texts::Exact), b"-a-b,x\n=1+1,-0.5\n");
        assert_eq!(write("t.csv", Texts::Safe), b"'-a-b,x\n'=1+1,-0.5\n");
        assert_eq!(write("t.parquet", Texts::Safe), write("t.parquet", Texts::Exact));
    }

    #[test]
    fn force_replaces_a_table_of_the_same_kind() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["t.csv", "t.tsv", "t.parquet"] {
            let path = dir.path().join(name);
            write(&path, false).unwrap();
            let first = fs::read(&path).unwrap();
            write(&path, true).unwrap();
            assert_eq!(fs::read(&path).unwrap(), first, "{name}");
            // A table of another kind is not replaced.
            let other = |path: &Path| check_made(path, "a test", |columns| columns == ["x"]);
            assert!(other(&path).is_err(), "{name}");
        }
        // Neither is a Parquet file of another program, whatever its columns.
        let path = dir.path().join("t.parquet");
        let batch = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![1])) as _)]);
        let (batch, file) = (batch.unwrap(), File::create(&path).unwrap());
        let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        assert!(matches!(write(&path, true), Err(FormatError::NotReplaceable { .. })));
        fs::write(&path, "PAR1 and then something else PAR1").unwrap();
        assert!(matches!(write(&path, true), Err(FormatError::NotReplaceable { .. })));
    }

    #[test]
    fn what_exists_is_kept_and_unknown_endings_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.tsv");
        fs::write(&path, "mine").unwrap();
        let error = write(&path, false).unwrap_err().to_string();
        let expected = "t.tsv: already exists: choose another name, or pass --force to replace it";
        assert!(error.ends_with(expected), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        let made = "t.tsv: not a test: --force replaces only what ignn made: choose another name";
        let error = write(&path, true).unwrap_err().to_string();
        assert!(error.ends_with(made), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        let error = write(&dir.path().join("t.xlsx"), false).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "t.xlsx: file extension (found \"xlsx\", expected .parquet, .tsv or .csv)"
            ),
            "{error}"
        );
    }
}
