//! `ignn demo`: the whole way on a small graph that the program makes itself.
//! It calls what the other commands call, one after the other, and says what each step did.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use ignn::report::quantity::{self, seconds};
use ignn_format::FormatError;
use ignn_ingest::command::edges::IngestEdges;
use serde_json::json;

use super::check::Verified;
use super::inspect::Inspection;
use super::sample::{self, DEMO_BLOCKS, DEMO_NODES};
use super::{Outcome, Session, summary};

/// A directory that holds this file was made by an earlier demo and may be overwritten.
const MARKER: &str = ".made-by-ignn-demo";

/// See the whole way on a small graph
///
/// Generates raw files (edges, labels, features, a split), as any user might have them; ingests them; inspects and checks the dataset; and
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
        fs::create_dir_all(out).with_context(|| out.display().to_string())?;
        fs::write(out.join(MARKER), "").with_context(|| out.display().to_string())?;
        let say = |text: &str| if session.json { Ok(()) } else { session.print(text) };

        let raw = out.join("raw");
        let generate = sample::communities(raw.clone());
        say(&format!(
            "1. generate: raw files as any user might have them: {} nodes in {} communities\n\
             \x20  $ ignn generate sbm --nodes {} --blocks {} --raw {}\n",
            quantity::count(DEMO_NODES),
            DEMO_BLOCKS,
            DEMO_NODES,
            DEMO_BLOCKS,
            raw.display()
        ))?;
        let (_, generated) = summary::observe(session, |context| generate.run(context))?;
        say(&format!(
            "   edges.tsv, labels.csv, features.npy, splits.csv ({})\n\n",
            seconds(generated.seconds)
        ))?;

        let dataset = out.join("graph.ignn");
        let (place, files) = (dataset.display().to_string(), raw.display().to_string());
        let job = IngestEdges {
            force: true,
            node_count: Some(DEMO_NODES),
            features: Some(raw.join("features.npy")),
            labels: Some(raw.join("labels.csv")),
            splits: vec![raw.join("splits.csv")],
            ..IngestEdges::new(vec![raw.join("edges.tsv")], dataset.clone())
        };
        say(&format!(
            "2. ingest: ids to node numbers, duplicates merged, each edge both ways, renormalised\n\
             \x20  $ ignn ingest edges {files}/edges.tsv --nodes {DEMO_NODES} --features {files}/features.npy \\\n\
             \x20        --labels {files}/labels.csv --splits {files}/splits.csv --out {place}\n"
        ))?;
        let made = summary::time_job(session, |context| job.run(context))?;
        say(&summary::as_text(&made, &dataset))?;

        let started = Instant::now();
        let inspection = Inspection::of(&dataset)?;
        let inspected = started.elapsed().as_secs_f64();
        let time = seconds(inspected);
        say(&format!("\n3. inspect: what is in it ({time})\n   $ ignn inspect {place}\n"))?;
        say(&inspection.as_text())?;

        let started = Instant::now();
        let verified = Verified::of(&dataset, session)?;
        let checked = started.elapsed().as_secs_f64();
        let time = seconds(checked);
        say(&format!("\n4. check: every byte read and verified ({time})\n   $ ignn check {place}\n"))?;
        say(&verified.as_text())?;
        say(&format!("\nThe dataset is in {place}. Next, one of your own: ignn ingest edges --help\n"))?;

        if session.json {
            session.print_json(&json!({
                "generate": { "raw": raw, "seconds": generated.seconds },
                "ingest": summary::as_json(&made, &dataset),
                "inspect": { "seconds": inspected, "result": inspection },
                "check": { "seconds": checked, "result": verified.as_json() },
            }))?;
        }
        Ok(verified.outcome())
    }
}
