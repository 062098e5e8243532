//! How the columns of a node table became feature columns: kept with the dataset and the model, so
//! that a new table is encoded alike. It says what to compute; reading tables is for `ignn-ingest`.
//!
//! ```
//! use ignn_format::encoding::{ColumnEncoding, Encoding, Rule, Scaling};
//!
//! let scale = Some(Scaling { mean: 40.0, deviation: 10.0 });
//! let age = ColumnEncoding::new("age", Rule::Number { scale, fill: 40.0 }, true);
//! let words = vec!["Bonn".into(), "Rome".into()];
//! let city = ColumnEncoding::new("city", Rule::Words { words }, false);
//! let encoding = Encoding { columns: vec![age, city] };
//! assert_eq!(encoding.width(), 4);
//!
//! let mut row = vec![0.0; 4];
//! encoding.columns[0].put_number(Some(50.0), &mut row[..2]);
//! encoding.columns[1].put_word(Some("Rome"), &mut row[2..]);
//! assert_eq!(row, [1.0, 0.0, 0.0, 1.0]);
//! // Missing: the mean, with an indicator. An unknown word: zeros.
//! encoding.columns[0].put_number(None, &mut row[..2]);
//! encoding.columns[1].put_word(Some("Oslo"), &mut row[2..]);
//! assert_eq!(row, [0.0, 1.0, 0.0, 0.0]);
//! ```

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The encoding of a table: one entry per column of the table, in the order of the features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Encoding {
    /// The columns.
    pub columns: Vec<ColumnEncoding>,
}

/// The encoding of one column of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnEncoding {
    /// Its name in the table.
    pub name: String,
    /// What becomes of its values.
    #[serde(flatten)]
    pub rule: Rule,
    /// Whether a last feature column is 1 where the value is missing.
    pub indicator: bool,
}

/// What becomes of the values of a column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Rule {
    /// One feature column with the number.
    Number {
        /// Standardised by these statistics of the training nodes; as it is where there are none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scale: Option<Scaling>,
        /// The number in place of a missing one: the mean of the training nodes.
        fill: f64,
    },
    /// One feature column per word, 1 for the word of a node. A word that is not among them, or is
    /// missing, has zeros in all of them.
    Words {
        /// The words of the training nodes, in order.
        words: Vec<String>,
    },
    /// A word is 1 in the feature column that its checksum (XXH3-64 of its bytes, modulo the number
    /// of columns) names. A missing one has zeros.
    Hashed {
        /// Number of feature columns.
        columns: u32,
    },
}

/// Statistics of some numbers, by which they are standardised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scaling {
    /// The mean.
    pub mean: f64,
    /// The standard deviation (divided by n), or 1 where all numbers are equal.
    pub deviation: f64,
}

impl Scaling {
    /// Mean and deviation of these numbers; 0 and 1 where there are none.
    ///
    /// ```
    /// use ignn_format::encoding::Scaling;
    ///
    /// let scaling = Scaling::of(&[10.0, 30.0]);
    /// assert_eq!((scaling.mean, scaling.deviation), (20.0, 10.0));
    /// assert_eq!(scaling.restored(scaling.standardised(35.0)), 35.0);
    /// assert_eq!(Scaling::of(&[5.0, 5.0]).deviation, 1.0);
    /// ```
    pub fn of(numbers: &[f64]) -> Self {
        let count = numbers.len().max(1) as f64;
        // Divided first, so that no sum overflows.
        let mean = numbers.iter().map(|number| number / count).sum::<f64>();
        let variance = numbers.iter().map(|number| (number - mean).powi(2) / count).sum::<f64>();
        Self::new(mean, variance)
    }

    /// Of a mean and a variance; the deviation is 1 where none can be divided by.
    pub fn new(mean: f64, variance: f64) -> Self {
        let deviation = variance.sqrt();
        let is_usable = deviation.is_finite() && deviation > f64::MIN_POSITIVE;
        Self { mean, deviation: if is_usable { deviation } else { 1.0 } }
    }

    /// The number in units of the deviation, from the mean.
    pub fn standardised(&self, number: f64) -> f64 {
        (number - self.mean) / self.deviation
    }

    /// The number that was standardised.
    pub fn restored(&self, standardised: f64) -> f64 {
        self.mean + self.deviation * standardised
    }

    /// Whether both are finite and the deviation is above 0.
    pub fn is_sound(&self) -> bool {
        self.mean.is_finite() && self.deviation.is_finite() && self.deviation > 0.0
    }
}

impl Encoding {
    /// Number of feature columns.
    pub fn width(&self) -> usize {
        self.columns.iter().map(ColumnEncoding::width).sum()
    }

    /// What is wrong with it, if anything: for readers of files that anybody may have written.
    pub fn fault(&self) -> Option<String> {
        self.columns.iter().find_map(|column| {
            let is_sound = match &column.rule {
                Rule::Number { scale, fill } => {
                    fill.is_finite() && scale.as_ref().is_none_or(Scaling::is_sound)
                }
                Rule::Words { words } => words.windows(2).all(|two| two[0] < two[1]),
                Rule::Hashed { columns } => *columns > 0,
            };
            (!is_sound).then(|| format!("column {:?}", column.name))
        })
    }

    /// The first difference to another one, for messages.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let names = |encoding: &Self| -> Vec<String> {
            encoding.columns.iter().map(|column| column.name.clone()).collect()
        };
        if names(self) != names(other) {
            let (own, others) = (names(self).join(", "), names(other).join(", "));
            return Some(format!("columns {own}, not {others}"));
        }
        let mut pairs = self.columns.iter().zip(&other.columns);
        let different = pairs.find(|(own, other)| own != other)?.0;
        Some(format!("another encoding of column {:?}", different.name))
    }
}

impl ColumnEncoding {
    /// A column with its rule.
    pub fn new(name: impl Into<String>, rule: Rule, indicator: bool) -> Self {
        Self { name: name.into(), rule, indicator }
    }

    /// Number of feature columns.
    pub fn width(&self) -> usize {
        let own = match &self.rule {
            Rule::Number { .. } => 1,
            Rule::Words { words } => words.len(),
            Rule::Hashed { columns } => *columns as usize,
        };
        own + usize::from(self.indicator)
    }

    /// Whether its values are numbers.
    pub fn is_number(&self) -> bool {
        matches!(self.rule, Rule::Number { .. })
    }

    /// Writes the features of a number, or of a missing one.
    ///
    /// # Panics
    /// If `out` has another width, or the column is one of words.
    pub fn put_number(&self, number: Option<f64>, out: &mut [f32]) {
        let Rule::Number { scale, fill } = &self.rule else { panic!("a column of numbers") };
        assert_eq!(out.len(), self.width(), "one entry per feature column");
        let number_or_mean = number.unwrap_or(*fill);
        out[0] = match scale {
            Some(scaling) => scaling.standardised(number_or_mean) as f32,
            None => number_or_mean as f32,
        };
        self.put_indicator(number.is_none(), out);
    }

    /// Writes the features of a word, or of a missing one. Returns whether the word is known.
    ///
    /// # Panics
    /// If `out` has another width, or the column is one of numbers.
    pub fn put_word(&self, word: Option<&str>, out: &mut [f32]) -> bool {
        assert_eq!(out.len(), self.width(), "one entry per feature column");
        out.fill(0.0);
        let at = match (&self.rule, word) {
            (Rule::Number { .. }, _) => panic!("a column of words"),
            (_, None) => None,
            (Rule::Words { words }, Some(word)) => {
                words.binary_search_by(|known| known.as_str().cmp(word)).ok()
            }
            (Rule::Hashed { columns }, Some(word)) => {
                Some((xxh3_64(word.as_bytes()) % u64::from((*columns).max(1))) as usize)
            }
        };
        if let Some(at) = at {
            out[at] = 1.0;
        }
        self.put_indicator(word.is_none(), out);
        word.is_none() || at.is_some()
    }

    fn put_indicator(&self, is_missing: bool, out: &mut [f32]) {
        if self.indicator
            && let Some(last) = out.last_mut()
        {
            *last = f32::from(u8::from(is_missing));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_kinds() -> Encoding {
        let scale = Some(Scaling { mean: 1.0, deviation: 2.0 });
        let words = vec!["a".into(), "b".into()];
        Encoding {
            columns: vec![
                ColumnEncoding::new("x", Rule::Number { scale, fill: 1.0 }, true),
                ColumnEncoding::new("y", Rule::Number { scale: None, fill: 7.0 }, false),
                ColumnEncoding::new("z", Rule::Words { words }, true),
                ColumnEncoding::new("h", Rule::Hashed { columns: 3 }, false),
            ],
        }
    }

    #[test]
    fn an_encoding_reads_back_and_knows_its_width() {
        let encoding = all_kinds();
        assert_eq!((encoding.width(), encoding.fault()), (2 + 1 + 3 + 3, None));
        let text = serde_json::to_string(&encoding).unwrap();
        assert!(
            text.contains(r#"{"name":"y","kind":"number","fill":7.0,"indicator":false}"#),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Encoding>(&text).unwrap(), encoding);
    }

    #[test]
    fn values_are_encoded_column_by_column() {
        let encoding = all_kinds();
        let [x, y, z, h] = &encoding.columns[..] else { panic!() };
        let mut out = [9.0; 3];
        x.put_number(Some(5.0), &mut out[..2]);
        assert_eq!(out[..2], [2.0, 0.0]);
        x.put_number(None, &mut out[..2]);
        assert_eq!(out[..2], [0.0, 1.0]);
        y.put_number(None, &mut out[..1]);
        assert_eq!(out[0], 7.0);
        assert!(z.put_word(Some("b"), &mut out));
        assert_eq!(out, [0.0, 1.0, 0.0]);
        assert!(!z.put_word(Some("c"), &mut out), "unknown: zeros");
        assert_eq!(out, [0.0; 3]);
        assert!(z.put_word(None, &mut out));
        assert_eq!(out, [0.0, 0.0, 1.0]);
        assert!(h.put_word(Some("anything"), &mut out));
        assert_eq!(out.iter().sum::<f32>(), 1.0);
    }

    #[test]
    fn faults_and_differences_have_names() {
        let mut wrong = all_kinds();
        wrong.columns[0].rule =
            Rule::Number { scale: Some(Scaling { mean: 0.0, deviation: 0.0 }), fill: 0.0 };
        assert_eq!(wrong.fault().as_deref(), Some("column \"x\""));
        let difference = all_kinds().difference(&wrong).unwrap();
        assert_eq!(difference, "another encoding of column \"x\"");
        wrong.columns.remove(0);
        let difference = all_kinds().difference(&wrong).unwrap();
        assert_eq!(difference, "columns x, y, z, h, not y, z, h");
        assert_eq!(all_kinds().difference(&all_kinds()), None);
    }
}
