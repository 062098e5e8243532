//! How text is written as a cell of a CSV or TSV file.
//!
//! A spreadsheet takes a cell that begins with `=`, `+`, `-` or `@` for a formula, quoted or not,
//! and runs it when the file is opened. Ids and class names come from files that somebody else may
//! have written, so they can contain such formulas. [`Texts::Safe`] turns them into text; programs
//! that read the file then find a single quote before the name.

use std::borrow::Cow;

/// How texts are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Texts {
    /// As they are.
    #[default]
    Exact,
    /// With a single quote before a text that a spreadsheet would take for a formula.
    Safe,
}

impl Texts {
    /// [`Texts::Safe`] where that is asked for.
    pub fn safe_if(is_safe: bool) -> Self {
        if is_safe { Self::Safe } else { Self::Exact }
    }

    /// The text as a cell, in quotes where it holds the separator, a quote or a line break.
    ///
    /// ```
    /// use ignn::run::csv::Texts;
    ///
    /// assert_eq!(Texts::Exact.cell("=1+1", ','), "=1+1");
    /// assert_eq!(Texts::Safe.cell("=1+1", ','), "'=1+1");
    /// assert_eq!(Texts::Safe.cell("-1", ','), "-1", "a number");
    /// ```
    pub fn cell(self, text: &str, separator: char) -> Cow<'_, str> {
        match self.marked(text) {
            Cow::Borrowed(text) => quote(text, separator),
            Cow::Owned(text) => quote(&text, separator).into_owned().into(),
        }
    }

    /// The text as a program finds it in the cell.
    pub fn marked(self, text: &str) -> Cow<'_, str> {
        match self == Self::Safe && is_formula(text) {
            true => format!("'{text}").into(),
            false => text.into(),
        }
    }
}

/// Whether a spreadsheet may take a text for a formula. Plain numbers, which are common as class
/// names, are not formulas. Some programs skip leading tabs and line breaks, so these count too.
fn is_formula(text: &str) -> bool {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
        && text.parse::<f64>().is_ok();
    // A text that begins with the mark itself gets one more, so that the mark can be removed again.
    text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '\'']) && !is_number
}

/// The text, in quotes where it holds the separator, a quote or a line break.
///
/// ```
/// assert_eq!(ignn::run::csv::quote("plain", ','), "plain");
/// assert_eq!(ignn::run::csv::quote("a,\"b\"", ','), "\"a,\"\"b\"\"\"");
/// ```
pub fn quote(text: &str, separator: char) -> Cow<'_, str> {
    if text.contains([separator, '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\"")).into();
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_text() {
        for (text, expected) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+1+2", "'+1+2"),
            ("-2+3", "'-2+3"),
            ("@SUM(A1,A2)", "\"'@SUM(A1,A2)\""),
            ("\t=1", "'\t=1"),
            ("\r=1", "\"'\r=1\""),
            ("=\"a\"", "\"'=\"\"a\"\"\""),
            ("-", "'-"),
            ("+inf", "'+inf"),
            ("'=1", "''=1"),
        ] {
            assert_eq!(Texts::Safe.cell(text, ','), expected);
            assert_eq!(Texts::Exact.cell(text, ','), quote(text, ','));
        }
        for text in ["", "a=b", "1", "-1", "+1", "-1.5e-3", "[\"=1\"]", "a-b"] {
            assert_eq!(Texts::Safe.cell(text, ','), quote(text, ','), "not a formula");
        }
        assert_eq!(Texts::Safe.cell("\t=1", '\t'), "\"'\t=1\"");
    }
}
