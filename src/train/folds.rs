//! Stratified folds of the graphs of a dataset, and the training, validation and test part of each.
//! It opens no dataset and trains nothing.
//!
//! The graphs of each class are shuffled by the seed and distributed to the folds in turn, the next
//! class starting where the last one ended: the sizes of folds, and of a class in them, differ by
//! at most one. Fold k is tested on its own graphs, chooses its epoch on those of fold k + 1
//! (modulo the number of folds), and trains on all others.

use std::path::PathBuf;

use ignn_format::graphs::Graphs;

use super::Parts;
use crate::nn::random;

/// Smallest number of folds: one for testing, one for validation, one for training.
pub const FEWEST: usize = 3;
/// Largest number of folds.
pub const MOST: usize = u16::MAX as usize;

/// Why graphs cannot be divided into folds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldError {
    /// Numbers instead of classes.
    #[error(
        "{}: graphs have numbers, and folds are drawn by class (expected classes): use `ignn train` \
         on a split over graphs",
        path.display()
    )]
    Numbers {
        /// The dataset.
        path: PathBuf,
    },
    /// A number of folds out of range.
    #[error("number of folds (found {found}, expected {FEWEST} to {MOST})")]
    Count {
        /// The number asked for.
        found: usize,
    },
    /// One graph, or graphs without labels.
    #[error(
        "{}: cross-validation needs many graphs with labels (found {found}): \
         `ignn ingest tu` and `ignn ingest dgcnn` make such datasets",
        path.display()
    )]
    NoLabels {
        /// The dataset.
        path: PathBuf,
        /// "one graph", "graphs without labels".
        found: &'static str,
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
    /// More folds than graphs.
    #[error(
        "{}: too few graphs (found {graphs}, expected at least one for each of {folds} folds): \
         use --folds {graphs} or fewer",
        path.display()
    )]
    TooFew {
        /// The dataset.
        path: PathBuf,
        /// Graphs.
        graphs: usize,
        /// Folds.
        folds: usize,
    },
    /// A fold without at least two classes.
    #[error(
        "{}: fold {fold} has one class only, {class:?} (found {other} graphs of other classes for \
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
        /// Graphs of all other classes.
        other: usize,
        /// Folds.
        folds: usize,
        /// What to do.
        hint: String,
    },
}

/// The fold of each graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folds {
    of: Vec<u32>,
    count: usize,
}

impl Folds {
    /// Deals the graphs of a dataset to `count` folds; `path` is named in messages.
    ///
    /// At least [`FEWEST`] and at most [`MOST`].
    pub fn stratified(
        graphs: Option<&Graphs>,
        count: usize,
        seed: u64,
        path: &std::path::Path,
    ) -> Result<Self, FoldError> {
        if !(FEWEST..=MOST).contains(&count) {
            return Err(FoldError::Count { found: count });
        }
        let path = || path.to_path_buf();
        let graphs =
            graphs.ok_or_else(|| FoldError::NoLabels { path: path(), found: "one graph" })?;
        if !graphs.numbers.is_empty() {
            return Err(FoldError::Numbers { path: path() });
        }
        if graphs.labels.is_empty() {
            return Err(FoldError::NoLabels { path: path(), found: "graphs without labels" });
        }
        if let Some(graph) = graphs.first_node.windows(2).position(|ends| ends[0] == ends[1]) {
            return Err(FoldError::Empty { path: path(), id: graphs.ids[graph].clone() });
        }
        let mut unlabelled = (0..graphs.len()).filter(|&graph| graphs.labels[graph] < 0);
        if let Some(first) = unlabelled.next() {
            let (count, first) = (1 + unlabelled.count(), graphs.ids[first].clone());
            return Err(FoldError::Unlabelled { path: path(), count, all: graphs.len(), first });
        }
        if graphs.len() < count {
            return Err(FoldError::TooFew { path: path(), graphs: graphs.len(), folds: count });
        }
        let stream = random::Stream::new(seed, "folds");
        let mut order: Vec<u32> = (0..graphs.len() as u32).collect();
        order.sort_by_key(|&graph| {
            (graphs.labels[graph as usize], stream.row(u64::from(graph)).bits(0), graph)
        });
        let mut of = vec![0; graphs.len()];
        for (place, &graph) in order.iter().enumerate() {
            of[graph as usize] = (place % count) as u32;
        }
        let folds = Self { of, count };
        folds.check_classes(graphs, path())?;
        Ok(folds)
    }

    fn check_classes(&self, graphs: &Graphs, path: PathBuf) -> Result<(), FoldError> {
        for fold in 0..self.count {
            let own = self.graphs(|of| of == fold);
            let class = graphs.labels[own[0] as usize];
            if own.iter().any(|&graph| graphs.labels[graph as usize] != class) {
                continue;
            }
            let other = graphs.labels.iter().filter(|&&label| label != class).count();
            let hint = match other {
                0 => "there is nothing to classify".to_string(),
                other if other < FEWEST => "there are too few of them for any folds".to_string(),
                other => format!("use --folds {other} or fewer"),
            };
            let class = graphs.classes[class as usize].clone();
            return Err(FoldError::OneClass { path, fold, class, other, folds: self.count, hint });
        }
        Ok(())
    }

    /// Number of folds.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The fold of each graph.
    pub fn of(&self) -> &[u32] {
        &self.of
    }

    /// The graphs that this fold trains on, chooses its epoch on and is tested on.
    ///
    /// # Panics
    /// If there is no such fold.
    pub fn parts(&self, fold: usize) -> Parts {
        assert!(fold < self.count, "a fold");
        let next = (fold + 1) % self.count;
        Parts {
            train: self.graphs(|of| of != fold && of != next),
            validation: self.graphs(|of| of == next),
            test: self.graphs(|of| of == fold),
        }
    }

    fn graphs(&self, is_own: impl Fn(usize) -> bool) -> Vec<u32> {
        (0..)
            .zip(&self.of)
            .filter(|(_, of)| is_own(**of as usize))
            .map(|(graph, _)| graph)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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

    fn refusal(graphs: Option<&Graphs>, folds: usize) -> String {
        Folds::stratified(graphs, folds, 0, Path::new("d")).unwrap_err().to_string()
    }

    #[test]
    fn classes_are_spread_evenly_and_every_graph_is_tested_and_validates_once() {
        let labels: Vec<i32> = (0..131).map(|i| [0, 1, 1, 2, 1][i % 5]).collect();
        let graphs = graphs(&labels);
        let folds = Folds::stratified(Some(&graphs), 7, 3, Path::new("d")).unwrap();
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
        assert_eq!(folds, Folds::stratified(Some(&graphs), 7, 3, Path::new("d")).unwrap());
        assert_ne!(folds, Folds::stratified(Some(&graphs), 7, 4, Path::new("d")).unwrap());
    }

    #[test]
    fn what_cannot_be_folded_is_refused() {
        let labels = [0, 1, 0, 1, 0, 1, 0, 0, 0, 0];
        assert_eq!(
            refusal(Some(&graphs(&labels)), 5),
            "d: fold 0 has one class only, \"a\" (found 3 graphs of other classes for 5 folds, \
             expected at least one for each fold): use --folds 3 or fewer"
        );
        assert_eq!(
            refusal(Some(&graphs(&[0; 10])), 5),
            "d: fold 0 has one class only, \"a\" (found 0 graphs of other classes for 5 folds, \
             expected at least one for each fold): there is nothing to classify"
        );
        assert!(Folds::stratified(Some(&graphs(&labels)), 3, 0, Path::new("d")).is_ok());
        assert_eq!(
            refusal(Some(&graphs(&labels)), 11),
            "d: too few graphs (found 10, expected at least one for each of 11 folds): \
             use --folds 10 or fewer"
        );
        assert_eq!(
            refusal(Some(&graphs(&[0, -1, 1, -1])), 3),
            "d: labels are missing (found 2 of 4 graphs without one, the first is graph g1; \
             expected a label for each)"
        );
        let mut empty = graphs(&labels);
        empty.first_node[4] = 3;
        assert_eq!(
            refusal(Some(&empty), 3),
            "d: graph g3 has no nodes (expected at least one in each graph)"
        );
        let kinds = "`ignn ingest tu` and `ignn ingest dgcnn` make such datasets";
        assert_eq!(
            refusal(None, 3),
            format!("d: cross-validation needs many graphs with labels (found one graph): {kinds}")
        );
        empty.labels.clear();
        assert_eq!(
            refusal(Some(&empty), 3),
            format!(
                "d: cross-validation needs many graphs with labels (found graphs without labels): {kinds}"
            )
        );
    }
}
