//! A union of whole graphs of a block-diagonal operator: its stored rows, graph by graph. The
//! operator over them is [`super::Selected`].
//!
//! Matrices of a selection are compact: row i belongs to the stored row `source()[i]`.

use std::ops::Range;

use super::AdjacencyError;

/// Some graphs of a dataset, in any order; the rows of a graph stay together and in order.
///
/// ```
/// use ignn::kernels::Selection;
///
/// // Three graphs with the rows 0..2, 2..5 and 5..6; the last and the first are selected.
/// let selection = Selection::of_graphs(&[0, 2, 5, 6], &[2, 0])?;
/// assert_eq!(selection.source(), [5, 0, 1]);
/// assert_eq!(selection.first_row(), [0, 1, 3]);
/// # Ok::<(), ignn::kernels::AdjacencyError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    source: Vec<u32>,
    /// First row of each graph, and the number of all rows.
    first_row: Vec<usize>,
}

impl Selection {
    /// The graphs stored in these ranges of rows.
    pub fn new(graphs: impl IntoIterator<Item = Range<u64>>) -> Result<Self, AdjacencyError> {
        let (mut source, mut first_row) = (Vec::new(), vec![0]);
        for Range { start, end } in graphs {
            if start > end {
                return Err(error("end of a graph", end, format!("at least {start}")));
            }
            let is_row = |row: u64| u32::try_from(row).is_ok();
            if start < end && !is_row(end - 1) {
                return Err(error("last row of a graph", end - 1, format!("at most {}", u32::MAX)));
            }
            source.extend((start..end).map(|row| row as u32));
            if !is_row(source.len() as u64) {
                return Err(error(
                    "rows of a selection",
                    source.len() as u64,
                    format!("at most {}", u32::MAX),
                ));
            }
            first_row.push(source.len());
        }
        Ok(Self { source, first_row })
    }

    /// Graphs of a dataset by number; graph `g` has the rows `first_node[g]..first_node[g + 1]`.
    pub fn of_graphs(first_node: &[u64], graphs: &[usize]) -> Result<Self, AdjacencyError> {
        let count = first_node.len().saturating_sub(1);
        if let Some(&graph) = graphs.iter().find(|&&graph| graph >= count) {
            return Err(error("graph", graph as u64, format!("less than {count}")));
        }
        Self::new(graphs.iter().map(|&graph| first_node[graph]..first_node[graph + 1]))
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.source.len()
    }

    /// The stored row of each row.
    pub fn source(&self) -> &[u32] {
        &self.source
    }

    /// Number of graphs.
    pub fn graphs(&self) -> usize {
        self.first_row.len() - 1
    }

    /// First row of each graph among those of the selection, and the number of all rows.
    pub fn first_row(&self) -> &[usize] {
        &self.first_row
    }
}

fn error(what: &'static str, found: u64, expected: String) -> AdjacencyError {
    AdjacencyError { relation: "selection".into(), what, found, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_come_in_the_order_asked_for() {
        let selection = Selection::of_graphs(&[0, 2, 2, 5, 6], &[2, 1, 3, 0, 3]).unwrap();
        assert_eq!(selection.source(), [2, 3, 4, 5, 0, 1, 5]);
        assert_eq!(selection.first_row(), [0, 3, 3, 4, 6, 7]);
        assert_eq!((selection.rows(), selection.graphs()), (7, 5));
        let none = Selection::of_graphs(&[0, 4], &[]).unwrap();
        assert_eq!((none.rows(), none.graphs()), (0, 0));
    }

    #[test]
    fn ranges_that_are_no_rows_are_refused() {
        let message = |result: Result<Selection, AdjacencyError>| result.unwrap_err().to_string();
        let large = u64::from(u32::MAX) + 1;
        assert!(Selection::new(std::iter::once(large - 1..large)).is_ok());
        assert_eq!(
            message(Selection::new(std::iter::once(large..large + 1))),
            "selection: last row of a graph (found 4294967296, expected at most 4294967295); \
             run `ignn check DIR` for details"
        );
        let falling = Range { start: 4, end: 3 };
        assert_eq!(
            message(Selection::new([0..4, falling])),
            "selection: end of a graph (found 3, expected at least 4); run `ignn check DIR` for details"
        );
        assert_eq!(
            message(Selection::of_graphs(&[0, 3, 4], &[0, 2])),
            "selection: graph (found 2, expected less than 2); run `ignn check DIR` for details"
        );
        assert!(Selection::of_graphs(&[], &[0]).is_err());
    }
}
