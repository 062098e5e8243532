//! All scores of a part of a split, and the metric by which a model is chosen. The other files
//! count.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Rule, class_counts, label_counts};
use crate::dense::MatrixRef;

/// The scores of a part of a split. Accuracy exists for one class per node, the top-k rule for
/// sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// Share of correctly classified nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Micro-F1; for sets, by the threshold of 0.5.
    pub micro_f1: f64,
    /// Macro-F1; for sets, by the threshold of 0.5.
    pub macro_f1: f64,
    /// Micro-F1 by the top-k rule: the k highest scores, where k is the true number of labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k_micro_f1: Option<f64>,
    /// Macro-F1 by the top-k rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k_macro_f1: Option<f64>,
}

impl Scores {
    /// Scores for one class per node, -1 if it has none.
    pub fn of_classes(scores: MatrixRef<'_>, nodes: &[u32], truth: &[i32]) -> Self {
        let counts = class_counts(scores, nodes, truth);
        // A false negative of one class is a false positive of another: micro-F1 is the accuracy.
        let (micro_f1, macro_f1) = (counts.micro_f1(), counts.macro_f1());
        Self { accuracy: Some(micro_f1), micro_f1, macro_f1, ..Self::default() }
    }

    /// Scores for sets of classes. Node i has the classes `of[offsets[i] .. offsets[i + 1]]`.
    pub fn of_labels(scores: MatrixRef<'_>, nodes: &[u32], offsets: &[u64], of: &[u32]) -> Self {
        let threshold = label_counts(Rule::Threshold, scores, nodes, offsets, of);
        let top = label_counts(Rule::TopK, scores, nodes, offsets, of);
        Self {
            accuracy: None,
            micro_f1: threshold.micro_f1(),
            macro_f1: threshold.macro_f1(),
            top_k_micro_f1: Some(top.micro_f1()),
            top_k_macro_f1: Some(top.macro_f1()),
        }
    }
}

/// The score by which epochs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Metric {
    /// Share of correctly classified nodes.
    Accuracy,
    /// Micro-F1.
    MicroF1,
    /// Macro-F1.
    MacroF1,
    /// Micro-F1 by the top-k rule.
    TopKMicroF1,
    /// Macro-F1 by the top-k rule.
    TopKMacroF1,
    /// The loss.
    Loss,
}

/// The name of no metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "metric: unknown name (found \"{found}\", expected {})",
    Metric::ALL.map(Metric::name).join(", ")
)]
pub struct MetricError {
    /// The name.
    pub found: String,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 6] = [
        Self::Accuracy,
        Self::MicroF1,
        Self::MacroF1,
        Self::TopKMicroF1,
        Self::TopKMacroF1,
        Self::Loss,
    ];

    /// Its name in configurations and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::MicroF1 => "micro_f1",
            Self::MacroF1 => "macro_f1",
            Self::TopKMicroF1 => "top_k_micro_f1",
            Self::TopKMacroF1 => "top_k_macro_f1",
            Self::Loss => "loss",
        }
    }

    /// Whether more is better: of all but the loss.
    pub fn higher_is_better(self) -> bool {
        self != Self::Loss
    }

    /// Whether `new` is better than `old`. Equal is not, NaN never is, and anything else is better
    /// than NaN.
    pub fn is_better(self, new: f64, old: f64) -> bool {
        let is_better = if self.higher_is_better() { new > old } else { new < old };
        is_better || (old.is_nan() && !new.is_nan())
    }

    /// Its value; `None` where labels are not of the kind that has it: accuracy of sets, top-k of
    /// single labels.
    pub fn of(self, scores: &Scores, loss: f64) -> Option<f64> {
        match self {
            Self::Accuracy => scores.accuracy,
            Self::MicroF1 => Some(scores.micro_f1),
            Self::MacroF1 => Some(scores.macro_f1),
            Self::TopKMicroF1 => scores.top_k_micro_f1,
            Self::TopKMacroF1 => scores.top_k_macro_f1,
            Self::Loss => Some(loss),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Metric {
    type Err = MetricError;

    fn from_str(name: &str) -> Result<Self, MetricError> {
        let found = Self::ALL.into_iter().find(|metric| metric.name() == name);
        found.ok_or_else(|| MetricError { found: name.to_string() })
    }
}

impl TryFrom<String> for Metric {
    type Error = MetricError;

    fn try_from(name: String) -> Result<Self, MetricError> {
        name.parse()
    }
}

impl From<Metric> for &'static str {
    fn from(metric: Metric) -> Self {
        metric.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dense::Matrix;

    #[test]
    fn names_values_and_directions() {
        let scores = Matrix::from_fn(2, 2, |i, k| if i == k { 1.0 } else { -1.0 });
        let single = Scores::of_classes(scores.view(), &[0, 1], &[0, 0]);
        assert_eq!(single.accuracy, Some(0.5));
        let multi = Scores::of_labels(scores.view(), &[0, 1], &[0, 1, 2], &[0, 0]);
        assert_eq!((multi.top_k_micro_f1, multi.micro_f1), (Some(0.5), 0.5));
        for metric in Metric::ALL {
            assert_eq!(metric.name().parse(), Ok(metric));
            let text = serde_json::to_string(&metric).unwrap();
            assert_eq!(text, format!("\"{metric}\""));
            assert_eq!(serde_json::from_str::<Metric>(&text).unwrap(), metric);
            assert_eq!(metric.of(&single, 0.1).is_none(), metric.name().starts_with("top_k"));
            assert_eq!(metric.of(&multi, 0.1).is_none(), metric == Metric::Accuracy);
            assert_eq!(metric.is_better(2.0, 1.0), metric != Metric::Loss);
            assert_eq!(metric.is_better(1.0, 2.0), metric == Metric::Loss);
            assert!(!metric.is_better(1.0, 1.0) && !metric.is_better(f64::NAN, 1.0));
            assert!(metric.is_better(1.0, f64::NAN) && !metric.is_better(f64::NAN, f64::NAN));
        }
        let error = "f1".parse::<Metric>().unwrap_err().to_string();
        let names = "accuracy, micro_f1, macro_f1, top_k_micro_f1, top_k_macro_f1, loss";
        assert_eq!(error, format!("metric: unknown name (found \"f1\", expected {names})"));
    }

    #[test]
    fn scores_are_written_without_what_they_lack() {
        let single =
            Scores { accuracy: Some(0.5), micro_f1: 0.5, macro_f1: 0.25, ..Scores::default() };
        let text = serde_json::to_string(&single).unwrap();
        assert_eq!(text, r#"{"accuracy":0.5,"micro_f1":0.5,"macro_f1":0.25}"#);
        assert_eq!(serde_json::from_str::<Scores>(&text).unwrap(), single);
    }
}
