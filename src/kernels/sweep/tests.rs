//! The sweep against the plainest loop, in every combination of parts.

use super::*;
use crate::dense::Matrix;
use crate::kernels::naive::{self, Operator, Random};

struct Case {
    operators: Vec<Operator>,
    weights: Vec<Matrix>,
    input: Matrix,
    from: Matrix,
}

impl Case {
    fn random(seed: u64, nodes: usize, width: usize, relations: usize) -> Self {
        let random = &mut Random(seed);
        let operators = (0..relations).map(|r| Operator::random(random, nodes, nodes, seed as usize + 3 * r));
        let operators = operators.collect();
        let weights = (0..relations).map(|_| random.matrix(width, width)).collect();
        Self { operators, weights, input: random.matrix(nodes, width), from: random.matrix(nodes, width) }
    }

    fn naive_terms(&self) -> Vec<(AdjacencyRef<'_>, MatrixRef<'_>)> {
        self.operators.iter().zip(&self.weights).map(|(a, w)| (a.view(), w.view())).collect()
    }

    fn run(
        &self,
        pack: fn(MatrixRef<'_>) -> PackedWeights,
        sweep: impl Fn(Sweep<'_>, MatrixMut<'_>) -> Change,
    ) -> (Matrix, Change) {
        let packed: Vec<_> = self.weights.iter().map(|w| pack(w.view())).collect();
        let terms: Vec<_> = self
            .operators
            .iter()
            .zip(&packed)
            .map(|(a, weights)| Term { adjacency: a.view(), weights })
            .collect();
        let (blocks, scratch) = (blocks(&terms), SweepScratch::new(&terms));
        let mut to = Matrix::zeros(self.from.rows(), self.from.cols());
        let sweep_parts =
            Sweep { blocks: &blocks, terms: &terms, input: self.input.view(), scratch: &scratch };
        let change = sweep(sweep_parts, to.view_mut());
        (to, change)
    }
}

#[test]
fn forward_is_the_naive_loop() {
    use Activation::*;
    for (seed, activation) in [Identity, Relu, LeakyRelu(0.1), Tanh, Sigmoid, Elu].into_iter().enumerate() {
        for (width, relations) in [(1, 1), (3, 2), (8, 1), (16, 1), (17, 3), (64, 1)] {
            let case = Case::random(seed as u64, 57, width, relations);
            let from = case.from.view();
            let (to, change) = case.run(PackedWeights::forward, |sweep, to| {
                sweep.forward(activation, Norm::default(), from, to)
            });
            let expected = naive::forward(&case.naive_terms(), case.input.view(), activation, from);
            naive::assert_close(to.view(), &expected, &format!("{activation:?} {width} {relations}"));
            assert!(change.finite && change.weighted == change.largest);
        }
    }
}

#[test]
fn adjoint_is_the_naive_loop() {
    for (width, relations) in [(1, 1), (3, 2), (8, 1), (16, 1), (17, 3), (64, 1)] {
        let case = Case::random(width as u64, 57, width, relations);
        let from = case.from.view();
        let state = Random(9).matrix(57, width);
        let derivative = Derivative::State { activation: Activation::Tanh, state: state.view() };
        let (to, _) = case
            .run(PackedWeights::adjoint, |sweep, to| sweep.adjoint(derivative, Norm::default(), from, to));
        let expected = naive::adjoint(&case.naive_terms(), case.input.view(), derivative, from);
        naive::assert_close(to.view(), &expected, &format!("{width} {relations}"));
    }
}
