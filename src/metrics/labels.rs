//! Counts for sets of classes per node. For one class per node see
//! [`confusion`](super::confusion).
//!
//! There are two rules. Threshold: a node is predicted to have the classes with a probability of
//! 0.5 or more, that is, a logit of 0 or more. Top-k: it gets its k highest scores, where k is its
//! true number of labels; ties go to the lower class. The second rule uses the true number of
//! labels, so compare its scores only with others by the same rule.

use std::ops::Range;

use super::counts::ClassCounts;
use crate::dense::MatrixRef;
use crate::parallel::RowBlocks;

/// Largest number of parts with counts of their own, of three numbers per class each.
const PARTS: usize = 32;

/// How scores become a set of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Logits of 0 or more.
    Threshold,
    /// The k highest, where k is the node's true number of labels.
    TopK,
}

/// Counts over labelled nodes. Node i has the classes `of[offsets[i] .. offsets[i + 1]]`; a node
/// without any counts too, for what is predicted for it.
///
/// # Panics
/// If shapes do not match, or a label is not one of the classes.
pub fn label_counts(
    rule: Rule,
    scores: MatrixRef<'_>,
    nodes: &[u32],
    offsets: &[u64],
    of: &[u32],
) -> ClassCounts {
    assert_eq!(scores.rows(), nodes.len(), "one row per node");
    let classes = scores.cols();
    let count = |_, rows: Range<usize>, ()| {
        let mut counts = ClassCounts::new(classes);
        let mut order = Vec::new();
        for row in rows {
            let node = nodes[row] as usize;
            let truth = &of[offsets[node] as usize..offsets[node + 1] as usize];
            // All true classes are missed, until a prediction matches them.
            truth.iter().for_each(|&class| counts.false_negatives[class as usize] += 1);
            let mut predict = |class: usize| {
                if truth.binary_search(&(class as u32)).is_ok() {
                    counts.true_positives[class] += 1;
                    counts.false_negatives[class] -= 1;
                } else {
                    counts.false_positives[class] += 1;
                }
            };
            let scores = scores.row(row);
            match rule {
                Rule::Threshold => {
                    (0..classes).filter(|&class| scores[class] >= 0.0).for_each(predict);
                }
                Rule::TopK => {
                    let top = top_classes(scores, truth.len(), &mut order);
                    top.iter().for_each(|&class| predict(class as usize));
                }
            }
        }
        counts
    };
    let blocks = RowBlocks::parts(nodes.len(), &[], 1, PARTS);
    let counts = blocks.map_reduce((), |(), _| ((), ()), count, ClassCounts::merge);
    counts.unwrap_or_else(|| ClassCounts::new(classes))
}

/// The classes of the k highest scores, in no particular order. Ties go to the lower class; NaN is
/// last. `order` is scratch memory.
pub fn top_classes<'a>(scores: &[f32], k: usize, order: &'a mut Vec<u32>) -> &'a [u32] {
    order.clear();
    order.extend(0..scores.len() as u32);
    if k < order.len() && k > 0 {
        // -0 + 0 is 0: total_cmp would order -0 before 0.
        let key = |class: u32| {
            let score = scores[class as usize] + 0.0;
            (if score.is_nan() { f32::NEG_INFINITY } else { score }, score.is_nan())
        };
        order.select_nth_unstable_by(k - 1, |&a, &b| {
            let ((high, a_nan), (low, b_nan)) = (key(a), key(b));
            low.total_cmp(&high).then(a_nan.cmp(&b_nan)).then(a.cmp(&b))
        });
    }
    &order[..k.min(scores.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Matrix;
    use crate::kernels::naive::Random;
    use crate::parallel::with_threads;

    #[test]
    fn the_highest_and_ties() {
        let mut order = Vec::new();
        let mut top = |scores: &[f32], k| {
            let mut top = top_classes(scores, k, &mut order).to_vec();
            top.sort_unstable();
            top
        };
        assert_eq!(top(&[1.0, 3.0, 2.0, 3.0], 1), [1]);
        assert_eq!(top(&[1.0, 3.0, 2.0, 3.0], 3), [1, 2, 3]);
        assert_eq!(top(&[-0.0, 0.0, -0.0], 2), [0, 1]);
        assert_eq!(top(&[f32::NAN, f32::NEG_INFINITY, 0.0], 2), [1, 2]);
        assert_eq!((top(&[1.0, 2.0], 5), top(&[1.0, 2.0], 0)), (vec![0, 1], vec![]));
    }

    #[test]
    fn counts_by_hand() {
        let rows = [[0.5, 0.0, -1.0], [-1.0, -2.0, -3.0], [1.0, 1.0, 1.0]];
        let scores = Matrix::from_fn(3, 3, |i, k| rows[i][k]);
        // Node 0: class 2; node 1: none; node 2: classes 0 and 2. Row 0 is of node 2, and so on.
        let (offsets, of) = ([0, 1, 1, 3], [2, 0, 2]);
        let count = |rule| label_counts(rule, scores.view(), &[2, 0, 1], &offsets, &of);
        let threshold = count(Rule::Threshold);
        assert_eq!(threshold.true_positives, [1, 0, 0]);
        assert_eq!(threshold.false_positives, [1, 2, 1], "node 1 has none of its three");
        assert_eq!(threshold.false_negatives, [0, 0, 2]);
        let top = count(Rule::TopK);
        assert_eq!(top.true_positives, [1, 0, 0]);
        assert_eq!(top.false_positives, [1, 1, 0]);
        assert_eq!(top.false_negatives, [0, 0, 2]);
        let none = label_counts(Rule::TopK, scores.view(), &[1, 1, 1], &offsets, &of);
        assert_eq!(none, ClassCounts::new(3), "none are taken of a node that has none");
    }

    #[test]
    fn the_naive_loops_agree_on_any_number_of_threads() {
        let random = &mut Random(9);
        let (k, classes) = (2500, 11);
        let scores = Matrix::from_fn(k, classes, |_, _| random.below(9) as f32 - 4.0);
        let (mut offsets, mut of) = (vec![0], Vec::new());
        for _ in 0..k {
            of.extend((0..classes as u32).filter(|_| random.below(4) == 0));
            offsets.push(of.len() as u64);
        }
        let nodes: Vec<u32> = (0..k as u32).rev().collect();
        for rule in [Rule::Threshold, Rule::TopK] {
            let mut expected = ClassCounts::new(classes);
            for (row, &node) in nodes.iter().enumerate() {
                let truth =
                    &of[offsets[node as usize] as usize..offsets[node as usize + 1] as usize];
                let scores = scores.row(row);
                for class in 0..classes {
                    let score = scores[class];
                    let higher = scores.iter().filter(|&&other| other > score).count();
                    let before = scores[..class].iter().filter(|&&other| other == score).count();
                    let predicted = match rule {
                        Rule::Threshold => score >= 0.0,
                        Rule::TopK => higher + before < truth.len(),
                    };
                    let is_true = truth.contains(&(class as u32));
                    expected.true_positives[class] += u64::from(predicted && is_true);
                    expected.false_positives[class] += u64::from(predicted && !is_true);
                    expected.false_negatives[class] += u64::from(!predicted && is_true);
                }
            }
            for threads in [1, 4] {
                let found = with_threads(threads, || {
                    label_counts(rule, scores.view(), &nodes, &offsets, &of)
                });
                assert_eq!(found, expected, "{rule:?}");
            }
        }
    }
}
