//! Strongly connected components of an adjacency. The largest spectral radius of a component is
//! that of the whole matrix. Components are numbered in the order of the search, which has no
//! meaning.
//!
//! Tarjan's algorithm with its recursion on a heap stack. Zero entries are not edges. Serial,
//! O(nodes + non-zeros), at most 16 bytes per node beyond the result.

use super::entries::is_nonzero;
use crate::kernels::AdjacencyRef;

/// The component of a node through which no cycle passes: alone and without a loop.
pub(crate) const NO_CYCLE: u32 = u32::MAX;

/// The components through which cycles pass.
#[derive(Debug, PartialEq)]
pub(crate) struct Components {
    /// Component of each node, or [`NO_CYCLE`].
    pub of: Vec<u32>,
    /// Number of components with a cycle.
    pub count: usize,
}

/// The position of the search in a node's row.
struct Frame {
    node: u32,
    at: usize,
}

impl Components {
    /// Finds the components.
    pub fn of(a: &AdjacencyRef) -> Self {
        let nodes = a.rows();
        let mut found = Self { of: vec![NO_CYCLE; nodes], count: 0 };
        // Visit number + 1; 0 before the visit, `DONE` when the component is known.
        const DONE: u32 = u32::MAX;
        let mut low = vec![0u32; nodes];
        let mut visited = 0;
        let (mut open, mut frames): (Vec<u32>, Vec<Frame>) = (Vec::new(), Vec::new());
        // The visit number of each node in `open`: it is needed when the node's row ends.
        let mut numbers: Vec<u32> = Vec::new();
        for root in 0..nodes as u32 {
            if low[root as usize] != 0 {
                continue;
            }
            frames.push(Frame { node: root, at: a.range(root as usize).start });
            while let Some(frame) = frames.last_mut() {
                let node = frame.node as usize;
                if low[node] == 0 {
                    visited += 1;
                    low[node] = visited;
                    open.push(frame.node);
                    numbers.push(visited);
                }
                let end = a.range(node).end;
                let mut child = None;
                while frame.at < end {
                    let neighbour = a.column(node, frame.at);
                    if is_nonzero(a, node, frame.at) {
                        if low[neighbour] == 0 {
                            child = Some(neighbour as u32);
                            break;
                        }
                        if low[neighbour] != DONE {
                            low[node] = low[node].min(low[neighbour]);
                        }
                    }
                    frame.at += 1;
                }
                if let Some(child) = child {
                    // The edge is visited again when the child is done and its number is known.
                    frames.push(Frame { node: child, at: a.range(child as usize).start });
                    continue;
                }
                frames.pop();
                let first = numbers.partition_point(|&number| number < low[node]);
                if open[first] as usize != node {
                    continue;
                }
                let members = open.len() - first;
                let cycle = members > 1 || has_loop(a, node);
                for &member in &open[first..] {
                    low[member as usize] = DONE;
                    if cycle {
                        found.of[member as usize] = found.count as u32;
                    }
                }
                found.count += usize::from(cycle);
                open.truncate(first);
                numbers.truncate(first);
            }
        }
        found
    }

    /// The members of all components, component by component, ascending within each.
    pub fn members(&self) -> Vec<u32> {
        let mut starts = vec![0usize; self.count + 1];
        let inside = |&&component: &&u32| component != NO_CYCLE;
        for &component in self.of.iter().filter(inside) {
            starts[component as usize + 1] += 1;
        }
        for component in 0..self.count {
            starts[component + 1] += starts[component];
        }
        let mut members = vec![0; starts[self.count]];
        for (node, &component) in
            self.of.iter().enumerate().filter(|(_, component)| inside(component))
        {
            members[starts[component as usize]] = node as u32;
            starts[component as usize] += 1;
        }
        members
    }
}

fn has_loop(a: &AdjacencyRef, node: usize) -> bool {
    a.range(node).any(|at| a.column(node, at) == node && is_nonzero(a, node, at))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Graph, Random};
    use super::*;

    /// Which nodes reach which, by repeated relaxation.
    fn reach(graph: &Graph) -> Vec<Vec<bool>> {
        let mut reach = vec![vec![false; graph.nodes]; graph.nodes];
        for _ in 0..graph.nodes {
            for &(from, to, value) in &graph.entries {
                if value != 0.0 {
                    reach[from][to] = true;
                    for row in &mut reach {
                        row[to] |= row[from];
                    }
                }
            }
        }
        reach
    }

    #[test]
    fn they_are_the_classes_of_mutual_reach() {
        let mut random = Random::new(7);
        for _ in 0..2000 {
            let graph = Graph::random(&mut random);
            let found = Components::of(&graph.csr(false).view());
            let reach = reach(&graph);
            for (i, of) in found.of.iter().enumerate() {
                assert_eq!(*of != NO_CYCLE, reach[i][i], "{graph:?}");
                for (j, other) in found.of.iter().enumerate() {
                    let same = of == other && *of != NO_CYCLE;
                    assert_eq!(same, reach[i][j] && reach[j][i], "{i} {j} in {graph:?}: {found:?}");
                }
            }
            let members = found.members();
            assert_eq!(members.len(), found.of.iter().filter(|&&c| c != NO_CYCLE).count());
            assert!(members.is_sorted_by_key(|&node| (found.of[node as usize], node)));
        }
    }

    #[test]
    fn a_long_cycle_does_not_overflow_the_stack() {
        let nodes = 300_000;
        let offsets: Vec<u64> = (0..=nodes).collect();
        let neighbours: Vec<u32> =
            (0..nodes as u32).map(|node| (node + 1) % nodes as u32).collect();
        let a = AdjacencyRef::new(nodes as usize, &offsets, &neighbours).unwrap();
        assert_eq!(Components::of(&a).count, 1);
    }
}
