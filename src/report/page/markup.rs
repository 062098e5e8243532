//! Text and tables as HTML. All text from outside passes through [`escape`].

/// Escapes text for HTML and SVG, attributes included.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Not allowed in either.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text, aligned left.
    Text(String),
    /// A number, aligned right.
    Number(String),
    /// A number with a bar behind it, as a fraction of 1.
    Share(String, f64),
}

impl Cell {
    /// A text cell.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A number cell.
    #[allow(clippy::needless_pass_by_value)] // Figures are plain numbers for most callers.
    pub fn number(text: impl ToString) -> Self {
        Self::Number(text.to_string())
    }

    /// A score between 0 and 1 in per cent; a dash for `None`.
    pub fn percent(score: Option<f64>) -> Self {
        match score.filter(|score| score.is_finite()) {
            Some(score) => Self::Number(format!("{:.2} %", 100.0 * score)),
            None => Self::Number("–".into()),
        }
    }

    fn render(&self) -> String {
        match self {
            Self::Text(text) => format!("<td>{}</td>", escape(text)),
            Self::Number(text) => format!("<td class=\"n\">{}</td>", escape(text)),
            Self::Share(text, share) => {
                let width = if share.is_finite() { 100.0 * share.clamp(0.0, 1.0) } else { 0.0 };
                format!("<td class=\"n share\" style=\"--share:{width:.1}%\">{}</td>", escape(text))
            }
        }
    }
}

/// Rows below a header; the first column names the row.
#[derive(Clone, Debug, Default)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<Cell>>,
    summary: Vec<usize>,
}

impl Table {
    /// A table with these columns.
    pub fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(ToString::to_string).collect(), ..Self::default() }
    }

    /// Two columns without a header.
    pub fn pairs() -> Self {
        Self::default()
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Self {
        self.rows.push(cells.into_iter().collect());
        self
    }

    /// Adds a row with totals.
    pub fn summary(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Self {
        self.summary.push(self.rows.len());
        self.row(cells)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The HTML; narrow screens scroll it sideways.
    pub fn render(&self) -> String {
        let mut html = String::from("<div class=\"table\" tabindex=\"0\"><table>\n");
        if !self.header.is_empty() {
            let right = |column: usize| {
                let cell = self.rows.first().and_then(|row| row.get(column));
                if cell.is_some_and(|cell| !matches!(cell, Cell::Text(_))) {
                    " class=\"n\""
                } else {
                    ""
                }
            };
            let cells = self.header.iter().enumerate();
            let cells = cells
                .map(|(at, name)| format!("<th scope=\"col\"{}>{}</th>", right(at), escape(name)));
            html += &format!("<thead><tr>{}</tr></thead>\n", cells.collect::<String>());
        }
        html += "<tbody>\n";
        for (at, row) in self.rows.iter().enumerate() {
            let class = if self.summary.contains(&at) { " class=\"sum\"" } else { "" };
            let cells = row.iter().enumerate().map(|(column, cell)| match (column, cell) {
                (0, Cell::Text(text)) => format!("<th scope=\"row\">{}</th>", escape(text)),
                _ => cell.render(),
            });
            html += &format!("<tr{class}>{}</tr>\n", cells.collect::<String>());
        }
        html + "</tbody>\n</table></div>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_users_stay_text() {
        assert_eq!(
            escape("<b a='1' c=\"2\">&\u{7}"),
            "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;\u{fffd}"
        );
        let mut table = Table::new(&["run", "F1"]);
        table.row([Cell::text("<a>"), Cell::Share("50 %".into(), 0.5)]);
        table.summary([Cell::text("mean"), Cell::percent(None)]);
        let html = table.render();
        assert!(
            html.contains("<th scope=\"row\">&lt;a&gt;</th>") && html.contains("--share:50.0%"),
            "{html}"
        );
        assert!(
            html.contains(
                "<tr class=\"sum\"><th scope=\"row\">mean</th><td class=\"n\">–</td></tr>"
            )
        );
        assert!(html.contains("<th scope=\"col\" class=\"n\">F1</th>"));
    }
}
