//! The two sides of the roofline: what this machine can do, and the least that a sweep needs.
//!
//! A roofline is only meaningful if nothing exceeds it. Rates are therefore measured in the same
//! run as the sweeps, alternating with them, on the same threads and the same memory, and the best
//! of all rounds counts. Arithmetic is the best of fused multiply-adds in registers, our
//! register-blocked product and that of the crate `matrixmultiply` (through `ndarray`). Bandwidth
//! is the best of reading, copying and adding arrays of the size of the states, at whatever level
//! of the memory hierarchy these fit.

use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;

use ignn::dense::{Line, Matrix, stride};
use ignn::kernels::AdjacencyRef;
use ignn::kernels::peak::{self, Operands};
use ndarray::Array2;
use rayon::prelude::*;
use serde::Serialize;

/// Rounds of arithmetic in one measurement, which takes a few milliseconds.
const MULTIPLY_ADDS: usize = 1_000_000;
const PRODUCTS: usize = 8000;
/// Products of the crate in one measurement, and the shape of each: n x k by k x k.
const CRATE_PRODUCTS: usize = 6;
const CRATE_SHAPE: (usize, usize) = (768, 256);
/// Maximum number of bytes of each state that are streamed; more than common caches hold.
const STREAMED: usize = 256 << 20;
/// Minimum number of bytes that every thread moves in one measurement.
const MOVED: usize = 64 << 20;

/// Rates of the machine: each the best of the rounds so far.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Rates {
    /// Operations per second: fused multiply-adds in registers.
    pub multiply_adds: f64,
    /// Our register-blocked product, operands in the first cache.
    pub product: f64,
    /// The product of the crate `matrixmultiply`, operands in cache.
    pub crate_product: f64,
    /// Bytes per second: reading a state.
    pub read: f64,
    /// Read and written by copying a state.
    pub copy: f64,
    /// Read and written by adding two states into a third.
    pub add: f64,
    /// Read in lines of 64 bytes at random places of a state, many in flight.
    pub random_lines: f64,
    /// Read in rows of a state at random places.
    pub random_rows: f64,
}

impl Rates {
    /// The arithmetic roof, in operations per second.
    pub fn arithmetic(&self) -> f64 {
        self.multiply_adds.max(self.product).max(self.crate_product)
    }

    /// The bandwidth roof, in bytes per second.
    pub fn bandwidth(&self) -> f64 {
        self.read.max(self.copy).max(self.add)
    }
}

/// Measures rates, round by round.
pub struct Roof {
    /// The best so far.
    pub rates: Rates,
    threads: usize,
    operands: Operands,
    factors: [Array2<f32>; 2],
    /// One result per thread.
    results: Vec<Mutex<Array2<f32>>>,
    seed: u64,
}

impl Roof {
    /// For a pool of this many threads.
    pub fn new(threads: usize) -> Self {
        let (rows, width) = CRATE_SHAPE;
        let matrix = |rows| Array2::from_shape_fn((rows, width), |(i, k)| ((i + k) % 7) as f32);
        let result = || Mutex::new(Array2::zeros((rows, width)));
        Self {
            rates: Rates::default(),
            threads,
            operands: Operands::default(),
            factors: [matrix(rows), matrix(width)],
            results: (0..threads).map(|_| result()).collect(),
            seed: 1,
        }
    }

    /// Threads of the pool that it measures.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// One round of all rates, in the pool of the caller, on the states of a sweep; overwrites
    /// `to`.
    pub fn measure(&mut self, from: &Matrix, input: &Matrix, to: &mut Matrix) {
        self.arithmetic();
        self.streams(from, input, to);
        self.random(from);
    }

    fn arithmetic(&mut self) {
        let (threads, operands) = (self.threads, &self.operands);
        let best = |rate: &mut f64, work: &(dyn Fn(usize) -> f64 + Sync)| {
            let (operations, seconds) =
                timed(|| each_thread(threads, work).into_iter().sum::<f64>());
            *rate = rate.max(operations / seconds);
        };
        best(&mut self.rates.multiply_adds, &|_| counted(peak::multiply_adds(MULTIPLY_ADDS)));
        best(&mut self.rates.product, &|_| counted(operands.multiply(PRODUCTS)));
        let ([left, right], results) = (&self.factors, &self.results);
        best(&mut self.rates.crate_product, &|thread| {
            let mut result = results[thread].lock().expect("no panic while held");
            for _ in 0..CRATE_PRODUCTS {
                ndarray::linalg::general_mat_mul(1.0, left, right, 0.0, &mut *result);
            }
            let (rows, width) = CRATE_SHAPE;
            (CRATE_PRODUCTS * 2 * rows * width * width) as f64
        });
    }

    fn streams(&mut self, from: &Matrix, input: &Matrix, to: &mut Matrix) {
        let lines = from.all_lines().len().min(STREAMED / size_of::<Line>());
        let (a, b) = (&from.all_lines()[..lines], &input.all_lines()[..lines]);
        let part = lines.div_ceil(self.threads).max(1);
        let bytes = size_of_val(a) as f64;
        // Small states are repeated, so that the time to start threads is negligible.
        let repeats = (MOVED / (part * size_of::<Line>())).max(1);
        let ((), seconds) = timed(|| {
            a.par_chunks(part).with_max_len(1).for_each(|a| {
                (0..repeats).for_each(|_| _ = black_box(peak::read(black_box(a))));
            });
        });
        self.rates.read = self.rates.read.max(bytes * repeats as f64 / seconds);
        for past_caches in [false, true] {
            let to = &mut to.all_lines_mut()[..lines];
            let ((), seconds) = timed(|| {
                let parts = to.par_chunks_mut(part).zip(a.par_chunks(part)).with_max_len(1);
                parts.for_each(|(to, a)| {
                    (0..repeats).for_each(|_| peak::copy(black_box(a), to, past_caches));
                });
            });
            self.rates.copy = self.rates.copy.max(2.0 * bytes * repeats as f64 / seconds);
            let ((), seconds) = timed(|| {
                let pairs = a.par_chunks(part).zip(b.par_chunks(part));
                let parts = to.par_chunks_mut(part).zip(pairs).with_max_len(1);
                parts.for_each(|(to, (a, b))| {
                    (0..repeats).for_each(|_| peak::add(black_box(a), b, to, past_caches));
                });
            });
            self.rates.add = self.rates.add.max(3.0 * bytes * repeats as f64 / seconds);
        }
    }

    fn random(&mut self, from: &Matrix) {
        let lines = from.all_lines();
        let row = (stride(from.cols()) * size_of::<f32>()).div_ceil(size_of::<Line>());
        for lines_per_row in [1, row] {
            if lines.len() < lines_per_row {
                continue;
            }
            let reads = (MOVED / size_of::<Line>() / lines_per_row).max(1);
            self.seed += self.threads as u64;
            let read = |thread: usize| {
                let seed = (self.seed + thread as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                black_box(peak::read_at_random(lines, lines_per_row, reads, seed));
            };
            let (_, seconds) = timed(|| each_thread(self.threads, &read));
            let bytes = self.threads * reads * lines_per_row * size_of::<Line>();
            let rate = match lines_per_row {
                1 => &mut self.rates.random_lines,
                _ => &mut self.rates.random_rows,
            };
            *rate = rate.max(bytes as f64 / seconds);
        }
        if row == 1 {
            self.rates.random_rows = self.rates.random_lines;
        }
    }
}

/// Operations, of which nothing is left out.
fn counted((operations, sum): (f64, f32)) -> f64 {
    black_box(sum);
    operations
}

fn each_thread<T: Send>(threads: usize, work: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    (0..threads).into_par_iter().with_max_len(1).map(work).collect()
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let started = Instant::now();
    let result = work();
    (result, started.elapsed().as_secs_f64().max(1e-9))
}

/// The least that a sweep must compute and move.
///
/// Operations: 2 m per entry that is gathered (multiply, add), 2 m m per node and relation (the
/// product). Bytes: every array once. The graph (4 per entry, 4 more with values; 8 per offset; 4
/// per scale), the state read, the input read, the new state written, 4 m each per node with the
/// padding of the rows; the derivative of the adjoint.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    pub operations: f64,
    pub bytes: f64,
    /// Bytes of all gathered rows; a row counts as often as it is gathered.
    pub gathered: f64,
    /// Lines of all gathered rows.
    pub lines: f64,
}

impl Need {
    /// Of a graph's relations (entries and bytes of each), for a state of `width`.
    pub fn new(
        nodes: usize,
        relations: &[(usize, usize)],
        width: usize,
        derivative_bytes: usize,
    ) -> Self {
        let (nodes_f, width_f) = (nodes as f64, width as f64);
        let entries: usize = relations.iter().map(|&(entries, _)| entries).sum();
        let graph: usize = relations.iter().map(|&(_, bytes)| bytes).sum();
        let product = 2.0 * nodes_f * width_f * width_f * relations.len() as f64;
        let row = (stride(width) * size_of::<f32>()) as f64;
        Self {
            operations: product + 2.0 * entries as f64 * width_f,
            bytes: 3.0 * nodes_f * row + (graph + derivative_bytes) as f64,
            gathered: entries as f64 * row,
            lines: (entries * (stride(width) * size_of::<f32>()).div_ceil(size_of::<Line>()))
                as f64,
        }
    }

    /// Seconds of the arithmetic alone.
    pub fn arithmetic(&self, rates: &Rates) -> f64 {
        self.operations / rates.arithmetic()
    }

    /// Seconds of the memory traffic alone.
    pub fn traffic(&self, rates: &Rates) -> f64 {
        self.bytes / rates.bandwidth()
    }

    /// Seconds for gathering the rows if every one is read from a random place in memory and none
    /// from a cache. This is not a bound: reuse makes sweeps faster.
    pub fn scattered(&self, rates: &Rates) -> f64 {
        self.gathered / rates.random_rows
    }

    /// The same in lines of 64 bytes: a row shorter than a line takes a whole one.
    pub fn scattered_lines(&self, rates: &Rates) -> f64 {
        self.lines * size_of::<Line>() as f64 / rates.random_lines
    }

    /// The shortest possible time of a sweep in seconds: the larger of the two times.
    pub fn floor(&self, rates: &Rates) -> f64 {
        self.arithmetic(rates).max(self.traffic(rates))
    }

    /// Which of the two limits the sweep.
    pub fn binds(&self, rates: &Rates) -> &'static str {
        if self.arithmetic(rates) >= self.traffic(rates) { "arithmetic" } else { "traffic" }
    }
}

/// Entries that are gathered and bytes of each relation: of factors, where rows repeat.
pub fn sizes(adjacency: &[AdjacencyRef<'_>]) -> Vec<(usize, usize)> {
    let size = |a: &AdjacencyRef<'_>| {
        let entries = a.gathered_entries();
        let values = if a.values().is_some() { size_of::<f32>() } else { 0 };
        let scale = a.gather_scale().or(a.row_scale()).map_or(0, size_of_val);
        let graph = entries * (size_of::<u32>() + values) + size_of_val(a.gathered_offsets());
        (entries, graph + scale)
    };
    adjacency.iter().map(size).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_follow_the_formula() {
        let need = Need::new(1000, &[(5000, 28_000), (100, 9000)], 20, 40);
        assert_eq!(need.operations, (2 * 1000 * 400 * 2 + 2 * 5100 * 20) as f64);
        assert_eq!(need.bytes, (3 * 1000 * 128 + 37_000 + 40) as f64);
        assert_eq!((need.gathered, need.lines), ((5100 * 128) as f64, (5100 * 2) as f64));
        let narrow = Need::new(1000, &[(5000, 28_000)], 3, 0);
        assert_eq!((narrow.gathered, narrow.lines), ((5000 * 16) as f64, 5000.0));
        let mut rates = Rates { product: 1e6, copy: 1e3, random_rows: 1e2, ..Rates::default() };
        assert_eq!((need.floor(&rates), need.binds(&rates)), (need.bytes / 1e3, "traffic"));
        rates.read = 1e9;
        assert_eq!(need.floor(&rates), need.operations / 1e6);
        assert_eq!(need.binds(&rates), "arithmetic");
        assert_eq!(need.scattered(&rates), need.gathered / 1e2);
    }

    #[test]
    fn every_rate_is_measured_and_never_falls() {
        let state = Matrix::from_fn(64, 20, |_, _| 1.0);
        let (mut to, mut roof) = (state.clone(), Roof::new(2));
        roof.measure(&state, &state, &mut to);
        let values = |rates: Rates| match serde_json::to_value(rates) {
            Ok(serde_json::Value::Object(rates)) => {
                rates.values().map(|rate| rate.as_f64().unwrap()).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        };
        let first = values(roof.rates);
        assert!(first.iter().all(|&rate| rate > 0.0 && rate.is_finite()), "{:?}", roof.rates);
        roof.measure(&state, &state, &mut to);
        assert!(values(roof.rates).iter().zip(first).all(|(now, before)| *now >= before));
    }
}
