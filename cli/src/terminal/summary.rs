//! The summary after a dataset was made, as a short table or one JSON object. It uses the manifest
//! and the recorded phases and opens no other file.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use ignn::config::find_part;
use ignn::report::sheet::Sheet;
use ignn::report::{quantity, readable};
use ignn::run::path_text;
use ignn_format::Manifest;
use ignn_format::encoding::{ColumnEncoding, Rule, Scaling};
use ignn_format::features::FeatureKind;
use ignn_format::labels::LabelKind;
use ignn_format::manifest::{Normalisation, RelationEntry};
use ignn_format::splits::SplitEntry;
use ignn_ingest::builder::DatasetSummary;
use ignn_ingest::context::Phase;
use ignn_ingest::{Context, Observer, Unit};
use serde_json::json;

use super::progress::{self, Console};
use super::shell;
use crate::{Outcome, Session, machine};

/// Longest name of a column that is shown.
const SHOWN_COLUMN: usize = 60;

/// Time, phases and notes of a job.
pub struct Run {
    /// Duration in seconds.
    pub seconds: f64,
    /// Its phases.
    pub phases: Vec<Phase>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A finished job.
pub struct Job {
    /// What it made.
    pub made: DatasetSummary,
    /// Its time, phases and notes.
    pub run: Run,
}

/// Runs anything that takes a context and shows its progress on the console.
pub fn observe<T>(
    session: &Session,
    run: impl FnOnce(&Context) -> ignn_ingest::Result<T>,
) -> Result<(T, Run)> {
    let console = Console::new(session.quiet);
    let started = Instant::now();
    let result = run(&session.context(&console));
    // After an error too: the progress bar must be gone before the message.
    console.finish();
    let result = result?;
    let seconds = started.elapsed().as_secs_f64();
    Ok((result, Run { seconds, phases: console.phases(), notes: console.notes() }))
}

/// Runs a job that makes a dataset.
pub fn time_job(
    session: &Session,
    run: impl FnOnce(&Context) -> ignn_ingest::Result<DatasetSummary>,
) -> Result<Job> {
    let (made, run) = observe(session, run)?;
    Ok(Job { made, run })
}

/// Runs a job that makes the dataset `out`, and prints its summary.
pub fn run_job(
    session: &Session,
    out: &Path,
    run: impl FnOnce(&Context) -> ignn_ingest::Result<DatasetSummary>,
) -> Result<Outcome> {
    time_job(session, run)?.print(session, out)?;
    Ok(Outcome::Done)
}

impl Job {
    /// Prints the summary of the dataset `out`.
    pub fn print(&self, session: &Session, out: &Path) -> Result<()> {
        match session.json {
            true => session.print_json(&as_json(self, out)),
            false => session.print(&as_text(self, out)),
        }
    }
}

/// Bytes of a dataset without its manifest.
pub fn bytes_on_disk(manifest: &Manifest) -> u64 {
    manifest.files.values().fold(0, |sum, file| sum.saturating_add(file.bytes))
}

/// The summary as text.
pub fn as_text(job: &Job, out: &Path) -> String {
    let DatasetSummary { manifest, counts, .. } = &job.made;
    let mut sheet = Sheet::pairs();
    for (at, line) in read_as(&job.made).into_iter().enumerate() {
        sheet.row([if at == 0 { "read as" } else { "" }.into(), line]);
    }
    sheet.row(["nodes".into(), quantity::count(manifest.nodes)]);
    sheet.row(["edges read".into(), quantity::count(counts.read)]);
    for (name, count) in
        [("duplicates merged", counts.merged), ("self-loops dropped", counts.dropped_loops)]
    {
        if count > 0 {
            sheet.row([name.into(), quantity::count(count)]);
        }
    }
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
            _ if graphs.numbers => "a number each".to_string(),
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
        for column in manifest.encoding.iter().flat_map(|encoding| &encoding.columns) {
            sheet.row([String::new(), column_words(column)]);
        }
    }
    if let Some(labels) = &manifest.labels {
        let classes = quantity::plural(labels.classes, "class", "classes");
        let nodes = quantity::plural(labels.labelled, "labelled node", "labelled nodes");
        let words = match labels.kind {
            LabelKind::Single => format!("{classes}, {nodes}, one per node"),
            LabelKind::Multi => format!("{classes}, {nodes}, several per node"),
            LabelKind::Number => format!("a number, {nodes}"),
        };
        sheet.row(["labels".into(), words]);
    }
    for split in &manifest.splits {
        sheet.row(["split".into(), split_words(split)]);
    }
    sheet.row(["on disk".into(), quantity::bytes(bytes_on_disk(manifest))]);
    if counts.spilled > 0 {
        sheet.row(["spilled to disk".into(), quantity::bytes(counts.spilled)]);
    }
    sheet.row(["time".into(), quantity::seconds(job.run.seconds)]);
    if let Some(peak) = machine::peak_memory() {
        sheet.row(["peak memory".into(), quantity::bytes(peak)]);
    }
    let next = shell::path(out);
    format!("made {}\n{}next: ignn inspect {next}\n", out.display(), sheet.render())
}

/// What was assumed about the input: how files were read, and what their edges mean.
fn read_as(made: &DatasetSummary) -> Vec<String> {
    if !made.manifest.made_by.command.starts_with("ingest") {
        return Vec::new();
    }
    let relations = &made.manifest.relations;
    let words = |relation: &RelationEntry| {
        let direction = match relation.symmetric {
            true => "undirected: every edge counts in both directions",
            false => "directed",
        };
        let normalisation = match relation.normalisation {
            Normalisation::None => "not normalised",
            Normalisation::Renorm => "normalised: D^-1/2 (A + I) D^-1/2",
            Normalisation::Row => "normalised: D^-1 A",
        };
        format!("{direction}; {normalisation}")
    };
    let mut lines = made.read_as.clone();
    match relations.first().map(words) {
        Some(first) if relations.iter().all(|relation| words(relation) == first) => {
            lines.push(first);
        }
        _ => lines.extend(
            relations.iter().map(|relation| format!("{}: {}", relation.name, words(relation))),
        ),
    }
    lines
}

/// How a column of a table is encoded: `city: 3 words, one column each`.
pub fn column_words(column: &ColumnEncoding) -> String {
    let name = readable::line(&column.name, SHOWN_COLUMN);
    let how = match &column.rule {
        Rule::Number { scale: Some(Scaling { mean, deviation }), .. } => {
            format!("a number, mean {mean:.4}, deviation {deviation:.4}")
        }
        Rule::Number { scale: None, .. } => "a number, as it is".into(),
        Rule::Words { words } => {
            format!("{}, one column each", quantity::plural(words.len() as u64, "word", "words"))
        }
        Rule::Hashed { columns } => format!("words, hashed to {columns} columns"),
    };
    let missing = if column.indicator { ", and whether it is missing" } else { "" };
    format!("{name}: {how}{missing}")
}

/// `default: train 140, dev 500 (validation), test 1,000`: parts with their use, where their names do
/// not say it.
pub fn split_words(split: &SplitEntry) -> String {
    let names: Vec<&str> = split.parts.iter().map(|(name, _)| name.as_str()).collect();
    let uses = [("train", "training"), ("val", "validation"), ("test", "test")];
    let has_use = uses.iter().any(|(part, _)| find_part(&names, part).is_some());
    let part = |(at, (name, count)): (usize, &(String, u64))| {
        let own = uses.iter().find(|(part, _)| find_part(&names, part) == Some(at));
        let words = match own {
            Some((part, of)) if name == part || name == of => String::new(),
            Some((_, of)) => format!(" ({of})"),
            None if has_use => " (not used)".into(),
            None => String::new(),
        };
        format!("{name} {}{words}", quantity::count(*count))
    };
    let parts = split.parts.iter().enumerate().map(part);
    format!("{}: {}", split.name, parts.collect::<Vec<_>>().join(", "))
}

/// The summary as JSON.
pub fn as_json(job: &Job, out: &Path) -> serde_json::Value {
    let DatasetSummary { manifest, counts, .. } = &job.made;
    json!({
        "dataset": path_text::of(out),
        "command": manifest.made_by.command,
        "nodes": manifest.nodes,
        "edges_read": counts.read,
        "duplicates_merged": counts.merged,
        "self_loops_dropped": counts.dropped_loops,
        "spilled_bytes": counts.spilled,
        "relations": manifest.relations,
        "read_as": read_as(&job.made),
        "graphs": manifest.graphs.as_ref().map(|graphs| graphs.count),
        "features": manifest.features,
        "labels": manifest.labels,
        "splits": manifest.splits,
        "bytes_on_disk": bytes_on_disk(manifest),
        "seconds": job.run.seconds,
        "peak_memory_bytes": machine::peak_memory(),
        "phases": job.run.phases.iter().map(phase_json).collect::<Vec<_>>(),
        "notes": job.run.notes,
    })
}

/// A phase as JSON.
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
        sheet.row([
            phase.name.clone(),
            amount,
            format!("{:.3}", phase.seconds),
            progress::rate(phase),
        ]);
    }
    sheet
}
