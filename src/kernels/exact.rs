//! The right-hand side of an equation in f64, for a state in f32 or f64: what bounds of errors and
//! reference solutions are made of. Slower than a sweep by a few times, which it does not replace.
//!
//! ```text
//! forward   phi( sum_r (A_r^T X) W_r^T + B )
//! adjoint   D * ( sum_r (A_r G) W_r + R )
//! ```
//!
//! The numbers that it reads are those of a sweep, so that both are evaluations of one equation: D
//! is computed from the state anew, in f64. Products of two f32 numbers are exact in f64 and never
//! underflow; a term is rounded in its entry, in the sum of the row and in the sum of products.

use std::ops::Range;

use super::ahead::Ahead;
use super::simd::{Kernel, Lanes};
use super::sweep::{Direction, Sweep, Term};
use super::{Activation, Added, AdjacencyRef, Derivative};
use crate::dense::{LINE, MatrixRef};

/// Rows that are multiplied together.
const ROWS: usize = 4;

/// A state in either precision, one row per node.
#[derive(Clone, Copy, Debug)]
pub enum State<'a> {
    /// f32
    Single(MatrixRef<'a>),
    /// f64: rows of the width of the result, one after the other.
    Double(&'a [f64]),
}

/// Evaluates rows and calls `each(row, values)` for each of them, in parallel over the blocks of
/// the sweep. Returns the largest of what it returns; infinity if that is NaN.
///
/// `parts` is what belongs to all rows, such as a slice to write to; `split(parts, rows)` cuts off
/// the part of the first `rows` rows, and `each` gets the part of its block.
///
/// # Panics
/// If shapes do not match.
pub fn evaluate<P: Send>(
    sweep: &Sweep<'_>,
    direction: Direction<'_>,
    from: State<'_>,
    parts: P,
    split: impl Fn(P, usize) -> (P, P) + Sync,
    each: impl Fn(&mut P, Range<usize>, usize, &[f64]) -> f64 + Sync,
) -> f64 {
    let width = sweep.input.cols();
    let is_right = |term: &Term<'_>| {
        let shape = (term.weights.inner(), term.weights.outer());
        shape == (width, width) && term.adjacency.rows() == sweep.input.rows()
    };
    assert!(sweep.terms.iter().all(is_right), "weights of the state's width");
    let entries = match from {
        State::Single(state) => state.rows() * state.cols(),
        State::Double(state) => state.len(),
    };
    let columns = sweep.terms.first().map_or(sweep.input.rows(), |term| term.adjacency.columns());
    assert_eq!(entries, columns * width, "a state with a row for each column");
    let operators: Vec<_> = sweep.terms.iter().map(|term| term.adjacency).collect();
    let copy = match from {
        State::Single(state) => Ahead::of(state, &operators).filter(Ahead::takes_all),
        State::Double(_) => None,
    };
    let copy = copy.map(|ahead| ahead.all());
    let from = copy.as_ref().map_or(from, |copy| State::Single(copy.view()));
    let isa = sweep.scratch.isa();
    let block = |_, rows: Range<usize>, mut part: P| {
        let mut largest = 0.0f64;
        let whole = rows.clone();
        let each = |row: usize, values: &[f64]| {
            let found = each(&mut part, whole.clone(), row, values);
            largest = if found.is_nan() { f64::INFINITY } else { largest.max(found) };
        };
        isa.dispatch(Rows { terms: sweep.terms, input: sweep.input, direction, from, rows, each });
        largest
    };
    sweep.blocks.map_reduce(parts, split, block, f64::max).unwrap_or(0.0)
}

/// One block of rows.
struct Rows<'a, F> {
    terms: &'a [Term<'a>],
    input: Added<'a>,
    direction: Direction<'a>,
    from: State<'a>,
    rows: Range<usize>,
    each: F,
}

impl<F: FnMut(usize, &[f64])> Kernel for Rows<'_, F> {
    type Output = ();

    #[inline(always)]
    fn compute<L: Lanes, const R: usize, const P: usize>(mut self) {
        let width = self.input.cols();
        let panels = width.div_ceil(LINE);
        let mut gathered = vec![0.0f64; ROWS * width];
        let mut sums = vec![0.0f64; ROWS * panels * LINE];
        let mut first = self.rows.start;
        while first < self.rows.end {
            let count = ROWS.min(self.rows.end - first);
            sums.fill(0.0);
            for term in self.terms {
                gathered.fill(0.0);
                for (at, sums) in gathered.chunks_exact_mut(width.max(1)).take(count).enumerate() {
                    gather(&term.adjacency, self.from, first + at, sums);
                }
                for panel in 0..panels {
                    let mut block = [[0.0f64; LINE]; ROWS];
                    for (l, line) in term.weights.panel(panel).iter().enumerate() {
                        let mut weights = [0.0f64; LINE];
                        weights.iter_mut().zip(&line.0).for_each(|(to, &x)| *to = f64::from(x));
                        for (at, sums) in block.iter_mut().enumerate() {
                            let factor = gathered[at * width + l];
                            sums.iter_mut().zip(&weights).for_each(|(sum, w)| *sum += factor * w);
                        }
                    }
                    for (at, block) in block.iter().enumerate() {
                        let sums = &mut sums[(at * panels + panel) * LINE..][..LINE];
                        sums.iter_mut().zip(block).for_each(|(sum, more)| *sum += more);
                    }
                }
            }
            for (at, sums) in sums.chunks_exact_mut(panels.max(1) * LINE).take(count).enumerate() {
                let (row, sums) = (first + at, &mut sums[..width]);
                if let Some(input) = self.input.row(row) {
                    sums.iter_mut().zip(input).for_each(|(sum, &input)| *sum += f64::from(input));
                }
                finish(self.direction, row, sums);
                (self.each)(row, sums);
            }
            first += count;
        }
    }
}

/// sums += a row of A X
#[inline(always)]
fn gather(adjacency: &AdjacencyRef<'_>, from: State<'_>, row: usize, sums: &mut [f64]) {
    let width = sums.len();
    let factor = f64::from(adjacency.row_factor(row));
    let (scale, values) = (adjacency.gather_scale(), adjacency.values());
    for at in adjacency.range(row) {
        let stored = adjacency.neighbours()[at] as usize;
        let value = values.map_or(1.0, |values| f64::from(values[at]));
        let entry = value * scale.map_or(1.0, |scale| f64::from(scale[stored])) * factor;
        let column = adjacency.column(row, at);
        match from {
            State::Single(state) => {
                let x = state.row(column);
                sums.iter_mut().zip(x).for_each(|(sum, &x)| *sum += entry * f64::from(x));
            }
            State::Double(state) => {
                let x = &state[column * width..][..width];
                sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += entry * x);
            }
        }
    }
}

/// phi(z) or D * z, in place.
#[inline(always)]
fn finish(direction: Direction<'_>, row: usize, z: &mut [f64]) {
    match direction {
        Direction::Forward(activation) => z.iter_mut().for_each(|z| *z = value(activation, *z)),
        Direction::Adjoint(derivative) => {
            z.iter_mut().enumerate().for_each(|(col, z)| *z *= slope(derivative, row, col));
        }
    }
}

/// phi(z)
fn value(activation: Activation, z: f64) -> f64 {
    match activation {
        Activation::Identity => z,
        Activation::Relu => {
            if z < 0.0 {
                0.0
            } else {
                z
            }
        }
        Activation::LeakyRelu(slope) => {
            if z < 0.0 {
                f64::from(slope) * z
            } else {
                z
            }
        }
        Activation::Tanh => z.tanh(),
        Activation::Sigmoid => 1.0 / (1.0 + (-z).exp()),
        Activation::Elu => {
            if z < 0.0 {
                z.exp_m1()
            } else {
                z
            }
        }
    }
}

/// An entry of D.
#[inline(always)]
fn slope(derivative: Derivative<'_>, row: usize, col: usize) -> f64 {
    let Derivative::State { activation, state } = derivative else {
        return f64::from(derivative.at(row, col));
    };
    let x = f64::from(state.row(row)[col]);
    match activation {
        Activation::Tanh => 1.0 - x * x,
        Activation::Sigmoid => x * (1.0 - x),
        Activation::Elu if x <= 0.0 => x + 1.0,
        _ => f64::from(derivative.at(row, col)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::naive::{Operator, Random};
    use super::super::sweep::{self, SweepScratch};
    use super::super::{Norm, PackedWeights};
    use super::*;
    use crate::dense::Matrix;

    /// A sweep in f32 is this evaluation, but for its rounding; and a state in f64 gives the same
    /// as one in f32.
    #[test]
    fn it_is_a_sweep_without_its_rounding() {
        let random = &mut Random(5);
        for (rows, width) in [(1, 1), (7, 3), (40, 16), (61, 37)] {
            let operators: Vec<Operator> =
                [1, 6].map(|parts| Operator::random(random, rows, rows, parts)).into();
            let weights: Vec<PackedWeights> = (0..2)
                .map(|_| PackedWeights::forward(random.matrix(width, width).view()))
                .collect();
            let views: Vec<AdjacencyRef<'_>> = operators.iter().map(Operator::view).collect();
            let terms = sweep::terms(&views, &weights);
            let (blocks, scratch) = (sweep::blocks(&terms), SweepScratch::new(&terms));
            let (input, x) = (random.matrix(rows, width), random.matrix(rows, width));
            let sweep = Sweep {
                blocks: &blocks,
                terms: &terms,
                input: input.view().into(),
                scratch: &scratch,
            };
            let wide: Vec<f64> =
                (0..rows).flat_map(|i| x.row(i).iter().map(|&x| f64::from(x))).collect();
            let state = |activation| Derivative::State { activation, state: input.view() };
            for direction in [
                Direction::Forward(Activation::Identity),
                Direction::Forward(Activation::Relu),
                Direction::Forward(Activation::Tanh),
                Direction::Adjoint(state(Activation::Sigmoid)),
                Direction::Adjoint(state(Activation::Elu)),
                Direction::Adjoint(Derivative::One),
            ] {
                let mut to = Matrix::zeros(rows, width);
                let tracking = sweep::Tracking::Nothing;
                sweep.step(direction, Norm::default(), tracking, x.view(), to.view_mut());
                for from in [State::Single(x.view()), State::Double(&wide)] {
                    let mut written = vec![0.0; rows * width];
                    let far = evaluate(
                        &sweep,
                        direction,
                        from,
                        &mut written[..],
                        |part, rows| part.split_at_mut(rows * width),
                        |part, block, row, values| {
                            part[(row - block.start) * width..][..width].copy_from_slice(values);
                            let pairs = values.iter().zip(to.row(row));
                            pairs.map(|(a, &b)| (a - f64::from(b)).abs()).fold(0.0, f64::max)
                        },
                    );
                    let size = written.iter().fold(1.0f64, |size, x| size.max(x.abs()));
                    assert!(far <= 2e-5 * size, "{direction:?}: {far} of {size}");
                }
            }
        }
    }
}
