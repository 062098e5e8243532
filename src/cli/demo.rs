//! `ignn demo`: the whole way on a small graph that the program makes itself.
//! It calls what the other commands call, one after the other, and says what each step did.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use ignn::report::quantity;
use ignn_format::FormatError;
use ignn_ingest::command::edges::IngestEdges;
use serde_json::json;

use super::check::Verified;
use super::inspect::Inspection;
use super::{Outcome, Session, sample, summary};

/// A directory that holds this file was made by an earlier demo and may be overwritten.
const MARKER: &str = ".made-by-ignn-demo";

/// See the whole way on a small graph
///
/// Writes a raw edge list with labels, as any user might have it; ingests it; inspects and checks the dataset; and
/// says what each step did, with the command that does the same. Files stay in --out to look at. A second run
/// replaces the files of the first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn demo
  ignn demo --out /tmp/look --seed 7")]
pub struct Command {
    /// Directory for the demo's files
    #[arg(long, value_name = "DIR", default_value = "ignn-demo")]
    out: PathBuf,

    /// Use a directory that no demo made; only raw/ and graph.ignn in it are replaced
    #[arg(long)]
    force: bool,
}

impl Command {
    /// Runs the steps.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let out = &self.out;
        if out.exists() && !out.join(MARKER).exists() && !self.force {
            return Err(FormatError::Exists { path: out.clone() }.into());
        }
        let raw = out.join("raw");
        fs::create_dir_all(&raw).with_context(|| raw.display().to_string())?;
        fs::write(out.join(MARKER), "").with_context(|| out.display().to_string())?;
        let say = |text: &str| if session.json { Ok(()) } else { session.print(text) };

        let started = Instant::now();
        let graph = sample::write_communities(&raw, session.seed)?;
        let generated = started.elapsed().as_secs_f64();
        let (nodes, lines) = (quantity::count(graph.nodes), quantity::count(graph.lines));
        let (edges, labels) = (graph.edges.display().to_string(), graph.labels.display().to_string());
        say(&format!(
            "1. generate: a raw edge list of {lines} lines over {nodes} nodes in four communities, and a label for each\n\
             \x20  {edges}, {labels} ({})\n\n",
            quantity::seconds(generated)
        ))?;

        let dataset = out.join("graph.ignn");
        let place = dataset.display().to_string();
        let split = "train=0.1,val=0.1,test=0.3";
        let job = IngestEdges {
            force: true,
            labels: Some(graph.labels),
            draw: vec![split.into()],
            ..sample::edges_job(graph.edges, dataset.clone())
        };
        say(&format!(
            "2. ingest: duplicates merged, each edge both ways, renormalised; a split drawn\n\
             \x20  $ ignn ingest edges {edges} --labels {labels} --split {split} --out {place}\n"
        ))?;
        let made = summary::time_job(session, |context| job.run(context))?;
        say(&summary::as_text(&made, &dataset))?;

        let started = Instant::now();
        let inspection = Inspection::of(&dataset)?;
        let inspected = started.elapsed().as_secs_f64();
        let time = quantity::seconds(inspected);
        say(&format!("\n3. inspect: what is in it ({time})\n   $ ignn inspect {place}\n"))?;
        say(&inspection.as_text())?;

        let started = Instant::now();
        let verified = Verified::of(&dataset, session)?;
        let checked = started.elapsed().as_secs_f64();
        let time = quantity::seconds(checked);
        say(&format!("\n4. check: every byte read and verified ({time})\n   $ ignn check {place}\n"))?;
        say(&verified.as_text())?;
        say(&format!("\nThe dataset is in {place}. Next, one of your own: ignn ingest edges --help\n"))?;

        if session.json {
            session.print_json(&json!({
                "generate": { "edges": edges, "labels": labels, "lines": graph.lines, "seconds": generated },
                "ingest": summary::as_json(&made, &dataset),
                "inspect": { "seconds": inspected, "result": inspection },
                "check": { "seconds": checked, "result": verified.as_json() },
            }))?;
        }
        Ok(verified.outcome())
    }
}
