//! The graph as layers use it: the operator of each relation in both directions, blocks of rows for
//! threads, and upper bounds on radii. It is made once per dataset and holds no state or parameter.
//!
//! | symbol | meaning |
//! | --- | --- |
//! | A_r^T | gathers over incoming edges: forward sweeps |
//! | A_r | gathers over outgoing edges: adjoint sweeps, gradients of learned features |
//! | rho | upper bound on the spectral radius of A (one relation), or on \|\|A_r\|\|_1 (several) |

use std::sync::Arc;

use crate::graph::Relation;
use crate::kernels::{Adjacency, AdjacencyError, AdjacencyRef, Selection, views};
use crate::parallel::RowBlocks;
use crate::solver::graph_radii::{graph_radii, of_graphs};
use crate::solver::spectral::one_norm;
use crate::solver::{SpectralBound, SpectralParams};

/// The operators of a dataset's relations. A clone shares everything.
#[derive(Clone, Debug)]
pub struct Operators {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    incoming: Vec<Adjacency>,
    outgoing: Vec<Adjacency>,
    incoming_blocks: RowBlocks,
    outgoing_blocks: RowBlocks,
    /// Present for a single relation whose bound was computed here.
    spectral: Option<SpectralBound>,
    radii: Vec<f64>,
}

impl Operators {
    /// Bounds the radii of the mapped arrays: a few passes over the non-zeros.
    ///
    /// # Panics
    /// If there is no relation.
    pub fn of(relations: &[Relation]) -> Self {
        let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
        for relation in relations {
            let [forward, backward] = Adjacency::of(relation);
            incoming.push(forward);
            outgoing.push(backward);
        }
        Self::new(incoming, outgoing)
    }

    /// The same for any adjacencies: A_r^T and A_r of every relation. Borrowed ones are copied.
    ///
    /// # Panics
    /// If there is no relation, or the two sides differ in their number of relations, nodes or
    /// entries.
    pub fn new<A: Into<Adjacency>>(incoming: Vec<A>, outgoing: Vec<A>) -> Self {
        let (incoming, outgoing) = (owned(incoming), owned(outgoing));
        let (spectral, radii) = match (&views(&incoming)[..], &views(&outgoing)[..]) {
            ([a], [b]) => {
                let bound = SpectralBound::of(a, Some(b), &SpectralParams::default());
                let radii = vec![bound.rho];
                (Some(bound), radii)
            }
            (several, _) => (None, several.iter().map(one_norm).collect()),
        };
        Self::from_parts(incoming, outgoing, spectral, radii)
    }

    /// The same with known bounds; nothing is computed.
    ///
    /// # Panics
    /// As [`Operators::new`] does, and if there is not one bound per relation.
    pub fn with_radii<A: Into<Adjacency>>(
        incoming: Vec<A>,
        outgoing: Vec<A>,
        radii: Vec<f64>,
    ) -> Self {
        Self::from_parts(owned(incoming), owned(outgoing), None, radii)
    }

    fn from_parts(
        incoming: Vec<Adjacency>,
        outgoing: Vec<Adjacency>,
        spectral: Option<SpectralBound>,
        radii: Vec<f64>,
    ) -> Self {
        let [incoming_blocks, outgoing_blocks] = {
            let sides = [views(&incoming), views(&outgoing)];
            let shape = |side: &[AdjacencyRef<'_>]| -> Vec<_> {
                side.iter().map(|relation| (relation.rows(), relation.nonzeros())).collect()
            };
            assert_eq!(shape(&sides[0]), shape(&sides[1]), "both directions of the same relations");
            assert_eq!(radii.len(), incoming.len(), "one bound per relation");
            let nodes = sides[0][0].rows();
            sides.map(|side| {
                let offsets: Vec<_> = side.iter().map(AdjacencyRef::gathered_offsets).collect();
                RowBlocks::balanced(nodes, &offsets, 2)
            })
        };
        let inner = Inner { incoming, outgoing, incoming_blocks, outgoing_blocks, spectral, radii };
        Self { inner: Arc::new(inner) }
    }

    /// The operators of some graphs of the dataset, over the same arrays. `radii` holds one bound
    /// per relation, which must hold for all of these graphs ([`Operators::graph_radii`]). It is an
    /// error if an edge leaves its graph.
    ///
    /// # Panics
    /// If these operators are themselves a selection, or if there is not one bound per relation.
    pub fn select(
        &self,
        selection: &Arc<Selection>,
        radii: Vec<f64>,
    ) -> Result<Self, AdjacencyError> {
        let select = |side: &[Adjacency]| {
            side.iter().map(|relation| relation.select(selection)).collect::<Result<Vec<_>, _>>()
        };
        let (incoming, outgoing) = (select(&self.inner.incoming)?, select(&self.inner.outgoing)?);
        Ok(Self::from_parts(incoming, outgoing, None, radii))
    }

    /// rho of each relation on each graph. Graph `g` has the nodes `first_node[g]..first_node[g +
    /// 1]`.
    ///
    /// # Panics
    /// If these are the operators of a selection.
    pub fn graph_radii(&self, first_node: &[u64]) -> Result<Vec<Vec<f64>>, AdjacencyError> {
        let (incoming, outgoing) = (self.incoming(), self.outgoing());
        if let ([a], [b]) = (&incoming[..], &outgoing[..]) {
            return Ok(vec![graph_radii(*a, Some(*b), first_node, &SpectralParams::default())?]);
        }
        incoming.iter().map(|&a| of_graphs(a, None, first_node, |a, _| one_norm(a))).collect()
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.inner.incoming[0].view().rows()
    }

    /// Number of relations.
    pub fn relations(&self) -> usize {
        self.inner.incoming.len()
    }

    /// Number of entries of all relations.
    pub fn nonzeros(&self) -> usize {
        self.incoming().iter().map(AdjacencyRef::nonzeros).sum()
    }

    /// A_r^T of every relation.
    pub fn incoming(&self) -> Vec<AdjacencyRef<'_>> {
        views(&self.inner.incoming)
    }

    /// A_r of every relation.
    pub fn outgoing(&self) -> Vec<AdjacencyRef<'_>> {
        views(&self.inner.outgoing)
    }

    /// A_r^T of every relation, as values that can be cloned and kept.
    pub fn incoming_adjacency(&self) -> &[Adjacency] {
        &self.inner.incoming
    }

    /// A_r of every relation, as values that can be cloned and kept.
    pub fn outgoing_adjacency(&self) -> &[Adjacency] {
        &self.inner.outgoing
    }

    /// Blocks of rows for gathers over incoming edges.
    pub fn incoming_blocks(&self) -> &RowBlocks {
        &self.inner.incoming_blocks
    }

    /// Blocks of rows for gathers over outgoing edges.
    pub fn outgoing_blocks(&self) -> &RowBlocks {
        &self.inner.outgoing_blocks
    }

    /// rho of every relation. kappa is divided by it.
    pub fn radii(&self) -> &[f64] {
        &self.inner.radii
    }

    /// rho of a single relation.
    pub fn spectral_radius(&self) -> Option<f64> {
        if let [rho] = self.inner.radii[..] { Some(rho) } else { None }
    }

    /// How the radius of a single relation was bounded; `None` if the bound was given.
    pub fn spectral(&self) -> Option<&SpectralBound> {
        self.inner.spectral.as_ref()
    }

    /// The radius of the L1 balls for the rows of W_r: `kappa / rho_r`, rounded down, or infinite
    /// if rho_r is 0.
    pub fn weight_radius(&self, relation: usize, kappa: f64) -> f64 {
        let rho = self.inner.radii[relation];
        if rho == 0.0 { f64::INFINITY } else { (kappa / rho).next_down().max(0.0) }
    }
}

fn owned<A: Into<Adjacency>>(side: Vec<A>) -> Vec<Adjacency> {
    side.into_iter().map(Into::into).collect()
}
