//! Data about nodes that `ingest edges` and `ingest relations` add to a dataset: ids, features,
//! labels and splits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ignn_format::ids::IdsWriter;

use crate::builder::DatasetBuilder;
use crate::context::Context;
use crate::error::{IngestError, Result};
use crate::labels::CommunityChoice;
use crate::nodes::NodeLookup;
use crate::relabel::index::{KnownIds, NodeIndex, NodeList};
use crate::source::text;
use crate::{features, labels, splits};

/// Files about nodes, and splits to draw.
#[derive(Clone, Debug, Default)]
pub struct NodeData {
    /// Node features.
    pub features: Option<PathBuf>,
    /// Nodes without features get zeros instead of an error.
    pub missing_features_zero: bool,
    /// Node labels (`node,label`).
    pub labels: Option<PathBuf>,
    /// Communities, one per line, as labels.
    pub communities: Option<(PathBuf, CommunityChoice)>,
    /// Split tables: `node,split` or `node,<name>,<name>...`.
    pub splits: Vec<PathBuf>,
    /// Splits to draw: `[NAME:]train=0.06,test=0.10`.
    pub draw: Vec<String>,
}

impl NodeData {
    /// Reports missing files and invalid splits before the edges are read, which may take long.
    pub(super) fn check(&self) -> Result<()> {
        if self.labels.is_some() && self.communities.is_some() {
            return Err(IngestError::Usage(
                "--labels and --communities cannot be used together".into(),
            ));
        }
        self.files().try_for_each(|(_, path)| text::open_file(path).map(drop))?;
        splits::check(&self.draw)
    }

    /// All files, with the option or key that names each.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let features = self.features.iter().map(|path| ("features", path));
        let labels = self.labels.iter().map(|path| ("labels", path));
        let communities = self.communities.iter().map(|(path, _)| ("communities", path));
        let splits = self.splits.iter().map(|path| ("splits", path));
        let all = features.chain(labels).chain(communities).chain(splits);
        all.map(|(name, path)| (name, path.as_path()))
    }

    /// Adds features, labels and splits to the dataset.
    pub(super) fn add(
        &self,
        context: &Context,
        builder: &mut DatasetBuilder,
        index: &NodeIndex,
    ) -> Result<()> {
        if let Some(path) = &self.features {
            let summary = features::add(context, builder, index, path, self.missing_features_zero)?;
            if summary.missing > 0 {
                context
                    .observer
                    .note(&format!("nodes without features, which got zeros: {}", summary.missing));
            }
        }
        let labels = match (&self.labels, &self.communities) {
            (Some(path), _) => Some(labels::from_table(context, index, path)?),
            (None, Some((path, choice))) => {
                Some(labels::from_communities(context, index, path, *choice)?)
            }
            (None, None) => None,
        };
        if let Some(labels) = &labels {
            builder.add_labels(labels)?;
        }
        let mut all_splits = Vec::new();
        for path in &self.splits {
            all_splits.extend(splits::from_table(context, index, path)?);
        }
        all_splits.extend(splits::draw(
            &self.draw,
            labels.as_ref(),
            index.nodes(),
            index.position(),
            context.seed,
        )?);
        if !all_splits.is_empty() {
            let added = builder.add_splits(&all_splits);
            added.map_err(|error| match self.splits.last() {
                Some(path) => error.about(path),
                None => error,
            })?;
        }
        Ok(())
    }

    /// Adds the options that affect the result to `options`, for the manifest.
    pub(super) fn record(&self, context: &Context, options: &mut BTreeMap<String, String>) {
        let mut set = |name: &str, value: String| options.insert(name.into(), value);
        for (option, path) in [("features", &self.features), ("labels", &self.labels)] {
            if let Some(path) = path {
                set(option, file_name(path));
            }
        }
        if let Some((path, choice)) = &self.communities {
            set("communities", format!("{} {choice:?}", file_name(path)));
        }
        if !self.splits.is_empty() {
            set("splits", file_names(&self.splits));
        }
        if !self.draw.is_empty() {
            set("split", self.draw.join(" "));
            set("seed", context.seed.to_string());
        }
    }
}

/// The last component of a path. The manifest records no more, so that a dataset does not depend on
/// where its input was.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The names of several files, separated by spaces.
pub(super) fn file_names(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| file_name(path)).collect::<Vec<_>>().join(" ")
}

/// Writes the ids of all nodes, unless `written` holds them already.
pub(super) fn add_ids(
    builder: &mut DatasetBuilder,
    index: &NodeIndex,
    written: Option<IdsWriter>,
) -> Result<()> {
    if let Some(writer) = written {
        return builder.add_ids_written(writer);
    }
    if let Some(ids) = index.reordered() {
        return builder.add_ids(&ids);
    }
    match index.known() {
        KnownIds::Consecutive => builder.add_consecutive_ids(),
        KnownIds::Set(set) => builder.add_ids_streamed(set.iter().map(u64::from)),
        KnownIds::Integers(ids) | KnownIds::Listed(NodeList::Integers(ids, _)) => {
            builder.add_integer_ids(ids)
        }
        KnownIds::Strings(ids) | KnownIds::Listed(NodeList::Strings(ids, _)) => {
            builder.add_string_ids(ids.iter().map(|id| &**id))
        }
        KnownIds::OnDisk(_) => unreachable!("ids on disk were written while they were read"),
    }
}
