//! Logits to probabilities, and classes by rank: one row at a time.

use ignn_format::labels::LabelKind;

use crate::metrics::top_classes;

/// Probabilities of a row of logits: a softmax where an item has one class, sigmoids where it has a
/// set of classes. None for a number.
///
/// ```
/// use ignn::graph::LabelKind;
/// use ignn::predict::probabilities;
///
/// let mut out = Vec::new();
/// probabilities(LabelKind::Single, &[0.0, 3f32.ln()], &mut out);
/// assert!((out[1] - 0.75).abs() < 1e-6);
/// probabilities(LabelKind::Multi, &[0.0, 30.0], &mut out);
/// assert_eq!(out, [0.5, 1.0]);
/// ```
pub fn probabilities(labels: LabelKind, logits: &[f32], out: &mut Vec<f32>) {
    out.clear();
    match labels {
        LabelKind::Number => {}
        LabelKind::Single => {
            let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let power = |&logit: &f32| f64::from(logit - highest).exp();
            let sum: f64 = logits.iter().map(power).sum();
            out.extend(logits.iter().map(|logit| (power(logit) / sum) as f32));
        }
        LabelKind::Multi => {
            out.extend(logits.iter().map(|&logit| (1.0 / (1.0 + f64::from(-logit).exp())) as f32));
        }
    }
}

/// The classes of the k highest scores, highest first; the lower class first where scores are
/// equal. `order` is scratch memory.
///
/// ```
/// use ignn::predict::ranked_classes;
///
/// assert_eq!(ranked_classes(&[0.5, 2.0, -1.0, 2.0], 3, &mut Vec::new()), [1, 3, 0]);
/// ```
pub fn ranked_classes<'a>(scores: &[f32], k: usize, order: &'a mut Vec<u32>) -> &'a [u32] {
    let taken = top_classes(scores, k, order).len();
    let score = |class: u32| scores[class as usize] + 0.0;
    order[..taken].sort_unstable_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)));
    &order[..taken]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up_and_do_not_overflow() {
        let mut out = Vec::new();
        probabilities(LabelKind::Single, &[1000.0, 1000.0, -1000.0], &mut out);
        assert_eq!(out, [0.5, 0.5, 0.0]);
        probabilities(LabelKind::Single, &[0.0, 3f32.ln()], &mut out);
        assert!((out[0] - 0.25).abs() < 1e-7 && (out[1] - 0.75).abs() < 1e-7);
        probabilities(LabelKind::Multi, &[0.0, 1e4, -1e4], &mut out);
        assert_eq!(out, [0.5, 1.0, 0.0]);
    }

    #[test]
    fn classes_are_ranked() {
        let mut order = Vec::new();
        assert_eq!(ranked_classes(&[0.5, 2.0, -0.0, 2.0, 0.0], 4, &mut order), [1, 3, 0, 2]);
        assert_eq!(ranked_classes(&[0.5, 2.0], 9, &mut order), [1, 0]);
        assert!(ranked_classes(&[0.5, 2.0], 0, &mut order).is_empty());
    }
}
