//! `ignn bench sweep`: the time of a forward and of an adjoint sweep over a dataset, against the
//! machine's roofline. It measures and verifies; a slow result is never an error.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use ignn::dense::{Matrix, MatrixMut, stride};
use ignn::graph::Dataset;
use ignn::kernels::sweep::{self, SweepScratch};
use ignn::kernels::{
    Activation, AdjacencyRef, Derivative, Isa, Norm, PackedWeights, Relations, Signs,
};
use ignn::parallel::{RowBlocks, with_threads};
use ignn::report::quantity;
use ignn::report::sheet::Sheet;
use serde_json::json;

use super::roofline::{self, Need};
use crate::{Outcome, Session, machine};

/// Width of the state.
const STATE: u16 = 128;
/// Timed sweeps of each kind and number of threads.
const REPEAT: u32 = 10;
/// Rows that the verifier computes again.
const SAMPLE: usize = 500;
/// Largest difference from the verifier, relative to the largest entry.
const TOLERANCE: f64 = 1e-4;

/// Nanoseconds per non-zero of the fused sweep, forward and adjoint
///
/// Runs X' = phi(A^T X W^T + B) and its adjoint G' = D * (A G W + R) over all relations of a
/// dataset, with random X, W and B, and reports the best and the median time, GFLOP/s, GB/s of
/// compulsory traffic (every array once), this machine's copy bandwidth and in-cache product rate
/// measured in the same run, and how near the sweep comes to the larger of the two floors; then the
/// same for fewer threads. Before that, a sample of rows is computed again by plain loops in f64.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn bench sweep graph.ignn
  ignn bench sweep graph.ignn --state 64 --activation tanh --json
  IGNN_SIMD=avx2 ignn bench sweep graph.ignn --threads 4")]
pub struct Sweep {
    /// The dataset
    #[arg(value_name = "DIR")]
    dataset: PathBuf,

    /// Width of the state
    #[arg(long, value_name = "M", default_value_t = STATE, value_parser = clap::value_parser!(u16).range(1..=2048))]
    state: u16,

    /// The activation
    #[arg(long, value_enum, default_value_t = Phi::Relu)]
    activation: Phi,

    /// Sweeps of each kind; best and median are reported
    #[arg(long, value_name = "N", default_value_t = REPEAT, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,

    /// Gathers every row by itself, also where rows repeat: to see what sharing them saves
    #[arg(long)]
    unshared: bool,
}

/// An activation by its name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Phi {
    Identity,
    Relu,
    LeakyRelu,
    Tanh,
    Sigmoid,
    Elu,
}

impl From<Phi> for Activation {
    fn from(phi: Phi) -> Self {
        match phi {
            Phi::Identity => Self::Identity,
            Phi::Relu => Self::Relu,
            Phi::LeakyRelu => Self::LeakyRelu(0.01),
            Phi::Tanh => Self::Tanh,
            Phi::Sigmoid => Self::Sigmoid,
            Phi::Elu => Self::Elu,
        }
    }
}

/// The parts of both sweeps.
struct Bench<'a> {
    incoming: &'a [AdjacencyRef<'a>],
    outgoing: &'a [AdjacencyRef<'a>],
    w: &'a [Matrix],
    input: Matrix,
    /// X of the forward sweep, G of the adjoint.
    from: Matrix,
    activation: Activation,
    signs: Signs,
    /// The equilibrium of an activation whose derivative is recomputed from it.
    equilibrium: Option<Matrix>,
    repeat: u32,
}

/// Times of one kind of sweep.
#[derive(Clone, Copy)]
struct Times {
    best: f64,
    median: f64,
}

impl Sweep {
    /// Measures and prints.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        let place = || self.dataset.display().to_string();
        let dataset = Dataset::open(&self.dataset)?;
        let relations = Relations::from(dataset.relations()?);
        if relations.is_empty() || dataset.manifest().nodes == 0 {
            bail!("{}: no nodes or no relations: nothing to sweep over", place());
        }
        let operators =
            if self.unshared { relations.unshared_operators() } else { relations.operators() };
        let (incoming, outgoing) = operators.with_context(place)?;
        let (nodes, width) = (incoming[0].rows(), usize::from(self.state));
        let needed = 4 * (nodes as u64).saturating_mul((stride(width) * size_of::<f32>()) as u64);
        if needed > machine::memory() {
            let (needed, has) = (quantity::bytes(needed), quantity::bytes(machine::memory()));
            bail!(
                "a state of width {width} needs {needed}, and this machine has {has}: try a smaller --state"
            );
        }

        let mut random = session.seed;
        let w =
            relations.iter().map(|_| random_matrix(&mut random, width, width, 1.0 / width as f32));
        let w: Vec<Matrix> = w.collect();
        let activation = Activation::from(self.activation);
        let recomputes = activation.slope_below().is_none() && activation != Activation::Identity;
        let mut bench = Bench {
            incoming: &incoming,
            outgoing: &outgoing,
            w: &w,
            input: random_matrix(&mut random, nodes, width, 1.0),
            from: random_matrix(&mut random, nodes, width, 1.0),
            activation,
            signs: Signs::new(nodes, width),
            equilibrium: recomputes.then(|| random_matrix(&mut random, nodes, width, 1.0)),
            repeat: self.repeat,
        };
        bench.signs.record(&RowBlocks::balanced(nodes, &[], 64), bench.from.view());
        let mut to = Matrix::zeros(nodes, width);
        let error = bench.verify(&mut to);
        let counts: Vec<usize> = (1..=session.threads)
            .filter(|&n| n.is_power_of_two() || n == session.threads)
            .collect();
        // Before and after the sweeps: on a shared machine either may come at a bad moment.
        let before =
            (roofline::copy_bandwidth(session.threads), roofline::product_rate(session.threads));
        let scaling: Vec<_> =
            counts.iter().map(|&threads| (threads, bench.measure(threads, &mut to))).collect();
        let result = Measured {
            nodes,
            width,
            nonzeros: incoming.iter().map(AdjacencyRef::nonzeros).sum(),
            activation: self.activation,
            forward_need: Need::new(nodes, &sizes(&incoming), width, 0),
            adjoint_need: Need::new(nodes, &sizes(&outgoing), width, bench.derivative_bytes()),
            scaling,
            copy: before.0.max(roofline::copy_bandwidth(session.threads)),
            product: before.1.max(roofline::product_rate(session.threads)),
            error,
        };
        if session.json {
            session.print_json(&result.as_json())?;
        } else {
            session.print(&result.as_text())?;
        }
        Ok(if result.is_verified() { Outcome::Done } else { Outcome::Missed })
    }
}

impl Bench<'_> {
    fn derivative(&self) -> Derivative<'_> {
        match (self.activation.slope_below(), &self.equilibrium) {
            (Some(slope), _) => Derivative::Signs { signs: &self.signs, slope },
            (None, Some(state)) => {
                Derivative::State { activation: self.activation, state: state.view() }
            }
            (None, None) => Derivative::One,
        }
    }

    fn derivative_bytes(&self) -> usize {
        match self.derivative() {
            Derivative::One => 0,
            Derivative::Signs { signs, .. } => {
                signs.rows() * signs.words_per_row() * size_of::<u16>()
            }
            Derivative::State { state, .. } | Derivative::Matrix(state) => {
                size_of_val(state.padded())
            }
        }
    }

    /// Calls `work` with everything that either sweep needs.
    fn with_sweeps<R>(&self, work: impl FnOnce(sweep::Sweep<'_>, sweep::Sweep<'_>) -> R) -> R {
        let forward: Vec<_> = self.w.iter().map(|w| PackedWeights::forward(w.view())).collect();
        let adjoint: Vec<_> = self.w.iter().map(|w| PackedWeights::adjoint(w.view())).collect();
        let forward = sweep::terms(self.incoming, &forward);
        let adjoint = sweep::terms(self.outgoing, &adjoint);
        let (forward_blocks, adjoint_blocks) = (sweep::blocks(&forward), sweep::blocks(&adjoint));
        let scratch = SweepScratch::new(&forward);
        let input = self.input.view();
        work(
            sweep::Sweep { blocks: &forward_blocks, terms: &forward, input, scratch: &scratch },
            sweep::Sweep { blocks: &adjoint_blocks, terms: &adjoint, input, scratch: &scratch },
        )
    }

    /// Best and median of both sweeps, which take turns: what disturbs the machine disturbs both.
    fn measure(&self, threads: usize, to: &mut Matrix) -> (Times, Times) {
        with_threads(threads, || {
            self.with_sweeps(|forward, adjoint| {
                let (mut forward_times, mut adjoint_times) = (Vec::new(), Vec::new());
                // The first of each is for the caches and the branch predictor.
                for _ in 0..=self.repeat {
                    forward_times.push(time(to.view_mut(), |to| {
                        forward.forward(self.activation, Norm::default(), self.from.view(), to);
                    }));
                    adjoint_times.push(time(to.view_mut(), |to| {
                        adjoint.adjoint(self.derivative(), Norm::default(), self.from.view(), to);
                    }));
                }
                (Times::of(&mut forward_times[1..]), Times::of(&mut adjoint_times[1..]))
            })
        })
    }

    /// The largest difference of a sample of rows from plain loops in f64, relative to the largest
    /// entry; infinite where something is not a number.
    fn verify(&self, to: &mut Matrix) -> f64 {
        let nodes = self.from.rows();
        let heaviest = |a: &AdjacencyRef<'_>| (0..nodes).max_by_key(|&i| a.range(i).len());
        let mut sample: Vec<usize> = (0..nodes).step_by((nodes / SAMPLE).max(1)).collect();
        sample.extend(self.incoming.iter().chain(self.outgoing).filter_map(heaviest));
        self.with_sweeps(|forward, adjoint| {
            let mut worst = 0.0f64;
            let change =
                forward.forward(self.activation, Norm::default(), self.from.view(), to.view_mut());
            for &i in &sample {
                let z = self.plain_row(self.incoming, i, |w, k, l| w.row(k)[l]);
                let expected = z.iter().map(|&z| f64::from(self.activation.value(z as f32)));
                worst = worst.max(difference(to.row(i), expected));
            }
            let other = adjoint.adjoint(
                self.derivative(),
                Norm::default(),
                self.from.view(),
                to.view_mut(),
            );
            for &i in &sample {
                let z = self.plain_row(self.outgoing, i, |w, k, l| w.row(l)[k]);
                let expected =
                    z.iter().enumerate().map(|(k, &z)| z * f64::from(self.derivative().at(i, k)));
                worst = worst.max(difference(to.row(i), expected));
            }
            let largest = f64::from(change.state.max(other.state)).max(1e-30);
            if change.finite && other.finite { worst / largest } else { f64::INFINITY }
        })
    }

    /// Row i of the product before activation or derivative; `weight(w, k, l)` takes column l to
    /// column k.
    fn plain_row(
        &self,
        adjacency: &[AdjacencyRef<'_>],
        i: usize,
        weight: impl Fn(&Matrix, usize, usize) -> f32,
    ) -> Vec<f64> {
        let mut z: Vec<f64> = self.input.row(i).iter().map(|&b| f64::from(b)).collect();
        for (adjacency, w) in adjacency.iter().zip(self.w) {
            let mut gathered = vec![0.0; z.len()];
            for (j, value) in adjacency.entries(i) {
                for (sum, &x) in gathered.iter_mut().zip(self.from.row(j)) {
                    *sum += f64::from(value) * f64::from(x);
                }
            }
            for (k, z) in z.iter_mut().enumerate() {
                *z += gathered
                    .iter()
                    .enumerate()
                    .map(|(l, s)| s * f64::from(weight(w, k, l)))
                    .sum::<f64>();
            }
        }
        z
    }
}

/// The largest difference; infinite where something is not a number, which `f64::max` would hide.
fn difference(found: &[f32], expected: impl Iterator<Item = f64>) -> f64 {
    let differences =
        found.iter().zip(expected).map(|(&found, expected)| (f64::from(found) - expected).abs());
    differences.fold(0.0, |worst, one| if one.is_nan() { f64::INFINITY } else { worst.max(one) })
}

/// Non-zeros and bytes of each relation.
fn sizes(adjacency: &[AdjacencyRef<'_>]) -> Vec<(usize, usize)> {
    let size = |a: &AdjacencyRef<'_>| {
        let scale = a.gather_scale().or(a.row_scale());
        let bytes = size_of_val(a.offsets()) + size_of_val(a.neighbours());
        (a.nonzeros(), bytes + a.values().map_or(0, size_of_val) + scale.map_or(0, size_of_val))
    };
    adjacency.iter().map(size).collect()
}

fn time(to: MatrixMut<'_>, work: impl FnOnce(MatrixMut<'_>)) -> f64 {
    let started = Instant::now();
    work(to);
    started.elapsed().as_secs_f64().max(1e-9)
}

impl Times {
    fn of(times: &mut [f64]) -> Self {
        times.sort_by(f64::total_cmp);
        Self { best: times[0], median: times[times.len() / 2] }
    }
}

/// Entries in [-size, size), the same for the same seed; written in parallel, by the threads that
/// will read.
fn random_matrix(seed: &mut u64, rows: usize, cols: usize, size: f32) -> Matrix {
    *seed = seed.wrapping_add(1);
    let mut matrix = Matrix::zeros(rows, cols);
    let blocks = RowBlocks::balanced(rows, &[], cols as u64);
    let fill = |_, range: std::ops::Range<usize>, mut part: MatrixMut<'_>| {
        for (at, row) in range.enumerate() {
            let mut state = (*seed << 40) ^ row as u64;
            for x in part.row_mut(at) {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                *x = ((state >> 40) as f32 / (1u64 << 23) as f32 - 1.0) * size;
            }
        }
    };
    blocks.run(matrix.view_mut(), MatrixMut::split_at, fill, |(), ()| ());
    matrix
}

struct Measured {
    nodes: usize,
    width: usize,
    nonzeros: usize,
    activation: Phi,
    forward_need: Need,
    adjoint_need: Need,
    /// Threads, forward, adjoint.
    scaling: Vec<(usize, (Times, Times))>,
    copy: f64,
    product: f64,
    error: f64,
}

impl Measured {
    fn is_verified(&self) -> bool {
        self.error <= TOLERANCE
    }

    /// Times with all threads: the last measured.
    fn best(&self) -> (Times, Times) {
        self.scaling[self.scaling.len() - 1].1
    }

    fn as_text(&self) -> String {
        let milliseconds = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
        let (forward, adjoint) = self.best();
        let mut sweeps = Sheet::columns(&[
            "sweep",
            "best",
            "median",
            "ns/non-zero",
            "GFLOP/s",
            "GB/s",
            "of roofline",
        ]);
        for (name, times, need) in
            [("forward", forward, self.forward_need), ("adjoint", adjoint, self.adjoint_need)]
        {
            sweeps.row([
                name.to_string(),
                milliseconds(times.best),
                milliseconds(times.median),
                format!("{:.2}", times.best * 1e9 / self.nonzeros.max(1) as f64),
                format!("{:.1}", need.operations / times.best / 1e9),
                format!("{:.2}", need.bytes / times.best / 1e9),
                format!("{:.0} %", 100.0 * need.floor(self.product, self.copy) / times.best),
            ]);
        }
        let mut scaling = Sheet::columns(&["threads", "forward", "adjoint", "times one thread"]);
        let one = self.scaling[0].1.0.best;
        for (threads, (forward, adjoint)) in &self.scaling {
            let gain = format!("{:.2}", one / forward.best);
            let times = [milliseconds(forward.best), milliseconds(adjoint.best)];
            let [forward, adjoint] = times;
            scaling.row([threads.to_string(), forward, adjoint, gain]);
        }
        let mut facts = Sheet::pairs();
        let shape = format!(
            "{} nodes, {} non-zeros, width {}, {:?}",
            quantity::count(self.nodes as u64),
            quantity::count(self.nonzeros as u64),
            self.width,
            self.activation
        );
        facts.row(["graph and state".to_string(), shape]);
        facts.row(["instruction set".to_string(), Isa::chosen().name().to_string()]);
        facts.row([
            "copy of this machine".to_string(),
            format!("{:.1} GB/s read and written", self.copy / 1e9),
        ]);
        facts.row(["product in cache".to_string(), format!("{:.1} GFLOP/s", self.product / 1e9)]);
        facts.row(["adjoint / forward".to_string(), format!("{:.2}", adjoint.best / forward.best)]);
        let verified = if self.is_verified() { "yes" } else { "WRONG" };
        let verified = format!(
            "{verified}: off by {:.1e} of the largest entry from plain loops in f64",
            self.error
        );
        facts.row(["verified".to_string(), verified]);
        format!("{}\n{}\n{}", sweeps.render(), scaling.render(), facts.render())
    }

    fn as_json(&self) -> serde_json::Value {
        let sweep = |times: Times, need: Need| {
            json!({
                "best_seconds": times.best,
                "median_seconds": times.median,
                "ns_per_nonzero": times.best * 1e9 / self.nonzeros.max(1) as f64,
                "flops": need.operations / times.best,
                "compulsory_bytes": need.bytes,
                "bytes_per_second": need.bytes / times.best,
                "roofline_fraction": need.floor(self.product, self.copy) / times.best,
            })
        };
        let (forward, adjoint) = self.best();
        let scaling = self.scaling.iter().map(|(threads, (forward, adjoint))| {
            json!({"threads": threads, "forward_seconds": forward.best, "adjoint_seconds": adjoint.best})
        });
        json!({
            "nodes": self.nodes,
            "nonzeros": self.nonzeros,
            "width": self.width,
            "activation": format!("{:?}", self.activation).to_lowercase(),
            "simd": Isa::chosen().name(),
            "forward": sweep(forward, self.forward_need),
            "adjoint": sweep(adjoint, self.adjoint_need),
            "scaling": scaling.collect::<Vec<_>>(),
            "copy_bytes_per_second": self.copy,
            "product_flops": self.product,
            "relative_error": self.error,
            "verified": self.is_verified(),
        })
    }
}
