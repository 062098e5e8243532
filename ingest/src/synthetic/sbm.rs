//! Stochastic block model: pairs within a block are connected with one probability, pairs between
//! blocks with another. The label of a node is its block, and its features are a noisy indicator of
//! it. Blocks are ranges of ids of nearly equal size.
//!
//! The cost is proportional to the number of edges, by geometric skips from edge to edge (Batagelj,
//! Brandes 2005).

use std::ops::Range;

use ignn_format::labels::Labels;
use ignn_format::splits::Split;

use crate::content::{Content, Features};
use crate::error::Result;
use crate::synthetic::{draw_split, require, require_nodes};
use ignn_format::random::Sequence;

/// Number of nodes.
pub const NODES: u64 = 10_000;
/// Number of blocks.
pub const BLOCKS: u64 = 5;
/// Average number of neighbours in a node's own block.
pub const DEGREE_WITHIN: f64 = 12.0;
/// Average number of neighbours in all other blocks.
pub const DEGREE_BETWEEN: f64 = 4.0;
/// Standard deviation of the noise on the indicator.
pub const NOISE: f64 = 1.0;
/// Fractions of the train, validation and test parts.
pub const FRACTIONS: [f64; 3] = [0.1, 0.1, 0.8];

/// Approximate number of edges per chunk.
const CHUNK: f64 = 65_536.0;

/// The density of edges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Density {
    /// Average number of neighbours.
    Degrees {
        /// Within the node's own block.
        within: f64,
        /// In all other blocks.
        between: f64,
    },
    /// Probability of an edge.
    Probabilities {
        /// Between two nodes of a block.
        within: f64,
        /// Between nodes of different blocks.
        between: f64,
    },
}

/// Options of `ignn generate sbm`.
#[derive(Clone, Debug, PartialEq)]
pub struct SbmOptions {
    /// Number of nodes.
    pub nodes: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// The density of edges.
    pub density: Density,
    /// Number of features, at least one per block; by default the number of blocks, and 0 for none.
    pub features: Option<usize>,
    /// Standard deviation of the noise on the indicator.
    pub noise: f64,
    /// Fractions of the train, validation and test parts.
    pub fractions: [f64; 3],
}

impl Default for SbmOptions {
    fn default() -> Self {
        Self {
            nodes: NODES,
            blocks: BLOCKS,
            density: Density::Degrees { within: DEGREE_WITHIN, between: DEGREE_BETWEEN },
            features: None,
            noise: NOISE,
            fractions: FRACTIONS,
        }
    }
}

/// A graph with checked options.
pub struct Sbm {
    options: SbmOptions,
    columns: usize,
    within: f64,
    between: f64,
    /// Nodes per chunk; a chunk has their edges to later nodes.
    rows: u64,
    seed: u64,
}

impl Sbm {
    /// Checks the options.
    pub fn new(options: &SbmOptions, seed: u64) -> Result<Self> {
        let command = "generate sbm";
        let SbmOptions { blocks, noise, fractions, .. } = *options;
        let nodes = require_nodes(command, Some(options.nodes))?;
        require((1..=nodes).contains(&blocks) && blocks <= i32::MAX as u64, || {
            format!("{command}: {blocks} blocks of {nodes} nodes (expected 1 to {nodes})")
        })?;
        let size = nodes as f64 / blocks as f64;
        // Without other nodes (one block, or blocks of one node), there are no such edges.
        let share = |degree: f64, others: f64| if others <= 0.0 { 0.0 } else { degree / others };
        let (within, between) = match options.density {
            Density::Probabilities { within, between } => (within, between),
            Density::Degrees { within, between } => {
                (share(within, size - 1.0), share(between, nodes as f64 - size))
            }
        };
        for (name, probability) in [("inside a block", within), ("between blocks", between)] {
            require((0.0..=1.0).contains(&probability), || {
                format!("{command}: an edge {name} has probability {probability} (expected 0 to 1)")
            })?;
        }
        let columns = options.features.unwrap_or(blocks as usize);
        require(columns == 0 || columns as u64 >= blocks, || {
            format!(
                "{command}: {columns} features for {blocks} blocks (expected at least one per \
                 block, or 0)"
            )
        })?;
        require(noise.is_finite() && noise >= 0.0, || {
            format!("{command}: noise {noise} (expected a non-negative number)")
        })?;
        let valid = fractions.iter().all(|f| (0.0..=1.0).contains(f))
            && fractions.iter().sum::<f64>() < 1.0 + 1e-9;
        require(valid, || {
            format!(
                "{command}: fractions {fractions:?} (expected three from 0 to 1 that sum to at \
                 most 1)"
            )
        })?;
        // On average, half of a node's edges lead to later nodes.
        let expected = (within * size + between * (nodes as f64 - size)) / 2.0;
        let rows = (CHUNK / expected.max(1.0)).max(1.0) as u64;
        Ok(Self { options: options.clone(), columns, within, between, rows, seed })
    }

    /// The nodes of a block.
    fn block(&self, block: u64) -> Range<u64> {
        let first = |block: u64| block * self.options.nodes / self.options.blocks;
        first(block)..first(block + 1)
    }

    fn block_of(&self, node: u64) -> u64 {
        // The last block that starts at or before the node.
        let guess = node * self.options.blocks / self.options.nodes;
        if self.block(guess).end <= node { guess + 1 } else { guess }
    }

    fn rows_of(&self, chunk: u64) -> Range<u64> {
        let nodes = self.options.nodes;
        (chunk * self.rows).min(nodes)..((chunk + 1) * self.rows).min(nodes)
    }
}

/// Selects each pair of a set with the same probability.
struct Skips {
    stream: Sequence,
}

impl Skips {
    /// Number of pairs to skip before the next selected one.
    fn next(&mut self, log_without: f64) -> u64 {
        // Infinite for probability 0 and 0 for probability 1; the cast saturates.
        ((1.0 - self.stream.unit()).ln() / log_without) as u64
    }
}

impl Content for Sbm {
    fn nodes(&self) -> u64 {
        self.options.nodes
    }

    fn edge_chunks(&self) -> u64 {
        self.options.nodes.div_ceil(self.rows)
    }

    fn edge_chunk(&self, chunk: u64, edges: &mut Vec<[u32; 2]>) {
        let mut skips = Skips { stream: Sequence::new(self.seed, "sbm edges").fork(chunk) };
        let log_within = (-self.within).ln_1p();
        let log_between = (-self.between).ln_1p();
        let mut rows = self.rows_of(chunk);
        while !rows.is_empty() {
            // The rows of the chunk that are in one block.
            let block = self.block(self.block_of(rows.start));
            let part = rows.start..rows.end.min(block.end);
            rows.start = part.end;
            if self.within > 0.0 {
                let mut skip = skips.next(log_within);
                for node in part.clone() {
                    let later = block.end - 1 - node;
                    while skip < later {
                        edges.push([node as u32, (node + 1 + skip) as u32]);
                        skip = skip.saturating_add(1).saturating_add(skips.next(log_within));
                    }
                    skip -= later;
                }
            }
            let others = self.options.nodes - block.end;
            if self.between > 0.0 && others > 0 {
                // All later blocks are alike: one rectangle.
                let pairs = (part.end - part.start) * others;
                let mut at = skips.next(log_between);
                while at < pairs {
                    edges.push([
                        (part.start + at / others) as u32,
                        (block.end + at % others) as u32,
                    ]);
                    at = at.saturating_add(1).saturating_add(skips.next(log_between));
                }
            }
        }
    }

    fn features(&self) -> Option<Features<'_>> {
        let stream = Sequence::new(self.seed, "sbm features");
        let fill = move |first: u64, rows: &mut [f32]| {
            for (node, row) in (first..).zip(rows.chunks_exact_mut(self.columns)) {
                let mut stream = stream.fork(node);
                row.fill_with(|| (self.options.noise * stream.normal()) as f32);
                row[self.block_of(node) as usize] += 1.0;
            }
        };
        (self.columns > 0).then(|| Features::Dense { columns: self.columns, fill: Box::new(fill) })
    }

    fn labels(&self) -> Option<Labels> {
        let classes = (0..self.options.blocks).map(|block| block.to_string()).collect();
        let of = (0..self.options.nodes).map(|node| self.block_of(node) as i32).collect();
        Some(Labels::Single { classes, of })
    }

    fn splits(&self) -> Vec<Split> {
        let mut left = self.options.nodes;
        let counts = self.options.fractions.map(|fraction| {
            let count = ((fraction * self.options.nodes as f64).round() as u64).min(left);
            left -= count;
            count
        });
        vec![draw_split(Sequence::new(self.seed, "sbm split"), self.options.nodes, counts)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(sbm: &Sbm) -> Vec<[u32; 2]> {
        let mut edges = Vec::new();
        (0..sbm.edge_chunks()).for_each(|chunk| sbm.edge_chunk(chunk, &mut edges));
        edges
    }

    #[test]
    fn degrees_are_as_asked_and_pairs_are_distinct() {
        let options = SbmOptions { nodes: 30_001, blocks: 7, ..SbmOptions::default() };
        let sbm = Sbm::new(&options, 3).unwrap();
        let mut drawn = edges(&sbm);
        let count = drawn.len();
        assert!(
            sbm.edge_chunks() > 2 && drawn.iter().all(|[u, v]| u < v && u64::from(*v) < 30_001)
        );
        let inside = drawn
            .iter()
            .filter(|[u, v]| sbm.block_of((*u).into()) == sbm.block_of((*v).into()))
            .count();
        let degree = |edges: usize| 2.0 * edges as f64 / 30_001.0;
        assert!((degree(inside) - 12.0).abs() < 0.2 && (degree(count - inside) - 4.0).abs() < 0.1);
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), count);
    }

    #[test]
    fn certain_and_impossible_edges() {
        let density = Density::Probabilities { within: 1.0, between: 0.0 };
        let options = SbmOptions { nodes: 11, blocks: 3, density, ..SbmOptions::default() };
        let sbm = Sbm::new(&options, 1).unwrap();
        assert_eq!((0..3).map(|block| sbm.block(block)).collect::<Vec<_>>(), [0..3, 3..7, 7..11]);
        let full: usize = [3, 4, 4].iter().map(|size| size * (size - 1) / 2).sum();
        assert_eq!(edges(&sbm).len(), full);
        let density = Density::Probabilities { within: 0.0, between: 1.0 };
        let sbm = Sbm::new(&SbmOptions { density, ..options }, 1).unwrap();
        assert_eq!(edges(&sbm).len(), 11 * 10 / 2 - full);
    }

    #[test]
    fn features_indicate_the_block_despite_noise() {
        let sbm = Sbm::new(
            &SbmOptions { nodes: 4000, blocks: 2, noise: 0.5, ..SbmOptions::default() },
            1,
        )
        .unwrap();
        let Some(Features::Dense { columns: 2, fill }) = sbm.features() else { panic!() };
        let mut rows = vec![0.0; 8000];
        fill(0, &mut rows);
        let mean =
            |column: usize| rows[..4000].iter().skip(column).step_by(2).sum::<f32>() / 2000.0;
        assert!((mean(0) - 1.0).abs() < 0.05 && mean(1).abs() < 0.05);
        // Any range of rows gives the same values.
        let mut some = vec![0.0; 20];
        fill(1000, &mut some);
        assert_eq!(some, rows[2000..2020]);
    }

    #[test]
    fn bad_options_are_reported() {
        let message = |options| Sbm::new(&options, 1).err().unwrap().to_string();
        let default = SbmOptions::default();
        assert_eq!(
            message(SbmOptions { blocks: 0, ..default }),
            "generate sbm: 0 blocks of 10000 nodes (expected 1 to 10000)"
        );
        let density = Density::Probabilities { within: 1.5, between: 0.0 };
        assert_eq!(
            message(SbmOptions { density, ..default }),
            "generate sbm: an edge inside a block has probability 1.5 (expected 0 to 1)"
        );
        assert_eq!(
            message(SbmOptions { features: Some(3), ..default }),
            "generate sbm: 3 features for 5 blocks (expected at least one per block, or 0)"
        );
        assert_eq!(
            message(SbmOptions { fractions: [0.5, 0.5, 0.5], ..default }),
            "generate sbm: fractions [0.5, 0.5, 0.5] (expected three from 0 to 1 that sum to at \
             most 1)"
        );
    }
}
