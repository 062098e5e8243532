//! A matrix that threads read and write at the same time: f32 bits in relaxed atomics, in the layout of [`Matrix`].
//! No reader sees half a number, and none is promised the newest: whoever needs more takes a [`Matrix`].
//!
//! Relaxed loads and stores are plain moves of 4 bytes: no data race, no fence, and no vector instruction either.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bytemuck::Zeroable;

use super::{LINE, Line, Matrix, MatrixRef, stride};

/// A cache line of shared floats.
#[repr(C, align(64))]
#[derive(Debug, Zeroable)]
struct SharedLine([AtomicU32; LINE]);

/// A shared matrix.
#[derive(Debug)]
pub struct SharedMatrix {
    lines: Box<[SharedLine]>,
    rows: usize,
    cols: usize,
}

impl SharedMatrix {
    /// All zero.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        let floats = rows.checked_mul(stride(cols)).expect("a matrix larger than the address space");
        Self { lines: bytemuck::allocation::zeroed_slice_box(floats.div_ceil(LINE)), rows, cols }
    }

    /// The same numbers.
    pub fn of(matrix: MatrixRef<'_>) -> Self {
        let shared = Self::zeros(matrix.rows(), matrix.cols());
        for row in 0..matrix.rows() {
            shared.cells(row).zip(matrix.row(row)).for_each(|(cell, x)| cell.store(x.to_bits(), Relaxed));
        }
        shared
    }

    /// Bytes that a matrix takes.
    pub fn bytes(rows: usize, cols: usize) -> u64 {
        let floats = (rows as u64).saturating_mul(stride(cols) as u64);
        floats.div_ceil(LINE as u64).saturating_mul(size_of::<SharedLine>() as u64)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns, without padding.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The entries of a row, as they are now.
    pub fn row(&self, row: usize) -> impl Iterator<Item = f32> {
        self.cells(row).map(|cell| f32::from_bits(cell.load(Relaxed)))
    }

    /// A copy.
    pub fn to_matrix(&self) -> Matrix {
        let mut matrix = Matrix::zeros(self.rows, self.cols);
        for row in 0..self.rows {
            matrix.row_mut(row).iter_mut().zip(self.row(row)).for_each(|(to, x)| *to = x);
        }
        matrix
    }

    /// Where a row begins; an address to fetch, never one to read.
    pub fn address(&self, row: usize) -> *const Line {
        let floats = self.lines.as_ptr().cast::<f32>().wrapping_add(row * stride(self.cols));
        floats.cast()
    }

    /// Line `line` of a row as it is now; of a narrow row all of it, followed by zeros.
    #[inline(always)]
    pub fn load(&self, row: usize, line: usize, copy: &mut Line) {
        let stride = stride(self.cols);
        if stride >= LINE {
            // Of a length that the compiler knows.
            let cells = &self.lines[row * (stride / LINE) + line].0;
            for (x, cell) in copy.0.iter_mut().zip(cells) {
                *x = f32::from_bits(cell.load(Relaxed));
            }
            return;
        }
        copy.0 = [0.0; LINE];
        for (x, cell) in copy.0.iter_mut().zip(self.line(row, line)) {
            *x = f32::from_bits(cell.load(Relaxed));
        }
    }

    /// Replaces line `line` of a row, padding included, which must stay zero.
    #[inline(always)]
    pub fn store(&self, row: usize, line: usize, new: &Line) {
        for (x, cell) in new.0.iter().zip(self.line(row, line)) {
            cell.store(x.to_bits(), Relaxed);
        }
    }

    #[inline(always)]
    fn line(&self, row: usize, line: usize) -> &[AtomicU32] {
        let stride = stride(self.cols);
        let at = row * stride;
        &self.lines[at / LINE + line].0[at % LINE..][..stride.min(LINE)]
    }

    fn cells(&self, row: usize) -> impl Iterator<Item = &AtomicU32> {
        (0..self.cols.div_ceil(LINE)).flat_map(move |line| self.line(row, line)).take(self.cols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_a_matrix_holds() {
        for cols in [0, 1, 2, 3, 7, 16, 21, 40] {
            let matrix = Matrix::from_fn(5, cols, |i, k| (i * 100 + k) as f32 - 7.0);
            let shared = SharedMatrix::of(matrix.view());
            assert_eq!(shared.to_matrix().view().padded(), matrix.view().padded());
            assert_eq!(SharedMatrix::bytes(5, cols), size_of_val(&*shared.lines) as u64);
            for line in 0..cols.div_ceil(LINE) {
                let mut copy = Line([f32::NAN; LINE]);
                shared.load(3, line, &mut copy);
                let expected = &matrix.view().padded_row(3)[line * LINE..];
                let length = expected.len().min(LINE);
                assert_eq!(copy.0[..length], expected[..length]);
                assert_eq!(copy.0[length..], [0.0; LINE][length..]);
                shared.store(4, line, &copy);
            }
            assert!(shared.row(4).eq(matrix.row(3).iter().copied()), "{cols}");
            assert!(shared.row(2).eq(matrix.row(2).iter().copied()), "{cols}");
        }
    }
}
