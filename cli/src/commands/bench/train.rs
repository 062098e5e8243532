//! `ignn bench train`: epochs per second on a dataset, and what each phase of an epoch takes and
//! moves. It measures and verifies; a slow result is never an error.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use ignn::config::Config;
use ignn::dense::stride;
use ignn::kernels::AdjacencyRef;
use ignn::nn::Operators;
use ignn::optim::Method;
use ignn::report::quantity;
use ignn::report::sheet::Sheet;
use ignn::solver::SolveInfo;
use ignn::train::{EpochRecord, Task, Trainer, memory};
use ignn_ingest::{Observer, Unit};
use serde_json::json;

use super::roofline::sizes;
use crate::options::settings::Settings;
use crate::options::verification::Verification;
use crate::terminal::progress::Console;
use crate::{Outcome, Session, machine};

/// Timed epochs.
const REPEAT: u32 = 20;
/// Epochs before them.
const WARM_UP: u32 = 3;
/// Approximate limit on the seconds of timed epochs.
const SECONDS: f64 = 60.0;

/// Epochs per second, and time, edges and bytes by phase of an epoch
///
/// Trains a model without writing anything, leaves out the first epochs, and reports the median of
/// the timed ones by phase: forward solves, adjoint solves, gradients, update (step and
/// projection), evaluation. Edges are those that the sweeps of a phase visit. Bytes are the
/// compulsory traffic: every array (graph, states, features, parameters) once per sweep or pass,
/// whatever caches save or miss. If solves are accelerated, this is a lower bound.
///
/// The command verifies that every loss is finite, that the loss of the last timed epoch is below
/// that of the very first epoch, and that all solves converged; if any check fails, the exit code
/// is 1. Settings are those of `ignn train`; `train.epochs` matters only to the schedule of the
/// learning rate.
///
/// Under `mpirun` each rank has nodes of its own, and times are those of the first rank; the
/// exchanges between ranks, a part of the other phases, have a line of their own.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn bench train cora.ignn --preset cora
  ignn bench train graph.ignn --set model.state=128 --set solver.tolerance=1e-5 --json
  ignn bench train graph.ignn --epochs 5 --warm-up 1 --threads 1
  mpirun -n 2 ignn bench train graph.ignn --set model.state=128 --threads 1")]
pub struct Train {
    /// The dataset
    #[arg(value_name = "DATASET")]
    dataset: PathBuf,

    #[command(flatten)]
    settings: Settings,

    /// Timed epochs at most; medians are reported
    #[arg(
        long,
        visible_alias = "epochs",
        value_name = "N",
        default_value_t = REPEAT,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    repeat: u32,

    /// Epochs before the timed ones
    #[arg(long, value_name = "N", default_value_t = WARM_UP)]
    warm_up: u32,

    #[command(flatten)]
    verification: Verification,
}

impl Train {
    /// Measures and prints.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let console = Console::new(session.quiet);
        let result = self.measure(session, &console);
        console.finish();
        let result = result?;
        if session.json {
            session.print_json(&result.as_json(session))?;
        } else {
            session.print(&result.as_text())?;
        }
        Ok(if result.is_verified() { Outcome::Done } else { Outcome::Missed })
    }

    fn measure(&self, session: &Session, console: &Console) -> Result<Measured> {
        let mut config = session.agree(self.settings.resolve(session))?;
        // The last epoch of a run takes no step, so it must not be timed.
        let epochs = u64::from(self.warm_up) + u64::from(self.repeat) + 1;
        config.train.epochs = config.train.epochs.max(epochs);
        console.phase("open the graph", None, Unit::Edges);
        let graph = session.agree(self.verification.open(&self.dataset))?;
        let ranks = &session.ranks;
        let task = Arc::new(Task::on_ranks(graph, &config, Arc::clone(ranks))?);
        let operators = session.agree(task.operators().map_err(Into::into))?;
        session.agree(memory::check(&task, &config, session.memory).map_err(Into::into))?;
        let trainer = Trainer::with_task(Arc::clone(&task), config.clone());
        let mut trainer = session.agree(trainer.map_err(Into::into))?;
        console.phase("warm up", Some(self.warm_up.into()), Unit::Items("epochs"));
        let mut losses = Vec::new();
        for _ in 0..self.warm_up {
            losses.push(trainer.advance()?.loss);
            console.advance(1);
        }
        console.phase("time", Some(self.repeat.into()), Unit::Items("epochs"));
        let (started, mut epochs) = (Instant::now(), Vec::new());
        for _ in 0..self.repeat {
            let clock = Instant::now();
            let record = trainer.advance()?;
            epochs.push((clock.elapsed().as_secs_f64(), record));
            console.advance(1);
            if ranks.any(started.elapsed().as_secs_f64() > SECONDS) {
                break;
            }
        }
        losses.extend(epochs.iter().map(|(_, record)| record.loss));
        let moving =
            trainer.network().parameters.iter().filter(|parameter| parameter.rate_factor > 0.0);
        let parameters = moving.map(|parameter| size_of_val(parameter.value.view().padded()));
        let traffic = Traffic::new(&task, operators, &config, parameters.sum());
        Ok(Measured {
            phases: traffic.phases(&epochs),
            epochs,
            losses,
            failures: trainer.failures(),
        })
    }
}

/// What the phases of an epoch move, from counts.
struct Traffic {
    nodes: f64,
    /// Non-zeros of all relations, and bytes of both directions.
    nonzeros: f64,
    incoming: f64,
    outgoing: f64,
    relations: f64,
    /// Bytes of a row of the state, by layer.
    rows: Vec<f64>,
    /// Bytes of the features as the input map keeps them.
    features: f64,
    /// Bytes of the parameters that learn, and how often a step reads or writes them.
    parameters: f64,
    passes: f64,
    /// Rows that an evaluation reads.
    evaluated: f64,
}

/// The median of a phase over the timed epochs.
struct Phase {
    name: &'static str,
    seconds: f64,
    /// Edges that sweeps visit.
    edges: Option<f64>,
    /// None where the model is not solved: what explicit layers move is not counted.
    bytes: Option<f64>,
}

impl Traffic {
    fn new(task: &Task, operators: &Operators, config: &Config, parameters: usize) -> Self {
        // Of all ranks.
        let ranks = operators.rows().ranks();
        let bytes = |side: &[AdjacencyRef<'_>]| {
            ranks.sum(sizes(side).iter().map(|&(_, bytes)| bytes as u64).sum()) as f64
        };
        let manifest = task.graph().manifest();
        let features = manifest.features.as_ref().filter(|_| !task.learns_features());
        let features = features.map_or(0.0, |entry| match entry.nonzeros {
            // Column and value.
            Some(nonzeros) => 8.0 * nonzeros as f64,
            None => manifest.nodes as f64 * 4.0 * stride(entry.columns as usize) as f64,
        });
        let parts = task.parts();
        Self {
            nodes: operators.rows().all() as f64,
            nonzeros: operators.nonzeros() as f64,
            incoming: bytes(&operators.incoming()),
            outgoing: bytes(&operators.outgoing()),
            relations: operators.relations() as f64,
            rows: config.model.state.iter().map(|&width| 4.0 * stride(width) as f64).collect(),
            features,
            parameters: parameters as f64,
            // Value and gradient read, value written; every moment read and written.
            passes: if config.optim.method == Method::Adam { 7.0 } else { 5.0 },
            evaluated: (parts.train.len() + parts.validation.len() + parts.test.len()) as f64,
        }
    }

    /// Medians over epochs.
    fn phases(&self, epochs: &[(f64, EpochRecord)]) -> Vec<Phase> {
        let median = |of: &dyn Fn(&EpochRecord) -> Option<f64>| {
            let values: Option<Vec<f64>> = epochs.iter().map(|(_, record)| of(record)).collect();
            values.map(middle)
        };
        let names = epochs[0].1.seconds.named().map(|(name, _)| name);
        let phase = |(at, name): (usize, &'static str)| Phase {
            name,
            seconds: median(&|record| Some(record.seconds.named()[at].1)).unwrap_or(0.0),
            edges: median(&|record| self.edges(name, record)),
            bytes: median(&|record| self.bytes(name, record)),
        };
        names.into_iter().enumerate().map(phase).collect()
    }

    /// Edges that the sweeps of a phase visit.
    fn edges(&self, phase: &str, record: &EpochRecord) -> Option<f64> {
        let solve = match phase {
            "forward" => record.forward,
            "adjoint" => record.adjoint,
            _ => None,
        };
        solve.map(|solve| solve.row_updates as f64 / self.nodes * self.nonzeros)
    }

    fn bytes(&self, phase: &str, record: &EpochRecord) -> Option<f64> {
        // What explicit layers move is not counted.
        record.forward?;
        let last = self.rows.last()?;
        Some(match phase {
            // X gathered and B read, X' written.
            "forward" => self.sweeps(record, |row| 3.0 * row, self.incoming, |layer| layer.0),
            // G gathered and R read, G' written, the derivative a bit per entry.
            "adjoint" => {
                let row = |row: f64| (3.0 + 1.0 / 32.0) * row;
                self.sweeps(record, row, self.outgoing, |layer| layer.1)
            }
            // G^T (A^T X) per relation; G^T U, or G and the state below.
            "gradients" => {
                let own = |row: &f64| self.relations * 2.0 * self.nodes * row + self.incoming;
                let inputs = self.rows.iter().map(|row| self.nodes * row).sum::<f64>();
                let below = self.rows.iter().rev().skip(1).map(|row| self.nodes * row).sum::<f64>();
                self.rows.iter().map(own).sum::<f64>() + inputs + below + self.features
            }
            "update" => self.passes * self.parameters,
            _ if record.parts().next().is_none() => 0.0,
            // Rows that are read out.
            _ => self.evaluated * last,
        })
    }

    /// Bytes of the sweeps of all layers: `row` of each row that is computed, and the graph once
    /// per sweep over all rows.
    fn sweeps(
        &self,
        record: &EpochRecord,
        row: impl Fn(f64) -> f64,
        graph: f64,
        side: impl Fn((Option<SolveInfo>, Option<SolveInfo>)) -> Option<SolveInfo>,
    ) -> f64 {
        let layers: Vec<_> = match &record.layers[..] {
            [] => vec![(record.forward, record.adjoint)],
            layers => layers.iter().map(|layer| (Some(layer.forward), layer.adjoint)).collect(),
        };
        let bytes = layers.into_iter().zip(&self.rows).filter_map(|(layer, &bytes)| {
            let updates = side(layer)?.row_updates as f64;
            Some(updates * row(bytes) + updates / self.nodes * graph)
        });
        bytes.sum()
    }
}

/// The median.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

struct Measured {
    phases: Vec<Phase>,
    /// Wall time and record of every timed epoch.
    epochs: Vec<(f64, EpochRecord)>,
    /// Of all epochs, those before the timed ones included.
    losses: Vec<f64>,
    /// Solves without convergence.
    failures: u64,
}

impl Measured {
    /// Median wall time of an epoch.
    fn seconds(&self) -> f64 {
        middle(self.epochs.iter().map(|(seconds, _)| *seconds).collect())
    }

    /// Median time of an epoch outside of all phases.
    fn rest(&self) -> f64 {
        middle(
            self.epochs.iter().map(|(seconds, record)| seconds - record.seconds.total()).collect(),
        )
        .max(0.0)
    }

    /// Median time and bytes of the exchanges of an epoch, a part of the phases.
    fn exchange(&self) -> Option<(f64, f64)> {
        let all = self.epochs.iter().map(|(_, record)| record.exchange);
        let all: Vec<_> = all.collect::<Option<_>>()?;
        let seconds = middle(all.iter().map(|exchange| exchange.seconds).collect());
        Some((seconds, middle(all.iter().map(|exchange| exchange.bytes as f64).collect())))
    }

    fn is_finite(&self) -> bool {
        self.losses.iter().all(|loss| loss.is_finite())
    }

    fn falls(&self) -> bool {
        self.losses.len() == 1 || self.losses.last() < self.losses.first()
    }

    /// Whether the model has an equilibrium.
    fn is_solved(&self) -> bool {
        self.epochs.iter().any(|(_, record)| record.forward.is_some())
    }

    fn is_verified(&self) -> bool {
        self.is_finite() && self.falls() && self.failures == 0
    }

    /// Edges and bytes of all phases.
    fn totals(&self) -> (Option<f64>, Option<f64>) {
        let edges = self.phases.iter().filter_map(|phase| phase.edges);
        (edges.reduce(|a, b| a + b), self.phases.iter().map(|phase| phase.bytes).sum())
    }

    fn as_text(&self) -> String {
        let seconds = self.seconds();
        let mut sheet =
            Sheet::columns(&["phase", "time", "share", "edges", "edges/s", "bytes", "GB/s"]);
        let none = || "-".to_string();
        let mut row = |name: &str, time: f64, edges: Option<f64>, bytes: Option<f64>| {
            let time_or_tiny = time.max(1e-9);
            sheet.row([
                name.to_string(),
                quantity::seconds(time),
                format!("{:.0} %", 100.0 * time / seconds),
                edges.map_or_else(none, quantity::short),
                edges.map_or_else(none, |edges| quantity::short(edges / time_or_tiny)),
                bytes.map_or_else(none, |bytes| quantity::bytes(bytes as u64)),
                bytes.map_or_else(none, |bytes| format!("{:.2}", bytes / time_or_tiny / 1e9)),
            ]);
        };
        for phase in &self.phases {
            row(phase.name, phase.seconds, phase.edges, phase.bytes);
        }
        row("rest", self.rest(), None, None);
        if let Some((seconds, bytes)) = self.exchange() {
            row("exchange", seconds, None, Some(bytes));
        }
        let (edges, bytes) = self.totals();
        row("epoch", seconds, edges, bytes);
        let mut facts = Sheet::pairs();
        facts.row(["epochs per second".into(), format!("{:.3}", 1.0 / seconds)]);
        if self.is_solved() {
            let sweeps = |of: &dyn Fn(&EpochRecord) -> Option<SolveInfo>| {
                let sweeps =
                    self.epochs.iter().map(|(_, record)| of(record).map_or(0, |s| s.sweeps));
                middle(sweeps.map(|sweeps| sweeps as f64).collect())
            };
            let (forward, adjoint) =
                (sweeps(&|record| record.forward), sweeps(&|record| record.adjoint));
            facts.row(["sweeps".into(), format!("{forward} forward, {adjoint} adjoint")]);
        }
        let (warm, timed) = (self.losses.len() - self.epochs.len(), self.epochs.len());
        facts.row(["epochs".into(), format!("{timed} timed after {warm} of warm-up")]);
        if let Some(peak) = machine::peak_memory() {
            facts.row(["peak memory".into(), quantity::bytes(peak)]);
        }
        facts.row(["verified".into(), self.verdict()]);
        format!("{}\n{}", sheet.render(), facts.render())
    }

    fn verdict(&self) -> String {
        if !self.is_finite() {
            return "WRONG: a loss is not finite".into();
        }
        let (first, last) = (self.losses[0], self.losses[self.losses.len() - 1]);
        let fell = format!("loss {first:.4} in the first epoch, {last:.4} in the last");
        match (self.failures, self.falls()) {
            (0, true) if self.is_solved() => format!("yes: {fell}, all solves converged"),
            (0, true) => format!("yes: {fell}"),
            (0, false) => format!("WRONG: {fell}: it did not fall"),
            (failures, _) => {
                let solves = quantity::plural(failures, "solve", "solves");
                format!("WRONG: {solves} did not converge; {fell}")
            }
        }
    }

    fn as_json(&self, session: &Session) -> serde_json::Value {
        let seconds = self.seconds();
        let phases = self.phases.iter().map(|phase| {
            json!({
                "name": phase.name,
                "seconds": phase.seconds,
                "edges": phase.edges,
                "bytes": phase.bytes,
            })
        });
        let (edges, bytes) = self.totals();
        let best = self.epochs.iter().map(|(seconds, _)| *seconds).fold(f64::INFINITY, f64::min);
        json!({
            "epochs_per_second": 1.0 / seconds,
            "median_seconds": seconds,
            "best_seconds": best,
            "edges_per_epoch": edges,
            "edges_per_second": edges.map(|edges| edges / seconds),
            "bytes_per_epoch": bytes,
            "phases": phases.collect::<Vec<_>>(),
            "rest_seconds": self.rest(),
            "exchange_seconds": self.exchange().map(|exchange| exchange.0),
            "exchange_bytes": self.exchange().map(|exchange| exchange.1),
            "ranks": session.ranks.size(),
            "losses": self.losses,
            "warm_up": self.losses.len() - self.epochs.len(),
            "timed": self.epochs.len(),
            "failures": self.failures,
            "threads": session.threads,
            "peak_memory_bytes": machine::peak_memory(),
            "verified": self.is_verified(),
        })
    }
}
