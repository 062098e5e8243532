//! `ignn check`: reads and verifies every file of a dataset.
//! The checks themselves are in `ignn_format`; this module prints what they found.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use clap::Args;
use ignn::report::{quantity, readable};
use ignn::run::path_text;
use ignn_format::DatasetDir;
use ignn_format::check::{self, Finding};
use ignn_ingest::{Observer, Unit};
use serde_json::json;

use crate::terminal::progress::Console;
use crate::terminal::summary;
use crate::{Outcome, Session};

/// Verify every byte of a dataset
///
/// Reads all files and verifies sizes and checksums. Neighbours must be in range and ascending in
/// each row, symmetric relations must be symmetric, values and features finite, labels and splits
/// in range.
///
/// Prints `ok`, or one line per problem; problems give exit code 1.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  ignn check dblp.ignn && ignn train dblp.ignn --out run")]
pub struct Command {
    /// The dataset directory
    #[arg(value_name = "DIR")]
    dataset: PathBuf,
}

impl Command {
    /// Checks and prints.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let verified = Verified::of(&self.dataset, session)?;
        if session.json {
            session.print_json(&verified.as_json())?;
        } else {
            session.print(&verified.as_text())?;
        }
        Ok(verified.outcome())
    }
}

/// Turns progress reports from any thread ("done so far, of total") into phases of the console.
fn follow(console: &Console) -> impl Fn(&str, u64, u64) + Sync {
    let current = Mutex::new((String::new(), 0));
    move |what, done, total| {
        let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0 != what {
            console.phase(what, Some(total), Unit::Bytes);
            *current = (what.to_string(), 0);
        }
        console.advance(done.saturating_sub(current.1));
        current.1 = current.1.max(done);
    }
}

/// What was verified, and the problems found.
pub struct Verified {
    dataset: PathBuf,
    files: u64,
    bytes: u64,
    relations: u64,
    findings: Vec<Finding>,
}

impl Verified {
    /// Opens the dataset and checks all of it.
    pub fn of(dataset: &Path, session: &Session) -> Result<Self> {
        let directory = DatasetDir::open(dataset)?;
        let console = Console::new(session.quiet);
        let findings = check::check(&directory, &follow(&console));
        console.finish();
        let manifest = directory.manifest();
        Ok(Self {
            dataset: dataset.into(),
            files: manifest.files.len() as u64,
            bytes: summary::bytes_on_disk(manifest),
            relations: manifest.relations.len() as u64,
            findings,
        })
    }

    /// Damage counts as a missed goal.
    pub fn outcome(&self) -> Outcome {
        if self.findings.is_empty() { Outcome::Done } else { Outcome::Missed }
    }

    /// `ok`, or one line per problem.
    pub fn as_text(&self) -> String {
        let place = self.dataset.display();
        if self.findings.is_empty() {
            let files = quantity::plural(self.files, "file", "files");
            let relations = quantity::plural(self.relations, "relation", "relations");
            return format!(
                "{place}: ok ({files}, {}, {relations} verified)\n",
                quantity::bytes(self.bytes)
            );
        }
        // One line each, whatever is in a name.
        let line = |finding: &Finding| readable::line(&finding.to_string(), readable::LINE) + "\n";
        let lines = self.findings.iter().map(line);
        let count = quantity::plural(self.findings.len() as u64, "problem", "problems");
        format!("{}{place}: {count} found: ingest the raw files again\n", lines.collect::<String>())
    }

    /// The same as JSON.
    pub fn as_json(&self) -> serde_json::Value {
        let finding = |finding: &Finding| {
            let path = path_text::of(&finding.path);
            json!({ "path": path, "message": finding.message })
        };
        json!({
            "dataset": path_text::of(&self.dataset),
            "sound": self.findings.is_empty(),
            "files": self.files,
            "bytes": self.bytes,
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
        })
    }
}
