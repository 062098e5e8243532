//! The one place that writes to standard output and standard error. Text for people passes through
//! `ignn::report::readable`, so that no name in a file controls the terminal or fills it; JSON and
//! scripts are written exactly.
//!
//! A reader that closed the pipe wants no more output, which is no error. It does not change how a
//! command ends either: `ignn check d | head -1` still exits with 1 if the dataset is damaged.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use clap::builder::StyledStr;
use ignn::report::readable;
use ignn::run::path_text;
use indicatif::ProgressBar;
use serde::Serializer;

/// Whether nothing is written: one of several ranks prints.
static IS_SILENT: AtomicBool = AtomicBool::new(false);

/// From now on, nothing is written, or everything again.
pub fn set_silent(is_silent: bool) {
    IS_SILENT.store(is_silent, Ordering::Relaxed);
}

fn is_silent() -> bool {
    IS_SILENT.load(Ordering::Relaxed)
}

/// Longest name next to a progress bar, in characters.
const BAR_NAME: usize = 60;

/// Writes a result for people to standard output.
pub fn result(text: &str) -> Result<()> {
    exact(&readable::lines(text))
}

/// Writes JSON to standard output.
pub fn json(value: &serde_json::Value) -> Result<()> {
    exact(&readable::json(&format!("{value:#}\n")))
}

/// A path as a field of JSON, for `#[serde(serialize_with = "...")]`: any path, also one that is
/// not UTF-8.
pub fn path_as_json<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path_text::of(path))
}

/// Writes text of the program's own to standard output as it is.
pub fn exact(text: &str) -> Result<()> {
    // Tests run commands in their own process, whose output is the list of tests.
    if cfg!(test) || is_silent() {
        return Ok(());
    }
    written(&mut io::stdout().lock(), text).context("standard output: cannot write")
}

fn written(out: &mut impl Write, text: &str) -> io::Result<()> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes help to standard output, in colours where that is a terminal that has them.
pub fn styled_result(text: &StyledStr) -> Result<()> {
    match has_colours(&io::stdout()) {
        true => exact(&text.ansi().to_string()),
        false => exact(&text.to_string()),
    }
}

/// Writes a message about arguments to standard error, in colours where that is a terminal that has
/// them.
pub fn styled_message(text: &StyledStr) {
    if is_silent() {
        return;
    }
    let plain = text.to_string();
    // The message may quote an argument, which can contain anything.
    if readable::lines(&plain) != plain {
        return message(plain.trim_end());
    }
    let _ = match has_colours(&io::stderr()) {
        true => write!(io::stderr(), "{}", text.ansi()),
        false => write!(io::stderr(), "{plain}"),
    };
}

/// Whether colours are wanted: the rules of <https://no-color.org>.
fn has_colours(stream: &impl IsTerminal) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    stream.is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Writes a message to standard error.
pub fn message(text: &str) {
    if is_silent() {
        return;
    }
    // Nothing can be done if standard error is closed.
    let _ = writeln!(io::stderr(), "{}", readable::message(text));
}

/// Writes a message to standard error, and lets no other thread write after it: for a thread that
/// ends the process.
pub fn last_message(text: &str) {
    if is_silent() {
        return;
    }
    let mut error = io::stderr().lock();
    let _ = writeln!(error, "{}", readable::message(text));
    // Threads that are still at work would print how far they are.
    std::mem::forget(error);
}

/// Writes a message above a bar, or to standard error without one.
pub fn message_above(bar: Option<&ProgressBar>, text: &str) {
    match bar {
        Some(bar) => bar.println(readable::message(text)),
        None => message(text),
    }
}

/// The name of a phase as it is shown next to its bar.
pub fn bar_name(name: &str) -> String {
    readable::line(name, BAR_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn only_a_closed_pipe_is_no_error() {
        assert!(written(&mut Failing(ErrorKind::BrokenPipe), "x").is_ok());
        let full = written(&mut Failing(ErrorKind::StorageFull), "x").unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }
}
