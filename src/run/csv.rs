//! How a text stands in a line of separated values.

use std::borrow::Cow;

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
