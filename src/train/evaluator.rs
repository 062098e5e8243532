//! Loss, its gradient and scores of logits, for nodes or graphs.

use std::sync::Arc;

use super::Task;
use super::record::PartRecord;
use crate::config::Config;
use crate::dense::MatrixRef;
use crate::metrics::Metric;
use crate::models::Pass;
use crate::nn::{ClassWeights, Loss, balanced_weights};

/// The task's labels with the loss of the configuration.
pub(super) struct Evaluator {
    task: Arc<Task>,
    loss: Loss,
}

impl Evaluator {
    pub fn new(task: &Arc<Task>, config: &Config) -> Self {
        let classes = task.labels().classes().len();
        let class_weights = match config.train.class_weights {
            ClassWeights::None => None,
            ClassWeights::Balanced => {
                Some(balanced_weights(&task.parts().train, task.targets(), classes))
            }
        };
        let loss = Loss { kind: task.loss(), class_weights };
        Self { task: Arc::clone(task), loss }
    }

    /// The loss of a pass; its gradient goes into the pass.
    pub fn differentiate(&self, pass: &mut Pass) -> f64 {
        let (logits, ids, by_logits) = pass.for_loss();
        self.loss.evaluate(logits, ids, self.task.targets(), Some(by_logits))
    }

    /// Loss and scores of some items.
    pub fn evaluate(&self, logits: MatrixRef<'_>, ids: &[u32]) -> PartRecord {
        let loss = self.loss.evaluate(logits, ids, self.task.targets(), None);
        let scores = self.task.scores(logits, ids);
        let named = Metric::ALL.into_iter().filter(|metric| *metric != Metric::Loss);
        let scores =
            named.filter_map(|metric| Some((metric.name().into(), metric.of(&scores, loss)?)));
        PartRecord { loss, scores: scores.collect() }
    }
}
