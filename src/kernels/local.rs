//! The rows of one rank as an operator of their own. Columns are its rows, then those of its
//! ghosts: the rows of other ranks that its rows gather from. Entries keep their order, so that the
//! sum of a row has the same bits as in the whole operator.

use std::ops::Range;

use super::{Adjacency, AdjacencyError, AdjacencyRef};
use crate::dense::{LINE, MatrixMut};
use crate::parallel::{RowBlocks, Rows};

/// The columns outside of some rows that these rows gather from in any of these relations,
/// ascending.
///
/// ```
/// use ignn::kernels::{Adjacency, ghosts};
///
/// let path = Adjacency::from_csr(4, vec![0, 1, 3, 5, 6], vec![1, 0, 2, 1, 3, 2])?;
/// assert_eq!(ghosts(&[path.view()], 0..2), [2]);
/// assert_eq!(ghosts(&[path.view()], 1..3), [0, 3]);
/// # Ok::<(), ignn::kernels::AdjacencyError>(())
/// ```
pub fn ghosts(relations: &[AdjacencyRef<'_>], rows: Range<usize>) -> Vec<u32> {
    let columns = relations.first().map_or(0, AdjacencyRef::columns);
    let mut seen = vec![0u64; columns.div_ceil(64)];
    for relation in relations {
        for row in rows.clone() {
            for at in relation.range(row) {
                let column = relation.column(row, at);
                seen[column / 64] |= 1 << (column % 64);
            }
        }
    }
    let mut ghosts = Vec::new();
    for (at, &bits) in seen.iter().enumerate() {
        let mut bits = bits;
        while bits != 0 {
            let column = at * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if !rows.contains(&column) {
                ghosts.push(column as u32);
            }
        }
    }
    ghosts
}

/// Brings the ghosts of a matrix up to date; all ranks call it together.
pub fn update_ghosts(rows: &Rows, mut matrix: MatrixMut<'_>) {
    let shape = (matrix.stride(), matrix.cols());
    rows.update(None, matrix.padded_mut(), shape, None);
}

// Ghosts begin with a line of any matrix.
const _: () = assert!(RowBlocks::STEP.is_multiple_of(LINE));

impl Adjacency {
    /// The operator of some rows. Its columns are these rows, and from [`Rows::first_ghost`] on `ghosts`,
    /// which [`ghosts`] found in these relations.
    ///
    /// # Panics
    /// If the operator is a selection, or a column is neither.
    pub fn local(
        whole: AdjacencyRef<'_>,
        rows: Range<usize>,
        ghosts: &[u32],
    ) -> Result<Self, AdjacencyError> {
        assert!(!whole.is_selection(), "an operator of stored rows");
        let first = Rows::first_ghost(rows.len());
        let place = |column: usize| {
            if rows.contains(&column) {
                return column - rows.start;
            }
            first + ghosts.binary_search(&(column as u32)).expect("a column among the ghosts")
        };
        let all = &whole.offsets()[rows.start..=rows.end];
        let entries = all[0] as usize..all[rows.len()] as usize;
        let offsets: Vec<u64> = all.iter().map(|offset| offset - all[0]).collect();
        let neighbours = &whole.neighbours()[entries.clone()];
        let neighbours = neighbours.iter().map(|&column| place(column as usize) as u32).collect();
        let mut local = Self::from_csr(first + ghosts.len(), offsets, neighbours)?;
        if let Some(values) = whole.values() {
            local = local.with_values(values[entries].to_vec());
        }
        if let Some(scale) = whole.gather_scale() {
            let mut own = scale[rows.clone()].to_vec();
            own.resize(first, 1.0);
            own.extend(ghosts.iter().map(|&ghost| scale[ghost as usize]));
            local = local.with_gather_scale(own);
        }
        if let Some(scale) = whole.row_scale() {
            local = local.with_row_scale(scale[rows.clone()].to_vec());
        }
        let place = |column: u32| place(column as usize) as u32;
        let columns = first + ghosts.len();
        let shared = whole.shared().map(|shared| shared.of_rows(rows.clone(), columns, place));
        Ok(local.with_shared_rows(shared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::naive::{Operator, Random};

    #[test]
    fn local_rows_have_the_entries_of_the_whole() {
        let random = &mut Random(8);
        for parts in 0..8 {
            let operator = Operator::random(random, 90, 90, parts);
            let whole = operator.view();
            for rows in [0..16, 16..64, 64..90, 32..32, 0..90] {
                let ghosts = ghosts(&[whole], rows.clone());
                let local = Adjacency::local(whole, rows.clone(), &ghosts).unwrap();
                let first = Rows::first_ghost(rows.len());
                for row in rows.clone() {
                    let back = |(column, value): (usize, f32)| match column.checked_sub(first) {
                        Some(at) => (ghosts[at] as usize, value),
                        None => (column + rows.start, value),
                    };
                    let found: Vec<_> = local.view().entries(row - rows.start).map(back).collect();
                    assert_eq!(found, whole.entries(row).collect::<Vec<_>>());
                }
            }
        }
    }
}
