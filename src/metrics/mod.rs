//! Scores of predictions against true labels: accuracy, F1, ranking scores, confusion matrices,
//! errors of predicted numbers. All are pure functions; they know neither models nor splits.
//!
//! Predictions are logits (k x c), and row r belongs to node `nodes[r]`. Labels are those of all
//! nodes, in the form in which a dataset stores them. Nodes without a label are ignored. Counts are
//! integers, so results are the same for any number of threads.
//!
//! For a class with tp true positives, fp false positives and fn false negatives, precision is tp /
//! (tp + fp), recall is tp / (tp + fn), and F1 = 2 tp / (2 tp + fp + fn). 0 / 0 counts as 0.
//! Micro-F1 is the F1 of the counts summed over classes. Macro-F1 is the mean of F1 over **all**
//! classes: a class with neither truth nor prediction counts, with an F1 of 0. (As scikit-learn's
//! `zero_division=0` does for sets of labels. For single labels it leaves such classes out, unless
//! it is given the list of all of them.) Balanced accuracy is the mean recall of the classes that
//! occur in the truth. Log loss is the mean negative logarithm of the probability of the true class,
//! for sets of classes the mean over all pairs of node and class; it is the loss without class
//! weights, and callers fill it in. [`Ranking`] has ROC-AUC and average precision, [`Residuals`] the
//! scores of numbers.
//!
//! ```
//! use ignn::dense::Matrix;
//! use ignn::metrics::Scores;
//!
//! // Four nodes of the classes 0, 0, 1 and 1; all are predicted as class 0 but the last.
//! let logits = Matrix::from_fn(4, 2, |i, k| if (i == 3) == (k == 1) { 1.0 } else { 0.0 });
//! let scores = Scores::of_classes(logits.view(), &[0, 1, 2, 3], &[0, 0, 1, 1]);
//! assert_eq!(scores.accuracy, Some(0.75));
//! // F1 is 2 * 2 / (2 * 2 + 1) for class 0 and 2 / (2 + 1) for class 1.
//! assert!((scores.macro_f1.unwrap() - (4.0 / 5.0 + 2.0 / 3.0) / 2.0).abs() < 1e-12);
//! ```

mod confusion;
mod counts;
mod labels;
mod mean;
mod monitor;
mod ranking;
mod residuals;
mod scores;

pub use confusion::{Confusion, class_counts, predicted_class};
pub use counts::{ClassCounts, ClassScores};
pub use labels::{Rule, label_counts, top_classes};
pub use mean::MeanDeviation;
pub use monitor::Monitor;
pub use ranking::Ranking;
pub use residuals::Residuals;
pub use scores::{Metric, MetricError, Scores};
