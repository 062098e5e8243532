//! Data about nodes that `ingest edges` and `ingest relations` add to a dataset: ids, features,
//! labels and splits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ignn_format::encoding::{ColumnEncoding, Encoding, Rule};
use ignn_format::ids::IdsWriter;
use ignn_format::labels::Labels;
use ignn_format::splits::Split;

use crate::builder::DatasetBuilder;
use crate::context::Context;
use crate::error::{IngestError, Result, quoted};
use crate::features::encoded::{self, Chosen};
use crate::labels::CommunityChoice;
use crate::nodes::NodeLookup;
use crate::relabel::Reader;
use crate::relabel::index::{KnownIds, NodeIndex, NodeList};
use crate::source::table::Table;
use crate::source::text;
use crate::{features, labels, splits};

/// One table with everything about the nodes: a row per node, columns chosen by name.
#[derive(Clone, Debug)]
pub struct NodeTable {
    /// CSV, TSV or Parquet. Its rows are the nodes, with edges or without, in this order.
    pub file: PathBuf,
    /// The column of ids; by default one named `node`, `id` or `node_id`, or, in a text file, the first.
    pub id: Option<String>,
    /// The column of classes.
    pub label: Option<String>,
    /// Columns of splits, or of masks.
    pub splits: Vec<String>,
    /// The columns that become features.
    pub columns: encoded::Columns,
    /// The encoding of an earlier dataset or model, instead of one that is learned.
    pub encoding: Option<Encoding>,
}

impl NodeTable {
    /// A table from which nothing but the ids is taken yet.
    pub fn new(file: PathBuf) -> Self {
        let (id, label, splits) = (None, None, Vec::new());
        Self { file, id, label, splits, columns: encoded::Columns::default(), encoding: None }
    }

    /// Opens the table; its first line is a header.
    pub(super) fn open(&self, context: &Context) -> Result<Table> {
        Table::open_named(&self.file, self.id.as_deref(), context.memory / 4)
    }

    /// The nodes.
    pub(super) fn list(&self, context: &Context, integer: Option<bool>) -> Result<NodeList> {
        NodeList::of_table(self.open(context)?, integer, Reader::id_memory(context))
    }

    /// Reports columns that are not there before the edges are read.
    fn check(&self, context: &Context, regress: Option<&str>) -> Result<()> {
        let table = self.open(context)?;
        table.require_id()?;
        let named = self.label.as_deref().into_iter().chain(regress);
        let named = named.chain(self.splits.iter().map(String::as_str));
        named.chain(self.columns.categories.iter().map(String::as_str)).try_for_each(|name| {
            let at = table.position(name)?;
            match table.id_column() == Some(at) {
                false => Ok(()),
                true => {
                    let name = quoted(name.as_bytes());
                    let what = format!(
                        "column {name} is the column of ids (expected another): name the ids with \
                         --id-column"
                    );
                    Err(IngestError::file(&self.file, what))
                }
            }
        })?;
        self.feature_columns(&table, regress).map(drop)
    }

    /// Positions of the columns that become features, in their order; all have a type that can be
    /// encoded.
    fn feature_columns(&self, table: &Table, regress: Option<&str>) -> Result<Vec<usize>> {
        let columns = match &self.encoding {
            Some(encoding) => {
                let names = encoding.columns.iter().map(|column| table.position(&column.name));
                names.collect::<Result<Vec<usize>>>()?
            }
            None => self.chosen_columns(table, regress)?,
        };
        columns.iter().try_for_each(|&column| encoded::require(table, column))?;
        Ok(columns)
    }

    fn chosen_columns(&self, table: &Table, regress: Option<&str>) -> Result<Vec<usize>> {
        let used: Vec<&str> = self
            .label
            .as_deref()
            .into_iter()
            .chain(regress)
            .chain(self.splits.iter().map(String::as_str))
            .collect();
        let chosen = match &self.columns.features {
            Chosen::None => Vec::new(),
            Chosen::All => {
                let names = table.names().unwrap_or_default();
                let columns = table.value_columns().into_iter();
                let free = columns.filter(|&at| !used.contains(&names[at].as_str()));
                let free: Vec<usize> = free.collect();
                if free.is_empty() {
                    let what = "no columns for --features all besides those of ids, labels and \
                                splits";
                    return Err(IngestError::file(&self.file, what));
                }
                free
            }
            Chosen::Named(names) => {
                if let Some(name) = names.iter().find(|name| used.contains(&name.as_str())) {
                    let name = quoted(name.as_bytes());
                    let what = format!(
                        "column {name} is what is predicted, or a split (expected features without \
                         it): leave it out of --features"
                    );
                    return Err(IngestError::file(&self.file, what));
                }
                for (at, name) in names.iter().enumerate() {
                    let name = quoted(name.as_bytes());
                    let what = if table.id_column() == Some(table.position(&names[at])?) {
                        format!("column {name} is the column of ids")
                    } else if names[..at].contains(&names[at]) {
                        format!("column {name} is given twice")
                    } else {
                        continue;
                    };
                    let what =
                        format!("{what} (expected features once): leave it out of --features");
                    return Err(IngestError::file(&self.file, what));
                }
                names.iter().map(|name| table.position(name)).collect::<Result<_>>()?
            }
        };
        let stray = self
            .columns
            .categories
            .iter()
            .find(|name| table.position(name).is_ok_and(|at| !chosen.contains(&at)));
        if let Some(name) = stray {
            let name = quoted(name.as_bytes());
            let what = format!("--categories: column {name} is not among --features");
            return Err(IngestError::file(&self.file, what));
        }
        Ok(chosen)
    }

    /// Adds the features, encoded by what the training nodes have.
    fn add_features(
        &self,
        context: &Context,
        builder: &mut DatasetBuilder,
        index: &NodeIndex,
        splits: &[Split],
        regress: Option<&str>,
    ) -> Result<()> {
        let table = self.open(context)?;
        let columns = self.feature_columns(&table, regress)?;
        if columns.is_empty() {
            return Ok(());
        }
        let encoding = match &self.encoding {
            Some(encoding) => encoding.clone(),
            None => {
                let trained = splits::training_part(splits);
                if trained.is_none() {
                    let why = match splits.is_empty() {
                        true => "without a split",
                        false => "without a part named train",
                    };
                    context.observer.note(&format!(
                        "{}: {why}, features are encoded by all nodes: add one with \
                         --split-column, --splits or --split, so that only training nodes count",
                        self.file.display()
                    ));
                }
                let trains =
                    |node: u32| trained.is_none_or(|(split, part)| split.of[node as usize] == part);
                let again = table.again()?;
                let learned =
                    encoded::learn(context, index, again, &columns, &self.columns, &trains)?;
                if self.columns.features == Chosen::All {
                    self.note_splits(context, &learned);
                }
                learned
            }
        };
        encoded::add(context, builder, index, table, &columns, encoding)
    }
}

impl NodeTable {
    /// Columns that look like splits may be features by mistake.
    fn note_splits(&self, context: &Context, encoding: &Encoding) {
        let looks_so = |column: &&ColumnEncoding| match &column.rule {
            Rule::Words { words } => words.len() > 1 && splits::are_parts(words),
            _ => splits::is_mask(&column.name),
        };
        for ColumnEncoding { name, .. } in encoding.columns.iter().filter(looks_so) {
            context.observer.note(&format!(
                "{}: column {} looks like a split, and became features: name it with \
                 --split-column if it is one",
                self.file.display(),
                quoted(name.as_bytes())
            ));
        }
    }
}

/// Files about nodes, and splits to draw.
#[derive(Clone, Debug, Default)]
pub struct NodeData {
    /// One table with everything.
    pub table: Option<NodeTable>,
    /// The column of numbers to predict, of the table or of the labels.
    pub regress: Option<String>,
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
    pub(super) fn check(&self, context: &Context) -> Result<()> {
        let label = self.table.as_ref().and_then(|table| table.label.as_ref());
        let sources = [
            ("--label", label.is_some()),
            ("--regress", self.regress.is_some() && self.labels.is_none()),
            ("--labels", self.labels.is_some()),
            ("--communities", self.communities.is_some()),
        ];
        let given: Vec<&str> =
            sources.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect();
        if let [first, second, ..] = given[..] {
            return Err(IngestError::Usage(format!(
                "{first} and {second} cannot be used together"
            )));
        }
        if self.regress.is_some() && self.labels.is_none() && self.table.is_none() {
            let what = "--regress names a column of --nodes TABLE or --labels FILE: give one";
            return Err(IngestError::Usage(what.into()));
        }
        self.files().try_for_each(|(_, path)| text::open_file(path).map(drop))?;
        if let Some(table) = &self.table {
            table.check(context, self.regress_in_table())?;
        }
        splits::check(&self.draw)
    }

    /// All files, with the option or key that names each.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let table = self.table.iter().map(|table| ("node-table", &table.file));
        let features = self.features.iter().map(|path| ("features", path));
        let labels = self.labels.iter().map(|path| ("labels", path));
        let communities = self.communities.iter().map(|(path, _)| ("communities", path));
        let splits = self.splits.iter().map(|path| ("splits", path));
        let all = table.chain(features).chain(labels).chain(communities).chain(splits);
        all.map(|(name, path)| (name, path.as_path()))
    }

    /// The column of numbers to predict, where it is one of the node table.
    fn regress_in_table(&self) -> Option<&str> {
        self.regress.as_deref().filter(|_| self.labels.is_none())
    }

    fn read_labels(&self, context: &Context, index: &NodeIndex) -> Result<Option<Labels>> {
        if let Some((path, choice)) = &self.communities {
            return labels::from_communities(context, index, path, *choice).map(Some);
        }
        let in_table = |name: &str| -> Result<Option<(Table, usize)>> {
            let Some(table) = &self.table else { return Ok(None) };
            let table = table.open(context)?;
            let column = table.position(name)?;
            Ok(Some((table, column)))
        };
        match (&self.labels, &self.regress) {
            (Some(path), None) => labels::from_table(context, index, path).map(Some),
            (Some(path), Some(name)) => {
                let table = Table::open_named(path, None, context.memory / 4)?;
                let column = table.position(name)?;
                labels::numbers_from_column(context, index, table, column).map(Some)
            }
            (None, Some(name)) => match in_table(name)? {
                Some((table, column)) => {
                    labels::numbers_from_column(context, index, table, column).map(Some)
                }
                None => Ok(None),
            },
            (None, None) => {
                let label = self.table.as_ref().and_then(|table| table.label.as_deref());
                match label.map(in_table).transpose()?.flatten() {
                    Some((table, column)) => {
                        labels::from_column(context, index, table, column).map(Some)
                    }
                    None => Ok(None),
                }
            }
        }
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
        let labels = self.read_labels(context, index)?;
        if let Some(labels) = &labels {
            builder.add_labels(labels)?;
        }
        let mut all_splits = Vec::new();
        if let Some(own) = self.table.as_ref().filter(|table| !table.splits.is_empty()) {
            let table = own.open(context)?;
            let columns = own.splits.iter().map(|name| table.position(name));
            let columns = columns.collect::<Result<Vec<usize>>>()?;
            all_splits.extend(splits::from_columns(context, index, table, columns)?);
        }
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
        if let Some(table) = &self.table {
            table.add_features(context, builder, index, &all_splits, self.regress_in_table())?;
        }
        Ok(())
    }

    /// Adds the options that affect the result to `options`, for the manifest.
    pub(super) fn record(&self, context: &Context, options: &mut BTreeMap<String, String>) {
        let mut set = |name: &str, value: String| options.insert(name.into(), value);
        if let Some(table) = &self.table {
            set("nodes", file_name(&table.file));
            let named = [("id-column", &table.id), ("label", &table.label)];
            for (option, name) in named {
                if let Some(name) = name {
                    set(option, name.clone());
                }
            }
            if !table.splits.is_empty() {
                set("split-column", table.splits.join(","));
            }
        }
        if let Some(name) = &self.regress {
            set("regress", name.clone());
        }
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
