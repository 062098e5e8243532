//! `docs/config.md`, written from the schema.
//! It lays out what the schema says and adds how layers go on top of each other.

use std::fmt::Write;

use super::presets::PRESETS;
use super::schema::{self, Kind, SECTIONS};

const INTRODUCTION: &str = "# Configuration

Written by a test from the schema in `src/config/schema.rs`; change it there, then run
`IGNN_REWRITE=1 cargo test --lib config::document`.

A run is described by one TOML file. Whatever it leaves out comes from a preset or from the defaults below:

    defaults  <  --preset NAME  <  --config FILE.toml  <  --set section.key=value ...

`--set` may be repeated, the last one of a key counts; words need no quotes there and lists no brackets
(`--set optim.clip=tensor --set model.hidden=64,32`). Unknown keys, wrong types and values out of range are refused
with their place. The resolved configuration, all fields of it, is written with the run as `config.toml` and into the
model file.
";

/// The whole document.
pub fn markdown() -> String {
    let mut page = String::from(INTRODUCTION);
    for (section, doc) in SECTIONS {
        let _ = write!(
            page,
            "\n## [{section}]\n\n{doc}\n\n| key | default | values | |\n| --- | --- | --- | --- |\n"
        );
        for field in schema::of_section(section) {
            let default = schema::literal(&field.default.value());
            let doc = field.doc.replace('|', "\\|");
            let _ = writeln!(page, "| `{}` | `{default}` | {} | {doc} |", field.key(), values(&field.kind));
        }
    }
    page.push_str("\n## Presets\n");
    for preset in PRESETS {
        let _ = write!(page, "\n`{}`: {}\n\n```toml\n{}\n```\n", preset.name, preset.doc, preset.text.trim());
    }
    page
}

fn values(kind: &Kind) -> String {
    match kind {
        Kind::Word(words) => words.iter().map(|word| format!("`{word:?}`")).collect::<Vec<_>>().join(", "),
        Kind::Text => "text".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_document_says_what_the_schema_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/config.md");
        if std::env::var_os("IGNN_REWRITE").is_some() {
            fs::write(&path, markdown()).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == markdown(),
            "docs/config.md is out of date: run IGNN_REWRITE=1 cargo test --lib config::document"
        );
    }
}
