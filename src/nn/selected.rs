//! A batch: some graphs of a dataset. It owns its offsets and rows of features; entries, values and
//! scales of the adjacency are those of the dataset and are not copied.

use std::sync::Arc;

use super::{Input, Operators};
use crate::kernels::{AdjacencyError, Selection};

/// Operators and input map of some graphs.
pub struct GraphBatch {
    /// The operators, bounded by the largest radius of the graphs.
    pub operators: Operators,
    /// The input map of their nodes.
    pub input: Input,
    /// Their rows in the dataset.
    pub selection: Arc<Selection>,
}

impl GraphBatch {
    /// The batch of some graphs. `radii` are bounds per relation and graph. It is an error if an
    /// edge leaves its graph.
    ///
    /// # Panics
    /// If a graph is not one of `first_node`, or features are learned.
    pub fn new(
        operators: &Operators,
        input: &Input,
        (first_node, radii): (&[u64], &[Vec<f64>]),
        graphs: &[usize],
    ) -> Result<Self, AdjacencyError> {
        let selection = Arc::new(Selection::of_graphs(first_node, graphs)?);
        let largest =
            |radii: &Vec<f64>| graphs.iter().map(|&graph| radii[graph]).fold(0.0, f64::max);
        let operators = operators.select(&selection, radii.iter().map(largest).collect())?;
        let input = input.select(&operators, selection.source());
        Ok(Self { operators, input, selection })
    }

    /// The first row of each graph, and the end of the last one.
    pub fn first_rows(&self) -> Vec<u64> {
        self.selection.first_row().iter().map(|&row| row as u64).collect()
    }
}
