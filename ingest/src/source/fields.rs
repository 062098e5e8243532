//! The fields of a short line as numbers, with error messages. Not for edge lists, which need a
//! faster parser.

use std::path::Path;
use std::str::FromStr;

use crate::error::{IngestError, Result, quoted};
use crate::source::text::Lines;

/// The fields of a line, separated by commas or blanks.
pub fn split(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&byte| byte == b',' || byte.is_ascii_whitespace()).filter(|field| !field.is_empty())
}

/// A whole number.
pub fn integer(path: &Path, line: u64, expected: &str, field: &[u8]) -> Result<i64> {
    let number = std::str::from_utf8(field).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| IngestError::line(path, line, expected, quoted(field)))
}

/// A whole number from `least` to `most`; `what` names it in the message.
pub fn integer_within(
    path: &Path,
    line: u64,
    what: &str,
    least: u64,
    most: u64,
    field: &[u8],
) -> Result<u64> {
    let number: Option<u64> = std::str::from_utf8(field).ok().and_then(|text| text.parse().ok());
    number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
        IngestError::line(path, line, format!("{what} from {least} to {most}"), quoted(field))
    })
}

/// A finite number.
pub fn finite<T>(path: &Path, line: u64, field: &[u8]) -> Result<T>
where
    T: FromStr + Copy + Into<f64>,
{
    let number: Option<T> = std::str::from_utf8(field).ok().and_then(|text| text.parse().ok());
    number
        .filter(|&number| number.into().is_finite())
        .ok_or_else(|| IngestError::line(path, line, "a finite number", quoted(field)))
}

/// Calls `row` with each line and returns their number. The line number is the number of the row,
/// so blank lines are only allowed at the end of the file.
pub fn each_row(path: &Path, mut row: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<u64> {
    let mut lines = Lines::open(path)?;
    let (mut rows, mut blank) = (0, None);
    while let Some((number, line)) = lines.next()? {
        if line.iter().all(u8::is_ascii_whitespace) {
            blank = blank.or(Some(number));
            continue;
        }
        if let Some(blank) = blank {
            return Err(IngestError::line(path, blank, "a value on every line", "a blank line"));
        }
        row(number, line)?;
        rows += 1;
    }
    Ok(rows)
}
