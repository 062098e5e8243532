//! Confusion matrices, for one class per node. For sets of classes see [`labels`](super::labels).

use rayon::prelude::*;

use super::counts::{ClassCounts, ratio};
use crate::dense::MatrixRef;

/// Rows per piece of work.
const ROWS: usize = 512;

/// Nodes by true class (row) and predicted class (column).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confusion {
    classes: usize,
    counts: Vec<u64>,
}

/// The class with the highest score; the lowest one of equals. NaN is never the highest.
pub fn predicted_class(scores: &[f32]) -> usize {
    let mut best = 0;
    for (class, &score) in scores.iter().enumerate().skip(1) {
        if score > scores[best] || (scores[best].is_nan() && !score.is_nan()) {
            best = class;
        }
    }
    best
}

/// Counts per class: the diagonal and the margins of a confusion matrix.
///
/// # Panics
/// If shapes do not match, or a label is not one of the classes.
pub fn class_counts(scores: MatrixRef<'_>, nodes: &[u32], truth: &[i32]) -> ClassCounts {
    let mut counts = ClassCounts::new(scores.cols());
    for (&predicted, &node) in predictions(scores, nodes).iter().zip(nodes) {
        let Ok(class) = usize::try_from(truth[node as usize]) else { continue };
        if class == predicted as usize {
            counts.true_positives[class] += 1;
        } else {
            counts.false_negatives[class] += 1;
            counts.false_positives[predicted as usize] += 1;
        }
    }
    counts
}

fn predictions(scores: MatrixRef<'_>, nodes: &[u32]) -> Vec<u32> {
    assert_eq!(scores.rows(), nodes.len(), "one row per node");
    let rows = (0..nodes.len()).into_par_iter().with_min_len(ROWS);
    rows.map(|row| predicted_class(scores.row(row)) as u32).collect()
}

impl Confusion {
    /// Predicts the class with the highest score.
    ///
    /// # Panics
    /// If shapes do not match, or a label is not one of the classes.
    pub fn of_scores(scores: MatrixRef<'_>, nodes: &[u32], truth: &[i32]) -> Self {
        Self::of_predictions(&predictions(scores, nodes), nodes, truth, scores.cols())
    }

    /// From the predicted class of each of these nodes.
    ///
    /// # Panics
    /// If there is not one prediction per node, or a label or prediction is not one of the classes.
    pub fn of_predictions(
        predictions: &[u32],
        nodes: &[u32],
        truth: &[i32],
        classes: usize,
    ) -> Self {
        assert_eq!(predictions.len(), nodes.len(), "one prediction per node");
        let mut counts = vec![0; classes * classes];
        for (&predicted, &node) in predictions.iter().zip(nodes) {
            if let Ok(class) = usize::try_from(truth[node as usize]) {
                assert!(
                    class < classes && (predicted as usize) < classes,
                    "a class below {classes}"
                );
                counts[class * classes + predicted as usize] += 1;
            }
        }
        Self { classes, counts }
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The nodes of a true class, counted by predicted class.
    pub fn row(&self, class: usize) -> &[u64] {
        &self.counts[class * self.classes..][..self.classes]
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Share of correctly classified nodes; 0 if there are no nodes.
    pub fn accuracy(&self) -> f64 {
        ratio((0..self.classes).map(|class| self.row(class)[class]).sum(), self.nodes())
    }

    /// Counts per class, for F1 and the table of classes. With one class per node, micro-F1 is the
    /// accuracy.
    pub fn counts(&self) -> ClassCounts {
        let mut counts = ClassCounts::new(self.classes);
        for class in 0..self.classes {
            for (predicted, &nodes) in self.row(class).iter().enumerate() {
                if predicted == class {
                    counts.true_positives[class] += nodes;
                } else {
                    counts.false_negatives[class] += nodes;
                    counts.false_positives[predicted] += nodes;
                }
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Matrix;
    use crate::kernels::naive::Random;

    #[test]
    fn ties_go_to_the_lower_class() {
        assert_eq!(predicted_class(&[1.0, 3.0, 3.0]), 1);
        assert_eq!(predicted_class(&[-0.0, 0.0]), 0);
        assert_eq!(predicted_class(&[f32::NAN, -1.0, f32::NAN]), 1);
        assert_eq!(predicted_class(&[f32::NEG_INFINITY, f32::NAN]), 0);
        assert_eq!(predicted_class(&[f32::NAN, f32::NAN]), 0);
    }

    #[test]
    fn counts_by_hand() {
        let scores = [[2.0, 1.0], [0.0, 1.0], [0.0, 5.0], [1.0, 0.0], [1.0, 0.0]];
        let scores = Matrix::from_fn(5, 2, |i, k| scores[i][k]);
        let truth = [-1, 0, 0, 1, 1, 0, -1];
        let confusion = Confusion::of_scores(scores.view(), &[1, 2, 3, 4, 6], &truth);
        assert_eq!((confusion.row(0), confusion.row(1)), (&[1, 1][..], &[1, 1][..]));
        assert_eq!((confusion.nodes(), confusion.accuracy()), (4, 0.5));
        assert_eq!(confusion.counts().macro_f1(), 0.5);
        let none = Confusion::of_scores(Matrix::zeros(0, 2).view(), &[], &truth);
        assert_eq!(
            (none.accuracy(), none.counts().micro_f1(), none.counts().macro_f1()),
            (0.0, 0.0, 0.0)
        );
    }

    #[test]
    fn the_naive_loops_agree() {
        let random = &mut Random(4);
        let scores = random.matrix(3000, 7);
        let nodes: Vec<u32> = (0..3000).map(|r| 2 * r).collect();
        let truth: Vec<i32> = (0..6000).map(|_| random.below(8) as i32 - 1).collect();
        let counts = Confusion::of_scores(scores.view(), &nodes, &truth).counts();
        assert_eq!(class_counts(scores.view(), &nodes, &truth), counts);
        let (mut right, mut labelled) = (0.0, 0.0);
        for class in 0..7 {
            let (mut hits, mut wrong, mut missed) = (0, 0, 0);
            for (row, &node) in nodes.iter().enumerate() {
                let best = scores.row(row).iter().copied().fold(f32::MIN, f32::max);
                let predicted = scores.row(row).iter().position(|&x| x == best) == Some(class);
                let truth = truth[node as usize];
                hits += u64::from(predicted && truth == class as i32);
                wrong += u64::from(predicted && truth != class as i32 && truth >= 0);
                missed += u64::from(!predicted && truth == class as i32);
            }
            assert_eq!(counts.true_positives[class], hits);
            assert_eq!(counts.false_positives[class], wrong);
            assert_eq!(counts.false_negatives[class], missed);
            right += hits as f64;
            labelled += (hits + missed) as f64;
        }
        assert!(
            (counts.micro_f1() - right / labelled).abs() < 1e-15,
            "micro-F1 of single labels is accuracy"
        );
    }
}
