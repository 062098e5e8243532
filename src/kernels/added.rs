//! What a sweep adds to its sums: B, or R of the adjoint. R is often zero but for the rows that a loss
//! reads. Then only these rows are kept; the others count as rows of zeros, with the same bits as
//! if they were there.

use super::elementwise;
use crate::dense::MatrixRef;

/// Rows in a word of marks.
const WORD: usize = u64::BITS as usize;

/// Some of the rows of a large matrix, in rising order, which lie one after the other in a compact
/// matrix.
///
/// ```
/// use ignn::kernels::RowPlaces;
///
/// let places = RowPlaces::new(100, vec![3, 70, 99]);
/// assert_eq!([0, 3, 70, 98, 99].map(|row| places.of(row)), [None, Some(0), Some(1), None, Some(2)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct RowPlaces {
    rows: usize,
    listed: Vec<u32>,
    /// One bit per row, whether it is there.
    marks: Vec<u64>,
    /// The number of rows before each word.
    before: Vec<u32>,
}

impl RowPlaces {
    /// These rows of `rows` rows.
    ///
    /// # Panics
    /// If they do not rise, or if one of them is not a row.
    pub fn new(rows: usize, listed: Vec<u32>) -> Self {
        assert!(listed.is_sorted_by(|a, b| a < b), "rows in increasing order");
        let mut marks = vec![0u64; rows.div_ceil(WORD)];
        for &row in &listed {
            assert!((row as usize) < rows, "a row of the matrix");
            marks[row as usize / WORD] |= 1 << (row as usize % WORD);
        }
        let mut count = 0;
        let before = marks.iter().map(|word| {
            count += word.count_ones();
            count - word.count_ones()
        });
        Self { before: before.collect(), rows, listed, marks }
    }

    /// Bytes for this many rows, besides the list.
    pub fn bytes(rows: u64) -> u64 {
        rows.div_ceil(WORD as u64).saturating_mul((size_of::<u64>() + size_of::<u32>()) as u64)
    }

    /// The place of a row in the compact matrix, if it is there.
    #[inline(always)]
    pub fn of(&self, row: usize) -> Option<usize> {
        let (word, bit) = (self.marks[row / WORD], 1u64 << (row % WORD));
        (word & bit != 0)
            .then(|| self.before[row / WORD] as usize + (word & (bit - 1)).count_ones() as usize)
    }

    /// Rows of the large matrix.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The rows that are there.
    pub fn listed(&self) -> &[u32] {
        &self.listed
    }
}

/// What is added to the sums of every row.
#[derive(Clone, Copy, Debug)]
pub enum Added<'a> {
    /// A row for each.
    All(MatrixRef<'a>),
    /// Rows for some, and zeros for the others.
    Some {
        /// Which rows.
        places: &'a RowPlaces,
        /// The rows, one after the other.
        rows: MatrixRef<'a>,
    },
}

impl<'a> From<MatrixRef<'a>> for Added<'a> {
    fn from(matrix: MatrixRef<'a>) -> Self {
        Self::All(matrix)
    }
}

impl<'a> Added<'a> {
    /// Rows of the sweep.
    pub fn rows(self) -> usize {
        match self {
            Self::All(matrix) => matrix.rows(),
            Self::Some { places, .. } => places.rows(),
        }
    }

    /// Columns of the sweep.
    pub fn cols(self) -> usize {
        self.kept().cols()
    }

    /// The rows that are there.
    pub fn kept(self) -> MatrixRef<'a> {
        match self {
            Self::All(matrix) => matrix,
            Self::Some { rows, .. } => rows,
        }
    }

    /// A row, without padding; `None` for zeros.
    #[inline(always)]
    pub fn row(self, row: usize) -> Option<&'a [f32]> {
        match self {
            Self::All(matrix) => Some(matrix.row(row)),
            Self::Some { places, rows } => places.of(row).map(|at| rows.row(at)),
        }
    }

    /// The first entry that is NaN or infinite, with its row.
    pub fn first_not_finite(self) -> Option<(usize, f32)> {
        let (at, found) = elementwise::first_not_finite(self.kept())?;
        match self {
            Self::All(_) => Some((at, found)),
            Self::Some { places, .. } => Some((places.listed()[at] as usize, found)),
        }
    }

    /// Asserts that the rows are as many as they should be.
    pub(super) fn check(self) {
        if let Self::Some { places, rows } = self {
            assert_eq!(places.listed().len(), rows.rows(), "one place per row");
        }
    }
}
