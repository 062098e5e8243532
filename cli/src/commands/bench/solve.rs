//! `ignn bench solve`: every solver method on a trained model, side by side. It measures and
//! verifies; a slow result is never an error, one that contradicts another's certificate is.

use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use ignn::dense::Matrix;
use ignn::models::Mode;
use ignn::nn::{Backward, Equilibrium};
use ignn::parallel::Alone;
use ignn::report::quantity;
use ignn::report::sheet::Sheet;
use ignn::solver::{Method, Reference, SolveInfo, SolveParams, Used, Workspace};
use ignn_ingest::{Observer, Unit};
use serde_json::json;

use crate::terminal::on_dataset::ModelArgs;
use crate::terminal::progress::Console;
use crate::{Outcome, Session};

/// Timed solves of each kind.
const REPEAT: u32 = 3;

/// The methods; the first is the one that the others are compared with.
const METHODS: [(&str, Method); 5] = [
    ("plain", Method::Plain),
    ("auto", Method::Auto),
    ("anderson", Method::Anderson),
    ("active", Method::Active),
    ("ordered", Method::Ordered),
];

/// Sweeps, time and certified error of every solver method on a trained model
///
/// Solves each layer of a model on a dataset from zero by every method, forward and adjoint (with a
/// right-hand side of random signs), all to the same tolerance. Reports sweeps, rows computed, best
/// time, memory beyond the state, and the certified error.
///
/// Methods take turns, so that a disturbance of the machine affects all of them. The exit code is 1
/// if a result differs from that of plain sweeps by more than the certified errors of both allow.
/// "ordered" differs from "plain" only on graphs in which no cycle passes through more than one
/// node.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn bench solve cora.ignn --model runs/cora
  ignn bench solve cora.ignn --model runs/cora --methods plain,auto --repeat 5
  ignn bench solve cora.ignn --model runs/cora --methods auto --repeat 1 --exact
  ignn bench solve cora.ignn --model runs/cora --tolerance 1e-5 --max-sweeps 2000 --json")]
pub struct Solve {
    #[command(flatten)]
    model: ModelArgs,

    /// Timed solves of each kind; the best time is reported
    #[arg(
        long,
        value_name = "N",
        default_value_t = REPEAT,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    repeat: u32,

    /// Only these methods, besides plain sweeps
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        value_parser = METHODS.map(|method| method.0)
    )]
    methods: Vec<String>,

    /// Also solve in f64 and report the true error, and the tight bound that `predict` and `eval`
    /// report with what it costs; takes many times as long
    #[arg(long)]
    exact: bool,
}

/// Sweeps in f64 at most.
const EXACT_SWEEPS: usize = 600;
/// The error of the solution in f64 is at most this part of the one that it measures, where the
/// sweeps suffice.
const EXACT_PART: f64 = 0.02;

/// The errors of a solve, relative to the largest entry of the state.
#[derive(Clone, Copy)]
struct Errors {
    /// Distance from the solution in f64, and how far that can be off.
    truth: [f64; 2],
    /// The bound of the last sweep, and the tight one.
    last_sweep: f64,
    tight: f64,
    at_least: f64,
    estimated: Option<f64>,
    /// Time that the tight bound took, as a part of the solve's.
    cost: f64,
}

/// One method in one direction of a layer.
struct Line {
    layer: usize,
    direction: &'static str,
    method: &'static str,
    info: SolveInfo,
    best: f64,
    memory: u64,
    /// Largest difference from the plain result, and what the two certificates allow.
    difference: f64,
    allowed: Option<f64>,
    errors: Option<Errors>,
}

impl Solve {
    /// Measures and prints.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let console = Console::new(session.quiet);
        let lines = self.measure(session, &console);
        console.finish();
        let lines = lines?;
        if session.json {
            session.print_json(
                &json!({ "solves": lines.iter().map(Line::as_json).collect::<Vec<_>>() }),
            )?;
        } else {
            let errors = if self.exact { errors_as_text(&lines) } else { String::new() };
            session.print(&format!("{}{errors}", as_text(&lines)))?;
        }
        Ok(if lines.iter().all(Line::agrees) { Outcome::Done } else { Outcome::Missed })
    }

    /// Plain sweeps, which the others are compared with, and the methods asked for.
    fn chosen(&self) -> impl Iterator<Item = (&'static str, Method)> {
        let is_asked =
            |name: &str| self.methods.is_empty() || self.methods.iter().any(|m| m == name);
        METHODS
            .into_iter()
            .enumerate()
            .filter(move |(at, m)| *at == 0 || is_asked(m.0))
            .map(|m| m.1)
    }

    fn measure(&self, session: &Session, console: &Console) -> Result<Vec<Line>> {
        let opened = self.model.open()?;
        let operators = opened.operators(&Alone::shared(), console)?;
        let (predictor, _) = opened.predictor(&operators, console)?;
        let (mut model, mut on) = predictor.on_graph();
        // The inputs of all layers, and states for the derivatives.
        on.forward(&mut model, &opened.params(), Mode::Evaluation)?;
        let params = opened.params();
        let adjoint = SolveParams {
            tolerance: opened.model.config.adjoint().tolerance.min(params.tolerance),
            ..params
        };
        let places: Vec<_> = model.layers.iter().map(|layer| layer.at.weights.clone()).collect();
        let mut lines = Vec::new();
        for (layer, (equilibrium, places)) in on.equilibria_mut().zip(places).enumerate() {
            let weights = model.values(&places);
            if weights.is_empty() {
                bail!("the model has no equilibrium to solve");
            }
            fill_signs(session.seed, &mut equilibrium.right);
            for (direction, params) in [("forward", params), ("adjoint", adjoint)] {
                let solve = |equilibrium: &mut Equilibrium, method, tight| {
                    let params = SolveParams { method, tight, ..params };
                    let start = Instant::now();
                    let info = if direction == "forward" {
                        clear(&mut equilibrium.state);
                        equilibrium.solve(&weights, &params)?
                    } else {
                        clear(&mut equilibrium.adjoint);
                        equilibrium.solve_adjoint(&weights, Backward::Exact, &params)?
                    };
                    Ok::<_, anyhow::Error>((info, start.elapsed().as_secs_f64()))
                };
                let result = |equilibrium: &Equilibrium| match direction {
                    "forward" => equilibrium.state.clone(),
                    _ => equilibrium.adjoint.clone(),
                };
                let first = lines.len();
                let mut plain: Option<(Matrix, SolveInfo)> = None;
                let mut reference = None;
                for round in 0..=self.repeat {
                    for (at, (name, method)) in self.chosen().enumerate() {
                        let (info, _) = solve(equilibrium, method, false)?;
                        if round > 0 {
                            let line: &mut Line = &mut lines[first + at];
                            line.best = line.best.min(info.seconds);
                            continue;
                        }
                        // The first solve of each method warms up, and is the one that is verified.
                        let found = result(equilibrium);
                        let (difference, allowed) = match &plain {
                            None => (0.0, info.certified_error.map(|_| 0.0)),
                            Some((state, other)) => {
                                let bounds = info.certified_error.zip(other.certified_error);
                                (
                                    distance(&found, state),
                                    bounds.map(|(a, b)| a.largest + b.largest),
                                )
                            }
                        };
                        let mut errors = None;
                        if self.exact && info.certified_error.is_some() {
                            let (tight, took) = solve(equilibrium, method, true)?;
                            let is_adjoint = direction == "adjoint";
                            if reference.is_none() {
                                console.phase("solve in f64", None, Unit::Items("sweeps"));
                                reference =
                                    equilibrium.reference(is_adjoint, EXACT_PART, EXACT_SWEEPS);
                            }
                            errors = reference.as_ref().and_then(|reference| {
                                Errors::of(reference, &found, &info, &tight, took)
                            });
                        }
                        let (rows, cols) = (found.rows(), found.cols());
                        let is_mixed = info.choice.method == Used::Anderson;
                        let took = SolveParams {
                            method: if is_mixed { Method::Anderson } else { Method::Plain },
                            ..params
                        };
                        let memory = Workspace::bytes(
                            rows,
                            cols,
                            info.contraction.is_none(),
                            took.mixing_buffers(),
                        );
                        let best = f64::INFINITY;
                        lines.push(Line {
                            layer,
                            direction,
                            method: name,
                            info,
                            best,
                            memory,
                            difference,
                            allowed,
                            errors,
                        });
                        plain.get_or_insert((found, info));
                    }
                }
                if let (Some((state, _)), "forward") = (plain, direction) {
                    // All adjoint solves take their derivatives at the same state.
                    equilibrium.state = state;
                }
            }
        }
        Ok(lines)
    }
}

impl Line {
    /// Whether it agrees with plain sweeps, as far as errors are certified.
    fn agrees(&self) -> bool {
        self.allowed.is_none_or(|allowed| self.difference <= allowed)
    }

    fn as_json(&self) -> serde_json::Value {
        json!({
            "layer": self.layer,
            "direction": self.direction,
            "method": self.method,
            "solve": self.info,
            "best_seconds": self.best,
            "memory_bytes": self.memory,
            "difference_from_plain": self.difference,
            "allowed_difference": self.allowed,
            "agrees": self.agrees(),
            "relative_errors": self.errors.map(|errors| json!({
                "true": errors.truth[0],
                "true_within": errors.truth[1],
                "bound_of_last_sweep": errors.last_sweep,
                "tight_bound": errors.tight,
                "at_least": errors.at_least,
                "estimated": errors.estimated,
                "tight_bound_cost": errors.cost,
            })),
        })
    }
}

impl Errors {
    /// The errors of a state, from its solve and from a solve with the tight bound.
    fn of(
        reference: &Reference,
        state: &Matrix,
        info: &SolveInfo,
        tight: &SolveInfo,
        took: f64,
    ) -> Option<Self> {
        let largest = |matrix: &Matrix| {
            matrix.view().padded().iter().fold(0.0f64, |size, x| size.max(f64::from(x.abs())))
        };
        let (size, (last, tight_bound)) =
            (largest(state), info.certified_error.zip(tight.certified_error)?);
        Some(Self {
            truth: [reference.distance(state) / size, reference.error / size],
            last_sweep: last.relative,
            tight: tight_bound.relative,
            at_least: tight_bound.at_least / size,
            estimated: info.estimated_error,
            cost: (took - tight.seconds).max(0.0) / tight.seconds,
        })
    }
}

/// The errors of all lines that have them.
fn errors_as_text(lines: &[Line]) -> String {
    let mut sheet = Sheet::columns(&[
        "layer",
        "solve",
        "method",
        "true error",
        "estimate",
        "last sweep",
        "of true",
        "tight",
        "of true",
        "cost",
    ]);
    for line in lines {
        let Some(errors) = line.errors else { continue };
        let Errors { truth: [truth, within], .. } = errors;
        let ratio = |bound: f64| format!("{:.3}", bound / truth);
        sheet.row([
            line.layer.to_string(),
            line.direction.into(),
            line.method.into(),
            format!("{truth:.1e} +- {within:.0e}"),
            errors.estimated.map_or("-".into(), |estimate| format!("{estimate:.1e}")),
            format!("{:.1e}", errors.last_sweep),
            ratio(errors.last_sweep),
            format!("{:.1e}", errors.tight),
            ratio(errors.tight),
            format!("{:.2}", errors.cost),
        ]);
    }
    format!("\nErrors, relative to the largest entry of the state:\n{}", sheet.render())
}

fn as_text(lines: &[Line]) -> String {
    let mut sheet = Sheet::columns(&[
        "layer", "solve", "method", "took", "sweeps", "rows", "best", "of plain", "memory",
        "error", "agrees",
    ]);
    let mut plain = f64::NAN;
    for line in lines {
        if line.method == "plain" {
            plain = line.best;
        }
        let info = &line.info;
        let word = |value: serde_json::Value| value.as_str().unwrap_or_default().replace('_', " ");
        let took = serde_json::to_value(info.choice.method).map(word).unwrap_or_default();
        let error = match info.certified_error {
            Some(error) => format!("{:.1e}", error.largest),
            None => "not certified".into(),
        };
        let sweeps = if info.converged {
            info.sweeps.to_string()
        } else {
            format!("{}, not converged", info.sweeps)
        };
        sheet.row([
            line.layer.to_string(),
            line.direction.into(),
            line.method.into(),
            took,
            sweeps,
            quantity::count(info.row_updates),
            quantity::seconds(line.best),
            format!("{:.2}", line.best / plain),
            quantity::bytes(line.memory),
            error,
            if line.agrees() {
                "yes".into()
            } else {
                format!("no: off by {:.1e}", line.difference)
            },
        ]);
    }
    sheet.render()
}

fn clear(matrix: &mut Matrix) {
    matrix.view_mut().padded_mut().fill(0.0);
}

/// Random signs, the same for the same seed.
fn fill_signs(seed: u64, matrix: &mut Matrix) {
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    for row in 0..matrix.rows() {
        for x in matrix.row_mut(row) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *x = if state >> 63 == 0 { 1.0 } else { -1.0 };
        }
    }
}

/// The largest difference; infinite where something is not a number.
fn distance(a: &Matrix, b: &Matrix) -> f64 {
    let pairs = a.view().padded().iter().zip(b.view().padded());
    let differences = pairs.map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs());
    differences.fold(0.0, |worst, one| if one.is_nan() { f64::INFINITY } else { worst.max(one) })
}
