//! A perceptron on features made from the graph alone: how degrees are distributed around a node,
//! hop by hop. A baseline for graphs without features, in place of embeddings by structural role.
//!
//! For every relation, and for each direction where the two differ, hop 0 is the class of a node's
//! degree (0, 1, 2, 3 to 4, 5 to 8, ..., one-hot), and hop h is the mean of hop h - 1 over the
//! neighbours, zero without any. Loops that renormalisation added count as edges; weights do not.
//! Two nodes with the same surroundings have the same row.
//!
//! Shape: n x (sides (hops + 1) [`CLASSES`]), where a relation has one side, a directed one two.

use rayon::prelude::*;

use super::{ComputedFeatures, FeatureRule, Kind, mlp};
use crate::config::ModelKind;
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::{AdjacencyRef, update_ghosts};
use crate::nn::Operators;
use crate::parallel::{RowBlocks, Rows};

/// Classes of degrees; the last one has no upper bound.
const CLASSES: usize = 16;

pub(super) const KIND: Kind = Kind {
    kind: ModelKind::Structural,
    uses: &["model.depth", "model.hops", "model.state", "model.activation"],
    features: FeatureRule::Computed(ComputedFeatures {
        columns: |config, sides| columns(sides, config.hops),
        compute: |config, operators| features(operators, config.hops),
    }),
    ..mlp::KIND
};

fn columns(sides: usize, hops: usize) -> usize {
    sides * (hops + 1) * CLASSES
}

/// The features of all nodes.
fn features(operators: &Operators, hops: usize) -> Matrix {
    let sides = sides(operators);
    let (rows, nodes) = (operators.rows(), operators.nodes());
    let mut all = Matrix::zeros(rows.with_ghosts(), columns(sides.len(), hops));
    for (side, (adjacency, blocks)) in sides.into_iter().enumerate() {
        let mut hop = degrees(&adjacency, rows);
        for h in 0..=hops {
            let own = all.view_mut().first(nodes);
            put(hop.view(), (side * (hops + 1) + h) * CLASSES, own);
            if h < hops {
                update_ghosts(rows, hop.view_mut());
                hop = mean(&adjacency, blocks, hop.view());
            }
        }
    }
    all
}

/// One operator per relation, two if incoming and outgoing edges are stored separately.
fn sides(operators: &Operators) -> Vec<(AdjacencyRef<'_>, &RowBlocks)> {
    let mut sides = Vec::new();
    let both = operators.incoming().into_iter().zip(operators.outgoing());
    for (at, (incoming, outgoing)) in both.enumerate() {
        sides.push((incoming, operators.incoming_blocks()));
        // Symmetric relations store one direction, which serves both.
        if !operators.stores_once(at) {
            sides.push((outgoing, operators.outgoing_blocks()));
        }
    }
    sides
}

/// The class of every row's degree, one-hot.
fn degrees(adjacency: &AdjacencyRef<'_>, rows: &Rows) -> Matrix {
    let mut classes = Matrix::zeros(rows.with_ghosts(), CLASSES);
    for row in 0..adjacency.rows() {
        let degree = adjacency.range(row).len();
        let class =
            if degree == 0 { 0 } else { 1 + degree.next_power_of_two().trailing_zeros() as usize };
        classes.row_mut(row)[class.min(CLASSES - 1)] = 1.0;
    }
    classes
}

/// The mean of the neighbours' rows.
fn mean(adjacency: &AdjacencyRef<'_>, blocks: &RowBlocks, from: MatrixRef<'_>) -> Matrix {
    let mut to = Matrix::zeros(adjacency.columns(), CLASSES);
    let work = |_, rows: std::ops::Range<usize>, mut to: MatrixMut<'_>| {
        for row in rows.clone() {
            let (to, entries) = (to.row_mut(row - rows.start), adjacency.range(row));
            let share = 1.0 / entries.len().max(1) as f32;
            for at in entries {
                let from = from.row(adjacency.column(row, at));
                to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
            }
            to.iter_mut().for_each(|to| *to *= share);
        }
    };
    let own = to.view_mut().first(adjacency.rows());
    blocks.map_reduce(own, MatrixMut::split_at, work, |(), ()| ());
    to
}

/// Copies columns to `to`, beginning at column `first`.
fn put(from: MatrixRef<'_>, first: usize, mut to: MatrixMut<'_>) {
    let stride = to.stride();
    to.padded_mut().par_chunks_mut(stride).enumerate().for_each(|(row, to)| {
        to[first..first + CLASSES].copy_from_slice(from.row(row));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::Adjacency;
    use crate::parallel::with_threads;

    #[test]
    fn rows_depend_on_the_degrees_around_a_node_alone() {
        // 0 - 1 - 2 - 3 - 4: both ends have equal rows, and so have their neighbours.
        let (offsets, neighbours) = ([0, 1, 3, 5, 7, 8], [1, 0, 2, 1, 3, 2, 4, 3]);
        // One stored direction that serves both.
        let adjacency = Adjacency::from_csr(5, offsets.into(), neighbours.into()).unwrap();
        let operators = Operators::new(vec![adjacency.clone()], vec![adjacency]);
        let features = features(&operators, 2);
        assert_eq!(features.cols(), columns(1, 2));
        assert_eq!(features.row(0), features.row(4));
        assert_eq!(features.row(1), features.row(3));
        let row = features.row(2);
        let filled = |hop: usize| {
            let part = &row[hop * CLASSES..][..CLASSES];
            (0..CLASSES).filter(|&k| part[k] != 0.0).map(|k| (k, part[k])).collect::<Vec<_>>()
        };
        // Degree 2; neighbours of degree 2; theirs have degree 1 and 2, half of each.
        assert_eq!(
            (filled(0), filled(1), filled(2)),
            (vec![(2, 1.0)], vec![(2, 1.0)], vec![(1, 0.5), (2, 0.5)])
        );
    }

    #[test]
    fn directions_stored_separately_have_columns_of_their_own() {
        // 0 -> 1, 0 -> 2
        let incoming = AdjacencyRef::new(3, &[0, 0, 1, 2], &[0, 0]).unwrap();
        let outgoing = AdjacencyRef::new(3, &[0, 2, 2, 2], &[1, 2]).unwrap();
        let operators = Operators::new(vec![incoming], vec![outgoing]);
        let one = with_threads(1, || features(&operators, 1));
        assert_eq!(one.cols(), columns(2, 1));
        assert_eq!(one.row(1), one.row(2));
        // Node 0 has no incoming edge and two outgoing ones, to nodes without outgoing edges.
        let ones: Vec<usize> = (0..one.cols()).filter(|&k| one.row(0)[k] == 1.0).collect();
        assert_eq!(ones, [0, 2 * CLASSES + 2, 3 * CLASSES]);
        assert_eq!(
            one.view().padded(),
            with_threads(4, || features(&operators, 1)).view().padded()
        );
    }
}
