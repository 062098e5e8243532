//! Writes `docs/cli.md` from the same text as `--help`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// Columns of a paragraph.
const WIDTH: usize = 100;

const INTRODUCTION: &str = "# The command line

Generated from the help texts in `cli/src/`. To change it, change them, then run
`IGNN_REWRITE=1 cargo test --bin ignn document`.

Results go to standard output, progress and notes to standard error.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | finished, but missed its goal: `check` found damage, a solve did not converge, training collapsed |
| 2 | usage, input or IO error |
| 130 | stopped by a signal |
";

/// The whole document.
fn markdown() -> String {
    let mut program = Cli::command();
    program.build();
    let mut page = String::from(INTRODUCTION);
    page.push_str("\n## Options of every command\n\n");
    options(&mut page, program.get_arguments().filter(|argument| argument.is_global_set()));
    for command in program.get_subcommands().filter(|command| command.get_name() != "help") {
        section(&mut page, command, "ignn");
    }
    page
}

/// A command, or its subcommands.
fn section(page: &mut String, command: &Command, path: &str) {
    let path = format!("{path} {}", command.get_name());
    if command.has_subcommands() {
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            section(page, sub, &path);
        }
        return;
    }
    let about = command
        .get_long_about()
        .or(command.get_about())
        .map(ToString::to_string)
        .unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let about = about.split("\n\n").map(wrapped).collect::<Vec<_>>().join("\n\n");
    let _ = write!(page, "\n## {path}\n\n{about}\n\n    {usage}\n\n");
    options(page, command.get_arguments().filter(|argument| !argument.is_global_set()));
    if let Some(examples) = command.get_after_help() {
        let text = examples.to_string();
        let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
        let rest: String =
            rest.lines().map(|line| format!("  {line}").trim_end().to_string() + "\n").collect();
        let _ = write!(page, "\n{first}\n\n{rest}");
    }
}

/// A paragraph in lines of at most [`WIDTH`] columns.
fn wrapped(paragraph: &str) -> String {
    let mut lines = vec![String::new()];
    for word in paragraph.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(word.to_string());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n")
}

fn options<'a>(page: &mut String, arguments: impl Iterator<Item = &'a Arg>) {
    let mut arguments = arguments
        .filter(|argument| !["help", "version"].contains(&argument.get_id().as_str()))
        .peekable();
    if arguments.peek().is_none() {
        return;
    }
    page.push_str("| option | default | |\n| --- | --- | --- |\n");
    for argument in arguments {
        let values: Vec<String> = argument
            .get_value_names()
            .filter(|_| argument.get_action().takes_values())
            .unwrap_or_default()
            .iter()
            .map(
                |name| if argument.is_positional() { name.to_string() } else { format!(" {name}") },
            )
            .collect();
        let name = match (argument.get_long(), argument.get_short()) {
            (Some(long), Some(short)) => format!("--{long}, -{short}"),
            (Some(long), None) => format!("--{long}"),
            (None, _) => String::new(),
        };
        let several = if argument.is_positional()
            && argument.get_num_args().is_some_and(|range| range.max_values() > 1)
        {
            "..."
        } else {
            ""
        };
        let defaults: Vec<_> = argument
            .get_default_values()
            .iter()
            .filter(|_| argument.get_action().takes_values())
            .map(|value| format!("`{}`", value.to_string_lossy()))
            .collect();
        let help = argument
            .get_long_help()
            .or(argument.get_help())
            .map(ToString::to_string)
            .unwrap_or_default();
        let paragraph = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut help = help.split("\n\n").map(paragraph).collect::<Vec<_>>().join(". ");
        let words = argument.get_possible_values();
        if !words.is_empty() && argument.get_action().takes_values() {
            let words: Vec<_> = words.iter().map(|word| format!("`{}`", word.get_name())).collect();
            let joint = if help.ends_with('.') { " Values: " } else { ": " };
            let _ = write!(help, "{joint}{}", words.join(", "));
        }
        let _ = writeln!(
            page,
            "| `{name}{}{several}` | {} | {} |",
            values.concat(),
            defaults.join(", "),
            help.replace('|', "\\|")
        );
    }
}

#[test]
fn cli_md_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md");
    if std::env::var_os("IGNN_REWRITE").is_some() {
        fs::write(&path, markdown()).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == markdown(),
        "docs/cli.md is out of date: run IGNN_REWRITE=1 cargo test --bin ignn document"
    );
}
