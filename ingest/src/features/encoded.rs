//! Features from the columns of a node table: numbers, words and missing values become numbers by
//! an [`Encoding`], which is learned from the training nodes or given by an earlier dataset or model.
//!
//! A column of text is one of numbers if every value is a number, and one of words if at most half
//! of them are. In between, one of the others is probably a mistake, and it is reported. Dates are
//! refused: which number stands for a date is for the user to decide.

use std::collections::BTreeSet;
use std::path::Path;
use std::str::FromStr;

use ignn_format::encoding::{ColumnEncoding, Encoding, Rule, Scaling};
use ignn_format::features::FeatureKind;

use super::dense::RowBuckets;
use super::{Job, Sink};
use crate::builder::DatasetBuilder;
use crate::context::{Context, Unit};
use crate::error::{IngestError, Result, quoted};
use crate::node_set::NodeSet;
use crate::nodes::NodeLookup;
use crate::source::table::{Batch, Cell, ColumnKind, Table};

/// Largest number of words of a column that get a feature column each, unless told otherwise.
pub const ONE_HOT_WORDS: usize = 100;
/// Number of feature columns of a column with more words.
pub const HASHED_COLUMNS: u32 = 64;

/// Which columns become features, and how.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// The columns.
    pub features: Chosen,
    /// Columns of numbers that are read as words.
    pub categories: Vec<String>,
    /// What becomes of numbers.
    pub numbers: Numbers,
    /// What becomes of words.
    pub words: Words,
    /// What becomes of missing values.
    pub missing: Missing,
}

/// Columns of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Chosen {
    /// None.
    #[default]
    None,
    /// All that have no other use.
    All,
    /// By name, in this order.
    Named(Vec<String>),
}

/// What becomes of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// Mean 0 and deviation 1 over the training nodes.
    #[default]
    Standardised,
    /// As they are.
    Plain,
}

/// What becomes of words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Words {
    /// One feature column per word, up to [`ONE_HOT_WORDS`]; hashed beyond that.
    #[default]
    Auto,
    /// One feature column per word of the training nodes.
    OneHot,
    /// This many feature columns, by the checksum of the word.
    Hashed(u32),
}

impl FromStr for Words {
    type Err = String;

    /// From `auto`, `one-hot`, `hashed` or `hashed:COLUMNS`; the error is what was expected.
    fn from_str(word: &str) -> Result<Self, String> {
        let most = FeatureKind::Dense.most_columns();
        let columns = word.strip_prefix("hashed:").and_then(|count| count.parse::<u32>().ok());
        match (word, columns) {
            ("auto", _) => Ok(Self::Auto),
            ("one-hot", _) => Ok(Self::OneHot),
            ("hashed", _) => Ok(Self::Hashed(HASHED_COLUMNS)),
            (_, Some(count)) if (1..=most).contains(&u64::from(count)) => Ok(Self::Hashed(count)),
            _ => Err(format!("auto, one-hot, hashed or hashed:COLUMNS, with 1 to {most} columns")),
        }
    }
}

/// What becomes of missing values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// The mean of the training nodes for a number, zeros for a word; and a column that says so,
    /// where training nodes have missing values.
    #[default]
    Mean,
    /// An error.
    Refuse,
}

/// Adds the features of a table to the dataset: its columns `at`, encoded as `encoding` says, column
/// by column.
pub fn add(
    context: &Context,
    builder: &mut DatasetBuilder,
    nodes: &dyn NodeLookup,
    mut table: Table,
    at: &[usize],
    encoding: Encoding,
) -> Result<()> {
    let path = table.path().to_path_buf();
    let job = Job { context, nodes, path: &path, missing_zero: false };
    context.observer.phase("read features", None, Unit::Items("rows"));
    let columns = job.check_columns(encoding.width() as u64)?;
    let most = FeatureKind::Dense.most_columns();
    if columns as u64 > most {
        let what =
            format!("{columns} feature columns (expected at most {most}): pass --words hashed");
        return Err(IngestError::file(&path, what));
    }
    let mut rows = RowBuckets::new(&job, builder, columns);
    let mut seen = NodeSet::new(nodes.nodes());
    let mut row_of = vec![0.0; columns];
    let mut oddities = vec![Oddities::default(); at.len()];
    while let Some(batch) = table.next_batch()? {
        for row in 0..batch.rows() {
            let node = table.new_node(&batch, row, nodes, &mut seen)?;
            let mut rest = &mut row_of[..];
            for ((column, &at), odd) in encoding.columns.iter().zip(at).zip(&mut oddities) {
                let (own, after) = rest.split_at_mut(column.width());
                rest = after;
                odd.put(column, &table, &batch, row, at, own)?;
            }
            rows.push(node, &row_of)?;
        }
        context.observer.advance(batch.rows() as u64);
    }
    if let Some(first) = seen.first_missing() {
        let what = format!(
            "no row for {} of {} nodes (the first is node {})",
            seen.missing(),
            nodes.nodes(),
            nodes.describe(first)?
        );
        return Err(IngestError::file(&path, what));
    }
    for (column, odd) in encoding.columns.iter().zip(&oddities) {
        odd.note(context, &path, column);
    }
    rows.write(builder as &mut dyn Sink)?;
    builder.set_encoding(encoding);
    Ok(())
}

/// Values that the encoding does not provide for.
#[derive(Clone, Debug, Default)]
struct Oddities {
    unknown: u64,
    example: Option<String>,
    /// Missing values without an indicator.
    missing: u64,
}

impl Oddities {
    fn put(
        &mut self,
        column: &ColumnEncoding,
        table: &Table,
        batch: &Batch,
        row: usize,
        at: usize,
        out: &mut [f32],
    ) -> Result<()> {
        let cell = batch.cell(row, at);
        let is_missing = cell.is_missing();
        self.missing += u64::from(is_missing && !column.indicator);
        if column.is_number() {
            let number = match is_missing {
                true => None,
                false => Some(cell.finite().ok_or_else(|| not_a_number(table, batch, row, at))?),
            };
            column.put_number(number, out);
            if let Some(bad) = out.iter().find(|value| !value.is_finite()) {
                let expected = format!("a number that fits in f32 in {}", table.column_name(at));
                return Err(table.error(batch.number(row), &expected, format!("{bad}")));
            }
            return Ok(());
        }
        let word = if is_missing { None } else { cell.word() };
        if !column.put_word(word.as_deref(), out) {
            self.unknown += 1;
            self.example.get_or_insert_with(|| cell.shown());
        }
        Ok(())
    }

    fn note(&self, context: &Context, path: &Path, column: &ColumnEncoding) {
        let name = quoted(column.name.as_bytes());
        let path = path.display();
        if let Some(example) = &self.example {
            context.observer.note(&format!(
                "{path}: column {name}: words that no training node has, such as {example}, got \
                 zeros: {} nodes",
                self.unknown
            ));
        }
        if self.missing > 0 {
            let fate = match column.is_number() {
                true => "the mean of the training nodes",
                false => "zeros",
            };
            context.observer.note(&format!(
                "{path}: column {name}: no training node lacks a value; others that do got {fate}: \
                 {} nodes",
                self.missing
            ));
        }
    }
}

/// Refuses a column whose type has neither numbers nor words, whether its encoding is learned or not.
pub fn require(table: &Table, column: usize) -> Result<()> {
    use ColumnKind::{Boolean, Float, Integer, Other, Text};
    if let Other(found) = &table.kind(column) {
        let lower = found.to_lowercase();
        if lower.contains("date") || lower.contains("time") || lower.contains("duration") {
            return Err(dates(table, column, found));
        }
    }
    let expected = "features: numbers or words; leave the column out of --features";
    table.require(column, &[Text, Integer, Float, Boolean], expected)
}

/// Learns the encoding of the columns `at`, which [`require`] accepts, from the nodes for which
/// `trains` holds.
pub fn learn(
    context: &Context,
    nodes: &dyn NodeLookup,
    mut table: Table,
    at: &[usize],
    options: &Columns,
    trains: &dyn Fn(u32) -> bool,
) -> Result<Encoding> {
    context.observer.phase("encode features", None, Unit::Items("rows"));
    let name = |column: usize| table.names().map_or(String::new(), |names| names[column].clone());
    let mut seen: Vec<Seen> = Vec::new();
    for &column in at {
        use ColumnKind::{Boolean, Text};
        let kind = table.kind(column);
        let is_category = options.categories.iter().any(|own| *own == name(column));
        let as_words = is_category || kind == Boolean || kind == Text && table.is_typed();
        seen.push(Seen::new(column, name(column), as_words));
    }
    while let Some(batch) = table.next_batch()? {
        for row in 0..batch.rows() {
            let node = table.node(&batch, row, nodes)?;
            for column in &mut seen {
                column.see(&table, &batch, row, trains(node), options)?;
            }
        }
        context.observer.advance(batch.rows() as u64);
    }
    seen.iter()
        .filter_map(|column| column.doubt(&table))
        .for_each(|note| context.observer.note(&note));
    let columns = seen.into_iter().map(|column| column.rule(&table, options));
    Ok(Encoding { columns: columns.collect::<Result<_>>()? })
}

/// What is known of a column.
struct Seen {
    column: usize,
    name: String,
    /// Words whatever they look like.
    as_words: bool,
    numbers: u64,
    dates: u64,
    words: u64,
    /// Words that would be numbers without separators, units and signs of currencies.
    amounts: u64,
    /// The first value that is not a number, with its row.
    first_word: Option<(u64, String)>,
    /// Of the training nodes: how many numbers, their mean and sum of squared deviations.
    trained: f64,
    mean: f64,
    squares: f64,
    /// Of the training nodes: missing values, and words.
    missing: u64,
    distinct: BTreeSet<String>,
}

impl Seen {
    fn new(column: usize, name: String, as_words: bool) -> Self {
        Self {
            column,
            name,
            as_words,
            numbers: 0,
            dates: 0,
            words: 0,
            amounts: 0,
            first_word: None,
            trained: 0.0,
            mean: 0.0,
            squares: 0.0,
            missing: 0,
            distinct: BTreeSet::new(),
        }
    }

    fn see(
        &mut self,
        table: &Table,
        batch: &Batch,
        row: usize,
        trains: bool,
        options: &Columns,
    ) -> Result<()> {
        let cell = batch.cell(row, self.column);
        if cell.is_missing() {
            if options.missing == Missing::Refuse {
                let expected = format!(
                    "a value in {} (--missing mean fills in the mean)",
                    table.column_name(self.column)
                );
                return Err(table.error(batch.number(row), &expected, cell.shown()));
            }
            self.missing += u64::from(trains);
            return Ok(());
        }
        let as_number = cell.finite().filter(|_| !self.as_words);
        match as_number {
            Some(value) => {
                self.numbers += 1;
                if trains {
                    self.trained += 1.0;
                    let change = value - self.mean;
                    self.mean += change / self.trained;
                    self.squares += change * (value - self.mean);
                }
            }
            None => {
                self.words += 1;
                self.dates += u64::from(matches!(cell, Cell::Text(text) if is_date(text)));
                self.amounts += u64::from(matches!(cell, Cell::Text(text) if is_amount(text)));
                self.first_word.get_or_insert_with(|| (batch.number(row), cell.shown()));
            }
        }
        // Numbers too: whether they are words is known at the end.
        let most = match options.words {
            Words::Hashed(_) => 0,
            Words::Auto => ONE_HOT_WORDS + 1,
            Words::OneHot => FeatureKind::Dense.most_columns() as usize,
        };
        if trains
            && self.distinct.len() < most
            && let Some(word) = cell.word()
            && !self.distinct.contains(word.as_ref())
        {
            self.distinct.insert(word.into_owned());
        }
        Ok(())
    }

    /// What the user may not have meant.
    fn doubt(&self, table: &Table) -> Option<String> {
        let place = format!("{}: {}", table.path().display(), table.column_name(self.column));
        if self.amounts > 0 && self.amounts == self.words && !self.as_words {
            let example = self.first_word.as_ref().map_or("", |(_, shown)| shown);
            return Some(format!(
                "{place}: values such as {example} are read as words: to have numbers, write digits \
                 and a decimal point alone"
            ));
        }
        (self.words == 0 && self.trained > 1.0 && self.squares == 0.0).then(|| {
            format!("{place}: the same number at all training nodes: the column tells nothing")
        })
    }

    /// The encoding of the column.
    fn rule(self, table: &Table, options: &Columns) -> Result<ColumnEncoding> {
        let all = self.numbers + self.words;
        if self.words > 0 && self.dates == all && !self.as_words {
            let example = self.first_word.map_or(String::new(), |(_, shown)| shown);
            return Err(dates(table, self.column, &example));
        }
        if let Some((row, shown)) = &self.first_word
            && !self.as_words
            && 2 * self.numbers > all
        {
            let expected = format!(
                "a number in {}, as in most rows (--categories {} reads the column as words)",
                table.column_name(self.column),
                self.name
            );
            return Err(table.error(*row, &expected, shown.clone()));
        }
        let indicator = self.missing > 0;
        if self.words == 0 && self.numbers > 0 {
            if self.trained == 0.0 {
                return Err(nothing(table, self.column));
            }
            let scaling = Scaling::new(self.mean, self.squares / self.trained);
            if !scaling.is_sound() {
                let what = format!(
                    "{}: the mean of its numbers overflows: leave the column out, or rescale it",
                    table.column_name(self.column)
                );
                return Err(IngestError::file(table.path(), what));
            }
            let scale = (options.numbers == Numbers::Standardised).then_some(scaling);
            let rule = Rule::Number { scale, fill: self.mean };
            return Ok(ColumnEncoding::new(self.name, rule, indicator));
        }
        let rule = match options.words {
            Words::Hashed(columns) => Rule::Hashed { columns },
            Words::Auto if self.distinct.len() > ONE_HOT_WORDS => {
                Rule::Hashed { columns: HASHED_COLUMNS }
            }
            _ if self.distinct.is_empty() => return Err(nothing(table, self.column)),
            _ => Rule::Words { words: self.distinct.into_iter().collect() },
        };
        Ok(ColumnEncoding::new(self.name, rule, indicator))
    }
}

fn nothing(table: &Table, column: usize) -> IngestError {
    let what = format!(
        "{} has no value at any training node: leave the column out of --features",
        table.column_name(column)
    );
    IngestError::file(table.path(), what)
}

fn dates(table: &Table, column: usize, example: &str) -> IngestError {
    let what = format!(
        "{} holds dates, such as {example} (expected numbers or words): write a number instead, \
         such as the days since a fixed day, the year or the day of the week, or leave the column \
         out of --features",
        table.column_name(column)
    );
    IngestError::file(table.path(), what)
}

fn not_a_number(table: &Table, batch: &Batch, row: usize, column: usize) -> IngestError {
    let expected = format!("a number in {}", table.column_name(column));
    table.error(batch.number(row), &expected, batch.cell(row, column).shown())
}

/// Whether a text looks like an amount: 20,399 or $52 or 12 %.
fn is_amount(text: &str) -> bool {
    let is_sign = |c: char| matches!(c, '$' | '€' | '£' | '¥' | '%');
    let bare: String =
        text.chars().filter(|&c| !(is_sign(c) || c == ',' || c.is_whitespace())).collect();
    bare.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+')
        && bare.parse::<f64>().is_ok_and(f64::is_finite)
}

/// Whether a text looks like a date, with or without a time: 2021-03-04, 4.3.2021, 03/04/21.
fn is_date(text: &str) -> bool {
    let day = text.split(['T', ' ']).next().unwrap_or(text);
    ['-', '/', '.'].into_iter().any(|separator| {
        let parts: Vec<&str> = day.split(separator).collect();
        let digits = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if parts.len() != 3 || !parts.iter().all(digits) {
            return false;
        }
        let lengths = [parts[0].len(), parts[1].len(), parts[2].len()];
        matches!(lengths, [4, 1 | 2, 1 | 2] | [1 | 2, 1 | 2, 2 | 4])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_told_from_numbers_and_words() {
        for date in ["2021-03-04", "2021-03-04T10:00:00Z", "4.3.2021", "03/04/21", "2021/3/4 10:00"]
        {
            assert!(is_date(date), "{date}");
        }
        for other in ["2021", "1.5", "10-12", "a-b-c", "192.168.0.1", "1-2-3", "2021-03"] {
            assert!(!is_date(other), "{other}");
        }
    }

    #[test]
    fn words_have_words() {
        assert_eq!("hashed:7".parse(), Ok(Words::Hashed(7)));
        assert_eq!("hashed".parse(), Ok(Words::Hashed(HASHED_COLUMNS)));
        for wrong in ["hashed:0", "hashed:", "onehot", "hashed:2000000"] {
            let error = wrong.parse::<Words>().unwrap_err();
            let expected = "auto, one-hot, hashed or hashed:COLUMNS, with 1 to 1048576 columns";
            assert_eq!(error, expected);
        }
    }
}
