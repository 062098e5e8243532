//! The features of all nodes: dense or sparse ones of a dataset, or learned parameters instead.
//! They are read into memory once. How they enter the equation is defined in
//! [`input`](super::input).

use ignn_format::Result;
use ignn_format::features::{FeatureKind, SparseRows};

use crate::dense::Matrix;
use crate::graph::Graph;

/// Features of all nodes.
#[derive(Debug)]
pub enum Features {
    /// n x p
    Dense(Matrix),
    /// n x p, by rows.
    Sparse {
        /// The rows.
        rows: SparseRows,
        /// p
        columns: usize,
    },
    /// No features: one row of parameters per node is learned instead.
    Learned,
}

impl Features {
    /// Reads the features of a dataset; if it has none, the error says how to get some.
    pub fn read(dataset: &Graph) -> Result<Self> {
        let directory = dataset.directory();
        let entry = directory.features()?;
        let (nodes, columns) = (directory.nodes() as usize, entry.columns as usize);
        if entry.kind == FeatureKind::Sparse {
            return Ok(Self::Sparse { rows: directory.read_sparse()?, columns });
        }
        let mut matrix = Matrix::zeros(nodes, columns);
        let mut view = matrix.view_mut();
        let stride = view.stride();
        directory.read_dense(0, view.padded_mut(), stride)?;
        Ok(Self::Dense(matrix))
    }

    /// The same features with every row divided by the sum of its absolute values. Zero rows and
    /// learned features stay as they are.
    pub fn normalised(mut self) -> Self {
        let scale = |row: &mut [f32]| {
            let sum: f32 = row.iter().map(|x| x.abs()).sum();
            if sum > 0.0 {
                row.iter_mut().for_each(|x| *x /= sum);
            }
        };
        match &mut self {
            Self::Dense(matrix) => (0..matrix.rows()).for_each(|row| scale(matrix.row_mut(row))),
            Self::Sparse { rows: SparseRows { offsets, values, .. }, .. } => {
                offsets
                    .windows(2)
                    .for_each(|ends| scale(&mut values[ends[0] as usize..ends[1] as usize]));
            }
            Self::Learned => {}
        }
        self
    }

    /// Number of columns; `None` if the features are learned.
    pub fn columns(&self) -> Option<usize> {
        match self {
            Self::Dense(matrix) => Some(matrix.cols()),
            Self::Sparse { columns, .. } => Some(*columns),
            Self::Learned => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_divided_by_the_sum_of_their_sizes() {
        let dense =
            Features::Dense(Matrix::from_fn(
                2,
                3,
                |i, k| if i == 0 { k as f32 - 1.0 } else { 0.0 },
            ));
        let Features::Dense(dense) = dense.normalised() else { panic!("still dense") };
        assert_eq!((dense.row(0), dense.row(1)), (&[-0.5, 0.0, 0.5][..], &[0.0; 3][..]));
        let rows = SparseRows {
            offsets: vec![0, 2, 2, 3],
            columns: vec![0, 2, 1],
            values: vec![1.0, -3.0, 8.0],
        };
        let Features::Sparse { rows, .. } = (Features::Sparse { rows, columns: 3 }).normalised()
        else {
            panic!("still sparse")
        };
        assert_eq!(rows.values, [0.25, -0.75, 1.0]);
    }
}
