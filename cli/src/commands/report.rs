//! `ignn report`: one or several runs as one HTML file.
//! It finds runs and has their classes scored; what the page shows is for `ignn::report::runs`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use ignn::graph::Dataset;
use ignn::report::quantity::{bytes, plural};
use ignn::report::runs::{self, Group, RunRecord};
use ignn_format::FormatError;
use ignn_ingest::Observer;
use serde_json::json;

use super::eval;
use crate::terminal::progress::Console;
use crate::terminal::{crossval_report, run};
use crate::{Outcome, Session};

/// Show one or several runs as an HTML page
///
/// One file that needs no network and no script: results by both protocols, loss and metrics by
/// epoch, sweeps and certified error, the contraction bound against kappa, time by phase, results
/// by class, configuration, dataset and machine. Several runs are compared; a directory that
/// --seeds made is shown as means with bands. A run that still goes on is shown as far as it got.
///
/// Results by class are computed with the run's model on its dataset, if it is still where the run
/// found it and unchanged.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn report run --out report.html
  ignn report runs/kappa-0.9 runs/kappa-0.98 --out compared.html --title 'Two bounds'
  ignn report run --out report.html --force --no-classes")]
pub struct Command {
    /// Run directories of `ignn train`, also those of several seeds
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,

    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// Title of the page [default: the names of the runs]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// Leave out the results by class, which need a solve for each run
    #[arg(long)]
    no_classes: bool,

    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

impl Command {
    /// Reads the runs and writes the page.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        check_target(&self.out, self.force)?;
        if let Some(other) = self.runs.iter().find(|run| crossval_report::setup(run).is_ok()) {
            let (other, figures) = (other.display(), other.join(crossval_report::FIGURES));
            bail!(
                "{other}: a cross-validation (expected runs of `ignn train`): its figures are in {}",
                figures.display()
            );
        }
        let console = Console::new(session.quiet);
        let groups = read(&self.runs, !self.no_classes, &console);
        // Also after an error: the bar must be gone before the message.
        console.finish();
        let groups = groups?;
        let names: Vec<_> = groups.iter().map(|group| group.name.as_str()).collect();
        let title = self.title.clone().unwrap_or_else(|| names.join(", "));
        let page = runs::page(&title, &groups);
        let html = page.render();
        run::write(&self.out, &html)?;
        let count: usize = groups.iter().map(|group| group.runs.len()).sum();
        if session.json {
            let value = json!({
                "report": self.out,
                "groups": names,
                "runs": count,
                "charts": page.charts(),
                "bytes": html.len(),
            });
            session.print_json(&value)?;
        } else {
            let (runs, charts) = (plural(count as u64, "run", "runs"), page.charts());
            let size = bytes(html.len() as u64);
            session.print(&format!(
                "made {}: {runs}, {charts} charts, {size}\n",
                self.out.display()
            ))?;
        }
        Ok(Outcome::Done)
    }
}

/// Refuses a target before any work.
pub fn check_target(out: &Path, force: bool) -> Result<()> {
    if out.is_dir() {
        bail!(
            "{}: output (found a directory, expected a file's name such as report.html)",
            out.display()
        );
    }
    if out.exists() && !force {
        return Err(FormatError::Exists { path: out.into() }.into());
    }
    Ok(())
}

/// The runs of each path under a name of its own.
fn read(paths: &[PathBuf], with_classes: bool, console: &Console) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    for (path, name) in paths.iter().zip(runs::names(paths)) {
        let members = match path.join(run::CONFIG).is_file() {
            true => vec![path.clone()],
            false => run::seeds(path),
        };
        if members.is_empty() {
            bail!(
                "{}: not a run directory (expected {} in it, as `ignn train` writes it)",
                path.display(),
                run::CONFIG
            );
        }
        let mut group = Group { name, runs: Vec::new() };
        for member in members {
            let mut record = RunRecord::read(&member)?;
            if with_classes {
                add_classes(&mut record, console);
            }
            group.runs.push(record);
        }
        groups.push(group);
    }
    Ok(groups)
}

/// Scores by class where the dataset is still what it was; a note where not.
fn add_classes(record: &mut RunRecord, console: &Console) {
    if record.facts.is_null() {
        return;
    }
    let scored = run::dataset_of(&record.path).and_then(|place| {
        let checksum = Dataset::open(&place)?.manifest().checksum();
        if record.facts["dataset"]["checksum"].as_str() != Some(checksum.as_str()) {
            bail!("{}: not the dataset of the run any more", place.display());
        }
        eval::of_run(&record.path, &place, console)
    });
    match scored {
        Ok(part) => record.classes = Some(part),
        Err(error) => {
            console.note(&format!("{}: no results by class: {error:#}", record.path.display()))
        }
    }
}
