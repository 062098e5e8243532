//! The features of all nodes: dense or sparse ones of a dataset, or learned parameters instead.
//! They are read into memory once. How they enter the equation is defined in
//! [`input`](super::input).

use ignn_format::features::{FeatureKind, SparseRows, shard_path};
use ignn_format::{FormatError, Result};
use rayon::prelude::*;

use crate::dense::Matrix;
use crate::graph::Graph;
use crate::kernels::{elementwise, update_ghosts};
use crate::parallel::{RowBlocks, Rows};

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
        Self::read_rows(dataset, &Rows::alone(RowBlocks::for_sums(dataset.nodes(), &[])))
    }

    /// The features of a rank's own rows. Dense ones have rows for ghosts, which
    /// [`Features::update`] fills; sparse ones have them already.
    pub fn read_rows(dataset: &Graph, over: &Rows) -> Result<Self> {
        let directory = dataset.directory();
        let entry = directory.features()?;
        let (own, columns) = (over.own(), entry.columns as usize);
        let features = match entry.kind {
            FeatureKind::Sparse => {
                let rows = directory.read_sparse()?;
                let rows = if over.is_alone() { rows } else { selected(&rows, over) };
                Self::Sparse { rows, columns }
            }
            FeatureKind::Dense => {
                let mut matrix = Matrix::zeros(over.with_ghosts(), columns);
                let mut view = matrix.view_mut();
                let stride = view.stride();
                let first = &mut view.padded_mut()[..own.len() * stride];
                directory.read_dense(own.start as u64, first, stride)?;
                Self::Dense(matrix)
            }
        };
        let Some((row, found)) = features.first_not_finite() else { return Ok(features) };
        let node = over.numbers()[row];
        // Found here, where the file is known, and not in the first state that it spoils.
        let shard = u64::from(node) / entry.rows_per_shard;
        Err(FormatError::Damaged {
            path: shard_path(directory.path(), shard),
            what: format!("feature of node {node} (found {found}, expected a finite number)"),
            dataset: directory.path().into(),
        })
    }

    /// Brings the rows of ghosts up to date; all ranks call it together.
    pub fn update(&mut self, over: &Rows) {
        if let Self::Dense(matrix) = self {
            update_ghosts(over, matrix.view_mut());
        }
    }

    /// The first value that is NaN or infinite, with its node.
    fn first_not_finite(&self) -> Option<(usize, f32)> {
        match self {
            Self::Dense(matrix) => elementwise::first_not_finite(matrix.view()),
            Self::Sparse { rows: SparseRows { offsets, values, .. }, .. } => {
                let at = values.par_iter().position_first(|value| !value.is_finite())?;
                let ended = offsets.partition_point(|&end| end <= at as u64);
                Some((ended - 1, values[at]))
            }
            Self::Learned => None,
        }
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

/// The rows of a rank and its ghosts; those between are empty.
fn selected(all: &SparseRows, over: &Rows) -> SparseRows {
    let mut rows = SparseRows { offsets: vec![0], columns: Vec::new(), values: Vec::new() };
    let own = over.len()..Rows::first_ghost(over.len());
    for (at, node) in over.numbers().into_iter().enumerate() {
        if !own.contains(&at) {
            let [start, end] = [0, 1].map(|next| all.offsets[node as usize + next] as usize);
            rows.columns.extend_from_slice(&all.columns[start..end]);
            rows.values.extend_from_slice(&all.values[start..end]);
        }
        rows.offsets.push(rows.columns.len() as u64);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_not_finite_is_found_with_its_node() {
        let mut matrix = Matrix::zeros(3, 2);
        assert_eq!(Features::Dense(matrix.clone()).first_not_finite(), None);
        matrix.row_mut(2)[1] = f32::INFINITY;
        assert_eq!(Features::Dense(matrix).first_not_finite(), Some((2, f32::INFINITY)));
        let sparse = |values: [f32; 3]| {
            let (offsets, columns) = (vec![0, 2, 2, 3], vec![0, 2, 1]);
            let rows = SparseRows { offsets, columns, values: values.to_vec() };
            Features::Sparse { rows, columns: 3 }.first_not_finite()
        };
        let inf = f32::INFINITY;
        assert_eq!(sparse([1.0, 2.0, 3.0]), None);
        assert_eq!(sparse([1.0, inf, inf]), Some((0, inf)));
        assert_eq!(sparse([1.0, 2.0, inf]), Some((2, inf)));
    }

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
