//! A study on a terminal.

use super::Study;
use crate::report::sheet::Sheet;

impl Study {
    /// One table per panel, with scores in per cent.
    pub fn as_text(&self) -> String {
        let mut text = format!("{}{}\n", self.title, if self.is_quick { " (quick)" } else { "" });
        for panel in &self.panels {
            let header =
                [&panel.points, "method", "score, %", "validation", "best test", "published"];
            let mut sheet = Sheet::columns(&header);
            for row in &panel.rows {
                let (validation, best) = (row.words(&row.validation), row.words(&row.best_test));
                let (method, score) = (row.method.clone(), row.score.clone());
                sheet.row([
                    row.point.clone(),
                    method,
                    score,
                    validation,
                    best,
                    row.published_words(),
                ]);
            }
            text += &format!("\n{}\n{}", panel.title, sheet.render());
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        for note in &self.notes {
            text += &format!("note: {note}\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::study;

    #[test]
    fn one_line_per_method() {
        let text = study().as_text();
        assert!(text.starts_with("Chains (quick)\n\nAccuracy against length\n"), "{text}");
        let line = "      40    IGNN  accuracy  90.00 (7.07)  90.00 (7.07)  64.5, published code";
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.lines().any(|found| squeezed(found) == squeezed(line)), "{text}");
        assert!(text.contains("failed") && text.ends_with("note: data <x> is absent\n"));
    }
}
