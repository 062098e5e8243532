//! DropEdge (Rong et al. 2020): a training pass drops every edge with a given probability, and the
//! remaining ones are normalised again. This module draws and normalises; layers gather over the
//! result.
//!
//! An edge is identified by the dataset numbers of its two ends, in either order. Both directions
//! of an undirected edge are therefore dropped together, and so are two opposite directed edges. A
//! draw depends on seed, epoch and edge alone, so it is the same for any number of threads.
//! Self-loops stay. Renormalised relations (those with a factor on both sides) get new factors
//! 1 / sqrt(d), where d is a row sum of the remaining entries, as in the published method. Other
//! values are divided by 1 - rate, which preserves their mean.

use rayon::prelude::*;

use super::operators::Operators;
use super::random::Stream;
use crate::kernels::AdjacencyRef;
use crate::parallel::RowBlocks;

/// Rows per piece of work.
const ROWS: usize = 1024;

/// Dropping of edges, with its rate and its stream of random numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropEdge {
    rate: f64,
    stream: Stream,
}

/// The remaining edges, in both directions.
#[derive(Debug)]
pub struct KeptEdges {
    incoming: Vec<Entries>,
    outgoing: Vec<Entries>,
    blocks: [RowBlocks; 2],
}

/// A copy of an operator with the remaining entries.
#[derive(Debug)]
struct Entries {
    columns: usize,
    offsets: Vec<u64>,
    neighbours: Vec<u32>,
    values: Vec<f32>,
}

impl DropEdge {
    /// Drops edges with probability `rate`; `None` if the rate is 0.
    pub fn new(rate: f64, seed: u64) -> Option<Self> {
        (rate > 0.0 && rate < 1.0).then(|| Self { rate, stream: Stream::new(seed, "drop-edge") })
    }

    /// The edges that remain in an epoch.
    pub fn draw(&self, operators: &Operators, epoch: u64) -> KeptEdges {
        let stream = self.stream.narrowed(epoch);
        // Compared with the upper half of the bits: exact to 2^-32.
        let threshold = (self.rate * 2f64.powi(32)).round() as u64;
        let rows = operators.rows();
        let numbers = (!rows.is_alone()).then(|| rows.numbers());
        let number = |row: u32| numbers.as_ref().map_or(row, |numbers| numbers[row as usize]);
        let stays = |a: u32, b: u32| {
            let (a, b) = (number(a), number(b));
            a == b || stream.row(a.min(b).into()).bits(a.max(b) as usize) >> 32 >= threshold
        };
        let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
        for (to, from) in operators.incoming().into_iter().zip(operators.outgoing()) {
            let (mut to, mut from) = match (from.row_scale(), from.gather_scale()) {
                (Some(_), Some(_)) => {
                    let [mut to, mut from] =
                        [to, from].map(|side| Entries::kept(side, &stays, stored));
                    let sums = from.row_sums();
                    let mut scale: Vec<f32> = sums
                        .iter()
                        .map(|&d| if d > 0.0 { (1.0 / d.sqrt()) as f32 } else { 0.0 })
                        .collect();
                    scale.resize(rows.with_ghosts(), 0.0);
                    rows.update(None, &mut scale, (1, 1), None);
                    to.scale(&scale);
                    from.scale(&scale);
                    (to, from)
                }
                _ => {
                    let factor = (1.0 / (1.0 - self.rate)) as f32;
                    let value = |side: &AdjacencyRef<'_>, row: usize, at: usize| {
                        let is_loop = side.column(row, at) == row;
                        full(side, row, at) * if is_loop { 1.0 } else { factor }
                    };
                    (Entries::kept(to, &stays, value), Entries::kept(from, &stays, value))
                }
            };
            to.columns = rows.with_ghosts();
            from.columns = rows.with_ghosts();
            incoming.push(to);
            outgoing.push(from);
        }
        let blocks = [&incoming, &outgoing].map(|side| {
            let offsets: Vec<_> = side.iter().map(|entries| entries.offsets.as_slice()).collect();
            RowBlocks::balanced(operators.nodes(), &offsets, 2)
        });
        KeptEdges { incoming, outgoing, blocks }
    }
}

/// The stored value of an entry, without scales.
fn stored(side: &AdjacencyRef<'_>, _row: usize, at: usize) -> f32 {
    side.values().map_or(1.0, |values| values[at])
}

/// The value of an entry with its scales.
fn full(side: &AdjacencyRef<'_>, row: usize, at: usize) -> f32 {
    let scale = side.gather_scale().map_or(1.0, |scale| scale[side.neighbours()[at] as usize]);
    side.row_factor(row) * stored(side, row, at) * scale
}

impl KeptEdges {
    /// A_r^T of every relation.
    pub fn incoming(&self) -> Vec<AdjacencyRef<'_>> {
        self.incoming.iter().map(Entries::view).collect()
    }

    /// A_r of every relation.
    pub fn outgoing(&self) -> Vec<AdjacencyRef<'_>> {
        self.outgoing.iter().map(Entries::view).collect()
    }

    /// Rows for gathers over incoming or outgoing edges.
    pub fn blocks(&self, is_incoming: bool) -> &RowBlocks {
        &self.blocks[usize::from(!is_incoming)]
    }
}

impl Entries {
    /// The remaining entries of an operator, with these values.
    fn kept(
        side: AdjacencyRef<'_>,
        stays: &(impl Fn(u32, u32) -> bool + Sync),
        value: impl Fn(&AdjacencyRef<'_>, usize, usize) -> f32 + Sync,
    ) -> Self {
        let rows = side.rows();
        let part = |start: usize| {
            let (mut counts, mut neighbours, mut values) = (Vec::new(), Vec::new(), Vec::new());
            for row in start..(start + ROWS).min(rows) {
                let (before, own) = (neighbours.len(), side.stored_row(row) as u32);
                for at in side.range(row).filter(|&at| stays(own, side.neighbours()[at])) {
                    neighbours.push(side.column(row, at) as u32);
                    values.push(value(&side, row, at));
                }
                counts.push((neighbours.len() - before) as u64);
            }
            (counts, neighbours, values)
        };
        let starts: Vec<usize> = (0..rows).step_by(ROWS).collect();
        let parts: Vec<_> = starts.into_par_iter().map(part).collect();
        let mut all = Self {
            columns: side.columns(),
            offsets: vec![0],
            neighbours: Vec::new(),
            values: Vec::new(),
        };
        for (counts, neighbours, values) in parts {
            for count in counts {
                all.offsets.push(all.offsets[all.offsets.len() - 1] + count);
            }
            all.neighbours.extend(neighbours);
            all.values.extend(values);
        }
        all
    }

    fn row_sums(&self) -> Vec<f64> {
        let sum = |ends: &[u64]| {
            self.values[ends[0] as usize..ends[1] as usize].iter().map(|&v| f64::from(v)).sum()
        };
        self.offsets.par_windows(2).map(sum).collect()
    }

    /// Multiplies every value by the factors of its row and column.
    fn scale(&mut self, scale: &[f32]) {
        for (row, ends) in self.offsets.windows(2).enumerate() {
            for at in ends[0] as usize..ends[1] as usize {
                self.values[at] *= scale[row] * scale[self.neighbours[at] as usize];
            }
        }
    }

    fn view(&self) -> AdjacencyRef<'_> {
        let all = AdjacencyRef::new(self.columns, &self.offsets, &self.neighbours);
        all.expect("entries of an operator").with_values(&self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::with_threads;

    /// Every node with the next three, both ways, and itself; renormalised by these factors.
    fn ring(nodes: usize) -> (Vec<u64>, Vec<u32>, Vec<f32>) {
        let (mut offsets, mut neighbours) = (vec![0], Vec::new());
        for i in 0..nodes {
            let mut row: Vec<u32> = (0..7).map(|k| ((i + nodes + k - 3) % nodes) as u32).collect();
            row.sort_unstable();
            neighbours.extend(row);
            offsets.push(neighbours.len() as u64);
        }
        (offsets, neighbours, vec![(1.0 / 7f64.sqrt()) as f32; nodes])
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
    fn both_directions_lose_the_same_edges_and_what_is_left_is_normalised() {
        let (offsets, neighbours, scale) = ring(3000);
        let side = AdjacencyRef::new(3000, &offsets, &neighbours).unwrap();
        let side = side.with_gather_scale(&scale).with_row_scale(&scale);
        let operators = Operators::with_radii(vec![side], vec![side], vec![1.0]);
        let drop_edge = DropEdge::new(0.3, 7).unwrap();
        let kept = with_threads(1, || drop_edge.draw(&operators, 4));
        let (a, b) = (dense(&kept.incoming()[0]), dense(&kept.outgoing()[0]));
        let degree = |i: usize| a[i].iter().filter(|&&x| x != 0.0).count() as f64;
        for i in 0..3000 {
            assert!(a[i][i] > 0.0, "loops stay");
            for &j in &neighbours[7 * i..7 * i + 7] {
                let j = j as usize;
                assert_eq!(a[i][j], b[j][i], "the transpose");
                assert_eq!(a[i][j], a[j][i], "an edge goes both ways");
                let expected =
                    if a[i][j] == 0.0 { 0.0 } else { 1.0 / (degree(i) * degree(j)).sqrt() };
                assert!((f64::from(a[i][j]) - expected).abs() < 1e-6);
            }
        }
        let edges = (0..3000).map(degree).sum::<f64>() - 3000.0;
        let share = edges / 18_000.0;
        assert!((share - 0.7).abs() < 4.5 * (0.21f64 / 9000.0).sqrt(), "{share}");
        let again = with_threads(4, || drop_edge.draw(&operators, 4));
        assert_eq!(kept.incoming[0].values, again.incoming[0].values);
        assert_ne!(
            kept.incoming[0].neighbours,
            drop_edge.draw(&operators, 5).incoming[0].neighbours
        );
        assert!(DropEdge::new(0.0, 7).is_none());
    }
}
