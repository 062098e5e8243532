//! What happens to a row after its product: add, activate or multiply, and note the change.
//! A line at a time, in registers.

use super::super::simd::{self, Lanes};
use super::super::{Activation, Change, Derivative};
use crate::dense::{LINE, Line, MatrixRef};

/// Turns a line of the product into a line of the result.
pub(super) trait Finish: Sync {
    fn line<L: Lanes>(&self, row: usize, line: usize, sum: L) -> L;

    /// Where the row of the input begins that `line` will read, if it reads one.
    fn input(&self) -> Option<MatrixRef<'_>>;
}

/// phi(sum + B)
pub(super) struct Activate<'a> {
    pub input: MatrixRef<'a>,
    pub activation: Activation,
}

/// D * (sum + R)
pub(super) struct Differentiate<'a> {
    pub input: MatrixRef<'a>,
    pub derivative: Derivative<'a>,
}

/// sum + bias
pub(super) struct AddBias<'a> {
    pub bias: Option<&'a [f32]>,
}

impl Finish for Activate<'_> {
    #[inline(always)]
    fn line<L: Lanes>(&self, row: usize, line: usize, sum: L) -> L {
        let z = sum.add(load::<L>(self.input, row, line));
        match self.activation {
            Activation::Identity => z,
            Activation::Relu => z.where_negative(L::splat(0.0)),
            Activation::LeakyRelu(slope) => z.where_negative(z.mul(L::splat(slope))),
            Activation::Tanh => simd::tanh(z),
            Activation::Sigmoid => simd::sigmoid(z),
            Activation::Elu => simd::elu(z),
        }
    }

    fn input(&self) -> Option<MatrixRef<'_>> {
        Some(self.input)
    }
}

impl Finish for Differentiate<'_> {
    #[inline(always)]
    fn line<L: Lanes>(&self, row: usize, line: usize, sum: L) -> L {
        let z = sum.add(load::<L>(self.input, row, line));
        let one = L::splat(1.0);
        match self.derivative {
            Derivative::One => z,
            Derivative::Signs { signs, slope } => L::by_bits(signs.row(row)[line], z, z.mul(L::splat(slope))),
            Derivative::Matrix(matrix) => z.mul(load::<L>(matrix, row, line)),
            Derivative::State { activation, state } => {
                let x = load::<L>(state, row, line);
                match activation {
                    Activation::Identity => z,
                    Activation::Relu => z.mul(x.if_positive(one, L::splat(0.0))),
                    Activation::LeakyRelu(slope) => z.mul(x.if_positive(one, L::splat(slope))),
                    Activation::Tanh => z.mul(one.sub(x.mul(x))),
                    Activation::Sigmoid => z.mul(x.mul(one.sub(x))),
                    Activation::Elu => z.mul(x.if_positive(one, x.add(one))),
                }
            }
        }
    }

    fn input(&self) -> Option<MatrixRef<'_>> {
        Some(self.input)
    }
}

impl Finish for AddBias<'_> {
    #[inline(always)]
    fn line<L: Lanes>(&self, _row: usize, line: usize, sum: L) -> L {
        match self.bias {
            None => sum,
            Some(bias) => sum.add(L::load(&line_of(bias, line, |x| x))),
        }
    }

    fn input(&self) -> Option<MatrixRef<'_>> {
        None
    }
}

/// A line of a row; of a narrow matrix the row, followed by zeros.
#[inline(always)]
pub(super) fn load<L: Lanes>(matrix: MatrixRef<'_>, row: usize, line: usize) -> L {
    let stride = matrix.stride();
    if stride >= LINE {
        L::load(&matrix.lines()[row * (stride / LINE) + line])
    } else {
        L::load(&line_of(matrix.padded_row(row), 0, |x| x))
    }
}

/// A line of a plain vector, every entry through `map`, zeros beyond its end.
#[inline(always)]
pub(super) fn line_of(vector: &[f32], line: usize, map: impl Fn(f32) -> f32) -> Line {
    let mut out = Line([0.0; LINE]);
    for (out, &x) in out.0.iter_mut().zip(&vector[line * LINE..]) {
        *out = map(x);
    }
    out
}

/// The maxima of a change, lane by lane.
#[derive(Clone, Copy)]
pub(super) struct Maxima<L> {
    weighted: L,
    largest: L,
    state: L,
}

impl<L: Lanes> Maxima<L> {
    #[inline(always)]
    pub fn new() -> Self {
        let zero = L::splat(0.0);
        Self { weighted: zero, largest: zero, state: zero }
    }

    /// Notes a line that was `old` and is `new`, with the factor 1 / (u v) of its lanes where the norm has weights.
    #[inline(always)]
    pub fn note(&mut self, old: L, new: L, factor: Option<L>) {
        let delta = new.sub(old).abs();
        self.largest = self.largest.max_bits(delta);
        self.state = self.state.max_bits(new.abs());
        if let Some(factor) = factor {
            self.weighted = self.weighted.max_bits(delta.mul(factor));
        }
    }

    #[inline(always)]
    pub fn change(self, is_weighted: bool) -> Change {
        // By bits, as in the lanes: a NaN is larger than anything.
        let max = |lanes: L| lanes.to_array().iter().fold(0, |max, x| x.to_bits().max(max));
        let (largest, state) = (f32::from_bits(max(self.largest)), f32::from_bits(max(self.state)));
        let weighted = if is_weighted { f32::from_bits(max(self.weighted)) } else { largest };
        Change { weighted, largest, state, finite: largest.is_finite() && state.is_finite() }
    }
}
