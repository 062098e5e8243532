//! HTML that is well formed and safe by construction. Names of elements and attributes are literals
//! of this program. Everything else becomes HTML in one way only, by [`shown`], which escapes it:
//! no function takes markup as text.

use std::fmt::Display;

use crate::report::readable;

/// Longest text of an element, in characters.
const TEXT: usize = 1000;
/// Longest value of an attribute, in characters.
const VALUE: usize = 300;
/// Longest preformatted text, in characters.
const PREFORMATTED: usize = 200_000;
/// Longest list of points, in characters.
const DRAWING: usize = 1 << 20;
/// Longest anchor.
const ANCHOR: usize = 80;

/// Elements without content, which HTML writes without an end tag.
const VOID: [&str; 2] = ["meta", "link"];
/// Elements that are not followed by a line break in the file.
const INLINE: [&str; 5] = ["a", "li", "span", "td", "th"];

/// Finished HTML.
#[derive(Clone, Debug, Default)]
pub(super) struct Html(String);

/// An element under construction.
#[derive(Clone, Debug)]
pub(super) struct Element {
    name: &'static str,
    attributes: String,
    content: Html,
}

/// The target of a link within the page: letters, digits and hyphens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Anchor(String);

impl Html {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A complete file with this root.
    pub fn document(root: Element) -> String {
        format!("<!DOCTYPE html>\n{}", Self::from(root).0)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, more: impl Into<Self>) {
        self.0 += &more.into().0;
    }
}

impl From<Element> for Html {
    fn from(element: Element) -> Self {
        let Element { name, attributes, content } = element;
        let end = if INLINE.contains(&name) { "" } else { "\n" };
        Self(match VOID.contains(&name) {
            true => format!("<{name}{attributes}>{end}"),
            false => format!("<{name}{attributes}>{}</{name}>{end}", content.0),
        })
    }
}

impl<T: Into<Html>> FromIterator<T> for Html {
    fn from_iter<I: IntoIterator<Item = T>>(parts: I) -> Self {
        let mut all = Self::new();
        parts.into_iter().for_each(|part| all.add(part));
        all
    }
}

/// An element without attributes and content yet.
pub(super) fn element(name: &'static str) -> Element {
    Element { name, attributes: String::new(), content: Html::new() }
}

impl Element {
    /// Adds an attribute.
    pub fn set(mut self, name: &'static str, value: impl Display) -> Self {
        self.attributes += &format!(" {name}=\"{}\"", shown(&value.to_string(), VALUE));
        self
    }

    /// Adds an attribute that is a position or length, with one decimal.
    pub fn at(self, name: &'static str, value: f64) -> Self {
        self.set(name, format_args!("{value:.1}"))
    }

    /// Adds an attribute that lists the points of a drawing, which may be many.
    pub fn drawing(mut self, name: &'static str, points: &str) -> Self {
        self.attributes += &format!(" {name}=\"{}\"", shown(points, DRAWING));
        self
    }

    /// Adds text.
    pub fn text(mut self, text: impl Display) -> Self {
        self.content.0 += &shown(&text.to_string(), TEXT);
        self
    }

    /// Adds text of many lines.
    pub fn preformatted(mut self, text: &str) -> Self {
        self.content.0 += &shown(text, PREFORMATTED);
        self
    }

    /// Adds a style sheet of this program, in which nothing is escaped.
    pub fn style_sheet(mut self, sheet: &'static str) -> Self {
        self.content.0 += sheet;
        self
    }

    /// Adds elements.
    pub fn with(mut self, more: impl Into<Html>) -> Self {
        self.content.add(more);
        self
    }
}

impl Anchor {
    /// The anchor that is closest to a text.
    pub fn new(text: &str) -> Self {
        let kept = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        Self(text.chars().take(ANCHOR).map(kept).collect())
    }
}

impl Display for Anchor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Text as HTML, in an element or an attribute: readable, of at most `most` characters, and
/// escaped.
fn shown(text: &str, most: usize) -> String {
    let readable = readable::escaped(text, most, |c| matches!(c, '\n' | '\t'));
    let mut escaped = String::with_capacity(readable.len());
    for c in readable.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(element: Element) -> String {
        Html::from(element).0
    }

    #[test]
    fn text_never_becomes_markup() {
        let hostile = "<b a='1' c=\"2\">&\u{7}\u{202e}";
        let expected = "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;\\u{7}\\u{202e}";
        assert_eq!(html(element("p").text(hostile)), format!("<p>{expected}</p>\n"));
        assert_eq!(html(element("td").set("x", hostile)), format!("<td x=\"{expected}\"></td>"));
        let lines = html(element("pre").preformatted("a\n\t<b>\r"));
        assert_eq!(lines, "<pre>a\n\t&lt;b&gt;\\r</pre>\n");
    }

    #[test]
    fn elements_nest() {
        let row = element("tr").with(element("td").at("x", 0.25).text(1)).with(element("td"));
        assert_eq!(html(row), "<tr><td x=\"0.2\">1</td><td></td></tr>\n");
        assert_eq!(html(element("meta").set("charset", "utf-8")), "<meta charset=\"utf-8\">\n");
    }

    #[test]
    fn anchors_are_letters_digits_and_hyphens() {
        assert_eq!(Anchor::new("chart-\"><script>").to_string(), "chart----script-");
        assert_eq!(Anchor::new(&"é".repeat(1000)).to_string(), "-".repeat(ANCHOR));
    }

    #[test]
    fn long_texts_are_cut() {
        assert!(html(element("p").text("&".repeat(1 << 20))).len() < 6 * TEXT);
        assert!(
            html(element("pre").preformatted(&"x\n".repeat(1 << 20))).len() < PREFORMATTED + 20
        );
    }
}
