//! The operators of some graphs of a dataset, over its own arrays: what a step on a batch of graphs
//! works with. It owns offsets; entries, values and scales stay where they are, and bounds come
//! from the caller.

use super::{Input, Operators};
use crate::kernels::{AdjacencyError, AdjacencyRef, Selected, Selection};

/// Both directions of every relation over a selection.
#[derive(Debug)]
pub struct SelectedOperators<'g> {
    incoming: Vec<Selected<'g>>,
    outgoing: Vec<Selected<'g>>,
}

impl<'g> SelectedOperators<'g> {
    pub(super) fn new(
        of: &'g Operators<'g>,
        selection: &'g Selection,
    ) -> Result<Self, AdjacencyError> {
        let select = |side: &'g [AdjacencyRef<'g>]| {
            side.iter().map(|relation| relation.select(selection)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Self { incoming: select(of.incoming())?, outgoing: select(of.outgoing())? })
    }

    /// The operators, with a bound for each relation: the largest of the graphs'
    /// ([`Operators::graph_radii`]), or one over more graphs.
    ///
    /// # Panics
    /// Where there is not a bound a relation.
    pub fn operators(&self, radii: Vec<f64>) -> Operators<'_> {
        let incoming = self.incoming.iter().map(Selected::view).collect();
        Operators::with_radii(incoming, self.outgoing.iter().map(Selected::view).collect(), radii)
    }
}

/// Calls `work` with the operators and the input map of some graphs, bounded by the largest of
/// their `radii` (by relation and graph); refused where an edge leaves its graph.
///
/// # Panics
/// Where a graph is none of `first_node`, or features are learned.
pub fn on_graphs<R>(
    operators: &Operators<'_>,
    input: &Input<'_>,
    (first_node, radii): (&[u64], &[Vec<f64>]),
    graphs: &[usize],
    work: impl for<'s> FnOnce(&'s Operators<'s>, Input<'s>, &'s Selection) -> R,
) -> Result<R, AdjacencyError> {
    let selection = Selection::of_graphs(first_node, graphs)?;
    let selected = operators.select(&selection)?;
    let largest = |radii: &Vec<f64>| graphs.iter().map(|&graph| radii[graph]).fold(0.0, f64::max);
    let operators = selected.operators(radii.iter().map(largest).collect());
    let input = input.select(&operators, selection.source());
    Ok(work(&operators, input, &selection))
}
