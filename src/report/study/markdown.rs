//! A study as Markdown, for `docs/results.md`: how the figures came about, and one table per panel
//! and protocol.

use super::page::PROTOCOLS;
use super::{Cost, Dataset, Figure, Panel, Row, SCALING, Study};
use crate::report::runs::title;
use crate::report::{quantity, readable};

/// Longest text of a cell or line.
const LONGEST: usize = 1000;
/// Width of a line of text.
const WIDTH: usize = 100;

impl Study {
    /// Headings start at the second level.
    pub fn as_markdown(&self) -> String {
        let quick = if self.is_quick { ", quick form: not comparable" } else { "" };
        let about = wrapped(&plain(&self.about), "");
        let mut text = format!("## {}{quick}\n\n{about}\n", plain(&self.title));
        // Lines of a shell command end where an option begins.
        let command = line(&self.command).replace(" --", "\0--");
        text += &joined(command.split('\0'), "    ", " \\\n        ");
        text += "\n";
        let facts: Vec<String> =
            self.facts.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let mut item = |what: &str, words: &str| {
            text += &wrapped(&format!("- {what}{}", plain(words)), "  ");
        };
        item("Machine and date: ", &format!("{}.", facts.join(", ")));
        item("Protocol: ", PROTOCOLS);
        for choice in &self.choices {
            item("Settings of ", &format!("{}.", choice.words()));
        }
        for note in &self.notes {
            item("Note: ", &format!("{note}."));
        }
        for panel in &self.panels {
            text += &format!("\n### {}\n\n", plain(&panel.title));
            text += &format!("Means over {}, in per cent.\n\n", plain(&panel.repeats));
            text += &panel.markdown();
        }
        if !self.datasets.is_empty() {
            text += "\n### Data\n\n";
            let header = ["dataset", "nodes", "non-zeros", "on disk", "time to make", "memory"];
            let row = |one: &Dataset| {
                vec![
                    one.name.clone(),
                    quantity::count(one.nodes),
                    quantity::count(one.nonzeros),
                    or_dash(one.bytes_on_disk.map(quantity::bytes)),
                    or_dash(one.seconds.map(quantity::seconds)),
                    or_dash(one.peak_bytes.map(quantity::bytes)),
                ]
            };
            text += &table(&header.map(String::from), self.datasets.iter().map(row));
        }
        let scaling: Vec<_> = self.datasets.iter().flat_map(Dataset::scaling_cells).collect();
        if !scaling.is_empty() {
            text += "\n### Sweeps by the number of threads\n\n";
            text += &table(&SCALING.map(String::from), scaling.into_iter().map(Vec::from));
        }
        text
    }
}

impl Panel {
    /// One row per point and method, one column per score: by validation, then by best test.
    fn markdown(&self) -> String {
        let scores = self.distinct(|row| &row.score);
        let mut lines: Vec<Vec<&Row>> = Vec::new();
        for row in &self.rows {
            let is_same = |line: &Vec<&Row>| {
                line.iter().all(|one| (&one.point, &one.method) == (&row.point, &row.method))
            };
            match lines.iter_mut().find(|line| is_same(line)) {
                Some(line) => line.push(row),
                None => lines.push(vec![row]),
            }
        }
        let header = |protocol: &str| -> Vec<String> {
            let scores = scores.iter().map(|score| format!("{}, {protocol}", title(score)));
            [self.points.clone(), "method".into()].into_iter().chain(scores).collect()
        };
        let figures = |line: &[&Row], of: &dyn Fn(&Row) -> Option<Figure>| -> Vec<String> {
            let cell = |score: &String| {
                let row = line.iter().find(|row| row.score == *score);
                row.map_or("–".into(), |row| row.words(&of(row)))
            };
            let names = [line[0].point.clone(), line[0].method.clone()];
            names.into_iter().chain(scores.iter().map(cell)).collect()
        };
        let validation = |line: &Vec<&Row>| {
            let mut cells = figures(line, &|row| row.validation.clone());
            let cost = |words: &dyn Fn(&Cost) -> Option<String>| {
                or_dash(line[0].cost.as_ref().and_then(words))
            };
            let runs = line[0].validation.as_ref().map_or(0, |figure| figure.count);
            cells.push(runs.to_string());
            cells.push(cost(&|cost| cost.seconds_per_epoch.map(quantity::seconds)));
            cells.push(cost(&Cost::sweeps_words));
            cells.push(cost(&|cost| cost.peak_bytes.map(quantity::bytes)));
            let published = line.iter().filter(|row| !row.published.is_empty());
            let published = published.map(|row| match &scores[..] {
                [_] => row.published_words(),
                _ => format!("{}: {}", title(&row.score), row.published_words()),
            });
            cells.push(published.collect::<Vec<_>>().join("; "));
            cells
        };
        let more = ["runs", "per epoch", "sweeps per epoch", "memory", "published"];
        let wide = [header("validation"), more.map(String::from).to_vec()].concat();
        let mut text = table(&wide, lines.iter().map(validation));
        if self.rows.iter().any(|row| row.best_test.is_some()) {
            let best = |line: &Vec<&Row>| figures(line, &|row| row.best_test.clone());
            text += &format!("\n{}", table(&header("best test"), lines.iter().map(best)));
        }
        text
    }
}

fn or_dash(words: Option<String>) -> String {
    words.unwrap_or_else(|| "–".into())
}

fn table(header: &[String], rows: impl Iterator<Item = Vec<String>>) -> String {
    let row = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| plain(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|{}\n", " --- |".repeat(header.len()));
    let mut text = row(header) + &rule;
    rows.for_each(|cells| text += &row(&cells));
    text
}

/// Text in lines of at most [`WIDTH`] characters where words allow it; those after the first begin
/// with `indent`.
fn wrapped(text: &str, indent: &str) -> String {
    joined(text.split(' '), "", &format!("\n{indent}"))
}

/// Words in lines of at most [`WIDTH`] characters: the first begins with `start`, `end` ends one and
/// begins the next.
fn joined<'a>(words: impl Iterator<Item = &'a str>, start: &str, end: &str) -> String {
    let (mut text, mut width) = (start.to_string(), start.chars().count());
    let before = end.rsplit('\n').next().unwrap_or_default().chars().count();
    for (at, word) in words.enumerate() {
        let length = word.chars().count();
        // Two more for the end of a shell command's line.
        if at > 0 && width + length + 3 > WIDTH {
            text += end;
            width = before;
        } else if at > 0 {
            text.push(' ');
            width += 1;
        }
        text += word;
        width += length;
    }
    text + "\n"
}

/// One line without control characters.
fn line(text: &str) -> String {
    readable::line(text, LONGEST)
}

/// The same, with characters escaped that Markdown gives a meaning within a line.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in line(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '[' | ']' | '|' | '#') {
            out.push('\\');
        }
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::testing::study;
    use super::*;

    #[test]
    fn a_table_per_protocol_says_how_it_came_about() {
        let text = study().as_markdown();
        for part in [
            "## Chains, quick form: not comparable\n",
            "\n    ignn reproduce chains --quick --out DIR\n",
            "- Machine and date: version 0.1.0.\n",
            "- Settings of preset chains: tried: 12; chosen: on validation; test scores in view: \
             no.\n",
            "- Note: data &lt;x> is absent.\n",
            "\n### Accuracy against length\n\nMeans over seeds 0, 1, in per cent.\n",
            "| length | method | Accuracy, validation | runs | per epoch | sweeps per epoch | memory \
             | published |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n",
            "| 40 | IGNN | 90.00 (7.07) | 2 | 0.25 s | 12.0 + 9.0 | 3.0 MiB | 64.5, published code \
             |\n",
            "| 10 | GCN | failed | 0 |",
            "| length | method | Accuracy, best test |\n",
            "| chains-10 | 400 | 360 | 2.0 KiB | 0.50 s | 1.0 MiB |\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn text_is_wrapped_and_commands_stay_whole() {
        let mut long = study();
        long.about = "word ".repeat(60).trim().into();
        long.command = format!("ignn reproduce chains{}", " --set 'train.epochs=2'".repeat(6));
        let text = long.as_markdown();
        assert!(text.lines().all(|line| line.starts_with('|') || line.len() <= WIDTH), "{text}");
        let start = text.find("    ignn").unwrap();
        let command = text[start..].split("\n\n").next().unwrap();
        assert_eq!(command.replace(" \\\n       ", "").trim(), long.command);
        assert_eq!(text.matches("word").count(), 60);
    }

    #[test]
    fn text_cannot_leave_its_cell() {
        let escaped = plain("a|b\n# `c` <script> [x](y)");
        assert!(!escaped.contains('\n') && !escaped.contains("<script"), "{escaped}");
        assert!(escaped.starts_with("a\\|b"), "{escaped}");
        let rows = table(&["x|y".into()], std::iter::once(vec!["1\n2".into()]));
        assert_eq!(rows.lines().count(), 3, "{rows}");
    }
}
