//! Scores of predictions against the truth: accuracy, F1, confusion; counts first, then ratios of
//! counts. Pure functions: they know neither models nor splits, and choose nothing.
//!
//! Scores of nodes are logits, k x c, row r belonging to node `nodes[r]`; the truth is that of all
//! nodes, as labels are stored. Nodes without a label are left out everywhere: there is nothing to
//! be right about. Counts are integers, so results are the same for any number of threads.
//!
//! For a class: precision tp / (tp + fp), recall tp / (tp + fn), F1 = 2 tp / (2 tp + fp + fn); a
//! ratio 0 / 0 is 0. Micro-F1 is the F1 of the counts summed over classes. Macro-F1 is the mean of
//! F1 over **all** classes: a class with neither truth nor prediction counts, with an F1 of 0. (As
//! scikit-learn's `zero_division=0` does for sets of labels. For single labels it leaves such
//! classes out, unless it is given the list of all of them.)

mod confusion;
mod counts;
mod labels;
mod mean;
mod monitor;
mod scores;

pub use confusion::{Confusion, class_counts, predicted_class};
pub use counts::{ClassCounts, ClassScores};
pub use labels::{Rule, label_counts, top_classes};
pub use mean::MeanDeviation;
pub use monitor::Monitor;
pub use scores::{Metric, MetricError, Scores};
