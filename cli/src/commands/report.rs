//! `ignn report`: runs or cross-validations as one HTML file. It finds the runs and scores their
//! classes; `ignn::report` lays out the page.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use ignn::graph::Graph;
use ignn::predict::PartScores;
use ignn::report::crossvals;
use ignn::report::page::PAGE;
use ignn::report::quantity::{bytes, plural};
use ignn::report::runs::{self, Group, ShownRun};
use ignn::run::{RunDir, SavedRun, path_text};
use ignn_format::FormatError;
use ignn_format::storage::Draft;
use ignn_ingest::Observer;
use serde_json::json;

use super::eval;
use crate::terminal::progress::Console;
use crate::{Outcome, Session};

/// Show runs or cross-validations as an HTML page
///
/// Writes one HTML file that needs neither network nor scripts: results by both protocols, loss and
/// metrics by epoch, sweeps and certified error, the contraction bound against kappa, time by
/// phase, results by class, configuration, dataset and machine. Several runs are compared; a
/// directory made with --seeds is shown as means with bands. A run that is still training is shown
/// as far as it got.
///
/// Cross-validations have a page of their own kind: figures by all protocols, folds, curves of the
/// scores by epoch and fold.
///
/// Results by class are computed with the run's model on its dataset, if it is still in the same place
/// and unchanged.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn report run --out report.html
  ignn report runs/kappa-0.9 runs/kappa-0.98 --out compared.html --title 'Two bounds'
  ignn report run --out report.html --force --no-classes
  ignn report folds --out folds.html                           after ignn crossval --out folds")]
pub struct Command {
    /// Directories of `ignn train`, also with --seeds; or of `ignn crossval`
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,

    /// The file to write; its name ends in .html
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// Title of the page [default: the names of the runs]
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,

    /// Leave out the results by class, which need a solve for each run
    #[arg(long)]
    no_classes: bool,

    /// Replace an existing report; any other file is refused
    #[arg(long)]
    force: bool,
}

impl Command {
    /// Reads the runs and writes the page.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        if !self.out.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("html")) {
            return Err(FormatError::ending(&self.out, ".html").into());
        }
        let draft = Draft::create(&self.out, self.force.then_some(&PAGE))?;
        let (page, names, made) = match crossvals::read(&self.runs)? {
            Some(all) => {
                let names: Vec<String> = all.iter().map(|one| one.name.clone()).collect();
                (crossvals::page(&self.title(&names), &all), names, all.len())
            }
            None => {
                let console = Console::new(session.quiet);
                let groups = read(&self.runs, !self.no_classes, &console);
                // Also after an error: the bar must be gone before the message is printed.
                console.finish();
                let groups = groups?;
                let names: Vec<String> = groups.iter().map(|group| group.name.clone()).collect();
                let count = groups.iter().map(|group| group.runs.len()).sum();
                (runs::page(&self.title(&names), &groups), names, count)
            }
        };
        let html = page.render();
        draft.write(html.as_bytes())?;
        if session.json {
            let value = json!({
                "report": path_text::of(&self.out),
                "groups": names,
                "runs": made,
                "charts": page.charts(),
                "bytes": html.len(),
            });
            session.print_json(&value)?;
        } else {
            let runs = plural(made as u64, "run", "runs");
            let charts = plural(page.charts() as u64, "chart", "charts");
            let size = bytes(html.len() as u64);
            session.print(&format!("made {}: {runs}, {charts}, {size}\n", self.out.display()))?;
        }
        Ok(Outcome::Done)
    }
}

impl Command {
    fn title(&self, names: &[String]) -> String {
        self.title.clone().unwrap_or_else(|| names.join(", "))
    }
}

/// One group of runs per path, each under a name of its own.
fn read(paths: &[PathBuf], with_classes: bool, console: &Console) -> Result<Vec<Group>> {
    let mut groups = Vec::new();
    for (path, name) in paths.iter().zip(runs::names(paths)) {
        let members = RunDir::new(path).runs();
        if members.is_empty() {
            bail!(
                "{}: not a run directory (expected config.toml in it, as `ignn train` writes it)",
                path.display()
            );
        }
        let mut group = Group { name, runs: Vec::new() };
        for member in members {
            let saved = SavedRun::read(&member)?;
            if saved.is_torn {
                let file = member.metrics_file();
                console.note(&format!(
                    "{}: the last line was never finished: left out",
                    file.display()
                ));
            }
            let classes = if with_classes { score_classes(&saved, console) } else { None };
            group.runs.push(ShownRun { saved, classes });
        }
        groups.push(group);
    }
    Ok(groups)
}

/// Scores by class if the dataset is still the same; a note if not.
fn score_classes(run: &SavedRun, console: &Console) -> Option<PartScores> {
    let checksum = &run.summary.as_ref()?.dataset.checksum;
    let score = || {
        let dataset = run.directory.dataset()?;
        if Graph::open(&dataset)?.manifest().checksum() != *checksum {
            bail!("{}: not the dataset of the run any more", dataset.display());
        }
        eval::of_run(run.directory.path(), &dataset, console)
    };
    match score() {
        Ok(part) => Some(part),
        Err(error) => {
            let path = run.directory.path().display();
            console.note(&format!("{path}: no results by class: {error:#}"));
            None
        }
    }
}
