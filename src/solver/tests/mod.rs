//! Solves held against f64: what is certified is true, and every way to the equilibrium leads
//! there.

mod accelerated;
mod certificates;
mod random_systems;
mod solves;

use super::certificate::lipschitz;
use super::testing::reference::{Layer, Mat, Phi};
use super::testing::{Csr, Graph, Random};
use super::*;
use crate::dense::Matrix;
use crate::kernels::sweep::{Direction, Sweep, SweepScratch, Term, blocks};
use crate::kernels::{Activation, Derivative, PackedWeights};

const ACTIVATIONS: [Activation; 6] = [
    Activation::Relu,
    Activation::Tanh,
    Activation::Identity,
    Activation::LeakyRelu(0.1),
    Activation::Sigmoid,
    Activation::Elu,
];

/// An equation in f32, with all that solving it in both directions needs.
struct Equation {
    incoming: Vec<Csr>,
    outgoing: Vec<Csr>,
    w: Vec<Matrix>,
    b: Matrix,
    activation: Activation,
}

/// One direction of an equation, solved.
struct Solved {
    info: SolveInfo,
    state: Matrix,
}

/// The activation of the reference.
fn phi(activation: Activation) -> Phi {
    match activation {
        Activation::Identity => Phi::Identity,
        Activation::Relu => Phi::Relu,
        Activation::LeakyRelu(slope) => Phi::LeakyRelu(f64::from(slope)),
        Activation::Tanh => Phi::Tanh,
        Activation::Sigmoid => Phi::Sigmoid,
        Activation::Elu => Phi::Elu,
    }
}

fn to_mat(matrix: &Matrix) -> Mat {
    Mat::new(matrix.rows(), matrix.cols(), |i, k| f64::from(matrix.row(i)[k]))
}

impl Equation {
    /// A random graph or two, and a W of norm `kappa / rho` in all: just inside the condition for
    /// kappa below 1.
    fn random(random: &mut Random, kappa: f64) -> Self {
        let relations = 1 + random.below(4) / 3;
        let nodes = 3 + random.below(10);
        let directions = (0..relations).map(|_| {
            let mut graph = Graph::random(random);
            while graph.nodes < nodes {
                graph = Graph::random(random);
            }
            graph.nodes = nodes;
            graph.entries.retain(|entry| entry.0 < nodes && entry.1 < nodes);
            Self::directions(&graph, random.below(3))
        });
        let (incoming, outgoing): (Vec<Csr>, Vec<Csr>) = directions.unzip();
        let m = 1 + random.below(20);
        let single = relations == 1;
        let w = incoming.iter().map(|csr| {
            // The condition of one relation is by the spectral radius, that of several by 1-norms.
            let rho = match single {
                true => SpectralBound::of(&csr.view(), None, &SpectralParams::default()).rho,
                false => {
                    entries::ratios(&csr.view(), entries::Vector::Ones).high * relations as f64
                }
            };
            let mut w = Matrix::from_fn(m, m, |_, _| random.sign() as f32);
            let radius = if rho == 0.0 { 3.0 } else { kappa / rho };
            for k in 0..m {
                let norm: f32 = w.row(k).iter().map(|x| x.abs()).sum();
                w.row_mut(k).iter_mut().for_each(|x| *x *= radius as f32 / norm.max(1e-3));
            }
            w
        });
        let w = w.collect();
        let b = Matrix::from_fn(nodes, m, |_, _| random.sign() as f32);
        Self { incoming, outgoing, w, b, activation: ACTIVATIONS[random.below(6)] }
    }

    /// A graph as it is, renormalised, or renormalised by a scale.
    fn directions(graph: &Graph, form: usize) -> (Csr, Csr) {
        let stored = match form {
            0 => graph.clone(),
            1 => graph.renormalised(),
            _ => graph.with_loops(),
        };
        let roots = || stored.inverse_roots().into_iter().map(|root| root as f32).collect();
        let scale: Option<Vec<f32>> = (form == 2).then(roots);
        let direction = |outgoing| Csr { scale: scale.clone(), ..stored.csr(outgoing) };
        (direction(false), direction(true))
    }

    /// One relation, unscaled.
    fn one(graph: &Graph, w: Matrix, b: Matrix, activation: Activation) -> Self {
        let (incoming, outgoing) = Self::directions(graph, 0);
        Self { incoming: vec![incoming], outgoing: vec![outgoing], w: vec![w], b, activation }
    }

    /// Many blocks of rows for the threads to share, and hubs among them.
    fn large(random: &mut Random) -> Self {
        let nodes = 3000;
        let node = |random: &mut Random| (random.unit().powi(3) * nodes as f64) as usize;
        let mut pairs: Vec<_> = (0..8 * nodes)
            .map(|_| (node(random), random.below(nodes)))
            .flat_map(|(i, j)| [(i, j), (j, i)])
            .collect();
        pairs.sort_unstable();
        pairs.dedup();
        let entries = pairs.into_iter().map(|(i, j)| (i, j, 1.0)).collect();
        let form = 1 + random.below(2);
        let (incoming, outgoing) = Self::directions(&Graph { nodes, entries }, form);
        let m = 24;
        // The certificate of a renormalised graph whose values are stored needs its vector
        // tightened.
        let w = Matrix::from_fn(m, m, |_, _| (random.sign() / m as f64) as f32);
        let b = Matrix::from_fn(nodes, m, |_, _| random.sign() as f32);
        let activation = ACTIVATIONS[random.below(6)];
        Self { incoming: vec![incoming], outgoing: vec![outgoing], w: vec![w], b, activation }
    }

    fn layer(&self) -> Layer {
        let dense = |csr: &Csr| {
            let mut a = Mat::new(self.b.rows(), self.b.rows(), |_, _| 0.0);
            for i in 0..a.rows {
                for at in csr.offsets[i] as usize..csr.offsets[i + 1] as usize {
                    let j = csr.neighbours[at] as usize;
                    let scale =
                        csr.scale.as_ref().map_or(1.0, |s| f64::from(s[i]) * f64::from(s[j]));
                    a.data[i * a.cols + j] = f64::from(csr.values[at]) * scale;
                }
            }
            a
        };
        Layer {
            a: self.outgoing.iter().map(dense).collect(),
            w: self.w.iter().map(to_mat).collect(),
            through: Vec::new(),
            direct: None,
            bias: None,
            activation: phi(self.activation),
            skip: None,
        }
    }

    /// Runs `work` with the sweep of a direction and its certificate.
    fn with_sweep<R>(
        &self,
        adjoint: bool,
        input: &Matrix,
        work: impl FnOnce(&Sweep<'_>, Certificate) -> R,
    ) -> R {
        let pack = if adjoint { PackedWeights::adjoint } else { PackedWeights::forward };
        let weights: Vec<PackedWeights> = self.w.iter().map(|w| pack(w.view())).collect();
        let graphs = if adjoint { &self.outgoing } else { &self.incoming };
        let terms: Vec<Term<'_>> = graphs
            .iter()
            .zip(&weights)
            .map(|(graph, weights)| Term { adjacency: graph.view(), weights })
            .collect();
        let (blocks, scratch) = (blocks(&terms), SweepScratch::new(&terms));
        let sweep =
            Sweep { blocks: &blocks, terms: &terms, input: input.view().into(), scratch: &scratch };
        let certificate = Certificate::of(&terms, lipschitz(self.activation), None);
        work(&sweep, certificate)
    }

    fn forward(&self, params: &SolveParams) -> Solved {
        self.with_sweep(false, &self.b, |sweep, certificate| {
            let (n, m) = (self.b.rows(), self.b.cols());
            let (mut state, mut workspace) =
                (Matrix::zeros(n, m), Workspace::new(n, m, !certificate.holds()));
            let info = fixed_point::solve(
                sweep,
                Direction::Forward(self.activation),
                Some(&certificate),
                params,
                &mut state,
                &mut workspace,
            );
            Solved { info: info.unwrap(), state }
        })
    }

    fn adjoint(&self, x: &Matrix, r: &Matrix, params: &SolveParams) -> Solved {
        self.with_sweep(true, r, |sweep, certificate| {
            let (n, m) = (r.rows(), r.cols());
            let (mut state, mut workspace) =
                (Matrix::zeros(n, m), Workspace::new(n, m, !certificate.holds()));
            let derivative = Derivative::State { activation: self.activation, state: x.view() };
            let info = fixed_point::solve(
                sweep,
                Direction::Adjoint(derivative),
                Some(&certificate),
                params,
                &mut state,
                &mut workspace,
            );
            Solved { info: info.unwrap(), state }
        })
    }
}
