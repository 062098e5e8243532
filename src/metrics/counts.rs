//! True and false positives and false negatives of each class, and the ratios computed from them.
//! The other files of this module count them.

use serde::Serialize;

/// Counts per class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassCounts {
    /// True positives.
    pub true_positives: Vec<u64>,
    /// False positives: predicted, but not true.
    pub false_positives: Vec<u64>,
    /// False negatives: true, but not predicted.
    pub false_negatives: Vec<u64>,
}

/// The scores of one class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClassScores {
    /// The class.
    pub class: usize,
    /// Precision: the share of the predictions that are true.
    pub precision: f64,
    /// Recall: the share of the true ones that are predicted.
    pub recall: f64,
    /// F1: the harmonic mean of precision and recall.
    pub f1: f64,
    /// Nodes of the class.
    pub support: u64,
    /// Nodes predicted to be of the class.
    pub predicted: u64,
}

impl ClassCounts {
    /// Counts of zero.
    pub fn new(classes: usize) -> Self {
        let zeros = vec![0; classes];
        Self {
            true_positives: zeros.clone(),
            false_positives: zeros.clone(),
            false_negatives: zeros,
        }
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.true_positives.len()
    }

    /// Adds other counts.
    pub fn merge(mut self, other: Self) -> Self {
        let add = |to: &mut [u64], from: Vec<u64>| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
        };
        add(&mut self.true_positives, other.true_positives);
        add(&mut self.false_positives, other.false_positives);
        add(&mut self.false_negatives, other.false_negatives);
        self
    }

    /// Micro-F1: the F1 of the counts summed over classes.
    pub fn micro_f1(&self) -> f64 {
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        f1(sum(&self.true_positives), sum(&self.false_positives), sum(&self.false_negatives))
    }

    /// Macro-F1: the mean F1 of all classes; 0 if there are none.
    pub fn macro_f1(&self) -> f64 {
        let sum: f64 = (0..self.classes()).map(|class| self.of_class(class).f1).sum();
        if self.classes() == 0 { 0.0 } else { sum / self.classes() as f64 }
    }

    /// Balanced accuracy: the mean recall of the classes that occur in the truth; 0 if none does.
    pub fn balanced_accuracy(&self) -> f64 {
        let lines = (0..self.classes()).map(|class| self.of_class(class));
        let recalls: Vec<f64> =
            lines.filter(|line| line.support > 0).map(|line| line.recall).collect();
        if recalls.is_empty() { 0.0 } else { recalls.iter().sum::<f64>() / recalls.len() as f64 }
    }

    /// The scores of each class.
    pub fn per_class(&self) -> Vec<ClassScores> {
        (0..self.classes()).map(|class| self.of_class(class)).collect()
    }

    fn of_class(&self, class: usize) -> ClassScores {
        let hits = self.true_positives[class];
        let (wrong, missed) = (self.false_positives[class], self.false_negatives[class]);
        ClassScores {
            class,
            precision: ratio(hits, hits + wrong),
            recall: ratio(hits, hits + missed),
            f1: f1(hits, wrong, missed),
            support: hits + missed,
            predicted: hits + wrong,
        }
    }
}

fn f1(hits: u64, wrong: u64, missed: u64) -> f64 {
    ratio(2 * hits, 2 * hits + wrong + missed)
}

/// The ratio, or 0 if the denominator is 0.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_by_hand() {
        let counts = ClassCounts {
            true_positives: vec![3, 0, 0],
            false_positives: vec![1, 2, 0],
            false_negatives: vec![2, 0, 0],
        };
        assert_eq!(counts.micro_f1(), 6.0 / 11.0);
        assert_eq!(counts.macro_f1(), (6.0 / 9.0) / 3.0, "absent classes count as 0");
        let table = counts.per_class();
        let first = ClassScores {
            class: 0,
            precision: 0.75,
            recall: 0.6,
            f1: 6.0 / 9.0,
            support: 5,
            predicted: 4,
        };
        assert_eq!(table[0], first);
        assert_eq!((table[1].precision, table[1].recall, table[1].predicted), (0.0, 0.0, 2));
        assert_eq!((table[2].f1, table[2].support), (0.0, 0));
        let twice = counts.clone().merge(counts.clone());
        assert_eq!((twice.true_positives[0], twice.micro_f1()), (6, counts.micro_f1()));
        assert_eq!((ClassCounts::new(0).macro_f1(), ClassCounts::new(0).micro_f1()), (0.0, 0.0));
    }
}
