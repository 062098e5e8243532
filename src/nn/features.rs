//! What is known of the nodes: dense or sparse features of a dataset, or nothing but parameters.
//! It reads them into memory once; how they enter the equation is for `input`.

use ignn_format::Result;
use ignn_format::features::{FeatureKind, SparseRows};

use crate::dense::{Matrix, stride};
use crate::graph::Dataset;

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
    /// Nothing: a row of parameters for each node.
    Learned,
}

impl Features {
    /// Reads the features of a dataset; an error that tells how to get some where it has none.
    pub fn read(dataset: &Dataset) -> Result<Self> {
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

    /// Columns, where there are features.
    pub fn columns(&self) -> Option<usize> {
        match self {
            Self::Dense(matrix) => Some(matrix.cols()),
            Self::Sparse { columns, .. } => Some(*columns),
            Self::Learned => None,
        }
    }

    /// Bytes that dense features of this shape take.
    pub fn dense_bytes(nodes: u64, columns: u64) -> u64 {
        nodes.saturating_mul(stride(columns as usize) as u64 * 4)
    }
}
