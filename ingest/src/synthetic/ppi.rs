//! A substitute for PPI: graphs of the same sizes, with labels that can only be learned from wide
//! neighbourhoods. It does not imitate proteins; it only shares the counts and the published raw
//! format with the real dataset.
//!
//! Graphs. Nodes are random points in a long, narrow strip; the `m` nearest pairs are connected.
//! Such graphs are local, with about 29 neighbours per node and more than a hundred hops from end
//! to end. A neighbourhood therefore grows slowly with its radius, and a graph has many that do not
//! overlap: enough to learn from.
//!
//! Features. Each node has 50 independent bits, few of them set, standardised to mean 0 and
//! variance 1.
//!
//! Labels. The features `X` are propagated over the graph by personalised PageRank, twice: `Z = R R
//! X` with `R = c sum_k (1 - c)^k P^k`, where `P` is the mean over a node and its neighbours and
//! `c` the restart probability. A node has class `j` if its `w_j . z` (random `w_j`) is among the
//! highest; each class has its own rate, and a node has 37 classes on average. A node's own
//! features thus say almost nothing about its labels; ten or more hops are needed for most of what
//! can be known. A linear fit that knows `w_j` and sees `P^k X` explains 1, 24, 31, 36 and 38 % of
//! the variance of a label for `k` = 0, 2, 5, 10 and 20, measured on a fifth of the full size.

use ignn_format::graphs::Graphs;
use ignn_format::labels::Labels;
use ignn_format::splits::Split;

use crate::collection::{Collection, FeatureTable};
use crate::context::Context;
use crate::error::{IngestError, Result};
use crate::pipeline;
use crate::synthetic::{PARTS, SPLIT, require};
use ignn_format::random::Sequence;

/// Number of graphs of each part, in this order.
pub const GRAPHS: [usize; 3] = [20, 2, 2];
/// Nodes of all graphs.
pub const NODES: u64 = 56_944;
/// Undirected edges of all graphs.
pub const EDGES: u64 = 818_716;
/// Number of features.
pub const FEATURES: usize = 50;
/// Number of classes.
pub const CLASSES: usize = 121;
/// Average number of classes per node.
pub const CLASSES_ON: f64 = 37.0;
/// Restart probability.
pub const RESTART: f64 = 0.05;

/// Nodes of the smallest and of the largest graph at full size.
const SIZES: [f64; 2] = [600.0, 3500.0];
/// The smallest graph must have room for its edges.
const MIN_GRAPH: f64 = 45.0;
/// Width of the strip, where points have density 1.
const WIDTH: f64 = 4.0;
/// Probability that a bit of the features is set.
const BIT: f64 = 0.1;
/// Steps per propagation; a label depends on nodes at most twice as many hops away.
const STEPS: usize = 80;
/// Number of propagations: after only one, close nodes would still dominate.
const PROPAGATIONS: usize = 2;
/// Rates of the rarest and of the most frequent class.
const RATES: [f64; 2] = [0.05, 0.75];
/// Ranks by size of the validation and test graphs: larger than most, and the same for every seed.
const HELD_OUT: [usize; 4] = [14, 20, 17, 22];

/// Options of `ignn generate ppi`.
#[derive(Clone, Debug, PartialEq)]
pub struct PpiOptions {
    /// Fraction of the nodes and edges of the full dataset, for quick runs; the numbers of graphs,
    /// features and classes stay the same.
    pub scale: f64,
    /// Restart probability of the propagation. Smaller values mean that labels depend on wider
    /// neighbourhoods.
    pub restart: f64,
}

impl Default for PpiOptions {
    fn default() -> Self {
        Self { scale: 1.0, restart: RESTART }
    }
}

/// A graph with its features, before and after propagation.
struct Part {
    edges: Vec<[u32; 2]>,
    features: Vec<f32>,
    spread: Vec<f32>,
}

/// Generates the whole dataset.
pub fn generate(options: &PpiOptions, context: &Context) -> Result<Collection> {
    let PpiOptions { scale, restart } = *options;
    let least = MIN_GRAPH / SIZES[0];
    require((least..=1.0).contains(&scale), || {
        format!("generate ppi: scale {scale} (expected {least} to 1)")
    })?;
    require(restart > 0.0 && restart <= 1.0, || {
        format!("generate ppi: restart {restart} (expected a probability above 0)")
    })?;
    let nodes = graph_sizes((NODES as f64 * scale).round() as u64, context.seed);
    let weights: Vec<f64> = nodes.iter().map(|&nodes| nodes as f64).collect();
    let edges = apportion((EDGES as f64 * scale).round() as u64, &weights);

    let stream = Sequence::new(context.seed, "ppi graphs");
    let mut set = Collection {
        features: FeatureTable { plain_columns: FEATURES, ..FeatureTable::default() },
        ..Collection::default()
    };
    let mut spread = Vec::new();
    let mut first_node = vec![0];
    let make = |graph: usize| {
        let stream = stream.fork(graph as u64);
        let edges = nearest_pairs(nodes[graph] as usize, edges[graph] as usize, stream.fork(0));
        let features = draw_features(nodes[graph] as usize, stream.fork(1));
        let spread = propagate_features(nodes[graph] as usize, &edges, &features, restart as f32);
        Ok::<_, IngestError>(Part { edges, features, spread })
    };
    pipeline::ordered(context.threads, (0..nodes.len()).map(Ok), make, |part| {
        let first = set.nodes as u32;
        set.edges.extend(part.edges.iter().map(|pair| pair.map(|node| first + node)));
        set.nodes += (part.features.len() / FEATURES) as u64;
        set.features.plain.extend(part.features);
        spread.extend(part.spread);
        first_node.push(set.nodes);
        Ok(())
    })?;
    set.labels = Some(draw_labels(&spread, context)?);

    let of: Vec<u8> = (0u8..).zip(GRAPHS).flat_map(|(part, count)| vec![part; count]).collect();
    let of_nodes =
        of.iter().zip(&nodes).flat_map(|(&part, &nodes)| vec![part; nodes as usize]).collect();
    let split = |of| Split { name: SPLIT.into(), parts: PARTS.map(String::from).into(), of };
    set.splits = vec![split(of_nodes)];
    set.graphs = Some(Graphs {
        ids: (1..=nodes.len()).map(|graph| graph.to_string()).collect(),
        first_node,
        classes: Vec::new(),
        labels: Vec::new(),
        numbers: Vec::new(),
        splits: vec![split(of)],
    });
    Ok(set)
}

/// Splits a total into whole shares that sum to it exactly, in proportion to weights (largest
/// remainders).
fn apportion(total: u64, weights: &[f64]) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let exact: Vec<f64> = weights.iter().map(|weight| total as f64 * weight / sum).collect();
    let mut shares: Vec<u64> = exact.iter().map(|share| share.floor() as u64).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()).then(a.cmp(&b)));
    let missing = total.saturating_sub(shares.iter().sum());
    order.iter().take(missing as usize).for_each(|&graph| shares[graph] += 1);
    shares
}

/// Number of nodes of each graph: between the two [`SIZES`], in random order for the train part.
fn graph_sizes(nodes: u64, seed: u64) -> Vec<u64> {
    let count: usize = GRAPHS.iter().sum();
    let [smallest, largest] = SIZES;
    // The power for which evenly spaced ranks give the mean size of the real dataset.
    let mean = (NODES as f64 / count as f64 - smallest) / (largest - smallest);
    let power = 1.0 / mean - 1.0;
    let weight = |rank: usize| {
        let place = (rank as f64 + 0.5) / count as f64;
        smallest + (largest - smallest) * place.powf(power)
    };
    let mut ranks: Vec<usize> = (0..count).filter(|rank| !HELD_OUT.contains(rank)).collect();
    Sequence::new(seed, "ppi sizes").shuffle(&mut ranks);
    ranks.extend(HELD_OUT);
    apportion(nodes, &ranks.into_iter().map(weight).collect::<Vec<_>>())
}

/// The `edges` nearest pairs `[u, v]`, `u < v`, of random points in a strip, in ascending order.
fn nearest_pairs(nodes: usize, edges: usize, mut stream: Sequence) -> Vec<[u32; 2]> {
    let length = nodes as f64 / WIDTH;
    let points: Vec<[f64; 2]> =
        (0..nodes).map(|_| [stream.unit() * length, stream.unit() * WIDTH]).collect();
    // The radius of a disc, or half the length of a piece of the strip, that has as many points as
    // a node has neighbours. Borders and chance make it too small, so the search starts with more.
    let degree = 2.0 * edges as f64 / nodes as f64;
    let mut radius = 1.2 * (degree / std::f64::consts::PI).sqrt().max(degree / 2.0 / WIDTH);
    loop {
        let mut pairs = pairs_within(&points, radius, length);
        if pairs.len() >= edges {
            pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let mut nearest: Vec<[u32; 2]> = pairs[..edges].iter().map(|&(_, pair)| pair).collect();
            nearest.sort_unstable();
            return nearest;
        }
        radius *= 1.2;
    }
}

/// All pairs at most `radius` apart, with the square of their distance.
fn pairs_within(points: &[[f64; 2]], radius: f64, length: f64) -> Vec<(f64, [u32; 2])> {
    // Slices across the strip, as long as the radius: a pair is in one slice or in two adjacent
    // ones.
    let slices = ((length / radius).floor() as usize).max(1);
    let slice_of =
        |point: &[f64; 2]| ((point[0] / length * slices as f64) as usize).min(slices - 1);
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); slices];
    for (node, point) in (0u32..).zip(points) {
        members[slice_of(point)].push(node);
    }
    let mut pairs = Vec::new();
    for (slice, here) in members.iter().enumerate() {
        let next = members.get(slice + 1).map_or(&[][..], |next| next);
        for (at, &u) in here.iter().enumerate() {
            for &v in here[at + 1..].iter().chain(next) {
                let [dx, dy] =
                    [0, 1].map(|axis| points[u as usize][axis] - points[v as usize][axis]);
                let square = dx * dx + dy * dy;
                if square <= radius * radius {
                    pairs.push((square, [u.min(v), u.max(v)]));
                }
            }
        }
    }
    pairs
}

fn draw_features(nodes: usize, mut stream: Sequence) -> Vec<f32> {
    let deviation = (BIT * (1.0 - BIT)).sqrt();
    let [off, on] = [0.0, 1.0].map(|bit| ((bit - BIT) / deviation) as f32);
    (0..nodes * FEATURES).map(|_| if stream.unit() < BIT { on } else { off }).collect()
}

/// Neighbours of each node, in ascending order.
fn neighbours(nodes: usize, edges: &[[u32; 2]]) -> Vec<Vec<u32>> {
    let mut neighbours = vec![Vec::new(); nodes];
    for &[u, v] in edges {
        neighbours[u as usize].push(v);
        neighbours[v as usize].push(u);
    }
    neighbours.iter_mut().for_each(|of| of.sort_unstable());
    neighbours
}

/// One step of the mean over each node and its neighbours.
fn mean_step(neighbours: &[Vec<u32>], from: &[f32], to: &mut [f32]) {
    let row = |node: u32| &from[node as usize * FEATURES..][..FEATURES];
    for (node, to) in (0u32..).zip(to.chunks_exact_mut(FEATURES)) {
        let of = &neighbours[node as usize];
        to.copy_from_slice(row(node));
        for &other in of {
            to.iter_mut().zip(row(other)).for_each(|(to, from)| *to += from);
        }
        let share = 1.0 / (of.len() + 1) as f32;
        to.iter_mut().for_each(|to| *to *= share);
    }
}

fn propagate_features(
    nodes: usize,
    edges: &[[u32; 2]],
    features: &[f32],
    restart: f32,
) -> Vec<f32> {
    let neighbours = neighbours(nodes, edges);
    let mut source = features.to_vec();
    let mut next = vec![0.0; source.len()];
    for _ in 0..PROPAGATIONS {
        let mut now = source.clone();
        for _ in 0..STEPS {
            mean_step(&neighbours, &now, &mut next);
            next.iter_mut()
                .zip(&source)
                .for_each(|(next, x)| *next = (1.0 - restart) * *next + restart * x);
            std::mem::swap(&mut now, &mut next);
        }
        source = now;
    }
    source
}

/// Rate of each class: between the two [`RATES`], with the mean required by [`CLASSES_ON`],
/// shuffled.
fn class_rates(seed: u64) -> Vec<f64> {
    let [rarest, commonest] = RATES;
    let power = (commonest - rarest) / (CLASSES_ON / CLASSES as f64 - rarest) - 1.0;
    let place = |class: usize| (class as f64 + 0.5) / CLASSES as f64;
    let mut rates: Vec<f64> = (0..CLASSES)
        .map(|class| rarest + (commonest - rarest) * place(class).powf(power))
        .collect();
    Sequence::new(seed, "ppi rates").shuffle(&mut rates);
    rates
}

/// `w . z` of a class for the rows of all nodes.
fn class_scores(class: usize, rows: &[f32], seed: u64) -> Vec<f32> {
    let mut stream = Sequence::new(seed, "ppi classes").fork(class as u64);
    let weights: Vec<f32> = (0..FEATURES).map(|_| stream.normal() as f32).collect();
    let score = |row: &[f32]| row.iter().zip(&weights).map(|(x, w)| x * w).sum();
    rows.chunks_exact(FEATURES).map(score).collect()
}

fn draw_labels(spread: &[f32], context: &Context) -> Result<Labels> {
    let nodes = spread.len() / FEATURES;
    let rates = class_rates(context.seed);
    let members = |class: usize| {
        let scores = class_scores(class, spread, context.seed);
        let mut order: Vec<u32> = (0..nodes as u32).collect();
        // Ties are broken by number, so that the rate is exact.
        order.sort_unstable_by(|&a, &b| {
            scores[b as usize].total_cmp(&scores[a as usize]).then(a.cmp(&b))
        });
        order.truncate((rates[class] * nodes as f64).round() as usize);
        Ok::<_, IngestError>(order)
    };
    // One bit per class; there are fewer than 128.
    let mut on = vec![0u128; nodes];
    let mut class = 0;
    pipeline::ordered(context.threads, (0..CLASSES).map(Ok), members, |members| {
        members.iter().for_each(|&node| on[node as usize] |= 1 << class);
        class += 1;
        Ok(())
    })?;
    let (mut offsets, mut of) = (vec![0], Vec::new());
    for bits in on {
        of.extend((0..CLASSES as u32).filter(|class| bits >> class & 1 == 1));
        offsets.push(of.len() as u64);
    }
    let classes = (0..CLASSES).map(|class| class.to_string()).collect();
    Ok(Labels::complete_sets(classes, offsets, of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Recorder;

    fn make(scale: f64, seed: u64, threads: usize) -> Collection {
        let context = Context { threads, memory: 1 << 30, seed, observer: &Recorder::default() };
        generate(&PpiOptions { scale, ..PpiOptions::default() }, &context).unwrap()
    }

    #[test]
    fn the_shape_is_that_of_the_real_set() {
        for seed in [0, 1, 2] {
            let sizes = graph_sizes(NODES, seed);
            assert_eq!((sizes.len(), sizes.iter().sum::<u64>()), (24, NODES));
            assert!(sizes.iter().all(|size| (600..=3500).contains(size)));
            assert_eq!(sizes[20..], graph_sizes(NODES, 9)[20..]);
        }
        let set = make(0.1, 1, 2);
        assert_eq!((set.nodes, set.edges.len()), (5694, 81_872));
        let mut distinct = set.edges.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), set.edges.len());
        let graphs = set.graphs.as_ref().unwrap();
        let graph_of =
            |node: u32| graphs.first_node.partition_point(|&first| first <= u64::from(node));
        assert!(set.edges.iter().all(|&[u, v]| u < v && graph_of(u) == graph_of(v)));
        assert_eq!(
            [0, 1, 2].map(|part| graphs.splits[0].of.iter().filter(|&&of| of == part).count()),
            GRAPHS
        );
        assert_eq!(set.features.plain.len(), 5694 * FEATURES);
        let Some(Labels::Multi { classes, of, .. }) = &set.labels else { panic!() };
        assert_eq!(classes.len(), CLASSES);
        let on = of.len() as f64 / 5694.0;
        assert!((on - CLASSES_ON).abs() < 0.5, "{on} classes per node");
    }

    #[test]
    fn threads_do_not_matter_and_seeds_do() {
        let set = make(0.08, 1, 1);
        assert_eq!(set, make(0.08, 1, 3));
        assert_ne!(set.edges, make(0.08, 2, 1).edges);
    }

    #[test]
    fn the_nearest_pairs_are_found() {
        let (nodes, edges) = (200, 1500);
        let found = nearest_pairs(nodes, edges, Sequence::new(4, "points"));
        let mut stream = Sequence::new(4, "points");
        let points: Vec<[f64; 2]> = (0..nodes)
            .map(|_| [stream.unit() * nodes as f64 / WIDTH, stream.unit() * WIDTH])
            .collect();
        let mut all: Vec<(f64, [u32; 2])> = Vec::new();
        for u in 0..nodes {
            for v in u + 1..nodes {
                let square: f64 =
                    (0..2).map(|axis| (points[u][axis] - points[v][axis]).powi(2)).sum();
                all.push((square, [u as u32, v as u32]));
            }
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut expected: Vec<_> = all[..edges].iter().map(|&(_, pair)| pair).collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    /// Share of the variance of a label that the best linear fit on one number per node explains.
    fn explained(x: &[f32], y: &[f32]) -> f64 {
        let moment = |f: &dyn Fn(f64, f64) -> f64| {
            x.iter().zip(y).map(|(&x, &y)| f(x.into(), y.into())).sum::<f64>() / x.len() as f64
        };
        let (mean_x, mean_y) = (moment(&|x, _| x), moment(&|_, y| y));
        let (xx, yy) = (moment(&|x, _| (x - mean_x).powi(2)), moment(&|_, y| (y - mean_y).powi(2)));
        moment(&|x, y| (x - mean_x) * (y - mean_y)).powi(2) / (xx * yy)
    }

    /// The fit knows the weights of the class, so only the distance limits it.
    #[test]
    fn labels_need_wide_neighbourhoods() {
        const CLASSES_TRIED: usize = 15;
        let seed = 3;
        let set = make(0.2, seed, 2);
        let Some(Labels::Multi { offsets, of, .. }) = &set.labels else { panic!() };
        let mut on = vec![vec![0.0; set.nodes as usize]; CLASSES];
        for node in 0..set.nodes as usize {
            of[offsets[node] as usize..offsets[node + 1] as usize]
                .iter()
                .for_each(|&class| on[class as usize][node] = 1.0);
        }
        let neighbours = neighbours(set.nodes as usize, &set.edges);
        let mut rows = set.features.plain.clone();
        let mut next = vec![0.0; rows.len()];
        let mut shares = Vec::new();
        for hops in 0..=20 {
            if [0, 1, 2, 5, 10, 20].contains(&hops) {
                let share = |class: usize| explained(&class_scores(class, &rows, seed), &on[class]);
                shares.push((
                    hops,
                    (0..CLASSES_TRIED).map(share).sum::<f64>() / CLASSES_TRIED as f64,
                ));
            }
            mean_step(&neighbours, &rows, &mut next);
            std::mem::swap(&mut rows, &mut next);
        }
        let share = |hops| shares.iter().find(|(of, _)| *of == hops).unwrap().1;
        assert!(
            share(0) < 0.1 && share(2) > share(0) + 0.1 && share(10) > share(2) + 0.1,
            "{shares:?}"
        );
    }
}
