//! Tables as HTML.

use super::html::{Element, Html, element};

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

    fn element(&self) -> Element {
        match self {
            Self::Text(text) => element("td").text(text),
            Self::Number(text) => element("td").set("class", "n").text(text),
            Self::Share(text, share) => {
                let width = if share.is_finite() { 100.0 * share.clamp(0.0, 1.0) } else { 0.0 };
                let style = format!("--share:{width:.1}%");
                element("td").set("class", "n share").set("style", style).text(text)
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
    pub(super) fn element(&self) -> Element {
        let mut table = element("table");
        if !self.header.is_empty() {
            let is_right = |column: usize| {
                let cell = self.rows.first().and_then(|row| row.get(column));
                cell.is_some_and(|cell| !matches!(cell, Cell::Text(_)))
            };
            let cells = self.header.iter().enumerate().map(|(column, name)| {
                let cell = element("th").set("scope", "col");
                let cell = if is_right(column) { cell.set("class", "n") } else { cell };
                cell.text(name)
            });
            let row = element("tr").with(cells.collect::<Html>());
            table = table.with(element("thead").with(row));
        }
        let rows = self.rows.iter().enumerate().map(|(at, row)| {
            let cells = row.iter().enumerate().map(|(column, cell)| match (column, cell) {
                (0, Cell::Text(text)) => element("th").set("scope", "row").text(text),
                _ => cell.element(),
            });
            let row = element("tr");
            let row = if self.summary.contains(&at) { row.set("class", "sum") } else { row };
            row.with(cells.collect::<Html>())
        });
        let table = table.with(element("tbody").with(rows.collect::<Html>()));
        element("div").set("class", "table").set("tabindex", 0).with(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_users_stay_text() {
        let mut table = Table::new(&["run", "F1"]);
        table.row([Cell::text("<a>"), Cell::Share("50 %".into(), 0.5)]);
        table.summary([Cell::text("mean"), Cell::percent(None)]);
        let html = Html::document(table.element());
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
