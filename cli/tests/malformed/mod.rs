//! Malformed inputs, one per row. Each gives one message with file, line, what was found and what
//! was expected, exit code 2, and no output files.

mod datasets;
mod edges;
mod nodes;
mod options;
mod sets;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use crate::sandbox::{Sandbox, files_below};

/// A malformed input and the expected message.
pub struct Case {
    name: &'static str,
    arguments: String,
    message: &'static str,
    files: Vec<(&'static str, Vec<u8>)>,
}

/// A row of the table: the arguments after `ignn`, and the text after `error: `.
fn case(name: &'static str, arguments: impl Into<String>, message: &'static str) -> Case {
    Case { name, arguments: arguments.into(), message, files: Vec::new() }
}

/// A row about `ignn ingest edges`.
fn edges(name: &'static str, arguments: &str, message: &'static str) -> Case {
    case(name, format!("ingest edges {arguments} --out d"), message)
}

impl Case {
    /// Adds a file.
    fn file(mut self, name: &'static str, contents: impl Into<Vec<u8>>) -> Self {
        self.files.push((name, contents.into()));
        self
    }

    /// Writes the files.
    fn sandbox(&self) -> Sandbox {
        let sandbox = Sandbox::new();
        for (name, contents) in &self.files {
            sandbox.file(name, contents);
        }
        sandbox
    }

    /// Runs the program in a directory with the files; returns what differs, if anything.
    fn check_all(&self, sandbox: &Sandbox) -> Option<String> {
        let before = everything(&sandbox.path(""));
        let arguments: Vec<&str> = self.arguments.split(' ').chain(["--quiet"]).collect();
        let run = sandbox.ignn(&arguments);
        let expected = format!("error: {}\n", self.message);
        if (run.code, &*run.stdout, &run.stderr) != (Some(2), "", &expected) {
            let (code, stdout, stderr) = (run.code, &run.stdout, &run.stderr);
            return Some(format!("exit code {code:?}\n{stdout}{stderr}expected\n{expected}"));
        }
        let after = everything(&sandbox.path(""));
        (after != before).then(|| format!("it left behind {after:?}"))
    }
}

/// Checks every row and reports all that fail.
fn check_all(cases: &[Case]) {
    let check_all = |case: &Case| {
        case.check_all(&case.sandbox()).map(|wrong| format!("{}: {wrong}", case.name))
    };
    let wrong: Vec<String> = cases.iter().filter_map(check_all).collect();
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// Files with their contents, and directories.
fn everything(directory: &Path) -> (Vec<(PathBuf, Vec<u8>)>, usize) {
    let directories = |path: &Path| fs::read_dir(path).map_or(0, Iterator::count);
    (files_below(directory).into_iter().collect(), directories(directory))
}
