//! A support vector machine in place of a model's readout: on the embeddings of graphs, as in
//! graph-kernel papers. It chooses C and gamma inside a fold; `nn::svm` has the machine itself.
//!
//! Embeddings are the pooled rows of the epoch chosen on validation, standardised on the graphs
//! that the machine is trained on. If the layers were trained, C and gamma are chosen on the
//! validation part, whose labels the layers have not seen; if they were not (`train.epochs = 0`),
//! by [`INNER_FOLDS`] folds of all graphs outside of the test part. The machine is then trained on
//! both parts. Of equal scores the smallest C, then the smallest gamma is taken.

use serde::{Deserialize, Serialize};

use super::{Task, TrainError, Trainer};
use crate::nn::svm::{Gram, Kernel, Svm, standardised};
use crate::nn::{Targets, random};

/// Values of C that are tried.
pub const PRICES: [f64; 6] = [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0];
/// Values of gamma that are tried, times the width of the embedding.
pub const GAMMAS: [f64; 4] = [0.01, 0.1, 1.0, 10.0];
/// Number of folds for choosing C and gamma if the layers are untrained.
pub const INNER_FOLDS: usize = 5;

/// The kernel to search with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SvmSearch {
    /// The linear kernel.
    Linear,
    /// The RBF kernel.
    Rbf,
}

/// The chosen machine and its accuracy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SvmRecord {
    /// C, the penalty of a row on the wrong side.
    pub c: f64,
    /// Gamma of an RBF kernel.
    pub gamma: Option<f64>,
    /// Accuracy that chose C and gamma.
    pub validation: f64,
    /// Accuracy on the test part.
    pub test: f64,
    /// Support vectors.
    pub vectors: usize,
    /// Whether the machine is optimal to its tolerance.
    pub converged: bool,
}

impl SvmSearch {
    /// Chooses, trains and tests a machine on the embeddings of the trainer's best model, which
    /// becomes its current model.
    pub fn train_on_embeddings(
        self,
        task: &Task,
        trainer: &mut Trainer,
    ) -> Result<SvmRecord, TrainError> {
        let Targets::Classes(labels) = task.targets() else {
            unreachable!("graphs have one class each")
        };
        let parts = task.parts();
        let mut rest = [&parts.train[..], &parts.validation].concat();
        rest.sort_unstable();
        let is_trained = trainer.config().train.epochs > 0;
        let pairs = match is_trained {
            true => vec![(parts.train.clone(), parts.validation.clone())],
            false => inner_folds(&rest, labels, trainer.config().train.seed),
        };
        let rows = trainer.embeddings()?;
        let rows = standardised(rows.view(), &rest);
        let width = rows.cols().max(1) as f64;
        let kernels: Vec<Kernel> = match self {
            Self::Linear => vec![Kernel::Linear],
            Self::Rbf => GAMMAS.iter().map(|gamma| Kernel::Rbf { gamma: gamma / width }).collect(),
        };
        let mut best: Option<(f64, usize, f64, SvmRecord)> = None;
        for (at, &kernel) in kernels.iter().enumerate() {
            let gram = Gram::of(rows.view(), kernel);
            let mut chosen: Option<(f64, f64)> = None;
            for c in PRICES {
                let score = |(trained_on, validated_on): &(Vec<u32>, Vec<u32>)| {
                    Svm::train(&gram, trained_on, labels, c).accuracy(&gram, validated_on, labels)
                };
                let score = pairs.iter().map(score).sum::<f64>() / pairs.len() as f64;
                if chosen.is_none_or(|(highest, _)| score > highest) {
                    chosen = Some((score, c));
                }
            }
            let (score, c) = chosen.expect("prices to choose from");
            let is_better = best.as_ref().is_none_or(|(highest, _, price, _)| {
                score > *highest || (score == *highest && c < *price)
            });
            if is_better {
                let svm = Svm::train(&gram, &rest, labels, c);
                let record = SvmRecord {
                    c,
                    gamma: if let Kernel::Rbf { gamma } = kernel { Some(gamma) } else { None },
                    validation: score,
                    test: svm.accuracy(&gram, &parts.test, labels),
                    vectors: svm.vectors(),
                    converged: svm.converged(),
                };
                best = Some((score, at, c, record));
            }
        }
        Ok(best.expect("kernels to choose from").3)
    }
}

/// Pairs of rows for training and validation, stratified by class.
fn inner_folds(items: &[u32], labels: &[i32], seed: u64) -> Vec<(Vec<u32>, Vec<u32>)> {
    let stream = random::Stream::new(seed, "inner folds");
    let mut order = items.to_vec();
    order.sort_by_key(|&item| (labels[item as usize], stream.row(u64::from(item)).bits(0), item));
    let pick = |fold: usize, own: bool| {
        let chosen =
            order.iter().enumerate().filter(|(place, _)| (place % INNER_FOLDS == fold) == own);
        chosen.map(|(_, &item)| item).collect::<Vec<u32>>()
    };
    (0..INNER_FOLDS).map(|fold| (pick(fold, false), pick(fold, true))).collect()
}
