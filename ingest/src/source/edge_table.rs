//! Edges in Parquet tables: the columns of source, target and weight, found by name and read one
//! slice of a row group at a time.

use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use ignn_format::nearest::nearest;
use ignn_format::{FormatError, guarded};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

use crate::error::{IngestError, Result, quoted};
use crate::source::edge_input::EdgeInput;
use crate::source::edge_list::{self, BadLine, Pushed, SOURCE_NAMES, TARGET_NAMES, WEIGHT_NAMES};
use crate::source::{parquet_file, text};

/// First bytes of the format.
pub const MAGIC: &[u8] = b"PAR1";
/// Rows decoded at once.
const SLICE_ROWS: usize = 1 << 18;

/// A Parquet file of edges.
pub struct EdgeTable {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    columns: [usize; 2],
    weight: Option<usize>,
    /// Ids are integers.
    pub integer: bool,
}

/// Rows of a row group.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    group: usize,
    offset: usize,
    /// Number of the first row in the file.
    pub first_row: u64,
}

impl EdgeTable {
    /// Opens a file and finds its columns.
    pub fn open(path: &Path, input: &EdgeInput) -> Result<Self> {
        let metadata = parquet_file::metadata(path)?;
        let fields = metadata.schema().fields().clone();
        let names: Vec<String> =
            fields.iter().map(|field| field.name().to_ascii_lowercase()).collect();
        let find = |chosen: &Option<String>, known: &[&str], role: &str| {
            let found = match chosen {
                Some(chosen) => names.iter().position(|name| *name == chosen.to_ascii_lowercase()),
                None => names.iter().position(|name| known.contains(&name.as_str())),
            };
            let wanted = chosen.as_deref().unwrap_or(known[0]);
            found.ok_or_else(|| {
                let near = chosen.as_deref();
                let near = near.and_then(|near| nearest(near, names.iter().map(String::as_str)));
                let near = near.map(|near| format!(", did you mean {near:?}?")).unwrap_or_default();
                let found = names.join(", ") + &near;
                let what = format!(
                    "no column {wanted:?} for the {role} (found {found}): name it with --{role}"
                );
                IngestError::file(path, what)
            })
        };
        let source = find(&input.source, SOURCE_NAMES, "source")?;
        let target = find(&input.target, TARGET_NAMES, "target")?;
        if source == target {
            let what = edge_list::same_column(fields[source].name(), source, true);
            return Err(IngestError::file(path, what));
        }
        let weight = match &input.weight {
            _ if input.unweighted => None,
            Some(_) => Some(find(&input.weight, WEIGHT_NAMES, "weight")?),
            None => find(&input.weight, WEIGHT_NAMES, "weight").ok(),
        };
        for column in [source, target] {
            let kind = fields[column].data_type();
            if !kind.is_integer() && *kind != DataType::Utf8View {
                let name = fields[column].name();
                let what = format!(
                    "column {name:?} has type {} (expected integers or strings as ids)",
                    parquet_file::type_name(kind)
                );
                return Err(IngestError::file(path, what));
            }
        }
        let [integer, other] =
            [source, target].map(|column| fields[column].data_type().is_integer());
        if integer != other {
            let [source, target] = [source, target].map(|column| fields[column].name());
            let what = format!(
                "integers in one of {source:?} and {target:?}, strings in the other (expected the \
                 same)"
            );
            return Err(IngestError::file(path, what));
        }
        if let Some(column) = weight {
            let kind = fields[column].data_type();
            if !kind.is_integer() && !matches!(kind, DataType::Float32 | DataType::Float64) {
                let name = fields[column].name();
                return Err(IngestError::file(
                    path,
                    format!(
                        "column {name:?} has type {} (expected a number as weight)",
                        parquet_file::type_name(kind)
                    ),
                ));
            }
        }
        Ok(Self { path: path.into(), metadata, columns: [source, target], weight, integer })
    }

    /// Whether there is a weight column.
    pub fn weighted(&self) -> bool {
        self.weight.is_some()
    }

    /// How the columns are read, for people.
    pub fn words(&self) -> String {
        let fields = self.metadata.schema().fields();
        let names = fields.iter().map(|field| quoted(field.name().as_bytes()));
        edge_list::words("Parquet", names, self.columns, self.weight, self.integer)
    }

    /// The file in slices.
    pub fn slices(&self) -> impl Iterator<Item = Slice> + Send + use<> {
        let mut first = 0u64;
        let groups: Vec<usize> = self
            .metadata
            .metadata()
            .row_groups()
            .iter()
            .map(|group| group.num_rows().max(0) as usize)
            .collect();
        groups.into_iter().enumerate().flat_map(move |(group, rows)| {
            let base = first;
            first += rows as u64;
            (0..rows).step_by(SLICE_ROWS).map(move |offset| Slice {
                group,
                offset,
                first_row: base + offset as u64,
            })
        })
    }

    /// Decodes a slice.
    pub fn read(&self, slice: Slice) -> Result<Vec<RecordBatch>> {
        let batches = guarded::call(&self.path, || self.decode(slice))?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let group = self.metadata.metadata().row_group(slice.group).num_rows().max(0) as usize;
        let expected = SLICE_ROWS.min(group - slice.offset);
        if rows != expected {
            // Otherwise a damaged file that declares 2^60 rows would be read forever.
            let what = format!(
                "{rows} rows starting with row {}, but it declares {expected}",
                slice.first_row
            );
            return Err(parquet_file::damaged(&self.path, what));
        }
        Ok(batches)
    }

    fn decode(&self, slice: Slice) -> Result<Vec<RecordBatch>> {
        let file = text::open_file(&self.path)?;
        let columns = self.columns.into_iter().chain(self.weight);
        let mask = ProjectionMask::roots(self.metadata.parquet_schema(), columns);
        let reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
                .with_projection(mask)
                .with_row_groups(vec![slice.group])
                .with_offset(slice.offset)
                .with_limit(SLICE_ROWS)
                .with_batch_size(SLICE_ROWS)
                .build()
                .map_err(FormatError::parquet(&self.path))?;
        reader
            .map(|batch| batch.map_err(|error| parquet_file::damaged(&self.path, error)))
            .collect()
    }

    /// The position of a column in a batch, which has the selected columns in the order of the
    /// file.
    fn place(&self, column: usize) -> usize {
        let all = self.columns.into_iter().chain(self.weight);
        let mut smaller: Vec<usize> = all.filter(|&other| other < column).collect();
        smaller.sort_unstable();
        smaller.dedup();
        smaller.len()
    }

    /// Integer ids of a batch.
    pub fn integers(
        &self,
        batches: &[RecordBatch],
        mut push: impl FnMut(u64, u64, f32) -> Pushed,
    ) -> Result<Pushed, BadLine> {
        self.rows(
            batches,
            |batch, column| integer_column(batch.column(self.place(column))),
            &mut push,
        )
    }

    /// String ids of a batch.
    pub fn strings<'a>(
        &self,
        batches: &'a [RecordBatch],
        mut push: impl FnMut(&'a str, &'a str, f32) -> Pushed,
    ) -> Result<Pushed, BadLine> {
        let column = |batch: &'a RecordBatch, column: usize| {
            let ids = batch.column(self.place(column)).as_string_view();
            ids.iter().map(|id| id.ok_or_else(null)).collect()
        };
        self.rows(batches, column, &mut push)
    }

    fn rows<'a, K: Copy + std::fmt::Debug>(
        &self,
        batches: &'a [RecordBatch],
        ids: impl Fn(&'a RecordBatch, usize) -> Vec<Result<K, String>>,
        push: &mut impl FnMut(K, K, f32) -> Pushed,
    ) -> Result<Pushed, BadLine> {
        let mut first = 0;
        for batch in batches {
            let [sources, targets] = self.columns.map(|column| ids(batch, column));
            let weights = self.weight.map(|column| weight_column(batch.column(self.place(column))));
            for row in 0..batch.num_rows() {
                let bad = |expected: &str, found: String| BadLine {
                    at: first + row,
                    expected: expected.into(),
                    found,
                };
                let id = |ids: &[Result<K, String>]| {
                    let expected = |found: &str| {
                        if found == NULL { "an id" } else { "an id that is not negative" }
                    };
                    ids[row].clone().map_err(|found| bad(expected(&found), found))
                };
                let (source, target) = (id(&sources)?, id(&targets)?);
                let weight = match &weights {
                    Some(weights) => {
                        let shown = |weight: f32| {
                            if weight.is_nan() { "NaN or null".into() } else { weight.to_string() }
                        };
                        edge_list::check_weight(weights[row])
                            .map_err(|e| bad(e, shown(weights[row])))?
                    }
                    None => 1.0,
                };
                match push(source, target, weight) {
                    Pushed::Taken => {}
                    Pushed::Full => return Ok(Pushed::Full),
                    Pushed::UnknownSource => {
                        return Err(bad(edge_list::LISTED, format!("{source:?}")));
                    }
                    Pushed::UnknownTarget => {
                        return Err(bad(edge_list::LISTED, format!("{target:?}")));
                    }
                }
            }
            first += batch.num_rows();
        }
        Ok(Pushed::Taken)
    }
}

const NULL: &str = "null";

fn null() -> String {
    NULL.into()
}

fn integer_column(array: &dyn Array) -> Vec<Result<u64, String>> {
    macro_rules! collect {
        ($kind:ty) => {
            array
                .as_primitive::<$kind>()
                .iter()
                .map(|id| {
                    id.ok_or_else(null).and_then(|id| u64::try_from(id).map_err(|_| id.to_string()))
                })
                .collect()
        };
    }
    match array.data_type() {
        DataType::Int8 => collect!(Int8Type),
        DataType::Int16 => collect!(Int16Type),
        DataType::Int32 => collect!(Int32Type),
        DataType::Int64 => collect!(Int64Type),
        DataType::UInt8 => collect!(UInt8Type),
        DataType::UInt16 => collect!(UInt16Type),
        DataType::UInt32 => collect!(UInt32Type),
        _ => collect!(UInt64Type),
    }
}

/// Weights as f32; null becomes NaN, which is rejected later.
fn weight_column(array: &dyn Array) -> Vec<f32> {
    match array.data_type() {
        DataType::Float32 => {
            array.as_primitive::<Float32Type>().iter().map(|w| w.unwrap_or(f32::NAN)).collect()
        }
        DataType::Float64 => array
            .as_primitive::<Float64Type>()
            .iter()
            .map(|w| w.map_or(f32::NAN, |w| w as f32))
            .collect(),
        _ => {
            let negative = |number: String| number.parse().unwrap_or(f32::NAN);
            integer_column(array)
                .into_iter()
                .map(|w| w.map_or_else(negative, |w| w as f32))
                .collect()
        }
    }
}
