//! Statistics of one adjacency: degrees, components, symmetry, cycles. It works on plain slices and
//! reads no file.
//!
//! Degrees, isolated nodes and components ignore the diagonal, to which renormalisation adds
//! entries that are not edges of the user; [`super::self_loops`] tells them apart.
//!
//! Cost: a few passes over the neighbours, O(nonzeros) time up to the inverse Ackermann factor of
//! the union-find, and at most 12 bytes per node. Serial.
//!
//! ```
//! use ignn::graph::{GraphBuilder, Statistics, rows};
//!
//! // A path of three nodes, and one node alone.
//! let graph = GraphBuilder::new(4).edges([(0, 1), (1, 2)]).build()?;
//! let incoming = rows(&graph.relations()?[0].incoming);
//! let found = Statistics::of(incoming, None, 0).expect("neighbours within the graph");
//! assert_eq!((found.components, found.isolated, found.degrees.max), (2, 1, 2));
//! # Ok::<(), ignn::FormatError>(())
//! ```

/// One direction of an adjacency: row `i` is `neighbours[offsets[i] .. offsets[i + 1]]`, ascending.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// Rows + 1 offsets, non-decreasing.
    pub offsets: &'a [u64],
    /// Neighbours, row after row.
    pub neighbours: &'a [u32],
}

/// An entry with a node that the graph does not have: the dataset is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// Row of the entry.
    pub row: usize,
    /// The node.
    pub neighbour: u32,
}

/// Degrees of all nodes.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Degrees {
    /// Smallest.
    pub min: u64,
    /// Largest.
    pub max: u64,
    /// Mean.
    pub mean: f64,
    /// `histogram[0]` counts degree 0, `histogram[b]` the degrees from 2^(b-1) to 2^b - 1.
    pub histogram: Vec<u64>,
}

/// The statistics of one relation.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Statistics {
    /// In-degrees; degrees where the relation is symmetric.
    pub degrees: Degrees,
    /// Out-degrees, where the relation is not symmetric.
    pub out_degrees: Option<Degrees>,
    /// Nodes without an edge to or from another node.
    pub isolated: u64,
    /// Weakly connected components, isolated nodes included.
    pub components: u64,
    /// Nodes of the largest component.
    pub largest_component: u64,
    /// Self-loops of the user.
    pub self_loops: u64,
    /// Whether every edge has its reverse.
    pub symmetric: bool,
    /// Whether there is no directed cycle; a self-loop is one.
    pub acyclic: bool,
}

impl<'a> Rows<'a> {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The neighbours of a row.
    pub fn row(&self, row: usize) -> &'a [u32] {
        &self.neighbours[self.offsets[row] as usize..self.offsets[row + 1] as usize]
    }

    /// The neighbours of a row without the row's own node.
    fn others(&self, row: usize) -> impl Iterator<Item = u32> + use<'a> {
        self.row(row).iter().copied().filter(move |&neighbour| neighbour as usize != row)
    }

    /// Length of a row without its diagonal entry.
    fn degree(&self, row: usize) -> u64 {
        let entries = self.row(row);
        entries.len() as u64 - u64::from(entries.binary_search(&(row as u32)).is_ok())
    }

    fn check(&self) -> Result<(), OutOfRange> {
        let nodes = self.len();
        // One plain pass first, which vectorises: the row matters only if something is wrong.
        if self.neighbours.iter().copied().max().is_none_or(|largest| (largest as usize) < nodes) {
            return Ok(());
        }
        let find = |row| self.row(row).iter().find(|&&n| n as usize >= nodes).map(|&n| (row, n));
        let (row, neighbour) = (0..nodes).find_map(find).unwrap_or_default();
        Err(OutOfRange { row, neighbour })
    }
}

impl Statistics {
    /// Computes everything. `outgoing` is the transposed adjacency, absent where `incoming` is
    /// symmetric. The caller knows which diagonal entries were added, and gives `self_loops`.
    pub fn of(incoming: Rows, outgoing: Option<Rows>, self_loops: u64) -> Result<Self, OutOfRange> {
        incoming.check()?;
        if let Some(outgoing) = outgoing {
            outgoing.check()?;
        }
        let nodes = incoming.len();
        let alone =
            |node| incoming.degree(node) == 0 && outgoing.is_none_or(|out| out.degree(node) == 0);
        let (components, largest_component) = components(incoming);
        Ok(Self {
            degrees: Degrees::of(incoming),
            out_degrees: outgoing.map(Degrees::of),
            isolated: (0..nodes).filter(|&node| alone(node)).count() as u64,
            components,
            largest_component,
            self_loops,
            symmetric: outgoing.is_none_or(|outgoing| same(incoming, outgoing)),
            acyclic: self_loops == 0 && acyclic(incoming, outgoing.unwrap_or(incoming)),
        })
    }
}

impl Degrees {
    /// Degrees of the rows, without the diagonal.
    pub fn of(rows: Rows) -> Self {
        let mut degrees = Self { min: u64::MAX, ..Self::default() };
        let mut sum = 0;
        for row in 0..rows.len() {
            let degree = rows.degree(row);
            let bucket = (u64::BITS - degree.leading_zeros()) as usize;
            if degrees.histogram.len() <= bucket {
                degrees.histogram.resize(bucket + 1, 0);
            }
            degrees.histogram[bucket] += 1;
            degrees.min = degrees.min.min(degree);
            degrees.max = degrees.max.max(degree);
            sum += degree;
        }
        if rows.is_empty() {
            degrees.min = 0;
        } else {
            degrees.mean = sum as f64 / rows.len() as f64;
        }
        degrees
    }

    /// First and last degree of a bucket of the histogram.
    pub fn bucket(index: usize) -> (u64, u64) {
        match index {
            0 => (0, 0),
            _ => (1 << (index - 1), (1u64 << (index - 1)) - 1 + (1 << (index - 1))),
        }
    }
}

fn same(left: Rows, right: Rows) -> bool {
    left.offsets == right.offsets && left.neighbours == right.neighbours
}

/// Number of weakly connected components and the size of the largest, by union-find.
fn components(rows: Rows) -> (u64, u64) {
    let mut parent: Vec<u32> = (0..rows.len() as u32).collect();
    for row in 0..rows.len() {
        for neighbour in rows.others(row) {
            let (a, b) = (root(&mut parent, row as u32), root(&mut parent, neighbour));
            parent[a.max(b) as usize] = a.min(b);
        }
    }
    let mut sizes = vec![0u32; rows.len()];
    for node in 0..rows.len() {
        sizes[root(&mut parent, node as u32) as usize] += 1;
    }
    let components = sizes.iter().filter(|&&size| size > 0).count() as u64;
    (components, u64::from(sizes.into_iter().max().unwrap_or(0)))
}

/// Root of a node, with path halving.
fn root(parent: &mut [u32], mut node: u32) -> u32 {
    while parent[node as usize] != node {
        let above = parent[parent[node as usize] as usize];
        parent[node as usize] = above;
        node = above;
    }
    node
}

/// Kahn's algorithm on the off-diagonal entries: nodes without a source left are removed one by
/// one.
fn acyclic(incoming: Rows, outgoing: Rows) -> bool {
    let mut sources: Vec<u32> =
        (0..incoming.len()).map(|node| incoming.degree(node) as u32).collect();
    let mut ready: Vec<u32> =
        (0..incoming.len() as u32).filter(|&node| sources[node as usize] == 0).collect();
    let mut gone = 0;
    while let Some(node) = ready.pop() {
        gone += 1;
        for target in outgoing.others(node as usize) {
            // A damaged pair of directions may have more edges than were counted: saturate.
            let left = sources[target as usize].saturating_sub(1);
            if left == 0 && sources[target as usize] == 1 {
                ready.push(target);
            }
            sources[target as usize] = left;
        }
    }
    gone == incoming.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Incoming and outgoing adjacency of directed edges.
    fn graph(nodes: usize, edges: &[(u32, u32)]) -> [(Vec<u64>, Vec<u32>); 2] {
        let direction = |flip: bool| {
            let mut pairs: Vec<_> =
                edges.iter().map(|&(s, t)| if flip { (s, t) } else { (t, s) }).collect();
            pairs.sort_unstable();
            pairs.dedup();
            let offset = |row| pairs.iter().filter(|pair| (pair.0 as usize) < row).count() as u64;
            ((0..=nodes).map(offset).collect(), pairs.iter().map(|pair| pair.1).collect())
        };
        [direction(false), direction(true)]
    }

    fn count(nodes: usize, edges: &[(u32, u32)], loops: u64) -> Statistics {
        let [incoming, outgoing] = graph(nodes, edges);
        let rows = |(offsets, neighbours): &(Vec<u64>, Vec<u32>)| {
            let (offsets, neighbours) = (offsets.clone().leak(), neighbours.clone().leak());
            Rows { offsets, neighbours }
        };
        Statistics::of(rows(&incoming), Some(rows(&outgoing)), loops).unwrap()
    }

    #[test]
    fn a_chain_is_a_dag() {
        let chain = count(5, &[(0, 1), (1, 2), (2, 3)], 0);
        assert!(chain.acyclic && !chain.symmetric);
        assert_eq!((chain.components, chain.largest_component, chain.isolated), (2, 4, 1));
        assert_eq!(chain.degrees, Degrees { min: 0, max: 1, mean: 0.6, histogram: vec![2, 3] });
    }

    #[test]
    fn the_added_diagonal_changes_nothing_but_self_loops_of_the_user_do() {
        let edges = [(0, 1), (1, 2), (0, 0), (1, 1), (2, 2), (3, 3)];
        let renormalised = count(4, &edges, 0);
        assert!(renormalised.acyclic);
        assert_eq!((renormalised.isolated, renormalised.components), (1, 2));
        assert!(!count(4, &edges, 4).acyclic);
    }

    #[test]
    fn cycles_and_symmetry() {
        assert!(!count(3, &[(0, 1), (1, 2), (2, 0)], 0).acyclic);
        let both_ways = count(3, &[(0, 1), (1, 0), (1, 2), (2, 1)], 0);
        assert!(both_ways.symmetric && !both_ways.acyclic);
        assert_eq!(both_ways.components, 1);
    }

    #[test]
    fn symmetric_rows_serve_both_directions() {
        let [incoming, _] = graph(4, &[(0, 1), (1, 0), (2, 3), (3, 2)]);
        let rows = Rows { offsets: &incoming.0, neighbours: &incoming.1 };
        let counted = Statistics::of(rows, None, 0).unwrap();
        assert!(counted.symmetric && !counted.acyclic && counted.out_degrees.is_none());
        assert_eq!((counted.components, counted.largest_component), (2, 2));
        let empty = Rows { offsets: &[0, 0, 0], neighbours: &[] };
        assert!(Statistics::of(empty, None, 0).unwrap().acyclic);
        let nothing = Statistics::of(Rows { offsets: &[0], neighbours: &[] }, None, 0).unwrap();
        assert_eq!((nothing.components, nothing.degrees.min), (0, 0));
    }

    #[test]
    fn buckets_are_powers_of_two() {
        let star: Vec<_> = (1..10).map(|leaf| (leaf, 0)).collect();
        let star = count(10, &star, 0);
        assert_eq!(star.degrees.histogram, [9, 0, 0, 0, 1]);
        assert_eq!(star.out_degrees.unwrap().histogram, [1, 9]);
        let expected = [(0, 0), (1, 1), (2, 3), (4, 7)];
        assert_eq!([0, 1, 2, 3].map(Degrees::bucket), expected);
        assert_eq!(Degrees::bucket(64), (1 << 63, u64::MAX));
    }

    #[test]
    fn a_neighbour_beyond_the_nodes_is_reported() {
        let rows = Rows { offsets: &[0, 1, 2], neighbours: &[1, 2] };
        assert_eq!(Statistics::of(rows, None, 0), Err(OutOfRange { row: 1, neighbour: 2 }));
    }
}
