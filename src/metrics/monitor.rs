//! The score that chooses the best epoch, as a configuration asks for it.

use super::Metric;
use crate::settings::words;

words! {
    /// The validation score that chooses the best epoch.
    pub enum Monitor {
        /// `accuracy` for one class per node, `micro-f1` for sets of classes, `r2` for numbers.
        Auto = "auto",
        /// Fraction of correctly classified nodes.
        Accuracy = "accuracy",
        /// Mean recall of the classes: a class of few nodes counts as much as any other.
        BalancedAccuracy = "balanced-accuracy",
        /// F1 over all classes together.
        MicroF1 = "micro-f1",
        /// Mean of the F1 of each class.
        MacroF1 = "macro-f1",
        /// Micro-F1 where each node is given as many classes as it truly has.
        TopKMicroF1 = "top-k-micro-f1",
        /// Macro-F1 where each node is given as many classes as it truly has.
        TopKMacroF1 = "top-k-macro-f1",
        /// Area under the ROC curve: of the second of two classes, else the mean over classes.
        RocAuc = "roc-auc",
        /// Average precision: of the second of two classes, else the mean over classes.
        AveragePrecision = "average-precision",
        /// The loss without class weights. Lower is better.
        LogLoss = "log-loss",
        /// For numbers: the share of their variance that is explained.
        R2 = "r2",
        /// For numbers: root of the mean squared error. Lower is better.
        Rmse = "rmse",
        /// For numbers: mean absolute error. Lower is better.
        Mae = "mae",
        /// The loss. Lower is better.
        Loss = "loss",
    }
}

impl Monitor {
    /// The metric, where `auto` stands for the usual one of the labels.
    pub fn metric(self, usual: Metric) -> Metric {
        match self {
            Self::Auto => usual,
            Self::Accuracy => Metric::Accuracy,
            Self::BalancedAccuracy => Metric::BalancedAccuracy,
            Self::MicroF1 => Metric::MicroF1,
            Self::MacroF1 => Metric::MacroF1,
            Self::TopKMicroF1 => Metric::TopKMicroF1,
            Self::TopKMacroF1 => Metric::TopKMacroF1,
            Self::RocAuc => Metric::RocAuc,
            Self::AveragePrecision => Metric::AveragePrecision,
            Self::LogLoss => Metric::LogLoss,
            Self::R2 => Metric::R2,
            Self::Rmse => Metric::Rmse,
            Self::Mae => Metric::Mae,
            Self::Loss => Metric::Loss,
        }
    }
}
