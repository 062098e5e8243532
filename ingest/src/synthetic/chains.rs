//! Directed chains whose class is only visible at their first node: a test of long-range
//! dependencies.
//!
//! For each class there are `chains` chains of `length` nodes; ids are consecutive along a chain.
//! All features are zero except feature `class` of the first node of a chain, which is 1. The label
//! of every node is the class of its chain.

use ignn_format::labels::Labels;
use ignn_format::splits::Split;

use crate::content::{Content, Features};
use crate::error::Result;
use crate::synthetic::{draw_split, require, require_nodes};
use ignn_format::random::Sequence;

/// Number of classes.
pub const CLASSES: u64 = 2;
/// Chains per class.
pub const CHAINS: u64 = 20;
/// Nodes per chain.
pub const LENGTH: u64 = 10;
/// Number of features.
pub const FEATURES: usize = 100;
/// Train nodes.
pub const TRAIN: u64 = 20;
/// Validation nodes.
pub const VAL: u64 = 100;
/// Test nodes.
pub const TEST: u64 = 200;

/// Nodes per chunk of edges.
const CHUNK: u64 = 1 << 16;

/// Options of `ignn generate chains`.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainsOptions {
    /// Number of classes.
    pub classes: u64,
    /// Chains per class.
    pub chains: u64,
    /// Nodes per chain.
    pub length: u64,
    /// Number of features, at least one per class.
    pub features: usize,
    /// Nodes of the train part, drawn at random.
    pub train: u64,
    /// Nodes of the validation part.
    pub val: u64,
    /// Nodes of the test part.
    pub test: u64,
}

impl Default for ChainsOptions {
    fn default() -> Self {
        Self {
            classes: CLASSES,
            chains: CHAINS,
            length: LENGTH,
            features: FEATURES,
            train: TRAIN,
            val: VAL,
            test: TEST,
        }
    }
}

/// Chains with checked options.
pub struct Chains {
    options: ChainsOptions,
    nodes: u64,
    seed: u64,
}

impl Chains {
    /// Checks the options.
    pub fn new(options: &ChainsOptions, seed: u64) -> Result<Self> {
        let command = "generate chains";
        let ChainsOptions { classes, chains, length, features, train, val, test } = *options;
        let nodes = classes.checked_mul(chains).and_then(|chains| chains.checked_mul(length));
        let nodes = require_nodes(command, nodes)?;
        require(features as u64 >= classes, || {
            format!(
                "{command}: {features} features for {classes} classes (expected at least one per \
                 class)"
            )
        })?;
        let drawn = train.checked_add(val).and_then(|sum| sum.checked_add(test));
        require(drawn.is_some_and(|drawn| drawn <= nodes), || {
            format!(
                "{command}: {train} train, {val} validation and {test} test nodes of {nodes} \
                 nodes: make the chains longer or the parts smaller"
            )
        })?;
        Ok(Self { options: options.clone(), nodes, seed })
    }

    fn class_of(&self, node: u64) -> u64 {
        node / (self.options.chains * self.options.length)
    }
}

impl Content for Chains {
    fn nodes(&self) -> u64 {
        self.nodes
    }

    fn edge_chunks(&self) -> u64 {
        self.nodes.div_ceil(CHUNK)
    }

    fn edge_chunk(&self, chunk: u64, edges: &mut Vec<[u32; 2]>) {
        let nodes = chunk * CHUNK..self.nodes.min((chunk + 1) * CHUNK);
        let inner = nodes.filter(|node| (node + 1) % self.options.length != 0);
        edges.extend(inner.map(|node| [node as u32, node as u32 + 1]));
    }

    fn edges(&self) -> Option<u64> {
        Some(self.nodes - self.options.classes * self.options.chains)
    }

    fn features(&self) -> Option<Features<'_>> {
        let columns = self.options.features;
        let fill = move |first: u64, rows: &mut [f32]| {
            rows.fill(0.0);
            for (node, row) in (first..).zip(rows.chunks_exact_mut(columns)) {
                if node % self.options.length == 0 {
                    row[self.class_of(node) as usize] = 1.0;
                }
            }
        };
        Some(Features::Dense { columns, fill: Box::new(fill) })
    }

    fn labels(&self) -> Option<Labels> {
        let classes = (0..self.options.classes).map(|class| class.to_string()).collect();
        Some(Labels::Single {
            classes,
            of: (0..self.nodes).map(|node| self.class_of(node) as i32).collect(),
        })
    }

    fn splits(&self) -> Vec<Split> {
        let counts = [self.options.train, self.options.val, self.options.test];
        vec![draw_split(Sequence::new(self.seed, "chains split"), self.nodes, counts)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_setting() {
        let chains = Chains::new(&ChainsOptions::default(), 1).unwrap();
        assert_eq!(chains.nodes(), 400);
        let mut edges = Vec::new();
        chains.edge_chunk(0, &mut edges);
        assert_eq!((edges.len() as u64, chains.edges()), (360, Some(360)));
        assert!(edges.iter().all(|[u, v]| v - u == 1 && v % 10 != 0));
        let Some(Features::Dense { columns: 100, fill }) = chains.features() else { panic!() };
        let mut rows = vec![1.0; 400 * 100];
        fill(0, &mut rows);
        let ones: Vec<_> =
            (0..rows.len()).filter(|&at| rows[at] == 1.0).map(|at| (at / 100, at % 100)).collect();
        assert_eq!(ones, (0..40).map(|chain| (chain * 10, chain / 20)).collect::<Vec<_>>());
        assert_eq!(rows.iter().sum::<f32>(), 40.0);
        let Some(Labels::Single { of, .. }) = chains.labels() else { panic!() };
        assert_eq!((of[199], of[200]), (0, 1));
        let split = &chains.splits()[0];
        assert_eq!(
            [0, 1, 2].map(|part| split.of.iter().filter(|&&of| of == part).count()),
            [20, 100, 200]
        );
    }

    #[test]
    fn bad_options_are_reported() {
        let message = |options| Chains::new(&options, 1).err().unwrap().to_string();
        let default = ChainsOptions::default();
        assert_eq!(
            message(ChainsOptions { length: 5, ..default }),
            "generate chains: 20 train, 100 validation and 200 test nodes of 200 nodes: make the \
             chains longer or the parts smaller"
        );
        assert_eq!(
            message(ChainsOptions { features: 1, ..default }),
            "generate chains: 1 features for 2 classes (expected at least one per class)"
        );
        assert_eq!(
            message(ChainsOptions { length: 0, ..default }),
            "generate chains: 0 nodes (expected 1 to 4294967295)"
        );
        assert_eq!(
            message(ChainsOptions { length: u64::MAX, ..default }),
            "generate chains: more than 2^64 nodes (expected 1 to 4294967295)"
        );
    }
}
