//! NumPy arrays read whole: a stand-in with the interface of `source::npy`, to be deleted when that is merged.
//! One or two dimensions of plain little-endian numbers; no archives.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{IngestError, Result, quoted};
use crate::source::text::open_file;

/// An array of one or two dimensions; one dimension is one column.
#[derive(Debug)]
pub struct NpyArray {
    path: PathBuf,
    rows: u64,
    columns: u64,
    fortran: bool,
    dtype: String,
    data: Vec<u8>,
}

impl NpyArray {
    /// Reads a file and checks its shape against its size.
    pub fn open(path: &Path) -> Result<Self> {
        drop(open_file(path)?);
        let bytes = fs::read(path).map_err(IngestError::io("read", path))?;
        let bad = |what: String| IngestError::file(path, what);
        let (header, data) = split_header(&bytes).ok_or_else(|| {
            bad(format!("not a NumPy array file: it begins with {}", quoted(&bytes[..bytes.len().min(6)])))
        })?;
        let field = |name: &str| header.split_once(&format!("'{name}':")).map(|(_, rest)| rest.trim_start());
        let quote = |text: &str| {
            text.strip_prefix('\'').and_then(|text| text.split_once('\'')).map(|(text, _)| text.to_owned())
        };
        let dtype = field("descr")
            .and_then(quote)
            .ok_or_else(|| bad("no plain 'descr' in the array's header".into()))?;
        let size = element_bytes(&dtype)
            .ok_or_else(|| bad(format!("array of dtype '{dtype}' (expected integers or floats)")))?;
        let fortran = field("fortran_order").is_some_and(|value| value.starts_with("True"));
        let shape =
            field("shape").and_then(|text| text.strip_prefix('(')).and_then(|text| text.split_once(')'));
        let (shape, _) = shape.ok_or_else(|| bad("no 'shape' in the array's header".into()))?;
        let shape: Vec<u64> = (shape.split(',').map(str::trim).filter(|field| !field.is_empty()))
            .map(|field| field.parse().map_err(|_| bad(format!("a shape of {}", quoted(shape.as_bytes())))))
            .collect::<Result<_>>()?;
        let (rows, columns) = match shape[..] {
            [rows] => (rows, 1),
            [rows, columns] => (rows, columns),
            _ => return Err(bad(format!("array of {} dimensions (expected 2)", shape.len()))),
        };
        let needs = rows.checked_mul(columns).and_then(|count| count.checked_mul(size));
        if needs != Some(data.len() as u64) {
            let what = format!("{} bytes of elements (expected {rows} x {columns} of '{dtype}')", data.len());
            return Err(bad(what));
        }
        let data = data.to_vec();
        Ok(Self { path: path.into(), rows, columns, fortran, dtype, data })
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> u64 {
        self.columns
    }

    /// Reads whole rows from row `first` on; `out.len()` is a multiple of the columns and the rows exist.
    pub fn read_rows(&self, first: u64, out: &mut [f32]) -> Result<()> {
        let columns = self.columns as usize;
        for (at, out) in out.iter_mut().enumerate() {
            *out = self.element(first as usize + at / columns, at % columns) as f32;
        }
        Ok(())
    }

    /// Reads elements of an array of one column as integers that are not negative.
    pub fn read_integers(&self, first: u64, out: &mut [u64]) -> Result<()> {
        for (row, out) in (first as usize..).zip(out) {
            let value = self.element(row, 0);
            if value < 0.0 || value.fract() != 0.0 || value.is_nan() {
                return Err(IngestError::file(
                    &self.path,
                    format!("{value} in row {row} (expected integers from 0 on)"),
                ));
            }
            *out = value as u64;
        }
        Ok(())
    }

    fn element(&self, row: usize, column: usize) -> f64 {
        let at = if self.fortran {
            column * self.rows as usize + row
        } else {
            row * self.columns as usize + column
        };
        fn take<const N: usize>(data: &[u8], at: usize) -> [u8; N] {
            data[at * N..(at + 1) * N].try_into().expect("N bytes")
        }
        let data = &self.data;
        match &self.dtype[1..] {
            "f4" => f32::from_le_bytes(take(data, at)).into(),
            "f8" => f64::from_le_bytes(take(data, at)),
            "i4" => i32::from_le_bytes(take(data, at)).into(),
            "i8" => i64::from_le_bytes(take(data, at)) as f64,
            "i1" => i8::from_le_bytes(take(data, at)).into(),
            _ => data[at].into(),
        }
    }
}

fn element_bytes(dtype: &str) -> Option<u64> {
    match dtype {
        "|b1" | "|i1" | "|u1" => Some(1),
        "<f4" | "<i4" => Some(4),
        "<f8" | "<i8" => Some(8),
        _ => None,
    }
}

/// Text of the header, and what follows it.
fn split_header(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let rest = bytes.strip_prefix(b"\x93NUMPY")?;
    let (&[major, _], rest) = rest.split_first_chunk()?;
    let (length, rest) = match major {
        1 => {
            rest.split_first_chunk().map(|(length, rest)| (usize::from(u16::from_le_bytes(*length)), rest))?
        }
        _ => rest.split_first_chunk().map(|(length, rest)| (u32::from_le_bytes(*length) as usize, rest))?,
    };
    let (header, data) = rest.split_at_checked(length)?;
    Some((std::str::from_utf8(header).ok()?, data))
}
