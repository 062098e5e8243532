//! NumPy array files: one- or two-dimensional arrays of numbers, read by row ranges with `pread`.
//! Only the requested rows are held in memory. Archives of several arrays are
//! [`crate::source::npz`].

mod header;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{IngestError, Result};
use crate::source::text;
pub use header::{MAGIC, NpyHeader};

/// Bytes read at once.
const PIECE_BYTES: usize = 1 << 20;

/// An array of numbers in a file. A one-dimensional array is one column.
#[derive(Debug)]
pub struct NpyArray {
    /// How messages name it.
    name: PathBuf,
    file: File,
    header: NpyHeader,
    rows: u64,
    columns: u64,
    element: usize,
}

impl NpyArray {
    /// Opens an array file and checks its shape against its size.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_as(path, path)
    }

    /// Opens an array file that messages name differently, such as a member of an archive.
    pub fn open_as(path: &Path, name: &Path) -> Result<Self> {
        let file = text::open_file(path)?;
        let header = NpyHeader::read(name, &file)?;
        let (rows, columns) = header.matrix(name)?;
        let element = header.element_bytes(name)?;
        let length = file.metadata().map_err(IngestError::io("read", path))?.len();
        header.check_size(name, length)?;
        Ok(Self { name: name.into(), file, header, rows, columns, element })
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> u64 {
        self.columns
    }

    /// How messages name the array.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Reads whole rows, starting with row `first`. `out.len()` is a multiple of the number of
    /// columns, and the rows exist.
    pub fn read_rows(&self, first: u64, out: &mut [f32]) -> Result<()> {
        let columns = self.columns as usize;
        if columns == 0 {
            return Ok(());
        }
        let count = out.len() / columns;
        if !self.header.fortran || columns == 1 {
            return self.read_elements(first * self.columns, out);
        }
        // Columns are contiguous: read a strip of each and transpose.
        let mut strip = vec![0.0; count];
        for column in 0..columns {
            self.read_elements(column as u64 * self.rows + first, &mut strip)?;
            for (row, &value) in strip.iter().enumerate() {
                out[row * columns + column] = value;
            }
        }
        Ok(())
    }

    /// Reads elements of an array of one column as non-negative integers.
    pub fn read_integers(&self, first: u64, out: &mut [u64]) -> Result<()> {
        if matches!(self.header.dtype.kind, 'f' | 'b') {
            let what = format!("array of dtype '{}' (expected integers)", self.header.dtype);
            return Err(IngestError::file(&self.name, what));
        }
        let signed = self.header.dtype.kind == 'i';
        self.read(first, out, |array, bytes, out| {
            array.decode(bytes, out, |value| value.integer());
        })?;
        match out.iter().position(|&value| signed && value > i64::MAX as u64) {
            Some(at) => {
                let what = format!("element {} is negative: {}", first + at as u64, out[at] as i64);
                Err(IngestError::file(&self.name, what))
            }
            None => Ok(()),
        }
    }

    fn read_elements(&self, first: u64, out: &mut [f32]) -> Result<()> {
        self.read(first, out, |array, bytes, out| array.decode(bytes, out, |value| value.float()))
    }

    /// Reads and decodes elements in pieces, starting with element `first`.
    fn read<T>(
        &self,
        first: u64,
        out: &mut [T],
        decode: impl Fn(&Self, &[u8], &mut [T]),
    ) -> Result<()> {
        let piece = PIECE_BYTES / self.element;
        let mut bytes = vec![0; self.element * piece.min(out.len())];
        let mut offset = self.header.data_start + first * self.element as u64;
        for out in out.chunks_mut(piece) {
            let bytes = &mut bytes[..out.len() * self.element];
            self.file.read_exact_at(bytes, offset).map_err(IngestError::io("read", &self.name))?;
            decode(self, bytes, out);
            offset += bytes.len() as u64;
        }
        Ok(())
    }

    fn decode<T>(&self, bytes: &[u8], out: &mut [T], convert: impl Fn(Number) -> T) {
        let big = self.header.dtype.big_endian;
        macro_rules! decode {
            ($type:ty, $variant:ident as $wide:ty) => {{
                let elements = bytes.chunks_exact(size_of::<$type>());
                for (out, element) in out.iter_mut().zip(elements) {
                    let element = element.try_into().expect("a whole element");
                    let value = if big {
                        <$type>::from_be_bytes(element)
                    } else {
                        <$type>::from_le_bytes(element)
                    };
                    *out = convert(Number::$variant(value as $wide));
                }
            }};
        }
        match (self.header.dtype.kind, self.element) {
            ('f', 4) => decode!(f32, Float as f64),
            ('f', _) => decode!(f64, Float as f64),
            ('i', 1) => decode!(i8, Signed as i64),
            ('i', 2) => decode!(i16, Signed as i64),
            ('i', 4) => decode!(i32, Signed as i64),
            ('i', _) => decode!(i64, Signed as i64),
            (_, 1) => decode!(u8, Unsigned as u64),
            (_, 2) => decode!(u16, Unsigned as u64),
            (_, 4) => decode!(u32, Unsigned as u64),
            (_, _) => decode!(u64, Unsigned as u64),
        }
    }
}

enum Number {
    Float(f64),
    Signed(i64),
    Unsigned(u64),
}

impl Number {
    fn float(self) -> f32 {
        match self {
            Self::Float(value) => value as f32,
            Self::Signed(value) => value as f32,
            Self::Unsigned(value) => value as f32,
        }
    }

    /// Negative numbers in two's complement; the caller checks the sign.
    fn integer(self) -> u64 {
        match self {
            Self::Float(value) => value as u64,
            Self::Signed(value) => value as u64,
            Self::Unsigned(value) => value,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bytes of an array file of version 1.
    pub(crate) fn npy(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let mut header =
            format!("{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}")
                .into_bytes();
        header.resize((header.len() + 11).next_multiple_of(64) - 11, b' ');
        header.push(b'\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header);
        bytes.extend(data);
        bytes
    }

    fn open(bytes: &[u8]) -> Result<NpyArray> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.npy");
        std::fs::write(&path, bytes).unwrap();
        NpyArray::open_as(&path, Path::new("x.npy"))
    }

    fn rows(bytes: &[u8], first: u64, count: usize) -> Vec<f32> {
        let array = open(bytes).unwrap();
        let mut out = vec![0.0; count * array.columns() as usize];
        array.read_rows(first, &mut out).unwrap();
        out
    }

    fn message(bytes: &[u8]) -> String {
        open(bytes).unwrap_err().to_string()
    }

    #[test]
    fn every_type_and_both_byte_orders() {
        macro_rules! check {
            ($($type:ty: $little:literal $big:literal),*) => {$(
                let values: Vec<$type> = (0..6).map(|i| i as $type).collect();
                let little: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
                let big: Vec<u8> = values.iter().flat_map(|v| v.to_be_bytes()).collect();
                assert_eq!(rows(&npy($little, "False", "(3, 2)", &little), 1, 2), [2.0, 3.0, 4.0, 5.0]);
                assert_eq!(rows(&npy($big, "False", "(3, 2)", &big), 1, 2), [2.0, 3.0, 4.0, 5.0]);
                assert_eq!(rows(&npy($big, "True", "(3, 2)", &big), 1, 2), [1.0, 4.0, 2.0, 5.0]);
                assert_eq!(rows(&npy($little, "True", "(6,)", &little), 4, 2), [4.0, 5.0]);
            )*};
        }
        check!(f32: "'<f4'" "'>f4'", f64: "'<f8'" "'>f8'", i8: "'|i1'" "'|i1'", u8: "'|u1'" "'|u1'");
        check!(i16: "'<i2'" "'>i2'", i32: "'<i4'" "'>i4'", i64: "'<i8'" "'>i8'");
        check!(u16: "'<u2'" "'>u2'", u32: "'<u4'" "'>u4'", u64: "'<u8'" "'>u8'");
        assert_eq!(rows(&npy("'|b1'", "False", "(2, 1)", &[1, 0]), 0, 2), [1.0, 0.0]);
    }

    #[test]
    fn integers_must_not_be_negative() {
        let array =
            open(&npy("'<i4'", "False", "(2,)", &[5, 0, 0, 0, 255, 255, 255, 255])).unwrap();
        let mut out = [0; 1];
        array.read_integers(0, &mut out).unwrap();
        assert_eq!(out, [5]);
        let error = array.read_integers(1, &mut out).unwrap_err().to_string();
        assert_eq!(error, "x.npy: element 1 is negative: -1");
    }

    #[test]
    fn malformed_files_have_exact_messages() {
        assert_eq!(message(b"node,f0"), "x.npy: not a NumPy array file: it begins with \"node,f\"");
        assert_eq!(
            message(&npy("'|O'", "False", "(2,)", b"")),
            "x.npy: array of Python objects: save it with a numeric dtype, for example \
             numpy.save(FILE, array.astype(\"float32\"))"
        );
        assert_eq!(
            message(&npy("'<U3'", "False", "(2,)", b"")),
            "x.npy: array of dtype '<U3' (expected f4, f8, i1 to i8, u1 to u8 or bool): save it \
             with one of these"
        );
        assert_eq!(
            message(&npy("[('a', '<f4')]", "False", "(2,)", b"")),
            "x.npy: array of records (structured dtype): save it as a plain two-dimensional array"
        );
        assert_eq!(
            message(&npy("'<f4'", "False", "(2, 3, 4)", b"")),
            "x.npy: array of 3 dimensions (expected 2)"
        );
        assert_eq!(
            message(&npy("'<f4'", "False", "(2, 2)", &[0; 12])),
            "x.npy: 12 bytes of data, but shape (2, 2) of '<f4' needs 16: truncated or damaged"
        );
        assert_eq!(
            message(&npy("'<f8'", "False", "(4294967296, 4294967296)", &[])),
            "x.npy: 0 bytes of data, but shape (4294967296, 4294967296) of '<f8' needs more than \
             2^64: truncated or damaged"
        );
        assert_eq!(
            message(b"\x93NUMPY\x02\x00\xff\xff\xff\xff"),
            "x.npy: bad NumPy header: 4294967295 bytes (expected at most 65536)"
        );
        assert_eq!(
            message(&npy("'<f4'", "0", "(1,)", &[])),
            "x.npy: bad NumPy header: expected True or False, found \"0, 'shape': (1,), }\""
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = open(&bytes);
            let _ = NpyHeader::read(Path::new("x"), &[MAGIC, b"\x01\x00\x60\x00", &bytes].concat()[..]);
        }

        #[test]
        fn arbitrary_headers_do_not_panic(header in "[{}()\\[\\],:' 0-9a-zL<|]{0,80}") {
            let length = (header.len() as u16).to_le_bytes();
            let _ = open(&[MAGIC, b"\x01\x00", &length, header.as_bytes()].concat());
        }
    }
}
