//! `ignn ingest tu`: turns a dataset of the TU collection into a dataset of many graphs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::builder::{self, DatasetSummary};
use crate::command::check_held;
use crate::context::{Context, Unit};
use crate::edges::options::RelationOptions;
use crate::error::Result;
use crate::source::tu;
use crate::splits;

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
    /// The column of the graphs' attributes, from 0, that is predicted instead of their class.
    pub regress: Option<usize>,
    /// Splits of the graphs to draw: `[NAME:]train=0.8,val=0.1,test=0.1`.
    pub draw: Vec<String>,
    /// Direction, normalisation, duplicates, self-loops.
    pub relation: RelationOptions,
}

impl IngestTu {
    /// Runs the job.
    pub fn run(&self, context: &Context) -> Result<DatasetSummary> {
        splits::check(&self.draw)?;
        let target = builder::claim(&self.out, self.force)?;
        context.observer.phase("read", None, Unit::Items("files"));
        check_held(context, &self.directory)?;
        let mut tu = tu::read(&self.directory, self.degree_features, self.regress)?;
        if let Some(graphs) = &mut tu.collection.graphs {
            let labels = graphs.item_labels();
            let count = graphs.len() as u64;
            graphs.splits = splits::draw(&self.draw, labels.as_ref(), count, None, context.seed)?;
        }
        for path in &tu.unused {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let why = match (name.contains("_edge_"), self.regress) {
                (false, None) => "to predict one of its columns, pass --regress COLUMN",
                (false, Some(_)) => "--regress predicts a number instead",
                (true, _) => "only nodes have features in a dataset",
            };
            context.observer.note(&format!("{name} is not used: {why}"));
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
        if let Some(column) = self.regress {
            options.insert("regress".to_owned(), column.to_string());
        }
        if !self.draw.is_empty() {
            options.insert("split".to_owned(), self.draw.join(" "));
            options.insert("seed".to_owned(), context.seed.to_string());
        }
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
