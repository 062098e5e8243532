//! TOML files, read key by key: every error message has the file, the line, the full key and what
//! was expected. The caller knows the keys and their meaning.

use std::path::{Path, PathBuf};

use ignn_format::nearest::nearest;
use ignn_format::regular;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{IngestError, Result, quoted};

/// Maximum length of a file. Specifications are written by hand, so a longer file is not one.
const MAX_BYTES: u64 = 4 << 20;

/// The text of a TOML file.
pub struct TomlFile {
    path: PathBuf,
    text: String,
}

impl TomlFile {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        Ok(Self { path: path.into(), text: regular::read_text(path, MAX_BYTES)? })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Parses the file.
    pub fn parse(&self) -> Result<Spanned<DeTable<'_>>> {
        DeTable::parse(&self.text).map_err(|error| {
            let line = self.line(error.span().map_or(0, |span| span.start));
            IngestError::line(&self.path, line, "TOML", format!("{:?}", error.message()))
        })
    }

    /// The number, from 1, of the line with this byte.
    fn line(&self, at: usize) -> u64 {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        1 + before.iter().filter(|&&byte| byte == b'\n').count() as u64
    }
}

/// A table of a file, with its name and line for messages.
pub struct Section<'a> {
    file: &'a TomlFile,
    name: String,
    line: u64,
    table: &'a DeTable<'a>,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub fn root(file: &'a TomlFile, table: &'a DeTable<'a>) -> Self {
        Self { file, name: String::new(), line: 1, table }
    }

    /// A key as messages name it, with its section.
    pub fn key(&self, key: &str) -> String {
        if self.name.is_empty() { key.into() } else { format!("{}.{key}", self.name) }
    }

    /// The line of a key, or of the start of its section.
    pub fn line(&self, key: &str) -> u64 {
        self.table.get(key).map_or(self.line, |value| self.file.line(value.span().start))
    }

    /// The error for the value of a key.
    pub fn wrong(&self, key: &str, expected: &str, found: impl Into<String>) -> IngestError {
        let expected = format!("{} to be {expected}", self.key(key));
        IngestError::line(&self.file.path, self.line(key), expected, found)
    }

    /// Rejects unknown keys. Messages list the `known` ones; `old` names are accepted, too.
    pub fn check_keys(&self, known: &[&str], old: &[&str]) -> Result<()> {
        let is_unknown = |key: &&str| !known.contains(key) && !old.contains(key);
        let mut unknown: Vec<_> =
            self.table.keys().filter(|key| is_unknown(&&**key.get_ref())).collect();
        unknown.sort_by_key(|key| key.span().start);
        let Some(key) = unknown.first() else { return Ok(()) };
        let place =
            if self.name.is_empty() { "at the top".into() } else { format!("in {}", self.name) };
        let expected = format!("one of the keys {} {place}", known.join(", "));
        let found =
            format!("{}{}", quoted(key.get_ref().as_bytes()), did_you_mean(key.get_ref(), known));
        Err(IngestError::line(&self.file.path, self.file.line(key.span().start), expected, found))
    }

    /// Whether a key is there.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// A value, if it has the type that `take` accepts.
    fn value<T>(
        &self,
        key: &str,
        expected: &str,
        take: impl FnOnce(&DeValue<'a>) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.table.get(key) else { return Ok(None) };
        match take(value.get_ref()) {
            Some(value) => Ok(Some(value)),
            None => Err(self.wrong(key, expected, shown(value.get_ref()))),
        }
    }

    /// Text.
    pub fn string(&self, key: &str) -> Result<Option<String>> {
        self.value(key, "text", |value| value.as_str().map(String::from))
    }

    /// True or false.
    pub fn boolean(&self, key: &str) -> Result<Option<bool>> {
        self.value(key, "true or false", DeValue::as_bool)
    }

    /// A non-negative integer.
    pub fn integer(&self, key: &str) -> Result<Option<u64>> {
        self.value(key, "a non-negative integer", integer)
    }

    /// A non-negative integer, or text.
    pub fn integer_or_string(
        &self,
        key: &str,
        expected: &str,
    ) -> Result<Option<Result<u64, String>>> {
        self.value(key, expected, |value| {
            integer(value).map(Ok).or_else(|| value.as_str().map(|text| Err(text.to_string())))
        })
    }

    /// A list of strings; a single string need not be in a list.
    pub fn strings(&self, key: &str) -> Result<Option<Vec<String>>> {
        self.value(key, "a string or a list of strings", |value| match value {
            DeValue::Array(items) => {
                items.iter().map(|item| item.get_ref().as_str().map(String::from)).collect()
            }
            _ => value.as_str().map(|text| vec![text.to_string()]),
        })
    }

    /// One of several words.
    pub fn choice<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>> {
        let names: Vec<String> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
        let expected = format!("one of {}", names.join(", "));
        self.value(key, &expected, |value| {
            let text = value.as_str()?;
            words.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice)
        })
    }

    /// The sections below a key, in the order of the file.
    pub fn sections(&self, key: &str) -> Result<Vec<(String, Section<'a>)>> {
        let Some(value) = self.table.get(key) else { return Ok(Vec::new()) };
        let expected = format!("sections like [{}.NAME]", self.key(key));
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.wrong(key, &expected, shown(value.get_ref())));
        };
        let mut sections: Vec<_> = table.iter().collect();
        sections.sort_by_key(|(name, _)| name.span().start);
        let section = |(name, value): (&Spanned<_>, &'a Spanned<DeValue<'a>>)| {
            let line = self.file.line(name.span().start);
            let name: &std::borrow::Cow<'_, str> = name.get_ref();
            let whole = format!("{}.{name}", self.key(key));
            match value.get_ref() {
                DeValue::Table(table) => {
                    Ok((name.to_string(), Section { file: self.file, name: whole, line, table }))
                }
                other => Err(IngestError::line(
                    &self.file.path,
                    line,
                    format!("{whole} to be a section"),
                    shown(other),
                )),
            }
        };
        sections.into_iter().map(section).collect()
    }
}

fn integer(value: &DeValue) -> Option<u64> {
    let digits = value.as_integer()?;
    u64::from_str_radix(digits.as_str(), digits.radix()).ok()
}

/// A value for messages.
fn shown(value: &DeValue) -> String {
    match value {
        DeValue::String(text) => quoted(text.as_bytes()),
        DeValue::Integer(digits) if digits.radix() == 10 => digits.as_str().into(),
        DeValue::Integer(_) => "an integer".into(),
        DeValue::Float(digits) => digits.as_str().into(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "a list with other values".into(),
        DeValue::Table(_) => "a section".into(),
    }
}

/// ` (did you mean "x"?)` with the closest known word, if it is close enough; else nothing.
pub fn did_you_mean(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(nearest) => format!(" (did you mean {nearest:?}?)"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn near_words_are_proposed_and_far_ones_are_not() {
        let known = ["directed", "duplicates", "file"];
        assert_eq!(did_you_mean("dircected", &known), " (did you mean \"directed\"?)");
        assert_eq!(did_you_mean("flie", &known), " (did you mean \"file\"?)");
        assert_eq!(did_you_mean("colour", &known), "");
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "[a-c.=\\[\\]\"0-9\n {}t,#é-]{0,60}") {
            let file = TomlFile { path: "x.toml".into(), text };
            if let Ok(table) = file.parse() {
                let root = Section::root(&file, table.get_ref());
                let _ = (root.check_keys(&["a"], &[]), root.strings("a"));
                let _ = (root.integer("a"), root.sections("a"));
            }
        }
    }
}
