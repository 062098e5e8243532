//! Dropping of nodes: a training pass sees the graph without some of its nodes and their edges, as
//! if the data had been collected once more and had found a part of it. Graphs of one collection
//! often overlap, as protein interactions of several tissues do; a model that has seen many
//! subgraphs of each generalises better to the others.
//!
//! A draw depends on seed, epoch and node alone, so it is the same for any number of threads.
//! Renormalised relations (those with a factor on both sides) get new factors 1 / sqrt(d), where d
//! is a row sum of the remaining entries. Other entries keep their values: a part of a non-negative
//! matrix has no larger radius than the whole, so that bounds still hold.

use super::operators::Operators;
use super::random::Stream;
use crate::kernels::{Adjacency, AdjacencyError, AdjacencyRef};
use crate::solver::spectral::one_norm;
use crate::solver::{SpectralBound, SpectralParams};

/// Dropping of nodes, with its rate and its stream of random numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropNodes {
    rate: f64,
    stream: Stream,
}

/// The rows of a batch that remain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRows {
    /// Rows of the whole batch, ascending.
    pub rows: Vec<u32>,
    /// The first remaining row of each graph, and the number of all of them.
    pub first_row: Vec<usize>,
}

impl DropNodes {
    /// Drops nodes with probability `rate`; `None` if the rate is 0.
    pub fn new(rate: f64, seed: u64) -> Option<Self> {
        (rate > 0.0 && rate < 1.0).then(|| Self { rate, stream: Stream::new(seed, "drop-nodes") })
    }

    /// The rows that remain in an epoch. `ids` are the numbers of the nodes in the dataset; graph
    /// `g` has the rows `first_row[g]..first_row[g + 1]`. A graph that would lose all of its nodes
    /// keeps them.
    pub fn draw(&self, epoch: u64, ids: &[u32], first_row: &[usize]) -> KeptRows {
        let stream = self.stream.narrowed(epoch);
        // Compared with the upper half of the bits: exact to 2^-32.
        let threshold = (self.rate * 2f64.powi(32)).round() as u64;
        let stays = |row: &usize| stream.row(ids[*row].into()).bits(0) >> 32 >= threshold;
        let mut kept = KeptRows { rows: Vec::new(), first_row: vec![0] };
        for ends in first_row.windows(2) {
            let (graph, before) = (ends[0]..ends[1], kept.rows.len());
            kept.rows.extend(graph.clone().filter(stays).map(|row| row as u32));
            if kept.rows.len() == before {
                kept.rows.extend(graph.map(|row| row as u32));
            }
            kept.first_row.push(kept.rows.len());
        }
        kept
    }
}

impl Operators {
    /// The operators between some of the nodes, given as ascending rows.
    pub fn between(&self, rows: &[u32]) -> Result<Self, AdjacencyError> {
        let mut column_of = vec![u32::MAX; self.nodes()];
        (0..).zip(rows).for_each(|(column, &row)| column_of[row as usize] = column);
        let (mut incoming, mut outgoing, mut radii) = (Vec::new(), Vec::new(), Vec::new());
        let both = self.incoming().into_iter().zip(self.outgoing());
        for ((to, from), &radius) in both.zip(self.radii()) {
            let is_renormalised = from.row_scale().is_some() && from.gather_scale().is_some();
            let [mut to, mut from] = [to, from].map(|side| Part::of(&side, rows, &column_of));
            if is_renormalised {
                let scale = from.inverse_roots();
                to.renormalise(&scale);
                from.renormalise(&scale);
            }
            let [to, from] = [to.finish()?, from.finish()?];
            radii.push(match self.relations() {
                _ if !is_renormalised => radius,
                1 => {
                    let params = SpectralParams::default();
                    SpectralBound::of(&to.view(), Some(&from.view()), &params).rho
                }
                _ => one_norm(&to.view()),
            });
            incoming.push(to);
            outgoing.push(from);
        }
        Ok(Self::with_radii(incoming, outgoing, radii))
    }
}

/// An operator between the remaining nodes, under construction.
struct Part {
    offsets: Vec<u64>,
    neighbours: Vec<u32>,
    /// Stored values with their scales; of renormalised relations without.
    values: Option<Vec<f32>>,
    scale: Option<Vec<f32>>,
}

impl Part {
    fn of(side: &AdjacencyRef<'_>, rows: &[u32], column_of: &[u32]) -> Self {
        let (row_scale, gather_scale) = (side.row_scale(), side.gather_scale());
        let is_renormalised = row_scale.is_some() && gather_scale.is_some();
        let is_weighted = side.values().is_some()
            || !is_renormalised && (row_scale.is_some() || gather_scale.is_some());
        let mut part = Self { offsets: vec![0], neighbours: Vec::new(), values: None, scale: None };
        let mut values = Vec::new();
        for &row in rows {
            let row = row as usize;
            for at in side.range(row) {
                let column = column_of[side.column(row, at)];
                if column == u32::MAX {
                    continue;
                }
                part.neighbours.push(column);
                if is_weighted {
                    let value = side.values().map_or(1.0, |values| values[at]);
                    let factor = if is_renormalised {
                        1.0
                    } else {
                        let stored = side.neighbours()[at] as usize;
                        side.row_factor(row) * gather_scale.map_or(1.0, |scale| scale[stored])
                    };
                    values.push(value * factor);
                }
            }
            part.offsets.push(part.neighbours.len() as u64);
        }
        part.values = is_weighted.then_some(values);
        part
    }

    /// 1 / sqrt(d) of every row, 0 where nothing is left.
    fn inverse_roots(&self) -> Vec<f32> {
        let sum = |ends: &[u64]| {
            let entries = ends[0] as usize..ends[1] as usize;
            match &self.values {
                Some(values) => values[entries].iter().map(|&value| f64::from(value)).sum(),
                None => entries.len() as f64,
            }
        };
        let sums = self.offsets.windows(2).map(sum);
        sums.map(|d: f64| if d > 0.0 { d.sqrt().recip() as f32 } else { 0.0 }).collect()
    }

    fn renormalise(&mut self, scale: &[f32]) {
        self.scale = Some(scale.to_vec());
    }

    fn finish(self) -> Result<Adjacency, AdjacencyError> {
        let nodes = self.offsets.len() - 1;
        let all = Adjacency::from_csr(nodes, self.offsets, self.neighbours)?;
        let all = match self.values {
            Some(values) => all.with_values(values),
            None => all,
        };
        Ok(match self.scale {
            Some(scale) => all.with_gather_scale(scale.clone()).with_row_scale(scale),
            None => all,
        })
    }
}

#[cfg(test)]
mod tests {
    use ignn_format::features::SparseRows;

    use super::*;
    use crate::dense::Matrix;
    use crate::nn::{Features, GraphBatch, Input, InputMap, InputShape, Mapped};
    use crate::parallel::with_threads;

    const NODES: usize = 900;

    /// Every node with the next three, both ways, and itself, in three graphs of 300 nodes.
    fn rings() -> (Vec<u64>, Vec<u32>) {
        let (mut offsets, mut neighbours) = (vec![0], Vec::new());
        for i in 0..NODES {
            let (first, at) = (i / 300 * 300, i % 300);
            let mut row: Vec<u32> =
                (0..7).map(|k| (first + (at + 300 + k - 3) % 300) as u32).collect();
            row.sort_unstable();
            neighbours.extend(row);
            offsets.push(neighbours.len() as u64);
        }
        (offsets, neighbours)
    }

    fn dense(side: &AdjacencyRef<'_>) -> Vec<Vec<f32>> {
        let row = |i: usize| {
            let mut row = vec![0.0; side.columns()];
            side.entries(i).for_each(|(j, value)| row[j] = value);
            row
        };
        (0..side.rows()).map(row).collect()
    }

    #[test]
    fn a_draw_is_that_of_its_nodes_and_leaves_no_graph_empty() {
        let drop_nodes = DropNodes::new(0.3, 7).unwrap();
        let ids: Vec<u32> = (0..3000).collect();
        let whole = drop_nodes.draw(4, &ids, &[0, 1000, 1000, 3000]);
        let share = whole.rows.len() as f64 / 3000.0;
        assert!((share - 0.7).abs() < 4.5 * (0.21f64 / 3000.0).sqrt(), "{share}");
        assert_eq!(whole.first_row[1], whole.first_row[2], "a graph without nodes");
        assert_eq!(whole.first_row[3], whole.rows.len());
        // The second thousand alone.
        let part = drop_nodes.draw(4, &ids[1000..], &[0, 2000]);
        let expected: Vec<u32> =
            whole.rows.iter().filter(|&&row| row >= 1000).map(|row| row - 1000).collect();
        assert_eq!(part.rows, expected);
        assert_ne!(drop_nodes.draw(5, &ids, &[0, 3000]).rows, whole.rows);
        let nearly_all = DropNodes::new(0.9999, 7).unwrap();
        assert_eq!(nearly_all.draw(0, &ids[..2], &[0, 2]).rows, [0, 1]);
        assert!(DropNodes::new(0.0, 7).is_none());
    }

    #[test]
    fn remaining_edges_are_renormalised_or_keep_their_values() {
        let (offsets, neighbours) = rings();
        let values: Vec<f32> = (0..neighbours.len()).map(|at| 1.0 + (at % 5) as f32).collect();
        let scale = vec![(1.0 / 7f64.sqrt()) as f32; NODES];
        let rows: Vec<u32> = (0..NODES as u32).filter(|row| row % 3 != 1).collect();
        let plain = AdjacencyRef::new(NODES, &offsets, &neighbours).unwrap();
        let weighted = plain.with_values(&values);
        let cases = [
            (plain, false),
            (weighted, false),
            (weighted.with_gather_scale(&scale), false),
            (plain.with_gather_scale(&scale).with_row_scale(&scale), true),
        ];
        for (side, is_renormalised) in cases {
            let all = Operators::with_radii(vec![side], vec![side], vec![9.0]);
            let part = all.between(&rows).unwrap();
            let (whole, found) = (dense(&side), dense(&part.incoming()[0]));
            assert_eq!(found, dense(&part.outgoing()[0]));
            let degree = |i: usize| found[i].iter().filter(|&&x| x != 0.0).count() as f64;
            for (i, &row) in rows.iter().enumerate() {
                for (j, &column) in rows.iter().enumerate() {
                    let stored = whole[row as usize][column as usize];
                    let expected = if is_renormalised && stored != 0.0 {
                        1.0 / (degree(i) * degree(j)).sqrt()
                    } else {
                        f64::from(stored)
                    };
                    assert!((f64::from(found[i][j]) - expected).abs() < 1e-6);
                }
            }
            let expected = if is_renormalised { 1.0 } else { 9.0 };
            assert!((part.radii()[0] - expected).abs() < 1e-5, "{:?}", part.radii());
            let again = with_threads(4, || all.between(&rows).unwrap());
            assert_eq!(found, dense(&again.incoming()[0]));
        }
    }

    #[test]
    fn a_batch_without_nodes_is_that_of_a_dataset_without_them() {
        let (offsets, neighbours) = rings();
        let scale = vec![(1.0 / 7f64.sqrt()) as f32; NODES];
        let side = AdjacencyRef::new(NODES, &offsets, &neighbours).unwrap();
        let side = side.with_gather_scale(&scale).with_row_scale(&scale);
        let all = Operators::with_radii(vec![side], vec![side], vec![1.0]);
        let entry = |node: usize, k: usize| ((node * 31 + k * 17) % 13) as f32 - 6.0;
        let dense = |nodes: &[u32]| {
            Features::Dense(Matrix::from_fn(nodes.len(), 3, |i, k| entry(nodes[i] as usize, k)))
        };
        // One entry per row.
        let sparse = |nodes: &[u32]| Features::Sparse {
            rows: SparseRows {
                offsets: (0..=nodes.len() as u64).collect(),
                columns: nodes.iter().map(|node| node % 3).collect(),
                values: nodes.iter().map(|&node| entry(node as usize, 0)).collect(),
            },
            columns: 3,
        };
        let every: Vec<u32> = (0..NODES as u32).collect();
        let (first_node, radii) = ([0, 300, 600, 900], vec![vec![1.0; 3]]);
        let weights = Matrix::from_fn(4, 3, |i, k| (i as f32 - 1.5) * (k as f32 + 0.5));
        let drop_nodes = DropNodes::new(0.4, 3).unwrap();
        type OfNodes<'a> = &'a dyn Fn(&[u32]) -> Features;
        let features: [OfNodes<'_>; 2] = [&dense, &sparse];
        for (kind, features) in features.into_iter().enumerate() {
            for map in [InputMap::Gathered, InputMap::Own, InputMap::Both] {
                let (mapped, relations) = (Mapped::Columns(3), vec!["edges".into()]);
                let shape =
                    InputShape { layer: 0, map, mapped, has_bias: false, width: 4, relations };
                let input = Input::new(&all, features(&every), shape.clone(), true);
                let parts = (&first_node[..], &radii[..]);
                let batch = GraphBatch::new(&all, &input, parts, &[0, 2]).unwrap();
                let mut batch = batch.without(drop_nodes, 4, &input).unwrap();
                let count = batch.nodes.len();
                assert!((250..470).contains(&count), "{count}");
                assert_eq!(batch.first_row[2], count as u64);
                assert!(batch.nodes.iter().all(|node| !(300..600).contains(node)));
                let mut fresh =
                    Input::new(&batch.operators, features(&batch.nodes), shape.clone(), true);
                let result = |input: &mut Input| {
                    let mut b = Matrix::zeros(count, 4);
                    let values = vec![weights.view(); shape.slots().len()];
                    input.forward(&values, b.view_mut());
                    b
                };
                let (found, expected) = (result(&mut batch.input), result(&mut fresh));
                assert_eq!(found.view().padded(), expected.view().padded(), "{kind} {map:?}");
                assert!(found.view().padded().iter().any(|&x| x != 0.0));
            }
        }
    }
}
