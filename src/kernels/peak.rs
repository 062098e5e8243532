//! The peak performance of this processor, measured with the same lanes as the kernels: arithmetic
//! in registers, and reads and writes of memory. `ignn bench sweep` compares sweeps with it.
//!
//! Every function works on the calling thread and returns a value that depends on all of its work,
//! so that the compiler cannot remove any of it.

use super::PackedWeights;
use super::product::product;
use super::simd::{Isa, Kernel, Lanes};
use crate::dense::{LINE, Line, Matrix};

/// Width of the product: its operands stay in the first-level cache.
const WIDTH: usize = 128;
/// Rows that are prefetched ahead of random reads.
const AHEAD: usize = 32;
/// Independent sums that a read adds to in turn, so that no addition waits for the one before.
const SUMS: usize = 8;

/// Makes `rounds` rounds of fused multiply-adds in registers alone. Returns the number of
/// floating-point operations, and a sum of the results.
pub fn multiply_adds(rounds: usize) -> (f64, f32) {
    Isa::chosen().dispatch(MultiplyAdds { rounds })
}

struct MultiplyAdds {
    rounds: usize,
}

impl Kernel for MultiplyAdds {
    type Output = (f64, f32);

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) -> (f64, f32) {
        // The sums converge to 2: no overflow, no denormal numbers.
        let (factor, term) = (L::splat(0.5), L::splat(1.0));
        let mut sums = [[L::splat(1.0); PANELS]; ROWS];
        for _ in 0..self.rounds {
            for row in &mut sums {
                for sum in row {
                    *sum = sum.mul_add(factor, term);
                }
            }
        }
        ((self.rounds * 2 * LINE * ROWS * PANELS) as f64, total(&sums))
    }
}

/// The operands of a register-blocked product.
#[derive(Debug)]
pub struct Operands {
    rows: Matrix,
    weights: PackedWeights,
}

impl Default for Operands {
    fn default() -> Self {
        let matrix = |rows| Matrix::from_fn(rows, WIDTH, |i, k| ((i + k) % 7) as f32 * 1e-3);
        let weights = PackedWeights::adjoint(matrix(WIDTH).view());
        Self { rows: matrix(Isa::TILE), weights }
    }
}

impl Operands {
    /// Multiplies a tile of rows by some columns of the weights `rounds` times, all in the
    /// first-level cache. Returns the number of floating-point operations, and a sum of the
    /// results.
    pub fn multiply(&self, rounds: usize) -> (f64, f32) {
        Isa::chosen().dispatch(Products { operands: self, rounds })
    }
}

struct Products<'a> {
    operands: &'a Operands,
    rounds: usize,
}

impl Kernel for Products<'_> {
    type Output = (f64, f32);

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) -> (f64, f32) {
        let Operands { rows, weights } = self.operands;
        let (tile, per_row) = (&rows.all_lines()[..ROWS * WIDTH / LINE], WIDTH / LINE);
        let mut sums = [[L::splat(0.0); PANELS]; ROWS];
        for _ in 0..self.rounds {
            sums = product::<L, ROWS, PANELS>(tile, per_row, weights, 0, (&[], 0), sums);
        }
        ((self.rounds * 2 * WIDTH * LINE * ROWS * PANELS) as f64, total(&sums))
    }
}

#[inline(always)]
fn total<L: Lanes, const ROWS: usize, const PANELS: usize>(sums: &[[L; PANELS]; ROWS]) -> f32 {
    let all = sums.iter().flatten().fold(L::splat(0.0), |all, sum| all.add(*sum));
    all.to_array().iter().sum()
}

/// Reads all lines and returns their sum.
pub fn read(from: &[Line]) -> f32 {
    Isa::chosen().dispatch(Read { from })
}

struct Read<'a> {
    from: &'a [Line],
}

impl Kernel for Read<'_> {
    type Output = f32;

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) -> f32 {
        let mut sums = [[L::splat(0.0); SUMS]; 1];
        let chunks = self.from.chunks_exact(SUMS);
        for line in chunks.remainder() {
            sums[0][0] = sums[0][0].add(L::load(line));
        }
        for chunk in chunks {
            for (sum, line) in sums[0].iter_mut().zip(chunk) {
                *sum = sum.add(L::load(line));
            }
        }
        total(&sums)
    }
}

/// Writes the sum of two arrays, past the caches if requested: two reads per write, as in a sweep.
///
/// # Panics
/// If lengths differ.
pub fn add(a: &[Line], b: &[Line], to: &mut [Line], past_caches: bool) {
    assert!(a.len() == to.len() && b.len() == to.len(), "arrays of one length");
    Isa::chosen().dispatch(Add { a, b: Some(b), to, past_caches });
}

/// Copies an array, past the caches if requested.
///
/// # Panics
/// If lengths differ.
pub fn copy(from: &[Line], to: &mut [Line], past_caches: bool) {
    assert_eq!(from.len(), to.len(), "arrays of one length");
    Isa::chosen().dispatch(Add { a: from, b: None, to, past_caches });
}

struct Add<'a> {
    a: &'a [Line],
    b: Option<&'a [Line]>,
    to: &'a mut [Line],
    past_caches: bool,
}

impl Kernel for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) {
        let put = |lanes: L, to: &mut Line| match self.past_caches {
            true => lanes.stream(to),
            false => lanes.store(to),
        };
        match self.b {
            Some(b) => {
                let pairs = self.a.iter().zip(b);
                pairs.zip(self.to).for_each(|((a, b), to)| put(L::load(a).add(L::load(b)), to));
            }
            None => self.a.iter().zip(self.to).for_each(|(a, to)| put(L::load(a), to)),
        }
        L::fence();
    }
}

/// Reads `count` rows of `lines_per_row` lines each at random positions, with many reads in flight,
/// and returns their sum. The same seed gives the same positions.
///
/// # Panics
/// If there is no row.
pub fn read_at_random(from: &[Line], lines_per_row: usize, count: usize, seed: u64) -> f32 {
    let rows = from.len() / lines_per_row;
    assert!(rows > 0, "a row to read");
    Isa::chosen().dispatch(ReadAtRandom { from, lines_per_row, rows, count, seed })
}

struct ReadAtRandom<'a> {
    from: &'a [Line],
    lines_per_row: usize,
    rows: usize,
    count: usize,
    seed: u64,
}

impl Kernel for ReadAtRandom<'_> {
    type Output = f32;

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) -> f32 {
        let (per_row, mut state) = (self.lines_per_row, self.seed | 1);
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // The high half of a product is below the factor.
            (((state >> 32) * self.rows as u64) >> 32) as usize * per_row
        };
        let mut sums = [[L::splat(0.0); SUMS]; 1];
        let mut coming = [0; AHEAD];
        coming.fill_with(&mut draw);
        for _ in 0..self.count / AHEAD {
            let at_hand = coming;
            coming.fill_with(&mut draw);
            for (start, next) in at_hand.into_iter().zip(coming) {
                for line in 0..per_row {
                    L::prefetch(&raw const self.from[next + line]);
                }
                for (at, line) in self.from[start..start + per_row].iter().enumerate() {
                    let sum = &mut sums[0][at % SUMS];
                    *sum = sum.add(L::load(line));
                }
            }
        }
        total(&sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> Matrix {
        Matrix::from_fn(count, LINE, |i, k| (i * LINE + k) as f32)
    }

    #[test]
    fn arithmetic_counts_what_it_computes() {
        let (operations, sum) = multiply_adds(100);
        // Every lane converges to 2.
        assert_eq!(operations, 100.0 * f64::from(sum));
        let operands = Operands::default();
        let (operations, sum) = operands.multiply(3);
        let (rows, weights) = (&operands.rows, &operands.weights);
        let tile = operations as usize / (3 * 2 * WIDTH * LINE);
        assert!(tile > 0);
        // ROWS x PANELS is the tile; both are those of the instruction set.
        let candidates = (1..=tile).filter(|panels| tile.is_multiple_of(*panels)).map(|panels| {
            let entries = (0..tile / panels).flat_map(|i| (0..panels * LINE).map(move |k| (i, k)));
            let entry = |(i, k): (usize, usize)| -> f64 {
                (0..WIDTH).map(|l| f64::from(rows.row(i)[l] * weights.at(l, k))).sum()
            };
            3.0 * entries.filter(|&(i, k)| i < Isa::TILE && k < WIDTH).map(entry).sum::<f64>()
        });
        let found = f64::from(sum);
        assert!(candidates.into_iter().any(|expected| (found - expected).abs() < 1e-3 * expected));
    }

    #[test]
    fn memory_is_read_and_written_whole() {
        for count in [1, 7, 8, 100] {
            let (a, mut to) = (lines(count), Matrix::zeros(count, LINE));
            let expected: f32 = (0..count * LINE).map(|x| x as f32).sum();
            assert!((read(a.all_lines()) - expected).abs() <= 1e-6 * expected);
            for past_caches in [false, true] {
                copy(a.all_lines(), to.all_lines_mut(), past_caches);
                assert_eq!(to.view().padded(), a.view().padded());
                add(a.all_lines(), a.all_lines(), to.all_lines_mut(), past_caches);
                assert!(to.view().padded().iter().zip(a.view().padded()).all(|(t, a)| *t == a + a));
            }
        }
    }

    #[test]
    fn random_reads_are_of_whole_rows() {
        let ones = Matrix::from_fn(100, 2 * LINE, |_, _| 1.0);
        let sum = read_at_random(ones.all_lines(), 2, 640, 3);
        assert_eq!(sum, (640 * 2 * LINE) as f32);
    }
}
