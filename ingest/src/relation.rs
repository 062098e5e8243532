//! From a spool of edges to the adjacency files of a relation: partition, sort, merge and write,
//! bucket by bucket. Nodes are known by their numbers only.

use std::path::{Path, PathBuf};

use ignn_format::array::ArrayWriter;
use ignn_format::checksum::FileEntry;
use ignn_format::csr::CsrWriter;
use ignn_format::dataset::relation_path;
use ignn_format::manifest::{Normalisation, RelationEntry, Scale};
use ignn_format::storage;

use crate::context::{Context, Unit};
use crate::edges::map::NodeMap;
use crate::edges::merge::{self, Rows};
use crate::edges::options::{Duplicates, RelationOptions, SelfLoops};
use crate::edges::partition::{Partition, Plan, Side};
use crate::edges::sort;
use crate::edges::spool::{Edge, EdgeSpool, Spool};
use crate::edges::store::Budget;
use crate::error::{IngestError, Result};
use crate::pipeline::{self, BufferPool};

/// What a relation is built from.
pub struct Relation<'a> {
    /// Threads, memory, observer.
    pub context: &'a Context<'a>,
    /// The unfinished dataset directory.
    pub dataset: &'a Path,
    /// Where to spill.
    pub scratch: &'a Path,
    /// Memory for chunks.
    pub budget: &'a Budget,
    /// Name of the relation.
    pub name: &'a str,
    /// Number of nodes.
    pub nodes: u64,
    /// Numbers in the spool to node numbers.
    pub map: NodeMap<'a>,
    /// Direction, normalisation, duplicates, self-loops.
    pub options: &'a RelationOptions,
    /// The user's name of a node, for messages.
    pub describe: &'a (dyn Fn(u32) -> String + Sync),
}

/// A finished relation.
#[derive(Debug)]
pub struct BuiltRelation {
    /// Its entry in the manifest.
    pub entry: RelationEntry,
    /// Its files, for the manifest.
    pub files: Vec<(PathBuf, FileEntry)>,
    /// Statistics of its edges.
    pub counts: EdgeCounts,
}

/// Statistics of the edges that were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeCounts {
    /// Edges read.
    pub read: u64,
    /// Edges merged into another as duplicates.
    pub merged: u64,
    /// Self-loops dropped.
    pub dropped_loops: u64,
    /// Bytes of edges written to disk because they did not fit in memory.
    pub spilled: u64,
}

/// One direction of a relation, written.
struct Direction {
    files: Vec<(PathBuf, FileEntry)>,
    entries: u64,
    diagonal: u64,
    merged: [u64; 2],
    dropped: u64,
    all_one: bool,
    spilled: u64,
}

impl Relation<'_> {
    /// Builds and writes the relation. With `keep`, the spool can be used again.
    pub fn build(&self, spool: &mut EdgeSpool, keep: bool) -> Result<BuiltRelation> {
        match spool {
            EdgeSpool::Plain(spool) => self.build_edges(spool, keep),
            EdgeSpool::Weighted(spool) => self.build_edges(spool, keep),
        }
    }

    fn build_edges<E: Edge>(&self, spool: &mut Spool<E>, keep: bool) -> Result<BuiltRelation> {
        let directory = relation_path(self.dataset, self.name);
        storage::create_below(self.dataset, &directory)?;
        let options = self.options;
        let doubled_diagonal = options.normalise == Normalisation::Renorm
            && options.self_loops == SelfLoops::Keep
            && spool.loops() > 0;
        // To sum unweighted edges, they are spooled with weight 1 (see `DatasetBuilder::spool`).
        let keep_values = E::WEIGHTED || doubled_diagonal;
        let scale_path =
            (options.normalise != Normalisation::None).then(|| directory.join("scale.f32"));
        let mut scale = match &scale_path {
            Some(path) => Some(ScaleWriter {
                writer: ArrayWriter::create(path, "scale")?,
                normalisation: options.normalise,
                scratch: Vec::new(),
            }),
            None => None,
        };
        let write = |spool: &mut Spool<E>, side, keep, scale: Option<&mut ScaleWriter>| {
            self.write_direction(&directory, spool, side, keep, keep_values, scale)
        };
        // The scale is computed from the rows of A, which are the outgoing edges.
        let (outgoing, incoming) = if options.directed {
            let outgoing = write(spool, Side::Outgoing, true, scale.as_mut())?;
            (Some(outgoing), write(spool, Side::Incoming, keep, None)?)
        } else {
            (None, write(spool, Side::Both, keep, scale.as_mut())?)
        };
        let entry = RelationEntry {
            name: self.name.into(),
            symmetric: !options.directed,
            weighted: keep_values && !incoming.all_one,
            normalisation: options.normalise,
            scale: match options.normalise {
                Normalisation::None => Scale::None,
                Normalisation::Renorm => Scale::Both,
                Normalisation::Row => Scale::Source,
            },
            nonzeros: incoming.entries,
            diagonal: incoming.diagonal,
        };
        // An undirected duplicate off the diagonal was counted once in each direction.
        let off_diagonal =
            if options.directed { incoming.merged[0] } else { incoming.merged[0] / 2 };
        let mut built = BuiltRelation {
            counts: EdgeCounts {
                read: spool.len(),
                merged: off_diagonal + incoming.merged[1],
                dropped_loops: incoming.dropped,
                spilled: spool.spilled()
                    + incoming.spilled
                    + outgoing.as_ref().map_or(0, |o| o.spilled),
            },
            files: incoming
                .files
                .into_iter()
                .chain(outgoing.into_iter().flat_map(|o| o.files))
                .collect(),
            entry,
        };
        if keep_values && !built.entry.weighted {
            built.remove_values()?;
        }
        if let (Some(scale), Some(path)) = (scale, scale_path) {
            built.files.push((path, scale.writer.finish()?));
        }
        Ok(built)
    }

    fn write_direction<E: Edge>(
        &self,
        directory: &Path,
        spool: &mut Spool<E>,
        side: Side,
        keep: bool,
        keep_values: bool,
        mut scale: Option<&mut ScaleWriter>,
    ) -> Result<Direction> {
        let (context, options) = (self.context, self.options);
        let (verb, name) = if side == Side::Outgoing { ("out", " (outgoing)") } else { ("in", "") };
        context.observer.phase(&format!("partition edges{name}"), Some(spool.len()), Unit::Edges);
        let plan = Plan {
            context,
            scratch: self.scratch,
            budget: self.budget,
            nodes: self.nodes,
            map: self.map,
            side,
        };
        let partition = plan.run(spool, keep)?;

        context.observer.phase(
            &format!("sort and write{name}"),
            Some(self.nodes),
            Unit::Items("nodes"),
        );
        let mut out = Direction {
            files: Vec::new(),
            entries: 0,
            diagonal: 0,
            merged: [0; 2],
            dropped: 0,
            all_one: true,
            spilled: partition.spilled(),
        };
        let mut writer = CsrWriter::create(directory, verb, keep_values)?;
        let mut open = OpenRow::default();
        let buckets = if self.nodes == 0 { 0 } else { partition.buckets() };
        let spare = BufferPool::default();
        let work = |bucket: usize| {
            Ok((bucket, self.sort_bucket(&partition, bucket, keep_values, &spare)?))
        };
        pipeline::ordered(
            context.threads,
            (0..buckets).map(Ok),
            work,
            |(bucket, rows): (usize, Rows)| {
                IngestError::unless_stopped(context.observer.is_stopped())?;
                if let (Duplicates::Error, Some((row, column))) =
                    (options.duplicates, rows.duplicate)
                {
                    let (source, target) =
                        if side == Side::Outgoing { (row, column) } else { (column, row) };
                    let (source, target) = ((self.describe)(source), (self.describe)(target));
                    let what = match options.directed {
                        true => {
                            format!("the edge from {source} to {target} is given more than once")
                        }
                        false => {
                            format!(
                                "the edge between {target} and {source} is given more than once, \
                                 in either direction"
                            )
                        }
                    };
                    let hint = "merge such edges with --duplicates sum, max or first";
                    return Err(IngestError::Usage(format!("{what}: {hint}")));
                }
                if let Some((row, column)) = rows.overflow {
                    let (row, column) = ((self.describe)(row), (self.describe)(column));
                    return Err(IngestError::Usage(format!(
                        "the weights of the edge between {column} and {row} sum to more than a \
                         32-bit float can represent: scale them down"
                    )));
                }
                writer.extend(&rows.neighbours, &rows.values)?;
                let complete = partition.bounds[bucket + 1] & 0xffff_ffff == 0;
                let (degrees, sums) = open.close(&rows, complete);
                if let Some(scale) = &mut scale {
                    scale.write(&degrees, &sums, self.describe)?;
                }
                writer.end_rows(&degrees)?;
                context.observer.advance(degrees.len() as u64);
                out.diagonal += rows.diagonal;
                out.merged[0] += rows.merged[0];
                out.merged[1] += rows.merged[1];
                out.dropped += rows.dropped;
                out.all_one &= rows.all_one;
                Ok(())
            },
        )?;
        out.entries = writer.entries();
        out.files = writer.finish()?;
        Ok(out)
    }

    fn sort_bucket<E: Edge>(
        &self,
        partition: &Partition<E>,
        bucket: usize,
        keep_values: bool,
        spare: &BufferPool<E>,
    ) -> Result<Rows> {
        let duplicates = self.options.duplicates;
        let space = partition.space(bucket);
        let count = partition.entries(bucket);
        // A bucket that is far larger than expected has many duplicates; they are merged while it
        // is read.
        let worker_bytes = self.context.memory / 8 / pipeline::alive(self.context.threads) as u64;
        let limit = ((worker_bytes / size_of::<E>() as u64) as usize).max(1 << 16);
        let (mut entries, mut scratch): (Vec<E>, Vec<E>) = (spare.take(), spare.take());
        entries.reserve(count.min(limit));
        let mut done = Rows::default();
        let mut threshold = limit;
        partition.read(bucket, &mut entries, |entries| {
            if entries.len() > threshold {
                scratch.resize(entries.len(), E::zeroed());
                sort::sort(entries, &mut scratch, space);
                merge::compact(entries, duplicates, &mut done);
                threshold = (entries.len() * 2).max(limit);
            }
        })?;
        scratch.resize(entries.len(), E::zeroed());
        sort::sort(&mut entries, &mut scratch, space);
        let bounds = (partition.bounds[bucket], partition.bounds[bucket + 1]);
        let rows = merge::rows(&entries, bounds, self.options, keep_values, done);
        spare.give(entries);
        spare.give(scratch);
        Ok(rows)
    }
}

/// The row that continues in the next bucket.
#[derive(Default)]
struct OpenRow {
    pending: Option<(u64, f64)>,
}

impl OpenRow {
    /// Degrees and sums of the rows that end in this bucket. Without `complete`, its last row
    /// continues in the next bucket.
    fn close(&mut self, rows: &Rows, complete: bool) -> (Vec<u64>, Vec<f64>) {
        let mut degrees = rows.degrees.clone();
        let mut sums = if rows.sums.is_empty() {
            degrees.iter().map(|&d| d as f64).collect()
        } else {
            rows.sums.clone()
        };
        if let Some((degree, sum)) = self.pending.take() {
            degrees[0] += degree;
            sums[0] += sum;
        }
        if !complete {
            self.pending = degrees.pop().zip(sums.pop());
        }
        (degrees, sums)
    }
}

/// Writes the scale vector from row sums.
struct ScaleWriter {
    writer: ArrayWriter<f32>,
    normalisation: Normalisation,
    scratch: Vec<f32>,
}

impl ScaleWriter {
    fn write(
        &mut self,
        degrees: &[u64],
        sums: &[f64],
        describe: &(dyn Fn(u32) -> String + Sync),
    ) -> Result<()> {
        debug_assert_eq!(degrees.len(), sums.len());
        let renorm = self.normalisation == Normalisation::Renorm;
        self.scratch.clear();
        self.scratch.extend(sums.iter().map(|&sum| match sum {
            // A row of zeros has nothing to scale.
            0.0 => 0.0,
            sum if renorm => (1.0 / sum.sqrt()) as f32,
            sum => (1.0 / sum) as f32,
        }));
        if let Some(at) = self.scratch.iter().position(|scale| !scale.is_finite()) {
            let node = describe((self.writer.count() + at as u64) as u32);
            let sum = sums[at];
            return Err(IngestError::Usage(format!(
                "the weights of the edges out of node {node} sum to {sum:e}, too little to \
                 normalise: scale them up"
            )));
        }
        Ok(self.writer.write(&self.scratch)?)
    }
}

impl BuiltRelation {
    /// Removes the values: all of them are 1, which is implied.
    fn remove_values(&mut self) -> Result<()> {
        for (path, _) in
            self.files.extract_if(.., |(path, _)| path.extension().is_some_and(|e| e == "f32"))
        {
            storage::remove_file(&path)?;
        }
        Ok(())
    }
}
