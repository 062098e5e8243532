//! The size of a matrix in the norm of a certificate.

use std::ops::Range;

use super::Norm;
use super::simd::{Isa, Kernel, Lanes};
use crate::dense::{LINE, Line, MatrixRef};
use crate::parallel::RowBlocks;

/// max |m_ik| / (u_i v_k), computed in f32 as |m| * (1 / v) * (1 / u); NaN if an entry is NaN.
///
/// # Panics
/// If the vectors of the norm have other lengths.
pub fn largest(matrix: MatrixRef<'_>, norm: Norm<'_>) -> f32 {
    assert!(norm.u.is_none_or(|u| u.len() == matrix.rows()), "one weight per row");
    assert!(norm.v.is_none_or(|v| v.len() == matrix.cols()), "one weight per column");
    let mut inverse_v = vec![Line([1.0; LINE]); matrix.stride().div_ceil(LINE)];
    norm.invert_v(matrix.stride(), &mut inverse_v);
    let isa = Isa::chosen();
    let block = |_, rows: Range<usize>, ()| {
        isa.dispatch(Largest { matrix, u: norm.u, inverse_v: &inverse_v, rows })
    };
    let blocks = RowBlocks::balanced(matrix.rows(), &[], 1 + matrix.cols() as u64 / 16);
    let found = blocks.map_reduce((), |(), _| ((), ()), block, u32::max);
    f32::from_bits(found.unwrap_or(0))
}

/// The maximum over some rows, as bits: those of non-negative floats have the same order, with NaN
/// above all.
struct Largest<'a> {
    matrix: MatrixRef<'a>,
    u: Option<&'a [f32]>,
    inverse_v: &'a [Line],
    rows: Range<usize>,
}

impl Kernel for Largest<'_> {
    type Output = u32;

    #[inline(always)]
    fn compute<L: Lanes, const ROWS: usize, const PANELS: usize>(self) -> u32 {
        let mut all = L::splat(0.0);
        let mut rest = 0u32;
        for row in self.rows {
            let inverse_u = self.u.map_or(1.0, |u| 1.0 / u[row]);
            let floats = self.matrix.padded_row(row);
            if floats.len() < LINE {
                let entries = floats.iter().zip(&self.inverse_v[0].0);
                rest = entries
                    .fold(rest, |max, (x, v)| (x.abs() * v * inverse_u).abs().to_bits().max(max));
                continue;
            }
            let lines: &[Line] = bytemuck::cast_slice(floats);
            let inverse_u = L::splat(inverse_u);
            for (line, v) in lines.iter().zip(self.inverse_v) {
                all = all.max_bits(L::load(line).abs().mul(L::load(v)).mul(inverse_u).abs());
            }
        }
        all.largest().to_bits().max(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::Random;

    #[test]
    fn it_is_the_naive_maximum_and_a_nan_shows() {
        for (rows, cols) in [(0, 3), (1, 1), (9, 3), (40, 16), (333, 50)] {
            let random = &mut Random(1);
            let mut matrix = random.matrix(rows, cols);
            let u: Vec<f32> = (0..rows).map(|i| 0.5 + (i % 7) as f32).collect();
            let v: Vec<f32> = (0..cols).map(|k| 0.25 + (k % 5) as f32).collect();
            for (u, v) in [
                (None, None),
                (Some(&u[..]), None),
                (None, Some(&v[..])),
                (Some(&u[..]), Some(&v[..])),
            ] {
                let norm = Norm { u, v, rows: None };
                let weight = |i: usize, k: usize| u.map_or(1.0, |u| u[i]) * v.map_or(1.0, |v| v[k]);
                let entries = (0..rows).flat_map(|i| (0..cols).map(move |k| (i, k)));
                let expected =
                    entries.map(|(i, k)| matrix.row(i)[k].abs() / weight(i, k)).fold(0.0, f32::max);
                assert!((largest(matrix.view(), norm) - expected).abs() <= 1e-6 * expected);
            }
            if rows > 0 {
                matrix.row_mut(rows / 2)[cols - 1] = f32::NAN;
                assert!(largest(matrix.view(), Norm::default()).is_nan());
            }
        }
    }
}
