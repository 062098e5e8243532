//! Stratified folds of the labelled items of a dataset, which are graphs or nodes, and the training,
//! validation and test part of each. It opens no dataset and trains nothing.
//!
//! The items of each class are shuffled by the seed and distributed to the folds in turn, the next
//! class starting where the last one ended: the sizes of folds, and of a class in them, differ by
//! at most one. Where items have numbers, those of equal rank, as many as there are folds, take the
//! place of a class; items with sets of classes are shuffled alone. Fold k is tested on its own items,
//! chooses its epoch on those of fold k + 1 (modulo the number of folds), and trains on all others.

use std::path::{Path, PathBuf};

use ignn_format::graphs::Graphs;
use ignn_format::labels::Labels;

use super::Parts;
use crate::nn::random;

/// Smallest number of folds: one for testing, one for validation, one for training.
pub const FEWEST: usize = 3;
/// Largest number of folds.
pub const MOST: usize = u16::MAX as usize;

/// The fold of an item without a label.
const NO_FOLD: u32 = u32::MAX;

/// Why items cannot be divided into folds.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FoldError {
    /// A number of folds out of range.
    #[error("number of folds (found {found}, expected {FEWEST} to {MOST})")]
    Count {
        /// The number asked for.
        found: usize,
    },
    /// Graphs without labels.
    #[error(
        "{}: cross-validation needs labels (found many graphs without any): `ignn ingest tu` and \
         `ignn ingest dgcnn` make graphs with labels",
        path.display()
    )]
    NoLabels {
        /// The dataset.
        path: PathBuf,
    },
    /// Graphs without a label among others.
    #[error(
        "{}: labels are missing (found {count} of {all} graphs without one, \
         the first is graph {first}; expected a label for each)",
        path.display()
    )]
    Unlabelled {
        /// The dataset.
        path: PathBuf,
        /// Number of graphs without a label.
        count: usize,
        /// Number of graphs.
        all: usize,
        /// The user's id of the first.
        first: String,
    },
    /// A graph without nodes.
    #[error("{}: graph {id} has no nodes (expected at least one in each graph)", path.display())]
    Empty {
        /// The dataset.
        path: PathBuf,
        /// The user's id.
        id: String,
    },
    /// More folds than items.
    #[error(
        "{}: too few {items} (found {count}, expected at least one for each of {folds} folds): {}",
        path.display(), fewer(*count)
    )]
    TooFew {
        /// The dataset.
        path: PathBuf,
        /// "graphs", "labelled nodes".
        items: &'static str,
        /// Number of items.
        count: usize,
        /// Folds.
        folds: usize,
    },
    /// A fold with one number only.
    #[error(
        "{}: all {items} of fold {fold} have the same number, {number} (expected at least two \
         different ones in each of {folds} folds): use fewer --folds",
        path.display()
    )]
    OneNumber {
        /// The dataset.
        path: PathBuf,
        /// "graphs", "labelled nodes".
        items: &'static str,
        /// The fold, from 0.
        fold: usize,
        /// Their number.
        number: f64,
        /// Folds.
        folds: usize,
    },
    /// A fold without at least two classes.
    #[error(
        "{}: fold {fold} has one class only, {class:?} (found {other} {items} of other classes for \
         {folds} folds, expected at least one for each fold): {hint}",
        path.display()
    )]
    OneClass {
        /// The dataset.
        path: PathBuf,
        /// The fold, from 0.
        fold: usize,
        /// Its class.
        class: String,
        /// "graphs", "labelled nodes".
        items: &'static str,
        /// Items of all other classes.
        other: usize,
        /// Folds.
        folds: usize,
        /// What to do.
        hint: String,
    },
}

/// The largest number of folds that so many items can have, as advice.
fn fewer(items: usize) -> String {
    match items {
        0..FEWEST => "there are too few of them for any folds".into(),
        items => format!("use --folds {items} or fewer"),
    }
}

/// The labels of the graphs of a dataset, whose path is named in messages. Each has one, and nodes.
pub fn labels_of(graphs: &Graphs, path: &Path) -> Result<Labels, FoldError> {
    let path = || path.to_path_buf();
    let Some(labels) = graphs.item_labels() else {
        return Err(FoldError::NoLabels { path: path() });
    };
    if let Some(graph) = graphs.first_node.windows(2).position(|ends| ends[0] == ends[1]) {
        return Err(FoldError::Empty { path: path(), id: graphs.ids[graph].clone() });
    }
    let mut unlabelled = (0..graphs.len()).filter(|&graph| !labels.is_labelled(graph));
    if let Some(first) = unlabelled.next() {
        let (count, first) = (1 + unlabelled.count(), graphs.ids[first].clone());
        return Err(FoldError::Unlabelled { path: path(), count, all: graphs.len(), first });
    }
    Ok(labels)
}

/// The fold of each labelled item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folds {
    of: Vec<u32>,
    count: usize,
}

impl Folds {
    /// Deals the labelled items of a dataset to `count` folds: at least [`FEWEST`] and at most
    /// [`MOST`]. `items` ("graphs", "labelled nodes") and `path` are named in messages.
    pub fn stratified(
        labels: &Labels,
        items: &'static str,
        count: usize,
        seed: u64,
        path: &Path,
    ) -> Result<Self, FoldError> {
        if !(FEWEST..=MOST).contains(&count) {
            return Err(FoldError::Count { found: count });
        }
        let all = labels.nodes() as u32;
        let mut order: Vec<u32> =
            (0..all).filter(|&item| labels.is_labelled(item as usize)).collect();
        if order.len() < count {
            let path = path.into();
            return Err(FoldError::TooFew { path, items, count: order.len(), folds: count });
        }
        let mut stratum = vec![0; all as usize];
        match labels {
            Labels::Single { of, .. } => {
                order.iter().for_each(|&item| stratum[item as usize] = of[item as usize] as usize);
            }
            Labels::Number { of, .. } => {
                order.sort_by(|&a, &b| of[a as usize].total_cmp(&of[b as usize]));
                for (rank, &item) in order.iter().enumerate() {
                    stratum[item as usize] = rank / count;
                }
            }
            Labels::Multi { .. } => {}
        }
        let stream = random::Stream::new(seed, "folds");
        order.sort_by_key(|&item| {
            (stratum[item as usize], stream.row(u64::from(item)).bits(0), item)
        });
        let mut of = vec![NO_FOLD; all as usize];
        for (place, &item) in order.iter().enumerate() {
            of[item as usize] = (place % count) as u32;
        }
        let folds = Self { of, count };
        folds.check(labels, items, path)?;
        Ok(folds)
    }

    /// Refuses folds in which nothing can be told apart.
    fn check(&self, labels: &Labels, items: &'static str, path: &Path) -> Result<(), FoldError> {
        for fold in 0..self.count {
            let own = self.items(|of| of == fold);
            let (first, path, folds) = (own[0] as usize, path.into(), self.count);
            match labels {
                Labels::Number { of, .. } => {
                    let number = of[first];
                    if own.iter().all(|&item| of[item as usize] == number) {
                        return Err(FoldError::OneNumber { path, items, fold, number, folds });
                    }
                }
                Labels::Single { classes, of } => {
                    let class = of[first];
                    if own.iter().any(|&item| of[item as usize] != class) {
                        continue;
                    }
                    let other = of.iter().filter(|&&of| of >= 0 && of != class).count();
                    let hint = match other {
                        0 => "there is nothing to classify".to_string(),
                        other => fewer(other),
                    };
                    let class = classes[class as usize].clone();
                    return Err(FoldError::OneClass {
                        path,
                        fold,
                        class,
                        items,
                        other,
                        folds,
                        hint,
                    });
                }
                Labels::Multi { .. } => {}
            }
        }
        Ok(())
    }

    /// Number of folds.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The items with a label, with the fold of each.
    pub fn of(&self) -> impl Iterator<Item = (usize, u32)> {
        self.of.iter().copied().enumerate().filter(|&(_, fold)| fold != NO_FOLD)
    }

    /// The items that this fold trains on, chooses its epoch on and is tested on.
    ///
    /// # Panics
    /// If there is no such fold.
    pub fn parts(&self, fold: usize) -> Parts {
        assert!(fold < self.count, "a fold");
        let next = (fold + 1) % self.count;
        Parts {
            train: self.items(|of| of != fold && of != next),
            validation: self.items(|of| of == next),
            test: self.items(|of| of == fold),
        }
    }

    fn items(&self, is_own: impl Fn(usize) -> bool) -> Vec<u32> {
        let own = self.of().filter(|&(_, fold)| is_own(fold as usize));
        own.map(|(item, _)| item as u32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graphs(labels: &[i32]) -> Graphs {
        Graphs {
            ids: (0..labels.len()).map(|graph| format!("g{graph}")).collect(),
            first_node: (0..=labels.len() as u64).collect(),
            classes: vec!["a".into(), "b".into(), "c".into()],
            labels: labels.to_vec(),
            numbers: Vec::new(),
            splits: Vec::new(),
        }
    }

    fn stratified(graphs: &Graphs, count: usize, seed: u64) -> Result<Folds, FoldError> {
        let path = Path::new("d");
        Folds::stratified(&labels_of(graphs, path)?, "graphs", count, seed, path)
    }

    fn refusal(graphs: &Graphs, folds: usize) -> String {
        stratified(graphs, folds, 0).unwrap_err().to_string()
    }

    #[test]
    fn classes_are_spread_evenly_and_every_graph_is_tested_and_validates_once() {
        let labels: Vec<i32> = (0..131).map(|i| [0, 1, 1, 2, 1][i % 5]).collect();
        let graphs = graphs(&labels);
        let folds = stratified(&graphs, 7, 3).unwrap();
        let (mut tested, mut validated) = (vec![0; 131], vec![0; 131]);
        for fold in 0..7 {
            let Parts { train, validation, test } = folds.parts(fold);
            assert_eq!(train.len() + validation.len() + test.len(), 131);
            assert!(test.len() == 131 / 7 || test.len() == 131 / 7 + 1);
            test.iter().for_each(|&graph| tested[graph as usize] += 1);
            validation.iter().for_each(|&graph| validated[graph as usize] += 1);
            assert!(train.iter().all(|graph| !validation.contains(graph) && !test.contains(graph)));
            for class in 0..3 {
                let all = labels.iter().filter(|&&label| label == class).count();
                let own = test.iter().filter(|&&graph| labels[graph as usize] == class).count();
                assert!(own == all / 7 || own == all / 7 + 1, "class {class}: {own} of {all}");
            }
        }
        assert!(tested.iter().chain(&validated).all(|&times| times == 1));
        assert_eq!(folds, stratified(&graphs, 7, 3).unwrap());
        assert_ne!(folds, stratified(&graphs, 7, 4).unwrap());
    }

    #[test]
    fn what_cannot_be_folded_is_refused() {
        let labels = [0, 1, 0, 1, 0, 1, 0, 0, 0, 0];
        assert_eq!(
            refusal(&graphs(&labels), 5),
            "d: fold 0 has one class only, \"a\" (found 3 graphs of other classes for 5 folds, \
             expected at least one for each fold): use --folds 3 or fewer"
        );
        assert_eq!(
            refusal(&graphs(&[0; 10]), 5),
            "d: fold 0 has one class only, \"a\" (found 0 graphs of other classes for 5 folds, \
             expected at least one for each fold): there is nothing to classify"
        );
        assert!(stratified(&graphs(&labels), 3, 0).is_ok());
        assert_eq!(
            refusal(&graphs(&labels), 11),
            "d: too few graphs (found 10, expected at least one for each of 11 folds): \
             use --folds 10 or fewer"
        );
        assert_eq!(
            refusal(&graphs(&[0, -1, 1, -1]), 3),
            "d: labels are missing (found 2 of 4 graphs without one, the first is graph g1; \
             expected a label for each)"
        );
        let mut empty = graphs(&labels);
        empty.first_node[4] = 3;
        assert_eq!(
            refusal(&empty, 3),
            "d: graph g3 has no nodes (expected at least one in each graph)"
        );
        empty.labels.clear();
        assert_eq!(
            refusal(&empty, 3),
            "d: cross-validation needs labels (found many graphs without any): `ignn ingest tu` and \
             `ignn ingest dgcnn` make graphs with labels"
        );
    }

    #[test]
    fn numbers_are_spread_by_their_size_and_unlabelled_nodes_are_in_no_fold() {
        let folds = |of: Vec<f64>, count| {
            let labels = Labels::numbers("y", of);
            Folds::stratified(&labels, "labelled nodes", count, 1, Path::new("d"))
        };
        let number = |node: u32| f64::from(node * 37 % 100).exp();
        let of = |node| if node % 10 == 3 { f64::NAN } else { number(node) };
        let even = folds((0..100).map(of).collect(), 6).unwrap();
        assert_eq!(even.of().count(), 90);
        for fold in 0..6 {
            let Parts { train, validation, test } = even.parts(fold);
            assert_eq!([train.len(), validation.len(), test.len()], [60, 15, 15]);
            // One of every six in the order of size.
            let mut powers: Vec<u32> = test.iter().map(|node| node * 37 % 100).collect();
            powers.sort_unstable();
            assert!(powers.windows(2).all(|two| two[1] - two[0] < 15), "{powers:?}");
        }
        let refusal = |of: Vec<f64>, count| folds(of, count).unwrap_err().to_string();
        assert_eq!(
            refusal(vec![2.5; 10], 3),
            "d: all labelled nodes of fold 0 have the same number, 2.5 (expected at least two \
             different ones in each of 3 folds): use fewer --folds"
        );
        assert_eq!(
            refusal(vec![1.0, f64::NAN, 2.0], 3),
            "d: too few labelled nodes (found 2, expected at least one for each of 3 folds): there \
             are too few of them for any folds"
        );
    }
}
