//! A small graph for the examples: four communities whose nodes mostly know each other, with noisy
//! features, labels and a split. The same seed gives the same graph.

use ignn::prelude::*;

const COMMUNITIES: u32 = 4;

/// A graph of `nodes` nodes, about ten edges per node.
pub fn graph(nodes: u32, seed: u64) -> ignn::Result<Graph> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    // Xorshift: numbers in [0, 1).
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let class = |node: u32| node % COMMUNITIES;
    let mut edges = Vec::new();
    for node in 0..nodes {
        for _ in 0..5 {
            let other = (random() * nodes as f32) as u32;
            // Nine of ten edges stay in the community.
            let stays = random() < 0.9;
            let other = if stays { other - class(other) + class(node) } else { other };
            edges.push((node, other.min(nodes - 1)));
        }
    }
    let mut features = Vec::new();
    for node in 0..nodes {
        for column in 0..COMMUNITIES {
            features.push(f32::from(u8::from(column == class(node))) + 2.0 * random());
        }
    }
    let part = |wanted: u32| (0..nodes).filter(move |node| node / COMMUNITIES % 5 == wanted);
    let graph = GraphBuilder::new(nodes as usize)
        .edges(edges)
        .features(COMMUNITIES as usize, features)
        .classes(["red", "green", "blue", "yellow"], (0..nodes).map(|node| Some(class(node))))
        .split(part(0), part(1), part(2).chain(part(3)).chain(part(4)));
    Ok(graph.build()?)
}
