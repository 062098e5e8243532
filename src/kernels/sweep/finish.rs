//! The last step of a row after its product: add the input, activate or multiply, and record the
//! change.

use std::ops::Range;

use super::super::simd::{self, Lanes, Order};
use super::super::{Activation, Added, Change, Derivative, Norm, RowPlaces};
use crate::dense::{LINE, Line, MatrixRef};

const ZERO: Line = Line([0.0; LINE]);

/// Turns lines of the product into lines of the result, in place.
pub(super) trait Finish: Sync {
    /// The lines from number `first` on, of whole rows or of rows that share lines.
    fn lines<L: Lanes>(&self, first: usize, product: &mut [Line]);

    /// The matrix of which `lines` reads every row, if any.
    fn input(&self) -> Option<MatrixRef<'_>>;
}

/// phi(sum + B)
pub(super) struct Activate<'a> {
    pub input: Added<'a>,
    pub activation: Activation,
}

/// D * (sum + R)
pub(super) struct Differentiate<'a> {
    pub input: Added<'a>,
    pub derivative: Derivative<'a>,
}

/// sum + bias, of rows in whole lines.
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
    fn lines<L: Lanes>(&self, first: usize, product: &mut [Line]) {
        match self.input {
            Added::All(input) => {
                let input = &input.lines()[first..][..product.len()];
                activate::<L>(self.activation, product, input);
            }
            Added::Some { places, rows } => {
                add_some::<L>(places, rows, first, product);
                // A second zero changes nothing.
                activate::<L>(self.activation, product, std::iter::repeat(&ZERO));
            }
        }
    }

    #[inline(always)]
    fn input(&self) -> Option<MatrixRef<'_>> {
        all(self.input)
    }
}

/// phi(sum + b)
#[inline(always)]
fn activate<'a, L: Lanes>(
    activation: Activation,
    product: &mut [Line],
    input: impl IntoIterator<Item = &'a Line>,
) {
    let zero = L::splat(0.0);
    match activation {
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

/// The matrix that has all rows.
#[inline(always)]
fn all(input: Added<'_>) -> Option<MatrixRef<'_>> {
    match input {
        Added::All(matrix) => Some(matrix),
        Added::Some { .. } => None,
    }
}

/// product += the rows that are there, and zeros for the others: a sum of -0 becomes +0.
#[inline(always)]
fn add_some<L: Lanes>(places: &RowPlaces, rows: MatrixRef<'_>, first: usize, product: &mut [Line]) {
    let (stride, zero) = (rows.stride(), L::splat(0.0));
    if stride >= LINE {
        let per_row = stride / LINE;
        for (row, sums) in (first / per_row..).zip(product.chunks_exact_mut(per_row)) {
            match places.of(row) {
                Some(at) => {
                    let row: &[Line] = bytemuck::cast_slice(rows.padded_row(at));
                    for_lines!(L, sums, row, |sum, r| sum.add(r));
                }
                None => sums.iter_mut().for_each(|sum| L::load(sum).add(zero).store(sum)),
            }
        }
        return;
    }
    let shared = LINE / stride;
    for (at, sums) in (first..).zip(product) {
        let mut line = ZERO;
        let all = at * shared..places.rows().min((at + 1) * shared);
        for (row, to) in all.zip(line.0.chunks_exact_mut(stride)) {
            if let Some(at) = places.of(row) {
                to.copy_from_slice(rows.padded_row(at));
            }
        }
        L::load(sums).add(L::load(&line)).store(sums);
    }
}

impl Finish for Differentiate<'_> {
    #[inline(always)]
    fn lines<L: Lanes>(&self, first: usize, product: &mut [Line]) {
        match self.input {
            Added::All(input) => {
                let input = &input.lines()[first..][..product.len()];
                for_lines!(L, product, input, |sum, r| sum.add(r));
            }
            Added::Some { places, rows } => add_some::<L>(places, rows, first, product),
        }
        let (one, zero) = (L::splat(1.0), L::splat(0.0));
        match self.derivative {
            Derivative::One => {}
            Derivative::Signs { signs, slope } => {
                let slope = L::splat(slope);
                for (line, &bits) in product.iter_mut().zip(&signs.words()[first..]) {
                    let z = L::load(line);
                    L::by_bits(bits, z, z.mul(slope)).store(line);
                }
            }
            Derivative::Matrix(matrix) => {
                let matrix = &matrix.lines()[first..][..product.len()];
                for_lines!(L, product, matrix, |z, d| z.mul(d));
            }
            Derivative::State { activation, state } => {
                let state = &state.lines()[first..][..product.len()];
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
        all(self.input)
    }
}

impl Finish for AddBias<'_> {
    #[inline(always)]
    fn lines<L: Lanes>(&self, _first: usize, product: &mut [Line]) {
        if let Some(bias) = self.bias {
            for row in product.chunks_exact_mut(bias.len().div_ceil(LINE)) {
                let row: &mut [f32] = bytemuck::cast_slice_mut(row);
                row.iter_mut().zip(bias).for_each(|(sum, bias)| *sum += bias);
            }
        }
    }

    #[inline(always)]
    fn input(&self) -> Option<MatrixRef<'_>> {
        None
    }
}

/// Makes the padding of finished rows zero again: not every activation maps zero to zero.
#[inline(always)]
pub(super) fn clear_padding<L: Lanes>(rows: &mut [Line], cols: usize) {
    if !cols.is_multiple_of(LINE) {
        for row in rows.chunks_exact_mut(cols.div_ceil(LINE)) {
            if let Some(last) = row.last_mut() {
                clear_lanes::<L>(last, (1 << (cols % LINE)) - 1);
            }
        }
    }
}

/// Makes all lanes zero but those whose bits are set.
#[inline(always)]
pub(super) fn clear_lanes<L: Lanes>(line: &mut Line, kept: u16) {
    L::by_bits(kept, L::load(line), L::splat(0.0)).store(line);
}

/// The maxima of a change, lane by lane.
#[derive(Clone, Copy)]
pub(super) struct Maxima<L> {
    weighted: L,
    largest: L,
    state: L,
    row: f32,
    /// The same of rows that share lines.
    rows: L,
}

/// What is largest in each of the rows that share a line, in every lane of the row.
#[derive(Clone, Copy)]
pub(super) struct RowSizes<L> {
    stride: usize,
    /// max |new - old|
    pub delta: L,
    /// max |new|
    pub new: L,
    /// max |old|
    pub old: L,
}

impl<L: Lanes> RowSizes<L> {
    #[inline(always)]
    pub fn of(stride: usize, old: &Line, new: &Line) -> Self {
        let (old, new) = (L::load(old), L::load(new));
        let (mut delta, mut new_size, mut old_size) = (new.sub(old).abs(), new.abs(), old.abs());
        let mut apart = 1;
        while apart < stride {
            let order = Order(std::array::from_fn(|lane| (lane ^ apart) as u32));
            delta = delta.max_bits(delta.permute(&order));
            new_size = new_size.max_bits(new_size.permute(&order));
            old_size = old_size.max_bits(old_size.permute(&order));
            apart *= 2;
        }
        Self { stride, delta, new: new_size, old: old_size }
    }
}

impl<L: Lanes> Maxima<L> {
    #[inline(always)]
    pub fn new() -> Self {
        let zero = L::splat(0.0);
        Self { weighted: zero, largest: zero, state: zero, row: 0.0, rows: zero }
    }

    /// Records lines that were `old` and are `new`.
    #[inline(always)]
    pub fn note(&mut self, old: &[Line], new: &[Line]) {
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
    fn note_weighted(&mut self, old: &[Line], new: &[Line], inverse_u: L, inverse_v: &[Line]) {
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

    /// Records whole rows in every way that the norm asks for; `inverse_v` is 1 / v.
    #[inline(always)]
    pub fn note_rows(
        &mut self,
        norm: &Norm<'_>,
        rows: Range<usize>,
        old: &[Line],
        new: &[Line],
        inverse_v: &[Line],
    ) {
        let per_row = inverse_v.len();
        if norm.u.is_none() && norm.v.is_none() {
            self.note(old, new);
        } else {
            let lines = old.chunks_exact(per_row).zip(new.chunks_exact(per_row));
            for (row, (old, new)) in rows.zip(lines) {
                let inverse_u = L::splat(norm.u.map_or(1.0, |u| 1.0 / u[row]));
                self.note_weighted(old, new, inverse_u, inverse_v);
            }
        }
        if let Some(above) = norm.rows {
            for (old, new) in old.chunks_exact(per_row).zip(new.chunks_exact(per_row)) {
                self.note_row(old, new, above);
            }
        }
    }

    /// The same for a line that several rows share, from `first` on; `inverse_v` has 1 / v once for
    /// each of them.
    #[inline(always)]
    pub fn note_shared(
        &mut self,
        norm: &Norm<'_>,
        first: usize,
        sizes: &RowSizes<L>,
        (old, new): (&Line, &Line),
        inverse_v: &Line,
    ) {
        let (old, new) = (std::slice::from_ref(old), std::slice::from_ref(new));
        if norm.u.is_none() && norm.v.is_none() {
            self.note(old, new);
        } else {
            let mut weights = Line([1.0; LINE]);
            if let Some(u) = norm.u {
                for (weights, u) in weights.0.chunks_exact_mut(sizes.stride).zip(&u[first..]) {
                    weights.fill(*u);
                }
            }
            let inverse_u = L::splat(1.0).div(L::load(&weights));
            self.note_weighted(old, new, inverse_u, std::slice::from_ref(inverse_v));
        }
        if let Some(above) = norm.rows {
            let zero = L::splat(0.0);
            let size = sizes.new.max_bits(sizes.old);
            let ratio = sizes.delta.div(size);
            let ratio = size.sub(L::splat(above)).if_positive(ratio, zero);
            // Ratios of numbers that are not finite do not count.
            self.rows = self.rows.max_bits(ratio.if_positive(ratio, zero));
        }
    }

    #[inline(always)]
    pub fn change(self, is_weighted: bool) -> Change {
        let (moved, state) = (self.largest.largest(), self.state.largest());
        let weighted = if is_weighted { self.weighted.largest() } else { moved };
        let finite = moved.is_finite() && state.is_finite();
        let row = self.row.max(self.rows.largest());
        Change { weighted, largest: moved, state, row, finite, rows: 0, moved: 0 }
    }
}
