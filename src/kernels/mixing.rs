//! The arithmetic of Anderson mixing over whole states: products of moves with each other, and a
//! state plus a combination of moves. `solver` chooses the moves.
//!
//! A move is the change that a sweep made, as 16-bit floats with a unit ([`Scaled`]). Their 11
//! significant bits are enough for a combination that the next sweep corrects, at half the memory
//! and traffic of a state. Moves of a slow iteration are nearly equal, so their differences are
//! taken before they are multiplied: products of the moves themselves would cancel.
//!
//! Every move is read once for the combination. For the products it is read once as well or, if the
//! state is large, an eighth of it in pieces spread over the whole: a few million numbers determine
//! a few factors as well as all of them. Products are summed in f32 over `STRIPS` strips, then in
//! f64 along the fixed tree of all sums over rows: the same bits on any number of threads and
//! ranks. A rank has a few numbers per part of its rows to allocate, and nothing of a state's size.

use std::ops::Range;

use super::simd::{Isa, Kernel, Lanes};
use half::f16;

use crate::dense::{Entry, HalfLine, LINE, Line, Matrix, stride};
use crate::parallel::{RowBlocks, Rows};

/// Largest number of moves.
pub const STEPS: usize = 11;
/// Number of products: one per pair of moves.
const PRODUCTS: usize = STEPS * (STEPS + 1) / 2;
/// Lines that are processed together.
const STRIP: usize = 4;
/// Strips whose products are summed in f32.
const STRIPS: usize = 16;
/// Work of a line in units of `RowBlocks`: a block is 256 KiB of each state.
const LINE_WORK: u64 = 4;
/// Results larger than this are stored past the caches.
const LARGE: usize = 32 << 20;

/// Of states larger than this, one piece in `SAMPLED` is multiplied.
const SAMPLED_FROM: usize = 512 << 10;
const SAMPLED: usize = 8;

/// The blocks of states of one shape.
#[derive(Clone, Debug)]
pub struct Mixing {
    rows: Rows,
    /// Entries of a row.
    stride: usize,
    /// Blocks of the lines of own rows.
    blocks: RowBlocks,
    isa: Isa,
    /// One piece in this many is multiplied.
    one_in: usize,
}

/// A matrix of 16-bit floats in a unit: it represents `unit` times its entries.
#[derive(Clone, Copy, Debug)]
pub struct Scaled<'a> {
    /// The entries.
    pub matrix: &'a Matrix<f16>,
    /// A power of two.
    pub unit: f32,
}

/// The unit for numbers up to a size: the next power of two above it.
///
/// ```
/// assert_eq!(ignn::kernels::mixing::unit(0.3), 0.5);
/// assert_eq!(ignn::kernels::mixing::unit(1.0), 2.0);
/// ```
pub fn unit(size: f32) -> f32 {
    let exponent = (size.to_bits() >> 23).clamp(27, 227) + 1;
    f32::from_bits(exponent << 23)
}

/// The symmetric matrix of the products of f_1 - f_0, f_2 - f_1, ... and the last move with each
/// other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Products([f64; PRODUCTS]);

impl Products {
    /// A product.
    pub fn at(&self, i: usize, j: usize) -> f64 {
        self.0[place(i, j)]
    }
}

/// The position of a product.
#[inline(always)]
fn place(i: usize, j: usize) -> usize {
    let (low, high) = if i < j { (i, j) } else { (j, i) };
    high * (high + 1) / 2 + low
}

impl Mixing {
    /// For states of these rows.
    pub fn new(rows: &Rows, cols: usize) -> Self {
        let stride = stride(cols);
        let bytes = |rows: usize| (rows * stride).div_ceil(LINE) * size_of::<Line>();
        let lines = bytes(rows.len()) / size_of::<Line>();
        Self {
            blocks: RowBlocks::balanced(lines, &[], LINE_WORK),
            isa: Isa::chosen(),
            one_in: if bytes(rows.all()) > SAMPLED_FROM { SAMPLED } else { 1 },
            rows: rows.clone(),
            stride,
        }
    }

    /// The products of moves, oldest first; of large states, those of a sample.
    ///
    /// # Panics
    /// If there are more than [`STEPS`], or shapes differ.
    pub fn products(&self, moves: &[Scaled<'_>]) -> Products {
        assert!(moves.len() <= STEPS, "at most {STEPS} moves");
        assert!(moves.iter().all(|moved| self.fits(moved.matrix)), "moves of one shape");
        let part = |rows: Range<usize>| {
            // Parts begin with a line.
            let (start, end) =
                (rows.start * self.stride / LINE, (rows.end * self.stride).div_ceil(LINE));
            self.isa.dispatch(Dots { moves, start, end, one_in: self.one_in }).to_vec()
        };
        let add = |mut a: Vec<f64>, b: Vec<f64>| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        };
        let mut products = [0.0; PRODUCTS];
        if let Some(sum) = self.rows.sum(part, add) {
            products.copy_from_slice(&sum);
        }
        Products(products)
    }

    /// Writes `from` plus the sum of some moves, each with its factor, to `to`, and the sum itself
    /// to `jump` in the given unit.
    ///
    /// # Panics
    /// If shapes differ.
    pub fn mix(
        &self,
        from: &Matrix,
        parts: &[(&Matrix<f16>, f32)],
        to: &mut Matrix,
        (jump, jump_unit): (&mut Matrix<f16>, f32),
    ) {
        let lines = self.blocks.rows();
        assert!(self.fits(from) && self.fits(to), "states of one shape");
        assert!(
            parts.iter().all(|part| self.fits(part.0)) && self.fits(jump),
            "moves of one shape"
        );
        let is_large = size_of_val(to.all_lines()) > LARGE;
        let factor = 1.0 / jump_unit;
        let block = |_, lines: Range<usize>, (to, jump): (&mut [Line], &mut [HalfLine])| {
            let from = &from.all_lines()[lines.clone()];
            self.isa.dispatch(Sum { from, parts, start: lines.start, to, jump, factor, is_large });
        };
        let split = |(to, jump): (_, _), lines| {
            let ((to, rest), (jump, more)) =
                (<[Line]>::split_at_mut(to, lines), <[HalfLine]>::split_at_mut(jump, lines));
            ((to, jump), (rest, more))
        };
        let whole = (&mut to.all_lines_mut()[..lines], &mut jump.all_lines_mut()[..lines]);
        self.blocks.map_reduce(whole, split, block, |(), ()| ());
    }

    fn fits<E: Entry>(&self, matrix: &Matrix<E>) -> bool {
        // States have lines of ghosts behind those of own rows.
        matrix.all_lines().len() >= self.blocks.rows()
    }
}

/// The products over some lines.
struct Dots<'a> {
    moves: &'a [Scaled<'a>],
    start: usize,
    end: usize,
    one_in: usize,
}

impl Kernel for Dots<'_> {
    type Output = [f64; PRODUCTS];

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) -> [f64; PRODUCTS] {
        let zero = Line([0.0; LINE]);
        let mut totals = [0.0; PRODUCTS];
        let mut moves = [[zero; STRIP]; STEPS];
        let used = self.moves.len() * (self.moves.len() + 1) / 2;
        let mut first = self.start;
        while first < self.end {
            let last = self.end.min(first + STRIP * STRIPS);
            let mut sums = [zero; PRODUCTS];
            let mut at = first;
            while at < last {
                let count = STRIP.min(last - at);
                for (moved, moves) in self.moves.iter().zip(&mut moves) {
                    let unit = L::splat(moved.unit);
                    for (to, half) in
                        moves.iter_mut().zip(&moved.matrix.all_lines()[at..at + count])
                    {
                        L::load_half(half).mul(unit).store(to);
                    }
                    // Lines of an earlier, longer strip.
                    moves[count..].fill(zero);
                }
                for i in 1..self.moves.len() {
                    let (earlier, later) = moves.split_at_mut(i);
                    for (f, next) in earlier[i - 1].iter_mut().zip(&later[0]) {
                        L::load(next).sub(L::load(f)).store(f);
                    }
                }
                for i in 0..self.moves.len() {
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

/// The combination over some lines.
struct Sum<'a> {
    from: &'a [Line],
    parts: &'a [(&'a Matrix<f16>, f32)],
    start: usize,
    to: &'a mut [Line],
    jump: &'a mut [HalfLine],
    /// What the jump is multiplied by before it is rounded.
    factor: f32,
    is_large: bool,
}

impl Kernel for Sum<'_> {
    type Output = ();

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) {
        let factor = L::splat(self.factor);
        let lines = self.from.iter().zip(self.to.iter_mut()).zip(self.jump.iter_mut()).enumerate();
        for (at, ((from, to), jump)) in lines {
            let mut sum = L::splat(0.0);
            for (part, factor) in self.parts {
                sum = L::load_half(&part.all_lines()[self.start + at])
                    .mul_add(L::splat(*factor), sum);
            }
            let mixed = L::load(from).add(sum);
            if self.is_large {
                sum.mul(factor).stream_half(jump);
                mixed.stream(to);
            } else {
                sum.mul(factor).store_half(jump);
                mixed.store(to);
            }
        }
        L::fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::{self, Random};
    use crate::parallel::with_threads;

    fn mixing(rows: usize, cols: usize) -> Mixing {
        Mixing::new(&Rows::alone(RowBlocks::for_sums(rows, &[])), cols)
    }

    /// Moves of odd shapes: narrow rows, and lines that no strip fills.
    fn moves(rows: usize, cols: usize) -> Vec<Matrix<f16>> {
        let random = &mut Random(3);
        (0..7).map(|_| naive::rounded(&random.matrix(rows, cols), 1.0)).collect()
    }

    fn scaled(moves: &[Matrix<f16>]) -> Vec<Scaled<'_>> {
        moves
            .iter()
            .zip(0i32..)
            .map(|(matrix, at)| Scaled { matrix, unit: 2f32.powi(-at) })
            .collect()
    }

    #[test]
    fn products_and_mixtures_are_the_naive_loops() {
        for (rows, cols) in [(0, 3), (1, 1), (7, 3), (5, 16), (37, 20), (900, 64)] {
            let moves = moves(rows, cols);
            let moves = scaled(&moves);
            let from = Random(9).matrix(rows, cols);
            for isa in Isa::available() {
                let mixing = Mixing { isa, ..mixing(rows, cols) };
                let found = mixing.products(&moves);
                let f = |at: usize, i: usize, k: usize| {
                    f64::from(moves[at].matrix.row(i)[k].to_f32()) * f64::from(moves[at].unit)
                };
                let step = |at: usize, i: usize, k: usize| {
                    if at + 1 < moves.len() { f(at + 1, i, k) - f(at, i, k) } else { f(at, i, k) }
                };
                for a in 0..moves.len() {
                    for b in 0..moves.len() {
                        let entries = (0..rows).flat_map(|i| (0..cols).map(move |k| (i, k)));
                        let expected: f64 =
                            entries.map(|(i, k)| step(a, i, k) * step(b, i, k)).sum();
                        let bound = 1e-5 * (1.0 + (rows * cols) as f64);
                        assert!(
                            (found.at(a, b) - expected).abs() < bound,
                            "{} {rows} {cols}",
                            isa.name()
                        );
                    }
                }
                let factors = [0.5f32, -2.0, 1.25];
                let parts: Vec<_> = moves.iter().map(|moved| moved.matrix).zip(factors).collect();
                let mut to = Matrix::from_fn(rows, cols, |_, _| f32::NAN);
                let mut jump = Matrix::blank(rows, cols);
                mixing.mix(&from, &parts, &mut to, (&mut jump, 4.0));
                for i in 0..rows {
                    for k in 0..cols {
                        let sum: f32 =
                            parts.iter().map(|part| part.1 * part.0.row(i)[k].to_f32()).sum();
                        assert!((to.row(i)[k] - from.row(i)[k] - sum).abs() < 1e-5);
                        assert!(
                            (4.0 * jump.row(i)[k].to_f32() - sum).abs()
                                <= sum.abs() / 1024.0 + 1e-6
                        );
                    }
                    assert!(to.view().padded_row(i)[cols..].iter().all(|&x| x == 0.0));
                    assert!(jump.view().padded_row(i)[cols..].iter().all(|&x| x == f16::ZERO));
                }
            }
        }
    }

    #[test]
    fn units_are_powers_of_two_above_a_size() {
        for (size, expected) in [(1.0, 2.0), (0.3, 0.5), (3.9, 4.0), (6e4, 65536.0)] {
            assert_eq!(unit(size), expected);
        }
        for size in [0.0, 1e-40, 1e38, f32::INFINITY, f32::NAN] {
            assert!(unit(size).is_normal() && (1.0 / unit(size)).is_normal(), "{size}");
        }
    }

    #[test]
    fn products_have_the_same_bits_on_any_number_of_threads() {
        let moves = moves(20_000, 16);
        let run = |threads| with_threads(threads, || mixing(20_000, 16).products(&scaled(&moves)));
        let one = run(1);
        assert!(one == run(2) && one == run(4));
    }
}
