//! The owned, the borrowed and the mutably borrowed matrix. Shapes are checked by assertions: a
//! wrong one is a bug in the program, never a fault of its input.

use std::marker::PhantomData;

use super::entry::{Entry, LINE, Line};
use super::memory::Lines;

/// Entries from the start of a row to that of the next; saturates, for estimates of absurd sizes.
pub fn stride(cols: usize) -> usize {
    if cols >= LINE { cols.div_ceil(LINE).saturating_mul(LINE) } else { cols.next_power_of_two() }
}

/// Lines of a matrix with this many entries per line.
pub(super) fn lines(rows: usize, cols: usize, per_line: usize) -> usize {
    let entries = rows.checked_mul(stride(cols)).expect("a matrix larger than the address space");
    entries.div_ceil(per_line)
}

/// A matrix that owns its memory. See the [module](super) for the layout.
#[derive(Clone, Debug)]
pub struct Matrix<E = f32> {
    memory: Lines,
    rows: usize,
    cols: usize,
    entry: PhantomData<E>,
}

/// A borrowed matrix.
#[derive(Clone, Copy, Debug)]
pub struct MatrixRef<'a, E = f32> {
    /// The rows; if the last one is among them, to the end of its line.
    data: &'a [E],
    rows: usize,
    cols: usize,
}

/// A mutably borrowed matrix, or a block of its rows.
#[derive(Debug)]
pub struct MatrixMut<'a, E = f32> {
    /// The rows; if the last one is among them, to the end of its line.
    data: &'a mut [E],
    rows: usize,
    cols: usize,
}

impl Matrix {
    /// A matrix of zeros.
    pub fn zeros(rows: usize, cols: usize) -> Self {
        Self::blank(rows, cols)
    }

    /// The same in memory, also within the scope of a [`super::Scratch`].
    pub fn resident(rows: usize, cols: usize) -> Self {
        let memory = Lines::resident(lines(rows, cols, LINE));
        Self { memory, rows, cols, entry: PhantomData }
    }

    /// The same memory with another shape, which it has lines for. Entries are any; padding is to be
    /// written.
    ///
    /// # Panics
    /// If the memory is too small.
    pub(super) fn reshaped(self, rows: usize, cols: usize) -> Self {
        assert!(lines(rows, cols, LINE) <= self.all_lines().len(), "a shape that fits");
        Self { rows, cols, ..self }
    }

    /// A matrix with the entries `entry(row, column)`.
    pub fn from_fn(rows: usize, cols: usize, mut entry: impl FnMut(usize, usize) -> f32) -> Self {
        let mut matrix = Self::zeros(rows, cols);
        for i in 0..rows {
            for (k, value) in matrix.row_mut(i).iter_mut().enumerate() {
                *value = entry(i, k);
            }
        }
        matrix
    }
}

impl<E: Entry> Matrix<E> {
    /// A matrix of zeros, for any type of entries.
    pub fn blank(rows: usize, cols: usize) -> Self {
        let memory = Lines::zeros(lines(rows, cols, size_of::<Line>() / size_of::<E>()));
        Self { memory, rows, cols, entry: PhantomData }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns, without padding.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// A row, without padding.
    pub fn row(&self, row: usize) -> &[E] {
        self.view().row(row)
    }

    /// A row to write, without padding.
    pub fn row_mut(&mut self, row: usize) -> &mut [E] {
        let (stride, cols) = (stride(self.cols), self.cols);
        &mut bytemuck::cast_slice_mut(self.memory.all_mut())[row * stride..][..cols]
    }

    /// The matrix, borrowed.
    pub fn view(&self) -> MatrixRef<'_, E> {
        let data = &bytemuck::cast_slice(self.memory.all())[..self.entries()];
        MatrixRef { data, rows: self.rows, cols: self.cols }
    }

    /// Entries of all rows in whole lines.
    fn entries(&self) -> usize {
        (self.rows * stride(self.cols)).next_multiple_of(LINE)
    }

    /// All of the memory, line by line: rows, their padding, and the rest of the last line.
    pub fn all_lines(&self) -> &[E::Line] {
        bytemuck::cast_slice(self.memory.all())
    }

    /// All of the memory to write. Padding must stay zero.
    pub fn all_lines_mut(&mut self) -> &mut [E::Line] {
        bytemuck::cast_slice_mut(self.memory.all_mut())
    }

    /// The matrix, borrowed to write.
    pub fn view_mut(&mut self) -> MatrixMut<'_, E> {
        let entries = self.entries();
        let data = &mut bytemuck::cast_slice_mut(self.memory.all_mut())[..entries];
        MatrixMut { data, rows: self.rows, cols: self.cols }
    }
}

impl<'a, E: Entry> MatrixRef<'a, E> {
    /// Number of rows.
    pub fn rows(self) -> usize {
        self.rows
    }

    /// Number of columns, without padding.
    pub fn cols(self) -> usize {
        self.cols
    }

    /// Entries from the start of a row to that of the next.
    pub fn stride(self) -> usize {
        stride(self.cols)
    }

    /// A row, without padding.
    pub fn row(self, row: usize) -> &'a [E] {
        &self.padded_row(row)[..self.cols]
    }

    /// A row with its padding.
    pub fn padded_row(self, row: usize) -> &'a [E] {
        let stride = self.stride();
        &self.data[row * stride..][..stride]
    }

    /// All entries, padding included; aligned to a line if the stride is at least a line.
    pub fn padded(self) -> &'a [E] {
        &self.data[..self.rows * self.stride()]
    }

    /// All lines. Rows of at least 9 columns are whole lines; below, several rows share a line, and
    /// the last line ends in zeros.
    ///
    /// # Panics
    /// For a block of rows of a narrow matrix that does not begin and end with a line.
    pub fn lines(self) -> &'a [E::Line] {
        bytemuck::cast_slice(self.data)
    }

    /// The first `rows` rows, to the end of their last line, which must end in zeros.
    pub fn first(self, rows: usize) -> Self {
        let end = (rows * self.stride()).next_multiple_of(LINE).min(self.data.len());
        Self { data: &self.data[..end], rows, cols: self.cols }
    }

    /// Rows `start..end`.
    pub fn block(self, rows: std::ops::Range<usize>) -> Self {
        let stride = self.stride();
        let end = if rows.end == self.rows { self.data.len() } else { rows.end * stride };
        Self { data: &self.data[rows.start * stride..end], rows: rows.len(), cols: self.cols }
    }
}

impl<'a, E: Entry> MatrixMut<'a, E> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns, without padding.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Entries from the start of a row to that of the next.
    pub fn stride(&self) -> usize {
        stride(self.cols)
    }

    /// A row, without padding.
    pub fn row(&self, row: usize) -> &[E] {
        self.as_ref().row(row)
    }

    /// A row to write, without padding.
    pub fn row_mut(&mut self, row: usize) -> &mut [E] {
        let cols = self.cols;
        &mut self.padded_row_mut(row)[..cols]
    }

    /// A row to write with its padding, which must stay zero.
    pub fn padded_row_mut(&mut self, row: usize) -> &mut [E] {
        let stride = self.stride();
        &mut self.data[row * stride..][..stride]
    }

    /// All entries to write, padding included, which must stay zero.
    pub fn padded_mut(&mut self) -> &mut [E] {
        let entries = self.rows * self.stride();
        &mut self.data[..entries]
    }

    /// All lines to write; padding and the end of the last line must stay zero.
    ///
    /// # Panics
    /// Like [`MatrixRef::lines`].
    pub fn lines_mut(&mut self) -> &mut [E::Line] {
        bytemuck::cast_slice_mut(self.data)
    }

    /// The matrix, borrowed.
    pub fn as_ref(&self) -> MatrixRef<'_, E> {
        MatrixRef { data: self.data, rows: self.rows, cols: self.cols }
    }

    /// The same matrix, borrowed for a shorter time.
    pub fn reborrow(&mut self) -> MatrixMut<'_, E> {
        MatrixMut { data: self.data, rows: self.rows, cols: self.cols }
    }

    /// The first `rows` rows, to the end of their last line, which must end in zeros.
    pub fn first(self, rows: usize) -> Self {
        let end = (rows * self.stride()).next_multiple_of(LINE).min(self.data.len());
        Self { data: &mut self.data[..end], rows, cols: self.cols }
    }

    /// The first `rows` rows, and the rest.
    pub fn split_at(self, rows: usize) -> (Self, Self) {
        let cols = self.cols;
        let at = if rows == self.rows { self.data.len() } else { rows * stride(cols) };
        let (first, second) = self.data.split_at_mut(at);
        (
            MatrixMut { data: first, rows, cols },
            MatrixMut { data: second, rows: self.rows - rows, cols },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_padded_to_lines_or_to_a_power_of_two() {
        let expected = [(1, 1), (2, 2), (3, 4), (5, 8), (9, 16), (16, 16), (17, 32), (128, 128)];
        for (cols, padded) in expected {
            assert_eq!(stride(cols), padded);
        }
    }

    #[test]
    fn blocks_are_aligned_and_disjoint() {
        for cols in [1, 3, 16, 20] {
            let mut matrix = Matrix::from_fn(5, cols, |i, k| (i * cols + k) as f32);
            assert_eq!(matrix.view().padded().as_ptr() as usize % 64, 0);
            let (mut first, mut second) = matrix.view_mut().split_at(2);
            assert_eq!((first.rows(), second.rows()), (2, 3));
            second.row_mut(0).fill(-1.0);
            first.row_mut(1).fill(-2.0);
            assert_eq!(matrix.row(1), vec![-2.0; cols]);
            assert_eq!(matrix.view().block(2..3).row(0), vec![-1.0; cols]);
            assert_eq!(matrix.row(3)[0], (3 * cols) as f32);
            let padding = |i: usize| matrix.view().padded_row(i)[cols..].iter().all(|&x| x == 0.0);
            assert!((0..5).all(padding));
        }
        assert_eq!(Matrix::zeros(0, 7).view().padded().len(), 0);
    }

    #[test]
    fn narrow_rows_share_lines_and_the_last_line_is_whole() {
        for (rows, cols, lines) in [(1, 1, 1), (16, 1, 1), (17, 1, 2), (9, 3, 3), (5, 8, 3)] {
            let mut matrix = Matrix::from_fn(rows, cols, |i, k| (i * cols + k + 1) as f32);
            assert_eq!(matrix.view().lines().len(), lines);
            let last = rows * stride(cols) - (lines - 1) * LINE;
            assert!(matrix.view().lines()[lines - 1].0[last..].iter().all(|&x| x == 0.0));
            assert_eq!(matrix.view().padded().len(), rows * stride(cols));
            let at = rows / (LINE / stride(cols)) * (LINE / stride(cols));
            let (first, second) = (matrix.view().block(0..at), matrix.view().block(at..rows));
            assert_eq!(first.lines().len() + second.lines().len(), lines);
            let (mut first, mut second) = matrix.view_mut().split_at(at);
            assert_eq!(first.lines_mut().len() + second.lines_mut().len(), lines);
            assert_eq!(Matrix::<half::f16>::blank(rows, cols).view().lines().len(), lines);
        }
    }
}
