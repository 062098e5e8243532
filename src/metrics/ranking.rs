//! Scores of an order instead of a decision: ROC-AUC and average precision, as scikit-learn defines
//! them. They depend on how items are ranked by a class and not on a threshold, so that they say
//! something where one class is rare.
//!
//! For one yes/no decision with p true and n other items:
//!
//! ```text
//! ROC-AUC             share of the p n pairs (true, other) in which the true one scores higher;
//!                     an equal score counts one half
//! average precision   sum over distinct scores s, from the highest, of (R(s) - R(s')) P(s), where
//!                     P and R are precision and recall of "at least s", and s' is the score before
//! ```
//!
//! For one class per node, items are ranked by the probability of a class, one class against the
//! rest, and the result is the mean over classes (macro). With exactly two classes it is the score
//! of the second class, which scikit-learn calls the positive one. For sets of classes, items are
//! ranked by the logit of a class, and the result is the mean over classes (macro). Classes without
//! a score are left out of the mean: those that all items or none have for ROC-AUC, and those that
//! none has for average precision. Nothing is returned where no class has a score, or a logit is NaN.

use rayon::prelude::*;

use crate::dense::MatrixRef;

/// Both scores; `None` where they are not defined.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ranking {
    /// Area under the receiver operating characteristic.
    pub roc_auc: Option<f64>,
    /// Average precision.
    pub average_precision: Option<f64>,
}

impl Ranking {
    /// The ranking of one yes/no decision: pairs of score and truth, in any order.
    ///
    /// ```
    /// use ignn::metrics::Ranking;
    ///
    /// let items = vec![(0.1, false), (0.4, false), (0.35, true), (0.8, true)];
    /// let ranking = Ranking::of_decision(items);
    /// assert_eq!(ranking.roc_auc, Some(0.75));
    /// assert!((ranking.average_precision.unwrap() - 5.0 / 6.0).abs() < 1e-15);
    /// ```
    pub fn of_decision(mut items: Vec<(f64, bool)>) -> Self {
        if items.iter().any(|(score, _)| score.is_nan()) {
            return Self::default();
        }
        // -0 + 0 is 0: total_cmp would order -0 before 0.
        items.iter_mut().for_each(|(score, _)| *score += 0.0);
        items.sort_unstable_by(|(a, _), (b, _)| b.total_cmp(a));
        // Twice the number of pairs in the right order, so that a tie counts 1.
        let (mut pairs, mut precisions) = (0u128, 0.0);
        let (mut hits, mut others) = (0u64, 0u64);
        for equal in items.chunk_by(|(a, _), (b, _)| a == b) {
            let more = equal.iter().filter(|(_, is_true)| *is_true).count() as u64;
            let wrong = equal.len() as u64 - more;
            pairs += u128::from(wrong) * u128::from(2 * hits + more);
            (hits, others) = (hits + more, others + wrong);
            precisions += more as f64 * (hits as f64 / (hits + others) as f64);
        }
        let all_pairs = 2 * u128::from(hits) * u128::from(others);
        Self {
            roc_auc: (all_pairs > 0).then(|| pairs as f64 / all_pairs as f64),
            average_precision: (hits > 0).then(|| precisions / hits as f64),
        }
    }

    /// For one class per node, -1 if it has none; such nodes are ignored.
    ///
    /// # Panics
    /// If shapes do not match, or a label is not one of the classes.
    pub fn of_classes(logits: MatrixRef<'_>, nodes: &[u32], truth: &[i32]) -> Self {
        assert_eq!(logits.rows(), nodes.len(), "one row per node");
        let class_of = |row: usize| usize::try_from(truth[nodes[row] as usize]).ok();
        let labelled: Vec<(usize, usize)> =
            (0..nodes.len()).filter_map(|row| Some((row, class_of(row)?))).collect();
        assert!(labelled.iter().all(|(_, class)| *class < logits.cols()), "a label is a class");
        // The logarithm of a probability keeps the order of those that round to 0 or 1.
        let normalisers: Vec<f64> =
            labelled.par_iter().map(|(row, _)| log_sum_exp(logits.row(*row))).collect();
        let of_class = |class: usize| {
            let item = |(&(row, own), normaliser): (&(usize, usize), &f64)| {
                (f64::from(logits.row(row)[class]) - normaliser, own == class)
            };
            Self::of_decision(labelled.iter().zip(&normalisers).map(item).collect())
        };
        match logits.cols() {
            2 => of_class(1),
            classes => Self::mean(&(0..classes).into_par_iter().map(of_class).collect::<Vec<_>>()),
        }
    }

    /// For sets of classes. Node i has the classes `of[offsets[i] .. offsets[i + 1]]`.
    ///
    /// # Panics
    /// If shapes do not match, or a label is not one of the classes.
    pub fn of_labels(logits: MatrixRef<'_>, nodes: &[u32], offsets: &[u64], of: &[u32]) -> Self {
        assert_eq!(logits.rows(), nodes.len(), "one row per node");
        let mut members = vec![Vec::new(); logits.cols()];
        for (row, &node) in nodes.iter().enumerate() {
            let ends = offsets[node as usize] as usize..offsets[node as usize + 1] as usize;
            of[ends].iter().for_each(|&class| members[class as usize].push(row));
        }
        let of_class = |(class, members): (usize, &Vec<usize>)| {
            let score = |row: usize| f64::from(logits.row(row)[class]);
            let mut items: Vec<(f64, bool)> =
                (0..nodes.len()).map(|row| (score(row), false)).collect();
            members.iter().for_each(|&row| items[row].1 = true);
            Self::of_decision(items)
        };
        Self::mean(&members.par_iter().enumerate().map(of_class).collect::<Vec<_>>())
    }

    /// The mean over classes, each score over those that have it.
    fn mean(classes: &[Self]) -> Self {
        let mean = |score: fn(&Self) -> Option<f64>| {
            let values: Vec<f64> = classes.iter().filter_map(score).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        Self {
            roc_auc: mean(|class| class.roc_auc),
            average_precision: mean(|class| class.average_precision),
        }
    }
}

fn log_sum_exp(logits: &[f32]) -> f64 {
    let highest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    highest + logits.iter().map(|&logit| (f64::from(logit) - highest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Matrix;
    use crate::kernels::naive::Random;
    use crate::parallel::with_threads;

    fn close(found: Option<f64>, expected: f64) {
        let found = found.expect("a score");
        assert!((found - expected).abs() < 1e-12, "found {found}, expected {expected}");
    }

    #[test]
    fn the_examples_of_scikit_learn() {
        // From the documentation of roc_auc_score and average_precision_score.
        let scores = [0.1, 0.4, 0.35, 0.8];
        let binary =
            Ranking::of_decision(scores.into_iter().zip([false, false, true, true]).collect());
        close(binary.roc_auc, 0.75);
        close(binary.average_precision, 0.8333333333333333);
        // Three classes, with ties; average_precision_score gives 0.77 for these probabilities.
        let probabilities = [
            [0.7, 0.2, 0.1],
            [0.4, 0.3, 0.3],
            [0.1, 0.8, 0.1],
            [0.2, 0.3, 0.5],
            [0.4, 0.4, 0.2],
            [0.1, 0.2, 0.7f32],
        ];
        let sets = Matrix::from_fn(6, 3, |i, k| probabilities[i][k]);
        let (offsets, of) = ([0, 1, 2, 3, 4, 5, 6], [0, 0, 1, 1, 2, 2]);
        let found = Ranking::of_labels(sets.view(), &[0, 1, 2, 3, 4, 5], &offsets, &of);
        close(found.average_precision, 0.7777777777777777);
        // The pairs by hand: 7.5 of 8, 6.5 of 8 and 6 of 8.
        close(found.roc_auc, (7.5 + 6.5 + 6.0) / 24.0);
    }

    #[test]
    fn two_classes_are_scored_by_the_second_and_missing_ones_left_out() {
        let rows = [[0.9, 0.1], [0.6, 0.4], [0.65, 0.35], [0.2, 0.8f32]];
        let logits = Matrix::from_fn(5, 2, |i, k| rows.get(i).map_or(7.0, |row| row[k].ln()));
        let found = Ranking::of_classes(logits.view(), &[0, 1, 2, 3, 4], &[0, 0, 1, 1, -1]);
        close(found.roc_auc, 0.75);
        close(found.average_precision, 0.8333333333333333);
        // One class only: no pairs, and all precisions are 1.
        let two = Matrix::from_fn(2, 2, |i, k| rows[i][k]);
        let found = Ranking::of_classes(two.view(), &[0, 1], &[1, 1]);
        assert_eq!(found, Ranking { roc_auc: None, average_precision: Some(1.0) });
        let found = Ranking::of_classes(two.view(), &[0, 1], &[0, 0]);
        assert_eq!(found, Ranking::default());
        let logits = Matrix::from_fn(2, 2, |_, _| f32::NAN);
        assert_eq!(Ranking::of_classes(logits.view(), &[0, 1], &[0, 1]), Ranking::default());
        let none = Matrix::zeros(0, 3);
        assert_eq!(Ranking::of_labels(none.view(), &[], &[0], &[]), Ranking::default());
    }

    #[test]
    fn equal_scores_count_one_half_and_order_does_not_matter() {
        let all = |scores: &[f64], truth: &[bool]| {
            Ranking::of_decision(scores.iter().copied().zip(truth.iter().copied()).collect())
        };
        let found = all(&[0.0, -0.0, 0.0, 0.0], &[true, false, true, false]);
        assert_eq!(found, Ranking { roc_auc: Some(0.5), average_precision: Some(0.5) });
        let found = all(&[1.0, 2.0, f64::INFINITY], &[true, false, true]);
        close(found.roc_auc, 0.5);
        close(found.average_precision, (1.0 + 2.0 / 3.0) / 2.0);
    }

    #[test]
    fn the_plain_definitions_agree_on_any_number_of_threads() {
        let random = &mut Random(17);
        let (rows, classes) = (700, 5);
        // Rows come in pairs, so that there are ties.
        let half = random.matrix(rows / 2, classes);
        let logits = Matrix::from_fn(rows, classes, |row, class| half.row(row / 2)[class]);
        let nodes: Vec<u32> = (0..rows as u32).collect();
        let truth: Vec<i32> = (0..rows).map(|_| random.below(classes + 1) as i32 - 1).collect();
        let probability = |row: usize, class: usize| {
            let z: Vec<f64> = logits.row(row).iter().map(|&z| f64::from(z)).collect();
            z[class] - z.iter().map(|z| z.exp()).sum::<f64>().ln()
        };
        let (mut areas, mut precisions) = (0.0, 0.0);
        for class in 0..classes {
            let items: Vec<(f64, bool)> = (0..rows)
                .filter(|&row| truth[row] >= 0)
                .map(|row| (probability(row, class), truth[row] == class as i32))
                .collect();
            let (hits, others): (Vec<_>, Vec<_>) = items.iter().partition(|(_, is_true)| *is_true);
            let mut area = 0.0;
            for (a, _) in &hits {
                let worth = |b: f64| {
                    if *a > b {
                        1.0
                    } else if *a == b {
                        0.5
                    } else {
                        0.0
                    }
                };
                area += others.iter().map(|(b, _)| worth(*b)).sum::<f64>();
            }
            areas += area / (hits.len() * others.len()) as f64;
            let mean_precision = hits.iter().map(|(score, _)| {
                let above =
                    |items: &[(f64, bool)]| items.iter().filter(|(b, _)| b >= score).count();
                above(&hits) as f64 / above(&items) as f64
            });
            precisions += mean_precision.sum::<f64>() / hits.len() as f64;
        }
        for threads in [1, 3] {
            let found =
                with_threads(threads, || Ranking::of_classes(logits.view(), &nodes, &truth));
            close(found.roc_auc, areas / classes as f64);
            close(found.average_precision, precisions / classes as f64);
        }
    }
}
