//! The score that chooses the best epoch, as a configuration asks for it.

use super::Metric;
use crate::settings::words;

words! {
    /// The validation score that chooses the best epoch.
    pub enum Monitor {
        /// `accuracy` for one class per node, `micro-f1` for sets of classes.
        Auto = "auto",
        /// Fraction of correctly classified nodes.
        Accuracy = "accuracy",
        /// F1 over all classes together.
        MicroF1 = "micro-f1",
        /// Mean of the F1 of each class.
        MacroF1 = "macro-f1",
        /// Micro-F1 where each node is given as many classes as it truly has.
        TopKMicroF1 = "top-k-micro-f1",
        /// Macro-F1 where each node is given as many classes as it truly has.
        TopKMacroF1 = "top-k-macro-f1",
        /// The loss. The only one where lower is better.
        Loss = "loss",
    }
}

impl Monitor {
    /// The metric, for labels of one class per node (`is_single`) or sets of classes.
    pub fn metric(self, is_single: bool) -> Metric {
        match self {
            Self::Auto if is_single => Metric::Accuracy,
            Self::Auto | Self::MicroF1 => Metric::MicroF1,
            Self::Accuracy => Metric::Accuracy,
            Self::MacroF1 => Metric::MacroF1,
            Self::TopKMicroF1 => Metric::TopKMicroF1,
            Self::TopKMacroF1 => Metric::TopKMacroF1,
            Self::Loss => Metric::Loss,
        }
    }
}
