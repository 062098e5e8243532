//! The ids of a dataset's nodes and the way from an id to its node.

use ignn_format::ids::IdKind;

use crate::edges::map::BitRank;
use crate::error::Result;
use crate::nodes::NodeLookup;

/// Ids in rising order, or as listed; and an order of the nodes on top.
pub struct NodeIndex {
    ids: KnownIds,
    nodes: u64,
    /// New number of each node, where they were reordered.
    position: Option<Vec<u32>>,
}

/// The ids of all nodes before reordering.
pub enum KnownIds {
    /// Node `i` has id `i`.
    Counting,
    /// The members of a set, rising.
    Set(BitRank),
}

impl NodeIndex {
    /// For so many nodes.
    pub fn new(ids: KnownIds, nodes: u64) -> Self {
        Self { ids, nodes, position: None }
    }

    /// Reorders the nodes: `position[i]` is the new number of node `i`.
    pub fn reorder(&mut self, position: Vec<u32>) {
        self.position = Some(position);
    }

    /// The ids.
    pub fn ids(&self) -> &KnownIds {
        &self.ids
    }

    /// The order.
    pub fn position(&self) -> Option<&[u32]> {
        self.position.as_deref()
    }

    fn placed(&self, node: Option<u32>) -> Option<u32> {
        node.map(|node| self.position.as_ref().map_or(node, |position| position[node as usize]))
    }
}

impl NodeLookup for NodeIndex {
    fn kind(&self) -> IdKind {
        IdKind::Integer
    }

    fn nodes(&self) -> u64 {
        self.nodes
    }

    fn find_integer(&self, id: u64) -> Result<Option<u32>> {
        let node = match &self.ids {
            KnownIds::Counting => (id < self.nodes).then_some(id as u32),
            KnownIds::Set(set) => set.contains(id).then(|| set.rank(id as u32)),
        };
        Ok(self.placed(node))
    }

    fn find_string(&self, _id: &str) -> Result<Option<u32>> {
        Ok(None)
    }

    fn is_counting(&self) -> bool {
        matches!(self.ids, KnownIds::Counting) && self.position.is_none()
    }
}
