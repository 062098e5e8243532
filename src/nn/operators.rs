//! The graph as a layer sees it: the operator of each relation in both directions, blocks of rows,
//! and rigorous bounds. Made once for a dataset; it holds no state and no parameter.
//!
//! | symbol | meaning |
//! | --- | --- |
//! | A_r^T | gathers over incoming edges: forward sweeps |
//! | A_r | gathers over outgoing edges: adjoint sweeps, gradients of learned features |
//! | rho | bound of the spectral radius of A (one relation), or of ||A_r||_1 (several) |

use super::SelectedOperators;
use crate::kernels::{AdjacencyError, AdjacencyRef, Relations, Selection};
use crate::parallel::RowBlocks;
use crate::solver::graph_radii::{graph_radii, of_graphs};
use crate::solver::spectral::one_norm;
use crate::solver::{SpectralBound, SpectralParams};

/// The operators of a dataset's relations.
#[derive(Debug)]
pub struct Operators<'g> {
    incoming: Vec<AdjacencyRef<'g>>,
    outgoing: Vec<AdjacencyRef<'g>>,
    incoming_blocks: RowBlocks,
    outgoing_blocks: RowBlocks,
    /// Of a single relation.
    spectral: Option<SpectralBound>,
    radii: Vec<f64>,
}

impl<'g> Operators<'g> {
    /// Checks the mapped arrays and bounds their radii: a pass or a few over the non-zeros.
    ///
    /// # Panics
    /// Where there is no relation.
    pub fn of(relations: &'g Relations) -> Result<Self, AdjacencyError> {
        let (incoming, outgoing) = relations.operators()?;
        Ok(Self::new(incoming, outgoing))
    }

    /// The same for adjacencies in memory: A_r^T and A_r of every relation.
    ///
    /// # Panics
    /// Where there is no relation, or the two sides differ in their number of relations, nodes or
    /// entries.
    pub fn new(incoming: Vec<AdjacencyRef<'g>>, outgoing: Vec<AdjacencyRef<'g>>) -> Self {
        let spectral = match (&incoming[..], &outgoing[..]) {
            ([a], [b]) => Some(SpectralBound::of(a, Some(b), &SpectralParams::default())),
            _ => None,
        };
        let radii = match &spectral {
            Some(bound) => vec![bound.rho],
            None => incoming.iter().map(one_norm).collect(),
        };
        Self { spectral, ..Self::with_radii(incoming, outgoing, radii) }
    }

    /// The same with bounds that are known: nothing is computed.
    ///
    /// # Panics
    /// As [`Operators::new`] does, and where there is not a bound a relation.
    pub fn with_radii(
        incoming: Vec<AdjacencyRef<'g>>,
        outgoing: Vec<AdjacencyRef<'g>>,
        radii: Vec<f64>,
    ) -> Self {
        let shape = |side: &[AdjacencyRef<'_>]| -> Vec<_> {
            side.iter().map(|relation| (relation.rows(), relation.nonzeros())).collect()
        };
        assert_eq!(shape(&incoming), shape(&outgoing), "both directions of the same relations");
        assert_eq!(radii.len(), incoming.len(), "a bound a relation");
        let nodes = incoming[0].rows();
        let blocks = |side: &[AdjacencyRef<'g>]| {
            let offsets: Vec<_> = side.iter().map(AdjacencyRef::gathered_offsets).collect();
            RowBlocks::balanced(nodes, &offsets, 2)
        };
        Self {
            incoming_blocks: blocks(&incoming),
            outgoing_blocks: blocks(&outgoing),
            incoming,
            outgoing,
            spectral: None,
            radii,
        }
    }

    /// The operators of some of the dataset's graphs; refused where an edge of theirs leaves its
    /// graph.
    ///
    /// # Panics
    /// Where these are themselves those of a selection.
    pub fn select<'a>(
        &'a self,
        selection: &'a Selection,
    ) -> Result<SelectedOperators<'a>, AdjacencyError> {
        SelectedOperators::new(self, selection)
    }

    /// rho of every relation and graph, each graph for itself; graph `g` has the nodes
    /// `first_node[g]..first_node[g + 1]`.
    ///
    /// # Panics
    /// Where these are the operators of a selection.
    pub fn graph_radii(&self, first_node: &[u64]) -> Result<Vec<Vec<f64>>, AdjacencyError> {
        if let ([a], [b]) = (&self.incoming[..], &self.outgoing[..]) {
            return Ok(vec![graph_radii(*a, Some(*b), first_node, &SpectralParams::default())?]);
        }
        self.incoming.iter().map(|&a| of_graphs(a, None, first_node, |a, _| one_norm(a))).collect()
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.incoming[0].rows()
    }

    /// Entries of all relations.
    pub fn nonzeros(&self) -> usize {
        self.incoming.iter().map(AdjacencyRef::nonzeros).sum()
    }

    /// A_r^T of every relation.
    pub fn incoming(&self) -> &[AdjacencyRef<'g>] {
        &self.incoming
    }

    /// A_r of every relation.
    pub fn outgoing(&self) -> &[AdjacencyRef<'g>] {
        &self.outgoing
    }

    /// Rows for plain gathers over incoming edges.
    pub fn incoming_blocks(&self) -> &RowBlocks {
        &self.incoming_blocks
    }

    /// Rows for plain gathers over outgoing edges.
    pub fn outgoing_blocks(&self) -> &RowBlocks {
        &self.outgoing_blocks
    }

    /// rho of every relation: what divides kappa.
    pub fn radii(&self) -> &[f64] {
        &self.radii
    }

    /// rho of a single relation.
    pub fn spectral_radius(&self) -> Option<f64> {
        if let [rho] = self.radii[..] { Some(rho) } else { None }
    }

    /// How the radius of a single relation was bounded; none where the bound was given.
    pub fn spectral(&self) -> Option<&SpectralBound> {
        self.spectral.as_ref()
    }

    /// The radius of the L1 balls for the rows of W_r, `kappa / rho_r`, rounded down; infinite
    /// where rho is 0.
    pub fn weight_radius(&self, relation: usize, kappa: f64) -> f64 {
        let rho = self.radii[relation];
        if rho == 0.0 { f64::INFINITY } else { (kappa / rho).next_down().max(0.0) }
    }
}
