//! The last step of a row after its product: add the input, activate or multiply, and record the
//! change.

use super::super::simd::{self, Lanes};
use super::super::{Activation, Change, Derivative, Norm};
use crate::dense::{LINE, Line, MatrixRef};

/// Turns a row of the product into a row of the result, in place.
pub(super) trait Finish: Sync {
    fn row<L: Lanes>(&self, row: usize, product: &mut [Line]);

    /// The matrix that `row` reads, if any.
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

/// `line = f(line, other line)` for the lines of two rows; a macro, because a closure would not be
/// compiled for the instruction set.
macro_rules! for_lines {
    ($L:ty, $row:expr, $others:expr, |$x:ident, $other:ident| $value:expr) => {
        for (line, other) in $row.iter_mut().zip($others) {
            let ($x, $other) = (<$L>::load(line), <$L>::load(other));
            $value.store(line);
        }
    };
}

impl Finish for Activate<'_> {
    #[inline(always)]
    fn row<L: Lanes>(&self, row: usize, product: &mut [Line]) {
        let mut narrow = [Line([0.0; LINE])];
        let input = line_row(self.input, row, &mut narrow);
        let zero = L::splat(0.0);
        match self.activation {
            Activation::Identity => for_lines!(L, product, input, |sum, b| sum.add(b)),
            Activation::Relu => {
                for_lines!(L, product, input, |sum, b| sum.add(b).where_negative(zero))
            }
            Activation::LeakyRelu(slope) => {
                let slope = L::splat(slope);
                for_lines!(L, product, input, |sum, b| {
                    let z = sum.add(b);
                    z.where_negative(z.mul(slope))
                });
            }
            Activation::Tanh => for_lines!(L, product, input, |sum, b| simd::tanh(sum.add(b))),
            Activation::Sigmoid => {
                for_lines!(L, product, input, |sum, b| simd::sigmoid(sum.add(b)))
            }
            Activation::Elu => for_lines!(L, product, input, |sum, b| simd::elu(sum.add(b))),
        }
    }

    #[inline(always)]
    fn input(&self) -> Option<MatrixRef<'_>> {
        Some(self.input)
    }
}

impl Finish for Differentiate<'_> {
    #[inline(always)]
    fn row<L: Lanes>(&self, row: usize, product: &mut [Line]) {
        let mut narrow = [Line([0.0; LINE])];
        let input = line_row(self.input, row, &mut narrow);
        for_lines!(L, product, input, |sum, r| sum.add(r));
        let (one, zero) = (L::splat(1.0), L::splat(0.0));
        match self.derivative {
            Derivative::One => {}
            Derivative::Signs { signs, slope } => {
                let slope = L::splat(slope);
                for (line, &bits) in product.iter_mut().zip(signs.row(row)) {
                    let z = L::load(line);
                    L::by_bits(bits, z, z.mul(slope)).store(line);
                }
            }
            Derivative::Matrix(matrix) => {
                let matrix = line_row(matrix, row, &mut narrow);
                for_lines!(L, product, matrix, |z, d| z.mul(d));
            }
            Derivative::State { activation, state } => {
                let state = line_row(state, row, &mut narrow);
                match activation {
                    Activation::Identity => {}
                    Activation::Relu => {
                        for_lines!(L, product, state, |z, x| z.mul(x.if_positive(one, zero)))
                    }
                    Activation::LeakyRelu(slope) => {
                        let slope = L::splat(slope);
                        for_lines!(L, product, state, |z, x| z.mul(x.if_positive(one, slope)));
                    }
                    Activation::Tanh => {
                        for_lines!(L, product, state, |z, x| z.mul(one.sub(x.mul(x))))
                    }
                    Activation::Sigmoid => {
                        for_lines!(L, product, state, |z, x| z.mul(x.mul(one.sub(x))))
                    }
                    Activation::Elu => {
                        for_lines!(L, product, state, |z, x| z.mul(x.if_positive(one, x.add(one))));
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn input(&self) -> Option<MatrixRef<'_>> {
        Some(self.input)
    }
}

impl Finish for AddBias<'_> {
    #[inline(always)]
    fn row<L: Lanes>(&self, _row: usize, product: &mut [Line]) {
        if let Some(bias) = self.bias {
            let product: &mut [f32] = bytemuck::cast_slice_mut(product);
            product.iter_mut().zip(bias).for_each(|(sum, bias)| *sum += bias);
        }
    }

    #[inline(always)]
    fn input(&self) -> Option<MatrixRef<'_>> {
        None
    }
}

/// The lines of a row; of a narrow matrix one line in `narrow`, the row followed by zeros.
#[inline(always)]
pub(super) fn line_row<'a>(
    matrix: MatrixRef<'a>,
    row: usize,
    narrow: &'a mut [Line],
) -> &'a [Line] {
    let floats = matrix.padded_row(row);
    if floats.len() >= LINE {
        return bytemuck::cast_slice(floats);
    }
    narrow[0] = Line([0.0; LINE]);
    narrow[0].0[..floats.len()].copy_from_slice(floats);
    &narrow[..1]
}

/// Makes the padding of a finished row zero again: not every activation maps zero to zero.
#[inline(always)]
pub(super) fn clear_padding<L: Lanes>(row: &mut [Line], cols: usize) {
    if !cols.is_multiple_of(LINE)
        && let Some(last) = row.last_mut()
    {
        L::by_bits((1 << (cols % LINE)) - 1, L::load(last), L::splat(0.0)).store(last);
    }
}

/// The maxima of a change, lane by lane.
#[derive(Clone, Copy)]
pub(super) struct Maxima<L> {
    weighted: L,
    largest: L,
    state: L,
    row: f32,
}

impl<L: Lanes> Maxima<L> {
    #[inline(always)]
    pub fn new() -> Self {
        let zero = L::splat(0.0);
        Self { weighted: zero, largest: zero, state: zero, row: 0.0 }
    }

    /// Records a row that was `old` and is `new`.
    #[inline(always)]
    fn note(&mut self, old: &[Line], new: &[Line]) {
        let (mut largest, mut state) = (self.largest, self.state);
        for (old, new) in old.iter().zip(new) {
            let new = L::load(new);
            largest = largest.max_bits(new.sub(L::load(old)).abs());
            state = state.max_bits(new.abs());
        }
        (self.largest, self.state) = (largest, state);
    }

    /// The same in a weighted norm.
    #[inline(always)]
    fn note_weighted(&mut self, old: &[Line], new: &[Line], inverse_u: f32, inverse_v: &[Line]) {
        let inverse_u = L::splat(inverse_u);
        let (mut largest, mut state, mut weighted) = (self.largest, self.state, self.weighted);
        for ((old, new), inverse_v) in old.iter().zip(new).zip(inverse_v) {
            let new = L::load(new);
            let delta = new.sub(L::load(old)).abs();
            largest = largest.max_bits(delta);
            state = state.max_bits(new.abs());
            weighted = weighted.max_bits(delta.mul(L::load(inverse_v)).mul(inverse_u));
        }
        (self.largest, self.state, self.weighted) = (largest, state, weighted);
    }

    /// Records the change of a row relative to itself.
    #[inline(always)]
    fn note_row(&mut self, old: &[Line], new: &[Line], above: f32) {
        let (mut delta, mut size) = (L::splat(0.0), L::splat(0.0));
        for (old, new) in old.iter().zip(new) {
            let (old, new) = (L::load(old), L::load(new));
            delta = delta.max_bits(new.sub(old).abs());
            size = size.max_bits(new.abs()).max_bits(old.abs());
        }
        let (delta, size) = (delta.largest(), size.largest());
        if size > above && delta > 0.0 {
            self.row = self.row.max(delta / size);
        }
    }

    /// Records a row in every way that the norm asks for; `inverse_v` is 1 / v.
    #[inline(always)]
    pub fn note_in(
        &mut self,
        norm: &Norm<'_>,
        row: usize,
        old: &[Line],
        new: &[Line],
        inverse_v: &[Line],
    ) {
        match norm.u.map(|u| 1.0 / u[row]) {
            None if norm.v.is_none() => self.note(old, new),
            inverse_u => self.note_weighted(old, new, inverse_u.unwrap_or(1.0), inverse_v),
        }
        if let Some(above) = norm.rows {
            self.note_row(old, new, above);
        }
    }

    #[inline(always)]
    pub fn change(self, is_weighted: bool) -> Change {
        let (moved, state) = (self.largest.largest(), self.state.largest());
        let weighted = if is_weighted { self.weighted.largest() } else { moved };
        let finite = moved.is_finite() && state.is_finite();
        Change { weighted, largest: moved, state, row: self.row, finite, rows: 0, moved: 0 }
    }
}
