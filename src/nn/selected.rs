//! A batch: some graphs of a dataset. It owns its offsets and rows of features; entries, values and
//! scales of the adjacency are those of the dataset and are not copied, unless nodes are dropped.

use std::sync::Arc;

use super::{DropNodes, Input, Operators};
use crate::kernels::{AdjacencyError, Selection};

/// Largest number of nodes that are evaluated together.
const NODES: u64 = 1 << 15;

/// Largest number of entries of a state that are evaluated together: 16 MiB.
const ENTRIES: u64 = 1 << 22;

/// Operators and input map of some graphs.
pub struct GraphBatch {
    /// The operators, bounded by the largest radius of the graphs.
    pub operators: Operators,
    /// The input map of their nodes.
    pub input: Input,
    /// The numbers of their nodes in the dataset.
    pub nodes: Vec<u32>,
    /// The first row of each graph, and the end of the last one.
    pub first_row: Vec<u64>,
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
        graphs: &[u32],
    ) -> Result<Self, AdjacencyError> {
        let graphs: Vec<usize> = graphs.iter().map(|&graph| graph as usize).collect();
        let selection = Arc::new(Selection::of_graphs(first_node, &graphs)?);
        let largest =
            |radii: &Vec<f64>| graphs.iter().map(|&graph| radii[graph]).fold(0.0, f64::max);
        let operators = operators.select(&selection, radii.iter().map(largest).collect())?;
        let input = input.select(&operators, selection.source());
        let (nodes, first_row) = (selection.source().to_vec(), numbers(selection.first_row()));
        Ok(Self { operators, input, nodes, first_row })
    }

    /// The same batch without the nodes that are dropped in an epoch. `input` is the one that the
    /// batch was made of, and keeps own features.
    pub fn without(
        self,
        drop_nodes: DropNodes,
        epoch: u64,
        input: &Input,
    ) -> Result<Self, AdjacencyError> {
        let first_row: Vec<usize> = self.first_row.iter().map(|&row| row as usize).collect();
        let kept = drop_nodes.draw(epoch, &self.nodes, &first_row);
        let operators = self.operators.between(&kept.rows)?;
        let nodes: Vec<u32> = kept.rows.iter().map(|&row| self.nodes[row as usize]).collect();
        let input = input.gathered_anew(&operators, &nodes);
        Ok(Self { operators, input, nodes, first_row: numbers(&kept.first_row) })
    }
}

/// Some graphs in order, in batches of consecutive ones that are evaluated together; graph `g` has
/// the nodes `first_node[g]..first_node[g + 1]`. A batch has about as many nodes as
/// [`evaluated_nodes`] of the widest state, and one graph at least.
pub fn batches(first_node: &[u64], graphs: &[u32], widest: usize) -> Vec<Vec<u32>> {
    let (mut batches, mut nodes): (Vec<Vec<u32>>, u64) = (Vec::new(), 0);
    for &graph in graphs {
        let ends = &first_node[graph as usize..][..2];
        let more = ends[1] - ends[0];
        match batches.last_mut() {
            Some(batch) if nodes + more <= evaluated_nodes(widest) => batch.push(graph),
            _ => {
                batches.push(vec![graph]);
                nodes = 0;
            }
        }
        nodes += more;
    }
    batches
}

/// Number of nodes that are evaluated together, if their states are this wide. States of a few
/// megabytes stay in the caches, and graphs that are solved together take as many sweeps as the
/// slowest of them.
pub fn evaluated_nodes(widest: usize) -> u64 {
    (ENTRIES / widest.max(1) as u64).min(NODES)
}

fn numbers(rows: &[usize]) -> Vec<u64> {
    rows.iter().map(|&row| row as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_consecutive_graphs_up_to_their_size() {
        let first_node = [0, 3000, 6000, 6000, 40_000, 40_001];
        assert_eq!(batches(&first_node, &[0, 1, 2, 3, 4], 64), [vec![0, 1, 2], vec![3], vec![4]]);
        assert_eq!(batches(&first_node, &[4, 0, 1], 1024), [vec![4, 0], vec![1]]);
        assert!(batches(&first_node, &[], 64).is_empty());
    }
}
