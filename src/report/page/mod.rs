//! A self-contained HTML page: sections of text, tables and vector charts, without scripts or
//! external files. It lays out what it is given.

mod axis;
mod chart;
mod labels;
mod markup;
mod stacked;

pub use axis::{Axis, Scale};
pub use chart::{Chart, Reference, Series};
pub use markup::{Cell, Table, escape};
pub use stacked::StackedBars;

/// Styles: light, dark (if the reader's system prefers it) and print.
const STYLE: &str = include_str!("style.css");

/// A page, built section by section.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    lead: String,
    sections: Vec<Section>,
}

/// A part of a page, with a heading and an anchor.
#[derive(Clone, Debug)]
pub struct Section {
    id: String,
    heading: String,
    body: String,
    charts: usize,
}

impl Page {
    /// A page with its title and a sentence below it.
    pub fn new(title: impl Into<String>, lead: impl Into<String>) -> Self {
        Self { title: title.into(), lead: lead.into(), sections: Vec::new() }
    }

    /// Adds a section at the end; an empty one is left out.
    pub fn section(&mut self, section: Section) -> &mut Self {
        if !section.body.is_empty() {
            self.sections.push(section);
        }
        self
    }

    /// Number of charts.
    pub fn charts(&self) -> usize {
        self.sections.iter().map(|section| section.charts).sum()
    }

    /// The HTML file.
    pub fn render(&self) -> String {
        let title = escape(&self.title);
        let mut html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <link rel=\"icon\" \
             href=\"data:,\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <header>\n<h1>{title}</h1>\n<p>{}</p>\n",
            escape(&self.lead)
        );
        if self.sections.len() > 1 {
            html += "<nav aria-label=\"Sections\">";
            for section in &self.sections {
                html += &format!("<a href=\"#{}\">{}</a>", section.id, escape(&section.heading));
            }
            html += "</nav>\n";
        }
        html += "</header>\n<main>\n";
        for section in &self.sections {
            let Section { id, heading, body, .. } = section;
            html +=
                &format!("<section id=\"{id}\">\n<h2>{}</h2>\n{body}</section>\n", escape(heading));
        }
        html + "</main>\n</body>\n</html>\n"
    }
}

impl Section {
    /// An empty section; `id` is its anchor, of letters, digits and hyphens.
    pub fn new(id: &str, heading: &str) -> Self {
        Self { id: id.into(), heading: heading.into(), body: String::new(), charts: 0 }
    }

    /// A paragraph.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.body += &format!("<p>{}</p>\n", escape(text));
        self
    }

    /// A smaller heading.
    pub fn heading(&mut self, text: &str) -> &mut Self {
        self.body += &format!("<h3>{}</h3>\n", escape(text));
        self
    }

    /// A table.
    pub fn table(&mut self, table: &Table) -> &mut Self {
        self.body += &table.render();
        self
    }

    /// A table that is folded until the reader opens it.
    pub fn folded_table(&mut self, summary: &str, table: &Table) -> &mut Self {
        self.body += &format!(
            "<details>\n<summary>{}</summary>\n{}</details>\n",
            escape(summary),
            table.render()
        );
        self
    }

    /// Preformatted text that is folded until the reader opens it.
    pub fn folded_text(&mut self, summary: &str, text: &str) -> &mut Self {
        self.body += &format!(
            "<details>\n<summary>{}</summary>\n<pre>{}</pre>\n</details>\n",
            escape(summary),
            escape(text)
        );
        self
    }

    /// Charts side by side if there is room; those without a point are left out.
    pub fn charts(&mut self, charts: &[Chart]) -> &mut Self {
        let drawn: Vec<String> = charts.iter().filter_map(Chart::render).collect();
        if !drawn.is_empty() {
            self.charts += drawn.len();
            self.body += &format!("<div class=\"charts\">\n{}</div>\n", drawn.concat());
        }
        self
    }

    /// Bars; left out if all are empty.
    pub fn bars(&mut self, bars: &StackedBars) -> &mut Self {
        if let Some(drawn) = bars.render() {
            self.charts += 1;
            self.body += &drawn;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_complete_and_needs_no_other_file() {
        let mut section = Section::new("loss", "Loss <by> epoch");
        section.text("a & b").folded_text("config", "x = \"<y>\"");
        let mut page = Page::new("R&D", "two");
        page.section(section).section(Section::new("none", "Nothing"));
        let html = page.render();
        assert!(html.contains("<title>R&amp;D</title>") && html.contains("Loss &lt;by&gt; epoch"));
        assert!(html.contains("<pre>x = &quot;&lt;y&gt;&quot;</pre>"));
        assert!(!html.contains("Nothing"), "an empty section is left out");
        for word in ["<script", "http:", "https:", "url(", "@import"] {
            assert!(!html.contains(word), "{word}");
        }
    }
}
