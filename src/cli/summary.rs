//! What is said after a dataset was made: a short table, or one JSON object.
//! It reads the manifest and the phases; it opens no other file.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use ignn::report::quantity;
use ignn::report::sheet::Sheet;
use ignn_format::Manifest;
use ignn_format::features::FeatureKind;
use ignn_format::labels::LabelKind;
use ignn_format::splits::SplitEntry;
use ignn_ingest::builder::{EdgeCounts, Made};
use ignn_ingest::context::Phase;
use ignn_ingest::{Context, Unit};
use serde_json::json;

use super::progress::{self, Console};
use super::{Outcome, Session, machine};

/// A finished job.
pub struct Job {
    /// What was made.
    pub manifest: Manifest,
    /// What became of the edges.
    pub counts: EdgeCounts,
    /// How long it took.
    pub seconds: f64,
    /// Its phases.
    pub phases: Vec<Phase>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Runs a job with progress on the console.
pub fn time_job(session: &Session, run: impl FnOnce(&Context) -> ignn_ingest::Result<Made>) -> Result<Job> {
    let console = Console::new(session.quiet);
    let started = Instant::now();
    let result = run(&session.context(&console));
    // Also after an error: the bar must be gone before the message.
    ignn_ingest::Observer::finish(&console);
    let Made { manifest, counts } = result?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(Job { manifest, counts, seconds, phases: console.phases(), notes: console.notes() })
}

/// Runs a job that makes the dataset `out`, and prints its summary.
pub fn run_job(
    session: &Session,
    out: &Path,
    run: impl FnOnce(&Context) -> ignn_ingest::Result<Made>,
) -> Result<Outcome> {
    let job = time_job(session, run)?;
    if session.json {
        session.print_json(&as_json(&job, out))?;
    } else {
        session.print(&as_text(&job, out))?;
    }
    Ok(Outcome::Done)
}

/// Bytes of a dataset without its manifest.
pub fn bytes_on_disk(manifest: &Manifest) -> u64 {
    manifest.files.values().fold(0, |sum, file| sum.saturating_add(file.bytes))
}

/// The table.
pub fn as_text(job: &Job, out: &Path) -> String {
    let manifest = &job.manifest;
    let mut sheet = Sheet::pairs();
    sheet.row(["nodes".into(), quantity::count(manifest.nodes)]);
    let counts = &job.counts;
    let mut fates = Vec::new();
    if counts.merged > 0 {
        fates.push(format!("{} merged as duplicates", quantity::count(counts.merged)));
    }
    if counts.dropped_loops > 0 {
        fates.push(format!("{} dropped as self-loops", quantity::count(counts.dropped_loops)));
    }
    let fates = if fates.is_empty() { String::new() } else { format!(" ({})", fates.join(", ")) };
    sheet.row(["edges read".into(), quantity::count(counts.read) + &fates]);
    for relation in &manifest.relations {
        let name = match manifest.relations.len() {
            1 => "non-zeros".to_string(),
            _ => format!("non-zeros of {}", relation.name),
        };
        let diagonal = match relation.diagonal {
            0 => String::new(),
            entries => format!(" ({} on the diagonal)", quantity::count(entries)),
        };
        sheet.row([name, quantity::count(relation.nonzeros) + &diagonal]);
    }
    if let Some(graphs) = &manifest.graphs {
        let classes = match graphs.classes.len() {
            0 => "no labels".to_string(),
            classes => quantity::plural(classes as u64, "class", "classes"),
        };
        sheet.row(["graphs".into(), format!("{}, {classes}", quantity::count(graphs.count))]);
        for split in &graphs.splits {
            sheet.row(["split of graphs".into(), split_words(split)]);
        }
    }
    if let Some(features) = &manifest.features {
        let kind = if features.kind == FeatureKind::Dense { "dense" } else { "sparse" };
        sheet.row([
            "features".into(),
            format!("{}, {kind}", quantity::plural(features.columns, "column", "columns")),
        ]);
    }
    if let Some(labels) = &manifest.labels {
        let kind = if labels.kind == LabelKind::Single { "one a node" } else { "sets" };
        let classes = quantity::plural(labels.classes, "class", "classes");
        let nodes = quantity::plural(labels.labelled, "labelled node", "labelled nodes");
        sheet.row(["labels".into(), format!("{classes}, {nodes}, {kind}")]);
    }
    for split in &manifest.splits {
        sheet.row(["split".into(), split_words(split)]);
    }
    sheet.row(["on disk".into(), quantity::bytes(bytes_on_disk(manifest))]);
    sheet.row(["time".into(), quantity::seconds(job.seconds)]);
    if let Some(peak) = machine::peak_memory() {
        sheet.row(["peak memory".into(), quantity::bytes(peak)]);
    }
    if counts.spilled > 0 {
        sheet.row(["through the disk".into(), quantity::bytes(counts.spilled)]);
    }
    let out = out.display();
    format!("made {out}\n{}next: ignn inspect {out}\n", sheet.render())
}

/// `default: train 140, val 500, test 1,000`.
pub fn split_words(split: &SplitEntry) -> String {
    let parts = split.parts.iter().map(|(name, count)| format!("{name} {}", quantity::count(*count)));
    format!("{}: {}", split.name, parts.collect::<Vec<_>>().join(", "))
}

/// The object.
pub fn as_json(job: &Job, out: &Path) -> serde_json::Value {
    let manifest = &job.manifest;
    json!({
        "dataset": out,
        "command": manifest.made_by.command,
        "nodes": manifest.nodes,
        "edges_read": job.counts.read,
        "edges_merged": job.counts.merged,
        "self_loops_dropped": job.counts.dropped_loops,
        "bytes_spilled": job.counts.spilled,
        "relations": manifest.relations,
        "graphs": manifest.graphs.as_ref().map(|graphs| graphs.count),
        "features": manifest.features,
        "labels": manifest.labels,
        "splits": manifest.splits,
        "bytes_on_disk": bytes_on_disk(manifest),
        "seconds": job.seconds,
        "peak_memory_bytes": machine::peak_memory(),
        "phases": job.phases.iter().map(phase_json).collect::<Vec<_>>(),
        "notes": job.notes,
    })
}

/// A phase for machines.
pub fn phase_json(phase: &Phase) -> serde_json::Value {
    let unit = match phase.unit {
        Unit::Bytes => "bytes",
        Unit::Edges => "edges",
        Unit::Items(name) => name,
    };
    json!({ "name": phase.name, "amount": phase.amount, "unit": unit, "seconds": phase.seconds })
}

/// The phases as a table.
pub fn phase_sheet(phases: &[Phase]) -> Sheet {
    let mut sheet = Sheet::columns(&["phase", "amount", "seconds", "rate"]);
    for phase in phases {
        let amount = match phase.unit {
            Unit::Bytes => quantity::bytes(phase.amount),
            Unit::Edges | Unit::Items(_) => quantity::count(phase.amount),
        };
        sheet.row([phase.name.clone(), amount, format!("{:.3}", phase.seconds), progress::rate(phase)]);
    }
    sheet
}
