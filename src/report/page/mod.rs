//! A self-contained HTML page: sections of text, tables and vector charts, without scripts or
//! external files. The content comes from the callers.

mod axis;
mod chart;
mod html;
mod labels;
mod markup;
mod stacked;

pub use axis::{Axis, Scale};
pub use chart::{Chart, Reference, Series};
pub use markup::{Cell, Table};
pub use stacked::StackedBars;

use std::io::Read;
use std::path::Path;

use html::{Anchor, Html, element};
use ignn_format::storage::{self, Kind};
use ignn_format::{FormatError, regular};

/// Styles: light, dark (if the reader's system prefers it) and print.
const STYLE: &str = include_str!("style.css");

/// What a browser may load and run: nothing but the style sheet in the file. This is a second line
/// of defence; the first is the escaping in [`html`].
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

/// The mark of a page that the program made; the version follows.
const GENERATOR: &str = "ignn ";
/// Bytes of a page in which its mark is looked for.
const HEAD_BYTES: u64 = 1 << 12;

/// Pages that the program made, which `--force` may replace.
pub static PAGE: Kind = Kind { check: check_made };

fn check_made(path: &Path) -> Result<(), FormatError> {
    let mut head = Vec::new();
    let read = regular::open(path)?.0.take(HEAD_BYTES).read_to_end(&mut head);
    read.map_err(FormatError::io("read", path))?;
    let mark = format!("<meta name=\"generator\" content=\"{GENERATOR}");
    match String::from_utf8_lossy(&head).contains(&mark) {
        true => Ok(()),
        false => Err(storage::not_replaceable(path, "a report")),
    }
}

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
    id: Anchor,
    heading: String,
    body: Html,
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
        let meta =
            |name: &str, content: &str| element("meta").set("name", name).set("content", content);
        let policy = element("meta").set("http-equiv", "Content-Security-Policy");
        let head = element("head")
            .with(element("meta").set("charset", "utf-8"))
            .with(policy.set("content", POLICY))
            .with(meta("generator", &format!("{GENERATOR}{}", env!("CARGO_PKG_VERSION"))))
            .with(meta("viewport", "width=device-width, initial-scale=1"))
            .with(meta("color-scheme", "light dark"))
            .with(element("link").set("rel", "icon").set("href", "data:,"))
            .with(element("title").text(&self.title))
            .with(element("style").style_sheet(STYLE));
        let mut header = element("header")
            .with(element("h1").text(&self.title))
            .with(element("p").text(&self.lead));
        if self.sections.len() > 1 {
            let links = self.sections.iter().map(|section| {
                element("a").set("href", format_args!("#{}", section.id)).text(&section.heading)
            });
            let nav = element("nav").set("aria-label", "Sections");
            header = header.with(nav.with(links.collect::<Html>()));
        }
        let sections = self.sections.iter().map(|section| {
            let heading = element("h2").text(&section.heading);
            element("section").set("id", &section.id).with(heading).with(section.body.clone())
        });
        let main = element("main").with(sections.collect::<Html>());
        let body = element("body").with(header).with(main);
        Html::document(element("html").set("lang", "en").with(head).with(body))
    }
}

impl Section {
    /// An empty section; its anchor on the page is made from `id`.
    pub fn new(id: &str, heading: &str) -> Self {
        Self { id: Anchor::new(id), heading: heading.into(), body: Html::new(), charts: 0 }
    }

    /// A paragraph.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.body.add(element("p").text(text));
        self
    }

    /// A smaller heading.
    pub fn heading(&mut self, text: &str) -> &mut Self {
        self.body.add(element("h3").text(text));
        self
    }

    /// A table.
    pub fn table(&mut self, table: &Table) -> &mut Self {
        self.body.add(table.element());
        self
    }

    /// A table that is folded until the reader opens it.
    pub fn folded_table(&mut self, summary: &str, table: &Table) -> &mut Self {
        let summary = element("summary").text(summary);
        self.body.add(element("details").with(summary).with(table.element()));
        self
    }

    /// Preformatted text that is folded until the reader opens it.
    pub fn folded_text(&mut self, summary: &str, text: &str) -> &mut Self {
        let (summary, text) = (element("summary").text(summary), element("pre").preformatted(text));
        self.body.add(element("details").with(summary).with(text));
        self
    }

    /// Charts side by side if there is room; those without a point are left out.
    pub fn charts(&mut self, charts: &[Chart]) -> &mut Self {
        let drawn: Vec<_> = charts.iter().filter_map(Chart::element).collect();
        if !drawn.is_empty() {
            self.charts += drawn.len();
            let drawn: Html = drawn.into_iter().collect();
            self.body.add(element("div").set("class", "charts").with(drawn));
        }
        self
    }

    /// Bars; left out if all are empty.
    pub fn bars(&mut self, bars: &StackedBars) -> &mut Self {
        if let Some(drawn) = bars.element() {
            self.charts += 1;
            self.body.add(drawn);
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
