//! Small random graphs for the tests of the solver.

use crate::kernels::AdjacencyRef;

#[path = "../../tests/reference.rs"]
#[allow(dead_code)]
pub(crate) mod reference;

pub(crate) use reference::Random;

/// Number of random cases of a test: `IGNN_CASES`, or a sample.
pub(crate) fn cases(sample: usize) -> usize {
    std::env::var("IGNN_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(sample)
}

/// Entries (source, target, value) of A.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub nodes: usize,
    pub entries: Vec<(usize, usize, f32)>,
}

/// One direction of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Csr {
    pub offsets: Vec<u64>,
    pub neighbours: Vec<u32>,
    pub values: Vec<f32>,
    /// A factor on both sides.
    pub scale: Option<Vec<f32>>,
}

impl Csr {
    pub fn view(&self) -> AdjacencyRef<'_> {
        let plain =
            AdjacencyRef::new(self.offsets.len() - 1, &self.offsets, &self.neighbours).unwrap();
        let valued = plain.with_values(&self.values);
        match &self.scale {
            Some(scale) => valued.with_gather_scale(scale).with_row_scale(scale),
            None => valued,
        }
    }
}

impl Graph {
    /// Up to 14 nodes: sparse or dense, weighted or not, with or without loops, directed,
    /// undirected, bipartite, forward edges only, or of several blocks.
    pub fn random(random: &mut Random) -> Self {
        let nodes = 1 + random.below(14);
        let density = [0.05, 0.15, 0.3, 0.8][random.below(4)];
        let (weighted, loops, shape) = (random.below(3), random.below(2) == 0, random.below(6));
        let mut matrix = std::collections::BTreeMap::new();
        for i in 0..nodes {
            for j in 0..nodes {
                let allowed = match shape {
                    2 => i % 2 != j % 2,
                    3 => i < j || (i == j && random.below(4) == 0),
                    4 => i / 4 == j / 4,
                    5 => i / 4 <= j / 4,
                    _ => true,
                };
                if allowed && random.unit() < density && (i != j || loops) {
                    let value = match weighted {
                        0 => 1.0,
                        1 => random.unit() as f32 * 3.0,
                        _ => (random.sign() * 7.0).exp() as f32,
                    };
                    matrix.insert((i, j), value);
                    if shape == 1 || shape == 2 {
                        matrix.insert((j, i), value);
                    }
                }
            }
        }
        let entries = matrix.into_iter().filter(|entry| entry.1 != 0.0);
        Self { nodes, entries: entries.map(|((i, j), value)| (i, j, value)).collect() }
    }

    /// Rows are targets (incoming edges) or, if asked, sources (outgoing edges).
    pub fn csr(&self, outgoing: bool) -> Csr {
        let key = |&(source, target, value): &(usize, usize, f32)| {
            if outgoing { (source, target, value) } else { (target, source, value) }
        };
        let mut entries: Vec<_> = self.entries.iter().map(key).collect();
        entries.sort_by_key(|entry| (entry.0, entry.1));
        let offset = |row| entries.partition_point(|entry| entry.0 < row) as u64;
        Csr {
            offsets: (0..=self.nodes).map(offset).collect(),
            neighbours: entries.iter().map(|entry| entry.1 as u32).collect(),
            values: entries.iter().map(|entry| entry.2).collect(),
            scale: None,
        }
    }

    /// A + I
    pub fn with_loops(&self) -> Self {
        let mut entries = self.entries.clone();
        let mut missing = vec![true; self.nodes];
        for entry in entries.iter_mut().filter(|entry| entry.0 == entry.1) {
            entry.2 += 1.0;
            missing[entry.0] = false;
        }
        entries.extend((0..self.nodes).filter(|&node| missing[node]).map(|node| (node, node, 1.0)));
        Self { nodes: self.nodes, entries }
    }

    /// D^-1/2, D the sums of rows.
    pub fn inverse_roots(&self) -> Vec<f64> {
        let mut sums = vec![0f64; self.nodes];
        for entry in &self.entries {
            sums[entry.0] += f64::from(entry.2);
        }
        sums.into_iter().map(|sum| sum.sqrt().recip()).collect()
    }

    /// D^-1/2 (A + I) D^-1/2 in f32, D the sums of rows.
    pub fn renormalised(&self) -> Self {
        let mut graph = self.with_loops();
        let roots = graph.inverse_roots();
        for entry in &mut graph.entries {
            entry.2 = (f64::from(entry.2) * roots[entry.0] * roots[entry.1]) as f32;
        }
        graph
    }
}

/// A golden case, from the directory that `IGNN_SHARED` names or the project's neighbour `shared`.
pub(crate) fn golden(name: &str) -> Option<serde_json::Value> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = std::env::var_os("IGNN_SHARED").map_or_else(|| root.join("../shared"), Into::into);
    let path = shared.join("golden").join(name);
    match std::fs::read_to_string(&path) {
        Ok(text) => Some(serde_json::from_str(&text).expect("golden files are JSON")),
        Err(error) => {
            eprintln!("skipped: {}: {error} (set IGNN_SHARED)", path.display());
            None
        }
    }
}
