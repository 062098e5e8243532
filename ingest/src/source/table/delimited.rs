//! Rows of text: CSV or TSV, with quotes as in RFC 4180, or columns separated by whitespace. `#`
//! begins a comment line. A quoted cell ends on its line, and all rows have the same number of cells.

use std::path::{Path, PathBuf};

use super::Cell;
use crate::error::{IngestError, Result, quoted};
use crate::source::text::{self, Lines};

/// Bytes of text per batch.
const BATCH_BYTES: usize = 1 << 20;

/// The separator of the cells of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Separator {
    Comma,
    Tab,
    Whitespace,
}

/// A text opened as a table.
pub struct Delimited {
    path: PathBuf,
    lines: Lines,
    separator: Separator,
    /// The first row until it is known whether it is a header, then the rows of the batch.
    batch: DelimitedBatch,
    any: bool,
}

/// Rows of cells, concatenated in one string.
pub struct DelimitedBatch {
    text: String,
    /// The end of each cell.
    ends: Vec<usize>,
    lines: Vec<u64>,
    width: usize,
}

impl DelimitedBatch {
    fn new(width: usize) -> Self {
        Self { text: String::new(), ends: Vec::new(), lines: Vec::new(), width }
    }

    pub fn rows(&self) -> usize {
        self.lines.len()
    }

    pub fn line(&self, row: usize) -> u64 {
        self.lines[row]
    }

    pub fn cell(&self, row: usize, column: usize) -> Cell<'_> {
        match self.text(row * self.width + column) {
            "" => Cell::Missing,
            text => Cell::Text(text),
        }
    }

    fn text(&self, index: usize) -> &str {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index]]
    }

    fn push_cell(&mut self, cell: &str) {
        self.text.push_str(cell.trim_ascii());
        self.ends.push(self.text.len());
    }

    /// Splits a line into cells; the error is what was expected.
    fn push_line(&mut self, line: &str, separator: Separator) -> Result<(), &'static str> {
        match separator {
            Separator::Whitespace => {
                line.split_ascii_whitespace().for_each(|cell| self.push_cell(cell));
            }
            Separator::Tab => return self.push_quoted(line, '\t'),
            Separator::Comma => return self.push_quoted(line, ','),
        }
        Ok(())
    }

    fn push_quoted(&mut self, line: &str, separator: char) -> Result<(), &'static str> {
        // Tabs are blanks only where they do not separate.
        let blank = |c: char| c != separator && (c == ' ' || c == '\t');
        let mut rest = line;
        loop {
            let Some(mut quoted) = rest.trim_start_matches(blank).strip_prefix('"') else {
                match rest.split_once(separator) {
                    Some((cell, after)) => {
                        self.push_cell(cell);
                        rest = after;
                        continue;
                    }
                    None => {
                        self.push_cell(rest);
                        return Ok(());
                    }
                }
            };
            loop {
                let (part, after) = quoted.split_once('"').ok_or(text::CLOSING_QUOTE)?;
                self.text.push_str(part);
                match after.strip_prefix('"') {
                    Some(more) => {
                        self.text.push('"');
                        quoted = more;
                    }
                    None => {
                        quoted = after.trim_start_matches(blank);
                        break;
                    }
                }
            }
            self.ends.push(self.text.len());
            match quoted.strip_prefix(separator) {
                Some(after) => rest = after,
                None if quoted.is_empty() => return Ok(()),
                None => return Err(text::AFTER_QUOTE),
            }
        }
    }
}

impl Delimited {
    /// Opens a text and reads its first row; a text without rows is an error.
    pub fn open(path: &Path) -> Result<Self> {
        let mut rows = Self {
            path: path.into(),
            lines: Lines::open(path)?,
            separator: Separator::Whitespace,
            batch: DelimitedBatch::new(0),
            any: true,
        };
        if !rows.read_row()? {
            return Err(IngestError::file(path, "no rows (expected one line per node)"));
        }
        Ok(rows)
    }

    /// The cells of the first row.
    pub fn first_row(&self) -> Vec<String> {
        (0..self.batch.width).map(|cell| self.batch.text(cell).into()).collect()
    }

    /// The line of the first row.
    pub fn first_line(&self) -> u64 {
        self.batch.lines.first().copied().unwrap_or(0)
    }

    /// Treats the first row as a header, so that it is not part of the batches.
    pub fn drop_first_row(&mut self) {
        self.batch = DelimitedBatch::new(self.batch.width);
        self.any = false;
    }

    pub fn next_batch(&mut self) -> Result<Option<DelimitedBatch>> {
        while self.batch.text.len() < BATCH_BYTES && self.read_row()? {
            self.any = true;
        }
        if !self.any {
            return Err(IngestError::file(&self.path, "no rows after the header"));
        }
        let empty = DelimitedBatch::new(self.batch.width);
        let batch = std::mem::replace(&mut self.batch, empty);
        Ok((batch.rows() > 0).then_some(batch))
    }

    /// Appends the next row to the batch; returns false at the end.
    fn read_row(&mut self) -> Result<bool> {
        while let Some((number, line)) = self.lines.next()? {
            if line.starts_with(b"#") || line.trim_ascii().is_empty() {
                continue;
            }
            let wrong =
                |expected: &str| IngestError::line(&self.path, number, expected, quoted(line));
            let text = std::str::from_utf8(line).map_err(|_| wrong("UTF-8 text"))?;
            let batch = &mut self.batch;
            let first = batch.width == 0;
            if first {
                self.separator = match () {
                    () if text.contains('\t') => Separator::Tab,
                    () if text.contains(',') => Separator::Comma,
                    () => Separator::Whitespace,
                };
            }
            let start = batch.text.len();
            let before = batch.ends.len();
            batch.push_line(text, self.separator).map_err(wrong)?;
            let cells = batch.ends.len() - before;
            if first {
                batch.width = cells;
                let id = batch.ends.first().map_or("", |&end| &batch.text[start..end]);
                if self.separator != Separator::Tab && id.contains(';') {
                    let found = format!("semicolons: {}", quoted(line));
                    return Err(IngestError::line(&self.path, number, text::SEPARATORS, found));
                }
            }
            if cells != batch.width {
                let expected = format!("{} columns", batch.width);
                let found = format!("{cells}: {}", quoted(line));
                return Err(IngestError::line(&self.path, number, expected, found));
            }
            batch.lines.push(number);
            return Ok(true);
        }
        Ok(false)
    }
}
