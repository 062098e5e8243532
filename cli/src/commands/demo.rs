//! `ignn demo`: every step from raw files to predictions, on a small generated graph. It calls the
//! same functions as the other commands, one after the other, and says what each step did.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use ignn::config::Config;
use ignn::graph::Graph;
use ignn::models::Model;
use ignn::report::quantity::{self, seconds};
use ignn::report::sheet::Sheet;
use ignn::run::{Figures, Run, path_text};
use ignn::train::Ended;
use ignn_format::labels::Labels;
use ignn_format::storage::MarkedDirectory;
use ignn_ingest::command::edges::IngestEdges;
use ignn_ingest::command::node_data::NodeData;
use ignn_ingest::edges::options::RelationOptions;
use serde_json::{Value, json};

use super::check::Verified;
use super::inspect::Inspection;
use super::train::train_one;
use crate::sample::{self, DEMO_LENGTH, DEMO_NODES};
use crate::terminal::notes::Notes;
use crate::terminal::{figures, shell, summary};
use crate::{Outcome, Session};

/// The directory of a demo; one of an earlier demo is used again.
const MADE: MarkedDirectory = MarkedDirectory {
    what: "a demo",
    marker: ".made-by-ignn-demo",
    names: &["raw/", "graph.ignn/", "run/", "run-gcn/"],
};
/// Epochs of each model. The equilibrium model learns in two or three; the GCN never does.
const EPOCHS: &str = "train.epochs=15";
/// Ranges of distances from the first node of a chain.
const DISTANCES: [Range<u64>; 6] = [0..3, 3..6, 6..12, 12..24, 24..40, 40..DEMO_LENGTH];

/// The models of the demo: run directory, name, settings.
const MODELS: [(&str, &str, &[&str]); 2] = [
    ("run", "equilibrium", &[EPOCHS]),
    ("run-gcn", "2-layer GCN", &[EPOCHS, "model.kind=gcn", "model.depth=2"]),
];

/// Run every step on a small graph
///
/// Generates raw files: chains of nodes where only the first node carries the class of its chain.
/// Ingests, inspects and checks them, then trains an equilibrium model and a graph convolutional
/// network of two layers. At the end, a table shows how accurate each model is at each distance
/// from the first node. Every step prints the command that does the same.
///
/// The files stay in --out. Running the demo again replaces them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn demo
  ignn demo --out /tmp/ignn-demo --seed 7")]
pub struct Command {
    /// Directory for the files of the demo
    #[arg(long, value_name = "DIR", default_value = "ignn-demo")]
    out: PathBuf,

    /// Use an existing directory that has nothing but files of a demo in it
    #[arg(long)]
    force: bool,
}

/// A model of the demo, trained.
struct Trained {
    what: &'static str,
    run: PathBuf,
    figures: Figures,
    /// Accuracy on nodes outside the training part, by distance.
    accuracy: Vec<f64>,
}

impl Command {
    /// Runs the steps.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let out = &self.out;
        let _lock = MADE.claim(out, self.force)?;
        let say = |text: &str| if session.json { Ok(()) } else { session.print(text) };

        let raw = out.join("raw");
        let generate = sample::chains(raw.clone());
        say(&format!(
            "1. generate: raw files with {} nodes in chains of {DEMO_LENGTH}; only the first node of a\n\
             \x20  chain carries its class\n\
             \x20  $ ignn generate chains --length {DEMO_LENGTH} --raw {}\n",
            quantity::count(DEMO_NODES),
            shell::path(&raw)
        ))?;
        let (_, generated) = summary::observe(session, |context| generate.run(context))?;
        say(&format!(
            "   edges.tsv, labels.csv, features.npy, splits.csv ({})\n\n",
            seconds(generated.seconds)
        ))?;

        let dataset = out.join("graph.ignn");
        let place = shell::path(&dataset);
        let [edges, features, labels, splits] =
            ["edges.tsv", "features.npy", "labels.csv", "splits.csv"].map(|name| raw.join(name));
        let files = [&edges, &features, &labels, &splits].map(|file| shell::path(file));
        let job = IngestEdges {
            force: true,
            relation: RelationOptions { directed: true, ..RelationOptions::default() },
            node_data: NodeData {
                features: Some(features),
                labels: Some(labels),
                splits: vec![splits],
                ..NodeData::default()
            },
            ..IngestEdges::new(vec![edges], dataset.clone())
        };
        say(&format!(
            "2. ingest: map ids to node numbers, merge duplicates, keep directions, renormalise\n\
             \x20  $ ignn ingest edges {} --directed --features {} \\\n\
             \x20        --labels {} --splits {} --out {place}\n",
            files[0], files[1], files[2], files[3]
        ))?;
        let made = summary::time_job(session, |context| job.run(context))?;
        say(&summary::as_text(&made, &dataset))?;

        let started = Instant::now();
        let inspection = Inspection::of(&dataset)?;
        let inspected = started.elapsed().as_secs_f64();
        let time = seconds(inspected);
        say(&format!(
            "\n3. inspect: show what is in the dataset ({time})\n   $ ignn inspect {place}\n"
        ))?;
        say(&inspection.as_text())?;

        let started = Instant::now();
        let verified = Verified::of(&dataset, session)?;
        let checked = started.elapsed().as_secs_f64();
        let time = seconds(checked);
        say(&format!(
            "\n4. check: read and verify every byte ({time})\n   $ ignn check {place}\n"
        ))?;
        say(&verified.as_text())?;

        let mut models = Vec::new();
        for (step, (name, what, sets)) in (5..).zip(MODELS) {
            let target = out.join(name);
            let words: String = sets.iter().map(|set| format!(" --set {set}")).collect();
            let target_words = shell::path(&target);
            say(&format!(
                "\n{step}. train: {what}\n\
                 \x20  $ ignn train {place} --preset chains{words} --out {target_words}\n"
            ))?;
            let trained = train(session, &dataset, target, what, sets)?;
            say(&figures::one_run(&trained.figures))?;
            if trained.figures.ended == Ended::Stopped {
                return Ok(Outcome::Stopped);
            }
            models.push(trained);
        }

        say(&format!(
            "\n7. compare: accuracy outside the training part, by distance from the node that carries\n\
             \x20  the class\n{}",
            table(&models)
        ))?;
        let [target, other] = [&models[0], &models[1]].map(|model| shell::path(&model.run));
        say(&format!(
            "\nThe runs are in {target} and {other}: model.safetensors, metrics.jsonl, config.toml. Next:\n\
             \x20  $ ignn predict {place} --model {target} --out predictions.parquet\n\
             \x20  $ ignn eval {place} --model {target}\n\
             \x20  $ ignn report {target} {other} --out report.html\n\
             To use a graph of your own: ignn ingest edges --help\n"
        ))?;

        if session.json {
            session.print_json(&json!({
                "generate": { "raw": path_text::of(&raw), "seconds": generated.seconds },
                "ingest": summary::as_json(&made, &dataset),
                "inspect": { "seconds": inspected, "result": inspection },
                "check": { "seconds": checked, "result": verified.as_json() },
                "train": models.iter().map(Trained::as_json).collect::<Vec<_>>(),
            }))?;
        }
        Ok(verified.outcome())
    }
}

/// Trains a model and measures its accuracy by distance.
fn train(
    session: &Session,
    dataset: &Path,
    out: PathBuf,
    what: &'static str,
    sets: &[&str],
) -> Result<Trained> {
    let mut sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
    sets.push(format!("train.seed={}", session.seed));
    let config = Config::resolve(Some("chains"), None, &sets)?;
    let dataset = Graph::open(dataset)?;
    let run = Run::new(dataset.clone(), config, &out).memory(session.memory).replacing();
    let finished = train_one(&run, session, &Notes::new(session.quiet))?;
    // Stopped before its first checkpoint, it has no model.
    let accuracy = match finished.is_kept {
        true => accuracy_by_distance(&dataset, &finished.directory.model_file())?,
        false => Vec::new(),
    };
    Ok(Trained { what, run: out, figures: finished.figures, accuracy })
}

fn accuracy_by_distance(dataset: &Graph, model: &Path) -> Result<Vec<f64>> {
    let predicted = Model::load(model)?.predict(dataset)?;
    let Labels::Single { of, .. } = dataset.directory().labels()? else { return Ok(Vec::new()) };
    let splits = dataset.directory().splits()?;
    let is_train = |node: usize| {
        let train = |split: &ignn_format::splits::Split| {
            split.parts.get(usize::from(split.of[node])).is_some_and(|part| part == "train")
        };
        splits.iter().any(train)
    };
    let share = |distances: &Range<u64>| {
        let nodes = (0..of.len()).filter(|&node| distances.contains(&(node as u64 % DEMO_LENGTH)));
        let nodes: Vec<usize> = nodes.filter(|&node| !is_train(node)).collect();
        let right = |&&node: &&usize| predicted.class(node) as i32 == of[node];
        nodes.iter().filter(right).count() as f64 / nodes.len().max(1) as f64
    };
    Ok(DISTANCES.iter().map(share).collect())
}

fn table(models: &[Trained]) -> String {
    let mut header = vec!["distance"];
    header.extend(models.iter().map(|model| model.what));
    let mut sheet = Sheet::columns(&header);
    for (at, distances) in DISTANCES.iter().enumerate() {
        let mut row = vec![format!("{} to {}", distances.start, distances.end - 1)];
        row.extend(models.iter().map(|model| format!("{:.0} %", 100.0 * model.accuracy[at])));
        sheet.row(row);
    }
    sheet.render()
}

impl Trained {
    fn as_json(&self) -> Value {
        let accuracy = DISTANCES.iter().zip(&self.accuracy).map(|(distances, accuracy)| {
            json!({ "from": distances.start, "to": distances.end - 1, "accuracy": accuracy })
        });
        json!({
            "model": self.what,
            "run": path_text::of(&self.run),
            "figures": self.figures,
            "accuracy_by_distance": accuracy.collect::<Vec<_>>(),
        })
    }
}
