//! A dataset under construction: every command adds its parts here, and the manifest is written
//! last. The builder knows the format and in which order parts are written, but not raw files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ignn_format::checksum::FileEntry;
use ignn_format::dataset::DATASET;
use ignn_format::encoding::Encoding;
use ignn_format::features::{self, FEATURES, FeatureKind, FeaturesEntry, SparseRows};
use ignn_format::graphs::{self, Graphs};
use ignn_format::ids::{IdKind, Ids, IdsEntry, IdsWriter};
use ignn_format::labels::{self, Labels};
use ignn_format::manifest::{FORMAT, MadeBy, Manifest, RelationEntry};
use ignn_format::splits::{self, Split};
use ignn_format::storage::{self, Staging};

use crate::content::{self, Content, Features};
use crate::context::{Context, Unit};
use crate::edges::map::NodeMap;
use crate::edges::options::RelationOptions;
use crate::edges::spool::EdgeSpool;
use crate::edges::store::Budget;
use crate::error::{IngestError, Result};
use crate::pipeline;
use crate::relation::{BuiltRelation, EdgeCounts, Relation};

/// Name of the only relation of a homogeneous graph.
pub const RELATION: &str = "edges";

/// Target size of a shard of features, in bytes.
const SHARD_BYTES: u64 = 64 << 20;
/// Maximum number of rows per shard.
const SHARD_ROWS: u64 = 1 << 20;
/// The share of the job's memory for chunks of edges; the rest is for the workers' own buffers.
const CHUNK_SHARE: (u64, u64) = (1, 2);
/// Temporary files of a build, inside the staging directory.
const SCRATCH: &str = "scratch";

/// A finished dataset, with statistics of its edges.
#[derive(Clone, Debug)]
pub struct DatasetSummary {
    /// The manifest as written.
    pub manifest: Manifest,
    /// How many edges were read, merged and dropped, over all relations.
    pub counts: EdgeCounts,
    /// The same for each relation, in the order of the manifest.
    pub by_relation: Vec<EdgeCounts>,
    /// How the edge files were read, for people; empty where the format leaves no choice.
    pub read_as: Vec<String>,
}

/// Reserves the target of a dataset, as the first step of a job, so that a target that cannot be
/// written is reported before any work is done. An existing target is an error, unless `force` is
/// set and it is a dataset.
pub fn claim(out: &Path, force: bool) -> Result<Staging> {
    Ok(Staging::create(out, force.then_some(&DATASET))?)
}

/// A dataset under construction.
pub struct DatasetBuilder<'a> {
    context: &'a Context<'a>,
    staging: Staging,
    budget: Budget,
    manifest: Manifest,
    has_ids: bool,
    counts: Vec<EdgeCounts>,
    read_as: Vec<String>,
}

impl<'a> DatasetBuilder<'a> {
    /// Begins a dataset in a directory of [`claim`]. `command` is the subcommand ("generate
    /// chains") and `options` are those that affect the result; the manifest records both.
    pub fn begin(
        context: &'a Context<'a>,
        staging: Staging,
        command: &str,
        options: BTreeMap<String, String>,
    ) -> Result<Self> {
        let scratch = staging.path().join(SCRATCH);
        storage::create_below(staging.path(), &scratch)?;
        let program = concat!("ignn ", env!("CARGO_PKG_VERSION")).to_string();
        let manifest = Manifest {
            format: FORMAT.into(),
            version: 1,
            made_by: MadeBy { program, command: command.into(), options },
            nodes: 0,
            order: "none".into(),
            relations: Vec::new(),
            ids: IdsEntry { kind: IdKind::Integer },
            features: None,
            encoding: None,
            labels: None,
            splits: Vec::new(),
            graphs: None,
            files: BTreeMap::new(),
        };
        let budget = Budget::new(context.memory / CHUNK_SHARE.1 * CHUNK_SHARE.0);
        let (has_ids, counts, read_as) = (false, Vec::new(), Vec::new());
        Ok(Self { context, staging, budget, manifest, has_ids, counts, read_as })
    }

    /// The dataset directory while it is unfinished.
    pub fn path(&self) -> &Path {
        self.staging.path()
    }

    /// A directory for temporary files, removed at the end.
    pub fn scratch(&self) -> PathBuf {
        self.staging.path().join(SCRATCH)
    }

    /// The memory that chunks of this job share.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Sets the number of nodes, at most 2^32 - 1. Call it before any part is added.
    pub fn set_nodes(&mut self, nodes: u64) -> Result<()> {
        if nodes > u64::from(u32::MAX) {
            let limit = u32::MAX;
            return Err(IngestError::Usage(format!(
                "the graph has {nodes} nodes (at most {limit} are supported)"
            )));
        }
        self.manifest.nodes = nodes;
        Ok(())
    }

    /// Records how the nodes were ordered.
    pub fn set_order(&mut self, order: &str) {
        self.manifest.order = order.into();
    }

    /// An empty spool for [`DatasetBuilder::add_relation`] that shares the job's memory. To sum
    /// unweighted duplicates, pass `weighted = true` and give every edge weight 1.
    pub fn spool(&self, weighted: bool) -> EdgeSpool {
        EdgeSpool::new(&self.scratch(), &self.budget, weighted)
    }

    /// Builds and writes the adjacency of a relation from edges whose node numbers are final (below
    /// `nodes`).
    pub fn add_relation(
        &mut self,
        name: &str,
        mut edges: EdgeSpool,
        options: &RelationOptions,
    ) -> Result<RelationEntry> {
        let describe = |node: u32| node.to_string();
        let built = self.build(name, &mut edges, NodeMap::Identity, options, &describe, false)?;
        Ok(self.add_built(built))
    }

    /// Builds a relation's files without adding them to the manifest. With `keep`, the spool can be
    /// used for another build.
    pub fn build(
        &self,
        name: &str,
        edges: &mut EdgeSpool,
        map: NodeMap,
        options: &RelationOptions,
        describe: &(dyn Fn(u32) -> String + Sync),
        keep: bool,
    ) -> Result<BuiltRelation> {
        let relation = Relation {
            context: self.context,
            dataset: self.staging.path(),
            scratch: &self.scratch(),
            budget: &self.budget,
            name,
            nodes: self.manifest.nodes,
            map,
            options,
            describe,
        };
        relation.build(edges, keep)
    }

    /// Adds to [`DatasetSummary::read_as`].
    pub fn add_read_as(&mut self, lines: Vec<String>) {
        self.read_as.extend(lines);
    }

    /// Adds a built relation to the manifest.
    pub fn add_built(&mut self, built: BuiltRelation) -> RelationEntry {
        self.manifest.relations.push(built.entry.clone());
        self.counts.push(built.counts);
        self.add_files(built.files);
        built.entry
    }

    /// Removes the files of a relation that is to be built again in another node order.
    pub fn discard_built(&self, built: BuiltRelation) -> Result<()> {
        for (path, _) in built.files {
            storage::remove_file(&path)?;
        }
        Ok(())
    }

    /// Writes the original ids.
    pub fn add_ids(&mut self, ids: &Ids) -> Result<()> {
        match ids {
            Ids::Integer(ids) => self.add_integer_ids(ids),
            Ids::String { offsets, text } => {
                self.add_string_ids(offsets.windows(2).map(|w| &text[w[0] as usize..w[1] as usize]))
            }
        }
    }

    /// Writes integer ids.
    pub fn add_integer_ids(&mut self, ids: &[u64]) -> Result<()> {
        let wide = ids.iter().any(|&id| id > i64::MAX as u64);
        let mut writer = IdsWriter::create(self.path(), IdKind::Integer, wide)?;
        writer.push_integers(ids)?;
        self.add_ids_written(writer)
    }

    /// Writes string ids.
    pub fn add_string_ids<'i>(&mut self, ids: impl Iterator<Item = &'i str>) -> Result<()> {
        let mut writer = IdsWriter::create(self.path(), IdKind::String, false)?;
        writer.push_strings(ids)?;
        self.add_ids_written(writer)
    }

    /// Writes ids `0, 1, ..., nodes - 1`.
    pub fn add_consecutive_ids(&mut self) -> Result<()> {
        self.add_ids_streamed(0..self.manifest.nodes)
    }

    /// Writes integer ids, below 2^63, from an iterator.
    pub fn add_ids_streamed(&mut self, ids: impl Iterator<Item = u64>) -> Result<()> {
        let mut writer = IdsWriter::create(self.path(), IdKind::Integer, false)?;
        let mut batch = Vec::with_capacity(1 << 16);
        for id in ids {
            batch.push(id);
            if batch.len() == batch.capacity() {
                writer.push_integers(&batch)?;
                batch.clear();
            }
        }
        writer.push_integers(&batch)?;
        self.add_ids_written(writer)
    }

    /// Adds ids that were written with their own writer.
    pub fn add_ids_written(&mut self, writer: IdsWriter) -> Result<()> {
        let (entry, path, file) = writer.finish()?;
        self.manifest.ids = entry;
        self.has_ids = true;
        self.add_files(vec![(path, file)]);
        Ok(())
    }

    /// Number of rows per shard for rows of this many bytes. It depends on the data only, so that
    /// the files do not depend on threads or memory.
    pub fn rows_per_shard(row_bytes: u64) -> u64 {
        (SHARD_BYTES / row_bytes.max(1)).clamp(1, SHARD_ROWS)
    }

    /// Writes dense features, several shards in parallel. `fill(first_row, rows)` fills whole rows,
    /// starting with node `first_row`; it is called from several threads.
    pub fn add_dense_features(
        &mut self,
        columns: usize,
        fill: impl Fn(u64, &mut [f32]) -> Result<()> + Sync,
    ) -> Result<()> {
        let rows_per_shard = Self::rows_per_shard(columns as u64 * 4);
        let dataset = self.staging.path().to_path_buf();
        let shards =
            self.write_shards(rows_per_shard, columns as u64 * 4, |shard, first, rows| {
                let mut values = vec![0f32; rows * columns];
                fill(first, &mut values)?;
                Ok((features::write_dense_shard(&dataset, shard, columns, &values)?, 0))
            })?;
        let kind = FeatureKind::Dense;
        let columns = columns as u64;
        let (shards, _) = shards;
        self.manifest.features =
            Some(FeaturesEntry { kind, columns, rows_per_shard, shards, nonzeros: None });
        Ok(())
    }

    /// Writes sparse features, several shards in parallel. `rows(first_row, count)` returns those
    /// rows; it is called from several threads.
    pub fn add_sparse_features(
        &mut self,
        columns: usize,
        rows: impl Fn(u64, usize) -> Result<SparseRows> + Sync,
    ) -> Result<()> {
        let rows_per_shard = Self::rows_per_shard(SPARSE_ROW_BYTES);
        let dataset = self.staging.path().to_path_buf();
        let row_bytes = SPARSE_ROW_BYTES;
        let (shards, nonzeros) =
            self.write_shards(rows_per_shard, row_bytes, |shard, first, count| {
                let rows = rows(first, count)?;
                Ok((
                    features::write_sparse_shard(&dataset, shard, &rows)?,
                    rows.columns.len() as u64,
                ))
            })?;
        let (kind, columns, nonzeros) = (FeatureKind::Sparse, columns as u64, Some(nonzeros));
        self.manifest.features =
            Some(FeaturesEntry { kind, columns, rows_per_shard, shards, nonzeros });
        Ok(())
    }

    fn write_shards(
        &mut self,
        rows_per_shard: u64,
        row_bytes: u64,
        write: impl Fn(u64, u64, usize) -> Result<(FileEntry, u64)> + Sync,
    ) -> Result<(u64, u64)> {
        let (nodes, observer) = (self.manifest.nodes, self.context.observer);
        observer.phase("write features", Some(nodes), Unit::Items("rows"));
        let directory = self.staging.path().join(FEATURES);
        storage::create_below(self.staging.path(), &directory)?;
        let shards = nodes.div_ceil(rows_per_shard);
        let work = |shard: u64| {
            let first = shard * rows_per_shard;
            let rows = rows_per_shard.min(nodes - first);
            let (file, nonzeros) = write(shard, first, rows as usize)?;
            observer.advance(rows);
            IngestError::unless_stopped(observer.is_stopped())?;
            Ok::<_, IngestError>((shard, file, nonzeros))
        };
        let mut total = 0;
        let dataset = self.staging.path().to_path_buf();
        // Each worker holds the shard that it writes, so fewer workers run if memory is short.
        let shard_bytes = rows_per_shard.min(nodes).saturating_mul(row_bytes).max(1);
        let at_once = (self.context.memory / 4 / shard_bytes).clamp(1, self.context.threads as u64);
        pipeline::ordered(
            at_once as usize,
            (0..shards).map(Ok),
            work,
            |(shard, file, nonzeros)| {
                total += nonzeros;
                self.add_files(vec![(features::shard_path(&dataset, shard), file)]);
                Ok(())
            },
        )?;
        Ok((shards, total))
    }

    /// Writes node labels.
    pub fn add_labels(&mut self, labels: &Labels) -> Result<()> {
        let (entry, files) = labels::write(self.path(), labels)?;
        self.manifest.labels = Some(entry);
        self.add_files(files);
        Ok(())
    }

    /// Writes splits of the nodes, all at once.
    pub fn add_splits(&mut self, splits: &[Split]) -> Result<()> {
        for (at, split) in splits.iter().enumerate() {
            if splits[..at].iter().any(|other| other.name == split.name) {
                let name = &split.name;
                return Err(IngestError::Usage(format!(
                    "two splits named {name:?}: rename one of them, with --split other:train=0.06 \
                     or by the name of its column"
                )));
            }
        }
        let (entries, files) = splits::write(self.path(), splits)?;
        self.manifest.splits = entries;
        self.add_files(files);
        Ok(())
    }

    /// Writes the node ranges, labels and splits of a dataset of many graphs.
    pub fn add_graphs(&mut self, graphs: &Graphs) -> Result<()> {
        let (entry, files) = graphs::write(self.path(), graphs)?;
        self.manifest.graphs = Some(entry);
        self.add_files(files);
        Ok(())
    }

    /// Records how the columns of a table became the features.
    pub fn set_encoding(&mut self, encoding: Encoding) {
        self.manifest.encoding = Some(encoding);
    }

    /// Writes the manifest and renames the directory to its target.
    pub fn finish(mut self) -> Result<DatasetSummary> {
        assert!(self.has_ids, "a dataset has ids");
        let scratch = self.scratch();
        storage::remove_tree(&scratch)?;
        self.manifest.version = self.manifest.lowest_version();
        self.manifest.write(self.staging.path())?;
        self.staging.commit()?;
        self.context.observer.finish();
        let mut counts = EdgeCounts::default();
        for relation in &self.counts {
            counts.read += relation.read;
            counts.merged += relation.merged;
            counts.dropped_loops += relation.dropped_loops;
            counts.spilled += relation.spilled;
        }
        let Self { manifest, counts: by_relation, read_as, .. } = self;
        Ok(DatasetSummary { manifest, counts, by_relation, read_as })
    }

    fn add_files(&mut self, files: Vec<(PathBuf, FileEntry)>) {
        for (path, entry) in files {
            let inside = path
                .strip_prefix(self.staging.path())
                .expect("files of a dataset are in its directory");
            let parts: Vec<_> = inside.iter().map(|part| part.to_string_lossy()).collect();
            self.manifest.files.insert(parts.join("/"), entry);
        }
    }
}

/// Assumed size of a row of sparse features when the number of rows per shard is chosen.
const SPARSE_ROW_BYTES: u64 = 1024;

/// Writes a whole dataset. `command` is the subcommand ("ingest tu") and `options` are those that
/// affect the result.
pub fn write(
    content: &dyn Content,
    context: &Context,
    target: Staging,
    command: &str,
    options: BTreeMap<String, String>,
    relation: &RelationOptions,
) -> Result<DatasetSummary> {
    let mut builder = DatasetBuilder::begin(context, target, command, options)?;
    builder.set_nodes(content.nodes())?;
    context.observer.phase("edges", content.edges(), Unit::Edges);
    let mut spool = builder.spool(false);
    content::for_each_chunk(content, context.threads, <[_]>::to_vec, |edges| {
        spool.push(&edges, &[])?;
        context.observer.advance(edges.len() as u64);
        IngestError::unless_stopped(context.observer.is_stopped())
    })?;
    builder.add_relation(RELATION, spool, relation)?;
    match content.ids() {
        Some(ids) => builder.add_ids(ids)?,
        None => builder.add_consecutive_ids()?,
    }
    match content.features() {
        Some(Features::Dense { columns, fill }) => {
            builder.add_dense_features(columns, |first, rows| {
                fill(first, rows);
                Ok(())
            })?;
        }
        Some(Features::Sparse { columns, rows }) => {
            builder.add_sparse_features(columns, |first, count| Ok(rows(first, count)))?;
        }
        None => {}
    }
    if let Some(labels) = content.labels() {
        builder.add_labels(&labels)?;
    }
    let splits = content.splits();
    if !splits.is_empty() {
        builder.add_splits(&splits)?;
    }
    if let Some(graphs) = content.graphs() {
        builder.add_graphs(graphs)?;
    }
    builder.finish()
}
