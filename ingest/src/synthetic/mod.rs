//! Generators of graphs, one file per kind. The result depends on the seed, but not on the number
//! of threads. They implement [`crate::content::Content`]; raw files are written by [`raw`] and
//! [`ppi_raw`].

pub mod chains;
pub mod grid;
mod npy;
pub mod ppi;
pub mod ppi_raw;
pub mod raw;
pub mod rings;
pub mod rmat;
pub mod sbm;

use ignn_format::splits::{NO_PART, Split};

use crate::error::{IngestError, Result};
use ignn_format::random::Sequence;

/// Name of a generated split.
pub const SPLIT: &str = "default";
/// Names of its parts.
pub const PARTS: [&str; 3] = ["train", "val", "test"];
/// Maximum number of nodes of a dataset.
pub const MAX_NODES: u64 = u32::MAX as u64;

/// Rejects options with this message unless the condition holds.
fn require(holds: bool, message: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(IngestError::Usage(message())) }
}

/// Rejects a number of nodes that no dataset can have; `None` is a number beyond 64 bits.
fn require_nodes(command: &str, nodes: Option<u64>) -> Result<u64> {
    match nodes {
        Some(nodes) if (1..=MAX_NODES).contains(&nodes) => Ok(nodes),
        Some(nodes) => {
            Err(IngestError::Usage(format!("{command}: {nodes} nodes (expected 1 to {MAX_NODES})")))
        }
        None => Err(IngestError::Usage(format!(
            "{command}: more than 2^64 nodes (expected 1 to {MAX_NODES})"
        ))),
    }
}

/// Draws disjoint parts at random; the sum of `counts` is at most `nodes`.
fn draw_split(mut stream: Sequence, nodes: u64, counts: [u64; 3]) -> Split {
    let mut order: Vec<u32> = (0..nodes as u32).collect();
    let mut of = vec![NO_PART; nodes as usize];
    let mut at = 0;
    for (part, count) in (0u8..).zip(counts) {
        for _ in 0..count {
            // Fisher-Yates, only as far as needed.
            order.swap(at, at + stream.below(nodes - at as u64) as usize);
            of[order[at] as usize] = part;
            at += 1;
        }
    }
    Split { name: SPLIT.into(), parts: PARTS.map(String::from).into(), of }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_has_exactly_its_counts() {
        let split = draw_split(Sequence::new(3, "split"), 50, [5, 10, 35]);
        let count = |part| split.of.iter().filter(|&&of| of == part).count();
        assert_eq!([0, 1, 2, NO_PART].map(count), [5, 10, 35, 0]);
        assert_ne!(split, draw_split(Sequence::new(4, "split"), 50, [5, 10, 35]));
    }
}
