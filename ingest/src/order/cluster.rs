//! An order that places clusters of nodes together, and within them smaller clusters.
//!
//! Nodes are merged into their neighbours one by one, those with the fewest edges first, each into
//! the cluster that raises the modularity most, as in the first phase of Rabbit Order (Arai et al.,
//! IPDPS 2016). Where no merge raises it, the penalty of large clusters is lowered and the clusters
//! are merged in the same way, until each component of the graph is one cluster. The merges form a
//! forest; its nodes in depth-first order are the order.

use super::Pattern;

/// The penalty of large clusters is multiplied by this from round to round.
const RELIEF: f64 = 0.25;

/// Below this the penalty is zero, so that all that is connected is merged.
const SMALLEST_PENALTY: f64 = 1e-7;

const NONE: u32 = u32::MAX;

/// The nodes in the new order.
pub fn sequence(pattern: &Pattern) -> Vec<u32> {
    let nodes = pattern.incoming.rows();
    let mut forest = Forest::new(nodes);
    let mut clusters = Clusters::new(pattern);
    let mut roots: Vec<u32> = (0..nodes as u32).collect();
    let mut penalty = 1.0;
    for round in 0.. {
        roots.sort_by_key(|&root| clusters.degree[root as usize]);
        let neighbours = (round == 0).then_some(pattern);
        let mut is_done = true;
        for &root in &roots {
            clusters.collect(root, neighbours);
            is_done &= clusters.reached.is_empty();
            if let Some(into) = clusters.merge(root, penalty) {
                forest.attach(root, into);
            }
        }
        roots.retain(|&root| clusters.parent[root as usize] == root);
        if is_done {
            break;
        }
        penalty = if penalty < SMALLEST_PENALTY { 0.0 } else { penalty * RELIEF };
    }
    roots.sort_unstable();
    forest.depth_first(&roots)
}

/// Clusters of nodes, each known by one of them, its root.
struct Clusters {
    /// Towards the root of a node; a root is its own parent.
    parent: Vec<u32>,
    /// Sum of the degrees in a root's cluster.
    degree: Vec<u64>,
    /// Entries from a root's cluster to others: a node of the other cluster and how many.
    entries: Vec<Vec<(u32, u32)>>,
    /// Sum of all degrees.
    total: f64,
    /// Other clusters that the one at hand has entries to, by their roots.
    reached: Vec<u32>,
    /// How many entries it has to them; zero for all others.
    count: Vec<u32>,
}

impl Clusters {
    fn new(pattern: &Pattern) -> Self {
        let nodes = pattern.incoming.rows();
        let degree: Vec<u64> = (0..nodes).map(|node| pattern.degree(node) as u64).collect();
        Self {
            parent: (0..nodes as u32).collect(),
            total: degree.iter().sum::<u64>() as f64,
            degree,
            entries: vec![Vec::new(); nodes],
            reached: Vec::new(),
            count: vec![0; nodes],
        }
    }

    /// Finds a node's root, and halves the way to it.
    fn root(parent: &mut [u32], mut node: u32) -> u32 {
        while parent[node as usize] != node {
            let above = parent[parent[node as usize] as usize];
            parent[node as usize] = above;
            node = above;
        }
        node
    }

    /// Counts the entries from a root's cluster to each other one. The root's own neighbours are
    /// among its entries from the second round on.
    fn collect(&mut self, root: u32, neighbours: Option<&Pattern>) {
        let entries = std::mem::take(&mut self.entries[root as usize]);
        let own = neighbours.into_iter().flat_map(|pattern| pattern.neighbours(root as usize));
        for (node, count) in own.map(|node| (node, 1)).chain(entries) {
            let other = Self::root(&mut self.parent, node);
            if other != root {
                let sum = &mut self.count[other as usize];
                if *sum == 0 {
                    self.reached.push(other);
                }
                *sum = sum.saturating_add(count);
            }
        }
    }

    /// Merges the cluster whose entries were collected into the best other one, if there is a gain,
    /// and returns that one's root.
    fn merge(&mut self, root: u32, penalty: f64) -> Option<u32> {
        let scale = penalty * self.degree[root as usize] as f64 / self.total;
        let mut best = (0.0, NONE);
        for &other in &self.reached {
            let expected = scale * self.degree[other as usize] as f64;
            let gain = f64::from(self.count[other as usize]) - expected;
            if gain > best.0 || gain == best.0 && gain > 0.0 && other < best.1 {
                best = (gain, other);
            }
        }
        let into = (best.1 != NONE).then_some(best.1);
        let owner = into.unwrap_or(root);
        for other in self.reached.drain(..) {
            let count = std::mem::take(&mut self.count[other as usize]);
            if other != owner {
                self.entries[owner as usize].push((other, count));
            }
        }
        if into.is_some() {
            self.parent[root as usize] = owner;
            self.degree[owner as usize] += self.degree[root as usize];
        }
        into
    }
}

/// Which node was merged into which, and in what order.
struct Forest {
    first_child: Vec<u32>,
    last_child: Vec<u32>,
    next: Vec<u32>,
}

impl Forest {
    fn new(nodes: usize) -> Self {
        Self {
            first_child: vec![NONE; nodes],
            last_child: vec![NONE; nodes],
            next: vec![NONE; nodes],
        }
    }

    fn attach(&mut self, child: u32, parent: u32) {
        match self.last_child[parent as usize] {
            NONE => self.first_child[parent as usize] = child,
            last => self.next[last as usize] = child,
        }
        self.last_child[parent as usize] = child;
    }

    /// Every node before its children, and a child's descendants before the next child.
    fn depth_first(&self, roots: &[u32]) -> Vec<u32> {
        let mut sequence = Vec::with_capacity(self.next.len());
        let mut open = Vec::new();
        for &root in roots {
            open.push(root);
            while let Some(node) = open.pop() {
                sequence.push(node);
                let next = self.next[node as usize];
                if next != NONE {
                    open.push(next);
                }
                let child = self.first_child[node as usize];
                if child != NONE {
                    open.push(child);
                }
            }
        }
        sequence
    }
}
