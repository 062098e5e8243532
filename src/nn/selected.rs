//! The operators of some graphs of a dataset, over its own arrays: what a step on a batch of graphs works with.
//! It owns offsets; entries, values and scales stay where they are, and bounds come from the caller.

use super::Operators;
use crate::kernels::{AdjacencyError, AdjacencyRef, Selected, Selection};

/// Both directions of every relation over a selection.
#[derive(Debug)]
pub struct SelectedOperators<'g> {
    incoming: Vec<Selected<'g>>,
    outgoing: Vec<Selected<'g>>,
}

impl<'g> SelectedOperators<'g> {
    pub(super) fn new(of: &'g Operators<'g>, selection: &'g Selection) -> Result<Self, AdjacencyError> {
        let select = |side: &'g [AdjacencyRef<'g>]| {
            side.iter().map(|relation| relation.select(selection)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self { incoming: select(of.incoming())?, outgoing: select(of.outgoing())? })
    }

    /// The operators, with a bound for each relation: the largest of the graphs' ([`Operators::graph_radii`]), or one
    /// over more graphs.
    ///
    /// # Panics
    /// Where there is not a bound a relation.
    pub fn operators(&self, radii: Vec<f64>) -> Operators<'_> {
        let incoming = self.incoming.iter().map(Selected::view).collect();
        Operators::with_radii(incoming, self.outgoing.iter().map(Selected::view).collect(), radii)
    }
}
