//! A set of nodes, one bit per node.

/// A subset of the nodes `0 .. nodes`.
#[derive(Clone, Debug)]
pub struct NodeSet {
    bits: Vec<u64>,
    nodes: u64,
    count: u64,
}

impl NodeSet {
    /// The empty set; it uses `nodes / 8` bytes.
    pub fn new(nodes: u64) -> Self {
        Self { bits: vec![0; nodes.div_ceil(64) as usize], nodes, count: 0 }
    }

    /// Adds a node; returns false if it was already there.
    pub fn insert(&mut self, node: u32) -> bool {
        let (word, bit) = (&mut self.bits[node as usize / 64], 1 << (node % 64));
        let new = *word & bit == 0;
        *word |= bit;
        self.count += u64::from(new);
        new
    }

    /// Number of nodes that are missing.
    pub fn missing(&self) -> u64 {
        self.nodes - self.count
    }

    /// The lowest node that is missing.
    pub fn first_missing(&self) -> Option<u32> {
        let word = self.bits.iter().position(|&word| word != u64::MAX)?;
        let node = word as u64 * 64 + u64::from(self.bits[word].trailing_ones());
        (node < self.nodes).then_some(node as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_finds_what_is_missing() {
        let mut set = NodeSet::new(66);
        assert_eq!((set.missing(), set.first_missing()), (66, Some(0)));
        for node in 0..65 {
            assert!(set.insert(node));
        }
        assert!(!set.insert(3));
        assert_eq!((set.missing(), set.first_missing()), (1, Some(65)));
        set.insert(65);
        assert_eq!((set.missing(), set.first_missing()), (0, None));
        assert_eq!(NodeSet::new(0).first_missing(), None);
    }
}
