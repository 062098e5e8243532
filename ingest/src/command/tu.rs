//! `ignn ingest tu`: turns a dataset of the TU collection into a dataset of many graphs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::builder::{self, DatasetSummary};
use crate::command::check_held;
use crate::context::{Context, Unit};
use crate::edges::options::RelationOptions;
use crate::error::Result;
use crate::source::tu;

/// Options of `ignn ingest tu`.
#[derive(Clone, Debug)]
pub struct IngestTu {
    /// The directory with `NAME_A.txt` and the other files.
    pub directory: PathBuf,
    /// The dataset directory to create.
    pub out: PathBuf,
    /// Replace an existing target.
    pub force: bool,
    /// Add the degree as the last feature column even if the nodes have labels or attributes.
    pub degree_features: bool,
    /// Direction, normalisation, duplicates, self-loops.
    pub relation: RelationOptions,
}

impl IngestTu {
    /// Runs the job.
    pub fn run(&self, context: &Context) -> Result<DatasetSummary> {
        let target = builder::claim(&self.out, self.force)?;
        context.observer.phase("read", None, Unit::Items("files"));
        check_held(context, &self.directory)?;
        let tu = tu::read(&self.directory, self.degree_features)?;
        for path in &tu.unused {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            context
                .observer
                .note(&format!("{name} is not used: only nodes have features in a dataset"));
        }
        if tu.has_degrees && !self.degree_features {
            context.observer.note(
                "the nodes have neither labels nor attributes: the degree is used as their feature",
            );
        }
        let mut options = BTreeMap::from([
            ("name".to_owned(), tu.name),
            ("degree_features".to_owned(), tu.has_degrees.to_string()),
        ]);
        for (column, values) in tu.node_label_values.iter().enumerate() {
            options.insert(format!("node_labels_{column}"), join(values));
        }
        builder::write(&tu.collection, context, target, "ingest tu", options, &self.relation)
    }
}

/// If there are more values than this, the manifest only has their number.
const MAX_LISTED: usize = 1000;

/// The values of one-hot columns, in column order: `3,5,7`.
pub(super) fn join(values: &[i64]) -> String {
    if values.len() > MAX_LISTED {
        return format!("{} values, rising", values.len());
    }
    values.iter().map(i64::to_string).collect::<Vec<_>>().join(",")
}
