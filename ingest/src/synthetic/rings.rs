//! Rings whose nodes have a number that depends on all nodes of their ring: a regression with a
//! known answer.
//!
//! Node i has one feature u_i, a normal variate. Its number is the heat that all nodes of its ring
//! send along the ring, which decays by a factor per step, in a unit of its own, with noise:
//!
//! ```text
//! y_i = 20 + 5 (sum over d of decay^|d| u_(i + d) + noise e_i)
//! ```
//!
//! The sum runs around the ring without end, and e_i is another normal variate. On the renormalised
//! ring the sum is the equilibrium of `x = w A x + u` times `1 - w (1 + 2 decay) / 3`, where `w = 3
//! decay / (1 + decay + decay^2)`: a linear model with a state of one number is exact. Without noise,
//! R^2 of that model is 1; with noise it is 1 - noise^2 / (variance of the sum + noise^2).
//!
//! With `by_graph`, each ring is a graph of its own, and its number is the mean of those of its
//! nodes.

use ignn_format::graphs::Graphs;
use ignn_format::labels::Labels;
use ignn_format::random::Sequence;
use ignn_format::splits::Split;

use crate::content::{Content, Features};
use crate::error::Result;
use crate::synthetic::{draw_split, require, require_nodes};

/// Number of rings.
pub const RINGS: u64 = 50;
/// Nodes per ring.
pub const LENGTH: u64 = 40;
/// Factor by which heat decays per step.
pub const DECAY: f64 = 0.5;
/// Deviation of the noise, in units of that of the features.
pub const NOISE: f64 = 0.0;
/// Name of the number.
pub const NAME: &str = "heat";

/// Mean and scale of the number.
const OFFSET: f64 = 20.0;
const SCALE: f64 = 5.0;
/// Nodes per chunk of edges.
const CHUNK: u64 = 1 << 16;

/// Options of `ignn generate rings`.
#[derive(Clone, Debug, PartialEq)]
pub struct RingsOptions {
    /// Number of rings.
    pub rings: u64,
    /// Nodes per ring.
    pub length: u64,
    /// Factor by which heat decays per step.
    pub decay: f64,
    /// Deviation of the noise.
    pub noise: f64,
    /// Whether each ring is a graph with a number.
    pub by_graph: bool,
}

impl Default for RingsOptions {
    fn default() -> Self {
        Self { rings: RINGS, length: LENGTH, decay: DECAY, noise: NOISE, by_graph: false }
    }
}

/// Rings with checked options.
pub struct Rings {
    options: RingsOptions,
    nodes: u64,
    seed: u64,
    graphs: Option<Graphs>,
}

impl Rings {
    /// Checks the options.
    pub fn new(options: &RingsOptions, seed: u64) -> Result<Self> {
        let command = "generate rings";
        let RingsOptions { rings, length, decay, noise, by_graph } = *options;
        let nodes = require_nodes(command, rings.checked_mul(length))?;
        require(length >= 3, || {
            format!("{command}: rings of {length} nodes (expected 3 or more)")
        })?;
        require((0.0..1.0).contains(&decay), || {
            format!("{command}: --decay {decay} (expected at least 0 and below 1)")
        })?;
        require(noise.is_finite() && noise >= 0.0, || {
            format!("{command}: --noise {noise} (expected a number of at least 0)")
        })?;
        let mut set = Self { options: options.clone(), nodes, seed, graphs: None };
        if by_graph {
            let numbers = set.numbers();
            let mean = |ring: &[f64]| ring.iter().sum::<f64>() / ring.len() as f64;
            set.graphs = Some(Graphs {
                ids: (0..rings).map(|ring| ring.to_string()).collect(),
                first_node: (0..=rings).map(|ring| ring * length).collect(),
                classes: vec![NAME.into()],
                labels: Vec::new(),
                numbers: numbers.chunks(length as usize).map(mean).collect(),
                splits: vec![set.split(rings)],
            });
        }
        Ok(set)
    }

    /// The feature of a node.
    fn feature(&self, node: u64) -> f64 {
        Sequence::new(self.seed, "rings features").fork(node).normal()
    }

    /// The numbers of all nodes.
    fn numbers(&self) -> Vec<f64> {
        let noise = Sequence::new(self.seed, "rings noise");
        let (length, decay) = (self.options.length as usize, self.options.decay);
        let mut numbers = Vec::with_capacity(self.nodes as usize);
        for ring in 0..self.options.rings {
            let first = ring * self.options.length;
            let u: Vec<f64> = (first..first + length as u64).map(|at| self.feature(at)).collect();
            // Heat that comes from one side: all turns around the ring are a geometric series.
            let side = |u: &dyn Fn(usize) -> f64| -> Vec<f64> {
                let one_turn: f64 =
                    (0..length).map(|d| decay.powi(d as i32) * u((length - d) % length)).sum();
                let mut heat = vec![one_turn / (1.0 - decay.powi(length as i32))];
                for at in 1..length {
                    heat.push(u(at) + decay * heat[at - 1]);
                }
                heat
            };
            let before = side(&|at| u[at]);
            let after = side(&|at| u[length - 1 - at]);
            for at in 0..length {
                let heat = before[at] + after[length - 1 - at] - u[at];
                let e = noise.fork(first + at as u64).normal();
                numbers.push(OFFSET + SCALE * (heat + self.options.noise * e));
            }
        }
        numbers
    }

    /// Half for training, a quarter for validation, the rest for testing.
    fn split(&self, items: u64) -> Split {
        let (train, val) = (items / 2, items / 4);
        let counts = [train, val, items - train - val];
        draw_split(Sequence::new(self.seed, "rings split"), items, counts)
    }
}

impl Content for Rings {
    fn nodes(&self) -> u64 {
        self.nodes
    }

    fn edge_chunks(&self) -> u64 {
        self.nodes.div_ceil(CHUNK)
    }

    fn edge_chunk(&self, chunk: u64, edges: &mut Vec<[u32; 2]>) {
        let length = self.options.length;
        let nodes = chunk * CHUNK..self.nodes.min((chunk + 1) * CHUNK);
        edges.extend(nodes.map(|node| {
            let next = if (node + 1) % length == 0 { node + 1 - length } else { node + 1 };
            [node as u32, next as u32]
        }));
    }

    fn edges(&self) -> Option<u64> {
        Some(self.nodes)
    }

    fn features(&self) -> Option<Features<'_>> {
        let fill = move |first: u64, rows: &mut [f32]| {
            (first..).zip(rows).for_each(|(node, row)| *row = self.feature(node) as f32);
        };
        Some(Features::Dense { columns: 1, fill: Box::new(fill) })
    }

    fn labels(&self) -> Option<Labels> {
        (!self.options.by_graph).then(|| Labels::numbers(NAME, self.numbers()))
    }

    fn splits(&self) -> Vec<Split> {
        if self.options.by_graph { Vec::new() } else { vec![self.split(self.nodes)] }
    }

    fn graphs(&self) -> Option<&Graphs> {
        self.graphs.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_heat_of_all_nodes_of_a_ring() {
        let options = RingsOptions { rings: 3, length: 7, decay: 0.6, ..RingsOptions::default() };
        let rings = Rings::new(&options, 5).unwrap();
        let Some(Labels::Number { name, of }) = rings.labels() else { panic!() };
        assert_eq!((&name[0][..], of.len()), (NAME, 21));
        for ring in 0..3i64 {
            for i in 0..7i64 {
                let feature = |d: i64| rings.feature((7 * ring + (i + d).rem_euclid(7)) as u64);
                let heat: f64 =
                    (-200..=200).map(|d: i64| 0.6f64.powi(d.abs() as i32) * feature(d)).sum();
                let found = of[(7 * ring + i) as usize];
                assert!((found - (20.0 + 5.0 * heat)).abs() < 1e-9, "{found}");
            }
        }
        let mut edges = Vec::new();
        rings.edge_chunk(0, &mut edges);
        assert_eq!((edges.len(), edges[6], edges[7]), (21, [6, 0], [7, 8]));
    }

    #[test]
    fn graphs_have_the_mean_of_their_nodes() {
        let options = RingsOptions { rings: 8, length: 5, ..RingsOptions::default() };
        let Some(Labels::Number { of, .. }) = Rings::new(&options, 1).unwrap().labels() else {
            panic!()
        };
        let rings = Rings::new(&RingsOptions { by_graph: true, ..options }, 1).unwrap();
        assert!(rings.labels().is_none() && rings.splits().is_empty());
        let graphs = rings.graphs().unwrap();
        assert!((graphs.numbers[2] - of[10..15].iter().sum::<f64>() / 5.0).abs() < 1e-12);
        assert_eq!((graphs.len(), graphs.splits[0].of.len()), (8, 8));
    }

    #[test]
    fn options_are_checked() {
        let message = |options: RingsOptions| Rings::new(&options, 0).err().unwrap().to_string();
        let two = RingsOptions { length: 2, ..RingsOptions::default() };
        assert_eq!(message(two), "generate rings: rings of 2 nodes (expected 3 or more)");
        let slow = RingsOptions { decay: 1.0, ..RingsOptions::default() };
        let expected = "generate rings: --decay 1 (expected at least 0 and below 1)";
        assert_eq!(message(slow), expected);
        let loud = RingsOptions { noise: f64::NAN, ..RingsOptions::default() };
        assert_eq!(message(loud), "generate rings: --noise NaN (expected a number of at least 0)");
    }
}
