//! `--verify`: whether all files of a dataset are compared with their checksums before they are used.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use ignn::graph::Graph;
use ignn::report::quantity::plural;

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

/// `relations/edges/in.neighbours.u32 and 2 more files: --verify compares them with their checksums`;
/// `None` if all files were verified.
pub fn words(not_verified: &[String]) -> Option<String> {
    let (first, others) = not_verified.split_first()?;
    let what = match others.len() as u64 {
        0 => format!("{first}: --verify compares it with its checksum"),
        count => format!(
            "{first} and {}: --verify compares them with their checksums",
            plural(count, "more file", "more files")
        ),
    };
    Some(what)
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
