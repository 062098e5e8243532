//! Orders of the nodes that place neighbours or hubs close together, computed from an adjacency.
//! The graph has to fit in memory; a message says so if it does not.

mod cluster;

use ignn_format::csr::CsrFile;

use crate::error::{IngestError, Result};

/// Order of the nodes in the dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By id: integers ascending, strings by their bytes (or in the order of `nodes_file`).
    #[default]
    None,
    /// Highest degree first.
    Degree,
    /// Reverse Cuthill-McKee: neighbours close together.
    Rcm,
    /// Clusters of nodes together, and within them smaller clusters.
    Cluster,
}

impl Order {
    /// The word for it in commands and datasets.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Degree => "degree",
            Self::Rcm => "rcm",
            Self::Cluster => "cluster",
        }
    }
}

/// The adjacency to order by: one direction or both.
pub struct Pattern<'a> {
    /// Incoming neighbours.
    pub incoming: &'a CsrFile,
    /// Outgoing neighbours, if they differ.
    pub outgoing: Option<&'a CsrFile>,
}

impl Pattern<'_> {
    fn degree(&self, node: usize) -> usize {
        self.incoming.range(node).len() + self.outgoing.map_or(0, |out| out.range(node).len())
    }

    fn neighbours(&self, node: usize) -> impl Iterator<Item = u32> + '_ {
        let outgoing = self.outgoing.map_or(&[][..], |out| out.row(node));
        self.incoming.row(node).iter().chain(outgoing).copied()
    }
}

/// Checks, before the graph is built for the first time, that the job has enough memory for an
/// order.
pub fn check_memory(
    order: Order,
    nodes: u64,
    entries: u64,
    directed: bool,
    memory: u64,
) -> Result<()> {
    let graph = if directed { 2 * entries } else { entries } * 4;
    let need = match order {
        Order::None => 0,
        Order::Degree => nodes * 24,
        Order::Rcm => nodes * 32 + graph,
        // The entries between clusters are kept with their counts, in lists that grow by doubling.
        Order::Cluster => nodes * 64 + 5 * graph,
    };
    if need <= memory {
        return Ok(());
    }
    let (need, memory) = (need >> 20, memory >> 20);
    let what = format!("--order needs {need} MiB (found --memory {memory} MiB)");
    Err(IngestError::Usage(format!("{what}: raise --memory, or use --order none")))
}

/// From this many nodes on, a state of 16 columns (64 MiB) exceeds the caches of most machines.
pub const MANY_NODES: u64 = 1 << 20;

/// What to tell about a large graph in the order of its ids, of whose rows these are the offsets:
/// whether hubs have so many of the entries that their states would mostly be in cache if they were
/// next to each other.
pub fn advice(offsets: &[u64]) -> Option<String> {
    let nodes = offsets.len().saturating_sub(1);
    if (nodes as u64) < MANY_NODES {
        return None;
    }
    // Nodes and entries by the logarithm of the degree.
    let mut classes = [(0u64, 0u64); 65];
    for pair in offsets.windows(2) {
        let degree = pair[1].saturating_sub(pair[0]);
        let (count, entries) = &mut classes[(u64::BITS - degree.leading_zeros()) as usize];
        (*count, *entries) = (*count + 1, *entries + degree);
    }
    let (mut hubs, mut entries) = (0, 0);
    for (count, more) in classes.iter().rev() {
        if hubs + count > nodes as u64 / 16 {
            break;
        }
        (hubs, entries) = (hubs + count, entries + more);
    }
    let share = entries as f64 / offsets[nodes].max(1) as f64;
    (share > 0.5).then(|| {
        format!(
            "{hubs} of {nodes} nodes have {:.0} % of the entries: --order degree places them next to \
             each other, which makes sweeps faster",
            100.0 * share
        )
    })
}

/// The new position of each node.
pub fn positions(order: Order, pattern: &Pattern) -> Vec<u32> {
    let sequence = match order {
        Order::None => return (0..pattern.incoming.rows() as u32).collect(),
        Order::Degree => by_degree(pattern),
        Order::Rcm => reverse_cuthill_mckee(pattern),
        Order::Cluster => cluster::sequence(pattern),
    };
    let mut position = vec![0u32; sequence.len()];
    for (at, node) in sequence.into_iter().enumerate() {
        position[node as usize] = at as u32;
    }
    position
}

/// Highest degree first; equal degrees by number.
fn by_degree(pattern: &Pattern) -> Vec<u32> {
    let mut nodes: Vec<u32> = (0..pattern.incoming.rows() as u32).collect();
    nodes.sort_by_cached_key(|&node| std::cmp::Reverse(pattern.degree(node as usize)));
    nodes
}

/// Breadth-first from a peripheral node, neighbours by ascending degree, component by component,
/// then reversed.
fn reverse_cuthill_mckee(pattern: &Pattern) -> Vec<u32> {
    let nodes = pattern.incoming.rows();
    let mut starts: Vec<u32> = (0..nodes as u32).collect();
    starts.sort_by_cached_key(|&node| pattern.degree(node as usize));
    let mut seen = vec![false; nodes];
    let mut sequence: Vec<u32> = Vec::with_capacity(nodes);
    for start in starts {
        if seen[start as usize] {
            continue;
        }
        // The last node reached from the component's node of lowest degree is peripheral.
        let first = sequence.len();
        let far = breadth_first(pattern, start, &mut seen, &mut sequence);
        for &node in &sequence[first..] {
            seen[node as usize] = false;
        }
        sequence.truncate(first);
        breadth_first(pattern, far, &mut seen, &mut sequence);
    }
    sequence.reverse();
    sequence
}

/// Appends the component of `start` in Cuthill-McKee order; returns its last node.
fn breadth_first(pattern: &Pattern, start: u32, seen: &mut [bool], sequence: &mut Vec<u32>) -> u32 {
    let mut at = sequence.len();
    seen[start as usize] = true;
    sequence.push(start);
    while at < sequence.len() {
        let node = sequence[at];
        let first = sequence.len();
        for neighbour in pattern.neighbours(node as usize) {
            if !std::mem::replace(&mut seen[neighbour as usize], true) {
                sequence.push(neighbour);
            }
        }
        sequence[first..].sort_by_key(|&neighbour| (pattern.degree(neighbour as usize), neighbour));
        at += 1;
    }
    sequence[at - 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ignn_format::csr::CsrWriter;

    fn csr(rows: &[&[u32]]) -> (tempfile::TempDir, CsrFile) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = CsrWriter::create(dir.path(), "in", false).unwrap();
        for row in rows {
            writer.extend(row, &[]).unwrap();
            writer.end_rows(&[row.len() as u64]).unwrap();
        }
        writer.finish().unwrap();
        let entries = rows.iter().map(|row| row.len() as u64).sum();
        let csr = CsrFile::open(dir.path(), "in", rows.len() as u64, entries, false).unwrap();
        (dir, csr)
    }

    #[test]
    fn a_large_graph_with_hubs_gets_advice() {
        let offsets = |nodes: u64, hubs: u64, degree: u64| {
            let degrees = (0..nodes).map(|node| if node < hubs { degree } else { 4 });
            let mut offsets = vec![0];
            offsets.extend(degrees.scan(0, |sum, degree| {
                *sum += degree;
                Some(*sum)
            }));
            offsets
        };
        let nodes = MANY_NODES;
        let advice_of = |hubs, degree| advice(&offsets(nodes, hubs, degree));
        let note = advice_of(nodes / 32, 256).expect("hubs with two thirds of the entries");
        assert!(note.starts_with("32768 of 1048576 nodes have 67 %"), "{note}");
        assert_eq!(advice_of(nodes / 32, 64), None, "a third of the entries");
        assert_eq!(advice_of(nodes / 8, 256), None, "too many hubs");
        assert_eq!(advice_of(0, 0), None, "no hubs");
        assert_eq!(advice(&offsets(1000, 10, 1000)), None, "small");
    }

    #[test]
    fn clusters_stay_together() {
        // Twelve cliques of ten nodes, dealt out so that neighbours are far apart, in a ring.
        let (cliques, size) = (12, 10);
        let node = |clique: usize, member: usize| (member * cliques + clique) as u32;
        let mut rows = vec![Vec::new(); cliques * size];
        for (clique, member) in (0..cliques).flat_map(|c| (0..size).map(move |m| (c, m))) {
            let row = &mut rows[node(clique, member) as usize];
            row.extend((0..size).filter(|&m| m != member).map(|other| node(clique, other)));
            match member {
                0 => row.push(node((clique + 1) % cliques, 1)),
                1 => row.push(node((clique + cliques - 1) % cliques, 0)),
                _ => {}
            }
            row.sort_unstable();
        }
        let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        let (_dir, csr) = csr(&rows);
        let position = positions(Order::Cluster, &Pattern { incoming: &csr, outgoing: None });
        let mut sorted = position.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..(cliques * size) as u32).collect::<Vec<_>>());
        for clique in 0..cliques {
            let places = (0..size).map(|member| position[node(clique, member) as usize]);
            let (low, high) = (places.clone().min().unwrap(), places.max().unwrap());
            assert_eq!(high - low, size as u32 - 1, "clique {clique} lies at {low} to {high}");
        }
    }

    #[test]
    fn clusters_of_a_directed_graph_with_nodes_without_edges() {
        let (_dir, incoming) = csr(&[&[3], &[], &[], &[3, 4], &[0]]);
        let (_dir, outgoing) = csr(&[&[4], &[], &[], &[0, 3], &[3]]);
        let pattern = Pattern { incoming: &incoming, outgoing: Some(&outgoing) };
        let position = positions(Order::Cluster, &pattern);
        let mut component = [position[0], position[3], position[4]];
        component.sort_unstable();
        assert_eq!(component[2] - component[0], 2, "{position:?}");
        let mut sorted = position;
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4]);
        let (_dir, empty) = csr(&[]);
        let none = positions(Order::Cluster, &Pattern { incoming: &empty, outgoing: None });
        assert!(none.is_empty());
    }

    #[test]
    fn degree_puts_hubs_first_and_rcm_straightens_a_path() {
        // The path 3 - 0 - 4 - 1 - 2, and node 5 without edges.
        let (_dir, csr) = csr(&[&[3, 4], &[2, 4], &[1], &[0], &[0, 1], &[]]);
        let pattern = Pattern { incoming: &csr, outgoing: None };
        assert_eq!(positions(Order::Degree, &pattern), [0, 1, 3, 4, 2, 5]);
        let position = positions(Order::Rcm, &pattern);
        for (node, row) in (0..6).map(|node| (node, csr.row(node))) {
            for &neighbour in row {
                assert_eq!(position[node].abs_diff(position[neighbour as usize]), 1);
            }
        }
        let mut sorted = position;
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
    }
}
