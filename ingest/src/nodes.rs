//! From the user's node ids to node numbers, for labels, features and splits.

use ignn_format::ids::IdKind;

use crate::error::Result;

/// Finds nodes by the user's id. Numbers are final, after any reordering.
pub trait NodeLookup: Sync {
    /// Type of the ids.
    fn kind(&self) -> IdKind;
    /// Number of nodes.
    fn nodes(&self) -> u64;
    /// The node with this integer id; `None` if it is unknown or ids are strings.
    fn find_integer(&self, id: u64) -> Result<Option<u32>>;
    /// The node with this string id; `None` if it is unknown or ids are integers.
    fn find_string(&self, id: &str) -> Result<Option<u32>>;

    /// Whether every node `i` has integer id `i`.
    fn is_consecutive(&self) -> bool {
        false
    }

    /// The node of row `row` of a file without ids: the node with that integer id, or at that
    /// position of the user's list of nodes.
    fn find_row(&self, row: u64) -> Result<Option<u32>> {
        self.find_integer(row)
    }

    /// How messages name a node: by its id if it is known, else by its number.
    fn describe(&self, node: u32) -> Result<String> {
        Ok(if self.is_consecutive() { node.to_string() } else { format!("number {node}") })
    }

    /// The node with an id given as text, which is parsed as an integer if ids are integers. An
    /// integer has one form only: neither 007 nor +7 is the id of node 7.
    fn find_text(&self, id: &str) -> Result<Option<u32>> {
        match self.kind() {
            IdKind::Integer if id != "0" && id.starts_with(['0', '+']) => Ok(None),
            IdKind::Integer => id.parse().map_or(Ok(None), |id| self.find_integer(id)),
            IdKind::String => self.find_string(id),
        }
    }
}

/// Nodes whose ids are `0, 1, ..., n - 1` in order.
pub struct Consecutive(
    /// Number of nodes.
    pub u64,
);

impl NodeLookup for Consecutive {
    fn is_consecutive(&self) -> bool {
        true
    }

    fn kind(&self) -> IdKind {
        IdKind::Integer
    }

    fn nodes(&self) -> u64 {
        self.0
    }

    fn find_integer(&self, id: u64) -> Result<Option<u32>> {
        Ok((id < self.0).then_some(id as u32))
    }

    fn find_string(&self, _id: &str) -> Result<Option<u32>> {
        Ok(None)
    }
}
