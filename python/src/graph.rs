//! `Graph`: a dataset directory, opened; made from arrays or from raw files.

use std::path::{Path, PathBuf};

use ignn::format::features::SparseRows;
use ignn::format::storage::TemporaryDirectory;
use ignn::graph::{Graphs, Ids, Labels, Normalisation, Split};
use ignn::nn::Features;
use ignn::predict;
use ignn::report::quantity;
use ignn::run::machine;
use ignn_ingest::command::arrays::{ArrayEdges, ArrayFeatures, Column, IngestArrays};
use ignn_ingest::command::dgcnn::IngestDgcnn;
use ignn_ingest::command::edges::IngestEdges;
use ignn_ingest::command::graphsage::IngestGraphSage;
use ignn_ingest::command::node_data::{NodeData, NodeTable};
use ignn_ingest::command::relations::IngestRelations;
use ignn_ingest::command::tu::IngestTu;
use ignn_ingest::edges::options::{Duplicates, RelationOptions, SelfLoops};
use ignn_ingest::features::encoded::{Chosen, Columns, Missing, Numbers, Words};
use ignn_ingest::labels::CommunityChoice;
use ignn_ingest::source::edge_input::{EdgeInput, IdChoice};
use ignn_ingest::{Context, IngestError};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrays::Array;
use crate::failure::{Failure, exception};
use crate::job::{self, Reports};
use crate::values::to_python;

/// Least memory that holds the buffers of one thread of ingest.
const SMALLEST: u64 = 16 << 20;

/// An open dataset.
#[pyclass(frozen, module = "ignn._ignn")]
pub struct Graph {
    pub graph: ignn::graph::Graph,
    /// Whether it is in a directory of its own that is removed with it.
    #[pyo3(get)]
    is_temporary: bool,
}

#[pymethods]
impl Graph {
    /// Opens a dataset directory.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let graph = job::run(py, None, move |_| Ok(ignn::graph::Graph::open(path)?))?;
        Ok(Self { graph, is_temporary: false })
    }

    /// The directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.graph.path().into()
    }

    /// Number of nodes.
    #[getter]
    fn nodes(&self) -> usize {
        self.graph.nodes()
    }

    /// What the dataset contains, as its manifest says.
    fn manifest(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let value = ignn::serde_json::to_value(self.graph.manifest());
        to_python(py, &value.map_err(|error| PyValueError::new_err(error.to_string()))?)
    }

    /// Compares all files with their checksums.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        let graph = self.graph.clone();
        job::run(py, None, move |_| Ok(graph.verify()?))
    }

    /// Names of the classes of the nodes, or of the number, and the class or the number of each
    /// node; for sets also the offsets of each node's classes, and 1 for each node that has labels.
    /// `None` without labels.
    #[allow(clippy::type_complexity)] // A tuple of what the Python side unpacks.
    fn labels(
        &self,
        py: Python<'_>,
    ) -> PyResult<Option<(Vec<String>, Py<PyAny>, Option<(Py<PyAny>, Py<PyAny>)>)>> {
        let graph = self.graph.clone();
        let labels = job::run(py, None, move |_| {
            Ok(match graph.manifest().labels {
                Some(_) => Some(graph.labels()?),
                None => None,
            })
        })?;
        Ok(match labels {
            None => None,
            Some(Labels::Single { classes, of }) => {
                Some((classes, Array::vector(of).into_numpy(py)?, None))
            }
            Some(Labels::Number { name, of }) => {
                Some((name.into(), Array::vector(of).into_numpy(py)?, None))
            }
            Some(Labels::Multi { classes, offsets, of, labelled }) => {
                let offsets = Array::vector(offsets).into_numpy(py)?;
                let labelled: Vec<u8> = labelled.into_iter().map(u8::from).collect();
                let labelled = Array::vector(labelled).into_numpy(py)?;
                Some((classes, Array::vector(of).into_numpy(py)?, Some((offsets, labelled))))
            }
        })
    }

    /// The splits of the nodes: name, names of the parts, part of each node (255 for none).
    fn splits(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<String>, Py<PyAny>)>> {
        let graph = self.graph.clone();
        splits(py, job::run(py, None, move |_| Ok(graph.splits()?))?)
    }

    /// The graphs of a collection: ids, first nodes, classes, labels and splits.
    #[allow(clippy::type_complexity)] // A tuple of what the Python side unpacks.
    fn collection(
        &self,
        py: Python<'_>,
    ) -> PyResult<
        Option<(
            Vec<String>,
            Py<PyAny>,
            Vec<String>,
            Py<PyAny>,
            Vec<(String, Vec<String>, Py<PyAny>)>,
        )>,
    > {
        let graph = self.graph.clone();
        let Some(graphs) = job::run(py, None, move |_| Ok(graph.collection()?))? else {
            return Ok(None);
        };
        let Graphs { ids, first_node, classes, labels, numbers, splits: own } = graphs;
        let first_node = Array::vector(first_node).into_numpy(py)?;
        let labels = match numbers.is_empty() {
            true => Array::vector(labels).into_numpy(py)?,
            false => Array::vector(numbers).into_numpy(py)?,
        };
        Ok(Some((ids, first_node, classes, labels, splits(py, own)?)))
    }

    /// The original ids of the nodes: an array of integers, or a list of texts.
    fn ids(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let graph = self.graph.clone();
        match job::run(py, None, move |_| Ok(graph.ids()?))? {
            Ids::Integer(ids) => Array::vector(ids).into_numpy(py),
            ids => ids.iter().map(|id| id.to_string()).collect::<Vec<_>>().into_py_any(py),
        }
    }

    /// The features: a dense array, or offsets, columns, values and width. `None` without.
    fn features(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.graph.manifest().features.is_none() {
            return Ok(None);
        }
        let graph = self.graph.clone();
        match job::run(py, None, move |_| Ok(Features::read(&graph)?))? {
            Features::Dense(matrix) => Array::matrix(matrix).into_numpy(py).map(Some),
            Features::Sparse { rows: SparseRows { offsets, columns, values }, columns: width } => {
                let offsets = Array::vector(offsets).into_numpy(py)?;
                let columns = Array::vector(columns).into_numpy(py)?;
                let values = Array::vector(values).into_numpy(py)?;
                Some((offsets, columns, values, width).into_py_any(py)).transpose()
            }
            Features::Learned => Ok(None),
        }
    }

    /// The incoming edges of a relation as they are mapped: offsets, neighbours, values and scale. The
    /// arrays are views of the file.
    fn adjacency(
        &self,
        py: Python<'_>,
        relation: usize,
    ) -> PyResult<(Py<PyAny>, Py<PyAny>, Option<Py<PyAny>>, Option<Py<PyAny>>)> {
        let graph = self.graph.clone();
        let relations = job::run(py, None, move |_| Ok(graph.relations()?.to_vec()))?;
        let Some(relation) = relations.into_iter().nth(relation) else {
            return Err(PyValueError::new_err("no such relation"));
        };
        let stored = &relation.incoming;
        let offsets = Array::view(&stored.offsets()[..], relation.clone()).into_numpy(py)?;
        let neighbours = Array::view(&stored.neighbours()[..], relation.clone()).into_numpy(py)?;
        let values =
            stored.values().map(|it| Array::view(&it[..], relation.clone()).into_numpy(py));
        let scale = relation.scale().map(|it| Array::view(it, relation.clone()).into_numpy(py));
        Ok((offsets, neighbours, values.transpose()?, scale.transpose()?))
    }
}

fn splits(py: Python<'_>, own: Vec<Split>) -> PyResult<Vec<(String, Vec<String>, Py<PyAny>)>> {
    own.into_iter()
        .map(|Split { name, parts, of }| Ok((name, parts, Array::vector(of).into_numpy(py)?)))
        .collect()
}

/// Bytes that a job may use: those given, or half of the machine's memory.
pub fn memory(bytes: Option<u64>) -> Result<u64, Failure> {
    match bytes {
        Some(bytes) if bytes < SMALLEST => Err(Failure::argument(format!(
            "memory: too small: expected at least {}",
            quantity::bytes(SMALLEST)
        ))),
        Some(bytes) => Ok(bytes),
        None => Ok((machine::memory() / 2).max(SMALLEST)),
    }
}

fn context(reports: &Reports, bytes: Option<u64>, seed: u64) -> Result<Context<'_>, Failure> {
    Ok(Context { threads: reports.threads, memory: memory(bytes)?, seed, observer: reports })
}

/// One of the words, by its position.
fn word<T: Copy>(option: &str, found: &str, words: &[(&str, T)]) -> Result<T, Failure> {
    words.iter().find(|(word, _)| *word == found).map(|(_, value)| *value).ok_or_else(|| {
        let expected: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let expected = expected.join(", ");
        Failure::argument(format!("{option}: expected one of {expected}, found {found:?}"))
    })
}

/// How the matrix of a relation is built.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct RelationChoice {
    directed: bool,
    normalise: String,
    duplicates: String,
    self_loops: String,
}

impl RelationChoice {
    fn options(&self) -> Result<RelationOptions, Failure> {
        let normalise = [
            ("renorm", Normalisation::Renorm),
            ("row", Normalisation::Row),
            ("none", Normalisation::None),
        ];
        let duplicates = [
            ("max", Duplicates::Max),
            ("sum", Duplicates::Sum),
            ("first", Duplicates::First),
            ("error", Duplicates::Error),
        ];
        let self_loops = [("drop", SelfLoops::Drop), ("keep", SelfLoops::Keep)];
        Ok(RelationOptions {
            directed: self.directed,
            normalise: word("normalise", &self.normalise, &normalise)?,
            duplicates: word("duplicates", &self.duplicates, &duplicates)?,
            self_loops: word("self_loops", &self.self_loops, &self_loops)?,
        })
    }
}

/// Node numbers in a numpy array: one per edge, or two columns of which one is taken.
enum NodeArray<'py> {
    I32(PyReadonlyArray1<'py, i32>),
    I64(PyReadonlyArray1<'py, i64>),
    U32(PyReadonlyArray1<'py, u32>),
    U64(PyReadonlyArray1<'py, u64>),
}

impl<'py> NodeArray<'py> {
    fn new(array: &Bound<'py, PyAny>) -> PyResult<Self> {
        array
            .extract()
            .map(Self::I64)
            .or_else(|_| array.extract().map(Self::I32))
            .or_else(|_| array.extract().map(Self::U32))
            .or_else(|_| array.extract().map(Self::U64))
            .map_err(|_| {
                PyTypeError::new_err("edges: expected arrays of 32-bit or 64-bit integers")
            })
    }

    /// The entries, every `step`-th of them from `first` on. The array is contiguous.
    fn column(&self, step: usize, first: usize) -> PyResult<Column<'_>> {
        Ok(match self {
            Self::I32(array) => Column::every(step, first, array.as_slice()?),
            Self::I64(array) => Column::every(step, first, array.as_slice()?),
            Self::U32(array) => Column::every(step, first, array.as_slice()?),
            Self::U64(array) => Column::every(step, first, array.as_slice()?),
        })
    }
}

/// The edges of a relation: name, sources, targets (or `None`, where sources are pairs in a row),
/// weights and options.
type RelationArrays<'py> = (
    String,
    Bound<'py, PyAny>,
    Option<Bound<'py, PyAny>>,
    Option<PyReadonlyArray1<'py, f32>>,
    RelationChoice,
);
/// Sparse rows: offsets, columns, values, width.
type SparseArrays<'py> =
    (PyReadonlyArray1<'py, u64>, PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, f32>, usize);
/// Names of the classes, or of the number, and what each item has.
type LabelArrays<'py> = (Vec<String>, ItemLabels<'py>);

/// The labels of items.
#[derive(FromPyObject)]
pub enum ItemLabels<'py> {
    /// The class of each, -1 for none.
    Classes(PyReadonlyArray1<'py, i32>),
    /// The number of each, NaN for none.
    Numbers(PyReadonlyArray1<'py, f64>),
    /// Classes, offsets of each item's, and whether it is labelled.
    Sets((PyReadonlyArray1<'py, i32>, PyReadonlyArray1<'py, u64>, PyReadonlyArray1<'py, bool>)),
}

fn labels_of((names, of): LabelArrays<'_>) -> PyResult<Labels> {
    Ok(match of {
        ItemLabels::Classes(of) => Labels::Single { classes: names, of: of.as_slice()?.to_vec() },
        ItemLabels::Numbers(of) => {
            Labels::numbers(names.first().map_or("y", String::as_str), of.as_slice()?.to_vec())
        }
        ItemLabels::Sets((of, offsets, labelled)) => Labels::Multi {
            classes: names,
            offsets: offsets.as_slice()?.to_vec(),
            of: of.as_slice()?.iter().map(|&class| class.max(0) as u32).collect(),
            labelled: labelled.as_slice()?.to_vec(),
        },
    })
}

/// Name, names of the parts, and the part of each item.
type SplitArrays<'py> = (String, Vec<String>, PyReadonlyArray1<'py, u8>);
/// Ids, first nodes, labels, splits.
type GraphArrays<'py> =
    (Vec<String>, PyReadonlyArray1<'py, u64>, Option<LabelArrays<'py>>, Vec<SplitArrays<'py>>);

fn some_splits(splits: Vec<SplitArrays<'_>>) -> PyResult<Vec<Split>> {
    let split =
        |(name, parts, of): SplitArrays<'_>| Ok(Split { name, parts, of: of.as_slice()?.to_vec() });
    splits.into_iter().map(split).collect()
}

/// Features of the nodes.
#[derive(FromPyObject)]
pub enum FeatureArrays<'py> {
    Dense(PyReadonlyArray2<'py, f32>),
    Sparse(SparseArrays<'py>),
}

/// A directory for a dataset of this name that goes with its graph.
const TEMPORARY: &str = "graph.ignn";

/// Where a dataset is made: where the caller says, or in a temporary directory.
fn target(out: Option<PathBuf>) -> PyResult<(PathBuf, Option<TemporaryDirectory>)> {
    if let Some(out) = out {
        return Ok((out, None));
    }
    let directory = TemporaryDirectory::create("ignn-graph", TEMPORARY)
        .map_err(|error| exception(Failure::from(error)))?;
    Ok((directory.path().join(TEMPORARY), Some(directory)))
}

/// Opens what was made there.
fn opened(path: &Path, temporary: Option<TemporaryDirectory>) -> Result<Graph, Failure> {
    let is_temporary = temporary.is_some();
    let graph = match temporary {
        Some(directory) => ignn::graph::Graph::open_temporary(path, directory)?,
        None => ignn::graph::Graph::open(path)?,
    };
    Ok(Graph { graph, is_temporary })
}

/// Makes a dataset of arrays: in a directory, or in a temporary one that goes with the graph.
#[pyfunction]
#[pyo3(signature = (
    nodes, relations, *, ids, features, labels, splits, graphs, out, force, memory_limit, listener
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn build(
    py: Python<'_>,
    nodes: u64,
    relations: Vec<RelationArrays<'_>>,
    ids: Option<Vec<String>>,
    features: Option<FeatureArrays<'_>>,
    labels: Option<LabelArrays<'_>>,
    splits: Vec<SplitArrays<'_>>,
    graphs: Option<GraphArrays<'_>>,
    out: Option<PathBuf>,
    force: bool,
    memory_limit: Option<u64>,
    listener: Option<&Bound<'_, PyAny>>,
) -> PyResult<Graph> {
    let (path, temporary) = target(out)?;
    let ends: Vec<(NodeArray, Option<NodeArray>)> = relations
        .iter()
        .map(|(_, sources, targets, ..)| {
            Ok((NodeArray::new(sources)?, targets.as_ref().map(NodeArray::new).transpose()?))
        })
        .collect::<PyResult<_>>()?;
    let mut edges = Vec::new();
    for ((name, .., weights, choice), (sources, targets)) in relations.iter().zip(&ends) {
        let (sources, targets) = match targets {
            Some(targets) => (sources.column(1, 0)?, targets.column(1, 0)?),
            None => (sources.column(2, 0)?, sources.column(2, 1)?),
        };
        edges.push(ArrayEdges {
            weights: weights.as_ref().map(|weights| weights.as_slice()).transpose()?,
            options: choice.options().map_err(exception)?,
            ..ArrayEdges::new(name, sources, targets)
        });
    }
    let sparse = match &features {
        Some(FeatureArrays::Sparse((offsets, columns, values, _))) => Some(SparseRows {
            offsets: offsets.as_slice()?.to_vec(),
            columns: columns.as_slice()?.to_vec(),
            values: values.as_slice()?.to_vec(),
        }),
        _ => None,
    };
    let features = match (&features, &sparse) {
        (Some(FeatureArrays::Dense(array)), _) => {
            use numpy::PyUntypedArrayMethods;
            let columns = array.shape()[1];
            Some(ArrayFeatures::Dense { columns, values: array.as_slice()? })
        }
        (Some(FeatureArrays::Sparse((.., columns))), Some(rows)) => {
            Some(ArrayFeatures::Sparse { columns: *columns, rows })
        }
        _ => None,
    };
    let labels = labels.map(labels_of).transpose()?;
    let graphs = match graphs {
        Some((ids, first_node, labels, splits)) => {
            let (classes, labels, numbers) = match labels.map(labels_of).transpose()? {
                Some(Labels::Single { classes, of }) => (classes, of, Vec::new()),
                Some(Labels::Number { name, of }) => (name.into(), Vec::new(), of),
                _ => Default::default(),
            };
            let (first_node, splits) = (first_node.as_slice()?.to_vec(), some_splits(splits)?);
            Some(Graphs { ids, first_node, classes, labels, numbers, splits })
        }
        None => None,
    };
    let ids = ids.map(|ids| Ids::from_strings(ids.iter().map(String::as_str)));
    let splits = some_splits(splits)?;
    let job = IngestArrays {
        nodes,
        relations: edges,
        ids,
        features,
        labels,
        splits,
        graphs,
        out: path.clone(),
        force,
    };
    job::run_borrowing(py, listener, move |reports| {
        job.run(&context(reports, memory_limit, 0)?).map_err(Failure::ingest)?;
        opened(&path, temporary)
    })
}

/// Runs an ingest job and opens what it made.
fn ingest(
    py: Python<'_>,
    listener: Option<&Bound<'_, PyAny>>,
    out: PathBuf,
    (memory_limit, seed): (Option<u64>, u64),
    work: impl FnOnce(&Context) -> Result<(), IngestError> + Send + 'static,
) -> PyResult<Graph> {
    job::run(py, listener, move |reports| {
        work(&context(reports, memory_limit, seed)?).map_err(Failure::ingest)?;
        Ok(Graph { graph: ignn::graph::Graph::open(out)?, is_temporary: false })
    })
}

/// A value of the options, where it is given.
fn option<'py, T: FromPyObjectOwned<'py>>(
    options: &Bound<'py, PyDict>,
    name: &str,
) -> PyResult<Option<T>> {
    let given = options.get_item(name)?.filter(|it| !it.is_none());
    given.map(|it| it.extract().map_err(Into::into)).transpose()
}

/// Options that say how columns of a node table become features.
const ENCODING: [&str; 5] = ["columns", "numbers", "words", "missing", "categories"];
/// Other options that mean something with a node table only.
const OF_TABLE: [&str; 4] = ["label", "split_column", "id_column", "encode_as"];

/// The first of these options that is given.
fn first_given(
    options: &Bound<'_, PyDict>,
    names: &[&'static str],
) -> PyResult<Option<&'static str>> {
    for &name in names {
        if options.get_item(name)?.is_some_and(|value| !value.is_none()) {
            return Ok(Some(if name == "columns" { "features" } else { name }));
        }
    }
    Ok(None)
}

/// The node table, if there is one.
fn node_table(options: &Bound<'_, PyDict>) -> PyResult<Option<NodeTable>> {
    let Some(file) = option(options, "table")? else {
        return match first_given(options, &[&OF_TABLE[..], &ENCODING].concat())? {
            Some(name) => {
                let what = format!("{name}: needs a table of nodes: pass nodes=TABLE");
                Err(PyValueError::new_err(what))
            }
            None => Ok(None),
        };
    };
    let encoding = option::<PathBuf>(options, "encode_as")?;
    if let (Some(_), Some(name)) = (&encoding, first_given(options, &ENCODING)?) {
        let what = format!("encode_as and {name} cannot be used together");
        return Err(PyValueError::new_err(what));
    }
    let features = match option::<Vec<String>>(options, "columns")? {
        None => Chosen::None,
        Some(names) if names == ["all"] => Chosen::All,
        Some(names) => Chosen::Named(names),
    };
    let numbers = [("standardised", Numbers::Standardised), ("plain", Numbers::Plain)];
    let missing = [("mean", Missing::Mean), ("refuse", Missing::Refuse)];
    let text = |name: &str| option::<String>(options, name);
    let words = text("words")?.map(|word| word.parse::<Words>()).transpose();
    let words =
        words.map_err(|expected| PyValueError::new_err(format!("words: expected {expected}")))?;
    let numbers = text("numbers")?.map(|own| word("numbers", &own, &numbers)).transpose();
    let missing = text("missing")?.map(|own| word("missing", &own, &missing)).transpose();
    let encoding = encoding.as_deref().map(predict::encoding_of).transpose();
    Ok(Some(NodeTable {
        id: option(options, "id_column")?,
        label: option(options, "label")?,
        splits: option(options, "split_column")?.unwrap_or_default(),
        columns: Columns {
            features,
            categories: option(options, "categories")?.unwrap_or_default(),
            numbers: numbers.map_err(exception)?.unwrap_or_default(),
            words: words.unwrap_or_default(),
            missing: missing.map_err(exception)?.unwrap_or_default(),
        },
        encoding: encoding.map_err(|error| exception(error.into()))?,
        ..NodeTable::new(file)
    }))
}

/// The options of `ignn ingest edges`.
fn edges_job(
    files: Vec<PathBuf>,
    out: PathBuf,
    options: &Bound<'_, PyDict>,
) -> PyResult<IngestEdges> {
    let number = |name: &str| option::<u64>(options, name);
    let text = |name: &str| option::<String>(options, name);
    let path = |name: &str| option::<PathBuf>(options, name);
    let is_set = |name: &str| Ok::<_, PyErr>(option(options, name)?.unwrap_or(false));
    let choice = match (number("communities_larger_than")?, number("communities_top")?) {
        (Some(members), _) => CommunityChoice::LargerThan(members),
        (None, Some(count)) => CommunityChoice::Top(count as usize),
        (None, None) => CommunityChoice::All,
    };
    let ids =
        [("auto", IdChoice::Auto), ("integer", IdChoice::Integer), ("text", IdChoice::String)];
    let ids = word("ids", &text("ids")?.unwrap_or("auto".into()), &ids).map_err(exception)?;
    let mut job = IngestEdges::new(files, out);
    job.input = EdgeInput {
        ids,
        header: option(options, "header")?,
        source: text("source")?,
        target: text("target")?,
        weight: text("weight")?,
        unweighted: is_set("unweighted")?,
        ..job.input
    };
    job.relation = options.extract::<RelationChoice>()?.options().map_err(exception)?;
    (job.force, job.node_count) = (is_set("force")?, number("nodes")?);
    job.nodes_file = path("nodes_file")?;
    job.node_data = NodeData {
        features: path("features")?,
        missing_features_zero: is_set("missing_features_zero")?,
        labels: path("labels")?,
        communities: path("communities")?.map(|file| (file, choice)),
        splits: option(options, "splits")?.unwrap_or_default(),
        draw: option(options, "draw")?.unwrap_or_default(),
        table: node_table(options)?,
        regress: text("regress")?,
    };
    Ok(job)
}

/// Edge files to a dataset.
#[pyfunction]
#[pyo3(signature = (files, out, options, *, memory_limit, seed, listener))]
pub fn ingest_edges(
    py: Python<'_>,
    files: Vec<PathBuf>,
    out: Option<PathBuf>,
    options: &Bound<'_, PyDict>,
    memory_limit: Option<u64>,
    seed: u64,
    listener: Option<&Bound<'_, PyAny>>,
) -> PyResult<Graph> {
    let (path, temporary) = target(out)?;
    let job = edges_job(files, path.clone(), options)?;
    job::run(py, listener, move |reports| {
        job.run(&context(reports, memory_limit, seed)?).map_err(Failure::ingest)?;
        opened(&path, temporary)
    })
}

/// A specification of relations to a dataset.
#[pyfunction]
#[pyo3(signature = (spec, out, *, data, encode_as, force, memory_limit, seed, listener))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn ingest_relations(
    py: Python<'_>,
    spec: PathBuf,
    out: PathBuf,
    data: Option<PathBuf>,
    encode_as: Option<PathBuf>,
    force: bool,
    memory_limit: Option<u64>,
    seed: u64,
    listener: Option<&Bound<'_, PyAny>>,
) -> PyResult<Graph> {
    let encoding = encode_as.as_deref().map(predict::encoding_of).transpose();
    let encoding = encoding.map_err(|error| exception(error.into()))?;
    let job = IngestRelations { spec, data, out: out.clone(), force, encoding };
    ingest(py, listener, out, (memory_limit, seed), move |context| job.run(context).map(drop))
}

/// A set of many graphs to a dataset: a directory of the TU collection or of GraphSAGE, or a file
/// of DGCNN.
#[pyfunction]
#[pyo3(signature = (
    kind, path, out, relation, *, force, degree_features, regress, draw, memory_limit, seed, listener
))]
#[expect(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub fn ingest_directory(
    py: Python<'_>,
    kind: &str,
    path: PathBuf,
    out: PathBuf,
    relation: RelationChoice,
    force: bool,
    degree_features: bool,
    regress: Option<usize>,
    draw: Vec<String>,
    memory_limit: Option<u64>,
    seed: u64,
    listener: Option<&Bound<'_, PyAny>>,
) -> PyResult<Graph> {
    let relation = relation.options().map_err(exception)?;
    let (target, options) = (out.clone(), (memory_limit, seed));
    match kind {
        "tu" => {
            let job =
                IngestTu { directory: path, out, force, degree_features, regress, draw, relation };
            ingest(py, listener, target, options, move |context| job.run(context).map(drop))
        }
        "dgcnn" => {
            let job = IngestDgcnn { file: path, out, force, relation };
            ingest(py, listener, target, options, move |context| job.run(context).map(drop))
        }
        "graphsage" => {
            let job = IngestGraphSage { directory: path, out, force, relation };
            ingest(py, listener, target, options, move |context| job.run(context).map(drop))
        }
        other => Err(PyValueError::new_err(format!(
            "kind: expected one of tu, dgcnn, graphsage, found {other:?}"
        ))),
    }
}
