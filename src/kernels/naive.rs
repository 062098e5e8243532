//! Random operators, and plain loops in f64 that every kernel is tested against.

use super::{Activation, AdjacencyRef, Derivative};
use half::f16;

use crate::dense::{Matrix, MatrixRef};

/// A small generator of numbers, the same everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 ^ (self.0 >> 29)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// In [-1, 1).
    pub fn float(&mut self) -> f32 {
        (self.next() % 65536) as f32 / 32768.0 - 1.0
    }

    pub fn matrix(&mut self, rows: usize, cols: usize) -> Matrix {
        Matrix::from_fn(rows, cols, |_, _| self.float())
    }

    pub fn vector(&mut self, length: usize) -> Vec<f32> {
        (0..length).map(|_| 0.1 + self.float().abs()).collect()
    }
}

/// An operator that owns its arrays.
pub struct Operator {
    pub columns: usize,
    pub offsets: Vec<u64>,
    pub neighbours: Vec<u32>,
    pub values: Option<Vec<f32>>,
    pub gather_scale: Option<Vec<f32>>,
    pub row_scale: Option<Vec<f32>>,
}

impl Operator {
    /// Rows of 0 to 9 entries, now and then a hub; the bits of `parts` choose values and scales.
    pub fn random(random: &mut Random, rows: usize, columns: usize, parts: usize) -> Self {
        let mut offsets = vec![0];
        let mut neighbours = Vec::new();
        for _ in 0..rows {
            let degree = if random.below(20) == 0 { 60 } else { random.below(10) };
            let mut row: Vec<u32> = (0..degree).map(|_| random.below(columns) as u32).collect();
            row.sort_unstable();
            row.dedup();
            neighbours.extend(row);
            offsets.push(neighbours.len() as u64);
        }
        let entries = neighbours.len();
        Self {
            columns,
            offsets,
            neighbours,
            values: (parts & 1 != 0).then(|| random.vector(entries)),
            gather_scale: (parts & 2 != 0).then(|| random.vector(columns)),
            row_scale: (parts & 4 != 0).then(|| random.vector(rows)),
        }
    }

    pub fn view(&self) -> AdjacencyRef<'_> {
        let mut view = AdjacencyRef::new(self.columns, &self.offsets, &self.neighbours).unwrap();
        if let Some(values) = &self.values {
            view = view.with_values(values);
        }
        if let Some(scale) = &self.gather_scale {
            view = view.with_gather_scale(scale);
        }
        if let Some(scale) = &self.row_scale {
            view = view.with_row_scale(scale);
        }
        view
    }
}

/// Rows of f64.
pub type Rows = Vec<Vec<f64>>;

/// A^T X
pub fn gather(adjacency: AdjacencyRef<'_>, x: MatrixRef<'_>) -> Rows {
    let row = |i| {
        let mut sum = vec![0.0; x.cols()];
        for (j, value) in adjacency.entries(i) {
            sum.iter_mut()
                .zip(x.row(j))
                .for_each(|(sum, &x)| *sum += f64::from(value) * f64::from(x));
        }
        sum
    };
    (0..adjacency.rows()).map(row).collect()
}

/// S W^T
pub fn times_transposed(s: &Rows, w: MatrixRef<'_>) -> Rows {
    let dot = |s: &[f64], w: &[f32]| s.iter().zip(w).map(|(s, &w)| s * f64::from(w)).sum::<f64>();
    s.iter().map(|s| (0..w.rows()).map(|k| dot(s, w.row(k))).collect()).collect()
}

/// S W
pub fn times(s: &Rows, w: MatrixRef<'_>) -> Rows {
    let column =
        |s: &[f64], l: usize| s.iter().enumerate().map(|(k, s)| s * f64::from(w.row(k)[l])).sum();
    s.iter().map(|s| (0..w.cols()).map(|l| column(s, l)).collect()).collect()
}

/// X' of the forward sweep.
pub fn forward(
    terms: &[(AdjacencyRef<'_>, MatrixRef<'_>)],
    input: MatrixRef<'_>,
    activation: Activation,
    from: MatrixRef<'_>,
) -> Rows {
    let parts: Vec<_> =
        terms.iter().map(|(a, w)| times_transposed(&gather(*a, from), *w)).collect();
    finish(&parts, input, |_, _, z| f64::from(activation.value(z as f32)))
}

/// G' of the adjoint sweep.
pub fn adjoint(
    terms: &[(AdjacencyRef<'_>, MatrixRef<'_>)],
    input: MatrixRef<'_>,
    derivative: Derivative<'_>,
    from: MatrixRef<'_>,
) -> Rows {
    let parts: Vec<_> = terms.iter().map(|(a, w)| times(&gather(*a, from), *w)).collect();
    finish(&parts, input, |i, k, z| f64::from(derivative.at(i, k)) * z)
}

fn finish(parts: &[Rows], input: MatrixRef<'_>, phi: impl Fn(usize, usize, f64) -> f64) -> Rows {
    let entry = |i: usize, k: usize| {
        f64::from(input.row(i)[k]) + parts.iter().map(|part| part[i][k]).sum::<f64>()
    };
    (0..input.rows()).map(|i| (0..input.cols()).map(|k| phi(i, k, entry(i, k))).collect()).collect()
}

/// Asserts that a matrix is close to rows of f64, relative to the largest of them, and that its
/// padding is zero.
#[track_caller]
pub fn assert_close(found: MatrixRef<'_>, expected: &Rows, what: &str) {
    assert_eq!(found.rows(), expected.len(), "{what}");
    let largest = expected.iter().flatten().fold(1.0f64, |largest, x| largest.max(x.abs()));
    for (i, expected) in expected.iter().enumerate() {
        for (k, (&found, expected)) in found.row(i).iter().zip(expected).enumerate() {
            let error = (f64::from(found) - expected).abs();
            assert!(
                error <= 3e-5 * largest,
                "{what}: ({i}, {k}): found {found}, expected {expected}"
            );
        }
        assert!(
            found.padded_row(i)[found.cols()..].iter().all(|&x| x == 0.0),
            "{what}: padding of row {i}"
        );
    }
}

/// A matrix as 16-bit floats in a unit.
pub fn rounded(matrix: &Matrix, unit: f32) -> Matrix<f16> {
    let mut result = Matrix::blank(matrix.rows(), matrix.cols());
    for i in 0..matrix.rows() {
        result
            .row_mut(i)
            .iter_mut()
            .zip(matrix.row(i))
            .for_each(|(to, x)| *to = f16::from_f32(x / unit));
    }
    result
}
