//! `ignn ingest graphsage`: turns the published files of PPI into a dataset.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::builder::{self, DatasetSummary};
use crate::command::check_held;
use crate::context::{Context, Unit};
use crate::edges::options::RelationOptions;
use crate::error::Result;
use crate::source::graphsage;

/// Options of `ignn ingest graphsage`.
#[derive(Clone, Debug)]
pub struct IngestGraphSage {
    /// The directory with `train_graph.json` or `PREFIX-G.json` and the other files.
    pub directory: PathBuf,
    /// The dataset directory to create.
    pub out: PathBuf,
    /// Replace an existing target.
    pub force: bool,
    /// Direction, normalisation, duplicates, self-loops.
    pub relation: RelationOptions,
}

impl IngestGraphSage {
    /// Runs the job.
    pub fn run(&self, context: &Context) -> Result<DatasetSummary> {
        let target = builder::claim(&self.out, self.force)?;
        context.observer.phase("read", None, Unit::Items("files"));
        check_held(context, &self.directory)?;
        let set = graphsage::read(&self.directory)?;
        set.notes.iter().for_each(|note| context.observer.note(note));
        builder::write(
            &set.collection,
            context,
            target,
            "ingest graphsage",
            BTreeMap::new(),
            &self.relation,
        )
    }
}
