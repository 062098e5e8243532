//! Copies selected rows of a large matrix to a compact one, and back.
//!
//! A compact matrix is k x m, and its row r belongs to node `nodes[r]`; the large one is n x m. The
//! nodes must be distinct. If they are in increasing order, as those of a split are, rows are
//! written in parallel, otherwise one after the other.

use rayon::prelude::*;

use crate::dense::{Matrix, MatrixMut, MatrixRef};

/// Rows per piece of work.
const ROWS: usize = 256;

/// Row r of the compact matrix becomes row `nodes[r]` of x.
///
/// # Panics
/// If shapes do not match.
pub fn select_rows(x: MatrixRef<'_>, nodes: &[u32], compact: &mut Matrix) {
    assert_eq!(
        (compact.rows(), compact.cols()),
        (nodes.len(), x.cols()),
        "one row per node, as wide as the state"
    );
    let mut compact = compact.view_mut();
    let stride = compact.stride();
    let parts = compact.padded_mut().par_chunks_mut(ROWS * stride).zip(nodes.par_chunks(ROWS));
    parts.for_each(|(part, nodes)| {
        for (row, &node) in part.chunks_exact_mut(stride).zip(nodes) {
            row.copy_from_slice(x.padded_row(node as usize));
        }
    });
}

/// Row `nodes[r]` of x becomes row r of the compact matrix; other rows stay.
///
/// # Panics
/// If shapes do not match.
pub fn scatter_rows(compact: MatrixRef<'_>, nodes: &[u32], x: MatrixMut<'_>) {
    assert_eq!(
        (compact.rows(), compact.cols()),
        (nodes.len(), x.cols()),
        "one row per node, as wide as the state"
    );
    write(nodes, x, &|r, row| row.copy_from_slice(compact.padded_row(r)));
}

/// Sets the rows of these nodes to zero. It undoes [`scatter_rows`] before the rows of other nodes
/// are written.
///
/// # Panics
/// If x has no row for one of the nodes.
pub fn clear_rows(nodes: &[u32], x: MatrixMut<'_>) {
    write(nodes, x, &|_, row| row.fill(0.0));
}

/// Calls `fill(r, row of nodes[r])` for every r.
fn write(nodes: &[u32], mut x: MatrixMut<'_>, fill: &(impl Fn(usize, &mut [f32]) + Sync)) {
    if nodes.is_sorted_by(|a, b| a < b) {
        return write_rising(nodes, (0, 0), x, fill);
    }
    for (r, &node) in nodes.iter().enumerate() {
        fill(r, x.padded_row_mut(node as usize));
    }
}

/// `before`: the number of nodes before these, and of rows before those of x.
fn write_rising(
    nodes: &[u32],
    before: (usize, usize),
    mut x: MatrixMut<'_>,
    fill: &(impl Fn(usize, &mut [f32]) + Sync),
) {
    if nodes.len() <= ROWS {
        for (r, &node) in nodes.iter().enumerate() {
            fill(before.0 + r, x.padded_row_mut(node as usize - before.1));
        }
        return;
    }
    let (low, high) = nodes.split_at(nodes.len() / 2);
    let cut = high[0] as usize;
    let (lower, upper) = x.split_at(cut - before.1);
    rayon::join(
        || write_rising(low, before, lower, fill),
        || write_rising(high, (before.0 + low.len(), cut), upper, fill),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::Random;

    #[test]
    fn rows_go_there_and_back_and_nothing_else_moves() {
        for cols in [1, 3, 16, 21] {
            let x = Random(2).matrix(5000, cols);
            let rising: Vec<u32> = (0..1500).map(|r| 3 * r + 1).collect();
            let mixed: Vec<u32> = (0..700).map(|r| (r * 37) % 5000).collect();
            for nodes in [&rising, &mixed, &vec![], &vec![4999], &vec![0]] {
                let mut compact = Matrix::from_fn(nodes.len(), cols, |_, _| f32::NAN);
                select_rows(x.view(), nodes, &mut compact);
                let mut back = Matrix::zeros(5000, cols);
                scatter_rows(compact.view(), nodes, back.view_mut());
                for (r, &node) in nodes.iter().enumerate() {
                    assert_eq!(compact.row(r), x.row(node as usize));
                    assert_eq!(back.row(node as usize), x.row(node as usize));
                }
                let filled =
                    (0..5000).filter(|&i| back.row(i).iter().any(|&entry| entry != 0.0)).count();
                assert!(filled <= nodes.len());
                clear_rows(nodes, back.view_mut());
                assert!(back.view().padded().iter().all(|&entry| entry == 0.0));
            }
        }
    }
}
