//! Scores of predictions for each part of a split: overall, by class, and the confusion matrix. It
//! processes one chunk of items at a time and adds up counts; the formulas are in `metrics`.

use serde::Serialize;

use super::error::PredictError;
use super::parts::Parts;
use super::predictor::{Item, SolvedModel};
use super::truth::{Known, Truth};
use crate::dense::{Matrix, MatrixRef};
use crate::metrics::{
    ClassCounts, ClassScores, Confusion, Ranking, Rule, Scores, label_counts, predicted_class,
};
use crate::nn::{Loss, LossKind, Targets};

/// Scores of all parts.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// The split; `None` where all items are one part.
    pub split: Option<String>,
    /// In the split's order.
    pub parts: Vec<PartScores>,
    /// Classes of the dataset that the model does not know.
    pub unknown_classes: Vec<String>,
    /// Number of labels of those classes, left out of all scores.
    pub left_out: u64,
}

/// Scores of one part.
#[derive(Clone, Debug, Serialize)]
pub struct PartScores {
    /// Its name.
    pub part: String,
    /// Number of nodes, where nodes are predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u64>,
    /// Number of graphs, where graphs are predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graphs: Option<u64>,
    /// Number of items with a label; only they count.
    pub labelled: u64,
    /// The scores.
    #[serde(flatten)]
    pub scores: Scores,
    /// For numbers: how far a predicted one can be from that of the exact equilibrium at most, in the
    /// unit of the dataset. See [`SolvedModel::number_error`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_bound: Option<f64>,
    /// One line per class; for sets of classes by the threshold of 0.5. Empty for numbers.
    pub classes: Vec<ClassLine>,
    /// The confusion matrix, where an item has one class.
    #[serde(skip)]
    pub confusion: Option<Confusion>,
}

/// A class with its name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassLine {
    /// The name.
    pub name: String,
    /// Its scores.
    #[serde(flatten)]
    pub scores: ClassScores,
}

impl PartScores {
    /// Number of nodes or graphs.
    pub fn items(&self) -> u64 {
        self.nodes.or(self.graphs).unwrap_or(0)
    }
}

impl Evaluation {
    /// Reads out the labelled items of each part and scores them.
    pub fn of(
        solved: &SolvedModel,
        item: Item,
        truth: &Truth,
        parts: &Parts,
    ) -> Result<Self, PredictError> {
        let score = |part: &super::Part| -> Result<PartScores, PredictError> {
            let labelled: Vec<u32> =
                part.items.iter().copied().filter(|&item| truth.is_labelled(item)).collect();
            let (scores, counts, confusion) = count(solved, truth, &labelled)?;
            let line = |scores: ClassScores| ClassLine {
                name: truth.classes[scores.class].clone(),
                scores,
            };
            Ok(PartScores {
                part: part.name.clone(),
                nodes: (item == Item::Node).then_some(part.items.len() as u64),
                graphs: (item == Item::Graph).then_some(part.items.len() as u64),
                labelled: labelled.len() as u64,
                scores,
                error_bound: largest_error(solved, &labelled),
                classes: counts.per_class().into_iter().map(line).collect(),
                confusion,
            })
        };
        Ok(Self {
            split: parts.split.clone(),
            parts: parts.parts.iter().map(score).collect::<Result<_, _>>()?,
            unknown_classes: truth.unknown().to_vec(),
            left_out: truth.left_out(),
        })
    }
}

/// The largest error bound of some numbers; `None` for classes, and where there is no bound.
fn largest_error(solved: &SolvedModel, items: &[u32]) -> Option<f64> {
    solved.number_errors(items)?.into_iter().max_by(f64::total_cmp)
}

/// Largest number of logits of a part that are kept for a ranking, 512 MiB of them.
const RANKED_LOGITS: usize = 1 << 27;

fn count(
    solved: &SolvedModel,
    truth: &Truth,
    nodes: &[u32],
) -> Result<(Scores, ClassCounts, Option<Confusion>), PredictError> {
    let classes = solved.outputs();
    let ranked = nodes.len().saturating_mul(classes) <= RANKED_LOGITS;
    let mut kept = Matrix::zeros(if ranked { nodes.len() } else { 0 }, classes);
    let (mut done, mut loss_sum) = (0, 0.0);
    let mut keep = |logits: MatrixRef<'_>, loss: Option<f64>| {
        for row in (0..logits.rows()).filter(|_| ranked) {
            kept.row_mut(done + row).copy_from_slice(logits.row(row));
        }
        done += logits.rows();
        loss_sum += loss.unwrap_or(0.0) * logits.rows() as f64;
    };
    let plain = |kind| Loss { kind, class_weights: None };
    let (scores, counts, confusion) = match &truth.labels {
        Known::Single(of) => {
            let mut predictions = Vec::with_capacity(nodes.len());
            let loss = plain(LossKind::CrossEntropy);
            solved.each_chunk(nodes, |nodes, logits| -> Result<(), PredictError> {
                predictions
                    .extend((0..logits.rows()).map(|row| predicted_class(logits.row(row)) as u32));
                keep(logits, Some(loss.evaluate(logits, nodes, Targets::Classes(of), None)));
                Ok(())
            })?;
            let confusion = Confusion::of_predictions(&predictions, nodes, of, classes);
            let counts = confusion.counts();
            (Scores::of_class_counts(&counts), counts, Some(confusion))
        }
        Known::Multi { offsets, of, .. } => {
            let (mut threshold, mut top) = (ClassCounts::new(classes), ClassCounts::new(classes));
            let loss = plain(LossKind::BinaryCrossEntropy);
            solved.each_chunk(nodes, |nodes, logits| -> Result<(), PredictError> {
                let add = |counts: &mut ClassCounts, rule| {
                    let more = label_counts(rule, logits, nodes, offsets, of);
                    *counts = std::mem::replace(counts, ClassCounts::new(0)).merge(more);
                };
                add(&mut threshold, Rule::Threshold);
                add(&mut top, Rule::TopK);
                let targets = Targets::Labels { offsets, of };
                keep(logits, Some(loss.evaluate(logits, nodes, targets, None)));
                Ok(())
            })?;
            (Scores::of_label_counts(&threshold, &top), threshold, None)
        }
        Known::Number(of) => {
            let mut predicted = Vec::with_capacity(nodes.len());
            solved.each_chunk(nodes, |_, logits| -> Result<(), PredictError> {
                let rows = 0..logits.rows();
                predicted.extend(rows.filter_map(|row| solved.number(logits.row(row))));
                Ok(())
            })?;
            let truth: Vec<f64> = nodes.iter().map(|&node| of[node as usize]).collect();
            return Ok((Scores::of_numbers(&predicted, &truth), ClassCounts::new(0), None));
        }
    };
    let log_loss = (!nodes.is_empty()).then(|| loss_sum / nodes.len() as f64);
    let ranking = match &truth.labels {
        Known::Single(of) if ranked => Ranking::of_classes(kept.view(), nodes, of),
        Known::Multi { offsets, of, .. } if ranked => {
            Ranking::of_labels(kept.view(), nodes, offsets, of)
        }
        _ => Ranking::default(),
    };
    Ok((Scores { log_loss, ..scores }.with_ranking(ranking), counts, confusion))
}
