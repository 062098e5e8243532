//! Sums over whole states that acceleration needs: products of steps with each other, and a mixture of states.
//! Plain arithmetic over memory in its order; which states, and what the products are for, is for `solver`.
//!
//! A step is a pair of states, before and after a sweep: f = after - before. Steps of a slow iteration differ little, so their
//! differences are taken before they are multiplied: products of large, nearly equal numbers would leave nothing of them.
//! Every state is read once for the mixture; for all products once, or of large states an eighth, in pieces of a page spread over all of it:
//! a few factors are told by a few million numbers as well as by all. Products are summed in f32 over `STRIPS` strips, then in f64, along a fixed tree over blocks that depend
//! on the shape alone: the same bits on any number of threads. Nothing is allocated in a call.

use super::simd::{Isa, Kernel, Lanes};
use crate::dense::{LINE, Line, Matrix};
use crate::parallel::RowBlocks;

/// Steps at most.
pub const STEPS: usize = 11;
/// Products of all pairs of steps, one of each two.
const PRODUCTS: usize = STEPS * (STEPS + 1) / 2;
/// Lines that are worked on together.
const STRIP: usize = 4;
/// Strips whose products are summed in f32.
const STRIPS: usize = 16;
/// Work of a line, as blocks count it: a block is 256 KiB of each state.
const LINE_WORK: u64 = 4;
/// Mixtures larger than this are stored past the caches.
const LARGE: usize = 32 << 20;

/// Of states larger than this only some pieces are multiplied: one in `SAMPLED`.
const SAMPLED_FROM: usize = 16 << 20;
const SAMPLED: usize = 8;

/// The blocks of states of one shape.
#[derive(Clone, Debug)]
pub struct Mixing {
    blocks: RowBlocks,
    isa: Isa,
    /// One piece in so many is multiplied.
    one_in: usize,
}

/// Products with each other of the differences f_1 - f_0, f_2 - f_1, ... of steps, and of the last step, which comes last: a
/// symmetric matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Products([f64; PRODUCTS]);

impl Products {
    /// A product.
    pub fn at(&self, i: usize, j: usize) -> f64 {
        self.0[place(i, j)]
    }
}

/// Where a product is kept.
#[inline(always)]
fn place(i: usize, j: usize) -> usize {
    let (low, high) = if i < j { (i, j) } else { (j, i) };
    high * (high + 1) / 2 + low
}

impl Mixing {
    /// For states that take so much memory as this one.
    pub fn new(state: &Matrix) -> Self {
        let lines = state.all_lines();
        Self {
            blocks: RowBlocks::balanced(lines.len(), &[], LINE_WORK),
            isa: Isa::chosen(),
            one_in: if size_of_val(lines) > SAMPLED_FROM { SAMPLED } else { 1 },
        }
    }

    /// The products of steps, each a state before and a state after, in their order; of large states those of a part.
    ///
    /// # Panics
    /// Where there are more than [`STEPS`], or shapes differ.
    pub fn products(&self, steps: &[(&Matrix, &Matrix)]) -> Products {
        assert!(steps.len() <= STEPS, "at most {STEPS} steps");
        for matrix in steps.iter().flat_map(|step| [step.0, step.1]) {
            assert_eq!(matrix.all_lines().len(), self.blocks.rows(), "states of one shape");
        }
        let block = |_, lines: std::ops::Range<usize>, ()| {
            self.isa.run(Dots { steps, start: lines.start, end: lines.end, one_in: self.one_in })
        };
        let add = |mut a: [f64; PRODUCTS], b: [f64; PRODUCTS]| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        };
        let sum = self.blocks.run((), |(), _| ((), ()), block, add);
        Products(sum.unwrap_or([0.0; PRODUCTS]))
    }

    /// `to` = the sum of states, each with its factor.
    ///
    /// # Panics
    /// Where shapes differ.
    pub fn mix(&self, parts: &[(&Matrix, f32)], to: &mut Matrix) {
        assert!(
            parts.iter().all(|part| part.0.all_lines().len() == self.blocks.rows()),
            "states of one shape"
        );
        assert_eq!(to.all_lines().len(), self.blocks.rows(), "a mixture of their shape");
        let is_large = size_of_val(to.all_lines()) > LARGE;
        let block = |_, lines: std::ops::Range<usize>, to: &mut [Line]| {
            self.isa.run(Sum { parts, start: lines.start, to, is_large });
        };
        self.blocks.run(to.all_lines_mut(), |to, lines| to.split_at_mut(lines), block, |(), ()| ());
    }
}

/// The products over some lines.
struct Dots<'a> {
    steps: &'a [(&'a Matrix, &'a Matrix)],
    start: usize,
    end: usize,
    one_in: usize,
}

impl Kernel for Dots<'_> {
    type Output = [f64; PRODUCTS];

    #[inline(always)]
    fn run<L: Lanes, const ROWS: usize, const PANELS: usize>(self) -> [f64; PRODUCTS] {
        let zero = Line([0.0; LINE]);
        let mut totals = [0.0; PRODUCTS];
        let mut moves = [[zero; STRIP]; STEPS];
        let used = self.steps.len() * (self.steps.len() + 1) / 2;
        let mut first = self.start;
        while first < self.end {
            let last = self.end.min(first + STRIP * STRIPS);
            let mut sums = [zero; PRODUCTS];
            let mut at = first;
            while at < last {
                let count = STRIP.min(last - at);
                for (step, moves) in self.steps.iter().zip(&mut moves) {
                    let before = &step.0.all_lines()[at..at + count];
                    let after = &step.1.all_lines()[at..at + count];
                    for ((to, before), after) in moves.iter_mut().zip(before).zip(after) {
                        L::load(after).sub(L::load(before)).store(to);
                    }
                    // Of an earlier strip, where this one is shorter.
                    moves[count..].fill(zero);
                }
                for i in 1..self.steps.len() {
                    let (earlier, later) = moves.split_at_mut(i);
                    for (f, next) in earlier[i - 1].iter_mut().zip(&later[0]) {
                        L::load(next).sub(L::load(f)).store(f);
                    }
                }
                for i in 0..self.steps.len() {
                    for j in 0..=i {
                        let sum = &mut sums[place(i, j)];
                        let mut lanes = L::load(sum);
                        for (a, b) in moves[i].iter().zip(&moves[j]) {
                            lanes = L::load(a).mul_add(L::load(b), lanes);
                        }
                        lanes.store(sum);
                    }
                }
                at += count;
            }
            for (total, sum) in totals[..used].iter_mut().zip(&sums) {
                *total += sum.0.iter().map(|&x| f64::from(x)).sum::<f64>();
            }
            first = last + STRIP * STRIPS * (self.one_in - 1);
        }
        totals
    }
}

/// The mixture of some lines.
struct Sum<'a> {
    parts: &'a [(&'a Matrix, f32)],
    start: usize,
    to: &'a mut [Line],
    is_large: bool,
}

impl Kernel for Sum<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes, const ROWS: usize, const PANELS: usize>(self) {
        for (at, to) in self.to.iter_mut().enumerate() {
            let mut sum = L::splat(0.0);
            for (part, factor) in self.parts {
                sum = L::load(&part.all_lines()[self.start + at]).mul_add(L::splat(*factor), sum);
            }
            if self.is_large { sum.stream(to) } else { sum.store(to) }
        }
        L::fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::Random;
    use crate::parallel::with_threads;

    /// States of odd shapes: narrow rows, and lines that no strip fills.
    fn states(rows: usize, cols: usize) -> Vec<Matrix> {
        let random = &mut Random(3);
        (0..8).map(|_| random.matrix(rows, cols)).collect()
    }

    fn steps(states: &[Matrix]) -> Vec<(&Matrix, &Matrix)> {
        states.windows(2).map(|pair| (&pair[0], &pair[1])).collect()
    }

    #[test]
    fn products_and_mixtures_are_the_naive_loops() {
        for (rows, cols) in [(0, 3), (1, 1), (7, 3), (5, 16), (37, 20), (900, 64)] {
            let states = states(rows, cols);
            let steps = steps(&states);
            for isa in Isa::available() {
                let mixing = Mixing { isa, ..Mixing::new(&states[0]) };
                let found = mixing.products(&steps);
                let f = |at: usize, i: usize, k: usize| {
                    f64::from(steps[at].1.row(i)[k]) - f64::from(steps[at].0.row(i)[k])
                };
                let step = |at: usize, i: usize, k: usize| {
                    if at + 1 < steps.len() { f(at + 1, i, k) - f(at, i, k) } else { f(at, i, k) }
                };
                for a in 0..steps.len() {
                    for b in 0..steps.len() {
                        let entries = (0..rows).flat_map(|i| (0..cols).map(move |k| (i, k)));
                        let expected: f64 = entries.map(|(i, k)| step(a, i, k) * step(b, i, k)).sum();
                        let bound = 1e-5 * (1.0 + (rows * cols) as f64);
                        assert!((found.at(a, b) - expected).abs() < bound, "{} {rows} {cols}", isa.name());
                    }
                }
                let factors = [0.5f32, -2.0, 1.25];
                let parts: Vec<_> = states.iter().zip(factors).collect();
                let mut to = Matrix::from_fn(rows, cols, |_, _| f32::NAN);
                mixing.mix(&parts, &mut to);
                for i in 0..rows {
                    for k in 0..cols {
                        let expected: f32 = parts.iter().map(|part| part.1 * part.0.row(i)[k]).sum();
                        assert!((to.row(i)[k] - expected).abs() < 1e-5);
                    }
                    assert!(to.view().padded_row(i)[cols..].iter().all(|&x| x == 0.0));
                }
            }
        }
    }

    #[test]
    fn products_have_the_same_bits_on_any_number_of_threads() {
        let states = states(20_000, 16);
        let run = |threads| with_threads(threads, || Mixing::new(&states[0]).products(&steps(&states)));
        let one = run(1);
        assert!(one == run(2) && one == run(4));
    }
}
