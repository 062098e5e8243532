//! Losses of logits against targets, with their gradients: softmax and binary cross-entropy for
//! classes, squared and absolute errors for numbers.
//! They are means over the given nodes; which nodes these are is up to the caller.
//!
//! ```text
//! cross entropy          L = sum_r w(y_r) (log sum_j exp z_rj - z_r,y_r) / sum_r w(y_r)
//! binary cross entropy   L = sum_r sum_j l_rj / (k c)
//!                        l_rj = w_j softplus(-z_rj) if j in Y_r, otherwise softplus(z_rj)
//! squared                L = sum_r (z_r - t_r)^2 / k
//! absolute               L = sum_r |z_r - t_r| / k
//! ```
//!
//! z are the logits (k x c). Row r belongs to node `nodes[r]`, which has the class y_r or the set
//! of classes Y_r. Without class weights, w = 1. softplus(z) = log(1 + exp z), computed so that no
//! exponential overflows. In the binary loss a class weight multiplies only the positive term,
//! which compensates for rare labels. Terms are f32; sums are f64 in a fixed order, so the bits are
//! the same for any number of threads. NaN in, NaN out.
//!
//! For numbers there is one logit per node, t_r is the node's number, and k counts the nodes that
//! have one. The absolute loss has the gradient 0 where it is 0.
//!
//! Nodes of class -1 (no label) or number NaN contribute neither to the loss nor to the gradient.
//! An empty set is a target like any other: none of the classes.
//!
//! ```
//! use ignn::dense::Matrix;
//! use ignn::nn::{Loss, LossKind, Targets};
//!
//! // Three nodes, equal logits; the third has no label.
//! let logits = Matrix::zeros(3, 4);
//! let loss = Loss { kind: LossKind::CrossEntropy, class_weights: None };
//! let mut gradient = Matrix::zeros(3, 4);
//! let targets = Targets::Classes(&[0, 2, -1]);
//! let mean = loss.evaluate(logits.view(), &[0, 1, 2], targets, Some(gradient.view_mut()));
//! assert!((mean - 4f64.ln()).abs() < 1e-12);
//! assert_eq!(gradient.row(0), [-0.375, 0.125, 0.125, 0.125]);
//! assert_eq!(gradient.row(2), [0.0; 4]);
//! ```

use std::ops::Range;

use ignn_format::labels::Labels;

use crate::dense::{MatrixMut, MatrixRef};
use crate::parallel::RowBlocks;
use crate::settings::words;

/// Number of factors, each at most 2, that are multiplied before their logarithm is taken. The
/// product stays far below the largest f64.
const FACTORS: usize = 512;

/// The targets of all nodes of a graph, labelled or not, in the form in which labels are stored.
#[derive(Clone, Copy, Debug)]
pub enum Targets<'a> {
    /// One class per node, or -1.
    Classes(&'a [i32]),
    /// One set per node: node i has the classes `of[offsets[i] .. offsets[i + 1]]`, in increasing
    /// order.
    Labels {
        /// Nodes + 1 offsets.
        offsets: &'a [u64],
        /// Classes.
        of: &'a [u32],
    },
    /// One number per node, in the unit of the logits; NaN for none.
    Numbers(&'a [f32]),
}

impl<'a> Targets<'a> {
    /// The classes of some labels; `None` for numbers, which are standardised before they are
    /// targets.
    pub fn of_classes(labels: &'a Labels) -> Option<Self> {
        match labels {
            Labels::Single { of, .. } => Some(Self::Classes(of)),
            Labels::Multi { offsets, of, .. } => Some(Self::Labels { offsets, of }),
            Labels::Number { .. } => None,
        }
    }
}

impl<'a> Targets<'a> {
    /// The classes of a node: none, one, or a set.
    ///
    /// ```
    /// use ignn::nn::Targets;
    ///
    /// let single = Targets::Classes(&[2, -1]);
    /// assert_eq!(single.classes_of(0).collect::<Vec<_>>(), [2]);
    /// assert_eq!(single.classes_of(1).count(), 0);
    /// let sets = Targets::Labels { offsets: &[0, 2], of: &[1, 3] };
    /// assert_eq!(sets.classes_of(0).collect::<Vec<_>>(), [1, 3]);
    /// ```
    pub fn classes_of(self, node: u32) -> impl Iterator<Item = usize> + 'a {
        let (one, set): (Option<usize>, &'a [u32]) = match self {
            Self::Classes(_) => (self.class(node), &[]),
            Self::Labels { .. } => (None, self.set(node)),
            Self::Numbers(_) => (None, &[]),
        };
        one.into_iter().chain(set.iter().map(|&class| class as usize))
    }

    /// The number of a node, if it has one.
    pub fn number(self, node: u32) -> Option<f32> {
        let Self::Numbers(numbers) = self else {
            panic!("one number per node, as a regression needs");
        };
        Some(numbers[node as usize]).filter(|number| !number.is_nan())
    }

    /// The classes of a node, if targets are sets.
    fn set(self, node: u32) -> &'a [u32] {
        let Self::Labels { offsets, of } = self else {
            panic!("sets of labels, as a binary cross entropy needs");
        };
        &of[offsets[node as usize] as usize..offsets[node as usize + 1] as usize]
    }

    /// The class of a node, if it has one.
    fn class(self, node: u32) -> Option<usize> {
        let Self::Classes(classes) = self else {
            panic!("one class per node, as cross-entropy needs");
        };
        usize::try_from(classes[node as usize]).ok()
    }
}

/// Which loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// Softmax and the negative log-likelihood of the class, for [`Targets::Classes`].
    CrossEntropy,
    /// One yes/no decision per output, for [`Targets::Labels`].
    BinaryCrossEntropy,
    /// The squared error, for [`Targets::Numbers`].
    Squared,
    /// The absolute error, for [`Targets::Numbers`].
    Absolute,
}

words! {
    /// The loss, as a configuration asks for it.
    pub enum LossChoice {
        /// The loss that fits the labels: `cross-entropy` for one class per node,
        /// `binary-cross-entropy` for sets of classes, `squared` for numbers.
        Auto = "auto",
        /// Softmax cross-entropy.
        CrossEntropy = "cross-entropy",
        /// Binary cross-entropy, one term per class.
        BinaryCrossEntropy = "binary-cross-entropy",
        /// Mean squared error of numbers, in units of their deviation over the training part.
        Squared = "squared",
        /// Mean absolute error of numbers, in the same units. Outliers count less.
        Absolute = "absolute",
    }

    /// How much the nodes of each class count in the loss.
    pub enum ClassWeights {
        /// Every node counts the same, so that large classes count more than small ones.
        None = "none",
        /// Every class counts the same: a node counts in inverse proportion to the size of its class
        /// in the training part. For sets of classes: having a class counts as much, over all
        /// training nodes, as not having it.
        Balanced = "balanced",
    }
}

/// A loss with its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// The loss function.
    pub kind: LossKind,
    /// One weight per class.
    pub class_weights: Option<Vec<f32>>,
}

impl Loss {
    /// Returns the mean loss and writes its gradient with respect to the logits to `gradient`. Both
    /// are zero if no node has a label.
    ///
    /// # Panics
    /// If shapes or the kind of targets do not match, or a target is not one of the outputs.
    pub fn evaluate(
        &self,
        logits: MatrixRef<'_>,
        nodes: &[u32],
        targets: Targets<'_>,
        gradient: Option<MatrixMut<'_>>,
    ) -> f64 {
        assert_eq!(logits.rows(), nodes.len(), "one row per node");
        let weights = self.class_weights.as_deref();
        assert!(
            weights.is_none_or(|weights| weights.len() == logits.cols()),
            "one weight per class"
        );
        if let Some(gradient) = &gradient {
            let shape = (gradient.rows(), gradient.cols());
            assert_eq!(shape, (logits.rows(), logits.cols()), "a gradient of the logits' shape");
        }
        let blocks = RowBlocks::balanced(nodes.len(), &[], logits.cols() as u64 + 1);
        let weight = |class: usize| weights.map_or(1.0, |weights| f64::from(weights[class]));
        let total = match self.kind {
            LossKind::CrossEntropy => {
                let sum = |_, rows: Range<usize>, ()| -> f64 {
                    nodes[rows].iter().filter_map(|&node| targets.class(node)).map(weight).sum()
                };
                blocks.map_reduce((), |(), _| ((), ()), sum, |a, b| a + b).unwrap_or(0.0)
            }
            LossKind::BinaryCrossEntropy => (nodes.len() * logits.cols()) as f64,
            LossKind::Squared | LossKind::Absolute => {
                nodes.iter().filter(|&&node| targets.number(node).is_some()).count() as f64
            }
        };
        let scale = if total > 0.0 { 1.0 / total } else { 0.0 };
        let work = |_, rows: Range<usize>, mut gradient: Option<MatrixMut<'_>>| {
            let mut sum = 0.0;
            for (at, row) in rows.enumerate() {
                let (logits, node) = (logits.row(row), nodes[row]);
                let gradient = gradient.as_mut().map(|gradient| gradient.row_mut(at));
                sum += match self.kind {
                    LossKind::CrossEntropy => {
                        cross_entropy(logits, targets.class(node), weight, scale, gradient)
                    }
                    LossKind::BinaryCrossEntropy => {
                        binary(logits, targets.set(node), weight, scale, gradient)
                    }
                    LossKind::Squared => {
                        error(logits, targets.number(node), gradient, |e| (e * e, 2.0 * e * scale))
                    }
                    LossKind::Absolute => error(logits, targets.number(node), gradient, |e| {
                        (e.abs(), if e == 0.0 { 0.0 } else { e.signum() * scale })
                    }),
                };
            }
            sum
        };
        let split = |gradient: Option<_>, rows| match gradient.map(|g| MatrixMut::split_at(g, rows))
        {
            Some((first, second)) => (Some(first), Some(second)),
            None => (None, None),
        };
        blocks.map_reduce(gradient, split, work, |a, b| a + b).unwrap_or(0.0) * scale
    }
}

/// The term of one row, not yet divided by the total; its gradient, divided.
fn cross_entropy(
    logits: &[f32],
    class: Option<usize>,
    weight: impl Fn(usize) -> f64,
    scale: f64,
    gradient: Option<&mut [f32]>,
) -> f64 {
    let Some(class) = class else {
        if let Some(gradient) = gradient {
            gradient.fill(0.0);
        }
        return 0.0;
    };
    let (weight, own) = (weight(class), logits[class]);
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exponential = |z: f32| (z - largest).exp();
    // Summed without the node's own class: 1 - p would cancel if p is close to 1.
    let before: f64 = logits[..class].iter().map(|&z| f64::from(exponential(z))).sum();
    let after: f64 = logits[class + 1..].iter().map(|&z| f64::from(exponential(z))).sum();
    let others = before + after;
    let sum = others + f64::from(exponential(own));
    if let Some(gradient) = gradient {
        let factor = weight * scale / sum;
        for (g, &z) in gradient.iter_mut().zip(logits) {
            *g = (f64::from(exponential(z)) * factor) as f32;
        }
        gradient[class] = (-others * factor) as f32;
    }
    weight * (f64::from(largest) - f64::from(own) + sum.ln())
}

/// The same for one row of a loss of numbers: `of` gives the term and the gradient of an error.
fn error(
    logits: &[f32],
    number: Option<f32>,
    gradient: Option<&mut [f32]>,
    of: impl Fn(f64) -> (f64, f64),
) -> f64 {
    let [logit] = logits else { panic!("one logit per number") };
    let term = number.map(|number| of(f64::from(*logit) - f64::from(number)));
    let (term, by_logit) = term.unwrap_or((0.0, 0.0));
    if let Some(gradient) = gradient {
        gradient[0] = by_logit as f32;
    }
    term
}

/// The same for one row of the binary loss.
fn binary(
    logits: &[f32],
    set: &[u32],
    weight: impl Fn(usize) -> f64,
    scale: f64,
    mut gradient: Option<&mut [f32]>,
) -> f64 {
    // First treat all labels as negative: softplus(z) = max(z, 0) + log(1 + exp -|z|), with one
    // logarithm for the product of many factors.
    let (mut linear, mut logarithms) = (0.0, 0.0);
    for (chunk, logits) in logits.chunks(FACTORS).enumerate() {
        let mut product = 1.0;
        for (at, &z) in logits.iter().enumerate() {
            let e = (-z.abs()).exp();
            product *= 1.0 + f64::from(e);
            linear += f64::from(z.max(0.0));
            if let Some(gradient) = &mut gradient {
                gradient[chunk * FACTORS + at] = (f64::from(sigmoid(z, e)) * scale) as f32;
            }
        }
        logarithms += product.ln();
    }
    // Then correct the few positive ones: softplus(-z) = softplus(z) - z.
    let mut positives = 0.0;
    for &class in set {
        let (class, z) = (class as usize, logits[class as usize]);
        let (weight, e) = (weight(class), (-z.abs()).exp());
        let softplus = |z: f32| f64::from(z.max(0.0)) + f64::from(e).ln_1p();
        positives += weight * softplus(-z) - softplus(z);
        if let Some(gradient) = &mut gradient {
            gradient[class] = (-weight * f64::from(sigmoid(-z, e)) * scale) as f32;
        }
    }
    linear + logarithms + positives
}

/// 1 / (1 + exp -z), with e = exp(-|z|).
#[inline(always)]
fn sigmoid(z: f32, e: f32) -> f32 {
    if z >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
}

/// Class weights that compensate for unequal numbers of nodes, counted over the given nodes.
///
/// For one class per node: labelled nodes / (classes present * nodes of the class), so that the
/// mean weight of a node is 1. For sets: nodes without the class / nodes with it. A class without
/// nodes gets the weight 1.
pub fn balanced_weights(nodes: &[u32], targets: Targets<'_>, classes: usize) -> Vec<f32> {
    let mut counts = vec![0u64; classes];
    for &node in nodes {
        targets.classes_of(node).for_each(|class| counts[class] += 1);
    }
    let labelled: u64 = counts.iter().sum();
    let present = counts.iter().filter(|&&count| count > 0).count();
    let weight = |&count: &u64| match (targets, count) {
        (_, 0) => 1.0,
        (Targets::Classes(_), count) => (labelled as f64 / (present as f64 * count as f64)) as f32,
        (Targets::Labels { .. } | Targets::Numbers(_), count) => {
            ((nodes.len() as u64 - count) as f64 / count as f64) as f32
        }
    };
    counts.iter().map(weight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Matrix;
    use crate::kernels::naive::Random;
    use crate::parallel::with_threads;

    /// Targets of all kinds for some nodes of 60, with gaps.
    struct Case {
        logits: Matrix,
        nodes: Vec<u32>,
        classes: Vec<i32>,
        offsets: Vec<u64>,
        of: Vec<u32>,
        numbers: Vec<f32>,
    }

    impl Case {
        fn new(seed: u64, rows: usize, cols: usize) -> Self {
            let random = &mut Random(seed);
            let logits = Matrix::from_fn(rows, cols, |_, _| 6.0 * random.float());
            let nodes = (0..rows as u32).map(|r| 2 * r + 1).rev().collect();
            let classes = (0..2 * rows).map(|_| random.below(cols + 1) as i32 - 1).collect();
            let (mut offsets, mut of) = (vec![0], Vec::new());
            for _ in 0..2 * rows {
                of.extend((0..cols as u32).filter(|_| random.below(3) == 0));
                offsets.push(of.len() as u64);
            }
            let number = |_| if random.below(5) == 0 { f32::NAN } else { 3.0 * random.float() };
            let numbers = (0..2 * rows).map(number).collect();
            Self { logits, nodes, classes, offsets, of, numbers }
        }

        fn targets(&self, kind: LossKind) -> Targets<'_> {
            match kind {
                LossKind::CrossEntropy => Targets::Classes(&self.classes),
                LossKind::BinaryCrossEntropy => {
                    Targets::Labels { offsets: &self.offsets, of: &self.of }
                }
                LossKind::Squared | LossKind::Absolute => Targets::Numbers(&self.numbers),
            }
        }

        /// The formulas in f64, the plainest way.
        fn naive(&self, loss: &Loss, z: &[Vec<f64>]) -> f64 {
            let weight = |j: usize| loss.class_weights.as_ref().map_or(1.0, |w| f64::from(w[j]));
            let (mut sum, mut total) = (0.0, 0.0);
            for (z, &node) in z.iter().zip(&self.nodes) {
                let node = node as usize;
                match loss.kind {
                    LossKind::CrossEntropy if self.classes[node] >= 0 => {
                        let class = self.classes[node] as usize;
                        let denominator: f64 = z.iter().map(|z| z.exp()).sum();
                        sum -= weight(class) * (z[class].exp() / denominator).ln();
                        total += weight(class);
                    }
                    LossKind::CrossEntropy => {}
                    LossKind::Squared | LossKind::Absolute if self.numbers[node].is_nan() => {}
                    LossKind::Squared => {
                        sum += (z[0] - f64::from(self.numbers[node])).powi(2);
                        total += 1.0;
                    }
                    LossKind::Absolute => {
                        sum += (z[0] - f64::from(self.numbers[node])).abs();
                        total += 1.0;
                    }
                    LossKind::BinaryCrossEntropy => {
                        let set =
                            &self.of[self.offsets[node] as usize..self.offsets[node + 1] as usize];
                        for (j, z) in z.iter().enumerate() {
                            let p = 1.0 / (1.0 + (-z).exp());
                            let is_true = set.contains(&(j as u32));
                            sum -= if is_true { weight(j) * p.ln() } else { (1.0 - p).ln() };
                            total += 1.0;
                        }
                    }
                }
            }
            if total > 0.0 { sum / total } else { 0.0 }
        }
    }

    fn losses(classes: usize) -> Vec<Loss> {
        let weights: Vec<f32> = (0..classes).map(|class| 0.5 + class as f32).collect();
        let both = [LossKind::CrossEntropy, LossKind::BinaryCrossEntropy];
        let of =
            |kind| [None, Some(weights.clone())].map(|class_weights| Loss { kind, class_weights });
        let numbers = [LossKind::Squared, LossKind::Absolute].into_iter();
        let numbers = numbers.map(|kind| Loss { kind, class_weights: None });
        let numbers = numbers.filter(|_| classes == 1);
        both.into_iter().flat_map(of).chain(numbers).collect()
    }

    #[test]
    fn values_and_differences_agree_with_the_formulas() {
        for (seed, cols) in [(0, 1), (1, 2), (2, 5), (3, 17)] {
            let case = Case::new(seed, 30, cols);
            let z: Vec<Vec<f64>> = (0..30)
                .map(|r| case.logits.row(r).iter().map(|&z| f64::from(z)).collect())
                .collect();
            for loss in losses(cols) {
                let mut gradient = Matrix::from_fn(30, cols, |_, _| f32::NAN);
                let targets = case.targets(loss.kind);
                let found = loss.evaluate(
                    case.logits.view(),
                    &case.nodes,
                    targets,
                    Some(gradient.view_mut()),
                );
                let alone = loss.evaluate(case.logits.view(), &case.nodes, targets, None);
                assert_eq!(found.to_bits(), alone.to_bits());
                assert!((found - case.naive(&loss, &z)).abs() < 1e-6, "{loss:?}: {found}");
                for r in 0..30 {
                    for j in 0..cols {
                        let moved = |by: f64| {
                            let mut z = z.clone();
                            z[r][j] += by;
                            case.naive(&loss, &z)
                        };
                        let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                        let error = (f64::from(gradient.row(r)[j]) - difference).abs();
                        assert!(
                            error < 1e-7,
                            "{loss:?} ({r}, {j}): {} {difference}",
                            gradient.row(r)[j]
                        );
                    }
                    assert!(gradient.view().padded_row(r)[cols..].iter().all(|&g| g == 0.0));
                }
            }
        }
    }

    #[test]
    fn extreme_logits_neither_overflow_nor_hide() {
        let evaluate = |kind, row: [f32; 2]| {
            let logits = Matrix::from_fn(1, 2, |_, k| row[k]);
            let mut gradient = Matrix::zeros(1, 2);
            let targets = match kind {
                LossKind::CrossEntropy => Targets::Classes(&[0]),
                _ => Targets::Labels { offsets: &[0, 1], of: &[0] },
            };
            let loss = Loss { kind, class_weights: None };
            let value = loss.evaluate(logits.view(), &[0], targets, Some(gradient.view_mut()));
            (value, [gradient.row(0)[0], gradient.row(0)[1]])
        };
        let (cross, binary) = (LossKind::CrossEntropy, LossKind::BinaryCrossEntropy);
        assert_eq!(evaluate(cross, [-1e4, 1e4]), (2e4, [-1.0, 1.0]));
        assert_eq!(evaluate(cross, [1e4, -1e4]), (0.0, [0.0, 0.0]));
        assert_eq!(evaluate(binary, [-1e4, 1e4]), (1e4, [-0.5, 0.5]));
        assert_eq!(evaluate(binary, [1e4, -1e4]), (0.0, [0.0, 0.0]));
        let (value, gradient) = evaluate(cross, [30.0, 0.0]);
        assert!((value / (-30f64).exp() - 1.0).abs() < 1e-2, "{value}");
        assert!((f64::from(gradient[0]) / -(-30f64).exp() - 1.0).abs() < 1e-6, "{gradient:?}");
        for kind in [cross, binary] {
            for bad in [[f32::NAN, 0.0], [0.0, f32::NAN]] {
                let (value, gradient) = evaluate(kind, bad);
                assert!(value.is_nan() && gradient.iter().any(|g| g.is_nan()), "{kind:?}");
            }
        }
    }

    #[test]
    fn nodes_that_do_not_count_and_no_nodes_at_all() {
        let loss = Loss { kind: LossKind::CrossEntropy, class_weights: None };
        let logits = Matrix::from_fn(2, 3, |_, k| k as f32);
        let mut gradient = Matrix::from_fn(2, 3, |_, _| f32::NAN);
        let targets = Targets::Classes(&[-1, -1]);
        assert_eq!(loss.evaluate(logits.view(), &[0, 1], targets, Some(gradient.view_mut())), 0.0);
        assert!(gradient.view().padded().iter().all(|&g| g == 0.0));
        let exact = Loss { kind: LossKind::Absolute, class_weights: None };
        let (logits, mut gradient) = (Matrix::zeros(2, 1), Matrix::from_fn(2, 1, |_, _| 1.0));
        let targets = Targets::Numbers(&[0.0, f32::NAN]);
        assert_eq!(exact.evaluate(logits.view(), &[0, 1], targets, Some(gradient.view_mut())), 0.0);
        assert_eq!((gradient.row(0), gradient.row(1)), (&[0.0][..], &[0.0][..]));
        for loss in losses(3) {
            let case = Case::new(0, 0, 3);
            assert_eq!(loss.evaluate(case.logits.view(), &[], case.targets(loss.kind), None), 0.0);
        }
    }

    #[test]
    fn the_same_bits_on_any_number_of_threads() {
        for (cols, loss) in
            [1, 9].into_iter().flat_map(|cols| losses(cols).into_iter().map(move |l| (cols, l)))
        {
            let case = Case::new(5, 5000, cols);
            let run = |threads| {
                with_threads(threads, || {
                    let mut gradient = Matrix::zeros(5000, cols);
                    let targets = case.targets(loss.kind);
                    let (logits, gradient_mut) = (case.logits.view(), gradient.view_mut());
                    let value = loss.evaluate(logits, &case.nodes, targets, Some(gradient_mut));
                    (value.to_bits(), gradient.view().padded().to_vec())
                })
            };
            assert!(run(1) == run(2) && run(1) == run(4));
        }
    }

    #[test]
    fn balanced_weights_by_hand() {
        let classes = Targets::Classes(&[0, 0, 0, 1, -1, 2]);
        assert_eq!(balanced_weights(&[0, 1, 2, 3, 4], classes, 3), [4.0 / 6.0, 2.0, 1.0]);
        let sets = Targets::Labels { offsets: &[0, 1, 3, 3, 3], of: &[0, 0, 1] };
        assert_eq!(balanced_weights(&[0, 1, 2, 3], sets, 3), [1.0, 3.0, 1.0]);
        assert!(balanced_weights(&[], sets, 0).is_empty());
    }
}
