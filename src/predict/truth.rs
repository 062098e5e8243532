//! The labels of a dataset, translated to the classes of a model. Classes are matched by name:
//! another graph may have them in another order, lack some of them, or have others.

use std::collections::HashMap;

use ignn_format::labels::{LabelKind, Labels};

/// Why labels cannot be compared with a model's predictions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TruthError {
    /// One class per item in one, sets of classes in the other.
    #[error(
        "labels of another kind than the model's (found {}, expected {})",
        words(*found),
        words(*expected)
    )]
    Kind {
        /// The dataset's.
        found: LabelKind,
        /// The model's.
        expected: LabelKind,
    },
    /// No class in common.
    #[error("no class of the dataset is one of the model's (found {found}, expected {expected})")]
    Classes {
        /// Some of the dataset's.
        found: String,
        /// Some of the model's.
        expected: String,
    },
    /// Another number than the one that the model predicts.
    #[error("numbers of another name than the model's (found {found:?}, expected {expected:?})")]
    Name {
        /// The dataset's.
        found: String,
        /// The model's.
        expected: String,
    },
}

fn words(kind: LabelKind) -> &'static str {
    match kind {
        LabelKind::Single => "one class per node",
        LabelKind::Multi => "sets of classes",
        LabelKind::Number => "numbers",
    }
}

/// Labels in the model's classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    pub(super) classes: Vec<String>,
    pub(super) labels: Known,
    unknown: Vec<String>,
    left_out: u64,
}

/// Labels as `metrics` takes them.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Known {
    Single(Vec<i32>),
    Multi { offsets: Vec<u64>, of: Vec<u32>, labelled: Vec<bool> },
    Number(Vec<f64>),
}

impl Truth {
    /// Translates the labels of all items to the classes of a model that predicts this kind.
    pub fn new(labels: Labels, classes: &[String], kind: LabelKind) -> Result<Self, TruthError> {
        let found = labels.kind();
        // A model of `train.task = regression` reads the names of classes as numbers.
        let labels = match kind {
            LabelKind::Number => {
                labels.into_numbers().map_err(|_| TruthError::Kind { found, expected: kind })?
            }
            _ => labels,
        };
        if let Labels::Number { name: [found], of } = labels {
            if kind != LabelKind::Number {
                return Err(TruthError::Kind { found: LabelKind::Number, expected: kind });
            }
            if let Some(expected) = classes.first().filter(|expected| **expected != found) {
                return Err(TruthError::Name { found, expected: expected.clone() });
            }
            let (classes, unknown) = (classes.to_vec(), Vec::new());
            return Ok(Self { classes, labels: Known::Number(of), unknown, left_out: 0 });
        }
        if found != kind {
            return Err(TruthError::Kind { found, expected: kind });
        }
        let known: HashMap<&str, u32> = classes.iter().map(String::as_str).zip(0..).collect();
        let map: Vec<Option<u32>> =
            labels.classes().iter().map(|name| known.get(name.as_str()).copied()).collect();
        if map.iter().all(Option::is_none) && !map.is_empty() {
            return Err(TruthError::Classes {
                found: some(labels.classes()),
                expected: some(classes),
            });
        }
        let unknown = labels.classes().iter().zip(&map).filter(|(_, class)| class.is_none());
        let unknown: Vec<String> = unknown.map(|(name, _)| name.clone()).collect();
        let mut left_out = 0;
        let labels = match labels {
            Labels::Single { mut of, .. } => {
                for class in &mut of {
                    let Ok(own) = usize::try_from(*class) else { continue };
                    *class = map[own].map_or(-1, |class| class as i32);
                    left_out += u64::from(*class < 0);
                }
                Known::Single(of)
            }
            Labels::Multi { offsets, of, mut labelled, .. } => {
                let (mut ends, mut classes) = (vec![0], Vec::with_capacity(of.len()));
                for (range, labelled) in offsets.windows(2).zip(&mut labelled) {
                    let first = classes.len();
                    let set = &of[range[0] as usize..range[1] as usize];
                    classes.extend(set.iter().filter_map(|&class| map[class as usize]));
                    classes[first..].sort_unstable();
                    // All of its classes are unknown to the model.
                    *labelled &= set.is_empty() || first < classes.len();
                    ends.push(classes.len() as u64);
                }
                left_out = (of.len() - classes.len()) as u64;
                Known::Multi { offsets: ends, of: classes, labelled }
            }
            Labels::Number { of, .. } => Known::Number(of),
        };
        Ok(Self { classes: classes.to_vec(), labels, unknown, left_out })
    }

    /// Classes of the dataset that the model does not know.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// The number of labels of those classes, which are left out of all scores.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether an item has a label that the model knows.
    pub fn is_labelled(&self, node: u32) -> bool {
        let node = node as usize;
        match &self.labels {
            Known::Single(of) => of[node] >= 0,
            Known::Multi { labelled, .. } => labelled[node],
            Known::Number(of) => !of[node].is_nan(),
        }
    }
}

/// The first few names.
fn some(names: &[String]) -> String {
    let shown = names.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > 5 { format!("{shown}, ...") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn classes_are_matched_by_name() {
        let labels =
            Labels::Single { classes: names(&["red", "new", "blue"]), of: vec![0, 1, 2, -1, 2] };
        let truth =
            Truth::new(labels, &names(&["blue", "green", "red"]), LabelKind::Single).unwrap();
        assert_eq!(truth.labels, Known::Single(vec![2, -1, 0, -1, 0]));
        assert_eq!((truth.unknown(), truth.left_out()), (&names(&["new"])[..], 1));
        assert_eq!([0, 1, 3].map(|node| truth.is_labelled(node)), [true, false, false]);
        let (offsets, of) = (vec![0, 3, 3, 4, 4], vec![0, 1, 2, 1]);
        let labelled = vec![true, false, true, true];
        let classes = names(&["red", "new", "blue"]);
        let labels = Labels::Multi { classes, offsets, of, labelled };
        let truth =
            Truth::new(labels, &names(&["blue", "green", "red"]), LabelKind::Multi).unwrap();
        let labelled = vec![true, false, false, true];
        let offsets = vec![0, 2, 2, 2, 2];
        assert_eq!(truth.labels, Known::Multi { offsets, of: vec![0, 2], labelled });
        assert_eq!(truth.left_out(), 2);
        // The third node has no class that the model knows; the fourth is known to have none.
        assert_eq!([0, 1, 2, 3].map(|node| truth.is_labelled(node)), [true, false, false, true]);
    }

    #[test]
    fn numbers_are_compared_by_their_name_and_classes_may_be_numbers() {
        let price = Labels::numbers("price", vec![1.5, f64::NAN]);
        let truth = Truth::new(price.clone(), &names(&["price"]), LabelKind::Number).unwrap();
        assert_eq!([0, 1].map(|node| truth.is_labelled(node)), [true, false]);
        let message = |labels: Labels, name: &str, kind| {
            Truth::new(labels, &names(&[name]), kind).unwrap_err().to_string()
        };
        assert_eq!(
            message(price.clone(), "size", LabelKind::Number),
            "numbers of another name than the model's (found \"price\", expected \"size\")"
        );
        let other = "labels of another kind than the model's (found numbers, expected one class \
                     per node)";
        assert_eq!(message(price, "a", LabelKind::Single), other);
        let years = |of: &str| Labels::Single { classes: names(&["1990", of]), of: vec![1, -1] };
        let truth = Truth::new(years("2005"), &names(&["label"]), LabelKind::Number).unwrap();
        assert!(matches!(&truth.labels, Known::Number(of) if of[0] == 2005.0 && of[1].is_nan()));
        let other = "labels of another kind than the model's (found one class per node, expected \
                     numbers)";
        assert_eq!(message(years("never"), "label", LabelKind::Number), other);
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let labels =
            Labels::Single { classes: names(&["a", "b", "c", "d", "e", "f"]), of: vec![0] };
        let error =
            Truth::new(labels.clone(), &names(&["x"]), LabelKind::Single).unwrap_err().to_string();
        let expected =
            "no class of the dataset is one of the model's (found a, b, c, d, e, ..., expected x)";
        assert_eq!(error, expected);
        let error = Truth::new(labels, &names(&["a"]), LabelKind::Multi).unwrap_err().to_string();
        let expected = "labels of another kind than the model's (found one class per node, \
                        expected sets of classes)";
        assert_eq!(error, expected);
    }
}
