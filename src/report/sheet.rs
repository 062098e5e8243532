//! A text table for a terminal: rows of cells in aligned columns. `table` writes files.
//!
//! Every cell is one line of limited length: see [`readable`].

use super::readable;

/// Longest cell of a table with columns, in characters.
const CELL: usize = 120;
/// Longest cell of a table of pairs, whose second column has the line for itself.
const PAIRED: usize = 400;

/// Rows of cells. The first column is aligned left, the others right, or left in [`Sheet::pairs`].
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    rows: Vec<Vec<String>>,
    left: bool,
}

impl Sheet {
    /// Names in the first column, values aligned left in the second.
    pub fn pairs() -> Self {
        Self { left: true, ..Self::default() }
    }

    /// A header line, and columns of numbers.
    pub fn columns(header: &[&str]) -> Self {
        let mut sheet = Self::default();
        sheet.row(header.iter().copied());
        sheet
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) -> &mut Self {
        let most = if self.left { PAIRED } else { CELL };
        let shown = |cell: String| readable::line(&cell, most);
        self.rows.push(cells.into_iter().map(|cell| shown(cell.into())).collect());
        self
    }

    /// The text, each line indented by two spaces.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if column == 0 || self.left {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            text.push_str("  ");
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut pairs = Sheet::pairs();
        pairs.row(["nodes", "12"]).row(["non-zeros", "1,234"]);
        assert_eq!(pairs.render(), "  nodes      12\n  non-zeros  1,234\n");
        let mut numbers = Sheet::columns(&["part", "bytes"]);
        numbers.row(["ids", "7"]).row(["graph", "1234567"]);
        assert_eq!(numbers.render(), "  part     bytes\n  ids          7\n  graph  1234567\n");
    }

    #[test]
    fn cells_are_single_lines_of_limited_length() {
        // Rust's formatting panics on a width above 65,535.
        let long = "x".repeat(70_000);
        let mut numbers = Sheet::columns(&["class", &long]);
        numbers.row([long.as_str(), "1"]).row(["\u{1b}[31m\n", "2"]);
        let text = numbers.render();
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().all(|line| line.chars().count() <= 2 + CELL + 2 + CELL), "{text}");
        assert!(text.contains("\n  \\u{1b}[31m\\n  "), "{text}");
        assert!(Sheet::pairs().row(["name", &long]).render().len() < 2 * PAIRED);
    }
}
