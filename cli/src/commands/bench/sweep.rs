//! `ignn bench sweep`: the time of a forward and of an adjoint sweep over a dataset, against the
//! machine's roofline. It measures and verifies; a slow result is never an error.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use ignn::dense::{Matrix, MatrixMut, stride};
use ignn::kernels::sweep::balance::longest_wait;
use ignn::kernels::sweep::{self, SweepScratch};
use ignn::kernels::{
    Activation, Adjacency, AdjacencyRef, Derivative, Isa, Lockstep, Norm, PackedWeights, Signs,
    views,
};
use ignn::parallel::{RowBlocks, with_threads};
use ignn::report::quantity;
use ignn::report::sheet::Sheet;
use ignn_ingest::{Observer, Unit};
use rayon::prelude::*;
use serde_json::json;

use super::bounds::{Bounds, Cost};
use super::roofline::{Need, Rates, Roof, sizes};
use crate::options::verification::Verification;
use crate::terminal::progress::Console;
use crate::{Outcome, Session, machine};

/// Width of the state.
const STATE: u16 = 128;
/// Timed sweeps of each kind and number of threads.
const REPEAT: u32 = 12;
/// Those that follow each other, after one that is not timed.
const IN_A_ROW: usize = 3;
/// Seconds of all measurements together.
const SECONDS: f64 = 30.0;
/// Share of them for sweeps on all threads; the rest is for fewer threads.
const SHARE: f64 = 0.6;
/// Maximum number of extra rounds of the roof, if a sweep was faster than the measured roof.
const ROOF_ROUNDS: usize = 20;
/// Rounds of the roof if a single round of sweeps takes longer than the time for all rounds.
const SLOW_ROUNDS: usize = 5;
/// Rows that the verifier computes again, at most, and multiply-adds that it spends on them.
const SAMPLE: usize = 4000;
const VERIFIED_WORK: usize = 1 << 31;
/// Rows of the highest degree among them, at most.
const HUBS: usize = 32;
/// Threads among which the work of a sweep is divided to see how even it is.
const MANY_THREADS: usize = 64;
/// Largest difference from the verifier, relative to the largest entry.
pub(super) const TOLERANCE: f64 = 1e-4;

/// Nanoseconds per non-zero of the fused sweep, forward and adjoint
///
/// Runs X' = phi(A^T X W^T + B) and its adjoint G' = D * (A G W + R) over all relations of a
/// dataset, with random X, W and B, and reports best and median time, GFLOP/s, and GB/s of
/// compulsory traffic (every array once).
///
/// The roofline is measured in the same run, alternating with the sweeps: arithmetic (the best of
/// fused multiply-adds in registers, our product and that of the crate matrixmultiply) and memory
/// traffic (the best of reading, copying and adding states). The table shows both, which of them
/// is the limit, and how close the sweep comes to it. For comparison it also shows how long
/// gathering would take if every row were read from a random place in memory and never from a
/// cache.
///
/// `--state` takes several widths, separated by commas. The output is then one table with a row per
/// width: times, nanoseconds per non-zero, and two roofs, the time to stream every array once and
/// the time to read every gathered row from a random place in lines of 64 bytes.
///
/// Under `mpirun` every rank sweeps over its own rows. The table then has the times of a sweep and of the
/// exchange that follows it, and the bytes that were sent, against those that `ignn inspect --ranks`
/// plans.
///
/// Before timing, several thousand rows, including those of the highest degree, are computed again
/// by plain loops in f64; if they differ, the exit code is 1. The command takes at most about a
/// minute on any graph: repeats, and runs on fewer threads, end when the time is used up.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ignn bench sweep graph.ignn
  ignn bench sweep graph.ignn --state 64 --activation tanh --json
  ignn bench sweep graph.ignn --state 1,4,16,64,128
  mpirun -n 2 ignn bench sweep graph.ignn --state 64,128
  IGNN_SIMD=avx2 ignn bench sweep graph.ignn --threads 4 --seconds 10")]
pub struct Sweep {
    /// The dataset
    #[arg(value_name = "DIR")]
    pub(super) dataset: PathBuf,

    /// Width of the state, or several widths for a table
    #[arg(
        long,
        value_name = "M",
        default_values_t = [STATE],
        value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=2048)
    )]
    pub(super) state: Vec<u16>,

    /// The activation
    #[arg(long, value_enum, default_value_t = Phi::Relu)]
    pub(super) activation: Phi,

    /// Sweeps of each kind and number of threads at most; best and median are reported
    #[arg(
        long,
        value_name = "N",
        default_value_t = REPEAT,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub(super) repeat: u32,

    /// Approximate seconds of measurement; one sweep of each kind is always timed
    #[arg(long, value_name = "S", default_value_t = SECONDS, value_parser = seconds)]
    pub(super) seconds: f64,

    /// Gather every row separately, even if rows are identical, to measure what sharing them saves
    #[arg(long)]
    pub(super) unshared: bool,

    /// Also measure what the bounds before a solve cost: the spectral bound and a certificate
    #[arg(long)]
    pub(super) bounds: bool,

    #[command(flatten)]
    pub(super) verification: Verification,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value >= 0.0 && value.is_finite() => Ok(value),
        _ => Err("not a number of seconds".into()),
    }
}

/// An activation by its name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Phi {
    Identity,
    Relu,
    LeakyRelu,
    Tanh,
    Sigmoid,
    Elu,
}

impl Phi {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().into())
    }
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
}

/// Times of one kind of sweep.
#[derive(Clone, Copy, Debug)]
struct Times {
    best: f64,
    median: f64,
    runs: usize,
}

/// The operators with copies of their entries, which sweeps over narrow states gather by.
struct Copies {
    sides: [Vec<Adjacency>; 2],
    bytes: usize,
    seconds: f64,
}

impl Copies {
    fn of(sides: [&[Adjacency]; 2], threads: usize) -> Self {
        let started = Instant::now();
        let copied = with_threads(threads, || Adjacency::in_lockstep(sides));
        let seconds = started.elapsed().as_secs_f64();
        let bytes = |side: &[Adjacency]| side.iter().map(Adjacency::copied_bytes).sum::<usize>();
        let is_stored_once = sides[0].iter().zip(sides[1]).all(|(a, b)| a.is_stored_with(b));
        let other = if is_stored_once { 0 } else { bytes(&copied[1]) };
        Self { bytes: bytes(&copied[0]) + other, seconds, sides: copied }
    }
}

/// What verification found.
struct Verified {
    rows: usize,
    /// Largest difference relative to the largest entry; infinite where something is not a number.
    error: f64,
    /// Of the forward and of the adjoint sweep that were verified, the first ones.
    seconds: [f64; 2],
}

impl Sweep {
    /// Measures and prints.
    pub fn run(self, session: &Session) -> Result<Outcome> {
        if !session.ranks.is_alone() {
            return self.run_on_ranks(session);
        }
        let console = Console::new(session.quiet);
        let result = self.measure(session, &console);
        console.finish();
        let results = result?;
        match (&results[..], session.json) {
            ([one], true) => session.print_json(&one.as_json())?,
            ([one], false) => session.print(&one.as_text())?,
            (all, true) => {
                let widths: Vec<_> = all.iter().map(Measured::as_json).collect();
                session.print_json(&json!({ "widths": widths }))?;
            }
            (all, false) => session.print(&table(all))?,
        }
        let is_verified = results.iter().all(Measured::is_verified);
        Ok(if is_verified { Outcome::Done } else { Outcome::Missed })
    }

    /// One result per width.
    fn measure(&self, session: &Session, console: &Console) -> Result<Vec<Measured>> {
        let place = || self.dataset.display().to_string();
        console.phase("open the graph", None, Unit::Edges);
        let dataset = self.verification.open(&self.dataset)?;
        let relations = dataset.relations()?;
        if relations.is_empty() || dataset.manifest().nodes == 0 {
            bail!("{}: no nodes or no relations: nothing to sweep over", place());
        }
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        for sides in relations.iter().map(Adjacency::of) {
            let [a, b] =
                if self.unshared { sides.map(Adjacency::without_shared_rows) } else { sides };
            forward.push(a);
            backward.push(b);
        }
        let copied = self.state.iter().any(|&width| Lockstep::serves(width.into())).then(|| {
            console.phase("copy the entries", None, Unit::Edges);
            Copies::of([&forward[..], &backward[..]], session.threads)
        });
        let bounds = self.bounds.then(|| {
            console.phase("bound the spectral radius", None, Unit::Edges);
            with_threads(session.threads, || Bounds::of(&forward, &backward))
        });
        let seconds = self.seconds / self.state.len() as f64;
        let widths = self.state.iter().map(|&width| usize::from(width));
        let measure = |width| {
            let copied = copied.as_ref().filter(|_| Lockstep::serves(width));
            let sides = copied.map_or([&forward, &backward], |copied| copied.sides.each_ref());
            let sides = sides.map(|side| views(side));
            let found =
                self.measure_width(session, console, (&sides, bounds.as_ref()), width, seconds)?;
            Ok(Measured { copied: copied.map(|copied| (copied.bytes, copied.seconds)), ..found })
        };
        widths.map(measure).collect()
    }

    fn measure_width(
        &self,
        session: &Session,
        console: &Console,
        ([incoming, outgoing], bounds): (&[Vec<AdjacencyRef<'_>>; 2], Option<&Bounds>),
        width: usize,
        seconds: f64,
    ) -> Result<Measured> {
        let nodes = incoming[0].rows();
        let needed = 4 * (nodes as u64).saturating_mul((stride(width) * size_of::<f32>()) as u64);
        if needed > machine::memory() {
            let (needed, has) = (quantity::bytes(needed), quantity::bytes(machine::memory()));
            bail!(
                "a state of width {width} needs {needed}, and this machine has {has}: \
                 try a smaller --state"
            );
        }

        console.phase("fill the states", None, Unit::Items("rows"));
        let mut random = session.seed;
        let w =
            incoming.iter().map(|_| random_matrix(&mut random, width, width, 1.0 / width as f32));
        let w: Vec<Matrix> = w.collect();
        let activation = Activation::from(self.activation);
        let recomputes = activation.slope_below().is_none() && activation != Activation::Identity;
        let mut bench = Bench {
            incoming,
            outgoing,
            w: &w,
            input: random_matrix(&mut random, nodes, width, 1.0),
            from: random_matrix(&mut random, nodes, width, 1.0),
            activation,
            signs: Signs::new(nodes, width),
            equilibrium: recomputes.then(|| random_matrix(&mut random, nodes, width, 1.0)),
        };
        bench.signs.record(bench.from.view());
        let mut to = Matrix::zeros(nodes, width);

        console.phase("verify", None, Unit::Items("rows"));
        let verified = bench.verify(&mut to);
        console.advance(verified.rows as u64);

        let needs = [
            Need::new(nodes, &sizes(incoming), width, 0),
            Need::new(nodes, &sizes(outgoing), width, bench.derivative_bytes()),
        ];
        let started = Instant::now();
        let mut roof = Roof::new(session.threads);
        let mut scaling = vec![(
            session.threads,
            self.all_threads(&bench, &mut to, &mut roof, (needs, &verified), seconds, console),
        )];
        // Fewer threads, while there is time: a round on t threads takes about 1 / t as long as
        // one on a single thread.
        let one = verified.seconds.iter().sum::<f64>() * session.threads as f64;
        let fewer = (1..session.threads).filter(|count| count.is_power_of_two()).rev();
        for threads in fewer {
            let left = seconds - started.elapsed().as_secs_f64();
            if one / threads as f64 > left {
                console.note(&format!(
                    "no time left for fewer than {} threads: raise --seconds",
                    threads + 1
                ));
                break;
            }
            console.phase(&thread_words(threads), None, Unit::Items("sweeps"));
            let times = with_threads(threads, || {
                bench.measure(self.repeat, left / 2.0, &mut to, console, |_| ())
            });
            scaling.insert(0, (threads, times));
        }
        let cost = bounds.map(|bounds| {
            console.phase("search for a certificate", None, Unit::Edges);
            with_threads(session.threads, || bounds.certify(&w, activation))
        });
        let wait =
            bench.with_sweeps(|sweep, _| longest_wait(sweep.terms, sweep.blocks, MANY_THREADS));
        Ok(Measured {
            copied: None,
            cost,
            wait,
            nodes,
            width,
            nonzeros: incoming.iter().map(AdjacencyRef::nonzeros).sum(),
            activation: self.activation,
            needs,
            scaling,
            rates: roof.rates,
            verified,
        })
    }

    /// Sweeps on all threads, in turn with the roof.
    fn all_threads(
        &self,
        bench: &Bench<'_>,
        to: &mut Matrix,
        roof: &mut Roof,
        (needs, verified): ([Need; 2], &Verified),
        seconds: f64,
        console: &Console,
    ) -> [Times; 2] {
        let threads = roof.threads();
        console.phase(&format!("{} and roof", thread_words(threads)), None, Unit::Items("sweeps"));
        with_threads(threads, || {
            let seconds = SHARE * seconds;
            let times = if verified.seconds.iter().sum::<f64>() > seconds {
                // There is no time for another round: the times of the verified sweeps count.
                (0..SLOW_ROUNDS).for_each(|_| roof.measure(&bench.from, &bench.input, to));
                verified.seconds.map(|seconds| Times::of(&[seconds]))
            } else {
                bench.measure(self.repeat, seconds, to, console, |to| {
                    roof.measure(&bench.from, &bench.input, to);
                })
            };
            // A sweep above the roof proves that the roof was disturbed while it was measured.
            for _ in 0..ROOF_ROUNDS {
                let is_above =
                    |(need, times): (&Need, &Times)| need.floor(&roof.rates) > times.best;
                if !needs.iter().zip(&times).any(is_above) {
                    break;
                }
                roof.measure(&bench.from, &bench.input, to);
            }
            times
        })
    }
}

/// `sweeps on 2 threads`.
fn thread_words(threads: usize) -> String {
    format!("sweeps on {}", quantity::plural(threads as u64, "thread", "threads"))
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
            Derivative::Signs { signs, .. } => size_of_val(signs.words()),
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
        let input = self.input.view().into();
        work(
            sweep::Sweep { blocks: &forward_blocks, terms: &forward, input, scratch: &scratch },
            sweep::Sweep { blocks: &adjoint_blocks, terms: &adjoint, input, scratch: &scratch },
        )
    }

    /// Best and median of both sweeps in the pool of the caller: at most `repeat` of each, fewer
    /// where `seconds` are over. They take turns, with `between` too, so that what disturbs the
    /// machine disturbs all of them.
    fn measure(
        &self,
        repeat: u32,
        seconds: f64,
        to: &mut Matrix,
        console: &Console,
        mut between: impl FnMut(&mut Matrix),
    ) -> [Times; 2] {
        self.with_sweeps(|forward, adjoint| {
            let (norm, from) = (Norm::default(), self.from.view());
            let (started, mut all) = (Instant::now(), [Vec::new(), Vec::new()]);
            let repeat = repeat as usize;
            for round in 0..=repeat.div_ceil(IN_A_ROW) {
                let spent = started.elapsed().as_secs_f64();
                // Where there is no time for a second round, the first one counts.
                if round > 0 && spent * (round + 1) as f64 / round as f64 > seconds {
                    break;
                }
                between(to);
                // As in a solve, a sweep follows another one: the first one finds the caches as
                // others left them, and is not counted.
                let mut sweeps = |times: &mut Vec<f64>, sweep: &dyn Fn(MatrixMut<'_>)| {
                    let first = time(to.view_mut(), sweep);
                    if round == 0 {
                        return times.push(first);
                    }
                    let more = IN_A_ROW.min(repeat + 1 - times.len());
                    times.extend((0..more).map(|_| time(to.view_mut(), sweep)));
                };
                sweeps(&mut all[0], &|to| {
                    forward.forward(self.activation, norm, from, to);
                });
                sweeps(&mut all[1], &|to| {
                    adjoint.adjoint(self.derivative(), norm, from, to);
                });
                console.advance(2);
            }
            all.map(|times| Times::of(if times.len() > 1 { &times[1..] } else { &times }))
        })
    }

    /// Compares a sample of rows with plain loops in f64.
    fn verify(&self, to: &mut Matrix) -> Verified {
        let sides = [self.incoming, self.outgoing].map(|side| self.sample(side));
        self.with_sweeps(|forward, adjoint| {
            let (norm, from, started) = (Norm::default(), self.from.view(), Instant::now());
            let change = forward.forward(self.activation, norm, from, to.view_mut());
            let forward_seconds = started.elapsed().as_secs_f64();
            let largest = |rows: &[usize], row: &(dyn Fn(usize) -> f64 + Sync)| {
                rows.par_iter().map(|&i| row(i)).reduce(|| 0.0, f64::max)
            };
            let result = &*to;
            let worst_forward = largest(&sides[0], &|i| {
                let z = self.plain_row(self.incoming, i, |w, k, l| w.row(k)[l]);
                let expected = z.iter().map(|&z| f64::from(self.activation.value(z as f32)));
                difference(result.row(i), expected)
            });
            let started = Instant::now();
            let other = adjoint.adjoint(self.derivative(), norm, from, to.view_mut());
            let adjoint_seconds = started.elapsed().as_secs_f64();
            let result = &*to;
            let worst_adjoint = largest(&sides[1], &|i| {
                let z = self.plain_row(self.outgoing, i, |w, k, l| w.row(l)[k]);
                let expected =
                    z.iter().enumerate().map(|(k, &z)| z * f64::from(self.derivative().at(i, k)));
                difference(result.row(i), expected)
            });
            let scale = f64::from(change.state.max(other.state)).max(1e-30);
            let is_finite = change.finite && other.finite;
            let error = worst_forward.max(worst_adjoint) / scale;
            Verified {
                rows: sides.iter().map(Vec::len).sum(),
                error: if is_finite { error } else { f64::INFINITY },
                seconds: [forward_seconds, adjoint_seconds],
            }
        })
    }

    /// Rows to verify: some at equal distances, and those of the highest degree.
    fn sample(&self, side: &[AdjacencyRef<'_>]) -> Vec<usize> {
        let (nodes, width) = (self.from.rows(), self.from.cols());
        let product = width * width * side.len();
        let count = (VERIFIED_WORK / 2 / product).clamp(1, SAMPLE);
        let mut sample: Vec<usize> = (0..nodes).step_by(nodes.div_ceil(count)).collect();
        let mut hubs = BinaryHeap::new();
        for i in 0..nodes {
            let degree: usize = side.iter().map(|a| a.range(i).len()).sum();
            hubs.push(Reverse((degree, i)));
            if hubs.len() > HUBS {
                hubs.pop();
            }
        }
        // The highest degree first: in any case one of them.
        let mut work = 0;
        for Reverse((degree, i)) in hubs.into_sorted_vec() {
            if work > VERIFIED_WORK / 2 {
                break;
            }
            work += product + degree * width;
            sample.push(i);
        }
        sample
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
pub(super) fn difference(found: &[f32], expected: impl Iterator<Item = f64>) -> f64 {
    let differences =
        found.iter().zip(expected).map(|(&found, expected)| (f64::from(found) - expected).abs());
    differences.fold(0.0, |worst, one| if one.is_nan() { f64::INFINITY } else { worst.max(one) })
}

fn time(to: MatrixMut<'_>, work: impl FnOnce(MatrixMut<'_>)) -> f64 {
    let started = Instant::now();
    work(to);
    started.elapsed().as_secs_f64().max(1e-9)
}

impl Times {
    fn of(times: &[f64]) -> Self {
        let mut times = times.to_vec();
        times.sort_by(f64::total_cmp);
        Self { best: times[0], median: times[times.len() / 2], runs: times.len() }
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
                (state, *x) = next(state);
                *x *= size;
            }
        }
    };
    blocks.map_reduce(matrix.view_mut(), MatrixMut::split_at, fill, |(), ()| ());
    matrix
}

/// The next state of a generator, and its number in [-1, 1).
fn next(state: u64) -> (u64, f32) {
    let state =
        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (state, (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0)
}

/// An entry in [-1, 1) of a random matrix, by its place alone.
pub(super) fn entry(seed: u64, row: u64, column: usize) -> f32 {
    let start = (seed << 56) ^ (row << 20) ^ column as u64;
    next(next(start).0).1
}

struct Measured {
    /// Bytes of the copies of the entries that sweeps gather by, and seconds that they took.
    copied: Option<(usize, f64)>,
    cost: Option<Cost>,
    /// Part of a sweep that one of [`MANY_THREADS`] threads would wait for the others at most.
    wait: f64,
    nodes: usize,
    width: usize,
    nonzeros: usize,
    activation: Phi,
    /// Of the forward and of the adjoint sweep; likewise below.
    needs: [Need; 2],
    /// By number of threads, all of them last.
    scaling: Vec<(usize, [Times; 2])>,
    rates: Rates,
    verified: Verified,
}

const NAMES: [&str; 2] = ["forward", "adjoint"];

/// One row per width.
fn table(all: &[Measured]) -> String {
    let milliseconds = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
    let headings =
        ["width", "forward", "adjoint", "ns/non-zero", "streamed", "random lines", "verified"];
    let mut rows = Sheet::columns(&headings);
    let mut costs = Sheet::pairs();
    for one in all {
        let [(_, forward, need), (_, adjoint, _)] = one.both();
        rows.row([
            one.width.to_string(),
            milliseconds(forward.best),
            milliseconds(adjoint.best),
            format!("{:.2}", forward.best * 1e9 / one.nonzeros.max(1) as f64),
            milliseconds(need.traffic(&one.rates)),
            milliseconds(need.scattered_lines(&one.rates)),
            if one.is_verified() { "yes" } else { "WRONG" }.to_string(),
        ]);
        if let Some(cost) = &one.cost {
            costs.row([format!("bounds, width {}", one.width), cost.words(forward.best)]);
        }
    }
    let one = all.iter().find(|one| one.copied.is_some()).or(all.first());
    let facts = one.map_or_else(Sheet::pairs, Measured::graph);
    let sheets = [rows, costs, facts].map(|sheet| sheet.render());
    sheets.into_iter().filter(|sheet| !sheet.is_empty()).collect::<Vec<_>>().join("\n")
}

impl Measured {
    fn is_verified(&self) -> bool {
        self.verified.error <= TOLERANCE
    }

    /// Both sweeps on all threads: name, times, what they need.
    fn both(&self) -> [(&'static str, Times, Need); 2] {
        let times = self.scaling[self.scaling.len() - 1].1;
        [0, 1].map(|at| (NAMES[at], times[at], self.needs[at]))
    }

    fn sweeps(&self) -> impl Iterator<Item = (&'static str, Times, Need)> {
        self.both().into_iter()
    }

    /// The graph and the machine, for a table over widths.
    fn graph(&self) -> Sheet {
        let mut facts = Sheet::pairs();
        let (nodes, nonzeros) =
            (quantity::count(self.nodes as u64), quantity::count(self.nonzeros as u64));
        facts.row(["graph".to_string(), format!("{nodes} nodes, {nonzeros} non-zeros")]);
        facts.row(["activation".to_string(), self.activation.name()]);
        facts.row(["balance".to_string(), self.wait_words()]);
        if let Some(copy) = self.copy_words() {
            facts.row(["copy".to_string(), copy]);
        }
        facts.row(["threads".to_string(), self.scaling[self.scaling.len() - 1].0.to_string()]);
        facts.row(["instruction set".to_string(), Isa::chosen().name().to_string()]);
        let streamed = "every byte read or written once, at the measured bandwidth";
        facts.row(["streamed".to_string(), streamed.to_string()]);
        let lines = "a line of 64 bytes per neighbour, each from a random place in memory";
        facts.row(["random lines".to_string(), lines.to_string()]);
        facts
    }

    fn wait_words(&self) -> String {
        let percent = 100.0 * self.wait;
        format!(
            "by its work, no thread of {MANY_THREADS} would wait more than {percent:.1} % of a sweep"
        )
    }

    /// The copy of the entries that sweeps gather by, if they do.
    fn copy_words(&self) -> Option<String> {
        let (bytes, seconds) = self.copied?;
        let (bytes, seconds) = (quantity::bytes(bytes as u64), quantity::seconds(seconds));
        Some(format!("of the entries, for states of at most 4 columns: {bytes}, made in {seconds}"))
    }

    /// The roof is a bound: nothing was faster.
    fn roof_holds(&self) -> bool {
        self.sweeps().all(|(_, times, need)| need.floor(&self.rates) <= times.best)
    }

    fn as_text(&self) -> String {
        let milliseconds = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
        let headings = ["sweep", "best", "median", "runs", "ns/non-zero", "GFLOP/s", "GB/s"];
        let mut sweeps = Sheet::columns(&headings);
        let headings = ["sweep", "arithmetic", "traffic", "bound by", "of roofline", "at random"];
        let mut roofline = Sheet::columns(&headings);
        for (name, times, need) in self.sweeps() {
            sweeps.row([
                name.to_string(),
                milliseconds(times.best),
                milliseconds(times.median),
                times.runs.to_string(),
                format!("{:.2}", times.best * 1e9 / self.nonzeros.max(1) as f64),
                format!("{:.1}", need.operations / times.best / 1e9),
                format!("{:.2}", need.bytes / times.best / 1e9),
            ]);
            roofline.row([
                name.to_string(),
                milliseconds(need.arithmetic(&self.rates)),
                milliseconds(need.traffic(&self.rates)),
                need.binds(&self.rates).to_string(),
                format!("{:.0} %", 100.0 * need.floor(&self.rates) / times.best),
                milliseconds(need.scattered(&self.rates)),
            ]);
        }
        let mut scaling = Sheet::columns(&["threads", "forward", "adjoint", "speed-up"]);
        let one = self.scaling[0].1[0].best;
        for (threads, [forward, adjoint]) in &self.scaling {
            let speed_up = format!("{:.2}", one / forward.best);
            let times = [milliseconds(forward.best), milliseconds(adjoint.best)];
            let [forward, adjoint] = times;
            scaling.row([threads.to_string(), forward, adjoint, speed_up]);
        }
        let sheets = [sweeps, roofline, scaling, self.facts()];
        sheets.map(|sheet| sheet.render()).join("\n")
    }

    fn facts(&self) -> Sheet {
        let rates = &self.rates;
        let giga = |rate: f64| format!("{:.1}", rate / 1e9);
        let mut facts = Sheet::pairs();
        let shape = format!(
            "{} nodes, {} non-zeros, width {}, {}",
            quantity::count(self.nodes as u64),
            quantity::count(self.nonzeros as u64),
            self.width,
            self.activation.name()
        );
        facts.row(["graph and state".to_string(), shape]);
        facts.row(["instruction set".to_string(), Isa::chosen().name().to_string()]);
        let arithmetic = format!(
            "{} GFLOP/s in registers, {} our product, {} matrixmultiply",
            giga(rates.multiply_adds),
            giga(rates.product),
            giga(rates.crate_product)
        );
        facts.row(["roof, arithmetic".to_string(), arithmetic]);
        let traffic = format!(
            "{} GB/s read, {} copied, {} added",
            giga(rates.read),
            giga(rates.copy),
            giga(rates.add)
        );
        facts.row(["roof, traffic".to_string(), traffic]);
        let random = format!(
            "{} GB/s in lines of 64 bytes, {} in rows of the state",
            giga(rates.random_lines),
            giga(rates.random_rows)
        );
        facts.row(["random reads".to_string(), random]);
        facts.row(["balance".to_string(), self.wait_words()]);
        if let Some(copy) = self.copy_words() {
            facts.row(["copy".to_string(), copy]);
        }
        if let Some(cost) = &self.cost {
            facts.row(["bounds".to_string(), cost.words(self.both()[0].1.best)]);
        }
        if !self.roof_holds() {
            let disturbed =
                "NO: a sweep was faster: the machine was disturbed, measure again when it is idle";
            facts.row(["roof holds".to_string(), disturbed.to_string()]);
        }
        let verified = if self.is_verified() { "yes" } else { "WRONG" };
        let verified = format!(
            "{verified}: {} rows differ by {:.1e} of the largest entry from plain loops in f64",
            quantity::count(self.verified.rows as u64),
            self.verified.error
        );
        facts.row(["verified".to_string(), verified]);
        facts
    }

    fn as_json(&self) -> serde_json::Value {
        let scaling = self.scaling.iter().map(|(threads, [forward, adjoint])| {
            json!({
                "threads": threads,
                "forward_seconds": forward.best,
                "adjoint_seconds": adjoint.best,
            })
        });
        let mut object = json!({
            "nodes": self.nodes,
            "nonzeros": self.nonzeros,
            "width": self.width,
            "activation": self.activation.name(),
            "simd": Isa::chosen().name(),
            "scaling": scaling.collect::<Vec<_>>(),
            "rates": self.rates,
            "roof_holds": self.roof_holds(),
            "verified_rows": self.verified.rows,
            "relative_error": self.verified.error,
            "verified": self.is_verified(),
            "longest_wait_of_64_threads": self.wait,
        });
        if let Some(cost) = &self.cost {
            object["bounds"] = cost.as_json();
        }
        if let Some((bytes, seconds)) = self.copied {
            object["copy"] = json!({ "bytes": bytes, "seconds": seconds });
        }
        for (name, times, need) in self.sweeps() {
            object[name] = json!({
                "best_seconds": times.best,
                "median_seconds": times.median,
                "runs": times.runs,
                "ns_per_nonzero": times.best * 1e9 / self.nonzeros.max(1) as f64,
                "flops": need.operations / times.best,
                "compulsory_bytes": need.bytes,
                "bytes_per_second": need.bytes / times.best,
                "arithmetic_seconds": need.arithmetic(&self.rates),
                "traffic_seconds": need.traffic(&self.rates),
                "scattered_seconds": need.scattered(&self.rates),
                "random_line_seconds": need.scattered_lines(&self.rates),
                "bound_by": need.binds(&self.rates),
                "roofline_fraction": need.floor(&self.rates) / times.best,
            });
        }
        object
    }
}
