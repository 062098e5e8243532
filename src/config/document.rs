//! What users read about the settings: `ignn train --list` and `docs/config.md`. Both are written
//! from the declarations of the sections, and so is the JSON Schema ([`super::json_schema`]).

use std::fmt::Write;

use super::presets::PRESETS;
use super::{Config, SECTIONS};
use crate::settings::{Field, Kind, literal, paragraphs, quoted};

/// Longest line of text.
const WIDTH: usize = 100;

const INTRODUCTION: &str = "\
# Configuration

<!-- Written by a test from the doc comments of the settings. After a change there, run
     IGNN_REWRITE=1 cargo test --lib config:: -->

One TOML file describes a run. Settings that it leaves out come from a preset or from the defaults
below; later sources win:

    defaults  <  --preset NAME  <  --config FILE.toml  <  --set section.key=value ...

`--set` may be repeated. Words need no quotes there, and lists no brackets:
`--set optim.clip=tensor --set model.hidden=64,32`. Unknown keys, wrong types and values out of
range are refused with their place. The run directory holds the resolved configuration as
`config.toml`, and so does the model file.

`ignn train --list` prints all settings with their defaults and the texts below, ready to edit.
`ignn train --schema` prints a JSON Schema, also in
[config.schema.json](config.schema.json), which gives editors completion, help and checks. For
Taplo and Even Better TOML, put this in the first line of your file:

    #:schema path/to/config.schema.json
";

const KINDS: &str = "
## Models

All kinds train on the same datasets with the same command, `--set model.kind=gcn`, and their files
serve `ignn predict` and `ignn eval`. A kind ignores settings that it does not use, so any preset
can be tried with any kind.

- All kinds but `label-propagation` use `features`, `normalise_features`, `init_input`, `skip`,
  `between`, `batch_norm` (never on logits), `pooling` and `dropout`. `structural` computes its
  features and uses neither `features` nor `normalise_features`.
- If nodes have the labels, kinds that do not end in a readout give the logits with their last
  layer, and `readout`, `hidden`, `head_bias` and `normalise_state` are unused. If graphs have the
  labels, all layers are as wide as `state`, and pooling and a readout follow.
- `state` is one width, or one per layer that does not give the logits.
- Baselines apply `dropout` before every layer, features included.
- All kinds but `ignn` average several relations.
- Baselines initialise Omega uniformly within `init_input` times sqrt(6 / (p + m)).
";

/// All settings of a configuration as TOML, each with its text as a comment.
///
/// ```
/// use ignn::config::{Config, document};
///
/// let text = document::listing(&Config::default());
/// assert!(text.contains("# Learning rate before the schedule.\n"));
/// assert!(text.contains("\nlearning_rate = 0.01\n"));
/// ```
pub fn listing(config: &Config) -> String {
    let values = config.values();
    let mut text = String::new();
    for section in SECTIONS {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}{}[{}]", comment(section.doc), section.name);
        for field in section.fields {
            let _ = write!(text, "\n{}", comment(field.doc));
            for word in words(field) {
                let line = format!("{}: {}", quoted(word.0), word.1);
                text.push_str(&wrapped(&line, "#   ", "#     "));
            }
            if let Some(takes) = takes(field) {
                text.push_str(&wrapped(&takes, "# ", "# "));
            }
            let _ = writeln!(text, "{} = {}", field.key, literal(&values[section.name][field.key]));
        }
    }
    text.push_str("\n# Presets, for --preset NAME:\n");
    for preset in PRESETS {
        let line = format!("{}: {}", preset.name, preset.doc);
        text.push_str(&wrapped(&line, "#   ", "#     "));
    }
    text
}

/// `docs/config.md`.
pub fn markdown() -> String {
    let defaults = Config::default().values();
    let mut page = String::from(INTRODUCTION);
    for section in SECTIONS {
        let _ = writeln!(page, "\n## [{}]\n", section.name);
        for paragraph in paragraphs(section.doc) {
            page.push_str(&wrapped(&paragraph, "", ""));
        }
        page.push('\n');
        for field in section.fields {
            let default = literal(&defaults[section.name][field.key]);
            let mut line = format!("**`{}`** = `{default}`:", field.key);
            for part in paragraphs(field.doc).into_iter().chain(takes(field)) {
                let _ = write!(line, " {part}");
            }
            page.push_str(&wrapped(&line, "- ", "  "));
            for word in words(field) {
                let line = format!("`{}`: {}", quoted(word.0), word.1);
                page.push_str(&wrapped(&line, "  - ", "    "));
            }
        }
    }
    page.push_str(KINDS);
    page.push_str("\n## Presets\n");
    for preset in PRESETS {
        let _ = writeln!(page, "\n### {}\n", preset.name);
        page.push_str(&wrapped(preset.doc, "", ""));
        let _ = write!(page, "\n```toml\n{}\n```\n", preset.text.trim());
    }
    page
}

/// What a key takes, in a sentence; none if its words or its default say so.
fn takes(field: &Field) -> Option<String> {
    let expected = match field.kind {
        Kind::Integer | Kind::Number | Kind::List(Kind::Integer | Kind::Number) => field.expected(),
        Kind::List(_) => format!("one word, or a list of 1 to {} words", field.limits.items),
        Kind::Flag | Kind::Text | Kind::Choice(_) => return None,
    };
    let (first, rest) = expected.split_at(1);
    Some(format!("{}{rest}.", first.to_uppercase()))
}

/// The words of a choice, each with its text.
fn words(field: &Field) -> Vec<(&'static str, String)> {
    let kind = if let Kind::List(kind) = field.kind { kind } else { &field.kind };
    let Kind::Choice(words) = kind else { return Vec::new() };
    words.iter().map(|word| (word.word, paragraphs(word.doc).join(" "))).collect()
}

fn comment(doc: &str) -> String {
    paragraphs(doc).iter().map(|paragraph| wrapped(paragraph, "# ", "# ")).collect()
}

/// Lines of at most [`WIDTH`] characters, the first one with another prefix than the rest.
fn wrapped(text: &str, first: &str, rest: &str) -> String {
    let (mut lines, mut line) = (String::new(), String::from(first));
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(lines, "{line}");
            (line, is_empty) = (rest.into(), true);
        }
        let gap = if is_empty { "" } else { " " };
        let _ = write!(line, "{gap}{word}");
        is_empty = false;
    }
    let _ = writeln!(lines, "{line}");
    lines
}
