//! `ignn inspect`: prints counts and statistics of a dataset. The library computes them; verifying
//! files is the task of `check`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use ignn::config::Config;
use ignn::graph::statistics::Degrees;
use ignn::graph::{self, Graph, Statistics};
use ignn::models::DiskPlan;
use ignn::nn::{Cluster, RankPlan, SweepTimes};
use ignn::report::histogram::bar;
use ignn::report::quantity::{bytes, count, percent, plural, seconds};
use ignn::report::readable;
use ignn::report::sheet::Sheet;
use ignn::train::memory::{DataFacts, Estimate, disk_plan};
use ignn_format::features::FeatureKind;
use ignn_format::labels::{LabelKind, Labels};
use ignn_format::manifest::{Normalisation, RelationEntry};
use ignn_format::splits::SplitEntry;
use ignn_format::{FormatError, Manifest, Relation, storage};
use serde::Serialize;

use crate::options::scratch::ScratchArgs;
use crate::terminal::radius::Radius;
use crate::terminal::{printer, summary};
use crate::{Outcome, Session};

/// Length of the longest bar of a histogram.
const BAR: usize = 40;
/// Widths of the state for which the memory of training is estimated.
const WIDTHS: [usize; 2] = [64, 128];
/// Longest name of a class.
const SHOWN_NAME: usize = 120;

/// Show what is in a dataset
///
/// Prints the number of nodes, edges and self-loops, the degree distribution, isolated nodes and
/// components, whether each relation is symmetric or a DAG, labels and splits, and an estimate of
/// the memory that training needs.
///
/// The spectral bound is an upper bound of the spectral radius of the normalised adjacency A. It
/// limits the weights W: if every row of W has an L1 norm of at most kappa / bound, with kappa below
/// 1, then X = phi(A^T X W^T + B) has exactly one solution and sweeps converge to it. The report
/// shows this limit for kappa 0.9. With several relations, the kappas add up, and each is divided by
/// the 1-norm of its relation.
///
/// The bound is exact for renormalised graphs, regular graphs and graphs without cycles. Otherwise
/// it comes from a power iteration, and `lower` in the JSON output shows how tight it is.
///
/// If training needs more than --memory, the report says how it would keep to it with matrices on a
/// disk: what is in memory, what in scratch files, and what a sweep reads and writes. The speed of the
/// disk is measured by writing 128 MiB to --scratch.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn inspect dblp.ignn
  ignn inspect dblp.ignn --json | jq '.relations[0].statistics.components'
  ignn inspect dblp.ignn --json | jq '.relations[0].spectral.rho'
  ignn inspect dblp.ignn --memory 2GiB --scratch /mnt/fast
  ignn inspect dblp.ignn --ranks 16")]
pub struct Command {
    /// The dataset directory
    #[arg(value_name = "DIR")]
    dataset: PathBuf,

    /// Plan for this many ranks: nodes, ghosts, bytes per exchange and memory of each
    ///
    /// A ghost is a node of another rank whose state a rank needs. Its row is sent before every
    /// sweep in which it has moved; the plan counts all of them. `ignn ingest --order` decides how
    /// many there are.
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..=MOST_RANKS))]
    ranks: Option<u32>,

    /// Predict the time of a sweep on a network of this bandwidth per rank, in GB per second
    ///
    /// The time is that of a model: the bytes that a rank sends or receives by the bandwidth, its
    /// messages by --latency, and the rows that it gathers, reads and writes by --sweep-rate.
    #[arg(long, value_name = "GB/S", requires = "ranks", value_parser = positive)]
    bandwidth: Option<f64>,

    /// Time of a message between two ranks, in microseconds
    #[arg(long, value_name = "US", requires = "bandwidth", value_parser = positive)]
    #[arg(default_value_t = 5.0)]
    latency: f64,

    /// Rows that one rank gathers, reads and writes in a sweep, in GB per second
    ///
    /// About the bandwidth of its memory, or more where caches help. `sweep_bytes` of `--ranks 1
    /// --json`, divided by the time that `ignn bench sweep` reports, is that of this machine.
    #[arg(long, value_name = "GB/S", requires = "bandwidth", value_parser = positive)]
    #[arg(default_value_t = 20.0)]
    sweep_rate: f64,

    #[command(flatten)]
    scratch: ScratchArgs,
}

/// Largest number of ranks of a plan.
const MOST_RANKS: i64 = 65_536;

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_normal() && number > 0.0 => Ok(number),
        _ => Err("expected a number above 0".into()),
    }
}

impl Command {
    /// Counts and prints.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let inspection = Inspection::of(&self.dataset)?;
        let plan = match self.ranks {
            Some(ranks) => {
                let cluster = self.bandwidth.map(|bandwidth| Cluster {
                    sweep_rate: self.sweep_rate * 1e9,
                    bandwidth: bandwidth * 1e9,
                    latency: self.latency * 1e-6,
                });
                Some(Plan::of(&Graph::open(&self.dataset)?, ranks as usize, cluster)?)
            }
            None => None,
        };
        let on_disk = OnDisk::all(&self.dataset, session.memory, &self.scratch.directory(None))?;
        if session.json {
            let mut value = serde_json::to_value(&inspection)?;
            if !on_disk.is_empty() {
                value["training_on_disk"] = serde_json::to_value(&on_disk)?;
            }
            if let Some(plan) = plan {
                value["ranks"] = plan.as_json();
                if let Some(predicted) = plan.predicted() {
                    value["predicted"] = predicted;
                }
            }
            session.print_json(&value)?;
        } else {
            let plan = plan.map(|plan| plan.as_text()).unwrap_or_default();
            session.print(&(inspection.as_text() + &OnDisk::as_text(&on_disk) + &plan))?;
        }
        Ok(Outcome::Done)
    }
}

/// How training keeps to the memory with matrices on a disk, for one width of the state.
#[derive(Serialize)]
struct OnDisk {
    width: usize,
    /// Why it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    #[serde(flatten)]
    plan: Option<DiskPlan>,
    /// Bytes per second that the disk writes, if that can be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_speed: Option<f64>,
    #[serde(serialize_with = "printer::path_as_json")]
    directory: PathBuf,
}

impl OnDisk {
    /// The plans for the widths that do not fit in memory.
    fn all(dataset: &Path, memory: u64, directory: &Path) -> Result<Vec<Self>> {
        let dataset = Graph::open(dataset)?;
        let plan = |width| {
            let config = config(width);
            let facts = DataFacts::of_dataset(&dataset, &config);
            (width, disk_plan(&facts, dataset.manifest(), &config, memory))
        };
        let plans: Vec<_> = WIDTHS.map(plan).into();
        if plans.iter().all(|(_, plan)| matches!(plan, Ok(None))) {
            return Ok(Vec::new());
        }
        let disk_speed = storage::write_speed(directory).ok();
        let found = plans.into_iter().filter_map(|(width, plan)| {
            let (plan, refused) = match plan {
                Ok(None) => return None,
                Ok(Some(plan)) => {
                    let refused = plan.scratch(directory).err();
                    (Some(plan), refused)
                }
                Err(error) => (None, Some(error)),
            };
            let refused = refused.map(|error| error.to_string());
            Some(Self { width, refused, plan, disk_speed, directory: directory.into() })
        });
        Ok(found.collect())
    }

    fn as_text(all: &[Self]) -> String {
        let Some(first) = all.first() else { return String::new() };
        let planned: Vec<_> = all.iter().filter_map(|on| Some((on, on.plan.as_ref()?))).collect();
        let mut text = String::new();
        if let Some((_, plan)) = planned.first() {
            let _ = writeln!(
                text,
                "\ntraining with --memory {}: matrices are in scratch files in {}",
                bytes(plan.allowed),
                first.directory.display()
            );
            let widths = planned.iter().map(|(on, _)| format!("width {}", on.width));
            let header: Vec<_> = ["part".to_string()].into_iter().chain(widths).collect();
            let mut sheet = Sheet::columns(&header.iter().map(String::as_str).collect::<Vec<_>>());
            let mut row = |name: &str, cell: &dyn Fn(&DiskPlan) -> String| {
                let cells = planned.iter().map(|(_, plan)| cell(plan));
                sheet.row([name.to_string()].into_iter().chain(cells));
            };
            row("vectors, in memory", &|plan| bytes(plan.vectors));
            row("columns to gather from, in memory", &|plan| bytes(plan.columns_memory));
            row("of them at a time", &|plan| format!("{} of {}", plan.columns, plan.width));
            row("scratch files", &|plan| bytes(plan.scratch));
            row("read by a sweep", &|plan| bytes(plan.read));
            row("written by a sweep", &|plan| bytes(plan.written));
            if let Some(speed) = first.disk_speed {
                let name = format!("a sweep at {}/s", bytes(speed as u64));
                row(&name, &|plan| seconds(plan.read.saturating_add(plan.written) as f64 / speed));
            }
            text.push_str(&sheet.render());
        }
        for on in all {
            if let Some(refused) = &on.refused {
                let _ = writeln!(text, "width {}: {refused}", on.width);
            }
        }
        text
    }
}

/// The default configuration with another width.
fn config(width: usize) -> Config {
    let mut config = Config::default();
    config.model.state = vec![width];
    config
}

/// Everything `inspect` reports.
#[derive(Serialize)]
pub struct Inspection {
    #[serde(serialize_with = "printer::path_as_json")]
    dataset: PathBuf,
    made_by: ignn_format::manifest::MadeBy,
    nodes: u64,
    order: String,
    ids: ignn_format::ids::IdsEntry,
    relations: Vec<RelationReport>,
    features: Option<ignn_format::features::FeaturesEntry>,
    /// How the columns of a table became the features.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<ignn_format::encoding::Encoding>,
    labels: Option<LabelReport>,
    splits: Vec<SplitEntry>,
    graphs: Option<GraphReport>,
    bytes_on_disk: BTreeMap<String, u64>,
    training_memory: Vec<TrainingMemory>,
}

/// What training with the default configuration needs, for one width of the state.
#[derive(Clone, Serialize)]
struct TrainingMemory {
    width: usize,
    /// Files of all relations. They are mapped: the system takes their memory back when it needs
    /// it, and `total` does not include them.
    graph: u64,
    #[serde(flatten)]
    estimate: Estimate,
}

#[derive(Serialize)]
struct RelationReport {
    #[serde(flatten)]
    entry: RelationEntry,
    /// The user's edges: undirected ones counted once, diagonal entries of renormalisation not at
    /// all.
    edges: u64,
    statistics: Statistics,
    spectral: Radius,
}

#[derive(Serialize)]
struct LabelReport {
    kind: LabelKind,
    classes: u64,
    labelled: u64,
    /// Total number of labels; more than `labelled` where nodes have several.
    labels: u64,
    largest: Option<ClassSize>,
    smallest: Option<ClassSize>,
}

#[derive(Clone, Serialize)]
struct ClassSize {
    class: String,
    nodes: u64,
}

#[derive(Serialize)]
struct GraphReport {
    count: u64,
    smallest: u64,
    largest: u64,
    /// Graphs of each class, in class order.
    classes: Vec<(String, u64)>,
    splits: Vec<SplitEntry>,
}

impl Inspection {
    /// Opens the dataset and computes its statistics.
    pub fn of(path: &Path) -> Result<Self> {
        let dataset = Graph::open(path)?;
        let manifest = dataset.manifest();
        // What is shown of them stands in the manifest, which may be wrong.
        dataset.directory().check_features()?;
        dataset.splits()?;
        let relations = dataset.relations()?;
        let all = relations.len();
        let relations = relations.iter().map(|relation| RelationReport::of(path, relation, all));
        let labels = match &manifest.labels {
            Some(_) => Some(LabelReport::of(&dataset.directory().labels()?)),
            None => None,
        };
        let inspection = Self {
            dataset: path.into(),
            made_by: manifest.made_by.clone(),
            nodes: manifest.nodes,
            order: manifest.order.clone(),
            ids: manifest.ids.clone(),
            relations: relations.collect::<Result<_>>()?,
            features: manifest.features.clone(),
            encoding: manifest.encoding.clone(),
            labels,
            splits: manifest.splits.clone(),
            graphs: GraphReport::of(&dataset)?,
            bytes_on_disk: bytes_by_part(manifest),
            training_memory: WIDTHS.map(|width| TrainingMemory::of(&dataset, width)).to_vec(),
        };
        dataset.check_unchanged()?;
        Ok(inspection)
    }

    /// The report as text.
    pub fn as_text(&self) -> String {
        let mut text = format!("{}\n", self.dataset.display());
        let mut sheet = Sheet::pairs();
        sheet
            .row(["made by".into(), format!("{}, {}", self.made_by.program, self.made_by.command)]);
        sheet.row(["nodes".into(), format!("{}, order {}", count(self.nodes), self.order)]);
        if let Some(graphs) = &self.graphs {
            let sizes = format!("of {} to {} nodes", count(graphs.smallest), count(graphs.largest));
            sheet.row(["graphs".into(), format!("{} {sizes}", count(graphs.count))]);
            let classes =
                graphs.classes.iter().map(|(class, graphs)| format!("{class}: {}", count(*graphs)));
            if !graphs.classes.is_empty() {
                sheet.row(["graph classes".into(), classes.collect::<Vec<_>>().join(", ")]);
            }
            for split in &graphs.splits {
                sheet.row(["split of graphs".into(), summary::split_words(split)]);
            }
        }
        sheet.row(["features".into(), self.feature_words()]);
        for column in self.encoding.iter().flat_map(|encoding| &encoding.columns) {
            sheet.row([String::new(), summary::column_words(column)]);
        }
        sheet
            .row(["labels".into(), self.labels.as_ref().map_or("none".into(), LabelReport::words)]);
        for split in &self.splits {
            sheet.row(["split".into(), summary::split_words(split)]);
        }
        text.push_str(&sheet.render());
        for relation in &self.relations {
            relation.write_text(&mut text, self.nodes);
        }
        text.push_str("\non disk\n");
        let mut sheet = Sheet::columns(&["part", "size"]);
        for (part, size) in &self.bytes_on_disk {
            sheet.row([part.clone(), bytes(*size)]);
        }
        sheet.row([
            "all".into(),
            bytes(self.bytes_on_disk.values().fold(0, |sum, size| sum.saturating_add(*size))),
        ]);
        text.push_str(&sheet.render());
        text.push_str("\nmemory needed for training (estimate)\n");
        let widths = self.training_memory.iter().map(|memory| format!("width {}", memory.width));
        let header: Vec<_> = ["part".to_string()].into_iter().chain(widths).collect();
        let mut sheet = Sheet::columns(&header.iter().map(String::as_str).collect::<Vec<_>>());
        let parts: Vec<_> =
            self.training_memory.iter().map(|memory| memory.estimate.parts()).collect();
        for (index, (part, _)) in parts[0].iter().enumerate() {
            // Of narrow states only.
            if *part == "copies" && parts.iter().all(|parts| parts[index].1 == 0) {
                continue;
            }
            sheet.row(
                [part.to_string()]
                    .into_iter()
                    .chain(parts.iter().map(|parts| bytes(parts[index].1))),
            );
        }
        let totals = self.training_memory.iter().map(|memory| bytes(memory.estimate.total));
        sheet.row(["all".to_string()].into_iter().chain(totals));
        let graph = self.training_memory.iter().map(|memory| bytes(memory.graph));
        sheet.row(["graph, mapped".to_string()].into_iter().chain(graph));
        text.push_str(&sheet.render());
        text
    }

    fn feature_words(&self) -> String {
        let Some(features) = &self.features else { return "none".into() };
        let columns = plural(features.columns, "column", "columns");
        match (features.kind, features.nonzeros) {
            (FeatureKind::Dense, _) => format!("{columns}, dense"),
            (FeatureKind::Sparse, nonzeros) => {
                let nonzeros = nonzeros.unwrap_or(0);
                let cells = self.nodes.saturating_mul(features.columns);
                format!(
                    "{columns}, sparse: {} non-zeros, {}",
                    count(nonzeros),
                    percent(nonzeros, cells)
                )
            }
        }
    }
}

/// The shares of several ranks.
struct Plan {
    relations: usize,
    ranks: Vec<RankPlan>,
    cluster: Option<Cluster>,
}

impl Plan {
    fn of(dataset: &Graph, ranks: usize, cluster: Option<Cluster>) -> Result<Self> {
        let relations = dataset.relations()?;
        let (relations, ranks) = (relations.len(), RankPlan::of(relations, ranks));
        Ok(Self { relations, ranks, cluster })
    }

    fn memory(&self, rank: &RankPlan, width: usize) -> u64 {
        let buffers = Config::default().forward().mixing_buffers();
        rank.state_bytes(width, self.relations, buffers)
    }

    fn as_json(&self) -> serde_json::Value {
        let rank = |rank: &RankPlan| {
            let width = |width: usize| {
                serde_json::json!({
                    "width": width,
                    "exchange_bytes": rank.exchange_bytes(width),
                    "state_bytes": self.memory(rank, width),
                    "sweep_bytes": rank.sweep_bytes(width),
                })
            };
            let mut value = serde_json::json!(rank);
            value["widths"] = WIDTHS.map(width).to_vec().into();
            value
        };
        self.ranks.iter().map(rank).collect()
    }

    fn as_text(&self) -> String {
        let ranks = plural(self.ranks.len() as u64, "rank", "ranks");
        let mut sheet = Sheet::columns(&["per rank", "largest", "mean"]);
        let mut row = |name: &str, of: &dyn Fn(&RankPlan) -> u64, shown: fn(u64) -> String| {
            let numbers: Vec<u64> = self.ranks.iter().map(of).collect();
            let mean = numbers.iter().sum::<u64>() / numbers.len() as u64;
            let largest = numbers.into_iter().max().unwrap_or(0);
            sheet.row([name.to_string(), shown(largest), shown(mean)]);
        };
        row("nodes", &|rank| rank.rows, count);
        row("non-zeros", &|rank| rank.nonzeros, count);
        row("ghosts", &|rank| rank.ghosts, count);
        row("rows sent", &|rank| rank.sent, count);
        for width in WIDTHS {
            let sent = |rank: &RankPlan| rank.exchange_bytes(width);
            row(&format!("sent per sweep, width {width}"), &sent, bytes);
        }
        for width in WIDTHS {
            let memory = |rank: &RankPlan| self.memory(rank, width);
            row(&format!("states, width {width}"), &memory, bytes);
        }
        let mut text = format!("\n{ranks}\n{}", sheet.render());
        if let Some(cluster) = self.cluster {
            let mut sheet = Sheet::columns(&["predicted, per sweep", "sweep", "exchange", "both"]);
            for width in WIDTHS {
                let SweepTimes { sweep, exchange } = cluster.predict(&self.ranks, width);
                let times = [sweep, exchange, sweep + exchange].map(seconds);
                let [sweep, exchange, both] = times;
                sheet.row([format!("width {width}"), sweep, exchange, both]);
            }
            text += &format!("\n{}", sheet.render());
        }
        text
    }

    /// Predicted times, by width.
    fn predicted(&self) -> Option<serde_json::Value> {
        let cluster = self.cluster?;
        let width = |width: usize| {
            let times = cluster.predict(&self.ranks, width);
            serde_json::json!({ "width": width, "seconds": times })
        };
        Some(WIDTHS.map(width).to_vec().into())
    }
}

impl TrainingMemory {
    fn of(dataset: &Graph, width: usize) -> Self {
        let files = dataset.manifest().files.iter();
        let graph = files.filter(|(path, _)| path.starts_with("relations/"));
        Self {
            width,
            graph: graph.fold(0, |sum: u64, (_, file)| sum.saturating_add(file.bytes)),
            estimate: Estimate::of_dataset(dataset, &config(width)),
        }
    }
}

impl RelationReport {
    fn of(dataset: &Path, relation: &Relation, relations: usize) -> Result<Self> {
        let outgoing = relation.outgoing.as_ref().map(graph::rows);
        let loops = graph::self_loops::count(relation);
        let damaged = |found: graph::statistics::OutOfRange| {
            let path = ignn_format::dataset::relation_path(dataset, &relation.entry.name);
            let what = format!("neighbour in row {}", found.row);
            let expected = format!(
                "below {} (see `ignn check {}`)",
                relation.incoming.rows(),
                dataset.display()
            );
            FormatError::invalid(path, what, found.neighbour, expected)
        };
        let statistics =
            Statistics::of(graph::rows(&relation.incoming), outgoing, loops).map_err(damaged)?;
        let others = relation.entry.nonzeros.saturating_sub(relation.entry.diagonal);
        let edges = if relation.entry.symmetric { others / 2 } else { others } + loops;
        let spectral = Radius::of(relation, relations);
        Ok(Self { entry: relation.entry.clone(), edges, statistics, spectral })
    }

    fn write_text(&self, text: &mut String, nodes: u64) {
        let (entry, found) = (&self.entry, &self.statistics);
        let _ = writeln!(text, "\nrelation {}", entry.name);
        let normalisation = match entry.normalisation {
            Normalisation::None => "not normalised",
            Normalisation::Renorm => "renormalised",
            Normalisation::Row => "rows normalised",
        };
        let yes = |yes| if yes { "yes" } else { "no" };
        let mut sheet = Sheet::pairs();
        sheet.row([
            "edges".into(),
            format!(
                "{}, {}",
                count(self.edges),
                if entry.symmetric { "undirected" } else { "directed" }
            ),
        ]);
        sheet.row(["matrix".into(), {
            let values = if entry.weighted { "weighted" } else { "unweighted" };
            format!("{} non-zeros, {values}, {normalisation}", count(entry.nonzeros))
        }]);
        sheet.row(["self-loops".into(), count(found.self_loops)]);
        sheet.row([
            "isolated nodes".into(),
            format!("{} ({})", count(found.isolated), percent(found.isolated, nodes)),
        ]);
        sheet.row(["components".into(), {
            let largest = found.largest_component;
            format!(
                "{}, the largest of {} nodes ({})",
                count(found.components),
                count(largest),
                percent(largest, nodes)
            )
        }]);
        sheet.row(["symmetric", yes(found.symmetric)]);
        sheet.row(["DAG", yes(found.acyclic)]);
        for row in self.spectral.rows() {
            sheet.row(row);
        }
        text.push_str(&sheet.render());
        match &found.out_degrees {
            None => write_degrees(text, "degree", &found.degrees),
            Some(out) => {
                write_degrees(text, "in-degree", &found.degrees);
                write_degrees(text, "out-degree", out);
            }
        }
    }
}

fn write_degrees(text: &mut String, name: &str, degrees: &Degrees) {
    let Degrees { min, max, mean, histogram } = degrees;
    let _ = writeln!(text, "  {name}: {} to {}, mean {mean:.2}", count(*min), count(*max));
    let largest = histogram.iter().copied().max().unwrap_or(0);
    let mut sheet = Sheet::default();
    for (index, &nodes) in histogram.iter().enumerate() {
        let range = match Degrees::bucket(index) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        sheet.row([
            format!("  {range}"),
            count(nodes),
            format!("{:<BAR$}", bar(nodes, largest, BAR)),
        ]);
    }
    text.push_str(&sheet.render());
}

impl LabelReport {
    fn of(labels: &Labels) -> Self {
        let (kind, classes) = (labels.kind(), labels.classes());
        let mut sizes = vec![0u64; classes.len()];
        let mut add = |class: usize| {
            if let Some(size) = sizes.get_mut(class) {
                *size += 1;
            }
        };
        match labels {
            Labels::Single { of, .. } => {
                of.iter().filter_map(|&class| usize::try_from(class).ok()).for_each(&mut add);
            }
            Labels::Multi { of, .. } => of.iter().for_each(|&class| add(class as usize)),
            Labels::Number { of, .. } => {
                of.iter().filter(|number| !number.is_nan()).for_each(|_| add(0));
            }
        }
        let size =
            |(class, &nodes): (usize, &u64)| ClassSize { class: classes[class].clone(), nodes };
        // Among equals, the first in class order.
        let largest =
            sizes.iter().enumerate().max_by_key(|&(class, nodes)| (nodes, usize::MAX - class));
        let smallest = sizes.iter().enumerate().min_by_key(|&(_, nodes)| nodes);
        Self {
            kind,
            classes: classes.len() as u64,
            labelled: labels.labelled(),
            labels: sizes.iter().sum(),
            largest: largest.map(size),
            smallest: smallest.map(size),
        }
    }

    fn words(&self) -> String {
        let classes = plural(self.classes, "class", "classes");
        let labelled = plural(self.labelled, "labelled node", "labelled nodes");
        let sets = match self.kind {
            LabelKind::Number => {
                let name = self.largest.as_ref().map_or("", |size| &size.class);
                return format!("the number {}, {labelled}", readable::line(name, SHOWN_NAME));
            }
            LabelKind::Single => String::new(),
            LabelKind::Multi => format!(" with {}", plural(self.labels, "label", "labels")),
        };
        // Each by itself, so that a long name does not hide the other.
        let name = |class: &str| readable::line(class, SHOWN_NAME);
        let size = |size: &ClassSize| format!("{} ({})", name(&size.class), count(size.nodes));
        let extremes = match (&self.largest, &self.smallest) {
            (Some(one), Some(_)) if self.classes == 1 => format!(", {}", size(one)),
            (Some(largest), Some(smallest)) if largest.nodes == smallest.nodes => {
                format!(", {} in each class", count(largest.nodes))
            }
            (Some(largest), Some(smallest)) => {
                format!(", largest {}, smallest {}", size(largest), size(smallest))
            }
            _ => String::new(),
        };
        format!("{classes}, {labelled}{sets}{extremes}")
    }
}

impl GraphReport {
    fn of(dataset: &Graph) -> Result<Option<Self>> {
        let Some(graphs) = dataset.directory().graphs()? else { return Ok(None) };
        let sizes = graphs.first_node.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
        let mut classes: Vec<_> = graphs.classes.iter().map(|class| (class.clone(), 0)).collect();
        if let Some((_, count)) = classes.first_mut().filter(|_| !graphs.numbers.is_empty()) {
            *count = graphs.numbers.iter().filter(|number| !number.is_nan()).count() as u64;
        }
        for &label in &graphs.labels {
            if let Some((_, graphs)) =
                usize::try_from(label).ok().and_then(|label| classes.get_mut(label))
            {
                *graphs += 1;
            }
        }
        Ok(Some(Self {
            count: graphs.first_node.len().saturating_sub(1) as u64,
            smallest: sizes.clone().min().unwrap_or(0),
            largest: sizes.max().unwrap_or(0),
            classes,
            splits: dataset
                .manifest()
                .graphs
                .as_ref()
                .map(|entry| entry.splits.clone())
                .unwrap_or_default(),
        }))
    }
}

/// Bytes per part of the dataset: a relation, the features, or a file at the top level.
fn bytes_by_part(manifest: &Manifest) -> BTreeMap<String, u64> {
    let mut parts = BTreeMap::new();
    for (path, file) in &manifest.files {
        let mut steps = path.split('/');
        let part = match (steps.next(), steps.next()) {
            (Some("relations"), Some(relation)) => format!("relation {relation}"),
            (Some(first), _) => first.trim_end_matches(".parquet").to_string(),
            (None, _) => continue,
        };
        let sum: &mut u64 = parts.entry(part).or_default();
        *sum = sum.saturating_add(file.bytes);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_and_smallest_class_are_named() {
        let classes = ["a", "b", "c"].map(String::from).to_vec();
        let single =
            LabelReport::of(&Labels::Single { classes: classes.clone(), of: vec![0, -1, 2, 2, 0] });
        assert_eq!(single.words(), "3 classes, 4 labelled nodes, largest a (2), smallest b (0)");
        let one = Labels::Single { classes: vec!["cat".into()], of: vec![0, 0, -1] };
        assert_eq!(LabelReport::of(&one).words(), "1 class, 2 labelled nodes, cat (2)");
        let equal = Labels::Single { classes: classes[..2].to_vec(), of: vec![0, 1, 1, 0] };
        let words = LabelReport::of(&equal).words();
        assert_eq!(words, "2 classes, 4 labelled nodes, 2 in each class");
        let multi = Labels::sets(classes, vec![0, 2, 2, 3], vec![0, 1, 1]);
        let words = LabelReport::of(&multi).words();
        assert_eq!(
            words,
            "3 classes, 2 labelled nodes with 3 labels, largest b (2), smallest c (0)"
        );
    }

    #[test]
    fn a_histogram_is_drawn() {
        let degrees = Degrees { min: 0, max: 3, mean: 1.5, histogram: vec![1, 0, 4] };
        let mut text = String::new();
        write_degrees(&mut text, "degree", &degrees);
        let bar = "█".repeat(BAR);
        let quarter = "█".repeat(BAR / 4);
        assert_eq!(
            text,
            format!(
                "  degree: 0 to 3, mean 1.50\n    0    1  {quarter}\n    1    0\n    2-3  4  {bar}\n"
            )
        );
    }
}
