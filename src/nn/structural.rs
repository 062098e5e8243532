//! Features made of a graph's shape alone: how the degrees around a node are spread, hop by hop. A
//! baseline for graphs without features, in the place of embeddings by structural roles; nothing is
//! learned here.
//!
//! Of every relation, and of each direction where the two differ: hop 0 tells the class of a node's
//! degree (0, 1, 2, 3 to 4, 5 to 8, ..., a column each, one of them 1); hop h is the mean of hop h
//! - 1 over the neighbours, zero without any. Loops that only a renormalisation added count like
//! edges; weights do not. Two nodes with the same surroundings have the same row.

use rayon::prelude::*;

use super::operators::Operators;
use crate::dense::{Matrix, MatrixMut, MatrixRef};
use crate::kernels::AdjacencyRef;
use crate::parallel::RowBlocks;

/// Classes of degrees: the last one is open.
pub const CLASSES: usize = 16;

/// Columns for so many relations of one direction each, and directed ones, which have two.
pub fn columns(sides: usize, hops: usize) -> usize {
    sides * (hops + 1) * CLASSES
}

/// The features of all nodes, up to so many hops.
pub fn features(operators: &Operators, hops: usize) -> Matrix {
    let sides = sides(operators);
    let mut all = Matrix::zeros(operators.nodes(), columns(sides.len(), hops));
    for (side, (adjacency, blocks)) in sides.into_iter().enumerate() {
        let mut hop = degrees(&adjacency);
        for h in 0..=hops {
            put(hop.view(), (side * (hops + 1) + h) * CLASSES, all.view_mut());
            if h < hops {
                hop = mean(&adjacency, blocks, hop.view());
            }
        }
    }
    all
}

/// One operator a relation, two where incoming and outgoing edges are stored apart.
fn sides(operators: &Operators) -> Vec<(AdjacencyRef<'_>, &RowBlocks)> {
    let mut sides = Vec::new();
    for (incoming, outgoing) in operators.incoming().into_iter().zip(operators.outgoing()) {
        sides.push((incoming, operators.incoming_blocks()));
        // Symmetric relations store one direction, which serves both.
        if !std::ptr::eq(incoming.neighbours(), outgoing.neighbours()) {
            sides.push((outgoing, operators.outgoing_blocks()));
        }
    }
    sides
}

/// The class of every row's degree.
fn degrees(adjacency: &AdjacencyRef<'_>) -> Matrix {
    let mut classes = Matrix::zeros(adjacency.rows(), CLASSES);
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
    let mut to = Matrix::zeros(adjacency.rows(), CLASSES);
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
    blocks.map_reduce(to.view_mut(), MatrixMut::split_at, work, |(), ()| ());
    to
}

/// Puts columns beside others.
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
    fn rows_tell_degrees_around_a_node_and_nothing_else() {
        // 0 - 1 - 2 - 3 - 4: the ends are alike, and so are their neighbours.
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
        // Degree 2; neighbours of degree 2; around these degrees 1 and 2, half of each.
        assert_eq!(
            (filled(0), filled(1), filled(2)),
            (vec![(2, 1.0)], vec![(2, 1.0)], vec![(1, 0.5), (2, 0.5)])
        );
    }

    #[test]
    fn directions_stored_apart_are_told_apart() {
        // 0 -> 1, 0 -> 2
        let incoming = AdjacencyRef::new(3, &[0, 0, 1, 2], &[0, 0]).unwrap();
        let outgoing = AdjacencyRef::new(3, &[0, 2, 2, 2], &[1, 2]).unwrap();
        let operators = Operators::new(vec![incoming], vec![outgoing]);
        let one = with_threads(1, || features(&operators, 1));
        assert_eq!(one.cols(), columns(2, 1));
        assert_eq!(one.row(1), one.row(2));
        // No edge comes in to 0, two leave it; where they lead, none does.
        let ones: Vec<usize> = (0..one.cols()).filter(|&k| one.row(0)[k] == 1.0).collect();
        assert_eq!(ones, [0, 2 * CLASSES + 2, 3 * CLASSES]);
        assert_eq!(
            one.view().padded(),
            with_threads(4, || features(&operators, 1)).view().padded()
        );
    }
}
