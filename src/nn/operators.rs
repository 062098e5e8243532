//! The graph as layers use it: the operator of each relation in both directions, blocks of rows for
//! threads, and upper bounds on radii. It is made once per dataset and holds no state or parameter.
//!
//! | symbol | meaning |
//! | --- | --- |
//! | A_r^T | gathers over incoming edges: forward sweeps |
//! | A_r | gathers over outgoing edges: adjoint sweeps, gradients of learned features |
//! | rho | upper bound on the spectral radius of A (one relation), or on \|\|A_r\|\|_1 (several) |
//!
//! On several ranks ([`Operators::of_rank`]), the operators are those of the rank's own rows; their
//! columns are these rows and ghosts ([`Rows`]).

use std::sync::{Arc, OnceLock};

use ignn_format::checksum::{hex, of_bytes};

use crate::dense::Scratch;
use crate::graph::{Graph, Relation};
use crate::kernels::{
    Adjacency, AdjacencyError, AdjacencyRef, Isa, Lockstep, Selection, ghosts, views,
};
use crate::parallel::{Partition, Ranks, RowBlocks, Rows};
use crate::solver::graph_radii::{graph_radii, of_graphs};
use crate::solver::ordered::Order;
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
    rows: Rows,
    /// The ranks of the job, which share the rows or, of a collection, batches of graphs.
    ranks: Arc<dyn Ranks>,
    /// Number of entries of all relations, of all ranks.
    nonzeros: usize,
    /// On several ranks.
    whole: Option<Whole>,
    /// The operators with copies of their entries, once a layer wanted them; `None` inside if there
    /// is no memory for them.
    copied: OnceLock<Option<[Vec<Adjacency>; 2]>>,
}

/// The operators of all rows, of which a rank has some. They are mapped, not held in memory.
#[derive(Debug)]
struct Whole {
    incoming: Vec<Adjacency>,
    outgoing: Vec<Adjacency>,
    is_acyclic: bool,
}

/// Why a graph cannot be shared by several ranks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RankError {
    /// Ranks that see different files, or do not compute alike.
    #[error(transparent)]
    Differs(#[from] Box<RankDifference>),
    /// An array does not fit.
    #[error(transparent)]
    Adjacency(#[from] AdjacencyError),
    /// It failed on another rank.
    #[error("{0}")]
    Other(String),
}

/// What a rank has in place of what the first rank has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "rank {rank} {verb} another {what} than rank 0 (found {found}, expected {expected}): {hint}"
)]
pub struct RankDifference {
    /// The first rank that differs from the first of all.
    pub rank: usize,
    /// What it does with it.
    verb: &'static str,
    /// What differs.
    what: &'static str,
    /// What it has.
    found: String,
    /// What the first rank has.
    expected: String,
    /// What to do.
    hint: &'static str,
}

impl RankError {
    /// Refuses ranks that see different datasets, have different settings, or whose processors round
    /// differently; all ranks call it together.
    pub fn check_same(graph: &Graph, settings: &str, ranks: &dyn Ranks) -> Result<(), Self> {
        let wanted = "set IGNN_SIMD to an instruction set that all processors have";
        Self::check("uses", "instruction set", Isa::chosen().name(), wanted, ranks)?;
        Self::check_file("dataset", &graph.manifest().checksum(), ranks)?;
        let settings = hex(of_bytes(settings.as_bytes()));
        Self::check("has", "set of settings", &settings, "start all ranks alike", ranks)
    }

    /// Refuses ranks that see different cross-validations in a directory, by their identities.
    pub(crate) fn check_crossvals(id: &str, ranks: &dyn Ranks) -> Result<(), Self> {
        let hint = "every rank must see the directory that rank 0 writes";
        Self::check("sees", "cross-validation", id, hint, ranks)
    }

    /// Refuses ranks that see different files of a kind, such as models, by their checksums.
    pub(crate) fn check_file(
        what: &'static str,
        checksum: &str,
        ranks: &dyn Ranks,
    ) -> Result<(), Self> {
        Self::check("sees", what, checksum, "every rank must see the same files", ranks)
    }

    fn check(
        verb: &'static str,
        what: &'static str,
        own: &str,
        hint: &'static str,
        ranks: &dyn Ranks,
    ) -> Result<(), Self> {
        if ranks.is_alone() {
            return Ok(());
        }
        let all = ranks.gather(own.as_bytes().to_vec());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match all.iter().position(|found| *found != all[0]) {
            None => Ok(()),
            Some(rank) => {
                let (found, expected) = (text(&all[rank]), text(&all[0]));
                Err(Box::new(RankDifference { rank, verb, what, found, expected, hint }).into())
            }
        }
    }
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

    /// The operators of one of several ranks, which all call this together. Bounds are computed by
    /// the first rank.
    ///
    /// # Panics
    /// If there is no relation.
    pub fn of_rank(relations: &[Relation], ranks: &Arc<dyn Ranks>) -> Result<Self, RankError> {
        if ranks.is_alone() {
            return Ok(Self::of(relations));
        }
        let whole = ranks.is_first().then(|| Self::of(relations));
        // Radii, whether a direction has no cycle, and whether a relation has repeated rows.
        let facts = whole.as_ref().map_or(Vec::new(), |whole| {
            let sides = [whole.incoming(), whole.outgoing()];
            let acyclic = sides.iter().any(|side| matches!(Order::of(side), Some(Order::All(_))));
            let repeats = sides.iter().flatten().any(|a| a.shared().is_some());
            let facts = [acyclic, repeats].map(f64::from);
            whole.radii().iter().copied().chain(facts).collect()
        });
        let facts = ranks.broadcast(0, bytemuck::cast_slice(&facts).to_vec());
        let facts: Vec<f64> = bytemuck::pod_collect_to_vec(&facts);
        let (radii, facts) = facts.split_at(relations.len());
        let (incoming, outgoing): (Vec<_>, Vec<_>) = match whole {
            Some(whole) => (whole.inner.incoming.clone(), whole.inner.outgoing.clone()),
            None => {
                let has_repeats = facts[1] == 1.0;
                let of = if has_repeats { Adjacency::of } else { Adjacency::mapped };
                relations.iter().map(of).map(|[a, b]| (a, b)).unzip()
            }
        };
        let (rows, local) = {
            let (into, out) = (views(&incoming), views(&outgoing));
            let (parts, partition) = partitioned(&into, ranks.size());
            let own = partition.rows(ranks.rank());
            let both: Vec<_> = into.iter().chain(&out).copied().collect();
            let ghosts = ghosts(&both, own.clone());
            let local = |a: &AdjacencyRef<'_>| Adjacency::local(*a, own.clone(), &ghosts);
            let both = |(a, b): (&AdjacencyRef<'_>, &AdjacencyRef<'_>)| {
                let into = local(a)?;
                let out = if a.is_symmetric(b) { into.clone() } else { local(b)? };
                Ok((into, out))
            };
            let local: Result<(Vec<_>, Vec<_>), AdjacencyError> =
                into.iter().zip(&out).map(both).collect();
            let local = ranks.agree(local.map_err(RankError::from), RankError::Other)?;
            (Rows::of_rank(Arc::clone(ranks), parts, partition, ghosts), local)
        };
        let whole = Whole { incoming, outgoing, is_acyclic: facts[0] == 1.0 };
        Ok(Self::with_rows(local.0, local.1, None, radii.to_vec(), rows, Some(whole)))
    }

    /// The operators of a collection of graphs on one of several ranks: each has all of them, and
    /// batches of graphs are dealt.
    ///
    /// # Panics
    /// If there is no relation.
    pub fn of_graphs(relations: &[Relation], ranks: &Arc<dyn Ranks>) -> Self {
        let mut all = Self::of(relations);
        Arc::get_mut(&mut all.inner).expect("just made").ranks = Arc::clone(ranks);
        all
    }

    fn from_parts(
        incoming: Vec<Adjacency>,
        outgoing: Vec<Adjacency>,
        spectral: Option<SpectralBound>,
        radii: Vec<f64>,
    ) -> Self {
        let rows = {
            let sides = [views(&incoming), views(&outgoing)];
            let shape = |side: &[AdjacencyRef<'_>]| -> Vec<_> {
                side.iter().map(|relation| (relation.rows(), relation.nonzeros())).collect()
            };
            assert_eq!(shape(&sides[0]), shape(&sides[1]), "both directions of the same relations");
            let offsets: Vec<_> = sides[0].iter().map(AdjacencyRef::offsets).collect();
            Rows::alone(RowBlocks::for_sums(sides[0][0].rows(), &offsets))
        };
        Self::with_rows(incoming, outgoing, spectral, radii, rows, None)
    }

    fn with_rows(
        incoming: Vec<Adjacency>,
        outgoing: Vec<Adjacency>,
        spectral: Option<SpectralBound>,
        radii: Vec<f64>,
        rows: Rows,
        whole: Option<Whole>,
    ) -> Self {
        assert_eq!(radii.len(), incoming.len(), "one bound per relation");
        let [incoming_blocks, outgoing_blocks] = [&incoming, &outgoing].map(|side| {
            let views = views(side);
            let offsets: Vec<_> = views.iter().map(AdjacencyRef::gathered_offsets).collect();
            RowBlocks::balanced(views[0].rows(), &offsets, 2)
        });
        let all = whole.as_ref().map_or(&incoming, |whole| &whole.incoming);
        let nonzeros = views(all).iter().map(AdjacencyRef::nonzeros).sum();
        let inner = Inner {
            incoming,
            outgoing,
            incoming_blocks,
            outgoing_blocks,
            spectral,
            radii,
            ranks: rows.shared_ranks(),
            rows,
            nonzeros,
            whole,
            copied: OnceLock::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The ranks of the job.
    pub fn ranks(&self) -> &Arc<dyn Ranks> {
        &self.inner.ranks
    }

    /// Who owns which rows.
    pub fn rows(&self) -> &Rows {
        &self.inner.rows
    }

    /// On several ranks, A_r^T and A_r of all rows.
    pub(super) fn whole(&self) -> Option<[&[Adjacency]; 2]> {
        self.inner.whole.as_ref().map(|whole| [&whole.incoming[..], &whole.outgoing[..]])
    }

    /// Whether a relation stores one direction, which serves both.
    pub fn stores_once(&self, relation: usize) -> bool {
        let sides = self.whole().unwrap_or([&self.inner.incoming, &self.inner.outgoing]);
        let [a, b] = sides.map(|side| side[relation].view());
        std::ptr::eq(a.neighbours(), b.neighbours())
    }

    /// On several ranks, whether a direction of the graph has no cycle through several nodes.
    pub fn is_acyclic(&self) -> bool {
        self.inner.whole.as_ref().is_some_and(|whole| whole.is_acyclic)
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

    /// Number of nodes; on several ranks, of those that this one owns.
    pub fn nodes(&self) -> usize {
        self.inner.incoming[0].view().rows()
    }

    /// Number of relations.
    pub fn relations(&self) -> usize {
        self.inner.incoming.len()
    }

    /// Number of entries of all relations, of all ranks.
    pub fn nonzeros(&self) -> usize {
        self.inner.nonzeros
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

    /// A_r^T and A_r of every relation with copies of their entries, if sweeps over states of this
    /// width gain from them, all matrices are in memory, and these are all rows. The first call makes
    /// the copies, which are kept as long as these operators ([`Operators::copied_bytes`]).
    pub fn in_lockstep(&self, width: usize) -> Option<[&[Adjacency]; 2]> {
        let is_selection = self.inner.incoming[0].view().is_selection();
        if !Lockstep::serves(width) || is_selection || Scratch::current().is_some() {
            return None;
        }
        let both = || [self.incoming_adjacency(), self.outgoing_adjacency()];
        let copied = self.inner.copied.get_or_init(|| Some(Adjacency::in_lockstep(both())));
        copied.as_ref().map(|[incoming, outgoing]| [&incoming[..], &outgoing[..]])
    }

    /// Makes no copies of entries from now on, for want of memory.
    pub fn leave_out_copies(&self) {
        // Copies that exist are in memory already.
        let _ = self.inner.copied.set(None);
    }

    /// Bytes of the copies of entries for layers of this width: of relations with so many nodes and
    /// entries, whether they are weighted, and whether one direction serves both.
    pub fn copied_bytes(
        width: usize,
        relations: impl IntoIterator<Item = (u64, u64, bool, bool)>,
    ) -> u64 {
        let of = |(nodes, entries, is_weighted, is_stored_once)| {
            let bytes = Lockstep::bytes(nodes, entries, is_weighted);
            if is_stored_once { bytes } else { bytes.saturating_mul(2) }
        };
        match Lockstep::serves(width) {
            true => relations.into_iter().map(of).fold(0, u64::saturating_add),
            false => 0,
        }
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

/// The parts of sums over all rows, and which of them each rank has.
pub(super) fn partitioned(incoming: &[AdjacencyRef<'_>], ranks: usize) -> (RowBlocks, Partition) {
    let nodes = incoming.first().map_or(0, AdjacencyRef::rows);
    let offsets: Vec<_> = incoming.iter().map(AdjacencyRef::offsets).collect();
    let parts = RowBlocks::for_sums(nodes, &offsets);
    let partition = Partition::new(&parts, &offsets, ranks);
    (parts, partition)
}

fn owned<A: Into<Adjacency>>(side: Vec<A>) -> Vec<Adjacency> {
    side.into_iter().map(Into::into).collect()
}
