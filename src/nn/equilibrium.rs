//! The equilibrium layer: X = phi(sum_r A_r^T X W_r^T + B) and, backward, G = D * (sum_r A_r G W_r
//! + R). It solves and differentiates; where B comes from, and what reads X, is up to the caller.
//!
//! | symbol | shape | meaning |
//! | --- | --- | --- |
//! | B | n x m | input term, written by the caller before a forward solve |
//! | X | n x m | state: the start of a forward solve and its result |
//! | R | n x m | dL/dX, written by the caller before an adjoint solve |
//! | G | n x m | adjoint: the start of an adjoint solve and its result; dL/dB |
//!
//! Memory: these four, one buffer that both solves share, one bit per entry for relu's derivative,
//! the vectors of two certificates; a second buffer only if no contraction is certified, and those
//! of acceleration if a solve is slow. All of it is allocated once. A caller that has B or R elsewhere
//! replaces them by empty matrices; R may also be some rows ([`Added`]).

use super::operators::Operators;
use crate::dense::{Matrix, MatrixRef, stride};
use crate::kernels::sweep::{self, Direction, Sweep, SweepScratch, Term};
use crate::kernels::{
    Activation, Added, Adjacency, AdjacencyRef, Derivative, PackedWeights, Signs, elementwise,
    gradient, views,
};
use crate::parallel::{Node, RowBlocks, Rows};
use crate::solver::certificate::lipschitz;
use crate::solver::ordered::{self, Order};
use crate::solver::{
    Certificate, Effort, GradientKind, Reference, SolveError, SolveInfo, SolveParams, SolverConfig,
    Workspace, fixed_point, refined, tightening, truncated,
};

/// How the adjoint is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Backward {
    /// The adjoint equilibrium, to the tolerance.
    Exact,
    /// A set number of damped sweeps from zero.
    Truncated {
        /// Sweeps.
        steps: usize,
        /// Share of the new value in the next state; 1 is undamped.
        damping: f32,
    },
}

impl Backward {
    /// The gradient that `solver.gradient` asks for.
    pub fn of(config: &SolverConfig) -> Self {
        match config.gradient {
            GradientKind::Exact => Self::Exact,
            GradientKind::JacobianFree => Self::Truncated { steps: 1, damping: 1.0 },
            GradientKind::Phantom => Self::Truncated {
                steps: config.phantom_steps,
                damping: config.phantom_damping as f32,
            },
        }
    }
}

/// One direction of the layer.
struct Side {
    adjacency: Vec<Adjacency>,
    /// The operators of all rows, on several ranks.
    whole: Option<Vec<Adjacency>>,
    rows: Rows,
    weights: Vec<PackedWeights>,
    blocks: RowBlocks,
    /// Rows that are solved in order, without sweeps.
    order: Option<Order>,
    certificate: Option<Certificate>,
    /// The vectors that the last search has found, whether or not their certificate holds.
    kept: Option<Vectors>,
}

/// The vectors of a certificate's norm: one weight per row and one per column; missing ones are all
/// ones. On several ranks, rows are own ones and ghosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vectors {
    /// One weight per node.
    pub u: Option<Vec<f32>>,
    /// One weight per column of the state.
    pub v: Option<Vec<f32>>,
    /// The contraction factor that a search has found with them; 0 if it is not known. From 1 on
    /// there was nothing better to find.
    pub q: f64,
}

/// Vectors of an earlier certificate are used without a search while the bound on errors that they
/// prove, in proportion to 1 / (1 - q), is at most 1.25 times what the search had found. A search that
/// has found nothing is repeated once q - 1 of its vectors is at most 0.8 times what it was.
const KEPT: f64 = 0.8;

/// Whether vectors with which a search had found the factor `before` make another one unnecessary, now
/// that they prove `q`.
fn saves_search(q: f64, before: f64) -> bool {
    match (q < 1.0, before < 1.0) {
        (true, true) => q <= tightening::GOOD || 1.0 - q >= KEPT * (1.0 - before),
        (true, false) => true,
        (false, true) => false,
        (false, false) => q - 1.0 > KEPT * (before - 1.0),
    }
}

/// The layer with its memory.
pub struct Equilibrium {
    activation: Activation,
    radius: Option<f64>,
    searches: bool,
    /// Whether to search for a certificate if closed forms give none.
    falls_back: bool,
    forward: Side,
    backward: Side,
    scratch: SweepScratch,
    workspace: Workspace,
    signs: Option<Signs>,
    /// B
    pub input: Matrix,
    /// X
    pub state: Matrix,
    /// R; made by [`Equilibrium::with_adjoint`], empty otherwise.
    pub right: Matrix,
    /// G; likewise.
    pub adjoint: Matrix,
}

impl Equilibrium {
    /// A layer for forward solves; X is zero.
    pub fn new(operators: &Operators, width: usize, activation: Activation) -> Self {
        let rows = operators.rows();
        let zero = Matrix::zeros(width, width);
        let side = |adjacency: &[Adjacency], whole: Option<&[Adjacency]>| {
            let weights: Vec<_> =
                adjacency.iter().map(|_| PackedWeights::forward(zero.view())).collect();
            let views = views(adjacency);
            Side {
                blocks: sweep::blocks(&sweep::terms(&views, &weights)),
                order: order(&views, whole.filter(|_| operators.is_acyclic()), rows),
                adjacency: adjacency.to_vec(),
                whole: whole.map(<[_]>::to_vec),
                rows: rows.clone(),
                weights,
                certificate: None,
                kept: None,
            }
        };
        let [incoming, outgoing] = operators.whole().map_or([None, None], |whole| whole.map(Some));
        let forward = side(operators.incoming_adjacency(), incoming);
        let backward = side(operators.outgoing_adjacency(), outgoing);
        Self {
            activation,
            radius: operators.spectral_radius(),
            searches: true,
            falls_back: true,
            scratch: SweepScratch::new(&forward.terms()),
            forward,
            backward,
            workspace: Workspace::over(rows, width, false),
            signs: None,
            input: Matrix::zeros(rows.len(), width),
            state: Matrix::zeros(rows.with_ghosts(), width),
            right: Matrix::zeros(0, width),
            adjoint: Matrix::zeros(0, width),
        }
    }

    /// The same, with the memory of adjoint solves.
    pub fn with_adjoint(self) -> Self {
        let right = Matrix::zeros(self.rows().len(), self.width());
        Self { right, ..self.with_adjoint_alone() }
    }

    /// The same, but R is given to [`Equilibrium::solve_adjoint_of`].
    pub fn with_adjoint_alone(mut self) -> Self {
        let (rows, width) = (self.workspace.rows(), self.state.cols());
        self.adjoint = Matrix::zeros(rows.with_ghosts(), width);
        self.signs = self.activation.slope_below().map(|_| Signs::new(rows.len(), width));
        self
    }

    /// The same, by copies of the operators' entries where these make sweeps faster
    /// ([`Operators::in_lockstep`]). Making them takes as long as some ten sweeps. Results have the same
    /// bits.
    pub fn in_lockstep(mut self, operators: &Operators) -> Self {
        if let Some(copied) = self.copies(operators) {
            for (side, adjacency) in [&mut self.forward, &mut self.backward].into_iter().zip(copied)
            {
                side.adjacency = adjacency.to_vec();
                side.blocks = sweep::blocks(&side.terms());
            }
        }
        self
    }

    fn copies<'a>(&self, operators: &'a Operators) -> Option<[&'a [Adjacency]; 2]> {
        // Rows that are solved in order are not swept.
        if self.is_ordered() { None } else { operators.in_lockstep(self.width()) }
    }

    /// The same, but takes the first certificate that holds. For batches of small graphs, a search
    /// for a better one takes longer than the solve.
    pub fn certify_quickly(&mut self) {
        self.searches = false;
    }

    /// The same, but uses only closed forms: for training steps on many graphs. Their solves are
    /// monitored by residuals; evaluations are certified.
    pub fn certify_closed_forms(&mut self) {
        (self.searches, self.falls_back) = (false, false);
    }

    /// Bytes that a layer takes beside B, R and G, with or without adjoint, while its solves are
    /// certified, including the 16-bit matrices of solves ([`SolveParams::mixing_buffers`]).
    pub fn bytes(
        nodes: u64,
        width: u64,
        relations: usize,
        has_adjoint: bool,
        mixing_buffers: usize,
    ) -> u64 {
        let matrix = nodes.saturating_mul(stride(width as usize) as u64 * 4);
        let signs = Signs::bytes(nodes, width as usize);
        let signs = if has_adjoint { signs } else { 0 };
        let matrices = 1 + sweep::scaled_copies(width as usize, relations);
        let workspace = Workspace::bytes(nodes as usize, width as usize, false, mixing_buffers);
        // Plus two vectors of the norm for each direction.
        let fixed = matrix
            .saturating_mul(matrices)
            .saturating_add(signs)
            .saturating_add(nodes.saturating_mul(8));
        fixed.saturating_add(workspace)
    }

    /// The rows of the state.
    pub fn rows(&self) -> &Rows {
        self.workspace.rows()
    }

    /// Width of the state.
    pub fn width(&self) -> usize {
        self.state.cols()
    }

    /// Whether no cycle passes through more than one node, so that rows can be solved in order.
    pub fn is_ordered(&self) -> bool {
        matches!(self.forward.order, Some(Order::All(_) | Order::Levels(_) | Order::Rounds(_)))
    }

    /// The activation.
    pub fn activation(&self) -> Activation {
        self.activation
    }

    /// Resets the state and the adjoint, so that the next solves start from zero.
    pub fn reset(&mut self) {
        for matrix in [&mut self.state, &mut self.adjoint] {
            elementwise::clear(matrix.view_mut());
        }
    }

    /// The vectors of the last search for a forward and for an adjoint certificate, which may have
    /// found none that holds. Like X and G, they are kept from one solve to the next.
    pub fn kept(&self) -> [Option<&Vectors>; 2] {
        [self.forward.kept.as_ref(), self.backward.kept.as_ref()]
    }

    /// Restores what [`Equilibrium::kept`] returned.
    pub fn keep(&mut self, [forward, backward]: [Option<Vectors>; 2]) {
        (self.forward.kept, self.backward.kept) = (forward, backward);
    }

    /// Solves for X with these weights, one per relation, starting from the current X.
    pub fn solve(
        &mut self,
        w: &[MatrixRef<'_>],
        params: &SolveParams,
    ) -> Result<SolveInfo, SolveError> {
        for (packed, w) in self.forward.weights.iter_mut().zip(w) {
            packed.repack_forward(*w);
        }
        let effort = [self.searches, self.falls_back];
        self.forward.certify(self.activation, self.radius, effort, None);
        self.keep_best_where_needed();
        let terms = self.forward.terms();
        let sweep = Sweep {
            blocks: &self.forward.blocks,
            terms: &terms,
            input: self.input.view().into(),
            scratch: &self.scratch,
        };
        let (direction, state) = (Direction::Forward(self.activation), &mut self.state);
        self.forward.solve(&sweep, direction, params, state, &mut self.workspace)
    }

    /// Solves for G with the weights of the last forward solve, starting from the current G.
    ///
    /// # Panics
    /// Without [`Equilibrium::with_adjoint`].
    pub fn solve_adjoint(
        &mut self,
        w: &[MatrixRef<'_>],
        backward: Backward,
        params: &SolveParams,
    ) -> Result<SolveInfo, SolveError> {
        let right = std::mem::replace(&mut self.right, Matrix::zeros(0, self.state.cols()));
        let solved = self.solve_adjoint_of(right.view().into(), w, backward, params);
        self.right = right;
        solved
    }

    /// The same with this R, which may be some rows alone.
    ///
    /// # Panics
    /// Without [`Equilibrium::with_adjoint_alone`].
    pub fn solve_adjoint_of(
        &mut self,
        right: Added<'_>,
        w: &[MatrixRef<'_>],
        backward: Backward,
        params: &SolveParams,
    ) -> Result<SolveInfo, SolveError> {
        assert_eq!(
            self.adjoint.rows(),
            self.state.rows(),
            "a layer with the memory of its adjoint"
        );
        for (packed, w) in self.backward.weights.iter_mut().zip(w) {
            packed.repack_adjoint(*w);
        }
        if backward == Backward::Exact {
            let kept = self.forward.kept.as_ref().filter(|kept| kept.q < 1.0);
            let hint = kept.and_then(|kept| kept.u.as_ref());
            let effort = [self.searches, self.falls_back];
            self.backward.certify(self.activation, self.radius, effort, hint);
        }
        self.keep_best_where_needed();
        if let Some(signs) = &mut self.signs {
            signs.record(self.state.view().first(self.workspace.rows().len()));
        }
        let own = self.state.view().first(self.workspace.rows().len());
        let derivative = derivative(self.activation, self.signs.as_ref(), own);
        let terms = self.backward.terms();
        let sweep = Sweep {
            blocks: &self.backward.blocks,
            terms: &terms,
            input: right,
            scratch: &self.scratch,
        };
        let (adjoint, workspace) = (&mut self.adjoint, &mut self.workspace);
        match backward {
            Backward::Exact => self.backward.solve(
                &sweep,
                Direction::Adjoint(derivative),
                params,
                adjoint,
                workspace,
            ),
            Backward::Truncated { steps, damping } => {
                truncated::adjoint(&sweep, derivative, steps, damping, adjoint, workspace)
            }
        }
    }

    /// The certificate of the last forward solve.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.forward.certificate.as_ref()
    }

    /// The solution in f64, from the state at hand: that of the last forward solve or, if asked,
    /// of the last adjoint one. For measurements; see [`Reference::solve`].
    pub fn reference(&self, is_adjoint: bool, part: f64, max_sweeps: usize) -> Option<Reference> {
        let (side, input, state) = match is_adjoint {
            false => (&self.forward, &self.input, &self.state),
            true => (&self.backward, &self.right, &self.adjoint),
        };
        let direction = match is_adjoint {
            false => Direction::Forward(self.activation),
            true => {
                let state = self.state.view().first(self.workspace.rows().len());
                Direction::Adjoint(derivative(self.activation, self.signs.as_ref(), state))
            }
        };
        let terms = side.terms();
        let (blocks, scratch, input) = (&side.blocks, &self.scratch, input.view().into());
        let sweep = Sweep { blocks, terms: &terms, input, scratch };
        let certificate = side.certificate.as_ref()?;
        Reference::solve(&sweep, direction, certificate, state, part, max_sweeps)
    }

    /// X, R, and a scratch matrix of the same shape, which may be swapped with R.
    pub fn state_right_spare(&mut self) -> (&Matrix, &mut Matrix, &mut Matrix) {
        (&self.state, &mut self.right, self.workspace.spare())
    }

    /// dL/dW_r = G^T (A_r^T X).
    pub fn weight_gradient(&self, relation: usize) -> Matrix {
        let rows = self.workspace.rows();
        gradient::weight_over(
            rows,
            self.forward.adjacency[relation].view(),
            self.adjoint.view().first(rows.len()),
            self.state.view(),
        )
    }

    /// A solve without a certified contraction keeps its best state, which needs one more buffer.
    fn keep_best_where_needed(&mut self) {
        let holds = |side: &Side| side.certificate.as_ref().is_none_or(Certificate::holds);
        if !(self.workspace.keeps_best() || holds(&self.forward) && holds(&self.backward)) {
            self.workspace = Workspace::over(&self.forward.rows, self.state.cols(), true);
        }
    }
}

/// Rows that are solved before sweeps. On several ranks, `acyclic` has the operators of all rows if
/// these have no cycle.
fn order(
    adjacency: &[AdjacencyRef<'_>],
    acyclic: Option<&[Adjacency]>,
    rows: &Rows,
) -> Option<Order> {
    if rows.is_alone() {
        return Order::of(adjacency);
    }
    if let Some(whole) = acyclic {
        return Some(Order::rounds(&views(whole), rows));
    }
    let alone = Order::alone(adjacency);
    rows.ranks().any(!alone.is_empty()).then_some(Order::Alone(alone))
}

/// D at a state.
fn derivative<'a>(
    activation: Activation,
    signs: Option<&'a Signs>,
    state: MatrixRef<'a>,
) -> Derivative<'a> {
    match (activation, signs, activation.slope_below()) {
        (Activation::Identity, ..) => Derivative::One,
        (_, Some(signs), Some(slope)) => Derivative::Signs { signs, slope },
        (activation, ..) => Derivative::State { activation, state },
    }
}

impl Side {
    fn terms(&self) -> Vec<Term<'_>> {
        sweep::terms(&views(&self.adjacency), &self.weights)
    }

    /// Solves the rows that need no sweep first, if there are any and the method allows it.
    fn solve(
        &self,
        sweep: &Sweep<'_>,
        direction: Direction<'_>,
        params: &SolveParams,
        state: &mut Matrix,
        workspace: &mut Workspace,
    ) -> Result<SolveInfo, SolveError> {
        let certificate = self.certificate.as_ref();
        let info = match self.order.as_ref().filter(|_| params.method.takes_order()) {
            Some(order) => {
                ordered::solve(sweep, direction, order, certificate, params, state, workspace)
            }
            None => fixed_point::solve(sweep, direction, certificate, params, state, workspace),
        }?;
        let info =
            SolveInfo { certificate: certificate.map_or(info.certificate, |c| c.effort), ..info };
        Ok(match params.tight {
            true => refined::tighten(sweep, direction, certificate, params, state, workspace, info),
            false => info,
        })
    }

    /// The certificate that the first rank finds on all rows, which it has mapped.
    fn search_whole(
        &self,
        whole: &[Adjacency],
        terms: &[Term<'_>],
        slope: f64,
        radius: Option<f64>,
        hint: Option<&Vec<f32>>,
    ) -> Certificate {
        let ranks = self.rows.ranks();
        let hint = hint.and_then(|hint| self.rows.collect(&hint[..self.rows.len()]));
        let found = ranks.is_first().then(|| {
            let terms = sweep::terms(&views(whole), &self.weights);
            Certificate::with_hint(&terms, slope, radius, hint.as_ref())
        });
        let vectors = found.as_ref().map_or([None, None], Certificate::vectors);
        // A missing vector is empty.
        let [u, v] = vectors.map(|vector| {
            let sent = ranks.broadcast(0, vector.unwrap_or_default().to_vec().to_bytes());
            Some(Vec::<f32>::from_bytes(&sent)).filter(|vector| !vector.is_empty())
        });
        let u = u.map(|u| self.rows.select(&u, 1.0));
        let mut certificate = Certificate::over(ranks, terms, slope, u, v);
        // Every rank records what the first one did.
        let effort = found.map_or(Effort::default(), |found| found.effort);
        let [passes, seconds] = ranks
            .merge([effort.passes as f64, effort.seconds], |a, b| [a[0].max(b[0]), a[1].max(b[1])]);
        certificate.effort = Effort { passes: passes as usize, seconds };
        certificate
    }

    /// The certificate for the current weights. The vectors of the last search are reused while they
    /// prove about as much as they did then, or as little. `hint` is a vector u from the other direction.
    fn certify(
        &mut self,
        activation: Activation,
        radius: Option<f64>,
        [searches, falls_back]: [bool; 2],
        hint: Option<&Vec<f32>>,
    ) {
        let terms = sweep::terms(&views(&self.adjacency), &self.weights);
        let slope = lipschitz(activation);
        let ranks = self.rows.ranks();
        let kept = self.kept.take();
        let before = kept.as_ref().map_or(0.0, |kept| kept.q);
        let kept = kept.map(|kept| Certificate::over(ranks, &terms, slope, kept.u, kept.v));
        let tried = kept.as_ref().map_or(Effort::default(), |kept| kept.effort);
        let kept = kept.filter(|kept| saves_search(kept.q, before));
        let is_kept = kept.is_some();
        let closed = || {
            Some(Certificate::closed(&terms, slope)).filter(|found| !falls_back || found.holds())
        };
        let kept = kept.or_else(|| if searches { None } else { closed() });
        let mut certificate = kept.unwrap_or_else(|| match &self.whole {
            None => Certificate::with_hint(&terms, slope, radius, hint),
            Some(whole) => self.search_whole(whole, &terms, slope, radius, hint),
        });
        if !is_kept {
            certificate.effort = certificate.effort.with(tried);
        }
        // Closed forms alone do not show that a search would fail.
        if certificate.holds() || searches || falls_back {
            let [u, v] = certificate.vectors().map(|weights| weights.map(<[f32]>::to_vec));
            // What a search found is remembered until the next one; that another W made its vectors
            // hold counts as one.
            let holds_now = before >= 1.0 && certificate.holds();
            let q = if is_kept && !holds_now { before } else { certificate.q };
            self.kept = Some(Vectors { u, v, q });
        }
        self.certificate = Some(certificate);
    }
}
