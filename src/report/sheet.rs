//! A text table for a terminal: rows of cells in aligned columns. `table` writes files.

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
        Self { rows: vec![header.iter().map(ToString::to_string).collect()], left: false }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) -> &mut Self {
        self.rows.push(cells.into_iter().map(Into::into).collect());
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
}
