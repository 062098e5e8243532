//! Loss, its gradient and scores of logits, for nodes or graphs.

use std::sync::Arc;

use super::Task;
use super::record::PartRecord;
use crate::config::Config;
use crate::dense::MatrixRef;
use crate::metrics::{Metric, Scores};
use crate::models::Pass;
use crate::nn::{ClassWeights, Loss, LossKind, balanced_weights};

/// Largest number of logits of a part that is ranked in every epoch. Sorting more of them would
/// take a noticeable share of an epoch; `ignn eval` ranks them all.
const RANKED_LOGITS: usize = 1 << 16;

/// The task's labels with the loss of the configuration.
pub(super) struct Evaluator {
    task: Arc<Task>,
    loss: Loss,
    /// Whether the best epoch is chosen by a ranking.
    sorts_all: bool,
}

impl Evaluator {
    pub fn new(task: &Arc<Task>, config: &Config, monitor: Metric) -> Self {
        let classes = task.labels().classes().len();
        let class_weights = match config.train.class_weights {
            ClassWeights::None => None,
            ClassWeights::Balanced => {
                Some(balanced_weights(&task.parts().train, task.targets(), classes))
            }
        };
        let loss = Loss { kind: task.loss(), class_weights };
        Self { task: Arc::clone(task), loss, sorts_all: monitor.is_ranking() }
    }

    /// The loss of a pass; its gradient goes into the pass.
    pub fn differentiate(&self, pass: &mut Pass) -> f64 {
        let (logits, ids, by_logits) = pass.for_loss();
        self.loss.evaluate(logits, ids, self.task.targets(), Some(by_logits))
    }

    /// Loss and scores of some items.
    pub fn evaluate(&self, logits: MatrixRef<'_>, ids: &[u32]) -> PartRecord {
        let loss = self.loss.evaluate(logits, ids, self.task.targets(), None);
        let ranked = self.sorts_all || logits.rows() * logits.cols() <= RANKED_LOGITS;
        let scores = self.task.scores(logits, ids, ranked);
        let scores = Scores { log_loss: self.log_loss(logits, ids, loss), ..scores };
        let named = Metric::ALL.into_iter().filter(|metric| *metric != Metric::Loss);
        let scores =
            named.filter_map(|metric| Some((metric.name().into(), metric.of(&scores, loss)?)));
        PartRecord { loss, scores: scores.collect() }
    }

    /// The loss without class weights; `None` for numbers.
    fn log_loss(&self, logits: MatrixRef<'_>, ids: &[u32], loss: f64) -> Option<f64> {
        match (self.loss.kind, &self.loss.class_weights) {
            (LossKind::Squared | LossKind::Absolute, _) => None,
            (_, None) => Some(loss),
            (kind, Some(_)) => {
                let plain = Loss { kind, class_weights: None };
                Some(plain.evaluate(logits, ids, self.task.targets(), None))
            }
        }
    }
}
