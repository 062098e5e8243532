//! Bounds of the spectral radii of the graphs in a block-diagonal adjacency, one per graph. The
//! radius of a union is the largest of theirs.

use rayon::prelude::*;

use super::{SpectralBound, SpectralParams};
use crate::kernels::{AdjacencyError, AdjacencyRef, Selection};

/// rho of each graph, as [`SpectralBound::of`] gives it for the graph alone; graph `g` has the rows
/// `first_node[g]..first_node[g + 1]`.
pub fn graph_radii(
    incoming: AdjacencyRef<'_>,
    outgoing: Option<AdjacencyRef<'_>>,
    first_node: &[u64],
    params: &SpectralParams,
) -> Result<Vec<f64>, AdjacencyError> {
    of_graphs(incoming, outgoing, first_node, |incoming, outgoing| {
        SpectralBound::of(incoming, outgoing, params).rho
    })
}

/// One number per graph, computed from its operators.
pub(crate) fn of_graphs(
    incoming: AdjacencyRef<'_>,
    outgoing: Option<AdjacencyRef<'_>>,
    first_node: &[u64],
    number: impl Fn(&AdjacencyRef<'_>, Option<&AdjacencyRef<'_>>) -> f64 + Sync,
) -> Result<Vec<f64>, AdjacencyError> {
    let of = |graph: usize| {
        let selection = Selection::of_graphs(first_node, &[graph])?;
        let incoming = incoming.select(&selection)?;
        let outgoing = outgoing.map(|outgoing| outgoing.select(&selection)).transpose()?;
        let outgoing = outgoing.as_ref().map(|outgoing| outgoing.view());
        Ok(number(&incoming.view(), outgoing.as_ref()))
    };
    let graphs = (0..first_node.len().saturating_sub(1)).into_par_iter();
    // The first error in the order of the graphs, on any number of threads.
    graphs.map(of).collect::<Vec<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Graph, Random};
    use super::super::{Certificate, Structure, spectral};
    use super::*;
    use crate::kernels::PackedWeights;
    use crate::kernels::sweep;

    /// Random graphs in one block-diagonal CSR, with their first nodes.
    fn union(graphs: &[Graph]) -> (Graph, Vec<u64>) {
        let (mut union, mut first_node) = (Graph { nodes: 0, entries: vec![] }, vec![0]);
        for graph in graphs {
            let at = union.nodes;
            union
                .entries
                .extend(graph.entries.iter().map(|&(i, j, value)| (i + at, j + at, value)));
            union.nodes += graph.nodes;
            first_node.push(union.nodes as u64);
        }
        (union, first_node)
    }

    #[test]
    fn each_graph_has_the_bound_that_it_has_alone() {
        let mut random = Random::new(5);
        let params = SpectralParams::default();
        for _ in 0..60 {
            let scaled = random.below(2) == 0;
            let graphs: Vec<_> =
                (0..1 + random.below(12)).map(|_| Graph::random(&mut random)).collect();
            let (union, first_node) = union(&graphs);
            let (mut incoming, mut outgoing) = (union.csr(false), union.csr(true));
            // 1 / root of a row's sum, which makes graphs without zero rows renormalised.
            let root = |root: f64| if root.is_finite() { root as f32 } else { 0.5 };
            let scale_of =
                |graph: &Graph| graph.inverse_roots().into_iter().map(root).collect::<Vec<_>>();
            if scaled {
                incoming.scale = Some(scale_of(&union));
                outgoing.scale = incoming.scale.clone();
            }
            let radii =
                graph_radii(incoming.view(), Some(outgoing.view()), &first_node, &params).unwrap();
            let norms = of_graphs(incoming.view(), None, &first_node, |a, _| spectral::one_norm(a))
                .unwrap();
            for (at, graph) in graphs.iter().enumerate() {
                let (mut incoming, mut outgoing) = (graph.csr(false), graph.csr(true));
                if scaled {
                    incoming.scale = Some(scale_of(graph));
                    outgoing.scale = incoming.scale.clone();
                }
                let alone = SpectralBound::of(&incoming.view(), Some(&outgoing.view()), &params);
                assert_eq!(radii[at].to_bits(), alone.rho.to_bits(), "{alone:?} {graph:?}");
                assert_eq!(norms[at], spectral::one_norm(&incoming.view()));
            }
        }
        assert!(
            graph_radii(union(&[]).0.csr(false).view(), None, &[0], &params).unwrap().is_empty()
        );
    }

    #[test]
    fn certificates_of_a_selection_are_those_of_the_graph_alone() {
        let mut random = Random::new(6);
        let mut certified = 0;
        for _ in 0..60 {
            let graphs: Vec<_> = (0..3).map(|_| Graph::random(&mut random)).collect();
            let (union, first_node) = union(&graphs);
            let union = union.csr(false);
            let selection = Selection::of_graphs(&first_node, &[1]).unwrap();
            let selected = union.view().select(&selection).unwrap();
            let alone = graphs[1].csr(false);
            let bound = SpectralBound::of(&alone.view(), None, &SpectralParams::default());
            let weight = if bound.structure == Structure::Acyclic { 2.0 } else { 0.9 / bound.rho };
            let w = crate::dense::Matrix::from_fn(5, 5, |_, _| weight as f32 / 5.0);
            let weights = [PackedWeights::forward(w.view())];
            let certificate = |a| Certificate::of(&sweep::terms(&[a], &weights), 1.0, None);
            let (found, expected) = (certificate(selected.view()), certificate(alone.view()));
            let timeless = |mut certificate: Certificate| {
                certificate.effort.seconds = 0.0;
                format!("{certificate:?}")
            };
            assert_eq!(timeless(found.clone()), timeless(expected));
            certified += usize::from(found.holds());
        }
        assert!(certified > 40, "{certified}");
    }

    #[test]
    fn an_edge_between_graphs_is_refused() {
        let graph = Graph { nodes: 4, entries: vec![(0, 1, 1.0), (1, 2, 1.0)] }.csr(false);
        let refused = graph_radii(graph.view(), None, &[0, 2, 4], &SpectralParams::default());
        assert_eq!(
            refused.unwrap_err().to_string(),
            "adjacency: neighbour in another graph (found 1, expected 2 to 3); \
             run `ignn check DIR` for details"
        );
    }
}
