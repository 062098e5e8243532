//! Arrays in memory to a dataset: edges, features, labels and splits that a program holds. The edges
//! take the same way as those of files, so that a graph of any size keeps to the memory allowed.
//!
//! ```
//! use ignn_ingest::command::arrays::{ArrayEdges, Column, IngestArrays};
//! use ignn_ingest::{Context, context::Recorder};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let pairs: [i64; 6] = [0, 1, 1, 2, 2, 3]; // 0-1, 1-2, 2-3
//! let edges = ArrayEdges::new("edges", Column::every(2, 0, &pairs), Column::every(2, 1, &pairs));
//! let observer = Recorder::default();
//! let context = Context { threads: 2, memory: 1 << 30, seed: 0, observer: &observer };
//! let made = IngestArrays::new(4, vec![edges], dir.path().join("path.ignn")).run(&context)?;
//! assert_eq!((made.manifest.nodes, made.counts.read), (4, 3));
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use ignn_format::features::SparseRows;
use ignn_format::graphs::Graphs;
use ignn_format::ids::Ids;
use ignn_format::labels::Labels;
use ignn_format::names::valid_name;
use ignn_format::splits::Split;

use crate::builder::{self, DatasetBuilder, DatasetSummary};
use crate::context::{Context, Unit};
use crate::edges::options::{Duplicates, RelationOptions};
use crate::edges::spool::EdgeSpool;
use crate::error::{IngestError, Result};
use crate::pipeline;

/// Edges per chunk.
const CHUNK: usize = 1 << 16;

/// A job: the parts of a dataset as arrays.
pub struct IngestArrays<'a> {
    /// Number of nodes.
    pub nodes: u64,
    /// The relations, by name.
    pub relations: Vec<ArrayEdges<'a>>,
    /// The original ids of the nodes; without them, their numbers.
    pub ids: Option<Ids>,
    /// Features of the nodes.
    pub features: Option<ArrayFeatures<'a>>,
    /// Labels of the nodes.
    pub labels: Option<Labels>,
    /// Splits of the nodes.
    pub splits: Vec<Split>,
    /// Node ranges, labels and splits of the graphs, for a dataset of many graphs.
    pub graphs: Option<Graphs>,
    /// The dataset directory to create.
    pub out: PathBuf,
    /// Replace an existing target.
    pub force: bool,
}

/// The edges of a relation.
#[derive(Clone, Debug)]
pub struct ArrayEdges<'a> {
    /// Name of the relation.
    pub name: String,
    /// The node that each edge starts from.
    pub sources: Column<'a>,
    /// The node that it leads to.
    pub targets: Column<'a>,
    /// One weight per edge.
    pub weights: Option<&'a [f32]>,
    /// Direction, normalisation, duplicates, self-loops.
    pub options: RelationOptions,
}

impl<'a> ArrayEdges<'a> {
    /// Edges without weights, with the default options.
    pub fn new(name: &str, sources: Column<'a>, targets: Column<'a>) -> Self {
        let (name, options) = (name.into(), RelationOptions::default());
        Self { name, sources, targets, weights: None, options }
    }
}

/// Node numbers as a program holds them: one of the usual integer types, contiguous or every few
/// entries of an array.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    values: Values<'a>,
    step: usize,
}

#[derive(Clone, Copy, Debug)]
enum Values<'a> {
    I32(&'a [i32]),
    I64(&'a [i64]),
    U32(&'a [u32]),
    U64(&'a [u64]),
}

/// An integer type of a [`Column`].
pub trait NodeNumber: Sized {
    /// The entries as a column.
    fn column(values: &[Self]) -> Column<'_>;
}

macro_rules! node_number {
    ($($type:ty, $variant:ident;)+) => {$(
        impl NodeNumber for $type {
            fn column(values: &[Self]) -> Column<'_> {
                Column { values: Values::$variant(values), step: 1 }
            }
        }
    )+};
}

node_number! {
    i32, I32;
    i64, I64;
    u32, U32;
    u64, U64;
}

impl<'a> Column<'a> {
    /// All entries of an array.
    pub fn all<N: NodeNumber>(values: &'a [N]) -> Self {
        N::column(values)
    }

    /// Every `step`-th entry, starting with the `first`: a column of a table that is stored by rows.
    pub fn every<N: NodeNumber>(step: usize, first: usize, values: &'a [N]) -> Self {
        Self { step: step.max(1), ..N::column(values.get(first..).unwrap_or(&[])) }
    }

    /// Number of entries.
    pub fn len(self) -> usize {
        let values = match self.values {
            Values::I32(values) => values.len(),
            Values::I64(values) => values.len(),
            Values::U32(values) => values.len(),
            Values::U64(values) => values.len(),
        };
        values.div_ceil(self.step)
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Appends some of the entries, which must be below `nodes`; the first that is not is an error.
    fn read(
        self,
        range: std::ops::Range<usize>,
        nodes: u64,
        out: &mut Vec<u32>,
    ) -> Result<(), String> {
        match self.values {
            Values::I32(values) => read(values, self.step, range, nodes, out),
            Values::I64(values) => read(values, self.step, range, nodes, out),
            Values::U32(values) => read(values, self.step, range, nodes, out),
            Values::U64(values) => read(values, self.step, range, nodes, out),
        }
    }
}

fn read<N: Copy + ToString>(
    values: &[N],
    step: usize,
    range: std::ops::Range<usize>,
    nodes: u64,
    out: &mut Vec<u32>,
) -> Result<(), String>
where
    u32: TryFrom<N>,
{
    for &value in values[range.start * step..].iter().step_by(step).take(range.len()) {
        match u32::try_from(value) {
            Ok(node) if u64::from(node) < nodes => out.push(node),
            _ => return Err(value.to_string()),
        }
    }
    Ok(())
}

/// Features of the nodes, row by row.
#[derive(Clone, Copy, Debug)]
pub enum ArrayFeatures<'a> {
    /// Every value.
    Dense {
        /// Number of columns.
        columns: usize,
        /// The values of all nodes.
        values: &'a [f32],
    },
    /// Values that are not zero.
    Sparse {
        /// Number of columns.
        columns: usize,
        /// The rows; columns ascend in each.
        rows: &'a SparseRows,
    },
}

impl<'a> IngestArrays<'a> {
    /// A graph without features, labels and splits.
    pub fn new(nodes: u64, relations: Vec<ArrayEdges<'a>>, out: PathBuf) -> Self {
        Self {
            nodes,
            relations,
            ids: None,
            features: None,
            labels: None,
            splits: Vec::new(),
            graphs: None,
            out,
            force: false,
        }
    }

    /// Runs the job.
    pub fn run(&self, context: &Context) -> Result<DatasetSummary> {
        self.check()?;
        let options = BTreeMap::from_iter(self.relations.iter().map(|relation| {
            let RelationOptions { directed, normalise, duplicates, self_loops } = &relation.options;
            let what = format!(
                "directed={directed} normalise={normalise:?} duplicates={duplicates:?} \
                 self-loops={self_loops:?}"
            );
            (format!("relations.{}", relation.name), what.to_lowercase())
        }));
        let claimed = builder::claim(&self.out, self.force)?;
        let mut builder = DatasetBuilder::begin(context, claimed, "arrays", options)?;
        builder.set_nodes(self.nodes)?;
        for relation in &self.relations {
            let spool = self.spool(context, &builder, relation)?;
            builder.add_relation(&relation.name, spool, &relation.options)?;
        }
        match &self.ids {
            Some(ids) => builder.add_ids(ids)?,
            None => builder.add_consecutive_ids()?,
        }
        match self.features {
            Some(ArrayFeatures::Dense { columns, values }) => {
                builder.add_dense_features(columns, |first, rows| {
                    rows.copy_from_slice(&values[first as usize * columns..][..rows.len()]);
                    Ok(())
                })?;
            }
            Some(ArrayFeatures::Sparse { columns, rows }) => {
                builder.add_sparse_features(columns, |first, count| {
                    Ok(some_rows(rows, first as usize, count))
                })?;
            }
            None => {}
        }
        if let Some(labels) = &self.labels {
            builder.add_labels(labels)?;
        }
        if !self.splits.is_empty() {
            builder.add_splits(&self.splits)?;
        }
        if let Some(graphs) = &self.graphs {
            builder.add_graphs(graphs)?;
        }
        builder.finish()
    }

    fn spool(
        &self,
        context: &Context,
        builder: &DatasetBuilder,
        relation: &ArrayEdges,
    ) -> Result<EdgeSpool> {
        let ArrayEdges { name, sources, targets, weights, options } = relation;
        let count = sources.len();
        context.observer.phase("edges", Some(count as u64), Unit::Edges);
        // To sum unweighted duplicates, each edge needs a weight of 1.
        let is_weighted = weights.is_some() || options.duplicates == Duplicates::Sum;
        let ones = if weights.is_none() && is_weighted { vec![1.0; CHUNK] } else { Vec::new() };
        let mut spool = builder.spool(is_weighted);
        let outside = |first: usize, column: Column, found: String| {
            let edge = (first..)
                .find(|&edge| column.read(edge..edge + 1, self.nodes, &mut Vec::new()).is_err());
            let edge = edge.unwrap_or(first);
            let expected = match self.nodes {
                0 => "no edges in a graph without nodes".into(),
                nodes => format!("a node from 0 to {}", nodes - 1),
            };
            IngestError::Usage(format!(
                "relation {name}, edge {edge}: expected {expected}, found {found}"
            ))
        };
        let work = |chunk: usize| {
            let first = chunk * CHUNK;
            let range = first..count.min(first + CHUNK);
            let mut ends = [Vec::with_capacity(range.len()), Vec::with_capacity(range.len())];
            for (column, out) in [sources, targets].into_iter().zip(&mut ends) {
                let read = column.read(range.clone(), self.nodes, out);
                read.map_err(|found| outside(first, *column, found))?;
            }
            let own = weights.map_or(&ones[..], |weights| &weights[range.clone()]);
            let wrong = own.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0));
            if let Some(at) = wrong {
                return Err(IngestError::Usage(format!(
                    "relation {name}, edge {}: expected a weight of 0 or more, found {}",
                    first + at,
                    own[at]
                )));
            }
            let pairs = ends[0].iter().zip(&ends[1]);
            Ok((range, pairs.map(|(&source, &target)| [source, target]).collect::<Vec<_>>()))
        };
        let chunks = (0..count.div_ceil(CHUNK)).map(Ok);
        pipeline::ordered(context.threads, chunks, work, |(range, edges)| {
            let own = match weights {
                Some(weights) => &weights[range],
                None if is_weighted => &ones[..edges.len()],
                None => &[],
            };
            spool.push(&edges, own)?;
            context.observer.advance(edges.len() as u64);
            IngestError::unless_stopped(context.observer.is_stopped())
        })?;
        Ok(spool)
    }

    /// Refuses arrays whose lengths do not fit, before anything is written.
    fn check(&self) -> Result<()> {
        let same = |what: &str, found: usize, expected: usize| match found == expected {
            true => Ok(()),
            false => Err(IngestError::Usage(format!("{what}: expected {expected}, found {found}"))),
        };
        let nodes = self.nodes as usize;
        if self.relations.is_empty() {
            return Err(IngestError::Usage("no relation: expected at least one".into()));
        }
        for (at, relation) in self.relations.iter().enumerate() {
            let ArrayEdges { name, sources, targets, weights, .. } = relation;
            if !valid_name(name) {
                return Err(IngestError::Usage(format!(
                    "relation {name:?}: expected a name of letters, digits, '-', '_' and '.'"
                )));
            }
            if self.relations[..at].iter().any(|other| other.name == *name) {
                return Err(IngestError::Usage(format!("two relations named {name:?}")));
            }
            same(&format!("relation {name}, targets"), targets.len(), sources.len())?;
            let weights = weights.map_or(sources.len(), <[f32]>::len);
            same(&format!("relation {name}, weights"), weights, sources.len())?;
        }
        self.ids.as_ref().map_or(Ok(()), |ids| same("ids", ids.len(), nodes))?;
        self.labels.as_ref().map_or(Ok(()), |labels| same("labels", labels.nodes(), nodes))?;
        self.splits
            .iter()
            .try_for_each(|it| same(&format!("nodes of split {}", it.name), it.of.len(), nodes))?;
        self.check_features(nodes)?;
        let Some(graphs) = &self.graphs else { return Ok(()) };
        let count = graphs.len();
        same("offsets of the graphs", graphs.first_node.len(), count + 1)?;
        if !graphs.labels.is_empty() {
            same("labels of the graphs", graphs.labels.len(), count)?;
        }
        if !graphs.numbers.is_empty() {
            same("numbers of the graphs", graphs.numbers.len(), count)?;
        }
        graphs
            .splits
            .iter()
            .try_for_each(|it| same(&format!("graphs of split {}", it.name), it.of.len(), count))
    }

    fn check_features(&self, nodes: usize) -> Result<()> {
        let (columns, rows, values) = match self.features {
            None => return Ok(()),
            Some(ArrayFeatures::Dense { columns, values }) => {
                (columns, values.len().checked_div(columns).unwrap_or(0), values)
            }
            Some(ArrayFeatures::Sparse { columns, rows }) => {
                check_sparse(rows, columns)?;
                (columns, rows.rows(), &rows.values[..])
            }
        };
        if columns == 0 {
            return Err(IngestError::Usage("features: expected at least one column".into()));
        }
        if rows != nodes {
            return Err(IngestError::Usage(format!(
                "features: expected one row for each of {nodes} nodes, found {rows}"
            )));
        }
        let Some(at) = values.iter().position(|value| !value.is_finite()) else { return Ok(()) };
        let node = match self.features {
            Some(ArrayFeatures::Sparse { rows, .. }) => {
                rows.offsets.partition_point(|&offset| offset <= at as u64) - 1
            }
            _ => at / columns,
        };
        Err(IngestError::Usage(format!(
            "features of node {node}: expected finite numbers, found {}",
            values[at]
        )))
    }
}

/// Refuses sparse rows whose arrays do not belong together.
fn check_sparse(rows: &SparseRows, width: usize) -> Result<()> {
    let SparseRows { offsets, columns, values } = rows;
    let wrong = |what: String| Err(IngestError::Usage(format!("features: {what}")));
    let entries = values.len() as u64;
    if columns.len() != values.len() {
        return wrong(format!("expected {entries} columns of entries, found {}", columns.len()));
    }
    let ascends = offsets.windows(2).all(|two| two[0] <= two[1]);
    if !ascends || offsets.first() != Some(&0) || offsets.last() != Some(&entries) {
        return wrong(format!("expected offsets that ascend from 0 to {entries}"));
    }
    for (node, ends) in offsets.windows(2).enumerate() {
        let own = &columns[ends[0] as usize..ends[1] as usize];
        let is_wrong = |two: &[u32]| two[0] >= two[1];
        if own.windows(2).any(is_wrong) || own.last().is_some_and(|&at| at as usize >= width) {
            return wrong(format!(
                "expected ascending columns below {width} in the row of node {node}"
            ));
        }
    }
    Ok(())
}

/// Some of the rows.
fn some_rows(rows: &SparseRows, first: usize, count: usize) -> SparseRows {
    let offsets = &rows.offsets[first..=first + count];
    let (from, to) = (offsets[0] as usize, offsets[count] as usize);
    SparseRows {
        offsets: offsets.iter().map(|&offset| offset - from as u64).collect(),
        columns: rows.columns[from..to].to_vec(),
        values: rows.values[from..to].to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::atomic::{AtomicU64, Ordering};

    use ignn_format::{DatasetDir, check};

    use super::*;
    use crate::command::edges::IngestEdges;
    use crate::context::{Observer, Recorder};

    fn run(job: &IngestArrays) -> Result<DatasetSummary> {
        let observer = Recorder::default();
        job.run(&Context { threads: 3, memory: 1 << 30, seed: 0, observer: &observer })
    }

    #[test]
    fn arrays_and_files_of_the_same_edges_give_the_same_relation() {
        let dir = tempfile::tempdir().unwrap();
        let count = 3 * CHUNK + 17;
        let end = |i: usize, factor: usize| (i * factor % 5003) as i64;
        let pairs: Vec<i64> = (0..count).flat_map(|i| [end(i, 7919), end(i, 104_729)]).collect();
        let weights: Vec<f32> = (0..count).map(|i| (i % 9) as f32 * 0.5).collect();
        for (directed, is_weighted) in [(false, false), (true, true)] {
            let name = |kind: &str| dir.path().join(format!("{kind}-{directed}"));
            let text: Vec<String> = pairs
                .chunks(2)
                .zip(&weights)
                .map(|(pair, weight)| match is_weighted {
                    true => format!("{} {} {weight}", pair[0], pair[1]),
                    false => format!("{} {}", pair[0], pair[1]),
                })
                .collect();
            fs::write(name("edges"), text.join("\n")).unwrap();
            let mut files = IngestEdges::new(vec![name("edges")], name("files"));
            (files.relation.directed, files.node_count) = (directed, Some(5003));
            let observer = Recorder::default();
            let context = Context { threads: 2, memory: 1 << 30, seed: 0, observer: &observer };
            let read = files.run(&context).unwrap();
            let mut edges =
                ArrayEdges::new("edges", Column::every(2, 0, &pairs), Column::every(2, 1, &pairs));
            edges.options.directed = directed;
            edges.weights = is_weighted.then_some(&weights[..]);
            let made = run(&IngestArrays::new(5003, vec![edges], name("arrays"))).unwrap();
            assert_eq!(made.counts, read.counts);
            assert_eq!(made.manifest.relations, read.manifest.relations);
            assert_eq!(made.manifest.files, read.manifest.files);
        }
    }

    /// Asks to stop after this number of chunks.
    struct StopAfter(Recorder, AtomicU64);

    impl Observer for StopAfter {
        fn phase(&self, name: &str, total: Option<u64>, unit: Unit) {
            self.0.phase(name, total, unit);
        }
        fn advance(&self, amount: u64) {
            self.0.advance(amount);
            let _ = self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        }
        fn note(&self, message: &str) {
            self.0.note(message);
        }
        fn finish(&self) {
            self.0.finish();
        }
        fn is_stopped(&self) -> bool {
            self.1.load(Ordering::Relaxed) == 0
        }
    }

    #[test]
    fn a_job_that_is_asked_to_stop_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let pairs: Vec<u32> = (0..8 * CHUNK as u32).map(|i| i % 1000).collect();
        let columns = || (Column::every(2, 0, &pairs), Column::every(2, 1, &pairs));
        for chunks in [0, 1, 2, 5, 9] {
            let edges = ArrayEdges::new("edges", columns().0, columns().1);
            let job = IngestArrays::new(1000, vec![edges], dir.path().join("out"));
            let observer = StopAfter(Recorder::default(), AtomicU64::new(chunks));
            let context = Context { threads: 2, memory: 1 << 30, seed: 0, observer: &observer };
            match job.run(&context) {
                // The end came first.
                Ok(_) => assert!(chunks > 4, "{chunks}"),
                Err(error) => assert!(matches!(error, IngestError::Stopped), "{error}"),
            }
            if chunks <= 4 {
                assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{chunks}");
            } else {
                let _ = fs::remove_dir_all(dir.path().join("out"));
            }
        }
    }

    #[test]
    fn every_kind_of_data_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = ([0u32, 1, 3], [1u64, 2, 4]);
        let edges = ArrayEdges::new("a", Column::all(&from), Column::all(&to));
        let more = ArrayEdges::new("b", Column::all(&[4i32]), Column::all(&[3i32]));
        let rows = SparseRows {
            offsets: vec![0, 1, 1, 3, 3, 3],
            columns: vec![2, 0, 1],
            values: vec![1.0, 2.0, 3.0],
        };
        let names = || vec!["x".to_string(), "y".to_string()];
        let split = |of| Split { name: "default".into(), parts: names(), of };
        let mut job = IngestArrays::new(5, vec![edges, more], dir.path().join("all"));
        job.features = Some(ArrayFeatures::Sparse { columns: 3, rows: &rows });
        job.labels = Some(Labels::Single { classes: names(), of: vec![0, 1, -1, 0, 1] });
        job.splits = vec![split(vec![0, 1, 0, 1, 0])];
        job.ids = Some(Ids::from_strings(["a", "b", "c", "d", "e"]));
        job.graphs = Some(Graphs {
            ids: names(),
            first_node: vec![0, 3, 5],
            classes: names(),
            labels: vec![0, 1],
            numbers: Vec::new(),
            splits: vec![split(vec![0, 1])],
        });
        run(&job).unwrap();
        let dataset = DatasetDir::open(dir.path().join("all")).unwrap();
        let findings = check::check(&dataset, &|_, _, _| ());
        assert!(findings.is_empty(), "{findings:?}");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let message = |change: &dyn Fn(&mut IngestArrays)| {
            let pairs = [[0i64, 1], [1, 2]].concat();
            let edges =
                ArrayEdges::new("edges", Column::every(2, 0, &pairs), Column::every(2, 1, &pairs));
            let mut job = IngestArrays::new(3, vec![edges], "no such place".into());
            change(&mut job);
            run(&job).unwrap_err().to_string()
        };
        const VALUES: &[f32] = &[1.0, f32::NAN, 0.0];
        assert_eq!(
            message(&|job| job.features = Some(ArrayFeatures::Dense { columns: 1, values: VALUES })),
            "features of node 1: expected finite numbers, found NaN"
        );
        assert_eq!(
            message(&|job| {
                job.features = Some(ArrayFeatures::Dense { columns: 1, values: &VALUES[2..] });
            }),
            "features: expected one row for each of 3 nodes, found 1"
        );
        for (offsets, columns, expected) in [
            ([0, 9, 1, 2], [0, 1], "expected offsets that ascend from 0 to 2"),
            ([0, 1, 2, 3], [0, 1], "expected offsets that ascend from 0 to 2"),
            ([0, 2, 2, 2], [0, 7], "expected ascending columns below 2 in the row of node 0"),
            ([0, 0, 2, 2], [1, 1], "expected ascending columns below 2 in the row of node 1"),
        ] {
            let (offsets, columns) = (offsets.to_vec(), columns.to_vec());
            let rows = SparseRows { offsets, columns, values: vec![1.0, 2.0] };
            let found = {
                let mut job = IngestArrays::new(3, vec![], "no such place".into());
                job.features = Some(ArrayFeatures::Sparse { columns: 2, rows: &rows });
                job.check_features(3).unwrap_err().to_string()
            };
            assert_eq!(found, format!("features: {expected}"));
        }
        assert_eq!(message(&|job| job.relations[0].name = "a b".into()), {
            "relation \"a b\": expected a name of letters, digits, '-', '_' and '.'"
        });
        assert_eq!(
            message(&|job| job.labels = Some(Labels::Single { classes: vec![], of: vec![-1] })),
            "labels: expected 3, found 1"
        );
        let dir = tempfile::tempdir().unwrap();
        let in_place = |job: &mut IngestArrays, out: &Path| job.out = out.join("x");
        assert_eq!(
            message(&|job| (job.nodes = 2, in_place(job, dir.path())).1),
            "relation edges, edge 1: expected a node from 0 to 1, found 2"
        );
        assert_eq!(
            message(&|job| {
                in_place(job, dir.path());
                job.relations[0].weights = Some(&[1.0, -2.0]);
            }),
            "relation edges, edge 1: expected a weight of 0 or more, found -2"
        );
        assert!(!dir.path().join("x").exists());
    }
}
