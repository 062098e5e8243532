//! Ranges of numbers, and how many of them a list may have.

use std::fmt;

/// Which values a key takes, beyond their type.
///
/// Written from the lower end: `at_least(0.0).below(1.0)`, `above(0.0)`; lists add their greatest
/// length, `at_least(1.0).at_most(64.0).items(8)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The smallest value, or the one that values must be above.
    pub lower: Option<Bound>,
    /// The largest value, or the one that values must be below.
    pub upper: Option<Bound>,
    /// The greatest length of a list.
    pub items: usize,
}

/// An end of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The number.
    pub value: f64,
    /// Whether the number itself is outside.
    pub is_exclusive: bool,
}

/// No limits.
pub const fn any() -> Limits {
    Limits { lower: None, upper: None, items: usize::MAX }
}

/// Values from this number on.
pub const fn at_least(value: f64) -> Limits {
    Limits { lower: Some(Bound { value, is_exclusive: false }), ..any() }
}

/// Values above this number.
pub const fn above(value: f64) -> Limits {
    Limits { lower: Some(Bound { value, is_exclusive: true }), ..any() }
}

impl Limits {
    /// Values up to this number.
    pub const fn at_most(self, value: f64) -> Self {
        Self { upper: Some(Bound { value, is_exclusive: false }), ..self }
    }

    /// Values below this number.
    pub const fn below(self, value: f64) -> Self {
        Self { upper: Some(Bound { value, is_exclusive: true }), ..self }
    }

    /// Lists of up to this many values.
    pub const fn items(self, items: usize) -> Self {
        Self { items, ..self }
    }

    /// Whether a number is within the range; NaN and infinity never are.
    pub fn contains(&self, x: f64) -> bool {
        let lower = self
            .lower
            .is_none_or(|Bound { value, is_exclusive }| x > value || (x == value && !is_exclusive));
        let upper = self
            .upper
            .is_none_or(|Bound { value, is_exclusive }| x < value || (x == value && !is_exclusive));
        x.is_finite() && lower && upper
    }
}

impl fmt::Display for Limits {
    /// The range in words, with a space before them: ` from 0 to below 1`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let starts_above = match self.lower {
            None => return Ok(()),
            Some(Bound { value, is_exclusive: true }) => {
                write!(f, " above {}", Plain(value))?;
                true
            }
            Some(Bound { value, .. }) if self.upper.is_none() => {
                return write!(f, " of at least {}", Plain(value));
            }
            Some(Bound { value, .. }) => {
                write!(f, " from {}", Plain(value))?;
                false
            }
        };
        match self.upper {
            None => Ok(()),
            Some(Bound { value, is_exclusive: true }) if starts_above => {
                write!(f, " and below {}", Plain(value))
            }
            Some(Bound { value, is_exclusive: true }) => write!(f, " to below {}", Plain(value)),
            Some(Bound { value, .. }) if starts_above => {
                write!(f, " and at most {}", Plain(value))
            }
            Some(Bound { value, .. }) => write!(f, " to {}", Plain(value)),
        }
    }
}

/// A number without a long row of zeros.
struct Plain(f64);

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_small = self.0 != 0.0 && self.0.abs() < 1e-4;
        if is_small { write!(f, "{:e}", self.0) } else { write!(f, "{}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_the_ends_that_they_name() {
        let inside =
            |limits: Limits| [0.0, 0.5, 1.0, f64::NAN, f64::INFINITY].map(|x| limits.contains(x));
        assert_eq!(inside(at_least(0.0).below(1.0)), [true, true, false, false, false]);
        assert_eq!(inside(above(0.0).at_most(1.0)), [false, true, true, false, false]);
        assert_eq!(inside(above(0.0).below(1.0)), [false, true, false, false, false]);
        assert_eq!(inside(at_least(0.0).at_most(1.0)), [true, true, true, false, false]);
        assert_eq!(inside(above(0.5)), [false, false, true, false, false]);
        assert_eq!(inside(at_least(0.5)), [false, true, true, false, false]);
        assert_eq!(inside(any()), [true, true, true, false, false]);
    }

    #[test]
    fn ranges_are_described_in_words() {
        let expected = [
            (any(), ""),
            (at_least(0.0), " of at least 0"),
            (above(0.0), " above 0"),
            (at_least(1.0).at_most(64.0), " from 1 to 64"),
            (at_least(0.0).below(1.0), " from 0 to below 1"),
            (above(0.0).at_most(1.0), " above 0 and at most 1"),
            (above(0.0).below(1.0), " above 0 and below 1"),
            (at_least(1e-30).at_most(1.0), " from 1e-30 to 1"),
        ];
        for (limits, expected) in expected {
            assert_eq!(limits.to_string(), expected);
        }
    }
}
