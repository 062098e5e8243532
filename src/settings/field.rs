//! A key of a section: what it takes, and how that is said.

use std::fmt;

use ignn_format::nearest::nearest;
use serde_json::Value;

use super::Limits;

/// A key of a section.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name within the section.
    pub key: &'static str,
    /// Its doc comment; see [`paragraphs`].
    pub doc: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Their range, and the greatest length of a list.
    pub limits: Limits,
}

/// Types of values.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// True or false.
    Flag,
    /// An integer, not negative.
    Integer,
    /// A number; an integer is one too.
    Number,
    /// Text that is not empty.
    Text,
    /// One of several words.
    Choice(&'static [Word]),
    /// One or several values. A single value counts as a list of one.
    List(&'static Kind),
}

/// A word of a choice.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// The word.
    pub word: &'static str,
    /// Its doc comment; see [`paragraphs`].
    pub doc: &'static str,
}

/// A value that a key does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: wrong value (found {found}, expected {expected})")]
pub struct SettingError {
    /// The key.
    pub key: String,
    /// The value.
    pub found: String,
    /// What the key takes.
    pub expected: String,
}

impl Field {
    /// Checks a value that a program has given.
    pub fn check(&self, value: &Value) -> Result<(), SettingError> {
        if self.accepts(value) {
            return Ok(());
        }
        // JSON has no word for them.
        let found = if value.is_null() { "NaN or infinity".into() } else { literal(value) };
        Err(SettingError { key: self.key.into(), found, expected: self.expected() })
    }

    /// Whether the key takes this value; of a list, a list and not a single value.
    pub fn accepts(&self, value: &Value) -> bool {
        let accepts = |kind, value| accepts_one(kind, &self.limits, value);
        match (&self.kind, value) {
            (Kind::List(kind), Value::Array(items)) => {
                (1..=self.limits.items).contains(&items.len())
                    && items.iter().all(|item| accepts(kind, item))
            }
            (kind, value) => accepts(kind, value),
        }
    }

    /// The word of a choice that is close to one that is not known.
    pub fn nearest(&self, found: &str) -> Option<&'static str> {
        let words = match self.kind {
            Kind::Choice(words) => words,
            Kind::List(Kind::Choice(words)) => *words,
            _ => return None,
        };
        let found = found.trim_matches(['"', '\'']).to_ascii_lowercase();
        nearest(&found, words.iter().map(|word| word.word))
    }

    /// What the key takes, in words: `an integer from 1 to 64`.
    pub fn expected(&self) -> String {
        let Kind::List(kind) = self.kind else { return expected_one(&self.kind, &self.limits) };
        let (one, most) = (expected_one(kind, &self.limits), self.limits.items);
        let such = match kind {
            Kind::Integer => "such integers",
            Kind::Number => "such numbers",
            _ => "of them",
        };
        format!("{one}, or a list of 1 to {most} {such}")
    }
}

fn accepts_one(kind: &Kind, limits: &Limits, value: &Value) -> bool {
    match kind {
        Kind::Flag => value.is_boolean(),
        // TOML's integers end at i64::MAX.
        Kind::Integer => {
            value.as_u64().is_some_and(|x| i64::try_from(x).is_ok() && limits.contains(x as f64))
        }
        Kind::Number => value.as_f64().is_some_and(|x| limits.contains(x)),
        Kind::Text => value.as_str().is_some_and(|text| !text.is_empty()),
        Kind::Choice(words) => {
            value.as_str().is_some_and(|found| words.iter().any(|word| word.word == found))
        }
        Kind::List(_) => false,
    }
}

fn expected_one(kind: &Kind, limits: &Limits) -> String {
    match kind {
        Kind::Flag => "true or false".into(),
        Kind::Integer => format!("an integer{limits}"),
        Kind::Number => format!("a number{limits}"),
        Kind::Text => "text that is not empty".into(),
        Kind::Choice(words) => {
            let words: Vec<String> = words.iter().map(|word| quoted(word.word)).collect();
            format!("one of {}", words.join(", "))
        }
        Kind::List(_) => "a list".into(),
    }
}

/// The paragraphs of a doc comment, each on one line.
pub fn paragraphs(doc: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    for line in doc.lines().map(str::trim) {
        let last = paragraphs.last_mut().expect("never empty");
        if line.is_empty() && !last.is_empty() {
            paragraphs.push(String::new());
        } else {
            let gap = if last.is_empty() { "" } else { " " };
            let _ = fmt::Write::write_fmt(last, format_args!("{gap}{line}"));
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    paragraphs
}

/// A value as TOML writes it.
pub fn literal(value: &Value) -> String {
    match value {
        // The shortest digits that read back to the same number; `{:?}` always has a point or an
        // exponent.
        Value::Number(x) if x.is_f64() => format!("{:?}", x.as_f64().unwrap_or_default()),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// Text in quotes as TOML writes it, on one line.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
