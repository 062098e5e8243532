//! `ignn ingest dgcnn`: turns a file in the text format of DGCNN and GIN into a dataset of many
//! graphs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::builder::{self, DatasetSummary};
use crate::command::check_held;
use crate::command::tu::join;
use crate::context::{Context, Unit};
use crate::edges::options::RelationOptions;
use crate::error::Result;
use crate::source::dgcnn;

/// Options of `ignn ingest dgcnn`.
#[derive(Clone, Debug)]
pub struct IngestDgcnn {
    /// The file.
    pub file: PathBuf,
    /// The dataset directory to create.
    pub out: PathBuf,
    /// Replace an existing target.
    pub force: bool,
    /// Direction, normalisation, duplicates, self-loops.
    pub relation: RelationOptions,
}

impl IngestDgcnn {
    /// Runs the job.
    pub fn run(&self, context: &Context) -> Result<DatasetSummary> {
        let target = builder::claim(&self.out, self.force)?;
        context.observer.phase("read", None, Unit::Items("files"));
        check_held(context, &self.file)?;
        let set = dgcnn::read(&self.file)?;
        let options = BTreeMap::from([("tags".to_owned(), join(&set.tags))]);
        builder::write(&set.collection, context, target, "ingest dgcnn", options, &self.relation)
    }
}
