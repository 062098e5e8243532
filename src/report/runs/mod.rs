//! The page of one or several runs. It lays out what [`SavedRun`] read back; nothing is trained or
//! solved here.

mod group;
mod page;
mod tables;

use crate::predict::PartScores;
use crate::run::SavedRun;

pub use group::{Group, names};
pub use page::page;
pub use tables::{configuration, score_name, title};

/// A run as a page shows it.
#[derive(Clone, Debug)]
pub struct ShownRun {
    /// What its directory holds.
    pub saved: SavedRun,
    /// Scores of the test part by class, where they were computed.
    pub classes: Option<PartScores>,
}
