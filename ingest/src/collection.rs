//! A dataset that fits in memory, produced by the parsers of many-graph formats and by some
//! generators. Parsing is done in `source` and `synthetic`, writing by the builder.

use ignn_format::features::SparseRows;
use ignn_format::graphs::Graphs;
use ignn_format::ids::Ids;
use ignn_format::labels::Labels;
use ignn_format::splits::Split;

use crate::content::{Content, Features};

/// Edges per chunk.
const CHUNK: usize = 1 << 16;
/// Features with at most this many columns are stored dense, wider ones sparse: wide one-hot rows
/// are nearly all zeros.
pub const MAX_DENSE_COLUMNS: usize = 1024;

/// The parts of a dataset, in memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collection {
    /// Number of nodes.
    pub nodes: u64,
    /// The user's ids; `None` where they are `0, 1, ..., nodes - 1`.
    pub ids: Option<Ids>,
    /// Edges as read, with duplicates, both directions and self-loops.
    pub edges: Vec<[u32; 2]>,
    /// Node features.
    pub features: FeatureTable,
    /// Node labels.
    pub labels: Option<Labels>,
    /// Splits of the nodes.
    pub splits: Vec<Split>,
    /// Node ranges, labels and splits of the graphs, for a dataset of many graphs.
    pub graphs: Option<Graphs>,
}

/// Features of all nodes: one-hot groups of columns, then columns of plain values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeatureTable {
    /// Number of one-hot columns.
    pub hot_columns: usize,
    /// The columns that are 1: `groups` of them per node, in ascending order.
    pub hot: Vec<u32>,
    /// One-hot groups per node.
    pub groups: usize,
    /// Number of plain columns.
    pub plain_columns: usize,
    /// Their values, row by row.
    pub plain: Vec<f32>,
}

impl FeatureTable {
    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.hot_columns + self.plain_columns
    }

    /// Appends one group of one-hot columns: `of[i]` is the class of node `i`, below `classes`.
    pub fn add_hot(&mut self, classes: usize, of: &[u32]) {
        let groups = self.groups;
        let mut hot = Vec::with_capacity(self.hot.len() + of.len());
        for (node, &class) in of.iter().enumerate() {
            hot.extend_from_slice(&self.hot[node * groups..(node + 1) * groups]);
            hot.push(self.hot_columns as u32 + class);
        }
        self.hot = hot;
        self.groups += 1;
        self.hot_columns += classes;
    }

    /// Appends plain columns, given row by row.
    pub fn add_plain(&mut self, columns: usize, values: &[f32]) {
        let before = self.plain_columns;
        let rows = values.len().checked_div(columns).unwrap_or(0);
        let mut plain = Vec::with_capacity(self.plain.len() + values.len());
        for row in 0..rows {
            plain.extend_from_slice(&self.plain[row * before..(row + 1) * before]);
            plain.extend_from_slice(&values[row * columns..(row + 1) * columns]);
        }
        self.plain = plain;
        self.plain_columns += columns;
    }

    fn hot_columns_of(&self, node: usize) -> &[u32] {
        &self.hot[node * self.groups..(node + 1) * self.groups]
    }

    fn plain_of(&self, node: usize) -> &[f32] {
        &self.plain[node * self.plain_columns..(node + 1) * self.plain_columns]
    }

    /// Fills dense rows, starting with node `first`.
    pub fn fill(&self, first: u64, rows: &mut [f32]) {
        for (node, row) in (first as usize..).zip(rows.chunks_exact_mut(self.columns())) {
            let (hot, plain) = row.split_at_mut(self.hot_columns);
            hot.fill(0.0);
            for &column in self.hot_columns_of(node) {
                hot[column as usize] = 1.0;
            }
            plain.copy_from_slice(self.plain_of(node));
        }
    }

    /// Sparse rows, starting with node `first`.
    pub fn sparse(&self, first: u64, count: usize) -> SparseRows {
        let mut rows = SparseRows { offsets: vec![0], ..SparseRows::default() };
        for node in first as usize..first as usize + count {
            for &column in self.hot_columns_of(node) {
                rows.columns.push(column);
                rows.values.push(1.0);
            }
            for (column, &value) in
                self.plain_of(node).iter().enumerate().filter(|&(_, &value)| value != 0.0)
            {
                rows.columns.push((self.hot_columns + column) as u32);
                rows.values.push(value);
            }
            rows.offsets.push(rows.columns.len() as u64);
        }
        rows
    }
}

/// The degree of every node of an undirected graph. An edge counts once, even if it is listed in
/// both directions or several times; so does a self-loop.
pub fn degrees(nodes: u64, edges: &[[u32; 2]]) -> Vec<f32> {
    let mut pairs: Vec<[u32; 2]> = edges.iter().map(|&[u, v]| [u.min(v), u.max(v)]).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let mut degrees = vec![0.0; nodes as usize];
    for [u, v] in pairs {
        degrees[u as usize] += 1.0;
        if u != v {
            degrees[v as usize] += 1.0;
        }
    }
    degrees
}

/// The distinct values in ascending order, and the position of each value among them.
pub fn classes_of(values: &[i64]) -> (Vec<i64>, Vec<u32>) {
    let mut classes = values.to_vec();
    classes.sort_unstable();
    classes.dedup();
    let of =
        values.iter().map(|value| classes.partition_point(|class| class < value) as u32).collect();
    (classes, of)
}

impl Content for Collection {
    fn nodes(&self) -> u64 {
        self.nodes
    }

    fn edge_chunks(&self) -> u64 {
        self.edges.len().div_ceil(CHUNK) as u64
    }

    fn edge_chunk(&self, chunk: u64, edges: &mut Vec<[u32; 2]>) {
        let first = chunk as usize * CHUNK;
        edges.extend_from_slice(&self.edges[first..self.edges.len().min(first + CHUNK)]);
    }

    fn edges(&self) -> Option<u64> {
        Some(self.edges.len() as u64)
    }

    fn ids(&self) -> Option<&Ids> {
        self.ids.as_ref()
    }

    fn features(&self) -> Option<Features<'_>> {
        match self.features.columns() {
            0 => None,
            columns if columns <= MAX_DENSE_COLUMNS || self.features.hot_columns == 0 => {
                Some(Features::Dense {
                    columns,
                    fill: Box::new(|first, rows| self.features.fill(first, rows)),
                })
            }
            columns => Some(Features::Sparse {
                columns,
                rows: Box::new(|first, count| self.features.sparse(first, count)),
            }),
        }
    }

    fn labels(&self) -> Option<Labels> {
        self.labels.clone()
    }

    fn splits(&self) -> Vec<Split> {
        self.splits.clone()
    }

    fn graphs(&self) -> Option<&Graphs> {
        self.graphs.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hot_groups_come_first_then_plain_columns() {
        let mut table = FeatureTable::default();
        table.add_hot(2, &[1, 0]);
        table.add_plain(1, &[0.5, 0.0]);
        table.add_hot(3, &[2, 0]);
        table.add_plain(1, &[7.0, 8.0]);
        let mut rows = [9.0; 14];
        table.fill(0, &mut rows);
        assert_eq!(rows[..7], [0.0, 1.0, 0.0, 0.0, 1.0, 0.5, 7.0]);
        assert_eq!(rows[7..], [1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 8.0]);
        let sparse = table.sparse(1, 1);
        assert_eq!(
            (sparse.offsets, sparse.columns, sparse.values),
            (vec![0, 3], vec![0, 2, 6], vec![1.0, 1.0, 8.0])
        );
    }

    #[test]
    fn chunks_cover_all_edges_and_degrees_count_neighbours_once() {
        let edges: Vec<_> = (0..CHUNK as u32 + 5).map(|i| [i, i + 1]).collect();
        let collection =
            Collection { nodes: CHUNK as u64 + 6, edges: edges.clone(), ..Default::default() };
        let mut all = Vec::new();
        (0..collection.edge_chunks()).for_each(|chunk| collection.edge_chunk(chunk, &mut all));
        assert_eq!(all, edges);
        assert_eq!(degrees(3, &[[0, 1], [1, 0], [1, 1], [0, 1]]), [1.0, 2.0, 0.0]);
        assert_eq!(classes_of(&[5, -1, 5]), (vec![-1, 5], vec![1, 0, 1]));
    }
}
