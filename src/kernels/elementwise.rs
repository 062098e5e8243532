//! Elementwise operations on whole matrices: copies, sums, activations and their derivatives.
//! Entries are independent, so any order gives the same bits. For column sums see
//! [`gradient`](super::gradient).

use rayon::prelude::*;

use super::Activation;
use super::simd::{self, Isa, Kernel, Lanes};
use crate::dense::{LINE, Line, MatrixMut, MatrixRef};

/// Floats per piece of work.
const CHUNK: usize = 1 << 14;

/// to = from
pub fn copy(from: MatrixRef<'_>, to: MatrixMut<'_>) {
    pairs(to, from, |to, from| *to = from);
}

/// to += from
pub fn add(from: MatrixRef<'_>, to: MatrixMut<'_>) {
    pairs(to, from, |to, from| *to += from);
}

/// Each row of `to` += row
pub fn add_row(row: &[f32], mut to: MatrixMut<'_>) {
    let stride = to.stride();
    let rows = to.padded_mut().par_chunks_mut(stride).with_min_len(CHUNK / stride + 1);
    rows.for_each(|to| to.iter_mut().zip(row).for_each(|(to, x)| *to += x));
}

/// Each row of `to` = phi(that row + row)
pub fn add_row_and_activate(activation: Activation, row: &[f32], mut to: MatrixMut<'_>) {
    let (stride, cols) = (to.stride(), to.cols());
    let rows = to.padded_mut().par_chunks_mut(stride).with_min_len(CHUNK / stride + 1);
    rows.for_each(|to| {
        to[..cols].iter_mut().zip(row).for_each(|(to, x)| *to += x);
        activate_floats(activation, &mut to[..cols]);
    });
}

/// x = phi(x)
pub fn activate(activation: Activation, mut x: MatrixMut<'_>) {
    let (stride, cols) = (x.stride(), x.cols());
    let rows = x.padded_mut().par_chunks_mut(stride).with_min_len(CHUNK / stride + 1);
    rows.for_each(|x| activate_floats(activation, &mut x[..cols]));
}

/// x = phi(x), vectorised.
fn activate_floats(activation: Activation, x: &mut [f32]) {
    Isa::chosen().dispatch(Activate { activation, x });
}

/// An activation on some floats, in place.
struct Activate<'a> {
    activation: Activation,
    x: &'a mut [f32],
}

impl Kernel for Activate<'_> {
    type Output = ();

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) {
        match self.activation {
            Activation::Identity => {}
            Activation::Relu | Activation::LeakyRelu(_) => {
                self.x.iter_mut().for_each(|x| *x = self.activation.value(*x));
            }
            Activation::Tanh => by_lines::<L>(self.x, |x| simd::tanh(x)),
            Activation::Sigmoid => by_lines::<L>(self.x, |x| simd::sigmoid(x)),
            Activation::Elu => by_lines::<L>(self.x, |x| simd::elu(x)),
        }
    }
}

#[inline(always)]
fn by_lines<L: Lanes>(x: &mut [f32], f: impl Fn(L) -> L) {
    for chunk in x.chunks_mut(LINE) {
        let mut line = Line([0.0; LINE]);
        line.0[..chunk.len()].copy_from_slice(chunk);
        f(L::load(&line)).store(&mut line);
        chunk.copy_from_slice(&line.0[..chunk.len()]);
    }
}

/// The first entry that is NaN or infinite, with its row.
pub fn first_not_finite(x: MatrixRef<'_>) -> Option<(usize, f32)> {
    let is_finite = |chunk: &[f32]| chunk.iter().all(|x| x.is_finite());
    if x.padded().par_chunks(CHUNK).all(is_finite) {
        return None;
    }
    let in_row = |row: usize| x.row(row).iter().find(|x| !x.is_finite()).map(|&found| (row, found));
    (0..x.rows()).find_map(in_row)
}

/// A damped step, to += factor (from - to). Returns the largest difference before the step and the
/// largest entry after it.
pub fn damp(factor: f32, from: MatrixRef<'_>, mut to: MatrixMut<'_>) -> (f32, f32) {
    let chunks = to.padded_mut().par_chunks_mut(CHUNK).zip(from.padded().par_chunks(CHUNK));
    let largest = |(to, from): (&mut [f32], &[f32])| {
        let (mut moved, mut size) = (0f32, 0f32);
        for (to, from) in to.iter_mut().zip(from) {
            let change = from - *to;
            *to += factor * change;
            (moved, size) = (moved.max(change.abs()), size.max(to.abs()));
        }
        (moved, size)
    };
    chunks.map(largest).reduce(|| (0.0, 0.0), |a, b| (a.0.max(b.0), a.1.max(b.1)))
}

/// to = a to + b from
pub fn mix(a: f32, b: f32, from: MatrixRef<'_>, to: MatrixMut<'_>) {
    pairs(to, from, |to, from| *to = a * *to + b * from);
}

/// Each row of `to` = that row of `from` times its factor. `source` has the place of each row's
/// factor; without it, factors have the order of the rows. For matrices of at most 8 columns.
pub(super) fn scaled_rows(
    factors: &[f32],
    source: Option<&[u32]>,
    from: MatrixRef<'_>,
    mut to: MatrixMut<'_>,
) {
    assert_eq!((to.rows(), to.cols()), (from.rows(), from.cols()), "matrices of one shape");
    fn rows<const STRIDE: usize>(
        factors: &[f32],
        source: Option<&[u32]>,
        from: &[f32],
        to: &mut [f32],
    ) {
        let (from, to) = (from.as_chunks::<STRIDE>().0, to.as_chunks_mut::<STRIDE>().0);
        let chunks = to.par_chunks_mut(CHUNK / STRIDE).zip(from.par_chunks(CHUNK / STRIDE));
        chunks.enumerate().for_each(|(at, (to, from))| {
            let (first, rows) = (at * (CHUNK / STRIDE), to.iter_mut().zip(from));
            let scaled = |x: &[f32; STRIDE], factor: f32| x.map(|x| x * factor);
            match source {
                None => rows.zip(&factors[first..]).for_each(|((to, x), f)| *to = scaled(x, *f)),
                Some(source) => rows
                    .zip(&source[first..])
                    .for_each(|((to, x), &row)| *to = scaled(x, factors[row as usize])),
            }
        });
    }
    let (stride, from, to) = (to.stride(), from.padded(), to.padded_mut());
    match stride {
        1 => rows::<1>(factors, source, from, to),
        2 => rows::<2>(factors, source, from, to),
        4 => rows::<4>(factors, source, from, to),
        _ => rows::<8>(factors, source, from, to),
    }
}

/// to = 0
pub fn clear(mut to: MatrixMut<'_>) {
    to.padded_mut().par_chunks_mut(CHUNK).for_each(|chunk| chunk.fill(0.0));
}

/// to *= factor
pub fn scale(factor: f32, mut to: MatrixMut<'_>) {
    to.padded_mut()
        .par_chunks_mut(CHUNK)
        .for_each(|chunk| chunk.iter_mut().for_each(|x| *x *= factor));
}

/// x = phi(x + y), such as the result of a layer with a skip connection.
pub fn add_and_activate(activation: Activation, y: MatrixRef<'_>, mut x: MatrixMut<'_>) {
    assert_eq!((x.rows(), x.cols()), (y.rows(), y.cols()), "matrices of one shape");
    // Padding stays zero, whatever phi(0) is.
    let (cols, stride) = (y.cols(), y.stride());
    let rows = x.padded_mut().par_chunks_mut(stride).zip(y.padded().par_chunks(stride));
    rows.with_min_len(CHUNK / stride + 1).for_each(|(x, y)| {
        x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
        activate_floats(activation, &mut x[..cols]);
    });
}

/// g *= phi'(z), from x = phi(z).
pub fn differentiate(activation: Activation, x: MatrixRef<'_>, g: MatrixMut<'_>) {
    pairs(g, x, |g, x| *g *= activation.derivative(x));
}

fn pairs(mut to: MatrixMut<'_>, from: MatrixRef<'_>, each: impl Fn(&mut f32, f32) + Sync) {
    assert_eq!((to.rows(), to.cols()), (from.rows(), from.cols()), "matrices of one shape");
    let chunks = to.padded_mut().par_chunks_mut(CHUNK).zip(from.padded().par_chunks(CHUNK));
    chunks.for_each(|(to, from)| to.iter_mut().zip(from).for_each(|(to, &from)| each(to, from)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Matrix;

    #[test]
    fn entries_meet_their_neighbours_and_padding_stays_zero() {
        let y = Matrix::from_fn(3, 5, |i, k| (i * 5 + k) as f32 - 7.0);
        for activation in [Activation::Elu, Activation::Sigmoid, Activation::Relu] {
            let mut x = Matrix::from_fn(3, 5, |i, k| 0.25 * (i + k) as f32);
            let sum = Matrix::from_fn(3, 5, |i, k| x.row(i)[k] + y.row(i)[k]);
            add_and_activate(activation, y.view(), x.view_mut());
            let mut g = Matrix::from_fn(3, 5, |_, _| 2.0);
            differentiate(activation, x.view(), g.view_mut());
            for i in 0..3 {
                for k in 0..5 {
                    let expected = activation.value(sum.row(i)[k]);
                    assert!(
                        (x.row(i)[k] - expected).abs() <= 1e-6 * expected.abs(),
                        "{activation:?}"
                    );
                    let value = |by: f32| f64::from(activation.value(sum.row(i)[k] + by));
                    let difference = (value(1e-2) - value(-1e-2)) / 1e-2;
                    assert!((f64::from(g.row(i)[k]) - difference).abs() < 2e-2, "{activation:?}");
                }
                assert!(x.view().padded_row(i)[5..].iter().all(|&x| x == 0.0), "{activation:?}");
            }
        }
    }
}
