//! Losses of logits against targets, with their gradients: softmax and binary cross-entropy.
//! Means over the nodes given; which nodes those are is for the caller.
//!
//!     cross entropy          L = sum_r w(y_r) (log sum_j exp z_rj - z_r,y_r) / sum_r w(y_r)        w = 1 without class weights
//!     binary cross entropy   L = sum_r sum_j ( [j in Y_r] w_j softplus(-z_rj) + [j not in Y_r] softplus(z_rj) ) / (k c)
//!
//! z: logits (k x c), row r of node `nodes[r]`, y_r its class, Y_r its set. Softplus(z) = log(1 + exp z); neither exponential
//! can overflow. In the binary loss a class weight multiplies the positive side alone: it makes up for rare labels.
//! Terms are f32, sums f64 in a fixed order: the same bits for any number of threads. NaN in, NaN out.
//!
//! Nodes of class -1 (no label) neither count nor pull. An empty set is a target like any other: none of the classes.

use std::ops::Range;

use crate::dense::{MatrixMut, MatrixRef};
use crate::parallel::RowBlocks;

/// Factors, each at most 2, that are multiplied before their logarithm is taken: far from the largest f64.
const FACTORS: usize = 512;

/// What the nodes of a graph ought to be, in the form in which labels are stored; of all nodes, labelled or not.
#[derive(Clone, Copy, Debug)]
pub enum Targets<'a> {
    /// A class a node, or -1.
    Classes(&'a [i32]),
    /// A set a node: classes `offsets[i] .. offsets[i + 1]` of `of`, rising.
    Labels {
        /// Nodes + 1 offsets.
        offsets: &'a [u64],
        /// Classes.
        of: &'a [u32],
    },
}

impl<'a> Targets<'a> {
    /// The classes of a node, where targets are sets.
    fn set(self, node: u32) -> &'a [u32] {
        let Self::Labels { offsets, of } = self else {
            panic!("sets of labels, as a binary cross entropy needs");
        };
        &of[offsets[node as usize] as usize..offsets[node as usize + 1] as usize]
    }

    /// The class of a node, where it has one.
    fn class(self, node: u32) -> Option<usize> {
        let Self::Classes(classes) = self else {
            panic!("a class a node, as a cross entropy needs");
        };
        usize::try_from(classes[node as usize]).ok()
    }
}

/// Which loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// Softmax and the negative log-likelihood of the class; of [`Targets::Classes`].
    CrossEntropy,
    /// One yes or no an output; of [`Targets::Labels`].
    BinaryCrossEntropy,
}

/// A loss with its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// Which.
    pub kind: LossKind,
    /// A weight a class.
    pub class_weights: Option<Vec<f32>>,
}

impl Loss {
    /// The mean loss; its gradient by the logits replaces `gradient`. Both are zero where no node counts.
    ///
    /// # Panics
    /// Where shapes or the kind of targets do not fit, or a target is none of the outputs.
    pub fn evaluate(
        &self,
        logits: MatrixRef<'_>,
        nodes: &[u32],
        targets: Targets<'_>,
        gradient: Option<MatrixMut<'_>>,
    ) -> f64 {
        assert_eq!(logits.rows(), nodes.len(), "a row a node");
        let weights = self.class_weights.as_deref();
        assert!(weights.is_none_or(|weights| weights.len() == logits.cols()), "a weight a class");
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
                blocks.run((), |(), _| ((), ()), sum, |a, b| a + b).unwrap_or(0.0)
            }
            LossKind::BinaryCrossEntropy => (nodes.len() * logits.cols()) as f64,
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
                };
            }
            sum
        };
        let split = |gradient: Option<_>, rows| match gradient.map(|g| MatrixMut::split_at(g, rows)) {
            Some((first, second)) => (Some(first), Some(second)),
            None => (None, None),
        };
        blocks.run(gradient, split, work, |a, b| a + b).unwrap_or(0.0) * scale
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
    // Without its own: 1 - p would lose the digits of a small rest.
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

/// The same of one row of yes and no.
fn binary(
    logits: &[f32],
    set: &[u32],
    weight: impl Fn(usize) -> f64,
    scale: f64,
    mut gradient: Option<&mut [f32]>,
) -> f64 {
    // All as if negative: softplus(z) = max(z, 0) + log(1 + exp -|z|), one logarithm for many factors.
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
    // Then the few that are positive: softplus(-z) = softplus(z) - z.
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
    // Not `z >= 0.0` turned around: NaN goes through e either way.
    if z >= 0.0 { 1.0 / (1.0 + e) } else { e / (1.0 + e) }
}

/// Class weights that make up for unequal numbers of nodes, counted over the nodes given.
///
/// Classes: labelled nodes / (classes present * nodes of the class), so that the mean weight of a node is 1.
/// Sets: nodes without the class / nodes with it. A class that no node has gets the weight 1.
pub fn balanced_weights(nodes: &[u32], targets: Targets<'_>, classes: usize) -> Vec<f32> {
    let mut counts = vec![0u64; classes];
    for &node in nodes {
        match targets {
            Targets::Classes(_) => targets.class(node).into_iter().for_each(|class| counts[class] += 1),
            Targets::Labels { .. } => targets.set(node).iter().for_each(|&class| counts[class as usize] += 1),
        }
    }
    let labelled: u64 = counts.iter().sum();
    let present = counts.iter().filter(|&&count| count > 0).count();
    let weight = |&count: &u64| match (targets, count) {
        (_, 0) => 1.0,
        (Targets::Classes(_), count) => (labelled as f64 / (present as f64 * count as f64)) as f32,
        (Targets::Labels { .. }, count) => ((nodes.len() as u64 - count) as f64 / count as f64) as f32,
    };
    counts.iter().map(weight).collect()
}
