//! Small graphs from edges in memory: for tests, examples and callers without raw files. It writes
//! a dataset directory with the writers of `ignn-format` and opens it, so that a graph made here is
//! one like any other. Large inputs, and those in files, are for `ignn-ingest`: this builder holds
//! and sorts all edges in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ignn_format::array::ArrayWriter;
use ignn_format::checksum::WrittenFiles;
use ignn_format::csr::CsrWriter;
use ignn_format::dataset::relation_path;
use ignn_format::features::{self, FEATURES, FeatureKind, FeaturesEntry};
use ignn_format::ids::{self, Ids, IdsEntry};
use ignn_format::labels::{self, Labels};
use ignn_format::manifest::{FORMAT, MadeBy, Manifest, Normalisation, RelationEntry, Scale};
use ignn_format::names::valid_name;
use ignn_format::splits::{self, NO_PART, Split};
use ignn_format::storage::{self, Staging, TemporaryDirectory};
use ignn_format::{FormatError, Result};

use super::Graph;

/// Bytes of features per file, about.
const SHARD_BYTES: usize = 64 << 20;

/// The edges of a relation, and what becomes of them.
#[derive(Clone, Debug)]
pub struct Edges {
    pairs: Vec<(u32, u32)>,
    weights: Option<Vec<f32>>,
    is_directed: bool,
    normalisation: Normalisation,
}

impl Edges {
    /// Edges that count both ways, renormalised: `D^-1/2 (A + I) D^-1/2`.
    pub fn undirected(pairs: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let (pairs, normalisation) = (pairs.into_iter().collect(), Normalisation::Renorm);
        Self { pairs, weights: None, is_directed: false, normalisation }
    }

    /// Edges from the first node of a pair to the second, renormalised.
    pub fn directed(pairs: impl IntoIterator<Item = (u32, u32)>) -> Self {
        Self { is_directed: true, ..Self::undirected(pairs) }
    }

    /// One weight per edge, in the order of the edges.
    pub fn weights(self, weights: Vec<f32>) -> Self {
        Self { weights: Some(weights), ..self }
    }

    /// Another normalisation.
    pub fn normalisation(self, normalisation: Normalisation) -> Self {
        Self { normalisation, ..self }
    }
}

/// A graph in the making.
///
/// Nodes are numbered from 0. Self-loops are dropped, and of an edge that is given several times
/// the largest weight stays, as `ignn ingest` does by default.
///
/// ```
/// use ignn::graph::GraphBuilder;
///
/// let graph = GraphBuilder::new(4)
///     .edges([(0, 1), (1, 2), (2, 3)])
///     .features(2, vec![1.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.0, 1.0])
///     .classes(["left", "right"], [Some(0), Some(0), None, Some(1)])
///     .split([0, 3], [1], [])
///     .build()?;
/// assert_eq!(graph.nodes(), 4);
/// // Node 1 gathers from its neighbours, and from itself: renormalisation adds loops.
/// assert_eq!(graph.relations()?[0].incoming.row(1), [0, 1, 2]);
/// assert_eq!(graph.labels()?.classes(), ["left", "right"]);
///
/// let error = GraphBuilder::new(2).edges([(0, 7)]).build().unwrap_err();
/// assert!(error.to_string().contains("node of an edge (found 7, expected less than 2)"));
/// # Ok::<(), ignn::FormatError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GraphBuilder {
    nodes: usize,
    relations: Vec<(String, Edges)>,
    features: Option<(usize, Vec<f32>)>,
    labels: Option<Labels>,
    splits: Vec<Split>,
    ids: Option<Ids>,
}

impl GraphBuilder {
    /// A graph with this number of nodes and no edges.
    pub fn new(nodes: usize) -> Self {
        let (relations, splits) = (Vec::new(), Vec::new());
        Self { nodes, relations, features: None, labels: None, splits, ids: None }
    }

    /// Adds the relation "edges": undirected, unweighted, renormalised.
    pub fn edges(self, pairs: impl IntoIterator<Item = (u32, u32)>) -> Self {
        self.relation("edges", Edges::undirected(pairs))
    }

    /// Adds a relation.
    pub fn relation(mut self, name: &str, edges: Edges) -> Self {
        self.relations.push((name.into(), edges));
        self
    }

    /// Dense features, node after node, `columns` values each.
    pub fn features(mut self, columns: usize, values: Vec<f32>) -> Self {
        self.features = Some((columns, values));
        self
    }

    /// One class per node, by position among the names; `None` where it is not known.
    pub fn classes<'n>(
        self,
        names: impl IntoIterator<Item = &'n str>,
        of: impl IntoIterator<Item = Option<u32>>,
    ) -> Self {
        let classes = names.into_iter().map(String::from).collect();
        let class =
            |class: Option<u32>| class.map_or(-1, |class| i32::try_from(class).unwrap_or(i32::MAX));
        self.labels(Labels::Single { classes, of: of.into_iter().map(class).collect() })
    }

    /// One number per node, to be predicted by regression; `None` where it is not known.
    ///
    /// ```
    /// use ignn::prelude::*;
    ///
    /// // A path whose nodes have their position as a number, known at every second node.
    /// let graph = GraphBuilder::new(12)
    ///     .edges((1..12).map(|node| (node - 1, node)))
    ///     .features(1, (0..12).map(|node| node as f32 / 6.0 - 1.0).collect())
    ///     .numbers("position", (0..12).map(|node| Some(f64::from(node))))
    ///     .split((0..12).step_by(2), [], (1..12).step_by(2))
    ///     .build()?;
    /// let mut config = Config::default();
    /// (config.model.state, config.train.epochs) = (vec![8], 200);
    /// let predictions = Trainer::new(&graph, config)?.fit()?.model.predict(&graph)?;
    /// assert!((predictions.number(5).expect("a regression") - 5.0).abs() < 1.5);
    /// # Ok::<(), ignn::Error>(())
    /// ```
    pub fn numbers(self, name: &str, of: impl IntoIterator<Item = Option<f64>>) -> Self {
        let of = of.into_iter().map(|number| number.unwrap_or(f64::NAN)).collect();
        self.labels(Labels::numbers(name, of))
    }

    /// Labels of any kind.
    pub fn labels(mut self, labels: Labels) -> Self {
        self.labels = Some(labels);
        self
    }

    /// The split "default", by the nodes of its parts.
    pub fn split(
        self,
        train: impl IntoIterator<Item = u32>,
        validation: impl IntoIterator<Item = u32>,
        test: impl IntoIterator<Item = u32>,
    ) -> Self {
        let mut of = vec![NO_PART; self.nodes];
        let mut put = |part: u8, node: u32| {
            // A node beyond the last makes the split too long, which is reported.
            of.resize(of.len().max(node as usize + 1), NO_PART);
            of[node as usize] = part;
        };
        train.into_iter().for_each(|node| put(0, node));
        validation.into_iter().for_each(|node| put(1, node));
        test.into_iter().for_each(|node| put(2, node));
        let parts = ["train", "validation", "test"].map(String::from).into();
        self.named_split(Split { name: "default".into(), parts, of })
    }

    /// A split with any name and parts.
    pub fn named_split(mut self, split: Split) -> Self {
        self.splits.push(split);
        self
    }

    /// The original ids of the nodes; without them, their numbers.
    pub fn ids(mut self, ids: Ids) -> Self {
        self.ids = Some(ids);
        self
    }

    /// Makes the graph in a temporary directory, which is removed with the last clone of the graph.
    pub fn build(self) -> Result<Graph> {
        let name = "graph.ignn";
        let directory = TemporaryDirectory::create("ignn-graph", name)?;
        let path = directory.path().join(name);
        self.write_files(&path)?;
        Graph::open_temporary(&path, directory)
    }

    /// Writes the graph as a dataset directory, which must not exist, and opens it.
    pub fn write(self, path: impl AsRef<Path>) -> Result<Graph> {
        self.write_files(path.as_ref())?;
        Graph::open(path)
    }

    fn write_files(&self, path: &Path) -> Result<()> {
        let staging = Staging::create(path, None)?;
        let mut writer = Writer { root: staging.path(), target: path, files: WrittenFiles::new() };
        let mut manifest = writer.write(self)?;
        manifest.version = manifest.lowest_version();
        manifest.write(staging.path())?;
        staging.commit()
    }
}

/// A dataset directory that is being written.
struct Writer<'a> {
    root: &'a Path,
    /// What messages name.
    target: &'a Path,
    files: WrittenFiles,
}

impl Writer<'_> {
    fn write(&mut self, graph: &GraphBuilder) -> Result<Manifest> {
        let nodes = graph.nodes;
        if nodes > u32::MAX as usize {
            return Err(self.invalid("number of nodes", nodes, format!("at most {}", u32::MAX)));
        }
        let mut relations = Vec::new();
        for (name, edges) in &graph.relations {
            relations.push(self.relation(name, edges, nodes)?);
        }
        let counted = Ids::Integer((0..nodes as u64).collect());
        let ids = self.ids(graph.ids.as_ref().unwrap_or(&counted), nodes)?;
        let features = match &graph.features {
            Some((columns, values)) => Some(self.features(*columns, values, nodes)?),
            None => None,
        };
        let labels = match &graph.labels {
            Some(of) => {
                self.check_length("labels", of.nodes(), nodes)?;
                self.check_classes(of)?;
                let (entry, files) = labels::write(self.root, of)?;
                self.files.extend(files);
                Some(entry)
            }
            None => None,
        };
        let splits = match &graph.splits[..] {
            [] => Vec::new(),
            splits => {
                for split in splits {
                    self.check_length("nodes of a split", split.of.len(), nodes)?;
                }
                let (entries, files) = splits::write(self.root, splits)?;
                self.files.extend(files);
                entries
            }
        };
        let program = concat!("ignn ", env!("CARGO_PKG_VERSION")).to_string();
        let named = |(path, entry): (PathBuf, _)| {
            let path = path.strip_prefix(self.root).unwrap_or(&path);
            let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
            (parts.join("/"), entry)
        };
        Ok(Manifest {
            format: FORMAT.into(),
            version: 1,
            made_by: MadeBy { program, command: "library".into(), options: BTreeMap::new() },
            nodes: nodes as u64,
            order: "none".into(),
            relations,
            ids,
            features,
            encoding: None,
            labels,
            splits,
            graphs: None,
            files: self.files.drain(..).map(named).collect(),
        })
    }

    fn relation(&mut self, name: &str, edges: &Edges, nodes: usize) -> Result<RelationEntry> {
        if !valid_name(name) {
            return Err(self.invalid("relation name", name, "letters, digits, '-', '_', '.'"));
        }
        let ends = edges.pairs.iter().flat_map(|&(source, target)| [source, target]);
        if let Some(node) = ends.into_iter().find(|&node| node as usize >= nodes) {
            return Err(self.invalid("node of an edge", node, format!("less than {nodes}")));
        }
        if let Some(weights) = &edges.weights {
            self.check_length("weights", weights.len(), edges.pairs.len())?;
            if let Some(weight) =
                weights.iter().find(|weight| !(weight.is_finite() && **weight >= 0.0))
            {
                return Err(self.invalid(
                    "weight of an edge",
                    weight,
                    "a finite number, at least 0",
                ));
            }
        }
        let directory = relation_path(self.root, name);
        storage::create_below(self.root, &directory)?;
        let rows = |is_incoming: bool| Rows::of(edges, is_incoming, nodes);
        let incoming = rows(true);
        let outgoing = edges.is_directed.then(|| rows(false));
        // Row sums of A: what the scale divides by.
        let sums = outgoing.as_ref().unwrap_or(&incoming).sums();
        let is_weighted = incoming.entries.iter().any(|entry| entry.2 != 1.0);
        for (direction, rows) in [("in", Some(&incoming)), ("out", outgoing.as_ref())] {
            let Some(rows) = rows else { continue };
            let mut writer = CsrWriter::create(&directory, direction, is_weighted)?;
            let columns: Vec<u32> = rows.entries.iter().map(|entry| entry.1).collect();
            let values: Vec<f32> = rows.entries.iter().map(|entry| entry.2).collect();
            writer.extend(&columns, &values)?;
            writer.end_rows(&rows.degrees)?;
            self.files.extend(writer.finish()?);
        }
        let scale = match edges.normalisation {
            Normalisation::None => Scale::None,
            Normalisation::Renorm => Scale::Both,
            Normalisation::Row => Scale::Source,
        };
        if scale != Scale::None {
            let path = directory.join("scale.f32");
            let mut writer = ArrayWriter::<f32>::create(&path, "scale")?;
            let factor = |&sum: &f64| match (sum, scale) {
                // A row of zeros scales nothing.
                (0.0, _) => 0.0,
                (sum, Scale::Both) => (1.0 / sum.sqrt()) as f32,
                (sum, _) => (1.0 / sum) as f32,
            };
            writer.write(&sums.iter().map(factor).collect::<Vec<_>>())?;
            self.files.push((path, writer.finish()?));
        }
        Ok(RelationEntry {
            name: name.into(),
            symmetric: !edges.is_directed,
            weighted: is_weighted,
            normalisation: edges.normalisation,
            scale,
            nonzeros: incoming.entries.len() as u64,
            diagonal: incoming.entries.iter().filter(|entry| entry.0 == entry.1).count() as u64,
        })
    }

    fn ids(&mut self, ids: &Ids, nodes: usize) -> Result<IdsEntry> {
        self.check_length("ids", ids.len(), nodes)?;
        let (entry, path, file) = ids::write(self.root, ids)?;
        self.files.push((path, file));
        Ok(entry)
    }

    fn features(&mut self, columns: usize, values: &[f32], nodes: usize) -> Result<FeaturesEntry> {
        self.check_length("features", values.len(), nodes * columns)?;
        if columns == 0 {
            return Err(self.invalid("feature columns", 0, "at least 1"));
        }
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(self.invalid("feature", value, "a finite number"));
        }
        let directory = self.root.join(FEATURES);
        storage::create_below(self.root, &directory)?;
        let rows_per_shard = (SHARD_BYTES / (4 * columns)).clamp(1, 1 << 20);
        let mut shards = 0;
        for rows in values.chunks(rows_per_shard * columns) {
            let file = features::write_dense_shard(self.root, shards, columns, rows)?;
            self.files.push((features::shard_path(self.root, shards), file));
            shards += 1;
        }
        Ok(FeaturesEntry {
            kind: FeatureKind::Dense,
            columns: columns as u64,
            rows_per_shard: rows_per_shard as u64,
            shards,
            nonzeros: None,
        })
    }

    fn check_classes(&self, labels: &Labels) -> Result<()> {
        let classes = labels.classes().len();
        let beyond = match labels {
            Labels::Single { of, .. } => of
                .iter()
                .copied()
                .find(|&class| class >= 0 && class as usize >= classes)
                .map(i64::from),
            Labels::Number { .. } => None,
            Labels::Multi { of, .. } => {
                of.iter().copied().find(|&class| class as usize >= classes).map(i64::from)
            }
        };
        match beyond {
            Some(class) => Err(self.invalid("class", class, format!("less than {classes}"))),
            None => Ok(()),
        }
    }

    fn check_length(&self, what: &str, found: usize, expected: usize) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        Err(self.invalid(&format!("number of {what}"), found, expected))
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers give literals and numbers")]
    fn invalid(&self, what: &str, found: impl ToString, expected: impl ToString) -> FormatError {
        FormatError::invalid(self.target, what, found.to_string(), expected.to_string())
    }
}

/// One direction of a relation: entries (row, column, value), sorted, and the length of each row.
struct Rows {
    entries: Vec<(u32, u32, f32)>,
    degrees: Vec<u64>,
}

impl Rows {
    fn of(edges: &Edges, is_incoming: bool, nodes: usize) -> Self {
        let weight = |at: usize| edges.weights.as_ref().map_or(1.0, |weights| weights[at]);
        let mut entries = Vec::new();
        for (at, &(source, target)) in edges.pairs.iter().enumerate() {
            if source == target {
                continue;
            }
            if is_incoming || !edges.is_directed {
                entries.push((target, source, weight(at)));
            }
            if !is_incoming || !edges.is_directed {
                entries.push((source, target, weight(at)));
            }
        }
        if edges.normalisation == Normalisation::Renorm {
            entries.extend((0..nodes as u32).map(|node| (node, node, 1.0)));
        }
        // Of equal places the largest value comes first, and stays.
        entries.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(b.2.total_cmp(&a.2)));
        entries.dedup_by_key(|entry| (entry.0, entry.1));
        let mut degrees = vec![0; nodes];
        entries.iter().for_each(|entry| degrees[entry.0 as usize] += 1);
        Self { entries, degrees }
    }

    fn sums(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.degrees.len()];
        self.entries.iter().for_each(|entry| sums[entry.0 as usize] += f64::from(entry.2));
        sums
    }
}
