//! A baseline without a model: a node gets the classes that at least half of the training nodes
//! with the same feature row have. A node whose row does not occur in training gets those that at
//! least half of all training nodes have. It shows what memorising rows achieves, which is a
//! baseline for the scores of a model on unseen graphs.

use std::collections::HashMap;

use super::{Task, TrainError};
use crate::dense::Matrix;
use crate::metrics::Scores;
use crate::nn::Features;

/// How often the nodes of a group have each class.
#[derive(Clone)]
struct Group {
    nodes: u32,
    classes: Vec<u32>,
}

impl Group {
    fn new(classes: usize) -> Self {
        Self { nodes: 0, classes: vec![0; classes] }
    }

    fn add(&mut self, classes: impl Iterator<Item = usize>) {
        self.nodes += 1;
        classes.for_each(|class| self.classes[class] += 1);
    }

    /// At least 0 if and only if at least half of the nodes have the class.
    fn logit(&self, class: usize) -> f32 {
        self.classes[class] as f32 / self.nodes.max(1) as f32 - 0.5
    }
}

/// Scores of the lookup on some nodes; `None` where nodes have no features, or graphs have the
/// labels, or labels are numbers.
pub fn scores(task: &Task, nodes: &[u32]) -> Result<Option<Scores>, TrainError> {
    if task.facts(Vec::new()).pools || task.scaling().is_some() {
        return Ok(None);
    }
    let features = task.features()?;
    let row = |node: u32| row(&features, node as usize);
    let classes = task.labels().classes().len();
    let (mut all, mut groups) = (Group::new(classes), HashMap::new());
    for &node in &task.parts().train {
        let Some(row) = row(node) else { return Ok(None) };
        all.add(task.targets().classes_of(node));
        let group = groups.entry(row).or_insert_with(|| Group::new(classes));
        group.add(task.targets().classes_of(node));
    }
    let of: Vec<&Group> = nodes
        .iter()
        .map(|&node| row(node).and_then(|row| groups.get(&row)).unwrap_or(&all))
        .collect();
    let logits = Matrix::from_fn(nodes.len(), classes, |at, class| of[at].logit(class));
    Ok(Some(task.scores(logits.view(), nodes, false)))
}

/// The bits of a feature row; equal if and only if its values are.
fn row(features: &Features, node: usize) -> Option<Vec<u32>> {
    // Both zeros become the same one.
    let bits = |x: &f32| (x + 0.0).to_bits();
    match features {
        Features::Dense(matrix) => Some(matrix.row(node).iter().map(bits).collect()),
        Features::Sparse { rows, .. } => {
            let entries = rows.offsets[node] as usize..rows.offsets[node + 1] as usize;
            let both = rows.columns[entries.clone()].iter().zip(&rows.values[entries]);
            Some(both.filter(|(_, x)| **x != 0.0).flat_map(|(k, x)| [*k, bits(x)]).collect())
        }
        Features::Learned => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::graph::{GraphBuilder, Labels};

    #[test]
    fn nodes_get_the_classes_that_half_of_their_equals_have() {
        // Nodes 0 to 3 train: three with one row, of which two have class 0 and one has class 1;
        // and one with another row and class 1. Node 6 has a row that training does not have.
        let features = vec![1.0, 0.0, 1.0, -0.0, 1.0, 0.0, 0.0, 2.0, 1.0, 0.0, 0.0, 2.0, 5.0, 5.0];
        let sets: [&[u32]; 7] = [&[0], &[0], &[1], &[1], &[0], &[0, 1], &[0]];
        let mut offsets = vec![0];
        sets.iter().for_each(|set| offsets.push(offsets.last().unwrap() + set.len() as u64));
        let labels = Labels::sets(vec!["a".into(), "b".into()], offsets, sets.concat());
        let graph = GraphBuilder::new(7)
            .edges([(0, 1)])
            .features(2, features)
            .labels(labels)
            .split([0, 1, 2, 3], [], [4, 5, 6])
            .build()
            .unwrap();
        let task = Task::open(graph, &Config::default()).unwrap();
        let of = |node: u32| scores(&task, &[node]).unwrap().unwrap().micro_f1.unwrap();
        // Node 4 is predicted to be {0} and is; node 5 {1} of {0, 1}; node 6 {0, 1}, as half of all
        // training nodes have each, but is {0}.
        assert_eq!([of(4), of(5), of(6)], [1.0, 2.0 / 3.0, 2.0 / 3.0]);
    }

    #[test]
    fn without_features_there_is_nothing_to_look_up() {
        let graph = GraphBuilder::new(2)
            .edges([(0, 1)])
            .classes(["a", "b"], [Some(0), Some(1)])
            .split([0], [], [1])
            .build()
            .unwrap();
        let task = Task::open(graph, &Config::default()).unwrap();
        assert_eq!(scores(&task, &[1]).unwrap(), None);
    }
}
