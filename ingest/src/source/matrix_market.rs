//! Matrix Market files: the header, and coordinate entries one by one. Symmetric entries are not
//! mirrored and repeated ones are not summed; that is up to the caller.

use std::path::{Path, PathBuf};

use crate::error::{IngestError, Result, quoted};
use crate::source::plausible;
use crate::source::text::Lines;

/// First bytes of the format.
pub const MAGIC: &[u8] = b"%%MatrixMarket";

/// Type of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// No values: each entry is 1.
    Pattern,
    /// Decimal numbers.
    Real,
    /// Integers.
    Integer,
}

/// Which entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symmetry {
    /// All of them.
    General,
    /// One of each pair `(i, j)`, `(j, i)`.
    Symmetric,
}

/// The declarations at the start of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Number of rows.
    pub rows: u64,
    /// Number of columns.
    pub cols: u64,
    /// Number of entries that follow.
    pub entries: u64,
    /// Type of the values.
    pub field: Field,
    /// Which entries are written.
    pub symmetry: Symmetry,
    /// Number of lines of the header, including the sizes.
    pub lines: u64,
}

/// An error in a line; the caller adds file and line number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl Mismatch {
    fn new(expected: impl Into<String>, line: &[u8]) -> Self {
        Self { expected: expected.into(), found: quoted(line) }
    }

    /// The error with file and line number.
    pub fn at(self, path: &Path, line: u64) -> IngestError {
        IngestError::line(path, line, self.expected, self.found)
    }
}

/// Parses the first lines of a file until the header is complete.
#[derive(Debug, Default)]
struct HeaderParser {
    banner: Option<(Field, Symmetry)>,
    lines: u64,
}

impl HeaderParser {
    fn line(&mut self, line: &[u8]) -> Result<Option<Header>, Mismatch> {
        self.lines += 1;
        let Some((field, symmetry)) = self.banner else {
            self.banner = Some(parse_banner(line)?);
            return Ok(None);
        };
        if is_blank(line) {
            return Ok(None);
        }
        let wrong = || Mismatch::new("the numbers of rows, columns and entries", line);
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut number = || words.next().and_then(parse_integer).ok_or_else(wrong);
        let (rows, cols, entries) = (number()?, number()?, number()?);
        if words.next().is_some() {
            return Err(wrong());
        }
        if symmetry == Symmetry::Symmetric && rows != cols {
            return Err(Mismatch::new("as many rows as columns in a symmetric matrix", line));
        }
        Ok(Some(Header { rows, cols, entries, field, symmetry, lines: self.lines }))
    }
}

impl Header {
    fn read(lines: &mut Lines) -> Result<Self> {
        let path = lines.path().to_path_buf();
        let mut parser = HeaderParser::default();
        while let Some((number, line)) = lines.next()? {
            if let Some(header) = parser.line(line).map_err(|error| error.at(&path, number))? {
                return Ok(header);
            }
        }
        Err(no_header(&path))
    }

    /// The header of a file, and its length in bytes of (decompressed) text.
    pub fn open(path: &Path) -> Result<(Self, u64)> {
        let mut lines = Lines::open(path)?;
        Ok((Self::read(&mut lines)?, lines.offset()))
    }

    /// Refuses a number of nodes that is implausible for the number of entries. A header of one
    /// line could otherwise produce a dataset of many gigabytes. `known` is the number of nodes
    /// that the user gives.
    pub fn check_nodes(&self, path: &Path, size: u64, known: u64) -> Result<()> {
        if size <= known || plausible::rows(size, self.entries) {
            return Ok(());
        }
        let (rows, cols, entries, line) = (self.rows, self.cols, self.entries, self.lines);
        let what = format!(
            "a matrix of {rows} x {cols} with only {entries} entries, declared on line {line}: if \
             it has that many nodes, say so with --nodes {size} (nodes = {size} in a specification)"
        );
        Err(IngestError::file(path, what))
    }

    /// Parses an entry: row and column, from 0, and value (1 for a pattern); `None` for a blank
    /// line or a comment.
    pub fn parse_entry(&self, line: &[u8]) -> Result<Option<(u64, u64, f32)>, Mismatch> {
        if is_blank(line) {
            return Ok(None);
        }
        let wrong = || match self.field {
            Field::Pattern => Mismatch::new("a row and a column", line),
            _ => Mismatch::new("a row, a column and a value", line),
        };
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let mut index = |what, limit| {
            let index = words.next().and_then(parse_integer).ok_or_else(wrong)?;
            if index == 0 || index > limit {
                return Err(Mismatch::new(format!("a {what} from 1 to {limit}"), line));
            }
            Ok(index - 1)
        };
        let (row, col) = (index("row", self.rows)?, index("column", self.cols)?);
        let value = match self.field {
            Field::Pattern => 1.0,
            Field::Integer | Field::Real => {
                let word = words.next().and_then(|word| std::str::from_utf8(word).ok());
                let value: f32 = word.and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
                if !value.is_finite() {
                    return Err(Mismatch::new("a finite value", line));
                }
                value
            }
        };
        if words.next().is_some() {
            return Err(wrong());
        }
        Ok(Some((row, col, value)))
    }

    /// Refuses more entries than a text of at most `bytes` can have.
    pub fn check_length(&self, path: &Path, bytes: u64) -> Result<()> {
        // The shortest entry is "1 1", and all but the last end with a newline.
        if self.entries <= bytes.div_ceil(4) {
            return Ok(());
        }
        let (entries, line) = (self.entries, self.lines);
        let what = format!(
            "{entries} entries declared on line {line}, more than the file has room for: \
             truncated or damaged"
        );
        Err(IngestError::file(path, what))
    }

    /// Checks the number of entries at the end. Surplus entries are better reported where they
    /// begin, see [`Header::surplus`].
    pub fn check_count(&self, path: &Path, found: u64) -> Result<()> {
        if found == self.entries {
            return Ok(());
        }
        let (announced, line) = (self.entries, self.lines);
        Err(IngestError::file(
            path,
            format!("{announced} entries declared on line {line}, but {found} found"),
        ))
    }

    /// The error for the first entry beyond the declared number.
    pub fn surplus(&self, line: &[u8]) -> Mismatch {
        Mismatch::new(format!("the end of the file after {} entries", self.entries), line)
    }
}

/// The entries of a file, one by one.
pub struct Entries {
    path: PathBuf,
    header: Header,
    lines: Lines,
    seen: u64,
}

impl Entries {
    /// Opens a file and reads its header.
    pub fn open(path: &Path) -> Result<Self> {
        let mut lines = Lines::open(path)?;
        Ok(Self { path: path.into(), header: Header::read(&mut lines)?, lines, seen: 0 })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The next entry: row and column, from 0, and value. At the end, the number of entries is
    /// checked.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(u64, u64, f32)>> {
        while let Some((number, line)) = self.lines.next()? {
            let entry =
                self.header.parse_entry(line).map_err(|error| error.at(&self.path, number))?;
            if entry.is_some() {
                if self.seen == self.header.entries {
                    return Err(self.header.surplus(line).at(&self.path, number));
                }
                self.seen += 1;
                return Ok(entry);
            }
        }
        self.header.check_count(&self.path, self.seen)?;
        Ok(None)
    }
}

fn no_header(path: &Path) -> IngestError {
    IngestError::file(path, "ends before the numbers of rows, columns and entries")
}

fn is_blank(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start(), [] | [b'%', ..])
}

fn parse_integer(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Parses `%%MatrixMarket matrix coordinate real general`, in upper or lower case.
fn parse_banner(line: &[u8]) -> Result<(Field, Symmetry), Mismatch> {
    const FORM: &str =
        "\"%%MatrixMarket matrix coordinate pattern|real|integer general|symmetric\"";
    let wrong = || Mismatch::new(FORM, line);
    let text = String::from_utf8_lossy(&line[..line.len().min(200)]).to_ascii_lowercase();
    let mut words = text.split_ascii_whitespace();
    if words.next() != Some("%%matrixmarket") || words.next() != Some("matrix") {
        return Err(wrong());
    }
    match words.next() {
        Some("coordinate") => {}
        Some("array") => {
            return Err(Mismatch::new("a coordinate matrix (save a dense one as .npy)", line));
        }
        _ => return Err(wrong()),
    }
    let field = match words.next() {
        Some("pattern") => Field::Pattern,
        Some("real" | "double") => Field::Real,
        Some("integer") => Field::Integer,
        Some("complex") => {
            return Err(Mismatch::new("values that are real, integer or pattern", line));
        }
        _ => return Err(wrong()),
    };
    let symmetry = match words.next() {
        Some("general") => Symmetry::General,
        Some("symmetric") => Symmetry::Symmetric,
        Some("skew-symmetric" | "hermitian") => {
            return Err(Mismatch::new("a matrix that is general or symmetric", line));
        }
        _ => return Err(wrong()),
    };
    Ok((field, symmetry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Entry = (u64, u64, f32);

    fn read(text: &[u8]) -> Result<(Header, Vec<Entry>)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.mtx");
        std::fs::write(&path, text).unwrap();
        let mut entries = Entries::open(&path)?;
        let mut all = Vec::new();
        while let Some(entry) = entries.next()? {
            all.push(entry);
        }
        Ok((*entries.header(), all))
    }

    fn message(text: &str) -> String {
        let error = read(text.as_bytes()).unwrap_err().to_string();
        error[error.find("x.mtx").unwrap()..].into()
    }

    #[test]
    fn reads_every_kind_that_is_supported() {
        let text = b"%%MatrixMarket matrix coordinate real general\r\n% made by hand\r\n\r\n2 3 \
                     2\r\n1 1 0.5\r\n\r\n2 3 -2e1";
        let (header, entries) = read(text).unwrap();
        assert_eq!((header.rows, header.cols, header.entries, header.lines), (2, 3, 2, 4));
        assert_eq!(entries, [(0, 0, 0.5), (1, 2, -20.0)]);
        let (header, entries) =
            read(b"%%matrixmarket MATRIX Coordinate Pattern Symmetric\n2 2 1\n 2\t1 \n").unwrap();
        assert_eq!((header.field, header.symmetry), (Field::Pattern, Symmetry::Symmetric));
        assert_eq!(entries, [(1, 0, 1.0)]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.mtx");
        std::fs::write(&path, text).unwrap();
        let (header, used) = Header::open(&path).unwrap();
        let used = used as usize;
        assert_eq!((header.lines, &text[used..used + 7]), (4, &b"1 1 0.5"[..]));
    }

    #[test]
    fn malformed_files_have_exact_messages() {
        let head = "%%MatrixMarket matrix coordinate integer general\n";
        let form = "\"%%MatrixMarket matrix coordinate pattern|real|integer general|symmetric\"";
        let cases = [
            (String::new(), "x.mtx: ends before the numbers of rows, columns and entries".into()),
            ("1 2\n".into(), format!("x.mtx:1: expected {form}, found \"1 2\"")),
            (
                "%%MatrixMarket matrix array real general\n".into(),
                "x.mtx:1: expected a coordinate matrix (save a dense one as .npy), \
                 found \"%%MatrixMarket matrix array real general\""
                    .into(),
            ),
            (
                "%%MatrixMarket matrix coordinate complex general\n".into(),
                "x.mtx:1: expected values that are real, integer or pattern, \
                 found \"%%MatrixMarket matrix coordinate complex general\""
                    .into(),
            ),
            (
                "%%MatrixMarket matrix coordinate real skew-symmetric\n".into(),
                "x.mtx:1: expected a matrix that is general or symmetric, \
                 found \"%%MatrixMarket matrix coordinate real skew-symmetric\""
                    .into(),
            ),
            (
                format!("{head}2 2\n"),
                "x.mtx:2: expected the numbers of rows, columns and entries, found \"2 2\"".into(),
            ),
            (
                "%%MatrixMarket matrix coordinate real symmetric\n2 3 1\n".into(),
                "x.mtx:2: expected as many rows as columns in a symmetric matrix, found \"2 3 1\""
                    .into(),
            ),
            (
                format!("{head}2 2 1\n1 1\n"),
                "x.mtx:3: expected a row, a column and a value, found \"1 1\"".into(),
            ),
            (
                format!("{head}2 2 1\n0 1 1\n"),
                "x.mtx:3: expected a row from 1 to 2, found \"0 1 1\"".into(),
            ),
            (
                format!("{head}2 2 1\n1 3 1\n"),
                "x.mtx:3: expected a column from 1 to 2, found \"1 3 1\"".into(),
            ),
            (
                format!("{head}2 2 1\n1 1 nan\n"),
                "x.mtx:3: expected a finite value, found \"1 1 nan\"".into(),
            ),
            (
                format!("{head}2 2 1\n1 1 1\n2 2 1\n"),
                "x.mtx:4: expected the end of the file after 1 entries, found \"2 2 1\"".into(),
            ),
            (
                format!("{head}2 2 3\n1 1 1\n"),
                "x.mtx: 3 entries declared on line 2, but 1 found".into(),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(message(&text), expected);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes);
            let mut text = b"%%MatrixMarket matrix coordinate real general\n9 9 9\n".to_vec();
            text.extend(&bytes);
            let _ = read(&text);
        }

        #[test]
        fn entries_come_back(entries in prop::collection::vec((1u64..50, 1u64..60, -100i32..100), 0..40)) {
            let sizes = format!("50 60 {}", entries.len());
            let mut text = format!("%%MatrixMarket matrix coordinate integer general\n{sizes}\n");
            for (row, col, value) in &entries {
                text += &format!("{row} {col} {value}\n");
            }
            let expected: Vec<_> = entries.iter().map(|&(r, c, v)| (r - 1, c - 1, v as f32)).collect();
            prop_assert_eq!(read(text.as_bytes()).unwrap().1, expected);
        }
    }
}
