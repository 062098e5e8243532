//! The specification of `ignn ingest relations`: a TOML file, checked as far as possible without
//! reading data. Keys have the names of the options of `ignn ingest edges`.

use std::path::{Path, PathBuf};

use ignn_format::manifest::Normalisation;
use ignn_format::names::valid_name;

use crate::command::node_data::{NodeData, NodeTable};
use crate::edges::options::{Duplicates, RelationOptions, SelfLoops};
use crate::error::{IngestError, Result};
use crate::features::encoded::{Chosen, Columns, Missing, Numbers, Words};
use crate::labels::CommunityChoice;
use crate::source::edge_input::{EdgeFormat, EdgeInput, IdChoice};
use crate::source::text;
use crate::source::toml_file::{Section, TomlFile, did_you_mean};
use crate::splits;

const TOP_KEYS: &[&str] = &[
    "target",
    "nodes",
    "node-table",
    "id-column",
    "label",
    "regress",
    "split-column",
    "categories",
    "numbers",
    "words",
    "missing",
    "features",
    "missing-features",
    "labels",
    "communities",
    "communities-larger-than",
    "communities-top",
    "splits",
    "split",
    "normalise",
    "lists",
    "relations",
];
const LIST_KEYS: &[&str] =
    &["file", "columns", "directed", "format", "header", "ids", "source", "target"];
const FILE_KEYS: &[&str] = &[
    "file",
    "format",
    "header",
    "ids",
    "source",
    "target",
    "weight",
    "unweighted",
    "directed",
    "duplicates",
    "self-loops",
    "normalise",
];
const PATH_KEYS: &[&str] = &["path", "through", "counted", "diagonal", "normalise"];
/// What `format` was called in version 0.1.0.
const OLD_FORMAT: &str = "form";

/// A checked specification.
pub struct Spec {
    /// The file it came from.
    pub path: PathBuf,
    /// Type of the dataset's nodes.
    pub target: String,
    /// Where the set of nodes comes from.
    pub nodes: Nodes,
    /// Features, labels and splits.
    pub node_data: NodeData,
    /// Bipartite lists, in the order of the file.
    pub lists: Vec<List>,
    /// Relations, in the order of the file.
    pub relations: Vec<Relation>,
}

/// Where the set of nodes comes from.
pub enum Nodes {
    /// From the ids in relations and lists, and from the rows of features without ids.
    Seen,
    /// Ids `0 .. count`.
    Count(u64),
    /// From a file that lists them.
    File(PathBuf),
    /// From the node table.
    Table,
}

/// A list of pairs of two types.
pub struct List {
    /// Its name.
    pub name: String,
    /// Types of its columns.
    pub columns: [String; 2],
    /// Its files.
    pub input: EdgeInput,
    /// Whether each pair counts in both directions.
    pub symmetric: bool,
}

/// A relation among the target nodes.
pub struct Relation {
    /// Its name.
    pub name: String,
    /// Where its edges come from.
    pub edges: Edges,
}

/// Where the edges of a relation come from.
pub enum Edges {
    /// From files.
    Files(EdgeInput, RelationOptions),
    /// From a path through lists.
    Path(MetaPath),
}

/// A path through lists.
#[derive(Debug)]
pub struct MetaPath {
    /// The types along the path.
    pub types: Vec<String>,
    /// The lists along the path.
    pub steps: Vec<Step>,
    /// Whether the path reads the same backwards, so that its matrix is symmetric.
    pub symmetric: bool,
    /// Whether the number of paths becomes the weight.
    pub counted: bool,
    /// How the matrix is built; its self-loops are the diagonal.
    pub options: RelationOptions,
}

/// A step of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Position of the list.
    pub list: usize,
    /// From its second column to its first.
    pub reversed: bool,
}

impl Spec {
    /// Reads and checks a specification; its paths are relative to `data`, or else to the file.
    pub fn read(path: &Path, data: Option<&Path>) -> Result<Self> {
        let file = TomlFile::read(path)?;
        let table = file.parse()?;
        let root = Section::root(&file, table.get_ref());
        root.check_keys(TOP_KEYS, &[])?;
        let folder = data.unwrap_or_else(|| path.parent().unwrap_or(Path::new("")));
        let target = match root.string("target")? {
            Some(target) => target,
            None => return Err(root.wrong("target", "the type of the nodes", "nothing")),
        };
        let normalise = root.choice("normalise", NORMALISATIONS)?.unwrap_or(Normalisation::Renorm);
        let sections = root.sections("lists")?;
        let lists = sections.iter().map(|(name, section)| List::new(name, section, folder));
        let lists = lists.collect::<Result<Vec<_>>>()?;
        check_target(&root, &target, &lists)?;
        let sections = root.sections("relations")?;
        if sections.is_empty() {
            return Err(root.wrong("relations", "sections like [relations.NAME]", "none"));
        }
        let context = RelationContext { folder, target: &target, normalise, lists: &lists };
        let relations =
            sections.iter().map(|(name, section)| context.relation(name, section, &root));
        let relations = relations.collect::<Result<Vec<_>>>()?;
        let nodes =
            match root.integer_or_string("nodes", "a number of nodes or a file with their ids")? {
                None => Nodes::Seen,
                Some(Ok(0)) => return Err(root.wrong("nodes", "1 or more", "0")),
                Some(Ok(count)) if count > u64::from(u32::MAX) => {
                    return Err(root.wrong("nodes", "4294967295 or less", count.to_string()));
                }
                Some(Ok(count)) => Nodes::Count(count),
                Some(Err(file)) => Nodes::File(folder.join(file)),
            };
        let node_data = node_data(&root, folder)?;
        let nodes = match (&node_data.table, nodes) {
            (None, nodes) => nodes,
            (Some(_), Nodes::Seen) => Nodes::Table,
            (Some(_), _) => {
                return Err(root.wrong("nodes", "absent if node-table is given", "both"));
            }
        };
        let spec = Self { path: path.into(), target, nodes, node_data, lists, relations };
        spec.check_node_files()?;
        Ok(spec)
    }

    /// Adds the file name and a key of the specification to an error.
    pub fn about(&self, key: &str, error: &IngestError) -> IngestError {
        IngestError::file(&self.path, format!("{key}: {error}"))
    }

    /// Opens the files about nodes and parses the splits, so that what is wrong with them is
    /// reported before the edges are read.
    fn check_node_files(&self) -> Result<()> {
        let nodes = match &self.nodes {
            Nodes::File(path) => Some(("nodes", path.as_path())),
            _ => None,
        };
        for (key, path) in self.node_data.files().chain(nodes) {
            text::open_file(path).map_err(|error| self.about(key, &error))?;
        }
        splits::check(&self.node_data.draw).map_err(|error| self.about("split", &error))
    }
}

/// Keys that have a meaning with a node table only.
const TABLE_KEYS: &[&str] =
    &["id-column", "label", "split-column", "categories", "numbers", "words", "missing"];

/// The table of the nodes, with the columns that are used.
fn node_table(root: &Section, file: PathBuf) -> Result<NodeTable> {
    let features = match root.strings("features")? {
        None => Chosen::None,
        Some(names) if names == ["all"] => Chosen::All,
        Some(names) => Chosen::Named(names),
    };
    let words = match root.string("words")? {
        None => Words::default(),
        Some(word) => word
            .parse()
            .map_err(|expected: String| root.wrong("words", &expected, format!("{word:?}")))?,
    };
    let numbers = [("standardised", Numbers::Standardised), ("plain", Numbers::Plain)];
    let missing = [("mean", Missing::Mean), ("refuse", Missing::Refuse)];
    Ok(NodeTable {
        file,
        id: root.string("id-column")?,
        label: root.string("label")?,
        splits: root.strings("split-column")?.unwrap_or_default(),
        columns: Columns {
            features,
            categories: root.strings("categories")?.unwrap_or_default(),
            numbers: root.choice("numbers", &numbers)?.unwrap_or_default(),
            words,
            missing: root.choice("missing", &missing)?.unwrap_or_default(),
        },
        encoding: None,
    })
}

/// Features, labels and splits.
fn node_data(root: &Section, folder: &Path) -> Result<NodeData> {
    let file = |key| Ok::<_, IngestError>(root.string(key)?.map(|file| folder.join(file)));
    let missing = root.choice("missing-features", &[("error", false), ("zero", true)])?;
    let table = file("node-table")?.map(|file| node_table(root, file)).transpose()?;
    if table.is_none() {
        for key in TABLE_KEYS {
            if root.has(key) {
                return Err(root.wrong(key, "absent without node-table", "it"));
            }
        }
    }
    let mut data = NodeData {
        regress: root.string("regress")?,
        features: if table.is_some() { None } else { file("features")? },
        table,
        missing_features_zero: missing.unwrap_or(false),
        labels: file("labels")?,
        ..NodeData::default()
    };
    let larger = root.integer("communities-larger-than")?;
    let top = root.integer("communities-top")?;
    let choice = match (larger, top) {
        (Some(_), Some(_)) => {
            let expected = "absent if communities-larger-than is given";
            return Err(root.wrong("communities-top", expected, "both"));
        }
        (Some(larger), None) => CommunityChoice::LargerThan(larger),
        (None, Some(top)) => CommunityChoice::Top(usize::try_from(top).unwrap_or(usize::MAX)),
        (None, None) => CommunityChoice::All,
    };
    data.communities = file("communities")?.map(|file| (file, choice));
    if data.communities.is_none() && choice != CommunityChoice::All {
        return Err(root.wrong(
            "communities",
            "a file",
            "nothing, although communities are chosen",
        ));
    }
    if data.labels.is_some() && data.communities.is_some() {
        return Err(root.wrong("communities", "absent if labels are given", "both"));
    }
    let splits = root.strings("splits")?.unwrap_or_default();
    data.splits = splits.iter().map(|file| folder.join(file)).collect();
    data.draw = root.strings("split")?.unwrap_or_default();
    Ok(data)
}

const NORMALISATIONS: &[(&str, Normalisation)] = &[
    ("renorm", Normalisation::Renorm),
    ("row", Normalisation::Row),
    ("none", Normalisation::None),
];

/// The keys that say how files are read.
fn edge_input(section: &Section, folder: &Path) -> Result<EdgeInput> {
    let paths = section.strings("file")?.unwrap_or_default();
    if paths.is_empty() {
        return Err(section.wrong("file", "a file or a list of files", "nothing"));
    }
    let mut input = EdgeInput::new(paths.iter().map(|path| folder.join(path)).collect());
    use EdgeFormat::{Adjacency, List, MatrixMarket, Parquet};
    // The words of `ignn ingest edges --format`; the last one is that of version 0.1.0.
    let formats = [
        ("auto", None),
        ("list", Some(List)),
        ("mtx", Some(MatrixMarket)),
        ("parquet", Some(Parquet)),
        ("adjacency", Some(Adjacency)),
        ("matrix-market", Some(MatrixMarket)),
    ];
    let key = match (section.has("format"), section.has(OLD_FORMAT)) {
        (true, true) => return Err(section.wrong(OLD_FORMAT, "absent if format is given", "both")),
        (false, true) => OLD_FORMAT,
        _ => "format",
    };
    input.format = section.choice(key, &formats)?.flatten();
    let ids =
        [("auto", IdChoice::Auto), ("integer", IdChoice::Integer), ("string", IdChoice::String)];
    input.ids = section.choice("ids", &ids)?.unwrap_or_default();
    input.header = section.boolean("header")?;
    input.source = section.string("source")?;
    input.target = section.string("target")?;
    Ok(input)
}

/// Checks that the target is a type of the lists, if there are lists.
fn check_target(root: &Section, target: &str, lists: &[List]) -> Result<()> {
    let types = types(lists);
    if types.is_empty() || types.contains(&target) {
        return Ok(());
    }
    let expected = format!("a type of the lists ({})", types.join(", "));
    Err(root.wrong("target", &expected, format!("{target:?}{}", did_you_mean(target, &types))))
}

/// All types of the lists, each once.
fn types(lists: &[List]) -> Vec<&str> {
    let mut types: Vec<&str> =
        lists.iter().flat_map(|list| &list.columns).map(String::as_str).collect();
    types.sort_unstable();
    types.dedup();
    types
}

impl List {
    fn new(name: &str, section: &Section, folder: &Path) -> Result<Self> {
        section.check_keys(LIST_KEYS, &[OLD_FORMAT])?;
        // A list has pairs of ids; further columns are not read.
        let input = EdgeInput { unweighted: true, ..edge_input(section, folder)? };
        let expected = "the types of the two columns";
        let columns = section
            .strings("columns")?
            .ok_or_else(|| section.wrong("columns", expected, "nothing"))?;
        let columns: [String; 2] = columns.try_into().map_err(|found: Vec<_>| {
            section.wrong("columns", expected, format!("{} names", found.len()))
        })?;
        let one_type = columns[0] == columns[1];
        let directed = section.boolean("directed")?;
        if directed.is_some() && !one_type {
            let expected = "absent: a list of two types is used in both directions";
            return Err(section.wrong(
                "directed",
                expected,
                format!("{:?}", directed == Some(true)),
            ));
        }
        Ok(Self {
            name: name.into(),
            symmetric: one_type && directed != Some(true),
            columns,
            input,
        })
    }

    fn joins(&self, from: &str, to: &str) -> bool {
        let [first, second] = &self.columns;
        (first, second) == (&from.into(), &to.into())
            || (first, second) == (&to.into(), &from.into())
    }
}

/// What all relations share.
struct RelationContext<'a> {
    folder: &'a Path,
    target: &'a str,
    normalise: Normalisation,
    lists: &'a [List],
}

impl RelationContext<'_> {
    fn relation(&self, name: &str, section: &Section, root: &Section) -> Result<Relation> {
        if !valid_name(name) {
            let expected = "sections with names of at most 64 letters, digits, '-', '_' and '.'";
            return Err(root.wrong("relations", expected, format!("{name:?}")));
        }
        let edges = match (section.has("file"), section.has("path")) {
            (true, true) => {
                return Err(section.wrong("path", "absent if file is given", "both"));
            }
            (true, false) => self.files(section)?,
            (false, true) => Edges::Path(self.path(section)?),
            (false, false) => {
                section.check_keys(&[FILE_KEYS, PATH_KEYS].concat(), &[OLD_FORMAT])?;
                return Err(section.wrong("file", "given, or else path", "neither"));
            }
        };
        Ok(Relation { name: name.into(), edges })
    }

    fn normalise(&self, section: &Section) -> Result<Normalisation> {
        Ok(section.choice("normalise", NORMALISATIONS)?.unwrap_or(self.normalise))
    }

    fn files(&self, section: &Section) -> Result<Edges> {
        section.check_keys(FILE_KEYS, &[OLD_FORMAT])?;
        let mut input = edge_input(section, self.folder)?;
        input.weight = section.string("weight")?;
        input.unweighted = section.boolean("unweighted")?.unwrap_or(false);
        let default = RelationOptions::default();
        use Duplicates::{Error, First, Max, Sum};
        let duplicates = [("sum", Sum), ("max", Max), ("first", First), ("error", Error)];
        let self_loops = [("keep", SelfLoops::Keep), ("drop", SelfLoops::Drop)];
        let options = RelationOptions {
            directed: section.boolean("directed")?.unwrap_or(default.directed),
            normalise: self.normalise(section)?,
            duplicates: section.choice("duplicates", &duplicates)?.unwrap_or(default.duplicates),
            self_loops: section.choice("self-loops", &self_loops)?.unwrap_or(default.self_loops),
        };
        Ok(Edges::Files(input, options))
    }

    fn path(&self, section: &Section) -> Result<MetaPath> {
        section.check_keys(PATH_KEYS, &[])?;
        let types = section.strings("path")?.unwrap_or_default();
        let target = self.target;
        if types.len() < 2 {
            let expected = format!("a list of two or more types, from {target:?} to {target:?}");
            return Err(section.wrong("path", &expected, types.len().to_string()));
        }
        for (end, found) in [("begin", &types[0]), ("end", &types[types.len() - 1])] {
            if found != target {
                let expected = format!("a path that {end}s at the target {target:?}");
                return Err(section.wrong("path", &expected, format!("{found:?}")));
            }
        }
        let steps = self.steps(section, &types)?;
        let symmetric = steps.iter().zip(steps.iter().rev()).all(|(there, back)| {
            let back_again = there.reversed != back.reversed || self.lists[there.list].symmetric;
            there.list == back.list && back_again
        });
        let diagonal = section.boolean("diagonal")?.unwrap_or(false);
        let options = RelationOptions {
            directed: !symmetric,
            normalise: self.normalise(section)?,
            duplicates: Duplicates::Max,
            self_loops: if diagonal { SelfLoops::Keep } else { SelfLoops::Drop },
        };
        let counted = section.boolean("counted")?.unwrap_or(false);
        Ok(MetaPath { types, steps, symmetric, counted, options })
    }

    /// The list of each step: the only one that connects its two types, or the one the user chose.
    fn steps(&self, section: &Section, types: &[String]) -> Result<Vec<Step>> {
        let through = section.strings("through")?;
        let count = types.len() - 1;
        if let Some(through) = &through
            && through.len() != count
        {
            let expected = format!("{count} lists, one per step");
            return Err(section.wrong("through", &expected, through.len().to_string()));
        }
        let step = |(at, ends): (usize, &[String])| {
            let (from, to) = (&ends[0], &ends[1]);
            let join = format!("that connects {from:?} and {to:?}");
            let joining: Vec<usize> =
                (0..self.lists.len()).filter(|&l| self.lists[l].joins(from, to)).collect();
            let names = |lists: &[usize]| {
                lists
                    .iter()
                    .map(|&list| self.lists[list].name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            let list = match (&through, &joining[..]) {
                (Some(through), _) => {
                    let named = joining.iter().find(|&&list| self.lists[list].name == through[at]);
                    *named.ok_or_else(|| {
                        let candidates =
                            if joining.is_empty() { "none does".into() } else { names(&joining) };
                        let expected = format!("a list {join} at step {} ({candidates})", at + 1);
                        section.wrong("through", &expected, format!("{:?}", through[at]))
                    })?
                }
                (None, [list]) => *list,
                (None, []) => {
                    let expected =
                        format!("a path along lists, one of which connects {from:?} and {to:?}");
                    let known: Vec<String> = self.lists.iter().map(List::described).collect();
                    let known = if known.is_empty() { "no lists".into() } else { known.join(", ") };
                    return Err(section.wrong("path", &expected, known));
                }
                (None, several) => {
                    let expected = format!("a path along one list {join}");
                    let (number, names) = (several.len(), names(several));
                    let found = format!(
                        "{number} ({names}): choose with through = [...], one list per \
                                 step"
                    );
                    return Err(section.wrong("path", &expected, found));
                }
            };
            Ok(Step { list, reversed: self.lists[list].columns[0] != **from })
        };
        types.windows(2).enumerate().map(step).collect()
    }
}

impl List {
    fn described(&self) -> String {
        format!("{} ({}, {})", self.name, self.columns[0], self.columns[1])
    }
}
