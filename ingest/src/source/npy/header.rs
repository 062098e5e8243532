//! Header of a NumPy array file: element type, order and shape.
//!
//! The header comes from untrusted files, so it is not given to a general parser of Python
//! literals, whose recursion may have no limit.

use std::fmt;
use std::io::Read;
use std::path::Path;

use crate::error::{IngestError, Result, quoted};
use crate::source::text::read_up_to;

/// First bytes of the format.
pub const MAGIC: &[u8] = b"\x93NUMPY";
/// By default, NumPy rejects headers of more than 10,000 characters.
const MAX_HEADER_BYTES: u64 = 1 << 16;

/// Shape and element type.
#[derive(Clone, Debug, PartialEq)]
pub struct NpyHeader {
    /// Type of an element, such as `<f4`.
    pub dtype: Dtype,
    /// Whether columns, not rows, are contiguous.
    pub fortran: bool,
    /// Length of each dimension.
    pub shape: Vec<u64>,
    /// Offset of the first element.
    pub data_start: u64,
}

impl NpyHeader {
    /// Reads a header from the beginning of an array file; `name` is for messages.
    pub fn read(name: &Path, mut reader: impl Read) -> Result<Self> {
        let mut start = [0; 10];
        let got = read_up_to(&mut reader, &mut start).map_err(IngestError::io("read", name))?;
        if got < start.len() || !start.starts_with(MAGIC) {
            let found = quoted(&start[..got.min(6)]);
            return Err(IngestError::file(
                name,
                format!("not a NumPy array file: it begins with {found}"),
            ));
        }
        let mut data_start = 10;
        let mut length = u64::from(u16::from_le_bytes([start[8], start[9]]));
        match start[6] {
            1 => {}
            2 | 3 => {
                let mut high = [0; 2];
                reader.read_exact(&mut high).map_err(|_| bad_header(name, "it is truncated"))?;
                length |= u64::from(u16::from_le_bytes(high)) << 16;
                data_start = 12;
            }
            version => {
                return Err(bad_header(
                    name,
                    &format!("format version {version} (expected 1 to 3)"),
                ));
            }
        }
        if length > MAX_HEADER_BYTES {
            return Err(bad_header(
                name,
                &format!("{length} bytes (expected at most {MAX_HEADER_BYTES})"),
            ));
        }
        let mut text = Vec::new();
        reader.take(length).read_to_end(&mut text).map_err(IngestError::io("read", name))?;
        if (text.len() as u64) < length {
            return Err(bad_header(name, "it is truncated"));
        }
        let dictionary = Dictionary::parse(&text).map_err(|what| bad_header(name, &what))?;
        let descr = dictionary.descr.ok_or_else(|| bad_header(name, "it has no 'descr'"))?;
        let Descr::Plain(descr) = descr else {
            let what =
                "array of records (structured dtype): save it as a plain two-dimensional array";
            return Err(IngestError::file(name, what));
        };
        let dtype = Dtype::parse(&descr).ok_or_else(|| {
            let found = quoted(descr.as_bytes());
            bad_header(name, &format!("dtype {found} (expected one like '<f4')"))
        })?;
        let fortran =
            dictionary.fortran.ok_or_else(|| bad_header(name, "it has no 'fortran_order'"))?;
        let shape = dictionary.shape.ok_or_else(|| bad_header(name, "it has no 'shape'"))?;
        Ok(Self { dtype, fortran, shape, data_start: data_start + length })
    }

    /// Rows and columns of an array of one or two dimensions.
    pub fn matrix(&self, name: &Path) -> Result<(u64, u64)> {
        match self.shape[..] {
            [rows] => Ok((rows, 1)),
            [rows, columns] => Ok((rows, columns)),
            _ => {
                let what = format!("array of {} dimensions (expected 2)", self.shape.len());
                Err(IngestError::file(name, what))
            }
        }
    }

    /// Checks that a file of this length has the array: neither less nor more.
    pub fn check_size(&self, name: &Path, length: u64) -> Result<()> {
        let (rows, columns) = self.matrix(name)?;
        let element = self.element_bytes(name)? as u64;
        let has = length.saturating_sub(self.data_start);
        let needs = rows.checked_mul(columns).and_then(|count| count.checked_mul(element));
        if needs == Some(has) {
            return Ok(());
        }
        let needs = needs.map_or("more than 2^64".into(), |bytes| bytes.to_string());
        let what = format!(
            "{has} bytes of data, but shape ({rows}, {columns}) of '{}' needs {needs}: truncated \
             or damaged",
            self.dtype
        );
        Err(IngestError::file(name, what))
    }

    /// Bytes per element; an error if elements are not numbers of a supported size.
    pub(super) fn element_bytes(&self, name: &Path) -> Result<usize> {
        let Dtype { kind, size, .. } = self.dtype;
        let known = match kind {
            'f' => matches!(size, 4 | 8),
            'i' | 'u' => matches!(size, 1 | 2 | 4 | 8),
            'b' => size == 1,
            'O' => {
                let what = "array of Python objects: save it with a numeric dtype, for example \
                            numpy.save(FILE, array.astype(\"float32\"))";
                return Err(IngestError::file(name, what));
            }
            _ => false,
        };
        if !known {
            let what = format!(
                "array of dtype '{}' (expected f4, f8, i1 to i8, u1 to u8 or bool): save it with \
                 one of these",
                self.dtype
            );
            return Err(IngestError::file(name, what));
        }
        Ok(size as usize)
    }
}

/// Type of the elements, such as `<f4` or `|S3`: byte order, kind, size, and units for times.
#[derive(Clone, Debug, PartialEq)]
pub struct Dtype {
    text: String,
    /// Whether elements are big-endian.
    pub big_endian: bool,
    /// `f`, `i`, `u` and `b` for numbers; other kinds are not supported.
    pub kind: char,
    /// Bytes per element.
    pub size: u64,
}

impl Dtype {
    fn parse(text: &str) -> Option<Self> {
        let mut chars = text.chars();
        let (order, kind) = (chars.next()?, chars.next()?);
        let rest = chars.as_str();
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (size, units) = rest.split_at(digits);
        let is_number = matches!(kind, 'b' | 'i' | 'u' | 'f');
        let is_sized = if kind == 'O' { size.is_empty() } else { !size.is_empty() };
        let size = if size.is_empty() { 0 } else { size.parse().ok()? };
        let is_sound = matches!(order, '<' | '>' | '|')
            && matches!(
                kind,
                'b' | 'i' | 'u' | 'f' | 'c' | 'm' | 'M' | 'O' | 'S' | 'a' | 'U' | 'V'
            )
            && is_sized
            && units.is_empty() != matches!(kind, 'm' | 'M')
            && !(is_number && size > 1 && order == '|');
        is_sound.then(|| Self { text: text.into(), big_endian: order == '>', kind, size })
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn bad_header(name: &Path, what: &str) -> IngestError {
    IngestError::file(name, format!("bad NumPy header: {what}"))
}

/// The three entries of a header's dictionary.
#[derive(Default)]
struct Dictionary {
    descr: Option<Descr>,
    fortran: Option<bool>,
    shape: Option<Vec<u64>>,
}

enum Descr {
    Plain(String),
    Records,
}

impl Dictionary {
    /// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`. What follows a list of
    /// records is not parsed: such arrays are not supported.
    fn parse(text: &[u8]) -> Result<Self, String> {
        let mut at = Cursor { rest: text };
        let mut all = Self::default();
        at.expect(b'{')?;
        while !at.skip(b'}') {
            let key = at.string()?;
            at.expect(b':')?;
            match key.as_str() {
                "descr" if at.skip(b'[') => {
                    return Ok(Self { descr: Some(Descr::Records), ..all });
                }
                "descr" => all.descr = Some(Descr::Plain(at.string()?)),
                "fortran_order" => all.fortran = Some(at.boolean()?),
                "shape" => all.shape = Some(at.shape()?),
                _ => return Err(format!("unknown entry {}", quoted(key.as_bytes()))),
            }
            if !at.skip(b',') {
                at.expect(b'}')?;
                break;
            }
        }
        Ok(all)
    }
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn skip(&mut self, byte: u8) -> bool {
        self.rest = self.rest.trim_ascii_start();
        let there = self.rest.first() == Some(&byte);
        if there {
            self.rest = &self.rest[1..];
        }
        there
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.skip(byte) { Ok(()) } else { Err(self.wrong(&format!("'{}'", byte as char))) }
    }

    fn wrong(&self, expected: &str) -> String {
        let shown = self.rest[..self.rest.len().min(20)].trim_ascii_end();
        format!("expected {expected}, found {}", quoted(shown))
    }

    fn string(&mut self) -> Result<String, String> {
        let quote = if self.skip(b'\'') { b'\'' } else { b'"' };
        if quote == b'"' && !self.skip(b'"') {
            return Err(self.wrong("a string"));
        }
        let end = self.rest.iter().position(|&byte| byte == quote);
        let end = end.ok_or_else(|| self.wrong("the end of a string"))?;
        let text = String::from_utf8_lossy(&self.rest[..end]).into_owned();
        self.rest = &self.rest[end + 1..];
        Ok(text)
    }

    fn boolean(&mut self) -> Result<bool, String> {
        self.rest = self.rest.trim_ascii_start();
        for (word, value) in [(&b"True"[..], true), (b"False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(self.wrong("True or False"))
    }

    fn shape(&mut self) -> Result<Vec<u64>, String> {
        self.expect(b'(')?;
        let mut shape = Vec::new();
        while !self.skip(b')') {
            let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number =
                std::str::from_utf8(&self.rest[..digits]).ok().and_then(|text| text.parse().ok());
            shape.push(number.ok_or_else(|| self.wrong("a dimension"))?);
            // NumPy on Python 2 wrote long integers as `12L`.
            self.rest = &self.rest[digits..];
            self.rest = self.rest.strip_prefix(b"L").unwrap_or(self.rest);
            if !self.skip(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(shape)
    }
}
