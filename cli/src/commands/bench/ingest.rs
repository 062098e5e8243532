//! `ignn bench ingest`: edges per second from text to dataset, compared with a plain copy of the
//! same file. It measures and verifies; a slow result is never an error.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use ignn::report::quantity;
use ignn::report::sheet::Sheet;
use ignn_format::Manifest;
use ignn_format::storage::{self, OutputFile, Staging};
use ignn_ingest::command::edges::IngestEdges;
use serde_json::json;

use crate::options::count;
use crate::terminal::summary::{self, Job};
use crate::{Outcome, Session, machine, sample};

/// Edges of the generated graph.
const EDGES: u64 = 5_000_000;
/// Runs; the fastest counts.
const REPEAT: u32 = 3;
/// The verifier sorts all edges in memory.
const VERIFIED_UP_TO: u64 = 100_000_000;

/// Edges per second by phase, from text to the finished dataset
///
/// Ingests an edge list several times and reports the fastest run by phase, peak memory, bytes on
/// disk, and the speed of a plain copy of the same file to the same disk. Without FILE it generates
/// an R-MAT edge list first and afterwards verifies the numbers of nodes and edges by another
/// algorithm (sort and count). All files are temporary.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn bench ingest
  ignn bench ingest --edges 50M --memory 512MiB
  ignn bench ingest graph.txt.gz --repeat 1")]
pub struct Ingest {
    /// An edge list of your own
    #[arg(value_name = "FILE", conflicts_with = "edges")]
    file: Option<PathBuf>,

    /// Edges of the generated graph, such as 800k, 5M or 1G
    #[arg(long, value_name = "N", value_parser = count::parse, default_value_t = EDGES)]
    edges: u64,

    /// Runs; the fastest counts
    #[arg(
        long,
        value_name = "N",
        default_value_t = REPEAT,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    repeat: u32,

    /// Where to put the temporary files: the disk that is measured
    #[arg(long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
}

impl Ingest {
    /// Measures and prints.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        // Never committed: dropped at the end, and removed when a signal stops the process.
        let work = Staging::scratch(&self.directory.join("ignn-bench"))?;
        let file = match &self.file {
            Some(file) => file.clone(),
            None => {
                let raw = work.path().join("raw");
                let generate = sample::rmat(raw.clone(), self.edges);
                summary::observe(session, |context| generate.run(context))?;
                raw.join("edges.txt")
            }
        };
        let input_bytes = file.metadata().with_context(|| file.display().to_string())?.len();
        let copy_seconds = time_copy(&file, &work.path().join("copy"))?;
        let dataset = work.path().join("dataset");
        let job = IngestEdges { force: true, ..IngestEdges::new(vec![file.clone()], dataset) };
        // The generator's memory does not count.
        machine::reset_peak_memory();
        let mut best: Option<Job> = None;
        for _ in 0..self.repeat {
            let run = summary::time_job(session, |context| job.run(context))?;
            if best.as_ref().is_none_or(|best| run.run.seconds < best.run.seconds) {
                best = Some(run);
            }
        }
        let Some(best) = best else { bail!("no run") };
        // Before the verifier allocates.
        let peak = machine::peak_memory();
        let can_verify = self.file.is_none() && self.edges <= VERIFIED_UP_TO;
        let verified = if can_verify { Some(verify(&file, &best.made.manifest)?) } else { None };
        let result = Measured { job: best, input_bytes, copy_seconds, peak, verified };
        if session.json {
            session.print_json(&result.as_json(session))?;
        } else {
            session.print(&result.as_text())?;
        }
        Ok(if verified == Some(false) { Outcome::Missed } else { Outcome::Done })
    }
}

struct Measured {
    job: Job,
    input_bytes: u64,
    copy_seconds: f64,
    peak: Option<u64>,
    verified: Option<bool>,
}

impl Measured {
    /// Edges of the dataset, undirected ones once, without the diagonal.
    fn edges(&self) -> u64 {
        stored_edges(&self.job.made.manifest)
    }

    fn as_text(&self) -> String {
        let (edges, seconds) = (self.edges(), self.job.run.seconds);
        let disk = summary::bytes_on_disk(&self.job.made.manifest);
        let speed =
            |seconds: f64| quantity::bytes((self.input_bytes as f64 / seconds.max(1e-9)) as u64);
        let mut sheet = Sheet::pairs();
        sheet.row(["input".into(), quantity::bytes(self.input_bytes)]);
        let edge_speed = quantity::short(edges as f64 / seconds.max(1e-9));
        sheet.row(["edges kept".into(), format!("{} ({edge_speed}/s)", quantity::count(edges))]);
        sheet.row([
            "ingest".into(),
            format!("{}, {}/s of input", quantity::seconds(seconds), speed(seconds)),
        ]);
        let copy =
            format!("{}, {}/s", quantity::seconds(self.copy_seconds), speed(self.copy_seconds));
        sheet.row(["copy of the input".into(), copy]);
        sheet.row(["peak memory".into(), self.peak.map_or("unknown".into(), quantity::bytes)]);
        let per_edge = disk as f64 / edges.max(1) as f64;
        sheet.row([
            "on disk".into(),
            format!("{}, {per_edge:.2} bytes per edge", quantity::bytes(disk)),
        ]);
        let verified = match self.verified {
            None => "no: a file of your own, or too many edges to sort in memory",
            Some(true) => "yes: nodes and edges agree with sort and count",
            Some(false) => "WRONG: nodes or edges differ from sort and count",
        };
        sheet.row(["verified", verified]);
        format!("{}\n{}", summary::phase_sheet(&self.job.run.phases).render(), sheet.render())
    }

    fn as_json(&self, session: &Session) -> serde_json::Value {
        json!({
            "input_bytes": self.input_bytes,
            "edges": self.edges(),
            "nodes": self.job.made.manifest.nodes,
            "seconds": self.job.run.seconds,
            "copy_seconds": self.copy_seconds,
            "peak_memory_bytes": self.peak,
            "bytes_on_disk": summary::bytes_on_disk(&self.job.made.manifest),
            "threads": session.threads,
            "memory_bytes": session.memory,
            "phases": self.job.run.phases.iter().map(summary::phase_json).collect::<Vec<_>>(),
            "verified": self.verified,
        })
    }
}

fn stored_edges(manifest: &Manifest) -> u64 {
    let edges = manifest.relations.iter().map(|relation| {
        let others = relation.nonzeros.saturating_sub(relation.diagonal);
        if relation.symmetric { others / 2 } else { others }
    });
    edges.sum()
}

/// Seconds of a plain copy to the same disk, synchronised: a lower bound for any program that reads
/// the whole file and writes as much.
fn time_copy(from: &Path, to: &Path) -> Result<f64> {
    let started = Instant::now();
    let mut source = File::open(from).with_context(|| from.display().to_string())?;
    let mut target = OutputFile::create_new(to)?;
    let mut buffer = vec![0u8; 1 << 20];
    loop {
        let got = source.read(&mut buffer).with_context(|| from.display().to_string())?;
        if got == 0 {
            break;
        }
        target.write_all(&buffer[..got]).with_context(|| to.display().to_string())?;
    }
    target.finish()?;
    let seconds = started.elapsed().as_secs_f64();
    storage::remove_file(to)?;
    Ok(seconds)
}

/// Counts nodes and undirected edges by marking ids and sorting all pairs, and compares.
fn verify(file: &Path, manifest: &Manifest) -> Result<bool> {
    let place = || file.display().to_string();
    let mut seen = Vec::new();
    let mut pairs = Vec::new();
    for line in BufReader::with_capacity(1 << 20, File::open(file).with_context(place)?).lines() {
        let line = line.with_context(place)?;
        let mut ids = line.split_ascii_whitespace().map(str::parse::<u32>);
        let (Some(Ok(source)), Some(Ok(target))) = (ids.next(), ids.next()) else {
            bail!("{}: expected two ids, found {line:?}", file.display());
        };
        let (low, high) = (source.min(target), source.max(target));
        if seen.len() <= high as usize {
            seen.resize(high as usize + 1, false);
        }
        (seen[low as usize], seen[high as usize]) = (true, true);
        if low != high {
            pairs.push((low, high));
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    let nodes = seen.iter().filter(|&&seen| seen).count();
    Ok(nodes as u64 == manifest.nodes && pairs.len() as u64 == stored_edges(manifest))
}
