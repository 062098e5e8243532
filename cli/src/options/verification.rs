//! `--verify`: whether all files of a dataset are compared with their checksums before they are used.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use ignn::graph::Graph;

/// How much of a dataset is verified.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Verification {
    /// Compare every file of the dataset with its checksum first, not only those up to 16 MiB
    ///
    /// Without it, files above 16 MiB are checked only as far as needed to compute with them:
    /// changed features or weights could go unnoticed. `ignn check` verifies everything.
    #[arg(long)]
    verify: bool,
}

impl Verification {
    /// Opens a dataset.
    pub fn open(self, dataset: &Path) -> Result<Graph> {
        let graph = Graph::open(dataset)?;
        self.of(&graph)?;
        Ok(graph)
    }

    /// Verifies an open dataset, if that was asked for.
    pub fn of(self, graph: &Graph) -> Result<()> {
        if self.verify {
            graph.verify()?;
        }
        Ok(())
    }
}
