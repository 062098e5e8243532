//! All scores of a part of a split, and the metric by which a model is chosen. The other files
//! count.

use std::fmt;
use std::str::FromStr;

use ignn_format::labels::LabelKind;
use serde::{Deserialize, Serialize};

use super::{ClassCounts, Ranking, Residuals, Rule, class_counts, label_counts};
use crate::dense::MatrixRef;

/// The scores of a part of a split. Which of them exist depends on the labels: [`Metric::fits`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scores {
    /// Share of correctly classified nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Mean recall of the classes that occur in the truth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balanced_accuracy: Option<f64>,
    /// Micro-F1; for sets, by the threshold of 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_f1: Option<f64>,
    /// Macro-F1; for sets, by the threshold of 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub macro_f1: Option<f64>,
    /// Micro-F1 by the top-k rule: the k highest scores, where k is the true number of labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k_micro_f1: Option<f64>,
    /// Macro-F1 by the top-k rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k_macro_f1: Option<f64>,
    /// Area under the ROC curve; `None` also where it was not computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roc_auc: Option<f64>,
    /// Average precision; `None` also where it was not computed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_precision: Option<f64>,
    /// The loss without class weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_loss: Option<f64>,
    /// Explained share of the variance of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r2: Option<f64>,
    /// Root of the mean squared error of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmse: Option<f64>,
    /// Mean absolute error of numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mae: Option<f64>,
}

impl Scores {
    /// Scores for one class per node, -1 if it has none. Ranking and log loss are for callers to
    /// add: [`Scores::with_ranking`].
    pub fn of_classes(scores: MatrixRef<'_>, nodes: &[u32], truth: &[i32]) -> Self {
        Self::of_class_counts(&class_counts(scores, nodes, truth))
    }

    /// The same from counts.
    pub fn of_class_counts(counts: &ClassCounts) -> Self {
        // A false negative of one class is a false positive of another: micro-F1 is the accuracy.
        let micro_f1 = Some(counts.micro_f1());
        Self {
            accuracy: micro_f1,
            balanced_accuracy: Some(counts.balanced_accuracy()),
            micro_f1,
            macro_f1: Some(counts.macro_f1()),
            ..Self::default()
        }
    }

    /// Scores for sets of classes. Node i has the classes `of[offsets[i] .. offsets[i + 1]]`.
    pub fn of_labels(scores: MatrixRef<'_>, nodes: &[u32], offsets: &[u64], of: &[u32]) -> Self {
        let threshold = label_counts(Rule::Threshold, scores, nodes, offsets, of);
        let top = label_counts(Rule::TopK, scores, nodes, offsets, of);
        Self::of_label_counts(&threshold, &top)
    }

    /// The same from the counts of both rules.
    pub fn of_label_counts(threshold: &ClassCounts, top: &ClassCounts) -> Self {
        Self {
            micro_f1: Some(threshold.micro_f1()),
            macro_f1: Some(threshold.macro_f1()),
            top_k_micro_f1: Some(top.micro_f1()),
            top_k_macro_f1: Some(top.macro_f1()),
            ..Self::default()
        }
    }

    /// Scores of predicted numbers.
    pub fn of_numbers(predicted: &[f64], truth: &[f64]) -> Self {
        let Residuals { r2, rmse, mae } = Residuals::of(predicted, truth);
        Self { r2, rmse, mae, ..Self::default() }
    }

    /// Adds ROC-AUC and average precision.
    pub fn with_ranking(self, ranking: Ranking) -> Self {
        let Ranking { roc_auc, average_precision } = ranking;
        Self { roc_auc, average_precision, ..self }
    }
}

/// The score by which epochs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Metric {
    /// Share of correctly classified nodes.
    Accuracy,
    /// Mean recall of the classes.
    BalancedAccuracy,
    /// Micro-F1.
    MicroF1,
    /// Macro-F1.
    MacroF1,
    /// Micro-F1 by the top-k rule.
    TopKMicroF1,
    /// Macro-F1 by the top-k rule.
    TopKMacroF1,
    /// Area under the ROC curve.
    RocAuc,
    /// Average precision.
    AveragePrecision,
    /// The loss without class weights.
    LogLoss,
    /// Explained share of the variance.
    R2,
    /// Root of the mean squared error.
    Rmse,
    /// Mean absolute error.
    Mae,
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
    /// Every metric, in the order of tables.
    pub const ALL: [Self; 13] = [
        Self::Accuracy,
        Self::BalancedAccuracy,
        Self::MicroF1,
        Self::MacroF1,
        Self::TopKMicroF1,
        Self::TopKMacroF1,
        Self::RocAuc,
        Self::AveragePrecision,
        Self::LogLoss,
        Self::R2,
        Self::Rmse,
        Self::Mae,
        Self::Loss,
    ];

    /// Its name in configurations and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::BalancedAccuracy => "balanced_accuracy",
            Self::MicroF1 => "micro_f1",
            Self::MacroF1 => "macro_f1",
            Self::TopKMicroF1 => "top_k_micro_f1",
            Self::TopKMacroF1 => "top_k_macro_f1",
            Self::RocAuc => "roc_auc",
            Self::AveragePrecision => "average_precision",
            Self::LogLoss => "log_loss",
            Self::R2 => "r2",
            Self::Rmse => "rmse",
            Self::Mae => "mae",
            Self::Loss => "loss",
        }
    }

    /// Whether labels of this kind have the score.
    pub fn fits(self, labels: LabelKind) -> bool {
        match self {
            Self::Loss => true,
            Self::Accuracy | Self::BalancedAccuracy => labels == LabelKind::Single,
            Self::TopKMicroF1 | Self::TopKMacroF1 => labels == LabelKind::Multi,
            Self::R2 | Self::Rmse | Self::Mae => labels == LabelKind::Number,
            Self::MicroF1
            | Self::MacroF1
            | Self::RocAuc
            | Self::AveragePrecision
            | Self::LogLoss => labels != LabelKind::Number,
        }
    }

    /// The score that is meant where none is named.
    pub fn usual(labels: LabelKind) -> Self {
        match labels {
            LabelKind::Single => Self::Accuracy,
            LabelKind::Multi => Self::MicroF1,
            LabelKind::Number => Self::R2,
        }
    }

    /// Whether more is better: of all but losses and errors.
    pub fn higher_is_better(self) -> bool {
        !matches!(self, Self::Loss | Self::LogLoss | Self::Rmse | Self::Mae)
    }

    /// Whether values are shares from 0 to 1, which people read in per cent.
    pub fn is_share(self) -> bool {
        self.higher_is_better() && self != Self::R2
    }

    /// Whether it needs all items of a part in order: [`Ranking`].
    pub fn is_ranking(self) -> bool {
        matches!(self, Self::RocAuc | Self::AveragePrecision)
    }

    /// Whether `new` is better than `old`. Equal is not, NaN never is, and anything else is better
    /// than NaN.
    pub fn is_better(self, new: f64, old: f64) -> bool {
        let is_better = if self.higher_is_better() { new > old } else { new < old };
        is_better || (old.is_nan() && !new.is_nan())
    }

    /// Its value; `None` where labels are not of the kind that has it, or it was not computed.
    pub fn of(self, scores: &Scores, loss: f64) -> Option<f64> {
        match self {
            Self::Accuracy => scores.accuracy,
            Self::BalancedAccuracy => scores.balanced_accuracy,
            Self::MicroF1 => scores.micro_f1,
            Self::MacroF1 => scores.macro_f1,
            Self::TopKMicroF1 => scores.top_k_micro_f1,
            Self::TopKMacroF1 => scores.top_k_macro_f1,
            Self::RocAuc => scores.roc_auc,
            Self::AveragePrecision => scores.average_precision,
            Self::LogLoss => scores.log_loss,
            Self::R2 => scores.r2,
            Self::Rmse => scores.rmse,
            Self::Mae => scores.mae,
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
        let (offsets, of) = ([0, 1, 2], [0, 0]);
        let single = Scores::of_classes(scores.view(), &[0, 1], &[0, 1])
            .with_ranking(Ranking::of_classes(scores.view(), &[0, 1], &[0, 1]));
        assert_eq!((single.accuracy, single.roc_auc), (Some(1.0), Some(1.0)));
        let multi = Scores::of_labels(scores.view(), &[0, 1], &offsets, &of)
            .with_ranking(Ranking { roc_auc: Some(0.5), average_precision: Some(0.5) });
        assert_eq!((multi.top_k_micro_f1, multi.micro_f1), (Some(0.5), Some(0.5)));
        let numbers = Scores::of_numbers(&[1.0, 2.0], &[1.0, 3.0]);
        for metric in Metric::ALL {
            assert_eq!(metric.name().parse(), Ok(metric));
            let text = serde_json::to_string(&metric).unwrap();
            assert_eq!(text, format!("\"{metric}\""));
            assert_eq!(serde_json::from_str::<Metric>(&text).unwrap(), metric);
            for (labels, scores) in [
                (LabelKind::Single, Scores { log_loss: Some(0.1), ..single }),
                (LabelKind::Multi, Scores { log_loss: Some(0.1), ..multi }),
                (LabelKind::Number, numbers),
            ] {
                assert_eq!(metric.of(&scores, 0.1).is_some(), metric.fits(labels), "{metric}");
                assert!(Metric::usual(labels).fits(labels));
            }
            let lower = ["loss", "log_loss", "rmse", "mae"].contains(&metric.name());
            assert_eq!(metric.is_better(2.0, 1.0), !lower);
            assert_eq!(metric.is_better(1.0, 2.0), lower);
            assert!(!metric.is_better(1.0, 1.0) && !metric.is_better(f64::NAN, 1.0));
            assert!(metric.is_better(1.0, f64::NAN) && !metric.is_better(f64::NAN, f64::NAN));
        }
        let error = "f1".parse::<Metric>().unwrap_err().to_string();
        let names = "accuracy, balanced_accuracy, micro_f1, macro_f1, top_k_micro_f1, \
                     top_k_macro_f1, roc_auc, average_precision, log_loss, r2, rmse, mae, loss";
        assert_eq!(error, format!("metric: unknown name (found \"f1\", expected {names})"));
    }

    #[test]
    fn balanced_accuracy_is_the_mean_recall_of_classes_that_occur() {
        // The example of scikit-learn's balanced_accuracy_score: 0.625. The third class is absent.
        let (truth, predicted) = ([0, 1, 0, 0, 1, 0], [0, 1, 0, 0, 0, 1]);
        let logits =
            Matrix::from_fn(6, 3, |row, class| if predicted[row] == class { 1.0 } else { 0.0 });
        let scores = Scores::of_classes(logits.view(), &[0, 1, 2, 3, 4, 5], &truth);
        assert_eq!((scores.balanced_accuracy, scores.accuracy), (Some(0.625), Some(4.0 / 6.0)));
    }

    #[test]
    fn scores_are_written_without_what_they_lack() {
        let single = Scores {
            accuracy: Some(0.5),
            micro_f1: Some(0.5),
            macro_f1: Some(0.25),
            ..Scores::default()
        };
        let text = serde_json::to_string(&single).unwrap();
        assert_eq!(text, r#"{"accuracy":0.5,"micro_f1":0.5,"macro_f1":0.25}"#);
        assert_eq!(serde_json::from_str::<Scores>(&text).unwrap(), single);
    }
}
