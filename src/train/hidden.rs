//! Nodes that are hidden from a step: how they are drawn, and how their rows are taken out of a
//! table and put back. The draw is a function of seed, epoch and node.

use crate::dense::Matrix;
use crate::nn::{clear_rows, random::Stream, scatter_rows, select_rows};

/// Draws a fraction of the nodes, at least one, in ascending order.
pub(super) fn draw(nodes: &[u32], share: f64, seed: u64, epoch: u64) -> Vec<u32> {
    let stream = Stream::new(seed, "hide").narrowed(epoch);
    let count = ((nodes.len() as f64 * share).round() as usize).clamp(1, nodes.len());
    let mut keyed: Vec<(u64, u32)> =
        nodes.iter().map(|&node| (stream.row(u64::from(node)).bits(0), node)).collect();
    keyed.select_nth_unstable(count - 1);
    let mut hidden: Vec<u32> = keyed[..count].iter().map(|&(_, node)| node).collect();
    hidden.sort_unstable();
    hidden
}

/// Takes the rows of these nodes out of the table and leaves zeros.
pub(super) fn take_rows(table: &mut Matrix, nodes: &[u32]) -> Matrix {
    let mut kept = Matrix::zeros(nodes.len(), table.cols());
    select_rows(table.view(), nodes, &mut kept);
    clear_rows(nodes, table.view_mut());
    kept
}

/// Undoes [`take_rows`].
pub(super) fn put_back(table: &mut Matrix, nodes: &[u32], taken: &Matrix) {
    scatter_rows(taken.view(), nodes, table.view_mut());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_is_a_fraction_of_the_nodes_and_differs_by_epoch() {
        let nodes: Vec<u32> = (0..1000).map(|node| 3 * node).collect();
        let drawn = draw(&nodes, 0.25, 7, 0);
        assert_eq!(drawn.len(), 250);
        assert!(drawn.is_sorted_by(|a, b| a < b) && drawn.iter().all(|node| node % 3 == 0));
        assert_eq!(drawn, draw(&nodes, 0.25, 7, 0));
        assert_ne!(drawn, draw(&nodes, 0.25, 7, 1));
        assert_ne!(drawn, draw(&nodes, 0.25, 8, 0));
        let both = draw(&nodes, 0.25, 7, 1).iter().filter(|node| drawn.contains(node)).count();
        assert!((40..85).contains(&both), "{both} of 62.5 expected");
    }

    #[test]
    fn few_nodes_hide_at_least_one() {
        assert_eq!(draw(&[5], 0.01, 0, 0), [5]);
        assert_eq!(draw(&[5, 9], 0.99, 0, 0), [5, 9]);
    }

    #[test]
    fn rows_are_restored() {
        let table = Matrix::from_fn(5, 3, |i, k| (10 * i + k) as f32 + 1.0);
        let mut hiding = table.clone();
        let kept = take_rows(&mut hiding, &[1, 4]);
        assert_eq!((hiding.row(1), hiding.row(4)), (&[0.0; 3][..], &[0.0; 3][..]));
        assert_eq!(hiding.row(2), table.row(2));
        put_back(&mut hiding, &[1, 4], &kept);
        assert_eq!(hiding.view().padded(), table.view().padded());
    }
}
