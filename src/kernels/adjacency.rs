//! A sparse operator on states, in either direction: offsets, neighbours, and where its values come from.
//! A checked view of a relation's mapped arrays; it owns nothing.
//!
//! (A^T X)_i = row_scale_i * sum over entries j of row i of  value_ij * gather_scale_j * x_j,
//! every factor 1 where it is not given. Symmetric relations store one direction: it serves both, with the sides of the
//! scale swapped.
//!
//! Invariant (checked by [`AdjacencyRef::new`], relied on by the kernels): offsets rise from 0 to the number of
//! neighbours, every neighbour is below `columns`, and all arrays have the lengths that follow.

use ignn_format::Relation;
use ignn_format::manifest::Scale;
use rayon::prelude::*;

/// Arrays that do not make an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{relation}: {what} (found {found}, expected {expected}); `ignn check DIR` tells more")]
pub struct AdjacencyError {
    /// Name of the relation.
    pub relation: String,
    /// What is wrong.
    pub what: &'static str,
    /// What was found.
    pub found: u64,
    /// What would have been right.
    pub expected: String,
}

/// The arrays of an operator; see the module's text.
#[derive(Clone, Copy, Debug)]
pub struct AdjacencyRef<'a> {
    columns: usize,
    offsets: &'a [u64],
    neighbours: &'a [u32],
    values: Option<&'a [f32]>,
    gather_scale: Option<&'a [f32]>,
    row_scale: Option<&'a [f32]>,
}

impl<'a> AdjacencyRef<'a> {
    /// An operator of `offsets.len() - 1` rows and `columns` columns, values 1 and no scale.
    pub fn new(columns: usize, offsets: &'a [u64], neighbours: &'a [u32]) -> Result<Self, AdjacencyError> {
        let wrong = |what, found: u64, expected: String| {
            Err(AdjacencyError { relation: "adjacency".into(), what, found, expected })
        };
        let entries = neighbours.len() as u64;
        match offsets {
            [0, .., last] | [last @ 0] if *last == entries => {}
            [0, .., last] => return wrong("last offset", *last, entries.to_string()),
            [first, ..] => return wrong("first offset", *first, "0".into()),
            [] => return wrong("number of offsets", 0, "at least 1".into()),
        }
        if let Some(row) = offsets.par_windows(2).position_any(|pair| pair[0] > pair[1]) {
            return wrong("falling offset", offsets[row + 1], format!("at least {}", offsets[row]));
        }
        if let Some(&largest) = neighbours.par_iter().max()
            && largest as usize >= columns
        {
            return wrong("neighbour", largest.into(), format!("less than {columns}"));
        }
        Ok(Self { columns, offsets, neighbours, values: None, gather_scale: None, row_scale: None })
    }

    /// With a value an entry.
    ///
    /// # Panics
    /// Where there are not as many values as entries.
    pub fn with_values(self, values: &'a [f32]) -> Self {
        assert_eq!(values.len(), self.neighbours.len(), "a value an entry");
        Self { values: Some(values), ..self }
    }

    /// With a factor for each column, applied while gathering.
    ///
    /// # Panics
    /// Where there are not as many factors as columns.
    pub fn with_gather_scale(self, scale: &'a [f32]) -> Self {
        assert_eq!(scale.len(), self.columns, "a scale a column");
        Self { gather_scale: Some(scale), ..self }
    }

    /// With a factor for each row, applied after gathering.
    ///
    /// # Panics
    /// Where there are not as many factors as rows.
    pub fn with_row_scale(self, scale: &'a [f32]) -> Self {
        assert_eq!(scale.len(), self.rows(), "a scale a row");
        Self { row_scale: Some(scale), ..self }
    }

    /// A^T: gathers over incoming edges, for the forward sweep.
    pub fn incoming(relation: &'a Relation) -> Result<Self, AdjacencyError> {
        let adjacency = Self::of(relation, &relation.incoming)?;
        Ok(match (relation.entry.scale, &relation.scale) {
            (Scale::Both, Some(scale)) => adjacency.with_gather_scale(scale).with_row_scale(scale),
            (Scale::Source, Some(scale)) => adjacency.with_gather_scale(scale),
            _ => adjacency,
        })
    }

    /// A: gathers over outgoing edges, for the adjoint sweep.
    pub fn outgoing(relation: &'a Relation) -> Result<Self, AdjacencyError> {
        // Symmetric stored values: the row of incoming edges is the row of outgoing ones.
        let direction = relation.outgoing.as_ref().unwrap_or(&relation.incoming);
        let adjacency = Self::of(relation, direction)?;
        Ok(match (relation.entry.scale, &relation.scale) {
            (Scale::Both, Some(scale)) => adjacency.with_gather_scale(scale).with_row_scale(scale),
            (Scale::Source, Some(scale)) => adjacency.with_row_scale(scale),
            _ => adjacency,
        })
    }

    fn of(relation: &'a Relation, direction: &'a ignn_format::csr::CsrFile) -> Result<Self, AdjacencyError> {
        let adjacency = Self::new(direction.rows(), direction.offsets(), direction.neighbours());
        let adjacency = adjacency.map_err(|error| AdjacencyError {
            relation: format!("relation {}", relation.entry.name),
            ..error
        })?;
        Ok(direction.values().map_or(adjacency, |values| adjacency.with_values(values)))
    }

    /// Number of rows: nodes that gather.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of columns: nodes gathered from.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Number of entries.
    pub fn nonzeros(&self) -> usize {
        self.neighbours.len()
    }

    /// `rows() + 1` offsets.
    pub fn offsets(&self) -> &'a [u64] {
        self.offsets
    }

    /// The entries of a row.
    pub fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    /// All neighbours.
    pub fn neighbours(&self) -> &'a [u32] {
        self.neighbours
    }

    /// All values, where they are stored.
    pub fn values(&self) -> Option<&'a [f32]> {
        self.values
    }

    /// Factors of the columns.
    pub fn gather_scale(&self) -> Option<&'a [f32]> {
        self.gather_scale
    }

    /// Factors of the rows.
    pub fn row_scale(&self) -> Option<&'a [f32]> {
        self.row_scale
    }

    /// Every entry of a row: column and full value, scales included; for bounds, statistics and tests.
    pub fn entries(&self, row: usize) -> impl Iterator<Item = (usize, f32)> + use<'a> {
        let this = *self;
        let row_scale = this.row_scale.map_or(1.0, |scale| scale[row]);
        this.range(row).map(move |entry| {
            let column = this.neighbours[entry] as usize;
            let value = this.values.map_or(1.0, |values| values[entry]);
            let scale = this.gather_scale.map_or(1.0, |scale| scale[column]);
            (column, row_scale * value * scale)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_arrays_are_refused() {
        let message = |result: Result<AdjacencyRef<'_>, AdjacencyError>| result.unwrap_err().to_string();
        assert!(AdjacencyRef::new(0, &[0], &[]).is_ok());
        assert!(AdjacencyRef::new(3, &[0, 2, 2], &[2, 0]).is_ok());
        assert!(
            message(AdjacencyRef::new(2, &[0, 2, 2], &[2, 0])).contains("neighbour (found 2, expected less")
        );
        assert!(message(AdjacencyRef::new(3, &[0, 2, 1], &[2])).contains("falling offset (found 1"));
        assert!(message(AdjacencyRef::new(3, &[0, 2], &[2])).contains("last offset (found 2, expected 1)"));
        assert!(message(AdjacencyRef::new(3, &[1, 1], &[2])).contains("first offset (found 1"));
        assert!(message(AdjacencyRef::new(3, &[], &[])).contains("number of offsets"));
    }

    #[test]
    fn factors_multiply() {
        let adjacency = AdjacencyRef::new(3, &[0, 1, 3], &[2, 0, 1]).unwrap();
        let (values, gather, row) = ([2.0, 3.0, 5.0], [7.0, 11.0, 13.0], [0.5, 0.25]);
        let adjacency = adjacency.with_values(&values).with_gather_scale(&gather).with_row_scale(&row);
        assert_eq!(adjacency.entries(0).collect::<Vec<_>>(), [(2, 13.0)]);
        assert_eq!(adjacency.entries(1).collect::<Vec<_>>(), [(0, 5.25), (1, 13.75)]);
    }
}
